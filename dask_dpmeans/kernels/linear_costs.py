"""Costs of rows at centers that are linear in the row.

Of CSR rows they cost as much as their stored values: the sum goes over the columns in order, as for
dense rows, and a zero adds nothing, so that the sum is the same number.
"""

from typing import Any, NamedTuple

import numpy as np

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import (
    Float64Array,
    IndexArray,
    IntegerArray,
    Rows,
    Scratch,
    row_numbers,
)
from dask_dpmeans.kernels.definition_compiled import linear_costs_compiled
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import compile_loop, pays

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


def nearest_csr(
    rows: Any, linear: Linear, columns: Float64Array, count: int, squared: Float64Array
) -> IndexArray:
    """Return the `count` nearest centers, 1 or 2, of CSR rows, (n, d), as (count, n).

    The last column, which every row stores, does not rank them.  `columns`, (d, k), are the
    coefficients, a column of the rows in a row.  Fill `squared`, (n,), with costs at the nearest
    center unless it is empty.
    """
    n, labels = rows.shape[0], np.empty((count, rows.shape[0]), np.intp)
    last = rows.data[rows.indptr[1:] - 1] * linear.coefficients[0, -1]
    found = np.empty((count, n))
    if numba_support.AVAILABLE:
        parts = rows.data, rows.indices, rows.indptr
        _nearest_csr_compiled(*parts, columns, linear.constants, labels, found)
    else:
        _nearest_csr_sums(rows, linear, labels, found)
    if squared.size:
        squared[:] = np.maximum(found[0] + last, 0.0)
    return labels


def csr_costs(rows: Any, linear: Linear, labels: IndexArray) -> Float64Array:
    """Return the linear cost of CSR rows, (n, d), at the centers of their labels, (n,)."""
    if numba_support.AVAILABLE:
        found = np.empty(len(labels))
        _csr_costs_compiled(rows.data, rows.indices, rows.indptr, *linear, labels, found)
        return found
    numbers = row_numbers(rows)
    products = rows.data * linear.coefficients[labels[numbers], rows.indices]
    return np.maximum(_sums(numbers, linear.constants[labels], products), 0.0)


def _sums(numbers: IndexArray, constants: Float64Array, products: Float64Array) -> Float64Array:
    """Return constants, (n,), plus the products, (m,), of their rows, added one after the other."""
    n = len(constants)
    numbers = np.concatenate([np.arange(n), numbers])
    return total(numbers, np.concatenate([constants, products]), n)


def _nearest_csr_sums(rows: Any, linear: Linear, labels: IndexArray, found: Float64Array) -> None:
    """Fill in the nearest centers, (count, n), and their sums, as the compiled loop does."""
    inner = np.ones(rows.nnz, np.bool_)
    inner[rows.indptr[1:] - 1] = False
    numbers, columns, data = row_numbers(rows)[inner], rows.indices[inner], rows.data[inner]
    n = rows.shape[0]
    tops, places = np.full((2, n), np.inf), np.full((2, n), -1)
    for c, coefficients in enumerate(linear.coefficients):
        constants = np.full(n, linear.constants[c])
        sums = _sums(numbers, constants, data * coefficients[columns])
        better = (sums < tops[0]) | (places[0] < 0)
        next_best = ~better & ((sums < tops[1]) | (places[1] < 0))
        for best, value in ((tops, sums), (places, np.full(n, c))):
            best[1] = np.where(better, best[0], np.where(next_best, value, best[1]))
            best[0] = np.where(better, value, best[0])
    labels[:], found[:] = places[: len(labels)], tops[: len(found)]


@compile_loop
def _csr_costs_compiled(
    data: Float64Array,
    indices: IntegerArray,
    indptr: IntegerArray,
    coefficients: Float64Array,
    constants: Float64Array,
    labels: IndexArray,
    found: Float64Array,
) -> None:
    """Fill in the costs, (n,), at the centers of the labels, (n,)."""
    for i in range(len(labels)):
        label, cost = labels[i], constants[labels[i]]
        for place in range(indptr[i], indptr[i + 1]):
            cost += data[place] * coefficients[label, indices[place]]
        found[i] = max(cost, 0.0)


@compile_loop
def _nearest_csr_compiled(
    data: Float64Array,
    indices: IntegerArray,
    indptr: IntegerArray,
    columns: Float64Array,
    constants: Float64Array,
    labels: IndexArray,
    found: Float64Array,
) -> None:
    """Fill in the nearest centers, (count, n), and their sums; `columns`, (d, k), are coefficients."""
    (count, n), k = labels.shape, columns.shape[1]
    sums = np.empty(k)
    for i in range(n):
        for c in range(k):
            sums[c] = constants[c]
        for place in range(indptr[i], indptr[i + 1] - 1):
            value, coefficients = data[place], columns[indices[place]]
            for c in range(k):
                sums[c] += value * coefficients[c]
        best, second, label, other = np.inf, np.inf, -1, -1
        for c in range(k):
            if sums[c] < best or label < 0:
                best, second, label, other = sums[c], best, c, label
            elif sums[c] < second or other < 0:
                second, other = sums[c], c
        labels[0, i], found[0, i] = label, best
        if count > 1:
            labels[1, i], found[1, i] = other, second
