"""The best effort: a population of searches of rows in memory (HG-means, Gribel & Vidal 2019).

The members are the end of the search so far and the ends of further searches.  `Crossovers` makes
children of them: each is the crossover of two winners of binary tournaments, with one center
swapped, after moves and means and then moves of single rows.  The lowest that differ survive.

Few rows are all members' rows.  Of more rows further searches are of a coreset, and children settle on
all rows, with a center swapped as the coreset chooses it.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.methods.dpmeans.bounds import FEW_ROWS, clusters_at, highest
from dask_dpmeans.methods.dpmeans.crossover import Crossovers, Schedule
from dask_dpmeans.methods.dpmeans.search_state import TRIES_BEFORE_CROSSOVERS, State
from dask_dpmeans.methods.dpmeans.starts import CORESET_ABOVE, Restart, coreset_and_price, start_at

if TYPE_CHECKING:
    from dask_dpmeans.methods.dpmeans.search import Method

MEMBERS = 16
"""Members that survive; HG-means keeps 10 to 20."""
FAILURES = 250
"""Children in a row that must fail before the end."""
TRIES = 1
"""Rounds of trials of the search of a member."""
SOME = Schedule(members=4, failures=12, children=20)
"""Crossovers on all rows after a coreset.

A search of a coreset ends at an optimum of the coreset: of 70,000 rows in 65 clusters, .1 to .2 %
above the lowest of all rows, however long it goes on.  With eight members, five sets of 40,000 to
70,000 rows ended .02 % higher on average.
"""
UNTIL_FAILURES = Schedule(members=8, failures=40, starts=7)
"""Crossovers on all rows with the best effort."""


def evolve(
    method: "Method", source: Source, state: State, random: np.random.Generator
) -> tuple[Float64Array | None, int]:
    """Return the centers, (k, d), of the lowest member, if it is another one, and the rows read.

    There is no population if the state is proved to be near enough to the optimum.
    """
    if method.gap_tol is not None and proved_gap(method, source, state) <= method.gap_tol:
        return None, source.plan.n_rows
    if source.plan.n_rows > CORESET_ABOVE and method.divergence.general is None:
        centers, passes = cross_on_all_rows(method, source, state, random, UNTIL_FAILURES)
    else:
        centers, passes = _cross_in_memory(method, source, state, random)
        passes += method.gap_tol is not None  # its rows
    most = method.max_clusters
    lowest = None if most is not None and len(centers) > most else centers
    return lowest, passes * source.plan.n_rows


def _cross_in_memory(
    method: "Method", source: Source, state: State, random: np.random.Generator
) -> tuple[Float64Array, int]:
    """Return the centers, (k, d), of the lowest member of a population of all rows, and the passes."""
    alone = replace(method.without_limits(), centers=None)
    gathered = source.fold(Gather(), name="gather")
    some = gathered.weights > 0
    rows = np.ascontiguousarray(gathered.rows[some])
    memory = InMemoryRows(rows, gathered.weights[some], source.scale)
    own = [alone.seeded(int(seed)) for seed in random.integers(2**32, size=MEMBERS - 1)]
    jobs = [Restart(alone, 0, state), *(Restart(each, TRIES) for each in own)]
    ends, schedule = source.run(jobs, memory, "search"), Schedule(MEMBERS, FAILURES)
    population = Crossovers(own[0], ends, schedule, mutate=True)
    return source.run([population], memory, "cross")[0].centers, 1


def cross_on_all_rows(
    method: "Method", source: Source, state: State, random: np.random.Generator, schedule: Schedule
) -> tuple[Float64Array, int]:
    """Return the centers, (k, d), of the lowest of crossovers on all rows, and the passes.

    Parents at first are the state and further searches of a coreset, settled on all rows; the
    coreset chooses swaps of centers.
    """
    alone = replace(method.without_limits(), centers=None)
    seeds = [int(seed) for seed in random.integers(2**32, size=schedule.starts)]
    found = len(state.centers), float(state.inertias.sum())
    coreset, priced, passes = coreset_and_price(alone.seeded(seeds[0]), source, *found)
    jobs = [Restart(priced.seeded(seed), TRIES_BEFORE_CROSSOVERS) for seed in seeds]
    starts = [start_at(state, end) for end in source.run(jobs, coreset, "search")]
    ends = [alone.settled(source, start, random) for start in starts]
    passes += sum(end.passes - state.passes for end in ends)
    crossovers = Crossovers(alone.seeded(seeds[0]), [state, *ends], schedule, coreset)
    best, more = crossovers.lowest(source)
    return best.centers, passes + more


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
            f"gap_tol is for up to {CORESET_ABOVE:,} rows, got {source.plan.n_rows:,}: the population "
            "of more rows is of a coreset; leave it out, and lower_bound tells the gap of the result"
        )
    gathered = source.fold(Gather(), name="gather")
    data = gathered.rows, gathered.weights, method.penalty
    found = clusters_at(*data, state.centers, source)
    bound, _ = highest(found, FEW_ROWS)
    return max(0.0, found.objective / bound.value - 1)
