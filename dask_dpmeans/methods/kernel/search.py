"""Search for the lowest objective of exact kernel DP-means, by moves and sums of similarities.

It begins with the sweeps of Algorithm 1, so that it never ends above them.  Once these have
settled, single rows move by their exact effect on the objective, many at a time if they do not
touch.  Then clusters are cut into pieces, which move, merge and split (`kernels.pieces`): the sums
of similarities between pieces are all that the objective needs.  Up to `MOST_PIECES` rows are
pieces themselves; of more rows each goes to the nearest of some random rows of its cluster.  A
lower partition is swept again, until nothing is lower.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from dask_dpmeans.engine.history import MoveCounts
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array, IndexArray, Int64Array, Labels
from dask_dpmeans.kernels.graph_cut.gains import RowMoves
from dask_dpmeans.kernels.kernel_centers import ImplicitCenters, Near, Nearest, Partition
from dask_dpmeans.kernels.kernel_moves import GroupSimilarities, NearestPivots, RowMoveScan
from dask_dpmeans.kernels.pieces import PieceProblem, least_gain, relabel, search_partitions
from dask_dpmeans.kernels.pieces_compiled import MOST_PIECES
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.common import MovedState
from dask_dpmeans.methods.kernel import batch

PIECES_PER_CLUSTER = 2**2
"""Least number of pieces of a cluster."""
TRIES = 2
"""Searches of random pieces without a gain before the search ends."""
TOL_SHARE = 5
"""Gains below tol / TOL_SHARE of the objective count as none, unless each row is a piece."""


@dataclass(frozen=True, kw_only=True)
class State(batch.State, MovedState):
    """State of a search after a number of steps."""

    settled: bool = False
    """Whether sweeps no longer lower the objective."""
    rounds: int = 0
    """Rounds of random choices so far; each draws its own numbers."""


@dataclass(frozen=True)
class Method(batch.Parameters):
    """The search for the lowest objective."""

    name: ClassVar[str] = "kernel-search"
    state: ClassVar[type[State]] = State

    seed: int = 0
    """The seed of all random choices."""

    def init(self, source: Source) -> State:
        return State(**vars(super().init(source)))

    def step(self, source: Source, state: State) -> State:
        """Do one sweep; once sweeps have settled, the first moves that lower the objective."""
        if not state.settled:
            after = self._sweep(source, state)
            if after.objective < state.objective:
                return replace(after, settled=self.is_last_sweep(state, after))
            state = replace(state, rows_read=after.rows_read)
        return self._search(source, state)

    def done(self, before: State, after: State) -> bool:
        """Return False: the search ends with the step in which nothing lowers the objective."""
        return False

    def _sweep(self, source: Source, state: State) -> State:
        """Return the state after one sweep."""
        return State(**vars(self.sweep(source, state)), rounds=state.rounds)

    def _search(self, source: Source, state: State) -> State:
        """Return the state after the first moves that lower it, else one of equal objective."""
        found = Neighborhood.of(self, source, state)
        state = replace(state, rows_read=state.rows_read + 3 * source.plan.n_rows)
        for labels, rounds, passes in found.partitions(state.rounds):
            rows_read = state.rows_read + passes * source.plan.n_rows
            state = replace(state, rounds=rounds, rows_read=rows_read)
            if labels is None:
                continue
            start = replace(state, next_labels=labels, weights=np.zeros(int(labels.max()) + 1))
            after = self._sweep(source, start)
            if after.objective < state.objective - found.rounding:
                return replace(after, moves=count_moves(state.next_labels, labels))
            state = replace(state, rows_read=after.rows_read)
        return state


EXACT: dict[str, type[batch.Method] | type[Method]] = {
    each.name: each for each in (batch.Method, Method)
}
"""Methods with centers in the space of a kernel, by their names in a run store."""


@dataclass(frozen=True)
class Neighborhood:
    """The clusters of a state, and lower partitions near them."""

    method: Method
    source: Source
    centers: ImplicitCenters
    """The means of the clusters."""
    near: Near
    """The nearest mean of each row."""
    objective: float

    @classmethod
    def of(cls, method: Method, source: Source, state: State) -> "Neighborhood":
        """Measure the clusters of a state: three passes."""
        centers = method.means(source, state.next_labels, len(state.weights))
        near = source.fold(Nearest(centers), name="nearest")
        return cls(method, source, centers, near, state.objective)

    @property
    def rounding(self) -> float:
        """A bound of the rounding of the objective."""
        weights = self.centers.partition.weights
        return least_gain(0.0, weights * self.near.norms)

    @property
    def least(self) -> float:
        """The least gain of moves, unless each row is a piece."""
        return max(self.method.tol / TOL_SHARE * self.objective, self.rounding)

    def partitions(self, rounds: int) -> Iterator["Candidate"]:
        """Yield partitions that should be lower."""
        partition = self.centers.partition
        rows = np.flatnonzero(partition.labels >= 0)
        if len(rows) <= MOST_PIECES:
            pieces = np.full(len(partition.labels), -1, np.int32)
            pieces[rows] = np.arange(len(rows))
            yield Candidate(self._search_pieces(pieces, rounds + 1), rounds + 1, 1)
            return
        yield Candidate(self._move_rows(), rounds, 1)
        for _ in range(TRIES):
            left = np.arange(partition.k)
            while left.size:
                rounds += 1
                some = self._neighbors(int(left[0]))
                left = np.setdiff1d(left, some)
                labels = self._search_pieces(self._pieces(some, rounds), rounds)
                yield Candidate(labels, rounds, 3)

    def _move_rows(self) -> Labels | None:
        """Return the clusters after disjoint moves of single rows, the best first: one pass."""
        partition, totals = self.centers.partition, self.centers.totals
        k, price = partition.k, self.method.penalty
        least = least_gain(price, np.array([np.abs(totals / partition.sizes).max()]))
        reduction = RowMoveScan(self.centers.gram, partition, totals, self.near.norms, price, least)
        moves = self.source.fold(reduction, name="move")
        chosen = disjoint_moves(moves, partition.labels, k)
        if not moves.gains[chosen].sum() > self.least:
            return None
        labels, targets = partition.labels.astype(np.intp), moves.targets[chosen]
        alone = targets == k
        labels[moves.rows[chosen]] = np.where(alone, k + np.cumsum(alone) - 1, targets)
        return renumber(labels)

    def _similarities(self, groups: Partition, others: Partition) -> Float64Array:
        """Return the sums of similarities between groups of rows, (k, l): one pass."""
        reduction = GroupSimilarities(self.centers.gram, groups, others)
        return self.source.fold(reduction, name="between")

    def _neighbors(self, cluster: int) -> IndexArray:
        """Return the clusters nearest to one, ascending, as many as one search takes: one pass."""
        partition = self.centers.partition
        most = MOST_PIECES // PIECES_PER_CLUSTER
        if partition.k <= most:
            return np.arange(partition.k)
        labels = np.where(partition.labels == cluster, np.int32(0), np.int32(-1))
        links = self._similarities(Partition(labels, partition.weights, 1), partition)[0]
        sizes = partition.sizes
        squared = self.centers.totals / (sizes * sizes) - 2 * links / (sizes * sizes[cluster])
        squared[cluster] = -np.inf
        return np.sort(np.argsort(squared, kind="stable")[:most])

    def _pieces(self, clusters: IndexArray, rounds: int) -> Labels:
        """Return (n,), the piece of each row of some clusters, -1 for other rows: one pass.

        Each row goes to the nearest of some rows of its cluster, drawn by weight * distance^2 from
        its mean.
        """
        partition = self.centers.partition
        random = stream(self.method.seed, Stream.KERNEL_PIECES, rounds)
        with np.errstate(divide="ignore"):
            chances = partition.weights * np.maximum(self.near.squared, 0)
            keys = random.exponential(size=len(partition.labels)) / chances
        each = MOST_PIECES // len(clusters)
        pivots = []
        for cluster in clusters.tolist():
            rows = partition.members(cluster)
            pivots.append(rows[np.argsort(keys[rows], kind="stable")[:each]])
        drawn = np.concatenate(pivots)
        norms = self.near.norms[drawn]
        reduction = NearestPivots(self.centers.gram, partition.labels, drawn, norms)
        return renumber(self.source.fold(reduction, name="pieces"))

    def _search_pieces(self, pieces: Labels, rounds: int) -> Labels | None:
        """Return the clusters, (n,), after a search of pieces, or None: one pass."""
        before, m = self.centers.partition, int(pieces.max()) + 1
        parts = Partition(pieces, before.weights, m)
        links = self._similarities(parts, parts)
        links = 0.5 * (links + links.T)
        problem = PieceProblem.of(links, parts.sizes, self.method.penalty).centered()
        searched = pieces >= 0
        owners = np.empty(m, np.int32)
        owners[pieces[searched]] = before.labels[searched]
        start = relabel(owners)
        random = stream(self.method.seed, Stream.KERNEL_REGROUPING, rounds)
        after = search_partitions(problem, start, random)
        least = self.least
        if m == np.count_nonzero(searched):
            least = problem.least
        if not problem.objective(start) - problem.objective(after) > least:
            return None
        labels = before.labels.astype(np.intp)
        labels[searched] = before.k + after[pieces[searched]]
        return renumber(labels)


class Candidate(NamedTuple):
    """A partition to try."""

    labels: Labels | None
    """(n,); None if none was found."""
    rounds: int
    """Rounds of random choices so far."""
    passes: int
    """Passes that it took."""


def disjoint_moves(moves: RowMoves, labels: Labels, k: int) -> IndexArray:
    """Return positions, (m,), of the best moves that share no clusters; `labels` are (n,)."""
    free, chosen = np.ones(k + 1, np.bool_), []
    for position in np.argsort(-moves.gains, kind="stable").tolist():
        owner, target = labels[moves.rows[position]], moves.targets[position]
        if free[owner] and free[target]:
            chosen.append(position)
            free[owner] = False
            free[target] = target == k  # several rows may open a cluster each
    return np.array(chosen, np.intp)


def renumber(labels: Labels | IndexArray) -> Labels:
    """Return labels, (n,), numbered from 0 on in their order; -1 stays."""
    found, valid = np.full(len(labels), -1, np.int32), labels >= 0
    found[valid] = relabel(labels[valid])
    return found


def count_moves(before: Labels, after: Labels) -> MoveCounts:
    """Return the merges and splits that lead from labels, (n,), to others.

    The heir of a cluster is the new cluster that receives most of its rows.  Two clusters with one
    heir have merged; a split cluster is the origin of two.
    """
    valid = before >= 0
    clusters, others = int(before.max()) + 1, int(after.max()) + 1
    keys = before[valid].astype(np.int64) * others + after[valid]
    pairs, counts = np.unique(keys, return_counts=True)
    olds, news = np.divmod(pairs, others)
    heirs, origins = most_frequent(olds, counts, news), most_frequent(news, counts, olds)
    return MoveCounts(clusters - len(np.unique(heirs)), others - len(np.unique(origins)))


def most_frequent(keys: Int64Array, counts: Int64Array, values: Int64Array) -> Int64Array:
    """Return (keys,), the value with the greatest count for each different key."""
    order = np.lexsort((counts, keys))
    last = np.append(np.flatnonzero(np.diff(keys[order])), len(keys) - 1)
    found: Int64Array = values[order[last]]
    return found
