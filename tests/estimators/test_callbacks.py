"""scikit-learn's callbacks are told of each step, see what a fit that ended there would be, and may end it."""

import pickle
import subprocess
import sys
import warnings

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from strategies import table

from dask_dpmeans import (
    DPMeans,
    GraphCutDPMeans,
    HDPMeans,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    SplitMergeDPMeans,
)
from dask_dpmeans.estimators.gibbs import GibbsMixture

callback = pytest.importorskip(
    "sklearn.callback", reason="sklearn.callback is of scikit-learn 1.9 and later"
)

ROWS = table("clouds", (600, 2), np.float32, 0)
GROUPS = np.arange(len(ROWS)) % 3
GRAPH = np.kron(np.eye(3), np.ones((4, 4)) - np.eye(4)) + np.eye(12, k=4) + np.eye(12, k=-4)
MODELS = {
    "DPMeans": (DPMeans(6.0, random_state=0), ROWS),
    "search": (DPMeans(60.0, search=True, random_state=0), ROWS),
    "HDPMeans": (HDPMeans(4.0, 20.0, random_state=0), [ROWS[:200], ROWS[200:], ROWS[:0]]),
    "KernelDPMeans": (KernelDPMeans(0.5, gamma=0.1, random_state=0), ROWS),
    "nystroem": (
        KernelDPMeans(0.5, gamma=0.1, approximation="nystroem", n_components=20, random_state=0),
        ROWS,
    ),
    "SpectralDPMeans": (SpectralDPMeans(100.0, random_state=0), ROWS),
    "GraphCutDPMeans": (GraphCutDPMeans(-0.5, random_state=0), GRAPH),
    "GraphCutDPMeans, mean": (GraphCutDPMeans(-0.5, init="mean", random_state=0), GRAPH),
    "LinkageDPMeans": (LinkageDPMeans(-0.1, 50.0, random_state=0), ROWS),
    "GibbsMixture": (GibbsMixture(max_iter=5, random_state=0), ROWS),
}
models = pytest.mark.parametrize(("model", "X"), MODELS.values(), ids=MODELS)


class Notes:
    """What a callback was told, in order; it asks to stop at the end of a step."""

    def __init__(self, stop_at=None, want_fitted=True):
        self.stop_at = stop_at
        self.said, self.seen = [], []

    def setup(self, estimator, context):
        self.said.append("setup")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.said.append(f"{context.task_name} {context.task_id} begins")

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.said.append(f"{context.task_name} {context.task_id} ends")
        self.seen.append((fitted_estimator, X, y, metadata))
        return context.task_name == "step" and context.task_id == self.stop_at

    def teardown(self, estimator, context):
        self.said.append("teardown")


def same(found, expected):
    """Whether two fitted models know the same, seconds aside."""
    for name, value in vars(expected).items():
        if not name.endswith("_") or name in ("history_", "features_", "implicit_centers_"):
            continue
        other = getattr(found, name)
        if hasattr(value, "toarray"):
            other, value = other.toarray(), value.toarray()
        np.testing.assert_array_equal(other, value, err_msg=name)
    assert [record.objective for record in found.history_] == [
        record.objective for record in expected.history_
    ]


def quietly(model, X, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, **given)


@models
def test_each_step_is_a_task_under_that_of_the_fit(model, X):
    notes = Notes()
    found = clone(model).set_callbacks(notes).fit(X)
    n_tasks = len(notes.seen) - 1
    assert n_tasks in (
        found.n_iter_,
        found.n_iter_ + 1,
    )  # a step that does not lower J is one that was tried
    steps = [f"step {number} {word}" for number in range(n_tasks) for word in ("begins", "ends")]
    assert notes.said == ["setup", "fit 0 begins", *steps, "fit 0 ends", "teardown"]
    same(notes.seen[-1][0], found)


def test_a_step_that_was_tried_in_vain_is_no_step_of_the_history():
    notes, rows = Notes(), np.random.default_rng(0).normal(size=(200, 2)).round(1)
    found = DPMeans(5.0, search=True, random_state=0).set_callbacks(notes).fit(rows)
    assert len(notes.seen) - 1 == found.n_iter_ + 1
    assert (np.diff([record.objective for record in found.history_]) < 0).all()
    assert found.history_[-1].passes > notes.seen[-3][0].history_[-1].passes


@models
def test_callbacks_that_only_look_change_nothing(model, X):
    same(clone(model).set_callbacks(Notes()).fit(X), clone(model).fit(X))


@models
def test_a_callback_sees_the_fit_as_if_it_had_ended_at_the_step(model, X):
    notes = Notes()
    clone(model).set_callbacks(notes).fit(X)
    expected = quietly(clone(model).set_params(max_iter=1), X)
    seen = notes.seen[0][0]
    assert seen.max_iter == model.max_iter
    same(seen, expected)
    if hasattr(expected, "predict"):
        rows = np.concatenate(X) if isinstance(X, list) else X
        np.testing.assert_array_equal(seen.predict(rows), expected.predict(rows))


@models
def test_a_callback_that_asks_to_stop_ends_the_fit_as_max_iter_does_without_its_warning(model, X):
    stopped = clone(model).set_callbacks(Notes(stop_at=0)).fit(X)  # warnings are errors here
    assert stopped.n_iter_ == 1
    same(stopped, quietly(clone(model).set_params(max_iter=1), X))


def test_reaching_max_iter_still_warns_where_the_fit_was_called():
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1") as found:
        DPMeans(6.0, max_iter=1).set_callbacks(Notes()).fit(ROWS)
    assert found[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1") as found:
        GraphCutDPMeans(-0.5, max_iter=1).fit(GRAPH)
    assert found[0].filename == __file__


def test_callbacks_are_given_rows_targets_and_weights_as_the_fit_was():
    notes, weights, truth = Notes(), np.ones(len(ROWS)), np.zeros(len(ROWS), int)
    DPMeans(6.0).set_callbacks(notes).fit(ROWS, truth, sample_weight=weights)
    for _, X, y, metadata in notes.seen:
        assert X is ROWS
        assert y is truth
        assert metadata["sample_weight"] is weights


def test_callbacks_are_torn_down_after_an_error():
    notes = Notes()
    with pytest.raises(ValueError, match="data contains NaN"):
        DPMeans(6.0).set_callbacks(notes).fit(np.full((3, 2), np.nan))
    assert notes.said == ["setup", "fit 0 begins", "teardown"]


def test_a_fit_after_an_error_of_a_callback_is_as_any():
    class Failing(Notes):
        def on_fit_task_end(self, estimator, context):
            raise ZeroDivisionError("of the callback")

    model = DPMeans(6.0).set_callbacks(Failing())
    with pytest.raises(ZeroDivisionError, match="of the callback"):
        model.fit(ROWS)
    same(
        model.set_callbacks().fit(ROWS),
        DPMeans(6.0).set_params(random_state=model.random_state_).fit(ROWS),
    )


@pytest.mark.parametrize(
    "model", [OnlineDPMeans(6.0), SplitMergeDPMeans(6.0)], ids=["online", "split-merge"]
)
def test_one_pass_is_one_task(model):
    notes = Notes()
    model.set_callbacks(notes).fit(ROWS)
    assert notes.said == ["setup", "fit 0 begins", "fit 0 ends", "teardown"]
    model.partial_fit(ROWS)
    assert len(notes.said) == 8
    same_centers = notes.seen[-1][0].cluster_centers_
    assert same_centers is model.cluster_centers_


def test_lazy_rows_stay_lazy():
    notes = Notes()
    DPMeans(6.0).set_callbacks(notes).fit(da.from_array(ROWS, chunks=100))
    assert all(isinstance(seen.labels_, da.Array) for seen, *_ in notes.seen)


def test_scores_of_each_step_are_those_of_its_clusters():
    monitor = callback.ScoringMonitor(scoring="adjusted_rand_score")
    truth = DPMeans(6.0).fit(ROWS).labels_
    model = DPMeans(6.0).set_callbacks(monitor).fit(ROWS, truth)
    scores = [
        row["adjusted_rand_score"] for row in monitor.get_logs().data if row["task_name"] == "step"
    ]
    assert len(scores) == model.n_iter_
    assert scores[-1] == 1


def test_a_progress_bar_counts_the_steps(capsys):
    pytest.importorskip("rich", reason="ProgressBar draws with rich")
    DPMeans(6.0).set_callbacks(callback.ProgressBar()).fit(ROWS)
    assert "DPMeans - fit" in capsys.readouterr().out


def test_callbacks_go_along_with_clones_and_copies_and_leave_no_trace_in_the_parameters():
    class Silent(Notes):
        pass

    model = DPMeans(6.0).set_callbacks(Silent())
    assert "callbacks" not in str(model.get_params())
    notes = Notes()
    clone(DPMeans(6.0).set_callbacks(notes)).fit(ROWS)
    assert notes.said[-1] == "teardown"
    fitted = DPMeans(6.0, random_state=0).set_callbacks(Notes()).fit(ROWS)
    same(pickle.loads(pickle.dumps(fitted)), fitted)
    assert not any(name.startswith("_callback") for name in vars(fitted))


class Shared(Notes):
    """Handed on to the estimators within others."""

    max_propagation_depth = None


def test_meta_estimators_hand_callbacks_on():
    notes = Shared()
    make_pipeline(StandardScaler(), DPMeans(1.0)).set_callbacks(notes).fit(ROWS)
    assert "step 0 ends" in notes.said
    notes = Shared()
    search = (
        GridSearchCV(DPMeans(6.0), {"penalty": [4.0, 8.0]}, cv=2).set_callbacks(notes).fit(ROWS)
    )
    assert notes.said.count("step 0 ends") == 5
    assert search.best_estimator_.n_clusters_ > 1


WITHOUT = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "sklearn.callback" else find(name, package)
import warnings
import numpy as np
from dask_dpmeans import DPMeans, GraphCutDPMeans, OnlineDPMeans
model = DPMeans(4.0, random_state=0).fit(np.array([[0.0], [1.0], [9.0]]))
OnlineDPMeans(4.0).fit(np.array([[0.0], [9.0]])).partial_fit(np.array([[3.0]]))
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    DPMeans(6.0, max_iter=1, tol=0).fit(np.arange(40.0)[:, None])
print(hasattr(model, "set_callbacks"), model.labels_.tolist(), [warning.filename for warning in found])
"""


def test_scikit_learn_without_callbacks_serves_as_well():
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.strip() == "False [0, 0, 1] ['<string>']"
