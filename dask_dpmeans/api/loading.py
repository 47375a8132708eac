"""Fitted estimators of finished runs."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dask_dpmeans.api.description import describe_parameters
from dask_dpmeans.checks import describe_value
from dask_dpmeans.engine.history import FIGURES
from dask_dpmeans.estimators.checked_rows import note_columns
from dask_dpmeans.estimators.spec import MethodSpec
from dask_dpmeans.kernels.block import Features
from dask_dpmeans.registry import METHODS, spec_of_run
from dask_dpmeans.sources import Grid, lazy_rows
from dask_dpmeans.storage.array_spec import FEATURE_NAMES, RUN_ARRAYS
from dask_dpmeans.storage.arrays import CheckedArray
from dask_dpmeans.storage.location import AnyPlace, check_options
from dask_dpmeans.storage.manifest import malformed_as_corrupt
from dask_dpmeans.storage.run_store import Result, RunStore


@dataclass(frozen=True)
class LoadedRun:
    """A finished run that was read, with the specification of its method and its estimator."""

    result: Result
    spec: MethodSpec
    model: Any
    """The estimator: fitted, or not yet fitted."""
    features: Features | None
    """The features that the fit made of each row, if any."""
    labels: CheckedArray | None = None
    """(n,), the labels, of which no chunk is missing; None with an estimator that is not fitted."""


def load(run: AnyPlace, *, storage_options: Mapping[str, Any] | None = None) -> Any:
    """Return the fitted estimator of a finished run; its labels are a lazy Dask array.

    Parameters
    ----------
    run : path or URL of the run store
    storage_options : options of fsspec for a URL: endpoints, credentials

    Raises
    ------
    InputError
        There is no finished run of this package.
    CorruptStoreError
        Something in it is missing or does not match its checksum.
    """
    check_options(storage_options, run)
    found = open_run(run, storage_options)
    found.model.labels_ = lazy_rows(found.labels)
    return found.model


def open_run(run: AnyPlace, storage_options: Mapping[str, Any] | None = None) -> LoadedRun:
    """Read a finished run once, and return it with its fitted estimator, which has no labels."""
    return fitted_run(read_run(run, storage_options))


def read_run(run: AnyPlace, storage_options: Mapping[str, Any] | None = None) -> Result:
    """Read a finished run, labels aside."""
    store = RunStore.at(run, storage_options, "run")
    return store.result(lambda manifest: spec_of_run(manifest, store.shown).arrays)


def fitted_run(result: Result) -> LoadedRun:
    """Return a run with its fitted estimator, and its labels beside it: Dask takes long to load."""
    with malformed_as_corrupt(result.store.location):
        run = unfitted_run(result)
        manifest, model = result.manifest, run.model
        columns = manifest.input.columns
        model.random_state_ = manifest.random_state
        note_columns(model, manifest.input.shape[1], manifest.column_names)
        model.feature_columns_ = None if columns is None else list(columns)
        model.feature_scale_ = result.arrays.get("feature_scale")
        model.features_ = run.features
        if manifest.grid is not None:
            model.grid_ = Grid(manifest.grid["samples"], manifest.grid["features"])
        model._restore(result)
        model.n_passes_ = manifest.n_passes
        return replace(run, labels=result.open_rows("labels"))


def unfitted_run(result: Result) -> LoadedRun:
    """Return a run with the unfitted estimator that it was requested with.

    Raises
    ------
    CorruptStoreError
        The parameters of the algorithm do not follow from the estimator.
    """
    with malformed_as_corrupt(result.store.location):
        manifest = result.manifest
        spec = spec_of_run(manifest, result.store.shown)
        parameters = {
            name: _value(value, result) for name, value in manifest.estimator.parameters.items()
        }
        model = spec.estimator(**parameters | {"random_state": manifest.random_state})
        model.categories_ = manifest.input.categories or None
        if manifest.choice is not None:
            choice = model._choice_type.from_json(manifest.choice)
            model._set_choice(choice.penalties, choice, None)
        algorithm, feature_map = model.method().seeded(manifest.random_state), model._feature_map()
        facts = {"method": algorithm.name, "learned_features": feature_map is not None}
        stored = {name: getattr(manifest, name) for name in facts}
        for name, value in describe_parameters(algorithm, feature_map).items():
            facts[f"parameters.{name}"] = value
        stored |= {f"parameters.{name}": value for name, value in manifest.parameters.items()}
        for name in sorted(stored.keys() | facts.keys(), reverse=True):
            if name not in stored or name not in facts or stored[name] != facts[name]:
                shown = describe_value(stored.get(name))
                raise ValueError(f"{name} cannot be {shown} for that estimator")
        return LoadedRun(result, spec, model, spec.learned_features(result) or algorithm.features)


def run_array_names() -> frozenset[str]:
    """Return the names of all arrays that runs of any method have."""
    specs = [*RUN_ARRAYS, *(spec for entry in METHODS.values() for spec in entry.spec.arrays)]
    return frozenset([*FIGURES, FEATURE_NAMES, *(spec.name for spec in specs)])


def _value(value: Any, result: Result) -> Any:
    """Return a parameter: JSON holds tuples as lists, and an array of the run by its name."""
    if isinstance(value, dict) and set(value) == {"array"} and value["array"] in result.arrays:
        return result.arrays[value["array"]]
    return tuple(value) if isinstance(value, list) else value
