"""scikit-learn's face of kernel DP-means: clusters in the space of a kernel function."""

import math
from collections.abc import Callable
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
from dask_dpmeans.estimators.kernel_maps import FEATURE_ARRAYS, Approximation, approximation_of, restored_features
from dask_dpmeans.estimators.spec import CENTERS, MethodSpec
from dask_dpmeans.kernels.assign import Predictions
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.kernel_centers import (
    ImplicitCenters,
    ImplicitDistances,
    ImplicitInertia,
    ImplicitLabels,
    ImplicitPredictions,
)
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.kernel import batch as kernel
from dask_dpmeans.methods.kernel import search as kernel_search
from dask_dpmeans.sources import RowSource
from dask_dpmeans.storage.array_spec import ArraySpec
from dask_dpmeans.storage.run_store import Result

NO_DISTANCES = (
    "kernel='precomputed': a matrix of similarities to the fitted rows does not tell those of the new rows with "
    "themselves, and so no distances: predict gives labels"
)


class KernelDPMeans(CentersMixin, BaseEstimator):
    """DP-means in the space of a kernel function: clusters of any shape, their number from the penalty of one.

    Minimizes inertia + penalty * k (Kulis & Jordan 2012, section 5.2), with squared distances between images of rows,
    which inner products alone give: K_ii - 2 K_ij + K_jj.  The result is the same, to the byte, for any chunking,
    threads and workers.

    The exact form compares each row with all others, n**2 values of the kernel for each sweep, and hands all rows to
    each task, up to 2**28 bytes of float64; the n x n matrix is never in memory.  An approximation makes features of
    the rows, a few hundred columns whose inner products are about the values of the kernel, and its cost grows with n
    alone, out of core too.

    Parameters
    ----------
    penalty : float
        The price of a cluster, in units of the kernel times weight.  Where a row lies farther than its square root from
        every center, in the space of the kernel, it opens a cluster.  With "rbf" squared distances are at most 2.
    kernel : {"rbf", "linear", "poly", "cosine", "precomputed"} or callable, default "rbf"
        As scikit-learn defines them; "precomputed" where X is the symmetric matrix (n, n) of K itself.  A function
        is called with A, (a, d), and B, (b, d), in float64, and gives (a, b); it must be symmetric.  Where K is not
        positive semidefinite the objective may rise from sweep to sweep: the fit ends before it does.  `InputError`
        where it has a number below 0 on its diagonal.
    gamma : float, optional
        Of "rbf" and "poly"; 1 / (number of columns) by default.  `InputError` where it is given and the kernel has no
        use for it, as for the next two.
    degree : int, default 3
        Of "poly".
    coef0 : float, default 1.0
        Of "poly".
    approximation : {"nystroem", "fourier"}, optional
        Features from a sample of the rows (`sklearn.kernel_approximation.Nystroem`), or random ones of "rbf"
        (`sklearn.kernel_approximation.RBFSampler`), float32 where the rows are.
    n_components : int, default 100
        Features of an approximation, of no use without; of "nystroem" also the rows of the sample, no more than there
        are, drawn from all, those of weight 0 too.
    search : bool, default False
        Take the penalty as a price, and search for the lowest objective.  With an approximation as `DPMeans` does.  In
        the exact form the sweeps of Algorithm 1 come first, and the search never ends above them; then rows move alone,
        and clusters are cut into pieces that move, merge and split, by their exact effect on the objective.
    max_iter : int, default 300
        The most sweeps; `sklearn.exceptions.ConvergenceWarning` where they are reached.
    tol : float, default 1e-4
        The fit has converged when a sweep opens nothing and lowers the objective by less than ``tol`` times it.  With 0
        it goes on until the clusters repeat.
    max_clusters : int, optional
        `TooManyClustersError` where the penalty opens more.
    random_state : int, RandomState instance or None, default None
        Drawn once and kept in `random_state_`.  An approximation and a search draw from it.

    Attributes
    ----------
    labels_ : (n,) int32
        The nearest center of each row, the lowest number among equals; a lazy Dask array where the input is one, or a
        ``zarr.Array``.
    cluster_weights_ : (k,) float64
        Rows of each cluster, by weight.
    cluster_inertias_ : (k,) float64
        Weighted sum of squared distances of the rows of each cluster to its center, in the space of the kernel.
    n_clusters_ : int
    inertia_ : float
        Weighted sum of squared distances of the rows to their centers.
    objective_ : float
        ``inertia_ + penalty * n_clusters_``.
    implicit_centers_ : dask_dpmeans.kernels.kernel_centers.ImplicitCenters
        Of the exact form: the rows, weights and labels that the centers are made of.
    cluster_centers_ : (k, n_components) float64
        Of an approximation: the centers among the features.
    features_ : dask_dpmeans.estimators.kernel_maps.KernelFeatures
        Of an approximation.
    n_iter_, n_passes_, history_, random_state_, n_features_in_
        As `DPMeans` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import KernelDPMeans
    >>> X = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [9.0, 0.0]])
    >>> KernelDPMeans(penalty=0.4, kernel="cosine").fit(X).labels_.tolist()
    [0, 0, 1, 1]
    """

    implicit_centers_: ImplicitCenters | None

    def __init__(
        self,
        penalty: float,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str | None = None,
        n_components: int = 100,
        search: bool = False,
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.n_components = n_components
        self.search = search
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : (n, d), what `DPMeans.fit` takes; (n, n) where the kernel is precomputed
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
        self._fit_rows(rows, method.seeded(self.random_state_), tasks, sample_weight=sample_weight)
        tasks.end()
        return self

    def description(self) -> Description:
        """Return how texts and pictures speak of this estimator, fitted or not."""
        read = radius_or_price(self.penalty, "euclidean", search=self.search)
        by = "" if self.approximation is None else f", by {self.approximation}"
        words = replace(
            super().description(),
            radius=None if self.search else math.sqrt(self.penalty),
            settings={"kernel": f"{self.kernel}{by}", "penalty": f"{self.penalty:g}{read}"},
        )
        if getattr(self, "implicit_centers_", None) is None:
            return words
        return replace(words, units="in the space of the kernel")

    def method(self) -> kernel.Method | kernel_search.Method | batch.Method | search.Method:
        """The parameters, checked, as the library's core takes them."""
        checks.switch("search", self.search)
        limits: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "max_clusters": self.max_clusters}
        if self._recipe() is not None:
            return (search.Method if self.search else batch.Method)(self.penalty, **limits)
        exact = kernel_search.Method if self.search else kernel.Method
        return exact(self.penalty, self.kernel, self.gamma, self.degree, self.coef0, **limits)

    def _recipe(self) -> Approximation | None:
        return None if self.approximation is None else approximation_of(self)

    def predict(self, X: Any) -> Any:
        """The number of the nearest center of each row, (n,) int32; lazy where X is.

        Where the kernel is precomputed X holds the similarities of each row to all fitted rows.
        """
        check_is_fitted(self)
        if self.implicit_centers_ is None:
            return super().predict(X)
        return self._mapped(X, ImplicitLabels(self.implicit_centers_), np.int32, None)

    def transform(self, X: Any) -> Any:
        """The distance of each row to each center, in the space of the kernel, (n, k) float64; lazy where X is."""
        check_is_fitted(self)
        if self.implicit_centers_ is None:
            return super().transform(X)
        return self._mapped(X, ImplicitDistances(self._measurable()), np.float64, self.n_clusters_)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the inertia of X: the weighted sum of squared distances to the nearest centers."""
        check_is_fitted(self)
        if self.implicit_centers_ is None:
            return super().score(X, y, sample_weight)
        source = self._source(checked_rows(self, X, reset=False), sample_weight)
        return -source.fold(ImplicitInertia(self._measurable()), name="score")

    def _set_centers(self, method: Algorithm[Any], source: RowSource, state: Any) -> None:
        self.implicit_centers_ = None
        if isinstance(method, kernel.Parameters):
            self.implicit_centers_ = method.centers(source, state)
            self.__dict__.pop("cluster_centers_", None)  # of an earlier fit
        else:
            super()._set_centers(method, source, state)

    def _restore(self, result: Result) -> None:
        self.implicit_centers_, recipe = None, self._recipe()
        if recipe is None:
            self._restore_clusters(result)
            method = kernel_search.EXACT[result.manifest.method](**result.manifest.parameters)
            self.implicit_centers_ = method.restored(result.arrays)
        else:
            super()._restore(result)

    @property
    def _points(self) -> Float64Array | None:
        return super()._points if self.implicit_centers_ is None else None

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == kernel.PRECOMPUTED

    def _measurable(self) -> ImplicitCenters:
        """The centers, where distances to them can be told."""
        if self._precomputed:
            raise InputError(NO_DISTANCES)
        assert self.implicit_centers_ is not None
        return self.implicit_centers_


def _predictor(result: Result) -> Kernel:
    told = result.manifest.parameters
    if result.manifest.learned_features:
        return Predictions(Centers(result.arrays["cluster_centers"]), told["penalty"])
    method = kernel_search.EXACT[result.manifest.method](**told)
    if method.precomputed:
        raise InputError(
            "the run is of a precomputed kernel: similarities to its rows do not tell distances, and labels alone "
            "come from load(run).predict(K)"
        )
    return ImplicitPredictions(method.restored(result.arrays), method.penalty)


IMPLICIT_ARRAYS = (
    ArraySpec("cluster_totals", ("cluster",)),
    ArraySpec("center_labels", ("row",), "int32", below="cluster", lowest=-1),
    ArraySpec("center_weights", ("row",)),
    ArraySpec("center_rows", ("opener",), "int64", below="row"),
    ArraySpec("fitted_rows", ("row", "feature"), sizes=("row", "column")),
)
"""Centers that are means among the features of a kernel: sums of the kernel within clusters; the clusters and weights
of the rows; the rows that are centers themselves; and the rows."""

SPEC = MethodSpec(
    KernelDPMeans,
    (kernel.Method, kernel_search.Method, batch.Method, search.Method),
    _predictor,
    restored_features,
    arrays=(*CENTERS, *IMPLICIT_ARRAYS, *FEATURE_ARRAYS),
)
