"""The mixture whose small-variance limit DP-means is, estimated from a finished fit.

DP-means is the limit of a Dirichlet process mixture of spherical Gaussians with one variance
(Kulis & Jordan 2012, section 3.1).  The variance is the inertia per row and column, corrected for
the overlap of clusters: rows beyond the plane between two centers count for the nearer one, so that
the inertia is too low and centers are too far apart.
"""

import math

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import ndtr

from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.membership import Mixture

NEIGHBORS = 32
"""Nearest centers of each center among which its neighbors are looked for."""
BETWEEN = 1.05
"""Two centers are neighbors if, for every third, the sum of its squared distances to both is above
this times their own squared distance.

At 1 (the Gabriel graph) the diagonals of a grid with rounding are neighbors too: on 3 x 3 Gaussians
3 standard deviations apart the variance was 1.52 in place of 1.04."""
FARTHEST = 8.0
"""Standard deviations between a center and the plane from which on clusters do not overlap."""
LEAST_COST_SHARE = 0.5
"""Share of the inertia without overlap that is left, at least."""
ROUNDS = 50
"""Most rounds of the correction.

On those 3 x 3 Gaussians the variance was 1.0577 after 10, 1.0620 after 20, 1.0621 after 50."""
CHUNK_ELEMENTS = 2**22
"""Numbers in the differences of centers that are worked on at once."""


def mixture_of(
    centers: Float64Array,
    weights: Float64Array,
    inertia: float,
    divergence: Divergence,
    groups: IndexArray | None = None,
    *,
    most: float = math.inf,
) -> Mixture:
    """Return the mixture of a fit.

    Parameters
    ----------
    centers : (k, d)
    weights : (k,), weights of the clusters
    inertia : the squared error
    divergence : the cost of a row at a center
    groups : (k,), the group of each cluster, if groups of clusters get the probabilities
    most : cost above which a row is an outlier

    Raises
    ------
    InputError
        No mixture is known for the divergence.
    """
    total = weights.sum()
    precision = _precision(centers, weights / total, inertia / total, divergence)
    return Mixture(Centers(centers, most=most), np.log(weights / total), precision, groups)


def _precision(
    centers: Float64Array, shares: Float64Array, cost: float, divergence: Divergence
) -> float:
    """Return 1 / variance, given the average cost of a row.

    A cluster loses variance at each plane between two centers.  Loss and variance follow from each
    other by turns.
    """
    d = centers.shape[1]
    with np.errstate(all="ignore"):
        precision = float(divergence.precision(np.float64(cost), d))
    if not (cost > 0 and np.isfinite(precision)):
        return np.inf
    clusters, distances = neighbor_distances(centers)
    half = distances / 2
    for _ in range(ROUNDS):
        if precision == 0:
            break
        losses = shares[clusters] * overlap_losses(half * np.sqrt(precision))
        loss = losses.sum() / precision
        before = precision
        precision = divergence.precision(min(cost + loss, cost / LEAST_COST_SHARE), d)
        if abs(precision - before) <= 1e-12 * before:
            break
    return precision


def neighbor_distances(centers: Float64Array) -> tuple[IndexArray, Float64Array]:
    """Return the distances of centers, (k, d), to their neighbors, (m,), and whose they are, (m,)."""
    k, d = centers.shape
    near = min(NEIGHBORS, k - 1)
    clusters, distances = [np.empty(0, np.intp)], [np.empty(0)]
    height = max(1, CHUNK_ELEMENTS // max(k, near * d, near * near))
    for start in range(0, k, height):
        points = centers[start : start + height]
        others = cdist(points, centers).argsort(axis=1, kind="stable")[:, 1 : near + 1]
        differences = centers[others] - points[:, np.newaxis]
        squared = np.einsum("cij,cij->ci", differences, differences)
        products = np.einsum("cij,clj->cil", differences, differences)
        sums = squared[:, :, np.newaxis] + 2 * squared[:, np.newaxis] - 2 * products
        apart = sums > BETWEEN * squared[:, :, np.newaxis]
        apart |= np.eye(near, dtype=bool)  # the neighbor itself is no third
        rows, places = np.nonzero(apart.all(axis=2))
        clusters.append(start + rows)
        distances.append(np.sqrt(squared[rows, places]))
    return np.concatenate(clusters), np.concatenate(distances)


def overlap_losses(halves: Float64Array) -> Float64Array:
    """Return the squared error that each row of a cluster loses at a plane, (m,).

    `halves` are distances of centers to the plane, (m,); both are in standard deviations.

    Two standard normal clusters at -u and u, cut at 0, have their means at -g and g, with
    g(u) = 2 density(u) + u (2 distribution(u) - 1); the squared error is lower by g(u)^2 - u^2.
    """
    true = np.linspace(0.0, FARTHEST, 2**12 + 1)
    density = np.exp(-0.5 * true**2) / np.sqrt(2 * np.pi)
    found = 2 * density + true * (2 * ndtr(true) - 1)
    losses = halves**2 - np.interp(halves, found, true) ** 2
    return np.where(halves < FARTHEST, np.maximum(losses, 0.0), 0.0)
