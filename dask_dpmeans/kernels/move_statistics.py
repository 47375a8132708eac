"""One pass of rows against given centers that learns what every move of the search would gain.

Besides the moments of a scan it carries two child centers of each cluster, which split its rows in two, and the second
nearest center of each row, which is where the row goes if its own center is deleted.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels import compiled
from dask_dpmeans.kernels.assign import propose
from dask_dpmeans.kernels.births import Proposals, merge_covers
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.distance import Centers, costs, nearest_two
from dask_dpmeans.kernels.moments import Moments, cluster_moments, total

DENSE = 8
"""Pairs of clusters for each row up to which sums of all of them are faster than sorting."""


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
        labels, seconds = two_nearest(block, self.centers)
        children = Centers(self.children.reshape(2 * len(self.centers), -1), self.centers.divergence)
        fast = compiled.AVAILABLE and self.centers.divergence is None
        measure = _measured_compiled if fast else _measured
        squared, halves, inertias, transfers = measure(block, self.centers, children, labels, seconds)
        proposals = propose(block, squared, self.penalty, self.centers.divergence)
        return Probe(halves, inertias, transfers, proposals)

    def combine(self, left: Probe, right: Probe) -> Probe:
        """The answer of two neighboring runs of blocks."""
        return Probe(
            left.halves + right.halves,
            left.inertias + right.inertias,
            left.transfers + right.transfers,
            merge_covers(left.proposals, right.proposals, self.penalty, self.centers.divergence),
        )


def two_nearest(block: Block, centers: Centers) -> tuple[IndexArray, IndexArray]:
    """Labels and second nearest centers, (height,) each; the same where there is one center."""
    if len(centers) > 1:
        return nearest_two(block.rows, centers, block.scratch)
    only = np.zeros(len(block.rows), np.intp)
    return only, only


Measured = tuple[Float64Array, Moments, Float64Array, Transfers]
"""Squared distances of the rows to their centers, and what a probe says of halves, clusters and transfers."""


def _measured(block: Block, centers: Centers, children: Centers, labels: IndexArray, seconds: IndexArray) -> Measured:
    """What there is to learn once the two nearest centers are known."""
    k, scratch = len(centers), block.scratch
    squared = costs(block.rows, centers, labels, scratch)
    losses = costs(block.rows, centers, seconds, scratch) - squared
    first, second = (costs(block.rows, children, 2 * labels + side, scratch) for side in (0, 1))
    sides = second < first
    halves = cluster_moments(block, 2 * labels + sides, np.where(sides, second, first), 2 * k)
    errors = squared
    if block.weights is not None:
        errors, losses = block.weights * errors, block.weights * losses
    return squared, halves, total(labels, errors, k), _transfers(labels, seconds, losses, k)


def _measured_compiled(
    block: Block, centers: Centers, children: Centers, labels: IndexArray, seconds: IndexArray
) -> Measured:
    """The same by one compiled loop, which sums the transfers too where there are few pairs of clusters."""
    n, (k, d) = len(labels), centers.values.shape
    squared, losses, inertias = np.empty(n), np.empty(n), np.zeros(k)
    halves = np.zeros(2 * k, np.int64), np.zeros(2 * k), np.zeros((2 * k, d)), np.zeros(2 * k)
    n_pairs = k * k if k * k <= DENSE * n else 0
    present, lost = pairs = np.zeros(n_pairs, np.bool_), np.zeros(n_pairs)
    weights = np.ones(n) if block.weights is None else block.weights
    given = block.rows, weights, centers.values, children.values, labels, seconds
    compiled.measure(*given, squared, losses, halves, inertias, pairs)
    if n_pairs:
        which = np.flatnonzero(present).astype(np.int64)
        transfers = Transfers(which, lost[which])
    else:
        transfers = _transfers(labels, seconds, losses, k)
    return squared, Moments(*halves), inertias, transfers


def _transfers(labels: IndexArray, seconds: IndexArray, losses: Float64Array, k: int) -> Transfers:
    pairs, places = np.unique(labels.astype(np.int64) * k + seconds, return_inverse=True)
    return Transfers(pairs, total(places, losses, len(pairs)))
