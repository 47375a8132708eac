"""The search of few rows, or of many in few columns: a population (HG-means, Gribel & Vidal 2019).

Some short searches (`kernels.short_search`) each start at rows of their own.  Children follow:
each is the crossover of two winners of binary tournaments, with one center swapped, after moves of
single rows and merges.  The lowest that differ survive, until children fail in a row.

If rows are more, the population searches weighted means of cells (`cell_means`).  Its lowest
members settle on smaller cells and then on the rows, and have a few children on each.  Of many rows
in few columns, the end on smaller cells is the end.
"""

from dataclasses import replace

import numpy as np

from dask_dpmeans.kernels.answers import GatheredRows
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.kernels.short_search import SWAP_TRIES, FewRows, Partition, cell_means
from dask_dpmeans.methods.dpmeans.row_exchange import LEAST_GAIN, MOST_PASSES, ROW_WORK

MEMBERS, MEMBERS_OF_MANY, MANY_ROWS = 16, 24, 2**10
"""Members that survive, of few rows and of so many or more.  With 16, 5 of 8 seeds ended in the higher of
two basins of 2,310 rows in 40 clusters, .06 % above the other, in place of 1."""
MOST_CLUSTERS = 180
"""Most clusters.

For 136 to 175, ten problems ended .09 % above the best on average, and .25 % with trials.  For 260
clusters of 23,000 and 30,000 rows in three columns, trials ended .1 to .2 % lower.
"""
FAILURES, FAILURES_OF_CLUSTER = 90, 3
"""Children in a row that must fail, and as many more for each cluster, of few rows."""
FAILURES_OF_MANY, FAILURES_OF_CLUSTER_OF_MANY = 60, 2
"""The same of `MANY_ROWS` or more, or of cells of them.  With 90 and 3, in 1.17 times the time, 21
problems from 12 or 18 seeds ended as low on average, within .003 %."""
CELLS = 320
"""Cells of rows, at least; fewer than twice as many rows have none."""
CELLS_OF_CLUSTER = (32, 128)
"""Cells for each cluster, at least: at first, and after that.

With 128 alone, ten problems of 12,000 to 100,000 rows ended .02 % higher on average, in 1.2 of the
time."""
CELL_FAILURES = 60
"""Children in a row that must fail before smaller cells follow, of more than `SHORT_BELOW` rows.

With 30, 23,412 rows in 165 clusters ended .07 % higher on average, in about the same time.
"""
SETTLED = 10
"""Members of a population of cells that settle on smaller ones, or on the rows."""
SETTLED_FAILURES_OF_CLUSTER = 2
"""Their children in a row, for each cluster, that must fail before the end."""
SHORT_BELOW = 2**13
"""Rows up to which short searches take the place of trials, and members settle on all rows, whatever the
number of cells.

Where three members settled on more rows, the end was .002 % lower than from the lowest alone.
"""
QUICK_SHARE, QUICK_MEMBERS, QUICK_SETTLED = 8, 8, 2
"""A quick search ends after this fraction of the failures, 1 / QUICK_SHARE; of up to `SHORT_BELOW` rows,
it has so many members, of which so many settle.

With as many members as others have, 25 problems of 150 to 7,500 rows ended as low on average, within
.001 %, in 1.2 times the time.
"""
MOST_WORK = 2**32
"""Most work of the starts, and of each population, as in `row_exchange`.

With half of it, six problems with 50 to 165 clusters ended .02 to .07 % higher on average, in .6 to .9
of the time.
"""
TRIES = 3
"""Rows drawn for each opening."""
FIRST_OPENINGS = 32
"""Openings of a start that are drawn for at first."""


def lowest_centers(
    gathered: GatheredRows, price: Price, random: np.random.Generator, *, quick: bool
) -> Float64Array | None:
    """Return the centers, (k, d), of the lowest of a population; the price is linear.

    They are in order of their first columns, so that numbers of clusters do not depend on draws.
    None if the first search finds too many clusters.
    """
    heaviest = float(gathered.weights.max())
    some = gathered.weights / heaviest > 0
    rows = gathered.rows[some].astype(np.float64, copy=False)
    middle, weights = rows.mean(axis=0), gathered.weights[some] / heaviest
    rows -= middle
    few = FewRows(rows, weights, price.divide(heaviest).threshold(1), MOST_PASSES)
    small = _cells(few, CELLS)
    first = small.settle(_start(small, random)).centers.shape[1]
    count, failures, more = MEMBERS, FAILURES, FAILURES_OF_CLUSTER
    if len(few.rows) >= MANY_ROWS:
        count = MEMBERS_OF_MANY
        failures, more = FAILURES_OF_MANY, FAILURES_OF_CLUSTER_OF_MANY
    share, most_settled = QUICK_SHARE if quick else 1, SETTLED
    if quick and len(few.rows) <= SHORT_BELOW:
        count, most_settled = QUICK_MEMBERS, QUICK_SETTLED
    if first <= MOST_CLUSTERS:
        few = replace(few, searches=CELL_FAILURES // share)
    small = _cells(few, max(CELLS, CELLS_OF_CLUSTER[0] * first))
    members = _starts(small, random, count)
    if not members:
        return None
    k = members[0].centers.shape[1]
    failures += more * k
    if small is not few and len(few.rows) > SHORT_BELOW:
        failures = CELL_FAILURES
    members = _evolve(small, members, random, failures // share)
    settled = SETTLED_FAILURES_OF_CLUSTER * k // share
    finer = [replace(each, searches=settled) for each in _finer(few, small, first)]
    for level in finer:
        lowest = _lowest_different(members, few, most_settled)
        members = [level.settle(level.assign(each.centers)) for each in lowest]
        members = _evolve(level, sorted(members, key=_objective), random, settled)
    centers = np.asarray(min(members, key=_objective).centers.T + middle)
    return centers[np.lexsort(centers.T[::-1])]


def _cells(few: FewRows, most: int) -> FewRows:
    """Return the means of cells of rows, with their weights, or all rows if they are few."""
    if len(few.rows) < 2 * most:
        return few
    means, masses = cell_means(few.rows, few.weights, most)
    return replace(few, rows=means, weights=masses)


def _finer(few: FewRows, small: FewRows, k: int) -> list[FewRows]:
    """Return what follows cells of rows: smaller cells for about k clusters, and the rows if they are few."""
    if small is few:
        return []
    smaller = _cells(few, max(CELLS, CELLS_OF_CLUSTER[1] * k))
    if smaller is few:
        return [few]
    finer = [smaller] if len(smaller.rows) > len(small.rows) else []
    return finer if len(few.rows) > SHORT_BELOW else [*finer, few]


def _lowest_different(members: list[Partition], few: FewRows, most: int) -> list[Partition]:
    """Return the lowest members, `most` of them at most, of those with the same objective one."""
    least, found = LEAST_GAIN * few.penalty, members[:1]
    for member in members[1:]:
        if member.objective > found[-1].objective + least and len(found) < most:
            found.append(member)
    return found


def _starts(few: FewRows, random: np.random.Generator, count: int) -> list[Partition]:
    """Return the first members, the lowest first; none if one of them has too many clusters."""
    members, work = list[Partition](), 0
    while len(members) < count and work < MOST_WORK:
        members.append(few.settle(_start(few, random)))
        work += _work(members[-1], few)
        if members[0].centers.shape[1] > MOST_CLUSTERS:
            return []
    return sorted(members, key=_objective)


def _evolve(
    few: FewRows, members: list[Partition], random: np.random.Generator, failures: int
) -> list[Partition]:
    """Return the members that survive as children follow, from members with the lowest first.

    It ends after so many failures in a row.
    """
    least, work, failed = LEAST_GAIN * few.penalty, 0, 0
    while failed < failures and work < MOST_WORK:
        drawn = random.random(4).tolist()
        one = members[int(min(drawn[:2]) * len(members))]
        two = members[int(min(drawn[2:]) * len(members))]
        tries = int(random.integers(1, SWAP_TRIES, endpoint=True))
        draws = random.random(one.centers.shape[1] + two.centers.shape[1] + 2 * tries)
        child = few.child(one, two, draws)
        work += _work(child, few)
        failed += 1
        if child.objective < members[0].objective - least:
            failed = 0
        if child.objective >= members[-1].objective:
            continue
        if all(abs(child.objective - each.objective) > least for each in members):
            members = sorted([*members[:-1], child], key=_objective)
    return members


def _start(few: FewRows, random: np.random.Generator) -> Int64Array:
    """Return the labels, (n,), of a start, with as many numbers drawn as it takes."""
    count = FIRST_OPENINGS
    draws = random.random((count, TRIES))
    labels, costs = few.start(draws[0, 0])
    k = few.open(draws[1:], 1, labels, costs)
    while k == count < len(few.rows):
        k = few.open(random.random((count, TRIES)), k, labels, costs)
        count *= 2
    return labels


def _objective(member: Partition) -> float:
    return member.objective


def _work(end: Partition, few: FewRows) -> int:
    """Return the work of a search of n rows: n (k d + ROW_WORK) for each pass."""
    return int(end.passes * len(few.rows) * (end.centers.size + ROW_WORK))
