"""Compiled loops of `distance` by definition alone: costs, and nearest centers of few or narrow rows.

They return the same bytes as the NumPy code in `distance`.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

WIDE = 16
"""Columns from which squares are computed before they are summed.

With 8, 16, 32 and 64 columns this took 1.1, 0.8, 0.6 and 0.5 of the time."""
NARROW = 4
"""Most columns for which the definition alone is faster than a ranking of few centers."""
NARROW_CENTERS = {1: 256, 2: 32}
"""Most of these centers, where the nearest one is asked for, and the nearest two.

In 4 columns the nearest of 8, 20, 64 and 256 centers took 0.41, 0.53, 0.72 and 0.75 of the time, the
nearest two of 8, 20 and 64 took 0.62, 0.75 and 1.01.  In 2 columns it is 0.67, 0.80 and 1.15."""
NARROW_TILE = 2**8
"""Rows whose squared distances are compared together."""


@compile_loop
def squared_distances_compiled(
    rows: Rows, centers: Float64Array, labels: IndexArray, squared: Float64Array
) -> None:
    """Fill `squared`, (n,), with the squared distance of each row, (n, d), to its center.

    The sum goes over the columns in order.  The squares of eight wide rows are computed side by
    side, then summed.
    """
    n, d = rows.shape
    whole = n // 8 * 8 if d >= WIDE else 0
    squares = np.empty((8, d))
    for start in range(0, whole, 8):
        for i in range(8):
            label = labels[start + i]
            for j in range(d):
                difference = np.float64(rows[start + i, j]) - centers[label, j]
                squares[i, j] = difference * difference
        p = q = r = s = t = u = v = w = 0.0
        for j in range(d):
            p += squares[0, j]
            q += squares[1, j]
            r += squares[2, j]
            s += squares[3, j]
            t += squares[4, j]
            u += squares[5, j]
            v += squares[6, j]
            w += squares[7, j]
        squared[start], squared[start + 1], squared[start + 2], squared[start + 3] = p, q, r, s
        squared[start + 4], squared[start + 5], squared[start + 6], squared[start + 7] = t, u, v, w
    for i in range(whole, n):
        label, total = labels[i], 0.0
        for j in range(d):
            difference = np.float64(rows[i, j]) - centers[label, j]
            total += difference * difference
        squared[i] = total


@compile_loop
def linear_costs_compiled(
    rows: Rows,
    coefficients: Float64Array,
    constants: Float64Array,
    labels: IndexArray,
    costs: Float64Array,
) -> None:
    """Fill `costs`, (n,), with the linear cost of each row, (n, d), at the center of its label.

    `coefficients` are (k, d), `constants` (k,).  The sum goes over the columns in order, for four
    rows side by side.
    """
    n, d = rows.shape
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, e = labels[i], labels[i + 1], labels[i + 2], labels[i + 3]
        at_a, at_b, at_c, at_e = coefficients[a], coefficients[b], coefficients[c], coefficients[e]
        row_a, row_b, row_c, row_e = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        p, q, r, s = constants[a], constants[b], constants[c], constants[e]
        for j in range(d):
            p += np.float64(row_a[j]) * at_a[j]
            q += np.float64(row_b[j]) * at_b[j]
            r += np.float64(row_c[j]) * at_c[j]
            s += np.float64(row_e[j]) * at_e[j]
        costs[i], costs[i + 1], costs[i + 2], costs[i + 3] = p, q, r, s
    for i in range(whole, n):
        label = labels[i]
        total = constants[label]
        for j in range(d):
            total += np.float64(rows[i, j]) * coefficients[label, j]
        costs[i] = total
    for i in range(n):
        costs[i] = costs[i] if costs[i] > 0.0 else 0.0


def is_narrow(points: Float64Array, constants: Float64Array, count: int) -> bool:
    """Return whether the definition alone finds the `count` nearest of `points`, (k, d), faster."""
    k, d = points.shape
    return not constants.size and d <= NARROW and k <= NARROW_CENTERS[count]


@compile_part
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


@compile_part
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
    for c in range(k):
        for j in range(d):
            points[c, j] = centers[c, j]
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
    for c in range(k):
        for j in range(d):
            points[c, j] = centers[c, j]
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
