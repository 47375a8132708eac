"""Fusion: the better of two searches, region by region.

Two searches of the same rows are often better in different regions.  Centers that share rows make
groups, of which each takes the centers of one search.  A minimum cut finds the best choice for all
groups at once, as it fuses two labelings of the pixels of an image (Lempitsky, Rother, Roth & Blake
2010, section 3).  Rows whose nearest centers are in different groups cost least if both are kept
and most if neither is, so that the choice of two groups is submodular, which a cut needs.
"""

import math

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, maximum_flow

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.fusion import BOTH, FIRST, NEITHER, SECOND, WEIGHT, PairSums

LEAST_SHARED = 0.5
"""Two centers are in one group if they share more than this part of the rows of one of them."""
BITS = 30
"""Binary digits of the integers of a cut, for the costs that it can pay."""


def fuse(
    sums: PairSums, sizes: tuple[int, int], penalty: float, counted: float
) -> tuple[BoolArray, BoolArray]:
    """Return which of k centers of a first search to keep, (k,), and which of l of a second, (l,).

    Parameters
    ----------
    sums : what rows cost, by their nearest centers of both
    sizes : k and l
    penalty : what one more cluster costs, about if the price is not linear
    counted : part of what rows lose, if both their nearest centers leave, that counts, from 0 to 1:
        some of it is regained once means settle
    """
    first, second = np.divmod(sums.keys, sizes[1])
    of_first, of_second = group_centers(sums.values[:, WEIGHT], first, second, sizes)
    n = int(max(of_first.max(), of_second.max())) + 1
    more = np.bincount(of_second, minlength=n) - np.bincount(of_first, minlength=n)
    values, (left, right) = sums.values, (of_first[first], of_second[second])
    dearer = values[:, FIRST] + values[:, SECOND] - values[:, BOTH]
    lost = counted * np.maximum(values[:, NEITHER] - dearer, 0.0)
    apart = np.where(left == right, 0.0, lost)
    changes = penalty * more.astype(np.float64)
    changes += np.bincount(left, dearer + apart - values[:, FIRST], n)
    changes += np.bincount(right, values[:, SECOND] - dearer - apart, n)
    takes_second = cheapest_changes(changes, left, right, apart)
    return ~takes_second[of_first], takes_second[of_second]


def group_centers(
    weights: Float64Array, first: Int64Array, second: Int64Array, sizes: tuple[int, int]
) -> tuple[Int64Array, Int64Array]:
    """Return the groups of the first centers, (k,), and of the second, (l,).

    The rows of pairs, (m,), of a first and a second center have weights, (m,).
    """
    k, others = sizes
    lighter = np.minimum(
        np.bincount(first, weights, k)[first], np.bincount(second, weights, others)[second]
    )
    shared = weights > LEAST_SHARED * lighter
    ends, n = (first[shared], k + second[shared]), k + others
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(n, n))
    groups = connected_components(graph, directed=False)[1].astype(np.int64)
    return groups[:k], groups[k:]


def cheapest_changes(
    changes: Float64Array, left: Int64Array, right: Int64Array, apart: Float64Array
) -> BoolArray:
    """Return which of n groups change, (n,), so that the sum of costs is least.

    Of equally cheap choices, it is the one with the fewest changes.  Costs are compared to about a
    billionth of what all changes that gain would gain.

    Parameters
    ----------
    changes : (n,), what the change of each group costs; less than 0 if it gains
    left, right : (m,), pairs of groups
    apart : (m,), at least 0, what each pair costs if its right group changes and its left one does not
    """
    n = len(changes)
    lost, gained = np.maximum(changes, 0.0), np.maximum(-changes, 0.0)
    if not gained.any():
        return np.zeros(n, np.bool_)
    across = apart > 0
    each = np.arange(n)
    ends = (
        np.concatenate([left[across], np.full(n, n), each]),
        np.concatenate([right[across], each, np.full(n, n + 1)]),
    )
    costs = np.concatenate([apart[across], lost, gained])
    # no cut costs more than all gains or all losses; a power of two rounds no cost
    _, exponent = math.frexp(2 * min(lost.sum() or math.inf, gained.sum()))
    units = np.minimum(np.ldexp(costs, BITS - exponent), 2.0**BITS)
    graph = coo_array((units, ends), shape=(n + 2, n + 2)).tocsr()
    graph.data = np.minimum(graph.data, 2.0**BITS)  # of pairs that occur twice
    capacities = csr_array(graph.astype(np.int32))
    residual = csr_array((capacities - maximum_flow(capacities, n, n + 1).flow).T)
    residual.eliminate_zeros()
    changed = np.zeros(n + 2, np.bool_)
    changed[breadth_first_order(residual, n + 1, return_predecessors=False)] = True
    return changed[:n]
