from dataclasses import replace
from itertools import islice, pairwise

import dask.array as da
import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from dask_dpmeans import InputError, fit, load, predict
from dask_dpmeans.api.loading import open_run
from dask_dpmeans.cli import main
from dask_dpmeans.cli.tables import describe
from dask_dpmeans.estimators.gibbs import GibbsMixture

CENTERS = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 8.0]])


@pytest.fixture(scope="module")
def blobs():
    truth = np.arange(90) % 3
    return CENTERS[truth] + np.random.default_rng(0).standard_normal((90, 2)), truth


@parametrize_with_checks([GibbsMixture(0.05, max_iter=30, random_state=0)])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


def test_it_finds_clusters_and_keeps_the_last_draw(blobs):
    rows, truth = blobs
    model = GibbsMixture(
        variance_prior=(1.0, 1.0), concentration_prior=(1.0, 1.0), max_iter=200, random_state=0
    )
    *_, last = model.draws(rows)
    assert adjusted_rand_score(truth, model.fit_predict(rows)) > 0.9
    assert np.array_equal(model.labels_, last.labels)
    assert np.array_equal(model.cluster_centers_, last.centers)
    assert (model.variance_, model.concentration_) == (last.variance, last.concentration)
    assert 0.7 < model.variance_ < 1.4
    assert (model.n_iter_, model.n_clusters_, model.objective_) == (
        200,
        len(last.weights),
        last.objective,
    )


def test_the_objective_of_draws_goes_up_and_down_and_all_are_kept(blobs):
    model = GibbsMixture(max_iter=50, random_state=1).fit(blobs[0])
    assert len(model.history_) == 50
    assert {after.objective > before.objective for before, after in pairwise(model.history_)} == {
        True,
        False,
    }


def test_draws_may_be_thinned(blobs):
    model = GibbsMixture(max_iter=50, random_state=1)
    assert [draw.step for draw in islice(model.draws(blobs[0]), 20, None, 10)] == [21, 31, 41]


def test_numpy_dask_and_float32_rows_are_taken(blobs):
    rows = blobs[0].astype(np.float32)
    made = [
        GibbsMixture(max_iter=5, random_state=2).fit(X)
        for X in (rows, rows.astype(float), da.from_array(rows))
    ]
    assert len({model.cluster_centers_.tobytes() for model in made}) == 1


def test_a_run_stores_the_draws_it_came_to_and_goes_on_with_more(blobs, tmp_path):
    rows, run = blobs[0], tmp_path / "run.zarr"
    asked = {"variance_prior": (1.0, 1.0), "concentration_prior": (1.0, 2.0), "random_state": 3}
    model = GibbsMixture(max_iter=12, **asked).fit(rows)
    fit(rows, run, GibbsMixture(max_iter=5, **asked))
    found = fit(rows, run, GibbsMixture(max_iter=12, **asked), resume=True)
    assert np.asarray(found.labels_).tolist() == model.labels_.tolist()
    for name in ("cluster_centers_", "cluster_weights_"):
        assert getattr(found, name).tobytes() == getattr(model, name).tobytes()
    for name in ("variance_", "concentration_", "objective_", "n_iter_", "random_state_"):
        assert getattr(found, name) == getattr(model, name)
    assert [replace(each, seconds=0.0) for each in found.history_] == [
        replace(each, seconds=0.0) for each in model.history_
    ]
    assert load(run).get_params() == GibbsMixture(max_iter=12, **asked).get_params()
    assert describe(open_run(run))["result"]["objective"] == model.objective_
    assert fit(rows, run, GibbsMixture(max_iter=12, **asked), resume=True).n_iter_ == 12


def test_a_run_is_shown_as_a_draw_of_a_mixture(blobs, tmp_path):
    fit(
        blobs[0],
        tmp_path / "run.zarr",
        GibbsMixture(np.float32(2.0), 0.5, max_iter=np.int64(3), random_state=0),
    )
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "run.zarr")]).output
    assert "mixture     variance 2, concentration 0.5, mean variance 100\n" in shown
    assert "in the last draw\n" in shown
    assert "= -log of the joint density\n" in shown


def test_a_run_refuses_other_parameters_predictions_and_weights(blobs, tmp_path):
    rows, run = blobs[0], tmp_path / "run.zarr"
    fit(rows, run, GibbsMixture(max_iter=2, random_state=0))
    with pytest.raises(
        InputError, match=r"begun with other parameters: concentration 1.0, not 2.0"
    ):
        fit(rows, run, GibbsMixture(1.0, 2.0, max_iter=2, random_state=0), resume=True)
    with pytest.raises(InputError, match="a draw given its own rows, whose labels are in it"):
        predict(run, rows, tmp_path / "out.zarr")
    with pytest.raises(InputError, match="leave sample_weight out"):
        fit(rows, tmp_path / "other.zarr", GibbsMixture(), sample_weight=np.full(90, 2.0))
