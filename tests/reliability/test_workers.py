"""Workers that are all gone, or that one task ends again and again: an error that says so, in bounded time."""

import os
import platform
import signal
from time import sleep
from types import SimpleNamespace

import dask
import numpy as np
import psutil
import pytest
import zarr
from lost_workers import kill_a_worker
from strategies import Nested

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.errors import ClusterLostError
from dask_dpmeans.sources import as_source, connect
from dask_dpmeans.sources.cluster import workers_of
from dask_dpmeans.sources.executors import cluster_monitor, dask_tasks
from dask_dpmeans.sources.executors.base import Literal
from dask_dpmeans.sources.executors.process import return_freed_memory
from dask_dpmeans.sources.jobs import FoldJob
from dask_dpmeans.sources.shards import Prepare, Shard

ROWS = np.arange(4096.0).reshape(-1, 2)
BLOCK_ROWS = 64


@pytest.fixture
def path(tmp_path):
    made = zarr.create_array(
        tmp_path / "rows.zarr", shape=ROWS.shape, chunks=(100, 2), dtype=ROWS.dtype
    )
    made[:] = ROWS
    return tmp_path / "rows.zarr"


class Deadly(Nested):
    """Ends each worker that comes to the last block."""

    def chunk(self, block):
        if block.start == len(ROWS) - BLOCK_ROWS:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().chunk(block)


def test_a_task_that_ends_each_worker_is_named_with_rows_and_memory(tmp_path, path):
    settings = {"temporary-directory": str(tmp_path), "distributed.scheduler.allowed-failures": 1}
    with dask.config.set(settings), connect(None, 2, 1, "1GB", 60) as client:
        source = as_source(path, client=client, block_rows=BLOCK_ROWS)
        said = r"2 workers ended, .* had the task fold on rows [\d,]+ to [\d,]+, .* 0.93 GiB of memory for 1 thread\."
        with pytest.raises(ClusterLostError, match=said):
            source.fold(Deadly())
        client.wait_for_workers(2, timeout=60)
        assert source.fold(Nested()) == as_source(ROWS, threads=1, block_rows=BLOCK_ROWS).fold(
            Nested()
        )


def test_a_worker_that_is_killed_in_a_fit_of_a_cube_leaves_the_same_bytes(tmp_path):
    """In each of the first steps one of two; each pass reads the cube."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 40, (3, 64, 50)).astype(float)
    values[0, ::3, ::4] = np.nan
    zarr.create_group(tmp_path / "cube").create_array(
        "image", data=values, chunks=(1, 6, 10), dimension_names=("band", "y", "x")
    )
    names = {"samples": ("y", "x"), "features": "band"}
    given = str(tmp_path / "cube")
    whole = fit(given, tmp_path / "whole", DPMeans(300.0, random_state=0), threads=1, **names)
    killed = []

    def kill(*_):
        if len(killed) < 2:
            killed.append(kill_a_worker(client, among=2))

    with (
        dask.config.set({"temporary-directory": str(tmp_path)}),
        connect(None, 2, 1, "1GB", 60) as client,
    ):
        method = DPMeans(300.0, random_state=0)
        found = fit(given, tmp_path / "run", method, client=client, on_step=kill, **names)
    assert len(killed) == 2
    assert found.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    assert np.asarray(found.labels_).tobytes() == np.asarray(whole.labels_).tobytes()
    maps = [zarr.open_array(tmp_path / name / "label_map")[:] for name in ("whole", "run")]
    assert (maps[0] == -1).sum() == np.isnan(values[0]).sum()
    np.testing.assert_array_equal(*maps)


def test_a_pass_without_a_worker_waits_for_a_while_and_no_longer(tmp_path, path):
    with (
        dask.config.set({"temporary-directory": str(tmp_path)}),
        connect(None, 1, 1, "1GB", 60) as client,
    ):
        source = as_source(path, client=client, block_rows=BLOCK_ROWS, worker_timeout=1.5)
        client.cluster.scale(0)
        with pytest.raises(ClusterLostError, match=r"there has been no worker for 1.5 s$"):
            source.fold(Nested())
        client.cluster.scale(1)
        client.wait_for_workers(1, timeout=60)
        assert source.fold(Nested()) == as_source(ROWS, threads=1, block_rows=BLOCK_ROWS).fold(
            Nested()
        )


def test_a_pass_whose_workers_are_paused_waits_for_a_while_and_says_why(
    tmp_path, path, monkeypatch
):
    def pause_from(share, dask_worker):
        dask_worker.memory_manager.memory_pause_fraction = share

    monkeypatch.setattr(cluster_monitor, "LOOK_AT_MEMORY", 0.1)
    with (
        dask.config.set({"temporary-directory": str(tmp_path)}),
        connect(None, 1, 1, "1GB", 60) as client,
    ):
        source = as_source(path, client=client, block_rows=BLOCK_ROWS, worker_timeout=1.5)
        client.run(pause_from, 1e-9)
        while next(iter(workers_of(client).values()))["status"] != "paused":
            sleep(0.1)
        with pytest.raises(
            ClusterLostError, match=r"paused all workers for 1\.5 s, .* of 0\.93 GiB at least"
        ):
            source.fold(Nested())
        client.run(pause_from, 0.8)
        assert source.fold(Nested()) == as_source(ROWS, threads=1, block_rows=BLOCK_ROWS).fold(
            Nested()
        )


class Worker:
    """A worker that holds 400 of the bytes that it may hold; Dask pauses it at 80 %."""

    def __init__(self, limit, share=0.8):
        self.memory_manager = SimpleNamespace(memory_limit=limit, memory_pause_fraction=share)
        self.monitor = SimpleNamespace(get_process_memory=lambda: 400)


@pytest.mark.parametrize(
    ("worker", "gives_back"),
    [
        (Worker(500), True),
        (Worker(540), True),
        (Worker(560), False),
        (Worker(500, 0.9), False),
        (Worker(500, False), False),
        (Worker(None), False),
        (None, False),
    ],
)
def test_a_task_gives_freed_memory_back_near_the_pause(monkeypatch, worker, gives_back):
    def get_worker():
        if worker is None:
            raise ValueError("no worker")
        return worker

    given = []
    monkeypatch.setattr(dask_tasks, "get_worker", get_worker)
    monkeypatch.setattr(dask_tasks, "return_freed_memory", lambda: given.append(True))
    job = FoldJob(Nested(), Prepare(ROWS.dtype), BLOCK_ROWS)
    dask_tasks._apply(job, Shard(0, ROWS, None), (0, 2), Literal((lambda: None, None)))
    assert given == [True] * gives_back


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone keeps freed memory")
def test_freed_memory_goes_back():
    pieces = [b"x" * 60_000 for _ in range(1_000)]
    last = pieces.pop()
    held = psutil.Process().memory_info().rss
    del pieces
    return_freed_memory()
    assert held - psutil.Process().memory_info().rss > 30_000_000, len(last)
