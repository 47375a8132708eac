"""Moments of clusters: weight, sum of rows, squared error."""

from dataclasses import dataclass
from math import fsum

import numpy as np
from scipy.sparse import csc_array

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, IndexArray, Int64Array, Rows
from dask_dpmeans.kernels.numba_support import compile_loop


@dataclass(frozen=True)
class Moments:
    """What a pass learns of each of k clusters; sums are of the rows as given, in row order within a block."""

    counts: Int64Array
    """(k,), rows of any weight."""
    weights: Float64Array
    """(k,), sums of the rows' weights."""
    sums: Float64Array
    """(k, d), sums of weight times row."""
    inertias: Float64Array
    """(k,), sums of weight times squared distance to the center that the rows were assigned to."""

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.counts + other.counts,
            self.weights + other.weights,
            self.sums + other.sums,
            self.inertias + other.inertias,
        )

    @property
    def inertia(self) -> float:
        """The squared error of all clusters."""
        return fsum(self.inertias)

    @property
    def means(self) -> Float64Array:
        """(k, d), for clusters of positive weight."""
        means: Float64Array = self.sums / self.weights[:, np.newaxis]
        return means

    def keep(self, clusters: IndexArray | BoolArray) -> "Moments":
        """The moments of some clusters, by number or mask."""
        return Moments(self.counts[clusters], self.weights[clusters], self.sums[clusters], self.inertias[clusters])


def cluster_moments(block: Block, labels: IndexArray, squared: Float64Array, k: int) -> Moments:
    """Moments of k clusters from a block, and the labels and squared distances of its rows, (height,) each."""
    if numba_support.AVAILABLE:
        added = np.zeros(k, np.int64), np.zeros(k), np.zeros((k, block.rows.shape[1])), np.zeros(k)
        weights = np.empty(0) if block.weights is None else block.weights
        _add_rows_compiled(block.rows, weights, labels, squared, added)
        return Moments(*added)
    counts = np.bincount(labels, minlength=k).astype(np.int64)
    return Moments(
        counts,
        counts.astype(np.float64) if block.weights is None else total(labels, block.weights, k),
        _sums(block, labels, k),
        total(labels, squared if block.weights is None else block.weights * squared, k),
    )


def _sums(block: Block, labels: IndexArray, k: int) -> Float64Array:
    """(k, d), the rows times their weights, added to their clusters one after the other."""
    n = len(labels)
    weights = np.ones(n) if block.weights is None else block.weights
    members = csc_array((weights, labels, np.arange(n + 1)), shape=(k, n))
    added: Float64Array = members @ block.doubles()  # column after column, a row each
    return added


def greatest(labels: IndexArray, values: Float64Array, k: int) -> Float64Array:
    """(k,), the greatest value >= 0 of each cluster, 0 where it has none."""
    found = np.zeros(k)
    if numba_support.AVAILABLE:
        _greatest_compiled(labels, values, found)
    else:
        np.maximum.at(found, labels, values)
    return found


def total(labels: IndexArray, values: Float64Array, k: int) -> Float64Array:
    """(k,), the values of each cluster added one after the other."""
    return np.bincount(labels, values, minlength=k).astype(np.float64, copy=False)


@compile_loop
def _add_rows_compiled(
    rows: Rows,
    weights: Float64Array,
    labels: IndexArray,
    squared: Float64Array,
    moments: tuple[Int64Array, Float64Array, Float64Array, Float64Array],
) -> None:
    """Add the rows, (n, d), to the moments of their clusters, in row order; empty weights mean 1 for each row."""
    counts, totals, sums, inertias = moments
    n, d = rows.shape
    for i in range(n):
        label, weight = labels[i], weights[i] if weights.size else 1.0
        counts[label] += 1
        totals[label] += weight
        inertias[label] += weight * squared[i]
        for j in range(d):
            sums[label, j] += weight * np.float64(rows[i, j])


@compile_loop
def _greatest_compiled(labels: IndexArray, values: Float64Array, found: Float64Array) -> None:
    """Raise `found`, (k,), to the greatest value of each label."""
    for i in range(len(labels)):
        if values[i] > found[labels[i]]:
            found[labels[i]] = values[i]
