"""What the manifests in `deploy` say, and the commands in them as processes of this machine."""

import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
import yaml
import zarr

DEPLOY = Path(__file__).parents[2] / "deploy"
BIN = Path(sys.executable).parent
MANIFESTS = ("daskjob.yaml", "daskcluster.yaml")
PORTS = "8786", "8787"
"""Of the scheduler in all manifests, and of its figures."""


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of a YAML file."""
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def services() -> dict[str, Any]:
    """The services of the Compose file."""
    return documents("compose.yaml")[0]["services"]


def pod_specs(manifest: str) -> dict[str, dict[str, Any]]:
    """Every pod that a manifest describes, by the name of its container."""
    found: dict[str, dict[str, Any]] = {}

    def look(part: Any) -> None:
        if isinstance(part, dict):
            if "containers" in part:
                found[part["containers"][0]["name"]] = part
            for each in part.values():
                look(each)

    for document in documents(f"kubernetes/{manifest}"):
        look(document)
    return found


def containers(manifest: str) -> dict[str, dict[str, Any]]:
    """Their containers."""
    return {name: pod["containers"][0] for name, pod in pod_specs(manifest).items()}


def commands(target: str) -> dict[str, list[str]]:
    """The commands of the scheduler, a worker and the job."""
    if target == "compose.yaml":
        return {name: shlex.split(service["command"]) for name, service in services().items()}
    return {name: container["args"] for name, container in containers(target).items()}


@dataclass
class Machine:
    """This machine in the place of a cluster."""

    folder: Path
    """What /data and /scratch are folders of."""
    environment: dict[str, str]
    ports: dict[str, str] = field(
        default_factory=lambda: dict(zip(PORTS, free_ports(2), strict=True))
    )
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def local(self, words: list[str], number: int = 0) -> list[str]:
        """A command of a manifest with folders, hosts and ports of this machine, and not another word changed."""
        port, figures = self.ports["8786"], self.ports["8787"]
        text = "\0".join(words)
        text = re.sub(r"(?<=\0)[a-z-]*scheduler:8786", f"127.0.0.1:{port}", text)
        text = text.replace("\0008786", f"\0{port}").replace("\0:8787", f"\000127.0.0.1:{figures}")
        text = re.sub(r"\0/(data|scratch)", rf"\0{self.folder}/\1", text).replace(
            "$(DASK_WORKER_NAME)", f"w{number}"
        )
        host = ["--host", "127.0.0.1"] if words[0] == "dask" else []
        return [*text.split("\0"), *host]

    def start(self, words: list[str], number: int = 0, **environment: str) -> subprocess.Popen[str]:
        """Start a command of a manifest."""
        command = self.local(words, number)
        with (self.folder / f"{words[1]}-{number}.log").open("a") as log:
            process = subprocess.Popen(
                [str(BIN / command[0]), *command[1:]],
                env=self.environment | environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.processes.append(process)
        return process

    def said(self, name: str) -> str:
        """What a process wrote to its standard error."""
        return (self.folder / f"{name}.log").read_text()

    def figures(self, path: str) -> str:
        """What the scheduler answers to a probe, once it does."""
        end = monotonic() + 60
        while True:
            try:
                with urlopen(f"http://127.0.0.1:{self.ports['8787']}{path}", timeout=5) as answer:
                    return answer.read().decode()
            except OSError:
                if monotonic() > end:
                    raise
                sleep(0.2)

    def end(self) -> None:
        """End what was started, the scheduler last."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.communicate(timeout=60)


@contextmanager
def machine(folder: Path, environment: dict[str, str]) -> Iterator[Machine]:
    """This machine, on which nothing is left running afterwards."""
    (folder / "data").mkdir()
    here = Machine(folder, environment)
    try:
        yield here
    finally:
        here.end()


def download(requirement: str, folder: Path) -> Path:
    """The wheel of a package; the test is skipped where none can be had."""
    words = [
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        requirement,
    ]
    if subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True).returncode:
        pytest.skip(f"{requirement} cannot be had here")
    (wheel,) = folder.glob("*.whl")
    return wheel


def free_ports(number: int) -> list[str]:
    """Ports of loopback that nobody listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [str(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def write_rows(store: Path) -> None:
    """Rows that take a fit some ten steps."""
    draw = np.random.default_rng(0)
    blobs = draw.uniform(-9, 9, (12, 2))[draw.integers(12, size=20_000)] + draw.normal(
        scale=0.5, size=(20_000, 2)
    )
    rows = zarr.open_group(store, mode="w").create_array(
        "rows", shape=blobs.shape, chunks=(5000, 2), dtype="f4"
    )
    rows[:] = blobs
