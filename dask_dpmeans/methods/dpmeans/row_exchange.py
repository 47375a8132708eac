"""The last part of a search of few rows: moves of single rows, and kicks.

An iterated local search (Lourenço, Martin & Stützle 2003): a kick splits a cluster, joins two, does
both, or puts a row and the rows nearest to it together; then rows move one by one until none gains;
what is lower stays.  Where outliers have a price, a kick may also make a row and those nearest to it
outliers, or all rows of a cluster.
"""

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from dask_dpmeans.kernels.answers import GatheredRows
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest, nearest_squared, squared_distances
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.moments import cluster_moments
from dask_dpmeans.kernels.row_exchange import Exchanged, Rule, exchange

KICKS = 128
"""Kicks in a row that must fail before the end."""
MOST_WORK = 2**22
"""Most work of all kicks: n (k d + `ROW_WORK`) for each pass over the rows."""
ROW_WORK = 64
"""Work of a row in a pass, in squares of differences."""
MOST_PASSES = 60
"""Most passes over the rows in which single rows move."""
LEAST_GAIN = 1e-9
"""Least gain of a kick, as a share of the price of a cluster."""

Distances = Callable[[np.int64], Float64Array]
"""How far all rows are from the row of a number, (n,)."""


def exchange_and_kick(
    gathered: GatheredRows,
    centers: Float64Array,
    costs: Rule,
    random: np.random.Generator,
    kicks: int = KICKS,
) -> Float64Array:
    """Return means, (l, d), no higher than the partition of centers, (k, d), after kicks."""
    price, divergence, outlier_penalty = costs
    rows, weights = gathered.rows.astype(np.float64), gathered.weights
    if divergence.general is not None:
        rows, weights = _join_equal_rows(rows, weights)
    heaviest = float(weights.max())
    unit = divergence.length**2
    some, price = weights / heaviest > 0, price.divide(heaviest * unit)
    rows, weights = rows[some], weights[some]
    shifted = rows
    if divergence.general is None and not divergence.spherical:
        shifted = rows - rows.mean(axis=0)
    if divergence.spherical:
        shifted = rows / divergence.length

    @cache  # kicks of few rows often lead to the same labels
    def settle(start: bytes) -> Exchanged:
        each, labels = weights / heaviest, np.frombuffer(start, np.int64)
        return exchange(
            shifted, each, labels, price, MOST_PASSES, divergence, outlier_penalty / unit
        )

    outliers = math.isfinite(outlier_penalty)

    def apart(row: np.int64) -> Float64Array:
        if outliers:
            return costs_with(row, shifted, divergence)
        return squared_distances(shifted, shifted[row : row + 1], np.zeros(len(rows), np.intp))

    start = _first_labels(rows, Centers(centers, divergence.general), outlier_penalty)
    best = settle(start.tobytes())
    labels, least = _renumber(best.labels), LEAST_GAIN * price.threshold(1)
    (n, d), failures, work = rows.shape, 0, 0
    while failures < kicks and work < MOST_WORK:
        found = settle(kick(apart, labels, random, outliers=outliers).tobytes())
        work += found.passes * n * (d * (int(labels.max()) + 1) + ROW_WORK)
        failures += 1
        if found.objective < best.objective - least:
            best, labels, failures = found, _renumber(found.labels), 0
    inside, k = labels >= 0, int(labels.max()) + 1
    block = Block(0, rows[inside], weights[inside], Scratch())
    moments = cluster_moments(block, labels[inside], np.zeros(len(block.rows)), k)
    axes = np.broadcast_to(np.eye(1, d), moments.sums.shape)
    return divergence.means(moments.means, axes)


def _join_equal_rows(
    rows: Float64Array, weights: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return rows, (m, d), and weights, (m,), with one row for those that are equal.

    Equal rows are best in one cluster.  300 rows of two yes-or-no columns took 10 s one by one.
    """
    _, firsts, numbers = np.unique(rows + 0.0, axis=0, return_index=True, return_inverse=True)
    if len(firsts) == len(rows):
        return rows, weights
    order = np.argsort(firsts)  # of the rows, however they are encoded
    summed = np.bincount(numbers.ravel(), weights).astype(np.float64)
    return np.ascontiguousarray(rows[firsts[order]]), summed[order]


def _first_labels(rows: Float64Array, centers: Centers, outlier_penalty: float) -> Int64Array:
    """Return the labels of rows, (n,), that are nearest to given centers, -1 for outliers."""
    if not math.isfinite(outlier_penalty):
        return nearest(rows, centers).astype(np.int64)
    labels, costs = nearest_squared(rows, centers)
    outliers = costs > outlier_penalty
    outliers[costs.argmin()] = False  # one cluster stays
    return np.where(outliers, -1, labels).astype(np.int64)


def kick(
    apart: Distances, labels: Int64Array, random: np.random.Generator, *, outliers: bool = False
) -> Int64Array:
    """Return labels of rows, (n,), after a random change of few clusters; every number has rows.

    `apart` says how far all rows are from one.  With `outliers` rows may become -1; one cluster stays.
    """
    kind = random.integers(6 if outliers else 4)
    if kind > 3:
        return _renumber(_leave(apart, labels, random, whole=kind == 5))
    if kind == 0:
        return _renumber(_gather(apart, labels, random))
    if kind != 1:
        labels = _split(apart, labels, random)
    if kind != 2:
        labels = _join(apart, labels, random)
    return _renumber(labels)


def _gather(apart: Distances, labels: Int64Array, random: np.random.Generator) -> Int64Array:
    """Make a cluster of a row and some rows nearest to it."""
    k = int(labels.max()) + 1
    count = random.integers(1, 2 + 2 * len(labels) // k)
    near = np.argsort(apart(random.integers(len(labels))), kind="stable")[:count]
    labels = labels.copy()
    labels[near] = k
    return labels


def _leave(
    apart: Distances, labels: Int64Array, random: np.random.Generator, *, whole: bool
) -> Int64Array:
    """Make a row and some rows nearest to it outliers, or the `whole` cluster of a row."""
    k = int(labels.max()) + 1
    row, count = random.integers(len(labels)), random.integers(1, 2 + 2 * len(labels) // k)
    leaving = labels == labels[row]
    if not whole:
        leaving = np.zeros(len(labels), np.bool_)
        leaving[np.argsort(apart(row), kind="stable")[:count]] = True
    left = np.where(leaving, -1, labels)
    return left if (left >= 0).any() else labels


def _split(apart: Distances, labels: Int64Array, random: np.random.Generator) -> Int64Array:
    """Split a cluster by two of its rows: each row goes to the nearer one."""
    one = random.integers(len(labels))
    members = np.flatnonzero(labels == labels[one])
    other = members[random.integers(len(members))]
    nearer = apart(other)[members] < apart(one)[members]
    labels = labels.copy()
    labels[members[nearer]] = labels.max() + 1
    return labels


def _join(apart: Distances, labels: Int64Array, random: np.random.Generator) -> Int64Array:
    """Join the cluster of a row with the cluster of the nearest row of another cluster."""
    row = random.integers(len(labels))
    strange = labels != labels[row]
    if not strange.any():
        return labels
    other = np.where(strange, apart(row), np.inf).argmin()
    if min(labels[row], labels[other]) < 0:  # an outlier joins
        row, other = (row, other) if labels[other] < 0 else (other, row)
        return np.where(np.arange(len(labels)) == other, labels[row], labels)
    return np.where(labels == labels[other], labels[row], labels)


def costs_with(row: np.int64, rows: Float64Array, divergence: Divergence) -> Float64Array:
    """Return what each row, (n, d), costs as a cluster with one of them, (n,), or its squared distance.

    Squared distances of encoded rows would count missing values, so that no outliers are near them.
    """
    one = rows[row : row + 1]
    if divergence.general is None:
        return squared_distances(rows, one, np.zeros(len(rows), np.intp))
    return divergence.joining(rows, np.ones(len(rows)), np.ones(1), one)[:, 0]


def _renumber(labels: Int64Array) -> Int64Array:
    """Return labels, (n,), with numbers from 0 on that all have rows, and -1 for outliers."""
    numbers = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return numbers - int(labels.min() < 0)
