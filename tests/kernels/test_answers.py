from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import grid_problems, groupings

from dask_dpmeans.kernels.answers import ConcatenatedAnswers, Gather, Records, SummedAnswers
from dask_dpmeans.sources import as_source


@dataclass(frozen=True)
class Pairs(Records):
    numbers: np.ndarray
    rows: np.ndarray


def pairs_of(*numbers):
    return Pairs(np.array(numbers), np.array(numbers)[:, np.newaxis] * [1.0, 10.0])


def test_records_are_taken_and_joined_field_by_field():
    some = pairs_of(3, 1, 2)
    assert len(some) == 3
    assert some.take(some.numbers > 1).rows.tolist() == [[3, 30], [2, 20]]
    assert some.take(np.array([2, 0])).numbers.tolist() == [2, 3]
    joined = some.take(slice(1)).then(pairs_of(5))
    assert (joined.numbers.tolist(), joined.rows.tolist()) == ([3, 5], [[3, 30], [5, 50]])


def test_answers_combine_in_row_order_or_as_sums():
    assert ConcatenatedAnswers().combine(pairs_of(1), pairs_of(2)).numbers.tolist() == [1, 2]
    assert SummedAnswers().combine(np.array([1.0, 2.0]), np.array([0.5, 0.0])).tolist() == [
        1.5,
        2.0,
    ]
    assert SummedAnswers().combine(1.0, 2.0) == 3.0


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
