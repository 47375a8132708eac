"""The first sweep of a fit that opens thousands of clusters: its rounds, and how long fewer than two workers have work.

Rows are blobs, or uniform in a cube, at a penalty that opens about 5,000 clusters; they are read from a store and kept
in memory.  Two threads sweep them, then two Dask worker processes of one thread; a sweep before that, of rows that were
loaded for it alone, warms up.  Each call of a block's scan and each merge of two answers says when it began and ended,
and on which worker.  What no two workers spend on those at once is serial: births and centers on the coordinator,
merges on one worker, rounds of one shard, and what Dask takes to hand out tasks.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import get_ident
from time import perf_counter, thread_time
from typing import Any

import click
import numpy as np
import zarr
from distributed import Client, LocalCluster
from ratios import Line, judged, same_environment, table

from dask_dpmeans.api.synthetic import Kind, Synthetic
from dask_dpmeans.engine.plan import Kernel, Plan, Reduction, Sink, block_height
from dask_dpmeans.kernels.assign import Scan
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.column_statistics import Summary
from dask_dpmeans.methods.dpmeans.batch import Method
from dask_dpmeans.sources import RowSource, as_source

WORKERS = 2
MOST_SERIAL = 0.10
"""Of the sweep, the longest time in a row in which fewer than two workers have work."""


@dataclass(frozen=True)
class Shape:
    """Rows, and the penalty of their first sweep."""

    kind: Kind = "blobs"
    n: int = 1_000_000
    d: int = 16
    blobs: int = 5_000
    penalty: float = 100.0

    def __str__(self) -> str:
        return f"{self.n:,} x {self.d} {self.kind}, penalty {self.penalty:g}"

    def stored(self, path: Path) -> str:
        """The path of a store of the rows, a block to a chunk."""
        shape, chunks = (self.n, self.d), (block_height(self.d), self.d)
        array = zarr.create_array(path, shape=shape, chunks=chunks, dtype=np.float32)
        for start, rows, _ in Synthetic(self.kind, self.n, self.d, self.blobs, 0).parts():
            array[start : start + len(rows)] = rows
        return str(path)


@dataclass(frozen=True)
class Span:
    """Work on a scan or a merge."""

    worker: tuple[int, int]
    """Process and thread."""
    start: float
    """On the machine's clock, in seconds, as the end is."""
    stop: float
    cpu: float
    """Seconds of that thread."""


@dataclass(frozen=True)
class Recorded:
    """An answer, and the work that it took."""

    answer: Scan
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Recording:
    """A reduction that says when it works."""

    reduction: Reduction[Scan]

    def chunk(self, block: Block) -> Recorded:
        """The answer of one block."""
        return _recorded(lambda: self.reduction.chunk(block))

    def combine(self, left: Recorded, right: Recorded) -> Recorded:
        """The answer of two neighboring runs."""
        merged = _recorded(lambda: self.reduction.combine(left.answer, right.answer))
        return Recorded(merged.answer, left.spans + right.spans + merged.spans)


def _recorded(work: Callable[[], Scan]) -> Recorded:
    started, cpu = perf_counter(), thread_time()
    answer = work()
    return Recorded(
        answer, (Span((os.getpid(), get_ident()), started, perf_counter(), thread_time() - cpu),)
    )


@dataclass(frozen=True)
class Round:
    """A fold of the sweep."""

    rows: int
    births: int
    start: float
    stop: float
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Watched:
    """A source that notes its folds."""

    source: RowSource
    rounds: list[Round] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        """How the rows are cut."""
        return self.source.plan

    @property
    def scale(self) -> np.ndarray | None:
        """(d,), what the columns were divided by, if anything."""
        return self.source.scale

    @property
    def summary(self) -> Summary:
        """What the first pass found."""
        return self.source.summary

    @property
    def worker_room(self) -> float:
        """Bytes that a worker has beside the rows."""
        return self.source.worker_room

    def fold(
        self, reduction: Reduction[Scan], blocks: range | None = None, name: str = "fold"
    ) -> Scan:
        """The answer of the source."""
        seen = range(self.plan.n_blocks) if blocks is None else blocks
        started = perf_counter()
        found = self.source.fold(Recording(reduction), blocks, name)
        births = len(found.answer.proposals)
        self.rounds.append(
            Round(self.plan.rows_of(seen), births, started, perf_counter(), found.spans)
        )
        return found.answer

    def map(self, kernel: Kernel, sink: Sink, name: str = "map") -> None:
        """As the source does."""
        self.source.map(kernel, sink, name)

    def run(
        self, jobs: Sequence[Callable[[Any], Any]], shared: Any, name: str = "run"
    ) -> list[Any]:
        """As the source does."""
        return self.source.run(jobs, shared, name)


@dataclass(frozen=True)
class Sweep:
    """A first sweep."""

    n_clusters: int
    rounds: Sequence[Round]
    start: float
    stop: float

    @classmethod
    def of(cls, source: RowSource, penalty: float) -> "Sweep":
        """The first sweep of a fit."""
        watched, method = Watched(source), Method(penalty)
        state = method.init(watched)
        started = perf_counter()
        after = method.step(watched, state)
        return cls(len(after.centers), watched.rounds, started, perf_counter())

    @property
    def seconds(self) -> float:
        """Of the sweep."""
        return self.stop - self.start

    @property
    def spans(self) -> list[Span]:
        """All work."""
        return [span for each in self.rounds for span in each.spans]

    @property
    def serial(self) -> list[tuple[float, float]]:
        """When fewer than two workers had work."""
        return serial_stretches(self.spans, self.start, self.stop)

    def round_at(self, moment: float) -> int:
        """The number of the round, from 1 on, in which or before which something happened."""
        return min(sum(each.stop < moment for each in self.rounds) + 1, len(self.rounds))


def serial_stretches(spans: Sequence[Span], start: float, stop: float) -> list[tuple[float, float]]:
    """The stretches from `start` to `stop`, in order, in which fewer than two workers had work."""
    changes = sorted([(span.start, 1) for span in spans] + [(span.stop, -1) for span in spans])
    busy, stretches = 0, []
    for (moment, change), (until, _) in pairwise([(start, 0), *changes, (stop, 0)]):
        busy += change
        if busy >= 2 or until <= moment:
            continue
        if stretches and stretches[-1][1] == moment:
            stretches[-1] = stretches[-1][0], until
        else:
            stretches.append((moment, until))
    return stretches


def lines(sweep: Sweep) -> Iterator[Line]:
    """What the table says of a sweep."""
    for number, each in enumerate(sweep.rounds, 1):
        work = (
            sum(span.stop - span.start for span in each.spans) / WORKERS / (each.stop - each.start)
        )
        text = f"{each.rows:,} rows, {each.births:,} births, {each.stop - each.start:.3f} s, {work:.0%} busy"
        yield Line(f"round {number}", text)
    yield Line("sweep", f"{sweep.seconds:.3f} s, {len(sweep.rounds)} rounds")
    cpu = sum(span.cpu for span in sweep.spans)
    yield Line(
        "CPU seconds of scans and merges",
        f"{cpu:.3f}, {cpu / WORKERS / sweep.seconds:.0%} of {WORKERS} CPUs",
    )
    start, stop = max(sweep.serial, key=lambda stretch: stretch[1] - stretch[0])
    longest, total = stop - start, sum(stop - start for start, stop in sweep.serial)
    where = f"rounds {sweep.round_at(start)} to {sweep.round_at(stop)}"
    share = longest / sweep.seconds
    yield judged(
        "longest serial stretch / sweep",
        share,
        f"{share:.1%}, {longest:.3f} s, {where}",
        most=MOST_SERIAL,
    )
    yield Line("all serial time / sweep", f"{total / sweep.seconds:.1%}, {total:.3f} s")


@contextmanager
def two_workers() -> Iterator[Client]:
    """Two Dask worker processes of one thread."""
    with same_environment():
        cluster = LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
    with cluster, Client(cluster) as client:
        yield client


def second_sweep(source: Callable[[], RowSource], penalty: float) -> Sweep:
    """The first sweep of rows that were just loaded, after one that warms up."""
    Sweep.of(source(), penalty)
    return Sweep.of(source(), penalty)


@click.command(help=__doc__)
@click.option(
    "--kind", default=Shape.kind, show_default=True, type=click.Choice(["blobs", "uniform"])
)
@click.option("--rows", default=Shape.n, show_default=True, help="Rows.")
@click.option("--columns", default=Shape.d, show_default=True, help="Columns.")
@click.option("--blobs", default=Shape.blobs, show_default=True, help="Blobs.")
@click.option(
    "--penalty", default=Shape.penalty, show_default=True, help="Penalty; it decides the births."
)
def main(kind: Kind, rows: int, columns: int, blobs: int, penalty: float) -> None:
    """Both tables."""
    shape = Shape(kind, rows, columns, blobs, penalty)
    with tempfile.TemporaryDirectory() as folder:
        path = shape.stored(Path(folder) / "rows.zarr")
        on_threads = second_sweep(lambda: as_source(path, threads=WORKERS), penalty)
        with two_workers() as client:
            on_workers = second_sweep(lambda: as_source(path, client=client), penalty)
    for where, sweep in (("two threads", on_threads), ("two Dask workers", on_workers)):
        click.echo(table(f"{shape}, {where}: k={sweep.n_clusters:,}", list(lines(sweep))))


if __name__ == "__main__":
    main()
