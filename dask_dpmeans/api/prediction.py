"""From a run and new rows to a store of labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from dask_dpmeans.api.description import versions
from dask_dpmeans.api.loading import restored
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources import Opening, as_source, check_option_names
from dask_dpmeans.storage.arrays import Writer
from dask_dpmeans.storage.location import AnyPlace, check_options
from dask_dpmeans.storage.manifest import as_written
from dask_dpmeans.storage.run_store import RunStore, new_group

PREDICTED = {"label": np.int32, "squared_distance": np.float64, "beyond": np.bool_}
"""Arrays over the rows that `predict` writes."""


@dataclass(frozen=True)
class Predicted:
    """What `predict` came to."""

    n_rows: int
    beyond: int
    """Rows beyond every radius."""


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

    Writes a Zarr group at `out` with arrays over the rows: ``label`` (int32), ``squared_distance`` (float64, in squared
    units of the fit) and ``beyond`` (bool: farther than the square root of the penalty from every center; of several
    data sets, whether a center of its own would cost a row less).

    Parameters
    ----------
    run : path or URL of a finished run
    data : what `as_source` takes, with the columns that the run was fitted on
    out : path or URL of a new group
    groups : numbers of the rows' data sets, where the run is of several
    force : remove the predictions or the run of ours that are there
    storage_options : what fsspec takes for the URLs among these
    **where : client, worker_timeout, threads, memory_limit, on_pass, as `as_source` takes them

    Returns
    -------
    Predicted
    """
    check_option_names("predict", where, Opening)
    check_options(storage_options, run, data, out, groups)
    result = RunStore.at(run, storage_options).result()
    target = RunStore.at(out, storage_options)
    target.check_target("predictions", [run, data, groups], force=force)
    with as_written(result.store.location):
        spec, _ = restored(result)
    if spec.takes_groups != (groups is not None):
        raise InputError(
            "the run is of several data sets: give the groups of the rows, --groups"
            if spec.takes_groups
            else "the run is of one data set: it has no use for groups"
        )
    with as_written(result.store.location):
        kernel, features = spec.predictor(result), spec.features(result)
    fitted = result.manifest["input"]
    source = as_source(
        data,
        groups=groups,
        columns=fitted["columns"],
        scale=result.arrays.get("feature_scale"),
        features=features,
        centers=result.arrays.get("cluster_centers"),
        stored_columns=fitted["shape"][1],
        column_names=result.manifest.get("column_names") or (),
        storage_options=storage_options,
        **where,
    )
    said = {"run": result.store.shown, "versions": versions()}
    n, chunk_rows = source.plan.n_rows, source.plan.chunk_rows
    with new_group(target.location, "predictions", said, force=force, inputs=[run, data, groups]) as draft:
        arrays = {name: draft.create_rows(name, (n,), chunk_rows, dtype) for name, dtype in PREDICTED.items()}
        draft.keep(arrays, source.map(kernel, Writer(tuple(arrays.values())), "predict"))
    beyond = arrays["beyond"]
    return Predicted(n, sum(int(np.count_nonzero(beyond[a : a + chunk_rows])) for a in range(0, n, chunk_rows)))
