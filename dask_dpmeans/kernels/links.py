"""Links of centers: how densely rows lie between each center and its neighbors, from one pass.

Let a row be at squared distances ``near <= far`` from its two nearest centers.  It is at ``t = (far
- near) / (2 * distance of the centers)`` from the plane in the middle between them, and counts by
``closeness(t / spread)``.  The link of two centers is the sum over the rows of both.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, costs, squared_distances
from dask_dpmeans.kernels.keyed_sums import KeyedSums, rank_numbers
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.move_statistics import two_nearest

WIDTH = 0.5
"""Standard deviation of the normal weight of rows by their distance from the plane, in spreads.
Mean adjusted Rand index on 35 sets of many shapes, number of clusters told: .93 with this, .91 at .7, .87
at 1."""
CELL = 12
"""Rows spread evenly between two planes have the squared distance of the planes, divided by this,
as variance."""
TILE = 2**10
"""Centers whose distances to all centers are computed together."""
MOST_LINKS = 64
"""Most links of a center that are kept."""
LIGHTEST = 1e-4
"""Links of less than this share of the mean link are none: no row lies between the centers."""
LinkSums = KeyedSums[Float64Array]
"""Sums over the rows of pairs of centers; the keys are k * nearest + second nearest."""


@dataclass(frozen=True)
class Links:
    """Links of k centers: pairs, each once, by their lower and then their higher number."""

    lower: Int64Array
    """(m,)."""
    higher: Int64Array
    """(m,)."""
    weights: Float64Array
    """(m,), > 0."""

    def matrix(self, k: int) -> csr_array:
        """Return the links as a symmetric matrix, (k, k), of zeros on the diagonal."""
        ends = np.concatenate([self.lower, self.higher]), np.concatenate([self.higher, self.lower])
        return csr_array((np.tile(self.weights, 2), ends), shape=(k, k))


@dataclass(frozen=True)
class LinkScan(SummedAnswers):
    """The reduction to `LinkSums`."""

    centers: Centers
    """(k, d), points of squared distances."""
    variances: Float64Array
    """(k,), variance of the rows of each center along a line, >= 0."""

    def chunk(self, block: Block) -> LinkSums:
        """Return the sums of one block."""
        k, values = len(self.centers), self.centers.values
        if k == 1:
            return LinkSums(np.empty(0, np.int64), np.empty(0))
        labels, seconds = two_nearest(block, self.centers)
        near, far = (
            costs(block.rows, self.centers, each, block.scratch) for each in (labels, seconds)
        )
        pairs, ranks = rank_numbers(labels.astype(np.int64) * k + seconds)
        first, second = np.divmod(pairs, k)
        between = squared_distances(values[first], values, second)
        spread = np.sqrt(self.variances[first] / 2 + self.variances[second] / 2)
        counted = closeness(far - near, (2 * np.sqrt(between) * spread)[ranks])
        if block.weights is not None:
            counted = counted * block.weights
        return LinkSums(pairs, total(ranks, counted, len(pairs)))


def closeness(excess: Float64Array, scale: Float64Array) -> Float64Array:
    """Return how much rows count, (n,): exp(-(t / `WIDTH`)**2 / 2), and 1 on the plane.

    `excess`, (n,), >= 0, is how much nearer each row is to its center than to the second, in
    squared distance; `scale`, (n,), >= 0, is this for a row one spread from the plane: the row is t
    = excess / scale spreads away.
    """
    relative = np.where(excess > 0, np.inf, 0.0)
    np.divide(excess, scale, out=relative, where=scale > 0)
    with np.errstate(over="ignore"):
        found: Float64Array = np.exp(relative * relative * (-0.5 / WIDTH**2))
    return found


def line_variances(
    centers: Float64Array, weights: Float64Array, inertias: Float64Array
) -> Float64Array:
    """Return the variance of the rows of each center, (k,), along the lines to its neighbors.

    It is the squared error of a row, but at most the variance of even rows up to the second nearest
    of the other centers.  A smaller one than the least variance > 0 is raised to that.

    Parameters
    ----------
    centers : (k, d), k >= 2
    weights : (k,), > 0
    inertias : (k,), squared errors of the rows
    """
    found = np.minimum(inertias / weights, _second_distances(centers) / CELL)
    positive = found[found > 0]
    return np.maximum(found, positive.min() if len(positive) else 0.0)


def _second_distances(centers: Float64Array) -> Float64Array:
    """Return the squared distance of each of k >= 2 centers, (k, d), to the second nearest other.

    Of two centers it is the distance to the only other one.
    """
    place = min(2, len(centers) - 1)
    found = np.empty(len(centers))
    for start in range(0, len(centers), TILE):
        squared = cdist(centers[start : start + TILE], centers, "sqeuclidean")
        found[start : start + TILE] = np.partition(squared, place, axis=1)[:, place]
    return found


def links_of(sums: LinkSums, k: int) -> tuple[Links, float]:
    """Return the links of k centers, and the share of their weight that is left out.

    Links below `LIGHTEST` are none.  A link is kept if it is among the `MOST_LINKS` heaviest links
    of both its centers; of equal ones the links to lower numbers are first.
    """
    first, second = np.divmod(sums.keys, k)
    lower, higher = np.minimum(first, second), np.maximum(first, second)
    pairs, ranks = np.unique(lower * k + higher, return_inverse=True)
    weights = total(ranks, sums.values, len(pairs))
    positive = weights[weights > 0]  # links of rows without weight do not count
    some = weights > (LIGHTEST * positive.mean() if len(positive) else 0)
    pairs, weights = pairs[some], weights[some]
    lower, higher = np.divmod(pairs, k)
    kept = _among_heaviest(lower, higher, weights) & _among_heaviest(higher, lower, weights)
    everything = float(weights.sum())
    if kept.all():
        return Links(lower, higher, weights), 0.0
    links = Links(lower[kept], higher[kept], weights[kept])
    return links, 1 - float(links.weights.sum()) / everything


def _among_heaviest(own: Int64Array, other: Int64Array, weights: Float64Array) -> np.ndarray:
    """Return whether each link, (m,), is among the heaviest of one of its ends."""
    order = np.lexsort((other, -weights, own))
    starts = np.searchsorted(own[order], own[order])
    kept = np.empty(len(own), np.bool_)
    kept[order] = np.arange(len(own)) - starts < MOST_LINKS
    return kept
