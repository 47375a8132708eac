"""From the layout to shards: what each task reads, or takes from memory or from Dask."""

import warnings
from collections.abc import Sequence
from typing import Any

import dask
import dask.array as da
import numpy as np
import zarr
from dask.delayed import delayed
from scipy.sparse import issparse

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.executors.base import Executor
from dask_dpmeans.sources.executors.dask_tasks import DaskTasks
from dask_dpmeans.sources.executors.keys import Keys
from dask_dpmeans.sources.executors.threads import Threads
from dask_dpmeans.sources.formats.csr import csr_chunk, is_csr_dask, part_of
from dask_dpmeans.sources.formats.parquet import ParquetRows
from dask_dpmeans.sources.layout import RESIDENT_SHARE, Layout
from dask_dpmeans.sources.opening import NpyFile, in_memory
from dask_dpmeans.sources.safety.guard import narrowed
from dask_dpmeans.sources.shards import Shard, StoredShard


def shards_of(layout: Layout, executor: Executor) -> Sequence[Any]:
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
    if in_memory(rows):
        return [Shard(a, part_of(rows, a, b), _read(weights, a, b), _read(groups, a, b)) for a, b in bounds]
    parts = [StoredShard(a, b, *(_needed(each, a, b) for each in (rows, weights, groups))) for a, b in bounds]
    return executor.load(parts) if layout.resident else executor.wrap(parts)


def _read(array: Any, start: int, stop: int) -> np.ndarray[Any, Any] | None:
    """What of weights or groups goes with rows in memory."""
    return None if array is None else np.asarray(array[start:stop])


def _needed(array: Any, start: int, stop: int) -> Any:
    """What goes with a shard: its part of weights or groups in memory, its files of a table, else all of a store."""
    if isinstance(array, ParquetRows):
        return array.narrowed(start, stop)
    if isinstance(array, zarr.Array):
        return narrowed(array, start, stop)
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
