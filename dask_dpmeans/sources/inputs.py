"""`as_source`: the way from what a user has to checked rows that a method can work on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from distributed import Client

from dask_dpmeans.engine.plan import Plan, block_height
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Features, Float64Array
from dask_dpmeans.kernels.column_statistics import ColumnStatistics, Summary
from dask_dpmeans.sources.cluster import WORKER_TIMEOUT
from dask_dpmeans.sources.dataset import Ledger, RowSource
from dask_dpmeans.sources.layout import lay_out, surveyed
from dask_dpmeans.sources.loading import shards_of
from dask_dpmeans.sources.progress import OnPass
from dask_dpmeans.sources.safety.checks import check_summary
from dask_dpmeans.sources.shards import FoldJob, Prepare, Shard


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
    column_names: Sequence[str] | None = None,
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
    column_names : sequence of str, optional
        What the columns were called that a run was fitted on, to be compared with those of `data` by scikit-learn's
        rule; empty where they had no names.
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
        it depends on no chunks.  The summary is of two numbers a row, as `SparseStatistics` has them.
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
        column_names=column_names,
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
    shards = shards_of(layout, executor)
    pieces = [(shards[shard], blocks) for shard, blocks in plan.pieces(range(plan.n_blocks))]

    def fold(survey: ColumnStatistics, prepare: Prepare) -> Summary:
        return executor.fold(FoldJob(survey, prepare, plan.block_rows), pieces, "survey")

    summary, prepare = surveyed(layout, fold, scale)
    check_summary(summary, layout.rows, prepare, centers, groups_are)
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
        layout.room,
        layout.column_names,
    )


def featured(source: RowSource, features: Features) -> RowSource:
    """The same rows as kernels see them once `features` are made of them, checked in one pass.

    Features of rows in memory are kept there too where they fit beside them.
    """
    summary = source.fold(ColumnStatistics(np.inf, features), name="survey")
    size = source.plan.n_rows * len(summary.sums) * source.prepare.dtype.itemsize
    prepare = replace(source.prepare, features=features, keep=source.resident and size <= source.room)
    check_summary(summary, None, prepare, None)
    plan, height = source.plan, min(source.plan.block_rows, block_height(len(summary.sums)))
    shard_blocks = plan.shard_rows // height
    return replace(
        source, plan=Plan(plan.n_rows, height, shard_blocks), prepare=prepare, summary=summary, ledger=Ledger()
    )
