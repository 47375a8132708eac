"""Clusters in the space of a kernel function, whose means are there by their members alone."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import numpy.typing as npt
from scipy.sparse import csc_array

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.births import Proposals, objects
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, IndexArray, Int64Array, Rows, tiles
from dask_dpmeans.kernels.graph import Totals as Clusters
from dask_dpmeans.kernels.kernel_functions import TILE_FITTED, TILE_ROWS, Gram
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.pieces import move_gains

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Partition:
    """Clusters of the fitted rows."""

    labels: Labels
    """(n,), the cluster of each row; -1 where it counts for none."""
    weights: Float64Array
    """(n,)."""
    k: int
    """Clusters, each with some weight."""

    @cached_property
    def sizes(self) -> Float64Array:
        """(k,), the weight of each cluster."""
        there = self.labels >= 0
        return total(self.labels[there].astype(np.intp), self.weights[there], self.k)

    @cached_property
    def _sorted(self) -> tuple[Int64Array, Int64Array]:
        """The rows by cluster, and where each cluster begins and ends among them."""
        order = np.argsort(self.labels, kind="stable")
        return order, np.searchsorted(self.labels[order], np.arange(self.k + 1))

    def members(self, cluster: int) -> Int64Array:
        """Numbers of a cluster's rows, ascending."""
        order, bounds = self._sorted
        return order[bounds[cluster] : bounds[cluster + 1]]

    @cached_property
    def tiles(self) -> list[tuple[slice, Labels, csc_array]]:
        """Runs of the fitted rows that hold members: the run, the clusters in it, and the weights, (clusters, rows).

        A run stays as it is when some of its rows count no more, so that products round as they did.
        """
        return [self._tile(start) for start in range(0, len(self.labels), TILE_FITTED) if self._any(start)]

    def _any(self, start: int) -> bool:
        return bool((self.labels[start : start + TILE_FITTED] >= 0).any())

    def _tile(self, start: int) -> tuple[slice, Labels, csc_array]:
        run = slice(start, min(start + TILE_FITTED, len(self.labels)))
        there = self.labels[run] >= 0
        present, local = np.unique(self.labels[run][there], return_inverse=True)
        ends = np.concatenate([[0], np.cumsum(there)])
        weights = csc_array((self.weights[run][there], local, ends), shape=(len(present), len(there)))
        return run, present, weights


def sums_of(gram: Gram, partition: Partition, rows: Rows) -> Float64Array:
    """(k, rows): the sums of the similarities of rows to the rows of each cluster, by the weights of these."""
    sums = np.zeros((partition.k, len(rows)))
    for run, present, weights in partition.tiles:
        sums[present] += weights @ gram.columns(rows, run)
    return sums


@dataclass(frozen=True)
class Totals:
    """The reduction that sums the similarities of all pairs within each cluster, by both weights: (k,)."""

    gram: Gram
    partition: Partition

    def chunk(self, block: Block) -> Float64Array:
        """The pairs of which the first is in the block."""
        found = np.zeros(self.partition.k)
        mine = self.partition.labels[block.start : block.start + len(block.rows)]
        order = np.argsort(mine, kind="stable")
        clusters, starts = np.unique(mine[order], return_index=True)
        for cluster, rows in zip(clusters.tolist(), np.split(order, starts[1:]), strict=True):
            if cluster >= 0:
                found[cluster] = self._within(block, rows, self.partition.members(cluster))
        return found

    def combine(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """Of two neighboring runs."""
        return left + right

    def _within(self, block: Block, rows: Int64Array, members: Int64Array) -> float:
        """The pairs of some rows of the block and of the cluster that they belong to."""
        found, weights = 0.0, self.partition.weights
        for first in range(0, len(rows), TILE_ROWS):
            some = rows[first : first + TILE_ROWS]
            here = block.rows[some]
            for start in range(0, len(members), TILE_FITTED):
                fitted = members[start : start + TILE_FITTED]
                with np.errstate(all="ignore"):
                    pairs = weights[fitted] @ self.gram.columns(here, fitted) @ weights[block.start + some]
                found += float(_finite(pairs))
        return found


@dataclass(frozen=True)
class Near:
    """The nearest center of each row of a run, the lowest number among equals."""

    labels: Labels
    """(rows,)."""
    scores: Float64Array
    """(rows,), the squared distance to it, less the row's own similarity."""
    norms: Float64Array
    """(rows,), similarities of the rows with themselves."""

    @property
    def squared(self) -> Float64Array:
        """(rows,), the squared distances."""
        return self.norms + self.scores

    def take(self, part: slice) -> "Near":
        """Those of some rows."""
        return Near(self.labels[part], self.scores[part], self.norms[part])

    def then(self, other: "Near") -> "Near":
        """These rows, followed by others."""
        return Near(
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.norms, other.norms]),
        )


@dataclass(frozen=True)
class ImplicitCenters:
    """Centers in the space of a kernel function: means of clusters, then rows that opened clusters.

    The squared distance of a row i to a mean c *is* K_ii + (T_c / s_c^2 - 2 (S_ic / s_c)), with the cluster's weight
    s_c, the sum S_ic of its similarities to the row, and T_c of those among its rows, by weight; to an opened row r
    K_ii + (K_rr - 2 K_ir).  Each operation is rounded once, and K_ii, which all share, decides nothing.
    """

    gram: Gram
    partition: Partition
    """Whose means are the first centers."""
    totals: Float64Array
    """(k,), T of the means, then K of each opened row with itself."""
    openers: Int64Array
    """Numbers of the rows at which the other centers stand."""

    def __len__(self) -> int:
        return len(self.totals)

    def nearest(self, rows: Rows) -> tuple[Labels, Float64Array]:
        """The nearest center of each row, (h, columns), and the squared distance to it less K_ii, (h,)."""
        labels, scores = np.empty(len(rows), np.int32), np.empty(len(rows))
        for part, tile in tiles(rows, TILE_ROWS):
            found = self._nearest_mean(tile)
            labels[part], scores[part] = (each[: part.stop - part.start] for each in found)
        return closer(self.gram, rows, labels, scores, self.openers, self.totals[self.partition.k :], self.partition.k)

    def _nearest_mean(self, rows: Rows) -> tuple[IndexArray, Float64Array]:
        if not self.partition.k:
            return np.zeros(len(rows), np.intp), np.full(len(rows), np.inf)
        scores = self._to_means(rows)
        labels = scores.argmin(axis=0)
        return labels, scores[labels, np.arange(len(rows))]

    def _to_means(self, rows: Rows) -> Float64Array:
        """(means, rows): squared distances less the rows' own similarities."""
        k, sizes = self.partition.k, self.partition.sizes
        with np.errstate(all="ignore"):
            sums = sums_of(self.gram, self.partition, rows)
            sums /= sizes[:, np.newaxis]
            sums *= -2
            sums += (self.totals[:k] / (sizes * sizes))[:, np.newaxis]
        return _finite(sums)

    def scores(self, rows: Rows) -> Float64Array:
        """(rows, centers): squared distances less the rows' own similarities."""
        k, found = self.partition.k, np.empty((len(rows), len(self)))
        for part, tile in tiles(rows, TILE_ROWS):
            height = part.stop - part.start
            found[part, :k] = self._to_means(tile)[:, :height].T
            if len(self.openers):
                found[part, k:] = _to_openers(self.gram, tile, self.openers, self.totals[k:])[:, :height].T
        return found


def closer(
    gram: Gram,
    rows: Rows,
    labels: Labels,
    scores: Float64Array,
    openers: Int64Array,
    norms: Float64Array,
    first: int,
) -> tuple[Labels, Float64Array]:
    """Labels and scores of rows once the opened rows `openers`, of these norms, are centers from number `first` on."""
    if not len(openers):
        return labels, scores
    labels, scores = labels.copy(), scores.copy()
    for part, tile in tiles(rows, TILE_ROWS):
        there = _to_openers(gram, tile, openers, norms)[:, : part.stop - part.start]
        best = there.argmin(axis=0)
        least = there[best, np.arange(there.shape[1])]
        nearer = least < scores[part]
        labels[part][nearer], scores[part][nearer] = first + best[nearer], least[nearer]
    return labels, scores


def _to_openers(gram: Gram, rows: Rows, openers: Int64Array, norms: Float64Array) -> Float64Array:
    """(openers, rows): squared distances less the rows' own similarities."""
    found: Float64Array = norms[:, np.newaxis] - 2 * gram.columns(rows, openers)
    return found


@dataclass(frozen=True)
class Nearest:
    """The reduction that finds the nearest of fixed centers for all rows."""

    centers: ImplicitCenters

    def chunk(self, block: Block) -> Near:
        """Of one block."""
        labels, scores = self.centers.nearest(block.rows)
        norms = self.centers.gram.diagonal(block.rows, block.start)
        return Near(labels, scores, _finite(norms))

    def combine(self, left: Near, right: Near) -> Near:
        """Of two neighboring runs."""
        return left.then(right)


def _finite(values: Float64Array) -> Float64Array:
    """The values, which must be numbers."""
    if not np.isfinite(values).all():
        raise InputError(
            "the kernel gives infinity or NaN, or its sums by weight overflow or vanish in float64: divide the data or "
            "the weights by a constant first, or choose another kernel"
        )
    return values


@dataclass(frozen=True)
class ImplicitLabels:
    """The kernel of a map: the label of each row."""

    centers: ImplicitCenters

    def __call__(self, block: Block) -> tuple[Labels]:
        """Labels, (height,) int32."""
        return (self.centers.nearest(block.rows)[0],)


@dataclass(frozen=True)
class ImplicitPredictions:
    """The kernel of a map: the label of each row, its squared distance, and whether it lies beyond every radius."""

    centers: ImplicitCenters
    penalty: float

    def __call__(self, block: Block) -> tuple[Labels, Float64Array, BoolArray]:
        """Labels (height,) int32, squared distances (height,) and whether these exceed the penalty (height,)."""
        near = Nearest(self.centers).chunk(block)
        return near.labels, near.squared, near.squared > self.penalty


@dataclass(frozen=True)
class ImplicitDistances:
    """The kernel of a map: the distance of each row to each center."""

    centers: ImplicitCenters

    def __call__(self, block: Block) -> tuple[Float64Array]:
        """(height, k)."""
        norms = self.centers.gram.diagonal(block.rows, block.start)
        squared = norms[:, np.newaxis] + self.centers.scores(block.rows)
        return (np.sqrt(np.maximum(squared, 0, out=squared)),)


@dataclass(frozen=True)
class ImplicitInertia:
    """The reduction that sums the squared distances of rows to the nearest centers, by weight."""

    centers: ImplicitCenters

    def chunk(self, block: Block) -> float:
        """Of one block."""
        squared = Nearest(self.centers).chunk(block).squared
        return math.fsum(squared if block.weights is None else block.weights * squared)

    def combine(self, left: float, right: float) -> float:
        """Of two neighboring runs."""
        return left + right


# Moves


@dataclass(frozen=True)
class Between:
    """The reduction that sums the similarities of pairs of rows, by both weights, of groups and of clusters: (g, k)."""

    gram: Gram
    groups: Partition
    """Of the first row of a pair."""
    clusters: Partition
    """Of the second."""

    def chunk(self, block: Block) -> Float64Array:
        """The pairs of which the first is in the block."""
        found = np.zeros((self.groups.k, self.clusters.k))
        mine = self.groups.labels[block.start : block.start + len(block.rows)]
        rows = np.flatnonzero(mine >= 0)
        for first in range(0, len(rows), TILE_ROWS):
            some = rows[first : first + TILE_ROWS]
            with np.errstate(all="ignore"):
                sums = sums_of(self.gram, self.clusters, block.rows[some])
                sums *= self.groups.weights[block.start + some]
            present, local = np.unique(mine[some], return_inverse=True)
            gathered = csc_array((np.ones(len(some)), local, np.arange(len(some) + 1)))
            found[present] += gathered @ _finite(sums).T
        return found

    def combine(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """Of two neighboring runs."""
        return left + right


@dataclass(frozen=True)
class Nearby:
    """The reduction that finds the nearest pivot in its own cluster for each row: (rows,), -1 where there is none."""

    gram: Gram
    labels: Labels
    """(n,), clusters of the rows."""
    pivots: Int64Array
    """(p,), rows."""
    norms: Float64Array
    """(p,), similarities of the pivots with themselves."""

    def chunk(self, block: Block) -> Labels:
        """Of one block."""
        labels = self.labels[block.start : block.start + len(block.rows)]
        homes, found = self.labels[self.pivots], np.full(len(labels), -1, np.int32)
        rows = np.flatnonzero(np.isin(labels, homes))
        for first in range(0, len(rows), TILE_ROWS):
            some = rows[first : first + TILE_ROWS]
            scores = _to_openers(self.gram, block.rows[some], self.pivots, self.norms)
            scores[homes[:, np.newaxis] != labels[some]] = np.inf
            found[some] = scores.argmin(axis=0)
        return found

    def combine(self, left: Labels, right: Labels) -> Labels:
        """Of two neighboring runs."""
        return np.concatenate([left, right])


@dataclass(frozen=True)
class Moves:
    """Rows that would gain by moving alone."""

    rows: Int64Array
    """(m,), ascending."""
    targets: IndexArray
    """(m,), the cluster where each gains most; k for one of its own."""
    gains: Float64Array
    """(m,), what the objective falls by, each moving alone."""


@dataclass(frozen=True)
class Moving:
    """The reduction that asks each row where it would gain most by moving alone."""

    gram: Gram
    partition: Partition
    totals: Float64Array
    """(k,), sums of the similarities of all pairs of rows of each cluster, by both weights."""
    norms: Float64Array
    """(n,), similarities of the rows with themselves."""
    price: float
    least: float
    """Gains up to this are none."""

    def chunk(self, block: Block) -> Moves:
        """Of one block."""
        found = [self._tile(block, start) for start in range(0, len(block.rows), TILE_ROWS)]
        return reduce(self.combine, found)

    def combine(self, left: Moves, right: Moves) -> Moves:
        """Of two neighboring runs."""
        return Moves(
            np.concatenate([left.rows, right.rows]),
            np.concatenate([left.targets, right.targets]),
            np.concatenate([left.gains, right.gains]),
        )

    def _tile(self, block: Block, start: int) -> Moves:
        stop = min(start + TILE_ROWS, len(block.rows))
        rows = np.arange(start, stop)[self.partition.labels[block.start + start : block.start + stop] >= 0]
        numbers = block.start + rows
        labels, masses = self.partition.labels[numbers].astype(np.intp), self.partition.weights[numbers]
        with np.errstate(all="ignore"):
            links = _finite(sums_of(self.gram, self.partition, block.rows[rows]).T * masses[:, np.newaxis])
        own = masses * masses * self.norms[numbers]
        gains = move_gains(links, labels, own, masses, self._clusters, self.price)
        targets = gains.argmax(axis=1)
        best = gains[np.arange(len(rows)), targets]
        which = np.flatnonzero(best > self.least)
        return Moves(numbers[which].astype(np.int64), targets[which], best[which])

    @cached_property
    def _clusters(self) -> Clusters:
        sizes = np.bincount(self.partition.labels[self.partition.labels >= 0], minlength=self.partition.k)
        return Clusters(self.totals, self.partition.sizes, sizes)


# Births


def cover(gram: Gram, norms: Float64Array, proposals: Proposals, penalty: float) -> Proposals:
    """The rows that open clusters when the rule goes through the proposals in order, starting from no center.

    `norms` are similarities with themselves, of all fitted rows, here and below.
    """
    kept: list[int] = []
    left = np.arange(len(proposals))
    while left.size:
        first, left = left[:1], left[1:]
        kept.extend(first.tolist())
        left = left[_object(gram, norms, proposals.take(left), proposals.take(first), penalty)]
    return proposals.take(np.array(kept, np.intp))


def merge_covers(gram: Gram, norms: Float64Array, left: Proposals, right: Proposals, penalty: float) -> Proposals:
    """The cover of two neighboring runs: all of `left`, then what of `right` objects to it."""
    if not (len(left) and len(right)):
        return left.then(right)
    return left.then(right.take(_object(gram, norms, right, left, penalty)))


def _object(gram: Gram, norms: Float64Array, proposals: Proposals, centers: Proposals, penalty: float) -> BoolArray:
    """Whether proposals object to each of the centers, opened rows."""
    scores = np.concatenate(list(_least(gram, norms, proposals, centers)) or [np.empty(0)])
    return objects(norms[proposals.numbers] + scores, proposals.weights, penalty)


def _least(gram: Gram, norms: Float64Array, proposals: Proposals, centers: Proposals) -> Iterator[Float64Array]:
    """The least score of each proposal, a tile after the other."""
    for start in range(0, len(proposals), TILE_ROWS):
        rows = proposals.rows[start : start + TILE_ROWS]
        yield _to_openers(gram, rows, centers.numbers, norms[centers.numbers]).min(axis=0)
