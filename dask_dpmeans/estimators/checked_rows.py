"""Rows that a user gives to an estimator, checked against its fit, and as a source."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, get_tags

from dask_dpmeans import checks, sources
from dask_dpmeans.errors import InputError

if TYPE_CHECKING:
    from dask_dpmeans.sources import Accepting, Categories, Frame, Names, RowSource, Stored
    from dask_dpmeans.storage.location import AnyPlace

MASKED = (
    "X is a masked array: fill or drop the masked entries first, as X.filled(0) does, or use DPMeans "
    "or HDPMeans with missing='observed'"
)


def checked_rows(
    model: BaseEstimator,
    X: object,
    *,
    reset: bool,
    names: "Names | None" = None,
    categories: "Categories | None" = None,
) -> Any:
    """Return X as rows, (n, d), after a check of its columns against the fit.

    Parameters
    ----------
    model : the estimator
    X : rows of any kind that `as_source` takes
    reset : note the columns for a new fit, in place of the check
    names : names of the columns, if X was made of tables
    categories : categories of the codes of X, if it was made of tables
    """
    accepts: Accepting = model._accepts() if hasattr(model, "_accepts") else {}
    missing = accepts.get("missing", False)
    if isinstance(X, np.ma.MaskedArray):
        X = sources.whole(X)
    if isinstance(X, np.ma.MaskedArray) and not missing:
        raise InputError(MASKED)
    name = type(model).__name__
    rows = sources.opened_rows(sources.unwrap(X, "X"), name)
    frame = sources.frame_of(rows, "X")
    if names is None:
        names = sources.names_of(rows if frame is None else frame)
    if not reset:
        sources.check_names(names, names_in(model), name)
    found = categories or {}
    if frame is not None:
        rows, found = _rows_of_frame(model, frame, accepts, reset=reset)
    elif missing:
        rows = sources.with_nan(rows, "X")
    if reset and accepts.get("categories"):
        model.categories_ = found
    if not sources.is_lazy(rows):
        rows = _array_of(model, rows)
    if rows.ndim != 2:
        raise _not_rows(rows, name)
    columns = rows.shape[1]
    if reset:
        note_columns(model, columns, names)
    elif columns != model.n_features_in_:
        expected = f"{name} is expecting {model.n_features_in_} features as input"
        raise InputError(f"X has {columns} features, but {expected}")
    return rows


def _rows_of_frame(
    model: BaseEstimator, frame: "Frame", accepts: "Accepting", *, reset: bool
) -> "tuple[Any, Categories]":
    """Return the rows of a data frame, and the categories of its columns of codes."""
    used = None if reset else getattr(model, "feature_columns_", None)
    if not accepts.get("categories"):
        return frame.read("X", used=used)
    known = None if reset else model.categories_
    missing = accepts.get("missing", False)
    wanted = sources.CategoricalColumns(accepts.get("categorical", ()), known, missing)
    return frame.read("X", wanted, used)


def _array_of(model: BaseEstimator, X: object) -> Any:
    """Return rows in this process's memory as an array that scikit-learn accepts."""
    if isinstance(X, np.ndarray) and X.dtype == object:
        sources.refuse_inexact(X, "X")
        _refuse_text(X)
    elif isinstance(X, np.ndarray):
        sources.working_dtype(X.dtype, "X")
    sparse: str | bool = get_tags(model).input_tags.sparse and "csr"
    rows = check_array(
        X,
        accept_sparse=sparse,
        ensure_all_finite=False,
        allow_nd=True,
        estimator=model,
        input_name="X",
    )
    if rows.dtype.kind == "O":
        rows = rows.astype(np.float64)
    return rows


def _refuse_text(X: Any) -> None:
    """Raise `InputError` for objects, (...), among which is text that spells no number."""
    for place, value in np.ndenumerate(X):
        if isinstance(value, str) and not checks.spells_number(value):
            where = ", ".join(
                f"{axis} {at:,}" for axis, at in zip(("row", "column"), place, strict=False)
            )
            raise InputError(
                f"X holds the text {value!r} at {where}: encode text as numbers, or pass a data frame, "
                "whose columns of text can be categories, with DPMeans or HDPMeans(divergence=...)"
            )


def _not_rows(array: Any, model: str) -> InputError:
    """Return the error for an array of any number of dimensions but two."""
    shape, array_of = array.shape, "X" if hasattr(array, "reshape") else "dask.array.from_array(X)"
    subject = (
        f"Found array with dim {len(shape)}, of shape {shape}, while {model} takes rows and columns"
    )
    if len(shape) < 2:
        return InputError(
            f"{subject}: pass {array_of}.reshape(-1, 1) if it has one column, or {array_of}.reshape(1, -1) "
            "if it is one row"
        )
    dims = [f"d{number}" for number in range(len(shape))]
    return InputError(
        f"{subject}: if its last dimension holds the features of each sample, pass {array_of}.reshape(-1, "
        f"{shape[-1]}), or, for labels of its shape, fit(xarray.DataArray({array_of}, dims={dims}), "
        f"features={dims[-1]!r}); if its first dimension counts the samples, pass "
        f"{array_of}.reshape({shape[0]}, -1)"
    )


def names_in(model: BaseEstimator) -> "Names | None":
    """Return the names of the columns of a fit; None if they have none."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(names)


def note_columns(model: BaseEstimator, columns: int, names: Sequence[str] | None) -> None:
    """Set the number and the names of the columns of a fit."""
    model.n_features_in_ = columns
    model.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    if names is not None:
        model.feature_names_in_ = np.array(names, object)


def check_output(model: Any, X: object) -> None:
    """Refuse a data frame of the distances of lazy rows X: all of them would be computed."""
    own = getattr(model, "_sklearn_output_config", {}).get("transform")
    wanted = own or get_config()["transform_output"]
    if wanted == "default" or not sources.is_lazy(sources.unwrap(X, "X")):
        return
    kind = f"{type(X).__module__}.{type(X).__name__}"
    rows = "X.compute()" if hasattr(X, "compute") else "X[:]"
    raise InputError(
        f'set_output(transform="{wanted}") makes a data frame in memory, and X is a {kind}, whose '
        f'distances are lazy: call set_output(transform="default") first, or pass {rows}'
    )


def rows_of(
    X: "ArrayLike | AnyPlace",
    model: Any,
    sample_weight: "ArrayLike | AnyPlace | None" = None,
    **where: "Unpack[Stored]",
) -> "RowSource":
    """Return rows as a fit saw its rows, in one pass: the same columns, scale and features.

    If a `SpectralDPMeans` cannot map new rows, return the rows of its embedding; X is not read.

    Parameters
    ----------
    X : (n, d) rows as for `fit`, or the path or URL of a Zarr array, table or ``.npy`` file
    model : a fitted estimator
    sample_weight : (n,), optional
    **where : client, threads, memory_limit, on_pass, storage_options, as for `dask_dpmeans.fit`

    Raises
    ------
    InputError
        There are not as many columns as the fit had, or others.
    """
    embedding = model.description().stored_rows
    if embedding is not None:
        return sources.as_source(embedding, **where)
    column_names = None
    rows: Any = X
    if isinstance(X, str | os.PathLike):
        column_names = tuple(getattr(model, "feature_names_in_", ()))
    else:
        rows = checked_rows(model, X, reset=False)
    source = sources.as_source(
        rows,
        sample_weight,
        column_names=column_names,
        known_names=getattr(model, "feature_names_in_", None),
        columns=model.feature_columns_,
        scale=model.feature_scale_,
        features=model.features_,
        **model._reads(),
        **where,
    )
    if source.layout.stored_columns != model.n_features_in_:
        found = checks.format_count(source.layout.stored_columns, "column")
        raise InputError(
            f"X has {found}, the fit had {model.n_features_in_}: give the same columns"
        )
    return source
