"""The threads and memory of this process."""

import math
from dataclasses import replace

from distributed.system import memory_limit

from dask_dpmeans.sources.resources import Resources, memory_of_process


def test_a_process_has_the_memory_that_dask_gives_to_workers() -> None:
    assert memory_of_process() == memory_limit()


def test_room_of_a_worker_is_what_is_left_before_its_pause_and_never_nothing() -> None:
    for memory, room in ((10**9, 4e8), (4 * 10**9, 2.8e9), (5 * 10**8, 1.25e8)):
        found = Resources(2, 2 * memory, memory, memory // 2, processes=True)
        assert found.worker_room == room
        assert replace(found, processes=False).worker_room == math.inf
