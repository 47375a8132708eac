"""Statistics of the columns of all rows, and the scale that follows from them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.column_statistics import (
    LEAST_SQUARES,
    ColumnStatistics,
    SparseStatistics,
    Summary,
)
from dask_dpmeans.sources.safety.value_checks import limit_of
from dask_dpmeans.sources.shards import Prepare


def column_statistics(
    stored_dtype: np.dtype[Any],
    prepare: Prepare,
    fold: Callable[[ColumnStatistics, Prepare], Summary],
    scale: Float64Array | str | None,
) -> tuple[Summary, Prepare]:
    """Return the summary of the rows as kernels see them, and how to prepare the rows.

    Parameters
    ----------
    stored_dtype : dtype of the input
    prepare : columns, dtype and features, without a scale
    fold : reads all rows, and returns their summary
    scale : (d,), "std" or None; together with features it takes a second pass
    """
    limit, features = limit_of(stored_dtype), prepare.features
    missing = prepare.missing
    if prepare.sparse:
        return fold(SparseStatistics(limit), prepare), prepare
    plain = replace(prepare, features=None)
    if scale is None:
        return fold(ColumnStatistics(limit, features, missing), plain), prepare
    summary = fold(ColumnStatistics(limit, None, missing), plain)
    if summary.flaw is not None or summary.weight == 0:
        return summary, prepare
    divisors = _divisors(scale, summary)
    plain = replace(plain, scale=divisors)
    if features is None:
        return summary.scaled(divisors), plain
    survey = ColumnStatistics(np.inf, features, missing)
    return fold(survey, plain), replace(plain, features=features)


def _divisors(scale: Float64Array | str, summary: Summary) -> Float64Array:
    """Return the divisors of the columns, (d,)."""
    if isinstance(scale, str):
        if scale != "std":
            shown = checks.describe_value(scale)
            raise InputError(f'scale must be "std" or one number > 0 a column, got {shown}')
        # The deviation of a constant column is the rounding error of its mean.
        largest = np.maximum(np.abs(summary.lowest), np.abs(summary.highest))
        rounding = 8 * np.finfo(np.float64).eps * largest  # infinity without values
        spans = summary.highest - summary.lowest
        with np.errstate(over="ignore"):
            lost = np.flatnonzero((spans > rounding) & (spans**2 < LEAST_SQUARES))
        if len(lost):
            raise InputError(
                f'scale="std": the squares of column {lost[0]} underflow float64, whose values differ by '
                f"{spans[lost[0]]:.3g} at most; multiply the column by a constant first"
            )
        return np.where(summary.deviation > rounding, summary.deviation, 1.0)
    try:
        divisors = np.asarray(scale, np.float64)
    except (OverflowError, TypeError, ValueError):
        divisors = np.empty(0)
    positive = ((divisors > 0) & (divisors < np.inf)).all()
    if divisors.shape != summary.sums.shape or not positive:
        shown = checks.describe_value(scale)
        raise InputError(f'scale must be "std" or one finite number > 0 a column, got {shown}')
    small = np.flatnonzero(divisors < np.sqrt(np.finfo(np.float64).tiny))
    if len(small):
        raise InputError(
            f"scale is {divisors[small[0]]:.3g} for column {small[0]}, and the square of this underflows "
            "float64; multiply the column by a constant first"
        )
    return divisors
