"""Rows collected by their global numbers."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.answers import ConcatenatedAnswers, Records
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Rows


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
