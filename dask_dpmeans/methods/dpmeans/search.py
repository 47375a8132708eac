"""The search for the lowest objective: moves, and trials of several passes, each judged by the objective.

Threshold births stop far above the optimum (Bachem et al. 2015, table 3), since they look at the distance of one row
and never at how many rows would gain (Odashima et al. 2016, theorem 1).  This search takes the penalty as a price.  It
goes on with the moves of `moves` and with means until nothing moves; then it tries, as Breathing k-means does (Fritzke
2020), to open clusters where a split saves most, to delete those whose rows lose least, or both, settles again, and
keeps what ends lower.  How many clusters a trial opens or deletes shrinks as trials fail.  In the end it moves single
rows, where these are few.  Where it began on all rows, kicks follow, and it looks at what births alone end with: it
goes on from what is lower, so that it ends no higher.
"""

import json
import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans.engine.checkpoints import Checkpoint, Values, state_of, values_of
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate, last_state
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import TooManyClustersError
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.move_statistics import MoveScan
from dask_dpmeans.kernels.random_streams import Stream, seed_sequence, stream
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.methods.dpmeans.batch import Parameters
from dask_dpmeans.methods.dpmeans.coreset import Sensitivity
from dask_dpmeans.methods.dpmeans.crossover import crossed
from dask_dpmeans.methods.dpmeans.moves import Findings, Moves, around, deletions, gains_of, moved, none_of, profitable
from dask_dpmeans.methods.dpmeans.row_exchange import KICKS, exchanged

SHARES = (0.3, 0.1, 0.05, 0.02)
"""Clusters that a trial opens or deletes, as a share of those there are: the larger ones first."""
KINDS = ("open", "delete", "swap")
"""Trials, in turn."""
SWAPPED = np.array([0, 0, 0, 0, 0, 1], np.int64)
"""What a state says of a step that moved single rows, or took over what births alone end with."""
TRIES = 3
"""Rounds of all kinds that must fail before a share is given up, where the search starts on all rows, ..."""
TRIES_ON_CORESET = 2
"""... where it runs on a coreset, ..."""
TRIES_AFTER = 1
"""... and on all rows after that."""
FREE_PASSES = 2
"""Passes after a trial's change in which only means and children move."""
MOST_PASSES = 60
"""Passes in which a trial settles."""
CHILDREN_GAIN = 1.01
"""Where centers stand still, passes go on as long as splits would save so much more with each."""
FINER = 5
"""Settling goes on until the objective falls by less than tol / FINER of it in a pass, ..."""
FINEST = 100
"""... and after the last trial on all rows until it falls by less than tol / FINEST."""
HOPE = 5
"""A trial is given up where so many gains like that of its last pass would not make it lower."""
CORESET_ABOVE = 2**15
"""Rows above which the search runs on a coreset first."""
LEAST_CORESET = 2**14
"""Rows of a coreset, about, ..."""
ROWS_A_CLUSTER = 64
"""... or so many for each cluster that moves and means find on one of that size."""
NO_LIMIT = 10**6
"""Steps of a search on a coreset."""
TRIALS_BELOW = 2**17
"""Rows, of a coreset or of all where there is none, above which these see moves and means alone."""
LAST_SHARES = 2
"""Shares that trials on all rows go on with after a coreset, ..."""
TRIALS_AFTER_BELOW = 2**19
"""... up to this many rows."""
OPTIMISM = 2
"""Rows of a coreset are nearer to their own means than all rows to these: each mean of squared error E over n rows
takes E / n off theirs and adds as much to that of the rest, so that a cluster is to cost so many of these more there
than the penalty (Efron 1986, section 2).  That is for rows of one weight, few of all; mnist10's coresets, of weights
from 1 to 8, came within 5 % of it."""
EXCHANGES_BELOW = 2**13
"""Rows, and ..."""
EXCHANGED_NUMBERS = 2**20
"""... numbers in them, up to which single rows are moved in the end."""
BIRTHS_TO_THE_END = 2**13
"""Rows up to which births alone, which a search ends no higher than, go on until centers repeat."""
RESTARTS = 2
"""Searches of a coreset, each with a seed of its own; two at least, for crossovers."""
CROSSOVERS = 12
"""Crossovers of these in a row that must fail before the lowest is taken."""


@dataclass(frozen=True)
class State:
    """Where a search stands after a number of steps: all that the next one needs."""

    step: int
    """Steps done."""
    centers: Float64Array
    """(k, d), the centers of the last committed pass.  A cluster that is split goes on under its number with one half,
    the other is added at the end; of a merged pair the lower number stays; where one leaves, those after it move up."""
    children: Float64Array
    """(k, 2, d), their children in that pass."""
    next_centers: Float64Array
    """(k', d), of the next pass, where the search has not settled."""
    next_children: Float64Array
    """(k', 2, d)."""
    weights: Float64Array
    """(k,), weights of the clusters."""
    inertias: Float64Array
    """(k,), squared error of the clusters, in squared units of the rows times weight."""
    objective: float
    """Inertia + penalty * k, of these centers on the data."""
    opened: Int64Array
    """(births,), the rows that opened clusters in this step, in order."""
    deaths: int
    """Clusters that were left without weight."""
    moves: Int64Array
    """(6,), merges, splits and deletes, and trials to open, delete and swap, that led here from the step before; moves
    of single rows, and births alone, count as a swap."""
    gains: Float64Array
    """(3,), what merges, splits and deletes were to gain at least."""
    planned: Int64Array
    """(3,), merges, splits and deletes of the next pass."""
    promised: Float64Array
    """(3,), what these are to gain at least."""
    settled: bool
    """Whether no move is planned and means gain little."""
    tries: int
    """Rounds of trials that must fail before a share is given up."""
    share: int
    """Index of the share that trials are at."""
    finest: bool
    """Whether passes go on more finely once trials have ended."""
    failures: int
    """Trials in a row that gained little."""
    compared: bool
    """Whether births alone have been looked at: what comes later is lower."""
    passes: int
    """Probes so far; each draws its own random numbers."""
    rows_read: int
    """Rows of all passes since the start, as if each had read them all: shards that stand are counted too."""

    @property
    def births(self) -> int:
        """Clusters opened in this step."""
        return len(self.opened)

    @property
    def on_all_rows(self) -> bool:
        """Whether trials are on all rows, and no coreset was searched before."""
        return self.tries == TRIES


@dataclass(frozen=True)
class Trial:
    """Where a trial came to."""

    found: Findings
    passes: int
    moves: Int64Array
    """(6,), as a state has them."""


@dataclass(frozen=True)
class Method(Parameters):
    """The search, with its parameters."""

    name: ClassVar[str] = "dpmeans-search"
    state: ClassVar[type[State]] = State

    seed: int = 0
    """Of all random numbers."""
    coreset_rows: int | None = None
    """Rows of the coreset that the search starts on, about; 0 for none, None for the rule: more than `CORESET_ABOVE`
    rows have one, of so many rows a cluster that a first search of few rows opens; where that is more than half of all
    rows, these are searched themselves, from the centers of the first search."""

    def seeded(self, seed: int) -> "Method":
        """The same search with another seed."""
        return replace(self, seed=seed)

    def reduction(self, centers: Float64Array) -> MoveScan:
        """What a pass does at these centers, (k, d)."""
        radii = np.full(len(centers), math.sqrt(self.penalty))
        return MoveScan(Centers(centers), around(centers, radii, self._random(0), self.geometry), math.inf)

    def init(self, source: Source) -> State:
        """The state before the first step."""
        centers = self.first_centers(source)
        spread = math.sqrt(float(source.summary.squares.sum()) / source.summary.weight)
        children = around(centers, np.full(len(centers), spread), self._random(0), self.geometry)
        return State(
            step=0,
            centers=centers,
            children=children,
            next_centers=centers,
            next_children=children,
            weights=np.zeros(len(centers)),
            inertias=np.zeros(len(centers)),
            objective=math.inf,
            opened=np.zeros(0, np.int64),
            deaths=0,
            moves=np.zeros(6, np.int64),
            gains=np.zeros(3),
            planned=np.zeros(3, np.int64),
            promised=np.zeros(3),
            settled=False,
            tries=TRIES,
            share=0 if source.plan.n_rows <= TRIALS_BELOW else len(SHARES),
            finest=source.plan.n_rows <= TRIALS_AFTER_BELOW,
            failures=0,
            compared=False,
            passes=1,
            rows_read=source.plan.n_rows,
        )

    def step(self, source: Source, state: State) -> State:
        """The next state that is lower: one pass where the search has not settled, or else a trial that succeeds."""
        if state.step == 0 and self.centers is None:
            state = self._from_coreset(source, state)
        saved = 0.0
        for _ in range(MOST_PASSES):
            if state.settled:
                break
            after, savings = self._pass(source, state)
            if after.objective < state.objective:
                return after
            # The centers stand still; their children may not, and show a split yet.
            stalled = not savings > CHILDREN_GAIN * saved
            state, saved = (
                replace(
                    state,
                    next_centers=after.next_centers,
                    next_children=after.next_children,
                    planned=after.planned,
                    promised=after.promised,
                    settled=stalled and not after.planned.any(),
                    passes=after.passes,
                    rows_read=after.rows_read,
                ),
                savings,
            )
        return self._try(source, state)

    def done(self, before: State, after: State) -> bool:
        """Never: the search ends with the step in which no trial and no birth lowers the objective."""
        return False

    def _random(self, passes: int) -> np.random.Generator:
        return stream(self.seed, Stream.SEARCH, passes)

    def _probe(
        self, source: Source, centers: Float64Array, children: Float64Array, penalty: float = math.inf
    ) -> Findings:
        """A pass; rows object beyond `penalty`."""
        probe = source.fold(MoveScan(Centers(centers), children, penalty), name="probe")
        return Findings(centers, children, probe, self.penalty, self.geometry)

    def _pass(self, source: Source, state: State) -> tuple[State, float]:
        """A pass against the next centers, what it plans, and the squared error that splits would save."""
        found = self._probe(source, state.next_centers, state.next_children)
        after = self._committed(state, found)
        finest = state.finest and state.share == len(SHARES)
        small = state.objective - after.objective < self.tol / (FINEST if finest else FINER) * after.objective
        done = replace(
            after,
            moves=np.append(state.planned, [0, 0, 0]),
            gains=state.promised,
            settled=after.settled and small,
            passes=state.passes + 1,
            rows_read=state.rows_read + source.plan.n_rows,
        )
        return done, float(found.savings.sum())

    def _committed(self, state: State, found: Findings) -> State:
        """The state that findings make, with the moves and the centers of the next pass."""
        alive = found.weights > 0
        k = int(np.count_nonzero(alive))
        batch.check_number(k, self.max_clusters, self.penalty)
        moves = profitable(found)
        next_centers, next_children = moved(found, moves, self._random(state.passes))
        planned = len(moves.merged), np.count_nonzero(moves.split), np.count_nonzero(moves.deleted & alive)
        return replace(
            state,
            step=state.step + 1,
            centers=found.centers[alive],
            children=found.children[alive],
            next_centers=next_centers,
            next_children=next_children,
            weights=found.weights[alive],
            inertias=found.probe.inertias[alive],
            objective=self.objective(found.inertia, k),
            opened=np.zeros(0, np.int64),
            deaths=found.k - k,
            moves=np.zeros(6, np.int64),
            gains=np.zeros(3),
            planned=np.array(planned, np.int64),
            promised=gains_of(found, moves),
            settled=not any(planned),
        )

    # Where a search starts that would read the rows too often

    def _from_coreset(self, source: Source, state: State) -> State:
        """The start with the centers that searches of a coreset end with; the same where the rule wants no coreset."""
        n, size = source.plan.n_rows, self.coreset_rows
        if size == 0 or (size is None and n <= CORESET_ABOVE):
            return state
        sensitivity, passes = Sensitivity.of(source, self.seed)
        coreset, passes = sensitivity.coreset(source, size or LEAST_CORESET), passes + 1
        alone = replace(self, max_clusters=None, max_iter=NO_LIMIT, coreset_rows=0)
        first = source.run([Restart(alone, tries=0)], coreset, "search")[0]
        if size is None:
            size = ROWS_A_CLUSTER * len(first.centers)
            if 2 * size > n:
                start = replace(state, next_centers=first.centers, next_children=first.children)
                return _read(source, start, passes)
            if size > LEAST_CORESET:
                coreset, passes = sensitivity.coreset(source, size), passes + 1
        optimism = OPTIMISM * float(first.inertias.sum()) / len(coreset.rows)
        alone = replace(alone, penalty=self.penalty + optimism)
        restarts = [Restart(alone.seeded(seed), TRIES_ON_CORESET) for seed in restart_seeds(self.seed)]
        best = source.run([Crossovers(alone, source.run(restarts, coreset, "search"))], coreset, "cross")[0]
        share = len(SHARES) - (LAST_SHARES if n <= TRIALS_AFTER_BELOW else 0)
        start = replace(state, next_centers=best.centers, next_children=best.children, share=share, tries=TRIES_AFTER)
        return _read(source, start, passes)

    # Trials

    def _try(self, source: Source, state: State) -> State:
        """The state of the first trial that ends lower, of births, or of finer passes, or of the same objective."""
        tried = state.share < len(SHARES)
        found = self._probe(source, state.centers, state.children, self.penalty)
        state = _read(source, state, 1)
        while state.share < len(SHARES):
            trial = self._trial(source, found, state)
            gained = state.objective - trial.found.objective
            state = _read(source, _judged(state, gained > self.tol / FINER * state.objective), trial.passes)
            if gained > 0:
                return replace(self._committed(state, trial.found), moves=trial.moves)
        after = self._births(source, state, found)
        if after.objective < state.objective:
            return after
        state = replace(state, passes=after.passes, rows_read=after.rows_read)
        if tried and state.finest:
            return self.step(source, replace(state, settled=False))
        return self._last(source, state)

    # The end

    def _last(self, source: Source, state: State) -> State:
        """The state that moves of single rows lead to, or births alone; the same where neither is lower."""
        for candidate in (self._exchanged, self._births_alone):
            centers, rows_read = candidate(source, state)
            if centers is None:
                continue
            radii = np.full(len(centers), math.sqrt(self.penalty))
            found = self._probe(source, centers, around(centers, radii, self._random(state.passes), self.geometry))
            state = _read(source, replace(state, rows_read=state.rows_read + rows_read), 1)
            if found.objective < state.objective:
                compared = state.compared or candidate == self._births_alone
                return replace(self._committed(state, found), moves=SWAPPED, settled=False, compared=compared)
        return state

    def _exchanged(self, source: Source, state: State) -> tuple[Float64Array | None, int]:
        """Means, (k, d), after moves of single rows, and the rows read; none where there are too many numbers."""
        n, d = source.plan.n_rows, state.centers.shape[1]
        if n > EXCHANGES_BELOW or n * d > EXCHANGED_NUMBERS:
            return None, 0
        gathered, kicks = source.fold(Gather(), name="gather"), KICKS if state.on_all_rows else 0
        return exchanged(gathered, state.centers, self.penalty, self.geometry, self._random(state.passes), kicks), n

    def _births_alone(self, source: Source, state: State) -> tuple[Float64Array | None, int]:
        """The centers, (k, d), that births alone end with, and the rows read; none where they have no answer."""
        if state.compared or not state.on_all_rows or self.penalty > self.geometry.farthest:
            return None, 0
        tol = 0.0 if source.plan.n_rows <= BIRTHS_TO_THE_END else self.tol
        limits = self.max_iter, tol, self.max_clusters
        try:
            *_, end = iterate(source, batch.Method(self.penalty, self.centers, *limits, self.metric))
        except TooManyClustersError:
            return None, 0
        return self.geometry.given(end.state.centers), end.state.rows_read - source.plan.n_rows

    def _births(self, source: Source, state: State, found: Findings) -> State:
        """Clusters at the rows beyond every center, the next means beside them; the same state where there is none."""
        proposals = found.probe.proposals
        if not len(proposals):
            return state
        random = self._random(state.passes)
        centers, children = moved(found, none_of(found), random)
        radii, opened = np.full(len(proposals), math.sqrt(self.penalty)), self.geometry.given(proposals.rows)
        found = self._probe(
            source,
            np.concatenate([centers, opened]),
            np.concatenate([children, around(opened, radii, random, self.geometry)]),
        )
        after = self._committed(_read(source, state, 1), found)
        return replace(after, opened=proposals.numbers, settled=False)

    def _trial(self, source: Source, found: Findings, state: State) -> Trial:
        """Open, delete or swap clusters, and settle."""
        random = self._random(state.passes)
        kind = KINDS[state.failures % len(KINDS)]
        count = _count(state)
        passes = 0
        centers, children = found.centers, found.children
        if kind != "delete":
            centers, children = moved(found, opening(found, count, random, noisy=state.failures > 0), random)
            centers, children = self._freely(source, centers, children, random)
            passes += FREE_PASSES
        if kind != "open":
            if kind == "swap":
                found, passes = self._probe(source, centers, children), passes + 1
            centers, children = moved(found, closing(found, count, random), random)
            centers, children = self._freely(source, centers, children, random)
            passes += FREE_PASSES
        found, settling = self._settle(source, centers, children, state.objective, random)
        moves = np.array([0, 0, 0, *(kind == each for each in KINDS)], np.int64)
        return Trial(found, passes + settling, moves)

    def crossed(self, source: Source, first: State, second: State, goal: float, random: np.random.Generator) -> State:
        """What becomes of the centers of two searches, crossed; hopeless above the goal."""
        places, others = crossed(first.centers, second.centers, random)
        centers = np.concatenate([first.centers[places], second.centers[others]])
        children = np.concatenate([first.children[places], second.children[others]])
        centers, children = self._freely(source, centers, children, random)
        found, _ = self._settle(source, centers, children, goal, random)
        return self._committed(first, found)

    def _freely(
        self, source: Source, centers: Float64Array, children: Float64Array, random: np.random.Generator
    ) -> tuple[Float64Array, Float64Array]:
        """Centers and children after some passes of means alone."""
        for _ in range(FREE_PASSES):
            found = self._probe(source, centers, children)
            centers, children = moved(found, none_of(found), random)
        return centers, children

    def _settle(
        self, source: Source, centers: Float64Array, children: Float64Array, goal: float, random: np.random.Generator
    ) -> tuple[Findings, int]:
        """The lowest findings of moves and means until these gain little, and the passes that it took.

        They end before where so many gains as the last one would not reach below the goal.
        """
        best = self._probe(source, centers, children)
        for passes in range(2, MOST_PASSES + 1):
            moves = profitable(best)
            found = self._probe(source, *moved(best, moves, random))
            gained = best.objective - found.objective
            if gained > 0:
                best = found
            hopeless = best.objective - HOPE * gained > goal
            if not gained > 0 or hopeless or (not moves.any and gained < self.tol / FINER * found.objective):
                return best, passes
        return best, MOST_PASSES


@dataclass(frozen=True)
class Restart:
    """A search without a coreset of its own, as a job."""

    method: Method
    tries: int
    """Rounds of trials that must fail before a share is given up; none at all where it is 0."""
    warm: State | None = None
    """The end of another search, from whose centers this one starts; None for those of the method."""

    def __call__(self, rows: Source) -> State:
        """The state that it ends with."""
        start = self.method.init(rows)
        if self.warm is not None:
            start = replace(start, next_centers=self.warm.centers, next_children=self.warm.children)
        start = replace(start, share=start.share if self.tries else len(SHARES), finest=False, tries=self.tries)
        return last_state(rows, self.method, start)


@dataclass(frozen=True)
class Crossovers:
    """Crossovers of the ends of searches, and of what comes of them, as a job."""

    method: Method
    ends: list[State]

    def __call__(self, rows: InMemoryRows) -> State:
        """The lowest state in the end; with checkpoints, from where the crossovers were left."""
        ends = sorted(self.ends, key=lambda end: end.objective)
        random = stream(self.method.seed, Stream.CROSSOVERS)
        failures = 0 if rows.plan.n_rows <= TRIALS_BELOW else CROSSOVERS
        with Checkpoint.of(rows, State, self) as checkpoint:
            crossed = checkpoint.restore(Crossed.restored) or Crossed(ends, failures, random)
            while crossed.failures < CROSSOVERS:
                crossed = self._next(rows, crossed)
                checkpoint.update(crossed.values(), over=crossed.failures == CROSSOVERS)
        return crossed.states[0]

    def _next(self, rows: InMemoryRows, crossed: "Crossed") -> "Crossed":
        """What one more crossover comes to."""
        states, random = crossed.states, crossed.random
        first, second = (states[place] for place in random.permutation(len(states))[:2])
        child = self.method.crossed(rows, first, second, states[0].objective, random)
        least = self.method.tol / FINER * child.objective
        failures = 0 if states[0].objective - child.objective > least else crossed.failures + 1
        if all(abs(child.objective - each.objective) > least for each in states):
            states = sorted([*states, child], key=lambda end: end.objective)[: len(self.ends)]
        return Crossed(states, failures, random)


@dataclass(frozen=True)
class Crossed:
    """Where crossovers stand."""

    states: list[State]
    """The lowest, from the lowest on."""
    failures: int
    """Crossovers in a row that gained little."""
    random: np.random.Generator
    """For the next ones."""

    def values(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all of it, as a checkpoint keeps it."""
        drawn = np.frombuffer(json.dumps(self.random.bit_generator.state).encode(), np.uint8)
        kept = {"failures": np.asarray(self.failures), "states": np.asarray(len(self.states)), "random": drawn}
        for number, state in enumerate(self.states):
            kept |= values_of(state, f"{number}.")
        return kept

    @classmethod
    def restored(cls, values: Values) -> "Crossed":
        """What was kept."""
        random = np.random.default_rng()
        random.bit_generator.state = json.loads(values["random"].tobytes())
        states = [state_of(State, values, f"{number}.") for number in range(int(values["states"]))]
        return cls(states, int(values["failures"]), random)


def restart_seeds(seed: int) -> list[int]:
    """Seeds of the searches of a coreset."""
    return [int(number) for number in seed_sequence(seed, Stream.RESTARTS).generate_state(RESTARTS)]


def opening(found: Findings, count: int, random: np.random.Generator, *, noisy: bool) -> Moves:
    """Splits of the clusters in which these save the most, or nearly."""
    chances = found.savings * (random.exponential(size=found.k) if noisy else 1.0)
    chosen = np.argsort(-chances, kind="stable")[:count]
    split = np.zeros(found.k, np.bool_)
    split[chosen[found.savings[chosen] > 0]] = True
    return replace(none_of(found), split=split)


def closing(found: Findings, count: int, random: np.random.Generator) -> Moves:
    """Deletes of the clusters whose rows lose the least, or nearly; those that receive them stay."""
    losses = found.transfer_losses * random.exponential(size=found.k) ** 0.3
    nothing = none_of(found)
    return replace(nothing, deleted=nothing.deleted | deletions(found, losses, math.inf, count)[0])


def _count(state: State) -> int:
    """Clusters that the next trial opens or deletes."""
    return max(1, int(SHARES[state.share] * len(state.centers)))


def _judged(state: State, success: bool) -> State:
    """The state after a trial: shares shrink as trials fail, down to one cluster."""
    failures = 0 if success else state.failures + 1
    if failures < state.tries * len(KINDS):
        return replace(state, failures=failures)
    share = state.share + 1 if _count(state) > 1 else len(SHARES)
    return replace(state, share=share, failures=0)


def _read(source: Source, state: State, passes: int) -> State:
    """The state after so many passes more."""
    return replace(state, passes=state.passes + passes, rows_read=state.rows_read + passes * source.plan.n_rows)
