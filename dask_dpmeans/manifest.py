"""What an output says of itself: its format, what may lie in it, and what its attributes may be; else it is refused."""

import math
from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Any

import numpy as np

from dask_dpmeans.algorithms.metric import METRICS
from dask_dpmeans.arrays import MALFORMED, MARKER, TABLES
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.location import Location

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
        `as_written` makes one error of these.
    """
    asked, rows, columns = manifest["parameters"], manifest["input"], manifest["input"]["columns"]
    called = manifest.get("column_names")
    mixture = [asked[name] for name in MIXTURE if name in asked]
    penalties = mixture or [asked[name] for name in PENALTIES if name in asked]
    numbers = [0.0 if mixture else asked["tol"], manifest["n_passes"]]
    if "spectrum" in asked:
        penalties.append(asked["spectrum"]["penalty"])
        numbers.append(manifest["affinity_trace"])
    numbers += penalties
    integers = [manifest["random_state"], asked["max_iter"], rows["n_groups"], *rows["shape"], *(columns or ())]
    flags = [rows["scaled"], rows["weighted"], manifest["converged"], manifest["checksummed"]]
    if not (
        all(type(each) in (int, float) and math.isfinite(each) for each in numbers)
        and all(type(each) is int for each in integers)
        and all(type(each) is bool for each in flags)
        and (mixture or type(asked["max_clusters"]) in (int, type(None)))
        and set(manifest["arrays"]) <= names
        and penalties
        and (asked.get("normalized") is not None or min(penalties) > 0)
        and asked.get("metric", "euclidean") in METRICS
        and len(rows["shape"]) == 2
        and (called is None or (type(called) is list and [type(each) for each in called] == [str] * rows["shape"][1]))
        and isinstance(manifest["method"], str)
        and np.dtype(rows["dtype"]).kind in "biuf"
    ):
        raise ValueError("a number is none, or out of range")


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
