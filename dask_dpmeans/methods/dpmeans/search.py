"""The search for the lowest objective: moves, and trials of several passes.

The objective judges every step.

Threshold births stop far above the optimum (Bachem et al. 2015, table 3): they look at the cost of
one row, not at how many rows would gain (Odashima et al. 2016, theorem 1).  The search takes the
penalty as a price of a cluster.

1. Moves (`moves`) and means go on until nothing moves, means of many rows with momentum
   (`search_passes`).
2. Trials, as in Breathing k-means (Fritzke 2020), open clusters where a split saves most, delete
   clusters whose rows lose least, or both, and settle again.  A trial that ends lower is kept.
   As trials fail, they change fewer clusters.  Of many clusters, a trial that does not end lower
   is kept in the regions that it makes better (`fusion`).  After a coreset, crossovers on all rows
   come first (`population`).
3. If the rows are few, single rows move (`row_exchange`).  Of fewer rows yet, in squared
   distances at a linear price and without outliers, a population of short searches
   (`short_searches`) takes the place of trials; in many columns these follow it.  More rows in few
   columns begin with such a population, of cells of rows (`starts`).  With the best effort, these
   are several.  More columns than rows are searched in as many as there are rows (`starts`).
4. If the search began on all rows, it goes on from the end of births alone if that is lower; with
   the best effort after short searches, from the end of the normal effort.
5. With the best effort, it goes on from the lowest member of a population (`population`) if that
   is lower, until a population finds nothing lower.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.history import MoveCounts
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import NamedArrays, Step, iterate
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.kernels.answers import Gather, GatheredRows
from dask_dpmeans.kernels.assign import NearestLabels
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.divergence import MOST_UNEVEN
from dask_dpmeans.kernels.outliers import Candidates
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.common import OPTIONAL
from dask_dpmeans.methods.dpmeans import batch, short_searches, trials
from dask_dpmeans.methods.dpmeans.batch import Parameters
from dask_dpmeans.methods.dpmeans.crossover import FINER
from dask_dpmeans.methods.dpmeans.moves import Findings, Placement, apply_moves, around, no_moves
from dask_dpmeans.methods.dpmeans.outlier_share import outlier_penalty_for
from dask_dpmeans.methods.dpmeans.population import check_gap_tol, cross_all_rows, evolve
from dask_dpmeans.methods.dpmeans.row_exchange import KICKS, exchange_and_kick
from dask_dpmeans.methods.dpmeans.search_passes import FREE_PASSES, MOST_PASSES, Passes
from dask_dpmeans.methods.dpmeans.search_state import NO_CENTERS, OPENINGS_ALONE, State
from dask_dpmeans.methods.dpmeans.starts import (
    NO_LIMIT,
    may_rotate,
    search_shortly,
    start_on_cells,
    start_on_coordinates,
    start_on_coreset,
)
from dask_dpmeans.methods.dpmeans.trials import SHARES, Trial

CHILDREN_GAIN = 1.01
"""Passes with unchanged centers go on while the savings of splits grow by this factor."""
EXCHANGES_BELOW = 2**13
"""Rows up to which single rows move in the end, and ..."""
EXCHANGED_NUMBERS = 2**20
"""... numbers in these rows."""
SHORT_NUMBERS = 2**16
"""Most numbers in the rows of short searches that take the place of trials."""
MANY_COLUMNS = 24
"""Columns from which on trials follow short searches, whose clusters begin at single rows.

Of seven problems with much noise, 60 to 1,000 rows in 24 to 500 columns, six seeds each, J was on average
.28 % above the lowest with short searches alone, and .00 % with both, in 1.5 times the time.  In 19 columns,
nine problems of 2,310 rows with less noise took 1.6 times as long and ended as low.
"""
NARROW = 3
"""Columns up to which rows that are too many for these begin with short searches of cells.

In 4 to 16 columns, such searches ended about as high as trials or higher, and took longer.
"""
NARROW_ROWS = 2**20
"""Most rows of such a search, which are gathered in memory."""
FUSED_CLUSTERS = 128
"""Clusters from which on a trial that is not lower is kept in the regions that it makes better (`fusion`).

One round of such trials is enough for each share.  Against trials that are kept or not as a whole, on
mnist10: at penalty 200, some 220 clusters, means of three seeds, J was .10 % lower in 1.7 of the time; at
40, some 800 clusters, one seed, .23 % in 1.1, and .38 % in 2.1 with three rounds.  At 1,000, with 65 clusters,
it was not lower."""
BIRTHS_TO_THE_END = 2**13
"""Rows up to which births alone go on until centers repeat."""
QUICK, NORMAL, BEST = EFFORTS = ("quick", "normal", "best")
"""Fewer trials, kicks and members, and no crossovers; the search; and populations after it."""
QUICK_KICKS = KICKS // 8
"""Kicks in a row of a quick search that must fail."""


@dataclass(frozen=True)
class Method(Passes):
    """The search, with its parameters."""

    name: ClassVar[str] = "dpmeans-search"
    state: ClassVar[type[State]] = State
    sweeps: ClassVar[type[batch.Method]] = batch.Method
    """Births alone at the same price."""

    coreset_rows: int | None = None
    """Rows of the coreset that the search starts on, about; 0 for a start on all rows.

    None: sources of more than `starts.CORESET_ABOVE` rows have a coreset, unless they begin with
    short searches of cells.  Its size follows from the clusters that a first search of a small
    coreset opens.  If it would be more than half of all rows, all rows are searched, from the
    centers of the first search.
    """
    effort: str = field(default=NORMAL, metadata=OPTIONAL)
    """How long the search goes on: one of `EFFORTS`."""
    gap_tol: float | None = field(default=None, metadata=OPTIONAL)
    """The best effort ends once it is proved to be at most this share above the optimum; None: never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "effort", checks.choice("effort", self.effort, EFFORTS))
        if self.gap_tol is not None:
            object.__setattr__(self, "gap_tol", checks.number("gap_tol", self.gap_tol, ">= 0"))
            check_gap_tol(self)
        if self.coreset_rows and self.divergence.general is not None:
            raise InputError(
                f"coreset_rows must be 0 or None with metric={self.metric!r}, "
                f"got {self.coreset_rows}: a coreset is drawn by squared distances"
            )

    def init(self, source: Source) -> State:
        """Return the state before the first step."""
        if self.outlier_share is not None:
            found, rows_read = outlier_penalty_for(self, source)
            start = self.with_outliers(found).init(source)
            return replace(start, rows_read=start.rows_read + rows_read)
        centers = self.first_centers(source)
        k, n = len(centers), source.plan.n_rows
        spread = math.sqrt(float(source.summary.squares.sum()) / source.summary.weight)
        children = around(centers, np.full(k, spread), self._random(0), self.divergence)
        return State(
            centers=centers,
            children=children,
            next_centers=centers,
            next_children=children,
            next_candidates=Candidates.none(centers.shape[1]),
            weights=np.zeros(k),
            inertias=np.zeros(k),
            share=self._first_share(n, centers.shape[1]),
            finest=n <= trials.TRIALS_AFTER_BELOW,
            outlier_penalty=self.most,
            rows_read=n,
        )

    def _few(self, n: int, state: State) -> bool:
        """Return whether short searches of all rows, n of them, take the place of trials."""
        few = n <= short_searches.SHORT_BELOW and n * state.centers.shape[1] <= SHORT_NUMBERS
        return few and self._plain and state.on_all_rows and not state.alone

    def _narrow(self, n: int, d: int) -> bool:
        """Return whether a search of n rows in d columns begins with short searches of cells."""
        return d <= NARROW and short_searches.SHORT_BELOW < n <= NARROW_ROWS and self._plain

    @property
    def _plain(self) -> bool:
        """Whether short searches know the costs, and no other start is asked for."""
        squared = self.divergence.general is None and not self.divergence.spherical
        alone = self.centers is None and not self.coreset_rows and math.isinf(self.most)
        return squared and alone and isinstance(self.price, LinearPrice)

    def _all_apart(self, state: State) -> bool:
        """Return whether each different row is a cluster of its own, and no merge gains: an optimum.

        A merge of two costs w_i w_j / (w_i + w_j) d_ij**2, at least the penalty.  So m of them in one
        cluster cost sum_ij w_i w_j d_ij**2 / W >= penalty * sum_ij (w_i + w_j) / W = penalty * (m - 1).
        Of very uneven clusters, not all merges are planned that gain.
        """
        exact = math.isfinite(state.objective) and not state.inertias.any()
        if not (exact and self._plain) or state.planned.any():
            return False
        even: bool = state.weights.max() <= MOST_UNEVEN * state.weights.min()
        return even

    def _first_share(self, n: int, d: int) -> int:
        """Return the index of the first share of a search that starts on n rows in d columns."""
        if n > trials.TRIALS_BELOW and not self._narrow(n, d):
            return len(SHARES)
        return trials.QUICK_SHARE if self.effort == QUICK else 0

    def with_outliers(self, penalty: float) -> "Method":
        """Return the method at a known price of outliers; infinite for none."""
        known = penalty if math.isfinite(penalty) else None
        return replace(self, outlier_penalty=known, outlier_share=None)

    def without_limits(self) -> "Method":
        """Return the method for a search in memory, as a part of another search."""
        effort = QUICK if self.effort == QUICK else NORMAL
        alone = replace(self, effort=effort, gap_tol=None)
        return replace(alone, max_clusters=None, max_iter=NO_LIMIT, coreset_rows=0)

    def labels(self, source: Source, state: State) -> NearestLabels:
        if self.outlier_share is not None:
            return self.with_outliers(state.outlier_penalty).labels(source, state)
        return super().labels(source, state)

    def score(self, source: Source, state: State) -> float:
        if self.outlier_share is not None:
            return self.with_outliers(state.outlier_penalty).score(source, state)
        return super().score(source, state)

    def result(self, source: Source, state: State) -> NamedArrays:
        """Return the arrays of the result, with the price and the weight of outliers."""
        arrays = super().result(source, state)
        if math.isfinite(state.outlier_penalty):
            figures = np.array([state.outlier_penalty, state.outlier_weight])
            arrays["outliers"] = figures, ("outlier_figure",)
        return arrays

    def step(self, source: Source, state: State) -> State:
        """Return the next lower state: of one pass, or of a trial if the search has settled."""
        if self.outlier_share is not None:
            return self.with_outliers(state.outlier_penalty).step(source, state)
        if state.step == 0 and self.centers is None:
            state = self._start(source, state)
        if self._all_apart(state):
            return state
        if state.step == 1 and state.share < len(SHARES) and self._few(source.plan.n_rows, state):
            after = self._short_searches(source, state)
            if after.objective < state.objective:
                return after
            state = after
        saved = 0.0
        for _ in range(MOST_PASSES):
            if state.settled:
                break
            after, savings = self._pass(source, state)
            if after.objective < state.objective:
                return after
            # The centers stand still; their children may still move and show a split.
            stalled = not savings > CHILDREN_GAIN * saved
            state = replace(
                state,
                next_centers=after.next_centers,
                next_children=after.next_children,
                next_candidates=after.next_candidates,
                earlier=NO_CENTERS,
                planned=after.planned,
                promised=after.promised,
                settled=stalled and not after.planned.any() and after.objective < math.inf,
                passes=after.passes,
                rows_read=after.rows_read,
            )
            saved = savings
        return self._try(source, state)

    def _start(self, source: Source, state: State) -> State:
        """Return the start in fewer columns, on cells or on a coreset; else the state."""
        n, d = source.plan.n_rows, state.centers.shape[1]
        searched = state.share < len(SHARES)
        if searched and may_rotate(self, n, d) and not self._few(n, state):
            return start_on_coordinates(self, source, state)
        if state.on_all_rows and searched and self._narrow(n, d):
            found = start_on_cells(self, source, state)
            if found is not None:
                return found
            share = len(SHARES) if n > trials.TRIALS_BELOW else state.share
            state = replace(state, share=share, rows_read=state.rows_read + n)
        return start_on_coreset(self, source, state)

    def done(self, before: State, after: State) -> bool:
        """Return False: the search ends with a step that does not lower the objective."""
        return False

    # Trials

    def _try(self, source: Source, state: State) -> State:
        """Return the first lower state of crossovers, trials, births, finer passes and the last part."""
        if state.to_cross and state.step:
            after = self._cross(source, replace(state, to_cross=False, settled=False))
            return after if after.objective < state.objective else self.step(source, after)
        tried = state.share < len(SHARES)
        threshold = self.price.threshold(len(state.centers))
        found = self._probe(source, state.places, threshold)
        state = state.after_passes(source, 1)
        while state.share < len(SHARES):
            least, rounds = self.tol / FINER, state.tries
            alone = state.tries == OPENINGS_ALONE
            if alone and not trials.openings_promise(found, state):
                state = trials.judge(state, success=False, rounds=rounds)
                continue
            trial = self._trial(source, found, state)
            if len(state.centers) >= FUSED_CLUSTERS:
                trial = self._best_regions(source, trial, state)
                least, rounds = self.tol, min(rounds, 1)
            gained = state.objective - trial.found.objective
            success = gained > least * state.objective
            state = trials.judge(state, success, rounds).after_passes(source, trial.passes)
            if gained > 0:
                return self._commit(state, trial.found, trial.moves)
        after = self._births(source, state, found)
        if after.objective < state.objective:
            return after
        state = replace(state, passes=after.passes, rows_read=after.rows_read)
        if tried and state.finest:
            return self.step(source, replace(state, settled=False))
        return self._last(source, state)

    def _trial(self, source: Source, found: Findings, state: State) -> Trial:
        """Open, delete or swap clusters, and settle."""
        random = self._random(state.passes)
        kind, count = trials.kind_of(state), trials.clusters_to_change(state)
        passes, places = 0, Placement(found.centers, found.children, found.candidates)
        if kind != "delete":
            moves = trials.splits_to_try(found, count, random, noisy=state.failures > 0)
            places = self._relax(source, apply_moves(found, moves, random), random)
            passes += FREE_PASSES
        if kind != "open":
            if kind == "swap":
                found, passes = self._probe(source, places), passes + 1
            moves = trials.deletes_to_try(found, count, random)
            places = self._relax(source, apply_moves(found, moves, random), random)
            passes += FREE_PASSES
        found, settling = self.settle(source, places, state.objective, random)
        return Trial(found, passes + settling, trials.KINDS[kind])

    def _best_regions(self, source: Source, trial: Trial, state: State) -> Trial:
        """Return a trial that ended lower; else the end of a fusion of its centers with the state's."""
        end = trial.found
        if end.objective < state.objective:
            return trial
        random = self._random(state.passes + trial.passes)
        ends = Placement(end.centers, end.children, end.candidates)
        places = self.fused(source, state.places, ends, random)
        if places is None:
            return replace(trial, passes=trial.passes + 1)
        found, passes = self.settle(source, places, state.objective, random)
        return Trial(found, trial.passes + 1 + passes, trial.moves)

    def exchange_rows(
        self, source: InMemoryRows, state: State, random: np.random.Generator
    ) -> State:
        """Return the state after moves of single rows."""
        gathered = source.fold(Gather(), name="gather")
        means = self._exchange_centers(source, gathered, state.centers, random, 0)
        return self._commit(state, self._probe(source, self._places(means, random)))

    def _births(self, source: Source, state: State, found: Findings) -> State:
        """Return the state with clusters at the rows that object; the same state if no row does."""
        proposals = found.probe.proposals
        if not len(proposals):
            return state
        random = self._random(state.passes)
        places = apply_moves(found, no_moves(found), random)
        radii = np.full(len(proposals), math.sqrt(self.price.threshold(found.alive)))
        opened = self.divergence.at_rows(proposals.rows)
        born = opened, around(opened, radii, random, self.divergence)
        centers = np.concatenate([places.centers, born[0]])
        children = np.concatenate([places.children, born[1]])
        both = Placement(centers, children, places.candidates)
        after = self._commit(state.after_passes(source, 1), self._probe(source, both))
        return replace(after, opened=proposals.numbers, settled=False)

    # The last part

    def _last(self, source: Source, state: State) -> State:
        """Return the state after moves of single rows or of a simpler search, if either is lower."""
        candidates = [self._exchange, self._simpler]
        if self.effort == BEST and not state.alone:
            candidates.append(self._evolve)
        for candidate in candidates:
            centers, rows_read = candidate(source, state)
            if centers is None:
                continue
            state = replace(state, compared=state.compared or candidate == self._simpler)
            after = self._take_if_lower(source, state, centers, rows_read)
            if after.objective < state.objective:
                return after
            state = after
        return state

    def _cross(self, source: Source, state: State) -> State:
        """Return the end of crossovers on all rows, if it is lower than a state, else the state."""
        random = stream(self.seed, Stream.POPULATION, state.passes)
        centers, rows_read = cross_all_rows(self, source, state, random)
        if centers is None:
            return replace(state, rows_read=state.rows_read + rows_read)
        return self._take_if_lower(source, state, centers, rows_read)

    def _take_if_lower(
        self, source: Source, state: State, centers: Float64Array, rows_read: int
    ) -> State:
        """Return the state at other centers, (k, d), if it is lower, else the state."""
        found = self._probe(source, self._places(centers, self._random(state.passes)))
        state = replace(state, rows_read=state.rows_read + rows_read).after_passes(source, 1)
        if found.objective < state.objective:
            return replace(self._commit(state, found, MoveCounts(swaps=1)), settled=False)
        return state

    def _exchange(self, source: Source, state: State) -> tuple[Float64Array | None, int]:
        """Return means, (k, d), after moves of few rows, else None, and the rows read."""
        n, d = source.plan.n_rows, state.centers.shape[1]
        if n > EXCHANGES_BELOW or n * d > EXCHANGED_NUMBERS:
            return None, 0
        kicks = QUICK_KICKS if self.effort == QUICK else KICKS
        short = self._few(n, state) and len(state.centers) <= short_searches.MOST_CLUSTERS
        if short and state.step == 2:  # the end of short searches
            return None, 0
        if short or not state.on_all_rows:
            kicks = 0
        gathered, random = source.fold(Gather(), name="gather"), self._random(state.passes)
        return self._exchange_centers(source, gathered, state.centers, random, kicks), n

    def _short_searches(self, source: Source, state: State) -> State:
        """Return the end of short searches without trials, if it is lower than a state."""
        n, random = source.plan.n_rows, stream(self.seed, Stream.SHORT_SEARCHES)
        gathered = source.fold(Gather(), name="gather")
        found = search_shortly(self, source, gathered, random)
        if found is None:  # too many clusters
            return replace(state, rows_read=state.rows_read + n)
        centers = self._exchange_centers(source, gathered, found, random, 0)
        after = self._probe(source, self._places(centers, random))
        state = replace(state, rows_read=state.rows_read + 2 * n, share=len(SHARES))
        if after.objective < state.objective:
            return self._commit(state, after, MoveCounts(swaps=1))
        return state

    def _exchange_centers(
        self,
        source: Source,
        gathered: GatheredRows,
        centers: Float64Array,
        random: np.random.Generator,
        kicks: int,
    ) -> Float64Array:
        """Return means, (k, d), after moves of single rows and kicks."""
        costs = self.price, self.divergence, self.most

        def move(_: Source) -> Float64Array:
            return exchange_and_kick(gathered, centers, costs, random, kicks)

        return source.here(move, "exchange")

    def _evolve(self, source: Source, state: State) -> tuple[Float64Array | None, int]:
        """Return the centers, (k, d), of the best member of a population, and the rows read."""
        return evolve(self, source, state, stream(self.seed, Stream.POPULATION, state.passes))

    def _simpler(self, source: Source, state: State) -> tuple[Float64Array | None, int]:
        """Return the centers, (k, d), of the lowest search that this one must not end above, and the rows read.

        Births alone, and trials where short searches of many columns took their place; or with the best
        effort the normal one, if other short searches began it.
        """
        if state.compared or state.alone:
            return None, 0
        n, d = source.plan.n_rows, state.centers.shape[1]
        short, ends, rows_read = self._few(n, state), list[Any](), 0
        if self.effort == BEST and (short or self._narrow(n, d)):
            searches = [iterate(source, replace(self, effort=NORMAL, gap_tol=None))]
        else:
            searches = [self._births_alone(source)] if state.on_all_rows else []
            if short and d >= MANY_COLUMNS:
                start = replace(self.init(source), alone=True)
                searches.append(iterate(source, self, start))
        for steps in searches:
            end = _end_of(steps)
            if end is not None:
                rows_read += end.rows_read - n
                ends.append(end)
        if not ends:
            return None, rows_read
        centers = self.divergence.at_rows(min(ends, key=lambda end: end.objective).centers)
        if short:  # in order, as the centers of short searches are
            centers = centers[np.lexsort(centers.T[::-1])]
        return centers, rows_read

    def _births_alone(self, source: Source) -> Iterator[Step[Any]]:
        """Yield the steps of births alone, under which the search must not end; none if no row objects."""
        if self.first_threshold > self.divergence.farthest:
            return
        shared = {each.name: getattr(self, each.name) for each in fields(Parameters)}
        shared["outlier_penalty"] = None
        if source.plan.n_rows <= BIRTHS_TO_THE_END:
            shared["tol"] = 0.0
        yield from iterate(source, self.sweeps(**shared))


def _end_of(steps: Iterator[Step[Any]]) -> Any:
    """Return the last state of a search, or of births alone; None with too many clusters or no step."""
    end = None
    with suppress(TooManyClustersError):
        for step in steps:
            end = step.state
        return end
    return None
