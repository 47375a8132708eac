"""The greatest surplus of a center: never below the true one, and near it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optimum import subsets
from strategies import seeds

from dask_dpmeans.kernels.lower_bound.surplus import PricedRows, greatest_surplus, whole_space

KINDS = st.sampled_from(["clouds", "grid", "far", "same", "line"])


def drawn(seed, kind, n=9):
    """Return rows with weights, and prices about their squared distances."""
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(1, 5))
    rows = rng.normal(size=(n, columns)) + 3 * rng.integers(0, 2, (n, 1))
    if kind == "grid":
        rows = rng.integers(-2, 3, (n, columns)).astype(float)
    elif kind == "far":
        rows += 1e6
    elif kind == "same":
        rows = np.repeat(rows[:2], [4, n - 4], axis=0)
    elif kind == "line":
        rows[:, 1:] = rows[:, :1]
    return PricedRows(rows, rng.choice([0.25, 1.0, 3.0], n), rng.uniform(-1, 6, n))


def true_surplus(priced):
    """Return the greatest surplus: that of the mean of the best of all sets of rows that could pay."""
    inside = subsets(len(priced.rows))
    weights = inside * priced.weights
    masses = weights.sum(axis=1)
    differences = priced.rows[:, np.newaxis] - priced.rows
    squared = (differences**2).sum(axis=2)
    inertias = np.einsum("si,ij,sj->s", weights, squared, weights) / (
        2 * np.maximum(masses, 1e-300)
    )
    return max(0.0, float((weights @ priced.prices - inertias).max()))


@given(seeds, KINDS)
def test_the_bound_of_the_surplus_is_above_every_set_of_rows_and_near_the_best_one(seed, kind):
    priced = drawn(seed, kind)
    true = true_surplus(priced)
    found = greatest_surplus(priced, 0.0, 10**7)
    assert true <= found.bound <= true * (1 + 1e-6) + 1e-6
    above = greatest_surplus(priced, true * 1.5, 10**7)
    assert true <= above.bound == pytest.approx(true * 1.5, rel=1e-6, abs=1e-6)


@given(seeds, KINDS, st.integers(0, 300))
def test_a_bound_after_little_work_is_still_one(seed, kind, most_pairs):
    priced = drawn(seed, kind)
    assert true_surplus(priced) <= greatest_surplus(priced, 0.0, most_pairs).bound


@given(seeds, KINDS)
def test_points_lead_to_the_surplus_above_what_is_enough(seed, kind):
    priced = drawn(seed, kind)
    true = true_surplus(priced)
    found = greatest_surplus(priced, 0.9 * true, 10**7)
    if true > 1e-6:
        assert (priced.surplus(found.points) > 0.9 * true * (1 - 1e-9)).all()
        best = priced.surplus(priced.ascend(found.points))
        assert best.max() == pytest.approx(true, rel=1e-3)


@given(seeds, KINDS)
def test_the_surplus_never_falls_on_the_way_up(seed, kind):
    priced = drawn(seed, kind)
    before = priced.surplus(priced.rows)
    assert (priced.surplus(priced.ascend(priced.rows)) >= before * (1 - 1e-9) - 1e-9).all()


@given(seeds, KINDS, st.integers(1, 6))
def test_halves_of_boxes_hold_every_center_and_bound_its_surplus(seed, kind, halvings):
    priced = drawn(seed, kind)
    rng = np.random.default_rng(seed)
    low, high = priced.rows.min(axis=0), priced.rows.max(axis=0)
    centers = rng.uniform(low, high, (50, len(low)))
    boxes, _ = whole_space(priced).with_bounds(priced)
    for _ in range(halvings):
        boxes, at_middles = boxes.halve().with_bounds(priced)
    np.testing.assert_allclose(at_middles, priced.surplus(boxes.middles), rtol=1e-7, atol=1e-7)
    inside = (np.abs(centers[:, np.newaxis] - boxes.middles) <= boxes.halves).all(axis=2)
    assert inside.any(axis=1).all()
    bounds = np.where(inside, boxes.bounds, np.inf).min(axis=1)
    assert (priced.surplus(centers) <= bounds * (1 + 1e-9) + 1e-6).all()
