"""The main job through a scheduler and two workers that are processes of their own, against threads."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from distributed import Client

from dask_dpmeans import load
from dask_dpmeans.cli import main


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler on loopback with two workers, all of them ended afterwards."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    processes = [start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)]
    options = ("--nthreads", "1", "--memory-limit", "2GB", "--no-dashboard", "--local-directory", folder)
    processes += [start("worker", "--scheduler-file", file, "--host", "127.0.0.1", *options) for _ in range(2)]
    try:
        with Client(scheduler_file=file, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)
            address = client.scheduler.address
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.communicate(timeout=60)


def fit(data: str, run: Path, *options: str) -> None:
    result = CliRunner().invoke(main, ["fit", data, str(run), "--penalty", "30", "--seed", "0", *options])
    assert result.exit_code == 0, result.output


def same_bytes(run: Path, other: Path) -> None:
    for name, array in zarr.open_group(run, mode="r").arrays():
        if name != "seconds":
            assert zarr.open_array(other / name)[...].tobytes() == array[...].tobytes(), name


@pytest.mark.parametrize("chunk_rows", [1000, 7777, 100_000])
def test_a_remote_scheduler_gives_the_same_bytes_as_threads(
    tmp_path: Path, scheduler: str, chunk_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = (rng.uniform(-9, 9, (20, 3))[rng.integers(20, size=100_000)] + rng.standard_normal((100_000, 3))) + 1e4
    array = zarr.create_array("data.zarr", shape=rows.shape, chunks=(chunk_rows, 3), dtype=np.float32)
    array[:] = rows
    fit("data.zarr", tmp_path / "one.zarr", "--threads", "1")
    fit("data.zarr", tmp_path / "two.zarr", "--threads", "2", "--memory-limit", "2MB" if chunk_rows < 9999 else "11MB")
    fit("data.zarr", tmp_path / "remote.zarr", "--scheduler", scheduler)
    same_bytes(tmp_path / "one.zarr", tmp_path / "two.zarr")
    same_bytes(tmp_path / "one.zarr", tmp_path / "remote.zarr")
    out = CliRunner().invoke(main, ["predict", "remote.zarr", "data.zarr", "out.zarr", "--scheduler", scheduler])
    assert out.exit_code == 0, out.output
    np.testing.assert_array_equal(zarr.open_array("out.zarr/label")[:], load("one.zarr").labels_.compute())


def test_worker_processes_of_this_machine_give_the_same_bytes(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path / "data.zarr", shape=(50_000, 3), chunks=(7777, 2), dtype=np.float64)
    array[:] = np.random.default_rng(1).uniform(-9, 9, (50_000, 3))
    fit(str(tmp_path / "data.zarr"), tmp_path / "one.zarr", "--threads", "1")
    fit(str(tmp_path / "data.zarr"), tmp_path / "processes.zarr", "--workers", "2", "--threads", "1")
    same_bytes(tmp_path / "one.zarr", tmp_path / "processes.zarr")


def test_a_scheduler_without_workers_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    process = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)
    try:
        with Client(scheduler_file=file, timeout=60, set_as_default=False) as client:
            address = client.scheduler.address
        array = zarr.create_array(tmp_path / "data.zarr", shape=(5, 1), dtype=np.float64)
        array[:] = 1.0
        options = ["--penalty", "1", "--scheduler", address, "--worker-timeout", "1"]
        result = CliRunner().invoke(main, ["fit", str(tmp_path / "data.zarr"), str(tmp_path / "run.zarr"), *options])
        assert result.exit_code == 2
        assert f"the scheduler at {address} has had no worker for 1 s" in " ".join(result.output.split())
        assert not (tmp_path / "run.zarr").exists()
    finally:
        process.terminate()
        process.communicate(timeout=60)
