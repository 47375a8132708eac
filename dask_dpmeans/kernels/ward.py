"""Greedy merging of clusters from their moments alone: Ward's rule with a penalty."""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.numba_support import compile_loop


def merge(centers: Float64Array, weights: Float64Array, penalty: float) -> IndexArray:
    """Merge the pair of clusters whose merge costs least, while that lowers the objective.

    This is Algorithm 4 of Odashima et al. 2016.  Eq. 10 sums, over all clusters in the two groups,
    weight times the rise of the squared distance to the group's centroid.  A centroid is the
    weighted mean of its clusters, so that the sum equals ``w_a w_b / (w_a + w_b) * |mu_a -
    mu_b|**2``: it needs the weight and the sum of each group alone.

    Parameters
    ----------
    centers : (k, d)
    weights : (k,), > 0
    penalty : in squared units of the centers times weight

    Returns
    -------
    (k,), for each cluster the lowest number in its group

    Of pairs with the same cost, the pair with the lowest numbers is merged first.
    """
    groups = np.arange(len(weights))
    columns = np.array(centers.T, order="C")
    _merge_cheapest(float(penalty), columns, weights.copy(), columns * weights, groups)
    for number, other in enumerate(groups):
        groups[number] = groups[other]  # a lower number, whose own group is final
    return groups


@compile_loop
def merge_costs(
    a: int, others: IndexArray, centers: Float64Array, weights: Float64Array
) -> Float64Array:
    """Return the rise of the squared error, (m,), by a merge of cluster a with each other, (m,).

    Centers are (d, k).
    """
    squared = np.zeros(len(others))
    for j in range(len(centers)):
        squared += np.square(centers[j, a] - centers[j][others])
    costs: Float64Array = weights[a] * weights[others] / (weights[a] + weights[others]) * squared
    return costs


@compile_loop
def _find_partner(
    a: int,
    centers: Float64Array,
    weights: Float64Array,
    groups: IndexArray,
    costs: Float64Array,
    partners: IndexArray,
) -> None:
    """Find the partner after cluster a whose merge with it costs least."""
    after = a + 1 + np.flatnonzero(groups[a + 1 :] == np.arange(a + 1, len(weights)))
    costs[a] = np.inf
    if len(after):
        each = merge_costs(a, after, centers, weights)
        best = each.argmin()
        costs[a], partners[a] = each[best], after[best]


@compile_loop
def _merge_cheapest(
    penalty: float,
    centers: Float64Array,
    weights: Float64Array,
    sums: Float64Array,
    groups: IndexArray,
) -> None:
    """Merge in place: centers and sums (d, k), weights and groups (k,).

    At first each cluster is its own group.

    Every cluster knows the partner after it whose merge costs least.  For a third cluster, a merge
    with the union of the cheapest pair never costs less than the cheaper of its merges with the
    two (the formula of Lance & Williams).  So a merge changes only the clusters whose partner was
    in the pair.
    """
    k = len(weights)
    costs, partners = np.empty(k), np.zeros(k, np.intp)
    for a in range(k):
        _find_partner(a, centers, weights, groups, costs, partners)
    while k and costs.min() < penalty:
        a = int(costs.argmin())
        b = partners[a]
        groups[b], costs[b] = a, np.inf
        weights[a] += weights[b]
        sums[:, a] += sums[:, b]
        centers[:, a] = sums[:, a] / weights[a]
        for c in np.flatnonzero((partners[:b] == a) | (partners[:b] == b)):
            if groups[c] == c:
                _find_partner(int(c), centers, weights, groups, costs, partners)
