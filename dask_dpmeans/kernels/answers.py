"""Answers of reductions that are tables of records, such as the rows that `Gather` collects, or sums."""

from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np

from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, IndexArray, Int64Array, Rows


@dataclass(frozen=True)
class Records:
    """Arrays of one length, with an entry for each record."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def take(self, which: slice | IndexArray | BoolArray) -> Self:
        """Return the records at some positions, (m,), or where a mask, (n,), is true."""
        return type(self)(*(getattr(self, field.name)[which] for field in fields(self)))

    def then(self, other: Self) -> Self:
        """Return these records, followed by `other`."""
        names = [field.name for field in fields(self)]
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return type(self)(*map(np.concatenate, pairs))


@dataclass(frozen=True)
class Sums:
    """Fields that add up, one by one."""

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


AnyRecords = TypeVar("AnyRecords", bound=Records)
Sum = TypeVar("Sum", bound=Any)  # a number, an array or a class with a sum


class ConcatenatedAnswers:
    """Base of reductions whose answers are records in row order."""

    def combine(self, left: AnyRecords, right: AnyRecords) -> AnyRecords:
        """Append the answer of the next run of blocks."""
        return left.then(right)


class SummedAnswers:
    """Base of reductions whose answers add up."""

    def combine(self, left: Sum, right: Sum) -> Sum:
        """Add the answers of two neighboring runs of blocks."""
        total: Sum = left + right
        return total


@dataclass(frozen=True)
class GatheredRows(Records):
    """Some rows, in order."""

    rows: Rows
    """(m, d), as kernels see them."""
    weights: Float64Array
    """(m,)."""
    groups: Int64Array
    """(m,), numbers of the rows' data sets; 0 if there is one data set."""


@dataclass(frozen=True)
class Gather(ConcatenatedAnswers):
    """The reduction that collects rows."""

    numbers: Int64Array | None = None
    """(m,), ascending numbers of the wanted rows; None for all rows."""
    columns: bool = True
    """Whether to collect the rows, or their weights alone."""

    def chunk(self, block: Block) -> GatheredRows:
        """Copy the wanted rows of a block: the next block may overwrite its memory."""
        n = len(block.rows)
        which: slice | Int64Array = slice(n)
        if self.numbers is not None:
            first, end = np.searchsorted(self.numbers, (block.start, block.start + n))
            which = self.numbers[first:end] - block.start
        rows, weights, groups = block.rows, block.row_weights(), block.groups
        if not self.columns:
            rows = rows[:, :0]
        if groups is None:
            groups = np.zeros(n, np.int64)
        return GatheredRows(
            np.array(rows[which]), np.array(weights[which]), np.array(groups[which])
        )
