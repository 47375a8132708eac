"""Equations of a program are solved alike in a narrow band and as a whole."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import LinAlgError
from scipy.sparse import csr_array
from strategies import seeds

from dask_dpmeans.kernels.lower_bound.barrier import Band


@given(seeds, st.booleans())
def test_equations_in_a_band_have_the_solution_of_the_whole_matrix(seed, scattered):
    rng = np.random.default_rng(seed)
    columns = np.zeros((60, 80))
    for number, column in enumerate(columns):
        column[number : number + 5] = rng.uniform(0.5, 2, 5)
    if scattered:
        columns = rng.permutation(columns, axis=1)
    columns = csr_array(columns)
    matrix, diagonal, right = (
        csr_array(columns.T @ columns),
        rng.uniform(0.1, 1, 80),
        rng.normal(size=80),
    )
    band = Band.of(columns)
    assert band.narrow
    whole = matrix.toarray() + np.diag(diagonal)
    np.testing.assert_allclose(band.solve(matrix, diagonal, right), np.linalg.solve(whole, right))
    wide = replace(band, width=79)
    assert not wide.narrow
    np.testing.assert_allclose(wide.solve(matrix, diagonal, right), np.linalg.solve(whole, right))
    with pytest.raises(LinAlgError):
        band.solve(matrix, diagonal - 1e3, right)
