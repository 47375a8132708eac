"""`as_source`: every check of input data, and the way from what a user has to rows that a method can work on."""

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr
from dask.delayed import delayed
from distributed import Client
from scipy.sparse import issparse
from zarr.storage import MemoryStore

from dask_dpmeans.blocks import Plan, block_height, shard_blocks
from dask_dpmeans.errors import InputError
from dask_dpmeans.held import HeldRows
from dask_dpmeans.kernels.block import Features, Float64Array, Scratch
from dask_dpmeans.kernels.survey import MOST_GROUPS, Flaw, SparseSurvey, Summary, Survey
from dask_dpmeans.location import Location
from dask_dpmeans.sources import guard
from dask_dpmeans.sources.cluster import WORKER_TIMEOUT, Resources, cluster_resources, current_client, own_resources
from dask_dpmeans.sources.csr import (
    PARTS,
    StoredCsr,
    csr_chunk,
    csr_row_bytes,
    dask_csr,
    dask_values,
    from_scipy,
    is_csr_dask,
    lazy_csr,
    part_of,
    stored_values,
)
from dask_dpmeans.sources.csr_files import is_csr_group, open_csr, open_mtx, open_npz
from dask_dpmeans.sources.executors import DaskTasks, Executor, Keys, Threads
from dask_dpmeans.sources.parquet import ParquetRows, open_parquet, parquet_table
from dask_dpmeans.sources.shards import FoldJob, Prepare, Shard, StoredShard, aligned, piece_rows, read_rows
from dask_dpmeans.sources.source import Ledger, RowSource
from dask_dpmeans.sources.storage import has_checksum, plain_store
from dask_dpmeans.sources.watch import OnPass

RESIDENT_SHARE = 0.4
"""Rows are kept in memory where they take no more than this share of it; larger input is read again each pass."""
SHARD_SHARE = 0.1
"""Of a thread's memory, the most that one shard takes."""
CHUNK_SHARE = 0.25
"""Of a worker's memory, the most that the stored chunks of a run of rows may take."""
BLOCK_COPIES = 16
"""Bytes a number, beside its own: kernels hold a block in float64, and its differences from a mean."""
EXACT_INTEGERS = 2.0**53
"""float64 tells integers apart below this."""


@dataclass(frozen=True)
class NpyFile:
    """A ``.npy`` file that each task opens for itself, memory-mapped."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        mapped: np.ndarray[Any, Any] = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return mapped[rows]


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

    def first(self, n_rows: int) -> Shard:
        """The first rows, read."""
        return StoredShard(0, n_rows, self.rows, self.weights, self.groups).load()

    def held(self, shard: Shard, scale: Float64Array | str | None = None) -> HeldRows:
        """The first rows as a source of their own, checked as all rows are."""
        weights = None if shard.weights is None else aligned(shard.weights, np.dtype(np.float64), Scratch(), "weights")

        def fold(survey: Survey, prepare: Prepare) -> Summary:
            return HeldRows(prepare(shard.rows, Scratch()), weights).fold(survey)

        summary, prepare = _surveyed(self, fold, scale)
        if summary.flaw is None and summary.weight == 0 and shard.rows.shape[0] < self.plan.n_rows:
            # Some later row may have a weight; without any these have no mean, and with 1 each they take as long.
            return self.held(replace(shard, weights=None), scale)
        _check_summary(summary, self.rows, prepare, None)
        return HeldRows(prepare(shard.rows, Scratch()), weights, prepare.scale)


def as_source(
    data: Any,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    groups_are: str = "groups",
    columns: Sequence[int] | None = None,
    scale: Float64Array | str | None = None,
    features: Features | None = None,
    client: Client | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    centers: Float64Array | None = None,
    stored_columns: int | None = None,
    worker_timeout: float = WORKER_TIMEOUT,
    fill_missing: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    block_rows: int | None = None,
    sparse: bool = False,
    on_pass: OnPass | None = None,
) -> RowSource:
    """Rows that a method can work on, checked in one pass over them.

    Parameters
    ----------
    data : NumPy array, Dask array or DataFrame, ``zarr.Array``, or the path or URL of a Zarr array or ``.npy`` file
        (n, d).  CSR rows are a sparse matrix or array of scipy, the path of a ``.npz`` file of such, a Zarr group in
        the layout of anndata or its path, or a Dask array of sparse chunks; duplicates are summed.  float32 and float64
        stay as they are; integers and float16 become the smaller of the two that holds them exactly.
    sample_weight : the same kinds, (n,), optional
        Weights >= 0, not all 0.
    groups : the same kinds, (n,), integers, optional
        The number of the data set that each row belongs to, from 0 on, in any order.
    groups_are : str
        What errors call them: the name of the argument that they come from.
    columns : sequence of int, optional
        Columns to use, in order.
    scale : "std" or (d,) array, optional
        What to divide each column by: its standard deviation, or the numbers given.
    features : Features, optional
        What is made of each row after that; kernels see nothing else.
    client : distributed.Client, optional
        The cluster to work on.  By default the current client where there is one, unless `threads` or `memory_limit` is
        given or the data is in this process's memory.
    threads : int, optional
        Threads of this process to work on; all that it may use by default.
    memory_limit : int, optional
        Bytes that this process may use, where there is no cluster.
    centers : (k, d) array, optional
        Centers that the rows will be measured against: their squared distances must not overflow either.
    stored_columns : int, optional
        How many columns the data must have: as many as the run to predict with was fitted on.
    worker_timeout : float
        Seconds to wait for a worker, each time that the cluster has none.
    fill_missing : bool
        Take chunks that are not in a Zarr store for such as hold the fill value alone, as Zarr itself does; otherwise
        one is an error, since it may have been lost.
    storage_options : mapping, optional
        What fsspec takes for those of `data`, `sample_weight` and `groups` that are URLs.
    block_rows : int, optional
        Rows of a block, a power of two; for tests: blocks are part of the answer.
    sparse : bool
        Let kernels see CSR rows as they are: ``Block.rows`` is then a ``csr_array`` of float64, and the columns may be
        as many as the rows.  A block has as many rows as one of a table with as many columns as a row has stored values
        on average, rounded up: ``block_height(ceil(stored values / n))``, both of all rows as they are stored, so that
        it depends on no chunks.  The summary is of two numbers a row, as `SparseSurvey` has them.
    on_pass : callable, optional
        Called while this pass and later ones run, at the beginning and end of each and up to four times a second, with
        a `dask_dpmeans.sources.Pass`: what runs, and how much of it is done.

    Returns
    -------
    RowSource

    Raises
    ------
    InputError
        Data that cannot be used: what was found, where, and what to do.
    """
    layout, executor = lay_out(
        data,
        sample_weight,
        groups=groups,
        groups_are=groups_are,
        columns=columns,
        features=features,
        client=client,
        threads=threads,
        memory_limit=memory_limit,
        centers=centers,
        stored_columns=stored_columns,
        worker_timeout=worker_timeout,
        fill_missing=fill_missing,
        storage_options=storage_options,
        block_rows=block_rows,
        sparse=sparse,
        on_pass=on_pass,
    )
    if sparse and scale is not None:
        raise InputError("sparse=True leaves rows as they are: columns, scale, features and centers cannot go with it")
    plan = layout.plan
    shards = _shards(layout, executor)
    pieces = [(shards[shard], blocks) for shard, blocks in plan.pieces(range(plan.n_blocks))]

    def fold(survey: Survey, prepare: Prepare) -> Summary:
        return executor.fold(FoldJob(survey, prepare, plan.block_rows), pieces, "survey")

    summary, prepare = _surveyed(layout, fold, scale)
    _check_summary(summary, layout.rows, prepare, centers, groups_are)
    return RowSource(
        plan,
        tuple(shards),
        executor,
        prepare,
        summary,
        layout.stored_dtype,
        layout.stored_columns,
        layout.checksummed,
        layout.resident or isinstance(shards[0], Shard),
        max(0, int(RESIDENT_SHARE * layout.resources.memory) - plan.n_rows * layout.row_bytes),
    )


def featured(source: RowSource, features: Features) -> RowSource:
    """The same rows as kernels see them once `features` are made of them, checked in one pass.

    Features of rows in memory are kept there too where they fit beside them.
    """
    summary = source.fold(Survey(np.inf, features), name="survey")
    size = source.plan.n_rows * len(summary.sums) * source.prepare.dtype.itemsize
    prepare = replace(source.prepare, features=features, keep=source.resident and size <= source.room)
    _check_summary(summary, None, prepare, None)
    plan, height = source.plan, min(source.plan.block_rows, block_height(len(summary.sums)))
    shard_blocks = plan.shard_rows // height
    return replace(
        source, plan=Plan(plan.n_rows, height, shard_blocks), prepare=prepare, summary=summary, ledger=Ledger()
    )


def _surveyed(
    layout: Layout, fold: Callable[[Survey, Prepare], Summary], scale: Float64Array | str | None
) -> tuple[Summary, Prepare]:
    """What the first pass finds, and how rows are prepared; one more where both a scale and features are asked for."""
    limit, features = limit_of(layout.stored_dtype), layout.prepare.features
    if layout.prepare.sparse:
        return fold(SparseSurvey(limit), layout.prepare), layout.prepare
    plain = replace(layout.prepare, features=None)
    summary = fold(Survey(limit, None if scale is not None else features), plain)
    if scale is None or summary.flaw is not None or summary.weight == 0:
        return summary, layout.prepare
    divisors = _divisors(scale, summary)
    plain = replace(plain, scale=divisors)
    summary = summary.scaled(divisors) if features is None else fold(Survey(np.inf, features), plain)
    return summary, replace(plain, features=features)


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
    reading = fill_missing, storage_options
    opened = opened_input(data, "data", 2, *reading)
    rows, weights, sets = _together(
        opened,
        opened_input(sample_weight, "sample_weight", 1, *reading),
        opened_input(groups, groups_are, 1, *reading),
    )
    n, d = rows.shape
    _check_shapes(rows, weights, sets, groups_are)
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
    whole = Layout(rows, weights, sets, prepare, Plan(n, height, 1), resources, False, values)
    resident = n * whole.row_bytes <= RESIDENT_SHARE * resources.memory
    whole = replace(whole, resident=resident)
    streams = not resident and not isinstance(rows, da.Array)
    most_rows = n if streams else max(1, whole.affordable_rows)
    blocks = shard_blocks(n, height, resources.threads, most_rows, piece_rows(rows))
    on_dask = client is not None or isinstance(rows, da.Array)
    threads = resources.threads
    executor: Executor = DaskTasks(client, threads, worker_timeout, on_pass) if on_dask else Threads(threads, on_pass)
    return replace(whole, plan=Plan(n, height, blocks)), executor


def _check_sparse(rows: Any, values: int | None, prepare: Prepare, centers: Float64Array | None) -> None:
    """Refuse what sparse rows for kernels cannot be made from, or go with."""
    if values is None:
        raise InputError(f"sparse=True is for CSR rows, got {type(rows).__name__}: pass a scipy.sparse array")
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


def _divisors(scale: Float64Array | str, summary: Summary) -> Float64Array:
    """What to divide each column by, (d,)."""
    if isinstance(scale, str):
        if scale != "std":
            raise InputError(f'scale must be "std" or one number > 0 a column, got {scale!r}')
        # What is left of a constant column is the rounding of its mean.
        rounding = 8 * np.finfo(np.float64).eps * np.maximum(np.abs(summary.lowest), np.abs(summary.highest))
        return np.where(summary.deviation > rounding, summary.deviation, 1.0)
    divisors = np.asarray(scale, np.float64)
    if divisors.shape != summary.sums.shape or not ((divisors > 0) & (divisors < np.inf)).all():
        raise InputError(f'scale must be "std" or one finite number > 0 a column, got {scale!r}')
    return divisors


def _place(
    rows: Any, client: Client | None, threads: int | None, memory_limit: int | None, worker_timeout: float
) -> tuple[Client | None, Resources]:
    """The cluster to work on, None for this process, and what there is to work with."""
    stores = [plain_store(array) for array in _stored_arrays(rows).values()]
    in_process = _in_memory(rows) or any(isinstance(store, MemoryStore) for store in stores)
    if client is not None and in_process:
        raise InputError(
            "data is in this process's memory, where the client's workers cannot reach it: pass a Dask "
            "array, or write it to a Zarr store and pass its path; or leave the client out"
        )
    if client is not None and (threads is not None or memory_limit is not None):
        raise InputError("threads and memory_limit say how to work in this process: they cannot go with a client")
    if threads is not None and threads < 1:
        raise InputError(f"threads must be >= 1, got {threads}")
    if client is None and threads is None and memory_limit is None and not in_process:
        client = current_client()
    if client is None:
        return None, own_resources(threads, memory_limit)
    return client, cluster_resources(client, worker_timeout)


def _in_memory(rows: Any) -> bool:
    """Whether rows are in this process's memory, be they dense or CSR."""
    return isinstance(rows, np.ndarray) or issparse(rows)


def opened_input(
    data: Any,
    name: str,
    dimensions: int,
    fill_missing: bool,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """What a user gave as a NumPy array, a Dask array with known chunks, a Zarr array or a .npy file, or None."""
    if data is None:
        return None
    if isinstance(data, str | os.PathLike | Location):
        opened = _opened_place(Location.at(data, storage_options), name, dimensions, fill_missing)
    elif issparse(data):
        opened = _opened_csr(data, name, dimensions)
    elif isinstance(data, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array: fill or drop the masked entries first, as {name}.filled(0) does")
    elif hasattr(data, "to_dask_array"):
        opened = table_rows(data)
    elif isinstance(data, da.Array):
        known = data.copy().compute_chunk_sizes() if any(np.isnan(size) for size in data.shape) else data
        opened = dask_csr(known) if is_csr_dask(data) and dimensions == 2 else known
    elif isinstance(data, zarr.Group):
        opened = _opened_group(data, str(data.store_path), name, data.__getitem__, dimensions, fill_missing)
    elif isinstance(data, StoredCsr):
        opened = data
    elif isinstance(data, zarr.Array):
        opened = guard.guarded(guard.absolute(data), name, fill_missing=fill_missing)
    else:
        opened = _as_array(data, name)
    if opened.ndim != dimensions:
        raise InputError(f"{name} must have {dimensions} dimension{'s'[: dimensions - 1]}, got shape {opened.shape}")
    return opened


def table_rows(table: Any) -> da.Array:
    """A Dask table, or a column of it, as an array with known chunks."""
    try:
        return table.to_dask_array(lengths=True)
    except ValueError:  # Dask before 2026.8 counts Parquet files that it reads together as one, but wants each counted
        return table.to_dask_array().compute_chunk_sizes()


def _opened_csr(data: Any, name: str, dimensions: int) -> Any:
    """Rows that a user gave as a sparse matrix or array of scipy."""
    if dimensions == 1:
        raise InputError(f"{name} is sparse ({type(data).__name__}): pass a dense array, as {name}.toarray() gives")
    if data.ndim != 2:
        raise InputError(f"{name} must have 2 dimensions, got shape {data.shape}")
    working_dtype(data.dtype, name)
    return from_scipy(data, name)


FILES = (".npy", ".npz", ".mtx", ".mtx.gz")
"""Endings of files that are read from local disks only."""


def _opened_place(place: Location, name: str, dimensions: int, fill_missing: bool) -> Any:
    """The array at a local path or a URL: a Zarr array, CSR rows in a Zarr group, a file, or columns of a table."""
    path = place.url
    if place.remote and path.endswith(FILES):
        raise InputError(f"{name}: {path} would have to be on a local disk: copy it there, or make it a Zarr array")
    if path.endswith(".npy"):
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{name}: {path} cannot be read as a .npy file: {error}") from error
        return NpyFile(path, mapped.shape, mapped.dtype)
    if path.endswith(".npz") and dimensions == 2:
        return open_npz(path, name)
    if path.endswith((".mtx", ".mtx.gz")) and dimensions == 2:
        return open_mtx(path, name)
    table = parquet_table(path)
    if table is not None:
        return open_parquet(replace(place, url=table[0]), table[1], name, dimensions)

    def member(part: str) -> Any:
        return _node(place / part, name)

    node = _node(place, name)
    if isinstance(node, zarr.Group):
        return _opened_group(node, path, name, member, dimensions, fill_missing)
    return guard.guarded(node, name, fill_missing=fill_missing)


def _node(place: Location, name: str) -> "zarr.Array[Any] | zarr.Group":
    """What Zarr has at a place."""
    try:
        guard.check_metadata_size(place, name)
        return guard.opened(place)
    except InputError:
        raise
    except Exception as error:  # whatever is wrong with its metadata
        raise InputError(f"{name}: there is no Zarr array at {place.url}: {error or type(error).__name__}") from error


def _opened_group(
    group: zarr.Group, path: str, name: str, member: Callable[[str], Any], dimensions: int, fill_missing: bool
) -> StoredCsr:
    if dimensions == 2 and is_csr_group(group):
        return open_csr(group, path, name, member, fill_missing)
    raise _no_array(group, path, name)


def _no_array(group: zarr.Group, path: str, name: str) -> InputError:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what else lies there
        arrays = sorted(key for key, node in group.members() if isinstance(node, zarr.Array) or is_csr_group(node))
    hint = f"give one of its arrays: {', '.join(f'{path}/{key}' for key in arrays)}" if arrays else "it holds no arrays"
    return InputError(f"{name}: {path} is a Zarr group, not an array: {hint}")


def _as_array(data: Any, name: str) -> np.ndarray[Any, Any]:
    """A NumPy array of what is in this process's memory; objects become numbers, as scikit-learn has it."""
    try:
        array = np.asarray(data)
        return array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} is no array of numbers: {error}") from error


def working_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """float32 or float64, whichever holds the values of `dtype` exactly."""
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        small = dtype.itemsize <= 2 or dtype == np.dtype(np.float32).newbyteorder(dtype.byteorder)
        return np.dtype(np.float32 if small else np.float64)
    ways = {"c": "Complex data not supported: pass real and imaginary parts as columns", "O": "convert it to floats"}
    raise InputError(
        f"{name} has dtype {dtype}, which is not a real number of up to 64 bits: "
        f"{ways.get(dtype.kind, 'convert it to float32 or float64')}"
    )


def _together(rows: Any, *beside: Any) -> tuple[Any, ...]:
    """Rows, weights and groups in kinds that can be cut alike: all Dask arrays, or none."""
    arrays = rows, *beside
    if any(isinstance(array, da.Array) for array in arrays):
        return tuple(None if each is None else lazy_array(each) for each in arrays)
    if _in_memory(rows):
        return rows, *(each if each is None else np.asarray(each[:]) for each in beside)
    return arrays


def lazy_array(array: Any) -> da.Array:
    """An array as Dask's, in chunks of its own or such as are read at a time."""
    if isinstance(array, da.Array):
        return array
    return da.from_array(array) if stored_values(array) is None else lazy_csr(array, read_rows(array))


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
        _check_groups(groups, groups_are, n)


def open_groups(groups: Any, n_rows: int) -> Any:
    """The data set of each of so many rows as an array, with known chunks where it is Dask's."""
    opened = opened_input(groups, "groups", 1, False)
    _check_groups(opened, "groups", n_rows)
    return opened


def _check_groups(groups: Any, name: str, n_rows: int) -> None:
    if groups.dtype.kind not in "biu":
        raise InputError(
            f"{name} must be integers from 0 on, got {groups.dtype}: fill what is missing, then number the {name}, "
            f"as np.unique({name}, return_inverse=True) does"
        )
    if groups.shape[0] != n_rows:
        raise InputError(f"{name} must hold one number a row: {n_rows:,} rows, but {groups.shape[0]:,} numbers")


def _checked_columns(columns: Sequence[int] | None, d: int) -> tuple[int, ...] | None:
    if columns is None:
        return None
    chosen = list(columns)
    whole = all(isinstance(column, int | np.integer) and 0 <= column < d for column in chosen)
    if not (chosen and whole):
        raise InputError(f"columns must name some of the {d} columns 0 to {d - 1}, got {chosen}")
    return tuple(int(column) for column in chosen)


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


def _shards(layout: Layout, executor: Executor) -> Sequence[Any]:
    """The rows cut into shards, as the executor takes them."""
    rows, weights, groups, bounds = layout.rows, layout.weights, layout.groups, layout.plan.shard_bounds()
    if isinstance(rows, da.Array) and isinstance(executor, DaskTasks):
        dask_shards = _dask_shards(rows, (weights, groups), bounds)
        if layout.resident:
            return executor.persist(dask_shards)
        if len(rows.__dask_graph__()) > rows.npartitions + 1:  # more than an array and its slices, or chunks held
            warnings.warn(
                f"data is a Dask array of {len(rows) * layout.row_bytes:,} bytes, more than {RESIDENT_SHARE:.0%} of "
                "the memory: each pass computes it anew. Call persist() on it where it fits, or write it to a Zarr "
                "store first.",
                stacklevel=4,
            )
        return dask_shards
    if isinstance(rows, NpyFile) and isinstance(executor, Threads):
        rows = rows[:]
    if _in_memory(rows):
        return [Shard(a, part_of(rows, a, b), _read(weights, a, b), _read(groups, a, b)) for a, b in bounds]
    parts = [StoredShard(a, b, *(_needed(each, a, b) for each in (rows, weights, groups))) for a, b in bounds]
    return executor.hold(parts) if layout.resident else executor.wrap(parts)


def _read(array: Any, start: int, stop: int) -> np.ndarray[Any, Any] | None:
    """What of weights or groups goes with rows in memory."""
    return None if array is None else np.asarray(array[start:stop])


def _needed(array: Any, start: int, stop: int) -> Any:
    """What goes with a shard: its part of weights or groups in memory, its files of a table, else all of the store."""
    if isinstance(array, ParquetRows):
        return array.narrowed(start, stop)
    return array[start:stop] if isinstance(array, np.ndarray) else array


def _dask_shards(rows: da.Array, beside: tuple[da.Array | None, ...], bounds: list[tuple[int, int]]) -> list[Any]:
    """One delayed `Shard` for each run of rows, whatever the chunks of the input."""
    heights = tuple(stop - start for start, stop in bounds)
    with dask.config.set({"array.rechunk.method": "tasks"}):
        chunks = rows.rechunk((heights, (rows.shape[1],))).to_delayed().ravel()
        others = [
            [None] * len(bounds) if array is None else array.rechunk((heights,)).to_delayed().ravel()
            for array in beside
        ]
    keys, sparse = Keys.of("load"), is_csr_dask(rows)
    return [
        delayed(_shard_of, pure=False)(sparse, start, stop, *parts, dask_key_name=keys("shard", number, start, stop))
        for number, ((start, stop), *parts) in enumerate(zip(bounds, chunks, *others, strict=True))
    ]


def _shard_of(sparse: bool, start: int, stop: int, rows: Any, weights: Any, groups: Any) -> Shard:
    if sparse:
        rows = csr_chunk(rows, start)
    else:
        check_dense(rows, "data")
    n = rows.shape[0]
    if n != stop - start:
        raise InputError(
            f"the chunks of data hold {n:,} rows where {stop - start:,} are declared, from row {start:,} on: "
            "call compute_chunk_sizes() on the Dask array"
        )
    if weights is not None:
        check_dense(weights, "sample_weight")
    if groups is not None:
        check_dense(groups, "groups")
    return Shard(start, rows, weights, groups)


def check_dense(chunk: Any, name: str) -> None:
    """Refuse chunks of a Dask array that are no plain NumPy arrays."""
    if issparse(chunk) and name == "data":
        raise InputError(
            f"data is a Dask array of {type(chunk).__name__}, but its meta says that its chunks are dense: pass "
            "data.map_blocks(scipy.sparse.csr_array, meta=scipy.sparse.csr_array((0, 0), dtype=data.dtype))"
        )
    if not isinstance(chunk, np.ndarray) or isinstance(chunk, np.ma.MaskedArray):
        raise InputError(f"{name} is a Dask array of {type(chunk).__name__}: only dense NumPy chunks can be used")


def limit_of(dtype: np.dtype[Any]) -> float:
    """What values must lie strictly within."""
    return EXACT_INTEGERS if dtype.kind in "iu" else np.inf


def describe_flaw(flaw: Flaw, place: str, groups_are: str = "groups") -> str:
    """What is wrong with a value, where, and what to do."""
    if flaw.column == -2:
        kinds = "data sets" if groups_are == "groups" else groups_are
        return (
            f"{groups_are} holds {flaw.value} at {place}: {kinds} are numbered from 0 to below {MOST_GROUPS:,}, "
            f"as np.unique({groups_are}, return_inverse=True) does"
        )
    if flaw.column == -1:
        return f"sample_weight is {flaw.value} at {place}: weights must be finite and >= 0"
    if np.isfinite(flaw.value):
        return (
            f"data holds the integer {flaw.value:.0f} at {place}: beyond 2**53 float64 cannot tell integers apart; "
            "subtract an offset, or divide"
        )
    kind = "NaN" if np.isnan(flaw.value) else "infinity"
    return f"data contains {kind} ({flaw.value}) at {place}: remove or replace such rows first"


def _check_summary(
    summary: Summary, rows: Any, prepare: Prepare, centers: Float64Array | None, groups_are: str = "groups"
) -> None:
    """Refuse what the first pass found wrong."""
    columns, features = prepare.columns, prepare.features
    if summary.flaw is not None:
        flaw = summary.flaw
        if features is not None and flaw.column == -3:
            raise InputError(features.complaint(f"row {flaw.row:,}{_chunk_of(rows, flaw.row)}"))
        column = "" if flaw.column < 0 else f", column {flaw.column if columns is None else columns[flaw.column]}"
        place = f"row {flaw.row:,}{_chunk_of(rows, flaw.row)}{column}"
        raise InputError(describe_flaw(flaw, place, groups_are))
    if summary.weight == 0:
        raise InputError("every sample_weight is zero: at least one row needs a weight > 0")
    if summary.weight == np.inf:
        raise InputError("the sum of sample_weight overflows float64: divide the weights by a constant first")
    if prepare.sparse:
        if not np.isfinite([summary.sums, summary.squares]).all():
            raise InputError("sums of the values of rows overflow float64: divide the data by a constant first")
        return
    widest = summary.overflowing(centers, float(np.finfo(prepare.dtype).max))
    if widest is not None:
        raise InputError(
            f"squared distances overflow float64: column {_column(widest, prepare)} reaches from "
            f"{summary.lowest[widest]:g} to {summary.highest[widest]:g}; divide the data by a constant first"
        )


def _column(column: int, prepare: Prepare) -> int:
    """A column's number in the input, or among the features."""
    return column if prepare.columns is None or prepare.features is not None else prepare.columns[column]


def _chunk_of(rows: Any, row: int) -> str:
    """Which chunk of the input holds a row."""
    if isinstance(rows, da.Array):
        starts = np.cumsum((0, *rows.chunks[0]))
        chunk = int(np.searchsorted(starts, row, side="right")) - 1
        return f" (chunk {chunk}, its row {row - int(starts[chunk]):,})"
    if isinstance(rows, zarr.Array):
        chunk, within = divmod(row, int(rows.chunks[0]))
        return f" (chunk {chunk}, its row {within:,})"
    return ""
