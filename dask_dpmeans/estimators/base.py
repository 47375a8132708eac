"""What scikit-learn's faces of the methods have in common."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks, errors
from dask_dpmeans.engine.history import Record
from dask_dpmeans.engine.loop import Algorithm, Step, iterate
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.callbacks import FRAMES, CallbackSupport, Tasks
from dask_dpmeans.estimators.description import Description, rows_as_fitted
from dask_dpmeans.estimators.transform import Learned, Recipe
from dask_dpmeans.kernels.assign import Distances, Labels
from dask_dpmeans.kernels.block import Block, Features, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.sources import (
    Names,
    RowSource,
    as_source,
    check_names,
    is_lazy,
    known_rows,
    lazy_map,
    names_of,
    open_groups,
    opened_rows,
    refused_table,
    unwrapped,
)
from dask_dpmeans.storage.arrays import Writer
from dask_dpmeans.storage.run_store import Result

MOST_SEED = 2**32 - 1
"""The largest that NumPy's `RandomState` takes, and with it scikit-learn."""


class ClustersMixin(ClusterMixin, CallbackSupport):
    """What every estimator knows of its clusters, whatever they are of."""

    def description(self) -> Description:
        """Return how texts and pictures speak of this estimator, fitted or not."""
        return Description()

    def _recipe(self) -> Recipe | None:
        """What its method sees in place of the rows, where that has to be learned from them first."""
        return None

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit has ended: one that was interrupted has noted its columns and its seed."""
        return hasattr(self, "cluster_weights_")

    def _set_fitted(self, weights: Float64Array, inertias: Float64Array, history: list[Record]) -> None:
        last = history[-1]
        self.cluster_weights_ = weights
        self.cluster_inertias_ = inertias
        self.n_clusters_ = last.n_clusters
        self.inertia_ = last.inertia
        self.objective_ = last.objective
        self.n_iter_ = len(history)
        self.n_passes_ = last.passes
        self.history_ = history

    def _reached(self, note: Callable[[Any], None]) -> Mapping[str, Any]:
        """What a fit that ended now would note, by `note`, without noting it."""
        model = copy(self)
        note(model)
        return vars(model)

    def _restore_clusters(self, result: Result) -> None:
        """Note what every run came to."""
        self._set_fitted(result.arrays["cluster_weights"], result.arrays["cluster_inertias"], result.history)


class CentersMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClustersMixin):
    """What every estimator with centers does, whichever method finds them."""

    features_: Features | None = None
    labels_: Any
    n_passes_: float

    feature_columns_: list[int] | None = None
    feature_scale_: Float64Array | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def description(self) -> Description:
        """Return how texts and pictures speak of this estimator, fitted or not."""
        return Description(**rows_as_fitted(self.features_, self.feature_scale_))

    def predict(self, X: Any) -> Any:
        """The number of the nearest center of each row, (n,) int32; lazy where X is."""
        check_is_fitted(self)
        return self._mapped(X, Labels(self._centers()), np.int32, None)

    def transform(self, X: Any) -> Any:
        """The distance of each row, as the fit sees it, to each center, (n, k) float64; lazy where X is."""
        check_is_fitted(self)
        return self._mapped(X, Distances(self._centers()), np.float64, self.n_clusters_)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the inertia of X: the weighted sum of squared distances to the nearest centers."""
        check_is_fitted(self)
        centers = self._centers()
        source = self._source(checked_rows(self, X, reset=False), sample_weight)
        return -batch.inertia_of(source, centers.values, centers.divergence)

    def _centers(self) -> Centers:
        """Return the centers as kernels take them."""
        return Centers(self.cluster_centers_)

    def _mapped(
        self,
        X: Any,
        kernel: Callable[[Block], Any],
        dtype: Any,
        width: int | None,
        groups: Any = None,
        names: Names | None = None,
    ) -> Any:
        rows = checked_rows(self, X, reset=False, names=names)
        if groups is not None:
            rows = known_rows(rows)
            groups = open_groups(groups, rows.shape[0])
        if is_lazy(rows):
            prepared = self.feature_columns_, self.feature_scale_
            return lazy_map(rows, kernel, *prepared, dtype, width, groups, self.features_)
        source = self._source(rows, groups=groups)
        answer = np.empty(rows.shape[:1] if width is None else (rows.shape[0], width), dtype)
        source.map(kernel, Writer((answer,)), "predict")
        return answer

    def _source(self, rows: Any, sample_weight: Any = None, groups: Any = None) -> RowSource:
        """Rows, as the fit saw its own."""
        return as_source(
            rows,
            sample_weight,
            groups=groups,
            columns=self.feature_columns_,
            scale=self.feature_scale_,
            features=self.features_,
            centers=self._points,
        )

    @property
    def _points(self) -> Float64Array | None:
        """(k, d), the centers, where they are points among the rows."""
        return self.cluster_centers_

    def _fit_rows(
        self,
        rows: Any,
        method: Algorithm[Any],
        tasks: Tasks,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> None:
        """Take a method through its steps, and note what they came to and the labels.

        For `fit` itself to call: a warning points at who called that.
        """
        learned = self._learned(rows, method, groups, sample_weight)
        rows = rows if learned.rows is None else learned.rows

        def note(model: CentersMixin, state: Any, history: list[Record]) -> None:
            model._note(learned, rows, groups, method, state, history)

        found = stepped(learned.source, method, tasks, lambda *end: self._reached(lambda model: note(model, *end)))
        note(self, found.state, found.history)
        if not found.wanted:
            warnings.warn(errors.NOT_CONVERGED.format(method.max_iter), ConvergenceWarning, stacklevel=3 + FRAMES)

    def _note(
        self, learned: Learned, rows: Any, groups: Any, method: Algorithm[Any], state: Any, history: list[Record]
    ) -> None:
        """Note what a fit came to, and the labels of the rows."""
        source = learned.source
        self.feature_columns_ = self.feature_scale_ = None
        self.features_ = source.prepare.features
        self._set_fitted(state.weights, state.inertias, history)
        self.n_passes_ += learned.passes
        self._set_centers(method, source, state)
        kernel = method.labels(source, state)
        if is_lazy(rows):
            self.labels_ = lazy_map(rows, kernel, None, None, np.int32, None, groups, self.features_)
        else:
            self.labels_ = np.empty(rows.shape[0], np.int32)
            source.map(kernel, Writer((self.labels_,)), "label")
            self.n_passes_ += 1.0

    def _learned(self, rows: Any, method: Algorithm[Any], groups: Any, sample_weight: Any) -> Learned:
        """What a method sees of rows."""
        recipe = self._recipe()
        source = as_source(rows, sample_weight, groups=groups, features=method.features)
        return Learned(source) if recipe is None else recipe.learn(source, self.random_state_)

    def _set_centers(self, method: Algorithm[Any], source: RowSource, state: Any) -> None:
        """Note the centers of the last state."""
        self.cluster_centers_ = state.centers

    def _restore(self, result: Result) -> None:
        """Note what a run came to."""
        self._restore_clusters(result)
        self.cluster_centers_ = result.arrays["cluster_centers"]

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters_)


class Ended(NamedTuple):
    """What the steps of a fit came to."""

    state: Any
    """The last one that was committed."""
    history: list[Record]
    """Of all steps."""
    wanted: bool
    """Whether the fit converged, or a callback asked for its end."""


def stepped(
    source: RowSource, method: Algorithm[Any], tasks: Tasks, reached: Callable[[Any, list[Record]], Mapping[str, Any]]
) -> Ended:
    """Take a method through its steps, each a task; `reached` says what a fit would note that ended with a state."""
    steps, history = iterate(source, method), list[Record]()
    while True:
        task = tasks.step()
        step: Step[Any] = next(steps)
        history[step.state.step - 1 :] = [Record.of(step.state, source.plan.n_rows, step.seconds)]
        wanted = task.end(partial(reached, step.state, list(history))) or step.converged
        if wanted or step.state.step >= method.max_iter:
            return Ended(step.state, history, wanted)


def seed_of(random_state: Any) -> int:
    """The one seed of a fit: the number given, or one drawn."""
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    seed = checks.integer("random_state", random_state, 0, or_none=", a RandomState or None")
    if seed > MOST_SEED:
        raise InputError(f"random_state must be an integer <= {MOST_SEED}, as NumPy has it, got {seed}")
    return seed


def checked_rows(model: BaseEstimator, X: Any, *, reset: bool, names: Names | None = None) -> Any:
    """X, the number and the names of its columns compared with those of the fit, or noted where `reset`.

    `names` are those of the columns where X was made of tables.
    """
    if isinstance(X, np.ma.MaskedArray):
        raise InputError("X is a masked array: fill or drop the masked entries first, as X.filled(0) does")
    X = opened_rows(unwrapped(X, "X"), type(model).__name__)
    names = names_of(X) if names is None else names
    if not reset:
        check_names(names, getattr(model, "feature_names_in_", None), type(model).__name__)
    if not is_lazy(X):
        X = _array_of(model, X)
    if X.ndim != 2:
        raise InputError(f"X must have 2 dimensions, got shape {X.shape}")
    columns = X.shape[1]
    if reset:
        note_columns(model, columns, names)
    elif columns != model.n_features_in_:
        raise InputError(
            f"X has {columns} features, but {type(model).__name__} is expecting {model.n_features_in_} features as "
            "input"
        )
    return X


def _array_of(model: BaseEstimator, X: Any) -> Any:
    """What is in this process's memory as an array, as scikit-learn has it."""
    sparse = "csr" if get_tags(model).input_tags.sparse else False
    try:
        rows = check_array(X, accept_sparse=sparse, ensure_all_finite=False, estimator=model, input_name="X")
        return rows if rows.dtype.kind != "O" else rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        refused = refused_table(X, "X")
        if refused is None:
            raise
        raise refused from error


def note_columns(model: BaseEstimator, columns: int, names: Sequence[str] | None) -> None:
    """Note how many columns the rows of a fit have, and what they are called."""
    model.n_features_in_ = columns
    model.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    if names is not None:
        model.feature_names_in_ = np.array(names, object)
