"""What an output says of itself: its format, what may lie in it, and what its attributes may be; else it is refused."""

import math
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from dask_dpmeans.checks import shown
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.kernels.divergence import METRICS
from dask_dpmeans.storage.arrays import MALFORMED, MARKER, TABLES
from dask_dpmeans.storage.location import Location

FORMAT = 8
"""Version of this layout; a reader refuses any other."""
RESULT = ("cluster_centers", "cluster_weights", "cluster_inertias", "labels", "first_centers", "feature_scale")
PENALTIES = ("penalty", "local_penalty", "global_penalty")
LOCAL = ("local_groups", "local_centers", "local_weights")
IMPLICIT = ("cluster_totals", "center_labels", "center_weights", "center_rows", "fitted_rows")
FEATURES = ("feature_components", "feature_normalization", "feature_frequencies", "feature_offsets")
MIXTURE = ("variance", "concentration", "mean_variance")
SPECTRAL = ("eigenvalues", "projection", "landmarks", "embedding")
GRAPH = ("sigma",)
INTEGER = ("local_groups", "local_centers", "center_labels", "center_rows")
"""Arrays of a result that hold integers."""
TREE = ("clusters",)
PATH = ("penalty", "stability", "interval_clusters", "interval_low", "interval_high")
"""Arrays of a path of penalties, beside `cluster_centers` and figures that are called as those of a run."""
NAMES = {
    "zarr.json",
    "steps",
    *PATH,
    *RESULT,
    *LOCAL,
    *IMPLICIT,
    *FEATURES,
    *SPECTRAL,
    *GRAPH,
    *TREE,
    *MIXTURE,
    "label",
    "squared_distance",
    "beyond",
    "rows",
    "truth",
    TABLES,
}
"""All that is ever written into an output, the columns of a history aside."""


def checked_manifest(attributes: dict[str, Any], path: str) -> dict[str, Any]:
    """What the attributes of an output at a path say of it.

    Raises
    ------
    InputError
        Where it is of another format than this version reads.
    """
    manifest: dict[str, Any] = attributes[MARKER]
    if manifest.get("format") != FORMAT:
        raise InputError(
            f"{path} is of format {manifest.get('format')!r}, this version reads format {FORMAT}: "
            "open it with the version that wrote it, or make it again"
        )
    return manifest


def check_types(manifest: dict[str, Any], names: Set[str]) -> None:
    """Refuse attributes of a result that are of other types than ours, be they signed; its arrays are among `names`.

    Raises
    ------
    ValueError, or what comes of attributes that are missing
        It names the attribute; `as_written` makes one error of these.
    """
    asked, rows = manifest["parameters"], manifest["input"]
    for name in ("sources", "versions", "estimator"):
        _require(isinstance(manifest[name], dict), name, manifest[name])
    for name, value in _numbers(manifest).items():
        _require(type(value) in (int, float) and math.isfinite(value), name, value)
    n, d, columns, called = *_pair(rows["shape"]), rows["columns"], manifest.get("column_names")
    least = {"random_state": manifest["random_state"], "input.n_groups": rows["n_groups"]}
    for name, value in least.items():
        _require(type(value) is int and value >= 0, name, value)
    for name, value in {"parameters.max_iter": asked["max_iter"], "input.shape": min(n, d)}.items():
        _require(type(value) is int and value >= 1, name, value)
    for name in ("scaled", "weighted"):
        _require(type(rows[name]) is bool, f"input.{name}", rows[name])
    for name in ("converged", "checksummed", "learned_features"):
        _require(type(manifest[name]) is bool, name, manifest[name])
    most = asked.get("max_clusters")
    _require(most is None or (type(most) is int and most >= 1), "parameters.max_clusters", most)
    metric = asked.get("metric", "euclidean")
    _require(isinstance(metric, str) and metric in METRICS, "parameters.metric", metric)
    _require(type(asked.get("normalized", True)) is bool, "parameters.normalized", asked.get("normalized"))
    known = columns is None or (type(columns) is list and all(type(each) is int and 0 <= each < d for each in columns))
    _require(known and columns != [], "input.columns", columns)
    texts = called is None or (type(called) is list and [type(each) for each in called] == [str] * d)
    _require(texts, "column_names", called)
    _require(
        set(manifest["arrays"]) <= names and ("feature_scale" in manifest["arrays"]) == rows["scaled"], "arrays", ""
    )
    _require(isinstance(manifest["method"], str), "method", manifest["method"])
    _require(np.dtype(rows["dtype"]).kind in "biuf", "input.dtype", rows["dtype"])


def _numbers(manifest: dict[str, Any]) -> dict[str, Any]:
    """Attributes that are finite numbers, by name; prices are more than 0, but that of a cut."""
    asked = manifest["parameters"]
    prices = [name for name in (*MIXTURE, *PENALTIES) if name in asked]
    numbers = {f"parameters.{name}": asked[name] for name in prices}
    if asked.get("normalized") is None:
        for name, value in numbers.items():
            _require(type(value) in (int, float) and value > 0, name, value)
    numbers["n_passes"] = manifest["n_passes"]
    if "tol" in asked:
        numbers["parameters.tol"] = asked["tol"]
    if "spectrum" in asked:
        numbers |= {"spectrum.penalty": asked["spectrum"]["penalty"], "affinity_trace": manifest["affinity_trace"]}
    return numbers


def _pair(shape: Any) -> tuple[int, int]:
    """The rows and columns of the input."""
    fits = type(shape) is list and len(shape) == 2 and all(type(each) is int for each in shape)
    _require(fits, "input.shape", shape)
    return shape[0], shape[1]


def _require(fits: bool, name: str, value: Any) -> None:
    if not fits:
        raise ValueError(f"{name} cannot be {shown(value)}")


def check_shapes(manifest: dict[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Refuse arrays of a result whose types or shapes do not go with its attributes and with one another.

    Raises
    ------
    ValueError
        It names the array.
    """
    rows, k = manifest["input"], len(arrays["cluster_weights"])
    d = rows["shape"][1] if rows["columns"] is None else len(rows["columns"])
    made = [
        arrays[name].shape[:1] for name in ("eigenvalues", "feature_normalization", "feature_offsets") if name in arrays
    ]
    width, m, n = (made[0][0] if made else d), len(arrays.get("local_groups", ())), rows["shape"][0]
    sample = len(arrays.get("landmarks", arrays.get("feature_components", ())))
    shapes: dict[str, tuple[int | None, ...]] = {
        "cluster_centers": (k, width),
        "cluster_weights": (k,),
        "cluster_inertias": (k,),
        "first_centers": (None, d),
        "feature_scale": (d,),
        **dict.fromkeys(LOCAL, (m,)),
        "eigenvalues": (width,),
        "projection": (sample if "landmarks" in arrays else d, width),
        "landmarks": (sample, d),
        "feature_components": (sample, d),
        "feature_normalization": (width, sample),
        "feature_frequencies": (d, width),
        "feature_offsets": (width,),
        "cluster_totals": (k,),
        "center_labels": (n,),
        "center_weights": (n,),
        "center_rows": (None,),
        "fitted_rows": (n, d),
        **dict.fromkeys(("variance", "concentration", "sigma"), (1,)),
    }
    for name, values in arrays.items():
        wanted = shapes.get(name, values.shape)
        alike = len(wanted) == values.ndim and all(w in (None, s) for w, s in zip(wanted, values.shape, strict=True))
        if not alike or values.dtype.kind != ("i" if name in INTEGER else "f"):
            raise ValueError(f"the array {name} cannot hold {values.dtype} of shape {values.shape}")
    _check_numbers(arrays, k, rows["n_groups"])


def _check_numbers(arrays: Mapping[str, np.ndarray[Any, Any]], k: int, n_groups: int) -> None:
    """Refuse numbers of what is not there, and what cannot be divided by."""
    ends = {
        "local_groups": (0, n_groups),
        "local_centers": (0, k),
        "center_labels": (-1, k - len(arrays.get("center_rows", ()))),
    }
    ends["center_rows"] = 0, len(arrays.get("center_labels", ()))
    for name, (least, most) in ends.items():
        values = arrays.get(name, np.empty(0))
        if ((values < least) | (values >= most)).any():
            raise ValueError(f"the array {name} holds numbers that are not from {least} to below {most:,}")
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise ValueError(f"the array {name} holds what is no finite number")
    scale = arrays.get("feature_scale", np.ones(1))
    if not ((scale > 0) & (scale < np.inf)).all():
        raise ValueError("the array feature_scale holds numbers that are not > 0")


@contextmanager
def as_written(place: Location, kind: str = "run") -> Iterator[None]:
    """Turn what comes of attributes that are none of ours into an error that says so.

    Raises
    ------
    CorruptStoreError
        In place of what `MALFORMED` lists, where that is raised inside.
    """
    try:
        yield
    except (InputError, CorruptStoreError):
        raise
    except MALFORMED as error:
        raise CorruptStoreError(
            f"{place.url}/zarr.json: the attributes are not those of a {kind} of ours: {error}"
        ) from error
