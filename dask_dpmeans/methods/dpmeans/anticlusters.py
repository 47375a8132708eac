"""A lower bound from pieces: each row in one of T pieces, each of which is like the whole.

    J*(X; penalty) >= sum over the pieces t of J*(X_t; penalty / T)

for any split of the rows.  Take the best partition of X, with k clusters.  The squared error of a
cluster is at least the sum over the pieces of the errors of its rows there, each around a mean of
its own; and no piece has more than k clusters of it, so that the pieces pay at most T k penalty / T.

The first sum falls short by the weights of the parts times the squared distances of their means to
the mean of their cluster.  So the rows of each cluster of a good partition are dealt to the pieces
such that this is low (Croella, Piccialli & Sudoso 2025 call such pieces anticlusters): in the order
of distances to its mean, and then by exchanges of two rows while one lowers it.
"""

import math
from collections.abc import Callable

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.relaxation_proof import EPS
from dask_dpmeans.methods.dpmeans.relaxed_bound import relaxed_bound

Bound = Callable[[Rows, Float64Array, float, float], float]
"""Of rows, weights, a penalty and the objective of some partition."""
MOST_ROWS = 300
"""Of a piece."""
MOST_SWEEPS = 10
"""Most sweeps of exchanges over the rows of a cluster."""


def pieces_bound(
    rows: Rows,
    weights: Float64Array,
    penalty: float,
    labels: IndexArray,
    most_rows: int = MOST_ROWS,
    bound: Bound = relaxed_bound,
) -> float:
    """Return a lower bound on the objective of every partition: the sum of the bounds of pieces.

    Parameters
    ----------
    rows : (n, d)
    weights : (n,), >= 0, some > 0
    penalty : > 0
    labels : (n,), clusters of a good partition; any labels give a bound
    most_rows : of a piece
    bound : a proved lower bound for a piece
    """
    some = weights > 0
    values: Float64Array = rows[some].astype(np.float64)
    weights, labels = weights[some], labels[some]
    n_pieces = -(-len(values) // most_rows)
    if n_pieces == 1:
        return bound(values, weights, penalty, _objective(values, weights, penalty, labels))
    split, share, bounds = pieces(values, weights, labels, n_pieces), penalty / n_pieces, []
    for piece in range(n_pieces):
        there = split == piece
        part = values[there], weights[there], share * (1 - 2 * EPS)
        bounds.append(bound(*part, _objective(*part, labels[there])))
    return max(penalty, math.fsum(bounds) * (1 - 2 * EPS))


def pieces(
    rows: Float64Array, weights: Float64Array, labels: IndexArray, n_pieces: int
) -> IndexArray:
    """Return the pieces of rows, (n,): in each, every cluster has nearly its share and its mean."""
    split, dealt = np.zeros(len(rows), np.intp), 0
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        from_mean = rows[members] - np.average(rows[members], axis=0, weights=weights[members])
        order = np.argsort((from_mean**2).sum(axis=1), kind="stable")
        part = np.empty(len(members), np.intp)
        part[order] = (dealt + np.arange(len(members))) % n_pieces
        dealt += len(members)
        split[members] = _exchanged(from_mean, weights[members], part, n_pieces)
    return split


def _exchanged(
    from_mean: Float64Array, weights: Float64Array, part: IndexArray, n_pieces: int
) -> IndexArray:
    """Return the pieces of a cluster's rows after exchanges that bring the means of its parts together."""
    moments = from_mean * weights[:, np.newaxis]
    sums, masses = np.zeros((n_pieces, from_mean.shape[1])), np.bincount(part, weights, n_pieces)
    np.add.at(sums, part, moments)
    part = part.copy()
    for _ in range(MOST_SWEEPS):
        changed = False
        for row in range(len(part)):
            here, there = part[row], part
            step, weight = moments - moments[row], weights - weights[row]
            with np.errstate(divide="ignore", invalid="ignore"):
                before = (sums[here] ** 2).sum() / masses[here]
                before = before + (sums[there] ** 2).sum(axis=1) / masses[there]
                after = ((sums[here] + step) ** 2).sum(axis=1) / (masses[here] + weight)
                after += ((sums[there] - step) ** 2).sum(axis=1) / (masses[there] - weight)
            gains = np.where(there == here, 0.0, before - after)
            other = int(gains.argmax())
            if gains[other] > 1e-9 * before[other]:
                target = part[other]
                sums[here] += step[other]
                sums[target] -= step[other]
                masses[here] += weight[other]
                masses[target] -= weight[other]
                part[row], part[other], changed = target, here, True
        if not changed:
            break
    return part


def _objective(
    rows: Float64Array, weights: Float64Array, penalty: float, labels: IndexArray
) -> float:
    """Return the objective of a partition."""
    number = np.unique(labels, return_inverse=True)[1]
    masses = np.bincount(number, weights)
    sums = np.zeros((len(masses), rows.shape[1]))
    np.add.at(sums, number, rows * weights[:, np.newaxis])
    squared = ((rows - (sums / masses[:, np.newaxis])[number]) ** 2).sum(axis=1)
    return float(weights @ squared) + penalty * len(masses)
