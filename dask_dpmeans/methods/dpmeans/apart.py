"""Whether clusters lie apart: on the line between two of them hardly any rows are in the middle.

Rows of a log-concave density, such as a normal or an even one, projected to a line, have a density with
one mode.  Cut in two, they have no gap in the middle.  So clusters with a gap between them are
clusters, however little error they save: a cluster of a twentieth of the rows, beside a large one,
saves less than evenly spread rows do.

The centers are of a half of the rows, and the gap is of the other half, so that it is not a gap by
chance that a search found.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import pdtr

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans.summary import Summary

FEWEST = 5
"""Fewest rows of a cluster in each half."""
WIDTH, WINDOWS = 0.25, 25
"""Width of a gap, as a share of the distance of the medians of two clusters, and places that are tried."""
SPARSE, CHANCE = 0.1, 1e-4
"""A gap has at most this share of the rows that the less dense cluster has on such a width, and so few
have at most this chance there (Poisson).  Of 861 draws without clusters, of 28 kinds, none had such gaps.
Normal clusters more than about 5.3 deviations apart have one; a ring that is cut in two has .7 of
the rows in its middle."""


@dataclass(frozen=True)
class ApartJob:
    """Whether clusters of halves of a summary lie apart, as a job."""

    number: int
    """Number of the halving."""
    fits: tuple[Float64Array, ...]
    """Centers, (k, d), of each half."""

    def __call__(self, summary: Summary) -> bool:
        """Return whether the clusters of each half lie apart in the other half."""
        parts = summary.parts(self.number)
        values = spread_ties(summary.rows, stream(summary.seed, Stream.TIES))
        scale = min(summary.count, len(values)) / float(summary.weights.sum())
        others = [(values[part > 0], scale * part[part > 0]) for part in reversed(parts)]
        return len(others) == 2 and all(map(lie_apart, *zip(*others, strict=True), self.fits))


def spread_ties(rows: Float64Array, random: np.random.Generator) -> Float64Array:
    """Return rows, (n, d), in which values that rows share fill the room between their neighbors evenly.

    So integers and categories have no gaps for that alone.
    """
    spread = rows.copy()
    for column in spread.T:
        values, numbers, counts = np.unique(column, return_inverse=True, return_counts=True)
        drawn = random.random(len(column))
        if len(values) > 1:
            middles = values[:-1] + np.diff(values) / 2
            low = np.append(2 * values[0] - middles[0], middles)[numbers]
            high = np.append(middles, 2 * values[-1] - middles[-1])[numbers]
            tied = counts[numbers] > 1
            column[tied] = (low + drawn * (high - low))[tied]
    return spread


def lie_apart(rows: Float64Array, weights: Float64Array, centers: Float64Array) -> bool:
    """Return whether there are gaps between all clusters that touch.

    Parameters
    ----------
    rows : (n, d), other rows than those that gave the centers
    weights : (n,), whose sum is the number of rows that they stand for
    centers : (k, d)
    """
    labels, k = nearest(rows, Centers(centers)), len(centers)
    if k < 2 or np.bincount(labels, minlength=k).min() < FEWEST:
        return False
    for one in range(k):
        own, others = labels == one, np.delete(np.arange(k), one)
        for other in others[np.unique(nearest(rows[own], Centers(centers[others])))].tolist():
            pair = [(rows[part], weights[part]) for part in (own, labels == other)]
            along = centers[other] - centers[one]
            if not _gap(*((some @ along, mass) for some, mass in pair)):
                return False
    return True


def _gap(left: tuple[Float64Array, Float64Array], right: tuple[Float64Array, Float64Array]) -> bool:
    """Return whether there is a gap between two clusters of numbers, each with weights."""
    quartiles = [_quantiles(*each) for each in (left, right)]
    start, end = (each[1] for each in quartiles)
    width = WIDTH * (end - start)
    if not width > 0:
        return False
    densities = []
    with np.errstate(divide="ignore", over="ignore"):  # infinite where half of the rows are equal
        for (_, mass), each in zip((left, right), quartiles, strict=True):
            densities.append(float(mass.sum() / 2 / (each[2] - each[0])))
    values, masses = np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])
    order = np.argsort(values, kind="stable")
    values, sums = values[order], np.append(0.0, np.cumsum(masses[order]))
    windows = np.linspace(start, end - width, WINDOWS)
    inside = sums[np.searchsorted(values, windows + width)] - sums[np.searchsorted(values, windows)]
    expected, found = width * min(densities), float(inside.min())
    return bool(found <= SPARSE * expected and pdtr(found, expected) <= CHANCE)


def _quantiles(values: Float64Array, weights: Float64Array) -> Float64Array:
    """Return the quartiles, (3,), of numbers with weights."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order]) - weights[order] / 2
    return np.asarray(np.interp(np.array([0.25, 0.5, 0.75]) * weights.sum(), sums, values[order]))
