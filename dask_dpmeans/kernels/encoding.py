"""Rows encoded so that their Bregman divergences are linear: mixed columns, zeros, missing values.

A row is encoded as

    its values minus the means of all rows; a category has a column for each of its values
    the factor of each column of the input, 0 where the row has no value, if values may be missing
    its cost at the means of all rows, times `LAST`

The cost of the row at any center is then linear in it (`encoded`), and the center with the least
cost follows from the weighted average of encoded rows.

Of sparse counts, what a zero becomes is subtracted in place of the means, so that encoded rows are as
sparse as the rows, but for the last column.  Labels and sums of clusters have the same bytes as if
the encoded rows were made dense: a zero adds nothing.
"""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import (
    Block,
    BoolArray,
    Float64Array,
    IndexArray,
    Rows,
    Scratch,
    row_numbers,
    tiles,
)
from dask_dpmeans.kernels.bregman import (
    CATEGORICAL,
    COLUMN_DIVERGENCES,
    MULTINOMIAL,
    ColumnDivergence,
)
from dask_dpmeans.kernels.moments import total

LAST = 2.0**-40
"""Factor of the last encoded column: a power of two that makes it small beside the others."""
TILE_ROWS = 2**10
"""Rows that are encoded at once."""

Columns = TypeVar("Columns", BoolArray, Float64Array)


@dataclass(frozen=True)
class Layout:
    """The encoded columns of the columns of the input."""

    names: tuple[str | ColumnDivergence, ...]
    """(d,), names of divergences in `COLUMN_DIVERGENCES`, or divergences."""
    categories: tuple[int, ...]
    """(d,), number of values of a categorical column, 0 for others."""

    @cached_property
    def kinds(self) -> tuple[ColumnDivergence, ...]:
        """(d,), divergences of the columns."""
        return tuple(
            COLUMN_DIVERGENCES[name] if isinstance(name, str) else name for name in self.names
        )

    @cached_property
    def widths(self) -> IndexArray:
        """(d,), numbers of encoded columns."""
        return np.maximum(np.array(self.categories, np.intp), 1)

    @cached_property
    def starts(self) -> IndexArray:
        """(d,), the first encoded column of each."""
        return np.cumsum(self.widths) - self.widths

    @cached_property
    def inputs(self) -> IndexArray:
        """(D,), the column of the input of each encoded column."""
        return np.repeat(np.arange(len(self.names)), self.widths)

    def expanded(self, columns: Columns) -> Columns:
        """Return the column of the input, of (n, d), for each encoded column, as (n, D)."""
        return columns[:, self.inputs] if any(self.categories) else columns

    @cached_property
    def shares(self) -> IndexArray:
        """Columns of the input that count as shares of their sum."""
        return np.flatnonzero([name == MULTINOMIAL for name in self.names])

    @cached_property
    def divergences(self) -> tuple[tuple[ColumnDivergence, slice | IndexArray], ...]:
        """Each divergence, with its encoded columns; they are a slice if it is the only one."""
        distinct = dict.fromkeys(self.kinds)
        if len(distinct) == 1:
            return ((self.kinds[0], slice(len(self.inputs))),)
        own = np.array([list(distinct).index(kind) for kind in self.kinds], np.intp)[self.inputs]
        return tuple((kind, np.flatnonzero(own == number)) for number, kind in enumerate(distinct))

    def expand(self, rows: Float64Array) -> tuple[Float64Array, BoolArray]:
        """Return values, (n, D), and which columns, (n, d), of rows, (n, d), have a value.

        Missing values are NaN.  Categories have a column of zeros and ones for each
        value, multinomial columns are shares of their sum in the row.  What a divergence cannot
        have becomes infinite.
        """
        present = ~np.isnan(rows)
        if len(self.shares):
            rows = rows.copy()
            sums = np.nansum(rows[:, self.shares], axis=1, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = rows[:, self.shares] / sums
            missing = ~present[:, self.shares]
            rows[:, self.shares] = np.where(missing, np.nan, np.where(sums > 0, shares, np.inf))
        values = self.expanded(rows).copy()
        for column in np.flatnonzero(self.categories):
            codes, m = rows[:, column, np.newaxis], self.categories[column]
            known = np.isin(codes, np.arange(m)) | np.isnan(codes)
            ones = np.where(known, codes == np.arange(m), np.inf)
            first = self.starts[column]
            values[:, first : first + m] = np.where(np.isnan(codes), np.nan, ones)
        for kind, columns in self.divergences:
            if np.isfinite([kind.lowest, kind.highest]).any():
                these = values[:, columns]
                below = these <= kind.lowest if kind.positive else these < kind.lowest
                values[:, columns] = np.where(below | (these > kind.highest), np.inf, these)
        return values, present

    def expand_csr(self, rows: csr_array) -> tuple[Float64Array, BoolArray]:
        """Return the expanded stored values, (m,), and which rows, (n,), have flaws.

        All columns have one divergence, that is not categorical.
        """
        kind, values, numbers = self.kinds[0], rows.data, row_numbers(rows)
        below = values <= kind.lowest if kind.positive else values < kind.lowest
        bad = below | ~(values <= kind.highest)
        flawed = np.bincount(numbers[bad], minlength=rows.shape[0]) > 0
        if len(self.shares):
            sums = total(numbers, values, rows.shape[0])
            flawed |= ~(sums > 0)
            values = values / np.where(flawed, 1.0, sums)[numbers]
        return values, flawed


@dataclass(frozen=True)
class ColumnSums:
    """Sums over the rows that have a value."""

    weights: Float64Array
    """(d,), of columns of the input."""
    values: Float64Array
    """(D,), weighted."""
    flaw: Float64Array
    """(1, 3), row, column and value of the first number that a divergence cannot have, or (0, 3)."""

    def __add__(self, other: "ColumnSums") -> "ColumnSums":
        flaw = np.concatenate([self.flaw, other.flaw])[:1]
        return ColumnSums(self.weights + other.weights, self.values + other.values, flaw)


@dataclass(frozen=True)
class SumColumns(SummedAnswers):
    """The reduction to sums of expanded values."""

    takes_csr: ClassVar[bool] = True
    layout: Layout

    def chunk(self, block: Block) -> ColumnSums:
        """Return the sums of one block; what cannot be encoded counts as 0."""
        if issparse(block.rows):
            return self._chunk_csr(block)
        values, present = self.layout.expand(block.doubles())
        weights = block.row_weights()
        finite = np.where(np.isfinite(values), values, 0.0)
        sums = np.ascontiguousarray(finite.T) @ weights  # column by column
        rows, columns = np.nonzero(np.isinf(values))
        rows, inputs = rows[:1], self.layout.inputs[columns[:1]]
        flaw = np.column_stack([block.start + rows, inputs, block.rows[rows, inputs]])
        return ColumnSums(weights @ present, sums, flaw)

    def _chunk_csr(self, block: Block) -> ColumnSums:
        rows, weights = csr_array(block.rows), block.row_weights()
        values, flawed = self.layout.expand_csr(rows)
        if flawed.any():  # the first one says what is wrong
            row = int(flawed.argmax())
            one = replace(block, start=block.start + row, rows=rows[[row]].toarray(), weights=None)
            return self.chunk(one)
        sums = total(rows.indices, weights[row_numbers(rows)] * values, rows.shape[1])
        whole = np.full(rows.shape[1], np.add.reduce(weights))
        return ColumnSums(whole, sums, np.empty((0, 3)))


@dataclass(frozen=True)
class SumCosts(SummedAnswers):
    """The reduction to costs of values at the means of all rows, not weighted by columns."""

    encoding: "Encoding"

    def chunk(self, block: Block) -> ColumnSums:
        """Return the sums of one block."""
        values, present = self.encoding.smoothed_values(block.doubles())
        costs = np.where(np.isfinite(values), self.encoding.column_costs(values), 0.0)
        weights = block.row_weights()
        return ColumnSums(weights @ present, weights @ costs, np.empty((0, 3)))


@dataclass(frozen=True)
class Encoding:
    """The map of rows to encoded rows."""

    layout: Layout
    means: Float64Array = field(compare=False)
    """(D,), weighted means of the expanded values of all rows."""
    scales: Float64Array = field(compare=False)
    """(d,), factors of the costs in each column of the input; 0 in one without any value."""
    smoothing: float
    """Weight a of the means in smoothed columns: a value x becomes (x + a mean) / (1 + a)."""
    missing: str
    """"error", "observed" or "unscaled"."""
    digest: str = field(repr=False)
    """Checksum of the arrays."""
    takes_csr: bool = False
    """Whether a zero of the input becomes a zero, so that CSR rows stay CSR."""

    @classmethod
    def of(
        cls,
        layout: Layout,
        means: Float64Array,
        scales: Float64Array,
        smoothing: float,
        missing: str,
        takes_csr: bool = False,
    ) -> "Encoding":
        """Return the encoding of means, (D,), and scales, (d,), with its digest."""
        content = np.concatenate([means, scales]).tobytes()
        digest = hashlib.sha256(content).hexdigest()
        return cls(layout, means, scales, smoothing, missing, digest, takes_csr)

    @property
    def n_features(self) -> int:
        """Number of encoded columns."""
        return len(self.means) + len(self.scales) * self.masked + 1

    @property
    def masked(self) -> bool:
        """Whether values may be missing."""
        return self.missing != "error"

    @cached_property
    def constant(self) -> BoolArray:
        """(D,), smoothed columns that are at an end of their range in all rows.

        No number but this one has a finite cost there, so that they do not count.
        """
        found = np.zeros(len(self.means), np.bool_)
        for kind, columns in self.layout.divergences:
            if kind.smoothed:
                means = self.means[columns]
                found[columns] = (means <= kind.lowest) | (means >= kind.highest)
        return found

    @cached_property
    def middles(self) -> Float64Array:
        """(D,), the means; any number inside the range in `constant` columns."""
        return np.where(self.constant, 0.5, self.means)

    @cached_property
    def origins(self) -> Float64Array:
        """(D,), what is subtracted from values."""
        if self.takes_csr:
            return self.smooth(np.zeros(len(self.means)))
        origins = self.middles.copy()
        for kind, columns in self.layout.divergences:
            if not kind.centered:
                origins[columns] = 0.0
        return origins

    @cached_property
    def weights(self) -> Float64Array:
        """(D,), factors of the costs in encoded columns."""
        return np.where(self.constant, 0.0, self.scales[self.layout.inputs])

    @cached_property
    def amounts(self) -> Float64Array:
        """(D,), the weight a of the mean in each encoded column."""
        amounts = np.zeros(len(self.means))
        for kind, columns in self.layout.divergences:
            amounts[columns] = self.smoothing * kind.smoothed
        return amounts

    def smooth(
        self, values: Float64Array, columns: slice | IndexArray = slice(None)
    ) -> Float64Array:
        """Return smoothed values, (n, D), or (m,) with their columns."""
        amounts, middles = self.amounts[columns], self.middles[columns]
        if not amounts.any():
            return values
        smoothed = (values + amounts * middles) / (1 + amounts)
        return np.where(self.constant[columns] & (values == self.means[columns]), middles, smoothed)

    def smoothed_values(self, rows: Float64Array) -> tuple[Float64Array, BoolArray]:
        """Return smoothed values, (n, D), of rows, (n, d), and which columns, (n, d), have one.

        Values in columns that had none in the fit are as missing.
        """
        if self.masked and not self.scales.all():
            rows = np.where(self.scales > 0, rows, np.nan)
        values, present = self.layout.expand(rows)
        return self.smooth(values), present

    def column_costs(
        self, values: Float64Array, centers: Float64Array | None = None
    ) -> Float64Array:
        """Return costs of values, (n, D), at centers, (n, D), or the means; without factors."""
        costs = np.empty(values.shape)
        with np.errstate(invalid="ignore"):
            for kind, columns in self.layout.divergences:
                these = values[:, columns]
                at = self.middles[np.newaxis] if centers is None else centers
                at = np.broadcast_to(at[:, columns], these.shape)
                costs[:, columns] = kind.between(these, at)
        return costs

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """Return encoded rows, (height, n_features) float64; NaN for rows that cannot be encoded."""
        if issparse(rows):
            found: Rows = self._encode_csr(csr_array(rows))
            return found
        encoded = scratch.array("features", (len(rows), self.n_features), np.float64)
        for part, tile in tiles(rows, TILE_ROWS):
            encoded[part] = self._encode(tile.astype(np.float64))[: part.stop - part.start]
        return encoded

    def _encode(self, rows: Float64Array) -> Float64Array:
        """Return rows, (n, d), in their encoded columns, (n, n_features); NaN if that overflows."""
        values, present = self.smoothed_values(rows)
        D = values.shape[1]
        encoded, factors = np.empty((len(rows), self.n_features)), np.ones((len(rows), 1))
        costs, shifted = self.weights * self.column_costs(values), values - self.origins
        if self.masked:
            observed = self.layout.expanded(present)
            costs, shifted = np.where(observed, costs, 0.0), np.where(observed, shifted, 0.0)
            if self.missing == "observed":
                known = np.maximum(np.count_nonzero(present, axis=1, keepdims=True), 1)
                factors = np.count_nonzero(self.scales) / known
            np.multiply(factors, present, out=encoded[:, D:-1])
        np.multiply(factors, shifted, out=encoded[:, :D])
        encoded[:, -1] = factors[:, 0] * np.add.reduce(costs, axis=1) * LAST
        finite = np.isfinite(encoded[:, -1]) & np.isfinite(encoded[:, :D]).all(axis=1)
        encoded[~finite] = np.nan
        return encoded

    def _encode_csr(self, rows: csr_array) -> Any:
        """Return encoded CSR rows; the last column is NaN in rows that cannot be encoded."""
        (n, D), columns, numbers = rows.shape, rows.indices, row_numbers(rows)
        values, flawed = self.layout.expand_csr(rows)
        values, kind = self.smooth(values, columns), self.layout.kinds[0]
        with np.errstate(invalid="ignore"):
            costs = self.weights[columns] * kind.between(values, self.middles[columns])
        rises = total(numbers, costs - self.zero_costs[columns], n)
        last = np.maximum(np.add.reduce(self.zero_costs) + rises, 0.0) * LAST
        last[flawed] = np.nan
        ends = rows.indptr + np.arange(n + 1, dtype=rows.indptr.dtype)
        places = np.arange(len(columns)) + numbers
        data, indices = np.empty(len(columns) + n), np.full(len(columns) + n, D, columns.dtype)
        data[places], data[ends[1:] - 1] = values - self.origins[columns], last
        indices[places] = columns
        return csr_array((data, indices, ends), shape=(n, D + 1))

    @cached_property
    def zero_costs(self) -> Float64Array:
        """(D,), costs of zeros at the means of all rows, if zeros become zeros."""
        costs: Float64Array = self.weights * self.column_costs(self.origins[np.newaxis])[0]
        return costs

    def encoded_centers(self, centers: Float64Array) -> Float64Array:
        """Return centers in units of the input, (k, D), as averages of encoded rows.

        Multinomial columns may be counts or shares.
        """
        among = np.flatnonzero(np.isin(self.layout.inputs, self.layout.shares))
        if len(among):
            centers, sums = centers.copy(), centers[:, among].sum(axis=1, keepdims=True)
            centers[:, among] /= np.where(sums > 0, sums, np.nan)
        values = self.smooth(centers)
        averages = np.ones((len(centers), self.n_features))
        averages[:, : values.shape[1]] = values - self.origins
        averages[:, -1] = np.add.reduce(self.weights * self.column_costs(values), axis=1) * LAST
        return averages

    def values(self, averages: Float64Array) -> Float64Array:
        """Return the smoothed values, (..., D), of averages of encoded rows, (..., n_features).

        Where no row has a value, it is the mean of all rows.
        """
        D = len(self.means)
        shifted = averages[..., :D]
        values: Float64Array
        if self.masked:
            shares = averages[..., D:-1][..., self.layout.inputs]
            known = shares > 0
            quotients = np.divide(shifted, shares, out=np.zeros_like(shifted), where=known)
            values = np.where(known, self.origins + quotients, self.middles)
        else:
            values = self.origins + shifted
        return np.clip(values, *self.limits)

    @cached_property
    def limits(self) -> tuple[Float64Array, Float64Array]:
        """Least and greatest smoothed values, (D,) each."""
        lowest, highest = np.empty((2, len(self.means)))
        for kind, columns in self.layout.divergences:
            lowest[columns], highest[columns] = kind.lowest, kind.highest
            if kind.positive:
                lowest[columns] = np.finfo(np.float64).tiny
        lowest, highest = self.smooth(np.stack([lowest, highest]))
        return (
            np.where(self.constant, self.middles, lowest),
            np.where(self.constant, self.middles, highest),
        )

    def centers(self, averages: Float64Array) -> Float64Array:
        """Return centers in units of the input, (k, D), of averages of encoded rows."""
        values = self.values(averages)
        plain = (1 + self.amounts) * values - self.amounts * self.middles
        for kind, columns in self.layout.divergences:
            plain[:, columns] = np.clip(plain[:, columns], kind.lowest, kind.highest)
        return np.where(self.constant, self.means, plain)

    def error_message(self, position: str) -> str:
        """Return the error message for a row that cannot be encoded."""
        return f"data cannot be used at {position}: {requirement(self.layout)}"


def requirement(layout: Layout) -> str:
    """Return what numbers the divergences of the columns take, for errors."""
    pairs = dict(zip(layout.names, layout.kinds, strict=True))
    return "; ".join(f"{name!r} takes {numbers_of(name, kind)}" for name, kind in pairs.items())


def numbers_of(name: str | ColumnDivergence, kind: ColumnDivergence) -> str:
    """Return what numbers a divergence takes, for errors."""
    if name == CATEGORICAL:
        return "the codes 0, 1, ... of categories, up to the greatest code of the fit"
    if name == MULTINOMIAL:
        return "numbers >= 0 that are not all 0 in a row"
    return kind.takes
