import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import rows_and_centers, seeds, table

from dask_dpmeans import reference
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.distance import Centers, nearest, nearest_two, squared_distances

pytestmark = pytest.mark.usefixtures("way")

drawn_problems = rows_and_centers(columns=(1, 24))


def by_definition(rows, centers):
    """(n, k), the float64 sums over the columns in order."""
    total = np.zeros((len(rows), len(centers)))
    for values, middles in zip(rows.astype(np.float64).T, centers.T, strict=True):
        differences = values[:, np.newaxis] - middles
        total += differences * differences
    return total


@given(drawn_problems, seeds)
def test_a_squared_distance_is_the_sum_over_the_columns_in_order(drawn, seed):
    rows, centers = drawn
    labels = np.random.default_rng(seed).integers(len(centers), size=len(rows))
    expected = [
        reference.squared_distance(row, centers[label].tolist())
        for row, label in zip(rows.tolist(), labels, strict=True)
    ]
    assert squared_distances(rows, centers, labels).tolist() == expected


@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 100), (65537, 1), (1311, 100), (7, 9000), (5, 16384), (3, 65537)]
)
def test_tiles_do_not_show_in_squared_distances(shape):
    rows, centers = (
        table("clouds", shape, np.float32, 0),
        table("clouds", (2, shape[1]), np.float64, 1),
    )
    labels = np.arange(shape[0]) % 2
    expected = by_definition(rows, centers)[np.arange(shape[0]), labels]
    assert squared_distances(rows, centers, labels).tobytes() == expected.tobytes()


@given(drawn_problems)
def test_the_nearest_center_is_the_first_of_least_squared_distance(drawn):
    rows, centers = drawn
    expected = [reference.nearest_center(row, centers.tolist())[0] for row in rows.tolist()]
    assert nearest(rows, Centers(centers)).tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kind", ["grid", "offset", "outliers", "huge", "tiny", "subnormal", "uneven"]
)
@pytest.mark.parametrize(("n", "d", "k"), [(2500, 2, 300), (2500, 64, 9)])
def test_the_nearest_center_is_that_of_the_definition_over_many_tiles(kind, dtype, n, d, k):
    rows = table(kind, (n, d), dtype, 0)
    centers = rows[::-1][:k].astype(np.float64) / 2 + rows[:k] / 2
    assert (
        nearest(rows, Centers(centers)).tolist()
        == by_definition(rows, centers).argmin(axis=1).tolist()
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_row_may_be_in_doubt(dtype):
    rows = table("clouds", (600, 40), dtype, 0)
    once = rows[::3].astype(np.float64)
    centers = np.concatenate([once, once])[np.random.default_rng(1).permutation(400)]
    assert (
        nearest(rows, Centers(centers)).tolist()
        == by_definition(rows, centers).argmin(axis=1).tolist()
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [2, 7, 50])
def test_rows_on_the_bisector_go_where_the_last_bit_points(dtype, d):
    """Rows as far from one center as from another, but for the rounding of the rows themselves."""
    rng = np.random.default_rng(d)
    centers = rng.normal(size=(9, d))
    rows = rng.normal(size=(8000, d))
    one, other = centers[rng.integers(9, size=8000)], centers[rng.integers(9, size=8000)]
    along = other - one
    off = np.einsum("ij,ij->i", rows - (one + other) / 2, along) / np.maximum(
        np.einsum("ij,ij->i", along, along), 1e-9
    )
    rows = (rows - off[:, np.newaxis] * along).astype(dtype)
    assert (
        nearest(rows, Centers(centers)).tolist()
        == by_definition(rows, centers).argmin(axis=1).tolist()
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e9, 1e12])
def test_differences_that_the_definition_rounds_away_are_ties(dtype, far):
    rng = np.random.default_rng(0)
    rows, centers = rng.normal(size=(500, 2)), 1e-3 * rng.normal(size=(10, 2))
    rows[:, 0], centers[:, 0] = far, 0.0
    rows = rows.astype(dtype)
    assert (
        nearest(rows, Centers(centers)).tolist()
        == by_definition(rows, centers).argmin(axis=1).tolist()
    )


@given(drawn_problems, st.data())
def test_labels_do_not_depend_on_the_rows_around(drawn, data):
    rows, centers = drawn
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    parts = [nearest(part, Centers(centers)) for part in np.split(rows, cuts)]
    assert np.concatenate(parts).tolist() == nearest(rows, Centers(centers)).tolist()


@given(drawn_problems, drawn_problems)
def test_what_a_scratch_held_before_does_not_show(one, other):
    used = Scratch()
    for rows, centers in (one, other, one):
        labels = nearest(rows, Centers(centers), used)
        assert labels.tolist() == nearest(rows, Centers(centers)).tolist()
        squared = squared_distances(rows, centers, labels, used)
        assert squared.tobytes() == squared_distances(rows, centers, labels).tobytes()


def two_nearest(rows, centers):
    order = by_definition(rows, centers).argsort(axis=1, kind="stable")
    return order[:, 0].tolist(), order[:, 1].tolist()


@given(rows_and_centers(columns=(1, 24)).filter(lambda drawn: len(drawn[1]) > 1))
def test_the_two_nearest_centers_are_the_first_of_least_squared_distance(drawn):
    rows, centers = drawn
    labels, seconds = nearest_two(rows, Centers(centers))
    assert (labels.tolist(), seconds.tolist()) == two_nearest(rows, centers)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kind", ["grid", "offset", "outliers", "huge", "tiny", "subnormal", "uneven"]
)
@pytest.mark.parametrize(("n", "d", "k"), [(2500, 2, 300), (2500, 64, 9), (700, 3, 2)])
def test_the_two_nearest_centers_are_those_of_the_definition_over_many_tiles(kind, dtype, n, d, k):
    rows = table(kind, (n, d), dtype, 0)
    centers = rows[::-1][:k].astype(np.float64) / 2 + rows[:k] / 2
    labels, seconds = nearest_two(rows, Centers(centers))
    assert (labels.tolist(), seconds.tolist()) == two_nearest(rows, centers)
    assert labels.tolist() == nearest(rows, Centers(centers)).tolist()


@pytest.mark.parametrize("scale", [1e153, 1e154, 1e155, 1e300])
def test_where_squared_distances_overflow_they_are_equal(scale):
    rng = np.random.default_rng(0)
    rows, centers = scale * rng.normal(size=(300, 3)), scale * rng.normal(size=(7, 3))
    with np.errstate(over="ignore"):
        expected = by_definition(rows, centers)
        assert nearest(rows, Centers(centers)).tolist() == expected.argmin(axis=1).tolist()
        assert nearest_two(rows, Centers(centers))[1].tolist() == two_nearest(rows, centers)[1]
