"""Memory that a call takes, measured in a process of its own."""

import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import cloudpickle


@cache
def _process():
    """Traces from its first call to its end.

    Before Python 3.12.9 a process that stops tracing while other threads allocate may crash (python/cpython issue
    128679).
    """
    return ProcessPoolExecutor(1, get_context("spawn"))


def _traced(packed):
    function, arguments = cloudpickle.loads(packed)
    tracemalloc.start()  # does nothing from the second call on
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    function(*arguments)
    return tracemalloc.get_traced_memory()[1] - before


def peak_memory(function, *arguments):
    """The most bytes that a call holds at once beyond what was there; its errors are raised here."""
    home = sys.modules[function.__module__]
    cloudpickle.register_pickle_by_value(
        home
    )  # modules of tests have no name that another process finds
    try:
        return _process().submit(_traced, cloudpickle.dumps((function, arguments))).result()
    finally:
        cloudpickle.unregister_pickle_by_value(home)
