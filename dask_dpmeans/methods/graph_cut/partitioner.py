"""Merges, moves and splits of clusters of nodes, each by its exact gain."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from typing import NamedTuple, Self

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.engine.plan import Answer, Reduction, Source
from dask_dpmeans.kernels.block import Float64Array, IndexArray, Labels
from dask_dpmeans.kernels.graph_cut.contraction import (
    LARGEST_EXACT,
    Contraction,
    contract_graph,
    symmetrize,
)
from dask_dpmeans.kernels.graph_cut.gains import (
    ALONE,
    GraphSummary,
    Tally,
    Totals,
    inner_sums,
    kept_shares,
    merge_partners,
)
from dask_dpmeans.kernels.graph_cut.moves import MoveRule, NodeMoves, NodeMoveScan, move_nodes
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.pieces import PieceProblem, least_gain, relabel, search_partitions
from dask_dpmeans.kernels.pieces_compiled import MOST_PIECES
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.graph_cut.objective import CutMethod, relabel_nodes

FINER = 100
"""Nodes move until a round lowers the objective by less than tol / FINER of cut + |penalty| k."""
MOVES_BETWEEN_HALVES = 10
"""Rounds of moves between the halves that a cluster may be split into."""
MAX_MOVE_ROUNDS = 100
"""Rounds of moves after the last merge."""
MAX_LINKS = 2**25
"""Links between clusters that the coordinator has in memory."""
MOVING_LINKS = 2**25
"""Links of the nodes that move in one round, which the coordinator has in memory."""
MIN_LINKS = 2**2
"""Links that it keeps for each cluster in any case.  Links left out would only add to the gain of
merges."""
EXACT_SUMS = 4
"""Terms of a gain, each at most the sum of all weights."""
FEW_PAIRS = 0.1
"""If the share of mutual best partners among the clusters that would merge is smaller, several
clusters may join one partner."""


class Partition(NamedTuple):
    """Clusters of nodes, none empty, and their objective."""

    labels: Labels
    """(n,)."""
    totals: Totals
    objective: float
    births: int = 0
    deaths: int = 0


class Graph(NamedTuple):
    """Sizes and masses of a graph."""

    masses: Float64Array
    """(n,), masses of the nodes."""
    links: int
    """Number of links, each counted from both ends."""
    exact: bool
    """Whether sums of the weights of links are exact."""

    @classmethod
    def of(cls, masses: Float64Array, found: GraphSummary) -> Self:
        """Return what a first pass found."""
        links = int(found.links.sum()) + int(np.count_nonzero(found.loops))
        exact = found.whole and EXACT_SUMS * float(found.degrees.sum()) <= LARGEST_EXACT
        return cls(masses, links, exact)


@dataclass(frozen=True)
class Joint:
    """Clusters, g of them, that others became part of."""

    labels: IndexArray
    """(k,), the new number of each cluster."""
    masses: Float64Array
    """(g,)."""
    finer: csr_array
    """(m, m), links between the clusters before the last merges, ..."""
    numbers: IndexArray
    """... and the new number of each, (m,)."""

    @classmethod
    def of(cls, graph: csr_array, masses: Float64Array) -> Self:
        """Return clusters, (k,), before any merge."""
        alone = np.arange(len(masses))
        return cls(alone, masses, graph, alone)

    def join(self, numbers: IndexArray) -> Self:
        """Return the clusters after merges that give them numbers, (g,)."""
        k = int(numbers.max()) + 1
        masses = total(numbers, self.masses, k)
        return type(self)(numbers[self.labels], masses, self.graph, numbers)

    @cached_property
    def graph(self) -> csr_array:
        """Links between the clusters, (g, g)."""
        if len(self.masses) == len(self.numbers):
            return self.finer
        return contract_graph(self.finer, self.numbers)

    @cached_property
    def kept(self) -> Float64Array:
        """Weights of links inside the clusters, (g,), as in `Totals`."""
        _, inside = inner_sums(self.finer, 0, self.numbers.astype(np.int32))
        return total(self.numbers, inside, len(self.masses))

    def value(self, price: float) -> float:
        """Return the objective up to a constant."""
        return price * len(self.masses) - fsum(self.kept / self.masses)


@dataclass
class Partitioner:
    """Changes of the clusters in one step; counts passes and random choices."""

    method: CutMethod
    source: Source
    graph: Graph
    price: float
    """The price of a cluster."""
    rounds: int
    """Rounds of random choices so far."""
    passes: int = 0
    within: IndexArray | None = None
    """(k,), the region of each cluster: nodes stay in it, and clusters may become empty."""

    def fold(self, reduction: Reduction[Answer], name: str) -> Answer:
        """Fold one pass."""
        self.passes += 1
        return self.source.fold(reduction, name=name)

    def random(self) -> np.random.Generator:
        """Return new random numbers, the same in each run."""
        self.rounds += 1
        return stream(self.method.seed, Stream.GRAPH_ROUNDS, self.rounds)

    def partition(self, labels: Labels, births: int = 0, deaths: int = 0) -> Partition:
        """Return clusters, (n,) labels, with their totals: one pass."""
        k = int(labels.max()) + 1
        if self.within is not None:
            k = len(self.within)
        tally = Tally(labels, self.method.normalized, self.graph.exact)
        totals = self.fold(tally, "tally").whole(k)
        return self.with_totals(labels, totals, births, deaths)

    def with_totals(
        self, labels: Labels, totals: Totals, births: int = 0, deaths: int = 0
    ) -> Partition:
        """Return clusters, (n,) labels, with given totals."""
        objective = self.price * int(np.count_nonzero(totals.sizes)) - fsum(kept_shares(totals))
        return Partition(labels, totals, objective, births, deaths)

    def lower_labels(self, before: Partition, labels: Labels | None) -> Partition:
        """Return the clusters of `labels`, (n,), if these are lower, else `before`: one pass."""
        if labels is None:
            return before
        after = self.partition(labels, before.births, before.deaths)
        return after if after.objective < before.objective else before

    def contract(self, labels: Labels, masses: Float64Array) -> csr_array:
        """Return the graph between clusters, (k, k), of masses (k,), without too light links."""
        k = len(masses)
        most = k if self._whole else max(MIN_LINKS, MAX_LINKS // k)
        any_blocks = self._whole and self.graph.exact
        reduction = Contraction(labels, masses, self.method.normalized, most, any_blocks)
        found = self.fold(reduction, "contract").spread(np.arange(k))
        if most >= k:
            return symmetrize(found)
        return csr_array(found.maximum(found.T))

    @property
    def _whole(self) -> bool:
        """Whether the coordinator may have all links between clusters in memory."""
        return self.graph.links <= MAX_LINKS

    # Merges

    def merge(self, before: Partition, goal: int) -> tuple[Partition, int]:
        """Merge clusters while that gains and k > `goal`; return how many are gone."""
        masses = before.totals.masses
        joint = self.merge_all(self.contract(before.labels, masses), masses, goal)
        merged = len(masses) - len(joint.masses)
        if not merged:
            return before, 0
        labels = relabel_nodes(before.labels, joint.labels)
        counts = before.births, before.deaths
        if not (self._whole and self.graph.exact):
            return self.partition(labels, *counts), merged
        sizes = np.bincount(joint.labels, before.totals.sizes).astype(np.int64)
        totals = Totals(joint.kept, joint.masses, sizes)
        return self.with_totals(labels, totals, *counts), merged

    def merge_all(self, graph: csr_array, masses: Float64Array, goal: int) -> Joint:
        """Return the clusters after merges."""
        joint = Joint.of(graph, masses)
        while len(joint.masses) > goal:
            after = self._merge_once(joint, len(joint.masses) - goal)
            if after is None:
                break
            joint = after
        return joint

    def _merge_once(self, joint: Joint, most: int) -> Joint | None:
        """Return the clusters after at most `most` best merges; None if none gains."""
        random, graph, masses = self.random(), joint.graph, joint.masses
        partner, gains = merge_partners(graph, masses, self.price, int(random.integers(2**32)))
        willing = np.flatnonzero(gains > self._least_gain(joint.kept / masses))
        if not willing.size:
            return None
        pairs = mutual_partners(willing, partner, gains)
        if len(pairs) < FEW_PAIRS * len(willing):
            stars = joint.join(join_stars(willing, partner, gains, most, random))
            if stars.value(self.price) < joint.value(self.price):
                return stars
        lower = pairs[(pairs < partner[pairs]) | (partner[partner[pairs]] != pairs)]
        best = lower[np.argsort(-gains[lower], kind="stable")[:most]]
        return joint.join(join_pairs(best, partner))

    def _least_gain(self, rates: Float64Array) -> float:
        """Return what a move must gain: more than the rounding of its own evaluation."""
        return least_gain(self.method.price, np.abs(rates).max(keepdims=True))

    # Moves

    def move(self, before: Partition, most: int) -> Partition:
        """Move nodes in at most `most` rounds; return lower clusters, or `before`.

        Nodes that would gain by moving alone then move one after the other, if they still gain:
        each to its best cluster by then.
        """
        after = before
        for _ in range(most):
            proposed = self._propose_moves(after)
            if not proposed.rows.size:
                break
            lower = self._move_in_turn(after, proposed)
            cuts = self.method.cuts(lower.totals)
            small = self.method.little(after.objective, lower.objective, cuts, FINER)
            after = lower
            if small:
                break
        if after is before:
            return before
        # totals are sums of changes; sums of weights that are no whole numbers are made anew
        summed = self.with_totals(*after[:2], *after[3:])
        if not self.graph.exact:
            summed = self.partition(after.labels, *after[3:])
        return summed if summed.objective < before.objective else before

    def _rule(self, totals: Totals) -> MoveRule:
        return MoveRule(self.price, self._least_gain(kept_shares(totals)), self.method.normalized)

    def _propose_moves(self, found: Partition) -> NodeMoves:
        """Return the nodes that would gain by moving alone: one pass."""
        most, every = MOVING_LINKS // self.source.plan.n_blocks, self.graph.links <= MOVING_LINKS
        if every:
            most = MOVING_LINKS
        rule = self._rule(found.totals)
        scan = NodeMoveScan(found.labels, found.totals, rule, most, self.within, every)
        runs = self.fold(scan, "move")
        return NodeMoves.join(runs)

    def _move_in_turn(self, before: Partition, proposed: NodeMoves) -> Partition:
        """Return the clusters after nodes have moved; their totals are sums of changes."""
        labels, k = before.labels.copy(), len(before.totals.masses)
        rule = self._rule(before.totals)
        found, fell = move_nodes(proposed, labels, before.totals, rule, self.within)
        objective = before.objective - fell
        if self.within is not None:
            return Partition(labels, found, objective)
        births = len(found.masses) - k
        kept = np.flatnonzero(found.sizes)
        numbers = np.full(len(found.masses), ALONE, np.int32)
        numbers[kept] = np.arange(len(kept))
        deaths = before.deaths + len(found.masses) - len(kept)
        totals = Totals(*(values[kept] for values in vars(found).values()))
        labels = relabel_nodes(labels, numbers)
        return Partition(labels, totals, objective, before.births + births, deaths)

    # Splits

    def split(self, before: Partition, pieces: Labels) -> tuple[Partition, int]:
        """Split clusters in two if that gains; return how many as well.

        Halves are made of the parts that `pieces`, (n,) labels, cut from the clusters: clusters of
        an earlier step, or random sides of the nodes.  Then nodes move between the two halves of a
        cluster.
        """
        k = len(before.totals.masses)
        parts, owners = intersect(before.labels, pieces)
        halves = self._merge_to_halves(*self._contract_parts(parts, len(owners)), owners)
        homes = np.zeros(int(halves.max()) + 1, np.intp)
        homes[halves] = owners
        free = replace(self, price=0.0, within=homes)
        halved = free.move(free.partition(relabel_nodes(parts, halves)), MOVES_BETWEEN_HALVES)
        self.rounds, self.passes = free.rounds, free.passes
        rates = kept_shares(halved.totals)
        gains = total(homes, rates, k) - kept_shares(before.totals) - self.price
        both = np.bincount(homes[halved.totals.sizes > 0], minlength=k) == 2
        pays = both & (gains > self._least_gain(rates))
        second = np.ones(len(homes), np.bool_)
        second[np.unique(homes, return_index=True)[1]] = False
        leaves = second & pays[homes]
        labels = relabel_nodes(halved.labels, np.where(leaves, k + np.cumsum(leaves) - 1, homes))
        return self.partition(labels, before.births, before.deaths), int(np.count_nonzero(pays))

    def _contract_parts(self, parts: Labels, m: int) -> tuple[csr_array, Float64Array]:
        """Return the graph between parts, (n,) labels, and their masses, (m,)."""
        linked = parts >= 0
        masses = total(parts[linked].astype(np.intp), self.graph.masses[linked], m)
        return self.contract(parts, masses), masses

    def _merge_to_halves(
        self, graph: csr_array, masses: Float64Array, owners: IndexArray
    ) -> IndexArray:
        """Merge parts of owners, (parts,), within their clusters to at most two halves each."""
        labels = np.arange(len(owners))
        while True:
            done = np.bincount(owners)[owners] <= 2
            regions = np.where(done, -1 - np.arange(len(owners)), owners)
            seed = int(self.random().integers(2**32))
            partner, gains = merge_partners(graph, masses, 0.0, seed, regions)
            willing = np.flatnonzero(partner >= 0)
            if not willing.size:
                return labels
            joint = join_pairs(mutual_partners(willing, partner, gains), partner)
            labels, graph = joint[labels], contract_graph(graph, joint)
            masses = total(joint, masses, graph.shape[0])
            owners = owners[np.unique(joint, return_index=True)[1]]

    # The search of pieces

    def regroup(self, before: Partition, finer: tuple[Labels, ...]) -> Partition:
        """Search for the best clusters of few pieces.

        Pieces are nodes, or what the clusters of earlier steps, `finer`, cut from the present ones,
        or the present clusters: the finest of which there are at most `MOST_PIECES`.  More clusters
        than that stay as they are.
        """
        nodes = np.where(before.labels >= 0, np.arange(len(before.labels)), ALONE)
        for cuts in (nodes, *reversed(finer), before.labels):
            parts, owners = intersect(before.labels, cuts)
            if len(owners) <= MOST_PIECES:
                links, masses = self._contract_parts(parts, len(owners))
                pieces = PieceProblem.of(links.toarray(), masses, self.price)
                clusters = search_partitions(pieces, owners, self.random())
                after = self.lower_labels(before, relabel_nodes(parts, clusters))
                if after is before:
                    return before
                return self.move(after, MAX_MOVE_ROUNDS)
        return before


def join_stars(
    willing: IndexArray,
    partner: IndexArray,
    gains: Float64Array,
    most: int,
    random: np.random.Generator,
) -> IndexArray:
    """Return numbers, (k,), after at most `most` willing clusters joined partners that stay."""
    joint = np.arange(len(partner))
    goes = np.zeros(len(partner), np.bool_)
    goes[willing] = random.random(len(willing)) < 0.5
    movers = willing[goes[willing] & ~goes[partner[willing]]]
    movers = movers[np.argsort(-gains[movers], kind="stable")[:most]]
    joint[movers] = partner[movers]
    return relabel(joint)


def mutual_partners(willing: IndexArray, partner: IndexArray, gains: Float64Array) -> IndexArray:
    """Return the willing clusters, (w,), that are their best partner's best.

    If there are none, return the one with the greatest gain.

    `partner` and `gains` are (k,), the best partner of each cluster and what the merge gains.
    """
    pairs: IndexArray = willing[partner[partner[willing]] == willing]
    if pairs.size:
        return pairs
    best: IndexArray = willing[[np.argmax(gains[willing])]]
    return best


def join_pairs(pairs: IndexArray, partner: IndexArray) -> IndexArray:
    """Return (k,), numbers after the clusters of `pairs` have joined their partners."""
    joint = np.arange(len(partner))
    joint[np.maximum(pairs, partner[pairs])] = np.minimum(pairs, partner[pairs])
    return relabel(joint)


def intersect(labels: Labels, cuts: Labels | IndexArray) -> tuple[Labels, IndexArray]:
    """Return the parts, (n,), that `cuts` make of clusters, and the cluster of each, (parts,)."""
    k, linked = int(labels.max()) + 1, labels >= 0
    keys = cuts[linked].astype(np.int64) * k + labels[linked]
    pairs, numbers = np.unique(keys, return_inverse=True)
    parts = np.full(len(labels), ALONE, np.int32)
    parts[linked] = numbers
    return parts, pairs % k
