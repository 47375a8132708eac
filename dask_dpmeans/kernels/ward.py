"""Greedy merging of clusters from their moments alone: Ward's rule with a penalty."""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.numba_support import CALL, compile_loop, compile_part, compiled_or_plain


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
    sums = centers * weights[:, np.newaxis]
    given = float(penalty), centers.copy(), weights.copy(), sums, groups
    work = len(centers) * (8 * centers.size + 4 * CALL)
    compiled_or_plain(_merge_cheapest_compiled, given, work, twin=_merge_cheapest)(*given)
    for number, other in enumerate(groups):
        groups[number] = groups[other]  # a lower number, whose own group is final
    return groups


def _merge_cheapest(
    penalty: float,
    centers: Float64Array,
    weights: Float64Array,
    sums: Float64Array,
    groups: IndexArray,
) -> None:
    """Merge in place: centers and sums (k, d), weights and groups (k,).

    At first each cluster is its own group.

    Every cluster knows the partner after it whose merge costs least.  For a third cluster, a merge
    with the union of the cheapest pair never costs less than the cheaper of its merges with the
    two (the formula of Lance & Williams).  So a merge changes only the clusters whose partner was
    in the pair.
    """
    k = len(weights)
    costs, partners = np.full(k, np.inf), np.zeros(k, np.intp)
    for a in range(k):
        _cheapest_after(a, centers, weights, groups, costs, partners)
    while costs.min(initial=np.inf) < penalty:
        a = int(costs.argmin())
        b = partners[a]
        groups[b], costs[b] = a, np.inf
        weights[a] += weights[b]
        sums[a] += sums[b]
        centers[a] = sums[a] / weights[a]
        before = np.flatnonzero(groups[:b] == np.arange(b))
        for c in before[(partners[before] == a) | (partners[before] == b)]:
            _cheapest_after(c, centers, weights, groups, costs, partners)


def _cheapest_after(
    a: int,
    centers: Float64Array,
    weights: Float64Array,
    groups: IndexArray,
    costs: Float64Array,
    partners: IndexArray,
) -> None:
    """Find the partner after cluster a whose merge with it costs least."""
    after = np.arange(a + 1, len(weights))
    after = after[groups[a + 1 :] == after]
    each = merge_costs(a, after, centers, weights)
    costs[a] = each.min(initial=np.inf)
    if np.isfinite(costs[a]):
        partners[a] = after[each.argmin()]


def merge_costs(
    a: int, others: IndexArray, centers: Float64Array, weights: Float64Array
) -> Float64Array:
    """Return the rise of the squared error, (m,), by a merge of cluster a with each other, (m,)."""
    squares = np.square(centers[a] - centers[others])
    squared = np.add.accumulate(squares, axis=1)[:, -1]
    costs: Float64Array = weights[a] * weights[others] / (weights[a] + weights[others]) * squared
    return costs


@compile_part
def _merge_cost_compiled(a: int, b: int, centers: Float64Array, weights: Float64Array) -> float:
    """Compiled twin of `merge_costs`, for one pair."""
    squared = 0.0
    for j in range(centers.shape[1]):
        difference = centers[a, j] - centers[b, j]
        squared += difference * difference
    cost: float = weights[a] * weights[b] / (weights[a] + weights[b]) * squared
    return cost


@compile_part
def _cheapest_after_compiled(
    a: int,
    centers: Float64Array,
    weights: Float64Array,
    groups: IndexArray,
    costs: Float64Array,
    partners: IndexArray,
) -> None:
    """Compiled twin of `_cheapest_after`."""
    costs[a] = np.inf
    for b in range(a + 1, len(weights)):
        if groups[b] == b:
            cost = _merge_cost_compiled(a, b, centers, weights)
            if cost < costs[a]:
                costs[a], partners[a] = cost, b


@compile_loop
def _merge_cheapest_compiled(
    penalty: float,
    centers: Float64Array,
    weights: Float64Array,
    sums: Float64Array,
    groups: IndexArray,
) -> None:
    """Compiled twin of `_merge_cheapest`."""
    k = len(weights)
    costs, partners = np.empty(k), np.zeros(k, np.intp)
    for a in range(k):
        _cheapest_after_compiled(a, centers, weights, groups, costs, partners)
    while k:
        a = int(np.argmin(costs))
        if not costs[a] < penalty:
            return
        b = partners[a]
        groups[b], costs[b] = a, np.inf
        weights[a] += weights[b]
        for j in range(centers.shape[1]):
            sums[a, j] += sums[b, j]
            centers[a, j] = sums[a, j] / weights[a]
        for c in range(b):
            if groups[c] == c and (partners[c] == a or partners[c] == b):
                _cheapest_after_compiled(c, centers, weights, groups, costs, partners)
