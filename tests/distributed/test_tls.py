"""The cluster's door: a scheduler that speaks TLS alone, and asks for certificates."""

import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from distributed import Security

from dask_dpmeans import load
from dask_dpmeans.cli import main


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """A refused client of distributed leaves a socket, which would be told in whichever test collects it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@dataclass
class Door:
    """A scheduler with a worker, and the files that open it."""

    address: str
    files: dict[str, str]

    def options(self, **other: str) -> list[str]:
        return [
            word for name, file in (self.files | other).items() for word in (f"--tls-{name}", file)
        ]


def written(folder: Path) -> dict[str, str]:
    """An authority, a certificate of it and the key, as files."""
    made, folder = Security.temporary(), Path(folder)
    folder.mkdir(exist_ok=True)
    parts = {"ca-file": made.tls_ca_file, "cert": made.tls_client_cert, "key": made.tls_client_key}
    for name, text in parts.items():
        (folder / f"{name}.pem").write_text(text)
    return {name: str(folder / f"{name}.pem") for name in parts}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("door")
    files, said = written(folder), folder / "scheduler.json"
    secure = [word for name, file in files.items() for word in (f"--tls-{name}", file)]

    def start(*arguments: str) -> subprocess.Popen:
        command = [
            sys.executable,
            "-m",
            "dask",
            *arguments,
            *secure,
            "--no-dashboard",
            "--scheduler-file",
            str(said),
        ]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    scheduler = start("scheduler", "--protocol", "tls", "--host", "127.0.0.1", "--port", "0")
    worker = start(
        "worker",
        "--protocol",
        "tls",
        "--host",
        "127.0.0.1",
        "--nthreads",
        "1",
        "--memory-limit",
        "1GB",
    )
    try:
        for _ in range(600):
            if said.exists() and said.read_text().endswith("}"):
                break
            sleep(0.1)
        address = next(part for part in said.read_text().split('"') if part.startswith("tls://"))
        yield Door(address, files)
    finally:
        for process in (worker, scheduler):
            process.terminate()
        for process in (worker, scheduler):
            process.wait(timeout=60)


@pytest.fixture
def data(tmp_path: Path) -> str:
    array = zarr.create_array(
        tmp_path / "data.zarr", shape=(3000, 2), chunks=(500, 2), dtype=np.float64
    )
    array[:] = np.random.default_rng(0).uniform(-9, 9, (3000, 2))
    return str(tmp_path / "data.zarr")


def fit(data: str, run: Path, *options: str, code: int = 0) -> str:
    result = CliRunner().invoke(
        main, ["fit", data, str(run), "--penalty", "30", "--seed", "0", *options]
    )
    assert result.exit_code == code, result.output
    return result.output


def test_a_fit_through_the_door_gives_the_bytes_of_threads(
    door: Door, data: str, tmp_path: Path
) -> None:
    fit(data, tmp_path / "threads.zarr", "--threads", "1")
    fit(data, tmp_path / "tls.zarr", "--scheduler", door.address, *door.options())
    one, other = load(tmp_path / "threads.zarr"), load(tmp_path / "tls.zarr")
    assert one.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
    assert one.labels_.compute().tobytes() == other.labels_.compute().tobytes()


def test_a_client_without_certificates_is_not_let_in(door: Door, data: str, tmp_path: Path) -> None:
    said = fit(
        data, tmp_path / "run.zarr", "--scheduler", door.address, "--worker-timeout", "2", code=2
    )
    assert "no scheduler can be reached at tls://127.0.0.1:" in said
    assert "--tls-ca-file, --tls-cert and --tls-key" in said
    assert not (tmp_path / "run.zarr").exists()


def test_certificates_of_another_authority_are_not_let_in(
    door: Door, data: str, tmp_path: Path
) -> None:
    others = [
        word
        for name, file in written(tmp_path / "others").items()
        for word in (f"--tls-{name}", file)
    ]
    said = fit(
        data,
        tmp_path / "run.zarr",
        "--scheduler",
        door.address,
        "--worker-timeout",
        "2",
        *others,
        code=3,
    )
    assert "no scheduler answers at tls://127.0.0.1:" in said


def test_a_scheduler_that_does_not_encrypt_is_not_spoken_to(
    door: Door, data: str, tmp_path: Path
) -> None:
    plain = door.address.replace("tls://", "tcp://")
    said = fit(
        data,
        tmp_path / "run.zarr",
        "--scheduler",
        plain,
        "--worker-timeout",
        "2",
        *door.options(),
        code=2,
    )
    assert f"no scheduler can be reached at {plain}" in said


def test_files_that_are_not_there_are_named(door: Door, data: str, tmp_path: Path) -> None:
    options = door.options(key=str(tmp_path / "lost.pem"))
    assert "there is no file" in fit(
        data, tmp_path / "run.zarr", "--scheduler", door.address, *options, code=2
    )


@pytest.mark.parametrize(
    "words", [("--tls-cert", "a.pem"), ("--tls-ca-file", "a", "--tls-cert", "b", "--tls-key", "c")]
)
def test_certificates_go_together_and_with_a_scheduler(
    data: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    said = fit(data, tmp_path / "run.zarr", *words, code=2)
    assert "--tls-ca-file, --tls-cert and --tls-key go together, with a --scheduler" in said
