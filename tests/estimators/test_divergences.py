"""Fits with divergences and missing values as starts of others, from stores, and as a source of missing values."""

import dask.array as da
import numpy as np
import pytest
from sklearn.utils import get_tags

from dask_dpmeans import DPMeans, HDPMeans, InputError, fit, load
from dask_dpmeans.kernels.bregman import COLUMN_DIVERGENCES, MIXED


def counts(seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson([[1, 5, 9]] * 150 + [[9, 5, 1]] * 150).astype(float)


def holes(rows, share=0.2, seed=1):
    missing = np.random.default_rng(seed).random(rows.shape) < share
    missing[:, 0] = False
    return np.where(missing, np.nan, rows)


def test_a_fit_starts_at_the_centers_of_a_fit_or_a_run_with_the_same_divergence(tmp_path):
    rows = counts()
    first = DPMeans(60.0, search=True, divergence="poisson", random_state=0).fit(rows)
    fit(rows, tmp_path / "run", DPMeans(60.0, search=True, divergence="poisson", random_state=0))
    for init in (first, str(tmp_path / "run"), first.cluster_centers_):
        again = DPMeans(1e6, divergence="poisson", init=init, tol=0.0).fit(rows)
        assert again.n_clusters_ == first.n_clusters_ > 1
        assert again.inertia_ == pytest.approx(first.inertia_, rel=1e-3)


@pytest.mark.parametrize("divergence", ["poisson", "mixed", {0: "poisson"}])
def test_columns_that_are_scaled_have_no_other_divergence(tmp_path, divergence):
    if divergence == "mixed":
        fit(counts(), tmp_path / "run", DPMeans(9.0, divergence=divergence), scale="std")
        return
    with pytest.raises(InputError, match=r"scale cannot be used with divergence=.*balance_columns"):
        fit(counts(), tmp_path / "run", DPMeans(9.0, divergence=divergence), scale="std")


def test_a_run_of_scaled_and_chosen_columns_fills_in_values_in_units_of_the_input(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.column_stack(
        [rng.normal(size=300), 1000 * rng.normal([0, 9], 1, (150, 2)).ravel(order="F")]
    )
    rows = np.column_stack([rows, rows[:, 1] / 1e6 + 0.001 * rng.normal(size=300)])
    given = holes(rows)
    given[7] = np.nan
    method = DPMeans(100.0, search=True, missing="observed", random_state=0)
    fit(given, tmp_path / "run", method, scale="std", columns=[2, 1])
    filled = load(tmp_path / "run").impute(given)
    missing = np.isnan(given)
    np.testing.assert_array_equal(filled[~missing], given[~missing])
    np.testing.assert_array_equal(np.isnan(filled[:, 0]), missing[:, 0])  # not used by the fit
    assert not np.isnan(filled[:, 1:]).any()
    labels = np.asarray(load(tmp_path / "run").labels_)
    assert labels[7] == -1
    factors = 2 / np.maximum((~missing[:, 1:]).sum(axis=1), 1)  # columns over observed columns
    for column in (1, 2):
        parts = [(labels == c) & ~missing[:, column] for c in range(labels.max() + 1)]
        means = [np.average(given[part, column], weights=factors[part]) for part in parts]
        wanted = np.array([*means, np.nanmean(given[:, column])])[labels]
        holed = missing[:, column]
        np.testing.assert_allclose(filled[holed, column], wanted[holed], rtol=1e-6)


def test_rows_of_dask_are_not_filled_in():
    rows = holes(counts())
    model = DPMeans(60.0, search=True, missing="observed", random_state=0).fit(rows)
    with pytest.raises(InputError, match="impute takes rows in memory: compute parts of X"):
        model.impute(da.from_array(rows, chunks=(50, 3)))
    with pytest.raises(InputError, match="impute needs missing='observed'"):
        DPMeans(60.0).fit(counts()).impute(rows)


def test_too_many_categories_are_an_error_that_says_how_many():
    codes = np.array([[0.0], [9000.0]])
    with pytest.raises(
        InputError, match=r"column 0 is categorical and has 9001 categories.* more than 4,096"
    ):
        DPMeans(1.0, divergence="categorical").fit(codes)


@pytest.mark.parametrize("divergence", [*COLUMN_DIVERGENCES, MIXED])
def test_scikit_learn_is_told_which_divergences_refuse_negative_numbers(divergence):
    model, refused = DPMeans(60.0, divergence=divergence), False
    try:
        model.fit(np.array([[1.0, -0.5], [1.0, 1.0]]))
    except InputError as error:
        refused = "data has -0.5 at row 0" in str(error)
    assert get_tags(model).input_tags.positive_only == refused


@pytest.mark.parametrize("missing", ["error", "observed", "unscaled"])
def test_scikit_learn_is_told_whether_rows_may_have_missing_values(missing):
    for model in (DPMeans(60.0, missing=missing), HDPMeans(60.0, 60.0, missing=missing)):
        assert get_tags(model).input_tags.allow_nan == (missing != "error")
