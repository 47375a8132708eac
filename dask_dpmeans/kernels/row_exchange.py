"""Moves of single rows from cluster to cluster, each judged by what it changes the objective by, exactly.

Lloyd's step sends a row to the nearest center as the centers stand.  This one counts what both means move to as well,
so that it goes on where Lloyd's step ends (Hartigan 1975; Telgarsky & Vattani 2010).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.kernels import compiled, compiled_serial
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Scratch
from dask_dpmeans.kernels.compiled_serial import ROUNDING, VANISHING
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.moments import cluster_moments
from dask_dpmeans.kernels.online import squared_to_all

SPARE = 8
"""Clusters that there is room for at first, beyond twice those that there are."""


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
    loop: Callable[..., int] = compiled_serial.exchange_rows if compiled.AVAILABLE else exchange_rows
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

    Returns
    -------
    Passes.
    """
    passes, moved = 0, True
    while moved and passes < most:
        passes += 1
        moved = False
        for i in range(len(rows)):
            row, weight, own = rows[i], weights[i], labels[i]
            squared = squared_to_all(row, centers)
            left = _left(weight, counts[own], masses[own], squared[own], penalty, spherical)
            costs = np.where(counts > 0, _joined(weight, masses, squared, spherical), np.inf)
            costs[own] = np.inf
            best = int(costs.argmin())
            cost, empty = costs[best], np.flatnonzero(counts == 0)
            if counts[own] > 1 and len(empty) and penalty < cost:
                best, cost = int(empty[0]), penalty
            if cost + ROUNDING * penalty < left:
                _take_out(row, weight, own, spherical, centers, masses, counts)
                _put_in(row, weight, best, spherical, centers, masses, counts)
                labels[i] = best
                moved = True
    return passes


def _left(weight: float, count: int, mass: float, squared: float, penalty: float, spherical: bool) -> float:
    """What the objective falls by when a row leaves its cluster."""
    if count == 1:
        return penalty
    if not spherical:
        rest = mass - weight
        return weight * (mass / rest) * squared if rest > ROUNDING * mass else 0.0
    if not mass > VANISHING * weight:
        return 4.0 * weight
    share = weight / mass
    length = math.sqrt((1.0 - share) * (1.0 - share) + share * squared)  # of the rest's sum, over the mass
    if share < 1.0:
        return 2.0 * weight * squared / (length + (1.0 - share))
    return 2.0 * mass * (length + (share - 1.0))


def _joined(weight: float, masses: Float64Array, squared: Float64Array, spherical: bool) -> Float64Array:
    """What the objective rises by when a row joins each of the clusters."""
    totals = masses + weight
    shares = masses / totals
    if not spherical:
        return weight * shares * squared
    length = np.sqrt(np.maximum(0.0, 1.0 - shares * (weight / totals) * squared))  # of the sum, over both masses
    return 2.0 * weight * shares * squared / (1.0 + length)


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
