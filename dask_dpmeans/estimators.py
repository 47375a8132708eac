"""scikit-learn's face of the methods: thin, no logic of its own."""

import os
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dask_dpmeans import estimate
from dask_dpmeans import run as runs
from dask_dpmeans.algorithms import dpmeans, search
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimate import Estimate
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.scan import Distances, Labels
from dask_dpmeans.loop import Algorithm, iterate
from dask_dpmeans.sources import RowSource, as_source, is_lazy, lazy_map, lazy_rows
from dask_dpmeans.store import Record, RunStore, Writer


class CentersMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin):
    """What every fitted estimator with centers does, whichever method found them."""

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

    def _mapped(self, X: Any, kernel: Callable[[Block], Any], dtype: Any, width: int | None) -> Any:
        rows = checked_rows(self, X, reset=False)
        if is_lazy(rows):
            return lazy_map(rows, kernel, self.feature_columns_, self.feature_scale_, dtype, width)
        source = self._source(rows)
        answer = np.empty(len(rows) if width is None else (len(rows), width), dtype)
        source.map(kernel, Writer((answer,)), "predict")
        return answer

    def _source(self, rows: Any, sample_weight: Any = None) -> RowSource:
        """Rows, in the columns and units of the fit."""
        return as_source(
            rows,
            sample_weight,
            columns=self.feature_columns_,
            scale=self.feature_scale_,
            centers=self.cluster_centers_,
        )

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters_)


class DPMeans(CentersMixin, BaseEstimator):
    """DP-means clustering: the number of clusters follows from the penalty of one.

    Minimizes inertia + penalty * k by Algorithm 1 of Kulis & Jordan 2012: a row farther than the square root of the
    penalty from every center opens a cluster, rows go to the nearest center, centers become means, and a cluster left
    without weight dies, until nothing changes.  The result is the same, to the byte, for any chunking, threads and
    workers.

    Parameters
    ----------
    penalty : float
        The price of a cluster, in squared units of the rows (lambda of the paper); its square root is a radius that no
        row of weight 1 or more lies beyond.
    search : bool, default False
        Take the penalty as a price, and search for the lowest objective with splits, merges, deletes and trials of
        them (after Odashima et al. 2016 and Fritzke 2020), beside births.  Data of more than 32,768 rows is searched
        on a coreset (Bachem et al. 2015) first, twice, with crossovers of the two ends (Gribel & Vidal 2019); up to
        524,288 rows all rows see a few trials then, and above moves and means alone.  With centers as `init` the search
        starts from them, without a coreset.
    init : "mean", array of shape (k, d), path or fitted DPMeans, default "mean"
        The first centers: the mean of all rows as in the paper, centers, or those of an earlier run or fit.
    max_iter : int, default 300
        The most sweeps, or steps of the search; `sklearn.exceptions.ConvergenceWarning` where they are reached.
    tol : float, default 1e-4
        The fit has converged when a sweep opens nothing and lowers the objective by less than ``tol`` times it.  With 0
        it goes on until the centers repeat to the bit.  The search settles to a fifth of ``tol``, and when no trial
        lowers the objective goes on to a hundredth of it, on up to 524,288 rows.
    max_clusters : int, optional
        `TooManyClustersError` where the penalty opens more.
    random_state : int, RandomState instance or None, default None
        Drawn once and kept in `random_state_`.  Nothing but the search draws from it.

    Attributes
    ----------
    cluster_centers_ : (k, d) float64
        Clusters are numbered in the order in which they opened; a split opens the second of its halves.
    labels_ : (n,) int32
        The nearest center of each row, the lowest number among equals; a lazy Dask array where the input is one, or a
        ``zarr.Array``.
    cluster_weights_ : (k,) float64
        Rows of each cluster, by weight.
    n_clusters_ : int
    inertia_ : float
        Weighted sum of squared distances of the rows to their centers.
    objective_ : float
        ``inertia_ + penalty * n_clusters_``.
    n_iter_ : int
        Sweeps, or steps of the search.
    n_passes_ : float
        Passes over the rows; one over a part of them counts as that part.
    history_ : list of `dask_dpmeans.store.Record`
        One a sweep or step: objective, inertia, clusters, births, deaths, moves of the search and what they gained,
        passes, seconds.
    random_state_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import DPMeans
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    >>> model = DPMeans(penalty=4.0).fit(X)
    >>> model.labels_.tolist(), model.objective_
    ([0, 0, 1, 1], 9.0)
    """

    def __init__(
        self,
        penalty: float,
        *,
        search: bool = False,
        init: Any = "mean",
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.search = search
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : (n, d) NumPy array, Dask array or DataFrame, ``zarr.Array``
        y : ignored
        sample_weight : (n,), optional
            Weights >= 0.  A row of weight w opens a cluster iff min(1, w) times its squared distance exceeds the
            penalty, so that integer weights equal repeated rows.

        Returns
        -------
        self
        """
        method: Algorithm[Any] = self.method()
        self.random_state_ = seed_of(self.random_state)
        rows = checked_rows(self, X, reset=True)
        source = as_source(rows, sample_weight)
        history: list[Record] = []
        for step in iterate(source, method.seeded(self.random_state_)):
            record = Record.of(step.state, source.plan.n_rows, step.seconds)
            history[step.state.step - 1 :] = [record]
        self.feature_columns_: list[int] | None = None
        self.feature_scale_: Float64Array | None = None
        _set_fitted(self, step.state.centers, step.state.weights, history)
        kernel = Labels(Centers(step.state.centers))
        if is_lazy(rows):
            self.labels_ = lazy_map(rows, kernel, None, None, np.int32, None)
        else:
            self.labels_ = np.empty(len(rows), np.int32)
            source.map(kernel, Writer((self.labels_,)), "label")
            self.n_passes_ += 1.0
        if not step.converged:
            warnings.warn(runs.NOT_CONVERGED.format(self.max_iter), ConvergenceWarning, stacklevel=2)
        return self

    def method(self) -> dpmeans.Method | search.Method:
        """The parameters, checked, as the library's core takes them."""
        if not isinstance(self.search, bool | np.bool_):
            raise InputError(f"search must be True or False, got {self.search!r}")
        return (search.Method if self.search else dpmeans.Method)(
            penalty=self.penalty,
            centers=first_centers(self.init),
            max_iter=self.max_iter,
            tol=self.tol,
            max_clusters=self.max_clusters,
        )


def fit(
    data: Any,
    run: str | os.PathLike[str],
    method: DPMeans,
    *,
    sample_weight: Any = None,
    resume: bool = False,
    force: bool = False,
    **options: Any,
) -> DPMeans:
    """Fit from a store to a store, and open the result.

    Parameters
    ----------
    data : path or URL of a Zarr array or ``.npy`` file, or anything that `DPMeans.fit` takes
    run : path of the run store to write
    method : an estimator, its parameters
    sample_weight : like `data`, one-dimensional, optional
    resume : go on with the run that is there from its last committed step
    force : remove the run that is there; nothing but a run of ours is ever removed
    **options : columns (sequence of int), scale ("std"), client (distributed.Client), worker_timeout (seconds
        to wait where the cluster has no worker), threads, memory_limit (bytes of this process), on_step (called each
        step with its number, its `dask_dpmeans.store.Record` and the number of rows)

    Returns
    -------
    A fitted estimator, as `load` gives it.
    """
    runs.fit(
        data,
        run,
        method.method(),
        seed=None if method.random_state is None else seed_of(method.random_state),
        sample_weight=sample_weight,
        resume=resume,
        force=force,
        **options,
    )
    return load(run)


def dry_run(
    data: Any,
    run: str | os.PathLike[str],
    method: DPMeans,
    *,
    sample_weight: Any = None,
    resume: bool = False,
    force: bool = False,
    **options: Any,
) -> Estimate:
    """What `fit` would work on with the same arguments, and what a pass would cost; nothing is written.

    It refuses what `fit` refuses, as far as the metadata and the first rows tell: at most 8 blocks of the first shard
    are read and scanned, with the clusters that they open.  An existing run is not refused, but noted.

    Parameters
    ----------
    data : path or URL of a Zarr array or ``.npy`` file, ``zarr.Array`` or NumPy array
    run, method, sample_weight, resume, force, **options : as `fit` takes them, `on_step` excepted

    Returns
    -------
    Estimate
    """
    return estimate.dry_run(
        data,
        run,
        method.method(),
        seed=None if method.random_state is None else seed_of(method.random_state),
        sample_weight=sample_weight,
        resume=resume,
        force=force,
        **options,
    )


def load(run: str | os.PathLike[str]) -> DPMeans:
    """The fitted estimator of a finished run; its labels are a lazy Dask array.

    Raises
    ------
    InputError
        Where there is no finished run of ours.
    CorruptStoreError
        Where something in it is missing or does not match its checksum.
    """
    result = RunStore.at(run).result()
    parameters = result.manifest["parameters"]
    shared = {name: parameters[name] for name in ("penalty", "max_iter", "tol", "max_clusters")}
    centers = parameters["centers"]
    model = DPMeans(
        **shared,
        search=result.manifest["method"] == search.Method.name,
        init="mean" if centers is None else result.arrays["first_centers"],
        random_state=result.manifest["random_state"],
    )
    model.random_state_ = result.manifest["random_state"]
    model.n_features_in_ = result.manifest["input"]["shape"][1]
    model.feature_columns_ = result.manifest["input"]["columns"]
    model.feature_scale_ = result.arrays.get("feature_scale")
    _set_fitted(model, result.arrays["cluster_centers"], result.arrays["cluster_weights"], result.history)
    model.n_passes_ = result.manifest["n_passes"]
    model.labels_ = lazy_rows(result.open_labels())
    return model


def first_centers(init: Any) -> Float64Array | None:
    """What `init` stands for: centers in the units of the input, or None for the mean of all rows."""
    if isinstance(init, str) and init == "mean":
        return None
    if isinstance(init, str | os.PathLike):
        init = load(init)
    if isinstance(init, DPMeans):
        check_is_fitted(init)
        scale = init.feature_scale_
        return np.array(init.cluster_centers_ if scale is None else init.cluster_centers_ * scale)
    try:
        return np.array(init, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f'init must be "mean", centers (k, d), or an earlier run or fit, got {init!r}') from error


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


def _set_fitted(model: DPMeans, centers: Float64Array, weights: Float64Array, history: list[Record]) -> None:
    last = history[-1]
    model.cluster_centers_ = centers
    model.cluster_weights_ = weights
    model.n_clusters_ = last.n_clusters
    model.inertia_ = last.inertia
    model.objective_ = last.objective
    model.n_iter_ = len(history)
    model.n_passes_ = last.passes
    model.history_ = history
