"""Moves of single rows from cluster to cluster, each judged by what it changes the objective by, exactly.

Lloyd's step sends a row to the nearest center as the centers stand.  This one counts what both means move to as well,
so that it goes on where Lloyd's step ends (Hartigan 1975; Telgarsky & Vattani 2010).
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.kernels import compiled, compiled_serial
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Scratch
from dask_dpmeans.kernels.compiled_serial import ROUNDING, VANISHING
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.moments import cluster_moments
from dask_dpmeans.kernels.online import squared_to_all
from dask_dpmeans.kernels.price import LinearPrice, Price

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
    """Cost of the rows at the means, plus the price of the clusters."""
    passes: int
    """Passes over the rows that it took."""


def exchange(
    rows: Float64Array, weights: Float64Array, labels: Int64Array, price: Price, most: int, divergence: Divergence
) -> Exchanged:
    """Move rows one by one, in order, to the cluster where they cost least, or to one of their own, until none gains.

    Parameters
    ----------
    rows : (n, d); of unit length if the divergence is spherical
    weights : (n,), > 0
    labels : (n,), numbers of the rows' clusters at first
    price : of clusters
    most : passes over the rows, the most
    divergence : cost of a row at a center

    Compiled loops know linear prices and squared distances; for others NumPy does the same.
    """
    labels = labels.copy()
    room = 2 * (int(labels.max()) + 1) + SPARE
    spherical = divergence.spherical
    clusters = _clusters(rows, weights, labels, room, spherical)
    passes: int
    if compiled.AVAILABLE and isinstance(price, LinearPrice) and divergence.general is None:
        passes = compiled_serial.exchange_rows(rows, weights, labels, price.penalty, spherical, most, *clusters)
    else:
        passes = exchange_rows(rows, weights, labels, price, divergence, most, *clusters)
    centers, _, counts = _clusters(rows, weights, labels, room, spherical)
    if counts.all() and passes < most:  # more may open where there is more room
        more = exchange(rows, weights, labels, price, most - passes, divergence)
        return replace(more, passes=passes + more.passes)
    costs = divergence.costs(rows, np.ascontiguousarray(centers.T), labels)
    return Exchanged(labels, math.fsum(weights * costs) + price.of(int(np.count_nonzero(counts))), passes)


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
    price: Price,
    divergence: Divergence,
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
                rows[part], weights[part], labels[part], price, divergence, centers, masses, counts
            )
            if not len(gaining):
                first += len(targets)
                count = min(2 * count, max(FEWEST, MOST_NUMBERS // (centers.shape[0] * np.count_nonzero(counts))))
                continue
            place = int(gaining[0])  # the rows after it see the centers that this move leads to
            i = first + place
            _take_out(rows[i], weights[i], labels[i], divergence.spherical, centers, masses, counts)
            _put_in(rows[i], weights[i], int(targets[place]), divergence.spherical, centers, masses, counts)
            labels[i] = targets[place]
            moved = True
            first, count = i + 1, max(FEWEST, min(count, 2 * (place + 1)))
    return passes


def _best_moves(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    price: Price,
    divergence: Divergence,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> tuple[Int64Array, Int64Array]:
    """Which of n rows, (n, d), gain by a move as the centers stand, and where each of them would best go, (n,)."""
    there, every = np.flatnonzero(counts > 0), np.arange(len(rows))
    places = np.searchsorted(there, labels)
    sizes = counts[labels]
    if divergence.general is None:
        squared = _squared_to_each(rows, centers[:, there])
        left = _left(weights, masses[labels], squared[every, places], divergence.spherical)
        costs = _joined(weights[:, np.newaxis], masses[there], squared, divergence.spherical)
    else:
        left = divergence.leaving(rows, weights, masses[labels], centers[:, labels].T)
        costs = divergence.joining(rows, weights, masses[there], centers[:, there].T)
    saved, opening = price.change(len(there) - 1, len(there)), price.threshold(len(there))
    left = np.where(sizes == 1, saved, left)
    costs[every, places] = np.inf
    best = costs.argmin(axis=1)
    least, targets = costs[every, best], there[best]
    if len(there) < len(counts):
        alone = (sizes > 1) & (opening < least)
        targets[alone], least[alone] = np.flatnonzero(counts == 0)[0], opening
    return np.flatnonzero(least + ROUNDING * opening < left), targets


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
