"""Gains of moves of rows and of parts of clusters in the space of a kernel function."""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from scipy.sparse import csc_array

from dask_dpmeans.kernels.answers import ConcatenatedAnswers, SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Labels
from dask_dpmeans.kernels.graph_cut.gains import RowMoves, Totals
from dask_dpmeans.kernels.kernel_centers import Partition, check_finite, scores_of_openers, sums_of
from dask_dpmeans.kernels.kernel_functions import GRAM_ROWS, Gram
from dask_dpmeans.kernels.pieces import move_gains


@dataclass(frozen=True)
class GroupSimilarities(SummedAnswers):
    """Reduction to (g, k): weighted sums of similarities between rows of groups and of clusters."""

    gram: Gram
    groups: Partition
    """Groups of the first row of a pair."""
    clusters: Partition
    """Clusters of the second row."""

    def chunk(self, block: Block) -> Float64Array:
        """Return (g, k): the sums over pairs whose first row is in the block."""
        found = np.zeros((self.groups.k, self.clusters.k))
        labels = self.groups.labels[block.start : block.start + len(block.rows)]
        rows = np.flatnonzero(labels >= 0)
        for first in range(0, len(rows), GRAM_ROWS):
            some = rows[first : first + GRAM_ROWS]
            with np.errstate(all="ignore"):
                sums = sums_of(self.gram, self.clusters, block.rows[some])
                sums *= self.groups.weights[block.start + some]
            present, local = np.unique(labels[some], return_inverse=True)
            gathered = csc_array((np.ones(len(some)), local, np.arange(len(some) + 1)))
            found[present] += gathered @ check_finite(sums).T
        return found


@dataclass(frozen=True)
class NearestPivots:
    """Reduction to (n,) int32: the nearest pivot in each row's own cluster; -1 without any."""

    gram: Gram
    labels: Labels
    """(n,), clusters of the rows."""
    pivots: Int64Array
    """(p,), row numbers."""
    norms: Float64Array
    """(p,), similarities of the pivots with themselves."""

    def chunk(self, block: Block) -> Labels:
        """Return the pivots of one block's rows, (height,)."""
        labels = self.labels[block.start : block.start + len(block.rows)]
        homes, found = self.labels[self.pivots], np.full(len(labels), -1, np.int32)
        rows = np.flatnonzero(np.isin(labels, homes))
        for first in range(0, len(rows), GRAM_ROWS):
            some = rows[first : first + GRAM_ROWS]
            scores = scores_of_openers(self.gram, block.rows[some], self.pivots, self.norms)
            scores[homes[:, np.newaxis] != labels[some]] = np.inf
            found[some] = scores.argmin(axis=0)
        return found

    def combine(self, left: Labels, right: Labels) -> Labels:
        """Append the pivots, (rows,), of the next run of blocks."""
        return np.concatenate([left, right])


@dataclass(frozen=True)
class RowMoveScan(ConcatenatedAnswers):
    """Reduction that finds the rows that would gain by moving alone; target k is a new cluster."""

    gram: Gram
    partition: Partition
    totals: Float64Array
    """(k,), sums of the similarities of all pairs of rows of each cluster, by both weights."""
    norms: Float64Array
    """(n,), similarities of the rows with themselves."""
    price: float
    """Price of a cluster."""
    least: float
    """Gains up to this are ignored."""

    def chunk(self, block: Block) -> RowMoves:
        """Return the moves of one block's rows."""
        starts = range(0, len(block.rows), GRAM_ROWS)
        return reduce(RowMoves.then, [self._tile(block, start) for start in starts])

    def _tile(self, block: Block, start: int) -> RowMoves:
        """Return the moves of single rows from `start` on that gain, in one tile of the Gram matrix."""
        partition = self.partition
        rows = np.arange(start, min(start + GRAM_ROWS, len(block.rows)))
        rows = rows[partition.labels[block.start + rows] >= 0]
        numbers = block.start + rows
        labels, masses = partition.labels[numbers].astype(np.intp), partition.weights[numbers]
        with np.errstate(all="ignore"):
            sums = sums_of(self.gram, partition, block.rows[rows])
            links = check_finite(sums.T * masses[:, np.newaxis])
        own = masses * masses * self.norms[numbers]
        gains = move_gains(links, labels, own, masses, self._clusters, self.price)
        targets = gains.argmax(axis=1)
        best = gains[np.arange(len(rows)), targets]
        which = np.flatnonzero(best > self.least)
        return RowMoves(numbers[which].astype(np.int64), targets[which], best[which])

    @cached_property
    def _clusters(self) -> Totals:
        labels = self.partition.labels
        sizes = np.bincount(labels[labels >= 0], minlength=self.partition.k)
        return Totals(self.totals, self.partition.sizes, sizes)
