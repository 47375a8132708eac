"""Populations of searches (HG-means, Gribel & Vidal 2019).

The members are the end of the search so far and the ends of further searches.  Their children are
crossovers with one center swapped, after moves and means.  The lowest that differ survive.

After a coreset, further searches are of another coreset, and children settle on all rows.  The
best centers of a coreset are not the best of all rows: on 70,000 rows in 65 clusters, they ended
0.1 to 0.2 % too high, however long the coreset was searched.  The best effort does this with more
members and children.

With the best effort, few rows are all searched, in memory: parents win binary tournaments, and
children end with moves of single rows.  Of very many rows, this is done on a coreset, and the
lowest member then settles on all rows.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.lazy import LazyModule
from dask_dpmeans.methods.dpmeans.crossover import Crossovers, Schedule, cross
from dask_dpmeans.methods.dpmeans.moves import Placement
from dask_dpmeans.methods.dpmeans.row_exchange import LEAST_GAIN
from dask_dpmeans.methods.dpmeans.search_state import FEWEST_TRIES, State
from dask_dpmeans.methods.dpmeans.starts import (
    CORESET_ABOVE,
    Restart,
    coreset_and_price,
    may_cross_all_rows,
    start_at,
)

if TYPE_CHECKING:
    from dask_dpmeans.methods.dpmeans.search import Method
    from dask_dpmeans.methods.lower_bound import bounds
else:
    bounds = LazyModule("dask_dpmeans.methods.lower_bound.bounds")

MEMBERS = 16
"""Members that survive; HG-means keeps 10 to 20."""
FAILURES = 250
"""Children in a row that must fail before the end."""
SOME = Schedule(members=4, children=6)
"""Crossovers on all rows after a coreset."""
MANY = Schedule(members=8, failures=40, children=200)
"""The same with the best effort."""
FURTHER, MANY_FURTHER = 2, 7
"""Further searches of a coreset whose ends are crossed, and as many with the best effort."""


def evolve(
    method: "Method", source: Source, state: State, random: np.random.Generator
) -> tuple[Float64Array | None, int]:
    """Return the centers, (k, d), of the lowest member, if it is another one, and the rows read.

    There is no population if the state is proved to be near enough to the optimum.
    """
    n = source.plan.n_rows
    if method.gap_tol is not None and proved_gap(method, source, state) <= method.gap_tol:
        return None, n
    if n > CORESET_ABOVE and may_cross_all_rows(method, n, state.centers.shape[1]):
        return cross_all_rows(method, source, state, random, MANY, MANY_FURTHER)
    rows, alone, passes = _rows(method, source, state, int(random.integers(2**32)))
    passes += method.gap_tol is not None  # its rows
    seeds = [int(number) for number in random.integers(2**32, size=MEMBERS - 1)]
    first = Restart(alone, 0, state)
    others = [Restart(alone.seeded(seed), FEWEST_TRIES) for seed in seeds]
    members = source.run([first, *others], rows, "search")
    population = Population(alone.seeded(seeds[0]), members, Schedule(MEMBERS, FAILURES))
    centers = source.run([population], rows, "cross")[0].centers
    if n > CORESET_ABOVE:
        children = method.children_of(centers, random)
        places = Placement(centers, children, state.next_candidates)
        found, more = method.settle(source, places, state.objective, random)
        centers, passes = found.centers[found.weights > 0], passes + more
    return _unless_too_many(method, centers), passes * n


def cross_all_rows(
    method: "Method",
    source: Source,
    state: State,
    random: np.random.Generator,
    schedule: Schedule = SOME,
    further: int = FURTHER,
) -> tuple[Float64Array | None, int]:
    """Return the centers, (k, d), of the lowest of crossovers on all rows, and the rows read.

    Parents at first are the state and `further` searches of a coreset, settled on all rows.  The
    coreset chooses swaps of centers.  Nothing is crossed if all parents are about as low.
    """
    alone = replace(method.without_limits(), centers=None)
    seeds = [int(seed) for seed in random.integers(2**32, size=further)]
    k, inertia = len(state.centers), float(state.inertias.sum())
    sized = replace(alone, coreset_rows=method.coreset_rows, seed=seeds[0])
    coreset, priced, passes = coreset_and_price(sized, source, k, inertia)
    jobs = [Restart(priced.seeded(seed), FEWEST_TRIES) for seed in seeds]
    ends = [state]
    for found in source.run(jobs, coreset, "search"):
        places = start_at(state, found).next_places
        ends.append(alone.settle_state(source, state, places, math.inf, random))
    passes += sum(end.passes - state.passes for end in ends)
    crossovers = Crossovers(alone.seeded(seeds[0]), ends, schedule, coreset)
    objectives = [end.objective for end in ends]
    if max(objectives) - min(objectives) <= crossovers.least_gain(state):
        best = min(ends, key=lambda end: end.objective)
    else:
        best, more = crossovers.lowest(source)
        passes += more
    return _unless_too_many(method, best.centers), passes * source.plan.n_rows


def _unless_too_many(method: "Method", centers: Float64Array) -> Float64Array | None:
    """Return the centers, (k, d), unless there are too many."""
    most = method.max_clusters
    return None if most is not None and len(centers) > most else centers


@dataclass(frozen=True)
class Population(Crossovers):
    """Crossovers of winners of tournaments, with a center swapped, after moves of single rows."""

    def least_gain(self, child: State) -> float:
        return LEAST_GAIN * self.method.price.threshold(1)

    def child(
        self, rows: Source, states: list[State], random: np.random.Generator
    ) -> tuple[State, int]:
        memory = cast("InMemoryRows", rows)
        places = [random.integers(len(states), size=2).min() for _ in range(2)]
        one, two = (states[place] for place in places)
        goal = states[-1].objective
        child = cross(self.method, memory, (one, two), goal, random, memory)
        return self.method.exchange_rows(memory, child, random), 0  # no pass over all rows


def check_gap_tol(method: "Method") -> None:
    """Refuse a `gap_tol` that would say nothing."""
    if method.effort != "best":
        raise InputError(
            f"gap_tol needs effort='best', got effort={method.effort!r}: other efforts end sooner than a "
            "bound is proved; lower_bound tells the gap of their result"
        )
    outliers = method.outlier_penalty is not None or method.outlier_share is not None
    if method.divergence.general is not None or method.discount or outliers:
        raise InputError(
            "gap_tol needs squared distances, one price for each cluster and no outliers: no lower "
            "bound is known for other objectives; leave it out"
        )


def proved_gap(method: "Method", source: Source, state: State) -> float:
    """Return how far the objective of a state is above the optimum, at most, over the bound."""
    if source.plan.n_rows > CORESET_ABOVE:
        raise InputError(
            f"gap_tol is for up to {CORESET_ABOVE:,} rows, got {source.plan.n_rows:,}: leave it out, "
            "and lower_bound tells the gap of the result"
        )
    gathered = source.fold(Gather(), name="gather")
    data = gathered.rows, gathered.weights, method.penalty
    found = bounds.clusters_at(*data, state.centers, source)
    bound, _ = bounds.highest(found, bounds.FEW_ROWS)
    return max(0.0, found.objective / bound.value - 1)


def _rows(
    method: "Method", source: Source, state: State, seed: int
) -> tuple[InMemoryRows, "Method", int]:
    """Return the rows of the population, the method of its members, and the passes."""
    alone = replace(method.without_limits(), centers=None)
    if source.plan.n_rows > CORESET_ABOVE and method.divergence.general is None:
        inertia = float(state.inertias.sum())
        return coreset_and_price(alone.seeded(seed), source, len(state.centers), inertia)
    gathered = source.fold(Gather(), name="gather")
    some = gathered.weights > 0
    rows = np.ascontiguousarray(gathered.rows[some])
    return InMemoryRows(rows, gathered.weights[some], source.scale), alone, 1
