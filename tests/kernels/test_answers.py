from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.answers import ConcatenatedAnswers, Records, SummedAnswers


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
