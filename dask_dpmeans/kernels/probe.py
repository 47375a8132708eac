"""One pass of rows against given centers that learns what every move of the search would gain.

Besides the moments of a scan it carries two child centers of each cluster, which split its rows in two, and the second
nearest center of each row, which is where the row goes if its own center is deleted.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.cover import Proposals, merge_covers
from dask_dpmeans.kernels.distance import Centers, nearest_two, squared_distances
from dask_dpmeans.kernels.moments import Moments, cluster_moments, total
from dask_dpmeans.kernels.scan import propose


@dataclass(frozen=True)
class Transfers:
    """What the rows of a cluster would lose by going to their second nearest centers; sparse."""

    pairs: Int64Array
    """(m,), k times the number of a cluster plus that of the second nearest center of some of its rows, rising."""
    losses: Float64Array
    """(m,), what these rows' squared error would rise by, in squared units of the rows times weight."""

    def __add__(self, other: "Transfers") -> "Transfers":
        pairs, places = np.unique(np.concatenate([self.pairs, other.pairs]), return_inverse=True)
        return Transfers(pairs, total(places, np.concatenate([self.losses, other.losses]), len(pairs)))


@dataclass(frozen=True)
class Probe:
    """The answer of a run of blocks, for k centers."""

    halves: Moments
    """Of 2k halves: of cluster c, the rows nearer to its first child are number 2c, the others 2c + 1."""
    inertias: Float64Array
    """(k,), squared error of the clusters, about the centers."""
    transfers: Transfers
    proposals: Proposals
    """A cover of the rows that object to every center."""


@dataclass(frozen=True)
class Probing:
    """A pass against centers and their children, as a reduction."""

    centers: Centers
    """k of them."""
    children: Float64Array
    """(k, 2, d)."""
    penalty: float
    """Beyond which a row objects; infinite where none may."""

    def chunk(self, block: Block) -> Probe:
        """The answer of one block."""
        k, scratch = len(self.centers), block.scratch
        labels, seconds = two_nearest(block, self.centers)
        squared = squared_distances(block.rows, self.centers.values, labels, scratch)
        farther = squared_distances(block.rows, self.centers.values, seconds, scratch)
        children = self.children.reshape(2 * k, -1)
        first, second = (squared_distances(block.rows, children, 2 * labels + side, scratch) for side in (0, 1))
        sides = second < first
        halves = cluster_moments(block, 2 * labels + sides, np.where(sides, second, first), 2 * k)
        errors, losses = squared, farther - squared
        if block.weights is not None:
            errors, losses = block.weights * errors, block.weights * losses
        transfers = _transfers(labels, seconds, losses, k)
        return Probe(halves, total(labels, errors, k), transfers, propose(block, squared, self.penalty))

    def combine(self, left: Probe, right: Probe) -> Probe:
        """The answer of two neighboring runs of blocks."""
        return Probe(
            left.halves + right.halves,
            left.inertias + right.inertias,
            left.transfers + right.transfers,
            merge_covers(left.proposals, right.proposals, self.penalty),
        )


def two_nearest(block: Block, centers: Centers) -> tuple[IndexArray, IndexArray]:
    """Labels and second nearest centers, (height,) each; the same where there is one center."""
    if len(centers) > 1:
        return nearest_two(block.rows, centers, block.scratch)
    only = np.zeros(len(block.rows), np.intp)
    return only, only


def _transfers(labels: IndexArray, seconds: IndexArray, losses: Float64Array, k: int) -> Transfers:
    keys = labels.astype(np.int64) * k + seconds
    if k * k <= len(keys):
        present = np.flatnonzero(np.bincount(keys, minlength=k * k)).astype(np.int64)
        return Transfers(present, total(keys, losses, k * k)[present])
    pairs, places = np.unique(keys, return_inverse=True)
    return Transfers(pairs, total(places, losses, len(pairs)))
