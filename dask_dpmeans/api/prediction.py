"""Labels of new rows by a finished run, from a store to a store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from dask_dpmeans.api.description import versions
from dask_dpmeans.api.loading import read_run, unfitted_run
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources import Opening, RowSource, Stored, as_source, check_option_names
from dask_dpmeans.storage.array_spec import ArraySpec
from dask_dpmeans.storage.arrays import Writer
from dask_dpmeans.storage.location import AnyPlace, check_options
from dask_dpmeans.storage.manifest import malformed_as_corrupt
from dask_dpmeans.storage.output import Output, new_output
from dask_dpmeans.storage.run_store import Result

PREDICTED = (
    ArraySpec("label", ("row",), "int32", over_rows=True),
    ArraySpec("squared_distance", ("row",), over_rows=True),
    ArraySpec("beyond", ("row",), "bool", over_rows=True),
)
"""Arrays that `predict` writes."""


@dataclass(frozen=True)
class Predicted:
    """The outcome of `predict`."""

    n_rows: int
    beyond: int
    """Number of rows beyond every radius."""


def predict(
    run: AnyPlace,
    data: Any,
    out: AnyPlace,
    *,
    groups: Any = None,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **where: Unpack[Opening],
) -> Predicted:
    """Label the rows of `data` with the clusters of a run.

    Writes a Zarr group at `out` with arrays over the rows: ``label`` (int32), ``squared_distance``
    (float64, in squared units of the fit) and ``beyond`` (bool: farther than the square root of the
    penalty from every center; of several data sets, whether a center of its own would cost a row
    less).

    Parameters
    ----------
    run : path or URL of a finished run
    data : as `as_source` takes it, with the columns that the run was fitted on
    out : path or URL of a new group
    groups : numbers of the rows' data sets, where the run is of several
    force : remove the predictions that are there
    storage_options : options of fsspec for the URLs among these
    **where : client, worker_timeout, threads, memory_limit, on_pass, as `as_source` takes them

    Returns
    -------
    Predicted
    """
    check_option_names("predict", where, Opening)
    check_options(storage_options, run, data, out, groups)
    stored: Stored = {"storage_options": storage_options, **where}
    return predict_with(
        read_run(run, storage_options), data, out, groups=groups, force=force, **stored
    )


def predict_with(
    result: Result,
    data: Any,
    out: AnyPlace,
    *,
    groups: Any = None,
    force: bool = False,
    **where: Unpack[Stored],
) -> Predicted:
    """Label rows with the clusters of a run that was read; parameters as `predict` takes them."""
    target = Output.at(out, where.get("storage_options"))
    inputs = [result.store.location, data, groups]
    target.check_target("predictions", inputs, force=force)
    run = unfitted_run(result)
    if run.spec.takes_groups and groups is None:
        raise InputError("the run is of several data sets: give the groups of the rows, --groups")
    if groups is not None and not run.spec.takes_groups:
        raise InputError("the run is of one data set: it has no use for groups")
    with malformed_as_corrupt(result.store.location):
        kernel = run.spec.predictor(result)
    source = as_source(
        data,
        groups=groups,
        columns=result.manifest.input.columns,
        scale=result.arrays.get("feature_scale"),
        features=run.features,
        centers=result.arrays.get("cluster_centers"),
        stored_columns=result.manifest.input.shape[1],
        column_names=result.manifest.column_names or (),
        **where,
    )
    beyond = _write(result, source, kernel, target, inputs, force)
    return Predicted(source.plan.n_rows, beyond)


def _write(
    result: Result,
    source: RowSource,
    kernel: Kernel,
    target: Output,
    inputs: Sequence[Any],
    force: bool,
) -> int:
    """Write the predictions, and return the number of rows beyond every radius."""
    attributes = {"run": result.store.shown, "versions": versions()}
    kinds = {spec.name: spec.dtype for spec in PREDICTED}
    n, chunk_rows = source.plan.n_rows, source.plan.chunk_rows
    with new_output(
        target.location, "predictions", attributes, kinds, force=force, inputs=inputs
    ) as new:
        arrays = {name: new.create_rows(name, (n,), chunk_rows, kinds[name]) for name in kinds}
        new.write_digests(arrays, source.map(kernel, Writer(tuple(arrays.values())), "predict"))
    beyond, starts = arrays["beyond"], range(0, n, chunk_rows)
    return sum(int(np.count_nonzero(beyond[start : start + chunk_rows])) for start in starts)
