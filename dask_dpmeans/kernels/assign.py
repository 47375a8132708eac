"""One pass of rows against given centers: moments of clusters, and rows that object."""

import math
from dataclasses import dataclass, replace
from math import fsum
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from dask_dpmeans.kernels.births import Proposals, keep_openers, merge_openers, objects
from dask_dpmeans.kernels.block import (
    Block,
    BoolArray,
    Float64Array,
    IndexArray,
    Int64Array,
    Rows,
    dense,
)
from dask_dpmeans.kernels.distance import Centers, nearest, nearest_squared
from dask_dpmeans.kernels.divergence import SQUARED, Divergence
from dask_dpmeans.kernels.hamerly_bounds import LEAST_CENTERS, HamerlyBounds
from dask_dpmeans.kernels.joint_scan import scan_at_once
from dask_dpmeans.kernels.keyed_sums import Positions, rank_numbers, union_positions
from dask_dpmeans.kernels.moments import Moments, cluster_moments, greatest

LEAST_SPARSE = 2**16
"""Fewest numbers in the sums of all clusters for which an answer has only the clusters with rows.

At k = 10^6, d = 2, a pass then took 0.7 of the time."""
FEW_ROWS = 0.5
"""An answer has all clusters if a block has more rows than this share of them."""


@dataclass(frozen=True)
class Scan:
    """The answer of a run of blocks."""

    moments: Moments
    """Moments of the clusters of these centers."""
    proposals: Proposals
    """Openers among the rows that object to every center."""
    reaches: Float64Array
    """(k,), the greatest cost of a row of each cluster at its center."""
    outliers: float = 0.0
    """Weight of the outliers, which are in no cluster."""
    clusters: IndexArray | None = None
    """(m,), numbers, ascending, of the clusters to which moments and reaches belong; None for all."""

    def inertia(self, centers: Centers) -> float:
        """Return the cost of all rows at these centers or as outliers."""
        return self.moments.inertia + outlier_cost(centers, self.outliers)

    def of_all(self, k: int) -> "Scan":
        """Return the same answer with moments and reaches of all k clusters."""
        if self.clusters is None:
            return self
        return self._on(self.clusters, k, None)

    def _on(self, places: Positions, count: int, clusters: IndexArray | None) -> "Scan":
        """Return the same answer for `count` clusters; the clusters of this answer go to `places`."""
        moments, reaches = Moments.none(count, self.moments.sums.shape[1]), np.zeros(count)
        parts = zip((*moments.parts, reaches), (*self.moments.parts, self.reaches), strict=True)
        for whole, some in parts:
            whole[places] = some
        return replace(self, moments=moments, reaches=reaches, clusters=clusters)


def assign(block: Block, centers: Centers) -> tuple[IndexArray, Float64Array]:
    """Return labels and squared distances of the rows of a block, (height,) each."""
    if (
        block.memory is not None
        and centers.divergence is None
        and (LEAST_CENTERS <= len(centers) <= len(block.rows))
    ):
        memory: HamerlyBounds = block.memory.setdefault("assign", HamerlyBounds())
        return memory.assign(block.rows, centers, block.scratch)
    return nearest_squared(block.rows, centers, block.scratch)


def assign_or_leave(block: Block, centers: Centers) -> tuple[IndexArray, Float64Array]:
    """Return labels and costs, (height,) each; outliers have the label k and the cost `most`."""
    labels, squared = assign(block, centers)
    if math.isfinite(centers.most):
        outliers = np.flatnonzero(squared > centers.most)
        labels[outliers], squared[outliers] = len(centers), centers.most
    return labels, squared


def outlier_cost(centers: Centers, weight: float) -> float:
    """Return what outliers of this weight cost together."""
    return centers.most * weight if weight else 0.0


def scan(block: Block, centers: Centers, penalty: float) -> Scan:
    """Return the answer of one block; rows that cost more than the penalty object."""
    known = None
    if not _only_some_clusters(block, len(centers)):
        known = scan_at_once(block, centers)
    if known is not None:
        moments, squared, reaches = known
        return Scan(moments, propose(block, squared, penalty, reach=reaches.max()), reaches)
    labels, squared = assign_or_leave(block, centers)
    proposals = propose(block, squared, penalty, centers.divergence)
    found = _sums(block, labels, squared, len(centers) + math.isfinite(centers.most), proposals)
    return _without_outliers(found, len(centers)) if math.isfinite(centers.most) else found


def _only_some_clusters(block: Block, k: int) -> bool:
    """Return whether the answer has only the clusters of the block's rows."""
    n, d = block.rows.shape
    return k * d >= LEAST_SPARSE and bool(n <= FEW_ROWS * k)


def _sums(
    block: Block, labels: IndexArray, squared: Float64Array, k: int, proposals: Proposals
) -> Scan:
    clusters = None
    if _only_some_clusters(block, k):
        clusters, labels = rank_numbers(labels)
        k = len(clusters)
    moments = cluster_moments(block, labels, squared, k)
    return Scan(moments, proposals, greatest(labels, squared, k), clusters=clusters)


def _without_outliers(found: Scan, k: int) -> Scan:
    """Return the answer for k clusters; outliers have the label k."""
    clusters = found.clusters
    inside = np.arange(k if clusters is None else np.searchsorted(clusters, k))
    outliers = fsum(found.moments.weights[len(inside) :])
    if clusters is not None:
        clusters = clusters[inside]
    return Scan(
        found.moments.keep(inside), found.proposals, found.reaches[inside], outliers, clusters
    )


def propose(
    block: Block,
    squared: Float64Array,
    penalty: float,
    divergence: Divergence | None = None,
    reach: float = math.inf,
) -> Proposals:
    """Return the openers among the rows that object, given their least costs, (height,).

    `reach` is no less than these costs.
    """
    if not math.isfinite(penalty) or reach <= penalty:
        return Proposals.none(block.rows.shape[1])
    which = np.flatnonzero(objects(squared, block.weights, penalty))
    if not len(which):  # as in nearly all blocks
        return Proposals.none(block.rows.shape[1])
    rows = dense(block.rows[which]).astype(np.float64)
    proposals = Proposals(block.start + which.astype(np.int64), rows, block.row_weights(which))
    return keep_openers(proposals, penalty, divergence)


def merge_scans(
    left: Scan, right: Scan, penalty: float, divergence: Divergence | None = None
) -> Scan:
    """Return the answer of two neighboring runs of blocks."""
    if left.clusters is None or right.clusters is None:
        k = max(len(left.reaches), len(right.reaches))
        left, right = left.of_all(k), right.of_all(k)
    else:
        numbers, own, others = union_positions(left.clusters, right.clusters)
        left, right = left._on(own, len(numbers), numbers), right._on(others, len(numbers), numbers)
    return Scan(
        left.moments + right.moments,
        merge_openers(left.proposals, right.proposals, penalty, divergence),
        np.maximum(left.reaches, right.reaches),
        left.outliers + right.outliers,
        left.clusters,
    )


@dataclass(frozen=True)
class NearestLabels:
    """The kernel of a map: the label of each row."""

    takes_csr: ClassVar[bool] = True
    centers: Centers
    noise: BoolArray | None = None
    """(k,), centers whose rows have label -1; None for none."""
    groups: Int64Array | None = None
    """(k,), the cluster of each center, -1 for noise; None if each is a cluster."""

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32]]:
        """Return labels, (height,) int32; -1 for outliers and for rows of noise."""
        if math.isfinite(self.centers.most):
            labels, squared = assign(block, self.centers)
            return (labels_of(block.rows, labels, squared, self.centers, self.noise, self.groups),)
        labels = nearest(block.rows, self.centers, block.scratch)
        return (labels_of(block.rows, labels, None, self.centers, self.noise, self.groups),)


@dataclass(frozen=True)
class Predictions:
    """The kernel of a map: label, cost, and whether the cost exceeds the penalty."""

    takes_csr: ClassVar[bool] = True
    centers: Centers
    penalty: float
    noise: BoolArray | None = None
    """(k,), centers whose rows have label -1; None for none."""
    shown: Divergence | None = None
    """What turns costs into the costs that users see; None to show them as they are."""
    groups: Int64Array | None = None
    """(k,), the cluster of each center, -1 for noise; None if each is a cluster."""

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32], Float64Array, BoolArray]:
        """Return labels, int32, costs, and whether costs exceed the penalty, (height,) each.

        The cost of an outlier, whose label is -1, is its cost at the nearest center.
        """
        nearest, squared = assign(block, self.centers)
        labels = labels_of(block.rows, nearest, squared, self.centers, self.noise, self.groups)
        beyond = squared > self.penalty
        if self.shown is not None:
            squared = self.shown.shown_costs(block.rows, self.centers.values, nearest, squared)
        return labels, squared, beyond


def labels_of(
    rows: Rows,
    nearest: IndexArray,
    costs: Float64Array | None,
    centers: Centers,
    noise: BoolArray | None,
    groups: Int64Array | None = None,
) -> npt.NDArray[np.int32]:
    """Return labels, (n,), of rows, (n, d), from nearest centers, (n,), and the costs there, (n,).

    A label is the number of a center, or its group if there are `groups`, (k,).  Outliers, rows
    nearest to centers that are `noise`, (k,), and rows without any value have label -1.  The costs
    may be None if there are no outliers.
    """
    found = nearest if groups is None else groups[nearest]
    labels: npt.NDArray[np.int32] = found.astype(np.int32)
    if noise is not None:
        labels[noise[nearest]] = -1
    if costs is not None and math.isfinite(centers.most):
        labels[costs > centers.most] = -1
    without = None if centers.divergence is None else centers.divergence.unlabeled(rows)
    if without is not None:
        labels[without] = -1
    return labels


@dataclass(frozen=True)
class Distances:
    """The kernel of a map: the distance of each row to each center."""

    takes_csr: ClassVar[bool] = True
    centers: Centers
    shown: Divergence | None = None
    """What measures distances for users; None for the divergence of the centers."""

    def __call__(self, block: Block) -> tuple[Float64Array]:
        """Return Euclidean distances, (height, k), or the distances of the divergence."""
        divergence = self.shown or self.centers.divergence or SQUARED
        return (divergence.distances(block.rows, self.centers.values),)


@dataclass(frozen=True)
class GroupDistances:
    """The kernel of a map: the distance of each row to the nearest center of each group."""

    centers: Float64Array
    """(k, d)."""
    groups: Int64Array
    """(k,), none empty."""

    def __call__(self, block: Block) -> tuple[Float64Array]:
        """Return Euclidean distances, (height, groups)."""
        order = np.argsort(self.groups, kind="stable")
        starts = np.flatnonzero(np.diff(self.groups[order], prepend=-1))
        distances = cdist(block.rows, self.centers[order])
        return (np.minimum.reduceat(distances, starts, axis=1),)
