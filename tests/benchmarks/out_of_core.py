"""A pass over a Zarr store that is larger than the workers' memory, against `zarr` reading it and summing it.

Two worker processes of 1 GB each.  Time: one pass against given centers (the one that ends a sweep: no row objects),
and beside it two processes that read one half of the store each, in pieces of the library's size, and sum them.  The
store is in the page cache for both.  Memory: the highest that a worker's resident set has been, in a fresh cluster
that opens the store (one pass) and makes one pass more, for a store of an eighth of the rows and for the whole.

Then many centers and few columns: a pass over a store that is read, against one over the same rows in memory, on two
threads of one process.
"""

import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import fsum
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr
from distributed import Client, LocalCluster
from ratios import (
    Line,
    interleaved,
    judged,
    ratio_line,
    same_environment,
    seconds_line,
    table,
    timed,
)
from zarr.codecs import Crc32cCodec, ZstdCodec

from dask_dpmeans.engine.occ import Round, round_of
from dask_dpmeans.kernels.assign import Scan
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import Openings
from dask_dpmeans.sources import CubePath, RowSource, as_source, decoded_bytes
from dask_dpmeans.sources.dataset import Ledger
from dask_dpmeans.sources.shards import PIECE_BYTES, Shard

PROCESSES = 2
MEMORY = "1GB"
"""Of each worker."""
MOST_READING = 1.3
"""The most times reading and summing that a pass may take."""
MOST_GROWTH = 1.1
"""The most that the peak memory may grow by from an eighth of the rows to all of them."""

MOST_STREAMING = 1.15
"""The most times a pass in memory that one over a store may take, where there are many centers."""

PASS, READING = "pass", "reading and summing"
NARROW, MANY = 16, 1_000
"""Columns and centers of the comparison with memory."""
STREAMED, IN_MEMORY = "streamed pass", "pass in memory"


@dataclass(frozen=True)
class Layout:
    """What a store holds."""

    n: int
    d: int = 64
    chunk_rows: int = 65_536

    @classmethod
    def of(cls, gigabytes: float, d: int = d, chunk_rows: int = chunk_rows) -> "Layout":
        """Whole chunks, of so many bytes of float32 in all, and no fewer than eight."""
        chunks = max(8, round(gigabytes * 1e9 / (4 * d * chunk_rows)))
        return cls(chunks * chunk_rows, d, chunk_rows)

    @property
    def starts(self) -> range:
        """First rows of the chunks."""
        return range(0, self.n, self.chunk_rows)

    def eighth(self) -> "Layout":
        """The first eighth of the chunks."""
        return Layout(self.chunk_rows * (len(self.starts) // 8), self.d, self.chunk_rows)


def stored(path: Path, layout: Layout) -> "zarr.Array[Any]":
    """The store at a path, written if there is none: rows of a normal distribution, compressed and checksummed."""
    if path.exists():
        array = zarr.open_array(path, mode="r")
        if array.shape != (layout.n, layout.d) or array.chunks != (layout.chunk_rows, layout.d):
            raise click.UsageError(
                f"{path} holds {array.shape} in chunks of {array.chunks}: remove it, or say where"
            )
        return array
    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    array = zarr.create_array(
        unfinished,
        shape=(layout.n, layout.d),
        chunks=(layout.chunk_rows, layout.d),
        dtype=np.float32,
        compressors=[ZstdCodec(checksum=True), Crc32cCodec()],
    )

    def write(start: int) -> None:
        shape = (layout.chunk_rows, layout.d)
        array[start : start + layout.chunk_rows] = np.random.default_rng(
            [0, start]
        ).standard_normal(shape, np.float32)

    with ThreadPoolExecutor(PROCESSES) as pool:
        list(pool.map(write, layout.starts))
    unfinished.rename(path)
    return zarr.open_array(path, mode="r")


def sum_part(path: Path, start: int, stop: int) -> float:
    """The sum of some rows, read in pieces of whole chunks, as large as the library's."""
    array = zarr.open_array(path, mode="r")
    chunk_rows, d = array.chunks
    step = chunk_rows * max(1, PIECE_BYTES // (4 * chunk_rows * d))
    cuts = [*range(start, stop, step), stop]
    return fsum(float(array[a:b].sum()) for a, b in pairwise(cuts))


@contextmanager
def reading(path: Path) -> Iterator[Callable[[], float]]:
    """The sum of a store, by processes that read a part each."""
    n, chunk_rows = (
        zarr.open_array(path, mode="r").shape[0],
        zarr.open_array(path, mode="r").chunks[0],
    )
    chunks = -(-n // chunk_rows)
    cuts = [min(n, chunk_rows * (chunks * part // PROCESSES)) for part in range(PROCESSES + 1)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        yield lambda: fsum(pool.map(sum_part, [path] * PROCESSES, cuts[:-1], cuts[1:]))


@contextmanager
def opened(
    data: str | CubePath, workers: int = PROCESSES, memory: str = MEMORY
) -> Iterator[tuple[RowSource, Client]]:
    """The store as a source on fresh workers."""
    with same_environment():
        cluster = LocalCluster(
            workers, threads_per_worker=1, memory_limit=memory, dashboard_address=":0"
        )
    with cluster, Client(cluster, set_as_default=False) as client:
        yield as_source(data, client=client), client


def sweep_of(path: Path, k: int) -> Round[Centers, Scan]:
    """A pass against the first k rows."""
    return against(zarr.open_array(path, mode="r")[:k].astype(np.float64))


def against(centers: Float64Array) -> Round[Centers, Scan]:
    """A pass against given centers, (k, d), of which no row is far."""
    return round_of(Openings(LinearPrice(1e9), None), Centers(centers))


def anew(source: RowSource) -> RowSource:
    """The same source, of which each pass goes through all rows, whatever the one before has shown."""
    for shard in source.shards:
        if isinstance(shard, Shard):
            shard.memories.clear()
    return replace(source, ledger=Ledger())


def peak_memory() -> int:
    """Bytes, the most that this process has held.

    Linux counts what the process that started this one held into `ru_maxrss`, so its own figure is read there.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def worker_memory(path: Path, k: int) -> int:
    """Bytes, the peak of the workers that open the store and make a pass over it."""
    with opened(str(path)) as (source, client):
        source.fold(sweep_of(path, k), name="scan")
        return max(client.run(peak_memory).values())


def memory_lines(eighth: Path, whole: Path, k: int) -> list[Line]:
    """Peak memory for an eighth of the rows and for all, and their ratio."""
    small, large = worker_memory(eighth, k), worker_memory(whole, k)
    return [
        Line("peak of a worker, 1/8 of the rows", f"{small / 1e6:.0f} MB"),
        Line("peak of a worker, all rows", f"{large / 1e6:.0f} MB"),
        judged(
            "all rows / 1/8 of the rows", large / small, f"{large / small:.3f}", most=MOST_GROWTH
        ),
    ]


@dataclass(frozen=True)
class Comparison:
    """What the competitors answered, and the table of their times."""

    answer: Scan
    total: float
    lines: list[Line]


def compare(path: Path, k: int, repeats: int) -> Comparison:
    """One pass over a store against reading it."""
    sweep = sweep_of(path, k)
    with opened(str(path)) as (source, _), reading(path) as total:
        times = interleaved(
            {READING: timed(total), PASS: timed(partial(passed, source, sweep))}, repeats
        )
        lines = [
            *(seconds_line(times, name) for name in times),
            ratio_line(times, PASS, READING, most=MOST_READING),
        ]
        return Comparison(passed(source, sweep), total(), lines)


def beside_memory(path: Path, k: int, repeats: int) -> list[Line]:
    """A pass over a store, on threads, against one over its rows in memory."""
    sweep, rows = sweep_of(path, k), zarr.open_array(path, mode="r")
    sources = {
        IN_MEMORY: as_source(rows[:], threads=PROCESSES),
        STREAMED: as_source(rows, threads=PROCESSES, memory_limit=decoded_bytes(rows)),
    }
    times = interleaved(
        {name: timed(partial(passed, source, sweep)) for name, source in sources.items()}, repeats
    )
    lines = [seconds_line(times, name) for name in times]
    return [*lines, ratio_line(times, STREAMED, IN_MEMORY, most=MOST_STREAMING)]


def passed(source: RowSource, sweep: Round[Centers, Scan]) -> Scan:
    """The answer of a pass."""
    return anew(source).fold(sweep, name="scan")


@contextmanager
def folder(path: Path | None) -> Iterator[Path]:
    """The folder given, or one that is gone afterwards."""
    if path is None:
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)
    else:
        path.mkdir(parents=True, exist_ok=True)
        yield path


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--gigabytes", default=8.0, show_default=True, help="Size of the rows.")
@click.option("-d", default=Layout.d, show_default=True, help="Columns.")
@click.option("-k", default=16, show_default=True, help="Centers.")
@click.option("--repeats", default=5, show_default=True, help="Rounds.")
def main(path: Path | None, gigabytes: float, d: int, k: int, repeats: int) -> None:
    """Print the tables.  Stores in the folder PATH are kept and used again."""
    layout = Layout.of(gigabytes, d)
    with folder(path) as place:
        whole, eighth = place / "whole.zarr", place / "eighth.zarr"
        stored(whole, layout)
        stored(eighth, layout.eighth())
        lines = [*memory_lines(eighth, whole, k), *compare(whole, k, repeats).lines]
        click.echo(
            table(f"n={layout.n:,} d={d} k={k}, float32, {PROCESSES} workers of {MEMORY}", lines)
        )
        narrow = Layout.of(gigabytes / 16, NARROW)
        stored(place / "narrow.zarr", narrow)
        lines = beside_memory(place / "narrow.zarr", MANY, repeats)
        click.echo(
            table(f"n={narrow.n:,} d={NARROW} k={MANY:,}, float32, {PROCESSES} threads", lines)
        )


if __name__ == "__main__":
    main()
