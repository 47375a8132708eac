"""Linear costs of CSR rows: the definition at all centers, at the cost of the stored values.

The sum goes over the columns in order, as for dense rows.  A zero adds nothing, so that the sum is
the same number.
"""

from typing import Any

import numpy as np

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Float64Array, IndexArray, IntegerArray, row_numbers
from dask_dpmeans.kernels.linear_costs import Linear
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import compile_loop


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
