"""What an output says of how it was made."""

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from numbers import Integral, Real
from typing import Any

import numpy as np

from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.spec import ArrayParameter
from dask_dpmeans.estimators.transform import FeatureMap
from dask_dpmeans.kernels.column_statistics import Summary
from dask_dpmeans.sources import Layout, RowSource
from dask_dpmeans.storage.location import shown_path
from dask_dpmeans.storage.manifest import FORMAT


def asked(
    method: Algorithm[Any],
    seed: int,
    source: RowSource | Layout,
    *,
    scaled: bool,
    weighted: bool,
    feature_map: FeatureMap | None = None,
) -> dict[str, Any]:
    """What a run is asked, as JSON holds it; the fingerprint of its rows is known once they were read."""
    columns = source.prepare.columns
    return {
        "format": FORMAT,
        "kind": "run",
        "method": method.name,
        "parameters": described_parameters(method, feature_map),
        "random_state": seed,
        "input": {
            "shape": [source.plan.n_rows, source.stored_columns],
            "dtype": source.stored_dtype.str,
            "columns": None if columns is None else list(columns),
            "scaled": scaled,
            "weighted": weighted,
            "block_rows": source.plan.block_rows,
        },
        "column_names": None if source.column_names is None else list(source.column_names),
        "checksummed": source.checksummed,
        "versions": versions(),
    }


def sources_of(data: Any, groups: Any, sample_weight: Any) -> dict[str, str | None]:
    """Where the input is, without credentials; None for what is in memory, or not there at all."""
    return {"data": shown_path(data), "groups": shown_path(groups), "sample_weight": shown_path(sample_weight)}


def fingerprint(summary: Summary) -> str:
    """A digest of what the first pass found, by which other rows are told.

    Of a column that holds both zeros either may be the least value, as the order of comparisons has it: both are +0.
    """
    figures = [summary.sums, summary.squares, summary.lowest, summary.highest]
    figures += [np.array([summary.weight, summary.n_groups]), np.array([summary.groups_sum], np.uint64)]
    return hashlib.sha256(b"".join((figure + 0).tobytes() for figure in figures)).hexdigest()


def described_parameters(method: Algorithm[Any], feature_map: FeatureMap | None) -> dict[str, Any]:
    """The parameters of an algorithm, and of the features that are learned for it, as JSON holds them."""
    learned = {} if feature_map is None else _described(feature_map.parameters)
    return {key: _described(value) for key, value in vars(method).items()} | learned


def described_estimator(model: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """An estimator as a run keeps it, but for its random state, which the run's seed stands for.

    Parameters
    ----------
    model : the estimator
    parameters : what its `MethodSpec` says of its parameters
    """
    kept = {name: _described(value) for name, value in parameters.items() if name != "random_state"}
    return {"name": type(model).__name__, "parameters": kept}


def _described(value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, ArrayParameter):
        return {"array": value.name}
    if callable(value):
        raise InputError(
            f"the kernel {value!r} is a function, which a run cannot keep: name a kernel, or store the matrix of its "
            "values and use kernel='precomputed'"
        )
    if isinstance(value, np.ndarray):
        return f"sha256:{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, dict):
        return {key: _described(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_described(each) for each in value]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Real) and not isinstance(value, int | float):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


def versions() -> dict[str, str]:
    """What of an output's making is kept: our version, and those that its bytes hang on."""
    return {name: version(name) for name in ("dask-dpmeans", "dask", "numpy", "zarr")}
