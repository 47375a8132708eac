"""The part of estimators with the options `divergence` and `missing`."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import sources
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import NearestCenterMixin
from dask_dpmeans.estimators.checked_rows import check_output
from dask_dpmeans.estimators.divergence_map import DivergenceMap, divergence_map
from dask_dpmeans.estimators.geography import place_map
from dask_dpmeans.estimators.given_rows import GivenRows
from dask_dpmeans.estimators.transform import FeatureMap
from dask_dpmeans.kernels.assign import Distances
from dask_dpmeans.kernels.block import Float64Array, IndexArray, takes_csr
from dask_dpmeans.kernels.bregman import (
    CATEGORICAL,
    COLUMN_DIVERGENCES,
    MIXED,
    PLAIN,
    ColumnDivergence,
)
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.encoded import NO_MIXTURE, EncodedDivergence
from dask_dpmeans.kernels.encoding import Encoding
from dask_dpmeans.kernels.great_circle import SpherePoints
from dask_dpmeans.kernels.metrics import Haversine, metric_of

if TYPE_CHECKING:
    from dask_dpmeans.sources import Accepting
    from dask_dpmeans.storage import Result


def describe_divergence(divergence: object, missing: object) -> dict[str, Any]:
    """Return the fields of a `Description` of a fit with a `DivergenceMap`."""
    shown = str(divergence)
    if isinstance(divergence, Mapping):
        shown = ", ".join(f"{column}={name}" for column, name in divergence.items())
    settings = {"divergence": shown}
    if missing == "observed":
        settings["missing"] = "observed: costs are scaled up to all columns"
    if missing == "unscaled":
        settings["missing"] = "unscaled: costs are of the columns with a value"
    return {
        "settings": settings,
        "flat": False,
        "cost_name": "divergence",
        "inertia_name": "inertia, the sum of divergences",
        "units": "units of the data",
        "center_columns": None,
    }


def accepted_categories(divergence: object) -> "Accepting":
    """Return which columns of categories an estimator with this divergence accepts."""
    if isinstance(divergence, Mapping):
        named = [key for key, name in divergence.items() if name == CATEGORICAL]
        return {"categories": True, "categorical": named}
    if divergence == CATEGORICAL:
        return {"categories": True, "categorical": "all"}
    return {"categories": divergence == MIXED}


def impute_rows(
    encoding: Encoding, averages: Float64Array, rows: Float64Array, labels: IndexArray
) -> Float64Array:
    """Return rows, (n, d), with values of centers, (k, n_features), in place of missing ones."""
    filled = rows.copy()
    everywhere = encoding.encoded_centers(encoding.means[np.newaxis])
    centers = encoding.centers(np.concatenate([averages, everywhere]))  # -1 is the last
    starts = encoding.layout.starts
    values = centers[:, starts]
    for column in np.flatnonzero(encoding.layout.categories):
        shares = centers[:, starts[column] :][:, : encoding.layout.categories[column]]
        values[:, column] = shares.argmax(axis=1)
    places = np.nonzero(np.isnan(filled))
    filled[places] = values[labels[places[0]], places[1]]
    return filled


class DivergenceMixin(NearestCenterMixin):
    """The part of estimators with the options `divergence` and `missing`."""

    metric: str = "euclidean"
    divergence: Any
    missing: str
    smoothing: float
    balance_columns: bool | None
    _on_csr: ClassVar[bool] = False
    """Whether the method works on encoded CSR rows."""
    cluster_averages_: Float64Array

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        divergence = self.divergence
        if isinstance(divergence, str):
            divergence = COLUMN_DIVERGENCES.get(divergence)
        if isinstance(divergence, ColumnDivergence):
            tags.input_tags.positive_only = divergence.lowest >= 0
        return tags

    def _accepts(self) -> "Accepting":
        categories = accepted_categories(self.divergence)
        csr = takes_csr(self._feature_map())
        return {"missing": self.missing != "error", "csr": csr, **categories}

    def _feature_map(self) -> FeatureMap | None:
        given = self.divergence, self.missing, self.smoothing, self.balance_columns
        learned = None if isinstance(self.divergence, Divergence) else divergence_map(*given)
        if self.metric != "euclidean" and (learned is not None or self.divergence != PLAIN):
            raise InputError(self._reason_without_metric())
        if learned is not None:
            return replace(learned, on_csr=self._on_csr)
        return place_map(self.metric)

    def _reason_without_metric(self) -> str:
        """Return why the metric cannot be used with the other parameters."""
        if self.divergence == PLAIN and self.missing != "error":
            return (
                f"missing={self.missing!r} cannot be used with metric={self.metric!r}: the direction "
                "of a row needs all its columns; fill the missing values first, as impute of a fit "
                "with missing='observed' does, or leave the metric out"
            )
        given = f"divergence={self.divergence!r}"
        if self.divergence == PLAIN:
            given = f"balance_columns={self.balance_columns!r}"
        return (
            f"{given} cannot be used with metric={self.metric!r}, which is a divergence of its own: "
            "leave one of them out"
        )

    def _has_mixture(self) -> bool:
        """Return True; raise `InputError` if no mixture is known for the parameters."""
        if isinstance(self._feature_map(), DivergenceMap):
            raise InputError(
                f"{NO_MIXTURE}, got divergence={self.divergence!r}, missing={self.missing!r}: use predict"
            )
        own = self.divergence if isinstance(self.divergence, Divergence) else metric_of(self.metric)
        if type(own).precision is Divergence.precision:
            own.precision(1.0, 1)  # says that none is known
        return True

    @property
    def _divergence(self) -> Divergence:
        """The cost of a row, (d,) as kernels see it, at a center of this fit."""
        if isinstance(self.divergence, Divergence):
            return self.divergence
        if isinstance(self.features_, Encoding):
            return EncodedDivergence(self.features_)
        if isinstance(self.features_, SpherePoints):
            return Haversine(self.features_.swapped)
        return metric_of(self.metric)

    @property
    def _points(self) -> Float64Array | None:
        return self.cluster_averages_

    def _centers(self) -> Centers:
        return Centers(self.cluster_averages_, self._divergence.general)

    def _set_averages(self, averages: Float64Array) -> None:
        """Set the centers, (k, d), as kernels see them."""
        self.cluster_averages_ = averages
        self.cluster_centers_ = self._divergence.shown(averages)

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        self.cluster_averages_ = result.arrays.get("cluster_averages", self.cluster_centers_)

    def transform(self, X: object) -> Any:
        """Return the distance of each row to each center, (n, k) float64; lazy if X is.

        With other divergences it is the cost, with ``metric="haversine"`` the great-circle distance
        in kilometers.
        """
        check_is_fitted(self)
        check_output(self, X)
        kernel = Distances(self._centers(), self._divergence)
        return self._mapped(X, kernel, np.float64, self.n_clusters_)

    def impute(self, X: object) -> Any:
        """Return rows, (n, d) float64 or a cube, with missing values from the nearest centers.

        NaN becomes the value of the nearest center, in a categorical column its most frequent
        category.  A row without any value becomes the mean of all rows.  Columns that the fit did
        not use stay as they are.

        Parameters
        ----------
        X : (n, d) rows in memory, as for `fit`

        Raises
        ------
        InputError
            Rows of Dask or of a store, or a fit of complete rows.
        """
        self._check_imputes()
        given = self._rows_given(X)
        return self._filled(given, given.checked(self, reset=False), partial(self.predict, X))

    def _check_imputes(self) -> None:
        check_is_fitted(self)
        if not isinstance(self.features_, Encoding):
            raise InputError("impute needs missing='observed' or 'unscaled', got missing='error'")

    def _filled(self, given: GivenRows, rows: Any, predict: Callable[[], Any]) -> Any:
        """Return checked rows, (n, d) or a cube, with missing values from the centers of labels."""
        assert isinstance(self.features_, Encoding)
        if sources.is_lazy(rows):
            raise InputError("impute takes rows in memory: compute parts of X, one after the other")
        filled = np.array(rows, np.float64)
        used = slice(None) if self.feature_columns_ is None else self.feature_columns_
        scale = 1.0 if self.feature_scale_ is None else self.feature_scale_
        averages, labels = self.cluster_averages_, np.ravel(predict())
        part = impute_rows(self.features_, averages, filled[:, used] / scale, labels) * scale
        holes = np.isnan(filled[:, used])
        filled[:, used] = np.where(holes, part, filled[:, used])
        return filled if given.cube is None else given.cube.as_cube(filled)
