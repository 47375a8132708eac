"""Descriptions of how outputs were made, as they keep them."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from numbers import Integral, Real
from typing import Any

import numpy as np

from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.spec import ArrayParameter
from dask_dpmeans.estimators.transform import FeatureMap
from dask_dpmeans.kernels.block import takes_csr
from dask_dpmeans.kernels.column_statistics import Summary
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.sources import CubePath, CubeRows, Layout, RowSource, is_latitude
from dask_dpmeans.storage.location import shown_path
from dask_dpmeans.storage.manifest import EstimatorDescription, InputDescription, Manifest


def request_of(
    method: Algorithm[Any],
    seed: int,
    source: RowSource | Layout,
    *,
    scaled: bool,
    weighted: bool,
    feature_map: FeatureMap | None = None,
) -> Manifest:
    """Return the request of a run, without the estimator, the paths and the fingerprint."""
    layout = source.layout if isinstance(source, RowSource) else source
    columns, names = source.prepare.columns, layout.column_names
    return Manifest(
        kind="run",
        method=method.name,
        parameters=describe_parameters(method, feature_map),
        random_state=seed,
        input=InputDescription(
            shape=(source.plan.n_rows, layout.stored_columns),
            dtype=layout.stored_dtype.str,
            columns=None if columns is None else tuple(columns),
            scaled=scaled,
            weighted=weighted,
            block_rows=source.plan.block_rows,
            categories=layout.categories,
            sparse=source.n_values is not None and takes_csr(feature_map),
        ),
        column_names=None if names is None else tuple(names),
        checksummed=layout.checksummed,
        versions=versions(),
        learned_features=feature_map is not None,
    )


def sources_of(data: Any, groups: Any, sample_weight: Any) -> dict[str, str | None]:
    """Return the paths of the input, without credentials; None for data in memory, or for none."""
    cube = isinstance(data, CubePath) or isinstance(getattr(data, "array", None), CubeRows)
    by_latitude = cube and is_latitude(sample_weight)
    return {
        "data": shown_path(data),
        "groups": shown_path(groups),
        "sample_weight": sample_weight if by_latitude else shown_path(sample_weight),
    }


def fingerprint(summary: Summary) -> str:
    """Return a digest of the figures of the first pass, which differs for other rows.

    The least value of a column with zeros of both signs may be either zero; both are taken as +0.
    """
    figures = [summary.sums, summary.squares, summary.lowest, summary.highest]
    figures += [
        np.array([summary.weight, summary.n_groups]),
        np.array([summary.groups_sum], np.uint64),
    ]
    if summary.observed_weights is not None:
        figures += [summary.observed_weights, np.array([summary.empty_rows])]
    return hashlib.sha256(b"".join((figure + 0).tobytes() for figure in figures)).hexdigest()


def describe_parameters(method: Algorithm[Any], feature_map: FeatureMap | None) -> dict[str, Any]:
    """Return the parameters of an algorithm and of its learned features, for JSON."""
    values: Any = method
    found = {}
    for each in fields(values):
        value = getattr(method, each.name)
        left_out = each.metadata.get("optional") and value == each.default
        if not (each.metadata.get("learned") or left_out):
            found[each.name] = _as_json(value)
    return found if feature_map is None else found | _as_json(feature_map.parameters)


def describe_estimator(model: Any, parameters: Mapping[str, Any]) -> EstimatorDescription:
    """Return an estimator as a run keeps it; `parameters` come from its `MethodSpec`."""
    kept = {name: _as_json(value) for name, value in parameters.items() if name != "random_state"}
    return EstimatorDescription(type(model).__name__, kept)


def _as_json(value: Any) -> Any:
    """Return a parameter as JSON holds it."""
    if isinstance(value, ArrayParameter):
        return {"array": value.name}
    if callable(value):
        raise InputError(
            f"the kernel {value!r} is a function, which a run cannot keep: name a kernel, or store the matrix of its "
            "values and use kernel='precomputed'"
        )
    if isinstance(value, Divergence):
        raise InputError(
            f"the divergence {value!r} is one of your own, which a run cannot keep: name a divergence, or fit rows in "
            "memory, with the estimator's fit"
        )
    if isinstance(value, np.ndarray):
        return f"sha256:{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Real) and not isinstance(value, int | float):
        return int(value) if isinstance(value, Integral) else float(value)
    return value


_version = cache(version)
"""Looked up once: it reads a file, and takes .9 milliseconds."""


def versions() -> dict[str, str]:
    """Return the versions of this package and of those that the bytes of an output depend on."""
    return {name: _version(name) for name in ("dask-dpmeans", "dask", "numpy", "zarr")}
