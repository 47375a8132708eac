"""Clusters of any shape in a store: `LinkageDPMeans()` beside a plain fit of the same micro-clusters, and HDBSCAN.

The rows are three rings, three arms and three blobs, float32, and come in parts of a seed each: the true clusters
follow from the numbers of the rows.  Two worker processes of 2 GB, of one thread each, read them.
`LinkageDPMeans()` is told nothing.  The plain fit is `DPMeans(penalty, search=True)` at the price of micro-clusters
that was chosen.  Both write a run store, in fresh workers, after a fit of a few rows; passes include the first look at
the rows and the labels.  Rounds take turns.

HDBSCAN gets the first rows, which are in random order, then twice as many and so on, in a process with the memory of
both workers, until it exceeds a limit of time or memory.  Its `min_cluster_size` is a hundredth of the rows, and
`min_samples` is 10.  The package hdbscan is left out if it is not installed.
"""

import resource
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
import zarr
from labelled_sets import Labels, Rows
from out_of_core import folder, peak_memory
from ratios import Line, judged, same_environment, table
from shapes import PART, rings, spirals
from sklearn.cluster import HDBSCAN

from dask_dpmeans import DPMeans, LinkageDPMeans, fit
from dask_dpmeans.kernels.labelings import LabelPairs, count_label_pairs
from dask_dpmeans.sources.cluster import connect

CLUSTERS = 9
PART_ROWS = CLUSTERS * 2**15
"""Rows that are made together, and of a chunk."""
FEW_ROWS = 2**13
"""Rows of the fit before."""
PROCESSES, MEMORY = 2, 2 * 10**9
"""Workers, and bytes of each."""
MOST_TIME, LEAST_AGREEMENT, MORE_PASSES = 2.0, 0.99, 3
"""What the table judges: times and passes beside the plain fit, and ARI."""
NEIGHBORS = 10
"""HDBSCAN's `min_samples`; as many as its `min_cluster_size`, the default, take memory in the square of the rows."""
OURS, PLAIN = "LinkageDPMeans()", "DPMeans(search=True)"
Stored = Any
"""A Zarr array."""


def clusters(rng: np.random.Generator, n: int) -> list[Rows]:
    """The rows of each cluster, n / 9 each."""
    third = n // 3
    arms = [3 * rows + [7.3, 0.0] for rows in spirals(rng, third)]
    blobs = [([-3.5, 3.5], 0.3), ([3.65, 4.0], 0.5), ([3.65, -4.0], 0.6)]
    drawn = [mean + width * rng.standard_normal((third // 3, 2)) for mean, width in blobs]
    return [*rings(rng, third), *arms, *drawn]


def part(start: int, size: int) -> Rows:
    """Rows of a part, (m, 2), from the number of its first row."""
    return np.concatenate(clusters(np.random.default_rng([1, start]), size))[_order(start, size)]


def truth(start: int, size: int) -> Labels:
    """The true clusters of the rows of a part, (m,)."""
    return _order(start, size) // (size // CLUSTERS)


def _order(start: int, size: int) -> Labels:
    return np.random.default_rng([0, start]).permutation(size)


def stored(path: Path, n: int, size: int) -> Stored:
    """The store of n rows, written part by part."""
    array = zarr.create_array(path, shape=(n, 2), chunks=(size, 2), dtype=np.float32)
    for start in range(0, n, size):
        array[start : start + size] = part(start, size)[: n - start].astype(np.float32)
    return array


def agreement(labels: Stored, size: int) -> float:
    """The adjusted Rand index of stored labels, (n,), with the truth, from sums over the parts."""
    n = labels.shape[0]

    def pairs(start: int) -> LabelPairs:
        found = np.asarray(labels[start : start + size], np.int64)
        return count_label_pairs(found, truth(start, size)[: n - start])

    def both(left: LabelPairs, right: LabelPairs) -> LabelPairs:
        joined = left.then(right)
        return count_label_pairs(joined.first, joined.second, joined.counts)

    return reduce(both, map(pairs, range(0, n, size))).adjusted_rand


@dataclass(frozen=True)
class Timed:
    """A fit from store to store."""

    model: Any
    seconds: float
    """On the clock."""
    processor: float
    """Processor seconds of the workers and of this process."""
    memory: int
    """Bytes, the highest that a worker's resident set has been."""

    def __str__(self) -> str:
        used = f"{self.seconds:.1f} s, {self.processor:.1f} processor seconds"
        found = f"{self.model.n_passes_:g} passes, k {self.model.n_clusters_}"
        return f"{used}, {found}, {self.memory / 1e6:,.0f} MB"


@dataclass(frozen=True)
class Task:
    """Fits from a store, which is made."""

    place: Path
    """Folder of the store, and of the runs."""
    n: int
    size: int
    """Rows of a part."""
    tol: float
    workers: int
    """0 for threads of this process."""

    @property
    def paths(self) -> list[Path]:
        """Paths of the rows, of a few of them, and of a run."""
        return [self.place / name for name in ("rows.zarr", "few.zarr", "run.zarr")]

    def timed_fit(self, method: Any) -> Timed:
        """Fit in fresh workers, after a fit of a few rows."""
        data, few, run = self.paths
        with same_environment(), connect(None, self.workers or None, 1, MEMORY, 60) as client:

            def everywhere(function: Callable[[], Any]) -> list[Any]:
                there = [] if client is None else list(client.run(function).values())
                return [function(), *there]

            fit(few, run, method, client=client, force=True)
            before, started = sum(everywhere(process_time)), perf_counter()
            model = fit(data, run, method, client=client, force=True)
            seconds, used = perf_counter() - started, sum(everywhere(process_time)) - before
            found = Timed(model, seconds, used, max(everywhere(peak_memory)[-self.workers :]))
        click.echo(str(found), err=True)
        return found

    def round(self) -> "Round":
        """Fit once each."""
        options = {"tol": self.tol, "random_state": 0}
        ours = self.timed_fit(LinkageDPMeans(**options))
        found = agreement(zarr.open_array(self.paths[-1] / "labels", mode="r"), self.size)
        price = ours.model.micro_penalty_
        return Round(ours, self.timed_fit(DPMeans(price, search=True, **options)), found)


@dataclass(frozen=True)
class Round:
    """One fit of each."""

    ours: Timed
    plain: Timed
    agreement: float


def compare(task: Task, repeats: int) -> list[Round]:
    """Rounds over a store that is made, and gone afterwards."""
    data, few, _ = task.paths
    try:
        rows = stored(data, task.n, task.size)
        zarr.create_array(few, data=rows[:FEW_ROWS])
        return [task.round() for _ in range(repeats)]
    finally:
        for path in task.paths:
            shutil.rmtree(path, ignore_errors=True)


def lines(rounds: Sequence[Round]) -> list[Line]:
    """The lines of the fits."""
    found = []
    for name, fits in (
        (OURS, [each.ours for each in rounds]),
        (PLAIN, [each.plain for each in rounds]),
    ):
        middle = sorted(fits, key=lambda each: each.seconds)[len(fits) // 2]
        found.append(Line(name, str(middle)))
    return [*found, *_judged(rounds)]


def _judged(rounds: Sequence[Round]) -> Iterator[Line]:
    """The lines of what is asked of us."""
    for what, clock in (("time", "seconds"), ("processor time", "processor")):
        value = median(getattr(each.ours, clock) / getattr(each.plain, clock) for each in rounds)
        yield judged(f"{what}, beside the plain fit", value, f"{value:.2f}", most=MOST_TIME)
    ours, plain = rounds[0].ours.model, rounds[0].plain.model
    more = ours.n_passes_ - plain.n_passes_
    yield judged("more passes", more, f"{more:g}", most=MORE_PASSES)
    micro = np.array_equal(ours.micro_centers_, plain.cluster_centers_)
    yield Line("the same micro-centers", f"{len(ours.micro_centers_)}: {'yes' if micro else 'no'}")
    agreed = min(each.agreement for each in rounds)
    yield judged("adjusted Rand index", agreed, f"{agreed:.4f}", least=LEAST_AGREEMENT)


# HDBSCAN


def prim(rows: Rows) -> Labels:
    """HDBSCAN of scikit-learn."""
    least = max(NEIGHBORS, len(rows) // PART)
    method = HDBSCAN(min_cluster_size=least, min_samples=NEIGHBORS, copy=True)
    labels: Labels = method.fit_predict(rows)
    return labels


def boruvka(rows: Rows) -> Labels:
    """HDBSCAN of the package hdbscan, in one process."""
    method: Any = import_module("hdbscan").HDBSCAN
    least = max(NEIGHBORS, len(rows) // PART)
    found = method(min_cluster_size=least, min_samples=NEIGHBORS, core_dist_n_jobs=1)
    labels: Labels = found.fit_predict(rows)
    return labels


PEERS = {"HDBSCAN of scikit-learn": prim, "HDBSCAN of hdbscan": boruvka}


@dataclass(frozen=True)
class Finished:
    """A fit of HDBSCAN."""

    seconds: float
    """Of the processor."""
    agreement: float
    memory: int
    """Bytes, the peak of the process."""

    def __str__(self) -> str:
        size = f"{self.memory / 1e6:,.0f} MB"
        return f"{self.seconds:.1f} processor seconds, {size}, adjusted Rand index {self.agreement:.4f}"


def first_rows(m: int, size: int) -> tuple[Rows, Labels]:
    """The first rows of a store, (m, 2), and their true clusters, (m,)."""
    starts = range(0, m, size)
    rows, labels = ([each(start, size) for start in starts] for each in (part, truth))
    return np.concatenate(rows)[:m], np.concatenate(labels)[:m]


def _compete(name: str, m: int, size: int, limit: float, answers: Connection) -> None:
    """Fit in a process of its own, with the memory of all workers."""
    rows, labels = first_rows(m, size)
    started = process_time()
    resource.setrlimit(resource.RLIMIT_AS, (PROCESSES * MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(started + limit),) * 2)
    try:
        found = PEERS[name](rows)
    except MemoryError:
        answers.send("out of memory")
        return
    seconds = process_time() - started
    pairs = count_label_pairs(found.astype(np.int64), labels)
    answers.send(Finished(seconds, pairs.adjusted_rand, peak_memory()))


def finished(name: str, m: int, size: int, limit: float) -> Finished | str:
    """A fit of a peer to the first m rows, or what stopped it."""
    context = get_context("spawn")
    answers, sender = context.Pipe(duplex=False)
    process = context.Process(target=_compete, args=(name, m, size, limit, sender))
    process.start()
    sender.close()
    try:
        found: Finished | str = answers.recv()
    except EOFError:
        found = "failed"
    process.join()
    late = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
    return f"not within {limit:g} processor seconds" if late else found


def peer_lines(n: int, size: int, first: int, limit: float) -> Iterator[Line]:
    """The most rows that each peer finishes, and what stopped it at twice as many."""
    for name, method in PEERS.items():
        if method is boruvka and find_spec("hdbscan") is None:
            click.echo(f"{name}: not installed, left out", err=True)
            continue
        m, best = min(n, first), []
        while isinstance(found := finished(name, m, size, limit), Finished):
            best = [Line(f"{name}, {m:,} rows", str(found))]
            click.echo(str(best[0]), err=True)
            if m == n:
                break
            m = min(n, 2 * m)
        yield from best
        if isinstance(found, str):
            yield Line(f"{name}, {m:,} rows", found)


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--rows", default=10**8, show_default=True)
@click.option("--part-rows", default=PART_ROWS, show_default=True, help="Rows of a chunk.")
@click.option("--tol", default=1e-4, show_default=True, help="Of both fits.")
@click.option("--workers", default=PROCESSES, show_default=True, help="0 for threads.")
@click.option("--repeats", default=1, show_default=True, help="Rounds.")
@click.option("--first", default=25_000, show_default=True, help="Rows of HDBSCAN at first.")
@click.option("--limit", default=120.0, show_default=True, help="Processor seconds of HDBSCAN.")
def main(
    path: Path | None,
    rows: int,
    part_rows: int,
    tol: float,
    workers: int,
    repeats: int,
    first: int,
    limit: float,
) -> None:
    """Print the tables.  Stores are made in the folder PATH, or a temporary one, and removed."""
    with folder(path) as place:
        found = compare(Task(place, rows, part_rows, tol, workers), repeats)
    memory = f"{workers} workers of {MEMORY / 1e9:g} GB" if workers else "threads"
    click.echo(table(f"n={rows:,} d=2, float32, tol {tol:g}, {memory}", lines(found)))
    if limit:
        click.echo(table("HDBSCAN in memory", list(peer_lines(rows, part_rows, first, limit))))


if __name__ == "__main__":
    main()
