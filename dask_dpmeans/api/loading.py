"""The fitted estimator of a finished run."""

from collections.abc import Mapping
from typing import Any

from dask_dpmeans.api import prediction
from dask_dpmeans.api.fitting import Model
from dask_dpmeans.estimators.base import note_columns
from dask_dpmeans.estimators.dpmeans import DPMeans
from dask_dpmeans.estimators.gibbs import GibbsMixture, parameters_of
from dask_dpmeans.estimators.graph_cut import METHODS, GraphCutDPMeans
from dask_dpmeans.estimators.hdp import HDPMeans
from dask_dpmeans.estimators.kernel import KernelDPMeans
from dask_dpmeans.estimators.spectral import SpectralDPMeans
from dask_dpmeans.methods import gibbs
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.hdp import search as hdp_search
from dask_dpmeans.methods.kernel import search as kernel_search
from dask_dpmeans.sources import lazy_rows
from dask_dpmeans.storage.location import AnyPlace, check_options
from dask_dpmeans.storage.manifest import as_written
from dask_dpmeans.storage.run_store import Result, RunStore

KERNEL = ("kernel", "gamma", "degree", "coef0", "approximation", "n_components")
"""Parameters of kernels and their approximations that a run keeps beside those of its method."""


def load(run: AnyPlace, *, storage_options: Mapping[str, Any] | None = None) -> Model:
    """The fitted estimator of a finished run; its labels are a lazy Dask array.

    Parameters
    ----------
    run : path or URL of the run store
    storage_options : what fsspec takes for a URL: endpoints, credentials

    Raises
    ------
    InputError
        Where there is no finished run of ours.
    CorruptStoreError
        Where something in it is missing or does not match its checksum.
    """
    check_options(storage_options, run)
    result = RunStore.at(run, storage_options).result()
    with as_written(result.store.location):
        return _loaded(result)


def _loaded(result: Result) -> Model:
    """The fitted estimator of a result."""
    model = _unfitted(result)
    model.method()  # which refuses parameters that are none
    model.random_state_ = result.manifest["random_state"]
    note_columns(model, result.manifest["input"]["shape"][1], result.manifest.get("column_names"))
    model.feature_columns_ = result.manifest["input"]["columns"]
    model.feature_scale_ = result.arrays.get("feature_scale")
    model.features_ = prediction.features_of(result)
    model._restore(result)
    model.n_passes_ = result.manifest["n_passes"]
    model.labels_ = lazy_rows(result.open_labels())
    return model


def _unfitted(result: Result) -> Model:
    """The estimator that a run was asked for."""
    parameters, method = result.manifest["parameters"], result.manifest["method"]
    if method == gibbs.Method.name:
        return GibbsMixture(**parameters_of(parameters), random_state=result.manifest["random_state"])
    shared = {name: parameters[name] for name in ("max_iter", "tol", "max_clusters")}
    shared["random_state"] = result.manifest["random_state"]
    shared["search"] = method in (search.Method.name, hdp_search.Method.name, kernel_search.Method.name)
    asked = {name: parameters[name] for name in KERNEL if name in parameters}
    if result.shared:
        return HDPMeans(parameters["local_penalty"], parameters["global_penalty"], **asked, **shared)
    if asked:
        return KernelDPMeans(parameters["penalty"], **asked, **shared)
    if "normalized" in parameters:
        del shared["search"]
        cut = "normalized" if parameters["normalized"] else "ratio"
        init = next(name for name, each in METHODS.items() if each.name == method)
        return GraphCutDPMeans(parameters["penalty"], cut=cut, init=init, **shared)
    if "spectrum" in parameters:
        return SpectralDPMeans(**parameters["spectrum"], threshold=parameters["penalty"], **shared)
    return DPMeans(
        parameters["penalty"],
        metric=parameters["metric"],
        init="mean" if parameters["centers"] is None else result.arrays["first_centers"],
        **shared,
    )
