"""The first pass: what is wrong with the rows, and the column statistics that everything else starts from."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np

from dask_dpmeans.kernels.block import Block, Features, Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.moments import cluster_moments

MOST_GROUPS = 2**24
"""Group numbers must lie below this: something is kept of each, be it empty."""

ABREAST = 1024
"""Numbers compared side by side: of 4 columns that took a thirtieth of the time of a comparison a row."""


class Flaw(NamedTuple):
    """The first value that cannot be used."""

    row: int
    """Global row number."""
    column: int
    """Column number among those used; -1 for a weight, -2 for a group, -3 for a row that has no features."""
    value: float


@dataclass(frozen=True)
class Summary:
    """Column statistics of a run of blocks, by weight."""

    flaw: Flaw | None
    """The first flaw in row order; where there is one, the rest says nothing."""
    weight: float
    """Sum of the weights."""
    sums: Float64Array
    """(d,), sums of weight times row."""
    squares: Float64Array
    """(d,), weighted sums of squared differences from the column means of these rows."""
    lowest: Float64Array
    """(d,), least values."""
    highest: Float64Array
    """(d,), greatest values."""
    n_groups: int = 0
    """One more than the greatest group number; 0 without groups."""
    groups_sum: int = 0
    """Sum of (row number + 1) * (group number + 1), modulo 2**64: it tells other groups."""

    @property
    def mean(self) -> Float64Array:
        """(d,), weighted column means; that of equal values is their value, whatever their sum was rounded to."""
        mean: Float64Array = np.clip(self.sums / self.weight, self.lowest, self.highest)
        return mean

    @property
    def deviation(self) -> Float64Array:
        """(d,), weighted standard deviations of the columns (population form)."""
        deviation: Float64Array = np.sqrt(self.squares / self.weight)
        return deviation

    def scaled(self, scale: Float64Array) -> "Summary":
        """That of the same rows, each column divided by `scale`, (d,)."""
        return replace(
            self,
            sums=self.sums / scale,
            squares=self.squares / scale**2,
            lowest=self.lowest / scale,
            highest=self.highest / scale,
        )

    def overflowing(self, points: Float64Array | None = None, largest: float = np.inf) -> int | None:
        """The widest column, if squared distances among the rows, and to `points` (k, d), can overflow float64.

        Or if a value exceeds `largest`.
        """
        lowest, highest = self.lowest, self.highest
        if points is not None:
            lowest, highest = np.minimum(lowest, points.min(axis=0)), np.maximum(highest, points.max(axis=0))
        weight = max(1.0, self.weight)
        with np.errstate(over="ignore"):
            spans, reach = (highest - lowest) ** 2, np.maximum(-lowest, highest)
            fits = np.isfinite(spans.sum() * weight) and np.isfinite(reach * weight).all() and (reach <= largest).all()
            return None if fits else int(np.argmax(np.maximum(spans, reach)))


@dataclass(frozen=True)
class Survey:
    """The reduction of the first pass."""

    limit: float
    """Values must lie strictly within plus and minus this; infinity for floats."""
    features: Features | None = None
    """What is made of the rows, once they were found without flaws: the statistics are of that."""

    def chunk(self, block: Block) -> Summary:
        """The summary of one block."""
        ends = extremes(block.rows)
        flaw = first_flaw(block, self.limit, ends)
        if self.features is not None and flaw is None:
            block = replace(block, rows=self.features(block.rows, block.scratch))
            ends = extremes(block.rows)
            flaw = first_flaw(block, np.inf, ends)
            flaw = flaw and flaw._replace(column=-3)
        lowest, highest = (side.astype(np.float64) for side in ends)
        n, d = block.rows.shape
        if flaw is not None:
            nothing = np.zeros(d)
            return Summary(flaw, 0.0, nothing, nothing, lowest, highest)
        labels, rows = np.zeros(n, np.intp), block.doubles()
        with np.errstate(over="ignore", invalid="ignore"):
            moments = cluster_moments(block, labels, np.zeros(n), 1)
            weight, sums = float(moments.weights[0]), moments.sums[0]
            mean = np.clip(sums / weight, lowest, highest) if weight > 0 else np.zeros(d)
            differences = np.subtract(rows, mean, out=block.scratch.array("differences", rows.shape, np.float64))
            squares = (
                np.einsum("ij,ij->j", differences, differences)
                if block.weights is None
                else (np.einsum("i,ij,ij->j", block.weights, differences, differences))
            )
        return Summary(None, weight, sums, squares, lowest, highest, *_groups_of(block))

    def combine(self, left: Summary, right: Summary) -> Summary:
        """The summary of two neighboring runs; squares as Chan, Golub & LeVeque 1983 merge them."""
        with np.errstate(over="ignore", invalid="ignore"):
            weight = left.weight + right.weight
            sums, squares = left.sums + right.sums, left.squares + right.squares
            if left.weight > 0 and right.weight > 0:
                squares = squares + (left.mean - right.mean) ** 2 * (left.weight * (right.weight / weight))
        return Summary(
            left.flaw or right.flaw,
            weight,
            sums,
            squares,
            np.minimum(left.lowest, right.lowest),
            np.maximum(left.highest, right.highest),
            max(left.n_groups, right.n_groups),
            (left.groups_sum + right.groups_sum) % 2**64,
        )


@dataclass(frozen=True)
class SparseSurvey(Survey):
    """The reduction of the first pass over rows that stay CSR, in no more memory than their stored values.

    It knows nothing of single columns.  Two numbers of each row stand for its columns: the sum of its values, and the
    sum of its values times their columns, counted from 1.
    """

    def chunk(self, block: Block) -> Summary:
        """The summary of one block."""
        flaw = first_sparse_flaw(block, self.limit)
        nothing = np.zeros(2)
        if flaw is not None:
            return Summary(flaw, 0.0, nothing, nothing, nothing, nothing)
        with np.errstate(over="ignore", invalid="ignore"):
            figures = _row_figures(block.rows)
            weights = np.ones(len(figures)) if block.weights is None else block.weights
            weight, sums = float(weights.sum()), np.einsum("i,ij->j", weights, figures)
            lowest, highest = figures.min(axis=0), figures.max(axis=0)
            mean = np.clip(sums / weight, lowest, highest) if weight > 0 else nothing
            squares = np.einsum("i,ij,ij->j", weights, figures - mean, figures - mean)
        return Summary(None, weight, sums, squares, lowest, highest, *_groups_of(block))


def _row_figures(rows: Any) -> Float64Array:
    """(height, 2), what `SparseSurvey` has of each CSR row."""
    numbers, n = _row_numbers(rows), rows.shape[0]
    figures = np.empty((n, 2))
    figures[:, 0] = np.bincount(numbers, rows.data, n)
    figures[:, 1] = np.bincount(numbers, rows.data * (rows.indices + 1.0), n)
    return figures


def _row_numbers(rows: Any) -> IndexArray:
    """The row of each stored value, within a block."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def _groups_of(block: Block) -> tuple[int, int]:
    """`n_groups` and `groups_sum` of a summary."""
    if block.groups is None:
        return 0, 0
    numbers = np.arange(block.start + 1, block.start + 1 + len(block.groups), dtype=np.uint64)
    products = numbers * (block.groups.astype(np.uint64) + np.uint64(1))
    return int(block.groups.max()) + 1, int(products.sum())


def first_flaw(block: Block, limit: float, ends: tuple[Rows, Rows] | None = None) -> Flaw | None:
    """The first value of a block not strictly within plus and minus `limit`, or weight or group that cannot be.

    `ends` are the `extremes` of its rows, where they are known.
    """
    flaws = _flaws_beside(block)
    lowest, highest = extremes(block.rows) if ends is None else ends
    if not (np.maximum(-lowest, highest) < limit).all():
        row, column = np.argwhere(~(np.abs(block.rows) < limit))[0]
        flaws.append(Flaw(block.start + int(row), int(column), float(block.rows[row, column])))
    return min(flaws, default=None)


def extremes(rows: Rows) -> tuple[Rows, Rows]:
    """The least and the greatest value of each column, (d,) each; NaN where there is one."""
    n, d = rows.shape
    together = max(1, min(n, ABREAST // d))
    whole = n // together * together
    lines = rows[:whole].reshape(-1, together * d)
    ends = [
        side.reduce(np.concatenate([side.reduce(lines, axis=0).reshape(-1, d), rows[whole:]]), axis=0)
        for side in (np.minimum, np.maximum)
    ]
    return ends[0], ends[1]


def first_sparse_flaw(block: Block, limit: float) -> Flaw | None:
    """The same, of CSR rows."""
    flaws, rows = _flaws_beside(block), cast(Any, block.rows)
    bad = np.flatnonzero(~(np.abs(rows.data) < limit))
    if bad.size:
        row = int(_row_numbers(rows)[bad[0]])
        flaws.append(Flaw(block.start + row, int(rows.indices[bad[0]]), float(rows.data[bad[0]])))
    return min(flaws, default=None)


def _flaws_beside(block: Block) -> list[Flaw]:
    """The first weight, and the first group, that cannot be."""
    flaws = []
    if block.weights is not None:
        bad = np.flatnonzero(~((block.weights >= 0) & (block.weights < np.inf)))
        if bad.size:
            flaws.append(Flaw(block.start + int(bad[0]), -1, float(block.weights[bad[0]])))
    if block.groups is not None:
        bad = np.flatnonzero((block.groups < 0) | (block.groups >= MOST_GROUPS))
        if bad.size:
            flaws.append(Flaw(block.start + int(bad[0]), -2, int(block.groups[bad[0]])))
    return flaws
