"""What pictures ask of the rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array
from strategies import seeds

from dask_dpmeans.kernels.assign import Predictions
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.plot_statistics import Adjacency, Covariance, Edge, Histogram, Plane


def reduced(reduction, rows, weights=None, height=16):
    blocks = [
        Block(
            start,
            rows[start : start + height],
            None if weights is None else weights[start : start + height],
        )
        for start in range(0, rows.shape[0], height)
    ]
    found = reduction.chunk(blocks[0])
    for block in blocks[1:]:
        found = reduction.combine(found, reduction.chunk(block))
    return found


def histogram(boxes, rows, weights=None):
    return boxes.counts(reduced(boxes, rows, weights))


@given(seeds, st.booleans(), st.integers(1, 9))
def test_a_histogram_is_that_of_numpy(seed, weighted, bins):
    rng = np.random.default_rng(seed)
    rows, weights = (
        rng.integers(-8, 9, (100, 3)) / 4,
        rng.integers(0, 3, 100).astype(float) if weighted else None,
    )
    low, high = np.array([-2.0, -1.0]), np.array([1.0, 2.0])
    plane = Plane(np.zeros(3), np.eye(3)[:, [2, 0]])
    found = histogram(Histogram(plane, low, high, 2**bins), rows, weights)
    wanted, *_ = np.histogram2d(
        rows[:, 2], rows[:, 0], 2**bins, [(-2.0, 1.0), (-1.0, 2.0)], weights=weights
    )
    np.testing.assert_array_equal(found, wanted)


def test_a_histogram_along_one_direction_is_that_of_numpy():
    rows = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    low, high = np.array([-1.0]), np.array([2.0])
    found = histogram(Histogram(Plane(np.zeros(2), np.eye(2)[:, [1]]), low, high, 7), rows)
    np.testing.assert_array_equal(found, np.histogram(rows[:, 1].astype(float), 7, (-1.0, 2.0))[0])


def test_boxes_that_are_many_are_told_apart():
    boxes = Histogram(Plane(np.zeros(2), np.eye(2)), np.zeros(2), np.ones(2), 50_000)
    found = boxes.chunk(Block(0, np.array([[0.99999, 0.5], [1.0, 1.0], [2.0, 0.5]]), None))
    assert found.boxes.tolist() == [49_999 * 50_000 + 25_000, 50_000**2 - 1, 50_000**2]


def test_a_histogram_leaves_out_rows_however_far_they_are():
    rows, weights = np.array([[0.5], [1e200], [-1e200], [1e-201]]), np.array([1.0, 0.0, 0.0, 2.0])
    found = histogram(
        Histogram(Plane(np.zeros(1), np.eye(1)), np.array([0.0]), np.array([1e-200]), 2),
        rows,
        weights,
    )
    assert found.tolist() == [2.0, 0.0]


def test_places_in_a_plane_are_products_with_what_differs_from_the_origin():
    rng = np.random.default_rng(1)
    rows, origin, directions = rng.normal(size=(5, 4)), rng.normal(size=4), rng.normal(size=(4, 2))
    np.testing.assert_allclose(Plane(origin, directions)(rows), (rows - origin) @ directions)


@given(seeds)
def test_products_of_differences_lose_nothing_far_from_the_origin(seed):
    rng = np.random.default_rng(seed)
    rows, weights = (
        rng.integers(-9, 9, (300, 3)).astype(float),
        rng.integers(0, 3, 300).astype(float),
    )
    weights[0] = 1
    far = rows + 2.0**40
    found = reduced(Covariance(np.full(3, 2.0**40)), far, weights)
    np.testing.assert_array_equal(found, (rows * weights[:, np.newaxis]).T @ rows)


def test_rows_near_the_edge_and_beyond_are_counted():
    rows = np.array([[0.0], [1.0], [1.9], [2.0], [2.1], [9.0]])  # squared: 0, 1, 3.61, 4, 4.41, 81
    assert reduced(
        Edge(Predictions(Centers(np.zeros((1, 1))), 4.0), 4.0), rows, height=2
    ).tolist() == [2, 2]


def test_links_are_brought_together():
    graph = csr_array(random_array((40, 40), density=0.1, rng=np.random.default_rng(0)))
    found = reduced(Adjacency(), graph)
    assert (found != graph).nnz == 0
