"""The last part of a search of few rows: moves of single rows, and kicks out of where these end.

An iterated local search (Lourenço, Martin & Stützle 2003): a kick splits a cluster, joins two, does
both, or puts a row and the rows nearest to it together; then rows move one by one until none gains;
what is lower stays.
"""

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest, squared_distances
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.gather import Gathered
from dask_dpmeans.kernels.moments import cluster_moments
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.kernels.row_exchange import Exchanged, exchange

KICKS = 128
"""Kicks in a row that must fail."""
MOST_WORK = 2**22
"""What kicks may cost in all: for each pass over the rows, n (k d + `ROW_WORK`)."""
ROW_WORK = 64
"""What a row costs in a pass, in squares of differences."""
MOST_PASSES = 60
"""Passes over the rows in which single rows move."""
LEAST_GAIN = 1e-9
"""Of the penalty: what is not lower by more is rounding."""


def exchange_and_kick(
    gathered: Gathered,
    centers: Float64Array,
    price: Price,
    divergence: Divergence,
    random: np.random.Generator,
    kicks: int = KICKS,
) -> Float64Array:
    """Means, (l, d), of lower or equal objective than the partition that centers, (k, d), make.

    So many kicks in a row must fail; with 0 there are none.
    """
    heaviest = float(gathered.weights.max())
    some = gathered.weights / heaviest > 0
    rows, weights = gathered.rows[some].astype(np.float64), gathered.weights[some]
    labels = nearest(rows, Centers(centers, divergence.general)).astype(np.int64)
    shifted = rows
    if divergence.general is None and not divergence.spherical:
        shifted = rows - rows.mean(axis=0)
    best = _kick_until_stuck(shifted, weights / heaviest, labels, price.divide(heaviest), divergence, random, kicks)
    moments = cluster_moments(Block(0, rows, weights, Scratch()), best, np.zeros(len(rows)), int(best.max()) + 1)
    return divergence.means(moments.means, np.broadcast_to(np.eye(1, rows.shape[1]), moments.sums.shape))


def _kick_until_stuck(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    price: Price,
    divergence: Divergence,
    random: np.random.Generator,
    kicks: int,
) -> Int64Array:
    """The labels, (n,), of the lowest objective that kicks lead to; every number has rows."""

    def settled(start: Int64Array) -> Exchanged:
        return exchange(rows, weights, start, price, MOST_PASSES, divergence)

    best, failures, work = settled(labels), 0, 0
    labels, least = _numbered(best.labels), LEAST_GAIN * price.threshold(1)
    n, d = rows.shape
    while failures < kicks and work < MOST_WORK:
        found = settled(kick(rows, labels, random))
        work += found.passes * n * (d * (int(labels.max()) + 1) + ROW_WORK)
        failures += 1
        if found.objective < best.objective - least:
            best, labels, failures = found, _numbered(found.labels), 0
    return labels


def kick(rows: Float64Array, labels: Int64Array, random: np.random.Generator) -> Int64Array:
    """Other labels of rows, (n,), that few clusters differ in; every number has rows."""
    kind = random.integers(4)
    if kind == 0:
        return _numbered(_gather(rows, labels, random))
    if kind != 1:
        labels = _split(rows, labels, random)
    if kind != 2:
        labels = _join(rows, labels, random)
    return _numbered(labels)


def _gather(rows: Float64Array, labels: Int64Array, random: np.random.Generator) -> Int64Array:
    """A row and some that are nearest to it become a cluster."""
    k = int(labels.max()) + 1
    count = random.integers(1, 2 + 2 * len(rows) // k)
    near = np.argsort(_squared_to(rows, random.integers(len(rows))), kind="stable")[:count]
    labels = labels.copy()
    labels[near] = k
    return labels


def _split(rows: Float64Array, labels: Int64Array, random: np.random.Generator) -> Int64Array:
    """A cluster becomes two, of the rows that are nearer to one or to the other of two rows."""
    one = random.integers(len(rows))
    members = np.flatnonzero(labels == labels[one])
    other = members[random.integers(len(members))]
    nearer = _squared_to(rows, other)[members] < _squared_to(rows, one)[members]
    labels = labels.copy()
    labels[members[nearer]] = labels.max() + 1
    return labels


def _join(rows: Float64Array, labels: Int64Array, random: np.random.Generator) -> Int64Array:
    """The cluster of a row becomes one with that of the nearest row of another."""
    row = random.integers(len(rows))
    strange = labels != labels[row]
    if not strange.any():
        return labels
    other = np.where(strange, _squared_to(rows, row), np.inf).argmin()
    return np.where(labels == labels[other], labels[row], labels)


def _squared_to(rows: Float64Array, number: np.int64) -> Float64Array:
    """(n,), the squared distances of rows, (n, d), to one of them."""
    return squared_distances(rows, rows[number : number + 1], np.zeros(len(rows), np.intp))


def _numbered(labels: Int64Array) -> Int64Array:
    """The labels, (n,), with numbers from 0 on that all have rows."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
