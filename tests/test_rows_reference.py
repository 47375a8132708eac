"""The slow references of divergences, holes, outliers and prices are what they say."""

import math

import numpy as np
import pytest
import rows_reference as reference
from hypothesis import given
from hypothesis import strategies as st
from optimum import partitions
from rows_reference import FORMULAS, OUTLIER, Price, table
from scipy.special import kl_div, xlogy
from scipy.stats import entropy
from sklearn.metrics.pairwise import nan_euclidean_distances
from strategies import seeds

KINDS = tuple(kind for kind in FORMULAS if kind != "cosine")
"""Kinds whose best center is the mean; for "cosine" it is the direction of the mean."""
COLUMNS = ["squared", "poisson", "categorical", "bernoulli"]


def rows_of(kind, seed, n=6, d=3):
    """Rows that a divergence, or a list of one for each column, allows."""
    rng = np.random.default_rng(seed)
    if not isinstance(kind, str):
        return np.column_stack([rows_of(each, seed + j, n, 1) for j, each in enumerate(kind)])
    drawn = {
        "squared": rng.normal(size=(n, d)),
        "poisson": rng.poisson(2.0, (n, d)),
        "multinomial": rng.multinomial(9, np.ones(d) / d, n),
        "bernoulli": rng.integers(0, 2, (n, d)),
        "categorical": rng.integers(0, 3, (n, d)),
    }
    return drawn.get(kind, rng.gamma(3.0, 2.0, (n, d))).astype(float)


def with_holes(X, seed, share=0.3):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def test_divergences_are_those_of_the_textbooks():
    x, m = np.array([0.0, 3.0, 1.5]), np.array([0.5, 2.0, 4.0])
    assert reference.divergence("squared", x, m) == pytest.approx(((x - m) ** 2).sum())
    assert reference.divergence("poisson", x, m) == pytest.approx(kl_div(x, m).sum())
    p, q = np.array([0.0, 0.25, 0.75]), np.array([0.2, 0.5, 0.3])
    assert reference.divergence("multinomial", p, q) == pytest.approx(entropy(p, q))
    crossed = -xlogy(p, q) - xlogy(1 - p, 1 - q) + xlogy(p, p) + xlogy(1 - p, 1 - p)
    assert reference.divergence("bernoulli", p, q) == pytest.approx(crossed.sum())
    x[0] = 1.0
    assert reference.divergence("itakura-saito", x, m) == pytest.approx(
        (x / m - np.log(x / m) - 1).sum()
    )
    assert reference.divergence("poisson", [1.0], [0.0]) == math.inf
    assert reference.divergence("bernoulli", [1.0], [1.0]) == 0


@given(kind=st.sampled_from([*KINDS, COLUMNS]), seed=seeds, missing=st.booleans())
def test_no_center_is_better_than_the_mean_of_what_was_observed(kind, seed, missing):
    X = rows_of(kind, seed)
    if missing and kind != "multinomial":
        X = with_holes(X, seed)
    rng = np.random.default_rng(seed)
    rows = table(X, kind, rng.integers(1, 4, len(X)))
    everyone = range(rows.n)

    def cost(center):
        return math.fsum(rows.weights[row] * rows.cost(row, center) for row in everyone)

    mean = rows.center(everyone)
    least = cost(mean)
    assert least == rows.inertia(everyone) >= 0
    for row in everyone:
        pull = rng.random() * 0.1
        pairs = zip(mean, rows.row(row), strict=True)
        assert cost([(1 - pull) * mine + pull * other for mine, other in pairs]) >= least - 1e-12


@pytest.mark.parametrize("kind", [*KINDS, COLUMNS])
@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_the_least_objective_of_all_partitions(kind, outliers, seed):
    X = rows_of(kind, seed, n=5)
    if kind != "multinomial" and seed % 2:
        X = with_holes(X, seed)
        X[0] = np.nan
    weights = np.random.default_rng(seed).integers(1, 4, 5)
    whole = table(X, kind, weights)
    inertia = whole.inertia(range(5))
    tau = inertia / weights.sum() if outliers else math.inf
    rows = table(X, kind, weights, outlier_penalty=tau)
    price = Price(0.2 * inertia, discount=0.05 * inertia * (seed % 2), floor=0.1 * inertia)
    there = [row for row in range(5) if rows.factors[row] > 0]
    labelings = []
    for subset in range(1, 2 ** len(there)):
        chosen = [row for i, row in enumerate(there) if subset >> i & 1]
        if not outliers and len(chosen) < len(there):
            continue
        for each in partitions(len(chosen)):
            labels = np.full(5, OUTLIER)
            for number, cluster in enumerate(each):
                labels[[chosen[i] for i in cluster]] = number
            labelings.append(labels)
    least = min(rows.objective(labels, price) for labels in labelings)
    assert rows.optimum(price) == pytest.approx(least, rel=1e-12)


@given(seed=seeds)
def test_observed_columns_count_for_the_missing_as_in_scikit_learn(seed):
    X = with_holes(rows_of("squared", seed, 8, 4), seed)
    X = X[~np.isnan(X).all(axis=1)]
    rows = table(X, "squared")
    centers = np.random.default_rng(seed).normal(size=(3, 4))
    wanted = nan_euclidean_distances(X, centers, squared=True) if len(X) else np.empty((0, 3))
    found = rows.costs(centers[:, :, np.newaxis])
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-9, atol=1e-12)


@given(seed=seeds)
def test_no_direction_is_better_than_the_center_of_directions(seed):
    rng = np.random.default_rng(seed)
    rows = table(rows_of("cosine", seed), "cosine", rng.integers(1, 4, 6))
    center = rows.center(range(6))
    assert np.linalg.norm(center[0]) == pytest.approx(1.0)
    least = rows.inertia(range(6))
    for _ in range(20):
        moved = center[0] + 0.1 * rng.normal(size=3)
        other = [moved / np.linalg.norm(moved)]
        cost = math.fsum(rows.weights[row] * rows.cost(row, other) for row in range(6))
        assert cost >= least - 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_all_rows_stays_where_it_was_if_rows_are_smoothed(kind):
    rows = table(rows_of(kind, 0), kind, [1, 2, 1, 3, 1, 1])
    for mean, block in zip(rows.center(range(6)), rows.blocks, strict=True):
        np.testing.assert_allclose(mean, block.everywhere, rtol=1e-12)


def test_columns_of_their_own_divergences_cost_the_same_in_total():
    rows = table(rows_of(COLUMNS, 1), COLUMNS, [1, 2, 1, 3, 1, 1])
    mean = rows.center(range(6))
    for block, center in zip(rows.blocks, mean, strict=True):
        total = math.fsum(rows.weights[row] * block.cost(row, center) for row in range(6))
        assert total == pytest.approx(9.0)


def test_rows_with_nothing_observed_are_outliers_that_cost_nothing():
    X = np.array([[0.0, 1.0], [np.nan, np.nan], [2.0, np.nan]])
    rows = table(X, "squared", outlier_penalty=3.0)
    labels, costs = rows.cheapest([rows.row(0)])
    assert labels.tolist() == [0, OUTLIER, OUTLIER]  # the last costs 2 ** 2 * 2 / 1
    assert costs.tolist() == [0.0, 0.0, 3.0]
    assert rows.objective(labels, Price(1.0)) == 4.0
    assert table(X, "squared", missing="unscaled").costs([rows.row(0)])[2] == 4.0


def test_a_price_with_a_discount_falls_to_its_floor():
    price = Price(5.0, discount=2.0, floor=3.0)
    assert price.of(3) == pytest.approx(5 + (5 - 2 * math.log(2)) + 3)
    assert Price(5.0).of(4) == 20.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_radius_fit_of_the_reference_ends_where_a_sweep_changes_nothing(kind):
    X = rows_of(kind, 3, 40)
    rows = table(X, kind)
    penalty = 0.3 * rows.inertia(range(40)) / 10
    labels, centers = rows.radius_fit(penalty)
    again, costs = rows.cheapest(centers)
    assert len(centers) > 1
    assert again.tolist() == labels.tolist()
    assert costs.max() <= penalty
