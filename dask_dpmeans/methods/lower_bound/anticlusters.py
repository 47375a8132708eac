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
from dataclasses import dataclass

import numpy as np

from dask_dpmeans.engine.checkpoints import Checkpoint
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.lower_bound.relaxation_proof import EPS
from dask_dpmeans.methods.lower_bound.relaxed_bound import relaxed_bound

MOST_SWEEPS = 10
"""Most sweeps of exchanges over the rows of a cluster."""
PARTNERS = 1000
"""About the most rows that a row may be exchanged with."""
SAVED = 64
"""Pieces that are bounded between two saves of a checkpoint."""


@dataclass(frozen=True, eq=False)
class Piece:
    """The bound of a piece, as a job."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""
    penalty: float
    upper: float
    """The objective of some partition of these rows."""
    work: float
    """Most work of the bound: see `relaxed_bound`."""

    def __call__(self, shared: None = None) -> float:
        """Return a lower bound on the objective of every partition of the piece."""
        return relaxed_bound(self.rows, self.weights, self.penalty, self.upper, self.work)


def pieces_bound(pieces: list[Piece], source: Source) -> float:
    """Return a lower bound on the objective of every partition of all rows: the sum of their bounds.

    The pieces are bounded side by side if the source has workers.  If it keeps checkpoints, a call
    that was stopped goes on.
    """
    told = [(each.rows, each.weights, each.penalty, each.upper, each.work) for each in pieces]
    with Checkpoint.of(source, Piece, SAVED, told) as checkpoint:
        found: list[float] = checkpoint.restore(lambda values: values["bounds"].tolist()) or []
        while len(found) < len(pieces):
            found += source.run(pieces[len(found) : len(found) + SAVED], None, "bound")
            checkpoint.update({"bounds": np.array(found)}, over=len(pieces) > SAVED)
    return math.fsum(found) * (1 - 2 * EPS)


def split_rows(
    rows: Float64Array,
    weights: Float64Array,
    penalty: float,
    labels: IndexArray,
    n_pieces: int,
    work: float,
) -> list[Piece]:
    """Return the pieces of rows, whose bounds add up to a bound of all rows.

    Parameters
    ----------
    rows : (n, d)
    weights : (n,), > 0
    penalty : > 0
    labels : (n,), clusters of a good partition; any labels give a bound
    n_pieces : 1 <= n_pieces <= n
    work : most work of the bounds of all pieces
    """
    split, share = anticlusters(rows, weights, labels, n_pieces), penalty
    if n_pieces > 1:
        share = penalty / n_pieces * (1 - 2 * EPS)
    found = []
    for piece in range(n_pieces):
        there = split == piece
        part = rows[there], weights[there], share
        upper = _objective(*part, labels[there])
        found.append(Piece(*part, upper, work / n_pieces))
    return found


def anticlusters(
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
        split[members] = _exchange_rows(from_mean, weights[members], part, n_pieces)
    return split


def _exchange_rows(
    from_mean: Float64Array, weights: Float64Array, part: IndexArray, n_pieces: int
) -> IndexArray:
    """Return the pieces of a cluster's rows after exchanges that bring the means of its parts together.

    Each row is compared with about `PARTNERS` others, evenly spread.
    """
    moments = from_mean * weights[:, np.newaxis]
    sums, masses = np.zeros((n_pieces, from_mean.shape[1])), np.bincount(part, weights, n_pieces)
    np.add.at(sums, part, moments)
    part, stride = part.copy(), -(-len(part) // PARTNERS)
    for _ in range(MOST_SWEEPS):
        changed = False
        for row in range(len(part)):
            others = slice(row % stride, None, stride)
            here, there = part[row], part[others]
            step, weight = moments[others] - moments[row], weights[others] - weights[row]
            with np.errstate(divide="ignore", invalid="ignore"):
                before = (sums[here] ** 2).sum() / masses[here]
                before = before + (sums[there] ** 2).sum(axis=1) / masses[there]
                after = ((sums[here] + step) ** 2).sum(axis=1) / (masses[here] + weight)
                after += ((sums[there] - step) ** 2).sum(axis=1) / (masses[there] - weight)
            gains = np.where(there == here, 0.0, before - after)
            other = int(gains.argmax())
            if gains[other] > 1e-9 * before[other]:
                target = there[other]
                sums[here] += step[other]
                sums[target] -= step[other]
                masses[here] += weight[other]
                masses[target] -= weight[other]
                part[row], part[row % stride + other * stride] = target, here
                changed = True
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
