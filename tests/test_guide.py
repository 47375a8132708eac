"""The code in the README and in the guide runs, page by page; and the guide names what there is."""

import importlib
import inspect
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, is_typeddict
from unittest import mock

import click
import pytest
from click.testing import CliRunner
from distributed import Client
from packaging.version import Version
from s3_server import SECRET, s3_server

import dask_dpmeans
from dask_dpmeans.cli import main
from dask_dpmeans.kernels.metrics import METRICS
from dask_dpmeans.registry import METHODS

ROOT = Path(__file__).parent.parent
GUIDE = ROOT / "examples" / "guide"
PACKAGE = ROOT / "dask_dpmeans"
FOLDERS = [
    *("examples", "tests", "deploy", "dask_dpmeans", r"\.ci"),
    *(each.name for each in PACKAGE.iterdir() if each.is_dir()),
]
"""Folders whose files a page may name; a folder of the package may stand without the package's name."""
PAGES = [ROOT / "README.md", *sorted(GUIDE.glob("*.md"))]
NOT_RUN = "# not run by the tests: "
"""How a block begins that needs what the tests do not have."""
NEEDS = re.compile(r"# needs ([\w-]+) ([\d.]+)\n")
"""How a block begins that needs a newer version of a package than this one does."""
SCHEDULER = "tcp://10.0.0.5:8786"
"""The address in the guide for which a local scheduler stands in."""


class CodeBlock(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    """Of the page, from 1, at which the text starts."""


def blocks(page: Path) -> list[CodeBlock]:
    """The Python and bash blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(python|bash)\n(.*?)^```$", text, flags=re.M | re.S)
    return [CodeBlock(each[1], each[2], text[: each.start(2)].count("\n") + 1) for each in found]


def is_run_by_the_gate(block: CodeBlock) -> bool:
    """Whether `.ci/run` runs the block, in a virtual environment of its own."""
    return block.text.startswith("python -m venv ")


def commands(block: CodeBlock) -> list[list[str]]:
    """The words of each line of a bash block."""
    assert not re.search(r"[|;<>`$]", block.text), "only plain commands are checked"
    lines = block.text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def check_options(command: click.Command, words: list[str]) -> None:
    """Read the words as options and arguments of a command, which is not run."""
    with command.make_context(command.name, list(words)):
        pass


def check_install(words: list[str]) -> None:
    """Compare the extras of a `pip install` with those of the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"\[(.*?)\]", " ".join(words)):
        assert set(extras.split(",")) <= set(project["optional-dependencies"])


def check_command(words: list[str]) -> None:
    """Check a command that is not run: its name, its options and its files."""
    if words[0] == "dask-dpmeans":
        command = main.get_command(click.Context(main), words[1])
        assert command is not None, f"no such command: {shlex.join(words)}"
        check_options(command, words[2:])
    elif words[:2] == ["pip", "install"]:
        check_install(words[2:])
    else:
        assert words[0] == "python", f"a command that nothing checks: {shlex.join(words)}"
        module = runpy.run_path(str(ROOT / words[1]))
        check_options(module["main"], words[2:])


def run_command(words: list[str]) -> None:
    """Run a command of this package, and check any other."""
    if words[0] != "dask-dpmeans":
        return check_command(words)
    answer = CliRunner().invoke(main, words[1:])
    assert answer.exit_code == 0, f"{shlex.join(words)}\n{answer.output}"
    return None


def check_python(block: CodeBlock) -> None:
    """Compile a block that is not run, and find the names that it imports from this package."""
    compile(block.text, "block", "exec")
    for module, names in re.findall(
        r"^from (dask_dpmeans[\w.]*) import (.*)$", block.text, flags=re.M
    ):
        for name in names.split(", "):
            assert hasattr(importlib.import_module(module), name), name


def can_run(block: CodeBlock) -> bool:
    """Whether the tests have what the block says that it needs."""
    if block.text.startswith(NOT_RUN):
        return False
    needs = NEEDS.match(block.text)
    return needs is None or Version(version(needs[1])) >= Version(needs[2])


def run_block(page: Path, block: CodeBlock, names: dict[str, Any]) -> None:
    """Run a block, or check it if it cannot run here."""
    if is_run_by_the_gate(block):
        return
    run = can_run(block)
    if block.language == "bash":
        for words in commands(block):
            (run_command if run else check_command)(words)
    elif run:
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
        exec(code, names)
    else:
        check_python(block)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a local scheduler with one worker, both of them ended afterwards."""
    file = tmp_path_factory.mktemp("cluster") / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    options = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    quiet: dict[str, Any] = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": file.parent,
    }
    processes = [subprocess.Popen([*dask, "scheduler", "--port", "0", *options], **quiet)]
    processes.append(subprocess.Popen([*dask, "worker", "--nthreads", "2", *options], **quiet))
    try:
        with Client(scheduler_file=str(file), timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
            yield client.scheduler.address
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(timeout=60)


@pytest.fixture(scope="module")
def object_store() -> Iterator[str]:
    """The address of an S3 server on loopback, whose bucket is open to all."""
    with s3_server(ACL="public-read-write") as address:
        yield address


@pytest.fixture
def stand_ins(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, page: Path
) -> dict[str, str]:
    """What stands in for addresses of a page; a local S3 server is found by the environment."""
    text = "".join(block.text for block in blocks(page) if can_run(block))
    if "s3://" in text:
        monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("object_store"))
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return {SCHEDULER: request.getfixturevalue("scheduler")} if SCHEDULER in text else {}


@pytest.fixture
def tables() -> Iterator[None]:
    """Undo what a page adds to the tables of divergences and methods."""
    with mock.patch.dict(METRICS), mock.patch.dict(METHODS):
        yield


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, stand_ins: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        text = block.text
        for address, local in stand_ins.items():
            text = text.replace(address, local)
        run_block(page, block._replace(text=text), names)


def found(name: str) -> Path | None:
    """The file or folder that a page names, from the top or from the package."""
    places = ROOT / name, PACKAGE / name
    return next((place for place in places if place.exists()), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_commands_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", text):
        assert "NAME" in name or found(name) is not None, name
    for name, file in re.findall(r"`(\w+)` (?:of|in) `([\w/]+\.py)`", text):
        there = found(file)
        assert there is not None, file
        assert re.search(rf"\b{name}\b", there.read_text(encoding="utf-8")), (name, file)
    for command in re.findall(r"`(python\s(?:examples|tests)/\w[^`]*)`", text):
        words = shlex.split(command)
        assert (ROOT / words[1]).exists(), command
        if words[1].startswith("examples/"):
            check_command(words)
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        if not link.startswith("gallery/"):  # written as the site is built
            assert (page.parent / link).exists(), link


def test_the_readme_is_short_and_begins_with_the_two_commands_of_the_gate() -> None:
    readme = PAGES[0]
    assert len(readme.read_text(encoding="utf-8").splitlines()) <= 150
    bash = [block for block in blocks(readme) if block.language == "bash"]
    assert [is_run_by_the_gate(block) for block in bash[:3]] == [True, True, False]
    assert bash[0].text.endswith(".venv/bin/dask-dpmeans demo\n")
    assert " .venv/bin/pytest " in bash[1].text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dask-dpmeans fit data run --penalti 4", "[Nn]o such option"),
        ("dask-dpmeans kernel data run", "[Mm]issing parameter: penalty"),
        (
            "dask-dpmeans hdp data run --groups g --local-penalty x --global-penalty 1",
            "is not a number or auto",
        ),
    ],
)
def test_options_of_a_block_that_is_not_run_are_checked(text: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        run_block(GUIDE, CodeBlock("bash", f"{NOT_RUN}a reason\n{text}\n", 1), {})


def test_a_name_that_is_not_there_and_an_extra_that_is_not_are_found() -> None:
    with pytest.raises(AssertionError, match="DPMedians"):
        check_python(CodeBlock("python", "from dask_dpmeans import DPMeans, DPMedians\n", 1))
    with pytest.raises(AssertionError, match="fats"):
        check_install(["pip", "install", ".[fats]"])


def test_a_block_that_needs_a_newer_package_is_checked_alone() -> None:
    block = CodeBlock(
        "python", "# needs numpy 99.0\nfrom dask_dpmeans import DPMeans\nraise KeyError('ran')\n", 1
    )
    run_block(GUIDE, block, {})
    with pytest.raises(KeyError, match="ran"):
        run_block(GUIDE, block._replace(text=block.text.replace("99.0", "2.0")), {})


def test_the_gallery_gives_arguments_to_examples_that_are_there() -> None:
    names = re.findall(
        r'^    "(\w+\.py)": \[', (GUIDE / "conf.py").read_text(encoding="utf-8"), flags=re.M
    )
    assert len(names) > 5
    assert {name for name in names if not (ROOT / "examples" / name).exists()} == set()


def listed() -> dict[str, list[str]]:
    """The names that the API reference lists, by module."""
    found: dict[str, list[str]] = {}
    module = ""
    for line in (GUIDE / "reference.rst").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            found.setdefault(module, []).append(line.strip())
    return found


def public(module: Any) -> set[str]:
    """The functions and classes of a module for its users; types of keywords are not among them."""
    own = {
        name
        for name, each in vars(module).items()
        if getattr(each, "__module__", None) == module.__name__
    }
    names = getattr(module, "__all__", own)
    kinds = [
        name
        for name in names
        if inspect.isclass(each := getattr(module, name)) or inspect.isfunction(each)
    ]
    return {
        name
        for name in kinds
        if not name.startswith("_") and not is_typeddict(getattr(module, name))
    }


def test_the_reference_lists_every_public_name() -> None:
    assert public(dask_dpmeans) <= set(listed()["dask_dpmeans"])
    for name in ("selection.penalty", "selection.metrics", "selection.tree", "api.export"):
        module = f"dask_dpmeans.{name}"
        assert public(importlib.import_module(module)) == set(listed()[module]), module
    for name, names in listed().items():
        module = importlib.import_module(name)
        assert all(getattr(module, each).__doc__ for each in names)
