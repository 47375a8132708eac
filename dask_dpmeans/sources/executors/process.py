"""Settings of the process in which a task runs: BLAS threads, freed memory, and the thread pool."""

import ctypes
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""
TRIM, MMAP = "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"
"""Variables of the environment by which a process starts with them."""
OF_DASK = "65536"
"""Trim threshold with which Dask starts workers unless the user has set another."""
KEPT_BYTES = 2**28
"""Freed bytes that a worker keeps on a heap; with 2**24 the pass below took 12.5 s.

With 2**25 a pass over a cube in runs of 138 MB took 86,000 fresh pages, with this 5,000.
"""
LARGEST_ALLOCATION = 2**25
"""Largest allocation that glibc takes from a heap, in bytes."""


@cache
def thread_pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Return the pool of a process for all passes.

    With a new pool for each, a pass over 100,000 x 2 rows took 3.3 ms instead of 2.8 ms.
    """
    return ThreadPoolExecutor(threads, thread_name_prefix="dpmeans")


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS runs on one thread."""
    return _blas().limit(limits=1)


@cache
def _blas() -> ThreadpoolController:
    """Return the BLAS libraries of the process; the search for them takes 3 to 10 ms."""
    return ThreadpoolController().select(user_api="blas")


@cache
def keep_freed_memory() -> None:
    """Let this process use freed memory again, if its C library can be told so.

    Dask starts its workers so that freed memory goes back to the system at once, and each piece of
    rows is then read and decoded in fresh pages: a pass over 8 GB on two workers took 15.7 s, and
    7.9 s with this setting.  Thresholds that the user has chosen for the workers stay.
    """
    chosen = os.environ.get(TRIM, OF_DASK) != OF_DASK or MMAP in os.environ
    if sys.platform == "linux" and not chosen:
        settings = {M_TRIM_THRESHOLD: KEPT_BYTES, M_MMAP_THRESHOLD: LARGEST_ALLOCATION}
        libc = ctypes.CDLL(None)
        adjust = getattr(libc, "mallopt", lambda *setting: None)  # glibc has it, musl has not
        for parameter, value in settings.items():
            adjust(parameter, value)


def return_freed_memory() -> None:
    """Give freed memory back to the system, if the C library can be told so."""
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)
