"""Crossover: the centers of two searches make a third start (Gribel & Vidal 2019, section 3.2).

The better of the two is taken region by region (`fusion`), if each is better somewhere.  Else the
centers are drawn.  HG-means matches two sets of k centers at the least total distance, and draws one
center of each pair.  Here the numbers of centers differ and may be large: two centers that are
nearest to each other are a pair, and every other center is drawn or left out.  The moves that follow
correct the number of clusters.
"""

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dask_dpmeans.engine.checkpoints import Arrays, Checkpoint, state_of, values_of
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers, costs, nearest, nearest_two
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.kernels.short_search import SWAP_TRIES
from dask_dpmeans.methods.dpmeans.moves import Placement
from dask_dpmeans.methods.dpmeans.search_state import State

if TYPE_CHECKING:
    from dask_dpmeans.methods.dpmeans.search import Method

FINER = 5
"""Crossovers and passes gain little if the objective falls by less than tol / FINER of it."""
COUNTS = ("failures", "children", "passes")
"""Counts of crossovers in a checkpoint."""


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
) -> Float64Array:
    """Return centers, (k, d), of which one left and one opened at a row; a lone center stays.

    Of some drawn centers the one leaves that costs least without it.  Of as many rows, drawn by
    what they cost then, the one is opened at that saves most; none if no row costs anything.
    """
    k = len(centers)
    if k == 1:
        return centers.values
    tries = int(random.integers(1, SWAP_TRIES, endpoint=True))
    weights = np.ones(len(rows.rows)) if rows.weights is None else rows.weights
    labels, seconds = nearest_two(rows.rows, centers)
    paid, without = (_costs(rows, centers, each) for each in (labels, seconds))
    losses = np.bincount(labels, np.where(without > paid, without - paid, 0.0) * weights, k)
    drawn = random.integers(k, size=tries)
    left = drawn[losses[drawn].argmin()]
    paid = np.where(labels == left, without, paid)
    kept = np.delete(centers.values, left, axis=0)
    chances = np.cumsum(paid * weights)
    if not chances[-1] > 0:
        return kept
    places = np.searchsorted(chances, random.random(tries) * chances[-1], side="right")
    numbers = np.minimum(places, len(paid) - 1)
    opened = divergence.at_rows(rows.rows[numbers].astype(np.float64))
    saved, only = [], np.zeros(len(paid), np.intp)
    for each in opened:  # what rows save if they may take one more center
        after = _costs(rows, replace(centers, values=each[np.newaxis]), only)
        saved.append(float((np.where(after < paid, paid - after, 0.0) * weights).sum()))
    return np.concatenate([kept, opened[[int(np.argmax(saved))]]])


def _costs(rows: InMemoryRows, centers: Centers, labels: IndexArray) -> Float64Array:
    """Return what the rows cost at the centers of some labels, (n,), at most as outliers."""
    return np.minimum(costs(rows.rows, centers, labels), centers.most)


def cross(
    method: "Method",
    source: Source,
    parents: tuple[State, State],
    goal: float,
    random: np.random.Generator,
    sample: InMemoryRows | None = None,
) -> State:
    """Return the state of a crossover of two searches, given up without hope of the goal.

    With a sample of the rows one center is swapped, as the sample chooses it.
    """
    one, two = parents
    places = method.fused(source, one.places, two.places, random)
    if places is None:
        drawn, others = draw_centers(one.centers, two.centers, random)
        centers = np.concatenate([one.centers[drawn], two.centers[others]])
        children = np.concatenate([one.children[drawn], two.children[others]])
        places = Placement(centers, children, one.next_candidates)
    if sample is not None:
        given = method.kernel_centers(places.centers)
        centers = swap_center(sample, given, method.divergence, random)
        places = Placement(centers, method.children_of(centers, random), places.candidates)
    start = one.after_passes(source, 1)
    return method.settle_state(source, start, places, goal, random)


@dataclass(frozen=True)
class Schedule:
    """How many states survive, and how long crossovers go on."""

    members: int = 2
    """Lowest states that survive."""
    failures: int = 12
    """Crossovers in a row that must fail before the lowest state is taken."""
    children: int = 10**6
    """Most crossovers."""


@dataclass(frozen=True)
class Crossovers:
    """Crossovers of the ends of searches and of what follows from them, as a job."""

    method: "Method"
    ends: list[State]
    schedule: Schedule = Schedule()
    sample: InMemoryRows | None = None
    """Rows that choose which center a child swaps; None: children swap none.

    With a sample, a child is given up unless it may be lower than the highest state, not the lowest.
    """

    def __call__(self, rows: Source) -> State:
        """Return the lowest state."""
        return self.lowest(rows)[0]

    def lowest(self, rows: Source) -> tuple[State, int]:
        """Return the lowest state and the passes; interrupted crossovers go on from their checkpoint."""
        ends = sorted(self.ends, key=lambda end: end.objective)
        start = Crossed(ends, 0, stream(self.method.seed, Stream.CROSSOVERS))
        with Checkpoint.of(rows, State, self) as checkpoint:
            crossed = checkpoint.restore(Crossed.from_arrays) or start
            while not self._over(crossed):
                crossed = self._next(rows, crossed)
                checkpoint.update(crossed.values(), over=self._over(crossed))
        return crossed.states[0], crossed.passes

    def _over(self, crossed: "Crossed") -> bool:
        limits = self.schedule
        return crossed.failures >= limits.failures or crossed.children >= limits.children

    def _next(self, rows: Source, crossed: "Crossed") -> "Crossed":
        """Return the states after one more crossover."""
        states, random = crossed.states, crossed.random
        child, passes = self.child(rows, states, random)
        least = self.least_gain(child)
        failures = crossed.failures + 1
        if states[0].objective - child.objective > least:
            failures = 0
        if all(abs(child.objective - each.objective) > least for each in states):
            states = sorted([*states, child], key=lambda end: end.objective)
            states = states[: self.schedule.members]
        return Crossed(states, failures, random, crossed.children + 1, crossed.passes + passes)

    def least_gain(self, child: State) -> float:
        """Return how much lower a child must be to count."""
        return self.method.tol / FINER * child.objective

    def child(
        self, rows: Source, states: list[State], random: np.random.Generator
    ) -> tuple[State, int]:
        """Return the child of two of the states, and its passes."""
        one, two = (states[place] for place in random.permutation(len(states))[:2])
        goal = states[0].objective
        if self.sample is not None:
            goal = states[-1].objective
        child = cross(self.method, rows, (one, two), goal, random, self.sample)
        return child, child.passes - one.passes


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
    """Passes of these."""

    def values(self) -> Arrays:
        """Return arrays for a checkpoint: counts, states, and the generator as bytes, (b,)."""
        drawn = np.frombuffer(json.dumps(self.random.bit_generator.state).encode(), np.uint8)
        counts = {name: getattr(self, name) for name in COUNTS} | {"states": len(self.states)}
        kept = {name: np.asarray(count) for name, count in counts.items()} | {"random": drawn}
        for number, state in enumerate(self.states):
            kept |= values_of(state, f"{number}.")
        return kept

    @classmethod
    def from_arrays(cls, values: Arrays) -> "Crossed":
        """Return the states of a checkpoint."""
        random = np.random.default_rng()
        random.bit_generator.state = json.loads(values["random"].tobytes())
        states = [state_of(State, values, f"{number}.") for number in range(int(values["states"]))]
        return cls(states=states, random=random, **{name: int(values[name]) for name in COUNTS})
