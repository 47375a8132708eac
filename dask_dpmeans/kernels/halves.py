"""Halves of a cluster by 2-means, and what merges cost; `halves_compiled` has the same loops compiled."""

import math

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.halves_compiled import HALVING_STEPS, LARGEST, POWER_STEPS, VANISHING

HALVED_AT_ONCE = 2**13
"""Most numbers of clusters that are halved together, but for one."""


def pair_costs(
    first: Float64Array, second: Float64Array, squared: Float64Array, spherical: bool
) -> Float64Array:
    """Return the rise of the error, (m,), if clusters merge.

    Parameters
    ----------
    first, second : (m,), masses
    squared : (m,), squared distances of the centers
    spherical : whether the centers have unit length
    """
    both = first + second
    there = both > 0
    costs = np.divide(first * second, both, out=np.zeros(len(both)), where=there) * squared
    if spherical:
        shares = np.divide(first, both, out=np.zeros(len(both)), where=there)
        others = np.divide(second, both, out=np.zeros(len(both)), where=there)
        costs *= 2.0 / (1.0 + np.sqrt(np.maximum(0.0, 1.0 - shares * others * squared)))
    return costs


def halve_each(
    rows: Float64Array, weights: Float64Array, clusters: list[Int64Array], spherical: bool
) -> list[tuple[float, BoolArray]]:
    """Return the gains and sides, (m,), of halving clusters of rows, (n, d), by their numbers, (m,).

    Small clusters are halved together: a path of 5,000 rows up to 1,250 clusters takes 1.4 s, not 1.8.
    """
    found = list[tuple[float, BoolArray]]([(0.0, np.zeros(0, np.bool_))]) * len(clusters)
    waiting = sorted(range(len(clusters)), key=lambda c: len(clusters[c]))
    while waiting:
        size = len(clusters[waiting[-1]]) * rows.shape[1]
        some = [waiting.pop() for _ in range(min(len(waiting), 1 + HALVED_AT_ONCE // size))]
        sizes = np.array([len(clusters[c]) for c in some])
        there = np.arange(sizes.max()) < sizes[:, np.newaxis]
        places = np.zeros(there.shape, np.int64)
        places[there] = np.concatenate([clusters[c] for c in some])
        gains, sides = halve(rows[places], np.where(there, weights[places], 0.0), spherical)
        for c, gain, side in zip(some, gains.tolist(), sides, strict=True):
            found[c] = gain, side[: len(clusters[c])]
    return found


def halve(
    rows: Float64Array, weights: Float64Array, spherical: bool
) -> tuple[Float64Array, BoolArray]:
    """Halve some clusters by 2-means along their principal directions.

    Parameters
    ----------
    rows, weights : (s, m, d), (s, m), of s clusters; weights of 0 fill up clusters of fewer rows, at the end

    Returns
    -------
    The falls of the errors, (s,), and the sides of the rows, (s, m).
    """
    there = weights > 0
    shifted, mean, unit = _shift(rows, weights, spherical)
    direction, nothing = _principal_directions(shifted, weights)
    sides = dots(shifted, direction) > 0
    products, gains = weights[..., np.newaxis] * shifted, np.zeros(len(rows))
    for _ in range(HALVING_STEPS):
        first, mass = _half_centers(products, weights, sides, mean, spherical)
        second, other = _half_centers(products, weights, ~sides, mean, spherical)
        nothing |= ~(sides.any(axis=1) & (there & ~sides).any(axis=1))
        between = first - second
        gains = pair_costs(mass, other, squared_norms(between), spherical)
        middle = 0.5 * (first + second)
        before, sides = sides, there & (dots(shifted - middle[:, np.newaxis], between) > 0)
        if ((before == sides).all(axis=1) | nothing).all():  # those that are done stay as they are
            break
    return np.where(nothing, 0.0, gains * unit * unit), sides & ~nothing[:, np.newaxis]


def _shift(
    rows: Float64Array, weights: Float64Array, spherical: bool
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return the rows, (s, m, d), less their means, the means, (s, d), and the units, (s,)."""
    mean = weighted_averages(weights[..., np.newaxis] * rows, weights)
    shifted = np.where((weights > 0)[..., np.newaxis], rows - mean[:, np.newaxis], 0.0)
    largest = np.abs(shifted).max(axis=(1, 2))
    scaled = (largest > 0) & (largest < math.inf) & (not spherical)
    exponents = np.clip(np.frexp(np.where(scaled, largest, 0.5))[1], -LARGEST, LARGEST)
    shifted *= np.ldexp(1.0, -exponents)[:, np.newaxis, np.newaxis]
    return shifted, mean, np.ldexp(1.0, exponents)


def _principal_directions(
    shifted: Float64Array, weights: Float64Array
) -> tuple[Float64Array, BoolArray]:
    """Return the principal directions, (s, d), of shifted rows, (s, m, d), and whether all are 0, (s,)."""
    lengths = np.add.accumulate(np.square(shifted), axis=2)[:, :, -1]
    each, farthest = np.arange(len(shifted)), lengths.argmax(axis=1)
    direction: Float64Array = shifted[each, farthest]
    for _ in range(POWER_STEPS):
        along = dots(shifted, direction) * weights
        image = np.add.accumulate(along[..., np.newaxis] * shifted, axis=1)[:, -1]
        length = np.sqrt(squared_norms(image))[:, np.newaxis]
        np.divide(image, length, out=direction, where=length > 0)
    return direction, ~(lengths[each, farthest] > 0)


def _half_centers(
    products: Float64Array,
    weights: Float64Array,
    sides: BoolArray,
    mean: Float64Array,
    spherical: bool,
) -> tuple[Float64Array, Float64Array]:
    """Return the centers, (s, d), less the means, (s, d), of rows on one side, (s, m), and the masses.

    Products are the weights times the shifted rows, (s, m, d).
    """
    own = np.where(sides, weights, 0.0)
    average = weighted_averages(np.where(sides[..., np.newaxis], products, 0.0), own)
    weight = np.add.accumulate(own, axis=1)[:, -1]
    if not spherical:
        return average, weight
    average = average + mean
    length = np.sqrt(squared_norms(average))
    there = length > VANISHING
    np.divide(average, length[:, np.newaxis], out=average, where=there[:, np.newaxis])
    return average - mean, np.where(there, weight * length, 0.0)


def weighted_averages(products: Float64Array, weights: Float64Array) -> Float64Array:
    """Return the averages, (s, d), of rows whose products with their weights are given, in order.

    Products are (s, m, d), weights (s, m); without weight the average is 0.
    """
    sums = np.add.accumulate(products, axis=1)[:, -1]
    weight = np.add.accumulate(weights, axis=1)[:, -1, np.newaxis]
    return np.divide(0.0 + sums, weight, out=np.zeros_like(sums), where=weight > 0)


def weighted_average(rows: Float64Array, weights: Float64Array) -> tuple[Float64Array, float]:
    """Return the weighted average, (d,), of rows, (m, d), added in order, and the weight."""
    sums = np.add.accumulate(weights[:, np.newaxis] * rows, axis=0)[-1]
    weight = np.add.accumulate(weights)[-1]
    return (0.0 + sums) / weight, float(weight)


def dots(rows: Float64Array, vectors: Float64Array) -> Float64Array:
    """Return the products, (s, m), of rows, (s, m, d), and vectors, (s, d), summed in order."""
    return np.asarray(np.add.accumulate(rows * vectors[:, np.newaxis], axis=2)[:, :, -1])


def squared_norms(rows: Float64Array) -> Float64Array:
    """Return the squared lengths, (m,), of rows, (m, d), summed in order."""
    return np.asarray(np.add.accumulate(np.square(rows), axis=1)[:, -1])
