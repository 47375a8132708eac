"""Compiled loops of `halves`: the halves of a cluster, and what they gain, to the same bytes.

Loops of `center_clusters_compiled` call them.
"""

import math

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.numba_support import compile_part

VANISHING = 1e-12
"""Unit rows whose average is no longer than this cancel; as in `divergence`."""
POWER_STEPS = 20
"""Power iterations toward the principal direction of a cluster."""
HALVING_STEPS = 30
"""Most Lloyd's steps of the two halves of a cluster."""
LARGEST = 1000
"""Greatest binary exponent by which a cluster is scaled before it is halved."""

Data = tuple[Float64Array, Float64Array, bool]
"""Rows (n, d), weights (n,), and whether rows and centers have unit length."""


@compile_part
def pair_cost(first: float, second: float, squared: float, spherical: bool) -> float:
    """Return the rise of the error by the merge of clusters with these masses and this distance."""
    total = first + second
    if not total > 0:
        return 0.0
    cost: float = first * second / total * squared
    if spherical:
        share = first / total
        cost *= 2.0 / (1.0 + math.sqrt(max(0.0, 1.0 - share * (second / total) * squared)))
    return cost


@compile_part
def _shift(data: Data, members: Int64Array, work: Float64Array) -> float:
    """Fill `work[8:]`, (m, d), with rows less their average (`work[0]`), and return their unit."""
    rows, weights, spherical = data
    m, d = len(members), rows.shape[1]
    mean, weight = work[0], 0.0
    for j in range(d):
        mean[j] = 0.0
    for q in range(m):
        i = members[q]
        weight += weights[i]
        for j in range(d):
            mean[j] += weights[i] * rows[i, j]
    largest = 0.0
    for j in range(d):
        mean[j] /= weight
    for q in range(m):
        for j in range(d):
            work[8 + q, j] = rows[members[q], j] - mean[j]
            largest = max(largest, abs(work[8 + q, j]))
    if spherical or not 0 < largest < np.inf:
        return 1.0
    exponent = max(-LARGEST, min(LARGEST, math.frexp(largest)[1]))
    factor = math.ldexp(1.0, -exponent)
    for q in range(m):
        for j in range(d):
            work[8 + q, j] *= factor
    return math.ldexp(1.0, exponent)


@compile_part
def _dot(values: Float64Array, others: Float64Array) -> float:
    """Return the sum of products, of (d,), in order."""
    total = 0.0
    for j in range(len(values)):
        total += values[j] * others[j]
    return total


@compile_part
def _project(
    work: Float64Array, origin: Float64Array, direction: Float64Array, along: Float64Array
) -> None:
    """Fill `along`, (m,), with the products of a direction and rows less an origin, (d,) each.

    Four sums run side by side: one alone waits for each of its additions.
    """
    m = len(along)
    for q in range(8, m + 5, 4):
        one = two = three = four = 0.0
        for j in range(len(direction)):
            start, factor = origin[j], direction[j]
            one += (work[q, j] - start) * factor
            two += (work[q + 1, j] - start) * factor
            three += (work[q + 2, j] - start) * factor
            four += (work[q + 3, j] - start) * factor
        along[q - 8], along[q - 7], along[q - 6], along[q - 5] = one, two, three, four
    for q in range(m - m % 4, m):
        along[q] = 0.0
        for j in range(len(direction)):
            along[q] += (work[8 + q, j] - origin[j]) * direction[j]


@compile_part
def _add_rows(work: Float64Array, factors: Float64Array, sums: Float64Array) -> None:
    """Fill `sums`, (d,), with the sum of factors, (m,), times rows; four are added at a time."""
    m = len(factors)
    for j in range(len(sums)):
        sums[j] = 0.0
    for q in range(8, m + 5, 4):
        one, two, three, four = factors[q - 8], factors[q - 7], factors[q - 6], factors[q - 5]
        for j in range(len(sums)):
            added = sums[j] + one * work[q, j]
            added += two * work[q + 1, j]
            added += three * work[q + 2, j]
            sums[j] = added + four * work[q + 3, j]
    for q in range(m - m % 4, m):
        for j in range(len(sums)):
            sums[j] += factors[q] * work[8 + q, j]


@compile_part
def _principal_direction(
    data: Data, members: Int64Array, work: Float64Array, along: Float64Array
) -> bool:
    """Fill `work[1]` with the principal direction of shifted rows, if there is one.

    `along`, (m,), is work space, and `work[5]` is 0.
    """
    weights, direction, image = data[1], work[1], work[2]
    m, d = len(members), work.shape[1]
    longest, farthest = 0.0, -1
    for q in range(m):
        length = _dot(work[8 + q], work[8 + q])
        if length > longest:
            longest, farthest = length, q
    if farthest < 0:
        return False
    for j in range(d):
        direction[j] = work[8 + farthest, j]
    for _ in range(POWER_STEPS):
        _project(work, work[5], direction, along)
        for q in range(m):
            along[q] *= weights[members[q]]
        _add_rows(work, along, image)
        length = math.sqrt(_dot(image, image))
        if not length > 0:
            break
        for j in range(d):
            direction[j] = image[j] / length
    return True


@compile_part
def _half_center(
    average: Float64Array, mean: Float64Array, weight: float, spherical: bool
) -> float:
    """Turn the average of a half, (d,), into its shifted center, and return its mass."""
    if not spherical:
        return weight
    length = 0.0
    for j in range(len(mean)):
        average[j] += mean[j]
        length += average[j] * average[j]
    length = math.sqrt(length)
    vanishes = not length > VANISHING
    for j in range(len(mean)):
        if not vanishes:
            average[j] /= length
        average[j] -= mean[j]
    return 0.0 if vanishes else weight * length


@compile_part
def _sum_halves(
    data: Data, members: Int64Array, sides: BoolArray, work: Float64Array
) -> tuple[float, float]:
    """Fill `work[1]` and `work[2]` with the sums of both halves, and return their weights."""
    weights, first, second = data[1], work[1], work[2]
    weight = other = 0.0
    for j in range(work.shape[1]):
        first[j] = second[j] = 0.0
    for q in range(len(members)):
        share = weights[members[q]]
        if sides[members[q]]:
            weight += share
            for j in range(work.shape[1]):
                first[j] += share * work[8 + q, j]
        else:
            other += share
            for j in range(work.shape[1]):
                second[j] += share * work[8 + q, j]
    return weight, other


@compile_part
def halve(data: Data, members: Int64Array, sides: BoolArray, work: Float64Array) -> float:
    """Compiled twin of `halve` for one cluster; sides are (n,), work is (n + 8, d)."""
    m, d, spherical = len(members), work.shape[1], data[2]
    unit = _shift(data, members, work)
    along = np.empty(m)
    for j in range(d):
        work[5, j] = 0.0
    if not _principal_direction(data, members, work, along):
        return 0.0
    _project(work, work[5], work[1], along)
    for q in range(m):
        sides[members[q]] = along[q] > 0
    mean, first, second, between, middle = work[0], work[1], work[2], work[3], work[4]
    gain = 0.0
    for _ in range(HALVING_STEPS):
        weight, other = _sum_halves(data, members, sides, work)
        if not (weight > 0 and other > 0):
            return 0.0
        for j in range(d):
            first[j] /= weight
            second[j] /= other
        mass = _half_center(first, mean, weight, spherical)
        other_mass = _half_center(second, mean, other, spherical)
        for j in range(d):
            between[j] = first[j] - second[j]
            middle[j] = 0.5 * (first[j] + second[j])
        gain = pair_cost(mass, other_mass, _dot(between, between), spherical)
        _project(work, middle, between, along)
        changes = 0
        for q in range(m):
            changes += sides[members[q]] != (along[q] > 0)
            sides[members[q]] = along[q] > 0
        if not changes:
            break
    return gain * unit * unit
