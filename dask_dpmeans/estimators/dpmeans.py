"""The scikit-learn estimator of DP-means."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks
from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import CentersMixin, checked_rows, seed_of
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.estimators.description import Description, radius_or_price
from dask_dpmeans.estimators.spec import ArrayParameter, MethodSpec
from dask_dpmeans.kernels.assign import Predictions
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import metric_of
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.sources import check_centers, names_of
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.run_store import Result, RunStore


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
        row of weight 1 or more lies beyond.  With ``metric="cosine"`` it is 2 (1 - cos) of an angle that no row of
        weight 1 or more is away from its center: 2 is a right angle, and beyond 4 no row would open a cluster, which is
        an error without `search`.  Any `numbers.Real` but a bool will do, such as a `fractions.Fraction`.
    search : bool, default False
        Take the penalty as a price, and search for the lowest objective with splits, merges, deletes and trials of
        them (after Odashima et al. 2016 and Fritzke 2020), beside births.  Data of more than 32,768 rows is searched
        on a coreset (Bachem et al. 2015) first, twice, with crossovers of the two ends (Gribel & Vidal 2019); up to
        524,288 rows all rows see a few trials then, and above moves and means alone.  With centers as `init` the search
        starts from them, without a coreset.  Up to 8,192 rows, of 1,048,576 numbers in all, it ends with moves of
        single rows (Hartigan 1975).  Without a coreset births alone are run too, with the same parameters, and the
        search goes on from these if they are lower: where it converges, it ends no higher (with "cosine"
        to rounding).  Up to 8,192 rows they go on until centers repeat, whatever `tol`.  They are left out where they
        open more than `max_clusters`, and where the penalty is beyond 4 with ``metric="cosine"``, which would be
        errors.  A search that stops at `max_iter`, or that began on a coreset, may end above births alone.
    metric : "euclidean" or "cosine", default "euclidean"
        With "cosine" rows are compared by direction alone, as embeddings are: each is brought to unit length (after
        its columns were divided, where they are), so that squared distances are 2 (1 - cosine), and centers are the
        directions of sums of rows, of unit length (spherical k-means, Dhillon & Modha 2001).  Rows whose sum is 0, or
        less than 1e-12 of their weight, leave their center where it was, and the first one at the first axis.
        `InputError` for a row that is 0 in every column.
    init : "mean", array of shape (k, d), path or fitted DPMeans, default "mean"
        The first centers: the mean of all rows as in the paper, centers, or those of an earlier run or fit.  With
        ``metric="cosine"`` their directions.
    max_iter : int, default 300
        The most sweeps, or steps of the search; `sklearn.exceptions.ConvergenceWarning` where they are reached.  A fit
        keeps the centers of its last pass, on which its labels and figures are exact, and not the means that follow
        from them: after one sweep these are the first centers, and those that opened.  A loop that goes on from the
        centers of the fit before, with `init`, moves by one sweep a turn with ``max_iter=2``, and never with 1.
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
        Clusters are numbered in the order in which they opened; a split opens the second of its halves.  With
        ``metric="cosine"`` they are of unit length, to the rounding of the rows' own precision.
    labels_ : (n,) int32
        The nearest center of each row, the lowest number among equals; a lazy Dask array where the input is one, or a
        ``zarr.Array``.
    cluster_weights_ : (k,) float64
        Rows of each cluster, by weight.
    cluster_inertias_ : (k,) float64
        Weighted sum of squared distances of the rows of each cluster to its center.
    n_clusters_ : int
    inertia_ : float
        Weighted sum of squared distances of the rows to their centers; with ``metric="cosine"`` of 2 (1 - cosine).
    objective_ : float
        ``inertia_ + penalty * n_clusters_``.
    n_iter_ : int
        Sweeps, or steps of the search.
    n_passes_ : float
        Passes over the rows; one over a part of them counts as that part.
    history_ : list of `dask_dpmeans.engine.history.Record`
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
        metric: str = "euclidean",
        init: Any = "mean",
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.search = search
        self.metric = metric
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : (n, d) NumPy array, scipy.sparse array, Dask array (of either) or DataFrame, ``zarr.Array``
            Or a ``zarr.Group`` of CSR rows.
        y : ignored
        sample_weight : (n,), optional
            Weights >= 0.  A row of weight w opens a cluster iff min(1, w) times its squared distance exceeds the
            penalty, so that integer weights equal repeated rows.

        Returns
        -------
        self
        """
        method: Algorithm[Any] = self.method()
        tasks = Tasks.of(self, X, y, sample_weight, most=method.max_iter)
        self.random_state_ = seed_of(self.random_state)
        rows = checked_rows(self, X, reset=True)
        check_centers(center_names(self.init), getattr(self, "feature_names_in_", None), None)
        self._fit_rows(rows, method.seeded(self.random_state_), tasks, sample_weight=sample_weight)
        tasks.end()
        return self

    def description(self) -> Description:
        """Return how texts and pictures speak of this estimator, fitted or not."""
        read = radius_or_price(self.penalty, self.metric, search=self.search)
        return replace(
            super().description(),
            radius=None if self.search else math.sqrt(self.penalty),
            settings={"metric": self.metric, "penalty": f"{self.penalty:g}{read}"},
            pictures=("profile",),
        )

    def _centers(self) -> Centers:
        """Return the centers as kernels take them."""
        return Centers(self.cluster_centers_, metric_of(self.metric).general)

    def method(self) -> batch.Method | search.Method:
        """The parameters, checked, as the library's core takes them."""
        checks.switch("search", self.search)
        return (search.Method if self.search else batch.Method)(
            penalty=self.penalty,
            metric=self.metric,
            centers=first_centers(self.init),
            max_iter=self.max_iter,
            tol=self.tol,
            max_clusters=self.max_clusters,
        )


INIT = 'init must be "mean", centers (k, d), a fitted DPMeans or HDPMeans, or the path of a finished run'
"""What first centers may be given as."""


AMONG_FEATURES = "the centers of init are among features of a kernel, which the rows are not: leave it out"


def first_centers(init: Any) -> Float64Array | None:
    """What `init` stands for: centers in the units of the input, or None for the mean of all rows."""
    if isinstance(init, str) and init == "mean":
        return None
    if isinstance(init, str | os.PathLike | Location):
        result = earlier_run(init)
        if result.manifest["learned_features"]:
            raise InputError(AMONG_FEATURES)
        return in_input_units(result.arrays.get("cluster_centers"), result.arrays.get("feature_scale"), init)
    checks.no_matrix("init", init)
    if isinstance(init, CentersMixin):
        check_is_fitted(init)
        if init.description().learned_rows:
            raise InputError(AMONG_FEATURES)
        return in_input_units(getattr(init, "cluster_centers_", None), init.feature_scale_, init)
    try:
        return np.array(init, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{INIT}, got {checks.shown(init)}") from error


def center_names(init: Any) -> tuple[str, ...] | None:
    """What the columns of first centers are called, where `init` tells."""
    if isinstance(init, str) and init == "mean":
        return None
    if isinstance(init, str | os.PathLike | Location):
        manifest = earlier_run(init).manifest
        return _chosen(manifest.get("column_names"), manifest["input"]["columns"])
    if not isinstance(init, CentersMixin):
        return names_of(init)
    names = getattr(init, "feature_names_in_", None)
    return _chosen(None if names is None else names.tolist(), init.feature_columns_)


def _chosen(names: Sequence[str] | None, columns: Sequence[int] | None) -> tuple[str, ...] | None:
    """The names of some columns, of all where none are chosen."""
    if names is None:
        return None
    return tuple(names if columns is None else (names[column] for column in columns))


def earlier_run(init: Any) -> Result:
    """Return the finished run at a path that first centers are taken from."""
    try:
        return RunStore.at(init).result()
    except InputError as error:
        raise InputError(f"{INIT}, got {getattr(init, 'shown', init)!r}: {error}") from error


def in_input_units(centers: Float64Array | None, scale: Float64Array | None, init: Any) -> Float64Array:
    """Return centers, (k, d), of an earlier run or fit in the units of its input."""
    if centers is None:
        raise InputError(f"{INIT}, got {checks.shown(init)}, which has no centers among the rows")
    return np.array(centers if scale is None else centers * scale)


def _predictor(result: Result) -> Kernel:
    parameters = result.manifest["parameters"]
    centers = Centers(result.arrays["cluster_centers"], metric_of(parameters.get("metric", "euclidean")).general)
    return Predictions(centers, parameters["penalty"])


def _parameters(model: DPMeans, method: batch.Method | search.Method) -> dict[str, Any]:
    """Centers that a fit started from are an array of the run, wherever they came from."""
    init = "mean" if method.centers is None else ArrayParameter("first_centers")
    return {**model.get_params(deep=False), "init": init}


SPEC = MethodSpec(DPMeans, (batch.Method, search.Method), _predictor, parameters=_parameters)
