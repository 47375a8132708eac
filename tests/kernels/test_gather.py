import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import grid_problems, groupings

from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.sources import as_source


@given(grid_problems(), st.data())
def test_rows_are_gathered_by_their_numbers_in_order(problem, data):
    n = len(problem.rows)
    numbers = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))), np.int64)
    source = as_source(
        problem.rows, problem.weights, threads=problem.threads, block_rows=problem.block_rows
    )
    some, everything = source.fold(Gather(numbers)), source.fold(Gather(columns=False))
    np.testing.assert_array_equal(some.rows, problem.rows[numbers])
    assert some.weights.tolist() == np.array(problem.each)[numbers].tolist()
    assert some.groups.tolist() == [0] * len(numbers)
    assert everything.rows.shape == (n, 0)
    assert everything.weights.tolist() == problem.each


@given(grid_problems(), st.data())
def test_their_data_sets_are_gathered_too(problem, data):
    groups = data.draw(groupings(len(problem.rows)))
    source = as_source(
        problem.rows,
        problem.weights,
        groups=groups,
        threads=problem.threads,
        block_rows=problem.block_rows,
    )
    assert source.fold(Gather()).groups.tolist() == groups.tolist()
