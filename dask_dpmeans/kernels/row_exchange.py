"""Moves of single rows from cluster to cluster, each judged by its exact effect on the objective.

Lloyd's step sends a row to the nearest center and leaves the centers in place.  Here both means
move too, so that the descent goes on after Lloyd's step has ended (Hartigan 1975; Telgarsky &
Vattani 2010).  A row of label -1 is an outlier: it costs its weight times the outlier penalty.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, Int64Array, Scratch
from dask_dpmeans.kernels.changed_clusters_compiled import MovableClusters
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.moments import cluster_moments
from dask_dpmeans.kernels.numba_support import pays, plain
from dask_dpmeans.kernels.price import LinearPrice, Price
from dask_dpmeans.kernels.row_exchange_compiled import (
    EXCHANGE_ROUNDING,
    SPARE,
    exchange_rows_compiled,
    put_in,
    take_out,
)

FEWEST_ROWS = 32
"""Least number of rows evaluated together without Numba, ..."""
MOST_DIFFERENCES = 2**16
"""... and the most: this many differences of numbers, after no row has moved for long."""
MOVING = 256
"""Nanoseconds, without Numba, that moves took for each difference of a row and a center in a column:
200 to 800 in searches of 150 to 2,000 rows."""

Rule = tuple[Price, Divergence, float]
"""Price of clusters, cost of a row at a center, and cost of an outlier for each unit of weight."""


@dataclass(frozen=True)
class Exchanged:
    """Result of moves of single rows."""

    labels: Int64Array
    """(n,), numbers of clusters, -1 for outliers; some numbers may have no rows."""
    objective: float
    """Cost of the rows at the means or as outliers, plus the price of the clusters."""
    passes: int
    """Number of passes over the rows."""


def exchange(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    price: Price,
    most: int,
    divergence: Divergence,
    outlier_penalty: float = math.inf,
) -> Exchanged:
    """Move rows one by one, in order, to the cheapest cluster or to a new one, until no move gains.

    Rows also move to the outliers and back, and all rows of a cluster together become outliers if
    they cost less so; one cluster always stays.

    Parameters
    ----------
    rows : (n, d); of unit length if centers are directions
    weights : (n,), > 0
    labels : (n,), numbers of the rows' clusters at first, -1 for outliers; not all are -1
    price : price of the clusters
    most : maximum number of passes over the rows
    divergence : cost of a row at a center
    outlier_penalty : cost of an outlier for each unit of weight

    Compiled loops support linear prices and squared distances; NumPy supports all.
    """
    labels = labels.copy()
    room = 2 * (int(labels.max()) + 1) + SPARE
    vanishing = divergence.vanishing
    clusters = _clusters(rows, weights, labels, room, vanishing)
    passes = -1
    if isinstance(price, LinearPrice) and divergence.general is None:
        paying = price.penalty, outlier_penalty, vanishing
        nothing_known = np.zeros(len(rows)), np.zeros(room, np.int64)
        given = (rows, weights, labels, *paying, most, clusters, *nothing_known)
        if pays(exchange_rows_compiled, given, MOVING * room * rows.size):
            passes = exchange_rows_compiled(*given)
    if passes < 0:
        rule = price, divergence, outlier_penalty
        passes = move_rows(rows, weights, labels, rule, most, clusters)
    centers, _, counts = _clusters(rows, weights, labels, room, vanishing)
    costs = divergence.costs(rows, np.ascontiguousarray(centers.T), np.maximum(labels, 0))
    costs[labels < 0] = outlier_penalty
    full, paid = counts.all(), weights * costs  # full: the room is used up, more clusters may open
    departing = False
    if passes < most and not full and math.isfinite(outlier_penalty):
        departing = _depart(paid - weights * outlier_penalty, labels, counts > 0, price)
    if passes < most and (full or departing):
        more = exchange(rows, weights, labels, price, most - passes, divergence, outlier_penalty)
        return replace(more, passes=passes + more.passes)
    objective = math.fsum(paid) + price.of(int(np.count_nonzero(counts)))
    return Exchanged(labels, objective, passes)


def _depart(savings: Float64Array, labels: Int64Array, present: BoolArray, price: Price) -> bool:
    """Make all rows of the cluster that gains most by it outliers, and return whether one gains.

    Single rows may all have to pay for leaving.  `savings`, (n,), are the falls of their costs;
    `present`, (room,), tells the clusters that have rows.
    """
    inside, k = labels >= 0, int(np.count_nonzero(present))
    gains = np.bincount(labels[inside], savings[inside], len(present)) + price.change(k - 1, k)
    gains[~present] = -np.inf
    gaining = k > 1 and bool(gains.max() > EXCHANGE_ROUNDING * price.threshold(k))
    if gaining:
        labels[labels == gains.argmax()] = -1
    return gaining


def _clusters(
    rows: Float64Array, weights: Float64Array, labels: Int64Array, room: int, vanishing: float
) -> MovableClusters:
    """Return the clusters of rows, (n, d), with weights and labels, (n,)."""
    if (labels < 0).any():
        inside = labels >= 0
        rows, weights, labels = rows[inside], weights[inside], labels[inside]
    moments = cluster_moments(Block(0, rows, weights, Scratch()), labels, np.zeros(len(rows)), room)
    masses, centers = moments.weights, np.zeros((rows.shape[1], room))
    np.divide(moments.sums.T, masses, out=centers, where=masses > 0)
    if vanishing:
        lengths = np.sqrt(squared_to_each(np.zeros((1, len(centers))), centers)[0])
        cancel = (lengths <= vanishing) & (masses > 0)
        masses = np.where(cancel, 0.0, masses * lengths)
        np.divide(centers, lengths, out=centers, where=lengths > vanishing)
        centers[:, cancel] = np.eye(len(centers), 1)
    return centers, masses, moments.counts


def move_rows(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    rule: Rule,
    most: int,
    clusters: MovableClusters,
) -> int:
    """Move rows, (n, d), until a pass moves none, and return the number of passes.

    Labels, (n,), and clusters change in place.  Many rows are evaluated together, up to the first
    that moves, then again from the row after it.
    """
    _, _, counts = clusters
    _, divergence, _ = rule
    leave, join = plain(take_out), plain(put_in)
    passes, moved = 0, True
    while moved and passes < most:
        passes += 1
        moved = False
        first, count = 0, FEWEST_ROWS
        while first < len(rows):
            part = slice(first, first + count)
            gaining, targets = _best_moves(rows[part], weights[part], labels[part], rule, clusters)
            if not len(gaining):
                first += len(targets)
                most_rows = MOST_DIFFERENCES // (rows.shape[1] * np.count_nonzero(counts))
                count = min(2 * count, max(FEWEST_ROWS, most_rows))
                continue
            offset = int(gaining[0])  # the rows after it see the centers that this move leads to
            i = first + offset
            if labels[i] >= 0:
                leave(rows[i], weights[i], labels[i], divergence.vanishing, clusters)
            if targets[offset] >= 0:
                join(rows[i], weights[i], int(targets[offset]), divergence.vanishing, clusters)
            labels[i] = targets[offset]
            moved = True
            first, count = i + 1, max(FEWEST_ROWS, min(count, 2 * (offset + 1)))
    return passes


def _best_moves(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    rule: Rule,
    clusters: MovableClusters,
) -> tuple[Int64Array, Int64Array]:
    """Return positions, (m,), of rows, (n, d), that gain by a move, and all best targets, (n,)."""
    centers, masses, counts = clusters
    price, divergence, outlier_penalty = rule
    outside, out = labels < 0, weights * outlier_penalty
    present, every = np.flatnonzero(counts > 0), np.arange(len(rows))
    labels = np.where(outside, present[0], labels)
    own = np.searchsorted(present, labels)
    sizes = np.where(outside, 0, counts[labels])
    if divergence.general is None:
        squared = squared_to_each(rows, centers[:, present])
        gains = _leaving_gains(weights, masses[labels], squared[every, own], divergence.vanishing)
        costs = _joining_costs(
            weights[:, np.newaxis], masses[present], squared, divergence.vanishing
        )
    else:
        gains = divergence.leaving(rows, weights, masses[labels], centers[:, labels].T)
        costs = divergence.joining(rows, weights, masses[present], centers[:, present].T)
    k = len(present)
    saved, opening = price.change(k - 1, k), price.threshold(k)
    left = np.where(sizes == 1, saved, gains)
    left[outside] = out[outside]
    costs[every[~outside], own[~outside]] = np.inf
    best = costs.argmin(axis=1)
    least, targets = costs[every, best], present[best]
    if len(present) < len(counts):
        alone = (sizes != 1) & (opening < least)
        targets[alone], least[alone] = np.flatnonzero(counts == 0)[0], opening
    leaving = (out < least) & ~outside & ((sizes > 1) | (k > 1))
    targets[leaving], least[leaving] = -1, out[leaving]
    return np.flatnonzero(least + EXCHANGE_ROUNDING * opening < left), targets


def squared_to_each(rows: Float64Array, centers: Float64Array) -> Float64Array:
    """Return the squared distances, (n, k), by definition, of rows, (n, d), to centers, (d, k)."""
    n, k = len(rows), centers.shape[1]
    differences = rows.T[:, :, np.newaxis] - centers[:, np.newaxis]
    squares = np.ascontiguousarray(np.square(differences).reshape(len(centers), n * k))
    if n * k == 1:
        return np.asarray(np.add.accumulate(squares, axis=0)[-1:])
    sums = np.add.reduce(squares, axis=0)  # one column of the data after the other
    return np.asarray(sums).reshape(n, k)


def _leaving_gains(
    weights: Float64Array, masses: Float64Array, squared: Float64Array, vanishing: float
) -> Float64Array:
    """Return the decrease of the objective, (n,), when each row leaves a cluster with other rows.

    Weights of the rows, masses of their clusters and squared distances to the centers are (n,).
    """
    if not vanishing:
        rest = masses - weights
        shares = np.divide(
            masses, rest, out=np.zeros(len(rest)), where=rest > EXCHANGE_ROUNDING * masses
        )
        return weights * shares * squared
    lasting = masses > vanishing * weights
    shares = np.divide(weights, masses, out=np.ones(len(masses)), where=lasting)
    light = shares < 1.0
    # lengths of the sums of the other rows, over the masses
    lengths = np.sqrt((1.0 - shares) * (1.0 - shares) + shares * squared)
    left = 2.0 * masses * (lengths + (shares - 1.0))
    np.divide(2.0 * weights * squared, lengths + (1.0 - shares), out=left, where=light)
    return np.where(lasting, left, 4.0 * weights)


def _joining_costs(
    weights: Float64Array, masses: Float64Array, squared: Float64Array, vanishing: float
) -> Float64Array:
    """Return the increase of the objective, (n, k), when each row joins each cluster.

    Weights are (n, 1), masses (k,), squared distances (n, k).
    """
    totals = masses + weights
    shares = masses / totals
    if not vanishing:
        return weights * shares * squared
    # lengths of the sums with the row, over the sums of both masses
    lengths = np.sqrt(np.maximum(0.0, 1.0 - shares * (weights / totals) * squared))
    return 2.0 * weights * shares * squared / (1.0 + lengths)
