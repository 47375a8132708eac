"""Compiled loops of `distance`: nearest centers by definition alone, of few or of narrow rows.

They return the same bytes as the NumPy code in `distance`.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.numba_support import compile_loop

NARROW = 4
"""Most columns for which the definition alone is faster than a ranking of few centers."""
NARROW_CENTERS = {1: 256, 2: 32}
"""Most of these centers, where the nearest one is asked for, and the nearest two.

In 4 columns the nearest of 8, 20, 64 and 256 centers took 0.41, 0.53, 0.72 and 0.75 of the time, the
nearest two of 8, 20 and 64 took 0.62, 0.75 and 1.01.  In 2 columns it is 0.67, 0.80 and 1.15."""
NARROW_TILE = 2**8
"""Rows whose squared distances are compared together."""


def is_narrow(points: Float64Array, constants: Float64Array, count: int) -> bool:
    """Return whether the definition alone finds the `count` nearest of `points`, (k, d), faster."""
    k, d = points.shape
    return not constants.size and d <= NARROW and k <= NARROW_CENTERS[count]


@compile_loop
def _fill_costs(
    row: Rows, columns: Float64Array, constants: Float64Array, distances: Float64Array
) -> None:
    """Fill in the costs of a row, (d,), at each center, (k,); see `nearest_by_definition`.

    Linear costs are without their last column.
    """
    d, k = columns.shape
    if constants.size:
        for c in range(k):
            distances[c] = constants[c]
        for j in range(d - 1):
            value, slopes = np.float64(row[j]), columns[j]
            for c in range(k):
                distances[c] += value * slopes[c]
    else:
        for c in range(k):
            distances[c] = 0.0
        for j in range(d):
            value, middles = np.float64(row[j]), columns[j]
            for c in range(k):
                difference = value - middles[c]
                distances[c] += difference * difference


@compile_loop
def nearest_by_definition(
    rows: Rows,
    columns: Float64Array,
    constants: Float64Array,
    labels: IndexArray,
    squared: Float64Array,
) -> None:
    """Fill in the one or two nearest centers of each row, (n, d), from all squared distances.

    `columns` are the centers, (d, k), k >= 2; with `constants`, (k,), coefficients of linear costs,
    of which the last is the same at all centers.  `labels` are (1, n) or (2, n).  The loop fills
    `squared`, (n,), with the least costs, unless it is empty.
    """
    count, (d, k) = len(labels), columns.shape
    linear = constants.size > 0
    distances = np.empty(k)
    for i in range(len(rows)):
        _fill_costs(rows[i], columns, constants, distances)
        label, other = 0, 1
        if distances[1] < distances[0]:
            label, other = 1, 0
        for c in range(2, k):
            if distances[c] < distances[other]:
                other = c
                if distances[c] < distances[label]:
                    label, other = c, label
        labels[0, i] = label
        if count == 2:
            labels[1, i] = other
        if squared.size:
            least = distances[label]
            if linear:
                least += np.float64(rows[i, d - 1]) * columns[d - 1, label]
                least = least if least > 0.0 else 0.0
            squared[i] = least


@compile_loop
def _fill_columns(rows: Rows, columns: Float64Array) -> None:
    """Fill the columns, (4, tile), with as many rows, (m, d) with d <= 4."""
    d = rows.shape[1]
    for i in range(len(rows)):  # columns one by one, without a loop inside
        columns[0, i] = rows[i, 0]
        if d > 1:
            columns[1, i] = rows[i, 1]
        if d > 2:
            columns[2, i] = rows[i, 2]
        if d > 3:
            columns[3, i] = rows[i, 3]


@compile_loop
def nearest_of_narrow_rows(
    rows: Rows, centers: Float64Array, labels: IndexArray, squared: Float64Array
) -> None:
    """Fill in the nearest center of each row, (n, d) with d <= 4, from all squared distances.

    `centers` are (k, d).  Rows and centers get zeros up to four columns, which leave the sums as
    they are.  The loop fills `squared`, (n,), with squared distances to the labels, unless it is
    empty.
    """
    (n, d), k = rows.shape, len(centers)
    columns, points, spare = np.zeros((4, NARROW_TILE)), np.zeros((k, 4)), np.empty(NARROW_TILE)
    points[:, :d] = centers
    first, second, third, fourth = columns[0], columns[1], columns[2], columns[3]
    for start in range(0, n, NARROW_TILE):
        stop = min(start + NARROW_TILE, n)
        height = stop - start
        _fill_columns(rows[start:stop], columns)
        nearest, least = labels[start:stop], spare[:height]
        if squared.size:
            least = squared[start:stop]
        nearest[:], least[:] = 0, np.inf
        for c in range(k):
            p, q, r, s = points[c]
            for i in range(height):  # without a branch, so that it is vectorized
                a, b, g, h = first[i] - p, second[i] - q, third[i] - r, fourth[i] - s
                total = a * a + b * b + g * g + h * h
                closer = total < least[i]
                nearest[i] = c if closer else nearest[i]
                least[i] = total if closer else least[i]


@compile_loop
def two_nearest_of_narrow_rows(
    rows: Rows, centers: Float64Array, labels: IndexArray, seconds: IndexArray
) -> None:
    """As `nearest_of_narrow_rows`, with the second nearest of k >= 2 centers, (n,), too."""
    (n, d), k = rows.shape, len(centers)
    columns, points = np.zeros((4, NARROW_TILE)), np.zeros((k, 4))
    points[:, :d] = centers
    first, second, third, fourth = columns[0], columns[1], columns[2], columns[3]
    least, lower = np.empty(NARROW_TILE), np.empty(NARROW_TILE)
    for start in range(0, n, NARROW_TILE):
        stop = min(start + NARROW_TILE, n)
        height = stop - start
        _fill_columns(rows[start:stop], columns)
        nearest, other = labels[start:stop], seconds[start:stop]
        least[:height], lower[:height] = np.inf, np.inf
        nearest[:], other[:] = 0, 0
        for c in range(k):
            p, q, r, s = points[c]
            for i in range(height):
                a, b, g, h = first[i] - p, second[i] - q, third[i] - r, fourth[i] - s
                total = a * a + b * b + g * g + h * h
                closer, between = total < least[i], total < lower[i]
                next_other = c if between else other[i]
                next_lower = total if between else lower[i]
                other[i] = nearest[i] if closer else next_other
                lower[i] = least[i] if closer else next_lower
                nearest[i] = c if closer else nearest[i]
                least[i] = total if closer else least[i]
            if c == 0:
                other[:] = 1
