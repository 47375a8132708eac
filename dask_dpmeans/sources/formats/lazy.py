"""Lazy results for lazy input: Dask arrays that follow the input's chunks."""

import os
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
import zarr
from dask.delayed import delayed
from scipy.sparse import issparse, vstack

from dask_dpmeans.engine.plan import Kernel, block_height
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Features, Float64Array, Scratch
from dask_dpmeans.kernels.column_statistics import first_flaw
from dask_dpmeans.sources.executors.keys import Keys
from dask_dpmeans.sources.formats.csr import StoredCsr, csr_chunk, csr_rows, dask_csr, is_csr_dask, lazy_csr
from dask_dpmeans.sources.loading import check_dense
from dask_dpmeans.sources.opening import (
    Opener,
    known_chunks,
    lazy_array,
    numeric_table,
    table_rows,
    working_dtype,
)
from dask_dpmeans.sources.refusals import refuse_kind, refuse_path
from dask_dpmeans.sources.safety.checks import describe_flaw, limit_of
from dask_dpmeans.sources.shards import Prepare, read_rows


def is_lazy(data: Any) -> bool:
    """Whether results for `data` should be Dask arrays: it is not in this process's memory."""
    return isinstance(data, da.Array | zarr.Array | StoredCsr) or hasattr(data, "to_dask_array")


def is_stored(data: Any) -> bool:
    """Whether `data` can be read in parts without computing anything else: no Dask array or DataFrame."""
    return isinstance(data, zarr.Array | StoredCsr) or not is_lazy(data)


def lazy_rows(data: Any) -> Any:
    """Lazy data as a Dask array."""
    if hasattr(data, "to_dask_array"):
        return numeric_table(data, "X").to_dask_array()
    if isinstance(data, StoredCsr):
        return lazy_csr(data, read_rows(data))
    return data if isinstance(data, da.Array) else da.from_array(data, chunks=data.chunks)


def lazy_map(
    data: Any,
    kernel: Kernel,
    columns: list[int] | None,
    scale: Float64Array | None,
    dtype: Any,
    width: int | None,
    groups: Any = None,
    features: Features | None = None,
) -> Any:
    """The first of the kernel's answers for each row, lazily, with the row chunks of the input.

    The kernel, and with it the model, stands in the graph once.  `width` is the number of columns of the answer, None
    where it has one dimension.  Where rows come with `groups`, (n,), the sizes of chunks must be known.
    """
    rows = lazy_rows(data)
    rows = rows.rechunk({1: -1}) if rows.numblocks[1] > 1 else rows
    prepare = Prepare(working_dtype(rows.dtype, "data"), None if columns is None else tuple(columns), scale, features)
    model = delayed((kernel, prepare), name=Keys.of("predict")("model"), traverse=False)
    if groups is not None:
        beside = lazy_rows(groups) if is_lazy(groups) else da.from_array(groups)
        beside = beside.rechunk((rows.chunks[0],))[:, np.newaxis]
        return da.map_blocks(
            dpmeans_predict_groups, rows, beside, model, drop_axis=1, meta=np.empty(0, dtype), dtype=dtype
        )
    if width is None:
        return rows.map_blocks(dpmeans_predict, model, drop_axis=1, meta=np.empty(0, dtype), dtype=dtype)
    chunks = (rows.chunks[0], (width,))
    return rows.map_blocks(dpmeans_predict, model, chunks=chunks, meta=np.empty((0, 0), dtype), dtype=dtype)


def dpmeans_predict_groups(
    rows: Any, groups: np.ndarray[Any, Any], model: tuple[Kernel, Prepare], block_info: Any = None
) -> np.ndarray[Any, Any]:
    """The answer of a chunk's rows with the numbers of their data sets."""
    check_dense(groups, "groups")
    if len(groups) != rows.shape[0]:
        raise InputError(
            f"a chunk of {rows.shape[0]:,} rows has {len(groups):,} groups: call compute_chunk_sizes() on both"
        )
    return dpmeans_predict(rows, model, block_info[0]["array-location"][0][0], groups[:, 0].astype(np.int64))


def dpmeans_predict(
    rows: Any,
    model: tuple[Kernel, Prepare],
    start: int = 0,
    groups: np.ndarray[Any, Any] | None = None,
) -> np.ndarray[Any, Any]:
    """The answer of a chunk's rows; Dask's dashboard shows tasks by this name."""
    if not issparse(rows):
        check_dense(rows, "data")
        return _part_answer(rows, model, start, 0, groups)
    rows, columns, n = csr_chunk(rows), model[1].columns, rows.shape[0]
    height = block_height(rows.shape[1] if columns is None else len(columns))
    answers = []
    for first in range(0, max(1, n), height):
        stop = min(first + height, n)
        sets = None if groups is None else groups[first:stop]
        answers.append(_part_answer(csr_rows(rows, first, stop), model, start, first, sets))
    return np.concatenate(answers)


def _part_answer(
    rows: Any, model: tuple[Kernel, Prepare], start: int, first: int, groups: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any]:
    """The answer of some rows of a chunk, which begins with row `start`, from its row `first` on."""
    kernel, prepare = model
    scratch = Scratch()
    block = Block(start + first, replace(prepare, features=None)(rows, scratch), None, scratch, None, groups)
    n = rows.shape[0]
    flaw = first_flaw(block, limit_of(rows.dtype)) if n else None
    if flaw is not None:
        column = f", column {flaw.column} of those used" * (flaw.column >= 0)
        raise InputError(describe_flaw(flaw, f"row {flaw.row - start:,} of a chunk{column}"))
    if prepare.features is not None:
        block = replace(block, rows=prepare.features(block.rows, scratch))
        flaw = first_flaw(block, np.inf) if n else None
        if flaw is not None:
            raise InputError(prepare.features.complaint(f"row {flaw.row - start:,} of a chunk"))
    return kernel(block)[0]


def opened_rows(data: Any, model: str = "the estimator") -> Any:
    """Rows in a Zarr group, which are CSR, or in a sparse array, once it is known to be valid; other data as it is.

    What converts sparse arrays writes numbers wherever broken indices say, so that none may see them before.

    Raises
    ------
    InputError
        Of what is no rows: a path, which `model` does not take, a query that has not run.
    """
    if isinstance(data, str | os.PathLike):
        refuse_path(data, model)
    refuse_kind(data, "X")
    return Opener("X", 2).open(data) if isinstance(data, zarr.Group) or issparse(data) else data


def known_rows(data: Any) -> Any:
    """Lazy data as an array whose number of rows is known."""
    if hasattr(data, "to_dask_array"):
        return table_rows(data)
    return known_chunks(data) if isinstance(data, da.Array) else data


def concatenated(tables: list[Any]) -> tuple[Any, list[int]]:
    """Tables of the same columns as one, lazy where one of them is, and the rows of each."""
    if not any(map(is_lazy, tables)):
        sparse = any(map(issparse, tables))
        return vstack(tables, "csr") if sparse else np.concatenate(tables), [table.shape[0] for table in tables]
    parts = [lazy_rows(known_rows(table)) if is_lazy(table) else lazy_array(table) for table in tables]
    if any(map(is_csr_dask, parts)):
        parts = [dask_csr(part) for part in parts]
    return da.concatenate(parts), [part.shape[0] for part in parts]
