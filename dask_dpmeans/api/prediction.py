"""From a run and new rows to a store of labels."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Unpack

import numpy as np

from dask_dpmeans.api.description import versions
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.kernel_maps import Approximation
from dask_dpmeans.kernels.assign import Predictions
from dask_dpmeans.kernels.block import Features
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.features import Projection
from dask_dpmeans.kernels.hdp import GroupPredictions, Prices, Sharing
from dask_dpmeans.kernels.kernel_centers import ImplicitPredictions
from dask_dpmeans.methods import gibbs
from dask_dpmeans.methods.kernel.search import EXACT
from dask_dpmeans.methods.spectral.relaxation import Spectrum
from dask_dpmeans.sources import Opening, as_source
from dask_dpmeans.storage.arrays import Writer
from dask_dpmeans.storage.location import AnyPlace, check_options
from dask_dpmeans.storage.manifest import as_written
from dask_dpmeans.storage.run_store import Result, RunStore, new_group

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
    check_options(storage_options, run, data, out, groups)
    result = RunStore.at(run, storage_options).result()
    target = RunStore.at(out, storage_options)
    target.check_target("predictions", [run, data, groups], force=force)
    if result.shared != (groups is not None):
        raise InputError(
            "the run is of several data sets: give the groups of the rows, --groups"
            if result.shared
            else "the run is of one data set: it has no use for groups"
        )
    with as_written(result.store.location):
        kernel, features = predictions(result), features_of(result)
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


def predictions(result: Result) -> Kernel:
    """The kernel of a map that predicts with the clusters of a run."""
    asked = result.manifest["parameters"]
    if "spectrum" in asked and "projection" not in result.arrays:
        raise InputError(
            "the clusters of the run are of the rows that were fitted, whose labels are in it: for new rows fit with "
            "affinity linear or rbf"
        )
    if "normalized" in asked:
        raise InputError("the clusters of the run are of the nodes of its graph, whose labels are in it")
    if result.manifest["method"] == gibbs.Method.name:
        raise InputError("the clusters of the run are a draw given its own rows, whose labels are in it")
    if result.manifest["method"] in EXACT:
        method = EXACT[result.manifest["method"]](**asked)
        if method.precomputed:
            raise InputError(
                "the run is of a precomputed kernel: similarities to its rows do not tell distances, and labels alone "
                "come from load(run).predict(K)"
            )
        return ImplicitPredictions(method.restored(result.arrays), method.penalty)
    centers = result.arrays["cluster_centers"]
    if not result.shared:
        return Predictions(Centers(centers), asked["penalty"])
    uses = result.arrays["local_groups"], result.arrays["local_centers"]
    sharing = Sharing.of(centers, *uses, result.manifest["input"]["n_groups"])
    return GroupPredictions(sharing, Prices(asked["local_penalty"], asked["global_penalty"]))


def features_of(result: Result) -> Features | None:
    """What a run made of the rows, where it did."""
    asked = result.manifest["parameters"]
    if "spectrum" in asked:
        return projection(result)
    if "approximation" not in asked:
        return result.features
    names = [field.name for field in fields(Approximation)]
    return Approximation(**{name: asked[name] for name in names}).restored(result.arrays)


def projection(result: Result) -> Projection | None:
    """What a run's centers are centers of, if it is of eigenvectors that rows can be projected on."""
    if "projection" not in result.arrays:
        return None
    fitted, arrays = result.manifest["input"], result.arrays
    columns = fitted["shape"][1] if fitted["columns"] is None else len(fitted["columns"])
    asked = Spectrum(**result.manifest["parameters"]["spectrum"])
    axes = asked.axes(arrays["projection"], arrays.get("landmarks"), columns)
    return Projection.of(axes, arrays["eigenvalues"])
