import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_dpmeans.kernels.keyed_sums import KeyedSums, rank_numbers, union_positions
from dask_dpmeans.kernels.moments import Moments

NUMBERS = st.lists(st.integers(0, 30), min_size=1, max_size=20, unique=True).map(sorted)


@given(NUMBERS, NUMBERS)
def test_two_runs_of_numbers_are_united(left, right):
    numbers, here, there = union_positions(np.array(left), np.array(right))
    assert numbers.tolist() == sorted({*left, *right})
    assert numbers[here].tolist() == left
    assert numbers[there].tolist() == right


@given(st.lists(st.integers(0, 50) | st.integers(0, 2**50), min_size=1))
def test_numbers_are_ranked(numbers):
    found, ranks = rank_numbers(np.array(numbers))
    assert found.tolist() == sorted(set(numbers))
    assert found[ranks].tolist() == numbers


def test_nothing_added_to_moments_leaves_them():
    some = KeyedSums(
        np.array([3]), Moments(np.ones(1, int), np.ones(1), np.ones((1, 2)), np.ones(1))
    )
    none = KeyedSums(
        np.empty(0, int), Moments(np.empty(0, int), np.empty(0), np.empty((0, 2)), np.empty(0))
    )
    assert some + none is some
    assert none + some is some


@given(NUMBERS, NUMBERS)
def test_sums_of_equal_keys_are_added(left, right):
    found = KeyedSums(np.array(left), np.ones(len(left))) + KeyedSums(
        np.array(right), np.full(len(right), 2.0)
    )
    wanted = {key: (key in left) + 2.0 * (key in right) for key in sorted({*left, *right})}
    assert dict(zip(found.keys.tolist(), found.values.tolist(), strict=True)) == wanted
