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


@pytest.mark.parametrize("missing", ["observed", "unscaled"])
@pytest.mark.parametrize(
    "divergence", ["squared", "poisson", "bernoulli", "multinomial", "categorical"]
)
def test_what_no_row_of_a_fit_had_counts_for_nothing_later(missing, divergence):
    """Whatever it is, also one that the divergence cannot have."""
    rows = np.random.default_rng(0).integers(0, 2, (40, 4)).astype(float)
    rows[:, 0], rows[:, 2], rows[5, 3] = 1.0, NAN, NAN
    model = DPMeans(0.5, search=True, divergence=divergence, missing=missing, random_state=0).fit(
        rows
    )
    costs, labels, values = model.transform(rows), model.predict(rows), rows.copy()
    for value in (0.0, 1.0, 9.0, -1.0, 1e200):
        values[:, 2] = value
        np.testing.assert_array_equal(model.transform(values), costs)
        np.testing.assert_array_equal(model.predict(values), labels)
    alone = np.array([[NAN, NAN, 1.0, NAN], [1.0, NAN, 1.0, NAN]])
    assert (model.predict(alone) < 0).tolist() == [True, False]


def test_a_row_of_a_fit_with_such_values_alone_has_no_cluster():
    rows = np.array([[0.0, NAN], [1.0, NAN], [9.0, NAN], [NAN, 5.0]])
    model = DPMeans(4.0, search=True, missing="observed")
    first, second, third, fourth = model.fit_predict(rows, sample_weight=[1, 1, 1, 0]).tolist()
    assert first == second != third
    assert fourth == -1 < third
