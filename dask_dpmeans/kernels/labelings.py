"""Given partitions: the spread of each cluster, and the agreement of two labelings."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.answers import Records
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.keyed_sums import rank_numbers
from dask_dpmeans.kernels.moments import greatest, total


@dataclass(frozen=True)
class Spreads:
    """Distances of the rows of positive weight of each of k clusters to its center."""

    inertias: Float64Array
    """(k,), sums of weight times squared distance."""
    largest: Float64Array
    """(k,), greatest squared distances."""


@dataclass(frozen=True)
class ClusterSpreads:
    """The reduction to `Spreads`; the group of a row is the label of its cluster."""

    labels: Int64Array
    """(k,), labels of the clusters that have weight, ascending."""
    centers: Float64Array
    """(k, d)."""

    def chunk(self, block: Block) -> Spreads:
        """Return the spreads of one block."""
        assert block.groups is not None
        rows, groups, weights = block.rows, block.groups, block.row_weights()
        if block.weights is not None:
            heavy = weights > 0
            rows, groups, weights = np.ascontiguousarray(rows[heavy]), groups[heavy], weights[heavy]
        clusters, k = np.searchsorted(self.labels, groups), len(self.labels)
        squared = squared_distances(rows, self.centers, clusters, block.scratch)
        return Spreads(total(clusters, weights * squared, k), greatest(clusters, squared, k))

    def combine(self, left: Spreads, right: Spreads) -> Spreads:
        """Merge the spreads of two neighboring runs of blocks."""
        return Spreads(left.inertias + right.inertias, np.maximum(left.largest, right.largest))


@dataclass(frozen=True)
class LabelPairs(Records):
    """A sparse contingency table: the number of rows of each pair of labels."""

    first: Int64Array
    """(m,), first label of each pair; pairs ascend."""
    second: Int64Array
    """(m,), second label of each pair."""
    counts: Int64Array
    """(m,), rows with this pair."""

    @property
    def adjusted_rand(self) -> float:
        """The adjusted Rand index of the two partitions (Hubert & Arabie 1985).

        1 for equal partitions, about 0 for independent ones.  Counts are exact for any number of
        rows.
        """
        rows = int(self.counts.sum())
        together = _sum_of_squares(self.counts)
        in_first = _sum_of_squares(self._label_counts(self.first))
        in_second = _sum_of_squares(self._label_counts(self.second))
        both, only_first, only_second = together - rows, in_first - together, in_second - together
        neither = rows * rows - in_first - in_second + together
        if only_first == only_second == 0:
            return 1.0
        scale = (both + only_first) * (only_first + neither)
        scale += (both + only_second) * (only_second + neither)
        return 2 * (both * neither - only_first * only_second) / scale

    def _label_counts(self, labels: Int64Array) -> Float64Array:
        return total(rank_numbers(labels)[1], self.counts.astype(np.float64), len(self.counts))


def _sum_of_squares(counts: Int64Array | Float64Array) -> int:
    """Return the exact sum of squares of counts below 2**53, most of which are equal."""
    values, times = np.unique(counts, return_counts=True)
    return sum(int(value) ** 2 * int(number) for value, number in zip(values, times, strict=True))


def count_label_pairs(
    first: Int64Array, second: Int64Array, counts: Int64Array | None = None
) -> LabelPairs:
    """Return the distinct pairs of labels, (n,) each, n > 0, and how often each pair occurs."""
    weights = np.ones(len(first))
    if counts is not None:
        weights = counts.astype(np.float64)
    first_labels, first_ranks = rank_numbers(first)
    second_labels, second_ranks = rank_numbers(second)
    pairs, ranks = rank_numbers(first_ranks.astype(np.int64) * len(second_labels) + second_ranks)
    sums = total(ranks, weights, len(pairs))
    one, other = np.divmod(pairs, len(second_labels))
    return LabelPairs(first_labels[one], second_labels[other], sums.astype(np.int64))


class LabelPairCounts:
    """The reduction of rows that are two labels each to `LabelPairs`."""

    def chunk(self, block: Block) -> LabelPairs:
        """Return the pairs of one block."""
        first, second = block.rows.T.astype(np.int64)
        return count_label_pairs(first, second)

    def combine(self, left: LabelPairs, right: LabelPairs) -> LabelPairs:
        """Merge the pairs of two neighboring runs of blocks."""
        both = left.then(right)
        return count_label_pairs(both.first, both.second, both.counts)
