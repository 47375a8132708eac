"""The search for the lowest eq. 2 of Kulis & Jordan 2012: several data sets that share centers.

Openings at a threshold look at one row at a time, and step 5 never gives up a use.  The search
starts from the end of Algorithm 2 or from a pooled search of all rows, whichever is lower after a
few passes.  Each pass measures what giving up a use would cost, what each center that a set does
not use would save, and how two child centers of each center divide the rows of its uses
(`kernels.hdp_search`).  From these statistics follow two groups of moves:

- a set gives up a use, takes one up, or ties a local cluster to another center.  The gain is exact
  for centers that do not move.  Each set makes its best change at once.  Centers of sets whose rows
  change uses stay fixed for the next pass; all other centers move to their means.
- two centers merge, one is split between its uses or by its rows, or one is deleted.  The gain is
  exact for the partition, or a lower bound.  Moves of one pass do not touch.

When no move gains anything, trials begin, as in `methods.dpmeans.search`: a merge, delete or split
that need not gain by itself, then a few passes of moves; the trial counts if its end is lower.  At
last single rows are exchanged if there are few rows (`row_exchange`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.hdp import NearestUses
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans.batch import check_number
from dask_dpmeans.methods.dpmeans.path import summary_of
from dask_dpmeans.methods.dpmeans.search_state import State as PooledState
from dask_dpmeans.methods.dpmeans.starts import LEAST_CORESET, Restart
from dask_dpmeans.methods.hdp import batch
from dask_dpmeans.methods.hdp.moves import plan_moves, ties_after, trial_moves
from dask_dpmeans.methods.hdp.pass_statistics import PassStatistics
from dask_dpmeans.methods.hdp.row_exchange import Members, exchange_rows
from dask_dpmeans.methods.hdp.search_pass import TOL_SHARE, SearchParameters, State, renumber
from dask_dpmeans.methods.hdp.state import Move, Uses

TRIAL_ROWS = 2**19
"""More rows than this see no trials."""
MAX_TRIAL_PASSES = 12
"""Passes of a trial."""
MAX_DEFICIT = 1.0
"""A trial ends if it is farther above its target than this many times the gain of its last pass."""
LEAST_SHARE = 0.25
"""With more than `EXCHANGE_ROWS` rows, trials split a center if that saves more than this share of
the prices of a center and a use.  Of 40 random problems, 2 to 14 sets of 20 to 150 rows, each ended
as with trials of all splits; of 6 problems of 200 rows without clusters one ended 0.8 % higher."""
EXCHANGE_ROWS = 2**10
"""More rows than this are not exchanged one by one."""
EXCHANGE_WORK = 2**20
"""Rows are not exchanged if rows * centers * columns exceeds this."""
MAX_IDLE_PASSES = 20
"""Passes in which the centers do not move while their children do."""
CHILDREN_GAIN = 1.01
"""Such passes go on while the savings of splits grow by this factor."""


@dataclass(frozen=True)
class TrialEnd:
    """The lowest pass of a trial."""

    found: PassStatistics
    before: State
    """The state before that pass."""
    objective: float
    """Eq. 2 of that pass."""
    rows_read: int
    """Rows of all passes since the start of the fit, passes after the lowest included."""


@dataclass(frozen=True)
class Method(SearchParameters):
    """The search for the lowest eq. 2."""

    name: ClassVar[str] = "hdp-search"

    def step(self, source: Source, state: State) -> State:
        """Do passes until eq. 2 falls; children go on while centers stand still; then do trials."""
        if state.step == 0:
            return self._lowest_start(source, state)
        after, saved = state, 0.0
        for _ in range(MAX_IDLE_PASSES):
            found = self.statistics(source, after)
            after = replace(self.state_after(found, plan_moves(found), after), step=state.step + 1)
            least, fell = self.least_gain(after), state.objective - after.objective
            if fell > least or (after.opened.size and fell > 0):
                return after
            if not (after.saved > least or found.row_savings > CHILDREN_GAIN * saved):
                break
            saved = found.row_savings
        return self._after_trials(source, found, after)

    def done(self, before: State, after: State) -> bool:
        """Return whether `after` is the end: no moves are planned, and no trial ended lower."""
        fell = before.objective - after.objective > self.least_gain(after)
        return not (after.associations or after.opened.size or fell)

    def _lowest_start(self, source: Source, state: State) -> State:
        """Return the lowest start, no higher than Algorithm 2, after some passes of moves."""
        ends = list[TrialEnd]()
        for start in self._starts(source, state):
            target = min((end.objective for end in ends), default=math.inf)
            start = replace(start, rows_read=start.rows_read + state.rows_read)
            end = self._run_trial(source, start, target)
            state = replace(state, rows_read=end.rows_read)
            ends.append(end)
        best = min(ends, key=lambda end: end.objective)
        return replace(self._state_of(best), step=1, rows_read=state.rows_read)

    def _starts(self, source: Source, state: State) -> Iterator[State]:
        """Yield the end of Algorithm 2, then ends of pooled searches; each with its own rows read."""
        limits, n_rows = (self.max_iter, self.tol, self.max_clusters), source.plan.n_rows
        plain = batch.Method(self.local_penalty, self.global_penalty, *limits, self.learned)
        *_, last = iterate(source, plain)
        found = last.state
        uses = Uses(found.local.groups, found.local.centers)
        yield self.start_at(state, found.centers, uses, found.rows_read - n_rows)
        n_sets = len(np.unique(uses.groups))
        if n_sets == 1:
            *_, pooled = iterate(source, self._pooled_search(self.prices.both))
            yield self._from_pooled(source, state, pooled.state, pooled.state.rows_read - n_rows)
            return
        rows, _ = summary_of(source, LEAST_CORESET, self.seed)
        restarts = []
        for users in (1.0, math.sqrt(n_sets), float(n_sets)):
            alone = self._pooled_search(self.global_penalty + self.local_penalty * users)
            restarts.append(Restart(replace(alone, coreset_rows=0), tries=0))
        for end in source.run(restarts, rows, "search"):
            yield self._from_pooled(source, state, end, n_rows)

    def _pooled_search(self, penalty: float) -> search.Method:
        """Return the search that takes all rows as one data set."""
        return search.Method(
            penalty, max_iter=self.max_iter, tol=self.tol, seed=self.seed, learned=self.learned
        )

    def _from_pooled(self, source: Source, state: State, end: PooledState, rows_read: int) -> State:
        """Return the start at centers of a pooled search, used by the sets whose rows are nearest."""
        centers = Centers(end.centers, self.divergence.general)
        keys = source.fold(NearestUses(centers), name="uses")
        uses = Uses(*np.divmod(keys, len(end.centers)))
        return self.start_at(state, end.centers, uses, rows_read + source.plan.n_rows)

    def _after_trials(self, source: Source, found: PassStatistics, after: State) -> State:
        """Return the end of the first lower trial, or else the state after exchanges of rows."""
        n, rows_read = source.plan.n_rows, after.rows_read
        least_share = -math.inf
        if n > EXCHANGE_ROWS:
            least_share = LEAST_SHARE
        moves = trial_moves(found, least_share) if n <= TRIAL_ROWS else []
        first = after.turn
        for number in range(first, first + len(moves)):
            trial = moves[number % len(moves)]
            tied = ties_after(found, trial.move, trial.center, found.g)
            start = self.start_with(after, found, tied)
            end = self._run_trial(source, replace(start, rows_read=rows_read), after.objective)
            rows_read = end.rows_read
            if after.objective - end.objective > self.least_gain(after):
                kept, turn = self._accept(end, after), (number + 1) % len(moves)
                return replace(kept, moves=trial.counted_as, gains=np.zeros(len(Move)), turn=turn)
        return self._after_exchange(source, replace(after, associations=0, rows_read=rows_read))

    def _run_trial(self, source: Source, state: State, target: float = math.inf) -> TrialEnd:
        """Return the lowest of some passes of moves; stop early if the target is out of reach.

        `max_clusters` counts only when a trial is accepted.
        """
        free, last, ends = replace(self, max_clusters=None), math.inf, list[TrialEnd]()
        for _ in range(MAX_TRIAL_PASSES):
            found = free.statistics(source, state)
            objective = self.objective(found.sweep.moments, found.g)
            rows_read = state.rows_read + found.sweep.settled.rows_read
            ends.append(TrialEnd(found, state, objective, rows_read))
            fell, last = last - objective, objective
            if fell < self.tol / TOL_SHARE * objective or objective - target > MAX_DEFICIT * fell:
                break
            state = free.state_after(found, plan_moves(found, hold=False), state)
        best = min(ends, key=lambda each: each.objective)
        return replace(best, rows_read=ends[-1].rows_read)

    def _accept(self, trial: TrialEnd, after: State) -> State:
        """Return the end of a trial as the same step as another state."""
        end = self._state_of(trial)
        return replace(end, step=after.step, associations=max(1, end.associations))

    def _state_of(self, trial: TrialEnd) -> State:
        """Return the state at the end of a trial, with planned moves that cannot lose."""
        check_number(trial.found.g, self.max_clusters, self.global_penalty)
        end = self.state_after(trial.found, plan_moves(trial.found), trial.before)
        return replace(end, rows_read=trial.rows_read)

    def _after_exchange(self, source: Source, after: State) -> State:
        """Return the state after exchanges of single rows if that is lower and the rows are few."""
        n = source.plan.n_rows
        if n > EXCHANGE_ROWS or n * after.means.size > EXCHANGE_WORK:
            return after
        centers, uses = self._exchange(source, after)
        start = self.start_at(after, centers, uses, after.rows_read + n)
        end = self._run_trial(source, start)
        if after.objective - end.objective > self.least_gain(after):
            return self._accept(end, after)
        return replace(after, rows_read=end.rows_read)

    def _exchange(self, source: Source, state: State) -> tuple[Float64Array, Uses]:
        """Return the centers, (h, d), and uses after exchanges of single rows: one pass."""
        gathered = source.fold(Gather(), name="gather")
        block = Block(0, gathered.rows, gathered.weights, groups=gathered.groups)
        (labels,) = self.labels(source, state)(block)
        heavy = np.flatnonzero(gathered.weights > 0)
        groups, sets = renumber(gathered.groups[heavy])
        origin = source.summary.mean
        if self.divergence.general is not None:
            origin = np.zeros_like(origin)
        rows = gathered.rows[heavy].astype(np.float64) - origin
        members = Members(rows, gathered.weights[heavy], sets, self.prices, self.divergence)
        best = exchange_rows(members, renumber(labels[heavy])[1])
        sets, centers = np.nonzero(members.uses(best))
        return members.means(best) + origin, Uses(groups[sets], centers)
