import numpy as np
import pytest
from strategies import by_definition

from dask_dpmeans.kernels import distance, numba_support
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.leading_columns import LeadingColumns


def flat(n, d, seed, dtype=np.float32):
    """Rows that vary in three directions, and little in all others."""
    random, axes = np.random.default_rng(seed), np.random.default_rng(9).normal(size=(3, d))
    return (50.0 + random.normal(size=(n, 3)) @ axes + 1e-3 * random.normal(size=(n, d))).astype(
        dtype
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_axes_have_the_answers_of_the_definition(dtype, monkeypatch):
    rows, centers = flat(700, 60, 0, dtype), flat(2100, 60, 1, np.float64)
    centers[1::3] = centers[::3]  # equal centers
    expected = by_definition(rows, centers)
    order = expected.argsort(axis=1, kind="stable")[:, :2]
    turned = LeadingColumns.of(centers, rows, 2)
    assert turned.axes.shape[1] < 30
    assert turned.nearest(rows, 2, np.empty(0)).tolist() == order.T.tolist()
    squared = np.empty(len(rows))
    assert turned.nearest(rows, 1, squared).tolist() == order[:, :1].T.tolist()
    assert squared.tobytes() == expected.min(axis=1).tobytes()
    if numba_support.AVAILABLE:
        monkeypatch.setattr(distance, "_rank_compiled", None)
        monkeypatch.setattr(distance, "MOST_COLUMNS", 0)
        monkeypatch.setattr(distance, "LEAST_TURNED", len(centers))
        labels, costs = nearest_squared(rows, Centers(centers))
        assert (labels.tolist(), costs.tobytes()) == (order[:, 0].tolist(), squared.tobytes())


def test_axes_are_used_where_that_pays_and_numbers_cannot_overflow():
    random = np.random.default_rng(0)
    rows, centers = random.normal(size=(100, 60)), random.normal(size=(2100, 60))
    assert LeadingColumns.of(centers, rows, 1) is None
    assert LeadingColumns.of(1e20 * flat(300, 60, 0, np.float64), rows, 1) is None
    assert LeadingColumns.of(np.ones((300, 60)), rows, 1) is None


def test_rows_that_are_no_numbers_or_far_away_follow_the_definition():
    rows, centers = flat(6, 60, 0, np.float64), flat(300, 60, 1, np.float64)
    turned = LeadingColumns.of(centers, rows, 2)
    rows[0, 3], rows[1, 5], rows[2], rows[3] = np.nan, np.inf, 1e200, 1e9
    with np.errstate(all="ignore"):
        order = by_definition(rows, centers).argsort(axis=1, kind="stable")[:, :2]
    order[0] = 0, 1
    assert turned.nearest(rows, 2, np.empty(0)).tolist() == order.T.tolist()


def balls(n, k, place):
    """Return n rows close to a center, at a place, of the k centers, which are returned too."""
    random = np.random.default_rng(0)
    centers = random.normal(size=(k, 48))
    return centers[place] + 0.01 * random.normal(size=(n, 48)), centers


def test_leading_columns_of_balls_are_used_for_their_centers_and_not_for_the_second_nearest():
    """Many centers are about as near as the second nearest: they are listed, and measured one by one."""
    rows, centers = balls(100, 1000, 0)
    found = [LeadingColumns.of(centers, rows, count) for count in (1, 2)]
    assert [each is None for each in found] == [False, True]


def test_leading_columns_that_list_many_centers_before_the_nearest_are_not_used():
    found = [LeadingColumns.of(*balls(100, 3000, place)[::-1], 1) for place in (0, -1)]
    assert [each is None for each in found] == [False, True]
