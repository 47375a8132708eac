"""The first pass: check every value, and compute column statistics."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse

from dask_dpmeans.kernels.block import (
    Block,
    BoolArray,
    Features,
    Float64Array,
    Rows,
    row_numbers,
    takes_csr,
)
from dask_dpmeans.kernels.moments import cluster_moments, total

MOST_GROUPS = 2**24
"""Group numbers must be less than this: memory is needed for each, even if it is empty."""
TOGETHER = 1024
"""Numbers compared side by side; with 4 columns, one row at a time took 30 times as long."""
LEAST_SQUARES = float(np.finfo(np.float64).tiny / np.sqrt(np.finfo(np.float64).eps))
"""1.5e-300.  If the squares of spans sum to this, the square of 2e-4 times a span is a normal number of
float64."""


class Flaw(NamedTuple):
    """The first value that cannot be used."""

    row: int
    """Global row number."""
    column: int
    """Column number among the used columns; -1: a weight, -2: a group, -3: the row's features."""
    value: float


@dataclass(frozen=True)
class Summary:
    """Weighted column statistics of neighboring blocks."""

    flaw: Flaw | None
    """The first flaw in row order; if there is one, the statistics mean nothing."""
    weight: float
    """Sum of the weights."""
    sums: Float64Array
    """(d,), sums of weight times row; a missing value adds nothing."""
    squares: Float64Array
    """(d,), weighted sums of squared differences of the values from the column means."""
    lowest: Float64Array
    """(d,), smallest values; infinity for a column in which no value is observed."""
    highest: Float64Array
    """(d,), largest values; minus infinity for such a column."""
    n_groups: int = 0
    """Largest group number plus 1; 0 without groups."""
    groups_sum: int = 0
    """Sum of (row number + 1) * (group number + 1), modulo 2**64: a checksum of the groups."""
    observed_weights: Float64Array | None = None
    """(d,), sums of the weights of the rows with a value in each column; None if all have one."""
    empty_rows: int = 0
    """Number of rows in which every value is missing, of any weight."""

    @property
    def observed(self) -> Float64Array:
        """(d,), sums of the weights of the rows with a value in each column."""
        if self.observed_weights is None:
            return np.full(len(self.sums), self.weight)
        return self.observed_weights

    @property
    def mean(self) -> Float64Array:
        """(d,), weighted means of the observed values; 0 for a column without any, or any weight.

        A constant column has exactly its value as mean.
        """
        if self.observed_weights is None:
            return np.clip(self.sums / self.weight, self.lowest, self.highest)
        return _observed_means(self.observed_weights, self.sums, self.lowest, self.highest)

    @property
    def deviation(self) -> Float64Array:
        """(d,), weighted standard deviations of the observed values (population form).

        0 for a column in which no value is observed.
        """
        if self.observed_weights is None:
            return np.asarray(np.sqrt(self.squares / self.weight))
        return np.sqrt(self.squares / np.where(self.observed_weights > 0, self.observed_weights, 1))

    def scaled(self, scale: Float64Array) -> "Summary":
        """Return the summary of the same rows with each column divided by `scale`, (d,)."""
        return replace(
            self,
            sums=self.sums / scale,
            squares=self.squares / scale**2,
            lowest=self.lowest / scale,
            highest=self.highest / scale,
        )

    def overflowing(self, points: Float64Array | None = None, most: float = np.inf) -> int | None:
        """Return the widest column if its values are too large, else None.

        Values are too large if squared distances among the rows, and to `points` (k, d), can
        overflow float64, or if a value exceeds `most`.
        """
        seen = self.lowest <= self.highest
        lowest, highest = np.where(seen, self.lowest, 0.0), np.where(seen, self.highest, 0.0)
        if points is not None:
            lowest = np.minimum(lowest, points.min(axis=0))
            highest = np.maximum(highest, points.max(axis=0))
        weight = max(1.0, self.weight)
        with np.errstate(over="ignore"):
            spans, reach = (highest - lowest) ** 2, np.maximum(-lowest, highest)
            sums_fit = np.isfinite(spans.sum() * weight) and np.isfinite(reach * weight).all()
            if sums_fit and (reach <= most).all():
                return None
            return int(np.argmax(np.maximum(spans, reach)))

    @property
    def underflowing(self) -> bool:
        """Whether rows differ, but weighted squared distances among them underflow float64."""
        spans = np.where(self.lowest <= self.highest, self.highest - self.lowest, 0.0)
        weight = min(1.0, self.weight)
        return bool(spans.any()) and float((spans**2).sum()) * weight < LEAST_SQUARES


@dataclass(frozen=True)
class ColumnStatistics:
    """The reduction of the first pass."""

    limit: float
    """Values must lie strictly between minus and plus this; infinity for floats."""
    features: Features | None = None
    """Map of the rows, after they are checked; the statistics are computed from the features."""
    missing: bool = False
    """Whether NaN is a missing value; else it is a flaw, as NaN among features always is."""
    least_group: int = 0
    """The least number of a group; others are flaws."""

    @property
    def takes_csr(self) -> bool:
        """Whether rows may be CSR: if the features are, or without any."""
        return self.features is None or takes_csr(self.features)

    def chunk(self, block: Block) -> Summary:
        """Return the summary of one block."""
        if issparse(block.rows):
            return self._chunk_csr(block)
        rows, ends, empty_rows, seen = block.rows, column_ranges(block.rows), 0, None
        if self.missing and np.isnan(ends[0]).any():
            seen, ends = ~np.isnan(rows), observed_ranges(rows)
            empty_rows = len(rows) - int(np.count_nonzero(seen.any(axis=1)))
        flaw = first_flaw(block, self.limit, ends, self.missing, self.least_group)
        if self.features is not None and flaw is None:
            block = replace(block, rows=self.features(rows, block.scratch))
            seen, ends = None, column_ranges(block.rows)
            flaw = first_flaw(block, np.inf, ends, least_group=self.least_group)
            if flaw is not None:
                flaw = flaw._replace(column=-3)
        lowest, highest = (side.astype(np.float64) for side in ends)
        if flaw is not None:
            nothing = np.zeros(block.rows.shape[1])
            return Summary(flaw, 0.0, nothing, nothing, lowest, highest)
        with np.errstate(over="ignore", invalid="ignore"):
            figures = _block_statistics(block, lowest, highest, seen)
        weight, sums, squares, weights = figures
        observed = weights if self.missing and self.features is None else None
        groups = _group_statistics(block)
        return Summary(None, weight, sums, squares, lowest, highest, *groups, observed, empty_rows)

    def _chunk_csr(self, block: Block) -> Summary:
        """Return the summary of the features of CSR rows, which are CSR too."""
        flaw = first_flaw(block, self.limit, least_group=self.least_group)
        if flaw is None and self.features is not None:
            block = replace(block, rows=self.features(block.rows, block.scratch))
            flaw = first_flaw(block, np.inf, least_group=self.least_group)
            flaw = flaw and flaw._replace(column=-3)
        if flaw is not None:
            nothing = np.zeros(block.rows.shape[1])
            return Summary(flaw, 0.0, nothing, nothing, nothing, nothing)
        statistics = _csr_statistics(csr_array(block.rows), block.row_weights())
        return Summary(None, *statistics, *_group_statistics(block))

    def combine(self, left: Summary, right: Summary) -> Summary:
        """Merge two neighboring summaries; squares after Chan, Golub & LeVeque 1983."""
        if left.flaw is not None:
            return left
        if right.flaw is not None:
            return right
        with np.errstate(over="ignore", invalid="ignore"):
            weight = left.weight + right.weight
            sums, squares = left.sums + right.sums, left.squares + right.squares
            observed = None
            if left.observed_weights is not None and right.observed_weights is not None:
                observed = left.observed_weights + right.observed_weights
                squares = squares + _squares_between(left, right)
            elif left.weight > 0 and right.weight > 0:
                factor = left.weight * (right.weight / weight)
                squares = squares + (left.mean - right.mean) ** 2 * factor
        return Summary(
            None,
            weight,
            sums,
            squares,
            np.minimum(left.lowest, right.lowest),
            np.maximum(left.highest, right.highest),
            max(left.n_groups, right.n_groups),
            (left.groups_sum + right.groups_sum) % 2**64,
            observed,
            left.empty_rows + right.empty_rows,
        )


@dataclass(frozen=True)
class SparseStatistics(ColumnStatistics):
    """The reduction of the first pass over CSR rows, in no more memory than their stored values.

    It has no statistics of single columns.  Two numbers represent each row: the sum of its values,
    and the sum of its values times their column numbers, counted from 1.
    """

    def chunk(self, block: Block) -> Summary:
        flaw = first_flaw(block, self.limit, least_group=self.least_group)
        nothing = np.zeros(2)
        if flaw is not None:
            return Summary(flaw, 0.0, nothing, nothing, nothing, nothing)
        with np.errstate(over="ignore", invalid="ignore"):
            values, weights = _row_statistics(csr_array(block.rows)), block.row_weights()
            weight, sums = float(weights.sum()), np.einsum("i,ij->j", weights, values)
            lowest, highest = values.min(axis=0), values.max(axis=0)
            differences = values - _column_means(weight, sums, lowest, highest)
            squares = np.einsum("i,ij,ij->j", weights, differences, differences)
        return Summary(None, weight, sums, squares, lowest, highest, *_group_statistics(block))


def _csr_statistics(
    rows: csr_array, weights: Float64Array
) -> tuple[float, Float64Array, Float64Array, Float64Array, Float64Array]:
    """Return weight, sums, squares, lowest and highest values of CSR rows, each (d,) but the weight."""
    (n, d), columns, values = rows.shape, rows.indices, rows.data
    weight, own = float(np.add.reduce(weights)), weights[row_numbers(rows)]
    full = np.bincount(columns, minlength=d) == n
    lowest, highest = np.where(full, np.inf, 0.0), np.where(full, -np.inf, 0.0)
    np.minimum.at(lowest, columns, values)
    np.maximum.at(highest, columns, values)
    sums = total(columns, own * values, d)
    mean = _column_means(weight, sums, lowest, highest)
    squares = total(columns, own * (values - mean[columns]) ** 2, d)
    zeros = np.maximum(weight - total(columns, own, d), 0.0)
    return weight, sums, squares + zeros * mean**2, lowest, highest


def _column_means(
    weight: float, sums: Float64Array, lowest: Float64Array, highest: Float64Array
) -> Float64Array:
    """Return the column means, (d,), of a block; 0 without weight."""
    if not weight > 0:
        return np.zeros(len(sums))
    return np.clip(sums / weight, lowest, highest)


def _observed_means(
    observed: Float64Array, sums: Float64Array, lowest: Float64Array, highest: Float64Array
) -> Float64Array:
    """Return the means, (d,), of the observed values of columns; 0 for columns without weight."""
    seen = observed > 0
    means = np.divide(sums, observed, out=np.zeros(len(sums)), where=seen)
    return np.asarray(np.where(seen, np.clip(means, lowest, highest), 0.0))


def _squares_between(left: Summary, right: Summary) -> Float64Array:
    """Return what the merge of two summaries adds to the squares of each column, (d,)."""
    both = (left.observed > 0) & (right.observed > 0)
    observed = left.observed + right.observed
    shares = np.divide(right.observed, observed, out=np.zeros(len(both)), where=both)
    return np.where(both, (left.mean - right.mean) ** 2 * (left.observed * shares), 0.0)


def _block_statistics(
    block: Block, lowest: Float64Array, highest: Float64Array, seen: BoolArray | None
) -> tuple[float, Float64Array, Float64Array, Float64Array]:
    """Return weight, sums, squares and observed weights of a block, each (d,) but the weight.

    `seen`, (height, d), tells values from missing ones; None if no value is missing.
    """
    n, d = block.rows.shape
    if seen is not None:
        filled = block.scratch.array("filled", block.rows.shape, block.rows.dtype)
        np.copyto(filled, 0.0)
        np.copyto(filled, block.rows, where=seen)
        block = replace(block, rows=filled)
    moments = cluster_moments(block, np.zeros(n, np.intp), np.zeros(n), 1)
    weight, sums = float(moments.weights[0]), moments.sums[0]
    if seen is None:
        observed = np.full(d, weight)
        mean = _column_means(weight, sums, lowest, highest)
    else:
        observed = _observed_weights(block, seen, weight)
        mean = _observed_means(observed, sums, lowest, highest)
    memory = block.scratch.array("differences", block.rows.shape, np.float64)
    differences = np.subtract(block.doubles(), mean, out=memory)
    if seen is not None:
        np.copyto(differences, 0.0, where=~seen)
    if block.weights is None:
        squares = np.einsum("ij,ij->j", differences, differences)
    else:
        squares = np.einsum("i,ij,ij->j", block.weights, differences, differences)
    return weight, sums, squares, observed


def _observed_weights(block: Block, seen: BoolArray, weight: float) -> Float64Array:
    """Return the weights, (d,), of the rows with a value in each column.

    `weight` is the weight of all rows, which a complete column has to the bit.
    """
    if block.weights is None:
        return np.asarray(np.count_nonzero(seen, axis=0), np.float64)
    observed: Float64Array = np.einsum("i,ij->j", block.weights, seen.astype(np.float64))
    return np.where(seen.all(axis=0), weight, observed)


def _row_statistics(rows: csr_array) -> Float64Array:
    """Return the two numbers of each CSR row, (height, 2)."""
    numbers, n = row_numbers(rows), rows.shape[0]
    values = np.empty((n, 2))
    values[:, 0] = np.bincount(numbers, rows.data, n)
    values[:, 1] = np.bincount(numbers, rows.data * (rows.indices + 1.0), n)
    return values


def _group_statistics(block: Block) -> tuple[int, int]:
    """Return `n_groups` and `groups_sum` of a summary."""
    if block.groups is None:
        return 0, 0
    numbers = np.arange(block.start + 1, block.start + 1 + len(block.groups), dtype=np.uint64)
    products = numbers * (block.groups.astype(np.uint64) + np.uint64(1))
    return int(block.groups.max()) + 1, int(products.sum())


def first_flaw(
    block: Block,
    limit: float,
    ends: tuple[Rows, Rows] | None = None,
    missing: bool = False,
    least_group: int = 0,
) -> Flaw | None:
    """Return the first invalid weight, group, or value not strictly between -limit and limit.

    `ends` are the `column_ranges` of the rows, (d,) each, if they are known; with `missing`, where
    NaN is no flaw, their `observed_ranges`.
    """
    if issparse(block.rows):
        return _first_csr_flaw(block, limit, least_group)
    flaws = _weight_and_group_flaws(block, least_group)
    ranges = observed_ranges if missing else column_ranges
    lowest, highest = ends or ranges(block.rows)
    if not (np.maximum(-lowest, highest) < limit).all():
        bad = ~(np.abs(block.rows) < limit)
        if missing:
            bad &= ~np.isnan(block.rows)
        row, column = np.argwhere(bad)[0]
        flaws.append(Flaw(block.start + int(row), int(column), float(block.rows[row, column])))
    return min(flaws, default=None)


def column_ranges(rows: Rows) -> tuple[Rows, Rows]:
    """Return the smallest and largest value of each column, (d,) each; NaN if one is NaN."""
    n, d = rows.shape
    together = max(1, min(n, TOGETHER // d))
    whole = n // together * together
    lines = rows[:whole].reshape(-1, together * d)
    ends = []
    for extreme in (np.minimum, np.maximum):
        parts = extreme.reduce(lines, axis=0).reshape(-1, d)
        ends.append(extreme.reduce(np.concatenate([parts, rows[whole:]]), axis=0))
    return ends[0], ends[1]


def observed_ranges(rows: Rows) -> tuple[Rows, Rows]:
    """Return the smallest and largest observed value of each column, (d,) each.

    They are infinity and minus infinity for a column of NaN alone.
    """
    lowest = np.fmin.reduce(rows, axis=0, initial=np.inf)
    return lowest, np.fmax.reduce(rows, axis=0, initial=-np.inf)


def _first_csr_flaw(block: Block, limit: float, least_group: int) -> Flaw | None:
    """Return the first flaw of CSR rows, like `first_flaw`."""
    flaws, rows = _weight_and_group_flaws(block, least_group), csr_array(block.rows)
    bad = np.flatnonzero(~(np.abs(rows.data) < limit))
    if bad.size:
        row = int(row_numbers(rows)[bad[0]])
        flaws.append(Flaw(block.start + row, int(rows.indices[bad[0]]), float(rows.data[bad[0]])))
    return min(flaws, default=None)


def _weight_and_group_flaws(block: Block, least_group: int) -> list[Flaw]:
    """Return the first invalid weight and the first invalid group."""
    flaws = []
    if block.weights is not None:
        bad = np.flatnonzero(~((block.weights >= 0) & (block.weights < np.inf)))
        if bad.size:
            flaws.append(Flaw(block.start + int(bad[0]), -1, float(block.weights[bad[0]])))
    if block.groups is not None:
        bad = np.flatnonzero((block.groups < least_group) | (block.groups >= MOST_GROUPS))
        if bad.size:
            flaws.append(Flaw(block.start + int(bad[0]), -2, int(block.groups[bad[0]])))
    return flaws
