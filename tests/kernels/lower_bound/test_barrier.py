"""Equations of a program are solved alike in a narrow band, by columns and as a whole; steps lead to central points."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import LinAlgError
from scipy.sparse import csr_array, vstack
from strategies import seeds

from dask_dpmeans.kernels.lower_bound.barrier import Band, Program


@given(seeds, st.booleans())
def test_equations_in_a_band_have_the_solution_of_the_whole_matrix(seed, scattered):
    rng = np.random.default_rng(seed)
    columns = np.zeros((60, 80))
    for number, column in enumerate(columns):
        column[number : number + 5] = rng.uniform(0.5, 2, 5)
    if scattered:
        columns = rng.permutation(columns, axis=1)
    columns = csr_array(columns)
    diagonal, right = rng.uniform(0.1, 1, 80), rng.normal(size=80)
    band = Band.of(columns)
    assert band.narrow
    wide = replace(band, width=79)
    assert not wide.narrow
    for factor in (
        columns,
        vstack([columns, columns], format="csr"),
    ):  # fewer columns than entries, and more
        whole = (factor.T @ factor).toarray() + np.diag(diagonal)
        expected = np.linalg.solve(whole, right)
        np.testing.assert_allclose(band.solve(factor, diagonal, right), expected)
        np.testing.assert_allclose(wide.solve(factor, diagonal, right), expected)
    with pytest.raises(LinAlgError):
        band.solve(columns, diagonal - 1e3, right)


@given(seeds)
def test_a_few_steps_at_a_time_lead_to_the_same_central_point(seed):
    rng = np.random.default_rng(seed)
    columns = csr_array(rng.uniform(0, 1, (6, 9)) * (rng.uniform(size=(6, 9)) < 0.5))
    program = Program(rng.uniform(1, 2, 9), np.zeros(9), np.ones(9), columns, np.ones(6), 1.0)
    start = program.inside(np.full(9, 0.5), 0.01)
    assert (program.slacks(start) > 0).all()
    expected, there = program.center(start, 0.01)
    assert there
    found, there, calls = start, False, 0
    while not there:
        found, there = program.center(found, 0.01, 2)
        calls += 1
    assert calls > 1
    np.testing.assert_allclose(found, expected, atol=1e-6)
