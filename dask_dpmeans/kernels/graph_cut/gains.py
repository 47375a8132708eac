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
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dask_dpmeans.kernels.answers import Records, Sums
from dask_dpmeans.kernels.block import (
    Block,
    Float64Array,
    IndexArray,
    Int64Array,
    Labels,
    row_numbers,
)
from dask_dpmeans.kernels.graph_cut.gains_compiled import (
    Links,
    link_digests_loop,
    members_loop,
    merge_partners_loop,
    sum_links_loop,
    table_for,
)
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import pays
from dask_dpmeans.kernels.random_streams import GOLDEN, mix_array

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
    whole: bool
    """Whether all weights are whole numbers."""
    negative: tuple[int, int, float] | None
    """The first link below 0: its nodes and weight."""
    forward: int
    """A digest of all links i, j, modulo 2**64, ..."""
    backward: int
    """... and of all links j, i; both are equal if the graph is symmetric."""


class Inspection:
    """Reduction of the first pass over a graph."""

    any_blocks: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    def chunk(self, block: Block) -> GraphSummary:
        """Return the findings in one run of nodes."""
        graph, negative = links_of(block), None
        for at in np.flatnonzero(graph.data < 0)[:1]:
            node = block.start + int(np.searchsorted(graph.indptr, at, "right")) - 1
            negative = node, int(graph.indices[at]), float(graph.data[at])
        nodes = row_numbers(graph) + block.start
        forward, backward = _link_digests(graph, block.start, nodes)
        looped = np.bincount(nodes[nodes == graph.indices] - block.start, minlength=graph.shape[0])
        return GraphSummary(
            columns=graph.shape[1],
            degrees=row_sums(graph),
            links=np.diff(graph.indptr) - looped,
            loops=graph.diagonal(block.start),
            whole=bool(np.array_equal(graph.data, np.rint(graph.data))),
            negative=negative,
            forward=forward,
            backward=backward,
        )

    def combine(self, left: GraphSummary, right: GraphSummary) -> GraphSummary:
        """Merge the findings in two neighboring runs."""
        return GraphSummary(
            columns=max(left.columns, right.columns),
            degrees=np.concatenate([left.degrees, right.degrees]),
            links=np.concatenate([left.links, right.links]),
            loops=np.concatenate([left.loops, right.loops]),
            whole=left.whole and right.whole,
            negative=left.negative or right.negative,
            forward=(left.forward + right.forward) % 2**64,
            backward=(left.backward + right.backward) % 2**64,
        )


def _link_digests(graph: csr_array, start: int, nodes: IndexArray) -> tuple[int, int]:
    """Return digests of links of rows from `start` on, as they are and turned round.

    `nodes`, (links,), are the rows of the links.
    """
    digests = np.zeros(2, np.uint64)
    given = parts_of(graph), start, digests
    if pays(link_digests_loop, given, 8 * graph.nnz):
        link_digests_loop(*given)
        return int(digests[0]), int(digests[1])
    forward = _link_digest(nodes, graph.indices, graph.data)
    return forward, _link_digest(graph.indices, nodes, graph.data)


def _link_digest(nodes: IndexArray, others: IndexArray, weights: Float64Array) -> int:
    """Return a sum over links, (links,) each, that differs for links i, j and j, i."""
    ends = mix_array(nodes.astype(np.uint64)) + others.astype(np.uint64)
    bits = mix_array(mix_array(ends) ^ weights.view(np.uint64))
    return int(bits[weights != 0].sum(dtype=np.uint64))


@dataclass(frozen=True)
class GivenLabels:
    """Map over blocks: labels that are known already."""

    labels: Labels
    """(n,) int32."""

    def __call__(self, block: Block) -> tuple[Labels]:
        """Return labels, (height,) int32."""
        return (self.labels[block.start : block.start + block.rows.shape[0]],)


def union(left: IndexArray, right: IndexArray) -> IndexArray:
    """Return the different numbers of two ascending arrays, (m,) each, ascending."""
    both = np.concatenate([left, right])
    both.sort(kind="stable")  # two runs: four times as fast as NumPy's union1d, which hashes
    return both[np.append(True, both[1:] != both[:-1])] if both.size else both


@dataclass(frozen=True)
class Tally:
    """Reduction to the totals of clusters."""

    labels: Labels
    """(n,), of all nodes."""
    normalized: bool
    any_blocks: bool = False
    """Whether sums of the weights of links are exact, and so the same for any blocks."""

    def chunk(self, block: Block) -> PartialTotals:
        """Return the totals of a run of nodes."""
        graph = links_of(block)
        labels = self.labels[block.start : block.start + graph.shape[0]]
        degrees, inside = inner_sums(graph, block.start, self.labels)
        kept, masses = kept_and_masses(degrees, inside, self.normalized)
        linked = labels >= 0
        clusters, numbers = np.unique(labels[linked].astype(np.intp), return_inverse=True)
        k = len(clusters)
        sums = total(numbers, kept[linked], k), total(numbers, masses[linked], k)
        return PartialTotals(clusters, Totals(*sums, np.bincount(numbers, minlength=k)))

    def combine(self, left: PartialTotals, right: PartialTotals) -> PartialTotals:
        """Add the totals of two neighboring runs."""
        clusters = union(left.clusters, right.clusters)
        return PartialTotals(clusters, left.spread(clusters) + right.spread(clusters))


def links_of(block: Block) -> csr_array:
    """Return the links of a run of nodes, (height, n), without links of weight 0."""
    graph = csr_array(block.rows)
    if graph.data.all():
        return graph
    graph = graph.copy()  # the block belongs to the source
    graph.eliminate_zeros()
    return graph


def parts_of(graph: csr_array) -> Links:
    """Return the arrays of a CSR array, (height, n)."""
    return graph.indptr, graph.indices, graph.data


def kept_and_masses(
    degrees: Float64Array, inside: Float64Array, normalized: bool
) -> tuple[Float64Array, Float64Array]:
    """Return what nodes keep of links inside, (height,), and their masses: (height,) each."""
    if normalized:
        return inside, degrees
    return inside - degrees, np.ones(len(degrees))


def row_sums(graph: csr_array, values: Float64Array | None = None) -> Float64Array:
    """Return the degrees of the nodes, (height,), or sums of other values of links, (links,)."""
    return total(row_numbers(graph), graph.data if values is None else values, graph.shape[0])


def inner_sums(graph: csr_array, start: int, labels: Labels) -> tuple[Float64Array, Float64Array]:
    """Return sums of links of nodes from `start` on, (height,): all, and those inside clusters."""
    inside = labels[graph.indices] == labels[start + row_numbers(graph)]
    return row_sums(graph), row_sums(graph, graph.data * inside)


def links_to(graph: csr_array, labels: Labels, k: int) -> csr_array:
    """Return the weights of links of nodes to clusters, (height, k), the lowest cluster first."""
    height = graph.shape[0]
    return sum_links(graph, np.arange(height), height, labels, k)


def sum_links(
    graph: csr_array, rows: IndexArray, m: int, columns: Labels, k: int, ordered: bool = True
) -> csr_array:
    """Return the links, (m, k), between groups of the rows and groups of the columns of a graph.

    `rows`, (height,), and `columns`, (n,), are the numbers of the groups; links of rows with
    numbers below 0 are left out.  Links are added one after the other.  In each row the columns
    ascend, or else are in the order of their first links, which takes less time.
    """
    kind, none = index_type(graph.nnz, k), np.empty(0, np.int64)
    table, sums = (none, np.empty(0), none), (none.astype(kind), none.astype(kind), np.empty(0))
    given = parts_of(graph), (none, none), columns, ordered, table, sums
    if pays(sum_links_loop, given, 32 * graph.nnz):
        return _sum_links_compiled(graph, rows, m, columns, k, ordered)
    of_links = rows[row_numbers(graph)]
    chosen = of_links >= 0
    keys = of_links[chosen] * k + columns[graph.indices[chosen]]
    pairs, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    indptr = np.searchsorted(pairs, np.arange(m + 1) * k)
    data = total(numbers, graph.data[chosen], len(pairs))
    if not ordered:
        order = np.lexsort([first, pairs // k])
        pairs, data = pairs[order], data[order]
    kind = index_type(len(pairs), m, k)
    return csr_array((data, (pairs % k).astype(kind), indptr.astype(kind)), shape=(m, k))


def _sum_links_compiled(
    graph: csr_array, rows: IndexArray, m: int, columns: Labels, k: int, ordered: bool
) -> csr_array:
    ends, members = np.zeros(m + 1, np.int64), np.empty(len(rows), np.int64)
    members_loop(rows, ends, members)
    counts = np.append(0, np.cumsum(np.diff(graph.indptr)[members[: ends[-1]]]))[ends]
    most, links = int(np.diff(counts).max(initial=0)), int(counts[-1])
    kind = index_type(links, k)
    sums = np.zeros(m + 1, kind), np.empty(links, kind), np.empty(links)
    table = table_for(min(most, k))
    sum_links_loop(parts_of(graph), (ends, members), columns, ordered, table, sums)
    indptr, indices, data = sums
    return csr_array((data[: indptr[-1]], indices[: indptr[-1]], indptr), shape=(m, k))


def index_type(*numbers: int) -> type[np.signedinteger[Any]]:
    """Return the type of indices up to these numbers."""
    return np.int32 if max(numbers) <= np.iinfo(np.int32).max else np.int64


def kept_shares(totals: Totals) -> Float64Array:
    """Return the share of its mass that each cluster keeps inside, (k,); 0 for an empty one."""
    nothing = np.zeros(len(totals.masses))
    return np.divide(totals.kept, totals.masses, out=nothing, where=totals.masses > 0)


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
    result = np.empty(k, np.int64), np.empty(k)
    inner = np.empty(0, np.int64) if within is None else within
    totals = kept, masses, rates
    given = parts_of(graph), totals, price, _tie_start(ties)[0], inner, result
    if pays(merge_partners_loop, given, 64 * graph.nnz):
        merge_partners_loop(*given)
        return result
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
    bits = mix_array(numbers.astype(np.uint64) + _tie_start(seed))
    return np.asarray((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _tie_start(seed: int) -> npt.NDArray[np.uint64]:
    """Return the number, (1,), that a seed adds before bits are mixed."""
    return np.array([seed % 2**32], np.uint64) * GOLDEN
