"""The threads and memory of this process."""

from distributed.system import memory_limit

from dask_dpmeans.sources.resources import memory_of_process


def test_a_process_has_the_memory_that_dask_gives_to_workers() -> None:
    assert memory_of_process() == memory_limit()
