"""Moves of one search pass: merges, splits and deletes of centers, and changes of single uses.

Ties are (m, 2) arrays: the center of each half of a use, -1 if the use is given up.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dask_dpmeans.engine.history import MoveCounts
from dask_dpmeans.kernels.answers import Records
from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import ratio
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.dpmeans.moves import ROUNDING, around
from dask_dpmeans.methods.hdp.pass_statistics import PassStatistics, sums_by_label
from dask_dpmeans.methods.hdp.state import Move, Uses

MAX_CLOSINGS = 16
"""Merges and deletes that a step tries at most, in the order of their gains."""
MAX_SPLITS = 32
"""Splits that a step tries at most."""


@dataclass(frozen=True)
class MovePlan:
    """Changes of the next pass."""

    tied: Int64Array
    """(m, 2), the ties of the halves; new centers are numbered from g on."""
    taken_up: Uses
    """Uses that sets take up."""
    fixed: BoolArray
    """(g + new,), centers that do not move to their means."""
    moves: Int64Array
    """(3,), merges, splits and deletes."""
    promised: Float64Array
    """(3,), lower bounds of their gains."""
    changes: int
    """Moves of all kinds."""
    gain: float
    """A lower bound of the gain of all of them."""


@dataclass(frozen=True)
class UseChanges(Records):
    """Changes of single uses."""

    groups: Int64Array
    """(c,), data sets."""
    uses: Int64Array
    """(c,), the use that changes; -1 if the set takes up a new one."""
    centers: Int64Array
    """(c,), the center of the use afterwards; -1 if it is given up."""
    gains: Float64Array
    """(c,), exact for centers that do not move."""


def plan_moves(found: PassStatistics, *, hold: bool = True) -> MovePlan:
    """Return the moves of one pass with the greatest gains that do not touch one another.

    With `hold` centers stay fixed where rows change sets of uses, so that no move can lose.
    """
    planner = _Planner(found, hold)
    planner.add_center_moves()
    return planner.add_use_changes()


class _Planner:
    """Moves planned so far, and the centers and sets that they leave free."""

    def __init__(self, found: PassStatistics, hold: bool) -> None:
        self.found, self.hold = found, hold
        self.tied = found.tied.copy()
        self.free = np.ones(found.g, np.bool_)
        self.free_sets = np.ones(found.n_sets, np.bool_)
        self.moves, self.promised = np.zeros(len(Move), np.int64), np.zeros(len(Move))

    def add_center_moves(self) -> None:
        """Add merges, splits and deletes, the greatest gains first."""
        found = self.found
        gains = np.stack([found.merges.gains, found.splits.gains, found.deletes])
        for position in np.argsort(-gains, axis=None, kind="stable"):
            number, center = divmod(int(position), found.g)
            gain = float(gains[number, center])
            if not gain > ROUNDING * found.prices.opening:
                return
            self._add(Move(number), center, gain)

    def _add(self, move: Move, center: int, gain: float) -> None:
        """Add a move if all centers and sets that it touches are free."""
        tied = ties_after(self.found, move, center, self.found.g + int(self.moves[Move.SPLIT]))
        uses = np.flatnonzero((tied != self.found.tied).any(axis=1))
        touched, sets = self._changed_centers(center, uses, tied), self.found.groups[uses]
        if not self.free[touched].all() or not self.free_sets[sets].all():
            return
        self.free[touched], self.free_sets[sets] = False, False
        self.tied[uses] = tied[uses]
        self.moves[move] += 1
        self.promised[move] += gain

    def _changed_centers(self, center: int, uses: Int64Array, tied: Int64Array) -> Int64Array:
        """Return the centers that a move changes; with `hold` also all of sets that lose a use."""
        owners, groups = self.found.centers_of, self.found.groups
        touched = [owners[uses], tied[uses].ravel(), np.array([center])]
        given_up = uses[tied[uses, 0] < 0]
        if self.hold and len(given_up):
            touched.append(owners[np.isin(groups, groups[given_up])])
        centers: Int64Array = np.unique(np.concatenate(touched))
        return centers[(centers >= 0) & (centers < self.found.g)]

    def add_use_changes(self) -> MovePlan:
        """Return the plan after each set whose centers are free has made its best change."""
        best = self._best_changes()
        retied = best.uses >= 0
        self.tied[best.uses[retied]] = best.centers[retied, np.newaxis]
        taken_up = best.take(~retied)
        return MovePlan(
            tied=self.tied,
            taken_up=Uses(taken_up.groups, taken_up.centers),
            fixed=self._fixed_centers(best),
            moves=self.moves,
            promised=self.promised,
            changes=len(best.groups) + int(self.moves.sum()),
            gain=float(best.gains.sum() + self.promised.sum()),
        )

    def _best_changes(self) -> UseChanges:
        """Return at most one change a set, of those that gain and touch only free centers."""
        found, changes = self.found, use_changes(self.found)
        free = self.free[found.centers_of] & self.free_sets[found.groups]
        blocked = np.bincount(found.groups, ~free, found.n_sets) > 0
        gaining = (changes.gains > ROUNDING * found.prices.local) & (changes.groups < found.n_sets)
        changes = changes.take(gaining)
        target_free = (changes.centers < 0) | self.free[changes.centers]
        changes = changes.take(~blocked[changes.groups] & target_free)
        order = np.lexsort((-changes.gains, changes.groups))
        return changes.take(order[np.flatnonzero(np.diff(changes.groups[order], prepend=-1))])

    def _fixed_centers(self, changes: UseChanges) -> BoolArray:
        """Return (g + new,), the centers of sets whose rows change uses, with `hold`."""
        found = self.found
        fixed = np.zeros(found.g + int(self.moves[Move.SPLIT]), np.bool_)
        if self.hold:
            exchanges = changes.take((changes.uses < 0) | (changes.centers < 0))
            sets = np.zeros(found.n_sets, np.bool_)
            sets[exchanges.groups] = True
            sets[found.groups[self.tied[:, 0] < 0]] = True
            fixed[found.centers_of[sets[found.groups]]] = True
            fixed[exchanges.centers[exchanges.centers >= 0]] = True
        return fixed


def use_changes(found: PassStatistics) -> UseChanges:
    """Return all changes of single uses: give a use up, tie it elsewhere, or take a use up."""
    uses, local = np.arange(found.m), found.prices.local
    elsewhere, savings = found.alternatives, found.savings
    return UseChanges(
        groups=np.concatenate([found.groups, found.groups, savings.groups]),
        uses=np.concatenate([uses, uses, np.full(len(savings.groups), -1)]),
        centers=np.concatenate([np.full(found.m, -1), elsewhere.centers, savings.centers]),
        gains=np.concatenate([local - found.losses, -elsewhere.costs, savings.values - local]),
    )


def ties_after(found: PassStatistics, move: Move, center: int, new: int) -> Int64Array:
    """Return the ties (m, 2) after the move of a center.

    A split ties second halves to the center `new`; after a delete each use is given up or tied to
    the next best center.
    """
    if move == Move.MERGE:
        return ties_after_merge(found, center, int(found.merges.partners[center]))
    if move == Move.SPLIT:
        return np.where((found.tied == center) & found.splits.second, new, found.tied)
    given_up = found.losses - found.prices.local < found.alternatives.costs
    instead = np.where(given_up, -1, found.alternatives.centers)[:, np.newaxis]
    return np.where(found.tied == center, instead, found.tied)


def ties_after_merge(found: PassStatistics, center: int, partner: int) -> Int64Array:
    """Return the ties (m, 2) with all uses of a center tied to its partner."""
    return np.where(found.tied == center, partner, found.tied)


class TrialMove(NamedTuple):
    """A move that a trial begins with, whatever it gains by itself."""

    move: Move
    """Merge, split or delete."""
    center: int

    @property
    def counted_as(self) -> MoveCounts:
        """The kind of trial that the history counts."""
        return MoveCounts(openings=1) if self.move == Move.SPLIT else MoveCounts(closings=1)


def trial_moves(found: PassStatistics, least_share: float) -> list[TrialMove]:
    """Return closings to try, then splits that save `least_share` of their price; best first."""
    gains, price = found.splits.gains, found.prices.both
    closings = greatest_gains(np.concatenate([found.merges.gains, found.deletes]), MAX_CLOSINGS)
    splits = greatest_gains(np.where(gains > (least_share - 1) * price, gains, -np.inf), MAX_SPLITS)
    kinds = Move.MERGE, Move.DELETE
    closing_moves = [TrialMove(kinds[number // found.g], number % found.g) for number in closings]
    return closing_moves + [TrialMove(Move.SPLIT, center) for center in splits]


def greatest_gains(gains: Float64Array, most: int) -> list[int]:
    """Return the positions of at most `most` finite gains, (m,), the greatest first."""
    positions = np.argsort(-gains, kind="stable")[:most]
    found: list[int] = positions[np.isfinite(gains[positions])].tolist()
    return found


@dataclass(frozen=True)
class RetiedCenters:
    """The centers that result from new ties of the halves."""

    found: PassStatistics
    tied: Int64Array
    """(m, 2), the ties."""
    size: int
    """Number of centers, those without rows included."""

    @cached_property
    def kept(self) -> BoolArray:
        """(m, 2), which halves have weight and a center."""
        kept: BoolArray = (self.tied >= 0) & (self.found.halves.weights > 0)
        return kept

    @cached_property
    def uses(self) -> Uses:
        """Data sets and centers of the kept halves; a pair may come twice."""
        groups = np.repeat(self.found.groups, 2).reshape(self.tied.shape)
        return Uses(groups[self.kept], self.tied[self.kept])

    @cached_property
    def weights(self) -> Float64Array:
        """(size,), weights of the centers."""
        return total(self.uses.centers, self.found.halves.weights[self.kept], self.size)

    @cached_property
    def means(self) -> Float64Array:
        """(size, d), means of the centers' rows; 0 without rows."""
        sums = sums_by_label(self.uses.centers, self.found.halves.sums[self.kept], self.size)
        return ratio(sums, self.weights[:, np.newaxis])

    def children(self, random: np.random.Generator) -> Float64Array:
        """Return (size, 2, d): means of the halves, or new children if halves changed centers."""
        children = self.found.children
        errors = total(self.uses.centers, self.found.halves.inertias[self.kept], self.size)
        means, divergence = self.means, self.found.divergence
        if divergence.general is not None:  # 0 may be no center
            some = self.weights[:, np.newaxis] > 0
            means = np.where(some, means, self.found.center_means[:1])
        fresh = around(means, np.sqrt(ratio(errors, self.weights)), random, divergence)
        changed = self.tied != self.found.tied
        stay = np.append(children.both, np.zeros(self.size - self.found.g, np.bool_))
        stay[self.found.tied[changed]] = False
        stay[self.tied[changed & self.kept]] = False
        fresh[stay] = children.means[stay[: self.found.g]]
        return fresh
