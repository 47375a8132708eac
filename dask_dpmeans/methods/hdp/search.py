"""The search for the lowest eq. 2 of Kulis & Jordan 2012: several data sets that share centers.

Threshold openings look at one row at a time, and step 5 never gives a use up.  A search starts from the end of
Algorithm 2, or from searches of all rows as one set where these are lower after a few passes.  A search pass learns
what each use would cost if it were given up, what each center that a set does not use would save it, and how two child
centers of each center halve the rows of its uses (`kernels.trades`); moments of these halves tell the rest:

- a set gives up a use, takes one up, or ties a local cluster to another center: exact for the centers as they are.
  Sets do not touch, so that each makes its best move at once.  Where rows change hands the centers stay as they are for
  the next pass; all others become means;
- two centers merge, one is split between its uses or by its rows, or one goes, and each of its uses is given up or tied
  elsewhere: exact for the partition, or a bound.  Such moves of one pass do not touch.

When no move gains anything, trials begin, as in `search`: a merge, delete or split that need not gain by itself, a few
passes of moves, and the end counts.  At last, of few rows, single rows are exchanged (`exchange`).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import ratio
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.hdp import GroupScan, NearestUses, Prices, Sharing
from dask_dpmeans.kernels.hdp_search import TradeScan, merge_trade_scans, scan_trades
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.dpmeans import search, search_state, starts
from dask_dpmeans.methods.dpmeans.batch import check_number
from dask_dpmeans.methods.dpmeans.moves import ROUNDING, around
from dask_dpmeans.methods.dpmeans.path import summary_of
from dask_dpmeans.methods.hdp import batch
from dask_dpmeans.methods.hdp.batch import Parameters, Requesting, Swept, sweep
from dask_dpmeans.methods.hdp.row_exchange import Members, exchanged

TRIAL_ROWS = 2**19
"""Rows up to which there are trials; beyond, moves alone."""
TRIAL_PASSES = 12
"""Passes of a trial, the most."""
HOPE = 1.0
"""A trial goes on while it is no farther above what it must beat than this many times what its last pass gained."""
CLOSINGS = 16
"""Merges and deletes that are tried before the step gives up, those that gain most, or lose least, first."""
SPLITS = 32
"""Splits, likewise."""
LEAST_SHARE = 0.25
"""Of more than `EXCHANGE_ROWS` rows, splits are tried that save more than this share of the prices of a center and a
use, beyond what else they pay for.  Of 40 drawn problems, 2 to 14 sets of 20 to 150 rows, each ended where it ended
with all splits tried; of 6 of 200 rows without clusters one ended 0.8 % higher."""
LLOYD = 8
"""Rounds of the two-means of a center's uses."""
EXCHANGE_ROWS = 2**10
"""Rows, and ..."""
EXCHANGE_WORK = 2**20
"""... differences of these from centers, rows * centers * columns, up to which single rows are exchanged once trials
fail."""
STANDING_PASSES = 20
"""Passes, the most, in which centers stand still and their children go on, ..."""
CHILDREN_GAIN = 1.01
"""... while splits would save so much more with each."""
MOST_PAIRS = 2**22
"""Distances that are held at once."""


@dataclass(frozen=True)
class State(batch.State):
    """Where a search stands after a number of steps."""

    children: Float64Array
    """(h, 2, d), the children of the `means` in the next pass: they split the rows of a center in two."""


@dataclass(frozen=True)
class Trading(Requesting):
    """The rule of Algorithm 2, in passes that learn what trades and halves of uses are worth."""

    children: Float64Array = field(kw_only=True)
    """(h, 2, d), two child centers of each center before the sweep."""

    def scan(self, state: Sharing, block: Block) -> GroupScan:
        """The answer of one block."""
        return scan_trades(block, state, self.prices, self.children)

    def merge(self, state: Sharing, left: GroupScan, right: GroupScan) -> GroupScan:
        """The answer of two neighboring runs."""
        assert isinstance(left, TradeScan)
        assert isinstance(right, TradeScan)
        return merge_trade_scans(left, right, state, self.prices)


@dataclass(frozen=True)
class Findings:
    """What one pass says of m uses of g centers."""

    swept: Swept
    prices: Prices

    @property
    def m(self) -> int:
        """Uses."""
        return len(self.swept.groups)

    @property
    def g(self) -> int:
        """Centers."""
        return len(self.swept.centers)

    @cached_property
    def means(self) -> Float64Array:
        """(m, d), of the uses' rows."""
        return self.swept.moments.means

    @cached_property
    def tied(self) -> Int64Array:
        """(m, 2), the center of each half of a use: the same for both."""
        return np.repeat(self.swept.centers_of, 2).reshape(self.m, 2)

    @cached_property
    def half_weights(self) -> Float64Array:
        """(m, 2)."""
        return self._halves(self.swept.answer.halves.moments.weights)

    @cached_property
    def half_sums(self) -> Float64Array:
        """(m, 2, d)."""
        return self._halves(self.swept.answer.halves.moments.sums)

    @cached_property
    def half_means(self) -> Float64Array:
        """(m, 2, d); 0 for a half without weight."""
        return ratio(self.half_sums, self.half_weights[:, :, np.newaxis])

    @cached_property
    def half_inertias(self) -> Float64Array:
        """(m, 2), squared errors about the children as probed."""
        return self._halves(self.swept.answer.halves.moments.inertias)

    def _halves(self, values: Float64Array) -> Float64Array:
        """Values of the halves that have rows, as those of two halves of each use."""
        there, places = self._half_places
        spread_out = np.zeros((2 * self.m, *values.shape[1:]))
        spread_out[places] = values[there]
        return spread_out.reshape(self.m, 2, *values.shape[1:])

    @cached_property
    def _half_places(self) -> tuple[BoolArray, Int64Array]:
        """Which halves that have rows are of uses that have weight, and where these stand among two of each use."""
        uses, sides = np.divmod(self.swept.answer.halves.uses, 2)
        places = np.minimum(np.searchsorted(self.swept.uses, uses), self.m - 1)
        there = self.swept.uses[places] == uses
        return there, (2 * places + sides)[there]

    @cached_property
    def weights(self) -> Float64Array:
        """(g,), of the centers' rows."""
        return total(self.swept.centers_of, self.swept.moments.weights, self.g)

    @cached_property
    def center_means(self) -> Float64Array:
        """(g, d), of the centers' rows."""
        return _sums(self.swept.centers_of, self.swept.moments.sums, self.g) / self.weights[:, np.newaxis]

    @cached_property
    def losses(self) -> Float64Array:
        """(m,), what giving up a use adds to the squared error; infinite where the set has no other."""
        losses = self.swept.answer.losses
        there: Float64Array = losses.values[np.searchsorted(losses.keys, self.swept.uses)]
        return there

    @cached_property
    def savings(self) -> tuple[Int64Array, Int64Array, Float64Array]:
        """Groups, centers that these do not use, and what they would save there."""
        savings, k = self.swept.answer.savings, self.swept.n_present
        groups, old = np.divmod(savings.keys, k)
        renumbered = np.full(k, -1)
        renumbered[self.swept.numbers] = np.arange(self.g)
        there = renumbered[old] >= 0
        return groups[there], renumbered[old[there]], savings.values[there]

    @cached_property
    def elsewhere(self) -> tuple[Int64Array, Float64Array]:
        """(m,) the center nearest to the mean of each use that its set does not use, and what tying it there costs."""
        swept, g = self.swept, self.g
        nearest, costs = np.zeros(self.m, np.int64), np.full(self.m, np.inf)
        bounds = np.flatnonzero(np.diff(swept.groups, prepend=-1, append=-1))
        starts = [0]
        for bound in bounds.tolist():  # whole groups, MOST_PAIRS distances at a time
            if bound == self.m or (bound - starts[-1]) * g >= MOST_PAIRS:
                starts.append(bound)
        for first, last in pairwise(starts):
            part = slice(first, last)
            squared = cdist(self.means[part], swept.centers, "sqeuclidean")
            slots = np.cumsum(np.diff(swept.groups[part], prepend=swept.groups[first]) > 0)
            used = np.zeros((slots[-1] + 1, g), np.bool_)
            used[slots, swept.centers_of[part]] = True
            own = squared[np.arange(last - first), swept.centers_of[part]]
            squared[used[slots]] = np.inf
            nearest[part] = squared.argmin(axis=1)
            costs[part] = swept.moments.weights[part] * (squared.min(axis=1) - own)
        return nearest, costs

    @cached_property
    def merges(self) -> tuple[Int64Array, Float64Array]:
        """(g,) the partner, of a lower number, and gain of each center's best merge."""
        partners, gains = np.zeros(self.g, np.int64), np.full(self.g, -np.inf)
        uses = self._uses()
        step = max(1, MOST_PAIRS // self.g)
        for first in range(0, self.g, step):
            part = slice(first, min(first + step, self.g))
            weights, others = self.weights[part, np.newaxis], self.weights
            both = uses[part] @ uses.T
            both = both if isinstance(both, np.ndarray) else both.toarray()
            cost = (
                weights * others / (weights + others) * cdist(self.center_means[part], self.center_means, "sqeuclidean")
            )
            gain = self.prices.opening + self.prices.local * both - cost
            gain[np.arange(self.g) >= np.arange(part.start, part.stop)[:, np.newaxis]] = -np.inf
            partners[part], gains[part] = gain.argmax(axis=1), gain.max(axis=1)
        return partners, gains

    def _uses(self) -> Any:
        """(g, sets), 1 where a set uses a center: dense where it is small."""
        places, shape = (self.swept.centers_of, self.swept.groups), (self.g, self.sets)
        if self.g * self.sets > MOST_PAIRS:
            return csr_array((np.ones(self.m), places), shape=shape)
        uses = np.zeros(shape)
        uses[places] = 1
        return uses

    @property
    def sets(self) -> int:
        """One more than the greatest number of a data set."""
        return int(self.swept.groups[-1]) + 1

    @cached_property
    def deletes(self) -> Float64Array:
        """(g,), what the delete of each center gains at least."""
        costs = np.minimum(self.losses - self.prices.local, self.elsewhere[1])
        gains: Float64Array = self.prices.opening - total(self.swept.centers_of, costs, self.g)
        return gains

    @cached_property
    def splits(self) -> tuple[BoolArray, Float64Array]:
        """(m, 2) which halves of the uses go to the second child in the best split of each center, and its gain, (g,).

        A center is split between its uses, which stay whole, or by its rows, as the children have it.
        """
        whole, by_uses = self.splits_between_uses
        second, by_rows = self.splits_by_rows
        rows = (by_rows > by_uses)[self.swept.centers_of, np.newaxis]
        return np.where(rows, second, whole[:, np.newaxis]), np.maximum(by_rows, by_uses)

    @cached_property
    def splits_between_uses(self) -> tuple[BoolArray, Float64Array]:
        """(m,) which uses go to the second half of their center, by two-means; and the gain of each split, (g,)."""
        offsets = self.means - self.center_means[self.swept.centers_of]
        weights = self.swept.moments.weights
        spread = _sums(self.swept.centers_of, weights[:, np.newaxis] * offsets**2, self.g)
        second = offsets[np.arange(self.m), spread.argmax(axis=1)[self.swept.centers_of]] > 0
        halved = self._halved(weights, self.swept.moments.sums, second)
        for _ in range(LLOYD):
            squared = halved.squared(self.means, self.swept.centers_of)
            other = halved.both[self.swept.centers_of] & (squared[1] < squared[0])
            if (other == second).all():
                break
            second = other
            halved = self._halved(weights, self.swept.moments.sums, second)
        return second, halved.saved(self.center_means) - self.prices.opening

    @cached_property
    def splits_by_rows(self) -> tuple[BoolArray, Float64Array]:
        """(m, 2) which halves of the uses go to the second child of their center; and the gain of each split, (g,).

        A use goes on as two where that saves it more than the local penalty, or else whole to the better child.
        """
        first, second = (
            self.half_weights * squared
            for squared in self.children.squared(self.half_means, self.swept.centers_of[:, np.newaxis])
        )
        local = self.prices.local * (self.half_weights > 0).all(axis=1)
        together = first.sum(axis=1), second.sum(axis=1)
        apart = np.minimum(first, second).sum(axis=1) + local < np.minimum(*together)
        parts, whole = second < first, (together[1] < together[0])[:, np.newaxis]
        sides = np.where(apart[:, np.newaxis], parts, whole) & self.children.both[self.swept.centers_of, np.newaxis]
        parted = (sides[:, 0] != sides[:, 1]) & (local > 0)
        paid = self.prices.local * np.bincount(self.swept.centers_of[parted], minlength=self.g) + self.prices.opening
        return sides, self._halved(self.half_weights, self.half_sums, sides).saved(self.center_means) - paid

    @cached_property
    def children(self) -> "Halved":
        """The halves of the centers, as the pass had them."""
        return self._halved(self.half_weights, self.half_sums, np.array([False, True]))

    @cached_property
    def row_savings(self) -> float:
        """The squared error that splits into these halves save, whatever they cost."""
        saved = self.children.saved(self.center_means)
        return float(saved[self.children.both].sum())

    def _halved(self, weights: Float64Array, sums: Float64Array, second: BoolArray) -> "Halved":
        """The halves of the centers, where uses, (m,) and (m, d), or halves of these, (m, 2) and (m, 2, d), are cut."""
        keys = 2 * (self.tied if weights.ndim == 2 else self.swept.centers_of) + second
        weights = total(keys.ravel(), weights.ravel(), 2 * self.g)
        means = ratio(_sums(keys.ravel(), sums.reshape(keys.size, -1), 2 * self.g), weights[:, np.newaxis])
        return Halved(weights.reshape(self.g, 2), means.reshape(self.g, 2, -1))


@dataclass(frozen=True)
class Halved:
    """Two halves of each center."""

    weights: Float64Array
    """(g, 2)."""
    means: Float64Array
    """(g, 2, d); 0 for a half without weight."""

    @cached_property
    def both(self) -> BoolArray:
        """(g,), whether both halves have weight."""
        return np.logical_and(self.weights[:, 0] > 0, self.weights[:, 1] > 0)

    def squared(self, points: Float64Array, centers: Int64Array) -> list[Float64Array]:
        """Squared distances of points, (..., d), to the first and to the second half of a center each."""
        return [((points - self.means[centers, side]) ** 2).sum(axis=-1) for side in (0, 1)]

    def saved(self, middles: Float64Array) -> Float64Array:
        """(g,), the squared error that two means save where there was one, (g, d); infinite below zero for one half."""
        offsets = self.means - middles[:, np.newaxis]
        saved = (self.weights * (offsets**2).sum(axis=2)).sum(axis=1)
        return np.where(self.both, saved, -np.inf)


@dataclass(frozen=True)
class Plan:
    """What the next pass changes."""

    tied: Int64Array
    """(m, 2), the center of each half of a use then, -1 where it is given up; new centers are numbered from g on."""
    taken_groups: Int64Array
    """(a,), sets that take up a use,"""
    taken_centers: Int64Array
    """(a,), and of which center."""
    held: BoolArray
    """(g + new,), centers that stay where they are."""
    moves: Int64Array
    """(3,), merges, splits and deletes."""
    promised: Float64Array
    """(3,), what these gain at least."""
    changes: int
    """Moves of all kinds."""
    gain: float
    """What all of them gain at least."""


@dataclass(frozen=True)
class Regrouped:
    """The centers that the halves of uses make once they are tied anew."""

    found: Findings
    tied: Int64Array
    """(m, 2), the center of each half, -1 for none."""
    size: int
    """One more than the greatest number of a center."""

    @cached_property
    def kept(self) -> BoolArray:
        """(m, 2), which halves have weight and a center."""
        kept: BoolArray = (self.tied >= 0) & (self.found.half_weights > 0)
        return kept

    @cached_property
    def uses(self) -> tuple[Int64Array, Int64Array]:
        """Data sets and centers of the kept halves."""
        groups = np.repeat(self.found.swept.groups, 2).reshape(self.tied.shape)
        return groups[self.kept], self.tied[self.kept]

    @cached_property
    def weights(self) -> Float64Array:
        """(size,), of the centers."""
        return total(self.tied[self.kept], self.found.half_weights[self.kept], self.size)

    @cached_property
    def means(self) -> Float64Array:
        """(size, d), of the centers' rows; 0 where there are none."""
        sums = _sums(self.tied[self.kept], self.found.half_sums[self.kept], self.size)
        return ratio(sums, self.weights[:, np.newaxis])

    def children(self, random: np.random.Generator) -> Float64Array:
        """(size, 2, d): the means of a center's halves; new ones on either side where halves changed hands."""
        children = self.found.children
        errors = total(self.tied[self.kept], self.found.half_inertias[self.kept], self.size)
        fresh = around(self.means, np.sqrt(ratio(errors, self.weights)), random)
        changed = self.tied != self.found.tied
        stay = np.append(children.both, np.zeros(self.size - self.found.g, np.bool_))
        stay[self.found.tied[changed]] = False
        stay[self.tied[changed & self.kept]] = False
        fresh[stay] = children.means[stay[: self.found.g]]
        return fresh


@dataclass(frozen=True)
class Trial:
    """Where a few passes came to."""

    found: Findings
    """Of the lowest pass."""
    before: State
    """The state that it began with."""
    objective: float
    """What it came to."""
    rows_read: int
    """Rows of all passes since the start of the fit."""


@dataclass(frozen=True)
class Method(Parameters):
    """The search, with its parameters."""

    name: ClassVar[str] = "hdp-search"
    state: ClassVar[type[State]] = State

    seed: int = 0
    """Of all random numbers."""

    def seeded(self, seed: int) -> "Method":
        """The same search with another seed."""
        return replace(self, seed=seed)

    def init(self, source: Source) -> State:
        """The mean of all rows, used by all data sets."""
        start = super().init(source)
        spread = math.sqrt(float(source.summary.squares.sum()) / source.summary.weight)
        return State(**vars(start), children=around(start.means, np.array([spread]), self._random(start)))

    def rule(self, state: batch.State) -> Trading:
        """Step 4 of Algorithm 2, which learns what moves are worth."""
        assert isinstance(state, State)
        return Trading(self.prices, self.max_clusters, len(state.means), children=state.children)

    def step(self, source: Source, state: State) -> State:
        """Passes and the moves that follow until J falls; where no move gains enough, the first trial that ends lower.

        While centers stand still their children go on, and may show a split yet.
        """
        if state.step == 0:
            return self._first(source, state)
        after, saved = state, 0.0
        for _ in range(STANDING_PASSES):
            found = self._found(source, after)
            after = replace(self._after(found, planned(found), after), step=state.step + 1)
            least, fell = self._least(after), state.objective - after.objective
            if fell > least or (after.opened.size and fell > 0):
                return after
            if not (after.saved > least or found.row_savings > CHILDREN_GAIN * saved):
                break
            saved = found.row_savings
        return self._tried(source, found, after)

    def done(self, before: State, after: State) -> bool:
        """Whether `after` is the end: nothing is planned, and no trial ended lower."""
        least = self._least(after)
        return not (after.associations or after.opened.size or before.objective - after.objective > least)

    def _least(self, state: State) -> float:
        """What a pass or a trial must gain at least."""
        return max(self.tol / 5, ROUNDING) * state.objective

    def _random(self, state: batch.State) -> np.random.Generator:
        return np.random.default_rng([self.seed, state.rows_read])

    def _found(self, source: Source, state: State) -> Findings:
        """A sweep from the centers and uses that a state has for it."""
        return Findings(sweep(self, source, state), self.prices)

    # Where a search starts

    def _first(self, source: Source, state: State) -> State:
        """The lowest of several starts, each after a few passes of moves: no worse than Algorithm 2."""
        ends = list[Trial]()
        for start in self._starts(source, state):
            lowest = min((end.objective for end in ends), default=math.inf)
            end = self._settled(source, replace(start, rows_read=start.rows_read + state.rows_read), lowest)
            state = replace(state, rows_read=end.rows_read)
            ends.append(end)
        best = min(ends, key=lambda end: end.objective)
        return replace(self._committed(best), step=1, rows_read=state.rows_read)

    def _starts(self, source: Source, state: State) -> Iterator[State]:
        """The end of Algorithm 2, and ends of searches of all rows as one set; `rows_read` counts what each took."""
        limits = self.max_iter, self.tol, self.max_clusters
        *_, algorithm_2 = iterate(source, batch.Method(self.local_penalty, self.global_penalty, *limits))
        plain = algorithm_2.state
        uses = plain.local_groups, plain.local_centers
        yield self._from(state, plain.centers, uses, plain.rows_read - source.plan.n_rows)
        sets = len(np.unique(plain.local_groups))
        if sets == 1:
            *_, last = iterate(source, self._pooled_method(self.prices.both))
            yield self._pooled(source, state, last.state, last.state.rows_read - source.plan.n_rows)
            return
        rows, _ = summary_of(source, starts.LEAST_CORESET, self.seed)
        methods = [replace(self._pooled_method(price), coreset_rows=0) for price in self._prices(sets)]
        for end in source.run([starts.Restart(method, tries=0) for method in methods], rows, "search"):
            yield self._pooled(source, state, end, source.plan.n_rows)

    def _pooled_method(self, penalty: float) -> search.Method:
        """The search of all rows as one set."""
        return search.Method(penalty, max_iter=self.max_iter, tol=self.tol, seed=self.seed)

    def _prices(self, sets: int) -> list[float]:
        """What a center costs that is used by one set, by all, or by a number between."""
        return [self.global_penalty + self.local_penalty * number for number in (1.0, math.sqrt(sets), float(sets))]

    def _pooled(self, source: Source, state: State, end: search_state.State, rows_read: int) -> State:
        """The start with the centers that a search of all rows as one set ends with."""
        keys = source.fold(NearestUses(Centers(end.centers)), name="uses")
        return self._from(state, end.centers, np.divmod(keys, len(end.centers)), rows_read + source.plan.n_rows)

    def _from(self, state: State, centers: Float64Array, uses: tuple[Int64Array, Int64Array], rows_read: int) -> State:
        """A state whose next sweep is at these centers and uses."""
        radii = np.full(len(centers), math.sqrt(self.prices.both))
        return replace(
            state,
            step=1,
            means=centers,
            children=around(centers, radii, self._random(state)),
            next_groups=uses[0],
            next_centers=uses[1],
            rows_read=rows_read,
        )

    # Trials

    def _tried(self, source: Source, found: Findings, after: State) -> State:
        """The end of the first trial that is lower; where all fail, or rows are too many, the state itself, settled."""
        n, rows_read = source.plan.n_rows, after.rows_read
        starts = trials(found, LEAST_SHARE if n > EXCHANGE_ROWS else -math.inf) if n <= TRIAL_ROWS else []
        for number in range(after.turn, after.turn + len(starts)):
            kind, tied = starts[number % len(starts)]
            start = replace(self._start(found, after, tied()), rows_read=rows_read)
            end = self._settled(source, start, after.objective)
            rows_read = end.rows_read
            if after.objective - end.objective > self._least(after):
                moves = np.zeros(6, np.int64)
                moves[kind] = 1
                turn = (number + 1) % len(starts)
                return replace(self._kept(end, after), moves=moves, gains=np.zeros(3), turn=turn)
        return self._exchanged(source, replace(after, associations=0, rows_read=rows_read))

    def _exchanged(self, source: Source, after: State) -> State:
        """The state that exchanges of single rows lead to; the same where they do not, or rows are too many."""
        n = source.plan.n_rows
        if n > EXCHANGE_ROWS or n * after.means.size > EXCHANGE_WORK:
            return after
        start = self._from(after, *self._exchanges(source, after), after.rows_read + source.plan.n_rows)
        end = self._settled(source, start)
        if after.objective - end.objective > self._least(after):
            return self._kept(end, after)
        return replace(after, rows_read=end.rows_read)

    def _exchanges(self, source: Source, state: State) -> tuple[Float64Array, tuple[Int64Array, Int64Array]]:
        """Centers and uses that exchanges of single rows lead to from a state."""
        gathered = source.fold(Gather(), name="gather")
        (labels,) = self.labels(source, state)(Block(0, gathered.rows, gathered.weights, groups=gathered.groups))
        heavy = np.flatnonzero(gathered.weights > 0)
        groups, sets = np.unique(gathered.groups[heavy], return_inverse=True)
        origin = source.summary.mean
        rows = gathered.rows[heavy].astype(np.float64) - origin
        members = Members(rows, gathered.weights[heavy], sets.ravel().astype(np.int64), self.prices)
        places = np.unique(labels[heavy], return_inverse=True)[1].ravel().astype(np.int64)
        best = exchanged(members, places)
        sets, centers = np.nonzero(members.uses(best))
        return members.means(best)[1] + origin, (groups[sets], centers)

    def _settled(self, source: Source, state: State, target: float = math.inf) -> Trial:
        """The lowest of a few passes of moves from a state, given up where these would not get below a target.

        How many clusters these make is checked where they are kept.
        """
        free, last, passes = replace(self, max_clusters=None), math.inf, list[Trial]()
        for _ in range(TRIAL_PASSES):
            found = free._found(source, state)
            objective = self.objective(found.swept.moments, found.g)
            passes.append(Trial(found, state, objective, state.rows_read + found.swept.rows_read))
            fell, last = last - objective, objective
            if fell < self.tol / 5 * objective or objective - target > HOPE * fell:
                break
            state = free._after(found, planned(found, hold=False), state)
        best = min(passes, key=lambda each: each.objective)
        return replace(best, rows_read=passes[-1].rows_read)

    def _kept(self, trial: Trial, after: State) -> State:
        """The state that a trial came to, as the step after another."""
        end = self._committed(trial)
        return replace(end, step=after.step, turn=after.turn, associations=max(1, end.associations))

    def _committed(self, trial: Trial) -> State:
        """The state that a trial came to, with moves planned that cannot lose."""
        found = trial.found
        check_number(found.g, self.max_clusters, self.global_penalty)
        return replace(self._after(found, planned(found), trial.before), rows_read=trial.rows_read)

    def _start(self, found: Findings, after: State, tied: Int64Array) -> State:
        """A state from which the next sweep begins with other uses, at the means of these."""
        regrouped = Regrouped(found, tied, max(found.g, int(tied.max()) + 1))
        groups, centers = regrouped.uses
        numbers, places = np.unique(centers, return_inverse=True)
        children = regrouped.children(self._random(after))
        return replace(
            after,
            means=regrouped.means[numbers],
            children=children[numbers],
            next_groups=groups,
            next_centers=places.ravel().astype(np.int64),
        )

    def _after(self, found: Findings, plan: Plan, before: State) -> State:
        """The state of a pass, with what is planned for the next."""
        swept, regrouped = found.swept, Regrouped(found, plan.tied, len(plan.held))
        groups, centers = regrouped.uses
        groups = np.concatenate([groups, plan.taken_groups])
        centers = np.concatenate([centers, plan.taken_centers])
        numbers, places = np.unique(centers, return_inverse=True)
        check_number(len(numbers), self.max_clusters, self.global_penalty)
        at = np.zeros_like(regrouped.means)
        at[: found.g] = swept.centers
        moving = ~plan.held & (regrouped.weights > 0)
        at[moving] = regrouped.means[moving]
        places = places.ravel().astype(np.int64)
        after = swept.state_after(before, self, at[numbers], groups, places, plan.changes, plan.gain)
        children = regrouped.children(self._random(after))[numbers]
        return replace(after, planned=plan.moves, promised=plan.promised, children=children)


def planned(found: Findings, *, hold: bool = True) -> Plan:
    """The moves of one pass that gain most; with `hold` centers stay where rows change hands, so that none can lose."""
    swept, prices, g = found.swept, found.prices, found.g
    tied, free, sets = found.tied.copy(), np.ones(g, np.bool_), np.ones(found.sets, np.bool_)
    moves, promised, new = np.zeros(3, np.int64), np.zeros(3), 0
    least = ROUNDING * prices.opening
    gains = np.stack([found.merges[1], found.splits[1], found.deletes])
    for place in np.argsort(-gains, axis=None, kind="stable"):
        kind, center = divmod(int(place), g)
        gain = float(gains[kind, center])
        if not gain > least:
            break
        if kind == 0:
            changed = merged(found, center, int(found.merges[0][center]))
        elif kind == 1:
            changed = divided(found, center, g + new)
        else:
            changed = deleted(found, center)
        uses = np.flatnonzero((changed != found.tied).any(axis=1))
        touched = np.unique(np.concatenate([swept.centers_of[uses], changed[uses].ravel(), [center]]))
        touched = touched[(touched >= 0) & (touched < g)]
        gives_up = uses[changed[uses, 0] < 0]
        if hold and len(gives_up):  # all centers of these sets stay where they are
            theirs = swept.centers_of[np.isin(swept.groups, swept.groups[gives_up])]
            touched = np.unique(np.concatenate([touched, theirs]))
        if not free[touched].all() or not sets[swept.groups[uses]].all():
            continue
        free[touched], sets[swept.groups[uses]] = False, False
        tied[uses] = changed[uses]
        moves[kind] += 1
        promised[kind] += gain
        new += kind == 1
    return _with_local_moves(found, tied, free, sets, moves, promised, new, hold)


def merged(found: Findings, center: int, partner: int) -> Int64Array:
    """(m, 2), what each half of a use is tied to after a merge."""
    return np.where(found.tied == center, partner, found.tied)


def divided(found: Findings, center: int, new: int) -> Int64Array:
    """(m, 2), what each half of a use is tied to after a split."""
    return np.where((found.tied == center) & found.splits[0], new, found.tied)


def deleted(found: Findings, center: int) -> Int64Array:
    """(m, 2), what each half of a use is tied to after a delete, -1 where the use is given up."""
    nearest, costs = found.elsewhere
    instead = np.where(found.losses - found.prices.local < costs, -1, nearest)[:, np.newaxis]
    return np.where(found.tied == center, instead, found.tied)


def _with_local_moves(
    found: Findings,
    tied: Int64Array,
    free: BoolArray,
    sets: BoolArray,
    moves: Int64Array,
    promised: Float64Array,
    new: int,
    hold: bool,
) -> Plan:
    """The plan, once each set whose centers are free has made its best move."""
    swept, local = found.swept, found.prices.local
    nearest, costs = found.elsewhere
    groups, centers, saved = found.savings
    free_use = free[swept.centers_of] & sets[swept.groups]
    numbers = np.arange(found.m)
    none = np.full(found.m, -1)
    whose = np.concatenate([swept.groups, swept.groups, groups])
    gain = np.concatenate([local - found.losses, -costs, saved - local])
    use = np.concatenate([numbers, numbers, np.full(len(groups), -1)])
    target = np.concatenate([none, nearest, centers])
    blocked = np.bincount(swept.groups, ~free_use, found.sets) > 0
    known = whose < found.sets
    good = (gain > ROUNDING * local) & known
    good[good] = ~blocked[whose[good]] & ((target[good] < 0) | free[target[good]])
    whose, gain, use, target = whose[good], gain[good], use[good], target[good]
    order = np.lexsort((-gain, whose))
    first = order[np.flatnonzero(np.diff(whose[order], prepend=-1))]
    changes = use[first] >= 0
    tied[use[first][changes]] = target[first][changes, np.newaxis]
    held = np.zeros(found.g + new, np.bool_)
    if hold:
        hands = (use[first] < 0) | (target[first] < 0)
        trading = np.zeros(found.sets, np.bool_)
        trading[whose[first[hands]]] = True
        trading[swept.groups[tied[:, 0] < 0]] = True
        held[swept.centers_of[trading[swept.groups]]] = True
        held[target[first[hands]][target[first[hands]] >= 0]] = True
    taken = first[~changes]
    return Plan(
        tied=tied,
        taken_groups=whose[taken],
        taken_centers=target[taken],
        held=held,
        moves=moves,
        promised=promised,
        changes=len(first) + int(moves.sum()),
        gain=float(gain[first].sum() + promised.sum()),
    )


def trials(found: Findings, least_share: float = -math.inf) -> list[tuple[int, Callable[[], Int64Array]]]:
    """What is tried, each with its place among the moves of a state, and what uses are tied to then.

    Closings, those that lose least first; then splits that save so much of their price.
    """
    closings = best(np.concatenate([found.merges[1], found.deletes]), CLOSINGS)
    starts: list[tuple[int, Callable[[], Int64Array]]] = []
    for place in closings.tolist():
        kind, center = divmod(place, found.g)
        partner = int(found.merges[0][center])
        starts.append((4, partial(deleted, found, center) if kind else partial(merged, found, center, partner)))
    gains = found.splits[1]
    splits = best(np.where(gains > (least_share - 1) * found.prices.both, gains, -np.inf), SPLITS)
    return starts + [(3, partial(divided, found, center, found.g)) for center in splits.tolist()]


def best(gains: Float64Array, most: int) -> Int64Array:
    """Places of the greatest gains that are finite, at most so many, the greatest first."""
    places = np.argsort(-gains, kind="stable")[:most]
    return places[np.isfinite(gains[places])].astype(np.int64)


def _sums(labels: Any, values: Float64Array, k: int) -> Float64Array:
    """(k, d), the rows of values, (m, d), added to their labels one after the other."""
    return np.stack([total(labels, np.ascontiguousarray(column), k) for column in values.T], axis=1)
