"""Cubes of xarray in fits and predictions: rows from a cube, labels and centers on its grid."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dask_dpmeans import sources
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.given_rows import GivenRows, given_rows
from dask_dpmeans.kernels.block import Float64Array

if TYPE_CHECKING:
    from dask_dpmeans.sources import Cube, Dimensions, Grid, Names


class CubeMixin:
    """The part of an estimator with centers that takes a cube as rows, and answers on its grid."""

    description: Callable[[], Description]
    _may_miss: bool
    _mapped_rows: Callable[..., Any]
    cluster_centers_: Float64Array
    labels_: Any
    n_features_in_: int
    grid_: "Grid | None" = None
    """The samples' grid and the features, if the fit was of a cube; a loaded run has no coordinates."""

    @property
    def centers_dataarray_(self) -> Any:
        """The centers as an `xarray.DataArray`, (cluster, features), if the fit was of a cube.

        After `load` they have no coordinates: the run has them.
        """
        if self.grid_ is None:
            raise AttributeError(
                "centers_dataarray_ is there after a fit of a cube of xarray alone"
            )
        centers = self.cluster_centers_
        if self.description().center_columns or centers.shape[1] != self.grid_.n_features:
            raise AttributeError(
                "centers_dataarray_ is not there: the centers have other columns than the cube"
            )
        return sources.centers_array(self.grid_, centers)

    def _rows_to_fit(
        self,
        X: object,
        samples: "Dimensions",
        features: "Dimensions",
        sample_weight: object = None,
        groups: object = None,
    ) -> GivenRows:
        """Return what is given for a fit, a cube as rows, and note the grid."""
        given = given_rows(X, sample_weight, groups, samples, features, missing=self._may_miss)
        self.__dict__.pop("grid_", None)  # of an earlier fit
        if given.cube is not None:
            self.grid_ = given.cube.grid
        return given

    def _rows_given(
        self, X: object, sample_weight: object = None, groups: object = None
    ) -> GivenRows:
        """Return what is given for a fitted estimator, after a fit of a cube as rows."""
        columns = self.n_features_in_
        return given_rows(
            X, sample_weight, groups, fitted=self.grid_, missing=self._may_miss, n_columns=columns
        )

    def _mapped(
        self,
        X: object,
        kernel: Kernel,
        dtype: npt.DTypeLike,
        width: int | None = None,
        groups: object = None,
        names: "Names | None" = None,
        dim: str = "cluster",
    ) -> Any:
        """Return the answers of a kernel on X, (n,) or (n, width); lazy if X is.

        Of a cube they are on the samples' grid, the last dimension called `dim`.
        """
        given = self._rows_given(X, groups=groups)
        if given.cube is None:
            return self._mapped_rows(X, kernel, dtype, width, groups, names)
        answer = self._mapped_rows(
            given.cube.rows_to_answer, kernel, dtype, width, given.groups, given.names
        )
        return given.cube.place(answer, dim)

    def _place_labels(self, cube: "Cube") -> None:
        """Put the labels of the rows on the samples' grid."""
        self.labels_ = cube.place(self.labels_)
