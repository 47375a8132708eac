"""`lay_out`: an input is opened, checked, and cut into blocks and shards, from its metadata alone."""

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.plan import Plan, block_height, shard_blocks
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import takes_csr
from dask_dpmeans.sources import opening
from dask_dpmeans.sources.categories import Categories
from dask_dpmeans.sources.cube_plan import shard_floor
from dask_dpmeans.sources.executors.threads import Threads
from dask_dpmeans.sources.formats import csr
from dask_dpmeans.sources.formats.cube import CubeRows, CubeWeights, count_rows
from dask_dpmeans.sources.formats.table_rows import TableRows
from dask_dpmeans.sources.frames import Frame, frame_of
from dask_dpmeans.sources.grids import is_latitude
from dask_dpmeans.sources.layout import Layout, stored_arrays
from dask_dpmeans.sources.lazy_modules import cluster, dask_tasks, is_dask_array, zarr
from dask_dpmeans.sources.named_columns import checked_columns, named_inputs
from dask_dpmeans.sources.names import Names, check_names, names_of
from dask_dpmeans.sources.options import Columns, Compute, InputArrays, Requirements
from dask_dpmeans.sources.refusals import refuse_container
from dask_dpmeans.sources.resources import READ_SHARE, Resources, current_client, own_resources
from dask_dpmeans.sources.row_array import RowArray
from dask_dpmeans.sources.shards import PIECE_BYTES, Prepare, piece_rows
from dask_dpmeans.sources.stored_chunks import plain_store

if TYPE_CHECKING:
    from distributed import Client

    from dask_dpmeans.sources.executors.dask_tasks import DaskTasks

BLOCK_COPIES = 16
"""Further bytes a number of a block: kernels hold its float64 copy and differences from a mean."""
NO_ROWS = "Found array with 0 {}(s) (shape={}) while a minimum of 1 is required."
ONLY_CSR = (
    "sparse=True leaves rows as they are: columns, scale, features, centers and missing cannot go "
    "with it"
)


def lay_out(
    arrays: InputArrays,
    columns: Columns,
    needs: Requirements,
    compute: Compute,
    *,
    count: bool = True,
) -> "tuple[Layout, DaskTasks | Threads]":
    """Open an input and plan the work on it, before any row is read.

    The rows of a cube are counted in one pass, or with `count=False` taken to be all samples.
    """
    if arrays.data is None:
        raise InputError("data is None: pass an array, or its path")
    refuse_container(arrays.data, "data")
    compute = compute.checked()
    arrays, chosen = named_inputs(arrays, columns.columns, columns.storage_options)
    columns = replace(columns, columns=chosen)
    frame = frame_of(arrays.data, "data")
    if frame is not None:
        arrays = replace(arrays, data=frame)
    opened, categories = _open(arrays, columns, needs)
    if isinstance(opened.data, CubeRows):
        opened = _with_counts(opened, compute, count)
    given = _of_one_kind(opened)
    _check_shapes(given)
    named = opened.data if isinstance(opened.data, TableRows | CubeRows) else arrays.data
    names = names_of(named)
    prepare = _prepare_of(given.data, columns, needs, names)
    known = columns.known_names
    if names is None and known is not None and len(known) == given.data.shape[1]:
        names = tuple(known)
    client, resources = _choose_resources(given.data, compute)
    _check_chunks(given.data, resources)
    n_values, plan = _count_values(opened.data, client), Plan(given.data.shape[0], 1, 1)
    stays = needs.csr if needs.features is None else takes_csr(needs.features)
    prepare = replace(prepare, csr=n_values is not None and stays)
    beside = given.sample_weight, given.groups
    whole = Layout(
        given.data, *beside, prepare, plan, resources, False, n_values, names, categories
    )
    layout = _cut(whole, columns, needs)
    return layout, _executor(given.data, client, resources, compute)


def _cut(whole: Layout, columns: Columns, needs: Requirements) -> Layout:
    """Return the layout with its blocks and shards, and whether the rows stay in memory."""
    rows, n, threads = whole.rows, whole.plan.n_rows, whole.resources.threads
    height = columns.block_rows or _block_height(whole)
    if needs.sparse:
        _check_sparse(whole, columns, needs)
    elif whole.n_values is not None and not whole.prepare.csr:
        _check_block(whole, min(height, n))
    resident = whole.fits_memory
    streams = not resident and not is_dask_array(rows)
    most_rows = n if streams else max(1, whole.affordable_rows)
    stored = piece_rows(rows)
    if isinstance(rows, CubeRows) and streams:
        stored = shard_floor(n, stored, threads)
    heavy = max(1, PIECE_BYTES // whole.row_bytes)
    # Answers of a graph are large: the fewer there are, the fewer links are added again.
    per_thread = 2 if needs.sparse and resident else 8
    blocks = shard_blocks(n, height, threads, most_rows, stored, heavy, per_thread)
    return replace(whole, resident=resident, plan=Plan(n, height, blocks))


def _executor(
    rows: RowArray, client: "Client | None", resources: Resources, compute: Compute
) -> "DaskTasks | Threads":
    if client is None and not is_dask_array(rows):
        return Threads(resources.threads, compute.on_pass)
    return dask_tasks.DaskTasks(client, resources.threads, compute.worker_timeout, compute.on_pass)


def _with_counts(opened: InputArrays, compute: Compute, count: bool) -> InputArrays:
    """Return the input with the rows of its cube counted in a pass, if any may be left out."""
    cube, weights = opened.data, opened.sample_weight
    client, resources = _choose_resources(cube, compute)
    _check_chunks(cube, resources)
    if cube.counted or not count:
        return opened
    n = len(cube.runs)
    step = -(-n // (8 * resources.threads))
    jobs = [
        partial(count_rows, runs=range(start, min(start + step, n))) for start in range(0, n, step)
    ]
    executor = _executor(cube, client, resources, compute)
    counts = executor.run(jobs, cube.part(range(0)), "count")
    counted = cube.with_counts([each for some in counts for each in some])
    if isinstance(weights, CubeWeights):
        weights = CubeWeights.of(counted)
    return replace(opened, data=counted, sample_weight=weights)


def _open(
    arrays: InputArrays, columns: Columns, needs: Requirements
) -> tuple[InputArrays, Categories]:
    """Open the rows, weights and groups; return the categories of columns of codes too."""
    checks.switch("fill_missing", columns.fill_missing)

    def opened(name: str, data: object) -> RowArray | None:
        opener = opening.Opener(name, 1, columns.fill_missing, columns.storage_options)
        return None if data is None else opener.open(data)

    data, wanted, categories = arrays.data, needs.categorical_columns, needs.known_categories or {}
    used = columns.columns
    if isinstance(data, Frame):
        data, categories = data.read("data", wanted, used)
    how = columns.fill_missing, columns.storage_options, needs.missing, wanted, used
    opener = opening.Opener("data", 2, *how)
    rows = opener.open(data)
    if isinstance(rows, TableRows) and wanted is not None:
        categories = rows.categories
    weights: RowArray | None
    if isinstance(rows, CubeRows) and is_latitude(arrays.sample_weight):
        weights = CubeWeights.of(rows)
    else:
        weights = opened("sample_weight", arrays.sample_weight)
    groups = opened(arrays.groups_name, arrays.groups)
    return replace(arrays, data=rows, sample_weight=weights, groups=groups), categories


def _of_one_kind(opened: InputArrays) -> InputArrays:
    """Return rows, weights and groups as arrays that are cut alike: all of Dask, or none."""
    rows, beside = opened.data, [opened.sample_weight, opened.groups]
    if any(is_dask_array(array) for array in (rows, *beside)):
        rows = opening.lazy_array(rows)
        beside = [each if each is None else opening.lazy_array(each) for each in beside]
    elif opening.in_memory(rows):
        beside = [each if each is None else np.asarray(each[:]) for each in beside]
    return replace(opened, data=rows, sample_weight=beside[0], groups=beside[1])


def _count_values(rows: RowArray, client: "Client | None") -> int | None:
    """Return how many values CSR rows hold; None for dense rows."""
    if is_dask_array(rows):
        if csr.is_csr_dask(rows):
            return csr.dask_values(rows, client)
        return None
    return csr.stored_values(rows)


def _prepare_of(
    rows: RowArray, columns: Columns, needs: Requirements, names: Names | None
) -> Prepare:
    """Return how rows are prepared, after a check of the columns."""
    d = rows.shape[1]
    fitted = columns.column_names or None
    if needs.stored_columns not in (None, d) and None in (names, fitted):
        raise InputError(
            f"data has {checks.format_count(d, 'column')}, the run was fitted on {needs.stored_columns}"
        )
    if columns.column_names is not None:
        check_names(names, fitted, "the run")
    chosen = None if columns.columns is None else checked_columns(columns.columns, d)
    dtype = opening.working_dtype(rows.dtype, "data")
    prepare = Prepare(
        dtype, chosen, features=needs.features, sparse=needs.sparse, missing=needs.missing
    )
    width = (needs.features and needs.features.n_features) or prepare.n_columns(d)
    if needs.centers is not None and needs.centers.shape[1] != width:
        found = checks.format_count(width, "column")
        raise InputError(f"data has {found}, the centers have {needs.centers.shape[1]}")
    return prepare


def _block_height(layout: Layout) -> int:
    """Return the rows of a block from the columns, or from the mean length of CSR rows."""
    if layout.prepare.sparse:
        return block_height(max(1, -(-(layout.n_values or 0) // layout.plan.n_rows)))
    return block_height(max(layout.prepare.n_columns(layout.stored_columns), layout.n_features))


def _choose_resources(rows: RowArray, compute: Compute) -> "tuple[Client | None, Resources]":
    """Return the cluster to work on, or None for this process, and its threads and memory."""
    stores = [plain_store(array) for array in stored_arrays(rows).values()]
    in_process = opening.in_memory(rows) or any(
        isinstance(store, zarr.storage.MemoryStore) for store in stores
    )
    client = compute.client
    if client is not None and in_process:
        raise InputError(
            "data is in this process's memory, where the client's workers cannot reach it: pass a "
            "Dask array, or write it to a Zarr store and pass its path; or leave the client out"
        )
    if client is not None and compute.local:
        raise InputError(
            "threads and memory_limit are for this process: they cannot go with a client"
        )
    if client is None and not compute.local and not in_process:
        client = current_client()
    if client is None:
        return None, own_resources(compute.threads, compute.memory_limit)
    return client, cluster.cluster_resources(client, compute.worker_timeout)


def _place(rows: RowArray) -> str:
    """Return the start of an error with the file of some rows; nothing for others."""
    if isinstance(rows, TableRows):
        return f"data: {rows.store_path}: "
    return f"data: {rows.path}: " if isinstance(rows, opening.NpyFile) else ""


def _check_shapes(given: InputArrays) -> None:
    (n, d), weights = given.data.shape, given.sample_weight
    if n < 1 or d < 1:
        missing = "sample" if n < 1 else "feature"
        way = given.data.without_rows if isinstance(given.data, CubeRows) else ""
        raise InputError(_place(given.data) + NO_ROWS.format(missing, given.data.shape) + way)
    if weights is not None:
        opening.working_dtype(weights.dtype, "sample_weight")
        counts = f"{checks.format_count(n, 'row')}, but {checks.format_count(weights.shape[0], 'weight')}"
        if weights.shape[0] != n:
            raise InputError(f"sample_weight must hold one weight a row: {counts}")
    if given.groups is not None:
        opening.check_groups(given.groups, given.groups_name, n)


def _check_chunks(rows: RowArray, resources: Resources) -> None:
    """Refuse stored chunks that are too large for a thread's memory."""
    kind, arrays = "chunks", stored_arrays(rows)
    if isinstance(rows, TableRows):
        kind, arrays = rows.groups, {"data": rows}
    if isinstance(rows, CubeRows):
        _check_slab(rows, resources)
    most = READ_SHARE * resources.thread_memory
    for name, array in arrays.items():
        height = min(int(array.chunks[0]), array.shape[0])
        size = height * math.prod(array.shape[1:]) * array.dtype.itemsize
        across = f"{height:,} numbers, {size:,} bytes"
        if array.ndim == 2:
            across = f"{height:,} rows, {size:,} bytes across its columns"
        if size > most:
            raise InputError(
                f"{name} is stored in {kind} of {across}: more than {most:,.0f}, a quarter of the "
                f"{resources.thread_memory:,} bytes that a thread has; rechunk it, or give more "
                "memory"
            )


def _check_slab(cube: CubeRows, resources: Resources) -> None:
    """Refuse a cube if the samples that share stored chunks are too large for a thread's memory."""
    most, size = resources.read_memory, cube.slab_bytes
    if resources.processes:
        size = max(size, cube.run_bytes)
    if size > most:
        wanted = resources.thread_memory_for(size)
        raise InputError(cube.refusal(size, most, resources.thread_memory, wanted))


def _check_sparse(layout: Layout, columns: Columns, needs: Requirements) -> None:
    """Refuse dense rows, and options that CSR rows for kernels cannot have."""
    if layout.n_values is None:
        shape = " x ".join(f"{each:,}" for each in layout.rows.shape)
        raise InputError(
            f"{_place(layout.rows)}data must be sparse, got a dense array of {shape}: pass a scipy.sparse "
            "array, an .npz or .mtx file, or a Zarr group in the layout of anndata"
        )
    refused = columns.columns, columns.scale, needs.features, needs.centers
    if needs.missing or any(each is not None for each in refused):
        raise InputError(ONLY_CSR)


def _check_block(layout: Layout, height: int) -> None:
    """Refuse CSR rows if one dense block of them is too large for a thread's memory."""
    columns = layout.prepare.n_columns(layout.stored_columns)
    memory = layout.resources.thread_memory
    size = height * columns * (layout.prepare.dtype.itemsize + BLOCK_COPIES)
    if size > memory:
        raise InputError(
            f"data is sparse, and made dense in blocks of {height:,} rows: with {columns:,} columns "
            f"a block takes {size:,} bytes, more than the {memory:,} that a thread has; choose "
            "columns, give more memory, or use fewer threads"
        )
