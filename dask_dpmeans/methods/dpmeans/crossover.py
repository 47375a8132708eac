"""Crossover: the centers of two searches make a third start (Gribel & Vidal 2019, section 3.2).

HG-means matches two sets of k centers at the least total distance, and draws one center of each
pair.  Here the numbers of centers differ and may be large: two centers that are nearest to each
other are a pair, and every other center is drawn or left out.  The moves that follow correct the
number of clusters.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from dask_dpmeans.engine.checkpoints import Arrays, Checkpoint, state_of, values_of
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array, IndexArray, dense
from dask_dpmeans.kernels.distance import Centers, nearest, nearest_squared
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.kernels.short_search import SWAP_TRIES
from dask_dpmeans.methods.dpmeans import trials
from dask_dpmeans.methods.dpmeans.row_exchange import LEAST_GAIN
from dask_dpmeans.methods.dpmeans.search_state import State

if TYPE_CHECKING:
    from dask_dpmeans.methods.dpmeans.search import Method

CROSSOVERS = 12
"""Crossovers in a row that must fail, if nothing else is asked for."""
FINER = 5
"""Crossovers and passes gain little if the objective falls by less than tol / FINER of it."""


def draw_centers(
    first: Float64Array, second: Float64Array, random: np.random.Generator
) -> tuple[IndexArray, IndexArray]:
    """Return the rising numbers of drawn centers of the first, (k, d), and the second, (l, d).

    At least one is drawn, since the two closest centers are a pair.
    """
    of_first, of_second = nearest(first, Centers(second)), nearest(second, Centers(first))
    paired = of_second[of_first] == np.arange(len(first))
    drawn = random.random(len(first)) < 0.5
    drawn_second = random.random(len(second)) < 0.5
    drawn_second[of_first[paired]] = ~drawn[paired]
    return np.flatnonzero(drawn), np.flatnonzero(drawn_second)


def swap_center(
    rows: InMemoryRows, centers: Centers, divergence: Divergence, random: np.random.Generator
) -> tuple[IndexArray, Float64Array]:
    """Return numbers of the centers that stay, (k - 1,), and a center at a row, (1, d) or (0, d).

    Of some drawn centers the one leaves that the rows lose least by.  Of as many rows, drawn by
    what they cost then, the center is at the one that saves most; there is none if no row costs
    anything.  A lone center stays.
    """
    k = len(centers)
    if k == 1:
        return np.arange(1), centers.values[:0]
    tries = int(random.integers(1, SWAP_TRIES, endpoint=True))
    labels, costs = nearest_squared(rows.rows, centers)
    costs = np.minimum(costs, centers.most)
    weights = np.ones(len(costs)) if rows.weights is None else rows.weights
    least = np.inf
    for c in random.integers(k, size=tries):
        others, members = np.delete(np.arange(k), c), np.flatnonzero(labels == c)
        after = costs[:0]
        if len(members):
            values = replace(centers, values=centers.values[others])
            after = np.minimum(nearest_squared(rows.rows[members], values)[1], centers.most)
        loss = float(((after - costs[members]) * weights[members]).sum())
        if loss < least:
            least, kept, leaving, risen = loss, others, members, after
    costs[leaving] = risen
    chances, most, opened = np.cumsum(costs * weights), -np.inf, centers.values[:0]
    if not chances[-1] > 0:
        return kept, opened
    for place in np.searchsorted(chances, random.random(tries) * chances[-1], side="right"):
        row = min(int(place), len(costs) - 1)
        at_row = divergence.at_rows(dense(rows.rows[row : row + 1]).astype(np.float64))
        _, found = nearest_squared(rows.rows, replace(centers, values=at_row))
        saved = float((np.maximum(costs - found, 0.0) * weights).sum())
        if saved > most:
            most, opened = saved, at_row
    return kept, opened


@dataclass(frozen=True)
class Schedule:
    """How long crossovers go on."""

    members: int = 2
    """States that survive, at least as many as there are ends."""
    failures: int | None = None
    """Crossovers in a row that must fail before the lowest state is taken; None: no end by this."""
    children: int | None = None
    """Most crossovers."""
    starts: int = 1
    """Further searches whose ends are parents."""

    def over(self, failures: int, children: int) -> bool:
        """Return whether so many failures in a row, of so many crossovers, are the end."""
        failed = self.failures is not None and failures >= self.failures
        return failed or (self.children is not None and children >= self.children)


@dataclass(frozen=True)
class Crossovers:
    """Crossovers of the ends of searches and of what follows from them, as a job."""

    method: "Method"
    ends: list[State]
    schedule: Schedule | None = None
    """None: `CROSSOVERS` in a row must fail, and as many states survive as there are ends."""
    sample: InMemoryRows | None = None
    """Rows by which children swap a center, if they do: a coreset, or all rows of a population."""
    mutate: bool = False
    """Whether children swap a center by the rows of the job, and move single rows."""

    def __call__(self, rows: Source) -> State:
        """Return the lowest state; interrupted crossovers go on from their checkpoint."""
        return self.lowest(rows)[0]

    def lowest(self, rows: Source) -> tuple[State, int]:
        """Return the lowest state and the number of passes."""
        ends = sorted(self.ends, key=lambda end: end.objective)
        schedule = self.schedule or Schedule(len(ends), CROSSOVERS)
        many = rows.plan.n_rows > trials.TRIALS_BELOW and not self.mutate and self.sample is None
        with Checkpoint.of(rows, State, self) as checkpoint:
            crossed = checkpoint.restore(Crossed.restored)
            if crossed is None:
                crossed = Crossed(ends, 0, stream(self.method.seed, Stream.CROSSOVERS))
            while not many and not schedule.over(crossed.failures, crossed.children):
                crossed = self._next(rows, crossed, max(schedule.members, len(ends)))
                over = schedule.over(crossed.failures, crossed.children)
                checkpoint.update(crossed.values(), over=over)
        return crossed.states[0], crossed.passes

    def _next(self, rows: Source, crossed: "Crossed", members: int) -> "Crossed":
        """Return the states after one more crossover."""
        states, random = crossed.states, crossed.random
        sample, method = self.sample, self.method
        if self.mutate:
            first, second = (states[random.integers(len(states), size=2).min()] for _ in range(2))
            sample = cast("InMemoryRows", rows)
        else:
            first, second = (states[place] for place in random.permutation(len(states))[:2])
        if sample is None:
            child = method.cross(rows, first, second, states[0].objective, random)
        else:
            child = method.breed(rows, sample, (first, second), states[-1].objective, random)
        least = method.tol / FINER * child.objective
        if self.mutate:
            least = LEAST_GAIN * method.price.threshold(1)
        failures = crossed.failures + 1
        if states[0].objective - child.objective > least:
            failures = 0
        if all(abs(child.objective - each.objective) > least for each in states):
            states = sorted([*states, child], key=lambda end: end.objective)[:members]
        passes = crossed.passes + child.passes - first.passes
        return Crossed(states, failures, random, crossed.children + 1, passes)


@dataclass(frozen=True)
class Crossed:
    """The states after a number of crossovers."""

    states: list[State]
    """The lowest ones, by rising objective."""
    failures: int
    """Crossovers in a row that gained little."""
    random: np.random.Generator
    """For the next ones."""
    children: int = 0
    """Crossovers."""
    passes: int = 0
    """Passes of these in which children settled."""

    def values(self) -> Arrays:
        """Return arrays for a checkpoint: counts, states, and the generator as bytes, (b,)."""
        drawn = np.frombuffer(json.dumps(self.random.bit_generator.state).encode(), np.uint8)
        counts = {"failures": self.failures, "states": len(self.states)}
        counts |= {"children": self.children, "passes": self.passes}
        kept = {name: np.asarray(count) for name, count in counts.items()} | {"random": drawn}
        for number, state in enumerate(self.states):
            kept |= values_of(state, f"{number}.")
        return kept

    @classmethod
    def restored(cls, values: Arrays) -> "Crossed":
        """Return the states of a checkpoint."""
        random = np.random.default_rng()
        random.bit_generator.state = json.loads(values["random"].tobytes())
        states = [state_of(State, values, f"{number}.") for number in range(int(values["states"]))]
        counts = (int(values[name]) for name in ("children", "passes"))
        return cls(states, int(values["failures"]), random, *counts)
