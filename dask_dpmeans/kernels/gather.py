"""Rows brought together, by their global numbers."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Rows


@dataclass(frozen=True)
class Gathered:
    """Some rows, in order."""

    rows: Rows
    """(m, d), as kernels see them."""
    weights: Float64Array
    """(m,)."""
    groups: Int64Array
    """(m,), the data sets that they belong to; 0 where there is but one."""


@dataclass(frozen=True)
class Gather:
    """The reduction that brings rows together."""

    numbers: Int64Array | None = None
    """Of the rows that are wanted, ascending; None for all."""
    columns: bool = True
    """Whether the rows are wanted too, beside their weights."""

    def chunk(self, block: Block) -> Gathered:
        """Those in a block, copied, since the next block may use its memory."""
        n = len(block.rows)
        which: slice | Int64Array = slice(n)
        if self.numbers is not None:
            first, end = np.searchsorted(self.numbers, (block.start, block.start + n))
            which = self.numbers[first:end] - block.start
        weights = np.ones(n) if block.weights is None else block.weights
        rows = block.rows if self.columns else block.rows[:, :0]
        groups = np.zeros(n, np.int64) if block.groups is None else block.groups
        return Gathered(np.array(rows[which]), np.array(weights[which]), np.array(groups[which]))

    def combine(self, left: Gathered, right: Gathered) -> Gathered:
        """Those of two neighboring runs."""
        pairs = zip(vars(left).values(), vars(right).values(), strict=True)
        return Gathered(*(np.concatenate(pair) for pair in pairs))
