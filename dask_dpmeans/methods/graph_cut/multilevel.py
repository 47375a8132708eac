"""Graph cuts with a price for a cluster (Kulis & Jordan 2012, section 5.2), by merges and moves of exact gain.

Cut + penalty * k is the objective of weighted kernel DP-means for a kernel made of the graph (theorem 5.3), so that a
clustering can be judged, and changed, by links alone.  A cut is 0 at k = 1, so one cluster is best at penalty >= 0;
with a negative penalty a cluster pays for itself where it keeps enough of its links inside.  A single node keeps none:
no birth at a threshold ever pays, and Algorithm 1 stays at its one cluster.  This method comes from the other end. Each
node starts as a cluster.  Clusters merge with the partner of the greatest gain, where each is the other's best, until
there are half as many; then nodes move, judged alone but many at a time, to the cluster where they gain most; so on
while merges gain.  In the end clusters are split, between the clusters of before that they came from and then at
random, nodes move between the two halves, and where that gains these stay.  Last, nodes of a small graph, or pieces of
the clusters of a large one, are searched as `pieces` does; and where Algorithm 1 ends lower than all this, the fit goes
on from its clusters.  What does not lower the objective is not done.

A node that gains nothing by moving alone is also nearer to its own cluster's mean than to all others, in the kernel's
space: what the moves leave is a fixed point of the kernel's sweeps too (Dhillon, Guan & Kulis 2007, section 4.4).
"""

import math
from dataclasses import dataclass, replace
from math import fsum
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.engine.plan import Answer, Reduction, Source
from dask_dpmeans.kernels.block import Float64Array, IndexArray, Labels
from dask_dpmeans.kernels.graph import (
    ALONE,
    Contraction,
    NodeMoveScan,
    RowMoves,
    Tally,
    Totals,
    contract_graph,
    merge_partners,
    symmetrize,
)
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.pieces import MOST_PIECES, PieceProblem, least_gain, search_partitions
from dask_dpmeans.methods.dpmeans.batch import check_number
from dask_dpmeans.methods.graph_cut import sweep
from dask_dpmeans.methods.graph_cut.objective import CutMethod, CutState, shares

HALVED_ABOVE = 0.5
"""Nodes move each time that merges have left half of the clusters, or three quarters once a cluster costs less than
this share of what a node alone does.  Planted partitions at the edge of what pays, of 20 x 500 nodes: with halves alone
6 of 8 ended above the planted clusters' J."""
FINER = 100
"""Nodes move until a round lowers the objective by less than tol / FINER of cut + |penalty| k."""
MOVES_BETWEEN = 2
"""Rounds of moves between merges."""
PIECES = 2
"""Clusters are split between those of an earlier step, from which merges have left one of so many at least twice; after
that in two at random.  Where pieces were mixed, whole planted blocks had stayed together: random halves parted them."""
MOVES_BETWEEN_HALVES = 10
"""Rounds of moves between the halves that a cluster may be split into."""
MOST_ROUNDS = 100
"""Rounds of moves after the last merge."""
LEAST_SHARE = 1e-3
"""Of the nodes that would gain by moving alone half move in a round, a half of that after one that gained nothing
together, and below this share the best alone."""
MOST_LINKS = 2**25
"""The links between clusters that the coordinator holds at a time, ..."""
LEAST_LINKS = 2**3
"""... of which each cluster has so many in any case.  Those left out would only add to what merges gain."""
FEW_PAIRS = 0.1
"""Where fewer of the clusters that would merge than this share are each other's best, all that want the same merge."""


@dataclass(frozen=True)
class State(CutState):
    """Where a clustering of a graph stands after a number of steps: all that the next one needs."""

    finer: Labels
    """(n,), the clusters of an earlier step, ..."""
    pieces: Labels
    """(n,), ... and of one before that: parts that clusters are split between in the end."""
    masses: Float64Array
    """(n,), of the nodes, as the weights of clusters."""
    alone: float
    """The objective of each node alone, by their number."""
    merging: bool
    """Whether merges still gain."""
    merged: int
    """Clusters that became part of another in this step."""
    split: int
    """Clusters that were split between their pieces."""
    births: int
    """Clusters that a node or a piece opened in this step, moving."""
    rounds: int
    """Rounds of random choices so far; each draws its own numbers."""

    @property
    def moves(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """(6,), moves of the search: merges."""
        return np.array([self.merged, self.split, 0, 0, 0, 0], np.int64)


class Partition(NamedTuple):
    """Clusters of nodes, none empty, and their objective."""

    labels: Labels
    totals: Totals
    objective: float
    births: int = 0
    deaths: int = 0


@dataclass(frozen=True)
class Method(CutMethod):
    """Graph clustering, with its parameters."""

    name: ClassVar[str] = "graph-cut"
    state: ClassVar[type[State]] = State

    def init(self, source: Source) -> State:
        """Every node a cluster."""
        found = self.inspected(source)
        masses = self.masses(found)
        linked = masses > 0
        labels = np.where(linked, np.cumsum(linked) - 1, ALONE).astype(np.int32)
        kept = found.loops if self.normalized else found.loops - found.degrees
        nothing = np.zeros(int(np.count_nonzero(linked)))
        return State(
            step=0,
            labels=labels,
            weights=nothing,
            inertias=nothing,
            objective=math.inf,
            finer=labels,
            pieces=labels,
            masses=masses,
            alone=self.price - float((kept[linked] / masses[linked]).mean()),
            merging=True,
            merged=0,
            split=0,
            births=0,
            deaths=0,
            rounds=0,
            rows_read=2 * source.plan.n_rows,
        )

    def step(self, source: Source, state: State) -> State:
        """The next state: merges down to fewer clusters and moves; once merges gain no more, splits as well."""
        run = Run(self, source, state.masses, self.price, state.rounds)
        before = run.partition(state.labels)
        finer, pieces, split = state.finer, state.pieces, 0
        after, merged = run.merge(before, self.fewer(before, state.alone)) if state.merging else (before, 0)
        merging = merged > 0
        if merging:
            after = run.move(after, MOVES_BETWEEN)
            if PIECES * len(before.totals.masses) <= finer.max() + 1:
                finer, pieces = before.labels, finer
        else:
            parts = pieces if state.merging else run.random().integers(0, 2, source.plan.n_rows, np.int32)
            after, split = run.split(run.move(before, MOST_ROUNDS), parts)
            after, merged = run.merge(after, 0)
            after = run.move(after, MOST_ROUNDS)
            if state.merging:
                after = run.lower_of(after, self.swept(run))
            after = run.regroup(after, (finer, pieces))
        if not merging or state.step + 1 >= self.max_iter:
            check_number(len(after.totals.masses), self.max_clusters, self.penalty)
        return State(
            step=state.step + 1,
            labels=after.labels,
            weights=after.totals.masses,
            inertias=self.cuts(after.totals),
            objective=self.objective(after.totals),
            finer=finer,
            pieces=pieces,
            masses=state.masses,
            alone=state.alone,
            merging=merging,
            merged=merged,
            split=split,
            births=after.births,
            deaths=after.deaths,
            rounds=run.rounds,
            rows_read=state.rows_read + run.passes * source.plan.n_rows,
        )

    def swept(self, run: "Run") -> Labels | None:
        """(n,), the clusters that Algorithm 1 ends with; None where it has no answer, as clusters cost nothing."""
        found, n = self.inspected(run.source), run.source.plan.n_rows
        run.passes += 1
        if self.normalized and not found.loops.any():  # nothing opens: these would be five more passes
            return np.where(run.masses > 0, 0, ALONE).astype(np.int32)
        method = sweep.Method(self.penalty, self.normalized, self.max_iter, self.tol, None, self.seed)
        start = method.begun(run.source, found)
        if start is None:
            return None
        *_, last = iterate(run.source, method, start)
        run.passes += (last.state.rows_read - start.rows_read) // n
        labels: Labels = last.state.labels
        return labels

    def fewer(self, found: Partition, alone: float) -> int:
        """Clusters that merges leave of these before nodes move."""
        k = len(found.totals.masses)
        return k // 2 if found.objective > HALVED_ABOVE * max(alone, 0.0) * k else 3 * k // 4

    def done(self, before: State, after: State) -> bool:
        """Whether `after` is the end: a step without merges that gained little."""
        return not (before.merging or after.merging) and self.little(before.objective, after.objective, after.inertias)


@dataclass
class Run:
    """One step on a graph: it counts passes, and random choices."""

    method: Method
    source: Source
    masses: Float64Array
    """(n,), of the nodes."""
    price: float
    """Of a cluster."""
    rounds: int
    passes: int = 0
    within: IndexArray | None = None
    """(k,), nodes move between clusters of one number alone, however few are left there."""

    def fold(self, reduction: Reduction[Answer], name: str) -> Answer:
        """A pass."""
        self.passes += 1
        return self.source.fold(reduction, name=name)

    def random(self) -> np.random.Generator:
        """New random numbers, the same in each run."""
        self.rounds += 1
        return np.random.default_rng([self.method.seed, self.rounds])

    def partition(self, labels: Labels, births: int = 0, deaths: int = 0) -> Partition:
        """Clusters with their totals: one pass."""
        k = int(labels.max()) + 1 if self.within is None else len(self.within)
        totals = self.fold(Tally(labels, self.method.normalized), "tally").whole(k)
        return Partition(labels, totals, objective(totals, self.price), births, deaths)

    def contract(self, labels: Labels, masses: Float64Array) -> csr_array:
        """The graph between clusters of these masses: one pass.  Where it has many links the lightest are left out."""
        k = len(masses)
        most = max(LEAST_LINKS, MOST_LINKS // k)
        found = self.fold(Contraction(labels, masses, self.method.normalized, most), "contract").spread(np.arange(k))
        return symmetrize(found) if most >= k else csr_array(found.maximum(found.T))

    def merge(self, before: Partition, goal: int) -> tuple[Partition, int]:
        """The clusters after merges, down to so many as long as these gain, and how many went."""
        k = len(before.totals.masses)
        clusters = self._merged(self.contract(before.labels, before.totals.masses), before.totals.masses, goal)
        merged = k - int(clusters.max()) - 1
        if not merged:
            return before, 0
        return self.partition(relabelled(before.labels, clusters), before.births, before.deaths), merged

    def _merged(self, graph: csr_array, masses: Float64Array, goal: int) -> IndexArray:
        """(k,), the cluster that each becomes part of."""
        labels = np.arange(len(masses))
        while len(masses) > goal:
            joint = self._joint(graph, masses, len(masses) - goal)
            if joint is None:
                break
            labels, graph = joint[labels], contract_graph(graph, joint)
            masses = total(joint, masses, graph.shape[0])
        return labels

    def _joint(self, graph: csr_array, masses: Float64Array, most: int) -> IndexArray | None:
        """(k,), numbers after one round of at most so many merges, the best; None where none gains."""
        random = self.random()
        price = self.price
        partner, gains = merge_partners(graph, masses, price, int(random.integers(2**32)))
        willing = np.flatnonzero(gains > self._least(graph.diagonal() / masses))
        if not willing.size:
            return None
        pairs = mutual(willing, partner, gains)
        if len(pairs) < FEW_PAIRS * len(willing):
            joint = stars(willing, partner, gains, most, random)
            after = contract_graph(graph, joint)
            if value(after, total(joint, masses, after.shape[0]), price) < value(graph, masses, price):
                return joint
        lower = pairs[(pairs < partner[pairs]) | (partner[partner[pairs]] != pairs)]
        best = lower[np.argsort(-gains[lower], kind="stable")[:most]]
        return joined(best, partner)

    def move(self, before: Partition, most: int) -> Partition:
        """After rounds of moves of nodes, each lower than the one before."""
        share, proposed = 0.5, None
        for _ in range(most):
            proposed = self._proposals(before) if proposed is None else proposed
            if not proposed.rows.size:
                break
            chosen = np.flatnonzero(self.random().random(len(proposed.rows)) < share)
            if share < LEAST_SHARE or not chosen.size:
                chosen = np.argmax(proposed.gains, keepdims=True)  # what it gains alone is exact
            after = self._moved(before, proposed, chosen)
            if after.objective < before.objective:
                cuts = self.method.cuts(after.totals)
                small = self.method.little(before.objective, after.objective, cuts, FINER)
                before, proposed, share = after, None, min(0.5, 2 * share)
                if small:
                    break
            elif len(chosen) == 1:
                break
            else:
                share /= 2
        return before

    def lower_of(self, before: Partition, labels: Labels | None) -> Partition:
        """Other clusters where these are lower, or else those of before."""
        if labels is None:
            return before
        other = self.partition(labels, before.births, before.deaths)
        return other if other.objective < before.objective else before

    def regroup(self, before: Partition, finer: tuple[Labels, ...]) -> Partition:
        """The clusters after a search of all that can be made of few pieces.

        These are nodes, or what clusters of earlier steps cut from those of now, or these: the finest of which there
        are no more than `MOST_PIECES`.  More clusters than that stay as they are.
        """
        nodes = np.where(before.labels >= 0, np.arange(len(before.labels)), ALONE)
        for cuts in (nodes, *reversed(finer), before.labels):
            parts, homes = divided(before.labels, cuts)
            if len(homes) <= MOST_PIECES:
                labels = relabelled(parts, self._regrouped(parts, homes))
                after = self.lower_of(before, labels)
                return before if after is before else self.move(after, MOST_ROUNDS)
        return before

    def _regrouped(self, parts: Labels, homes: IndexArray) -> IndexArray:
        """(pieces,), the clusters of pieces, (n,), which are those of `homes`, (pieces,), at the start."""
        m, linked = len(homes), parts >= 0
        masses = total(parts[linked].astype(np.intp), self.masses[linked], m)
        links = self.fold(Contraction(parts, masses, self.method.normalized, m), "contract").spread(np.arange(m))
        pieces = PieceProblem.of(symmetrize(links).toarray(), masses, self.price)
        return search_partitions(pieces, homes, self.random())

    def split(self, before: Partition, pieces: Labels) -> tuple[Partition, int]:
        """After splits of clusters in two that gain, and how many.

        Halves form from pieces, (n,) labels: clusters of before, cut where those of now divide them; or sides drawn for
        each node.  Then nodes move between the two halves of a cluster.
        """
        k, linked = len(before.totals.masses), before.labels >= 0
        cut, within = divided(before.labels, pieces)
        masses = total(cut[linked].astype(np.intp), self.masses[linked], len(within))
        halves = self._halves(self.contract(cut, masses), masses, within)
        homes = np.zeros(int(halves.max()) + 1, np.intp)
        homes[halves] = within
        free = replace(self, price=0.0, within=homes)
        halved = free.move(free.partition(relabelled(cut, halves)), MOVES_BETWEEN_HALVES)
        self.rounds, self.passes = free.rounds, free.passes
        rates = shares(halved.totals)
        gains = total(homes, rates, k) - shares(before.totals) - self.price
        both = np.bincount(homes[halved.totals.sizes > 0], minlength=k) == 2
        pays = both & (gains > self._least(rates))
        second = np.ones(len(homes), np.bool_)
        second[np.unique(homes, return_index=True)[1]] = False
        leaves = second & pays[homes]
        labels = relabelled(halved.labels, np.where(leaves, k + np.cumsum(leaves) - 1, homes))
        return self.partition(labels, before.births, before.deaths), int(np.count_nonzero(pays))

    def _halves(self, graph: csr_array, masses: Float64Array, homes: IndexArray) -> IndexArray:
        """Pieces merged within their clusters until each has two at the most."""
        labels, within = np.arange(len(homes)), homes
        while True:
            done = np.bincount(within)[within] <= 2
            barred = np.where(done, -1 - np.arange(len(within)), within)
            partner, gains = merge_partners(graph, masses, 0.0, int(self.random().integers(2**32)), barred)
            willing = np.flatnonzero(partner >= 0)
            if not willing.size:
                return labels
            joint = joined(mutual(willing, partner, gains), partner)
            labels, graph = joint[labels], contract_graph(graph, joint)
            masses, within = total(joint, masses, graph.shape[0]), within[np.unique(joint, return_index=True)[1]]

    def _proposals(self, found: Partition) -> RowMoves:
        least = self._least(shares(found.totals))
        reduction = NodeMoveScan(found.labels, found.totals, self.price, least, self.method.normalized, self.within)
        return self.fold(reduction, "move")

    def _least(self, rates: Float64Array) -> float:
        """What a move must gain: more than the rounding of its own evaluation."""
        return least_gain(self.method.price, np.abs(rates).max(keepdims=True))

    def _moved(self, before: Partition, proposed: RowMoves, chosen: IndexArray) -> Partition:
        """The clusters after some of the proposals."""
        labels, targets = before.labels.copy(), proposed.targets[chosen]
        k, alone = len(before.totals.masses), targets == ALONE
        targets = np.where(alone, k + np.cumsum(alone) - 1, targets)
        labels[proposed.rows[chosen]] = targets
        births = int(np.count_nonzero(alone))
        if self.within is not None:
            return self.partition(labels)
        sizes = np.bincount(labels[labels >= 0], minlength=k + births)
        kept = np.flatnonzero(sizes)
        numbers = np.full(k + births + 1, ALONE, np.int32)  # the last is for those without links
        numbers[kept] = np.arange(len(kept))
        return self.partition(numbers[labels], before.births + births, before.deaths + k + births - len(kept))


def stars(
    willing: IndexArray, partner: IndexArray, gains: Float64Array, most: int, random: np.random.Generator
) -> IndexArray:
    """(k,), numbers after some of the willing, drawn, have joined partners that stay: at most so many, the best."""
    joint = np.arange(len(partner))
    goes = np.zeros(len(partner), np.bool_)
    goes[willing] = random.random(len(willing)) < 0.5
    movers = willing[goes[willing] & ~goes[partner[willing]]]
    movers = movers[np.argsort(-gains[movers], kind="stable")[:most]]
    joint[movers] = partner[movers]
    return numbered(joint)


def mutual(willing: IndexArray, partner: IndexArray, gains: Float64Array) -> IndexArray:
    """Those that are the best of their best, in pairs; where there are none, the one that would gain the most."""
    pairs = willing[partner[partner[willing]] == willing]
    return pairs if pairs.size else willing[[np.argmax(gains[willing])]]


def joined(pairs: IndexArray, partner: IndexArray) -> IndexArray:
    """(k,), numbers after these have become one with their partners."""
    joint = np.arange(len(partner))
    joint[np.maximum(pairs, partner[pairs])] = np.minimum(pairs, partner[pairs])
    return numbered(joint)


def numbered(labels: IndexArray) -> IndexArray:
    """The same clusters, numbered from 0 on in the order of their labels."""
    return np.unique(labels, return_inverse=True)[1]


def relabelled(labels: Labels, numbers: IndexArray | Labels) -> Labels:
    """(n,), what the clusters of nodes, (n,), are numbered now, (k,); nodes without links stay so."""
    return np.append(numbers, ALONE).astype(np.int32)[labels]


def divided(labels: Labels, cuts: Labels | IndexArray) -> tuple[Labels, IndexArray]:
    """(n,) the pieces of clusters that other clusters cut from them, and the cluster of each piece, (pieces,)."""
    k, linked = int(labels.max()) + 1, labels >= 0
    pairs, numbers = np.unique(cuts[linked].astype(np.int64) * k + labels[linked], return_inverse=True)
    pieces = np.full(len(labels), ALONE, np.int32)
    pieces[linked] = numbers
    return pieces, pairs % k


def objective(totals: Totals, price: float) -> float:
    """Price * k - shares, which is cut + penalty * k but for rounding."""
    return price * int(np.count_nonzero(totals.sizes)) - fsum(shares(totals))


def value(graph: csr_array, masses: Float64Array, price: float) -> float:
    """The objective of a graph between clusters, but for a constant."""
    return price * len(masses) - fsum(graph.diagonal() / masses)
