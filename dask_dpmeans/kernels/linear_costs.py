"""Costs of rows at centers that are linear in the row."""

from typing import NamedTuple

import numpy as np

from dask_dpmeans.kernels import distance_compiled, numba_support
from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows, Scratch


class Linear(NamedTuple):
    """Costs that are linear in the row: cost = constant + coefficients . row, at least 0.

    It *is* the float64 sum of the constant and of the products, in order of the columns.  The last
    coefficient is the same at all centers, so that it does not rank them.
    """

    coefficients: Float64Array
    """(k, d)."""
    constants: Float64Array
    """(k,); none for squared distances, whose coefficients are the centers."""


def linear_costs(
    rows: Rows, linear: Linear, labels: IndexArray, scratch: Scratch | None = None
) -> Float64Array:
    """Return the linear cost, by definition, of each row, (n, d), at the center of its label, (n,)."""
    if numba_support.AVAILABLE:
        found = np.empty(len(rows))
        distance_compiled.linear_costs_compiled(rows, *linear, labels, found)
        return found
    return np.maximum(linear_sums(rows, linear, labels, scratch), 0.0)


def linear_sums(
    rows: Rows, linear: Linear, labels: IndexArray, scratch: Scratch | None = None
) -> Float64Array:
    """Return constants plus products, (n,), added in order of the columns of rows, (n, d)."""
    n, d = rows.shape
    found, scratch = np.empty(n), scratch or Scratch()
    tile = max(1, 2**15 // (d + 1))
    for start in range(0, n, tile):
        part = slice(start, min(start + tile, n))
        columns = scratch.array("columns", (d + 1, part.stop - start), np.float64)
        columns[0] = linear.constants[labels[part]]
        np.multiply(rows[part].T, linear.coefficients[labels[part], :d].T, out=columns[1:])
        found[part] = np.add.accumulate(columns, axis=0)[-1]
    return found
