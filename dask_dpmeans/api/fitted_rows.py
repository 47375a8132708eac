"""Rows as a fitted estimator takes them."""

import os
from typing import Any, Unpack

from numpy.typing import ArrayLike

from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.checked_rows import checked_rows
from dask_dpmeans.sources import RowSource, Stored, as_source
from dask_dpmeans.storage.location import AnyPlace


def rows_of(
    X: ArrayLike | AnyPlace,
    model: Any,
    sample_weight: ArrayLike | AnyPlace | None = None,
    **where: Unpack[Stored],
) -> RowSource:
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
        return as_source(embedding, **where)
    column_names = None
    rows: Any = X
    if isinstance(X, str | os.PathLike):
        column_names = tuple(getattr(model, "feature_names_in_", ()))
    else:
        rows = checked_rows(model, X, reset=False)
    source = as_source(
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
        found = f"X has {source.layout.stored_columns} columns"
        raise InputError(f"{found}, the fit had {model.n_features_in_}: give the same columns")
    return source
