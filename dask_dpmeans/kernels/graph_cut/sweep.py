"""Algorithm 1 in the space of a graph kernel: distances of nodes to means, from links alone.

Let B be the links A (normalized cut) or A less the degrees (ratio cut), and m the masses of nodes
(degrees, or 1).  Let s_c and B_cc be their sums over a cluster and its pairs, and B_ic the links of
a node to a cluster.  With the kernel of theorem 5.3 of Kulis & Jordan 2012, which is K_ij = sigma
[i = j] / m_i + B_ij / (m_i m_j), and weights m, node i and the mean of cluster c are at

    m_i distance^2(i, c) = sigma + B_ii / m_i + score(i, c)
    score(i, c)          = m_i ((sigma s_c + B_cc) / s_c^2) - 2 ((sigma m_i [i in c] + B_ic) / s_c)

A node that has opened a cluster is a cluster of one.  With lambda = sigma + price a node objects if
B_ii / m_i + score(i, c) > price for every cluster.  This arithmetic, each operation rounded once,
*is* the distance here.  Links of integer weights add up without rounding.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from dask_dpmeans.kernels.answers import Records
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array, Labels
from dask_dpmeans.kernels.graph_cut.gains import (
    ALONE,
    Totals,
    kept_and_masses,
    links_of,
    links_to,
    row_maxima,
    row_sums,
)


@dataclass(frozen=True)
class Openers(Records):
    """Nodes that object to every center, or have opened clusters, in order."""

    nodes: Int64Array
    """(m,)."""
    kept: Float64Array
    """(m,), B_ii."""
    masses: Float64Array
    """(m,)."""
    links: csr_array
    """(m, n), their links."""

    def then(self, other: "Openers") -> "Openers":
        """Return these nodes, followed by `other`."""
        return Openers(
            np.concatenate([self.nodes, other.nodes]),
            np.concatenate([self.kept, other.kept]),
            np.concatenate([self.masses, other.masses]),
            csr_array(vstack([self.links, other.links], format="csr")),
        )


def no_openers(n: int) -> Openers:
    """Return an empty table for a graph of n nodes."""
    empty = np.empty(0)
    return Openers(np.empty(0, np.int64), empty, empty, csr_array((0, n)))


@dataclass(frozen=True)
class Means:
    """Centers: the means of clusters, then nodes that have opened clusters."""

    labels: Labels
    """(n,), the clusters, none empty."""
    totals: Totals
    """Of the k clusters."""
    openers: Openers
    sigma: float
    """Constant added to the diagonal of the kernel."""

    @property
    def masses(self) -> Float64Array:
        """(centers,), s."""
        return np.concatenate([self.totals.masses, self.openers.masses])

    @property
    def norms(self) -> Float64Array:
        """(centers,), the squared norms of the centers."""
        kept = np.concatenate([self.totals.kept, self.openers.kept])
        return squared_norms(kept, self.masses, self.sigma)


@dataclass(frozen=True)
class NodeScan:
    """Answer of a run of nodes."""

    labels: Labels
    """(height,), the nearest center of each, the lowest number among equals; -1 without mass."""
    proposals: Openers
    """Nodes that object to every center and to the proposals before them."""


def squared_norms(kept: Float64Array, masses: Float64Array, sigma: float) -> Float64Array:
    """Return the squared norms of centers, (c,), from what they keep and their masses, (c,)."""
    return (sigma * masses + kept) / (masses * masses)


def scan_nodes(means: Means, block: Block, price: float, normalized: bool) -> NodeScan:
    """Return the nearest centers of a block's nodes, and the nodes that object to all of them."""
    graph = links_of(block)
    height, n = graph.shape
    degrees = row_sums(graph)
    kept, masses = kept_and_masses(degrees, graph.diagonal(block.start), normalized)
    outside = np.zeros(height) if normalized else degrees
    nearest, scores = _nearest_centers(means, graph, block.start, masses, outside)
    linked = masses > 0
    objecting = linked & (_own(kept, masses) + scores > price)
    opened = means.openers.nodes - block.start
    inside = (opened >= 0) & (opened < height)
    objecting[opened[inside]] = False  # their distance to themselves is 0
    which = np.flatnonzero(objecting)
    proposals = Openers(which + block.start, kept[which], masses[which], graph[which])
    labels = np.where(linked, nearest, ALONE).astype(np.int32)
    return NodeScan(labels, objecting_nodes(no_openers(n), proposals, means.sigma, price))


def _own(kept: Float64Array, masses: Float64Array) -> Float64Array:
    """Return B_ii / m_i, (height,)."""
    return np.divide(kept, masses, out=np.zeros(len(masses)), where=masses > 0)


def _nearest_centers(
    means: Means, graph: csr_array, start: int, masses: Float64Array, outside: Float64Array
) -> tuple[IndexArray, Float64Array]:
    """Return the first center of the lowest score, and the score: (height,) each.

    `outside`, (height,), is subtracted from the links of nodes to their own clusters: their degrees
    under the ratio cut.
    """
    height, k = graph.shape[0], len(means.totals.masses)
    rows = np.arange(height)
    own = means.labels[start : start + height].astype(np.intp)
    openers = means.openers.nodes
    inside = (openers >= start) & (openers < start + height)
    home_rows = np.concatenate([rows[own >= 0], openers[inside] - start])
    home = np.concatenate([own[own >= 0], k + np.flatnonzero(inside)])
    to_means = links_to(graph, means.labels, k).tocoo()
    to_openers = csr_array(graph[:, openers]).tocoo()
    sizes, norms = means.masses, means.norms
    least = np.full(height, int(norms.argmin()))  # the nearest center without links to a node
    pairs = (
        np.concatenate([to_means.row, to_openers.row, home_rows, rows]),
        np.concatenate([to_means.col, k + to_openers.col, home, least]),
    )
    at_home = means.sigma * masses[home_rows] - outside[home_rows]
    values = np.concatenate([to_means.data, to_openers.data, at_home, np.zeros(height)])
    shared = csr_array((values, pairs), shape=(height, len(sizes)))  # equal pairs are added up
    shared.sort_indices()
    each, centers = np.repeat(rows, np.diff(shared.indptr)), shared.indices
    scores = masses[each] * norms[centers] - 2 * (shared.data / sizes[centers])
    best, first = row_maxima(-scores, shared.indptr)
    return centers[first], -best


def objecting_nodes(kept: Openers, others: Openers, sigma: float, price: float) -> Openers:
    """Return the nodes that object to all of `kept` and to the returned ones before them."""
    opened = np.zeros(others.links.shape[1], np.bool_)
    opened[kept.nodes] = True
    mass, norm = np.ones(len(opened)), np.zeros(len(opened))
    for each in (kept, others):
        mass[each.nodes] = each.masses
        norm[each.nodes] = squared_norms(each.kept, each.masses, sigma)
    least = norm[kept.nodes].min(initial=np.inf)
    objects = np.zeros(len(others), np.bool_)
    own = _own(others.kept, others.masses)
    for number, node in enumerate(others.nodes):
        part = slice(*others.links.indptr[number : number + 2])
        linked, weights = others.links.indices[part], others.links.data[part]
        to_opened = opened[linked]
        linked, weights = linked[to_opened], weights[to_opened]
        heavy = others.masses[number]
        score = np.min(heavy * norm[linked] - 2 * (weights / mass[linked]), initial=heavy * least)
        if own[number] + score > price:
            objects[number] = opened[node] = True
            least = min(least, norm[node])
    return others.take(objects)
