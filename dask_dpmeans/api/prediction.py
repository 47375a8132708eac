"""Labels of new rows by a finished run, from a store to a store."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from dask_dpmeans import checks, sources
from dask_dpmeans.api.description import versions
from dask_dpmeans.api.grid_arrays import describe_grid, write_grid
from dask_dpmeans.api.labelled_table import LabelledTable, labelled_table
from dask_dpmeans.api.loading import LoadedRun, read_run, unfitted_run
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.membership import SoftPredictions
from dask_dpmeans.storage.array_spec import ArraySpec
from dask_dpmeans.storage.arrays import LZ4
from dask_dpmeans.storage.location import AnyPlace, check_options
from dask_dpmeans.storage.manifest import malformed_as_corrupt
from dask_dpmeans.storage.one_chunk import ZSTD
from dask_dpmeans.storage.output import Output, new_output
from dask_dpmeans.storage.run_store import Result
from dask_dpmeans.storage.writer import Writer

PREDICTED = (
    ArraySpec("label", ("row",), "int32", over_rows=True),
    ArraySpec("squared_distance", ("row",), over_rows=True),
    ArraySpec("beyond", ("row",), "bool", over_rows=True),
)
"""Arrays that `predict` writes."""
SOFT = (
    ArraySpec("top_label", ("row", "top"), "int32", over_rows=True),
    ArraySpec("probability", ("row", "top"), "float32", over_rows=True),
    ArraySpec("margin", ("row",), "float32", over_rows=True),
)
"""Arrays that `predict` writes with `soft`."""


@dataclass(frozen=True)
class Predicted:
    """The outcome of `predict`."""

    n_rows: int
    beyond: int
    """Number of rows that cost more than the penalty at every center."""
    unlabeled: int = 0
    """Number of rows of label -1: outliers, noise, and rows without any value."""


def predict(
    run: AnyPlace | Result,
    data: Any,
    out: AnyPlace,
    *,
    groups: Any = None,
    soft: int | None = None,
    keep: Sequence[str] | None = None,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **where: Unpack[sources.Opening],
) -> Predicted:
    """Label the rows of `data` with the clusters of a run.

    Writes a Zarr group at `out` with arrays over the rows: ``label`` (int32; -1 for noise of a run
    of `LinkageDPMeans`), ``squared_distance`` (float64, in squared units of the fit) and ``beyond``
    (bool: farther than the square root of the penalty from every center; of several data sets,
    whether a center of its own would cost a row less).

    With `soft`, there are also the most probable clusters of each row, as
    `DPMeans.predict_proba` describes them: ``top_label`` (row, top), int32, the label first (of
    noise, the cluster of its micro-cluster) and -1 where no other cluster matters, ``probability``
    (row, top), float32, and ``margin``, float32, by how much the label is more probable than any
    other cluster.

    If `out` ends with ``.parquet``, these values are the columns of one Parquet file instead,
    beside the columns `keep` of the table `data`.  It appears when it is complete; until then a
    folder ``OUT.*.partial`` beside it holds its parts.

    Parameters
    ----------
    run : path or URL of a finished run, or a run that was read
    data : as `as_source` takes it, with the columns that the run was fitted on; a table may have
        others too, in any order
    out : path or URL of a new group, or path of a Parquet file
    groups : numbers of the rows' data sets, where the run is of several
    soft : number of most probable clusters to write for each row, of a run of `DPMeans` or
        `LinkageDPMeans`
    keep : names of columns of the table `data` to write beside the labels
    force : remove the predictions that are there
    storage_options : options of fsspec for the URLs among these
    **where : client, worker_timeout, threads, memory_limit, on_pass, as `as_source` takes them

    Returns
    -------
    Predicted
    """
    sources.check_option_names("predict", where, sources.Opening)
    if isinstance(run, Result):
        result = run
    else:
        _refuse_model(run)
        check_options(storage_options, run, data, out, groups)
        result = read_run(run, storage_options)
    inputs, options = [result.store.location, data, groups], storage_options
    stored: sources.Stored = {"storage_options": options, **where}
    table = check_target(out, inputs, soft=soft, keep=keep, force=force, storage_options=options)
    if table is None:
        target = Output.at(out, options)
        return _predict_group(result, data, target, groups, soft, force, inputs, **stored)
    kept = sources.kept_columns(data, keep, options) if keep else None
    rows = rows_at(result, data, keep, options)
    with table.folder() as folder:
        group = Output.at(folder / "predictions.zarr")
        found = _predict_group(result, rows, group, groups, None, False, inputs, **stored)
        table.write(folder / "predictions.zarr", PREDICTED, kept)
    return found


def _refuse_model(run: object) -> None:
    """Raise `InputError` for an estimator in the place of a run."""
    if hasattr(run, "predict"):
        raise InputError(
            f"run must be the path of a run, got {checks.describe_value(run)}: use model.predict(X), or make "
            "a run with dask_dpmeans.fit(data, run, model)"
        )


def check_target(
    out: AnyPlace,
    inputs: Sequence[Any],
    *,
    soft: int | None,
    keep: Sequence[str] | None,
    force: bool,
    storage_options: Mapping[str, Any] | None = None,
) -> LabelledTable | None:
    """Refuse to write over anything but predictions with `force`; return the table, if it is one.

    The run is the first of the `inputs`.
    """
    table = labelled_table(out, inputs, PREDICTED, keep=keep, soft=soft, force=force)
    if table is None:
        Output.at(out, storage_options).check_target("predictions", inputs, force=force)
    return table


def _predict_group(
    result: Result,
    data: Any,
    target: Output,
    groups: Any,
    soft: int | None,
    force: bool,
    inputs: Sequence[Any],
    **where: Unpack[sources.Stored],
) -> Predicted:
    run = unfitted_run(result)
    if run.spec.takes_groups and groups is None:
        raise InputError("the run is of several data sets: give the groups of the rows, --groups")
    if groups is not None and not run.spec.takes_groups:
        raise InputError("the run is of one data set: it has no use for groups")
    with malformed_as_corrupt(result.store.location):
        kernel = _kernel(run, soft)
    source = sources.as_source(
        rows_at(result, data, None, where.get("storage_options")),
        groups=groups,
        columns=result.manifest.input.columns,
        scale=result.arrays.get("feature_scale"),
        features=run.features,
        centers=result.arrays.get("cluster_averages", result.arrays.get("cluster_centers")),
        stored_columns=result.manifest.input.shape[1],
        column_names=result.manifest.column_names or (),
        **run.model._reads(),
        **where,
    )
    counts = _write(result, source, kernel, target, inputs, force)
    return Predicted(source.plan.n_rows, *counts)


def rows_at(
    result: Result,
    data: Any,
    keep: Sequence[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Return a table with the columns of the run alone, and the path of a cube with its names.

    Other data are returned as they are.
    """
    grid = result.manifest.grid
    if grid is None or keep is not None:
        return sources.feature_columns(
            data, result.manifest.column_names, keep or (), storage_options
        )
    if isinstance(data, sources.CubePath | sources.OpenedPath) or not isinstance(
        data, str | os.PathLike
    ):
        return data
    names = (tuple(grid[name]) for name in ("samples", "features", "variables"))
    return sources.CubePath(os.fspath(data), *names)


def _kernel(run: LoadedRun, soft: int | None) -> Kernel:
    """Return the kernel that predicts; with `soft`, that many clusters of each row too."""
    if soft is None:
        return run.spec.predictor(run.result)
    if run.spec.soft_predictor is None:
        raise InputError(
            f"no mixture is known for a run of {run.spec.estimator.__name__}: leave soft out"
        )
    return run.spec.soft_predictor(run.result, checks.integer("soft", soft))


def _write(
    result: Result,
    source: sources.RowSource,
    kernel: Kernel,
    target: Output,
    inputs: Sequence[Any],
    force: bool,
) -> tuple[int, int]:
    """Write the predictions; return the numbers of rows beyond the penalty, and of label -1."""
    attributes: dict[str, Any] = {"run": result.store.shown, "versions": versions()}
    n, chunk_rows = source.plan.n_rows, source.plan.chunk_rows
    specs, sizes = list(PREDICTED), {"row": n}
    if isinstance(kernel, SoftPredictions):
        specs += SOFT
        sizes["top"] = kernel.top
    names = [spec.name for spec in (*PREDICTED, *SOFT)]
    if source.cube is not None:
        attributes["grid"] = describe_grid(source.cube, names)
    with new_output(
        target.location, "predictions", attributes, names, force=force, inputs=inputs
    ) as new:
        arrays = {}
        for spec in specs:
            shape = tuple(sizes[name] for name in spec.dimensions)
            compressor = LZ4 if spec in SOFT else ZSTD
            arrays[spec.name] = new.create_rows(
                spec.name, shape, chunk_rows, spec.dtype, spec.dimensions, compressor
            )
        new.write_digests(arrays, source.map(kernel, Writer(tuple(arrays.values())), "predict"))
        if source.cube is not None:
            write_grid(new, source, source.cube, arrays["label"])
    parts = [slice(start, start + chunk_rows) for start in range(0, n, chunk_rows)]
    beyond = sum(int(np.count_nonzero(arrays["beyond"][part])) for part in parts)
    unlabeled = sum(int(np.count_nonzero(np.asarray(arrays["label"][part]) < 0)) for part in parts)
    return beyond, unlabeled
