"""Lazy results for lazy input: Dask arrays with the row chunks of the input."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse, vstack

from dask_dpmeans.engine.plan import Kernel, block_height
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Features, Float64Array, Scratch, takes_csr
from dask_dpmeans.kernels.column_statistics import first_flaw
from dask_dpmeans.sources.executors.base import Keys
from dask_dpmeans.sources.formats.csr import StoredCsr, csr_chunk, csr_rows, dask_csr, is_csr_dask
from dask_dpmeans.sources.frames import array_of_partitions, frame_of, refuse_query
from dask_dpmeans.sources.lazy_modules import da, dask, is_dask_array, is_zarr_array, is_zarr_group
from dask_dpmeans.sources.loading import check_dense
from dask_dpmeans.sources.opening import Opener, known_chunks, lazy_array, working_dtype
from dask_dpmeans.sources.refusals import refuse_kind, refuse_path
from dask_dpmeans.sources.row_array import Raw, RawRows, RowArray
from dask_dpmeans.sources.safety.value_checks import describe_flaw, limit_of
from dask_dpmeans.sources.shards import Prepare


def is_lazy(data: object) -> bool:
    """Return whether `data` is not in memory, so that results should be Dask arrays."""
    return is_dask_array(data) or _is_stored_array(data) or hasattr(data, "to_dask_array")


def is_stored(data: object) -> bool:
    """Return whether `data` can be read without Dask: it is no Dask array or DataFrame."""
    return _is_stored_array(data) or not is_lazy(data)


def _is_stored_array(data: object) -> bool:
    return is_zarr_array(data) or isinstance(data, StoredCsr)


def lazy_rows(data: Any) -> Any:
    """Return lazy data as a Dask array."""
    frame = frame_of(data, "X")
    if frame is not None:
        return frame.read("X")[0]
    if hasattr(data, "to_dask_array"):
        return array_of_partitions(data)
    return lazy_array(data, getattr(data, "chunks", "auto"))


def lazy_map(
    data: Any,
    kernel: Kernel,
    columns: list[int] | None,
    scale: Float64Array | None,
    dtype: npt.DTypeLike,
    width: int | None,
    groups: Any = None,
    features: Features | None = None,
    meta: Any = None,
    missing: bool = False,
) -> Any:
    """Return the kernel's first answer for each row, lazily, with the row chunks of the input.

    The kernel, and with it the model, is in the graph once.  `width` is the number of columns of the
    answer, None for an answer of one dimension.  With `groups`, (n,), chunk sizes must be known.
    `meta` is an empty answer, (0, 0), that is not a NumPy array.  With `missing`, NaN is a missing
    value.
    """
    rows = lazy_rows(data)
    if rows.numblocks[1] > 1:
        rows = rows.rechunk({1: -1})
    used = None if columns is None else tuple(columns)
    dtype_used = working_dtype(rows.dtype, "data")
    prepare = Prepare(dtype_used, used, scale, features, missing=missing)
    model = dask.delayed((kernel, prepare), name=Keys.of("predict")("model"), traverse=False)
    if groups is not None:
        beside = lazy_rows(groups).rechunk((rows.chunks[0],))[:, np.newaxis]
        return da.map_blocks(dpmeans_predict_groups, rows, beside, model, **_of_rank_1(dtype))
    if width is None:
        return rows.map_blocks(dpmeans_predict, model, **_of_rank_1(dtype))
    if meta is None:
        meta = np.empty((0, 0), dtype)
    chunks = rows.chunks[0], (width,)
    return rows.map_blocks(dpmeans_predict, model, chunks=chunks, meta=meta, dtype=dtype)


def _of_rank_1(dtype: npt.DTypeLike) -> dict[str, Any]:
    """Return Dask's description of an answer of one dimension."""
    return {"drop_axis": 1, "meta": np.empty(0, dtype), "dtype": dtype}


def dpmeans_predict_groups(
    rows: RawRows, groups: Raw, model: tuple[Kernel, Prepare], block_info: Any = None
) -> Raw:
    """Return the answer of a chunk's rows, given their data sets."""
    check_dense(groups, "groups")
    if len(groups) != rows.shape[0]:
        raise InputError(
            f"a chunk of {rows.shape[0]:,} rows has {len(groups):,} groups: call compute_chunk_sizes() on both"
        )
    start = block_info[0]["array-location"][0][0]
    return dpmeans_predict(rows, model, start, groups[:, 0].astype(np.int64))


def dpmeans_predict(
    rows: RawRows, model: tuple[Kernel, Prepare], start: int = 0, groups: Raw | None = None
) -> Raw:
    """Return the answer of a chunk's rows; Dask's dashboard shows tasks by this name."""
    if not issparse(rows):
        check_dense(rows, "data")
        return _part_answer(rows, model, start, 0, groups)
    kernel, prepare = model
    prepare = replace(prepare, csr=takes_csr(prepare.features)).seen_by(kernel)
    rows, n = csr_chunk(rows), rows.shape[0]
    height = block_height(prepare.n_columns(rows.shape[1]))
    answers = []
    for first in range(0, max(1, n), height):
        stop = min(first + height, n)
        sets = None if groups is None else groups[first:stop]
        part = csr_rows(rows, first, stop)
        answers.append(_part_answer(part, (kernel, prepare), start, first, sets))
    if issparse(answers[0]):
        return vstack(answers, "csr")
    return np.concatenate(answers)


def _part_answer(
    rows: RawRows, model: tuple[Kernel, Prepare], start: int, first: int, groups: Raw | None
) -> Raw:
    """Return the answer of rows from row `first` of a chunk, whose first row has number `start`."""
    kernel, prepare = model
    scratch = Scratch()
    prepared = replace(prepare, features=None)(rows, scratch)
    block = Block(start + first, prepared, None, scratch, None, groups)
    n = rows.shape[0]
    flaw = first_flaw(block, limit_of(rows.dtype), missing=prepare.missing) if n else None
    if flaw is not None:
        column = f", column {flaw.column} of those used" * (flaw.column >= 0)
        raise InputError(describe_flaw(flaw, f"row {flaw.row - start:,} of a chunk{column}"))
    if prepare.features is not None:
        block = replace(block, rows=prepare.features(block.rows, scratch))
        flaw = first_flaw(block, np.inf) if n else None
        if flaw is not None:
            raise InputError(prepare.features.error_message(f"row {flaw.row - start:,} of a chunk"))
    return kernel(block)[0]


def opened_rows(data: Any, model: str = "the estimator") -> Any:
    """Return checked CSR rows of a Zarr group or sparse array; other data as they are.

    A conversion of a sparse array writes numbers wherever its indices point, so they are checked
    before it.  Data that are no rows are refused: a path, or a query that has not run.
    """
    if isinstance(data, str | os.PathLike):
        refuse_path(data, model)
    refuse_kind(data, "X")
    refuse_query(data, "X")
    if hasattr(data, "to_frame") and len(getattr(data, "shape", ())) == 1:
        raise InputError("X is one column of a table: pass X.to_frame(), which has 2 dimensions")
    if is_zarr_group(data) or issparse(data):
        return Opener("X", 2).open(data)
    return data


def known_rows(data: Any) -> Any:
    """Return lazy data as an array with a known number of rows."""
    if hasattr(data, "to_dask_array"):
        data = lazy_rows(data)
    if is_dask_array(data):
        return known_chunks(data)
    return data


def concatenate_tables(tables: list[Any]) -> tuple[Any, list[int]]:
    """Concatenate tables of the same columns, and return the number of rows of each.

    The answer is lazy if one of the tables is.
    """
    if not any(map(is_lazy, tables)):
        counts = [table.shape[0] for table in tables]
        if any(map(issparse, tables)):
            return vstack(tables, "csr"), counts
        return np.concatenate(tables), counts
    parts = [lazy_rows(known_rows(each)) for each in tables]
    if any(map(is_csr_dask, parts)):
        parts = [dask_csr(part) for part in parts]
    return da.concatenate(parts), [part.shape[0] for part in parts]


def label_pairs(labels_true: object, labels_pred: object) -> Any:
    """Return two labelings of the same rows as columns, (n, 2) int64.

    The answer is a NumPy array if both are in this process's memory, and a Dask array otherwise.
    """
    opened = [_open_labels(labels_true, "labels_true"), _open_labels(labels_pred, "labels_pred")]
    n_first, n_second = (labels.shape[0] for labels in opened)
    if n_first != n_second:
        counts = f"{n_first:,} and {n_second:,}"
        raise InputError(
            f"labels_true and labels_pred must be labels of the same rows, got {counts} of them"
        )
    if all(isinstance(labels, np.ndarray) for labels in opened):
        return np.column_stack([labels[:].astype(np.int64) for labels in opened])
    columns = [lazy_array(labels).astype(np.int64)[:, np.newaxis] for labels in opened]
    second_column = columns[1].rechunk((columns[0].chunks[0], 1))
    return da.concatenate([columns[0], second_column], axis=1).rechunk({1: 2})


def _open_labels(labels: object, name: str) -> RowArray:
    if labels is None:
        raise InputError(f"{name} is None: pass an array of integers, or its path")
    opened = Opener(name, 1).open(labels)
    if opened.dtype.kind not in "biu":
        way = f"number them, for example with np.unique({name}, return_inverse=True)[1]"
        raise InputError(f"{name} must be integers, got {opened.dtype}: {way}")
    return opened
