"""Costs of rows at centers that are linear in the row."""

from typing import NamedTuple

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows, Scratch
from dask_dpmeans.kernels.definition_compiled import linear_costs_compiled
from dask_dpmeans.kernels.numba_support import pays

MOST_EXPONENT = 100
"""Greatest exponent of a scale, which float32 can hold."""


class Linear(NamedTuple):
    """Costs that are linear in the row: cost = constant + coefficients . row, at least 0.

    It *is* the float64 sum of the constant and of the products, in order of the columns.  The last
    coefficient is the same at all centers, so that it does not rank them.
    """

    coefficients: Float64Array
    """(k, d)."""
    constants: Float64Array
    """(k,); none for squared distances, whose coefficients are the centers."""

    @property
    def greatest(self) -> tuple[float, float]:
        """The greatest length of coefficients of a center, and the greatest absolute constant."""
        squares = np.einsum("ij,ij->i", self.coefficients, self.coefficients).max()
        return float(np.sqrt(squares)), float(np.abs(self.constants).max())

    def scaled(self, share: float) -> tuple["Linear", "Linear", Float64Array]:
        """Return costs without what all centers have in common, and the costs as they are.

        Both are without the last column, and their coefficients are divided by scales, (d - 1,),
        which are also returned.  Coefficients as they are count `share` for the scales.
        """
        coefficients = self.coefficients[:, :-1]
        slopes = coefficients - coefficients.mean(axis=0)
        scales = column_scales(slopes, share * coefficients)
        apart = Linear(slopes / scales, self.constants - self.constants.mean())
        return apart, Linear(coefficients / scales, self.constants), scales


def linear_costs(
    rows: Rows, linear: Linear, labels: IndexArray, scratch: Scratch | None = None
) -> Float64Array:
    """Return the linear cost, by definition, of each row, (n, d), at the center of its label, (n,)."""
    given = rows, *linear, labels, np.empty(len(rows))
    if pays(linear_costs_compiled, given, 2 * rows.size):
        linear_costs_compiled(*given)
        return given[-1]
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


def column_scales(slopes: Float64Array, others: Float64Array) -> Float64Array:
    """Return powers of two, (d,), that make a length of rows independent of the columns' units.

    Each column is scaled by about its greatest coefficient among slopes and others, (k, d), and all
    by a common factor, by which scaled rows and their coefficients are of one size.
    """
    sizes = np.maximum(np.abs(slopes).max(axis=0), np.abs(others).max(axis=0))
    exponents = np.floor(np.log2(np.maximum(sizes, np.finfo(np.float64).tiny)))
    centered = np.clip(exponents - exponents.max() // 2, -MOST_EXPONENT, MOST_EXPONENT)
    return np.asarray(np.ldexp(1.0, centered.astype(np.intc)))
