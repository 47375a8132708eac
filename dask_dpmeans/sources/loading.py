"""From the layout to shards: what each task reads, or takes from memory or from Dask."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from dask_dpmeans.errors import InputError, warn
from dask_dpmeans.sources.executors.base import Keys
from dask_dpmeans.sources.executors.threads import Threads
from dask_dpmeans.sources.formats.csr import csr_chunk, is_csr_dask, part_of
from dask_dpmeans.sources.formats.cube import CubeRows
from dask_dpmeans.sources.formats.table_rows import TableRows
from dask_dpmeans.sources.layout import RESIDENT_SHARE, Layout
from dask_dpmeans.sources.lazy_modules import checked_store, dask, is_dask_array, is_zarr_array
from dask_dpmeans.sources.opening import NpyFile, in_memory
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.sources.shards import Shard, StoredShard

if TYPE_CHECKING:
    import dask.array as da
    from dask.delayed import Delayed

    from dask_dpmeans.sources.executors.dask_tasks import DaskTasks

PROCESSES = ("processes", "multiprocessing")
"""Names of Dask's scheduler of processes."""


def shards_of(layout: Layout, executor: "DaskTasks | Threads") -> Sequence[Any]:
    """Return the rows cut into shards, as the executor takes them."""
    rows, bounds = layout.rows, layout.plan.shard_bounds()
    beside: Any = (layout.weights, layout.groups)
    if is_dask_array(rows) and not isinstance(executor, Threads):
        if executor.client is None:
            _warn_of_new_processes()
        dask_shards = _dask_shards(rows, beside, bounds)
        if layout.resident:
            return executor.persist(dask_shards)
        _warn_of_recomputing(layout)
        return dask_shards
    if isinstance(rows, NpyFile) and isinstance(executor, Threads):
        rows = rows[:]
        beside = [each if each is None else np.asarray(each[:]) for each in beside]
    parts = [(a, b, [_needed(each, a, b) for each in (rows, *beside)]) for a, b in bounds]
    if in_memory(rows):
        return [Shard(start, *arrays) for start, _, arrays in parts]
    ahead = layout.reads_ahead
    stored = [StoredShard(start, stop, *arrays, ahead=ahead) for start, stop, arrays in parts]
    if layout.resident:
        return executor.load(stored)
    return executor.wrap(stored)


def _warn_of_new_processes() -> None:
    """Warn if Dask would start new processes for each pass, since none are kept in a pool."""
    if dask.config.get("scheduler", None) in PROCESSES and dask.config.get("pool", None) is None:
        warn(
            "Dask's scheduler 'processes' starts new processes for each pass over the rows, which takes "
            "seconds: leave it out for threads, or start a dask.distributed.Client; the result is the same."
        )


def _warn_of_recomputing(layout: Layout) -> None:
    """Warn if each pass computes a Dask array that is more than slices of chunks in memory."""
    rows = layout.rows
    if len(rows.__dask_graph__()) > rows.npartitions + 1:
        warn(
            f"data is a Dask array of {len(rows) * layout.row_bytes:,} bytes, more than "
            f"{RESIDENT_SHARE:.0%} of the memory: each pass computes it anew. Call persist() on it "
            "if it fits, or write it to a Zarr store first."
        )


def _needed(array: Any, start: int, stop: int) -> Any:
    """Return the smallest part of an array that some rows need."""
    if isinstance(array, TableRows | CubeRows):
        return array.narrowed(start, stop)
    if is_zarr_array(array):
        return checked_store.narrow_array(array, start, stop)
    if in_memory(array):
        return part_of(array, start, stop)
    return array


def _dask_shards(
    rows: "da.Array", beside: "tuple[da.Array | None, ...]", bounds: list[tuple[int, int]]
) -> "list[Delayed]":
    """Return one delayed `Shard` for each run of rows, whatever the chunks of the input."""
    heights = tuple(stop - start for start, stop in bounds)
    with dask.config.set({"array.rechunk.method": "tasks"}):
        chunks = rows.rechunk((heights, (rows.shape[1],))).to_delayed().ravel()
        others = [
            [None] * len(bounds)
            if array is None
            else array.rechunk((heights,)).to_delayed().ravel()
            for array in beside
        ]
    keys, make = Keys.of("load"), dask.delayed(_make_shard, pure=False)
    shards = []
    for number, ((a, b), *parts) in enumerate(zip(bounds, chunks, *others, strict=True)):
        key = keys("shard", number, a, b)
        shards.append(make(is_csr_dask(rows), a, b, *parts, dask_key_name=key))
    return shards


def _make_shard(
    sparse: bool, start: int, stop: int, rows: Raw, weights: Raw | None, groups: Raw | None
) -> Shard:
    """Return the shard of some loaded rows, after a check that they are as declared."""
    if sparse:
        rows = csr_chunk(rows, start)
    else:
        check_dense(rows, "data")
    n = rows.shape[0]
    if n != stop - start:
        raise InputError(
            f"the chunks of data hold {n:,} rows, but {stop - start:,} are declared, from row "
            f"{start:,} on: call compute_chunk_sizes() on the Dask array"
        )
    for name, values in (("sample_weight", weights), ("groups", groups)):
        if values is not None:
            check_dense(values, name)
    return Shard(start, rows, weights, groups)


def check_dense(chunk: object, name: str) -> None:
    """Raise `InputError` if a chunk of a Dask array is not a plain NumPy array."""
    kind = f"{name} is a Dask array of {type(chunk).__name__}"
    if issparse(chunk) and name == "data":
        raise InputError(
            f"{kind}, but its meta says that its chunks are dense: pass "
            "data.map_blocks(scipy.sparse.csr_array, "
            "meta=scipy.sparse.csr_array((0, 0), dtype=data.dtype))"
        )
    if isinstance(chunk, np.ma.MaskedArray):
        raise InputError(
            f"{kind}: fill or drop the masked entries first, as dask.array.ma.filled({name}, 0) does"
        )
    if not isinstance(chunk, np.ndarray):
        raise InputError(f"{kind}: only dense NumPy chunks can be used")
