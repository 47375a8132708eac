"""What pictures ask of the rows."""

import numpy as np
from hypothesis import given
from scipy.sparse import csr_array, random_array
from strategies import reduced, seeds

from dask_dpmeans.kernels.plot_statistics import Adjacency, Covariance, Plane


def test_places_in_a_plane_are_products_with_what_differs_from_the_origin():
    rng = np.random.default_rng(1)
    rows, origin, directions = rng.normal(size=(5, 4)), rng.normal(size=4), rng.normal(size=(4, 2))
    np.testing.assert_allclose(Plane(origin, directions)(rows), (rows - origin) @ directions)


def test_columns_are_a_plane_like_any_other():
    rows = np.random.default_rng(2).normal(size=(5, 4)).astype(np.float32)
    plane = Plane.of_columns(4, [3, 1])
    np.testing.assert_array_equal(plane(rows), Plane(plane.origin, plane.directions)(rows))
    assert plane(rows).dtype == np.float64


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


def test_links_are_brought_together():
    graph = csr_array(random_array((40, 40), density=0.1, rng=np.random.default_rng(0)))
    found = reduced(Adjacency(), graph)
    assert (found != graph).nnz == 0
