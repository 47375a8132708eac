"""Export of clusters for use without this package: as JSON, and as a pipeline of scikit-learn."""

import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, Normalizer
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans.api.loading import load
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.description import description_of
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.storage.location import AnyPlace, Location
from dask_dpmeans.storage.outfile import checked_target, head_of

FORMAT = "dask_dpmeans model"
VERSION = 1
"""Version of the format of `as_json`."""


def export(run: AnyPlace, out: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write the clusters of a run to a file, as `as_json` returns them; return its absolute path.

    Parameters
    ----------
    run : path or URL of a finished run of `DPMeans`
    out : path of a file on this machine
    force : write over the file, if it is one of these

    Raises
    ------
    InputError
        The run is of a method that labels rows otherwise, or another file is at `out`.
    """
    target = checked_target(out, run, "model", _is_ours, force=force)
    Location.at(target).write(f"{as_json(load(run))}\n".encode())
    return target


def as_json(model: Any) -> str:
    """Return the clusters of a fitted `DPMeans` as JSON, enough to label rows by arithmetic alone.

    A row has `n_columns` columns, named `column_names` (null if the fit had no names).  Take its
    `columns` (all if null), and divide each by its `scale` (if not null).  With the metric cosine
    divide the row by its length.  The label is the number of the nearest of the `centers`, the
    lowest among equally near ones.  Numbers are written so that they are read back to the last bit.

    Raises
    ------
    InputError
        The labels are not the nearest centers of rows.
    """
    _check_nearest(model)
    drawn, names, scale = vars(model).get("random_state_"), _names(model), model.feature_scale_
    parameters = {
        name: value
        for name, value in model.get_params().items()
        if name not in ("init", "random_state")
    }
    described = {
        "format": FORMAT,
        "version": VERSION,
        "method": type(model).__name__,
        "parameters": parameters if drawn is None else parameters | {"random_state": drawn},
        "metric": model.description().metric,
        "penalty": model.penalty,
        "n_columns": model.n_features_in_,
        "column_names": None if names is None else names.tolist(),
        "columns": model.feature_columns_,
        "scale": None if scale is None else scale.tolist(),
        "centers": model.cluster_centers_.tolist(),
        "weights": model.cluster_weights_.tolist(),
    }
    return json.dumps(described, indent=1, allow_nan=False, default=lambda number: number.item())


def as_pipeline(model: Any) -> Pipeline:
    """Return a fitted `sklearn.pipeline.Pipeline` that ends in a KMeans with a model's centers.

    Centers are the same to the bit.  The steps before make rows float64, choose and divide columns
    as the fit did, and with the metric cosine bring rows to unit length.  The pipeline needs
    scikit-learn alone.  It labels rows as `model` does, except for rounding: KMeans compares norms
    and products, and may label a row about midway between two centers otherwise.  It compares the
    number and the names of columns with the fit, as `model` does.

    Raises
    ------
    InputError
        The labels are not the nearest centers of rows.
    """
    _check_nearest(model)
    columns, scale, width = model.feature_columns_, model.feature_scale_, model.n_features_in_
    steps: list[Any] = [_column_check(width, _names(model))]
    if columns is not None:
        steps.append(
            ColumnTransformer([("columns", "passthrough", list(columns))]).fit(np.zeros((1, width)))
        )
    if scale is not None:
        divider = MaxAbsScaler().fit(scale[np.newaxis])
        divider.scale_ = scale.copy()  # the fit replaces numbers below 1e-15 by 1
        steps.append(divider)
    if model.description().metric == "cosine":
        steps.append(Normalizer())
    return make_pipeline(*steps, _kmeans(model.cluster_centers_))


def _check_nearest(model: Any) -> None:
    """Refuse a model whose labels do not follow from its centers alone."""
    if not description_of(model).nearest_centers:
        raise InputError(
            f"{type(model).__name__} does not label a row by the nearest of its centers alone, which is what an export "
            "can say: use predict, of load(run) or of the command line, or export a run of DPMeans"
        )
    check_is_fitted(model)
    if not description_of(model).flat:
        raise InputError(
            "costs of places, other divergences, categories or missing values follow from more than squared distances "
            "to centers, which is what an export can say: use predict, of load(run) or of the command line"
        )


def _names(model: Any) -> np.ndarray[Any, Any] | None:
    """Return the names of the columns, (n_columns,) str; None if the fit had none."""
    return getattr(model, "feature_names_in_", None)


def _column_check(width: int, names: np.ndarray[Any, Any] | None) -> FunctionTransformer:
    """Return a transformer that checks the number and names of columns and makes rows float64."""
    checked = FunctionTransformer(
        check_array,
        kw_args={"accept_sparse": "csr", "dtype": "float64"},
        validate=True,
        accept_sparse=True,
    )
    checked.n_features_in_ = width
    if names is not None:
        checked.feature_names_in_ = names.copy()
    return checked


def _kmeans(centers: Float64Array) -> KMeans:
    """Return a fitted KMeans with these centers, (k, d), to the bit: its own fit rounds them."""
    with warnings.catch_warnings():
        # KMeans warns of centers so near to each other that it merges them.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans = KMeans(len(centers), init=centers, n_init=1, max_iter=1).fit(centers)
    kmeans.cluster_centers_ = centers.copy()
    return kmeans


def _is_ours(path: Path) -> bool:
    return f'"format": "{FORMAT}"' in head_of(path)
