"""The fitted estimator of a finished run."""

from collections.abc import Mapping
from typing import Any

from dask_dpmeans.estimators.base import note_columns
from dask_dpmeans.estimators.spec import MethodSpec
from dask_dpmeans.registry import spec_of_run
from dask_dpmeans.sources import lazy_rows
from dask_dpmeans.storage.location import AnyPlace, check_options
from dask_dpmeans.storage.manifest import as_written
from dask_dpmeans.storage.run_store import Result, RunStore


def load(run: AnyPlace, *, storage_options: Mapping[str, Any] | None = None) -> Any:
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
        return _loaded(result, spec_of_run(result))


def _loaded(result: Result, spec: MethodSpec) -> Any:
    """The fitted estimator of a result."""
    model = _unfitted(result, spec)
    model.method()  # which refuses parameters that are none
    model.random_state_ = result.manifest["random_state"]
    note_columns(model, result.manifest["input"]["shape"][1], result.manifest.get("column_names"))
    model.feature_columns_ = result.manifest["input"]["columns"]
    model.feature_scale_ = result.arrays.get("feature_scale")
    model.features_ = spec.features(result)
    model._restore(result)
    model.n_passes_ = result.manifest["n_passes"]
    model.labels_ = lazy_rows(result.open_labels())
    return model


def _unfitted(result: Result, spec: MethodSpec) -> Any:
    """The estimator that a run was asked for."""
    told = {name: _value(value, result) for name, value in result.manifest["estimator"]["parameters"].items()}
    return spec.estimator(**told | {"random_state": result.manifest["random_state"]})


def _value(value: Any, result: Result) -> Any:
    """A parameter, of which JSON holds tuples as lists and an array of the run by its name."""
    if isinstance(value, dict):
        return result.arrays[value["array"]]
    return tuple(value) if isinstance(value, list) else value
