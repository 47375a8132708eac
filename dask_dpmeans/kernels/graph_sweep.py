"""Algorithm 1 in the space of a graph's kernel: nodes against the means of clusters, from links alone.

With B the links A (normalized cut) or A less the degrees (ratio cut), m the masses of nodes (degrees, or 1), s_c and
B_cc their sums over a cluster and its pairs, and B_ic the links of a node to a cluster, the kernel of theorem 5.3 of
Kulis & Jordan 2012, K_ij = sigma [i = j] / m_i + B_ij / (m_i m_j) with weights m, puts a node at

    m_i distance^2(i, c) = sigma + B_ii / m_i + score(i, c)
    score(i, c)          = m_i ((sigma s_c + B_cc) / s_c^2) - 2 ((sigma m_i [i in c] + B_ic) / s_c)

from the mean of a cluster, and a node that has opened a cluster is one of its own.  With lambda = sigma + price a node
objects where B_ii / m_i + score(i, c) > price for every cluster.  This arithmetic, each operation rounded once, *is*
the distance here; links of integer weights add up without rounding.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.graph import ALONE, Labels, Totals, greatest, links_of, links_to, row_sums, weighed


@dataclass(frozen=True)
class Openers:
    """Nodes that object to every center, or have opened clusters, in order."""

    nodes: Int64Array
    """(m,)."""
    kept: Float64Array
    """(m,), B_ii."""
    masses: Float64Array
    """(m,)."""
    links: csr_array
    """(m, n), their links."""

    def __len__(self) -> int:
        return len(self.nodes)

    def take(self, which: IndexArray | BoolArray) -> "Openers":
        """Some of them."""
        return Openers(self.nodes[which], self.kept[which], self.masses[which], self.links[which])

    def then(self, other: "Openers") -> "Openers":
        """These, followed by others."""
        return Openers(
            np.concatenate([self.nodes, other.nodes]),
            np.concatenate([self.kept, other.kept]),
            np.concatenate([self.masses, other.masses]),
            csr_array(vstack([self.links, other.links], format="csr")),
        )


def no_openers(n: int) -> Openers:
    """None, in a graph of n nodes."""
    nothing = np.empty(0)
    return Openers(np.empty(0, np.int64), nothing, nothing, csr_array((0, n)))


@dataclass(frozen=True)
class Means:
    """Centers: the means of clusters, then nodes that have opened clusters."""

    labels: Labels
    """(n,), the clusters, none empty."""
    totals: Totals
    """Of the clusters."""
    openers: Openers
    sigma: float
    """What the diagonal of the kernel is raised by."""

    @property
    def masses(self) -> Float64Array:
        """(centers,), s."""
        return np.concatenate([self.totals.masses, self.openers.masses])

    @property
    def norms(self) -> Float64Array:
        """(centers,), the squared norms of the centers."""
        return squared_norms(np.concatenate([self.totals.kept, self.openers.kept]), self.masses, self.sigma)


@dataclass(frozen=True)
class Swept:
    """What a run of nodes answers."""

    labels: Labels
    """(height,), the nearest center of each, the lowest number among equals; -1 for a node without mass."""
    proposals: Openers
    """A cover of the nodes that object to every center."""


def squared_norms(kept: Float64Array, masses: Float64Array, sigma: float) -> Float64Array:
    """The squared norms of centers."""
    return (sigma * masses + kept) / (masses * masses)


def swept(means: Means, block: Block, price: float, normalized: bool) -> Swept:
    """The nearest centers of a block's nodes, and a cover of those that object to all."""
    graph = links_of(block)
    height, n = graph.shape
    kept, masses = weighed(graph, graph.diagonal(block.start), normalized)
    outside = np.zeros(height) if normalized else row_sums(graph)
    nearest, scores = _nearest(means, graph, block.start, masses, outside)
    linked = masses > 0
    objecting = linked & (_own(kept, masses) + scores > price)
    opened = means.openers.nodes - block.start
    objecting[opened[(opened >= 0) & (opened < height)]] = False  # the distance of a node to itself is 0
    which = np.flatnonzero(objecting)
    proposals = Openers(which + block.start, kept[which], masses[which], graph[which])
    labels = np.where(linked, nearest, ALONE).astype(np.int32)
    return Swept(labels, covered(no_openers(n), proposals, means.sigma, price))


def _own(kept: Float64Array, masses: Float64Array) -> Float64Array:
    """B_ii / m_i."""
    return np.divide(kept, masses, out=np.zeros(len(masses)), where=masses > 0)


def _nearest(
    means: Means, graph: csr_array, start: int, masses: Float64Array, outside: Float64Array
) -> tuple[IndexArray, Float64Array]:
    """(height,) and (height,): the center of the lowest score, the lowest number among equals, and the score.

    `outside` is what the ratio cut takes off the links of nodes to their own clusters: their degrees.
    """
    height, k = graph.shape[0], len(means.totals.masses)
    rows = np.arange(height)
    own = means.labels[start : start + height].astype(np.intp)
    openers = means.openers.nodes
    inside = (openers >= start) & (openers < start + height)
    home_rows = np.concatenate([rows[own >= 0], openers[inside] - start])
    home = np.concatenate([own[own >= 0], k + np.flatnonzero(inside)])
    to_means, to_openers = links_to(graph, means.labels, k).tocoo(), csr_array(graph[:, openers]).tocoo()
    sizes, norms = means.masses, means.norms
    least = np.full(height, int(norms.argmin()))  # the nearest of the centers without links to a node
    places = (
        np.concatenate([to_means.row, to_openers.row, home_rows, rows]),
        np.concatenate([to_means.col, k + to_openers.col, home, least]),
    )
    values = np.concatenate(
        [to_means.data, to_openers.data, means.sigma * masses[home_rows] - outside[home_rows], np.zeros(height)]
    )
    shared = csr_array((values, places), shape=(height, len(sizes)))  # equal places are added up
    shared.sort_indices()
    each, centers = np.repeat(rows, np.diff(shared.indptr)), shared.indices
    scores = masses[each] * norms[centers] - 2 * (shared.data / sizes[centers])
    best, first = greatest(-scores, shared.indptr)
    return centers[first], -best


def covered(kept: Openers, others: Openers, sigma: float, price: float) -> Openers:
    """Of nodes in order, those that object to all of `kept` and to those of them that come before."""
    opened = np.zeros(others.links.shape[1], np.bool_)
    opened[kept.nodes] = True
    mass, norm = np.ones(len(opened)), np.zeros(len(opened))
    for each in (kept, others):
        mass[each.nodes], norm[each.nodes] = each.masses, squared_norms(each.kept, each.masses, sigma)
    least = norm[kept.nodes].min(initial=np.inf)
    objects = np.zeros(len(others), np.bool_)
    own = _own(others.kept, others.masses)
    for number, node in enumerate(others.nodes):
        part = slice(*others.links.indptr[number : number + 2])
        linked, weights = others.links.indices[part], others.links.data[part]
        there = opened[linked]
        linked, weights = linked[there], weights[there]
        heavy = others.masses[number]
        score = np.min(heavy * norm[linked] - 2 * (weights / mass[linked]), initial=heavy * least)
        if own[number] + score > price:
            objects[number] = opened[node] = True
            least = min(least, norm[node])
    return others.take(objects)
