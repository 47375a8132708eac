"""Graphs between clusters: sums of the links of their nodes."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Labels, row_numbers
from dask_dpmeans.kernels.graph_cut.gains import (
    hashed_uniform,
    index_type,
    links_of,
    parts_of,
    row_sums,
    sum_links,
    union,
)
from dask_dpmeans.kernels.graph_cut.gains_compiled import add_links_loop
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import pays

LARGEST_EXACT = 2.0**53
"""Whole numbers add up to this without rounding."""
FEW_NODES = 8
"""Mean nodes of a cluster up to which sums over blocks are not made smaller by merges."""
LARGE = 2**21
"""Links between clusters up to which workers merge answers.

Of 10,000,000 nodes in 823,290 clusters, workers held 1.8 GB with merges of
eight answers, and 0.98 GB without."""


@dataclass(frozen=True)
class ClusterLinks:
    """Links of some clusters to all clusters."""

    clusters: IndexArray
    """(r,), ascending."""
    links: csr_array
    """(r, k), with what a cluster keeps as its link to itself."""

    def spread(self, clusters: IndexArray) -> csr_array:
        """Return links as rows of more clusters, ascending, (s, k); the other rows are empty."""
        counts = np.zeros(len(clusters) + 1, self.links.indptr.dtype)
        counts[1 + np.searchsorted(clusters, self.clusters)] = np.diff(self.links.indptr)
        parts = self.links.data, self.links.indices, np.cumsum(counts, dtype=counts.dtype)
        return csr_array(parts, shape=(len(clusters), self.links.shape[1]))


@dataclass(frozen=True)
class Contraction:
    """Reduction to the graph between clusters."""

    labels: Labels
    """(n,), of all nodes."""
    masses: Float64Array
    """(k,), of the clusters."""
    normalized: bool
    most: int
    """Most links of a cluster to others: the greatest ones by the mass of the other cluster."""
    any_blocks: bool = False
    """Whether sums of the weights of links are exact and no links are left out."""

    @property
    def grows(self) -> bool:
        """Whether few clusters have nodes in several blocks, or an answer may be large."""
        k = len(self.masses)
        return FEW_NODES * k > len(self.labels) or k * min(k, self.most) > LARGE

    def chunk(self, block: Block) -> ClusterLinks:
        """Return the links of a run of nodes."""
        graph = links_of(block)
        height, k = graph.shape[0], len(self.masses)
        labels = self.labels[block.start : block.start + height]
        linked = labels >= 0
        clusters, members = np.unique(labels[linked].astype(np.intp), return_inverse=True)
        numbers = np.full(height, -1)
        numbers[linked] = members
        found = sum_links(graph, numbers, len(clusters), self.labels, k)
        if not self.normalized:
            degrees = total(members, row_sums(graph)[linked], len(clusters))
            ends = np.arange(len(clusters) + 1, dtype=np.int32)
            found = found - csr_array((degrees, clusters.astype(np.int32), ends), shape=found.shape)
        return self._heaviest(clusters, csr_array(found))

    def combine(self, left: ClusterLinks, right: ClusterLinks) -> ClusterLinks:
        """Add the links of two neighboring runs."""
        found = self._add_compiled(left, right)
        if found is not None:
            return found
        clusters = union(left.clusters, right.clusters)
        return self._heaviest(clusters, left.spread(clusters) + right.spread(clusters))

    def _add_compiled(self, left: ClusterLinks, right: ClusterLinks) -> ClusterLinks | None:
        """Add links and keep the heaviest; None if that does not pay."""
        k, rows = len(self.masses), len(left.clusters) + len(right.clusters)
        links = left.links.nnz + right.links.nnz
        kind = index_type(links, k)
        clusters, indptr = np.empty(rows, np.intp), np.zeros(rows + 1, kind)
        indices, data = np.empty(links, kind), np.empty(links)
        one, other = ((each.clusters, parts_of(each.links)) for each in (left, right))
        sums = clusters, (indptr, indices, data)
        given = one, other, self.masses, self.most, sums
        if not pays(add_links_loop, given, 64 * links):
            return None
        rows, links = add_links_loop(*given)
        # Copies, for the memory: few links may be left.
        parts = data[:links].copy(), indices[:links].copy(), indptr[: rows + 1]
        return ClusterLinks(clusters[:rows], csr_array(parts, shape=(rows, k)))

    def _heaviest(self, clusters: IndexArray, links: csr_array) -> ClusterLinks:
        """Return the heaviest of the links of each cluster, (m, k), and those inside clusters."""
        counts = np.diff(links.indptr)
        if counts.max(initial=0) <= self.most:
            return ClusterLinks(clusters, links)
        nothing = ClusterLinks(clusters[:0], links[:0])
        found = self._add_compiled(ClusterLinks(clusters, links), nothing)
        if found is not None:
            return found
        rows = row_numbers(links)
        own = links.indices == clusters[rows]
        most = self.most + np.bincount(rows[own], minlength=len(clusters))
        kept = np.ones(len(rows), np.bool_)
        many = np.flatnonzero((counts > most)[rows])
        weights = links.data[many] / self.masses[links.indices[many]]
        weights[own[many]] = np.inf
        order = many[np.lexsort([links.indices[many], -weights, rows[many]])]
        ranks = np.arange(len(order)) - np.searchsorted(rows[order], rows[order])
        kept[order[ranks >= most[rows[order]]]] = False
        indptr = np.append(0, np.cumsum(np.minimum(counts, most))).astype(links.indptr.dtype)
        heaviest = csr_array((links.data[kept], links.indices[kept], indptr), shape=links.shape)
        return ClusterLinks(clusters, heaviest)


@dataclass(frozen=True)
class HalvedContraction:
    """Reduction to the graphs between clusters of two halves of the links.

    The half of a link hangs on its nodes and the seed alone.
    """

    whole: Contraction
    seed: int

    def chunk(self, block: Block) -> tuple[ClusterLinks, ClusterLinks]:
        """Return the links of a run of nodes, of each half."""
        graph = links_of(block)
        nodes = row_numbers(graph) + block.start
        others = graph.indices.astype(np.int64)
        pairs = np.minimum(nodes, others) * graph.shape[1] + np.maximum(nodes, others)
        first = hashed_uniform(pairs, self.seed) < 0.5
        one, other = (
            replace(
                block,
                rows=csr_array((graph.data * half, graph.indices, graph.indptr), shape=graph.shape),
            )
            for half in (first, ~first)
        )
        return self.whole.chunk(one), self.whole.chunk(other)

    def combine(
        self, left: tuple[ClusterLinks, ClusterLinks], right: tuple[ClusterLinks, ClusterLinks]
    ) -> tuple[ClusterLinks, ClusterLinks]:
        """Add the links of two neighboring runs."""
        return self.whole.combine(left[0], right[0]), self.whole.combine(left[1], right[1])


def contract_graph(graph: csr_array, labels: IndexArray) -> csr_array:
    """Return the graph between clusters, (g, g), of a graph, (k, k), by labels, (k,)."""
    k = int(labels.max()) + 1
    return symmetrize(sum_links(graph, labels, k, labels.astype(np.int32), k, ordered=False))


def symmetrize(graph: csr_array) -> csr_array:
    """Return a graph, (k, k), symmetric to the bit, from one that is symmetric but for rounding."""
    if graph.data.sum() <= LARGEST_EXACT and np.array_equal(graph.data, np.rint(graph.data)):
        return graph
    return csr_array((graph + graph.T) * 0.5)
