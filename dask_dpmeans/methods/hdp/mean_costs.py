"""Costs of means, and rises of costs by merges: squared distances by their fast paths, or any.

The best center of rows is their mean whatever their divergence is (Banerjee et al. 2005): rows of
weight w cost w D(mean, center) more at a center than at their mean.
"""

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.kernels.block import Float64Array, IntegerArray
from dask_dpmeans.kernels.distance import Centers, nearest, nearest_squared, squared_distances
from dask_dpmeans.kernels.divergence import Divergence


def mean_costs(
    divergence: Divergence, means: Float64Array, centers: Float64Array, labels: IntegerArray
) -> Float64Array:
    """Return the cost of means, (m, d), at the centers, of (k, d), of their labels, (m,)."""
    if divergence.general is None:
        return squared_distances(means, centers, labels.astype(np.intp))
    return divergence.between(means, centers[labels])


def cheapest(
    divergence: Divergence, means: Float64Array, centers: Float64Array
) -> tuple[IntegerArray, Float64Array]:
    """Return the cheapest of centers, (k, d), for each mean, (m, d), and the cost there, (m,)."""
    if divergence.general is None:
        return nearest_squared(means, Centers(centers))
    labels = nearest(means, Centers(centers, divergence))
    return labels, mean_costs(divergence, means, centers, labels)


def relative_costs(
    divergence: Divergence, means: Float64Array, centers: Float64Array
) -> Float64Array:
    """Return the cost of each mean, (m, d), at each center, (g, d), but for a constant: (m, g)."""
    if divergence.general is None:
        return np.asarray(cdist(means, centers, "sqeuclidean"))
    return divergence.costs_to_all(means, centers)


def merge_costs(
    divergence: Divergence, weights: Float64Array, means: Float64Array, part: slice
) -> Float64Array:
    """Return the rise of the cost if a cluster of `part` and another one merge, (p, g).

    All g clusters have weights, (g,), and means, (g, d).
    """
    if divergence.general is not None:
        return divergence.joining(means[part], weights[part], weights, means)
    own = weights[part, np.newaxis]
    costs: Float64Array = own * weights / (own + weights)
    costs *= cdist(means[part], means, "sqeuclidean")
    return costs
