"""The threads and memory that a process or a cluster has for the work."""

import math
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from dask_dpmeans.sources.lazy_modules import dask, distributed

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from distributed import Client

WORKER_TIMEOUT = 60.0
"""Seconds to wait for a worker if there is none."""
READ_SHARE = 0.25
"""Largest share of a thread's memory for the rows that it reads at a time."""
PAUSE_SHARE = 0.8
"""Share of its memory at which Dask pauses a worker; if all are paused, the work stands still."""
WORKER_BYTES = 400_000_000
"""Bytes that a worker holds beside the rows that it reads: of 600 MB it held 507 MB with 83 of rows."""
CONTROL_GROUPS = (
    "memory/memory.limit_in_bytes",
    "memory/memory.soft_limit_in_bytes",
    "memory.max",
    "memory.high",
    "memory.low",
)
"""Files with limits of the memory in ``/sys/fs/cgroup`` of Linux: of version 1, then of version 2."""


@dataclass(frozen=True)
class Resources:
    """Threads and memory of a cluster, or of this process."""

    threads: int
    """Threads of all workers."""
    memory: int
    """Bytes of all workers."""
    worker_memory: int
    """Bytes of the smallest worker."""
    thread_memory: int
    """Bytes of the smallest share of a thread."""
    processes: bool = False
    """Whether workers have the memory for themselves; Dask pauses one that holds most of it."""

    @property
    def read_memory(self) -> int:
        """Bytes of a thread for the rows that it reads at a time."""
        most = READ_SHARE * self.thread_memory
        if self.processes:
            free = PAUSE_SHARE * self.worker_memory - WORKER_BYTES
            most = min(most, free * self.thread_memory / self.worker_memory)
        return max(0, int(most))

    @property
    def worker_room(self) -> float:
        """Bytes of a worker for all but the rows, before Dask pauses it; infinite in this process."""
        if not self.processes:
            return math.inf
        # What a worker holds beside its rows is less on small ones: the least share stays.
        free = PAUSE_SHARE * self.worker_memory - WORKER_BYTES
        return max(free, READ_SHARE * self.worker_memory)

    def thread_memory_for(self, size: int) -> int:
        """Return the bytes that a thread should have to read `size` bytes at a time."""
        wanted = size / READ_SHARE
        if self.processes:
            threads = self.worker_memory // self.thread_memory
            wanted = max(wanted, (size + WORKER_BYTES / threads) / PAUSE_SHARE)
        return math.ceil(wanted)


def current_client() -> "Client | None":
    """Return the client that the user has opened, if any."""
    if "distributed" not in sys.modules:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None


def scheduler_address() -> str | None:
    """Return the scheduler in Dask's configuration, for example in DASK_SCHEDULER_ADDRESS."""
    return dask.config.get("scheduler-address", None)


def own_resources(threads: int | None, memory_limit: int | None) -> Resources:
    """Return the threads and memory that this process may use."""
    count = threads or own_threads()
    memory = memory_of_process() if memory_limit is None else memory_limit
    return Resources(count, memory, memory, memory // count)


@cache
def memory_of_process() -> int:
    """Return the bytes that this process may use, as Dask's workers count them.

    The least of the machine's memory, of the limits of the control group, and of the process.
    """
    limits = [psutil.virtual_memory().total]
    for name in CONTROL_GROUPS:
        with suppress(OSError, ValueError):  # there is no such file, or it says "max"
            limits.append(int(Path("/sys/fs/cgroup", name).read_text()))
    if sys.platform != "win32":
        limits.append(resource.getrlimit(resource.RLIMIT_RSS)[1])
    return min(limit for limit in limits if limit > 0)


def own_threads() -> int:
    """Return how many threads this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def format_bytes(size: int) -> str:
    """Return a number of bytes as text.

    >>> format_bytes(2**24)
    '16.00 MiB'
    """
    return str(dask.utils.format_bytes(size))


def parse_bytes(text: str) -> int:
    """Return the number of bytes in a text.

    >>> parse_bytes("16 MiB")
    16777216
    """
    return int(dask.utils.parse_bytes(text))
