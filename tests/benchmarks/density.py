"""Pictures of many rows, and what a report asks of them, against one pass of a fit.

A picture goes through the rows three times: to check them, for the directions of their greatest variance, and to count
them by cluster.  A report does so too: it counts them in several planes, with histograms of features and the rows that
are nearest to each center and farthest from it.  All are timed with the rows in memory, and then with a store whose
rows are read anew in each pass.  The pass is the one that ends a sweep against given centers (no row objects), of which
nothing is known beforehand.
"""

from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr
from distributed import Client, LocalCluster
from out_of_core import Layout, folder, passed, stored, sweep_of
from ratios import Line, interleaved, ratio_line, seconds_line, table, timed

from dask_dpmeans import DPMeans
from dask_dpmeans.figures.data import Density, Overview, density, feature_names, overview, rows_of
from dask_dpmeans.kernels.cluster_statistics import NearestTwo
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.methods.dpmeans.mixture import mixture_of
from dask_dpmeans.sources import as_source, decoded_bytes

THREADS = 2
MOST_PASSES = 3
"""The most times one pass that a picture may take."""
MOST_REPORT_PASSES = 12
"""The same for a report: four times a pass each for maps, histograms and rows."""
WORKER_MEMORY = 2 * 10**9

PASS, PICTURE, REPORT = "pass", "picture", "report"


def model_of(path: Path, k: int) -> DPMeans:
    """One cluster for each of the first k rows."""
    rows = zarr.open_array(path, mode="r")[:k]
    return DPMeans(1e-9, max_iter=1).fit(rows)


def reported(rows: Any, model: DPMeans, **where: Any) -> Overview:
    """What a report asks of the rows."""
    told = model.cluster_centers_, model.cluster_weights_, float(np.sum(model.cluster_weights_))
    mixture = mixture_of(*told, metric_of("euclidean"))
    two = NearestTwo(mixture, 1.0)
    return overview(rows_of(rows, model, **where), model, two, 1.0, feature_names(model))


def compare(
    path: Path, k: int, repeats: int, *, streamed: bool, client: Client | None = None
) -> tuple[Density, list[Line]]:
    """A picture of a store's rows, or of these in memory, and the table of times."""
    stored_rows = zarr.open_array(path, mode="r")
    rows = stored_rows if streamed else stored_rows[:]
    where: dict[str, Any] = {"threads": THREADS}
    if client is not None:
        where = {"client": client}
    elif streamed:
        where |= {"memory_limit": decoded_bytes(stored_rows)}
    model = model_of(path, k)
    work = {
        PASS: partial(passed, as_source(rows, **where), sweep_of(path, k)),
        PICTURE: partial(density, rows, model, **where),
        REPORT: partial(reported, rows, model, **where),
    }
    times = interleaved({name: timed(one) for name, one in work.items()}, repeats)
    lines = [seconds_line(times, name) for name in times]
    lines.append(ratio_line(times, PICTURE, PASS, most=MOST_PASSES))
    lines.append(ratio_line(times, REPORT, PASS, most=MOST_REPORT_PASSES))
    return density(rows, model, **where), lines


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("-n", default=10_000_000, show_default=True, help="Rows.")
@click.option("-d", default=4, show_default=True, help="Columns.")
@click.option("-k", default=16, show_default=True, help="Centers.")
@click.option("--repeats", default=5, show_default=True, help="Rounds.")
@click.option(
    "--workers", default=0, help="Worker processes of 2 GB that read the store in each pass."
)
def main(path: Path | None, n: int, d: int, k: int, repeats: int, workers: int) -> None:
    """Print the tables.  The store in the folder PATH is kept and used again."""
    layout = Layout.of(4 * n * d / 1e9, d)
    with folder(path) as place:
        rows = place / "rows.zarr"
        stored(rows, layout)
        if workers:
            size = {"n_workers": workers, "threads_per_worker": 1, "memory_limit": WORKER_MEMORY}
            with LocalCluster(**size, dashboard_address=None) as cluster, Client(cluster) as client:
                _, lines = compare(rows, k, repeats, streamed=True, client=client)
            click.echo(table(f"n={layout.n:,} d={d} k={k}, float32, {workers} workers", lines))
            return
        for streamed in (False, True):
            where = "read in each pass" if streamed else "in memory"
            _, lines = compare(rows, k, repeats, streamed=streamed)
            click.echo(
                table(f"n={layout.n:,} d={d} k={k}, float32, {THREADS} threads, {where}", lines)
            )


if __name__ == "__main__":
    main()
