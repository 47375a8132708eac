"""Compiled loop of `distance`: the nearest centers of few rows, by definition alone.

It returns the same bytes as the NumPy code in `distance`.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.numba_support import compile_loop


@compile_loop
def _fill_costs(
    row: Rows, columns: Float64Array, constants: Float64Array, distances: Float64Array
) -> None:
    """Fill in the costs of a row, (d,), at each center, (k,); see `nearest_by_definition`.

    Linear costs are without their last column.
    """
    d, k = columns.shape
    if constants.size:
        distances[:] = constants
        for j in range(d - 1):
            value, slopes = np.float64(row[j]), columns[j]
            for c in range(k):
                distances[c] += value * slopes[c]
    else:
        distances[:] = 0.0
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
