"""Runs whose penalty is chosen: what they keep, how they resume, and what the command line shows of them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner, Result
from sklearn.exceptions import ConvergenceWarning
from test_schemas import schema

from dask_dpmeans import (
    CorruptStoreError,
    DPMeans,
    HDPMeans,
    InputError,
    KernelDPMeans,
    LinkageDPMeans,
    TooManyClustersError,
    dry_run,
    fit,
    load,
    predict,
)
from dask_dpmeans.cli import main
from dask_dpmeans.methods.dpmeans import auto_penalty, chooser, clouds, search, summary
from dask_dpmeans.methods.dpmeans.auto_penalty import AutoPenalty
from dask_dpmeans.methods.dpmeans.choice import Choice
from dask_dpmeans.storage.arrays import MARKER, sign_attributes

MEANS = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1.5, 1.5]])
ROWS = np.repeat(MEANS, 50, axis=0) + np.random.default_rng(0).normal(size=(200, 2))
VOLATILE = ("seconds", "lock", "began")


class Killed(BaseException):
    """The end of a process."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("auto") / "run.zarr"
    fit(ROWS, place, DPMeans(random_state=0))
    return place


def arrays_of(run: Path) -> dict[str, bytes]:
    """The arrays of a run but the seconds of its steps."""
    return {
        name: np.asarray(array[:]).tobytes()
        for name, array in zarr.open_group(run, mode="r").arrays()
        if not any(word in name for word in VOLATILE)
    }


def manifest_of(run: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((run / "zarr.json").read_text())["attributes"][MARKER]
    return told


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_run_keeps_the_choice(run: Path) -> None:
    model, memory = load(run), DPMeans(random_state=0).fit(ROWS)
    assert model.get_params() == memory.get_params()
    assert (model.choice_, model.penalty_) == (memory.choice_, memory.penalty_)
    assert model.objective_ == memory.objective_
    assert model.cluster_stability_.tobytes() == memory.cluster_stability_.tobytes()
    np.testing.assert_array_equal(model.labels_.compute(), memory.labels_)
    np.testing.assert_array_equal(model.predict(ROWS), memory.labels_)
    assert manifest_of(run)["parameters"]["penalty"] == memory.penalty_
    assert manifest_of(run)["estimator"]["parameters"]["penalty"] == "auto"


def test_a_run_is_that_at_the_chosen_penalty(run: Path, tmp_path: Path) -> None:
    penalty = load(run).penalty_
    fit(ROWS, tmp_path / "number", DPMeans(penalty, search=True, random_state=0))
    mine, other = arrays_of(run), arrays_of(tmp_path / "number")
    del mine["cluster_stability"]
    assert mine == other
    assert load(tmp_path / "number").choice_ is None


def test_predictions_know_the_chosen_penalty(run: Path, tmp_path: Path) -> None:
    far = np.r_[ROWS[:3], [[500.0, 500.0]]]
    assert predict(run, far, tmp_path / "out").beyond == 1


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_a_run_of_an_approximated_kernel(approximation: str, tmp_path: Path) -> None:
    how = {"approximation": approximation, "gamma": 0.02, "n_components": 60, "random_state": 0}
    model, memory = KernelDPMeans("auto", **how), KernelDPMeans("auto", **how).fit(ROWS)
    loaded = fit(ROWS, tmp_path / "run", model)
    assert loaded.choice_ == memory.choice_
    assert loaded.cluster_stability_.tobytes() == memory.cluster_stability_.tobytes()
    np.testing.assert_array_equal(loaded.predict(ROWS), memory.labels_)


def killed_in_the_choice(patch: pytest.MonkeyPatch, run: Path) -> None:
    def end(*_: object) -> None:
        raise Killed

    patch.setattr(summary.Summary, "fit_half", end)
    with pytest.raises(Killed):
        fit(ROWS, run, DPMeans(random_state=0))


def killed_after_steps(patch: pytest.MonkeyPatch, run: Path) -> None:
    def end(number: int, *_: object) -> None:
        if number == 2:
            raise Killed

    with pytest.raises(Killed):
        fit(ROWS, run, DPMeans(random_state=0), on_step=end)


def killed_before_the_labels(patch: pytest.MonkeyPatch, run: Path) -> None:
    def end(*_: object) -> None:
        raise Killed

    patch.setattr(auto_penalty.ChosenMethod, "cluster_stability", end)
    with pytest.raises(Killed):
        fit(ROWS, run, DPMeans(random_state=0))


@pytest.mark.parametrize(
    "kill", [killed_in_the_choice, killed_after_steps, killed_before_the_labels]
)
@pytest.mark.parametrize("seed", [0, None])
def test_a_killed_job_resumes_to_the_same_bytes(
    kill: Any, seed: int | None, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        kill(patch, tmp_path / "run")
    if kill is killed_in_the_choice and seed is None:
        return  # nothing was begun: another seed is drawn
    model = fit(ROWS, tmp_path / "run", DPMeans(random_state=seed), resume=True)
    assert model.choice_ == load(run).choice_
    assert arrays_of(tmp_path / "run") == arrays_of(run)
    before, after = manifest_of(run), manifest_of(tmp_path / "run")
    assert after["choice"] == before["choice"]
    assert after["parameters"] == before["parameters"]


def test_a_finished_run_is_not_chosen_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it was chosen again")

    monkeypatch.setattr(chooser, "choose", never)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()}
    model = fit(ROWS, run, DPMeans(random_state=0), resume=True)
    assert model.n_clusters_ == 4
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file()} == before


def test_a_run_that_stopped_early_says_how_many_clusters_it_has_and_goes_on(
    run: Path, tmp_path: Path
) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter") as said:
        model = fit(ROWS, tmp_path / "run", DPMeans(max_iter=1, random_state=0))
    assert [each.filename for each in said] == [__file__]
    assert model.choice_.differs(1) in call("show", tmp_path / "run").stdout
    fit(ROWS, tmp_path / "run", DPMeans(random_state=0), resume=True)
    assert arrays_of(tmp_path / "run") == arrays_of(run)


def test_a_run_that_ends_with_another_number_of_clusters_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def high(auto: AutoPenalty, _: Choice, seed: int) -> search.Method:
        return replace(auto.method, penalty=1e9, seed=seed)

    monkeypatch.setattr(AutoPenalty, "at", high)
    with pytest.warns(UserWarning, match="the fit has 1 cluster, not 4: its search") as said:
        fit(ROWS, tmp_path / "run", DPMeans(random_state=0))
    assert [each.filename for each in said] == [__file__]


def test_a_run_is_resumed_with_the_penalty_that_it_was_begun_with(
    run: Path, tmp_path: Path
) -> None:
    fit(ROWS, tmp_path / "number", DPMeans(99.0, search=True, random_state=0))
    with pytest.raises(InputError, match=r"other parameters: penalty 99\.0, not auto"):
        fit(ROWS, tmp_path / "number", DPMeans(random_state=0), resume=True)
    with pytest.raises(InputError, match=r"other parameters: penalty .*, not 99\.0"):
        fit(ROWS, run, DPMeans(99.0, search=True, random_state=0), resume=True)
    with pytest.raises(InputError, match=r"another method|other parameters"):
        fit(ROWS, run, DPMeans(99.0, random_state=0), resume=True)


def test_other_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_after_steps(monkeypatch, tmp_path / "run")
    changed = ROWS.copy()
    changed[7] += 0.5
    with pytest.raises(InputError, match=r"rows in memory, .* have changed|the input has changed"):
        fit(changed, tmp_path / "run", DPMeans(random_state=0), resume=True)


def test_rows_of_the_same_fingerprint_that_choose_otherwise_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_after_steps(monkeypatch, tmp_path / "run")
    monkeypatch.setattr(chooser, "HALVINGS", 3)  # as another type of CPU may
    monkeypatch.setattr(summary, "FLOOR", 1e-8)
    monkeypatch.setattr(chooser, "LOOK_STRIDE", 3)
    monkeypatch.setattr(clouds, "FEWEST_CLOUDS", 9)
    with pytest.raises(InputError, match="but these rows give"):
        fit(ROWS, tmp_path / "run", DPMeans(random_state=0), resume=True)


def test_too_few_clusters_allowed_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TooManyClustersError):
        fit(ROWS, tmp_path / "run", DPMeans(max_clusters=2))


def test_a_dry_run_needs_a_number(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    with pytest.raises(InputError, match="a dry run needs a number as the penalty"):
        dry_run(tmp_path / "rows.npy", tmp_path / "run", DPMeans())
    said = call("fit", tmp_path / "rows.npy", tmp_path / "run", "--dry-run")
    assert said.exit_code != 0
    assert "a dry run needs a number" in said.output
    assert not (tmp_path / "run").exists()


# The command line


def test_the_command_line_chooses_by_default(run: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    out = tmp_path / "run"
    for options in ([], ["--penalty", "auto", "--force"]):
        said = call("fit", tmp_path / "rows.npy", out, "--seed", 0, *options)
        assert said.exit_code == 0, said.output
        assert arrays_of(out) == arrays_of(run)
        assert "chosen from the rows" in said.stdout
        assert load(run).choice_.reason[:20] in said.stdout
    again = call("fit", tmp_path / "rows.npy", out, "--resume")
    assert again.exit_code == 0, again.output
    for wrong in ("x", "-1", "nan", ""):
        said = call("fit", tmp_path / "rows.npy", out, "--penalty", wrong, "--force")
        assert said.exit_code == 2, said.output
        assert "Traceback" not in said.output
    assert arrays_of(out) == arrays_of(run)


def test_show_says_why(run: Path) -> None:
    chosen = load(run).choice_
    said = call("show", run)
    assert said.exit_code == 0
    assert "chosen from the rows" in said.output
    told = json.loads(call("show", run, "--json").output)
    jsonschema.validate(told, schema("show"))
    assert told["choice"] == json.loads(json.dumps(chosen.as_json()))


# Forgeries

FORGED: list[tuple[tuple[str | int, ...], Any]] = [
    ((), 1),
    ((), []),
    ((), "auto"),
    ((), {}),
    (("alternatives",), []),
    (("alternatives",), 3),
    (("alternatives",), [1]),
    (("alternatives", 0), {}),
    (("alternatives", 0, "penalty"), 77.0),
    (("alternatives", 0, "penalty"), "x"),
    (("alternatives", 0, "penalty"), -1.0),
    (("alternatives", 0, "n_clusters"), "4"),
    (("alternatives", 1, "score"), None),
    (("alternatives", 1, "low"), [1]),
    (("evidence",), "much"),
    (("tried",), None),
    (("rows_used",), {}),
    (("other",), 1),
]


@pytest.mark.parametrize(("where", "value"), FORGED, ids=str)
def test_a_forged_choice_is_corrupt(
    where: tuple[str | int, ...], value: Any, run: Path, tmp_path: Path
) -> None:
    forged = tmp_path / "run"
    shutil.copytree(run, forged)
    root = json.loads((forged / "zarr.json").read_text())
    told: Any = root["attributes"][MARKER]
    for step in ("choice", *where)[:-1]:
        told = told[step]
    told[("choice", *where)[-1]] = value
    root["attributes"] = sign_attributes(root["attributes"])
    (forged / "zarr.json").write_text(json.dumps(root))
    with pytest.raises(CorruptStoreError, match=r"choice|parameters\.penalty|do not describe"):
        load(forged)
    for command in ("show", "report"):
        said = call(command, forged, *([tmp_path / "page.html"] if command == "report" else []))
        assert said.exit_code != 0
        assert "Traceback" not in said.output


def test_a_column_that_outweighs_the_others_is_named_with_the_way_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ages = np.concatenate([rng.normal(25, 2, 60), rng.normal(60, 2, 60)])
    salaries = np.concatenate([rng.normal(3e4, 2e3, 60), rng.normal(6e4, 2e3, 60)])
    frame = pd.DataFrame({"age": ages, "salary": salaries})
    frame.to_parquet(tmp_path / "t.parquet")
    told = r"Column 'salary' holds nearly all of the squared spread.*--scale std"
    with pytest.warns(UserWarning, match=told):
        model = DPMeans(random_state=0).fit(frame)
    assert "Column 'salary'" in model.choice_.reason
    with pytest.warns(UserWarning, match=told):
        fit(tmp_path / "t.parquet", tmp_path / "run", DPMeans(random_state=0))
    assert load(tmp_path / "run").choice_.leading == "'salary'"
    fit(tmp_path / "t.parquet", tmp_path / "even", DPMeans(random_state=0), scale="std")
    assert load(tmp_path / "even").choice_.leading is None


def salaries() -> pd.DataFrame:
    """Two clusters of ages and salaries, with some ages missing."""
    rng = np.random.default_rng(0)
    ages, salaries = rng.normal([[25], [60]], 2, (2, 60)), rng.normal([[3], [6]], 0.2, (2, 60))
    frame = pd.DataFrame({"age": ages.ravel(), "salary": 1e4 * salaries.ravel()})
    frame.iloc[::9, 0] = np.nan
    return frame


@pytest.mark.parametrize("options", [{}, {"n_clusters": 3}, {"noise": 0.1}])
def test_shapes_name_a_column_that_outweighs_the_others_too(
    options: dict[str, Any], tmp_path: Path
) -> None:
    rows, model = salaries().dropna(), LinkageDPMeans(**options, random_state=0)
    told = r"Column 'salary' holds nearly all of the squared spread.*--scale std"
    with pytest.warns(UserWarning, match=told):
        model.fit(rows)
    assert "Column 'salary' holds" in model.choice_.reason
    with pytest.warns(UserWarning, match="Column 1 holds nearly all"):
        fit(rows.to_numpy(), tmp_path / "run", LinkageDPMeans(random_state=0))
    assert load(tmp_path / "run").choice_.leading == "1"


def test_shapes_name_no_column_where_directions_or_scaled_columns_count(tmp_path: Path) -> None:
    rows = salaries().dropna().to_numpy()
    assert LinkageDPMeans(metric="cosine", random_state=0).fit(rows).choice_.leading is None
    fit(rows, tmp_path / "run", LinkageDPMeans(random_state=0), scale="std")
    assert load(tmp_path / "run").choice_.leading is None


@pytest.mark.parametrize("method", [DPMeans, HDPMeans])
def test_a_column_that_outweighs_the_others_is_named_with_missing_values(method: Any) -> None:
    frame, options = salaries(), {"missing": "observed", "random_state": 0}
    groups = {"groups": np.zeros(120, int)} if method is HDPMeans else {}
    with pytest.warns(UserWarning, match="Column 'salary' holds nearly all of the squared spread"):
        method(**options).fit(frame, **groups)
    for other in ({"balance_columns": True}, {"divergence": "poisson"}):
        assert method(**options, **other).fit(frame, **groups).choice_.leading is None


@pytest.mark.parametrize("other", [{"missing": "observed"}, {"metric": "haversine"}])
def test_shapes_are_advised_only_where_they_take_the_rows(
    other: dict[str, str], tmp_path: Path
) -> None:
    rows, advice = np.random.default_rng(0).normal(size=(60, 2)), "LinkageDPMeans, or the command"
    assert advice in DPMeans(random_state=0).fit(rows).choice_.reason
    model = fit(rows, tmp_path / "run", DPMeans(random_state=0, **other))
    told = model.choice_.reason
    assert told.startswith("1 cluster. The best division is into")
    assert advice not in told
    assert load(tmp_path / "run").choice_.reason == told


@pytest.mark.parametrize("rows", [[[3.0, 4.0]], [[3.0, 4.0]] * 2, [[3.0, 4.0], [3.0, 5.0]]])
def test_a_run_of_one_row_or_two_can_be_read(rows: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.array(rows))
    model = fit(tmp_path / "rows.npy", tmp_path / "run", DPMeans(random_state=0))
    assert model.n_clusters_ == load(tmp_path / "run").choice_.n_clusters == 1
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "run"), "--json"])
    jsonschema.validate(json.loads(shown.output), schema("show"))


def test_a_leading_column_is_named_by_its_number_in_the_input(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(60, 4)) * [1.0, 1.0, 1e4, 1.0]
    with pytest.warns(UserWarning, match="Column 2 holds nearly all of the squared spread"):
        fit(rows, tmp_path / "run", DPMeans(random_state=0), columns=[3, 2])
    assert load(tmp_path / "run").choice_.leading == "2"


def test_a_refused_resume_leaves_a_finished_run_as_it_is(tmp_path: Path) -> None:
    """A fit of shapes that was finished by `max_iter` cannot go on."""
    rows = np.random.default_rng(0).normal(size=(80, 2))
    with pytest.warns(ConvergenceWarning):
        fit(rows, tmp_path / "run", LinkageDPMeans(random_state=0, max_iter=1))
    before = {each: each.read_bytes() for each in (tmp_path / "run").rglob("*") if each.is_file()}
    with pytest.raises(InputError, match="start anew"):
        fit(rows, tmp_path / "run", LinkageDPMeans(random_state=0, max_iter=99), resume=True)
    assert load(tmp_path / "run").n_clusters_ >= 1
    root = tmp_path / "run" / "zarr.json"
    assert root.read_bytes() == before[root]
