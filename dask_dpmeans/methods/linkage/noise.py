"""Noise: micro-clusters of few rows in much space.

The density of a micro-cluster is its weight over the mean squared distance of its rows to its
center.  A micro-cluster is noise if its density is below a share of the density of its cluster: of
the micro-cluster that holds the cluster's median row.  So clusters may differ in density, and no
cluster is all noise.

On eight sets with marked noise, a share of 0.2 has precision 1 and recall 1, 1, .90, .72 and .32 in
five.  It finds none in three: noise is a cluster of its own there, or clusters are single
micro-clusters.  In 27 sets without noise it finds .3 % of the rows.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, nearest_two, squared_distances
from dask_dpmeans.kernels.links import CELL


def labels_of(
    groups: Int64Array,
    centers: Float64Array,
    weights: Float64Array,
    inertias: Float64Array,
    share: float | None,
) -> Int64Array:
    """Return the label of the rows of each micro-cluster, (k,): its group, or -1 if it is noise.

    Parameters
    ----------
    groups : (k,), cluster of each micro-cluster
    centers : (k, d)
    weights : (k,), > 0
    inertias : (k,), squared errors of the rows
    share : share of the density of a cluster; None for no noise
    """
    if share is None or len(groups) == 1:
        return groups
    with np.errstate(divide="ignore", over="ignore"):
        densities = weights / mean_distances(centers, weights, inertias)
    limits = share * median_of_groups(groups, densities, weights)[groups]
    return np.where(densities < limits, -1, groups)


def mean_distances(
    centers: Float64Array, weights: Float64Array, inertias: Float64Array
) -> Float64Array:
    """Return the mean squared distance of the rows to each of k >= 2 centers, (k,).

    Rows count as spread over at least the distance to the nearest other center, evenly: a single
    row fills space too.
    """
    nearest, second = nearest_two(centers, Centers(centers))
    others = np.where(nearest == np.arange(len(centers)), second, nearest)
    return np.maximum(inertias / weights, squared_distances(centers, centers, others) / CELL)


def median_of_groups(
    groups: Int64Array, values: Float64Array, weights: Float64Array
) -> Float64Array:
    """Return the weighted median of the values, (k,), of each group, (number of groups,)."""
    order = np.lexsort((values, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    medians = np.empty(len(starts))
    for group, members in enumerate(np.split(order, starts[1:])):
        sums = np.cumsum(weights[members])
        medians[group] = values[members[np.searchsorted(sums, sums[-1] / 2)]]
    return medians
