"""Cuts of graphs: what nodes gain by moving, and clusters by merging, from links alone.

Rows are those of a symmetric adjacency matrix A: row i holds the weights of the links of node i.  With deg(c) the sum
of the degrees of a cluster's nodes and links(c, c) the weight that stays inside, counted from both ends, a cluster has

    normalized cut   (deg(c) - links(c, c)) / deg(c)
    ratio cut        (deg(c) - links(c, c)) / |c|

and both are, but for a constant, price * k - sum of kept(c) / mass(c): kept is links(c, c), mass is deg(c) and price
is 1 + penalty for the normalized cut; kept is links(c, c) - deg(c), mass is |c| and the price is the penalty for the
ratio cut.  Kept and mass of clusters are sums over their nodes, so that the graph between clusters is the same problem
once more, and every gain below is exact.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.moments import total

Labels = npt.NDArray[np.int32]

EXACT = 2.0**53
"""Whole numbers add up to this without rounding."""
ALONE = -1
"""Label of a node without links under the normalized cut, and the target of one that leaves to open a cluster."""


class Totals(NamedTuple):
    """Sums over the nodes of each cluster."""

    kept: Float64Array
    """(k,)."""
    masses: Float64Array
    """(k,)."""
    sizes: Int64Array
    """(k,), nodes."""


class Tallied(NamedTuple):
    """The totals of some clusters."""

    clusters: IndexArray
    """(r,), in order."""
    totals: Totals
    """Of these."""

    def spread(self, clusters: IndexArray) -> Totals:
        """Totals of more clusters, in order; those of the others are 0."""
        places = np.searchsorted(clusters, self.clusters)
        return Totals(*(_placed(sums, places, len(clusters)) for sums in self.totals))

    def whole(self, k: int) -> Totals:
        """Totals of all k clusters."""
        return self.spread(np.arange(k))


def _placed(values: npt.NDArray[Any], places: IndexArray, length: int) -> npt.NDArray[Any]:
    placed = np.zeros(length, values.dtype)
    placed[places] = values
    return placed


class Proposals(NamedTuple):
    """Nodes that would gain by moving alone."""

    nodes: Int64Array
    """(m,), in order."""
    targets: IndexArray
    """(m,), the cluster where each gains most, the lowest number among equals; `ALONE` for one of its own."""
    gains: Float64Array
    """(m,), what the objective falls by, each moving alone."""


class Inspected(NamedTuple):
    """What the first pass over a graph finds."""

    columns: int
    degrees: Float64Array
    """(n,)."""
    loops: Float64Array
    """(n,), weights of the links of nodes to themselves."""
    negative: tuple[int, int, float] | None
    """The first link below 0: its nodes and weight."""
    forward: int
    """A digest of all links i, j, modulo 2**64, ..."""
    backward: int
    """... and of all links j, i: the same where the graph is symmetric."""


class Inspection:
    """The reduction of the first pass over a graph."""

    def chunk(self, block: Block) -> Inspected:
        """What is found in a run of nodes."""
        graph = links_of(block)
        nodes = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr)) + block.start
        below = np.flatnonzero(graph.data < 0)[:1]
        return Inspected(
            graph.shape[1],
            row_sums(graph),
            graph.diagonal(block.start),
            next(((int(nodes[place]), int(graph.indices[place]), float(graph.data[place])) for place in below), None),
            _digest(nodes, graph.indices, graph.data),
            _digest(graph.indices, nodes, graph.data),
        )

    def combine(self, left: Inspected, right: Inspected) -> Inspected:
        """What is found in two neighboring runs."""
        return Inspected(
            max(left.columns, right.columns),
            np.concatenate([left.degrees, right.degrees]),
            np.concatenate([left.loops, right.loops]),
            left.negative or right.negative,
            (left.forward + right.forward) % 2**64,
            (left.backward + right.backward) % 2**64,
        )


def _digest(nodes: IndexArray, others: IndexArray, weights: Float64Array) -> int:
    """A sum over links that tells i, j from j, i."""
    bits = _mix(_mix(nodes.astype(np.uint64)) + others.astype(np.uint64)) ^ weights.view(np.uint64)
    return int(_mix(bits)[weights != 0].sum(dtype=np.uint64))


@dataclass(frozen=True)
class Chosen:
    """The kernel of a map that gives each node its label."""

    labels: Labels
    """(n,)."""

    def __call__(self, block: Block) -> tuple[Labels]:
        """The labels of a run of nodes."""
        return (self.labels[block.start : block.start + block.rows.shape[0]],)


@dataclass(frozen=True)
class Tally:
    """The reduction that adds up clusters."""

    labels: Labels
    """(n,), of all nodes."""
    normalized: bool

    def chunk(self, block: Block) -> Tallied:
        """The totals of a run of nodes."""
        graph = links_of(block)
        labels = self.labels[block.start : block.start + graph.shape[0]]
        inside = self.labels[graph.indices] == np.repeat(labels, np.diff(graph.indptr))
        kept, masses = weighed(graph, _row_sums(graph, graph.data * inside), self.normalized)
        linked = labels >= 0
        clusters, numbers = np.unique(labels[linked].astype(np.intp), return_inverse=True)
        k = len(clusters)
        sums = total(numbers, kept[linked], k), total(numbers, masses[linked], k)
        return Tallied(clusters, Totals(*sums, np.bincount(numbers, minlength=k)))

    def combine(self, left: Tallied, right: Tallied) -> Tallied:
        """The totals of two neighboring runs."""
        clusters = np.union1d(left.clusters, right.clusters)
        return Tallied(clusters, added(left.spread(clusters), right.spread(clusters)))


def added(left: Totals, right: Totals) -> Totals:
    """The totals of the same clusters in two runs of nodes."""
    return Totals(left.kept + right.kept, left.masses + right.masses, left.sizes + right.sizes)


@dataclass(frozen=True)
class Moving:
    """The reduction that asks each node where it would gain by moving alone."""

    labels: Labels
    """(n,), of all nodes."""
    totals: Totals
    """Of the clusters that these make."""
    price: float
    least: float
    """Gains up to this are none."""
    normalized: bool
    within: IndexArray | None = None
    """(k,), only moves between clusters of one number count; None for all, and for such as open a cluster."""

    def chunk(self, block: Block) -> Proposals:
        """The proposals of a run of nodes."""
        graph = links_of(block)
        labels = self.labels[block.start : block.start + graph.shape[0]]
        kept, masses = weighed(graph, graph.diagonal(block.start), self.normalized)
        links = links_to(graph, self.labels, len(self.totals.masses))
        outside = 0.0 if self.normalized else row_sums(graph)
        targets, gains = best_moves(links, labels, kept, masses, self.totals, self.price, outside, self.within)
        nodes = np.flatnonzero(gains > self.least)
        return Proposals(nodes + block.start, targets[nodes], gains[nodes])

    def combine(self, left: Proposals, right: Proposals) -> Proposals:
        """The proposals of two neighboring runs."""
        return Proposals(*(np.concatenate(pair) for pair in zip(left, right, strict=True)))


@dataclass(frozen=True)
class Between:
    """The links of some clusters to all."""

    clusters: IndexArray
    """(r,), in order."""
    links: csr_array
    """(r, k), what is kept where a cluster meets itself."""

    def spread(self, clusters: IndexArray) -> csr_array:
        """The same as rows for more clusters, in order; those of the others are empty."""
        counts = np.zeros(len(clusters) + 1, self.links.indptr.dtype)
        counts[1 + np.searchsorted(clusters, self.clusters)] = np.diff(self.links.indptr)
        parts = self.links.data, self.links.indices, np.cumsum(counts, dtype=counts.dtype)
        return csr_array(parts, shape=(len(clusters), self.links.shape[1]))


@dataclass(frozen=True)
class Contraction:
    """The reduction that makes the graph between clusters."""

    labels: Labels
    """(n,), of all nodes."""
    masses: Float64Array
    """(k,), of the clusters."""
    normalized: bool
    most: int
    """Beside what a cluster keeps so many of its links are noted, the greatest by the mass of the other cluster."""

    def chunk(self, block: Block) -> Between:
        """The part of a run of nodes."""
        graph = links_of(block)
        height, k = graph.shape[0], len(self.masses)
        labels = self.labels[block.start : block.start + height]
        linked = np.flatnonzero(labels >= 0)
        clusters, numbers = np.unique(labels[linked].astype(np.intp), return_inverse=True)
        places = numbers.astype(np.int32), linked.astype(np.int32)  # wider ones would widen all that follows
        joined = csr_array((np.ones(len(linked)), places), shape=(len(clusters), height))
        found = joined @ links_to(graph, self.labels, k)
        if not self.normalized:
            degrees = total(numbers, row_sums(graph)[linked], len(clusters))
            ends = np.arange(len(clusters) + 1, dtype=np.int32)
            found = found - csr_array((degrees, clusters.astype(np.int32), ends), shape=found.shape)
        return self._heaviest(clusters, csr_array(found))

    def combine(self, left: Between, right: Between) -> Between:
        """The parts of two neighboring runs, added."""
        clusters = np.union1d(left.clusters, right.clusters)
        return self._heaviest(clusters, left.spread(clusters) + right.spread(clusters))

    def _heaviest(self, clusters: IndexArray, links: csr_array) -> Between:
        counts = np.diff(links.indptr)
        if counts.max(initial=0) <= self.most:
            return Between(clusters, links)
        rows = np.repeat(np.arange(len(clusters)), counts)
        own = links.indices == clusters[rows]
        most = self.most + np.bincount(rows[own], minlength=len(clusters))
        weights = np.where(own, np.inf, links.data / self.masses[links.indices])
        order = np.lexsort([links.indices, -weights, rows])
        places = np.arange(len(order)) - links.indptr[rows]
        kept = np.sort(order[places < most[rows]])
        indptr = np.append(0, np.cumsum(np.minimum(counts, most))).astype(links.indptr.dtype)
        return Between(clusters, csr_array((links.data[kept], links.indices[kept], indptr), shape=links.shape))


def links_of(block: Block) -> csr_array:
    """The links of a run of nodes; those that weigh 0 are none."""
    graph = csr_array(block.rows)
    if graph.data.all():
        return graph
    graph = graph.copy()  # the block is not ours
    graph.eliminate_zeros()
    return graph


def weighed(graph: csr_array, inside: Float64Array, normalized: bool) -> tuple[Float64Array, Float64Array]:
    """What nodes keep of links that weigh `inside`, and their masses, (height,) each."""
    degrees = row_sums(graph)
    return (inside, degrees) if normalized else (inside - degrees, np.ones(len(degrees)))


def row_sums(graph: csr_array) -> Float64Array:
    """(height,), the degrees of the nodes."""
    return _row_sums(graph, graph.data)


def _row_sums(graph: csr_array, values: Float64Array) -> Float64Array:
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    return total(rows, values, graph.shape[0])


def links_to(graph: csr_array, labels: Labels, k: int) -> csr_array:
    """(height, k): the weight of each node's links to each cluster, the lowest cluster first."""
    parts = graph.data.copy(), labels[graph.indices], graph.indptr.copy()  # sums come in their place
    linked = csr_array(parts, shape=(graph.shape[0], k))
    linked.sum_duplicates()
    return linked


def best_moves(
    links: csr_array,
    labels: Labels,
    kept: Float64Array,
    masses: Float64Array,
    totals: Totals,
    price: float,
    outside: Float64Array | float = 0.0,
    within: IndexArray | None = None,
) -> tuple[IndexArray, Float64Array]:
    """Where each node gains most by moving alone, to a cluster that it has links to or one of its own, and what.

    Parameters
    ----------
    links : (h, k), weight of each node's links to each cluster
    labels, kept, masses : (h,), of the nodes
    totals : of the k clusters, none of them empty
    price : of a cluster
    outside : (h,), what the ratio cut takes off a node's links to its own cluster: its degree
    within : (k,), only moves between clusters of one number count, and none opens a cluster; None for all

    Returns
    -------
    (h,) targets, `ALONE` for a cluster of its own, and (h,) gains, minus infinity where there is nowhere to go
    """
    h = links.shape[0]
    rates = np.divide(totals.kept, totals.masses, out=np.zeros(len(totals.masses)), where=totals.masses > 0)
    rows, clusters = np.repeat(np.arange(h), np.diff(links.indptr)), links.indices
    at_home = clusters == labels[rows]
    home = np.zeros(h)
    home[rows[at_home]] = links.data[at_home]
    single = totals.sizes[labels] <= 1
    left, rest = totals.kept[labels] - 2 * (home - outside) + kept, totals.masses[labels] - masses
    np.divide(left, rest, out=left, where=rest > 0)
    leaving = np.where(single, price, left) - rates[labels]
    joined = (totals.kept[clusters] + 2 * links.data + kept[rows]) / (totals.masses[clusters] + masses[rows])
    barred = at_home if within is None else at_home | (within[clusters] != within[labels[rows]])
    joining = np.where(barred, -np.inf, joined - rates[clusters])
    best, places = greatest(joining, links.indptr)
    targets = np.full(h, ALONE)
    targets[places >= 0] = clusters[places[places >= 0]]
    with np.errstate(invalid="ignore", divide="ignore"):
        alone = np.where(single | (masses <= 0) | (within is not None), -np.inf, kept / masses - price)
    targets[alone > best] = ALONE
    return targets, leaving + np.maximum(best, alone)


def greatest(values: Float64Array, indptr: IndexArray) -> tuple[Float64Array, IndexArray]:
    """The greatest value of each row of a CSR array and the first place that holds it; -inf and -1 in empty rows."""
    h, filled = len(indptr) - 1, np.flatnonzero(np.diff(indptr))
    best, places = np.full(h, -np.inf), np.full(h, -1)
    if not filled.size:
        return best, places
    best[filled] = np.maximum.reduceat(values, indptr[filled])
    hits = np.flatnonzero(values == np.repeat(best, np.diff(indptr)))
    rows = np.searchsorted(indptr, hits, side="right") - 1
    filled, first = np.unique(rows, return_index=True)
    places[filled] = hits[first]
    return best, places


def partners(
    graph: csr_array, masses: Float64Array, price: float, ties: int, within: IndexArray | None = None
) -> tuple[IndexArray, Float64Array]:
    """The cluster with which each would gain most by merging, -1 where it has links to none, and the gain.

    Parameters
    ----------
    graph : (k, k), the graph between clusters, what they keep on its diagonal
    masses : (k,)
    price : of a cluster
    ties : draws the order of pairs that gain the same; both clusters of a pair see one order
    within : (k,), only clusters of one number may merge
    """
    k, kept = graph.shape[0], graph.diagonal()
    rates = kept / masses
    rows, others = np.repeat(np.arange(k), np.diff(graph.indptr)), graph.indices
    together = (kept[rows] + kept[others] + 2 * graph.data) / (masses[rows] + masses[others])
    gains = price + together - (rates[rows] + rates[others])
    barred = rows == others if within is None else (rows == others) | (within[rows] != within[others])
    gains[barred] = -np.inf
    best, _ = greatest(gains, graph.indptr)
    tied = np.flatnonzero((gains == best[rows]) & ~barred)
    rows, others = rows[tied], others[tied].astype(np.int64)
    order = mixed(np.minimum(rows, others) * k + np.maximum(rows, others), ties)
    _, places = greatest(order, np.searchsorted(rows, np.arange(k + 1)))
    found, partner = places >= 0, np.full(k, -1)
    partner[found] = others[places[found]]
    return partner, np.where(found, best, -np.inf)


def mixed(numbers: Int64Array, seed: int) -> Float64Array:
    """Numbers in [0, 1) that look random, the same for the same number and seed (Steele et al. 2014, SplitMix64)."""
    start = np.array([seed % 2**32], np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (_mix(numbers.astype(np.uint64) + start) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Bits that look random, modulo 2**64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def contracted(graph: csr_array, labels: IndexArray) -> csr_array:
    """The graph between clusters of clusters: (k, k) becomes one of as many rows as there are labels."""
    coordinates = graph.tocoo()
    k = int(labels.max()) + 1
    numbers = labels.astype(np.int32)
    pairs = numbers[coordinates.row], numbers[coordinates.col]
    return symmetric(csr_array((coordinates.data, pairs), shape=(k, k)))


def symmetric(graph: csr_array) -> csr_array:
    """A graph whose links from a to b and from b to a differ by rounding, the same to the bit."""
    if graph.data.sum() <= EXACT and np.array_equal(graph.data, np.rint(graph.data)):
        return graph
    return csr_array((graph + graph.T) * 0.5)
