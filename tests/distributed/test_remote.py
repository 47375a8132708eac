"""The main job through a scheduler and two workers that are processes of their own, against threads."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from threading import Thread, Timer

import dask
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from distributed import Client, LocalCluster

from dask_dpmeans import load
from dask_dpmeans.cli import compute, main
from dask_dpmeans.errors import ClusterLostError, InputError, NoWorkersError, VersionsDifferError
from dask_dpmeans.sources import cluster
from dask_dpmeans.sources.cluster import (
    PACKAGES,
    check_versions,
    cluster_resources,
    connect,
    wait_for_worker,
    workers_of,
)
from dask_dpmeans.sources.executors.dask_tasks import DaskTasks

LACKING = """
import importlib.metadata, sys
version = importlib.metadata.version
def lacking(name):
    if name == "dask-dpmeans":
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = lacking
sys.modules["dask_dpmeans"] = None
"""
"""Makes a Python process one that has not our package."""


def start(*arguments: str, **environment: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def start_scheduler(file: Path) -> subprocess.Popen:
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file"]
    return start("scheduler", *options, file)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler on loopback with two workers, all of them ended afterwards."""
    folder = tmp_path_factory.mktemp("cluster")
    file = folder / "scheduler.json"
    processes = [start_scheduler(file)]
    options = ["--host", "127.0.0.1", "--nthreads", "1", "--memory-limit", "2GB", "--no-dashboard"]
    places = "--scheduler-file", file, "--local-directory", folder
    processes += [start("worker", *options, *places) for _ in range(2)]
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
    result = CliRunner().invoke(
        main, ["fit", data, str(run), "--penalty", "30", "--seed", "0", *options]
    )
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
    rows = (
        rng.uniform(-9, 9, (20, 3))[rng.integers(20, size=100_000)]
        + rng.standard_normal((100_000, 3))
    ) + 1e4
    array = zarr.create_array(
        "data.zarr", shape=rows.shape, chunks=(chunk_rows, 3), dtype=np.float32
    )
    array[:] = rows
    fit("data.zarr", tmp_path / "one.zarr", "--threads", "1")
    fit(
        "data.zarr",
        tmp_path / "two.zarr",
        "--threads",
        "2",
        "--memory-limit",
        "2MB" if chunk_rows < 9999 else "11MB",
    )
    fit("data.zarr", tmp_path / "remote.zarr", "--scheduler", scheduler)
    same_bytes(tmp_path / "one.zarr", tmp_path / "two.zarr")
    same_bytes(tmp_path / "one.zarr", tmp_path / "remote.zarr")
    out = CliRunner().invoke(
        main, ["predict", "remote.zarr", "data.zarr", "out.zarr", "--scheduler", scheduler]
    )
    assert out.exit_code == 0, out.output
    np.testing.assert_array_equal(
        zarr.open_array("out.zarr/label")[:], load("one.zarr").labels_.compute()
    )


def test_worker_processes_of_this_machine_give_the_same_bytes(tmp_path: Path) -> None:
    array = zarr.create_array(
        tmp_path / "data.zarr", shape=(50_000, 3), chunks=(7777, 2), dtype=np.float64
    )
    array[:] = np.random.default_rng(1).uniform(-9, 9, (50_000, 3))
    fit(str(tmp_path / "data.zarr"), tmp_path / "one.zarr", "--threads", "1")
    fit(
        str(tmp_path / "data.zarr"), tmp_path / "processes.zarr", "--workers", "2", "--threads", "1"
    )
    same_bytes(tmp_path / "one.zarr", tmp_path / "processes.zarr")


def test_a_scheduler_without_workers_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    process = start_scheduler(file)
    try:
        with Client(scheduler_file=file, timeout=60, set_as_default=False) as client:
            address = client.scheduler.address
        array = zarr.create_array(tmp_path / "data.zarr", shape=(5, 1), dtype=np.float64)
        array[:] = 1.0
        options = ["--penalty", "1", "--scheduler", address, "--worker-timeout", "1"]
        result = CliRunner().invoke(
            main, ["fit", str(tmp_path / "data.zarr"), str(tmp_path / "run.zarr"), *options]
        )
        assert result.exit_code == 3
        assert f"the scheduler at {address} has had no worker for 1 s" in " ".join(
            result.output.split()
        )
        assert not (tmp_path / "run.zarr").exists()
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_cluster_object_without_workers_says_that_it_can_be_scaled() -> None:
    way = re.escape("`client.cluster.scale(2)` of this LocalCluster")
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as made,
        Client(made, set_as_default=False) as client,
    ):
        with pytest.raises(NoWorkersError, match=f"no worker for 0.2 s: start some with {way}$"):
            wait_for_worker(client, 0.2)
        executor = DaskTasks(client, 1, worker_timeout=0.2)
        with pytest.raises(
            ClusterLostError, match=f"no worker for 0.2 s: start some, as {way} does$"
        ):
            executor.run([len], [1], "count")


@pytest.fixture
def data(tmp_path: Path) -> str:
    array = zarr.create_array(
        tmp_path / "data.zarr", shape=(5000, 3), chunks=(777, 3), dtype=np.float64
    )
    array[:] = np.random.default_rng(2).uniform(-9, 9, (5000, 3))
    return str(tmp_path / "data.zarr")


def test_a_scheduler_is_found_by_its_file_and_by_the_configuration_of_dask(
    tmp_path: Path, data: str, scheduler: str
) -> None:
    file = tmp_path / "scheduler.json"
    with Client(scheduler, set_as_default=False) as client:
        client.write_scheduler_file(file)
    watched: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        made = Client.__init__
        patch.setattr(
            Client,
            "__init__",
            lambda self, *given, **more: (watched.append(given), made(self, *given, **more))[1],
        )
        fit(data, tmp_path / "threads.zarr", "--threads", "2")
        assert watched == []
        fit(data, tmp_path / "file.zarr", "--scheduler-file", str(file))
        with dask.config.set({"scheduler-address": scheduler}):
            fit(data, tmp_path / "configured.zarr")
            fit(data, tmp_path / "own.zarr", "--threads", "2")
        assert watched == [(scheduler,), (scheduler,)]
    for name in ("file", "configured", "own"):
        same_bytes(tmp_path / "threads.zarr", tmp_path / f"{name}.zarr")


def test_a_scheduler_file_that_is_half_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text('{"address": "tcp://127')
    with pytest.raises(
        InputError,
        match=r"no scheduler can be reached at .*json: the file holds no address of a sched",
    ):
        connect(None, None, None, None, 0.3, scheduler_file=str(file)).__enter__()
    whole = Timer(0.2, file.write_text, ['{"address": "tcp://127.0.0.1:1"}'])
    whole.start()
    with pytest.raises(NoWorkersError, match=r"within 0.6 s.* tcp://127.0.0.1:1"):
        connect(None, None, None, None, 0.6, scheduler_file=str(file)).__enter__()
    whole.join()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scheduler", "nowhere"], "no scheduler can be reached at nowhere: missing port number"),
        (
            ["--scheduler-file", "a", "--scheduler", "b"],
            "--scheduler and --scheduler-file both name a scheduler",
        ),
        (["--scheduler-file", "a", "--workers", "2"], "--scheduler names a running cluster"),
        (["--scheduler", ""], "--scheduler is empty: give a scheduler, or leave --scheduler out"),
        (["--scheduler-file", ""], "--scheduler-file is empty: give a scheduler"),
    ],
)
def test_wrong_use_of_the_scheduler_exits_2(
    tmp_path: Path, data: str, options: list[str], message: str
) -> None:
    result = CliRunner().invoke(
        main, ["fit", data, str(tmp_path / "run.zarr"), "--penalty", "30", *options]
    )
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "{data}", "out.zarr", "--penalty", "30"],
        [
            "hdp",
            "{data}",
            "out.zarr",
            "--groups",
            "{data}",
            "--local-penalty",
            "3",
            "--global-penalty",
            "3",
        ],
        ["kernel", "{data}", "out.zarr", "--penalty", "3"],
        ["spectral", "{data}", "out.zarr", "--penalty", "3"],
        ["graph", "{data}", "out.zarr", "--penalty", "-0.5"],
        ["penalty", "{data}", "-k", "3"],
        ["path", "{data}", "out.zarr"],
    ],
)
@pytest.mark.parametrize(
    "where", [["--scheduler", "tcp://127.0.0.1:1"], ["--scheduler-file", "nowhere.json"]]
)
def test_a_scheduler_that_is_not_there_yet_is_exit_code_3_and_writes_nothing(
    tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch, command: list[str], where: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [word.format(data=data) for word in command]
    result = CliRunner().invoke(main, [*words, *where, "--worker-timeout", "0.3"])
    assert result.exit_code == 3, result.output
    assert "no scheduler answers at" in " ".join(result.output.split())
    assert not Path("out.zarr").exists()


@pytest.mark.parametrize("silent", [0.05, 9.0])
def test_a_command_that_waits_for_a_scheduler_says_so(
    data: str, monkeypatch: pytest.MonkeyPatch, silent: float
) -> None:
    monkeypatch.setattr(compute, "SILENT", silent)
    where = ["--scheduler", "tcp://127.0.0.1:1", "--worker-timeout", "0.5"]
    result = CliRunner().invoke(main, ["fit", data, "out.zarr", "--penalty", "4", *where])
    told = "waiting for a scheduler at tcp://127.0.0.1:1 and for a worker, up to 0.5 s each\n"
    assert result.stderr.startswith(told) == (silent < 0.5), result.stderr
    assert "no scheduler answers at" in result.stderr


@pytest.mark.parametrize(
    "said", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.0 400 Bad Request\r\n\r\n" + b"x" * 999]
)
def test_what_answers_and_is_no_scheduler_is_waited_for_no_longer_than_one(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    open_connections.append(server.accept()[0])
                    open_connections[-1].sendall(said)

        open_connections: list[socket.socket] = []
        Thread(target=answer, daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(NoWorkersError, match=f"no scheduler answers at {address} within 1 s"):
            connect(address, None, None, None, 1.0).__enter__()
        for each in open_connections:
            each.close()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nowhere", "missing port number in address 'nowhere'"),
        ("nothing://127.0.0.1:1", "unknown address scheme 'nothing'"),
        ("tls://127.0.0.1:1", "tls:// needs certificates: give --tls-ca-file"),
    ],
)
def test_an_address_that_no_client_can_use_is_refused_before_one_is_made(
    monkeypatch: pytest.MonkeyPatch, address: str, why: str
) -> None:
    monkeypatch.setattr(
        cluster, "Client", None
    )  # what fails as it is made says so again, in a traceback, at the end
    with pytest.raises(InputError, match=f"no scheduler can be reached at {address}: {why}"):
        connect(address, None, None, None, 1.0).__enter__()


def test_a_worker_without_the_package_is_named_at_once(tmp_path: Path, data: str) -> None:
    (tmp_path / "lacking").mkdir()
    (tmp_path / "lacking/sitecustomize.py").write_text(LACKING)
    file = tmp_path / "scheduler.json"
    processes = [start_scheduler(file)]
    options = ["--host", "127.0.0.1", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    places = "--scheduler-file", file, "--local-directory", tmp_path
    processes.append(start("worker", *options, *places, PYTHONPATH=str(tmp_path / "lacking")))
    try:
        options = ["--penalty", "30", "--scheduler-file", str(file)]
        result = CliRunner().invoke(main, ["fit", data, str(tmp_path / "run.zarr"), *options])
        assert result.exit_code == 2, result.output
        said = " ".join(result.output.split())
        assert "the cluster does not run what this process runs: worker tcp://127.0.0.1:" in said
        assert "has no dask-dpmeans. Start scheduler, workers and job from one environment" in said
        assert not (tmp_path / "run.zarr").exists()
    finally:
        for process in processes:  # what lacks a package may also fail to end when asked to
            process.kill()
            process.communicate(timeout=60)


def test_workers_are_told_while_the_client_refreshes_what_it_keeps(scheduler: str) -> None:
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
        Client(scheduler, set_as_default=False) as client,
    ):
        assert {len(workers_of(client)) for _ in range(300)} == {2}


def test_workers_that_left_while_versions_were_asked_for_are_waited_for(scheduler: str) -> None:
    with Client(scheduler, set_as_default=False) as client, pytest.MonkeyPatch.context() as patch:
        answers = [{}, workers_of(client)]
        patch.setattr(cluster, "workers_of", lambda client: answers.pop(0))
        assert cluster_resources(client).threads == 2
        assert not answers


@pytest.mark.parametrize(
    ("where", "package", "version", "message"),
    [
        ("scheduler", "zarr", "3.0.0", "the scheduler has zarr 3.0.0, not"),
        ("scheduler", "python", "3.1.4.final.0", "the scheduler has python 3.1, not"),
        ("workers", "dask-dpmeans", "0.0.1", "has dask-dpmeans 0.0.1, not"),
        ("workers", "numpy", None, "has no numpy"),
        ("workers", "pandas", "0.1", None),
    ],
)
def test_versions_that_differ_are_refused(
    scheduler: str, where: str, package: str, version: str | None, message: str | None
) -> None:
    with Client(scheduler, set_as_default=False) as client, pytest.MonkeyPatch.context() as patch:
        found = client.get_versions(packages=PACKAGES)
        changed = found[where] if where == "scheduler" else next(iter(found[where].values()))
        changed["packages"][package] = version
        patch.setattr(client, "get_versions", lambda packages: found)
        with (
            nullcontext() if message is None else pytest.raises(VersionsDifferError, match=message)
        ):
            check_versions(client)


def raises_import_error(shared: object) -> None:
    raise ModuleNotFoundError("No module named 'dask_dpmeans'")


def test_a_worker_that_came_later_without_the_package_is_named(scheduler: str) -> None:
    with Client(scheduler, set_as_default=False) as client, pytest.MonkeyPatch.context() as patch:
        tasks = DaskTasks(client, 2)
        with pytest.raises(ModuleNotFoundError):
            tasks.run([raises_import_error], None, "run")
        found = client.get_versions(packages=PACKAGES)
        next(iter(found["workers"].values()))["packages"]["dask-dpmeans"] = None
        patch.setattr(client, "get_versions", lambda packages: found)
        with pytest.raises(VersionsDifferError, match="has no dask-dpmeans"):
            tasks.run([raises_import_error], None, "run")
