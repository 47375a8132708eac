"""Moves of single rows from cluster to cluster, each judged by what it changes the objective by, exactly.

Lloyd's step sends a row to the nearest center as the centers stand.  This one counts what both means move to as well,
so that it goes on where Lloyd's step ends (Hartigan 1975; Telgarsky & Vattani 2010).
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Scratch
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.moments import cluster_moments
from dask_dpmeans.kernels.numba_support import compile_loop, select_loop
from dask_dpmeans.kernels.online import squared_to_all, squared_to_all_compiled

ROUNDING = 1e-9
"""A move must gain more than this share of the penalty, and what a row leaves must weigh more than this share of the
cluster; less is rounding."""
VANISHING = 1e-12
"""Unit rows whose average is no longer than this cancel: its direction is rounding."""

SPARE = 8
"""Clusters that there is room for at first, beyond twice those that there are."""

FEWEST = 32
"""Rows, the fewest, that are looked at together without Numba; ..."""
MOST_NUMBERS = 2**16
"""... and the most: so many differences of numbers, where no row has moved for long."""


@dataclass(frozen=True)
class Exchanged:
    """What moves of single rows come to."""

    labels: Int64Array
    """(n,), numbers of clusters; some numbers may have no rows."""
    objective: float
    """Squared error about the means, plus penalty times clusters."""
    passes: int
    """Passes over the rows that it took."""


def exchange(
    rows: Float64Array, weights: Float64Array, labels: Int64Array, penalty: float, most: int, *, spherical: bool
) -> Exchanged:
    """Move rows one by one, in order, to the cluster where they cost least, or to one of their own, until none gains.

    Parameters
    ----------
    rows : (n, d); of unit length where `spherical`
    weights : (n,), > 0
    labels : (n,), numbers of the rows' clusters at first
    penalty : the price of a cluster, in squared units of the rows times weight
    most : passes over the rows, the most
    spherical : whether a center is the direction of the sum of its rows, or else their mean
    """
    labels = labels.copy()
    room = 2 * (int(labels.max()) + 1) + SPARE
    loop = select_loop(_exchange_rows_compiled, exchange_rows)
    clusters = _clusters(rows, weights, labels, room, spherical)
    passes = loop(rows, weights, labels, penalty, spherical, most, *clusters)
    centers, _, counts = _clusters(rows, weights, labels, room, spherical)
    if counts.all() and passes < most:  # more may open where there is more room
        more = exchange(rows, weights, labels, penalty, most - passes, spherical=spherical)
        return replace(more, passes=passes + more.passes)
    squared = squared_distances(rows, np.ascontiguousarray(centers.T), labels)
    return Exchanged(labels, math.fsum(weights * squared) + penalty * np.count_nonzero(counts), passes)


def _clusters(
    rows: Float64Array, weights: Float64Array, labels: Int64Array, room: int, spherical: bool
) -> tuple[Float64Array, Float64Array, Int64Array]:
    """Centers (d, room), masses (room,) and numbers of rows (room,); the mass is the weight, or the sum's length."""
    moments = cluster_moments(Block(0, rows, weights, Scratch()), labels, np.zeros(len(rows)), room)
    masses, centers = moments.weights, np.zeros((rows.shape[1], room))
    np.divide(moments.sums.T, masses, out=centers, where=masses > 0)
    if spherical:
        lengths = np.sqrt(squared_to_all(np.zeros(len(centers)), centers))
        cancel = (lengths <= VANISHING) & (masses > 0)
        masses = np.where(cancel, 0.0, masses * lengths)
        np.divide(centers, lengths, out=centers, where=lengths > VANISHING)
        centers[:, cancel] = np.eye(len(centers), 1)
    return centers, masses, moments.counts


def exchange_rows(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    penalty: float,
    spherical: bool,
    most: int,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> int:
    """Move rows until a pass moves none, in place; centers (d, room), masses and counts of rows (room,).

    Many rows are looked at together, up to the first that moves, and from the one after it again.

    Returns
    -------
    Passes.
    """
    passes, moved = 0, True
    while moved and passes < most:
        passes += 1
        moved = False
        first, count = 0, FEWEST
        while first < len(rows):
            part = slice(first, first + count)
            gaining, targets = _best_moves(
                rows[part], weights[part], labels[part], penalty, spherical, centers, masses, counts
            )
            if not len(gaining):
                first += len(targets)
                count = min(2 * count, max(FEWEST, MOST_NUMBERS // (centers.shape[0] * np.count_nonzero(counts))))
                continue
            place = int(gaining[0])  # the rows after it see the centers that this move leads to
            i = first + place
            _take_out(rows[i], weights[i], labels[i], spherical, centers, masses, counts)
            _put_in(rows[i], weights[i], int(targets[place]), spherical, centers, masses, counts)
            labels[i] = targets[place]
            moved = True
            first, count = i + 1, max(FEWEST, min(count, 2 * (place + 1)))
    return passes


def _best_moves(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    penalty: float,
    spherical: bool,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Which of n rows, (n, d), gain by a move as the centers stand, and where each of them would best go, (n,)."""
    there, every = np.flatnonzero(counts > 0), np.arange(len(rows))
    squared = _squared_to_each(rows, centers[:, there])
    places = np.searchsorted(there, labels)
    sizes = counts[labels]
    left = np.where(sizes == 1, penalty, _left(weights, masses[labels], squared[every, places], spherical))
    costs = _joined(weights[:, np.newaxis], masses[there], squared, spherical)
    costs[every, places] = np.inf
    best = costs.argmin(axis=1)
    least, targets = costs[every, best], there[best]
    if len(there) < len(counts):
        alone = (sizes > 1) & (penalty < least)
        targets[alone], least[alone] = np.flatnonzero(counts == 0)[0], penalty
    return np.flatnonzero(least + ROUNDING * penalty < left), targets


def _squared_to_each(rows: Float64Array, centers: Float64Array) -> Float64Array:
    """(n, k), the squared distances, by definition, of rows, (n, d), to centers, (d, k)."""
    n, k = len(rows), centers.shape[1]
    squares = np.square(rows.T[:, :, np.newaxis] - centers[:, np.newaxis]).reshape(len(centers), n * k)
    if n * k == 1:
        return np.asarray(np.add.accumulate(squares, axis=0)[-1:])
    return np.asarray(np.add.reduce(squares, axis=0)).reshape(n, k)  # one column of the data after the other


def _left(weights: Float64Array, masses: Float64Array, squared: Float64Array, spherical: bool) -> Float64Array:
    """What the objective falls by when each row, (n,), leaves its cluster, which has others."""
    if not spherical:
        rest = masses - weights
        shares = np.divide(masses, rest, out=np.zeros(len(rest)), where=rest > ROUNDING * masses)
        return weights * shares * squared
    whole = masses > VANISHING * weights
    shares = np.divide(weights, masses, out=np.ones(len(masses)), where=whole)
    light = shares < 1.0
    lengths = np.sqrt((1.0 - shares) * (1.0 - shares) + shares * squared)  # of the rest's sum, over the mass
    left = 2.0 * masses * (lengths + (shares - 1.0))
    np.divide(2.0 * weights * squared, lengths + (1.0 - shares), out=left, where=light)
    return np.where(whole, left, 4.0 * weights)


def _joined(weights: Float64Array, masses: Float64Array, squared: Float64Array, spherical: bool) -> Float64Array:
    """What the objective rises by when each row, (n, 1), joins each of the clusters, (k,)."""
    totals = masses + weights
    shares = masses / totals
    if not spherical:
        return weights * shares * squared
    lengths = np.sqrt(np.maximum(0.0, 1.0 - shares * (weights / totals) * squared))  # of the sum, over both masses
    return 2.0 * weights * shares * squared / (1.0 + lengths)


def _take_out(
    row: Float64Array,
    weight: float,
    c: int,
    spherical: bool,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> None:
    """Take a row out of cluster c."""
    counts[c] -= 1
    rest = masses[c] - weight
    if not counts[c]:
        return
    if spherical:
        _turn(row, -weight, c, centers, masses)
    else:
        centers[:, c] -= (weight / rest) * (row - centers[:, c])
        masses[c] = rest


def _put_in(
    row: Float64Array,
    weight: float,
    c: int,
    spherical: bool,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> None:
    """Put a row into cluster c."""
    counts[c] += 1
    if counts[c] == 1:
        centers[:, c], masses[c] = row, weight
    elif spherical:
        _turn(row, weight, c, centers, masses)
    else:
        masses[c] += weight
        centers[:, c] += (weight / masses[c]) * (row - centers[:, c])


def _turn(row: Float64Array, weight: float, c: int, centers: Float64Array, masses: Float64Array) -> None:
    """Add a row of some weight, which may be negative, to the sum of unit rows of cluster c."""
    total = masses[c] * centers[:, c] + weight * row
    length = math.sqrt(float(np.add.accumulate(total * total)[-1]))
    masses[c] = length
    if length > VANISHING * abs(weight):
        centers[:, c] = total / length


@compile_loop
def _left_compiled(weight: float, count: int, mass: float, squared: float, penalty: float, spherical: bool) -> float:
    """Compiled twin of `_left`, for one row."""
    if count == 1:
        return penalty
    if not spherical:
        rest = mass - weight
        return weight * (mass / rest) * squared if rest > ROUNDING * mass else 0.0
    if not mass > VANISHING * weight:
        return 4.0 * weight
    share = weight / mass
    length: float = np.sqrt((1.0 - share) * (1.0 - share) + share * squared)
    if share < 1.0:
        return 2.0 * weight * squared / (length + (1.0 - share))
    return 2.0 * mass * (length + (share - 1.0))


@compile_loop
def _joined_compiled(weight: float, mass: float, squared: float, spherical: bool) -> float:
    """Compiled twin of `_joined`, for one row and one cluster."""
    total = mass + weight
    share = mass / total
    if not spherical:
        return weight * share * squared
    length: float = np.sqrt(max(0.0, 1.0 - share * (weight / total) * squared))
    return 2.0 * weight * share * squared / (1.0 + length)


@compile_loop
def _turn_compiled(row: Float64Array, weight: float, c: int, centers: Float64Array, masses: Float64Array) -> None:
    """Compiled twin of `_turn`."""
    mass, squared = masses[c], 0.0
    for j in range(len(row)):
        value = mass * centers[j, c] + weight * row[j]
        squared += value * value
    length = np.sqrt(squared)
    masses[c] = length
    if length > VANISHING * abs(weight):
        for j in range(len(row)):
            centers[j, c] = (mass * centers[j, c] + weight * row[j]) / length


@compile_loop
def _take_out_compiled(
    row: Float64Array,
    weight: float,
    c: int,
    spherical: bool,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> None:
    """Compiled twin of `_take_out`."""
    counts[c] -= 1
    rest = masses[c] - weight
    if not counts[c]:
        return
    if spherical:
        _turn_compiled(row, -weight, c, centers, masses)
    else:
        share = weight / rest
        for j in range(len(row)):
            centers[j, c] -= share * (row[j] - centers[j, c])
        masses[c] = rest


@compile_loop
def _put_in_compiled(
    row: Float64Array,
    weight: float,
    c: int,
    spherical: bool,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> None:
    """Compiled twin of `_put_in`."""
    counts[c] += 1
    if counts[c] == 1:
        centers[:, c] = row
        masses[c] = weight
    elif spherical:
        _turn_compiled(row, weight, c, centers, masses)
    else:
        masses[c] += weight
        share = weight / masses[c]
        for j in range(len(row)):
            centers[j, c] += share * (row[j] - centers[j, c])


@compile_loop
def _exchange_rows_compiled(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    penalty: float,
    spherical: bool,
    most: int,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> int:
    """Compiled twin of `exchange_rows`."""
    room, passes, moved = len(masses), 0, True
    squared = np.empty(room)
    while moved and passes < most:
        passes += 1
        moved = False
        for i in range(len(rows)):
            row, weight, own = rows[i], weights[i], labels[i]
            squared_to_all_compiled(row, centers, room, squared)
            left = _left_compiled(weight, counts[own], masses[own], squared[own], penalty, spherical)
            best, least, empty = -1, np.inf, -1
            for c in range(room):
                if counts[c] == 0:
                    if empty < 0:
                        empty = c
                elif c != own:
                    cost = _joined_compiled(weight, masses[c], squared[c], spherical)
                    if cost < least:
                        best, least = c, cost
            if counts[own] > 1 and empty >= 0 and penalty < least:
                best, least = empty, penalty
            if least + ROUNDING * penalty < left:
                _take_out_compiled(row, weight, own, spherical, centers, masses, counts)
                _put_in_compiled(row, weight, best, spherical, centers, masses, counts)
                labels[i] = best
                moved = True
    return passes
