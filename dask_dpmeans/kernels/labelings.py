"""Partitions that someone gave: how far the rows of each cluster lie from its center, and which labels meet in rows."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.keyed_sums import rank_numbers
from dask_dpmeans.kernels.moments import greatest, total


@dataclass(frozen=True)
class Reaches:
    """How far the rows of positive weight of each of k clusters lie from its center."""

    inertias: Float64Array
    """(k,), sums of weight times squared distance."""
    largest: Float64Array
    """(k,), greatest squared distances."""


@dataclass(frozen=True)
class Reaching:
    """The reduction that finds them: the groups of the rows say which cluster is theirs."""

    labels: Int64Array
    """(k,), of the clusters that have weight, ascending."""
    centers: Float64Array
    """(k, d)."""

    def chunk(self, block: Block) -> Reaches:
        """Of one block."""
        assert block.groups is not None
        rows, groups, weights = block.rows, block.groups, np.ones(len(block.rows))
        if block.weights is not None:
            some = block.weights > 0
            rows, groups, weights = np.ascontiguousarray(rows[some]), groups[some], block.weights[some]
        places: IndexArray = np.searchsorted(self.labels, groups)
        squared = squared_distances(rows, self.centers, places, block.scratch)
        k = len(self.labels)
        return Reaches(total(places, weights * squared, k), greatest(places, squared, k))

    def combine(self, left: Reaches, right: Reaches) -> Reaches:
        """Of two neighboring runs."""
        return Reaches(left.inertias + right.inertias, np.maximum(left.largest, right.largest))


@dataclass(frozen=True)
class Meetings:
    """How many rows have which two labels."""

    first: Int64Array
    """(m,), one label of each pair that there is; pairs ascend."""
    second: Int64Array
    """(m,), the other."""
    counts: Int64Array
    """(m,), rows of the pair."""

    @property
    def adjusted_rand(self) -> float:
        """The adjusted Rand index of the two partitions (Hubert & Arabie 1985), from counts of pairs of rows.

        1 where the partitions are the same, about 0 where they have nothing to do with each other.  Counts are exact,
        whatever the number of rows.
        """
        rows = int(self.counts.sum())
        together = _squares(self.counts)
        in_first = _squares(total(rank_numbers(self.first)[1], self.counts.astype(np.float64), len(self.counts)))
        in_second = _squares(total(rank_numbers(self.second)[1], self.counts.astype(np.float64), len(self.counts)))
        both, only_first, only_second = together - rows, in_first - together, in_second - together
        neither = rows * rows - in_first - in_second + together
        if only_first == only_second == 0:
            return 1.0
        scale = (both + only_first) * (only_first + neither) + (both + only_second) * (only_second + neither)
        return 2 * (both * neither - only_first * only_second) / scale


def _squares(counts: Int64Array | Float64Array) -> int:
    """The sum of squares of counts below 2**53, exactly; few of them differ, however many there are."""
    different, times = np.unique(counts, return_counts=True)
    return sum(int(count) ** 2 * int(number) for count, number in zip(different, times, strict=True))


def meetings(first: Int64Array, second: Int64Array, counts: Int64Array | None = None) -> Meetings:
    """The different pairs of labels, (n,) each, at least one, and how often each occurs."""
    kinds, of_first = rank_numbers(first)
    others, of_second = rank_numbers(second)
    pairs, places = rank_numbers(of_first.astype(np.int64) * len(others) + of_second)
    found = total(places, np.ones(len(first)) if counts is None else counts.astype(np.float64), len(pairs))
    rank, other = np.divmod(pairs, len(others))
    return Meetings(kinds[rank], others[other], found.astype(np.int64))


class Meeting:
    """The reduction that counts them, of rows that are two labels each."""

    def chunk(self, block: Block) -> Meetings:
        """Of one block."""
        first, second = block.rows.T.astype(np.int64)
        return meetings(first, second)

    def combine(self, left: Meetings, right: Meetings) -> Meetings:
        """Of two neighboring runs."""
        both = zip(vars(left).values(), vars(right).values(), strict=True)
        return meetings(*(np.concatenate(parts) for parts in both))
