"""Attributes of fitted models that pictures need: centers, and the names of their columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.center_labels import column_names, model_labels
from dask_dpmeans.estimators.description import description_of
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.encoding import Encoding

Model = Any
"""A fitted estimator of the registry."""


def attribute(model: Model, name: str, what: str) -> Any:
    """Return an attribute of a fitted model; `what` says in an error what is missing."""
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    if not hasattr(model, name):
        raise InputError(f"{type(model).__name__} has no {what}: it cannot be shown in this way")
    return getattr(model, name)


def centers_of(model: Model, what: str) -> Float64Array:
    """Return the centers, (k, d); `what` names the picture in an error."""
    return attribute(model, "cluster_centers_", f"centers of rows, which {what} needs")


def drawn_centers(model: Model) -> Float64Array:
    """Return the centers that lie among rows, (k, d): of micro-clusters, if there are any."""
    if not description_of(model).flat:
        raise InputError(
            "a picture of rows shows squared distances of complete rows, and this fit has other "
            "divergences or missing values: draw its sizes or its profile"
        )
    if hasattr(model, "micro_centers_"):
        return model.micro_centers_
    return centers_of(model, "a picture of rows")


def columns_of(model: Model) -> list[int] | None:
    """Return the column of the rows for each column of the centers; None if they are features."""
    if model.description().center_columns is not None:
        return None
    if model.feature_columns_ is None:
        return list(range(model.n_features_in_))
    return list(model.feature_columns_)


def feature_names(model: Model) -> list[str]:
    """Return the names of the columns of the centers, as in the fitted table, or by number."""
    if isinstance(getattr(model, "features_", None), Encoding):
        return model_labels(model)
    columns, kind = columns_of(model), model.description().center_columns
    if columns is None:
        return [f"{kind} {number}" for number in range(model.cluster_centers_.shape[1])]
    return column_names(model, columns)


def checked_names(model: Model, given: Sequence[str] | None) -> list[str]:
    """Return the names that were given for the columns of the centers, or the default names."""
    names = feature_names(model)
    if given is None:
        return names
    if isinstance(given, str | bytes) or np.ndim(given) != 1:
        raise InputError(
            f"feature_names must be a list of names, got {checks.describe_value(given)}"
        )
    if len(given) != len(names):
        wanted = f"{len(names):,} names, one for each column of the centers"
        raise InputError(f"feature_names must be {wanted}, got {len(given):,}")
    return [str(name) for name in given]


def column_numbers(
    model: Model, names: list[str], columns: Sequence[int | str] | None
) -> list[int] | None:
    """Return the numbers of one or two columns of the centers, given by name or by column of X."""
    if columns is None:
        return None
    refusal = f"columns must be one or two different columns of the fit, got {checks.describe_value(columns)}"
    is_list = isinstance(columns, Sequence | np.ndarray) and not isinstance(columns, str | bytes)
    if not is_list or np.ndim(columns) != 1:
        raise InputError(refusal)
    numbers = columns_of(model) or list(range(len(names)))
    found = [_column_number(each, names, numbers) for each in columns]
    if len(found) not in (1, 2) or -1 in found or len(set(found)) < len(found):
        raise InputError(refusal)
    return found


def _column_number(column: int | str, names: list[str], numbers: list[int]) -> int:
    if column in names:
        return names.index(str(column))
    return numbers.index(int(column)) if column in numbers else -1
