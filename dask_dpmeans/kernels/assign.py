"""One pass of rows against given centers: moments of clusters, and rows that object."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.births import Proposals, keep_openers, merge_openers, objects
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, IndexArray, Rows, dense
from dask_dpmeans.kernels.distance import Centers, nearest, nearest_squared
from dask_dpmeans.kernels.divergence import SQUARED, Divergence
from dask_dpmeans.kernels.hamerly_bounds import LEAST_CENTERS, HamerlyBounds
from dask_dpmeans.kernels.moments import Moments, cluster_moments, greatest


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

    def inertia(self, centers: Centers) -> float:
        """Return the cost of all rows at these centers or as outliers."""
        return self.moments.inertia + outlier_cost(centers, self.outliers)


def assign(block: Block, centers: Centers) -> tuple[IndexArray, Float64Array]:
    """Return labels and squared distances of the rows of a block, (height,) each."""
    if block.memory is not None and len(centers) >= LEAST_CENTERS and centers.divergence is None:
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
    labels, squared = assign_or_leave(block, centers)
    k = len(centers)
    proposals = propose(block, squared, penalty, centers.divergence)
    if not math.isfinite(centers.most):
        moments = cluster_moments(block, labels, squared, k)
        return Scan(moments, proposals, greatest(labels, squared, k))
    moments = cluster_moments(block, labels, squared, k + 1)
    outliers = float(moments.weights[k])
    reaches = greatest(labels, squared, k + 1)[:k]
    return Scan(moments.keep(np.arange(k)), proposals, reaches, outliers)


def propose(
    block: Block, squared: Float64Array, penalty: float, divergence: Divergence | None = None
) -> Proposals:
    """Return the openers among the rows that object, given their least costs, (height,)."""
    if not math.isfinite(penalty):
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
    return Scan(
        left.moments + right.moments,
        merge_openers(left.proposals, right.proposals, penalty, divergence),
        np.maximum(left.reaches, right.reaches),
        left.outliers + right.outliers,
    )


@dataclass(frozen=True)
class NearestLabels:
    """The kernel of a map: the label of each row."""

    takes_csr: ClassVar[bool] = True
    centers: Centers
    noise: BoolArray | None = None
    """(k,), centers whose rows have label -1; None for none."""

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32]]:
        """Return labels, (height,) int32; -1 for outliers and for rows of noise."""
        if math.isfinite(self.centers.most):
            labels, squared = assign(block, self.centers)
            return (labels_of(block.rows, labels, squared, self.centers, self.noise),)
        labels = nearest(block.rows, self.centers, block.scratch)
        return (labels_of(block.rows, labels, None, self.centers, self.noise),)


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

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32], Float64Array, BoolArray]:
        """Return labels, int32, costs, and whether costs exceed the penalty, (height,) each.

        The cost of an outlier, whose label is -1, is its cost at the nearest center.
        """
        nearest, squared = assign(block, self.centers)
        labels = labels_of(block.rows, nearest, squared, self.centers, self.noise)
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
) -> npt.NDArray[np.int32]:
    """Return labels, (n,), of rows, (n, d), from nearest centers, (n,), and the costs there, (n,).

    Outliers, rows nearest to centers that are `noise`, (k,), and rows without any value have label
    -1.  The costs may be None if there are no outliers.
    """
    labels: npt.NDArray[np.int32] = nearest.astype(np.int32)
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
