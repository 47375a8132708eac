"""`Layout`: how an input will be cut and prepared, planned from its metadata alone."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Plan
from dask_dpmeans.kernels.block import Float64Array, Scratch
from dask_dpmeans.kernels.column_statistics import ColumnStatistics, Summary
from dask_dpmeans.sources import opening
from dask_dpmeans.sources.categories import Categories
from dask_dpmeans.sources.column_statistics import column_statistics
from dask_dpmeans.sources.cube_plan import rows_read
from dask_dpmeans.sources.formats import csr
from dask_dpmeans.sources.formats.cube import CubeRows, CubeWeights
from dask_dpmeans.sources.formats.table_rows import TableRows
from dask_dpmeans.sources.grids import Grid
from dask_dpmeans.sources.lazy_modules import is_zarr_array
from dask_dpmeans.sources.names import Names
from dask_dpmeans.sources.resources import READ_SHARE, Resources
from dask_dpmeans.sources.row_array import RowArray
from dask_dpmeans.sources.safety.value_checks import check_summary
from dask_dpmeans.sources.shards import Prepare, Shard, StoredShard, align, read_rows
from dask_dpmeans.sources.stored_chunks import has_checksum

RESIDENT_SHARE = 0.4
"""Largest share of the memory for rows that are kept there; larger input is read in each pass."""
SHARD_SHARE = 0.1
"""Largest share of a thread's memory for one shard."""


@dataclass(frozen=True)
class Layout:
    """Plan of the work on an input, from its metadata alone."""

    rows: Any
    """(n, stored columns), opened."""
    weights: Any
    """(n,), or None."""
    groups: Any
    """(n,), or None."""
    prepare: Prepare
    """Columns and dtype of the rows; without the scale, which follows from the rows."""
    plan: Plan
    resources: Resources
    resident: bool
    """Whether rows are kept in memory."""
    n_values: int | None = None
    """Stored values of CSR rows; None for dense rows."""
    column_names: Names | None = None
    """Names of the stored columns, if the input is a table."""
    categories: Categories = field(default_factory=dict)
    """Categories of columns of codes, by the number of the column in the input."""

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Dtype of the input."""
        return np.dtype(self.rows.dtype)

    @property
    def stored_columns(self) -> int:
        """Number of columns of the input."""
        return int(self.rows.shape[1])

    @property
    def n_features(self) -> int:
        """Number of columns that kernels see."""
        if self.prepare.features is not None and self.prepare.features.n_features:
            return self.prepare.features.n_features
        return self.prepare.n_columns(self.stored_columns)

    @property
    def checksummed(self) -> bool:
        """Whether all stored chunks have checksums, so that a flipped bit is found."""
        if isinstance(self.rows, opening.NpyFile | TableRows):
            return False
        if isinstance(self.rows, CubeRows):
            arrays = self.rows.arrays
            return bool(arrays) and all(map(has_checksum, arrays))
        return all(map(has_checksum, stored_arrays(self.rows).values()))

    @property
    def grid(self) -> Grid | None:
        """Grid of the samples of a cube; None for other rows."""
        return self.rows.grid if isinstance(self.rows, CubeRows) else None

    @property
    def reads(self) -> float:
        """Times that a stored chunk of a cube is read in a pass, on average; 1 for other rows."""
        if not isinstance(self.rows, CubeRows):
            return 1.0
        return rows_read(self.plan, self.rows.starts) / self.plan.n_rows

    @property
    def row_bytes(self) -> int:
        """Bytes of a decoded row; the mean for CSR rows."""
        if self.n_values is None:
            return self.stored_columns * self.stored_dtype.itemsize
        return csr.csr_row_bytes(self.rows.shape, self.n_values, self.stored_dtype)

    @property
    def fits_memory(self) -> bool:
        """Whether all rows may be kept in memory."""
        return self.plan.n_rows * self.row_bytes <= RESIDENT_SHARE * self.resources.memory

    @property
    def reads_ahead(self) -> bool:
        """Whether a thread has memory for the next piece of rows while it works on one."""
        cube = isinstance(self.rows, CubeRows)
        height = self.rows.runs.most_samples if cube else read_rows(self.rows)
        if cube:
            return 2 * height * self.row_bytes <= self.resources.read_memory
        return 2 * height * self.row_bytes <= READ_SHARE * self.resources.thread_memory

    @property
    def shard_bytes(self) -> int:
        """Bytes of the largest shard."""
        return int(SHARD_SHARE * self.resources.thread_memory)

    @property
    def affordable_rows(self) -> int:
        """Rows of the largest shard."""
        return self.shard_bytes // self.row_bytes

    @property
    def block_bytes(self) -> int:
        """Bytes of a block of CSR rows made dense; 0 for dense rows."""
        if self.n_values is None:
            return 0
        height = min(self.plan.block_rows, self.plan.n_rows)
        return height * self.n_features * self.prepare.dtype.itemsize

    @property
    def sampled_blocks(self) -> int:
        """Blocks that a thread may hold as kernels see them, at least one."""
        blocks = self.affordable_rows // self.plan.block_rows
        if self.block_bytes:
            blocks = min(blocks, self.shard_bytes // self.block_bytes)
        return max(1, blocks)

    @property
    def room(self) -> int:
        """Bytes that may be kept in memory, beside the rows if they are there too."""
        budget = int(RESIDENT_SHARE * self.resources.memory)
        return max(0, budget - self.plan.n_rows * self.row_bytes * self.resident)

    def first(self, n_rows: int) -> Shard:
        """Read the first rows."""
        if isinstance(self.rows, CubeRows) and not self.rows.counted:
            by_latitude = isinstance(self.weights, CubeWeights)
            found, latitudes = self.rows.first_rows(n_rows, self.weights if by_latitude else None)
            weights, groups = (
                each if each is None else np.asarray(each[: len(found)])
                for each in (latitudes if by_latitude else self.weights, self.groups)
            )
            return Shard(0, found, weights, groups)
        return StoredShard(0, n_rows, self.rows, self.weights, self.groups).load()

    def in_memory(self, shard: Shard, scale: Float64Array | str | None = None) -> InMemoryRows:
        """Return the first rows as a source in memory, checked as all rows are."""
        weights = shard.weights
        if weights is not None:
            weights = align(weights, np.dtype(np.float64), Scratch(), "weights")

        def fold(survey: ColumnStatistics, prepare: Prepare) -> Summary:
            return InMemoryRows(prepare(shard.rows, Scratch()), weights).fold(survey)

        summary, prepare = column_statistics(self.stored_dtype, self.prepare, fold, scale)
        no_weight = summary.flaw is None and summary.weight == 0
        if no_weight and shard.rows.shape[0] < self.plan.n_rows:
            # Later rows may have weights. Without any there is no mean; weights of 1 take as long.
            return self.in_memory(replace(shard, weights=None), scale)
        check_summary(summary, self.rows, prepare, None, weighted=weights is not None)
        return InMemoryRows(prepare(shard.rows, Scratch()), weights, prepare.scale)


def stored_arrays(rows: RowArray) -> dict[str, Any]:
    """Return the Zarr arrays, (...), that rows are read from, by their names in errors."""
    if isinstance(rows, csr.StoredCsr):
        named = zip(csr.PARTS, rows.arrays, strict=True)
        return {f"data: {rows.store_path}/{part}": array for part, array in named}
    if is_zarr_array(rows):
        return {"data": rows}
    return {}
