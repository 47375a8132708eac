"""The parts of a graph: clusters at a fine penalty, and what greedy merges make of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array, IndexArray, Int64Array, Labels
from dask_dpmeans.kernels.graph_cut.contraction import Contraction, HalvedContraction, symmetrize
from dask_dpmeans.kernels.graph_cut.gains import GraphSummary
from dask_dpmeans.kernels.labelings import count_label_pairs
from dask_dpmeans.kernels.merge_path import Merges, linked_to_others, merge_path
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.methods.dpmeans.summary import REFINED
from dask_dpmeans.methods.graph_cut import multilevel
from dask_dpmeans.methods.graph_cut.objective import relabel_nodes
from dask_dpmeans.methods.graph_cut.partitioner import MAX_MOVE_ROUNDS, Partition, Partitioner

FINEST, COARSEST = 0.75, 0.003
"""Greatest and least penalty that are tried, negated: in the normalized cut as they are, in the
ratio cut times the mean degree of the nodes.

Of 27 sets of shapes with labels (10 neighbors), mean adjusted Rand index .90 with .003, .89 with
.001 and .71 with .01; without the root of k .85, .84 and .84; the best level of each path .93."""
LEAST_TIE = 1e-9
"""Least penalty, negated in the same units, up to which the components are best."""
MOST_PARTS = 2**11
"""Parts with links to others that are merged one pair at a time."""
ROUNDS = 2**32
"""Numbers of rounds of random choices that no fit reaches."""


class Level(NamedTuple):
    """The best known clusters of one number."""

    k: int
    cut: float


@dataclass(frozen=True)
class Parts:
    """Clusters that are merged greedily: a summary of bounded size, whatever the graph."""

    links: csr_array
    """(m, m), with what the parts keep on the diagonal."""
    masses: Float64Array
    """(m,)."""
    normalized: bool

    @cached_property
    def merges(self) -> Merges:
        """The merges down to the components."""
        return merge_path(self.links, self.masses, 1.0 if self.normalized else 0.0)

    @cached_property
    def levels(self) -> list[Level]:
        """The best known clusters of each number, from the components of the graph on."""
        steps = self.merges.gains[::-1]
        first = len(self.masses) - len(steps)
        cuts = np.append(0.0, np.cumsum(steps))
        return [Level(first + number, cut) for number, cut in enumerate(cuts.tolist())]

    def best(self, penalty: float) -> Level:
        """Return the best clusters at a penalty."""
        return max(self.levels, key=partial(self._saving, penalty))

    def saving(self, penalty: float) -> float:
        """Return how much lower cut + penalty * k is for the best clusters than for components."""
        return self._saving(penalty, self.best(penalty))

    def _saving(self, penalty: float, level: Level) -> float:
        return penalty * (self.levels[0].k - level.k) - level.cut

    def labels(self, penalty: float) -> Int64Array:
        """Return the best cluster of each part at a penalty, (m,)."""
        m = len(self.masses)
        return self.merges.labels(m, m - self.best(penalty).k).astype(np.int64)


@dataclass(frozen=True)
class Parted:
    """The parts of a graph."""

    parts: Parts
    node_parts: Labels
    """(n,), the part of each node."""
    scale: float
    """Unit of the penalty: 1, or the mean degree of the nodes under the ratio cut."""
    complete: bool
    """Whether these are all clusters that are best at the finest penalty."""
    passes: int
    """Passes over all links."""

    @classmethod
    def of(
        cls, method: multilevel.Method, source: Source, found: GraphSummary, number: int
    ) -> Self:
        """Return the clusters that merges and moves of nodes give at the finest penalty.

        `number` tells random choices apart.
        """
        scale = 1.0 if method.normalized else float(found.degrees.mean())
        start = method.start(source, found)
        method = replace(method, penalty=-FINEST * scale)
        partitioner = Partitioner(method, source, start.graph, method.price, number * ROUNDS, 1)
        finest = merge_and_move(partitioner, partitioner.with_totals(start.labels, start.totals))
        labels, masses = finest.labels, finest.totals.masses
        links = partitioner.contract(labels, masses)
        fewer = few_parts(partitioner, links, masses)
        complete = len(fewer) == int(fewer.max()) + 1
        if not complete:
            labels = relabel_nodes(labels, fewer)
            masses = total(fewer, masses, int(fewer.max()) + 1)
            links = partitioner.contract(labels, masses)
        parts = Parts(links, masses, method.normalized)
        return cls(parts, labels, scale, complete, partitioner.passes)

    @property
    def largest(self) -> int:
        """The greatest number of clusters that may be chosen."""
        tried = len(self.parts.masses)
        return tried if self.complete else int(REFINED * tried)

    @cached_property
    def sizes(self) -> Int64Array:
        """The number of nodes of each part, (m,)."""
        linked = self.node_parts[self.node_parts >= 0]
        return np.bincount(linked, minlength=len(self.parts.masses))

    def intervals(self) -> list[Interval]:
        """Return the penalties at which each number of clusters is best, rising."""
        least, most = COARSEST * self.scale, FINEST * self.scale
        corners = convex_hull(self.parts.levels)
        ties = [slope(*pair) for pair in pairwise(corners)]
        each = [
            Interval(corner.k, -min(high, most), -max(low, least))
            for corner, low, high in zip(corners, [0.0, *ties], [*ties, math.inf], strict=True)
        ]
        found = [one for one in each[:0:-1] if one.low < one.high]
        first = each[0]
        if first.low >= first.high:  # nearer to 0 than any that is tried
            tie = max(ties[0], LEAST_TIE * self.scale)
            first = Interval(first.n_clusters, -tie, -tie / 2)
        return [*found, first]

    def halves(self, source: Source, seed: int, number: int) -> tuple[Parts, Parts]:
        """Return the parts with the links of either half: one pass."""
        whole = Contraction(self.node_parts, self.parts.masses, self.parts.normalized, MOST_PARTS)
        ties = int(stream(seed, Stream.HALVES, number).integers(2**32))
        first, second = source.fold(HalvedContraction(whole, ties), name="halve")
        return self._half(first.links), self._half(second.links)

    def _half(self, links: csr_array) -> Parts:
        """Return the parts with some of the links, doubled."""
        links = symmetrize(csr_array(2 * links))
        masses = self.parts.masses
        if self.parts.normalized:
            masses = links.sum(axis=1)
            masses[masses == 0] = 1.0  # without links, and so any mass
        return Parts(links, masses, self.parts.normalized)

    def agreement(self, first: Int64Array, second: Int64Array) -> float:
        """Return the adjusted Rand index of the nodes, by two clusters of each part, (m,)."""
        return count_label_pairs(first, second, self.sizes).adjusted_rand


def merge_and_move(partitioner: Partitioner, found: Partition) -> Partition:
    """Return the clusters after merges, with moves of nodes in between, while these gain."""
    merged = 1
    while merged:
        found, merged = partitioner.merge(found, len(found.totals.masses) // 2)
        most = multilevel.MOVES_BETWEEN_MERGES if merged else MAX_MOVE_ROUNDS
        found = partitioner.move(found, most)
    return found


def few_parts(partitioner: Partitioner, links: csr_array, masses: Float64Array) -> IndexArray:
    """Return new numbers, (m,), of parts of which at most `MOST_PARTS` have links to others.

    Best pairs merge, whatever they gain.
    """
    found = np.arange(len(masses))
    price = 3 * max(1.0, float(np.abs(links.diagonal() / masses).max()))
    any_gains = replace(partitioner, price=price)
    while (excess := int(linked_to_others(links).sum()) - MOST_PARTS) > 0:
        goal = max(len(masses) - excess, len(masses) // 2)
        joint = any_gains.merge_all(links, masses, goal)
        if len(joint.masses) == len(masses):
            break
        found, links, masses = joint.labels[found], joint.graph, joint.masses
    return found


def convex_hull(levels: Sequence[Level]) -> list[Level]:
    """Return the levels that are best at a penalty, by rising number."""
    corners: list[Level] = []
    for level in levels:
        while len(corners) > 1 and slope(corners[-1], level) <= slope(*corners[-2:]):
            corners.pop()
        corners.append(level)
    return corners


def slope(few: Level, many: Level) -> float:
    """Return what each further cluster adds to the cut: the penalty, negated, at which both tie."""
    return (many.cut - few.cut) / (many.k - few.k)
