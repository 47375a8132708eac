"""What is said of a pass: often on a terminal, seldom in a log, and never by the thread that fits."""

import json
import sys
import threading
import warnings
from dataclasses import replace
from time import sleep

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.cli import main, progress
from dask_dpmeans.cli.progress import JsonLines, Pace, PlainLines, TerminalLine, describe_pass
from dask_dpmeans.engine.history import GAINS, MOVES, Record
from dask_dpmeans.sources import Pass

SCAN = Pass("scan", 250, 1000, "rows", 1.0)
FITS = Pass("path", 7, 79, "fits", 65.0, {"penalty": 31.4, "n_clusters": 1015})
RECORD = Record(
    objective=9.5,
    inertia=1.0,
    n_clusters=3,
    n_local_clusters=0,
    births=2,
    deaths=1,
    passes=3.0,
    seconds=0.5,
    **dict.fromkeys(MOVES, 0),
    **dict.fromkeys(GAINS, 0.0),
)


@pytest.fixture
def loud(monkeypatch):
    """No half minute of silence, and looks at once."""
    monkeypatch.setattr(progress, "QUIET", 0.0)
    for kind in (PlainLines, TerminalLine, JsonLines):
        monkeypatch.setattr(kind, "every", 0.001)


def until(said, wanted):
    """Wait for a word of the thread that says it."""
    for _ in range(6000):
        if wanted in said():
            return
        sleep(0.01)
    raise AssertionError(f"{wanted!r} was not said, but {said()!r}")


class Said:
    """What a stream got so far."""

    def __init__(self, capsys, name):
        self.capsys, self.name, self.text = capsys, name, ""

    def __call__(self):
        self.text += getattr(self.capsys.readouterr(), self.name)
        return self.text


def test_time_to_go_shrinks_while_nothing_is_told():
    assert describe_pass(SCAN) == "scan 25%  250 rows/s  0:00:03 to go"
    assert describe_pass(SCAN, since=2.0) == "scan 25%  250 rows/s  0:00:01 to go"
    assert describe_pass(SCAN, since=99.0) == "scan 25%  250 rows/s  0:00:00 to go"


def test_a_step_names_what_happened_in_it_and_nothing_else():
    calm = replace(RECORD, births=0, deaths=0)
    busy = replace(RECORD, births=1200, swaps=1)
    for record, wanted in (
        (calm, "step 2: k=3  J=9.5  2,000 rows/s  "),
        (busy, "step 2: k=3  J=9.5  births=1,200  deaths=1  swaps=1  2,000 rows/s  "),
    ):
        assert Pace(passes=2.0).describe(record, 1000, 2).startswith(wanted)


@pytest.mark.parametrize("total", [0, 10])
def test_of_a_pass_that_has_just_begun_no_pace_is_known(total):
    assert describe_pass(Pass("survey", 0, total, "rows", 0.0), since=2.5) == "survey  0:00:02"


def test_fits_of_unknown_number_are_counted():
    found = Pass("aim", 2, None, "fits", 5.0, {"penalty": 0.25, "n_clusters": 3})
    assert describe_pass(found) == "aim: 2 fits, the last at penalty 0.25: k=3  0:00:05"
    assert describe_pass(replace(found, done=1)).startswith("aim: 1 fit, the last")
    assert describe_pass(replace(found, done=0, total=1, last={})) == "aim: 0 of 1 fit  0:00:05"


def test_a_terminal_shows_the_pass_that_runs_and_then_the_step_that_stands(capsys, loud):
    said = Said(capsys, "err")
    with TerminalLine() as shown:
        shown.watch(SCAN)
        until(said, "scan 25%")
        shown.step(1, RECORD, 1000)
        shown.watch(Pass("label", 10, 1000, "rows", 1.0))
        until(said, "to go  step 1: k=3")
        shown.watch(Pass("label", 1000, 1000, "rows", 2.0))
    assert said().rpartition("\r")[2].startswith("step 1: k=3")
    assert said().endswith("\n")
    assert said().count("\n") == 1


def test_a_warning_stands_above_the_line_of_a_terminal(capsys, loud):
    said = Said(capsys, "err")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = before = lambda message, *_, **__: print(
            f"Warning: {message}", file=sys.stderr
        )
        with TerminalLine() as shown:
            warnings.warn("nothing is shown yet", stacklevel=1)
            shown.step(1, RECORD, 1000)
            warnings.warn("few rows", stacklevel=1)
        assert warnings.showwarning is before
    first, written, left, end = said().split("\n")
    assert first == "Warning: nothing is shown yet"
    assert left.startswith("\rstep 1: k=3")
    assert written == f"{left}\rWarning: few rows"
    assert end == ""


def test_a_terminal_that_saw_passes_alone_is_left_empty(capsys, loud):
    said = Said(capsys, "err")
    with TerminalLine() as shown:
        shown.watch(SCAN)
        until(said, "scan 25%")
        shown.watch(Pass("scan", 1000, 1000, "rows", 2.0))
    assert said().endswith("\r")


def test_a_terminal_keeps_the_last_fit_while_its_passes_run(capsys, loud):
    said = Said(capsys, "err")
    with TerminalLine() as shown:
        shown.watch(FITS)
        shown.watch(SCAN)
        until(said, "to go  path: 7 of 79 fits, the last at penalty")


def test_a_log_is_told_of_a_pass_only_after_silence(capsys, monkeypatch):
    monkeypatch.setattr(PlainLines, "every", 0.001)
    said = Said(capsys, "err")
    with PlainLines() as shown:
        shown.watch(SCAN)
        shown.step(1, RECORD, 1000)
        sleep(0.05)
        assert "scan" not in said()
        monkeypatch.setattr(progress, "QUIET", 0.0)
        until(said, "scan 25%")
    assert all(line.startswith(("scan", "step 1")) for line in said().splitlines())


def test_a_pass_that_is_over_is_not_spoken_of(capsys, loud):
    with PlainLines() as shown:
        shown.watch(Pass("scan", 1000, 1000, "rows", 1.0))
        sleep(0.05)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("found", [SCAN, FITS, Pass("aim", 0, None, "fits", 0.0)])
def test_programs_get_a_pass_as_json(capsys, loud, found):
    said = Said(capsys, "out")
    with JsonLines() as shown:
        shown.watch(found)
        until(said, "\n")
    event = json.loads(said().splitlines()[0])
    assert event.pop("event") == "pass"
    assert event == {**vars(found), "last": dict(found.last)}


@pytest.mark.parametrize("kind", [PlainLines, TerminalLine, JsonLines])
def test_nothing_runs_on_after_the_end_or_an_error(kind):
    def fail():
        with kind() as shown:
            shown.watch(SCAN)
            raise ZeroDivisionError("of the fit")

    before = threading.active_count()
    with pytest.raises(ZeroDivisionError, match="of the fit"):
        fail()
    assert threading.active_count() == before


def test_a_reader_that_is_gone_stops_the_words_and_no_more(monkeypatch, loud):
    tried = threading.Event()

    def gone(*_, **__):
        tried.set()
        raise BrokenPipeError("gone")

    monkeypatch.setattr(progress.click, "echo", gone)
    with PlainLines() as shown:
        shown.watch(SCAN)
        assert tried.wait(60)


def test_an_error_of_who_watches_leaves_a_run_that_goes_on(tmp_path):
    rows, run = np.random.default_rng(0).standard_normal((5000, 2)), tmp_path / "run.zarr"
    steps = []

    def failing(found):
        if len(steps) == 2 and found.name == "scan":
            raise ZeroDivisionError("of who watches")

    def fitted(target, **how):
        return fit(rows, target, DPMeans(1.0, tol=0, max_iter=20, random_state=0), threads=1, **how)

    with pytest.raises(ZeroDivisionError, match="of who watches"):
        fitted(run, on_pass=failing, on_step=lambda *step: steps.append(step))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        resumed, whole = fitted(run, resume=True), fitted(tmp_path / "whole.zarr")
    assert resumed.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    assert np.asarray(resumed.labels_).tobytes() == np.asarray(whole.labels_).tobytes()
    assert [record.objective for record in resumed.history_] == [
        record.objective for record in whole.history_
    ]


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Commands that say at once what they are told, on rows in the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress, "QUIET", 0.0)
    for kind in (PlainLines, JsonLines):
        monkeypatch.setattr(kind, "watch", lambda shown, found: shown.say_pass(found, 0.0))
    np.save("rows.npy", np.random.default_rng(0).standard_normal((500, 2)))

    def call(*command):
        result = CliRunner().invoke(main, [*command, "--threads", "1"])
        assert result.exit_code == 0, result.output
        return result

    return call


@pytest.mark.parametrize(
    ("command", "events"),
    [
        (["fit", "rows.npy", "run.zarr", "--penalty", "4"], {"step", "pass", "done"}),
        (["path", "rows.npy", "--penalties", "100,200", "--search"], {"pass", "path"}),
        (["penalty", "rows.npy", "-k", "3", "--search"], {"pass", "penalty"}),
    ],
)
def test_commands_speak_json_alone_and_of_passes_too(told, command, events):
    lines = told(*command, "--json").stdout.splitlines()
    assert {json.loads(line)["event"] for line in lines} == events


def test_predictions_tell_of_their_passes(told):
    told("fit", "rows.npy", "run.zarr", "--penalty", "4")
    said = told("predict", "run.zarr", "rows.npy", "labelled.zarr").stderr
    assert "survey 100%" in said
    assert "predict 100%" in said


def test_a_log_of_a_path_tells_which_penalty_was_fitted(told):
    said = told("path", "rows.npy", "--penalties", "100,200").stderr
    assert "path: 2 of 2 fits, the last at penalty 200: k=" in said
