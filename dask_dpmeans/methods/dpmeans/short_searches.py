"""The search of few rows: a population of short searches (HG-means, Gribel & Vidal 2019).

Ten short searches (`kernels/short_search`) each start at rows of their own.  Children follow: each
is the crossover of two winners of binary tournaments, with one center swapped, after moves of
single rows and merges.  The lowest that differ survive, until children fail in a row.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.gather import GatheredRows
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.kernels.short_search import FewRows, Partition
from dask_dpmeans.methods.dpmeans.row_exchange import LEAST_GAIN, MOST_PASSES, ROW_WORK

MEMBERS = 10
"""Members that survive."""
MOST_CLUSTERS = 40
"""Most clusters.  With 60 to 100, trials ended lower at three of six prices, by up to .2 %."""
FAILURES = 30
"""Children in a row that must fail before the end, and one more for each cluster."""
QUICK_SHARE = 8
"""A quick search ends after this fraction of the failures, 1 / QUICK_SHARE."""
MOST_WORK = 2**30
"""Most work of all searches, as in `row_exchange`."""
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
    rows, weights = gathered.rows[some].astype(np.float64), gathered.weights[some] / heaviest
    middle = rows.mean(axis=0)
    few = FewRows(rows - middle, weights, price.divide(heaviest).threshold(1), MOST_PASSES)
    (n, d), least, work = rows.shape, LEAST_GAIN * few.penalty, 0
    members = list[Partition]()
    while len(members) < MEMBERS and work < MOST_WORK:
        members.append(few.settle(_start(few, random)))
        work += _work(members[-1], n, d)
        if members[0].centers.shape[1] > MOST_CLUSTERS:
            return None
    members.sort(key=_objective)
    failures = FAILURES + members[0].centers.shape[1]
    if quick:
        failures //= QUICK_SHARE
    failed = 0
    while failed < failures and work < MOST_WORK:
        one, two = (members[random.integers(len(members), size=2).min()] for _ in range(2))
        draws = random.random(one.centers.shape[1] + two.centers.shape[1] + 2)
        child = few.settle(few.cross(one, two, draws))
        work += _work(child, n, d)
        failed += 1
        if child.objective < members[0].objective - least:
            failed = 0
        alike = any(abs(child.objective - each.objective) <= least for each in members)
        if child.objective < members[-1].objective and not alike:
            members[-1] = child
            members.sort(key=_objective)
    centers = np.asarray(members[0].centers.T + middle)
    return centers[np.lexsort(centers.T[::-1])]


def _start(few: FewRows, random: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the labels, (n,), of a start, with as many numbers drawn as it takes."""
    n, count = len(few.rows), FIRST_OPENINGS
    draws = random.random((count, TRIES))
    labels = few.start(draws)
    while int(labels.max()) + 1 == len(draws) < n:
        draws = np.concatenate([draws, random.random((len(draws), TRIES))])
        labels = few.start(draws)
    return labels


def _objective(member: Partition) -> float:
    return member.objective


def _work(end: Partition, n: int, d: int) -> int:
    """Return the work of a search of n rows: n (k d + ROW_WORK) for each pass."""
    k = int(end.centers.shape[1])
    return end.passes * n * (d * k + ROW_WORK)
