"""The search for the lowest eq. 2 of Kulis & Jordan 2012: several data sets that share centers.

Threshold openings look at one row at a time, and step 5 never gives a use up.  A search pass learns what each use would
cost if it were given up, and what each center that a set does not use would save it (`kernels.trades`); moments of the
uses tell the rest:

- a set gives up a use, takes one up, or ties a local cluster to another center: exact for the centers as they are.
  Sets do not touch, so that each makes its best move at once.  Where rows change hands the centers stay as they are for
  the next pass; all others become means;
- two centers merge, one is split between its uses, or one goes, and each of its uses is given up or tied elsewhere:
  exact for the partition, or a bound.  Such moves of one pass do not touch.

When no move gains anything, trials begin, as in `search`: a merge, delete or split that need not gain by itself, a few
passes of moves, and the end counts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from dask_dpmeans.algorithms.dpmeans import check_number
from dask_dpmeans.algorithms.hdp import Parameters, Requesting, State, Swept, sweep
from dask_dpmeans.algorithms.moves import ROUNDING
from dask_dpmeans.blocks import Source
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.sharing import GroupScan, Prices, Sharing
from dask_dpmeans.kernels.trades import TradeScan, merge_trade_scans, scan_trades

TRIAL_ROWS = 2**19
"""Rows up to which there are trials; beyond, moves alone."""
TRIAL_PASSES = 12
"""Passes of a trial, the most."""
HOPE = 2.0
"""A trial goes on while it is no farther above what it must beat than this many times what its last pass gained."""
CLOSINGS = 24
"""Merges and deletes that are tried before the step gives up, those that gain most, or lose least, first."""
SPLITS = 32
"""Splits, likewise."""
LLOYD = 8
"""Rounds of the two-means of a center's uses."""
MOST_PAIRS = 2**22
"""Distances that are held at once."""


@dataclass(frozen=True)
class Trading(Requesting):
    """The rule of Algorithm 2, in passes that learn what trades of uses are worth."""

    def scan(self, state: Sharing, block: Block) -> GroupScan:
        """The answer of one block."""
        return scan_trades(block, state, self.prices)

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
        places, shape = (self.swept.centers_of, self.swept.groups), (self.g, self._sets)
        if self.g * self._sets > MOST_PAIRS:
            return csr_array((np.ones(self.m), places), shape=shape)
        uses = np.zeros(shape)
        uses[places] = 1
        return uses

    @property
    def _sets(self) -> int:
        return int(self.swept.groups[-1]) + 1

    @cached_property
    def deletes(self) -> Float64Array:
        """(g,), what the delete of each center gains at least."""
        costs = np.minimum(self.losses - self.prices.local, self.elsewhere[1])
        gains: Float64Array = self.prices.opening - total(self.swept.centers_of, costs, self.g)
        return gains

    @cached_property
    def halves(self) -> tuple[BoolArray, Float64Array]:
        """(m,) which uses go to the second half of their center, by two-means; and the gain of each split, (g,)."""
        centers_of, weights, means = self.swept.centers_of, self.swept.moments.weights, self.means
        offsets = means - self.center_means[centers_of]
        spread = _sums(centers_of, weights[:, np.newaxis] * offsets**2, self.g)
        second = offsets[np.arange(self.m), spread.argmax(axis=1)[centers_of]] > 0
        for _ in range(LLOYD):
            halves = 2 * centers_of + second
            children, heavy = self._children(halves)
            squared = ((means[:, np.newaxis] - children.reshape(self.g, 2, -1)[centers_of]) ** 2).sum(axis=2)
            both = np.flatnonzero(heavy.reshape(self.g, 2).all(axis=1))
            other = np.isin(centers_of, both) & (squared[:, 1] < squared[:, 0])
            if (other == second).all():
                break
            second = other
        children, heavy = self._children(2 * centers_of + second)
        within = weights * ((means - children[2 * centers_of + second]) ** 2).sum(axis=1)
        gains = spread.sum(axis=1) - total(centers_of, within, self.g) - self.prices.opening
        return second, np.where(heavy.reshape(self.g, 2).all(axis=1), gains, -np.inf)

    def _children(self, halves: Int64Array) -> tuple[Float64Array, BoolArray]:
        weights = total(halves, self.swept.moments.weights, 2 * self.g)
        sums, heavy = _sums(halves, self.swept.moments.sums, 2 * self.g), weights > 0
        return np.divide(sums, weights[:, np.newaxis], out=np.zeros_like(sums), where=heavy[:, np.newaxis]), heavy


@dataclass(frozen=True)
class Plan:
    """What the next pass changes."""

    tied: Int64Array
    """(m,), the center of each use then, -1 where it is given up; new centers are numbered from g on."""
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
class Method(Parameters):
    """The search, with its parameters."""

    name: ClassVar[str] = "hdp search"
    state: ClassVar[type[State]] = State

    def seeded(self, seed: int) -> "Method":
        """This method: it draws nothing."""
        return self

    def step(self, source: Source, state: State) -> State:
        """A pass, and the moves that follow from it; where none gains enough, the first trial that ends lower."""
        found = Findings(sweep(self, source, state, Trading), self.prices)
        plan = planned(found)
        after = self._after(found, plan, state)
        least = self.tol / 5 * after.objective
        if after.opened.size or plan.gain > least or state.objective - after.objective > least:
            return after
        return self._tried(source, found, after)

    def done(self, before: State, after: State) -> bool:
        """Whether `after` is the end: nothing is planned, and no trial ended lower."""
        least = self.tol / 5 * after.objective
        return not (after.associations or after.opened.size or before.objective - after.objective > least)

    def _tried(self, source: Source, found: Findings, after: State) -> State:
        """The end of the first trial that is lower; where all fail, or rows are too many, the state itself, settled."""
        rows_read, starts = after.rows_read, trials(found) if source.plan.n_rows <= TRIAL_ROWS else []
        for number in range(after.turn, after.turn + len(starts)):
            kind, tied = starts[number % len(starts)]
            end = self._settled(source, replace(_start(found, after, tied()), rows_read=rows_read), after.objective)
            rows_read = end.rows_read
            if after.objective - end.objective > max(self.tol / 5, ROUNDING) * after.objective:
                moves = np.zeros(6, np.int64)
                moves[kind] = 1
                turn = (number + 1) % len(starts)
                end = replace(end, step=after.step, moves=moves, gains=np.zeros(3), turn=turn)
                return replace(end, associations=max(1, end.associations))
        return replace(after, associations=0, rows_read=rows_read)

    def _settled(self, source: Source, state: State, target: float) -> State:
        """Where moves lead from a state in a few passes."""
        before = math.inf
        for _ in range(TRIAL_PASSES):
            found = Findings(sweep(self, source, state, Trading), self.prices)
            state = self._after(found, planned(found, hold=False), state)
            fell, before = before - state.objective, state.objective
            if fell < self.tol / 5 * state.objective or state.objective - target > HOPE * fell:
                break
        return state

    def _after(self, found: Findings, plan: Plan, before: State) -> State:
        """The state of a pass, with what is planned for the next."""
        swept = found.swept
        kept = plan.tied >= 0
        groups = np.concatenate([swept.groups[kept], plan.taken_groups])
        centers = np.concatenate([plan.tied[kept], plan.taken_centers])
        numbers, places = np.unique(centers, return_inverse=True)
        check_number(len(numbers), self.max_clusters, self.global_penalty)
        size = len(plan.held)
        weights = total(plan.tied[kept], swept.moments.weights[kept], size)
        sums = _sums(plan.tied[kept], swept.moments.sums[kept], size)
        at = np.zeros_like(sums)
        at[: found.g] = swept.centers
        moving = ~plan.held & (weights > 0)
        at[moving] = sums[moving] / weights[moving, np.newaxis]
        after = swept.state_after(
            before, self, at[numbers], groups, places.ravel().astype(np.int64), plan.changes, plan.gain
        )
        return replace(after, planned=plan.moves, promised=plan.promised)


def planned(found: Findings, *, hold: bool = True) -> Plan:
    """The moves of one pass that gain most; with `hold` centers stay where rows change hands, so that none can lose."""
    swept, prices, g = found.swept, found.prices, found.g
    tied, free, sets = swept.centers_of.copy(), np.ones(g, np.bool_), np.ones(found._sets, np.bool_)
    moves, promised, new = np.zeros(3, np.int64), np.zeros(3), 0
    least = ROUNDING * prices.opening
    partners, merge_gains = found.merges
    gains = np.stack([merge_gains, found.halves[1], found.deletes])
    for place in np.argsort(-gains, axis=None, kind="stable"):
        kind, center = divmod(int(place), g)
        gain = float(gains[kind, center])
        if not gain > least:
            break
        if kind == 0:
            changed = merged(found, center, int(partners[center]))
        elif kind == 1:
            changed = divided(found, center, g + new)
        else:
            changed = deleted(found, center)
        uses = np.flatnonzero(changed != swept.centers_of)
        touched = np.unique(np.concatenate([swept.centers_of[uses], changed[uses], [center]]))
        touched = touched[(touched >= 0) & (touched < g)]
        gives_up = uses[changed[uses] < 0]
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
    """(m,), what each use is tied to after a merge."""
    return np.where(found.swept.centers_of == center, partner, found.swept.centers_of)


def divided(found: Findings, center: int, new: int) -> Int64Array:
    """(m,), what each use is tied to after a split."""
    return np.where((found.swept.centers_of == center) & found.halves[0], new, found.swept.centers_of)


def deleted(found: Findings, center: int) -> Int64Array:
    """(m,), what each use is tied to after a delete, -1 where it is given up."""
    nearest, costs = found.elsewhere
    instead = np.where(found.losses - found.prices.local < costs, -1, nearest)
    return np.where(found.swept.centers_of == center, instead, found.swept.centers_of)


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
    blocked = np.bincount(swept.groups, ~free_use, found._sets) > 0
    known = whose < found._sets
    good = (gain > ROUNDING * local) & known
    good[good] = ~blocked[whose[good]] & ((target[good] < 0) | free[target[good]])
    whose, gain, use, target = whose[good], gain[good], use[good], target[good]
    order = np.lexsort((-gain, whose))
    first = order[np.flatnonzero(np.diff(whose[order], prepend=-1))]
    changes = use[first] >= 0
    tied[use[first][changes]] = target[first][changes]
    held = np.zeros(found.g + new, np.bool_)
    if hold:
        hands = (use[first] < 0) | (target[first] < 0)
        trading = np.zeros(found._sets, np.bool_)
        trading[whose[first[hands]]] = True
        trading[swept.groups[tied < 0]] = True
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


def trials(found: Findings) -> list[tuple[int, Callable[[], Int64Array]]]:
    """What is tried, each with its place among the moves of a state, and what uses are tied to then.

    Closings, those that lose least first; then splits.
    """
    closings = best(np.concatenate([found.merges[1], found.deletes]), CLOSINGS)
    starts: list[tuple[int, Callable[[], Int64Array]]] = []
    for place in closings.tolist():
        kind, center = divmod(place, found.g)
        partner = int(found.merges[0][center])
        starts.append((4, partial(deleted, found, center) if kind else partial(merged, found, center, partner)))
    splits = best(found.halves[1], SPLITS)
    return starts + [(3, partial(divided, found, center, found.g)) for center in splits.tolist()]


def best(gains: Float64Array, most: int) -> Int64Array:
    """Places of the greatest gains that are finite, at most so many, the greatest first."""
    places = np.argsort(-gains, kind="stable")[:most]
    return places[np.isfinite(gains[places])].astype(np.int64)


def _start(found: Findings, after: State, tied: Int64Array) -> State:
    """A state from which the next sweep begins with other uses, at the means of these."""
    kept = tied >= 0
    numbers, places = np.unique(tied[kept], return_inverse=True)
    places = places.ravel().astype(np.int64)
    weights = total(places, found.swept.moments.weights[kept], len(numbers))
    means = _sums(places, found.swept.moments.sums[kept], len(numbers)) / weights[:, np.newaxis]
    return replace(after, means=means, next_groups=found.swept.groups[kept], next_centers=places)


def _sums(labels: Any, values: Float64Array, k: int) -> Float64Array:
    """(k, d), the rows of values, (m, d), added to their labels one after the other."""
    return np.stack([total(labels, np.ascontiguousarray(column), k) for column in values.T], axis=1)
