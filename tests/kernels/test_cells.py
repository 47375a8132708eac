"""Cells of rows: each row is in one, none is cut without need, and plain Python gives the same bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TAME, seeds, tables

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.numba_support import plain
from dask_dpmeans.kernels.short_search import cell_means, cell_means_compiled


@st.composite
def problems(draw):
    rows = np.ascontiguousarray(draw(tables(rows=(1, 60), columns=(1, 4), kinds=TAME)), np.float64)
    weights = np.random.default_rng(draw(seeds)).integers(1, 5, len(rows)) / 4
    return rows, weights, draw(st.integers(1, 20))


@settings(max_examples=60)
@given(problem=problems())
def test_numpy_gives_the_bytes_of_compiled_loops_and_of_plain_python(problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba_support, "AVAILABLE", False)
        means, masses = cell_means(*problem)
    for loop in (cell_means_compiled, plain(cell_means_compiled)):
        others, weighed, count = loop(*problem)
        assert count == len(means) == len(masses)
        assert others[:count].tobytes() == means.tobytes()
        assert weighed[:count].tobytes() == masses.tobytes()


@settings(max_examples=60)
@given(problem=problems())
def test_cells_keep_the_weight_and_the_mean_of_the_rows_and_none_is_empty(problem):
    rows, weights, most = problem
    means, masses = cell_means(rows, weights, most)
    assert 1 <= len(means) <= most
    assert masses.min() > 0
    assert masses.sum() == pytest.approx(weights.sum(), rel=1e-12)
    largest = np.abs(rows).max()
    np.testing.assert_allclose(
        masses @ means, weights @ rows, rtol=1e-9, atol=1e-9 * largest * masses.sum()
    )


@settings(max_examples=60)
@given(problem=problems())
def test_with_cells_enough_every_different_row_has_its_own(problem):
    rows, weights, _ = problem
    different = np.unique(rows, axis=0)
    means, _ = cell_means(rows, weights, len(rows))
    order = np.lexsort(means.T[::-1])
    scale = np.abs(rows).max()
    assert len(means) >= len(different)
    if len(means) == len(different):
        np.testing.assert_allclose(means[order], different, rtol=1e-9, atol=1e-12 * scale)


def test_the_cell_of_the_largest_error_is_cut_at_its_mean_across_its_widest_column():
    rows = np.array([[0.0, 0.0], [0.0, 1.0], [10.0, 0.0], [10.0, 5.0], [10.0, 1.0]])
    means, masses = cell_means(rows, np.ones(5), 3)
    assert masses.tolist() == [2, 2, 1]
    np.testing.assert_allclose(means, [[0, 0.5], [10, 0.5], [10, 5]])
