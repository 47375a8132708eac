"""The serial part of a sweep of Gibbs sampling: each row leaves its cluster, and joins one that is drawn or opens one.

A draw by given weights is the greatest of their logarithms, each with noise of the standard Gumbel distribution added
(Maddison, Tarlow & Minka 2014, section 2).  So no weight underflows, and loops compiled or not need no exponential, of
which each library has its own: they give the same bytes.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.numba_support import compile_loop, select_loop

MORE_ROOM = 8
"""Clusters that there is room for beside those that are there, or half as many again as these."""


@dataclass(frozen=True)
class Seats:
    """Rows, and the clusters that they can join or open."""

    rows: Float64Array
    """(n, d)."""
    fresh: Float64Array
    """(n, d), the mean of the cluster that a row opens, if it does."""
    opening: Float64Array
    """(n,), the logarithm of the weight of opening one."""
    half_precision: float
    """1 / (2 sigma)."""


def reseat(
    seats: Seats, labels: Int64Array, means: Float64Array, random: np.random.Generator
) -> tuple[Int64Array, Float64Array, Int64Array]:
    """Take the rows in order, and let each join a cluster of given mean, (k, d), by its size and density, or open one.

    Parameters
    ----------
    seats : rows, and what they can do
    labels : (n,), the clusters that they leave
    means : (k, d), of the clusters
    random : where noise comes from, a number for each row and cluster

    Returns
    -------
    labels : (n,)
    means : (k', d), those given, then those opened
    counts : (k',), rows of each; 0 where all have left
    """
    n, k = len(seats.rows), len(means)
    opening = seats.opening + gumbel(random, n)
    with np.errstate(divide="ignore"):
        logs = np.log(np.arange(n + 1.0))
    offers = -seats.half_precision * squared_distances(seats.rows, means)
    offers += gumbel(random, offers.shape)
    labels, counts = labels.copy(), np.bincount(labels, minlength=k)
    loop = select_loop(_reseat_rows_compiled, reseat_rows)
    done = 0
    while done < n:
        more = max(MORE_ROOM, k // 2)
        noise = np.empty((n, more))
        noise[done:] = gumbel(random, (n - done, more))
        offers = np.concatenate([offers, noise], axis=1)
        means = np.concatenate([means, np.empty((more, means.shape[1]))])
        counts = np.concatenate([counts, np.zeros(more, np.int64)])
        given = seats.rows, seats.fresh, opening, logs, seats.half_precision
        done, k = loop(done, k, *given, labels, means, counts, offers)
    return labels, means[:k], counts[:k]


def gumbel(random: np.random.Generator, shape: int | tuple[int, ...]) -> Float64Array:
    """Draws of the standard Gumbel distribution, in a quarter of the time that `Generator.gumbel` takes."""
    return -np.log(random.standard_exponential(shape))


def reseat_rows(
    done: int,
    k: int,
    rows: Float64Array,
    fresh: Float64Array,
    opening: Float64Array,
    logs: Float64Array,
    half_precision: float,
    labels: Int64Array,
    means: Float64Array,
    counts: Int64Array,
    offers: Float64Array,
) -> tuple[int, int]:
    """The rows from number `done` on, in place; `offers`, (n, room), are densities with noise, and noise beyond k.

    It ends early where the room is used up.

    Returns
    -------
    Rows done, and clusters.
    """
    n, room = offers.shape
    for i in range(done, n):
        if k == room:
            return i, k
        counts[labels[i]] -= 1
        weights = offers[i, :k] + logs[counts[:k]]
        best = int(weights.argmax())
        if opening[i] > weights[best]:
            best = k
            means[k] = fresh[i]
            offers[i + 1 :, k] -= half_precision * squared_distances(rows[i + 1 :], means[k : k + 1])[:, 0]
            k += 1
        labels[i] = best
        counts[best] += 1
    return n, k


def squared_distances(rows: Float64Array, centers: Float64Array) -> Float64Array:
    """(n, k), of rows, (n, d), and centers, (k, d), by definition: one column after the other."""
    squared = np.zeros((len(rows), len(centers)))
    for values, middles in zip(rows.T, centers.T, strict=True):
        squared += np.square(values[:, np.newaxis] - middles)
    return squared


@compile_loop
def _reseat_rows_compiled(
    done: int,
    k: int,
    rows: Float64Array,
    fresh: Float64Array,
    opening: Float64Array,
    logs: Float64Array,
    half_precision: float,
    labels: Int64Array,
    means: Float64Array,
    counts: Int64Array,
    offers: Float64Array,
) -> tuple[int, int]:
    """Compiled twin of `reseat_rows`."""
    n, room = offers.shape
    for i in range(done, n):
        if k == room:
            return i, k
        counts[labels[i]] -= 1
        best, most = 0, -np.inf
        for c in range(k):
            weight = offers[i, c] + logs[counts[c]]
            if weight > most:
                best, most = c, weight
        if opening[i] > most:
            best = k
            means[k] = fresh[i]
            for later in range(i + 1, n):
                squared = 0.0
                for j in range(rows.shape[1]):
                    difference = rows[later, j] - fresh[i, j]
                    squared += difference * difference
                offers[later, k] -= half_precision * squared
            k += 1
        labels[i] = best
        counts[best] += 1
    return n, k
