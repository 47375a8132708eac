"""The search for the lowest objective of kernel DP-means in its exact form: moves judged by sums of similarities.

It begins with the sweeps of Algorithm 1, step by step as without a search, so that it never ends above these.  Where
they have settled, rows move alone, each move by its exact effect on the objective, many at a time where they do not
touch.  Then clusters are cut into pieces, which are searched as `pieces` does: they move, merge and split by the sums
of similarities between them, which are all that the objective of clusters of these pieces needs.  Up to `MOST_PIECES`
rows are pieces themselves; of more rows each goes to the nearest of some rows of its cluster, drawn anew for each try.
What ends lower is swept again, and so on until nothing does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import IndexArray, Int64Array, Labels
from dask_dpmeans.kernels.graph import RowMoves
from dask_dpmeans.kernels.kernel_centers import ImplicitCenters, Near, Nearest, Partition
from dask_dpmeans.kernels.kernel_moves import GroupSimilarities, NearestPivots, RowMoveScan
from dask_dpmeans.kernels.pieces import MOST_PIECES, PieceProblem, least_gain, relabel, search_partitions
from dask_dpmeans.methods.kernel import batch

PIECES_A_CLUSTER = 2**2
"""Pieces that a cluster is cut into at least, ..."""
TRIES = 2
"""... as often, with other pieces, without a gain before the search ends."""
FINER = 5
"""Beyond rows that are pieces themselves, gains of less than tol / FINER of the objective are none."""


@dataclass(frozen=True)
class State(batch.State):
    """Where a search stands after a number of steps: all that the next one needs."""

    settled: bool
    """Whether sweeps lower the objective no more."""
    rounds: int
    """Rounds of random choices so far; each draws its own numbers."""
    moves: Int64Array
    """(6,), merges and splits of this step; the others are 0."""


@dataclass(frozen=True)
class Method(batch.Parameters):
    """The search, with its parameters."""

    name: ClassVar[str] = "kernel-search"
    state: ClassVar[type[State]] = State

    seed: int = 0
    """Of all random choices."""

    def seeded(self, seed: int) -> "Method":
        """The same search with another seed."""
        return replace(self, seed=seed)

    def init(self, source: Source) -> State:
        """The state before the first sweep."""
        return State(**vars(super().init(source)), settled=False, rounds=0, moves=np.zeros(6, np.int64))

    def step(self, source: Source, state: State) -> State:
        """One sweep; where these have settled, what the first moves lead to that lower the objective."""
        if not state.settled:
            after = self._sweep(source, state)
            if after.objective < state.objective:
                return replace(after, settled=self.swept_out(state, after))
            state = replace(state, rows_read=after.rows_read)
        return self._searched(source, state)

    def done(self, before: State, after: State) -> bool:
        """Never: the search ends with the step in which nothing lowers the objective."""
        return False

    def _sweep(self, source: Source, state: State) -> State:
        return State(**vars(self.swept(source, state)), settled=False, rounds=state.rounds, moves=np.zeros(6, np.int64))

    def _searched(self, source: Source, state: State) -> State:
        """The state after the first moves that lower it; the same objective where there are none."""
        found = Found.of(self, source, state)
        state = replace(state, rows_read=state.rows_read + 3 * source.plan.n_rows)
        for labels, rounds, passes in found.partitions(state.rounds):
            state = replace(state, rounds=rounds, rows_read=state.rows_read + passes * source.plan.n_rows)
            if labels is None:
                continue
            start = replace(state, next_labels=labels, weights=np.zeros(int(labels.max()) + 1))
            after = self._sweep(source, start)
            if after.objective < state.objective - found.rounding:
                return replace(after, moves=moves_of(state.next_labels, labels))
            state = replace(state, rows_read=after.rows_read)
        return state


EXACT: dict[str, type[batch.Method] | type[Method]] = {each.name: each for each in (batch.Method, Method)}
"""The methods whose centers are means in the space of a kernel, by their names in a run store."""


@dataclass(frozen=True)
class Found:
    """What passes find of the clusters that a search stands at."""

    method: Method
    source: Source
    centers: ImplicitCenters
    """The means of the clusters."""
    near: Near
    """The nearest of them for each row."""
    objective: float

    @classmethod
    def of(cls, method: Method, source: Source, state: State) -> "Found":
        """Three passes."""
        centers = method.means(source, state.next_labels, len(state.weights))
        return cls(method, source, centers, source.fold(Nearest(centers), name="nearest"), state.objective)

    @property
    def rounding(self) -> float:
        """Of the objective, more than what its evaluation rounds off."""
        weights = self.centers.partition.weights
        return least_gain(0.0, weights * self.near.norms)

    @property
    def least(self) -> float:
        """What moves that are no search of single rows must gain."""
        return max(self.method.tol / FINER * self.objective, self.rounding)

    def partitions(self, rounds: int) -> Iterator[tuple[Labels | None, int, int]]:
        """Partitions that are lower, one after the other, None where none was found; rounds so far; passes for this."""
        partition = self.centers.partition
        rows = np.flatnonzero(partition.labels >= 0)
        if len(rows) <= MOST_PIECES:
            pieces = np.full(len(partition.labels), -1, np.int32)
            pieces[rows] = np.arange(len(rows))
            yield self._regrouped(pieces, rounds + 1), rounds + 1, 1
            return
        yield self._moved(), rounds, 1
        for _ in range(TRIES):
            left = np.arange(partition.k)
            while left.size:
                rounds += 1
                some = self._neighbors(int(left[0]))
                left = np.setdiff1d(left, some)
                yield self._regrouped(self._pieces(some, rounds), rounds), rounds, 3

    def _moved(self) -> Labels | None:
        """The clusters after moves of single rows, the best first, each of other clusters than those before it."""
        partition, gram = self.centers.partition, self.centers.gram
        k, price = partition.k, self.method.penalty
        least = least_gain(price, np.array([np.abs(self.centers.totals / partition.sizes).max()]))
        reduction = RowMoveScan(gram, partition, self.centers.totals, self.near.norms, price, least)
        moves = self.source.fold(reduction, name="move")
        chosen = disjoint(moves, partition.labels, k)
        if not moves.gains[chosen].sum() > self.least:
            return None
        labels, targets = partition.labels.astype(np.intp), moves.targets[chosen]
        alone = targets == k
        labels[moves.rows[chosen]] = np.where(alone, k + np.cumsum(alone) - 1, targets)
        return renumbered(labels)

    def _neighbors(self, cluster: int) -> IndexArray:
        """So many clusters, ascending, as can be searched together, the nearest to one of them: one pass."""
        partition = self.centers.partition
        most = MOST_PIECES // PIECES_A_CLUSTER
        if partition.k <= most:
            return np.arange(partition.k)
        own = Partition(np.where(partition.labels == cluster, np.int32(0), np.int32(-1)), partition.weights, 1)
        links = self.source.fold(GroupSimilarities(self.centers.gram, own, partition), name="between")[0]
        sizes = partition.sizes
        squared = self.centers.totals / (sizes * sizes) - 2 * links / (sizes * sizes[cluster])
        squared[cluster] = -np.inf
        return np.sort(np.argsort(squared, kind="stable")[:most])

    def _pieces(self, clusters: IndexArray, rounds: int) -> Labels:
        """(n,), the piece of each row of some clusters, -1 for other rows: one pass.

        Each row goes to the nearest of some rows of its cluster, drawn by weight * distance^2 from its mean.
        """
        partition = self.centers.partition
        random = np.random.default_rng([self.method.seed, rounds])
        with np.errstate(divide="ignore"):
            keys = random.exponential(size=len(partition.labels)) / (
                partition.weights * np.maximum(self.near.squared, 0)
            )
        each = MOST_PIECES // len(clusters)
        members = [partition.members(cluster) for cluster in clusters.tolist()]
        pivots = np.concatenate([rows[np.argsort(keys[rows], kind="stable")[:each]] for rows in members])
        reduction = NearestPivots(self.centers.gram, partition.labels, pivots, self.near.norms[pivots])
        return renumbered(self.source.fold(reduction, name="pieces"))

    def _regrouped(self, pieces: Labels, rounds: int) -> Labels | None:
        """The clusters after a search of pieces; None where it gains too little: one pass."""
        before, m = self.centers.partition, int(pieces.max()) + 1
        parts = Partition(pieces, before.weights, m)
        links = self.source.fold(GroupSimilarities(self.centers.gram, parts, parts), name="between")
        problem = PieceProblem.of(0.5 * (links + links.T), parts.sizes, self.method.penalty).centered()
        there = pieces >= 0
        homes = np.empty(m, np.int32)
        homes[pieces[there]] = before.labels[there]
        start = relabel(homes)
        after = search_partitions(problem, start, np.random.default_rng([self.method.seed, rounds, 1]))
        single = m == np.count_nonzero(there)
        gain = problem.objective(start) - problem.objective(after)
        if not gain > (problem.least if single else self.least):
            return None
        labels = before.labels.astype(np.intp)
        labels[there] = before.k + after[pieces[there]]
        return renumbered(labels)


def disjoint(moves: RowMoves, labels: Labels, k: int) -> IndexArray:
    """Places of moves, the greatest gains first, that leave and enter other clusters than those before them."""
    free, chosen = np.ones(k + 1, np.bool_), []
    for place in np.argsort(-moves.gains, kind="stable").tolist():
        home, target = labels[moves.rows[place]], moves.targets[place]
        if free[home] and free[target]:
            chosen.append(place)
            free[home] = False
            free[target] = target == k  # each opens one of its own
    return np.array(chosen, np.intp)


def renumbered(labels: Labels | IndexArray) -> Labels:
    """(n,), the same clusters, numbered from 0 on in the order of their labels; -1 stays."""
    found, there = np.full(len(labels), -1, np.int32), labels >= 0
    found[there] = relabel(labels[there])
    return found


def moves_of(before: Labels, after: Labels) -> Int64Array:
    """(6,), merges and splits that lead from clusters to others: clusters that are heir to no other, and its reverse.

    The heir of a cluster is the one that most of its rows go to.
    """
    there = before >= 0
    clusters, others = int(before.max()) + 1, int(after.max()) + 1
    pairs, counts = np.unique(before[there].astype(np.int64) * others + after[there], return_counts=True)
    olds, news = np.divmod(pairs, others)
    heirs, origins = last_of(olds, counts, news), last_of(news, counts, olds)
    return np.array([clusters - len(np.unique(heirs)), others - len(np.unique(origins)), 0, 0, 0, 0], np.int64)


def last_of(keys: Int64Array, counts: Int64Array, values: Int64Array) -> Int64Array:
    """The value of the greatest count for each key."""
    order = np.lexsort((counts, keys))
    last = np.append(np.flatnonzero(np.diff(keys[order])), len(keys) - 1)
    found: Int64Array = values[order[last]]
    return found
