"""Errors and results in the words of the command line."""

import ast
import asyncio
import gc
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans.checks import format_hundredths
from dask_dpmeans.cli import group, homes, main
from dask_dpmeans.cli.group import FEW, HEADINGS, in_options, short_logs

KNOWN = {"missing", "divergence", "search", "effort", "gap_tol", "clusters", "max_clusters"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    centers = np.repeat([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 9.0]], 50, axis=0)
    np.save("rows.npy", centers + np.random.default_rng(0).normal(size=(150, 3)))
    return tmp_path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


def test_an_error_without_a_message_is_logged_by_its_name(caplog: pytest.LogCaptureFixture) -> None:
    with short_logs():
        try:
            raise asyncio.CancelledError
        except asyncio.CancelledError as error:
            logging.getLogger("distributed.client").exception(error)
    assert [(each.getMessage(), each.exc_info) for each in caplog.records] == [
        ("CancelledError", None)
    ]


async def abandon() -> None:
    async def request() -> None:
        await asyncio.get_running_loop().create_future()

    asyncio.ensure_future(request())  # noqa: RUF006 (that nobody holds it is the point)
    await asyncio.sleep(0)


def test_requests_that_were_abandoned_are_not_told_after_a_command_has_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger, told = logging.getLogger("asyncio"), []
    logger.removeFilter(group._is_other)  # of a command before
    loop = asyncio.new_event_loop()
    for _ in range(2):
        loop.run_until_complete(abandon())
        gc.collect()  # as the end of a process does
        told.append([each.getMessage().partition("\n")[0] for each in caplog.records])
        caplog.clear()
        with short_logs():
            pass
    loop.close()
    logger.error("another error")
    assert told == [["Task was destroyed but it is pending!"], []]
    assert [each.getMessage() for each in caplog.records] == ["another error"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("penalty", "rows.npy"), "stopped: the same command begins anew\n"),
        (
            ("export", "run.zarr", "out.json"),
            "stopped: the same command begins anew, with --force if its output was begun\n",
        ),
    ],
)
def test_a_stopped_command_names_force_if_it_has_that_option(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(click.Command, "invoke", stop)
    answer = call(*words)
    assert answer.exit_code == 3
    assert answer.output.endswith(told)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("use DPMeans with missing='observed'", "use DPMeans with --missing observed"),
        (
            "as impute of DPMeans(missing='observed') does",
            "as impute of DPMeans with --missing observed does",
        ),
        (
            "HDPMeans(divergence={'a': 'categorical', 'b': 'x'})",
            "HDPMeans with --divergence a=categorical,b=x",
        ),
        (
            "HDPMeans(divergence={'a': 'categorical', ...})",
            "HDPMeans(divergence={'a': 'categorical', ...})",
        ),
        ("gap_tol needs effort='best'", "--gap-tol needs --effort best"),
        ("need search=True: with search=False", "need --search: with search=False"),
        ("must be 'auto' with n_clusters", "must be 'auto' with --clusters"),
        (
            "the file my_max_clusters.npy of max_clusters/a",
            "the file my_max_clusters.npy of max_clusters/a",
        ),
        ("pandas.read_csv('t', missing='x')", "pandas.read_csv('t', missing='x')"),
        ("give init='mean' and max_iter", "give init='mean' and max_iter"),
        ("missing='c' or --missing c", "missing='c' or --missing c"),
        ('give effort="best"', "give --effort best"),
        ("more than max_clusters=10: give", "more than --max-clusters 10: give"),
        ("gap_tol=-2.5e-05, and", "--gap-tol -2.5e-05, and"),
        ("max_clusters=1,000 of them", "max_clusters=1,000 of them"),
    ],
)
def test_parameters_are_told_as_options_of_the_command(message: str, told: str) -> None:
    assert in_options(message, KNOWN) == told


@given(st.text("abc =_'().{}:", max_size=60))
def test_a_command_without_options_changes_no_message(message: str) -> None:
    assert in_options(message, ()) == message


@pytest.mark.parametrize(
    ("given", "meant"), [("linkage", "shapes"), ("graph-cut", "graph"), ("predit", "predict")]
)
def test_a_command_by_another_name_is_pointed_to(given: str, meant: str) -> None:
    assert f"No such command '{given}'. Did you mean '{meant}'?" in call(given).stderr
    for other in ("anything", "-", "d"):
        assert "Did you mean" not in call(other).stderr


needs_full = pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="this system has no /dev/full"
)


def call_without_room(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command whose standard output has no room."""
    command = [sys.executable, "-m", "dask_dpmeans", *arguments]
    with open("/dev/full", "w") as full:
        return subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)


@needs_full
@pytest.mark.parametrize(
    "command", ["fit rows.npy run.zarr --penalty 30", "path rows.npy run.zarr"]
)
def test_an_output_that_cannot_be_printed_is_finished_and_says_so(command: str) -> None:
    told = call_without_room(*command.split())
    assert told.returncode == 1  # 3 would have a batch system try again
    assert told.stderr.endswith("run.zarr is finished\n")
    assert "Error: the output cannot be printed: No space left on device: make room" in told.stderr
    assert call("show", "run.zarr").exit_code == 0


@needs_full
def test_a_fit_that_cannot_print_its_steps_stops_and_resumes() -> None:
    command = ["fit", "rows.npy", "run.zarr", "--penalty", "30", "--json"]
    told = call_without_room(*command)
    assert told.returncode == 3
    begin = (
        "Error: the output cannot be printed: No space left on device: make room; the same command"
    )
    assert told.stderr.startswith(f"{begin} with --resume goes on")
    assert call(*command, "--resume").exit_code == 0


@needs_full
@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "rows.npy", "run.zarr", "--penalty", "30", "--dry-run"],
        ["penalty", "rows.npy", "-k", "2"],
    ],
)
def test_results_that_cannot_be_printed_are_one_line(arguments: list[str]) -> None:
    told = call_without_room(*arguments)
    assert told.returncode == 1  # nothing is to be resumed
    assert told.stderr == "Error: the output cannot be printed: No space left on device\n"


@pytest.mark.parametrize(
    "program", sorted(Path(group.__file__).parent.glob("*.py")), ids=lambda p: p.stem
)
def test_only_one_function_writes_to_the_standard_output(program: Path) -> None:
    calls = [
        each for each in ast.walk(ast.parse(program.read_text())) if isinstance(each, ast.Call)
    ]
    echoes = [each for each in calls if ast.unparse(each.func) == "click.echo"]
    to_output = [each for each in echoes if "err=True" not in ast.unparse(each)]
    assert len(to_output) == (program.stem == "group")


@needs_full
@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["fit", "--help"], ["show", "--help"]]
)
def test_help_that_cannot_be_printed_is_one_line(arguments: list[str]) -> None:
    told = call_without_room(*arguments)
    assert told.returncode == 1
    assert told.stderr == "Error: the output cannot be printed: No space left on device\n"


@pytest.mark.parametrize("name", sorted(homes()))
def test_each_command_prints_its_help_as_all_results(name: str) -> None:
    ctx = click.Context(main)
    command = main.get_command(ctx, name)
    assert isinstance(command, group.CommandWithHeadings)
    option = command.get_help_option(ctx)
    assert option is not None
    assert option.callback is group._print_help


def test_a_fit_whose_output_nobody_reads_says_nothing() -> None:
    command = [sys.executable, "-m", "dask_dpmeans", "fit", "rows.npy", "run.zarr"]
    reading, writing = os.pipe()
    os.close(reading)
    told = subprocess.run(
        [*command, "--penalty", "30"], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert told.returncode == 1
    assert "rror" not in told.stderr
    assert call("show", "run.zarr").exit_code == 0


def test_a_run_without_centers_is_no_start_and_is_named_by_its_path() -> None:
    call("kernel", "rows.npy", "kernel.zarr", "--penalty", 0.5)
    said = call("fit", "rows.npy", "run.zarr", "--penalty", 4, "--init", "kernel.zarr")
    assert f"got '{Path('kernel.zarr').resolve()}', which has no centers" in said.stderr


def test_show_tells_of_rows_of_light_clusters() -> None:
    np.save("light.npy", np.repeat([[0.0], [50.0], [99.0]], [5, 3, 2], axis=0))
    said = call("fit", "light.npy", "run.zarr", "--penalty", 4, "--min-cluster-weight", 4)
    assert "label -1    rows of 2 clusters lighter than 4 (50.00% of all)\n" in said.stdout


def test_errors_of_commands_name_their_options() -> None:
    Path("kinds.csv").write_text("kind,size\nred,1\nblue,2\n")
    Path("holes.csv").write_text("age,size\n,1\n3,2\n")
    cases = {
        ("fit", "kinds.csv"): "with DPMeans or HDPMeans with --divergence kind=categorical",
        ("fit", "holes.csv"): "use DPMeans with --missing observed",
        ("fit", "rows.npy", "--gap-tol", 0.1): "--gap-tol needs --effort best, got --effort normal",
        (
            "fit",
            "rows.npy",
            "--penalty",
            4,
            "--outlier-share",
            0.1,
        ): "--outlier-share need --search:",
        (
            "shapes",
            "rows.npy",
            "--penalty",
            -0.5,
            "--clusters",
            3,
        ): "must be 'auto' with --clusters",
        ("fit", "rows.npy", "--clusters", 3): "penalty DATA -k 3 finds the price of 3 clusters",
    }
    for (command, data, *options), told in cases.items():
        said = call(command, data, "run.zarr", *options)
        assert (said.exit_code, told in " ".join(said.stderr.split())) == (2, True), said.stderr


def test_too_many_clusters_of_a_chosen_penalty_name_both_ways_out() -> None:
    said = call("fit", "rows.npy", "run.zarr", "--max-clusters", 2, "--seed", 0)
    assert "give a higher penalty, or a higher --max-clusters" in said.stderr


def test_the_time_of_a_fit_says_what_it_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    # from before the command's module is loaded
    monkeypatch.setattr("dask_dpmeans.cli.group.perf_counter", lambda: 100.0)
    monkeypatch.setattr("dask_dpmeans.cli.progress.perf_counter", lambda: 3761.5)
    fitted = call("fit", "rows.npy", "run.zarr", "--penalty", 30, "--seed", 0).stdout
    lines = dict(line.split(maxsplit=1) for line in fitted.splitlines())
    assert lines["time"] == "1:01:01 for the whole command"
    steps = r"\d+, converged; the steps alone took \d:\d\d:\d\d"
    assert re.fullmatch(steps, lines["steps"])
    assert lines["passes"].removesuffix(" over the rows").isdecimal()
    shown = call("show", "run.zarr").stdout
    assert shown == fitted.replace(f"{'time':<11} {lines['time']}\n", "")


def test_passes_have_decimals_only_where_they_need_them() -> None:
    assert [format_hundredths(each) for each in (67.0, 4.5, 1234.0, 0.125)] == [
        "67",
        "4.50",
        "1,234",
        "0.12",
    ]


def test_a_spectral_run_tells_one_eigenvalue_once_and_its_bound_in_words() -> None:
    fitted = call("spectral", "rows.npy", "run.zarr", "--penalty", 5000, "--seed", 0).stdout
    lines = dict(line.split(maxsplit=1) for line in fitted.splitlines())
    assert lines["affinity"].startswith("linear, 1 eigenvalue above 5000: ")
    assert " to " not in lines["affinity"]
    assert (
        "at most for any clustering: affinity within clusters less 5000 a cluster"
        in lines["relaxed"]
    )


def test_other_columns_are_an_error_without_a_warning_about_names() -> None:
    Path("named.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    assert call("fit", "named.csv", "run.zarr", "--penalty", 1).exit_code == 0
    np.save("two.npy", np.ones((4, 2)))
    said = call("predict", "run.zarr", "two.npy", "out.zarr")
    assert said.exit_code == 2
    assert said.stderr == "Error: data has 2 columns, the run was fitted on 3\n"


@pytest.mark.parametrize(
    ("values", "told"), [("0 1 2", False), ("7 8 9", False), ("5 3 1", True), ("x y z", True)]
)
def test_a_first_column_without_a_name_is_told_unless_it_counts_rows(
    caplog: pytest.LogCaptureFixture, values: str, told: bool
) -> None:
    lines = [f"{each},{number}.5" for number, each in enumerate(values.split())]
    Path("rows.csv").write_text("\n".join([",size", *lines]))
    with caplog.at_level(logging.WARNING, "dask_dpmeans"):
        said = call("fit", "rows.csv", "run.zarr", "--penalty", 100)
    assert said.exit_code == 0
    assert ("the first column of" in caplog.text and "rows.csv has no name" in caplog.text) == told


def test_a_misspelt_command_names_the_one_that_is_near() -> None:
    done = CliRunner().invoke(main, ["fitt", "rows.npy", "run.zarr"])
    assert done.exit_code == 2
    assert "No such command 'fitt'. Did you mean 'fit'?" in done.output
    assert "Did you mean" not in CliRunner().invoke(main, ["xyzzy"]).output


COMMANDS = sorted(homes())


def sections(name):
    """The help of a command, by heading."""
    found = CliRunner().invoke(main, [name, "--help"]).output
    parts, title = {"": []}, ""
    for line in found.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            title = line[:-1]
            parts[title] = []
        parts[title].append(line)
    return {title: "\n".join(lines) for title, lines in parts.items()}


def options(name):
    context = click.Context(main)
    command = main.get_command(context, name)
    return [each for each in command.get_params(context) if isinstance(each, click.Option)]


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_of_a_command_is_told_once_and_many_are_under_headings(name):
    parts, given = sections(name), options(name)
    for option in given:
        told = [title for title, text in parts.items() if f"\n  {_first(option)}" in text]
        assert len(told) == 1, option.name
        names = HEADINGS.get(told[0], "").split()
        if len(given) > FEW:
            assert (option.name in names) == (told[0] != "Options")
    assert (len(parts) > 2) == (len(given) > FEW)


def _first(option):
    return ", ".join(sorted(option.opts, key=len))


def test_what_most_people_need_comes_first_in_the_help_of_fit():
    first = sections("fit")["Options"]
    for name in ("--penalty", "--search", "--columns", "--scale", "--seed", "--resume", "--force"):
        assert f"\n  {name} " in first
    assert "--tls-key" not in first


def test_every_heading_holds_options_that_some_command_has():
    known = {option.name for name in COMMANDS for option in options(name)}
    for names in HEADINGS.values():
        assert set(names.split()) <= known
