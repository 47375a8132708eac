"""The surplus of rows that are known by micro-clusters: never below the true one, and near it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.kernels.lower_bound.micro_surplus import (
    Extents,
    MicroRows,
    PricedMicroClusters,
    averages,
)
from dask_dpmeans.kernels.lower_bound.surplus import PricedRows, greatest_surplus, whole_space

SPREADS = st.sampled_from([0.0, 0.05, 0.5, 2.0])


def drawn(seed, spread, m=7, rows=6):
    """Return micro-clusters with prices, and their rows with the prices that these stand for."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    middles = 2 * rng.normal(size=(m, 1, d))
    of_each = middles + spread * rng.normal(size=(m, rows, d)) * rng.choice([0.1, 1.0], (m, 1, d))
    weights = rng.choice([0.5, 1.0, 3.0], (m, rows))
    masses = weights.sum(axis=1)
    means = np.einsum("mr,mrd->md", weights, of_each) / masses[:, np.newaxis]
    beyond = of_each - means[:, np.newaxis]
    covariances = (
        np.einsum("mr,mri,mrj->mij", weights, beyond, beyond) / masses[:, np.newaxis, np.newaxis]
    )
    scatters = np.einsum("mr,mri,mri->m", weights, beyond, beyond)
    micro = MicroRows(
        means,
        masses,
        of_each.min(axis=1),
        of_each.max(axis=1),
        covariances + 1e-12 * np.eye(d),
        scatters,
        scatters,
    )
    anchors = middles[rng.integers(0, m, m), 0] if rng.random() < 0.5 else means
    extents = Extents.about(anchors, micro)
    prices = rng.uniform(-1, 5, m)
    priced = PricedMicroClusters(means, masses, prices, extents)
    paid = ((of_each - anchors[:, np.newaxis]) ** 2).sum(axis=2) + priced.offsets[:, np.newaxis]
    return priced, PricedRows(of_each.reshape(-1, d), weights.ravel(), paid.ravel())


@given(seeds, SPREADS)
def test_rows_pay_what_their_micro_clusters_pay(seed, spread):
    priced, rows = drawn(seed, spread)
    paid, least = priced.paid()
    assert least <= rows.weights @ rows.prices == pytest.approx(paid.sum(), rel=1e-9, abs=1e-9)
    assert least == pytest.approx(paid.sum(), rel=1e-6, abs=1e-6)


@given(seeds, SPREADS)
def test_the_surplus_of_points_is_never_below_what_the_rows_pay(seed, spread):
    priced, rows = drawn(seed, spread)
    points = np.random.default_rng(seed).uniform(-4, 4, (40, rows.rows.shape[1]))
    true, found = rows.surplus(points), priced.surplus(points)
    assert (true <= found + 1e-9).all()
    if spread == 0:
        np.testing.assert_allclose(found, true, atol=1e-4)


@given(seeds, SPREADS, st.sampled_from([300, 10**5]))
@settings(max_examples=25)
def test_the_bound_is_above_the_surplus_of_all_points(seed, spread, most_pairs):
    priced, rows = drawn(seed, spread)
    points = np.concatenate(
        [rows.rows, np.random.default_rng(seed).uniform(-4, 4, (200, rows.rows.shape[1]))]
    )
    points = rows.ascend(points)
    bound = greatest_surplus(priced, 0.0, most_pairs).bound
    assert rows.surplus(points).max() <= bound
    if most_pairs == 10**5 and spread <= 0.05:
        assert bound <= max(priced.surplus(points).max() * 1.2, 0.5)


@given(seeds, SPREADS, st.integers(0, 6))
def test_boxes_bound_the_surplus_of_their_centers(seed, spread, halvings):
    priced, rows = drawn(seed, spread)
    low, high = priced.corners()
    centers = np.random.default_rng(seed).uniform(low, high, (60, len(low)))
    boxes, _ = whole_space(priced).with_bounds(priced)
    for _ in range(halvings):
        boxes, at_middles = boxes.halve().with_bounds(priced)
        assert (rows.surplus(boxes.middles) <= at_middles + 1e-9).all()
    inside = (np.abs(centers[:, np.newaxis] - boxes.middles) <= boxes.halves).all(axis=2)
    assert inside.any(axis=1).all()
    bounds = np.where(inside, boxes.bounds, np.inf).min(axis=1)
    assert (rows.surplus(centers) <= bounds + 1e-9).all()


@given(seeds, SPREADS)
def test_margins_of_rows_lie_in_the_range_of_their_micro_cluster(seed, spread):
    priced, rows = drawn(seed, spread)
    rng = np.random.default_rng(seed)
    m, d = priced.rows.shape
    middles, halves = rng.uniform(-3, 3, (m, d)), rng.choice([0.0, 0.2, 2.0]) * rng.random((m, d))
    centers = middles + halves * rng.uniform(-1, 1, (20, m, d))
    shifts = middles - priced.extents.anchors
    least, most = priced.extents.range(priced.offsets, shifts, halves)
    each = rows.prices.reshape(m, -1) - (
        (centers[:, :, np.newaxis] - rows.rows.reshape(m, -1, d)) ** 2
    ).sum(axis=3)
    assert (least - 1e-9 <= each.min(axis=(0, 2))).all()
    assert (each.max(axis=(0, 2)) <= most + 1e-9).all()
    deviations = priced.extents.greatest_deviations(shifts, halves)
    weights = rows.weights.reshape(m, -1)
    means = (weights * each).sum(axis=2) / priced.weights
    squares = (weights * (each - means[:, :, np.newaxis]) ** 2).sum(axis=2) / priced.weights
    assert (np.sqrt(squares).max(axis=0) <= deviations + 1e-5).all()


@given(seeds)
def test_averages_rise_as_fast_as_their_slope_says_and_are_near_those_of_even_margins(seed):
    rng = np.random.default_rng(seed)
    margins, spread = rng.uniform(-2, 2, 50), rng.uniform(0.1, 1, 50)
    data = margins - spread, margins + spread, spread / np.sqrt(3)
    values, shares = averages(margins, *data)
    even = np.where(
        np.abs(margins) < spread, (margins + spread) ** 2 / (4 * spread), np.maximum(margins, 0)
    )
    assert (even <= values + 1e-12).all()
    assert (values <= even + 0.1 * spread).all()
    step = 1e-7
    more, _ = averages(margins + step, data[0] + step, data[1] + step, data[2])
    np.testing.assert_allclose((more - values) / step, shares, atol=1e-4)
