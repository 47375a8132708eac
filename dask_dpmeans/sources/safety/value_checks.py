"""Errors about values that cannot be used: the value, its row and column, and the way out."""

from numbers import Integral
from typing import Any

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.column_statistics import MOST_GROUPS, Flaw, Summary
from dask_dpmeans.sources.lazy_modules import is_dask_array, is_zarr_array
from dask_dpmeans.sources.names import Names
from dask_dpmeans.sources.shards import Prepare

EXACT_INTEGERS = 2.0**53
"""Bound below which float64 distinguishes integers."""


def limit_of(dtype: np.dtype[Any]) -> float:
    """Return the bound of the absolute values of a dtype, exclusive."""
    if dtype.kind in "iu":
        return EXACT_INTEGERS
    return np.inf


TAKES_MISSING = (
    "DPMeans or HDPMeans with missing='observed', whose impute fills them for other methods"
)
"""What to do with missing values, for errors."""


def refuse_inexact(values: np.ndarray[Any, Any], name: str, column: str = "") -> None:
    """Raise `InputError` for the first integer, if any, that float64 may not tell from others.

    Parameters
    ----------
    values : (...), integers or Python objects; values of other dtypes pass
    name : name of the argument, for the error
    column : the column, if the values are one, for the error
    """
    if values.dtype.kind in "iu":
        beyond = (values >= EXACT_INTEGERS) | (values <= -EXACT_INTEGERS)
    elif values.dtype == object:
        beyond = np.asarray(np.frompyfunc(_is_inexact, 1, 1)(values), bool)
    else:
        return
    if beyond.any():
        places = [f"{place:,}" for place in np.argwhere(beyond)[0]]
        found = zip(("row", "column"), [*places, column], strict=False)
        place = ", ".join(f"{axis} {number}" for axis, number in found if number)
        raise InputError(
            f"{name} holds the integer {values[beyond][0]} at {place}: beyond 2**53 float64 cannot "
            "tell integers apart; subtract an offset, divide, or leave the column out"
        )


def _is_inexact(value: object) -> bool:
    return isinstance(value, Integral) and abs(int(value)) >= EXACT_INTEGERS


def describe_flaw(flaw: Flaw, place: str, groups_are: str = "groups") -> str:
    """Return the error message for a value at `place`, a row and column as text."""
    if flaw.column == -2:
        least = f"{1 - MOST_GROUPS:,}" if groups_are == "labels" else "0"
        return (
            f"{groups_are} holds {flaw.value} at {place}: {groups_are} must be from {least} to below "
            f"{MOST_GROUPS:,}; number them, for example by "
            f"np.unique({groups_are}, return_inverse=True)[1]"
        )
    if flaw.column == -1:
        return f"sample_weight is {flaw.value} at {place}: weights must be finite and >= 0"
    if np.isfinite(flaw.value):
        return (
            f"data holds an integer near {flaw.value:.0f} at {place}: beyond 2**53 float64 cannot tell "
            "integers apart; subtract an offset, or divide"
        )
    kind, way = "infinity", "remove or replace such rows first"
    if np.isnan(flaw.value):
        kind, way = "NaN", f"{way}, or use {TAKES_MISSING}"
    return f"data contains {kind} ({flaw.value}) at {place}: {way}"


def check_summary(
    summary: Summary,
    rows: object,
    prepare: Prepare,
    centers: Float64Array | None,
    groups_are: str = "groups",
    names: Names | None = None,
    weighted: bool = False,
) -> None:
    """Raise `InputError` for values that the first pass found unusable.

    `centers` are (k, d), `names` are the names of all columns of the input, and `weighted` is
    whether weights were given.
    """
    if summary.flaw is not None:
        raise InputError(_flaw_message(summary.flaw, rows, prepare, groups_are, names))
    if prepare.missing and not (summary.lowest <= summary.highest).any():
        raise InputError("every value of data is missing: at least one must be there")
    if summary.weight == 0 and weighted:
        if summary.empty_rows:
            raise InputError(
                "every row with a value has a sample_weight of zero: at least one needs a weight > 0"
            )
        raise InputError("every sample_weight is zero: at least one row needs a weight > 0")
    if summary.weight == np.inf:
        way = "divide the weights by a constant first"
        raise InputError(f"the sum of sample_weight overflows float64: {way}")
    if prepare.sparse:
        if not np.isfinite([summary.sums, summary.squares]).all():
            way = "divide the data by a constant first"
            raise InputError(f"sums of the values of rows overflow float64: {way}")
        return
    widest = summary.overflowing(centers, float(np.finfo(prepare.dtype).max))
    if widest is not None:
        raise InputError(
            f"squared distances overflow float64: column {_column(widest, prepare, names)} reaches "
            f"from {summary.lowest[widest]:g} to {summary.highest[widest]:g}; divide the data by "
            "a constant first"
        )


def _flaw_message(
    flaw: Flaw, rows: object, prepare: Prepare, groups_are: str, names: Names | None
) -> str:
    place = f"row {flaw.row:,}{_chunk_of(rows, flaw.row)}"
    if prepare.features is not None and flaw.column == -3:
        return prepare.features.error_message(place)
    if flaw.column >= 0:
        number = flaw.column if prepare.columns is None else prepare.columns[flaw.column]
        place += f", column {number if names is None else repr(names[number])}"
    message = describe_flaw(flaw, place, groups_are)
    if prepare.sparse and flaw.column >= 0 and not np.isfinite(flaw.value):
        message = f"{message.partition(': ')[0]}: the weight of a link must be a finite number"
    return message


def _column(column: int, prepare: Prepare, names: Names | None) -> str:
    """Return a column's name or number in the input, or its number among the features."""
    if prepare.features is not None:
        return str(column)
    number = column if prepare.columns is None else prepare.columns[column]
    return str(number) if names is None else repr(names[number])


def _chunk_of(rows: object, row: int) -> str:
    """Return the chunk of the input that contains a row, as text."""
    if is_dask_array(rows):
        starts = np.cumsum((0, *rows.chunks[0]))
        chunk = int(np.searchsorted(starts, row, side="right")) - 1
        return f" (chunk {chunk}, its row {row - int(starts[chunk]):,})"
    if is_zarr_array(rows):
        chunk, within = divmod(row, int(rows.chunks[0]))
        return f" (chunk {chunk}, its row {within:,})"
    return ""
