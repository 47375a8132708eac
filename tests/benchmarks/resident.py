"""A pass over a resident Dask array on two worker processes, against the kernel alone in two processes.

The array has many small chunks, kept in the workers' memory; the pass is the one that ends a sweep (no row objects).
The kernel alone is the same scan of the same blocks, merged in order: each of two processes goes through one half of
the rows, which it holds in memory, and answers once.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from time import perf_counter

import click
import dask.array as da
import numpy as np
import numpy.typing as npt
from distributed import Client, LocalCluster, wait
from ratios import Line, interleaved, ratio_line, same_environment, seconds_line, table, timed
from threadpoolctl import threadpool_limits

from dask_dpmeans.engine.occ import Round, round_of
from dask_dpmeans.engine.plan import block_height, merge_tree
from dask_dpmeans.kernels.assign import Scan
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import Openings
from dask_dpmeans.sources import RowSource, as_source
from dask_dpmeans.sources.shards import Prepare, Shard

PROCESSES = 2
MOST_KERNEL = 1.7
"""The most times the kernel alone that a pass may take."""

PASS, KERNEL = "pass", "kernel alone"


@dataclass(frozen=True)
class Rows:
    """Rows of a normal distribution, the same for each chunk whoever makes it."""

    chunks: int = 10_000
    chunk_rows: int = 2_000
    d: int = 16

    @property
    def n(self) -> int:
        """Rows in all."""
        return self.chunks * self.chunk_rows

    def chunk(self, number: int) -> npt.NDArray[np.float32]:
        """(chunk_rows, d)."""
        return np.random.default_rng([0, number]).standard_normal(
            (self.chunk_rows, self.d), np.float32
        )

    def array(self) -> da.Array:
        """All rows, as a Dask array."""
        chunks = ((self.chunk_rows,) * self.chunks, (self.d,))
        return da.map_blocks(
            _chunk, self, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32)
        )

    def part(self, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Some of the rows."""
        numbers = range(start // self.chunk_rows, -(-stop // self.chunk_rows))
        first = numbers.start * self.chunk_rows
        return np.concatenate([self.chunk(number) for number in numbers])[
            start - first : stop - first
        ]


def _chunk(
    rows: Rows, block_info: dict[None, dict[str, tuple[int, int]]]
) -> npt.NDArray[np.float32]:
    return rows.chunk(block_info[None]["chunk-location"][0])


_held = lru_cache(maxsize=1)(Rows.part)
"""The rows that this process holds."""


def scan_part(rows: Rows, start: int, stop: int, sweep: Round[Centers, Scan]) -> Scan:
    """The kernel alone on the blocks of a part of the rows that starts with a block."""
    shard, height = Shard(start, _held(rows, start, stop), None), block_height(rows.d)
    with threadpool_limits(1):
        blocks = shard.blocks(
            Prepare(np.dtype(np.float32)), height, range(-(-(stop - start) // height))
        )
        return merge_tree(map(sweep.chunk, blocks), sweep.combine)


@contextmanager
def kernel_alone(rows: Rows, sweep: Round[Centers, Scan]) -> Iterator[Callable[[], Scan]]:
    """The kernel alone, split over processes that each hold their part."""
    height = block_height(rows.d)
    blocks = -(-rows.n // height)
    cuts = [min(rows.n, height * (blocks * part // PROCESSES)) for part in range(PROCESSES + 1)]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
            for _ in range(PROCESSES)
        ]

        def answer() -> Scan:
            parts = zip(processes, cuts, cuts[1:], strict=False)
            running = [
                process.submit(scan_part, rows, start, stop, sweep)
                for process, start, stop in parts
            ]
            return merge_tree([future.result() for future in running], sweep.combine)

        yield answer


@contextmanager
def resident_source(rows: Rows) -> Iterator[tuple[RowSource, float]]:
    """The rows as a source on worker processes, and the seconds it took to build from the array in their memory."""
    with same_environment():
        cluster = LocalCluster(n_workers=PROCESSES, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        array = client.persist(rows.array())
        wait(array)
        started = perf_counter()
        source = as_source(array, client=client)
        seconds = perf_counter() - started
        del array
        yield source, seconds


@dataclass(frozen=True)
class Comparison:
    """What the competitors answered, and the table of their times."""

    answers: dict[str, Scan]
    lines: list[Line]


def compare(rows: Rows, k: int, repeats: int) -> Comparison:
    """One pass of `rows` against k of them as centers."""
    centers = rows.part(0, k).astype(np.float64)
    sweep = round_of(Openings(LinearPrice(1e9), None), Centers(centers))
    with resident_source(rows) as (source, building), kernel_alone(rows, sweep) as alone:

        def one_pass() -> Scan:
            return source.fold(sweep, name="scan")

        times = interleaved({KERNEL: timed(alone), PASS: timed(one_pass)}, repeats)
        return Comparison(
            {KERNEL: alone(), PASS: one_pass()},
            [
                *(seconds_line(times, name) for name in times),
                ratio_line(times, PASS, KERNEL, most=MOST_KERNEL),
                Line("building the source, once", f"{building:.4f} s"),
            ],
        )


@click.command(help=__doc__)
@click.option("--chunks", default=Rows.chunks, show_default=True, help="Chunks of the array.")
@click.option("--chunk-rows", default=Rows.chunk_rows, show_default=True, help="Rows of each.")
@click.option("-d", default=Rows.d, show_default=True, help="Columns.")
@click.option("-k", default=100, show_default=True, help="Centers.")
@click.option("--repeats", default=9, show_default=True, help="Rounds.")
def main(chunks: int, chunk_rows: int, d: int, k: int, repeats: int) -> None:
    """Print the table."""
    title = f"{chunks:,} chunks x {chunk_rows:,} rows x {d}, float32, k={k}, {PROCESSES} processes"
    click.echo(table(title, compare(Rows(chunks, chunk_rows, d), k, repeats).lines))


if __name__ == "__main__":
    main()
