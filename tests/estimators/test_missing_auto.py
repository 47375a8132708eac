"""Missing values with a chosen penalty, and columns that nobody saw."""

import numpy as np
import pytest

from dask_dpmeans import DPMeans

NAN = np.nan


def groups(seed=0, n=60):
    """Three groups of positive rows."""
    rng = np.random.default_rng(seed)
    return rng.gamma(50, 1, (n, 3)) * np.array([1.0, 4.0, 16.0]).repeat(n // 3)[:, np.newaxis]


@pytest.mark.parametrize("divergence", ["squared", "poisson", "gamma"])
def test_a_row_without_any_value_does_not_change_the_stability_of_clusters(divergence):
    rows = groups()
    model = DPMeans(divergence=divergence, missing="observed", random_state=0)
    whole = model.fit(rows).cluster_stability_
    with_hole = model.fit(np.concatenate([rows, np.full((1, 3), NAN)]))
    assert with_hole.labels_[-1] == -1
    np.testing.assert_allclose(with_hole.cluster_stability_, whole, rtol=0.05)


def test_clusters_too_light_for_labels_may_have_a_chosen_penalty():
    rows = groups()[:50]
    model = DPMeans(min_cluster_weight=15, random_state=0).fit(rows)
    assert (model.labels_ == -1).sum() == 10
    assert len(model.cluster_stability_) == model.n_clusters_


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("divergence", ["gamma", "poisson", "bernoulli", "squared"])
def test_a_column_of_which_nothing_was_observed_warns_of_nothing(divergence):
    rows = groups() / 5000
    rows[:, 1] = NAN
    model = DPMeans(0.05, search=True, divergence=divergence, missing="observed").fit(rows)
    assert np.isfinite(model.cluster_centers_).all()
    assert np.isfinite(model.impute(rows)).all()


@pytest.mark.parametrize("missing", ["observed", "unscaled"])
@pytest.mark.parametrize("balance", [False, True])
def test_a_fit_is_the_same_without_the_columns_of_which_nothing_was_observed(missing, balance):
    rows = np.random.default_rng(0).normal(size=(100, 2))
    rows[::3, 1] = NAN
    wider = np.insert(rows, [1, 1, 2], NAN, axis=1)
    model = DPMeans(missing=missing, balance_columns=balance, random_state=0)
    narrow = model.fit(rows)
    wanted = narrow.penalty_, narrow.objective_, narrow.transform(rows)
    wide = model.fit(wider)
    assert wide.n_clusters_ == wide.choice_.n_clusters == 1
    np.testing.assert_allclose([wide.penalty_, wide.objective_], wanted[:2])
    np.testing.assert_allclose(wide.transform(wider), wanted[2])
    wider[:, 1] = 9.0  # a value that no row of the fit had
    np.testing.assert_allclose(wide.transform(wider), wanted[2])
