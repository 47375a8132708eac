"""The row of each data set that lies farthest from some points: a step of farthest-first traversal."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.keyed_sums import UseMoments, rank_numbers, use_moments
from dask_dpmeans.kernels.moments import total


@dataclass(frozen=True)
class FarthestRows:
    """Of each data set that has rows of weight, the one farthest from the points."""

    groups: Int64Array
    """(m,), the data sets, ascending."""
    squared: Float64Array
    """(m,), the row's squared distance to the nearest point."""
    rows: Float64Array
    """(m, d), the row: the first of equals."""
    totals: Float64Array
    """(m,), weighted sums of the squared distances of all rows of the set."""

    def __add__(self, other: "FarthestRows") -> "FarthestRows":
        groups = np.union1d(self.groups, other.groups)
        m, d = len(groups), self.rows.shape[1]
        merged = FarthestRows(groups, np.full(m, -1.0), np.empty((m, d)), np.zeros(m))
        for one in (self, other):
            places = np.searchsorted(groups, one.groups)
            farther = one.squared > merged.squared[places]
            merged.squared[places[farther]] = one.squared[farther]
            merged.rows[places[farther]] = one.rows[farther]
            merged.totals[places] += one.totals
        return merged


@dataclass(frozen=True)
class Farthest:
    """The reduction that finds them."""

    points: tuple[Float64Array, ...]
    """Each (n_groups, d), a point for each data set, or (1, d), the same for all."""

    def chunk(self, block: Block) -> FarthestRows:
        """Of one block."""
        assert block.groups is not None
        n, d = block.rows.shape
        weights = np.ones(n) if block.weights is None else block.weights
        some = np.flatnonzero(weights > 0)
        if not len(some):
            return FarthestRows(np.empty(0, np.int64), np.empty(0), np.empty((0, d)), np.empty(0))
        rows, sets = block.rows[some], block.groups[some]
        squared = np.full(len(some), np.inf)
        for points in self.points:
            np.minimum(squared, squared_distances(rows, points, sets if len(points) > 1 else sets * 0), out=squared)
        groups, ranks = rank_numbers(sets)
        order = np.lexsort((-squared, ranks))  # stable: the first row among equals
        first = order[np.flatnonzero(np.diff(ranks[order], prepend=-1))]
        totals = total(ranks, weights[some] * squared, len(groups))
        return FarthestRows(groups, squared[first], rows[first].astype(np.float64), totals)

    def combine(self, left: FarthestRows, right: FarthestRows) -> FarthestRows:
        """Of two neighboring runs."""
        return left + right


class GroupSums:
    """The reduction to the moments of each data set."""

    def chunk(self, block: Block) -> UseMoments:
        """Of one block."""
        assert block.groups is not None
        return use_moments(block, block.groups, np.zeros(len(block.groups)))

    def combine(self, left: UseMoments, right: UseMoments) -> UseMoments:
        """Of two neighboring runs."""
        return left + right
