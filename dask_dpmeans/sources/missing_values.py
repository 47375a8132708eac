"""Missing values of every kind of input, as NaN."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from dask_dpmeans.sources.lazy_modules import da, is_dask_array
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.sources.safety.value_checks import refuse_inexact

MARKERS = ("NAType", "NaTType")
"""Classes of the markers of pandas for missing values, which `float` refuses."""


def with_nan(data: Any, name: str) -> Any:
    """Return data in memory, or a Dask array, with NaN for each missing value.

    Masked entries, None, and the markers of pandas among objects are missing values.  Data of
    other kinds, and objects that are no numbers, are returned as they are.
    """
    if isinstance(data, np.ma.MaskedArray):
        return filled(data, name)
    if is_dask_array(data):
        if isinstance(da.utils.meta_from_array(data), np.ma.MaskedArray):
            return da.map_blocks(filled, data, name, dtype=float_dtype(data.dtype))
        return data
    kind = type(data)
    if issparse(data) or hasattr(kind, "chunks") or hasattr(kind, "to_dask_array"):
        return data
    array = np.asarray(data)
    if array.dtype != object:
        return data
    refuse_inexact(array, name)
    try:
        return numbers_of_objects(array)
    except (OverflowError, TypeError, ValueError):
        return data  # the error is raised when it is read


def filled(masked: Raw, name: str) -> Raw:
    """Return a masked array, (...), as floats with NaN for the masked entries."""
    mask = np.ma.getmaskarray(masked)
    values = np.ma.getdata(masked)
    refuse_inexact(np.where(mask, np.zeros((), values.dtype), values), name)
    found = values.astype(float_dtype(values.dtype))
    found[mask] = np.nan
    return found


def whole(masked: Raw) -> Raw:
    """Return the numbers of a masked array, (...), none of which is masked; others as they are."""
    return masked if np.ma.is_masked(masked) else np.ma.getdata(masked)


def numbers_of_objects(array: Raw) -> Raw:
    """Return objects, (...), as float64, with NaN for None and the markers of pandas."""
    try:
        return array.astype(np.float64)
    except TypeError:
        missing = np.asarray(
            np.frompyfunc(lambda each: type(each).__name__ in MARKERS, 1, 1)(array), bool
        )
        return np.where(missing, np.nan, array).astype(np.float64)


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the smaller of float32 and float64 that holds the values of `dtype`."""
    small = dtype.kind in "biuf" and (dtype.itemsize <= 2 or dtype == np.float32)
    return np.dtype(np.float32 if small else np.float64)
