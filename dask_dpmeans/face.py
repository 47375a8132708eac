"""What scikit-learn's faces of the methods have in common."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dask_dpmeans import run as runs
from dask_dpmeans.algorithms import dpmeans
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Features, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.scan import Distances, Labels
from dask_dpmeans.loop import Algorithm, iterate
from dask_dpmeans.sources import RowSource, as_source, is_lazy, lazy_map
from dask_dpmeans.store import Record, Writer


class CentersMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin):
    """What every estimator with centers does, whichever method finds them."""

    feature_columns_: list[int] | None
    feature_scale_: Float64Array | None
    labels_: Any
    n_passes_: float
    _features: Features | None = None
    """What the centers are centers of, instead of the rows as they are."""

    def predict(self, X: Any) -> Any:
        """The number of the nearest center of each row, (n,) int32; lazy where X is."""
        check_is_fitted(self)
        return self._mapped(X, Labels(Centers(self.cluster_centers_)), np.int32, None)

    def transform(self, X: Any) -> Any:
        """The distance of each row to each center, (n, k) float64; lazy where X is."""
        check_is_fitted(self)
        return self._mapped(X, Distances(self.cluster_centers_), np.float64, self.n_clusters_)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the inertia of X: the weighted sum of squared distances to the nearest centers."""
        check_is_fitted(self)
        return -dpmeans.inertia_of(
            self._source(checked_rows(self, X, reset=False), sample_weight), self.cluster_centers_
        )

    def _mapped(self, X: Any, kernel: Callable[[Block], Any], dtype: Any, width: int | None, groups: Any = None) -> Any:
        rows = checked_rows(self, X, reset=False)
        if is_lazy(rows):
            columns, scale = self.feature_columns_, self.feature_scale_
            return lazy_map(rows, kernel, columns, scale, dtype, width, groups, self._features)
        source = self._source(rows, groups=groups)
        answer = np.empty(len(rows) if width is None else (len(rows), width), dtype)
        source.map(kernel, Writer((answer,)), "predict")
        return answer

    def _source(self, rows: Any, sample_weight: Any = None, groups: Any = None) -> RowSource:
        """Rows, in the columns and units of the fit."""
        return as_source(
            rows,
            sample_weight,
            groups=groups,
            columns=self.feature_columns_,
            scale=self.feature_scale_,
            features=self._features,
            centers=self.cluster_centers_,
        )

    def _fit_rows(
        self, rows: Any, method: Algorithm[Any], groups: Any = None, sample_weight: Any = None
    ) -> tuple[RowSource, Any]:
        """Take a method through its steps, and note what they came to and the labels; the rows, and the last state."""
        source = as_source(rows, sample_weight, groups=groups)
        return source, self._fit_source(source, rows, method, groups)

    def _fit_source(self, source: RowSource, rows: Any, method: Algorithm[Any], groups: Any = None) -> Any:
        """The same with rows that are a source already."""
        history: list[Record] = []
        for step in iterate(source, method):
            history[step.state.step - 1 :] = [Record.of(step.state, source.plan.n_rows, step.seconds)]
        self.feature_columns_ = self.feature_scale_ = None
        self._set_fitted(step.state.centers, step.state.weights, history)
        kernel = method.labels(source, step.state)
        if is_lazy(rows):
            features = source.prepare.features
            self.labels_ = lazy_map(rows, kernel, None, None, np.int32, None, groups, features)
        else:
            self.labels_ = np.empty(len(rows), np.int32)
            source.map(kernel, Writer((self.labels_,)), "label")
            self.n_passes_ += 1.0
        if not step.converged:
            warnings.warn(runs.NOT_CONVERGED.format(method.max_iter), ConvergenceWarning, stacklevel=4)
        return step.state

    def _set_fitted(self, centers: Float64Array, weights: Float64Array, history: list[Record]) -> None:
        last = history[-1]
        self.cluster_centers_ = centers
        self.cluster_weights_ = weights
        self.n_clusters_ = last.n_clusters
        self.inertia_ = last.inertia
        self.objective_ = last.objective
        self.n_iter_ = len(history)
        self.n_passes_ = last.passes
        self.history_ = history

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters_)


def seed_of(random_state: Any) -> int:
    """The one seed of a fit: the number given, or one drawn."""
    if isinstance(random_state, int | np.integer):
        if random_state < 0:
            raise InputError(f"random_state must be >= 0, got {random_state}")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def checked_rows(model: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """X, its columns compared with those of the fit, or noted where `reset`."""
    if isinstance(X, np.ma.MaskedArray):
        raise InputError("X is a masked array: fill or drop the masked entries first, as X.filled(0) does")
    if not is_lazy(X):
        return validate_data(model, X, reset=reset, dtype="numeric", ensure_all_finite=False, ensure_min_samples=1)
    if X.ndim != 2:
        raise InputError(f"X must have 2 dimensions, got shape {X.shape}")
    columns = X.shape[1]
    if reset:
        model.n_features_in_ = columns
    elif columns != model.n_features_in_:
        raise InputError(
            f"X has {columns} features, but {type(model).__name__} is expecting {model.n_features_in_} features"
        )
    return X
