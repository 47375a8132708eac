"""Answers of reductions that are tables of records or plain sums."""

from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, IndexArray


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
