"""`Layout`: the input as its metadata tells of it, checked as far as that goes, and how it will be cut and prepared."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import numpy as np
import zarr
from distributed import Client
from zarr.storage import MemoryStore

from dask_dpmeans import checks
from dask_dpmeans.engine.in_memory import HeldRows
from dask_dpmeans.engine.plan import Plan, block_height, shard_blocks
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Features, Float64Array, Scratch
from dask_dpmeans.kernels.column_statistics import ColumnStatistics, SparseStatistics, Summary
from dask_dpmeans.sources.cluster import WORKER_TIMEOUT, Resources, cluster_resources, current_client, own_resources
from dask_dpmeans.sources.executors import DaskTasks, Executor, Threads
from dask_dpmeans.sources.formats.csr import PARTS, StoredCsr, csr_row_bytes, dask_values, is_csr_dask, stored_values
from dask_dpmeans.sources.formats.parquet import ParquetRows
from dask_dpmeans.sources.names import Names, check_names, names_of
from dask_dpmeans.sources.opening import NpyFile, check_groups, in_memory, lazy_array, opened_input, working_dtype
from dask_dpmeans.sources.progress import OnPass
from dask_dpmeans.sources.safety.checks import check_summary, limit_of
from dask_dpmeans.sources.shards import Prepare, Shard, StoredShard, aligned, piece_rows
from dask_dpmeans.sources.stored_chunks import has_checksum, plain_store

RESIDENT_SHARE = 0.4
"""Rows are kept in memory where they take no more than this share of it; larger input is read again each pass."""
SHARD_SHARE = 0.1
"""Of a thread's memory, the most that one shard takes."""
CHUNK_SHARE = 0.25
"""Of a worker's memory, the most that the stored chunks of a run of rows may take."""
BLOCK_COPIES = 16
"""Bytes a number, beside its own: kernels hold a block in float64, and its differences from a mean."""


@dataclass(frozen=True)
class Layout:
    """Input as its metadata tells of it, checked as far as that goes, and how it will be cut: no row was read."""

    rows: Any
    """(n, columns as stored), as it was opened."""
    weights: Any
    """(n,), or None."""
    groups: Any
    """(n,), or None."""
    prepare: Prepare
    """Columns and precision; a scale only once rows were read."""
    plan: Plan
    resources: Resources
    resident: bool
    """Whether rows are kept in memory."""
    n_values: int | None = None
    """Stored values of CSR rows; None of dense ones."""
    column_names: Names | None = None
    """Of the input, where it is a table."""

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Of the input."""
        return np.dtype(self.rows.dtype)

    @property
    def stored_columns(self) -> int:
        """Columns of the input."""
        return int(self.rows.shape[1])

    @property
    def n_features(self) -> int:
        """Columns that kernels see."""
        made = None if self.prepare.features is None else self.prepare.features.n_features
        return made or (self.stored_columns if self.prepare.columns is None else len(self.prepare.columns))

    @property
    def checksummed(self) -> bool:
        """Whether a flipped bit in what is read from a store would be seen."""
        return not isinstance(self.rows, NpyFile | ParquetRows) and all(
            map(has_checksum, _stored_arrays(self.rows).values())
        )

    @property
    def row_bytes(self) -> int:
        """Of a row as it is stored, once decoded; of CSR rows on average."""
        if self.n_values is None:
            return self.stored_columns * self.stored_dtype.itemsize
        return csr_row_bytes(self.rows.shape, self.n_values, self.stored_dtype)

    @property
    def affordable_rows(self) -> int:
        """Rows that a thread may hold."""
        return int(SHARD_SHARE * self.resources.thread_memory) // self.row_bytes

    @property
    def block_bytes(self) -> int:
        """Of a block of CSR rows that was made dense; dense rows need no other memory for it."""
        height = 0 if self.n_values is None else min(self.plan.block_rows, self.plan.n_rows)
        return height * self.n_features * self.prepare.dtype.itemsize

    @property
    def sampled_blocks(self) -> int:
        """Blocks that a thread may hold as kernels see them, at least one."""
        share = int(SHARD_SHARE * self.resources.thread_memory)
        blocks = self.affordable_rows // self.plan.block_rows
        return max(1, min(blocks, share // self.block_bytes) if self.block_bytes else blocks)

    @property
    def room(self) -> int:
        """Bytes that might be kept in memory beside the rows."""
        return max(0, int(RESIDENT_SHARE * self.resources.memory) - self.plan.n_rows * self.row_bytes)

    def first(self, n_rows: int) -> Shard:
        """The first rows, read."""
        return StoredShard(0, n_rows, self.rows, self.weights, self.groups).load()

    def held(self, shard: Shard, scale: Float64Array | str | None = None) -> HeldRows:
        """The first rows as a source of their own, checked as all rows are."""
        weights = None if shard.weights is None else aligned(shard.weights, np.dtype(np.float64), Scratch(), "weights")

        def fold(survey: ColumnStatistics, prepare: Prepare) -> Summary:
            return HeldRows(prepare(shard.rows, Scratch()), weights).fold(survey)

        summary, prepare = surveyed(self, fold, scale)
        if summary.flaw is None and summary.weight == 0 and shard.rows.shape[0] < self.plan.n_rows:
            # Some later row may have a weight; without any these have no mean, and with 1 each they take as long.
            return self.held(replace(shard, weights=None), scale)
        check_summary(summary, self.rows, prepare, None)
        return HeldRows(prepare(shard.rows, Scratch()), weights, prepare.scale)


def lay_out(
    data: Any,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    groups_are: str = "groups",
    columns: Sequence[int] | None = None,
    features: Features | None = None,
    client: Client | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    centers: Float64Array | None = None,
    stored_columns: int | None = None,
    column_names: Sequence[str] | None = None,
    worker_timeout: float = WORKER_TIMEOUT,
    fill_missing: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    block_rows: int | None = None,
    sparse: bool = False,
    on_pass: OnPass | None = None,
) -> tuple[Layout, Executor]:
    """What `as_source` makes of its arguments before it reads a row, and who is to work on them."""
    if data is None:
        raise InputError("data is None: pass an array, or the path of one")
    threads, memory_limit = _checked_limits(threads, memory_limit)
    _check_place(client, worker_timeout, on_pass)
    checks.switch("fill_missing", fill_missing)
    reading = fill_missing, storage_options
    opened = opened_input(data, "data", 2, *reading)
    rows, weights, sets = _together(
        opened,
        opened_input(sample_weight, "sample_weight", 1, *reading),
        opened_input(groups, groups_are, 1, *reading),
    )
    n, d = rows.shape
    _check_shapes(rows, weights, sets, groups_are)
    names = names_of(opened if isinstance(opened, ParquetRows) else data)
    if column_names is not None:
        check_names(names, column_names or None, "the run")
    if stored_columns not in (None, d):
        raise InputError(f"data has {d} columns, the run was fitted on {stored_columns}")
    chosen = _checked_columns(columns, d)
    prepare = Prepare(working_dtype(rows.dtype, "data"), chosen, features=features, sparse=sparse)
    used = d if chosen is None else len(chosen)
    width = (None if features is None else features.n_features) or used
    if centers is not None and centers.shape[1] != width:
        raise InputError(f"data has {width} columns, the centers have {centers.shape[1]}")
    client, resources = _place(rows, client, threads, memory_limit, worker_timeout)
    _check_chunks(rows, resources)
    values = dask_values(opened, client) if is_csr_dask(opened) else stored_values(opened)
    if sparse:
        _check_sparse(rows, values, prepare, centers)
    wide = max(1, -(-(values or 0) // n)) if sparse else max(used, width)
    height = block_height(wide) if block_rows is None else block_rows
    if values is not None and not sparse:
        _check_block(min(height, n), used, prepare.dtype, resources)
    whole = Layout(rows, weights, sets, prepare, Plan(n, height, 1), resources, False, values, names)
    resident = n * whole.row_bytes <= RESIDENT_SHARE * resources.memory
    whole = replace(whole, resident=resident)
    streams = not resident and not isinstance(rows, da.Array)
    most_rows = n if streams else max(1, whole.affordable_rows)
    blocks = shard_blocks(n, height, resources.threads, most_rows, piece_rows(rows))
    on_dask = client is not None or isinstance(rows, da.Array)
    threads = resources.threads
    executor: Executor = DaskTasks(client, threads, worker_timeout, on_pass) if on_dask else Threads(threads, on_pass)
    return replace(whole, plan=Plan(n, height, blocks)), executor


def surveyed(
    layout: Layout, fold: Callable[[ColumnStatistics, Prepare], Summary], scale: Float64Array | str | None
) -> tuple[Summary, Prepare]:
    """What the first pass finds, and how rows are prepared; one more where both a scale and features are asked for."""
    limit, features = limit_of(layout.stored_dtype), layout.prepare.features
    if layout.prepare.sparse:
        return fold(SparseStatistics(limit), layout.prepare), layout.prepare
    plain = replace(layout.prepare, features=None)
    summary = fold(ColumnStatistics(limit, None if scale is not None else features), plain)
    if scale is None or summary.flaw is not None or summary.weight == 0:
        return summary, layout.prepare
    divisors = _divisors(scale, summary)
    plain = replace(plain, scale=divisors)
    summary = summary.scaled(divisors) if features is None else fold(ColumnStatistics(np.inf, features), plain)
    return summary, replace(plain, features=features)


def _divisors(scale: Float64Array | str, summary: Summary) -> Float64Array:
    """What to divide each column by, (d,)."""
    if isinstance(scale, str):
        if scale != "std":
            raise InputError(f'scale must be "std" or one number > 0 a column, got {checks.shown(scale)}')
        # What is left of a constant column is the rounding of its mean.
        rounding = 8 * np.finfo(np.float64).eps * np.maximum(np.abs(summary.lowest), np.abs(summary.highest))
        return np.where(summary.deviation > rounding, summary.deviation, 1.0)
    try:
        divisors = np.asarray(scale, np.float64)
    except (OverflowError, TypeError, ValueError):
        divisors = np.empty(0)
    if divisors.shape != summary.sums.shape or not ((divisors > 0) & (divisors < np.inf)).all():
        raise InputError(f'scale must be "std" or one finite number > 0 a column, got {checks.shown(scale)}')
    return divisors


def _together(rows: Any, *beside: Any) -> tuple[Any, ...]:
    """Rows, weights and groups in kinds that can be cut alike: all Dask arrays, or none."""
    arrays = rows, *beside
    if any(isinstance(array, da.Array) for array in arrays):
        return tuple(None if each is None else lazy_array(each) for each in arrays)
    if in_memory(rows):
        return rows, *(each if each is None else np.asarray(each[:]) for each in beside)
    return arrays


def _check_shapes(rows: Any, weights: Any, groups: Any, groups_are: str) -> None:
    n, d = rows.shape
    if n < 1:
        raise InputError(f"Found array with 0 sample(s) (shape={rows.shape}) while a minimum of 1 is required.")
    if d < 1:
        raise InputError(f"Found array with 0 feature(s) (shape={rows.shape}) while a minimum of 1 is required.")
    if weights is not None:
        working_dtype(weights.dtype, "sample_weight")
        if weights.shape[0] != n:
            raise InputError(f"sample_weight must hold one weight a row: {n:,} rows, but {weights.shape[0]:,} weights")
    if groups is not None:
        check_groups(groups, groups_are, n)


def _checked_columns(columns: Sequence[int] | None, d: int) -> tuple[int, ...] | None:
    if columns is None:
        return None
    given = columns.tolist() if isinstance(columns, np.ndarray) else columns
    listed = given if isinstance(given, Sequence) and not isinstance(given, str | bytes) else []
    numbers = [each.item() if isinstance(each, np.generic) else each for each in listed]
    if not (numbers and all(type(each) is int and 0 <= each < d for each in numbers)):
        raise InputError(f"columns must name some of the {d} columns 0 to {d - 1}, got {checks.shown(columns)}")
    return tuple(numbers)


def _checked_limits(threads: int | None, memory_limit: int | None) -> tuple[int | None, int | None]:
    """Both as Python's integers, whose products do not overflow."""
    threads = None if threads is None else checks.integer("threads", threads, or_none=" or None")
    return threads, None if memory_limit is None else checks.integer("memory_limit", memory_limit, or_none=" or None")


def _check_place(client: Any, worker_timeout: Any, on_pass: Any) -> None:
    """Refuse what says nothing of where to work."""
    if not (client is None or isinstance(client, Client)):
        raise InputError(f"client must be a distributed.Client or None, got {checks.shown(client)}")
    checks.number("worker_timeout", worker_timeout)
    if not (on_pass is None or callable(on_pass)):
        raise InputError(f"on_pass must be a function or None, got {checks.shown(on_pass)}")


def _place(
    rows: Any, client: Client | None, threads: int | None, memory_limit: int | None, worker_timeout: float
) -> tuple[Client | None, Resources]:
    """The cluster to work on, None for this process, and what there is to work with."""
    stores = [plain_store(array) for array in _stored_arrays(rows).values()]
    in_process = in_memory(rows) or any(isinstance(store, MemoryStore) for store in stores)
    if client is not None and in_process:
        raise InputError(
            "data is in this process's memory, where the client's workers cannot reach it: pass a Dask "
            "array, or write it to a Zarr store and pass its path; or leave the client out"
        )
    if client is not None and (threads is not None or memory_limit is not None):
        raise InputError("threads and memory_limit say how to work in this process: they cannot go with a client")
    if client is None and threads is None and memory_limit is None and not in_process:
        client = current_client()
    if client is None:
        return None, own_resources(threads, memory_limit)
    return client, cluster_resources(client, worker_timeout)


def _stored_arrays(rows: Any) -> "dict[str, zarr.Array[Any]]":
    """The Zarr arrays that rows are read from, and what to call them."""
    if isinstance(rows, StoredCsr):
        return {f"data: {rows.store_path}/{part}": array for part, array in zip(PARTS, rows.arrays, strict=True)}
    return {"data": rows} if isinstance(rows, zarr.Array) else {}


def _check_chunks(rows: Any, resources: Resources) -> None:
    """Refuse stored chunks that no worker could hold, before any is read."""
    stored = {"data": rows} if isinstance(rows, ParquetRows) else _stored_arrays(rows)
    for name, array in stored.items():
        height = min(int(array.chunks[0]), array.shape[0])
        size, most = height * math.prod(array.shape[1:]) * array.dtype.itemsize, CHUNK_SHARE * resources.thread_memory
        if size > most:
            kind = "row groups" if isinstance(array, ParquetRows) else "chunks"
            across = "rows, {:,} bytes across its columns" if array.ndim == 2 else "numbers, {:,} bytes"
            raise InputError(
                f"{name} is stored in {kind} of {height:,} {across.format(size)}: more than {most:,.0f}, a quarter of "
                f"the {resources.thread_memory:,} bytes that a thread has; rechunk it, or give more memory"
            )


def _check_sparse(rows: Any, values: int | None, prepare: Prepare, centers: Float64Array | None) -> None:
    """Refuse what sparse rows for kernels cannot be made from, or go with."""
    if values is None:
        raise InputError(
            f"data must be sparse, got a dense {type(rows).__name__}: give a scipy.sparse array, an .npz or .mtx file, "
            "or a Zarr group in the layout of anndata"
        )
    if prepare.columns is not None or prepare.features is not None or centers is not None:
        raise InputError("sparse=True leaves rows as they are: columns, scale, features and centers cannot go with it")


def _check_block(height: int, columns: int, dtype: np.dtype[Any], resources: Resources) -> None:
    """Refuse CSR rows of which a thread could not hold one block with all its zeros."""
    size = height * columns * (dtype.itemsize + BLOCK_COPIES)
    if size > resources.thread_memory:
        raise InputError(
            f"data is sparse, and made dense in blocks of {height:,} rows: with {columns:,} columns one takes {size:,} "
            f"bytes, more than the {resources.thread_memory:,} that a thread has; choose columns, give more memory, or "
            "use fewer threads"
        )
