"""Graph cuts: gains of moves of nodes and of merges of clusters, computed from links alone.

Rows are rows of a symmetric adjacency matrix A: row i holds the weights of the links of node i.
Let deg(c) be the sum of the degrees of a cluster's nodes, and links(c, c) the weight that stays
inside, counted from both ends.  Then

    normalized cut   (deg(c) - links(c, c)) / deg(c)
    ratio cut        (deg(c) - links(c, c)) / |c|

are a cluster's part of the cut.  Up to a constant the objective is price * k - sum(kept / mass):

    normalized cut   kept = links(c, c),            mass = deg(c),   price = 1 + penalty
    ratio cut        kept = links(c, c) - deg(c),   mass = |c|,      price = penalty

Kept and mass of a cluster are sums over its nodes.  The graph between clusters is therefore the
same problem again, and every gain below is exact.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dask_dpmeans.kernels.answers import ConcatenatedAnswers, Records, Sums
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array, Labels
from dask_dpmeans.kernels.moments import total

ALONE = -1
"""Label of a node without links under the normalized cut; target of a node that opens a cluster."""


@dataclass(frozen=True)
class Totals(Sums):
    """Sums over the nodes of each cluster."""

    kept: Float64Array
    """(k,)."""
    masses: Float64Array
    """(k,)."""
    sizes: Int64Array
    """(k,), numbers of nodes."""


class PartialTotals(NamedTuple):
    """Totals of some clusters."""

    clusters: IndexArray
    """(r,), ascending."""
    totals: Totals
    """Of these r clusters."""

    def spread(self, clusters: IndexArray) -> Totals:
        """Return totals of more clusters, ascending, (s,), with 0 for the others."""
        s = len(clusters)
        spread = Totals(np.zeros(s), np.zeros(s), np.zeros(s, np.int64))
        for name, values in vars(self.totals).items():
            getattr(spread, name)[np.searchsorted(clusters, self.clusters)] = values
        return spread

    def whole(self, k: int) -> Totals:
        """Return totals of all k clusters."""
        return self.spread(np.arange(k))


@dataclass(frozen=True)
class RowMoves(Records):
    """Rows (here nodes) that would gain by moving alone."""

    rows: Int64Array
    """(m,), ascending."""
    targets: IndexArray
    """(m,), the cluster in which each gains most, the first among equals, or a new one."""
    gains: Float64Array
    """(m,), decrease of the objective if the row moves alone."""


class GraphSummary(NamedTuple):
    """Findings of the first pass over a graph."""

    columns: int
    degrees: Float64Array
    """(n,)."""
    links: Int64Array
    """(n,), numbers of links to other nodes."""
    loops: Float64Array
    """(n,), weights of the links of nodes to themselves."""
    negative: tuple[int, int, float] | None
    """The first link below 0: its nodes and weight."""
    forward: int
    """A digest of all links i, j, modulo 2**64, ..."""
    backward: int
    """... and of all links j, i; both are equal if the graph is symmetric."""


class Inspection:
    """Reduction of the first pass over a graph."""

    def chunk(self, block: Block) -> GraphSummary:
        """Return the findings in one run of nodes."""
        graph = links_of(block)
        nodes = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr)) + block.start
        negative = None
        for at in np.flatnonzero(graph.data < 0)[:1]:
            negative = int(nodes[at]), int(graph.indices[at]), float(graph.data[at])
        return GraphSummary(
            columns=graph.shape[1],
            degrees=row_sums(graph),
            links=np.bincount(
                nodes[nodes != graph.indices] - block.start, minlength=graph.shape[0]
            ),
            loops=graph.diagonal(block.start),
            negative=negative,
            forward=_link_digest(nodes, graph.indices, graph.data),
            backward=_link_digest(graph.indices, nodes, graph.data),
        )

    def combine(self, left: GraphSummary, right: GraphSummary) -> GraphSummary:
        """Merge the findings in two neighboring runs."""
        return GraphSummary(
            columns=max(left.columns, right.columns),
            degrees=np.concatenate([left.degrees, right.degrees]),
            links=np.concatenate([left.links, right.links]),
            loops=np.concatenate([left.loops, right.loops]),
            negative=left.negative or right.negative,
            forward=(left.forward + right.forward) % 2**64,
            backward=(left.backward + right.backward) % 2**64,
        )


def _link_digest(nodes: IndexArray, others: IndexArray, weights: Float64Array) -> int:
    """Return a sum over links, (links,) each, that differs for links i, j and j, i."""
    bits = _mix(_mix(nodes.astype(np.uint64)) + others.astype(np.uint64)) ^ weights.view(np.uint64)
    return int(_mix(bits)[weights != 0].sum(dtype=np.uint64))


@dataclass(frozen=True)
class GivenLabels:
    """Map over blocks: labels that are known already."""

    labels: Labels
    """(n,) int32."""

    def __call__(self, block: Block) -> tuple[Labels]:
        """Return labels, (height,) int32."""
        return (self.labels[block.start : block.start + block.rows.shape[0]],)


@dataclass(frozen=True)
class Tally:
    """Reduction to the totals of clusters."""

    labels: Labels
    """(n,), of all nodes."""
    normalized: bool

    def chunk(self, block: Block) -> PartialTotals:
        """Return the totals of a run of nodes."""
        graph = links_of(block)
        labels = self.labels[block.start : block.start + graph.shape[0]]
        inside = self.labels[graph.indices] == np.repeat(labels, np.diff(graph.indptr))
        inner = row_sums(graph, graph.data * inside)
        kept, masses = kept_and_masses(graph, inner, self.normalized)
        linked = labels >= 0
        clusters, numbers = np.unique(labels[linked].astype(np.intp), return_inverse=True)
        k = len(clusters)
        sums = total(numbers, kept[linked], k), total(numbers, masses[linked], k)
        return PartialTotals(clusters, Totals(*sums, np.bincount(numbers, minlength=k)))

    def combine(self, left: PartialTotals, right: PartialTotals) -> PartialTotals:
        """Add the totals of two neighboring runs."""
        clusters = np.union1d(left.clusters, right.clusters)
        return PartialTotals(clusters, left.spread(clusters) + right.spread(clusters))


@dataclass(frozen=True)
class NodeMoveScan(ConcatenatedAnswers):
    """Reduction to the nodes that would gain by moving alone; target `ALONE` is a new cluster."""

    labels: Labels
    """(n,), of all nodes."""
    totals: Totals
    """Of the k clusters."""
    price: float
    """Price of a cluster."""
    least: float
    """Gains up to this are ignored."""
    normalized: bool
    within: IndexArray | None = None
    """(k,), nodes move between clusters of one number only, and open none; None for all moves."""

    def chunk(self, block: Block) -> RowMoves:
        """Return the moves of a run of nodes."""
        graph = links_of(block)
        labels = self.labels[block.start : block.start + graph.shape[0]]
        kept, masses = kept_and_masses(graph, graph.diagonal(block.start), self.normalized)
        links = links_to(graph, self.labels, len(self.totals.masses))
        outside = 0.0 if self.normalized else row_sums(graph)
        targets, gains = best_moves(
            links, labels, kept, masses, self.totals, self.price, outside, self.within
        )
        nodes = np.flatnonzero(gains > self.least)
        return RowMoves(nodes + block.start, targets[nodes], gains[nodes])


def links_of(block: Block) -> csr_array:
    """Return the links of a run of nodes, (height, n), without links of weight 0."""
    graph = csr_array(block.rows)
    if graph.data.all():
        return graph
    graph = graph.copy()  # the block belongs to the source
    graph.eliminate_zeros()
    return graph


def kept_and_masses(
    graph: csr_array, inside: Float64Array, normalized: bool
) -> tuple[Float64Array, Float64Array]:
    """Return what nodes keep of links inside, (height,), and their masses: (height,) each."""
    degrees = row_sums(graph)
    if normalized:
        return inside, degrees
    return inside - degrees, np.ones(len(degrees))


def row_sums(graph: csr_array, values: Float64Array | None = None) -> Float64Array:
    """Return the degrees of the nodes, (height,), or sums of other values of links, (links,)."""
    rows = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    return total(rows, graph.data if values is None else values, graph.shape[0])


def links_to(graph: csr_array, labels: Labels, k: int) -> csr_array:
    """Return the weights of links of nodes to clusters, (height, k), the lowest cluster first."""
    # copies, since sum_duplicates writes into them
    parts = graph.data.copy(), labels[graph.indices], graph.indptr.copy()
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
    """Return the best move of each node alone, to a linked cluster or a new one, and its gain.

    Parameters
    ----------
    links : (h, k), weight of each node's links to each cluster
    labels, kept, masses : (h,), of the nodes
    totals, price : of the k clusters, none of them empty
    outside : (h,), subtracted from links to own clusters: degrees under the ratio cut
    within : (k,), nodes move between clusters of one number only, and open none; None for all moves

    Returns
    -------
    (h,) targets, `ALONE` for a new cluster, and (h,) gains, -inf for a node without a target
    """
    h, k_kept, k_masses = links.shape[0], totals.kept, totals.masses
    rates = np.divide(k_kept, k_masses, out=np.zeros(len(k_masses)), where=k_masses > 0)
    rows, clusters = np.repeat(np.arange(h), np.diff(links.indptr)), links.indices
    at_home = clusters == labels[rows]
    home = np.zeros(h)
    home[rows[at_home]] = links.data[at_home]
    single = totals.sizes[labels] <= 1
    left, rest = k_kept[labels] - 2 * (home - outside) + kept, k_masses[labels] - masses
    np.divide(left, rest, out=left, where=rest > 0)
    leaving = np.where(single, price, left) - rates[labels]
    joined = (k_kept[clusters] + 2 * links.data + kept[rows]) / (k_masses[clusters] + masses[rows])
    barred = at_home if within is None else at_home | (within[clusters] != within[labels[rows]])
    joining = np.where(barred, -np.inf, joined - rates[clusters])
    best, positions = row_maxima(joining, links.indptr)
    found, targets = positions >= 0, np.full(h, ALONE)
    targets[found] = clusters[positions[found]]
    with np.errstate(invalid="ignore", divide="ignore"):
        stays = single | (masses <= 0) | (within is not None)
        alone = np.where(stays, -np.inf, kept / masses - price)
    targets[alone > best] = ALONE
    return targets, leaving + np.maximum(best, alone)


def row_maxima(values: Float64Array, indptr: IndexArray) -> tuple[Float64Array, IndexArray]:
    """Return maxima of CSR rows, (h,), and their first positions; -inf and -1 if empty."""
    h, filled = len(indptr) - 1, np.flatnonzero(np.diff(indptr))
    best, positions = np.full(h, -np.inf), np.full(h, -1)
    if not filled.size:
        return best, positions
    best[filled] = np.maximum.reduceat(values, indptr[filled])
    hits = np.flatnonzero(values == np.repeat(best, np.diff(indptr)))
    rows = np.searchsorted(indptr, hits, side="right") - 1
    filled, first = np.unique(rows, return_index=True)
    positions[filled] = hits[first]
    return best, positions


def merge_partners(
    graph: csr_array,
    masses: Float64Array,
    price: float,
    ties: int,
    within: IndexArray | None = None,
) -> tuple[IndexArray, Float64Array]:
    """Return the partner whose merge gains most for each cluster, and the gain.

    Parameters
    ----------
    graph : (k, k), links between clusters, with what they keep on its diagonal
    masses : (k,)
    price : price of a cluster
    ties : seed of the order of pairs of equal gain; both clusters of a pair see one order
    within : (k,), only clusters of one number may merge

    Returns
    -------
    (k,) partners, -1 for a cluster without links to others, and (k,) gains, -inf for these
    """
    k, kept = graph.shape[0], graph.diagonal()
    rates = kept / masses
    rows, others = np.repeat(np.arange(k), np.diff(graph.indptr)), graph.indices
    together = (kept[rows] + kept[others] + 2 * graph.data) / (masses[rows] + masses[others])
    gains = price + together - (rates[rows] + rates[others])
    barred = rows == others
    if within is not None:
        barred |= within[rows] != within[others]
    gains[barred] = -np.inf
    best, _ = row_maxima(gains, graph.indptr)
    tied = np.flatnonzero((gains == best[rows]) & ~barred)
    rows, others = rows[tied], others[tied].astype(np.int64)
    order = hashed_uniform(np.minimum(rows, others) * k + np.maximum(rows, others), ties)
    _, positions = row_maxima(order, np.searchsorted(rows, np.arange(k + 1)))
    found, partner = positions >= 0, np.full(k, -1)
    partner[found] = others[positions[found]]
    return partner, np.where(found, best, -np.inf)


def hashed_uniform(numbers: Int64Array, seed: int) -> Float64Array:
    """Return pseudo-random values in [0, 1), (m,), that depend on numbers, (m,), and seed alone.

    The generator is SplitMix64 (Steele et al. 2014).
    """
    start = np.array([seed % 2**32], np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (_mix(numbers.astype(np.uint64) + start) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return pseudo-random bits, of the same shape, modulo 2**64."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
