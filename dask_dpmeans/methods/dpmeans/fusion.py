"""Fusion: the better of two searches, region by region.

Two searches of the same rows are often better in different regions.  Centers that share rows make
groups, of which each takes the centers of one search.  A minimum cut finds the best choice for all
groups at once, as it fuses two labelings of the pixels of an image (Lempitsky, Rother, Roth & Blake
2010, section 3).  Rows whose nearest centers are in different groups cost least if both are kept
and most if neither is, so that the choice of two groups is submodular, which a cut needs.
"""

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, connected_components, maximum_flow

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.fusion import BOTH, FIRST, NEITHER, SECOND, WEIGHT, PairSums

JOINED = 0.5
"""Two centers are in one group if they share more than this part of the rows of one of them."""
CAPACITY = 2**30
"""Units of a cut, which is of integers, in the sum of all changes that lower or raise the cost."""


def fuse(
    sums: PairSums, sizes: tuple[int, int], penalty: float, counted: float
) -> tuple[BoolArray, BoolArray]:
    """Return which of k centers of a first search to keep, (k,), and which of l of a second, (l,).

    Parameters
    ----------
    sums : what rows cost, by their nearest centers of both
    sizes : k and l
    penalty : what one more cluster costs
    counted : part of what rows lose, if both their nearest centers leave, that counts, from 0 to 1:
        some of it is regained once means settle
    """
    first, second = np.divmod(sums.keys, sizes[1])
    of_first, of_second = group_centers(sums.values[:, WEIGHT], first, second, sizes)
    n = int(max(of_first.max(), of_second.max())) + 1
    more = np.bincount(of_second, minlength=n) - np.bincount(of_first, minlength=n)
    values, (left, right) = sums.values, (of_first[first], of_second[second])
    dearer = values[:, FIRST] + values[:, SECOND] - values[:, BOTH]
    apart = counted * np.maximum(values[:, NEITHER] - dearer, 0.0)
    changes = np.multiply(penalty, more, where=more != 0, out=np.zeros(n))  # it may be infinite
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
    shared = weights > JOINED * lighter
    ends, n = (first[shared], k + second[shared]), k + others
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(n, n))
    groups = connected_components(graph, directed=False)[1].astype(np.int64)
    return groups[:k], groups[k:]


def cheapest_changes(
    changes: Float64Array, left: Int64Array, right: Int64Array, apart: Float64Array
) -> BoolArray:
    """Return which of n groups change at the least cost, (n,); only those that lower it.

    A change costs `changes`, (n,); and `apart`, (m,), is paid in full if of two groups, `left` and
    `right`, (m,), the right one alone changes.
    """
    n = len(changes)
    lost, gained = np.maximum(changes, 0.0), np.maximum(-changes, 0.0)
    across = (left != right) & (apart > 0)
    each = np.arange(n)
    ends = (
        np.concatenate([left[across], np.full(n, n), each]),
        np.concatenate([right[across], each, np.full(n, n + 1)]),
    )
    costs = np.concatenate([apart[across], lost, gained])
    largest = max(float(lost.sum()), float(gained.sum()))
    if not largest > 0:
        return np.zeros(n, np.bool_)
    units = np.minimum(costs / largest, 1.0) * CAPACITY
    graph = coo_array((units, ends), shape=(n + 2, n + 2)).tocsr()
    graph.data = np.minimum(graph.data, CAPACITY)  # of pairs that occur twice
    capacities = csr_array(graph.astype(np.int32))
    residual = csr_array((capacities - maximum_flow(capacities, n, n + 1).flow).T)
    residual.eliminate_zeros()
    changed = np.zeros(n + 2, np.bool_)
    changed[breadth_first_order(residual, n + 1, return_predecessors=False)] = True
    return changed[:n]
