"""`as_source`: from what a user has to checked rows that a method can work on."""

from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from dask_dpmeans.engine.plan import Plan, block_height
from dask_dpmeans.kernels.block import Features, takes_csr
from dask_dpmeans.kernels.column_statistics import MOST_GROUPS, ColumnStatistics, Summary
from dask_dpmeans.sources.column_statistics import column_statistics
from dask_dpmeans.sources.dataset import Ledger, RowSource
from dask_dpmeans.sources.formats.cube import CubeRows
from dask_dpmeans.sources.jobs import FoldJob
from dask_dpmeans.sources.loading import shards_of
from dask_dpmeans.sources.options import (
    Columns,
    Compute,
    InputArrays,
    Requirements,
    SourceOptions,
    check_option_names,
)
from dask_dpmeans.sources.planning import lay_out
from dask_dpmeans.sources.safety.value_checks import check_summary
from dask_dpmeans.sources.shards import Prepare, Shard

CSR_BYTES = 16
"""Bytes of a stored value of encoded CSR rows, with its column, at most."""


def as_source(
    data: Any,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    groups_are: str = "groups",
    **options: Unpack[SourceOptions],
) -> RowSource:
    """Open rows for a method and check them in one pass.

    Parameters
    ----------
    data : array, DataFrame, or path or URL, (n, d)
        A NumPy array, a Dask array or DataFrame, a ``zarr.Array``, or the path or URL of a Zarr
        array or ``.npy`` file.  CSR rows are a sparse matrix or array of scipy, the path of its
        ``.npz`` file, a Zarr group in the layout of anndata or its path, or a Dask array of sparse
        chunks; duplicates are summed.  float32 and float64 stay as they are; integers and float16
        become the smaller of the two that holds them exactly.
    sample_weight : same kinds, (n,), optional
        Weights >= 0, not all 0.
    groups : same kinds, (n,), integers, optional
        Number of each row's data set, from 0 on, or the label of its cluster, in any order.
    groups_are : str
        Name of the argument that groups come from: "groups", or "labels", which may be negative.
    **options
        The fields of `Compute`, `Columns` and `Requirements`, which say what they are.

    Raises
    ------
    InputError
        Data that cannot be used: what was found, where, and what to do.
    """
    check_option_names("as_source", options, SourceOptions)
    arrays = InputArrays(data, sample_weight, groups, groups_are)
    columns, needs = Columns.of(options), Requirements.of(options)
    return open_source(arrays, columns, needs, Compute.of(options))


def open_source(
    arrays: InputArrays, columns: Columns, needs: Requirements, compute: Compute
) -> RowSource:
    """Open rows for a method and check them in one pass, as `as_source` does."""
    layout, executor = lay_out(arrays, columns, needs, compute)
    plan = layout.plan
    shards = shards_of(layout, executor)
    pieces = [(shards[shard], blocks) for shard, blocks in plan.pieces(range(plan.n_blocks))]

    def fold(survey: ColumnStatistics, prepare: Prepare) -> Summary:
        survey = replace(survey, least_group=arrays.least_group)
        return executor.fold(FoldJob(survey, prepare, plan.block_rows), pieces, "survey")

    summary, prepare = column_statistics(layout.stored_dtype, layout.prepare, fold, columns.scale)
    check_summary(
        summary,
        layout.rows,
        prepare,
        needs.centers,
        arrays.groups_name,
        layout.column_names,
        layout.weights is not None,
    )
    return RowSource(
        plan,
        tuple(shards),
        executor,
        prepare,
        summary,
        layout,
        layout.resident or isinstance(shards[0], Shard),
        layout.room,
        layout.n_values,
        layout.rows if isinstance(layout.rows, CubeRows) else None,
    )


def with_csr(source: RowSource, worker: object) -> RowSource:
    """Return a source whose CSR rows stay so for kernels that take them, if `worker` does."""
    csr = source.n_values is not None and takes_csr(worker)
    return replace(source, prepare=replace(source.prepare, csr=csr))


def source_of_features(source: RowSource, features: Features) -> RowSource:
    """Return the source of the features of some rows, checked in one pass.

    Features of rows in memory are kept in memory too, if they fit beside the rows.
    """
    source = with_csr(source, features)
    survey = ColumnStatistics(np.inf, features, source.prepare.missing, 1 - MOST_GROUPS)
    summary = source.fold(survey, name="survey")
    size = source.plan.n_rows * len(summary.sums) * source.prepare.dtype.itemsize
    keep = source.resident and size <= source.room
    csr_bytes = CSR_BYTES * ((source.n_values or 0) + source.plan.n_rows)
    keep_csr = source.resident and csr_bytes <= source.room
    prepare = replace(source.prepare, features=features, keep=keep, keep_csr=keep_csr)
    check_summary(summary, None, prepare, None)
    height = min(source.plan.block_rows, block_height(len(summary.sums)))
    plan = Plan(source.plan.n_rows, height, source.plan.shard_rows // height)
    return replace(source, plan=plan, prepare=prepare, summary=summary, ledger=Ledger())
