"""The option `init` of `DPMeans`: centers that a fit starts from."""

import os
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks, sources, storage
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import NearestCenterMixin
from dask_dpmeans.estimators.spec import CENTERS
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from dask_dpmeans.storage import Result

FIRST_CENTERS = ArraySpec("first_centers", ("first_cluster", "feature"))
INIT = 'init must be "mean", centers (k, d), a fitted DPMeans or HDPMeans, or the path of a finished run'
DRAWN = ("k-means++", "k-means||", "random")
"""Values of `init` of KMeans in scikit-learn and dask-ml."""
NOT_DRAWN = (
    "first centers are not drawn, since rows far from all centers open clusters: leave init out"
)
LEARNED = "the centers of init are among features of a kernel, which the rows are not: leave it out"


def first_centers(init: object) -> Float64Array | None:
    """Return first centers, (k, d), in the units of the input; None for the mean of all rows."""
    if _is_mean(init):
        return None
    if isinstance(init, str) and init in DRAWN and not os.path.exists(init):
        raise InputError(f"{INIT}, got {init!r}: {NOT_DRAWN}")
    if isinstance(init, str | os.PathLike | storage.Location):
        result = earlier_run(init)
        manifest = result.manifest
        centers_of_rows = {"divergence", "metric"} & manifest.parameters.keys()
        if manifest.learned_features and not centers_of_rows:
            raise InputError(LEARNED)
        centers, scale = map(result.arrays.get, ("cluster_centers", "feature_scale"))
        return in_input_units(centers, scale, init)
    checks.no_matrix("init", init)
    if isinstance(init, NearestCenterMixin):
        check_is_fitted(init)
        words = init.description()
        if words.learned_rows and words.flat:
            raise InputError(LEARNED)
        return in_input_units(getattr(init, "cluster_centers_", None), init.feature_scale_, init)
    if init is None:
        raise InputError(f"{INIT}, got None")
    try:
        return np.array(init, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{INIT}, got {checks.describe_value(init)}") from error


def center_names(init: object) -> tuple[str, ...] | None:
    """Return the names of the columns of first centers, if they are known."""
    if _is_mean(init):
        return None
    if isinstance(init, str | os.PathLike | storage.Location):
        manifest = earlier_run(init).manifest
        return sources.used_names(manifest.column_names, manifest.input.columns)
    if not isinstance(init, NearestCenterMixin):
        return sources.names_of(init)
    return sources.used_names(getattr(init, "feature_names_in_", None), init.feature_columns_)


def _is_mean(init: object) -> bool:
    return isinstance(init, str) and init == "mean"


def earlier_run(init: "str | os.PathLike[str] | storage.Location") -> "Result":
    """Return the finished run at a path."""
    try:
        return storage.RunStore.at(init).result(lambda manifest: CENTERS)
    except InputError as error:
        raise InputError(f"{INIT}, got {_shown(init)}: {error}") from error


def _shown(init: object) -> str:
    """Return the value of `init` for an error, a place by its path or URL."""
    return checks.describe_value(getattr(init, "shown", init))


def in_input_units(
    centers: Float64Array | None, scale: Float64Array | None, init: object
) -> Float64Array:
    """Return the centers, (k, d), of an earlier run or fit in the units of its input."""
    if centers is None:
        raise InputError(f"{INIT}, got {_shown(init)}, which has no centers among the rows")
    if scale is None:
        return np.array(centers)
    return np.array(centers * scale)
