"""Serial part of a sweep of Gibbs sampling: each row leaves its cluster, then joins or opens one.

A draw by given weights is the maximum of their logarithms, each with noise of the standard Gumbel
distribution added (Maddison, Tarlow & Minka 2014, section 2).  No weight underflows, and the loops
need no exponential, which differs between libraries: compiled or not, they give the same bytes.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.numba_support import compile_loop, compiled_or_plain

MORE_ROOM = 8
"""Room for new clusters, if half of the present ones are not more."""
ROW_WORK = 2**12
"""Numbers that NumPy handles in the time of its calls for one row, some 4 microseconds."""


@dataclass(frozen=True)
class Seats:
    """Rows, and the clusters that they can open."""

    rows: Float64Array
    """(n, d)."""
    fresh: Float64Array
    """(n, d), the mean of the cluster that each row would open."""
    opening: Float64Array
    """(n,), the logarithm of the weight of opening it."""
    half_precision: float
    """1 / (2 sigma), in inverse squared units of the rows."""


def reseat(
    seats: Seats, labels: Int64Array, means: Float64Array, random: np.random.Generator
) -> tuple[Int64Array, Float64Array, Int64Array]:
    """Let each row, in order, join a cluster by its size and density, or open one.

    Parameters
    ----------
    seats : rows, and the clusters that they can open
    labels : (n,), the clusters that they leave
    means : (k, d), of the clusters
    random : source of noise, one number for each row and cluster

    Returns
    -------
    labels : (n,)
    means : (k', d), the given means, then the means of opened clusters
    counts : (k',), number of rows; 0 if all have left
    """
    n, k = len(seats.rows), len(means)
    opening = seats.opening + _gumbel(random, n)
    with np.errstate(divide="ignore"):
        logs = np.log(np.arange(n + 1.0))
    offers = squared_to_means(seats.rows, means)
    offers *= -seats.half_precision
    offers += _gumbel(random, offers.shape)
    labels, counts = labels.copy(), np.bincount(labels, minlength=k)
    done = 0
    while done < n:
        more = max(MORE_ROOM, k // 2)
        noise = np.empty((n, more))
        noise[done:] = _gumbel(random, (n - done, more))
        offers = np.concatenate([offers, noise], axis=1)
        means = np.concatenate([means, np.empty((more, means.shape[1]))])
        counts = np.concatenate([counts, np.zeros(more, np.int64)])
        fixed = seats.rows, seats.fresh, opening, logs, seats.half_precision
        given = done, k, *fixed, labels, means, counts, offers
        work = (n - done) * (ROW_WORK + 8 * offers.shape[1])
        reseat = compiled_or_plain(_reseat_rows_compiled, given, work, twin=_reseat_rows)
        done, k = reseat(*given)
    return labels, means[:k], counts[:k]


def _gumbel(random: np.random.Generator, shape: int | tuple[int, ...]) -> Float64Array:
    """Draw standard Gumbel noise in a quarter of the time of `Generator.gumbel`."""
    return -np.log(random.standard_exponential(shape))


def _reseat_rows(
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
    """Reseat rows in place from number `done` on; return the numbers of rows done and of clusters.

    `offers`, (n, room), are log densities with noise of the k clusters, then noise alone.  Labels,
    (n,), means, (room, d), and counts, (room,), change in place.  It ends early if the room is used
    up.
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
            squared = squared_to_means(rows[i + 1 :], means[k : k + 1])[:, 0]
            offers[i + 1 :, k] -= half_precision * squared
            k += 1
        labels[i] = best
        counts[best] += 1
    return n, k


def squared_to_means(rows: Float64Array, centers: Float64Array) -> Float64Array:
    """Return squared distances, (n, k), of rows, (n, d), to centers, (k, d), by definition."""
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
    """Compiled twin of `_reseat_rows`."""
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
