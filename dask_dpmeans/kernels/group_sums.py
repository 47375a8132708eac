"""Statistics of each data set: its moments, and its row farthest from some points."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.keyed_sums import UseMoments, rank_numbers
from dask_dpmeans.kernels.moments import cluster_moments, total


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
