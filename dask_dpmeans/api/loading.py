"""The fitted estimator of a finished run."""

from collections.abc import Mapping
from typing import Any

from dask_dpmeans.api.description import described_parameters
from dask_dpmeans.checks import shown
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
        spec, model = restored(result)
        return _fitted(model, spec, result)


def _fitted(model: Any, spec: MethodSpec, result: Result) -> Any:
    """Note in an estimator what a result holds."""
    model.random_state_ = result.manifest["random_state"]
    note_columns(model, result.manifest["input"]["shape"][1], result.manifest.get("column_names"))
    model.feature_columns_ = result.manifest["input"]["columns"]
    model.feature_scale_ = result.arrays.get("feature_scale")
    model.features_ = spec.features(result)
    model._restore(result)
    model.n_passes_ = result.manifest["n_passes"]
    model.labels_ = lazy_rows(result.open_labels())
    return model


def restored(result: Result) -> tuple[MethodSpec, Any]:
    """Return the spec of a run's method and the estimator that the run was asked for, unfitted.

    Raises
    ------
    ValueError
        The parameters of the algorithm are not those of the estimator; `as_written` makes an error of it.
    """
    spec, seed = spec_of_run(result), result.manifest["random_state"]
    told = {name: _value(value, result) for name, value in result.manifest["estimator"]["parameters"].items()}
    model = spec.estimator(**told | {"random_state": seed})
    stored, algorithm = result.manifest["parameters"], model.method().seeded(seed)
    expected = described_parameters(algorithm, model._feature_map())
    for name in sorted(stored.keys() | expected.keys()):
        if name not in stored or name not in expected or stored[name] != expected[name]:
            raise ValueError(f"parameters.{name} cannot be {shown(stored.get(name))} for that estimator")
    if result.manifest["method"] != algorithm.name:
        raise ValueError(f"method cannot be {shown(result.manifest['method'])} for that estimator")
    return spec, model


def _value(value: Any, result: Result) -> Any:
    """A parameter, of which JSON holds tuples as lists and an array of the run by its name."""
    if isinstance(value, dict):
        return result.arrays[value["array"]]
    return tuple(value) if isinstance(value, list) else value
