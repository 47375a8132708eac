"""The start of a search of many rows, or of more columns than rows.

Rows in few columns begin with short searches of cells.  Others begin with a search of a coreset, if
crossovers on all rows follow (`population`), or else with two searches and crossovers of their ends.
Rows in more columns than there are rows are searched in fewer columns (`rotation`).
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate, steps_to_end
from dask_dpmeans.engine.plan import Source, run_fits
from dask_dpmeans.kernels.answers import Gather, GatheredRows
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.kernels.random_streams import Stream, seed_sequence, stream
from dask_dpmeans.methods.dpmeans import trials
from dask_dpmeans.methods.dpmeans.coreset import Sensitivity
from dask_dpmeans.methods.dpmeans.crossover import Crossovers
from dask_dpmeans.methods.dpmeans.rotation import Rotation, is_wide
from dask_dpmeans.methods.dpmeans.search_state import (
    FEWEST_TRIES,
    OPENINGS_ALONE,
    TRIES_ON_CORESET,
    State,
)
from dask_dpmeans.methods.dpmeans.short_searches import lowest_centers

if TYPE_CHECKING:
    from dask_dpmeans.methods.dpmeans.search import Method

CORESET_ABOVE = 2**15
"""Rows above which the search runs on a coreset first, unless short searches of cells take its place."""
LEAST_CORESET = 2**14
"""Rows of the smallest coreset, about."""
ROWS_A_CLUSTER = 64
"""Rows of a coreset for each cluster that moves and means find on the smallest coreset."""
BEST_POPULATIONS = 6
"""Populations of short searches with the best effort, each from draws of its own.

Of 100,000 rows in 61 clusters, one ended .07 % above the lowest J known, the lowest of six .09 % below."""
CROSSED_NUMBERS = 2**24
"""Most numbers in rows that see crossovers on all rows.  Such a search reads them 100 to 500 times, and
up to 2,500 times with the best effort."""
NO_LIMIT = 10**6
"""Steps of a search on a coreset."""
OPTIMISM = 2
"""Squared errors by which a cluster costs more on a coreset, in units of error for each row.

Rows of a coreset are nearer to their own means than all rows are.  With squared error E over n
rows, each mean takes E / n off the error of the coreset and adds as much to the error of all other
rows (Efron 1986, section 2).  This holds for a small share of the rows, with equal weights; on
coresets of mnist10, of weights from 1 to 8, it was within 5 %.
"""
RESTARTS = 2
"""Searches of a coreset, each with its own seed, if their ends are crossed there."""
WIDE_NUMBERS = 10 * 2**20
"""Most numbers in rows that are searched in fewer columns.  A worker holds 4.4 copies of them as float64."""


@dataclass(frozen=True)
class Restart:
    """A search without a coreset, as a job that tells after each step how many clusters there are."""

    n_fits: ClassVar[int] = 0
    method: "Method"
    tries: int
    """Rounds of trials that must fail before a share is given up; 0 for no trial."""
    warm: State | None = None
    """The end of another search, whose centers are the start; None for the start of the method."""

    def __call__(self, rows: Source) -> State:
        """Return the last state."""
        return run_fits(self.each(rows))

    def each(self, rows: Source) -> Generator[dict[str, float], None, State]:
        """Yield the number of clusters after each step; return the last state."""
        start = self.method.init(rows)
        if self.warm is not None:
            start = start_at(start, self.warm)
        else:
            start = start_without_outliers(self.method, rows, start)
        share = start.share
        if not self.tries or rows.plan.n_rows > trials.TRIALS_BELOW:
            share = len(trials.SHARES)
        start = replace(start, share=share, finest=False, tries=self.tries)
        return (yield from steps_to_end(rows, self.method, start))


def restart_seeds(seed: int) -> list[int]:
    """Return the seeds of the searches of a coreset."""
    return [int(number) for number in seed_sequence(seed, Stream.RESTARTS).generate_state(RESTARTS)]


def start_at(start: State, end: State) -> State:
    """Return a start at the centers of another search."""
    return replace(start, next_centers=end.centers, next_children=end.children)


def start_without_outliers(method: "Method", source: Source, state: State) -> State:
    """Return the start at the end of moves and means alone under which no row is an outlier.

    From the mean of all rows, nearly all may be outliers.
    """
    if not math.isfinite(method.most):
        return state
    whole = method.with_outliers(math.inf).without_limits()
    start = replace(whole.init(source), share=len(trials.SHARES), finest=False, tries=0)
    *_, end = iterate(source, whole, start)
    rows_read = state.rows_read + end.state.rows_read - source.plan.n_rows
    return replace(start_at(state, end.state), rows_read=rows_read)


def search_shortly(
    method: "Method", source: Source, gathered: GatheredRows, random: np.random.Generator
) -> Float64Array | None:
    """Return the centers, (k, d), of short searches of the rows; None with too many clusters.

    With the best effort, the lowest of `BEST_POPULATIONS`.
    """
    quick = method.effort == "quick"

    def search(_: Source) -> Float64Array | None:
        first = lowest_centers(gathered, method.price, random, quick=quick)
        if first is None or method.effort != "best":
            return first
        others = [
            lowest_centers(gathered, method.price, random, quick=quick)
            for _ in range(BEST_POPULATIONS - 1)
        ]
        known = [first, *(each for each in others if each is not None)]
        return min(known, key=lambda centers: _objective(gathered, centers, method.price))

    return source.here(search, "search")


def _objective(gathered: GatheredRows, centers: Float64Array, price: Price) -> float:
    """Return the objective of rows at centers, (k, d), of which each has the same price."""
    squared = nearest_squared(gathered.rows, Centers(centers))[1]
    return float((gathered.weights * squared).sum()) + price.threshold(1) * len(centers)


def start_on_cells(method: "Method", source: Source, state: State) -> State | None:
    """Return the start at the end of short searches of cells; None with too many clusters.

    Up to `CORESET_ABOVE` rows, the end of births alone is compared, as if all rows were searched.
    """
    gathered = source.fold(Gather(), name="gather")
    random = stream(method.seed, Stream.SHORT_SEARCHES)
    centers = search_shortly(method, source, gathered, random)
    if centers is None:
        return None
    start = replace(state, next_centers=centers, next_children=method.children_of(centers, random))
    tries = FEWEST_TRIES if source.plan.n_rows > CORESET_ABOVE else state.tries
    return replace(start, share=len(trials.SHARES), tries=tries).after_passes(source, 1)


def start_on_coreset(method: "Method", source: Source, state: State) -> State:
    """Return the start at the centers of searches of a coreset, if there is a coreset."""
    n, size = source.plan.n_rows, method.coreset_rows
    squared = method.divergence.general is None
    if size == 0 or (size is None and (n <= CORESET_ABOVE or not squared)):
        return start_without_outliers(method, source, state) if state.on_all_rows else state
    sensitivity, passes = Sensitivity.of(source, method.seed, method.most)
    coreset, passes = sensitivity.coreset(source, size or LEAST_CORESET), passes + 1
    alone = method.without_limits()
    first = source.run([Restart(alone, tries=0)], coreset, "search")[0]
    if size is None:
        size = ROWS_A_CLUSTER * len(first.centers)
        if 2 * size > n:
            return start_at(state, first).after_passes(source, passes)
        if size > LEAST_CORESET:
            coreset, passes = sensitivity.coreset(source, size), passes + 1
    optimism = OPTIMISM * float(first.inertias.sum()) / len(coreset.rows)
    alone = alone.with_prices(more=optimism)
    quick = method.effort == "quick"
    tried = state.share < len(trials.SHARES)
    crossed = tried and may_cross_all_rows(method, n, state.centers.shape[1])
    seeds = restart_seeds(method.seed)[: 1 if quick or crossed else RESTARTS]
    tries = FEWEST_TRIES if quick or crossed else TRIES_ON_CORESET
    restarts = [Restart(alone.seeded(seed), tries) for seed in seeds]
    ends = source.run(restarts, coreset, "search")
    best = min(ends, key=lambda end: end.objective)
    if len(ends) > 1 and len(coreset.rows) <= trials.TRIALS_BELOW:
        best = source.run([Crossovers(alone, ends)], coreset, "cross")[0]
    share = len(trials.SHARES)
    if n <= trials.TRIALS_AFTER_BELOW:
        share -= trials.LAST_SHARES
    rounds = OPENINGS_ALONE if quick else FEWEST_TRIES
    start = replace(start_at(state, best), share=share, tries=rounds, to_cross=crossed)
    return start.after_passes(source, passes)


@dataclass(frozen=True)
class RotatedSearch:
    """A search of rows in as many columns as there are rows, as a job that tells how many clusters there are."""

    n_fits: ClassVar[int] = 0
    method: "Method"

    def __call__(self, rows: InMemoryRows) -> State:
        """Return the last state, whose centers are in the columns of the rows."""
        return run_fits(self.each(rows))

    def each(self, rows: InMemoryRows) -> Generator[dict[str, float], None, State]:
        """Yield the number of clusters after each step; return the last state."""
        given = np.asarray(rows.rows, np.float64)
        rotation = Rotation.of(given, self.method.divergence.spherical)
        rotated = replace(rows, rows=rotation.coordinates)
        end = yield from steps_to_end(rotated, self.method, self.method.init(rotated))
        centers, children = map(rotation.lift, (end.centers, end.children))
        return replace(end, centers=centers, children=children)


def may_rotate(method: "Method", n: int, d: int) -> bool:
    """Return whether a search of n rows in d columns runs in fewer columns first."""
    wide = is_wide(n, d) and n * d <= WIDE_NUMBERS
    squared = method.divergence.general is None
    return wide and squared and method.centers is None and not method.coreset_rows


def start_on_coordinates(method: "Method", source: Source, state: State) -> State:
    """Return the start at the end of a search of all rows in fewer columns; only passes follow."""
    gathered = source.fold(Gather(), name="gather")
    rows = InMemoryRows(np.ascontiguousarray(gathered.rows), gathered.weights)
    alone = replace(method, max_clusters=None, max_iter=NO_LIMIT)
    end = source.run([RotatedSearch(alone)], rows, "search")[0]
    start = replace(start_at(state, end), share=len(trials.SHARES), tries=FEWEST_TRIES, alone=True)
    return start.after_passes(source, 1)


def may_cross_all_rows(method: "Method", n: int, d: int) -> bool:
    """Return whether n rows in d columns may have crossovers on all of them, by a coreset."""
    few = n <= trials.TRIALS_BELOW and n * d <= CROSSED_NUMBERS
    return few and method.divergence.general is None and method.effort != "quick"


def coreset_and_price(
    method: "Method", source: Source, k: int, inertia: float
) -> tuple[InMemoryRows, "Method", int]:
    """Return a coreset for about k clusters of some inertia, the method on it, and the passes.

    Its size is `coreset_rows`, or else follows from k.
    """
    sensitivity, passes = Sensitivity.of(source, method.seed, method.most)
    size = method.coreset_rows or min(
        max(LEAST_CORESET, ROWS_A_CLUSTER * k), source.plan.n_rows // 2
    )
    coreset = sensitivity.coreset(source, size)
    # the inertia is of all rows, at their own means: the inertia of a coreset lacks k / size of it
    optimism = OPTIMISM * inertia / (len(coreset.rows) + OPTIMISM * k)
    alone = replace(method, coreset_rows=0)
    return coreset, alone.with_prices(more=optimism), passes + 1
