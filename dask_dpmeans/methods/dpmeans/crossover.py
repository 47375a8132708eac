"""Crossover: the centers of two searches make a third start (Gribel & Vidal 2019, section 3.2).

HG-means matches two sets of k centers at the least total distance, and draws one center of each
pair.  Here the numbers of centers differ and may be large: two centers that are nearest to each
other are a pair, and every other center is drawn or left out.  The moves that follow correct the
number of clusters.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dask_dpmeans.engine.checkpoints import Arrays, Checkpoint, state_of, values_of
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers, nearest, nearest_squared
from dask_dpmeans.kernels.random_streams import Stream, stream
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
    rows: InMemoryRows, centers: Centers, random: np.random.Generator
) -> tuple[IndexArray, IndexArray]:
    """Return numbers of the centers that stay, (k - 1,), and of a row to open at, (1,) or (0,).

    A row is drawn by what it costs at the centers that stay; none if no row costs anything.
    """
    kept = np.delete(np.arange(len(centers)), random.integers(len(centers)))
    if not len(kept):
        return np.arange(len(centers)), kept
    _, costs = nearest_squared(rows.rows, replace(centers, values=centers.values[kept]))
    costs = np.minimum(costs, centers.most)
    if rows.weights is not None:
        costs = costs * rows.weights
    chances = np.cumsum(costs)
    if not chances[-1] > 0:
        return kept, kept[:0]
    place = np.searchsorted(chances, random.random() * chances[-1], side="right")
    return kept, np.array([min(int(place), len(costs) - 1)])


@dataclass(frozen=True)
class Crossovers:
    """Crossovers of the ends of searches and of what follows from them, as a job."""

    method: "Method"
    ends: list[State]
    most: int = CROSSOVERS
    """Crossovers in a row that must fail before the lowest state is taken."""
    mutate: bool = False
    """Whether parents win tournaments, and children swap a center and move single rows."""

    def __call__(self, rows: InMemoryRows) -> State:
        """Return the lowest state; interrupted crossovers go on from their checkpoint."""
        ends = sorted(self.ends, key=lambda end: end.objective)
        random, failures = stream(self.method.seed, Stream.CROSSOVERS), 0
        if rows.plan.n_rows > trials.TRIALS_BELOW and not self.mutate:
            failures = self.most
        with Checkpoint.of(rows, State, self) as checkpoint:
            crossed = checkpoint.restore(Crossed.restored) or Crossed(ends, failures, random)
            while crossed.failures < self.most:
                crossed = self._next(rows, crossed)
                checkpoint.update(crossed.values(), over=crossed.failures == self.most)
        return crossed.states[0]

    def _next(self, rows: InMemoryRows, crossed: "Crossed") -> "Crossed":
        """Return the states after one more crossover."""
        states, random = crossed.states, crossed.random
        if self.mutate:
            first, second = (states[random.integers(len(states), size=2).min()] for _ in range(2))
            child = self.method.breed(rows, first, second, states[-1].objective, random)
            least = LEAST_GAIN * self.method.price.threshold(1)
        else:
            first, second = (states[place] for place in random.permutation(len(states))[:2])
            child = self.method.cross(rows, first, second, states[0].objective, random)
            least = self.method.tol / FINER * child.objective
        failures = crossed.failures + 1
        if states[0].objective - child.objective > least:
            failures = 0
        if all(abs(child.objective - each.objective) > least for each in states):
            states = sorted([*states, child], key=lambda end: end.objective)[: len(self.ends)]
        return Crossed(states, failures, random)


@dataclass(frozen=True)
class Crossed:
    """The states after a number of crossovers."""

    states: list[State]
    """The lowest ones, by rising objective."""
    failures: int
    """Crossovers in a row that gained little."""
    random: np.random.Generator
    """For the next ones."""

    def values(self) -> Arrays:
        """Return arrays for a checkpoint: counts, states, and the generator as bytes, (b,)."""
        drawn = np.frombuffer(json.dumps(self.random.bit_generator.state).encode(), np.uint8)
        counts = {"failures": self.failures, "states": len(self.states)}
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
        return cls(states, int(values["failures"]), random)
