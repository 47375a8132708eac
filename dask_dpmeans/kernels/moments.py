"""Moments of clusters: weight, sum of rows, squared error."""

from dataclasses import dataclass
from math import fsum

import numpy as np
from scipy.sparse import csc_array, csr_array, issparse

from dask_dpmeans.kernels.answers import Sums
from dask_dpmeans.kernels.block import (
    Block,
    BoolArray,
    Float64Array,
    IndexArray,
    Int64Array,
    Rows,
    row_numbers,
)
from dask_dpmeans.kernels.numba_support import compile_loop, pays

MomentParts = tuple[Int64Array, Float64Array, Float64Array, Float64Array]
"""Counts and weights, (k,), sums, (k, d), and inertias, (k,), as in `Moments`."""


@dataclass(frozen=True)
class Moments(Sums):
    """Sums of the rows of k clusters; the rows are added as given, in row order within a block."""

    counts: Int64Array
    """(k,), numbers of rows, of any weight."""
    weights: Float64Array
    """(k,), sums of the rows' weights."""
    sums: Float64Array
    """(k, d), sums of weight times row."""
    inertias: Float64Array
    """(k,), sums of weight times squared distance to the center of the row."""

    @classmethod
    def none(cls, k: int, d: int) -> "Moments":
        """Return the moments of k clusters without rows, of d columns."""
        return cls(np.zeros(k, np.int64), np.zeros(k), np.zeros((k, d)), np.zeros(k))

    @property
    def parts(self) -> MomentParts:
        """The fields, to which compiled loops add."""
        return self.counts, self.weights, self.sums, self.inertias

    @property
    def inertia(self) -> float:
        """The squared error of all clusters."""
        return fsum(self.inertias)

    @property
    def means(self) -> Float64Array:
        """(k, d), the means of clusters of positive weight."""
        return np.asarray(self.sums / self.weights[:, np.newaxis])

    def keep(self, clusters: IndexArray | BoolArray) -> "Moments":
        """Return the moments of some clusters, (m,), by number or mask."""
        return Moments(*(values[clusters] for values in vars(self).values()))


def cluster_moments(block: Block, labels: IndexArray, squared: Float64Array, k: int) -> Moments:
    """Return moments of k clusters of a block with labels and squared distances, (height,) each."""
    if issparse(block.rows):
        return _csr_moments(block, labels, squared, k)
    weights, moments = block.weights, Moments.none(k, block.rows.shape[1])
    some = np.empty(0) if weights is None else weights
    given = block.rows, some, labels, squared, moments.parts
    if pays(add_rows_compiled, given, block.rows.size + moments.sums.size):
        add_rows_compiled(*given)
        return moments
    counts = np.bincount(labels, minlength=k).astype(np.int64)
    members = csc_array(
        (block.row_weights(), labels, np.arange(len(labels) + 1)), shape=(k, len(labels))
    )
    sums = np.asarray(members @ block.doubles())  # column after column, a row each, in row order
    if weights is None:
        return Moments(counts, counts.astype(np.float64), sums, total(labels, squared, k))
    return Moments(counts, total(labels, weights, k), sums, total(labels, weights * squared, k))


def _csr_moments(block: Block, labels: IndexArray, squared: Float64Array, k: int) -> Moments:
    """Return the moments of CSR rows, (height, d), by the same sums: zeros add nothing."""
    rows, weights, d = csr_array(block.rows), block.row_weights(), block.rows.shape[1]
    numbers = row_numbers(rows)
    places = labels[numbers] * d + rows.indices
    sums = total(places, weights[numbers] * rows.data, k * d).reshape(k, d)
    counts = np.bincount(labels, minlength=k).astype(np.int64)
    return Moments(counts, total(labels, weights, k), sums, total(labels, weights * squared, k))


def greatest(labels: IndexArray, values: Float64Array, k: int) -> Float64Array:
    """Return the greatest of the values >= 0 of each cluster, (k,); 0 for an empty cluster."""
    found = np.zeros(k)
    if pays(greatest_compiled, (labels, values, found), 2 * len(labels)):
        greatest_compiled(labels, values, found)
    else:
        np.maximum.at(found, labels, values)
    return found


def total(labels: IndexArray, values: Float64Array, k: int) -> Float64Array:
    """Return the sum of the values of each cluster, (k,), added one after the other."""
    return np.bincount(labels, values, minlength=k).astype(np.float64, copy=False)


@compile_loop
def add_rows_compiled(
    rows: Rows,
    weights: Float64Array,
    labels: IndexArray,
    squared: Float64Array,
    moments: MomentParts,
) -> None:
    """Add rows, (n, d), to the moments, as yet 0, of their clusters, in row order.

    Empty weights mean 1.  Labels are at least 0.
    """
    counts, totals, sums, inertias = moments
    n, d = rows.shape
    if weights.size:
        for i in range(n):
            label, weight = np.uint64(labels[i]), weights[i]  # needs no test for less than 0
            counts[label] += 1
            totals[label] += weight
            inertias[label] += weight * squared[i]
            for j in range(d):
                sums[label, j] += weight * np.float64(rows[i, j])
        return
    for i in range(n):
        label = np.uint64(labels[i])
        counts[label] += 1
        inertias[label] += squared[i]
        for j in range(d):
            sums[label, j] += np.float64(rows[i, j])
    for c in range(len(counts)):
        totals[c] = counts[c]


@compile_loop
def greatest_compiled(labels: IndexArray, values: Float64Array, found: Float64Array) -> None:
    """Raise `found`, (k,), to the greatest value of each label."""
    for i in range(len(labels)):
        if values[i] > found[labels[i]]:
            found[labels[i]] = values[i]
