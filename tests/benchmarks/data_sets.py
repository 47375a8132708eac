"""Many data sets that share centers, out of core, on two worker processes of 1 GB each.

Each data set has rows of 5 of 20 Gaussians.  The HDP is fitted from the mean on; then its pass at the end, in which no
row objects, is timed against a pass of plain DP-means over the same rows at the same centers.  Memory is the highest
that a worker's resident set has been.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr
from distributed import Client, LocalCluster
from out_of_core import MEMORY, PROCESSES, anew, folder, peak_memory
from ratios import Line, interleaved, ratio_line, same_environment, seconds_line, table, timed
from zarr.codecs import Crc32cCodec, ZstdCodec

from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.engine.occ import Round
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import Openings
from dask_dpmeans.methods.hdp.batch import Method, OpeningRule
from dask_dpmeans.methods.hdp.state import State
from dask_dpmeans.sources import RowSource, as_source

MOST = 1.5
"""The most times a plain pass that one of the HDP may take."""
CENTERS, USED = 20, 5
HDP, PLAIN = "pass of the HDP", "pass of DP-means"


@dataclass(frozen=True)
class Sets:
    """What a store holds: data sets one after the other."""

    n_sets: int
    set_rows: int
    d: int

    @property
    def method(self) -> Method:
        """Penalties at which the centers are found: what opens one lies far out."""
        return Method(local_penalty=6.0 * self.d, global_penalty=12.0 * self.d)


def stored(path: Path, sets: Sets, at_once: int = 500) -> None:
    """Write ``rows`` and ``groups`` below a path, if they are not there: so many data sets to a chunk."""
    if (path / "groups").exists():
        if zarr.open_array(path / "rows", mode="r").shape != (sets.n_sets * sets.set_rows, sets.d):
            raise click.UsageError(f"{path} holds other data sets: remove it, or say where")
        return
    n, chunk = sets.n_sets * sets.set_rows, at_once * sets.set_rows
    options: dict[str, Any] = {
        "compressors": [ZstdCodec(checksum=True), Crc32cCodec()],
        "overwrite": True,
    }
    rows = zarr.create_array(
        path / "rows", shape=(n, sets.d), chunks=(chunk, sets.d), dtype=np.float32, **options
    )
    unfinished = path / "groups.unfinished"
    groups = zarr.create_array(unfinished, shape=(n,), chunks=(chunk,), dtype=np.int32, **options)
    means = 10 * np.random.default_rng(0).standard_normal((CENTERS, sets.d)).astype(np.float32)

    def write(first: int) -> None:
        rng, some = np.random.default_rng([1, first]), min(at_once, sets.n_sets - first)
        used = np.argsort(rng.random((some, CENTERS)), axis=1)[:, :USED]
        labels = np.take_along_axis(
            used, rng.integers(USED, size=(some, sets.set_rows)), axis=1
        ).ravel()
        part = slice(first * sets.set_rows, (first + some) * sets.set_rows)
        rows[part] = means[labels] + rng.standard_normal((len(labels), sets.d), np.float32)
        groups[part] = np.repeat(np.arange(first, first + some), sets.set_rows)

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(write, range(0, sets.n_sets, at_once)))
    unfinished.rename(path / "groups")


@contextmanager
def opened(path: Path) -> Iterator[tuple[RowSource, Client]]:
    """The store as a source on fresh workers."""
    with same_environment():
        cluster = LocalCluster(
            PROCESSES, threads_per_worker=1, memory_limit=MEMORY, dashboard_address=":0"
        )
    with cluster, Client(cluster, set_as_default=False) as client:
        yield as_source(str(path / "rows"), groups=str(path / "groups"), client=client), client


def fitted(source: RowSource, method: Method) -> tuple[State, list[str]]:
    """The end of a fit, and a line for each step."""
    said, passes = [], 1.0
    for step in iterate(source, method):
        state, before = step.state, passes
        passes = state.rows_read / source.plan.n_rows
        said.append(
            f"step {state.step}: {len(state.centers)} centers, {state.n_local_clusters:,} uses, "
            f"J={state.objective:.6g}, "
            f"{passes - before:.0f} passes in {step.seconds:.1f} s"
        )
    return state, said


def compare(source: RowSource, method: Method, state: State, repeats: int) -> list[Line]:
    """The last pass of a fit against a plain one."""
    ours = Round(
        OpeningRule(method.prices), state.sharing(source.summary.n_groups, method.divergence)
    )
    plain = Round(Openings(LinearPrice(1e300)), Centers(state.centers))
    times = interleaved(
        {
            HDP: timed(lambda: anew(source).fold(ours, name="scan")),
            PLAIN: timed(lambda: anew(source).fold(plain, name="scan")),
        },
        repeats,
    )
    return [
        seconds_line(times, HDP),
        seconds_line(times, PLAIN),
        ratio_line(times, HDP, PLAIN, most=MOST),
    ]


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--sets", "n_sets", default=100_000, show_default=True, help="Data sets.")
@click.option("--rows", default=1_000, show_default=True, help="Rows of each.")
@click.option("-d", default=8, show_default=True, help="Columns.")
@click.option("--repeats", default=3, show_default=True, help="Rounds.")
def main(path: Path | None, n_sets: int, rows: int, d: int, repeats: int) -> None:
    """Print the steps and the table.  The store in the folder PATH is kept and used again."""
    sets = Sets(n_sets, rows, d)
    with folder(path) as place:
        stored(place / "sets.zarr", sets)
        with opened(place / "sets.zarr") as (source, client):
            state, said = fitted(source, sets.method)
            for line in said:
                click.echo(line)
            lines = compare(source, sets.method, state, repeats)
            peak = max(client.run(peak_memory).values())
    kept = "kept in memory" if source.resident else "read in each pass"
    lines.append(Line("peak memory of a worker", f"{peak / 1e6:.0f} MB; rows are {kept}"))
    click.echo(
        table(
            f"{n_sets:,} data sets of {rows:,} rows, d={d}, float32, {PROCESSES} workers of {MEMORY}",
            lines,
        )
    )


if __name__ == "__main__":
    main()
