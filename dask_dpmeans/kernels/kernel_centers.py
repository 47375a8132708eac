"""Implicit centers: means in the space of a kernel function, known by their rows alone."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.answers import ConcatenatedAnswers, Records, SummedAnswers
from dask_dpmeans.kernels.births import Proposals, objects, open_one_by_one
from dask_dpmeans.kernels.block import (
    Block,
    BoolArray,
    Float64Array,
    IndexArray,
    Int64Array,
    Labels,
    Rows,
    tiles,
)
from dask_dpmeans.kernels.kernel_functions import GRAM_FITTED, GRAM_ROWS, Gram
from dask_dpmeans.kernels.moments import total

ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Squared distances that are less than this share of a row's similarity with itself are rounding: they
differ from one processor to another.  1.8e-15 was seen for a row that is its own center."""


@dataclass(frozen=True)
class Partition:
    """Clusters of the fitted rows."""

    labels: Labels
    """(n,) int32, the cluster of each row; -1 for a row that counts for none."""
    weights: Float64Array
    """(n,), weights of the rows."""
    k: int
    """Number of clusters, each of positive weight."""

    @cached_property
    def sizes(self) -> Float64Array:
        """(k,), the weight of each cluster."""
        counted = self.labels >= 0
        return total(self.labels[counted].astype(np.intp), self.weights[counted], self.k)

    @cached_property
    def _by_cluster(self) -> tuple[Int64Array, Int64Array]:
        """(n,), the rows sorted by cluster, and (k + 1,), the bounds of the clusters among them."""
        order = np.argsort(self.labels, kind="stable")
        return order, np.searchsorted(self.labels[order], np.arange(self.k + 1))

    def members(self, cluster: int) -> Int64Array:
        """Return the row numbers of a cluster, (m,), ascending."""
        order, bounds = self._by_cluster
        return order[bounds[cluster] : bounds[cluster + 1]]

    @cached_property
    def tiles(self) -> list[tuple[slice, Labels, csc_array]]:
        """Runs of fitted rows with members: run, clusters in it, and weights, (clusters, rows).

        A run keeps its bounds when some of its rows count no more, so that products round as
        before.
        """
        n = len(self.labels)
        runs = [slice(start, min(start + GRAM_FITTED, n)) for start in range(0, n, GRAM_FITTED)]
        return [self._tile(run) for run in runs if (self.labels[run] >= 0).any()]

    def _tile(self, run: slice) -> tuple[slice, Labels, csc_array]:
        counted = self.labels[run] >= 0
        present, local = np.unique(self.labels[run][counted], return_inverse=True)
        ends = np.concatenate([[0], np.cumsum(counted)])
        parts = self.weights[run][counted], local, ends
        weights = csc_array(parts, shape=(len(present), len(counted)))
        return run, present, weights


def sums_of(gram: Gram, partition: Partition, rows: Rows) -> Float64Array:
    """Return (k, h): the weighted sums of similarities between clusters and rows, (h, columns)."""
    sums = np.zeros((partition.k, len(rows)))
    for run, present, weights in partition.tiles:
        sums[present] += weights @ gram.columns(rows, run)
    return sums


@dataclass(frozen=True)
class WithinClusterSums(SummedAnswers):
    """Reduction to (k,): weighted sums of the similarities of all pairs of rows of each cluster."""

    gram: Gram
    partition: Partition

    def chunk(self, block: Block) -> Float64Array:
        """Return (k,): the sums over pairs whose first row is in the block."""
        sums = np.zeros(self.partition.k)
        labels = self.partition.labels[block.start : block.start + len(block.rows)]
        order = np.argsort(labels, kind="stable")
        clusters, starts = np.unique(labels[order], return_index=True)
        with np.errstate(all="ignore"):
            for cluster, rows in zip(clusters.tolist(), np.split(order, starts[1:]), strict=True):
                if cluster >= 0:
                    sums[cluster] = self._within(block, rows, self.partition.members(cluster))
        return sums

    def _within(self, block: Block, rows: Int64Array, members: Int64Array) -> float:
        """Return the sum over pairs of some rows of the block and all rows of their cluster."""
        found, weights = 0.0, self.partition.weights
        for first in range(0, len(rows), GRAM_ROWS):
            some = rows[first : first + GRAM_ROWS]
            tile = block.rows[some]
            for start in range(0, len(members), GRAM_FITTED):
                fitted = members[start : start + GRAM_FITTED]
                similar = self.gram.columns(tile, fitted)
                pairs = weights[fitted] @ similar @ weights[block.start + some]
                found += float(check_finite(pairs))
        return found


@dataclass(frozen=True)
class Near(Records):
    """The nearest center of each row of a run; the lowest number wins a tie."""

    labels: Labels
    """(h,) int32."""
    scores: Float64Array
    """(h,), the squared distance to it, less the row's similarity with itself."""
    norms: Float64Array
    """(h,), similarities of the rows with themselves."""

    @property
    def squared(self) -> Float64Array:
        """(h,), the squared distances."""
        return self.norms + self.scores


@dataclass(frozen=True)
class ImplicitCenters:
    """Centers in the space of a kernel function: means of clusters, then rows that opened clusters.

    The squared distance of row i to the mean of cluster c *is* K_ii + (T_c / s_c^2 - 2 (S_ic /
    s_c)).  Here s_c is the weight of the cluster, S_ic the weighted sum of its similarities to row
    i, and T_c their sum over all pairs of its rows.  To an opened row r it is K_ii + (K_rr - 2
    K_ir).  Each operation is rounded once.  All centers share K_ii, which therefore decides
    nothing.
    """

    gram: Gram
    partition: Partition
    """The clusters whose means are the first centers."""
    totals: Float64Array
    """(k,), T of the means, then K of each opened row with itself."""
    openers: Int64Array
    """Numbers of the rows that are the other centers."""

    def __len__(self) -> int:
        return len(self.totals)

    def nearest(self, rows: Rows) -> tuple[Labels, Float64Array]:
        """Return the nearest center of each row, (h, columns), and its score: (h,) int32 and (h,).

        The score is the squared distance less K_ii.
        """
        labels, scores = np.empty(len(rows), np.int32), np.empty(len(rows))
        for part, tile in tiles(rows, GRAM_ROWS):
            found = self._nearest_mean(tile)
            labels[part], scores[part] = (each[: part.stop - part.start] for each in found)
        k, openers = self.partition.k, self.openers
        return nearest_with_openers(self.gram, rows, labels, scores, openers, self.totals[k:], k)

    def _nearest_mean(self, rows: Rows) -> tuple[IndexArray, Float64Array]:
        if not self.partition.k:
            return np.zeros(len(rows), np.intp), np.full(len(rows), np.inf)
        scores = self._scores_of_means(rows)
        labels = scores.argmin(axis=0)
        return labels, scores[labels, np.arange(len(rows))]

    def _scores_of_means(self, rows: Rows) -> Float64Array:
        """Return the scores of the means, (means, h)."""
        k, sizes = self.partition.k, self.partition.sizes
        with np.errstate(all="ignore"):
            sums = sums_of(self.gram, self.partition, rows)
            sums /= sizes[:, np.newaxis]
            sums *= -2
            sums += (self.totals[:k] / (sizes * sizes))[:, np.newaxis]
        return check_finite(sums)

    def scores(self, rows: Rows) -> Float64Array:
        """Return squared distances less K_ii, (h, centers), of rows, (h, columns)."""
        k, scores = self.partition.k, np.empty((len(rows), len(self)))
        for part, tile in tiles(rows, GRAM_ROWS):
            height = part.stop - part.start
            scores[part, :k] = self._scores_of_means(tile)[:, :height].T
            if len(self.openers):
                to_openers = scores_of_openers(self.gram, tile, self.openers, self.totals[k:])
                scores[part, k:] = to_openers[:, :height].T
        return scores


def nearest_with_openers(
    gram: Gram,
    rows: Rows,
    labels: Labels,
    scores: Float64Array,
    openers: Int64Array,
    norms: Float64Array,
    first: int,
) -> tuple[Labels, Float64Array]:
    """Return labels and scores of rows once opened rows are centers too.

    Parameters
    ----------
    rows : (h, columns)
    labels, scores : (h,), the nearest center without the opened rows
    openers, norms : (o,), numbers of the opened rows, and their similarities with themselves
    first : number of the first of them as a center
    """
    if not len(openers):
        return labels, scores
    labels, scores = labels.copy(), scores.copy()
    for part, tile in tiles(rows, GRAM_ROWS):
        to_openers = scores_of_openers(gram, tile, openers, norms)[:, : part.stop - part.start]
        best = to_openers.argmin(axis=0)
        least = to_openers[best, np.arange(to_openers.shape[1])]
        nearer = least < scores[part]
        labels[part][nearer], scores[part][nearer] = first + best[nearer], least[nearer]
    return labels, scores


def scores_of_openers(
    gram: Gram, rows: Rows, openers: Int64Array, norms: Float64Array
) -> Float64Array:
    """Return scores, (o, h), of opened rows and their norms, (o,), for rows, (h, columns)."""
    scores: Float64Array = norms[:, np.newaxis] - 2 * gram.columns(rows, openers)
    return scores


@dataclass(frozen=True)
class Nearest(ConcatenatedAnswers):
    """Reduction that finds the nearest of fixed centers for all rows."""

    centers: ImplicitCenters

    def chunk(self, block: Block) -> Near:
        """Return the nearest centers of one block."""
        labels, scores = self.centers.nearest(block.rows)
        norms = self.centers.gram.diagonal(block.rows, block.start)
        return Near(labels, scores, check_finite(norms))


def check_finite(values: Float64Array) -> Float64Array:
    """Return the values, (n,) or (n, k), or raise an error if one is infinite or NaN."""
    if not np.isfinite(values).all():
        raise InputError(
            "the kernel gives infinity or NaN, or its weighted sums overflow or vanish in float64: "
            "divide the data or the weights by a constant first, or choose another kernel"
        )
    return values


@dataclass(frozen=True)
class ImplicitLabels:
    """Map over blocks: the label of each row."""

    centers: ImplicitCenters

    def __call__(self, block: Block) -> tuple[Labels]:
        """Return labels, (height,) int32."""
        return (self.centers.nearest(block.rows)[0],)


@dataclass(frozen=True)
class ImplicitPredictions:
    """Map over blocks: label, squared distance, and whether the row costs more than the penalty."""

    centers: ImplicitCenters
    penalty: float

    def __call__(self, block: Block) -> tuple[Labels, Float64Array, BoolArray]:
        """Return labels (int32), squared distances, and if they exceed the penalty: (height,)."""
        near = Nearest(self.centers).chunk(block)
        return near.labels, near.squared, near.squared > self.penalty


@dataclass(frozen=True)
class ImplicitDistances:
    """Map over blocks: the distance of each row to each center."""

    centers: ImplicitCenters

    def __call__(self, block: Block) -> tuple[Float64Array]:
        """Return distances, (height, k); those within rounding of 0 are 0."""
        norms = self.centers.gram.diagonal(block.rows, block.start)[:, np.newaxis]
        squared = norms + self.centers.scores(block.rows)
        squared[squared <= ROUNDING * np.abs(norms)] = 0.0
        return (np.sqrt(squared),)


@dataclass(frozen=True)
class ImplicitInertia(SummedAnswers):
    """Reduction to the weighted sum of squared distances to the nearest centers."""

    centers: ImplicitCenters

    def chunk(self, block: Block) -> float:
        """Return the sum over one block."""
        squared = Nearest(self.centers).chunk(block).squared
        return math.fsum(squared if block.weights is None else block.weights * squared)


def keep_kernel_openers(
    gram: Gram, norms: Float64Array, proposals: Proposals, penalty: float
) -> Proposals:
    """Return the proposals that open clusters if the rule takes them in order.

    There are no centers before.  `norms`, (n,), are the similarities of all fitted rows with
    themselves, here and below.
    """
    return open_one_by_one(
        proposals, lambda others, opener: _keep_objecting(gram, norms, others, opener, penalty)
    )


def merge_kernel_openers(
    gram: Gram, norms: Float64Array, left: Proposals, right: Proposals, penalty: float
) -> Proposals:
    """Merge two runs: all of `left`, and the rows of `right` that object to it.

    `norms` are (n,).
    """
    if not (len(left) and len(right)):
        return left.then(right)
    return left.then(_keep_objecting(gram, norms, right, left, penalty))


def _keep_objecting(
    gram: Gram, norms: Float64Array, proposals: Proposals, centers: Proposals, penalty: float
) -> Proposals:
    """Return the proposals that object to all centers, which are opened rows."""
    least = np.empty(len(proposals))
    for start in range(0, len(proposals), GRAM_ROWS):
        part = slice(start, start + GRAM_ROWS)
        rows, numbers = proposals.rows[part], centers.numbers
        scores = scores_of_openers(gram, rows, numbers, norms[numbers])
        least[part] = scores.min(axis=0)
    squared = norms[proposals.numbers] + least
    return proposals.take(objects(squared, proposals.weights, penalty))
