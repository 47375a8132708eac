"""The common parts of the scikit-learn estimators: fits, predictions, and checks."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state, estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks, errors, sources, storage
from dask_dpmeans.engine.history import History
from dask_dpmeans.engine.loop import Algorithm, Progress, drive
from dask_dpmeans.engine.plan import Kernel, Source
from dask_dpmeans.errors import InputError, warn
from dask_dpmeans.estimators.callbacks import CallbackSupport, Tasks, with_callbacks
from dask_dpmeans.estimators.checked_rows import check_output, checked_rows, names_in
from dask_dpmeans.estimators.cubes import CubeMixin
from dask_dpmeans.estimators.description import Description, rows_as_fitted, summary_html
from dask_dpmeans.estimators.given_rows import GivenRows
from dask_dpmeans.estimators.transform import FeatureMap, MappedRows
from dask_dpmeans.kernels.assign import Distances, NearestLabels
from dask_dpmeans.kernels.block import Features, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice, Price
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.methods.dpmeans.choice import Auto, ChosenFit

if TYPE_CHECKING:
    from dask_dpmeans.sources import Accepting, Categories, Cube, Dimensions, Names, RowSource
    from dask_dpmeans.storage import Result

RandomState = int | np.integer[Any] | np.random.RandomState | None
"""The types of `random_state`."""
NO_SCORE = "estimator must be one of this package with centers and a score, got {}"
MOST_SEED = 2**32 - 1
"""The largest seed of NumPy's `RandomState`, and so of scikit-learn."""


def limits_of(model: Any) -> dict[str, Any]:
    """Return the limits of a fit of an estimator, as parameters of its algorithm."""
    return {"max_iter": model.max_iter, "tol": model.tol, "max_clusters": model.max_clusters}


class ClustersMixin(ClusterMixin, CallbackSupport):
    """The part of every estimator with clusters, of rows or of nodes."""

    random_state_: int
    categories_: "Categories | None" = None

    def description(self) -> Description:
        """Return how texts and pictures speak of this estimator, fitted or not."""
        return Description()

    def _feature_map(self) -> FeatureMap | None:
        """Return the map that is fitted to the rows first; None to use the rows."""
        return None

    def _auto(self) -> Auto | None:
        """Return the choice of penalties as a value; None if they are numbers."""
        return None

    def _accepts(self) -> "Accepting":
        """Return which rows the estimator accepts that others refuse."""
        return {}

    @property
    def _may_miss(self) -> bool:
        """Whether NaN in the rows is a missing value."""
        return self._accepts().get("missing", False)

    def _reads(self) -> "Accepting":
        """Return which rows the fitted estimator accepts, with the categories of the fit."""
        return {**self._accepts(), "known_categories": self.categories_}

    def _paths(self) -> tuple[object, ...]:
        """Return the parameters that may be paths or URLs."""
        return ()

    def _price(self, penalty: float | None) -> Price:
        """Return the price of clusters among new rows, at a penalty or at the estimator's.

        Raises
        ------
        InputError
            The objective of new rows is not their inertia plus a price for each cluster.
        """
        raise InputError(NO_SCORE.format(type(self).__name__))

    def _center_names(self) -> "Names | None":
        """Return the names of the columns of the first centers, if they are known."""
        return None

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether a fit has ended; one that goes on has noted its columns and its seed."""
        return hasattr(self, "cluster_weights_")

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a summary of the clusters, if fitted, and the parameters."""
        parameters: str = estimator_html_repr(self)
        if not self.__sklearn_is_fitted__():
            return parameters
        return summary_html(self) + parameters

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Return the forms that a notebook can show."""
        forms = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            forms["text/html"] = self._repr_html_()
        return forms

    def _choose(
        self, mapped: MappedRows, method: Algorithm[Any]
    ) -> tuple[Algorithm[Any], ChosenFit | None]:
        """Return the method with chosen penalties, and the choice; None if they are numbers."""
        auto = self._auto()
        if auto is None:
            return method, None
        chosen = mapped.auto(auto).choose(mapped.source, self.random_state_)
        if chosen.choice.unclear:
            warn(chosen.choice.reason)
        return chosen.method, chosen

    def _drive(
        self,
        source: Source,
        method: Algorithm[Any],
        tasks: Tasks,
        note: Callable[[Any, Progress[Any]], None],
    ) -> bool:
        """Fit, set the fitted attributes, and return whether the fit converged.

        `note` sets them on an estimator.  Callbacks get a copy, as if the fit had ended with that
        step.
        """

        def attributes(progress: Progress[Any]) -> Mapping[str, Any]:
            model = copy(self)
            note(model, progress)
            return vars(model)

        end = drive(source, method, [tasks.steps(attributes)])
        note(self, end)
        if not (end.converged or end.stopped or method.draws):
            message = errors.NOT_CONVERGED.format(method.max_iter)
            warn(message, ConvergenceWarning)
        return end.converged

    def _set_fitted(self, weights: Float64Array, inertias: Float64Array, history: History) -> None:
        last = history[-1]
        self.cluster_weights_ = weights
        self.cluster_inertias_ = inertias
        self.n_clusters_ = last.n_clusters
        self.inertia_ = last.inertia
        self.objective_ = last.objective
        self.n_iter_ = len(history)
        self.n_passes_ = last.passes
        self.history_ = history

    def _restore(self, result: "Result") -> None:
        """Set the fitted attributes from a run."""
        arrays = result.arrays
        self._set_fitted(arrays["cluster_weights"], arrays["cluster_inertias"], result.history)


class NearestCenterMixin(
    CubeMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClustersMixin
):
    """The part of every estimator with centers that rows are compared with."""

    features_: Features | None = None
    feature_columns_: list[int] | None = None
    feature_scale_: Float64Array | None = None
    cluster_centers_: Float64Array
    n_passes_: float

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def description(self) -> Description:
        centers, inertias = map(vars(self).get, ("cluster_centers_", "cluster_inertias_"))
        fitted = rows_as_fitted(self.features_, self.feature_scale_)
        return Description(centers=centers, inertias=inertias, **fitted)

    def predict(self, X: object) -> Any:
        """Return the number of the nearest center of each row, (n,) int32; lazy if X is."""
        check_is_fitted(self)
        return self._mapped(X, NearestLabels(self._centers()), np.int32)

    def transform(self, X: object) -> Any:
        """Return the distance of each row to each center, (n, k) float64; lazy if X is."""
        check_is_fitted(self)
        check_output(self, X)
        return self._mapped(X, Distances(self._centers()), np.float64, self.n_clusters_)

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return minus the inertia, the weighted sum of squared distances to nearest centers."""
        check_is_fitted(self)
        centers, given = self._centers(), self._rows_given(X, sample_weight)
        source = self._source(given.checked(self, reset=False), given.sample_weight)
        return -batch.inertia_of(source, centers.values, centers.divergence, centers.most)

    def _price(self, penalty: float | None) -> Price:
        return LinearPrice(self.method().penalty if penalty is None else penalty)

    def _centers(self) -> Centers:
        """Return the centers as kernels take them."""
        return Centers(self.cluster_centers_)

    def _mapped_rows(
        self,
        X: object,
        kernel: Kernel,
        dtype: npt.DTypeLike,
        width: int | None = None,
        groups: object = None,
        names: "Names | None" = None,
    ) -> Any:
        """Return the answers of a kernel on the rows of X, (n,) or (n, width); lazy if X is."""
        rows = checked_rows(self, X, reset=False, names=names)
        if groups is not None:
            rows = sources.known_rows(rows)
            groups = sources.open_groups(groups, rows.shape[0])
        if sources.is_lazy(rows):
            return self._map_lazily(rows, kernel, dtype, width, groups)
        source = self._source(rows, groups=groups)
        shape: tuple[int, ...] = rows.shape[:1]
        if width is not None:
            shape = (rows.shape[0], width)
        answer = np.empty(shape, np.dtype(dtype))
        source.map(kernel, storage.Writer((answer,)), "predict")
        return answer

    def _map_lazily(
        self,
        rows: Any,
        kernel: Kernel,
        dtype: npt.DTypeLike,
        width: int | None = None,
        groups: object = None,
        meta: object = None,
    ) -> Any:
        """Return the answers of a kernel on lazy rows; see `sources.lazy_map`."""
        columns, scale, features = self.feature_columns_, self.feature_scale_, self.features_
        how = columns, scale, dtype, width, groups, features, meta, self._may_miss
        return sources.lazy_map(rows, kernel, *how)

    def _source(
        self, rows: object, sample_weight: object = None, groups: object = None
    ) -> "RowSource":
        """Return rows with the columns, the scale and the features of the fit."""
        return sources.as_source(
            rows,
            sample_weight,
            groups=groups,
            known_names=names_in(self),
            columns=self.feature_columns_,
            scale=self.feature_scale_,
            features=self.features_,
            centers=self._points,
            **self._reads(),
        )

    @property
    def _points(self) -> Float64Array | None:
        """The centers, (k, d), if they are points among the rows."""
        return self.cluster_centers_

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters_)


@dataclass(frozen=True)
class RowFit:
    """A fit of rows: what was given, and what the method saw."""

    method: Algorithm[Any]
    mapped: MappedRows
    rows: Any
    """The rows as given, or those that the feature map made of them."""
    groups: Any
    cube: "Cube | None" = None
    """The cube that the rows are of."""
    chosen: ChosenFit | None = None
    """The choice of the penalties; None if they were given."""

    @property
    def source(self) -> "RowSource":
        """The rows as the method sees them."""
        return self.mapped.source


class CentersMixin(NearestCenterMixin):
    """The part of every estimator that fits centers to rows by an `Algorithm`."""

    def method(self) -> Algorithm[Any]:
        """Return the checked parameters as an algorithm.

        Raises
        ------
        InputError
            A parameter that cannot be used.
        """
        raise NotImplementedError

    @with_callbacks
    def fit(
        self,
        X: object,
        y: object = None,
        sample_weight: object = None,
        *,
        samples: "Dimensions" = None,
        features: "Dimensions" = None,
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : (n, d) NumPy array, scipy.sparse array, Dask array or DataFrame, or ``zarr.Array``
            A Dask array may have sparse chunks, and a ``zarr.Group`` may store CSR rows.  With a
            precomputed kernel or affinity, X is the matrix, (n, n).  With `samples` or `features`
            it is an `xarray.DataArray` or `xarray.Dataset` of any dimensions.
        y : ignored
        sample_weight : (n,), optional
            Weights >= 0, or the name of a column of a data frame X, which is then no feature.  A row
            of weight w opens a cluster iff min(1, w) times its squared distance exceeds the penalty.
            So an integer weight equals a repeated row.  Of a cube a DataArray that broadcasts
            against the samples, or "latitude", its cosine.
        samples, features : str or sequence of str, optional
            Dimensions of a cube that are samples, and those that are features; one of the two may
            be left out for all others.  The variables of a Dataset are along "variable".  Samples
            with NaN in a feature are left out and get the label -1, unless `missing` keeps them.
            Labels are then a DataArray on the samples' grid, and `centers_dataarray_` has the
            centers with the features' coordinates.

        Returns
        -------
        self
        """
        method = self.method()
        tasks = Tasks.of(self, X, y, sample_weight, most=method.max_iter)
        self.random_state_ = seed_of(self.random_state)
        given = self._rows_to_fit(X, samples, features, sample_weight)
        rows = given.checked(self, reset=True)
        self._check_fit(given.sample_weight)
        self._fit_rows(rows, method.seeded(self.random_state_), tasks, given)
        tasks.end()
        return self

    def _check_fit(self, sample_weight: object) -> None:
        """Refuse what cannot be used together with the columns of X."""

    def _fit_rows(self, rows: Any, method: Algorithm[Any], tasks: Tasks, beside: GivenRows) -> None:
        """Fit, and set the fitted attributes; for `fit` alone: a warning points at its caller."""
        mapped = self._map_rows(rows, method, beside.groups, beside.sample_weight)
        if mapped.rows is not None:
            rows = mapped.rows
        method, chosen = self._choose(mapped, mapped.method(method))
        given = RowFit(method, mapped, rows, beside.groups, beside.cube, chosen)

        def note(model: Self, progress: Progress[Any]) -> None:
            model._note(given, progress)

        converged = self._drive(mapped.source, method, tasks, note)
        choice = getattr(self, "choice_", None)
        if converged and choice is not None and choice.unlike(self.n_clusters_):
            warn(choice.differs(self.n_clusters_))

    def _map_rows(
        self, rows: object, method: Algorithm[Any], groups: object, sample_weight: object
    ) -> MappedRows:
        """Return the rows as the method sees them."""
        feature_map = self._feature_map()
        source = sources.as_source(
            rows,
            sample_weight,
            groups=groups,
            known_names=names_in(self),
            features=method.features,
            **self._reads(),
        )
        if feature_map is None:
            return MappedRows(source)
        return feature_map.fit(source, self.random_state_)

    def _note(self, given: RowFit, progress: Progress[Any]) -> None:
        """Set the fitted attributes, and label the rows."""
        source, state = given.source, progress.state
        self.feature_columns_ = self.feature_scale_ = None
        self.features_ = source.prepare.features
        self._set_fitted(state.weights, state.inertias, progress.history)
        self.n_passes_ += given.mapped.passes
        self._set_centers(given.method, source, state)
        self._label(given, state)
        if given.cube is not None:
            self._place_labels(given.cube)

    def _label(self, given: RowFit, state: Any) -> None:
        """Label the rows by a state."""
        self.labels_ = self._row_labels(given, given.method.labels(given.source, state))

    def _row_labels(self, given: RowFit, kernel: Kernel) -> Any:
        """Return the labels of the rows, (n,) int32, by a kernel; lazy if the rows are."""
        if sources.is_lazy(given.rows):
            return self._map_lazily(given.rows, kernel, np.int32, groups=given.groups)
        labels = np.empty(given.rows.shape[0], np.int32)
        given.source.map(kernel, storage.Writer((labels,)), "label")
        self.n_passes_ += 1.0
        return labels

    def _set_centers(self, method: Algorithm[Any], source: "RowSource", state: Any) -> None:
        """Set the centers of a state."""
        self.cluster_centers_ = state.centers

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        self.cluster_centers_ = result.arrays["cluster_centers"]


def seed_of(random_state: object) -> int:
    """Return the one seed of a fit: the number given, or one drawn."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    seed = checks.integer("random_state", random_state, 0, or_none=", a RandomState or None")
    if seed > MOST_SEED:
        raise InputError(f"random_state must be an integer <= {MOST_SEED}, as in NumPy, got {seed}")
    return seed
