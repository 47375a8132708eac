"""Outliers and light clusters, from the estimator to a run and its predictions."""

import json
import math

import dask.array as da
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import DPMeans, InputError, fit, load, predict
from dask_dpmeans.cli import main

PENALTY, PRICE = 300.0, 12.0


def noisy(seed=0, n=600):
    """Six clusters and a tenth as many rows anywhere."""
    rng = np.random.default_rng(seed)
    middles = 10 * rng.normal(size=(6, 2))
    rows = middles[rng.integers(6, size=n)] + rng.normal(size=(n, 2))
    return np.concatenate([rows, rng.uniform(-30, 30, (n // 10, 2))])


def model(**how):
    return DPMeans(PENALTY, **{"search": True, "outlier_penalty": PRICE, "random_state": 0} | how)


@pytest.fixture(scope="module")
def rows():
    return noisy()


@pytest.fixture(scope="module")
def fitted(rows):
    return model().fit(rows)


def test_outliers_are_the_rows_that_cost_more_at_every_center(fitted, rows):
    squared = ((rows[:, np.newaxis] - fitted.cluster_centers_) ** 2).sum(axis=2)
    outliers = squared.min(axis=1) > PRICE
    assert 40 <= outliers.sum() <= 70
    expected = np.where(outliers, -1, squared.argmin(axis=1))
    assert fitted.labels_.tolist() == expected.tolist()
    assert fitted.predict(rows).tolist() == expected.tolist()
    assert fitted.outlier_weight_ == outliers.sum()
    assert fitted.outlier_penalty_ == PRICE
    counts = np.bincount(expected[~outliers], minlength=fitted.n_clusters_)
    assert fitted.cluster_weights_.tolist() == counts.tolist()
    for label, center in enumerate(fitted.cluster_centers_):
        np.testing.assert_allclose(rows[expected == label].mean(axis=0), center, atol=0.05)


def test_the_inertia_has_the_price_of_outliers(fitted, rows):
    squared = ((rows[:, np.newaxis] - fitted.cluster_centers_) ** 2).sum(axis=2).min(axis=1)
    assert fitted.inertia_ == pytest.approx(np.minimum(squared, PRICE).sum(), rel=1e-12)
    own = math.fsum(fitted.cluster_inertias_)
    assert fitted.inertia_ == pytest.approx(own + PRICE * fitted.outlier_weight_, rel=1e-12)
    assert fitted.objective_ == pytest.approx(fitted.inertia_ + PENALTY * fitted.n_clusters_)
    assert fitted.score(rows) == pytest.approx(-fitted.inertia_, rel=1e-12)
    assert fitted.transform(rows).min(axis=1) == pytest.approx(np.sqrt(squared), rel=1e-12)


@pytest.mark.parametrize("chunks", [37, 200, 1000])
def test_chunks_change_no_byte(fitted, rows, chunks):
    lazy = model().fit(da.from_array(rows, chunks=(chunks, 2)))
    assert lazy.cluster_centers_.tobytes() == fitted.cluster_centers_.tobytes()
    assert lazy.labels_.compute().tobytes() == fitted.labels_.tobytes()
    assert (lazy.objective_, lazy.outlier_weight_) == (fitted.objective_, fitted.outlier_weight_)


def test_an_integer_weight_is_a_repeated_row(rows):
    weights = np.random.default_rng(1).integers(0, 3, len(rows))
    found = model().fit(rows, sample_weight=weights)
    repeated = model().fit(np.repeat(rows, weights, axis=0))
    assert found.objective_ == pytest.approx(repeated.objective_, rel=1e-6)
    assert found.outlier_weight_ == pytest.approx(repeated.outlier_weight_, abs=3)
    outliers = found.labels_ < 0
    assert weights[outliers].sum() == found.outlier_weight_


def test_light_clusters_are_described_once_there_are_clusters():
    model = DPMeans(9.0, min_cluster_weight=3)
    assert "label -1" not in model.description().settings
    model.fit(np.array([[0.0], [0.0], [0.0], [50.0]]))
    told = model.description().settings["label -1"]
    assert told == "rows of 1 cluster lighter than 3 (25.00% of all)"


@pytest.mark.parametrize(
    "how", [{}, {"outlier_penalty": None, "outlier_share": 0.09}, {"min_cluster_weight": 95.0}]
)
def test_a_run_labels_as_the_estimator_does(rows, tmp_path, how):
    expected = model(**how).fit(rows)
    found = fit(rows, tmp_path / "run", model(**how))
    again = load(tmp_path / "run")
    predict(tmp_path / "run", rows, tmp_path / "out", soft=2)

    out = zarr.open_group(tmp_path / "out", mode="r")
    for labels in (found.labels_, again.labels_, again.predict(rows), out["label"][:]):
        assert np.asarray(labels).tolist() == expected.labels_.tolist()
    assert (expected.labels_ < 0).any()
    assert again.outlier_penalty_ == expected.outlier_penalty_
    assert again.outlier_weight_ == expected.outlier_weight_
    assert again.inertia_ == expected.inertia_
    assert again.score(rows) == expected.score(rows)


def test_a_share_finds_the_price_of_about_that_share(rows):
    for share in (0.02, 0.09):
        found = model(outlier_penalty=None, outlier_share=share).fit(rows)
        assert found.outlier_weight_ / len(rows) == pytest.approx(share, rel=0.25)
        same = model(outlier_penalty=found.outlier_penalty_).fit(rows)
        assert same.cluster_centers_.tobytes() == found.cluster_centers_.tobytes()


@pytest.mark.parametrize("search", [False, True])
def test_rows_of_light_clusters_have_no_label(rows, search):
    plain = DPMeans(PENALTY, search=search, random_state=0).fit(rows)
    least = float(np.median(plain.cluster_weights_)) + 0.5
    found = DPMeans(PENALTY, search=search, random_state=0, min_cluster_weight=least).fit(rows)
    light = plain.cluster_weights_ < least
    expected = np.where(light[plain.labels_], -1, plain.labels_)
    assert found.labels_.tolist() == found.predict(rows).tolist() == expected.tolist()
    assert found.cluster_centers_.tobytes() == plain.cluster_centers_.tobytes()
    assert (found.objective_, found.outlier_weight_) == (plain.objective_, 0.0)


def test_no_row_is_an_outlier_without_a_price(rows):
    plain = DPMeans(PENALTY, search=True, random_state=0).fit(rows)
    assert (plain.outlier_penalty_, plain.outlier_weight_) == (None, 0.0)
    assert (plain.labels_ >= 0).all()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"search": False}, r"outlier_penalty and outlier_share need search=True"),
        ({"search": False, "outlier_penalty": None, "outlier_share": 0.1}, r"need search=True"),
        ({"outlier_share": 0.1}, r"give outlier_share or outlier_penalty, not both: .*got 0.1 and"),
        ({"outlier_penalty": None, "outlier_share": 5}, r"share must be below 1, got 5.0: it is a"),
        ({"outlier_penalty": 0.0}, r"outlier_penalty must be a finite number > 0"),
        ({"min_cluster_weight": -1.0}, r"min_cluster_weight must be a finite number >= 0"),
    ],
)
def test_what_cannot_be_is_an_error(rows, how, message):
    with pytest.raises(InputError, match=message):
        model().set_params(**how).fit(rows)


@pytest.mark.parametrize("how", [{"outlier_penalty": 18.0}, {"outlier_share": 0.08}])
def test_a_penalty_is_chosen_from_the_rows_that_are_no_outliers(how, tmp_path):
    """Of all rows, of 15 clusters that touch and noise, no number would be chosen."""
    rng = np.random.default_rng(3)
    means = 4.5 * np.stack(np.meshgrid(np.arange(5), np.arange(3)), axis=-1).reshape(-1, 2)
    rows = np.repeat(means, 40, axis=0) + rng.normal(size=(600, 2))
    rows = np.concatenate([rows, rng.uniform(-25, 45, (60, 2))])
    assert DPMeans(random_state=0).fit(rows).n_clusters_ != 15
    model = DPMeans(random_state=0, **how).fit(rows)
    assert model.n_clusters_ == model.choice_.n_clusters == 15
    assert (model.labels_[600:] < 0).mean() > 0.7 > 0.1 > (model.labels_[:600] < 0).mean()
    assert np.isfinite(model.cluster_stability_).all()
    if "outlier_share" in how:
        stored = fit(rows, tmp_path / "run", DPMeans(random_state=0, **how))
        assert stored.penalty_ == model.penalty_
        assert np.asarray(stored.labels_).tolist() == model.labels_.tolist()


@pytest.mark.filterwarnings("ignore:.* Nearly as good")
def test_a_penalty_is_chosen_beside_light_clusters_and_not_at_a_falling_price(rows):
    plain = DPMeans(random_state=0).fit(rows)
    least = float(np.median(plain.cluster_weights_)) + 0.5
    found = DPMeans(random_state=0, min_cluster_weight=least).fit(rows)
    assert found.penalty_ == plain.penalty_
    assert (found.labels_ < 0).any()
    with pytest.raises(InputError, match="penalty must be a number with discount=2"):
        DPMeans(discount=2.0).fit(rows)


def test_the_command_line_tells_of_outliers(rows, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    run, data = str(tmp_path / "run"), str(tmp_path / "rows.npy")
    shell = CliRunner()
    options = ["--penalty", "300", "--search", "--outlier-penalty", "12", "--seed", "0"]
    assert shell.invoke(main, ["fit", data, run, *options]).exit_code == 0
    text = shell.invoke(main, ["show", run]).output
    assert "rows are outliers: each costs more than 12" in text
    told = json.loads(shell.invoke(main, ["show", run, "--json"]).output)
    assert told["outliers"]["penalty"] == 12.0
    assert told["outliers"]["weight"] == load(run).outlier_weight_


def test_a_resumed_run_goes_on_to_the_same_bytes(rows, tmp_path):
    how = {"outlier_penalty": None, "outlier_share": 0.09}
    whole = fit(rows, tmp_path / "whole", model(**how))
    with pytest.warns(ConvergenceWarning):
        fit(rows, tmp_path / "run", model(**how, max_iter=2))
    found = fit(rows, tmp_path / "run", model(**how), resume=True)
    assert found.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    assert found.outlier_penalty_ == whole.outlier_penalty_
    assert [each.objective for each in found.history_] == [
        each.objective for each in whole.history_
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_search_that_goes_on_after_its_first_step_ends_with_the_same_bytes(tmp_path, seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(3000, 2)) + 8 * rng.integers(4, size=(3000, 1))
    limits = {"search": True, "outlier_penalty": 3.0, "random_state": seed}
    whole = fit(rows, tmp_path / "whole", DPMeans(100.0, **limits))
    with pytest.warns(ConvergenceWarning):
        fit(rows, tmp_path / "part", DPMeans(100.0, max_iter=1, **limits))
    assert whole.n_iter_ > 2
    part = fit(rows, tmp_path / "part", DPMeans(100.0, **limits), resume=True)
    assert [each.objective for each in part.history_] == [each.objective for each in whole.history_]
    np.testing.assert_array_equal(part.cluster_centers_, whole.cluster_centers_)
    np.testing.assert_array_equal(np.asarray(part.labels_), np.asarray(whole.labels_))
