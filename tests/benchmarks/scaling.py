"""What a pass costs as rows, clusters, columns and shards grow, and what the coordinator of a large cluster would bear.

Costs: passes over rows in memory, on two threads, each against the one that is 8 times smaller.  The coordinator: the
real graph, scheduler, merge tree and validation of a pass, where each shard answers at once with moments and proposals
that were made up, of one cluster, so that the tasks themselves take next to nothing; the shards are as many as the
plan for so many workers has.  Dask needs about as long for each task whatever the number, so that larger clusters are
reckoned from the one that was run.  What travels is measured at the full number of clusters.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import click
import numpy as np
from distributed import Client, LocalCluster
from ratios import (
    Line,
    Times,
    interleaved,
    judged,
    quartiles,
    ratio_line,
    same_environment,
    table,
    timed,
)

from dask_dpmeans.engine.occ import Round, round_of
from dask_dpmeans.engine.plan import Plan, block_height, merge_tree, shard_blocks
from dask_dpmeans.kernels.assign import Scan
from dask_dpmeans.kernels.births import Proposals
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.moments import Moments
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import Openings
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.executors.dask_tasks import FAN_IN, DaskTasks
from dask_dpmeans.sources.shards import PIECE_BYTES

PENALTY = 1e9
"""No row objects: a pass in which a sweep ends."""
LINEAR = (7.0, 9.0)
"""What a pass over 8 times the rows may take of the time of one."""
THREADS = 4
"""Of a worker of the large clusters."""
PROPOSALS = 8
"""Rows of a shard that object."""


@dataclass(frozen=True)
class Size:
    """A pass in memory."""

    n: int = 2**17
    d: int = 16
    k: int = 128

    def __str__(self) -> str:
        return f"n={self.n:,} d={self.d} k={self.k}"

    def run(self) -> "Pass":
        """The pass, ready."""
        random = np.random.default_rng(0)
        rows = random.standard_normal((self.n, self.d), np.float32)
        return Pass(rows, Centers(rows[: self.k].astype(np.float64)))


class Pass:
    """A pass over rows of a normal distribution, some of which are the centers."""

    def __init__(self, rows: np.ndarray, centers: Centers) -> None:
        self.source = as_source(rows, threads=2)
        self.centers = centers

    def __call__(self) -> Scan:
        """Its answer; nothing is known from passes before."""
        for shard in self.source.shards:
            shard.memories.clear()
        return self.source.fold(
            round_of(Openings(LinearPrice(PENALTY)), Centers(self.centers.values))
        )


def costs(small: Size, repeats: int) -> Iterator[Line]:
    """A pass against those with 8 times as many rows, clusters and columns."""
    sizes = {
        "pass": small,
        "8 x the rows": Size(8 * small.n, small.d, small.k),
        "8 x the clusters": Size(small.n, small.d, 8 * small.k),
        "8 x the columns": Size(small.n, 8 * small.d, small.k),
    }
    times: Times = interleaved({what: timed(size.run()) for what, size in sizes.items()}, repeats)
    for what in list(sizes)[1:]:
        yield ratio_line(times, what, "pass")
    middle = quartiles(
        [more / less for more, less in zip(times["8 x the rows"], times["pass"], strict=True)]
    )[1]
    yield judged("8 x the rows, linear", middle, f"{middle:.2f}", most=LINEAR[1])
    yield judged("8 x the rows, no less", middle, f"{middle:.2f}", least=LINEAR[0])


@dataclass(frozen=True)
class MadeUp:
    """A job whose shards answer at once."""

    grows = False

    centers: Centers
    proposals: int

    @property
    def sweep(self) -> Round[Centers, Scan]:
        """The reduction that merges the answers."""
        return round_of(Openings(LinearPrice(PENALTY)), self.centers)

    def __call__(self, shard: int, blocks: range) -> Scan:
        """Moments of all clusters, and rows that object, which lie together shard by shard."""
        k, d = self.centers.values.shape
        moments = Moments(np.full(k, shard), np.ones(k), np.ones((k, d)), np.ones(k))
        rows = np.zeros((self.proposals, d))
        return Scan(
            moments,
            Proposals(shard * 10**6 + np.arange(self.proposals), rows, np.ones(self.proposals)),
            np.ones(k),
        )

    def merge(self, answers: list[Scan]) -> Scan:
        """As a fold merges."""
        return merge_tree(answers, self.sweep.combine)


@dataclass(frozen=True)
class Borne:
    """What a pass put on the coordinator."""

    shards: int
    seconds: float
    sent: int
    """Bytes of centers that go out once, to be handed on by the scheduler."""
    received: int
    """Bytes of the merged answer; up to eight come, each about as large."""


def coordinated(client: Client, shards: int, k: int, d: int) -> Borne:
    """A pass with answers that were made up."""
    executor = DaskTasks(client, 2)
    job = MadeUp(Centers(np.random.default_rng(0).standard_normal((k, d))), PROPOSALS)
    pieces = [(shard, range(1)) for shard in executor.wrap(list(range(shards)))]
    started = perf_counter()
    answer = executor.fold(job, pieces, "simulated")
    job.sweep.rule.validate(job.centers, answer)
    return Borne(
        shards, perf_counter() - started, len(pickle.dumps(job)), len(pickle.dumps(answer))
    )


def planned_shards(n: int, d: int, workers: int) -> int:
    """Shards of a pass over float32 rows in a store, which tasks read piece by piece."""
    height = block_height(d)
    heavy = PIECE_BYTES // (4 * d)
    return Plan(n, height, shard_blocks(n, height, workers * THREADS, n, 1, heavy)).n_shards


def coordinator(shards: Sequence[int], k: int, d: int) -> Iterator[Line]:
    """Passes with so many shards, run; and those of larger clusters, reckoned."""
    with same_environment():
        cluster = LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        )
    with cluster, Client(cluster) as client:
        full = coordinated(client, 10, k, d)
        borne = [coordinated(client, each, 1, d) for each in shards]
    yield Line(
        "centers out, an answer in",
        f"{full.sent / 1e6:.2f} MB, {full.received / 1e6:.2f} MB each of up to {FAN_IN}",
    )
    for each in borne:
        text = f"{each.seconds:.2f} s, {1e3 * each.seconds / each.shards:.2f} ms a shard"
        yield Line(f"{each.shards:,} shards, run", text)
    a_shard = borne[-1].seconds / borne[-1].shards
    for workers in (100, 1000, 10_000):
        for rows in (10**9, 10**12):
            number = planned_shards(rows, d, workers)
            what = f"{rows:.0e} rows, {workers:,} workers of {THREADS} threads"
            yield Line(
                what,
                f"{number:,} shards of {rows / number:,.0f} rows: {number * a_shard:,.1f} s a pass",
            )


@click.command(help=__doc__)
@click.option("--rows", default=2**17, show_default=True, help="Rows of the smallest pass.")
@click.option("--repeats", default=5, show_default=True, help="Rounds.")
@click.option("--shards", default="500,2000", show_default=True, help="Numbers of shards to run.")
@click.option(
    "--clusters", default=1000, show_default=True, help="Clusters of the coordinator's pass."
)
def main(rows: int, repeats: int, shards: str, clusters: int) -> None:
    """Both tables."""
    small = Size(rows)
    click.echo(table(f"a pass, {small}", list(costs(small, repeats))))
    numbers = [int(each) for each in shards.split(",")]
    click.echo(
        table(f"the coordinator, k={clusters:,} d=16", list(coordinator(numbers, clusters, 16)))
    )


if __name__ == "__main__":
    main()
