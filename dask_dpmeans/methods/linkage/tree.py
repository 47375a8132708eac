"""The tree of groups of micro-clusters: merges by the normalized cut of their links.

1. A component of the links of less than the mean weight of a micro-cluster loses its links.  A
   micro-cluster without links and of less than this weight joins the nearest linked one.
2. Groups with links merge, at each step the pair that leaves the lowest normalized cut.
3. Groups without links between them merge by the distance of their nearest micro-centers.

A level of the tree has some number of groups.  At the level that is taken, single micro-clusters
move between groups while that lowers the cut.  They also move from as many balls of micro-centers;
the lower cut is taken.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist, squareform

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.center_path import center_path
from dask_dpmeans.kernels.merge_path import merge_path
from dask_dpmeans.kernels.moments import total

ROUNDS = 50
"""Most rounds in which single micro-clusters move."""
LEAST_GAIN = 1e-12
"""A move lowers the cut by at least this: less may be rounding."""
MOST_BALLS = 2**11
"""Most micro-clusters whose groups start from balls of micro-centers too."""
TILE = 2**10
"""Micro-clusters whose distances to all others are computed together."""
Pair = tuple[int, int]


@dataclass(frozen=True)
class GroupTree:
    """The tree of k micro-clusters."""

    merges: Float64Array
    """(k - 1, 4), as `scipy.cluster.hierarchy.linkage` returns them: both groups, height, and
    number of micro-clusters.  A merge at height h lowers the cut by 1 - h; those that lower it by
    more than 1 are at 0."""
    cuts: Float64Array
    """(most,), the normalized cuts of 1, 2, ... groups.  More groups part what rule 1 joins."""

    def best_level(self, penalty: float) -> int:
        """Return the number of groups of lowest cut + penalty * number, the least of equals."""
        numbers = np.arange(1, len(self.cuts) + 1)
        return int(np.argmin(self.cuts + penalty * numbers)) + 1


def tree_of(graph: csr_array, centers: Float64Array, weights: Float64Array) -> GroupTree:
    """Return the tree of micro-clusters.

    Parameters
    ----------
    graph : (k, k), symmetric links, zeros on the diagonal
    centers : (k, d)
    weights : (k,)
    """
    k, masses = len(centers), masses_of(graph)
    joined = hosts_of(masses, centers, weights)
    pairs = [(int(host), int(one)) for one, host in enumerate(joined) if host != one]
    heights = [0.0] * len(pairs)
    linked = np.flatnonzero(masses > 0)
    steps = merge_path(csr_array(graph[linked][:, linked]), masses[linked])
    pairs += [(int(one), int(other)) for one, other in linked[steps.pairs]]
    heights += np.maximum(1 - steps.gains, 0.0).tolist()
    groups = _components(pairs, k)
    apart = list(_pairs_of_nearest(groups, centers))
    pairs += apart
    heights += [1.0] * len(apart)
    gains = np.concatenate([steps.gains, np.zeros(len(apart))])
    cuts = float(len(linked)) - np.concatenate([[0.0], np.cumsum(gains)])
    cuts[len(steps.gains) :] = 0.0  # without rounding: no links leave a group
    return GroupTree(_linkage(pairs, heights, k), np.ascontiguousarray(cuts[::-1]))


def without_light_components(graph: csr_array, weights: Float64Array) -> csr_array:
    """Return the links, (k, k), of components of at least the mean of the weights, (k,)."""
    count, numbers = connected_components(graph, directed=False)
    light = total(numbers.astype(np.int64), weights, count) < weights.mean()
    if not light.any():
        return graph
    first = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    kept = ~light[numbers[first]]
    ends = first[kept], graph.indices[kept]
    return csr_array((graph.data[kept], ends), shape=graph.shape)


def masses_of(graph: csr_array) -> Float64Array:
    """Return the weight of the links of each node, (k,), of a matrix, (k, k)."""
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    return total(rows, graph.data, graph.shape[0])


def hosts_of(masses: Float64Array, centers: Float64Array, weights: Float64Array) -> Int64Array:
    """Return the micro-cluster that each one goes with, (k,): itself, or by rule 1 another."""
    hosts = np.arange(len(masses))
    linked = np.flatnonzero(masses > 0)
    few = np.flatnonzero((masses == 0) & (weights < weights.mean()))
    if len(linked):
        for start in range(0, len(few), TILE):
            part = few[start : start + TILE]
            squared = cdist(centers[part], centers[linked], "sqeuclidean")
            hosts[part] = linked[squared.argmin(axis=1)]
    return hosts


def _components(pairs: Iterable[Pair], k: int) -> Int64Array:
    """Return the lowest number of the micro-clusters that pairs connect to each, (k,)."""
    firsts = list(range(k))
    for pair in pairs:
        one, other = sorted(_root(firsts, each) for each in pair)
        firsts[other] = one
    return np.array([_root(firsts, each) for each in range(k)])


def _root(parents: list[int], number: int) -> int:
    while parents[number] != number:
        parents[number] = parents[parents[number]]
        number = parents[number]
    return number


def _pairs_of_nearest(groups: Int64Array, centers: Float64Array) -> Iterable[Pair]:
    """Yield micro-clusters of the groups, (k,), that merge by single linkage of centers, (k, d)."""
    firsts, numbers = np.unique(groups, return_inverse=True)
    if len(firsts) == 1:
        return
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(len(firsts)))
    squared = np.empty((len(firsts), len(firsts)))
    for group, first in enumerate(firsts):
        nearest = cdist(centers[groups == first], centers[order], "sqeuclidean").min(axis=0)
        squared[group] = np.minimum.reduceat(nearest, starts)
    squared = np.minimum(squared, squared.T)
    np.fill_diagonal(squared, 0.0)
    members = firsts.tolist()  # one of each group, then of each merged group
    for one, other in linkage(squareform(squared, checks=False), "single")[:, :2].astype(int):
        members.append(members[one])
        yield members[one], members[other]


def _linkage(pairs: list[Pair], heights: list[float], k: int) -> Float64Array:
    """Return merges of the groups of pairs, (k - 1, 4), as SciPy numbers them."""
    roots, numbers, sizes = list(range(k)), list(range(k)), [1] * k
    merges = np.empty((len(pairs), 4))
    for step, (pair, height) in enumerate(zip(pairs, heights, strict=True)):
        one, other = (_root(roots, each) for each in pair)
        first, second = sorted((numbers[one], numbers[other]))
        roots[other], numbers[one] = one, k + step
        sizes[one] += sizes[other]
        merges[step] = first, second, height, sizes[one]
    return merges


def level_groups(merges: Float64Array, count: int) -> Int64Array:
    """Return the group of each micro-cluster, (k,), at the level of `count` groups.

    `merges` are (k - 1, 4).  Groups are numbered by their lowest micro-cluster.
    """
    k = len(merges) + 1
    groups = np.arange(2 * k - 1)
    for step in reversed(range(k - count)):
        groups[merges[step, :2].astype(int)] = groups[k + step]
    _, first, ranks = np.unique(groups[:k], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[ranks]


def groups_at(
    merges: Float64Array, count: int, graph: csr_array, centers: Float64Array, weights: Float64Array
) -> Int64Array:
    """Return the group of each micro-cluster, (k,), of `count` groups, heavier groups first.

    Parameters
    ----------
    merges : (k - 1, 4), the tree of the micro-clusters
    count : number of groups
    graph : (k, k), symmetric links, zeros on the diagonal
    centers : (k, d)
    weights : (k,)
    """
    masses = masses_of(graph)
    hosts = hosts_of(masses, centers, weights)
    starts = [level_groups(merges, count)]
    several = count < len(centers) <= MOST_BALLS
    if several and cut_parts(graph, starts[0], count).any():
        middles = center_path(centers, weights, count).centers[-1]
        balls = cdist(centers, middles, "sqeuclidean").argmin(axis=1)[hosts]
        if len(np.unique(balls)) == count:
            starts.append(balls)
    ends = [_settle(graph, masses, hosts, start, count) for start in starts]
    groups = min(ends, key=lambda each: math.fsum(cut_parts(graph, each, count)))
    totals = total(groups, weights, count)
    order = np.argsort(-totals, kind="stable")
    return np.argsort(order)[groups]


def _settle(
    graph: csr_array, masses: Float64Array, hosts: Int64Array, groups: Int64Array, count: int
) -> Int64Array:
    """Return the groups, (k,), after moves of single nodes; hosted nodes go with their hosts."""
    with_host = groups == groups[hosts]
    move_nodes(graph, masses, groups, count)
    groups[with_host] = groups[hosts[with_host]]
    return groups


def move_nodes(graph: csr_array, masses: Float64Array, groups: Int64Array, count: int) -> None:
    """Move single nodes between `count` groups, (k,), while that lowers the normalized cut."""
    mass, own_groups = total(groups, masses, count), np.repeat(groups, np.diff(graph.indptr))
    inside_links = own_groups == groups[graph.indices]  # each from both ends
    kept = total(own_groups[inside_links], graph.data[inside_links], count)
    sizes = np.bincount(groups[masses > 0], minlength=count)
    moved = True
    for _ in range(ROUNDS):
        if not moved:
            return
        moved = False
        for node in np.flatnonzero(masses > 0).tolist():
            own = groups[node]
            if sizes[own] == 1:
                continue
            target, inside, outside = _best_move(graph, node, masses[node], groups, mass, kept)
            if target < 0:
                continue
            kept[own] -= 2 * inside
            kept[target] += 2 * outside
            mass[own] -= masses[node]
            mass[target] += masses[node]
            sizes[own] -= 1
            sizes[target] += 1
            groups[node], moved = target, True


def _best_move(
    graph: csr_array,
    node: int,
    mass: float,
    groups: Int64Array,
    totals: Float64Array,
    kept: Float64Array,
) -> tuple[int, float, float]:
    """Return the group to which a move lowers the cut the most, and the links to both groups.

    The group is -1 without such a move.  `groups` are (k,), and `totals` and `kept` of groups (g,).
    """
    part, own = slice(*graph.indptr[node : node + 2]), groups[node]
    others, ranks = np.unique(groups[graph.indices[part]], return_inverse=True)
    links = total(ranks, graph.data[part], len(others))
    inside = float(links[others == own].sum())
    left = totals[own] - mass
    loss = kept[own] / totals[own] - ((kept[own] - 2 * inside) / left if left > 0 else 0.0)
    after = (kept[others] + 2 * links) / (totals[others] + mass)
    gains = after - kept[others] / totals[others] - loss
    gains[others == own] = -np.inf
    best = int(np.argmax(gains))
    if not gains[best] > LEAST_GAIN:
        return -1, 0.0, 0.0
    return int(others[best]), inside, float(links[best])


def cut_parts(graph: csr_array, groups: Int64Array, count: int) -> Float64Array:
    """Return the share of the links of each group that leave it, (count,); 0 without links.

    The graph is (k, k), and the groups are (k,).
    """
    own = np.repeat(groups, np.diff(graph.indptr))
    outside = own != groups[graph.indices]
    masses = total(own, graph.data, count)
    parts = np.zeros(count)
    np.divide(total(own[outside], graph.data[outside], count), masses, out=parts, where=masses > 0)
    return parts
