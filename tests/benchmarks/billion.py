"""A billion rows in a store, clustered on two workers of 2 GB: what passes and fits cost.

The rows have 4 columns, float32, around 20 centers, and come in parts of a seed each.  The store is
sharded and compressed with zstd, which shortens such rows little.  Two worker processes, of one
thread each, read it.

A pass: one against the true centers, beside two processes that read one half of the store each with
zarr alone and sum it, in turn.  Then three fits from store to store, with labels, each in fresh
workers after a fit of a few rows: `DPMeans("auto")`, by radius, and a search at a price.  Passes
include the first look at the rows and the labels.  Bytes are what the workers have read, from the
disk or the page cache.  The coordinator is this process, with Dask's scheduler: the share of its
processor time in the time of the fit, and the share of this time in which no worker had a task.
"""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time, time
from typing import Any, ClassVar

import click
import numpy as np
import zarr
from cubes_out_of_core import in_turn, read_bytes
from distributed import get_task_stream
from out_of_core import (
    MOST_READING,
    PASS,
    PROCESSES,
    READING,
    against,
    folder,
    opened,
    passed,
    peak_memory,
    reading,
)
from ratios import Line, judged, quartiles, ratio_line, same_environment, seconds_line, table
from zarr.codecs import ZstdCodec

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.sources.cluster import connect

COLUMNS, KINDS = 4, 20
SPREAD = 10.0
"""Standard deviation of the centers; the noise has 1."""
CHUNK_ROWS, SHARD_ROWS = 2**17, 2**22
"""Rows that are compressed together, and of a file, which is a part."""
RADIUS = 100.0
"""Penalty of the fit by radius."""
PRICE = 0.2
"""Penalty of the search, for each row: halves of a kind save less, two kinds as one cost more."""
FEW_ROWS = 2**14
"""Rows of the fit before."""
FEW, RUN = "few.zarr", "run.zarr"
MEMORY = 2 * 10**9
"""Bytes of each worker."""
MOST_COORDINATOR = 0.05
"""The largest share of the time that the coordinator may take."""


def centers() -> Any:
    """The true centers, (kinds, columns)."""
    return SPREAD * np.random.default_rng(0).standard_normal((KINDS, COLUMNS))


@dataclass(frozen=True)
class Rows:
    """A store of rows that is made."""

    path: Path
    n: int
    part_rows: int = SHARD_ROWS
    chunk_rows: int = CHUNK_ROWS
    columns: ClassVar[int] = COLUMNS

    def part(self, start: int) -> Any:
        """Rows of a part, from the number of its first row."""
        rng = np.random.default_rng([1, start])
        m = min(self.part_rows, self.n - start)
        rows = rng.standard_normal((m, COLUMNS), np.float32)
        rows += centers().astype(np.float32)[rng.integers(KINDS, size=m, dtype=np.uint8)]
        return rows

    def write_part(self, start: int) -> None:
        """Write a part."""
        array = zarr.open_array(self.path, mode="r+")
        array[start : start + self.part_rows] = self.part(start)

    def write(self) -> None:
        """Write the store, in processes of their own, unless it is there."""
        if self.written.exists():
            return
        zarr.create_array(
            self.path,
            shape=(self.n, self.columns),
            chunks=(self.chunk_rows, self.columns),
            shards=(self.part_rows, self.columns),
            dtype=np.float32,
            compressors=[ZstdCodec(level=1, checksum=True)],
            overwrite=True,
        )
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            list(pool.map(self.write_part, range(0, self.n, self.part_rows)))
        self.written.touch()

    @property
    def written(self) -> Path:
        """The file that says that the store is whole."""
        return self.path.with_suffix(".written")

    def remove(self) -> None:
        """Remove the store."""
        self.written.unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the files."""
        return sum(each.stat().st_size for each in self.path.rglob("*") if each.is_file())


def pass_lines(rows: Rows, memory: int, repeats: int) -> Iterator[Line]:
    """One pass beside reading and summing."""
    sweep = against(centers())
    with (
        opened(str(rows.path), PROCESSES, f"{memory}B") as (source, client),
        reading(rows.path) as total,
    ):
        works = {READING: total, PASS: partial(passed, source, sweep)}
        times, used = in_turn(works, lambda: sum(client.run(process_time).values()), repeats)
        kept = "rows kept in memory" if source.resident else "rows read in each pass"
    yield Line("stored", f"{rows.stored_bytes / 1e9:.2f} GB, {kept}")
    yield from (seconds_line(times, name) for name in works)
    yield ratio_line(times, PASS, READING, most=MOST_READING)
    yield Line("processor, pass", f"{quartiles(used[PASS])[1]:.2f} s")


@dataclass(frozen=True)
class Fitted:
    """A fit from store to store."""

    model: Any
    seconds: float
    """On the clock."""
    used: float
    """Processor seconds of the workers."""
    read: int
    """Bytes that the workers read."""
    memory: tuple[int, int]
    """Bytes, the most that a worker held, and that this process held."""
    own: float
    """Processor seconds of this process, with the scheduler."""
    idle: float
    """Seconds in which no worker had a task."""

    def lines(self, name: str, rows: Rows) -> Iterator[Line]:
        """The lines of the fit."""
        passes, seconds = self.model.n_passes_, self.seconds
        found = f"{seconds:.1f} s, {passes:.4g} passes, k {self.model.n_clusters_}"
        yield Line(name, f"{found}, {self.used:.1f} processor seconds")
        yield Line("  rows a second of a pass", f"{passes * rows.n / seconds / 1e6:.1f} million")
        again = self.read / rows.stored_bytes
        yield Line("  bytes read", f"{self.read / 1e9:.2f} GB, {again:.1f} times the store")
        worker, own = (f"{each / 1e6:,.0f} MB" for each in self.memory)
        yield Line("  memory", f"{worker} of a worker, {own} of the coordinator")
        for what, value in (("processor", self.own), ("no worker has a task", self.idle)):
            share = value / seconds
            text = f"{100 * share:.1f} %"
            yield judged(f"  coordinator, {what}", share, text, most=MOST_COORDINATOR)


def uncovered(spans: list[tuple[float, float]], start: float, stop: float) -> float:
    """Seconds from `start` to `stop` that no span covers.

    >>> uncovered([(1, 3), (2, 4), (6, 7)], 0, 10)
    6.0
    """
    left, reached = 0.0, start
    for begin, end in sorted(spans):
        left += max(0, min(begin, stop) - reached)
        reached = max(reached, min(end, stop))
    return left + max(0, stop - reached)


def task_spans(stream: Any) -> list[tuple[float, float]]:
    """Starts and ends of the work of all tasks."""
    parts = (part for task in stream.data for part in task["startstops"])
    return [(part["start"], part["stop"]) for part in parts]


def fitted(rows: Rows, place: Path, method: DPMeans, memory: int) -> Fitted:
    """A fit in fresh workers, after one of a few rows."""
    few, run = place / FEW, place / RUN
    zarr.create_array(few, data=rows.part(0)[:FEW_ROWS], overwrite=True)
    with same_environment(), connect(None, PROCESSES, 1, memory, 60) as client:

        def of_workers(function: Callable[[], Any]) -> list[Any]:
            return list(client.run(function).values())

        fit(few, run, method, client=client, force=True)
        used, read, own = sum(of_workers(process_time)), sum(of_workers(read_bytes)), process_time()
        started, begun = perf_counter(), time()
        with get_task_stream(client) as stream:
            model = fit(rows.path, run, method, client=client, force=True)
        seconds, ended = perf_counter() - started, time()
        return Fitted(
            model,
            seconds,
            sum(of_workers(process_time)) - used,
            sum(of_workers(read_bytes)) - read,
            (max(of_workers(peak_memory)), peak_memory()),
            process_time() - own,
            uncovered(task_spans(stream), begun, ended),
        )


def fits(n: int, tol: float) -> dict[str, DPMeans]:
    """The methods, by name."""
    options: dict[str, Any] = {"random_state": 0, "tol": tol}
    return {
        "auto": DPMeans("auto", **options),
        "radius": DPMeans(RADIUS, **options),
        "search": DPMeans(PRICE * n, search=True, **options),
    }


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--rows", "n", default=10**9, show_default=True)
@click.option("--part-rows", default=SHARD_ROWS, show_default=True, help="Rows of a file.")
@click.option("--memory", default=MEMORY, show_default=True, help="Bytes of each worker.")
@click.option("--tol", default=1e-4, show_default=True, help="Of all fits.")
@click.option("--repeats", default=3, show_default=True, help="Rounds of passes.")
@click.option("--only", multiple=True, type=click.Choice(list(fits(1, 0))), help="Fits; else all.")
@click.option("--keep", is_flag=True, help="Leave the store in PATH, for the next time.")
def main(
    path: Path | None,
    n: int,
    part_rows: int,
    memory: int,
    tol: float,
    repeats: int,
    only: tuple[str, ...],
    keep: bool,
) -> None:
    """Print the table."""
    with folder(path) as place:
        rows = Rows(place / f"rows{n}.zarr", n, part_rows, min(CHUNK_ROWS, part_rows))
        try:
            rows.write()
            lines = list(pass_lines(rows, memory, repeats)) if repeats else []
            for name, method in fits(n, tol).items():
                if name in (only or (name,)):
                    found = list(fitted(rows, place, method, memory).lines(name, rows))
                    click.echo(table(name, found), err=True)
                    lines += found
        finally:
            if not keep:
                rows.remove()
            for each in (FEW, RUN):
                shutil.rmtree(place / each, ignore_errors=True)
    title = f"n={n:,} d={COLUMNS}, float32, {PROCESSES} workers of {memory / 1e9:g} GB"
    click.echo(table(title, lines))


if __name__ == "__main__":
    main()
