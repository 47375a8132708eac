"""A short trial of whether threads of one process can read rows side by side."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from time import perf_counter, process_time

from dask_dpmeans.sources.layout import Layout
from dask_dpmeans.sources.resources import format_bytes
from dask_dpmeans.sources.row_array import RowArray
from dask_dpmeans.sources.shards import StoredShard, read_rows
from dask_dpmeans.sources.stored_chunks import Storage

TRIALS = 2
"""Trials, of which the best counts: other work on this machine can only lower the result."""
LONG_TRIAL = 1.0
"""Seconds after which there is no other trial: most of the time went to reading."""
TRIAL_SECONDS = 0.1
"""Shortest trial, in seconds; each thread does its work at least once."""
HASHED = bytes(2**20)
"""Input of a hash function, which runs without Python's lock."""
PARALLEL = 0.7
"""Share of the available cores that threads must keep busy.

Busy cores of two threads on two cores (float32, d = 64).  Chunks of 4 MB: fletcher32 1.2, no codec
1.5, blosc-lz4, lz4, gzip, blosc-zstd, zstd, lzma and bz2 1.6 to 1.9.  Chunks of 64 KB: crc32c, no
codec, lz4, blosc and zstd 1.2 to 1.3, gzip and zlib 1.4, lzma and bz2 1.7 to 1.8.  Speed of two
processes against two threads: 1.7 (no codec), 2.3 (zstd) and 2.8 (blosc-zstd) at 64 KB, 0.9 to 1.1
(no codec, zstd, blosc-zstd, gzip) at 4 MB.
"""
WAITING = 0.5
"""Busy cores below which threads wait for the store."""
PROCESS_BYTES = 2**30
"""Memory that a process must have; it takes 0.3 GB before it reads a row."""


@dataclass(frozen=True)
class Trial:
    """Result of a trial in which threads read at once."""

    busy: float
    """Cores that the threads kept busy."""
    available: float
    """Cores that as many threads kept busy with work that holds no lock."""

    @property
    def serial(self) -> bool:
        """Whether threads waited for one another, and not for the store or for a core."""
        return WAITING <= self.busy < PARALLEL * self.available

    @classmethod
    def of(cls, rows: RowArray, threads: int) -> "Trial":
        """Read the first of `rows`, (n, d), one piece a thread, and measure.

        A comparison of two threads with one would mislead: Zarr decodes the chunks of a piece on
        its own threads, so that one reader can keep all cores busy.
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


def cores_busy(works: Sequence[Callable[[], object]]) -> float:
    """Return how many cores are busy on average while each work repeats on its own thread."""

    def repeat(work: Callable[[], object]) -> None:
        work()
        while perf_counter() < started + TRIAL_SECONDS:
            work()

    with ThreadPoolExecutor(len(works)) as pool:
        started, worked = perf_counter(), process_time()
        list(pool.map(repeat, works))
        return (process_time() - worked) / (perf_counter() - started)


def why_processes(layout: Layout) -> str | None:
    """Return why threads of this process read rows badly; None if they do not, or need not read."""
    storage, threads = Storage.of(layout.rows), layout.resources.threads
    affordable = layout.resources.thread_memory >= PROCESS_BYTES
    if storage is None or layout.resident or not affordable:
        return None
    if min(threads, layout.plan.n_shards) == 1:
        return None
    trial = Trial.of(layout.rows, threads)
    if not trial.serial:
        return None
    size = format_bytes(storage.chunk_rows * storage.chunk_columns * layout.stored_dtype.itemsize)
    how = ", ".join([*storage.compressors, f"chunks of {size}"])
    return (
        f"threads of one process wait for one another as they read the rows ({how}): {threads} "
        f"keep {trial.busy:.1f} cores busy"
    )
