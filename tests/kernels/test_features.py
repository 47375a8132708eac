import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import TAME, tables, weights_of

from dask_dpmeans.kernels.block import Block, Scratch
from dask_dpmeans.kernels.features import (
    NEGLIGIBLE,
    TILE,
    Axes,
    ColumnProducts,
    Projection,
    UnitRows,
    rbf_kernel,
)
from dask_dpmeans.sources import as_source


@given(tables((1, 30), (1, 5)), st.sampled_from([1e-8, 1.0, 1e8]))
def test_rows_of_any_size_come_to_unit_length_in_their_own_direction(rows, size):
    assume(float(np.abs(rows).max()) * size <= np.finfo(rows.dtype).max)
    rows = (rows * size).astype(rows.dtype)
    unit = UnitRows()(rows, Scratch())
    lengths = np.sqrt((rows.astype(np.longdouble) ** 2).sum(axis=1, keepdims=True))
    limits, zero = np.finfo(rows.dtype), lengths[:, 0] == 0
    assert unit.dtype == rows.dtype
    assert np.isnan(unit[zero]).all()
    np.testing.assert_allclose(
        unit[~zero], rows[~zero] / lengths[~zero], rtol=4 * limits.eps, atol=limits.tiny
    )


@pytest.mark.parametrize("value", [5e-324, 1e308])
def test_the_smallest_and_the_largest_numbers_have_directions(value):
    np.testing.assert_allclose(
        UnitRows()(np.array([[value, -value]]), Scratch()), [[0.5**0.5, -(0.5**0.5)]]
    )


@given(tables((1, 40), (1, 4), TAME), st.data())
def test_products_of_columns_are_those_of_all_rows_by_weight(rows, data):
    weights = data.draw(weights_of(len(rows)))
    block_rows = 2 ** data.draw(st.integers(0, 4))
    found = as_source(rows, weights, threads=2, block_rows=block_rows).fold(ColumnProducts())
    doubles, each = rows.astype(float), np.ones(len(rows)) if weights is None else weights
    wanted = doubles.T @ (each[:, np.newaxis] * doubles)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())
    assert (found == found.T).all()


@given(st.integers(1, 3 * TILE), st.integers(1, 40), st.integers(1, 9), st.booleans(), st.data())
def test_what_a_row_is_projected_to_hangs_on_that_row_alone_to_the_bit(n, d, r, by_kernel, data):
    rng = np.random.default_rng(n * d + r)
    rows = rng.normal(size=(n, d))
    axes = (
        Axes(rng.normal(size=(7, r)), rng.normal(size=(7, d)), 0.1)
        if by_kernel
        else Axes(rng.normal(size=(d, r)))
    )
    projection = Projection.of(axes, rng.uniform(1, 2, r))
    whole = np.array(projection(rows, Scratch()))
    start = data.draw(st.integers(0, n - 1))
    assert projection(rows[start:], Scratch()).tobytes() == whole[start:].tobytes()
    seen = rbf_kernel(rows, axes.landmarks, 0.1) if by_kernel else rows
    along, lengths = seen @ axes.matrix, 1.0 if by_kernel else np.linalg.norm(rows, axis=1)
    held = np.linalg.norm(along, axis=1) > NEGLIGIBLE * lengths
    direction = along / np.sqrt(projection.eigenvalues)
    unit = direction / np.linalg.norm(direction, axis=1, keepdims=True)
    np.testing.assert_allclose(whole, np.where(held[:, np.newaxis], unit, 0.0), atol=1e-12)
    assert (np.linalg.norm(whole[held], axis=1) > 0.999).all()


def test_equal_projections_are_one_key_and_others_are_not():
    axes = Axes(np.eye(2))
    one = Projection.of(axes, np.ones(2))
    assert {one: 1}[Projection.of(Axes(np.eye(2)), np.ones(2))] == 1
    others = (
        Projection.of(axes, np.full(2, 2.0)),
        Projection.of(Axes(np.eye(2), np.eye(2), 1.0), np.ones(2)),
    )
    assert len({one, *others}) == 3


def test_the_smallest_and_the_largest_rows_have_directions():
    projection = Projection.of(Axes(np.eye(2)), np.ones(2))
    rows = np.array([[1e300, -1e300], [1e-300, 1e-300], [0.0, 0.0]])
    np.testing.assert_allclose(
        projection(rows, Scratch()), [[0.5**0.5, -(0.5**0.5)], [0.5**0.5] * 2, [0, 0]]
    )


def test_products_of_a_block_do_not_see_what_fills_up_its_tiles():
    rows = np.random.default_rng(0).normal(size=(TILE + 3, 2))
    axes = Axes(np.eye(3), rows[:3], 0.5)
    seen = rbf_kernel(rows, rows[:3], 0.5)
    np.testing.assert_allclose(ColumnProducts(axes).chunk(Block(0, rows, None)), seen.T @ seen)
