"""Greedy merges of the clusters of a small graph, down to one for each of its components."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, row_numbers


class Merges(NamedTuple):
    """The m merges of k clusters, in order; a cluster goes by the lowest of its numbers."""

    pairs: IndexArray
    """(m, 2), the clusters of each merge; the second becomes part of the first, the lower one."""
    gains: Float64Array
    """(m,), by how much each merge lowers the cut; below 0 if the cut rises."""

    def labels(self, k: int, count: int) -> IndexArray:
        """Return the clusters, (k,), after the first `count` merges, by rising lowest number."""
        firsts = np.arange(k)
        for stays, goes in reversed(self.pairs[:count].tolist()):
            firsts[goes] = firsts[stays]
        return np.unique(firsts, return_inverse=True)[1]


def merge_path(graph: csr_array, masses: Float64Array, alone: float = 1.0) -> Merges:
    """Return the merges of linked clusters, at each step the one that lowers the cut the most.

    The part of a cluster in the cut is alone - kept / mass.  Of merges with equal gains, the one
    with the lowest numbers comes first.  Of k clusters that have links to others, memory is (k, k)
    twice, and each of the at most k - 1 merges takes a few steps of k numbers.

    Parameters
    ----------
    graph : (k, k), symmetric weights of the links between clusters, >= 0, with what the clusters
        keep on the diagonal
    masses : (k,), > 0
    alone : the part in the cut of a cluster that keeps nothing: 1 for the normalized cut, 0 for the
        ratio cut
    """
    linked = np.flatnonzero(linked_to_others(graph))
    clusters, k = _Clusters.of(graph, masses, linked), len(linked)
    pairs: list[IndexArray] = []
    gains = []
    while len(clusters.numbers):
        i = int(np.argmin(clusters.least))
        j, loss = int(clusters.partners[i]), float(clusters.least[i])
        if loss == np.inf:
            break
        pairs.append(clusters.numbers[[i, j]])
        gains.append(alone - loss)
        clusters.merge(i, j)
        if 2 * (k - len(pairs)) <= len(clusters.numbers):
            clusters = clusters.remaining()
    return Merges(np.array(pairs, np.intp).reshape(-1, 2), np.array(gains, np.float64))


def linked_to_others(graph: csr_array) -> BoolArray:
    """Return which clusters have links to others, (k,), of links between clusters, (k, k)."""
    rows, linked = row_numbers(graph), np.zeros(graph.shape[0], np.bool_)
    linked[rows[(rows != graph.indices) & (graph.data > 0)]] = True
    return linked


@dataclass
class _Clusters:
    """Clusters that merge; those that are part of another have no mass and no links."""

    numbers: IndexArray
    """(k,)."""
    kept: Float64Array
    """(k,)."""
    masses: Float64Array
    """(k,)."""
    links: Float64Array
    """(k, k), 0 on the diagonal."""
    losses: Float64Array
    """(k, k), what each merge loses of sum(kept / mass); inf for clusters without links."""
    least: Float64Array
    """(k,), the least of each row of `losses`."""
    partners: IndexArray
    """(k,), the first column of each row with it."""

    @classmethod
    def of(cls, graph: csr_array, masses: Float64Array, some: IndexArray) -> Self:
        """Return `some` clusters of a graph, (k,)."""
        inner, masses, numbers = csr_array(graph[some][:, some]), masses[some], np.arange(len(some))
        kept, links = inner.diagonal(), inner.toarray()
        np.fill_diagonal(links, 0.0)
        losses = _losses(links, kept[:, np.newaxis], masses[:, np.newaxis], kept, masses)
        partners = losses.argmin(axis=1) if len(masses) else numbers
        least = losses[numbers, partners]
        return cls(some, kept, masses, links, losses, least, partners)

    def remaining(self) -> "_Clusters":
        """Return the clusters without those that are part of another."""
        left = np.flatnonzero(self.masses > 0)
        both = np.ix_(left, left)
        partners = np.minimum(np.searchsorted(left, self.partners[left]), len(left) - 1)
        return _Clusters(
            self.numbers[left],
            self.kept[left],
            self.masses[left],
            self.links[both],
            self.losses[both],
            self.least[left],
            partners,
        )

    def merge(self, i: int, j: int) -> None:
        """Make cluster j, with links to cluster i, a part of it."""
        links, losses = self.links, self.losses
        self.kept[i] += self.kept[j] + 2 * links[i, j]
        self.masses[i] += self.masses[j]
        self.masses[j] = 0.0
        links[i] += links[j]
        links[i, i] = links[i, j] = 0.0
        links[:, i] = links[i]
        links[j] = links[:, j] = 0.0
        losses[i] = _losses(links[i], self.kept[i], self.masses[i], self.kept, self.masses)
        losses[:, i] = losses[i]
        losses[j] = losses[:, j] = np.inf
        changed = losses[i]
        lower = (changed < self.least) | ((changed == self.least) & (i < self.partners))
        stale = (self.partners == i) | (self.partners == j)
        stale[[i, j]] = True
        lower &= ~stale
        self.least[lower], self.partners[lower] = changed[lower], i
        rows = np.flatnonzero(stale)
        found = losses[rows]
        self.partners[rows] = found.argmin(axis=1)
        self.least[rows] = found[np.arange(len(rows)), self.partners[rows]]


def _losses(
    links: Float64Array,
    kept: Float64Array | np.float64,
    masses: Float64Array | np.float64,
    others_kept: Float64Array,
    others_masses: Float64Array,
) -> Float64Array:
    """Return what merges of clusters with k others lose of sum(kept / mass), (k,) or (r, k)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of clusters without mass
        apart = kept / masses + others_kept / others_masses
    together = (kept + others_kept + 2 * links) / (masses + others_masses)
    return np.where(links > 0, apart - together, np.inf)
