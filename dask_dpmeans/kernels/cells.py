"""Cells of rows: a few weighted means that stand for many rows."""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part, pays


def cell_means(
    rows: Float64Array, weights: Float64Array, most: int
) -> tuple[Float64Array, Float64Array]:
    """Return the means, (m, d), and weights, (m,), of at most `most` cells of rows.

    The cell of the largest squared error is cut in two at its mean, across the column of the
    largest error, until there are `most` or no error is left.  Rows are (n, d), weights (n,), > 0.
    """
    # about as long as NumPy took for 700 rows in 320 cells, and for 100,000 in 2,560
    work = 64 * rows.size * most.bit_length() + 2**15 * most
    if pays(cell_means_compiled, (rows, weights, most), work):
        means, masses, count = cell_means_compiled(rows, weights, most)
        return means[:count], masses[:count]
    members = [np.arange(len(rows))]
    means, masses, errors = np.empty((most, rows.shape[1])), np.empty(most), np.empty(most)
    widest = np.empty(most, np.int64)
    means[0], masses[0], errors[0], widest[0] = _statistics_of(rows, weights, members[0])
    while len(members) < most:
        cell = int(errors[: len(members)].argmax())
        if not errors[cell] > 0.0:
            break
        low = rows[members[cell], widest[cell]] <= means[cell, widest[cell]]
        if low.all() or not low.any():  # rows that are equal but for the rounding of their mean
            errors[cell] = 0.0
            continue
        members.append(members[cell][~low])
        members[cell] = members[cell][low]
        for c in (cell, len(members) - 1):
            means[c], masses[c], errors[c], widest[c] = _statistics_of(rows, weights, members[c])
    return means[: len(members)], masses[: len(members)]


def _statistics_of(
    rows: Float64Array, weights: Float64Array, members: Int64Array
) -> tuple[Float64Array, float, float, int]:
    """Return the mean, (d,), weight, squared error and widest column of some rows."""
    some, heavy = rows[members], weights[members, np.newaxis]
    mass = float(np.add.accumulate(heavy[:, 0])[-1])
    mean: Float64Array = (np.add.accumulate(heavy * some)[-1] + 0.0) / mass
    apart = some - mean
    errors = np.add.accumulate(heavy * apart * apart)[-1]
    return mean, mass, float(np.add.accumulate(errors)[-1]), int(errors.argmax())


@compile_part
def _measure(
    rows: Float64Array, weights: Float64Array, members: Int64Array, mean: Float64Array
) -> tuple[float, float, int]:
    """Fill in the mean, (d,), of some rows; return their weight, squared error and widest column."""
    mass, total, largest, widest = 0.0, 0.0, -1.0, 0
    for i in range(len(members)):
        mass += weights[members[i]]
    for j in range(len(mean)):
        middle, error = 0.0, 0.0
        for i in range(len(members)):
            middle += weights[members[i]] * rows[members[i], j]
        middle /= mass
        for i in range(len(members)):
            difference = rows[members[i], j] - middle
            error += weights[members[i]] * difference * difference
        mean[j] = middle
        total += error
        if error > largest:
            largest, widest = error, j
    return mass, total, widest


@compile_part
def _cut(
    rows: Float64Array, members: Int64Array, column: int, value: float, spare: Int64Array
) -> int:
    """Put the members up to a value in a column first, both parts in order; return their number."""
    below, above = 0, 0
    for i in range(len(members)):
        row = members[i]
        if rows[row, column] <= value:
            members[below] = row
            below += 1
        else:
            spare[above] = row
            above += 1
    for i in range(above):
        members[below + i] = spare[i]
    return below


@compile_loop
def cell_means_compiled(
    rows: Float64Array, weights: Float64Array, most: int
) -> tuple[Float64Array, Float64Array, int]:
    """Return means, (most, d), weights, (most,), and the number of cells: twin of `cell_means`."""
    n, d = rows.shape
    means, masses, errors = np.empty((most, d)), np.empty(most), np.empty(most)
    columns, stops = np.empty(most, np.int64), np.empty(most, np.int64)
    starts, order, spare = np.empty(most, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    starts[0], stops[0], count = 0, n, 1
    masses[0], errors[0], columns[0] = _measure(rows, weights, order, means[0])
    while count < most:
        cell = 0
        for c in range(1, count):
            if errors[c] > errors[cell]:
                cell = c
        if not errors[cell] > 0.0:
            break
        first, stop, column = starts[cell], stops[cell], columns[cell]
        below = _cut(rows, order[first:stop], column, means[cell, column], spare)
        if below in (0, stop - first):  # rows that are equal but for the rounding of their mean
            errors[cell] = 0.0
            continue
        stops[cell], starts[count], stops[count] = first + below, first + below, stop
        for c in (cell, count):
            masses[c], errors[c], columns[c] = _measure(
                rows, weights, order[starts[c] : stops[c]], means[c]
            )
        count += 1
    return means, masses, count
