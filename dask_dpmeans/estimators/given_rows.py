"""Rows, weights and groups that a user gives to an estimator, also as a cube of xarray."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.base import BaseEstimator

from dask_dpmeans import sources
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.checked_rows import checked_rows

if TYPE_CHECKING:
    from dask_dpmeans.sources import Cube, Dimensions, Grid, Names

NO_NAMES = (
    "X is a cube of xarray, along {}: name the dimensions that are samples, or those that are features, "
    "as in fit(X, samples=[...]). A model that was loaded, or fitted to rows, takes rows, such as "
    "X.stack(row=[...]).T; dask_dpmeans.predict takes the path of a cube"
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
    """
    if samples is not None or features is not None:
        cube = sources.open_cube(X, samples, features, missing=missing)
    elif fitted is not None and sources.is_cube(X):
        cube = sources.cube_like(X, fitted, missing=missing)
    else:
        if sources.is_cube(X) and len(getattr(X, "dims", ())) > 2:
            raise InputError(NO_NAMES.format(", ".join(map(repr, X.dims))))
        return GivenRows(*sources.named_rows(X, sample_weight, groups))
    weights, sets = cube.beside(sample_weight, "sample_weight"), cube.beside(groups, "groups")
    return GivenRows(cube.rows, weights, sets, cube, cube.grid.column_names)
