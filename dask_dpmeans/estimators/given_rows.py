"""Rows, weights and groups that a user gives to an estimator, also as a cube of xarray."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

from dask_dpmeans import sources
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.checked_rows import checked_rows

if TYPE_CHECKING:
    from dask_dpmeans.sources import Cube, Dimensions, Grid, Names

NO_NAMES = (
    "X is a cube of xarray, along {}: name the dimensions that are samples, or those that are features, "
    "as in fit(X, features={!r})"
)


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows with weights and groups; made of a cube, if there is one."""

    rows: Any
    sample_weight: Any = None
    groups: Any = None
    cube: "Cube | None" = None
    names: "Names | None" = None
    """Names of the columns, if the rows do not tell them."""

    def checked(self, model: BaseEstimator, *, reset: bool) -> Any:
        """Return the rows, (n, d), after a check of their columns against the fit."""
        return checked_rows(model, self.rows, reset=reset, names=self.names)


def given_rows(
    X: Any,
    sample_weight: object = None,
    groups: object = None,
    samples: "Dimensions" = None,
    features: "Dimensions" = None,
    *,
    fitted: "Grid | None" = None,
    missing: bool = False,
    n_columns: int | None = None,
) -> GivenRows:
    """Return what a user gives, a cube as rows.

    Parameters
    ----------
    X : rows of any kind, or a cube
    sample_weight, groups : beside the rows, names of columns of a data frame, or along dimensions of
        the samples
    samples, features : names of dimensions of a cube
    fitted : the grid of a fit, whose dimensions a cube has; then `samples` and `features` are None
    missing : whether NaN is a missing value
    n_columns : number of columns of a fit; None before a fit
    """
    if samples is not None or features is not None:
        cube = sources.open_cube(X, samples, features, missing=missing)
    elif fitted is not None and sources.is_cube(X) and not _are_rows(X, fitted):
        cube = sources.cube_like(X, fitted, missing=missing)
    else:
        if sources.is_cube(X) and len(getattr(X, "dims", ())) > 2:
            raise _no_rows(X, n_columns)
        return GivenRows(*sources.named_rows(X, sample_weight, groups))
    weights, sets = cube.beside(sample_weight, "sample_weight"), cube.beside(groups, "groups")
    return GivenRows(cube.rows, weights, sets, cube, cube.grid.column_names)


def _are_rows(cube: Any, fitted: "Grid") -> bool:
    """Return whether an array of xarray has two dimensions, none of which a fit had: it is rows."""
    dims = tuple(getattr(cube, "dims", ()))
    known = {*fitted.samples, *fitted.features}
    return len(dims) == 2 and hasattr(cube, "dtype") and known.isdisjoint(dims)


def _no_rows(cube: Any, n_columns: int | None) -> InputError:
    """Return the error for a cube where rows are needed; `n_columns` is as in `given_rows`."""
    dims = ", ".join(map(repr, cube.dims))
    if n_columns is None:
        example = cube.dims[-1] if hasattr(cube, "dtype") else "variable"
        return InputError(NO_NAMES.format(dims, example))
    subject = f"X is a cube of xarray, along {dims}, and the model was fitted to rows of {n_columns:,} columns"
    features = _dimensions_of(cube.sizes, n_columns)
    if features is None:
        return InputError(f"{subject}, which no dimensions of X have together: choose a part of X")
    samples = [dim for dim in cube.dims if dim not in features]
    return InputError(
        f"{subject}: pass such rows, as X.stack(row={samples}, column={features}).transpose('row', "
        "'column').data"
    )


def _dimensions_of(sizes: Mapping[str, int], n_columns: int) -> list[str] | None:
    """Return the fewest dimensions that have so many places together; None if there are none.

    >>> _dimensions_of({"band": 2, "time": 3, "lat": 5}, 6)
    ['band', 'time']
    """
    for count in range(1, len(sizes)):
        for dims in combinations(sizes, count):
            if prod(sizes[dim] for dim in dims) == n_columns:
                return list(dims)
    return None
