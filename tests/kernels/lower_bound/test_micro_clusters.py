"""Micro-clusters hold every row once, in boxes about its nearest center, however the rows are divided."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.lower_bound.micro_clusters import Collect, Grids


def drawn(seed, n=60, k=5):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    rows = rng.normal(size=(n, d)) * rng.choice([0.01, 1.0, 30.0], d)
    return rows, rng.choice([0.0, 0.5, 2.0], n), rows[rng.permutation(n)[:k]]


def collected(rows, weights, centers, most):
    first = Collect(Centers(centers), Grids.one_place(*centers.shape), 3, 4)
    block = Block(0, rows, weights)
    collect = first
    if most:
        whole = first.chunk(block)
        whole = type(whole)(first.grids.labels(whole.keys), *list(vars(whole).values())[1:])
        collect = Collect(Centers(centers), Grids.over(whole, len(centers), most), 3, 4)
    return collect, collect.chunk(block)


@given(seeds, st.sampled_from([0, 1, 50, 3000]))
@settings(max_examples=15)
def test_moments_and_boxes_are_of_the_rows(seed, most):
    rows, weights, centers = drawn(seed)
    collect, found = collected(rows, weights, centers, most)
    labels = ((rows[:, np.newaxis] - centers) ** 2).sum(axis=2).argmin(axis=1)
    beyond = (rows - centers[labels]) / 8
    keys = collect.grids.keys(labels, beyond)
    assert (found.keys == np.unique(keys[weights > 0])).all()
    assert len(found.keys) <= max(3 * most, len(centers))
    assert (collect.grids.labels(keys) == labels).all()
    for m, key in enumerate(found.keys):
        some = (keys == key) & (weights > 0)
        heavy = weights[some] / 16
        assert found.weights[m] == heavy.sum()
        np.testing.assert_allclose(found.sums[m], heavy @ beyond[some], atol=1e-12)
        products = np.einsum("r,ri,rj->ij", heavy, beyond[some], beyond[some])
        np.testing.assert_allclose(found.products[m], products, atol=1e-9)
        assert (found.low[m] == beyond[some].min(axis=0)).all()
        assert (found.high[m] == beyond[some].max(axis=0)).all()
        within = beyond[some] - found.means[m]
        covariance = np.einsum("r,ri,rj->ij", heavy, within, within) / heavy.sum()
        np.testing.assert_allclose(found.covariances[m], covariance, atol=1e-9)


@given(seeds, st.integers(0, 60))
def test_the_sum_of_two_blocks_is_their_whole(seed, cut):
    rows, weights, centers = drawn(seed)
    collect, whole = collected(rows, weights, centers, 50)
    one = collect.chunk(Block(0, rows[:cut], weights[:cut]))
    two = collect.chunk(Block(cut, rows[cut:], weights[cut:]))
    for name, values in vars(one + two).items():
        np.testing.assert_allclose(values, getattr(whole, name), rtol=1e-9, atol=1e-12)


def test_a_grid_has_more_places_along_longer_axes_and_one_along_a_constant():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (5000, 3)) * [8.0, 2.0, 0.0] + [0, 0, 7.0]
    collect, found = collected(rows, np.ones(5000), np.array([[0.0, 0.0, 7.0]]), 100)
    sides = collect.grids.sides[0]
    assert sides[2] == 1
    assert sides[0] == pytest.approx(4 * sides[1], abs=4)
    assert 60 <= len(found.keys) <= 100
