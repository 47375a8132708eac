"""Bounds by the relaxation with a price: never above the exact optimum, and at it on small real sets."""

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from exact_optimum import exact_optimum
from hypothesis import example, given, settings
from strategies import seeds
from threadpoolctl import threadpool_limits

from dask_dpmeans.kernels.lower_bound.relaxation import Point
from dask_dpmeans.methods.lower_bound.relaxed_bound import Before, relaxed_bound

INSTANCES = int(os.environ.get("DASK_DPMEANS_TINY_INSTANCES", "60"))
"""Set to 10,000 for all of them, in some minutes."""
PUBLISHED = Path(__file__).parents[4] / "shared" / "data" / "published"
CERTIFIED = {
    "ruspini": {4: 12881.0512361466, 5: 10126.7197881828, 6: 8575.40687645688},
    "bavaria1": {3: 2.94506562778027e11, 4: 1.04474664100716e11, 5: 5.97615267205269e10},
}


@pytest.fixture(autouse=True)
def _one_blas_thread():
    with threadpool_limits(1):
        yield


def tiny(seed):
    """Rows, weights and a penalty: ties, equal rows, outliers, far away, of any scale and precision."""
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    kind = rng.integers(5)
    if kind == 0:
        rows = rng.integers(0, 3, shape).astype(float)
    elif kind == 1:
        rows = rng.normal(size=shape)[rng.integers(shape[0], size=shape[0])]
    elif kind == 2:
        rows = rng.standard_cauchy(shape) * 10.0 ** rng.integers(-3, 4, shape[1])
    else:
        rows = rng.normal(size=shape)
    rows = rows * 10.0 ** rng.integers(-8, 9) * rng.choice([1.0, 1.0, 1e-60, 1e60])
    rows = rows + rng.choice([0.0, 0.0, 1e6]) * np.abs(rows).max()
    if rng.integers(2):
        rows = np.clip(rows, -1e30, 1e30).astype(np.float32)
    weights = np.ones(len(rows))
    if rng.integers(2):
        weights = rng.choice([0.0, 0.3, 1.0, 7.7, 1e8, 1e-8], len(rows))
        weights[0] = 1.0
    wide = rows.astype(np.float64)
    scale = weights.sum() * float(wide.var(axis=0).sum())
    penalty = max(scale * 10 ** rng.uniform(-3, 0.5), np.finfo(np.float64).tiny)
    return rows, weights, penalty


def test_bounds_of_tiny_instances_are_never_above_the_optimum_and_mostly_at_it():
    reached = 0
    for seed in range(INSTANCES):
        rows, weights, penalty = tiny(seed)
        optimum = exact_optimum(rows, weights, penalty)
        bound = relaxed_bound(rows, weights, penalty, float(optimum), work=2**27)
        assert penalty <= bound
        assert Fraction(bound) <= optimum
        reached += bound >= float(optimum) * (1 - 1e-6)
    assert reached > 0.8 * INSTANCES


@settings(max_examples=10)
@example(seed=509_900)  # all rows together is the lowest node, which has no pair to split
@given(seed=seeds)
def test_bounds_that_are_not_stopped_are_never_above_the_optimum(seed):
    """Without an upper end the solver converges to the last digits: what is left of the gap is rounding."""
    rows, weights, penalty = tiny(seed)
    bound = relaxed_bound(rows, weights, penalty, work=2**26)
    assert Fraction(bound) <= exact_optimum(rows, weights, penalty)


@settings(max_examples=10)
@given(seed=seeds)
def test_an_end_below_the_optimum_stops_the_work_and_no_more(seed):
    rows, weights, penalty = tiny(seed)
    bound = relaxed_bound(rows, weights, penalty, penalty, work=2**24)
    assert Fraction(bound) <= exact_optimum(rows, weights, penalty)


@pytest.mark.parametrize("value", [1e-300, 1.0, 1e150])
@pytest.mark.parametrize("penalty", [1e-300, 1.0, 1e300])
def test_extreme_values_and_penalties_have_a_bound(value, penalty):
    rows = value * np.array([[0.0, 1.0], [0.0, 1.5], [3.0, 1.0]])
    bound = relaxed_bound(rows, np.ones(3), penalty)
    assert penalty <= bound
    assert Fraction(bound) <= exact_optimum(rows, np.ones(3), penalty)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_bounds_scale_with_weights_and_squares(scale):
    rows = np.random.default_rng(0).normal(size=(20, 2))
    bound = relaxed_bound(rows, np.ones(20), 3.0)
    weighted = relaxed_bound(rows, np.full(20, scale), 3.0 * scale) / scale
    assert weighted == pytest.approx(bound, rel=1e-6)
    longer = relaxed_bound(scale * rows, np.ones(20), 3.0 * scale**2) / scale**2
    assert longer == pytest.approx(bound, rel=1e-6)


@pytest.mark.parametrize("rings", [1, 2])
def test_rings_of_five_are_proved_by_branching(rings):
    """Rows in pairs around an odd ring: rows that are apart must not be together at a cost that is too low."""
    angles = 2 * np.pi * np.arange(5) / 5
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    rows = np.concatenate([ring + np.array([20.0 * number, 0.0]) for number in range(rings)])
    optimum = rings * float(exact_optimum(ring, np.ones(5), 0.8))
    bound = relaxed_bound(rows, np.ones(len(rows)), 0.8, optimum, work=2**29)
    assert optimum * (1 - 3e-7) <= bound <= optimum * (1 + 1e-12)


@given(seed=seeds)
def test_a_node_begins_with_the_clusters_of_the_node_before(seed):
    rng = np.random.default_rng(seed)
    labels, masses = rng.integers(0, 3, 9), rng.uniform(0.5, 2.0, 9)
    within = labels * 2 + rng.integers(0, 2, 9)  # larger groups of the same clusters
    groups = np.unique(within, return_inverse=True)[1]

    def roots(groups):
        return np.sqrt(np.bincount(groups, masses))

    def shared(groups):
        cluster = np.array([labels[groups == group][0] for group in range(groups.max() + 1)])
        total = np.bincount(labels, masses)[cluster]
        return np.outer(roots(groups), roots(groups)) / total * (cluster[:, np.newaxis] == cluster)

    rows = np.arange(9)
    triples = np.array([[0, 1, 2], [3, 4, 4], [3, 5, 4]])
    point = Point(shared(rows), -shared(rows), np.array([1.0, 2.0, 4.0]), 3.0)
    cuts, joined = Before(rows, roots(rows), triples, point).for_larger_groups(
        groups, roots(groups)
    )
    np.testing.assert_allclose(joined.shared, shared(groups), atol=1e-12)
    np.testing.assert_allclose(joined.multipliers, -shared(groups), atol=1e-12)
    i, j, k = cuts.triples.T
    assert ((i != j) & (i != k)).all()
    kept = [(groups[i] not in (groups[j], groups[k])) for i, j, k in triples]
    assert joined.prices.sum() == np.array([1.0, 2.0, 4.0])[kept].sum()


def test_equal_rows_count_as_one_of_their_weight():
    rows = np.random.default_rng(1).normal(size=(12, 2))
    twice = np.concatenate([rows, rows])
    assert relaxed_bound(twice, np.ones(24), 3.0) == pytest.approx(
        relaxed_bound(rows, np.full(12, 2.0), 3.0), rel=1e-9
    )


def test_two_runs_have_the_same_bytes():
    rows = np.random.default_rng(2).normal(size=(40, 3))
    assert relaxed_bound(rows, np.ones(40), 5.0, work=2**28) == relaxed_bound(
        rows, np.ones(40), 5.0, work=2**28
    )


def test_more_work_never_lowers_the_bound():
    rows = np.random.default_rng(3).normal(size=(24, 2))
    bounds = [relaxed_bound(rows, np.ones(24), 1.5, work=2.0**log) for log in (24, 26, 28)]
    assert bounds == sorted(bounds)


@pytest.mark.skipif(not PUBLISHED.exists(), reason="needs the sets with certified optima")
@pytest.mark.parametrize("name", sorted(CERTIFIED))
def test_certified_optima_are_proved(name):
    rows = np.load(PUBLISHED / f"{name}.npz")["X"]
    (_, before), (k, at), (_, after) = CERTIFIED[name].items()
    penalty = float(np.sqrt((before - at) * (at - after)))
    upper = at + penalty * k
    bound = relaxed_bound(rows, np.ones(len(rows)), penalty, upper)
    assert upper * (1 - 1e-6) <= bound <= upper * (1 + 1e-12)


def test_subnormal_weights_are_not_rounded_up():
    rng = np.random.default_rng(1)
    for _ in range(10):
        rows = (rng.normal(size=(4, 2)) + 4 * rng.integers(0, 3, (4, 1))) * 1e140
        weights = 1e-320 * rng.choice([1.0, 3.0, 0.25], 4)
        penalty = 1e-40 * rng.uniform(0.5, 20)
        exact = exact_optimum(rows, weights, penalty)
        assert Fraction(relaxed_bound(rows, weights, penalty, float(exact))) <= exact
