"""Sums and moments by number, of the few numbers that occur among many."""

from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.moments import Moments, cluster_moments

Values = TypeVar("Values", Float64Array, Int64Array, Moments)
Positions = slice | IndexArray


@dataclass(frozen=True)
class KeyedSums(Generic[Values]):
    """Sums by key."""

    keys: Int64Array
    """(m,), ascending."""
    values: Values
    """(m,), or moments of m clusters."""

    def __add__(self, other: Self) -> Self:
        if not len(self.keys):
            return other
        if not len(other.keys):
            return self
        keys, own, others = union_positions(self.keys, other.keys)
        return type(self)(keys, _add_at(self.values, own, other.values, others, len(keys)))


UseSums = KeyedSums[Float64Array]
"""Sums over the rows of some uses, by their numbers."""
UseMoments = KeyedSums[Moments]
"""Moments of the rows of some uses, by their numbers."""


def union_positions(left: Int64Array, right: Int64Array) -> tuple[Int64Array, Positions, Positions]:
    """Return the ascending union of two arrays, and the positions of both in it.

    The arrays, (m,) and (n,), are ascending, without repeats.
    """
    if not len(left) or not len(right) or left[-1] < right[0]:
        return np.concatenate([left, right]), slice(len(left)), slice(len(left), None)
    own = np.arange(len(left)) + np.searchsorted(right, left)
    others = np.arange(len(right)) + np.searchsorted(left, right)
    in_both = np.searchsorted(left, right, side="right") - np.searchsorted(left, right)  # 0 or 1
    own -= np.concatenate([[0], np.cumsum(in_both)])[np.searchsorted(right, left)]
    others -= np.cumsum(in_both) - in_both
    numbers = np.empty(len(left) + len(right) - int(in_both.sum()), np.int64)
    numbers[own], numbers[others] = left, right
    return numbers, own, others


def _add_at(left: Values, own: Positions, right: Values, others: Positions, size: int) -> Values:
    """Return the sum, (size, ...), of arrays, (m, ...) and (n, ...), at their positions in it."""
    if isinstance(left, Moments):
        assert isinstance(right, Moments)
        fields = zip(vars(left).values(), vars(right).values(), strict=True)
        return Moments(*(_add_at(first, own, second, others, size) for first, second in fields))
    total = np.zeros((size, *left.shape[1:]), left.dtype)
    total[own] = left
    total[others] += right
    return total


def use_moments(block: Block, uses: Int64Array, squared: Float64Array) -> UseMoments:
    """Return the moments of a block's rows by use.

    `uses` and `squared`, (height,), are their uses, -1 for rows that are left out, and squared
    distances.
    """
    some = np.flatnonzero(uses >= 0)
    if len(some) < len(uses):
        weights = None if block.weights is None else block.weights[some]
        block = replace(block, rows=np.ascontiguousarray(block.rows[some]), weights=weights)
        uses, squared = uses[some], squared[some]
    if not len(uses):
        return UseMoments(uses, cluster_moments(block, uses, squared, 0))
    found, labels = rank_numbers(uses)
    return UseMoments(found, cluster_moments(block, labels, squared, len(found)))


def rank_numbers(numbers: Int64Array) -> tuple[Int64Array, IndexArray]:
    """Return the distinct numbers, (m,) ascending, and the rank of each number, (n,).

    Numbers that lie close together are counted instead of sorted.
    """
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= 8 * len(numbers):
        found, ranks = np.unique(numbers, return_inverse=True)
        return found, ranks.ravel()
    present = np.zeros(high - low + 1, np.bool_)
    present[numbers - low] = True
    counted: IndexArray = np.cumsum(present) - 1
    return np.flatnonzero(present) + low, counted[numbers - low]
