"""Tasks whose client is gone, or has cancelled them, end by themselves, so that the next job finds its workers."""

import multiprocessing
import os
from threading import Thread
from time import monotonic, sleep

import dask
import numpy as np
import pytest
import zarr
from distributed import Client
from strategies import Nested

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.errors import ClusterLostError
from dask_dpmeans.kernels.column_statistics import ColumnStatistics
from dask_dpmeans.sources import as_source, connect

ROWS = np.random.default_rng(0).normal(size=(60_000, 2))
BLOCK_ROWS = 64
SECONDS = 60.0
"""Far more than a job takes that finds its worker free, and far less than the tasks below run for by themselves."""


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory):
    """The address of a cluster of one worker with one thread."""
    before = multiprocessing.active_children()
    with (
        dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("workers"))}),
        connect(None, workers=1, threads=1, memory_limit="1GB", timeout=60) as client,
    ):
        yield client.scheduler.address
    assert set(multiprocessing.active_children()) <= set(before)


@pytest.fixture
def path(tmp_path):
    zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(5000, 2))
    return tmp_path / "rows.zarr"


class Endless:
    """A job of passes over rows in memory that never ends."""

    def __init__(self, begun):
        self.begun = begun

    def __call__(self, rows):
        while True:
            rows.fold(ColumnStatistics(float("inf")))
            self.begun.touch()


class Slow(Nested):
    """A reduction that takes a second for each of the hundred blocks of a shard."""

    def __init__(self, begun):
        object.__setattr__(self, "begun", begun)

    def chunk(self, block):
        self.begun.touch()
        sleep(1.0)
        return super().chunk(block)


def job_of(begun):
    return lambda source: source.run([Endless(begun)], InMemoryRows(ROWS, None), "search")


def pass_of(begun):
    return lambda source: source.fold(Slow(begun), name="scan")


def wait_until(what):
    end = monotonic() + SECONDS
    while not what():
        assert monotonic() < end, "it never came to be"
        sleep(0.02)


@pytest.mark.parametrize("work", [job_of, pass_of])
def test_a_task_ends_after_its_client_has_closed(scheduler, path, tmp_path, work):
    begun = tmp_path / "begun"
    client = Client(scheduler, set_as_default=False)
    ended = []
    source = as_source(path, client=client, block_rows=BLOCK_ROWS)

    def wait() -> None:
        with pytest.raises(ClusterLostError, match="lost"):
            work(begun)(source)
        ended.append(True)

    waiting = Thread(target=wait, daemon=True)
    waiting.start()
    wait_until(begun.exists)
    client.close()
    waiting.join(SECONDS)
    assert ended
    with Client(scheduler, set_as_default=False) as other:
        assert other.submit(os.getpid).result(timeout=SECONDS) > 0
