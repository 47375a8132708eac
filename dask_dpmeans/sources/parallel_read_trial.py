"""Whether threads of one process can read rows side by side, as a short trial shows."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from time import perf_counter, process_time
from typing import Any

from dask.utils import format_bytes

from dask_dpmeans.sources.layout import Layout
from dask_dpmeans.sources.shards import StoredShard, read_rows
from dask_dpmeans.sources.stored_chunks import Storage

TRIALS = 2
"""The most that any found counts: what else runs here can only lower it."""
LONG_TRIAL = 1.0
"""Seconds; after a trial that took longer there is no other, since most of it went to reading."""
TRIAL_SECONDS = 0.1
"""Of a trial, at least: each thread does its work once, however long that takes."""
HASHED = bytes(2**20)
"""What a hash, which lets go of Python's lock, works on."""
PARALLEL = 0.7
"""Of the cores available, that threads must keep busy between them.

Two threads on two cores kept so many busy (float32, d = 64): on chunks of 4 MB fletcher32 1.2, no codec 1.5, blosc-lz4,
lz4, gzip, blosc-zstd, zstd, lzma and bz2 1.6 to 1.9; on chunks of 64 KB crc32c, no codec, lz4, blosc and zstd 1.2 to
1.3, gzip and zlib 1.4, lzma and bz2 1.7 to 1.8.  Two processes read chunks of 64 KB 1.7 (no codec), 2.3 (zstd) and 2.8
(blosc-zstd) times as fast as two threads, of 4 MB (no codec, zstd, blosc-zstd, gzip) 0.9 to 1.1 times.
"""
WAITING = 0.5
"""Cores; where fewer are busy, threads wait for the store."""
PROCESS_BYTES = 2**30
"""Memory that a process must have, as Dask ends one that passes its share: it takes 0.3 GB before it reads a row."""


@dataclass(frozen=True)
class Trial:
    """What threads did that read at once."""

    busy: float
    """Cores that they kept busy."""
    available: float
    """Cores that as many threads kept busy with what holds no lock."""

    @property
    def serial(self) -> bool:
        """Whether threads waited for one another, and not for the store or for a core."""
        return WAITING <= self.busy < PARALLEL * self.available

    @classmethod
    def of(cls, rows: Any, threads: int) -> "Trial":
        """A trial of reading the first rows, a piece a thread.

        It is not how much faster two threads are than one: Zarr decodes the chunks of a piece on threads of its own, so
        that one reader can keep all cores busy.
        """
        n, step = rows.shape[0], read_rows(rows)
        starts = [number * step % n for number in range(threads)]
        pieces = [StoredShard(start, min(start + step, n), rows, None) for start in starts]
        reading = [partial(piece.read, piece.start, piece.stop) for piece in pieces]
        hashing = [partial(sha256, HASHED)] * threads
        pairs: list[tuple[float, float]] = []
        started = perf_counter()
        while not pairs or (len(pairs) < TRIALS and perf_counter() < started + LONG_TRIAL):
            pairs.append((cores_busy(reading), cores_busy(hashing)))
        return cls(max(busy for busy, _ in pairs), max(available for _, available in pairs))


def cores_busy(works: Sequence[Callable[[], Any]]) -> float:
    """Cores that work on average while each of these is done again and again, on a thread of its own."""

    def repeat(work: Callable[[], Any]) -> None:
        work()
        while perf_counter() < started + TRIAL_SECONDS:
            work()

    with ThreadPoolExecutor(len(works)) as pool:
        started, worked = perf_counter(), process_time()
        list(pool.map(repeat, works))
        return (process_time() - worked) / (perf_counter() - started)


def why_processes(layout: Layout) -> str | None:
    """Why threads of this process read these rows poorly, as a trial shows; None where they do not, or need not."""
    storage, threads = Storage.of(layout.rows), layout.resources.threads
    affordable = layout.resources.thread_memory >= PROCESS_BYTES
    if storage is None or layout.resident or not affordable or min(threads, layout.plan.n_shards) == 1:
        return None
    trial = Trial.of(layout.rows, threads)
    if not trial.serial:
        return None
    size = format_bytes(storage.chunk_rows * storage.chunk_columns * layout.stored_dtype.itemsize)
    how = ", ".join([*storage.compressors, f"chunks of {size}"])
    return (
        f"threads of one process wait for one another as they read the rows ({how}): {threads} keep {trial.busy:.1f} "
        "cores busy"
    )
