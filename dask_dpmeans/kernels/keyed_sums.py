"""Sums and moments by number, of the few numbers that occur among many.

Also statistics of each data set: its moments, and its row farthest from some points.
"""

from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

import numpy as np

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.moments import Moments, cluster_moments, total

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


@dataclass(frozen=True)
class FarthestOfGroups:
    """The row of each data set, if it has weight, that is farthest from the points."""

    groups: Int64Array
    """(m,), the data sets, ascending."""
    squared: Float64Array
    """(m,), squared distances of the rows to the nearest point."""
    rows: Float64Array
    """(m, d), the rows; the first of equals."""
    totals: Float64Array
    """(m,), weighted sums of the squared distances of all rows of the data set."""

    def __add__(self, other: "FarthestOfGroups") -> "FarthestOfGroups":
        groups = np.union1d(self.groups, other.groups)
        m, d = len(groups), self.rows.shape[1]
        merged = FarthestOfGroups(groups, np.full(m, -1.0), np.empty((m, d)), np.zeros(m))
        for one in (self, other):
            positions = np.searchsorted(groups, one.groups)
            farther = one.squared > merged.squared[positions]
            merged.squared[positions[farther]] = one.squared[farther]
            merged.rows[positions[farther]] = one.rows[farther]
            merged.totals[positions] += one.totals
        return merged


@dataclass(frozen=True)
class Farthest(SummedAnswers):
    """The reduction to the farthest row of each data set: a step of farthest-first traversal."""

    points: tuple[Float64Array, ...]
    """Points for each data set, (n_groups, d), or one for all, (1, d)."""

    def chunk(self, block: Block) -> FarthestOfGroups:
        """Return the farthest rows of one block."""
        assert block.groups is not None
        d, weights = block.rows.shape[1], block.row_weights()
        heavy = np.flatnonzero(weights > 0)
        if not len(heavy):
            nothing = np.empty(0)
            return FarthestOfGroups(np.empty(0, np.int64), nothing, np.empty((0, d)), nothing)
        rows, sets = block.rows[heavy], block.groups[heavy]
        squared = np.full(len(heavy), np.inf)
        for points in self.points:
            numbers = np.minimum(sets, len(points) - 1)
            np.minimum(squared, squared_distances(rows, points, numbers), out=squared)
        groups, ranks = rank_numbers(sets)
        order = np.lexsort((-squared, ranks))  # stable: the first row among equals
        first = order[np.flatnonzero(np.diff(ranks[order], prepend=-1))]
        totals = total(ranks, weights[heavy] * squared, len(groups))
        return FarthestOfGroups(groups, squared[first], rows[first].astype(np.float64), totals)


class GroupSums(SummedAnswers):
    """The reduction to the moments of each data set."""

    def chunk(self, block: Block) -> UseMoments:
        """Return the moments of one block."""
        assert block.groups is not None
        groups, ranks = rank_numbers(block.groups)
        squared = np.zeros(len(block.groups))
        return UseMoments(groups, cluster_moments(block, ranks, squared, len(groups)))
