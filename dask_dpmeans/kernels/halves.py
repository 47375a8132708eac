"""Halves of a cluster by 2-means, and what merges cost; `halves_compiled` has the same loops compiled."""

import math

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array
from dask_dpmeans.kernels.halves_compiled import HALVING_STEPS, LARGEST, POWER_STEPS, VANISHING


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


def halve(rows: Float64Array, weights: Float64Array, spherical: bool) -> tuple[float, BoolArray]:
    """Halve one cluster by 2-means along its principal direction.

    Parameters
    ----------
    rows, weights : (m, d), (m,)

    Returns
    -------
    The fall of the error, and the side of each row, (m,).
    """
    nothing = 0.0, np.zeros(len(rows), np.bool_)
    mean, _ = weighted_average(rows, weights)
    shifted, unit = rows - mean, 1.0
    largest = float(np.abs(shifted).max())
    if not spherical and 0 < largest < math.inf:
        exponent = max(-LARGEST, min(LARGEST, math.frexp(largest)[1]))
        shifted *= math.ldexp(1.0, -exponent)
        unit = math.ldexp(1.0, exponent)
    direction = _principal_direction(shifted, weights)
    if direction is None:
        return nothing
    sides = dots(shifted, direction) > 0
    gain = 0.0
    for _ in range(HALVING_STEPS):
        if sides.all() or not sides.any():
            return nothing
        first, mass = _half_center(shifted[sides], weights[sides], mean, spherical)
        second, other = _half_center(shifted[~sides], weights[~sides], mean, spherical)
        between = first - second
        squared = squared_norms(between[np.newaxis])
        gain = float(pair_costs(np.array([mass]), np.array([other]), squared, spherical)[0])
        before = sides
        sides = dots(shifted - 0.5 * (first + second), between) > 0
        if (before == sides).all():
            break
    return gain * unit * unit, sides


def _principal_direction(shifted: Float64Array, weights: Float64Array) -> Float64Array | None:
    """Return the principal direction, (d,), of shifted rows, (m, d); None if all are 0."""
    lengths = squared_norms(shifted)
    farthest = int(lengths.argmax())
    if not lengths[farthest] > 0:
        return None
    direction: Float64Array = shifted[farthest]
    for _ in range(POWER_STEPS):
        along = dots(shifted, direction) * weights
        image = np.add.accumulate(along[:, np.newaxis] * shifted, axis=0)[-1]
        length = math.sqrt(dots(image[np.newaxis], image)[0])
        if not length > 0:
            break
        direction = image / length
    return direction


def _half_center(
    shifted: Float64Array, weights: Float64Array, mean: Float64Array, spherical: bool
) -> tuple[Float64Array, float]:
    """Return the center, (d,), less the mean, (d,), of rows, (m, d), and the mass."""
    average, weight = weighted_average(shifted, weights)
    if not spherical:
        return average, weight
    average = average + mean
    length = math.sqrt(dots(average[np.newaxis], average)[0])
    if not length > VANISHING:
        return average - mean, 0.0
    return average / length - mean, weight * length


def weighted_average(rows: Float64Array, weights: Float64Array) -> tuple[Float64Array, float]:
    """Return the weighted average, (d,), of rows, (m, d), added in order, and the weight."""
    sums = np.add.accumulate(weights[:, np.newaxis] * rows, axis=0)[-1]
    weight = np.add.accumulate(weights)[-1]
    return (0.0 + sums) / weight, float(weight)


def dots(rows: Float64Array, vector: Float64Array) -> Float64Array:
    """Return the products, (m,), of rows, (m, d), and a vector, (d,), summed in order."""
    return np.asarray(np.add.accumulate(rows * vector, axis=1)[:, -1])


def squared_norms(rows: Float64Array) -> Float64Array:
    """Return the squared lengths, (m,), of rows, (m, d), summed in order."""
    return np.asarray(np.add.accumulate(np.square(rows), axis=1)[:, -1])
