"""Compiled parts that loops of several files call: squared distances of one row, and their least."""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Rows
from dask_dpmeans.kernels.numba_support import compile_part

DISTANCE_ROUNDING = 1e-9
"""A distance counts as smaller or larger by this share of it, for its own rounding."""


@compile_part
def square_distances(
    row: Float64Array, centers: Float64Array, count: int, squared: Float64Array
) -> None:
    """Compiled twin of `squared_to_each`, for one row, (d,); it fills `squared`, (room,).

    The first `count` of centers, (d, room), are used.
    """
    for c in range(count):
        difference = row[0] - centers[0, c]
        squared[c] = difference * difference
    for j in range(1, len(row)):
        value = row[j]
        for c in range(count):
            difference = value - centers[j, c]
            squared[c] += difference * difference


@compile_part
def squared_to_center(row: Rows, center: Float64Array) -> float:
    """Return the squared distance of a row, (d,), to a center, (d,), by definition."""
    total = 0.0
    for j in range(len(row)):
        difference = np.float64(row[j]) - center[j]
        total += difference * difference
    return total


@compile_part
def squared_to_column(row: Float64Array, centers: Float64Array, c: int) -> float:
    """Return the squared distance of a row, (d,), to center c of (d, room)."""
    total = 0.0
    for j in range(len(row)):
        difference = row[j] - centers[j, c]
        total += difference * difference
    return total


@compile_part
def least_of(values: Float64Array, count: int) -> float:
    """Return the least of the first values, (m,), `count` of them.

    Eight are compared at a time, which compilers make into vector instructions.
    """
    a = b = c = d = e = f = g = h = np.inf
    eights = count // 8 * 8
    for i in range(0, eights, 8):
        a, b = min(a, values[i]), min(b, values[i + 1])
        c, d = min(c, values[i + 2]), min(d, values[i + 3])
        e, f = min(e, values[i + 4]), min(f, values[i + 5])
        g, h = min(g, values[i + 6]), min(h, values[i + 7])
    least = min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))
    for i in range(eights, count):
        least = min(least, values[i])
    return least


@compile_part
def distance_less(distance: float, other: float) -> float:
    """Return at least by how much a distance is above another one; 0 if it may not be."""
    larger = distance * (1.0 - DISTANCE_ROUNDING)
    return max(0.0, larger - other * (1.0 + DISTANCE_ROUNDING)) * (1.0 - DISTANCE_ROUNDING)
