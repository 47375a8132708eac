import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import tables

from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.kernels.features import UnitRows


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
