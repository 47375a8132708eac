"""Greedy merging of clusters from their moments alone, the cheapest pair first: Ward's rule, ended by a penalty."""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.numba_support import compile_loop, select_loop


def merge(centers: Float64Array, weights: Float64Array, penalty: float) -> IndexArray:
    """Algorithm 4 of Odashima et al. 2016: merge the pair whose merge costs least, while that lowers the objective.

    Eq. 10 sums, over all clusters that two groups were made of, weight times what the squared distance to the group's
    centroid rises by.  A group's centroid is their weighted mean, so that the sum equals
    ``w_a w_b / (w_a + w_b) * |mu_a - mu_b|**2``: a group's weight and sum are all that is needed.

    Parameters
    ----------
    centers : (k, d)
    weights : (k,), > 0
    penalty : in squared units of the centers times weight

    Returns
    -------
    (k,), for each cluster the lowest number in its group.  Of pairs that cost the same the one of lowest numbers is
    merged first.
    """
    groups = np.arange(len(weights))
    loop = select_loop(_merge_cheapest_compiled, merge_cheapest)
    loop(float(penalty), centers.copy(), weights.copy(), centers * weights[:, np.newaxis], groups)
    for number, other in enumerate(groups):
        groups[number] = groups[other]  # merged into a lower number, which knows its own group by now
    return groups


def merge_cheapest(
    penalty: float, centers: Float64Array, weights: Float64Array, sums: Float64Array, groups: IndexArray
) -> None:
    """Merge in place: centers and sums (k, d), weights and groups (k,), each cluster its own group at first.

    Every cluster knows the partner after it whose merge costs least.  To a third one the union of two is never cheaper
    than the cheaper of the two (Lance & Williams' formula, where their own merge was the cheapest), so that a merge
    changes what those know whose partner it takes, and nothing else.
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
    a: int, centers: Float64Array, weights: Float64Array, groups: IndexArray, costs: Float64Array, partners: IndexArray
) -> None:
    """Find the partner after cluster a whose merge with it costs least."""
    after = np.arange(a + 1, len(weights))
    after = after[groups[a + 1 :] == after]
    each = merge_costs(a, after, centers, weights)
    costs[a] = each.min(initial=np.inf)
    if np.isfinite(costs[a]):
        partners[a] = after[each.argmin()]


def merge_costs(a: int, others: IndexArray, centers: Float64Array, weights: Float64Array) -> Float64Array:
    """What merging cluster a with each of the others adds to the squared error, (others,)."""
    squares = np.square(centers[a] - centers[others])
    squared = np.add.accumulate(squares, axis=1)[:, -1]
    costs: Float64Array = weights[a] * weights[others] / (weights[a] + weights[others]) * squared
    return costs


@compile_loop
def _merge_cost_compiled(a: int, b: int, centers: Float64Array, weights: Float64Array) -> float:
    """Compiled twin of `merge_costs`, for one pair."""
    squared = 0.0
    for j in range(centers.shape[1]):
        difference = centers[a, j] - centers[b, j]
        squared += difference * difference
    cost: float = weights[a] * weights[b] / (weights[a] + weights[b]) * squared
    return cost


@compile_loop
def _cheapest_after_compiled(
    a: int, centers: Float64Array, weights: Float64Array, groups: IndexArray, costs: Float64Array, partners: IndexArray
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
    penalty: float, centers: Float64Array, weights: Float64Array, sums: Float64Array, groups: IndexArray
) -> None:
    """Compiled twin of `merge_cheapest`."""
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
