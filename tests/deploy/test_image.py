"""The steps of the Dockerfile, carried out here in fresh virtual environments, and the pins that they install."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from targets import DEPLOY, download

ROOT = DEPLOY.parent
EXTRAS = ("plot", "parquet", "deploy")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and what follows each."""
    lines = [
        line
        for line in (DEPLOY / "Dockerfile").read_text().splitlines()
        if not line.startswith("#")
    ]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines())
        if word
    ]


def pins() -> dict[str, str]:
    """The version of each package in the constraints."""
    lines = (DEPLOY / "constraints.txt").read_text().split()
    return {
        canonicalize_name(name): version for name, version in (line.split("==") for line in lines)
    }


def requirements() -> list[Requirement]:
    """What the package in the image needs, as pyproject.toml has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    return [
        Requirement(each)
        for each in project["dependencies"] + [one for name in EXTRAS for one in extras[name]]
    ]


def test_every_requirement_of_the_image_is_pinned_within_its_bounds() -> None:
    pinned = pins()
    assert len(pinned) > len(requirements())
    for requirement in requirements():
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"


def test_the_image_has_these_requirements_and_its_user_is_nobody() -> None:
    said = instructions()
    assert any(
        f'".[{",".join(EXTRAS)}]"' in rest and "--constraint constraints.txt" in rest
        for _, rest in said
    )
    assert ("USER", "10001:10001") in said
    bases = {rest.split()[0] for word, rest in said if word == "FROM"}
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm", bases.pop())


def test_the_context_holds_what_is_copied_and_nothing_else() -> None:
    kept = {
        line[1:]
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line[0] == "!"
    }
    copied = [
        rest.split()[:-1]
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
    ]
    assert {source for sources in copied for source in sources} == kept


@dataclass
class Image:
    """A folder that stands for the root of an image, and a virtual environment that stands for its Python."""

    root: Path
    python: Path
    environment: dict[str, str]
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder = self.root

    def here(self, text: str) -> str:
        """A text with the image's paths as paths of this machine."""
        return re.sub(r"(?<![\w.])/(opt|source|data|scratch)\b", rf"{self.root}/\1", text)

    def carry_out(self, word: str, rest: str) -> None:
        """Do what an instruction says."""
        getattr(self, f"_{word.lower()}")(rest)

    def call(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        """Run a command in the image."""
        path = shutil.which(words[0], path=self.environment["PATH"])
        assert path is not None, words[0]
        command = [path, *words[1:]]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            **options,
        )

    def _from(self, rest: str) -> None:
        self.folder = self.root

    def _workdir(self, rest: str) -> None:
        self.folder = Path(self.here(rest))
        self.folder.mkdir(exist_ok=True)

    def _run(self, rest: str) -> None:
        done = self.call("bash", "-ec", self.here(rest))
        assert done.returncode == 0, done.stderr

    def _copy(self, rest: str) -> None:
        *sources, target = rest.split()
        if sources[0].startswith("--from="):
            assert sources[1:] == [target], (
                "an environment works where it was made, and nowhere else"
            )
            return
        for source in sources:
            path, to = ROOT / source, self.folder / target
            if path.is_dir():
                shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(path, to)

    def _env(self, rest: str) -> None:
        for pair in shlex.split(rest):
            name, _, value = pair.partition("=")
            self.environment[name] = self.here(value).replace("$PATH", self.environment["PATH"])

    def _user(self, rest: str) -> None:
        assert rest

    def _cmd(self, rest: str) -> None:
        done = self.call(*json.loads(rest))
        assert done.returncode == 0, done.stderr


pytestmark = pytest.mark.timeout(900)  # for all packages


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """What the Dockerfile makes."""
    root = tmp_path_factory.mktemp("image")
    (root / "opt").mkdir()
    subprocess.run([sys.executable, "-m", "venv", str(root / "base")], check=True)
    download("toolz", root / "tried")
    environment = dict(os.environ) | {"PATH": f"{root}/base/bin:/usr/bin:/bin"}
    for name in ("PYTHONPATH", "VIRTUAL_ENV"):
        environment.pop(name, None)
    made = Image(root, root / "base" / "bin" / "python", environment)
    for word, rest in instructions():
        made.carry_out(word, rest)
    return made


def test_the_image_holds_the_pins_no_more_no_less(image: Image) -> None:
    python = str(image.root / "opt" / "dpmeans" / "bin" / "python")
    words = [sys.executable, "-m", "pip", "--python", python, "list", "--format", "json"]
    said = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    found = {canonicalize_name(each["name"]): each["version"] for each in said}
    found.pop("dask-dpmeans")
    assert found == pins()


def test_nothing_that_installs_is_left_in_the_image(image: Image) -> None:
    for python in (image.python, image.root / "opt" / "dpmeans" / "bin" / "python"):
        for module in ("pip", "setuptools"):
            done = subprocess.run(
                [python, "-c", f"import {module}"], capture_output=True, text=True
            )
            assert f"No module named '{module}'" in done.stderr


def test_a_fit_in_the_image_compiles_and_writes_to_its_two_folders_alone(image: Image) -> None:
    rows = np.random.default_rng(0).random(
        (300_000, 3), np.float32
    )  # in fewer clusters nothing is compiled
    np.save(image.root / "data" / "rows.npy", rows)
    before = written(image.root)
    done = image.call(
        "dask-dpmeans", "fit", "rows.npy", "run.zarr", "--penalty", "0.003", "--threads", "1"
    )
    assert done.returncode == 0, done.stderr
    assert image.folder == image.root / "data"
    assert {path.parts[0] for path in written(image.root) - before} == {"data", "scratch"}
    assert list((image.root / "scratch" / "numba").rglob("*.nbi"))


def written(root: Path) -> set[Path]:
    """All files below a folder."""
    return {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
