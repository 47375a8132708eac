"""The scikit-learn estimator of kernel DP-means: clusters in the space of a kernel function."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.auto import AutoPenaltyMixin
from dask_dpmeans.estimators.base import ClustersMixin, RandomState, limits_of
from dask_dpmeans.estimators.checked_rows import check_output
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.dpmeans import METHODS
from dask_dpmeans.estimators.kernel_maps import (
    FEATURE_ARRAYS,
    Approximation,
    approximation_of,
    restored_features,
)
from dask_dpmeans.estimators.row_options import without_row_options
from dask_dpmeans.estimators.spec import CENTERS, STABILITY, MethodSpec, nearest_centers
from dask_dpmeans.kernels.block import Float64Array
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
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from dask_dpmeans.sources import RowSource
    from dask_dpmeans.storage import Result

NO_DISTANCES = (
    "kernel='precomputed': a matrix of similarities to the fitted rows does not tell "
    "similarities of the new rows with themselves, and so no distances: predict gives labels"
)


EXACT: dict[bool, type[kernel.Method] | type[kernel_search.Method]] = {
    False: kernel.Method,
    True: kernel_search.Method,
}
"""Algorithms of the exact form by `search`."""
NO_CHOICE = 'penalty="auto" needs features of the rows: give a number, or an approximation="nystroem" or "fourier"'
"""Error of the exact form, whose rows are known by their similarities alone."""


class KernelDPMeans(AutoPenaltyMixin, BaseEstimator):
    """DP-means in the space of a kernel function: clusters of any shape.

    Minimizes inertia + penalty * k (Kulis & Jordan 2012, section 5.2), with squared distances
    K_ii - 2 K_ij + K_jj between the images of rows i and j.  The result is the same, to the byte,
    for any chunking, threads and workers.

    The exact form compares each row with all others: n**2 values of the kernel for each sweep.
    The n x n matrix is never in memory, but each task gets all rows, up to 2**28 bytes of float64.
    An approximation makes features of the rows, a few hundred columns whose inner products
    approximate the kernel.  Its cost grows with n alone, also for rows out of memory.

    Parameters
    ----------
    penalty : float or "auto"
        The price of a cluster, in units of the kernel times weight.  A row farther than its square
        root from every center, in the space of the kernel, opens a cluster.  With "rbf" squared
        distances are at most 2.  With an approximation it may be "auto", as in `DPMeans`.
    kernel : {"rbf", "linear", "poly", "cosine", "precomputed"} or callable, default "rbf"
        A kernel as scikit-learn defines it.  With "precomputed" X is the symmetric matrix K, (n,
        n).  A function gets A, (a, d), and B, (b, d), in float64, and returns (a, b); it must be
        symmetric.  If K is not positive semidefinite, the objective may rise from sweep to sweep:
        the fit ends before it does.  A negative number on the diagonal is an `InputError`.
    gamma : float, optional
        Parameter of "rbf" and "poly"; 1 / (number of columns) by default, which is for columns of
        variance 1: scale others first, or an "rbf" cuts clusters that are wider.  This parameter and
        the next two are an `InputError` with a kernel that has no use for them.
    degree : int, default 3
        Degree of "poly".
    coef0 : float, default 1.0
        Constant of "poly".
    approximation : {"nystroem", "fourier"}, optional
        Features from a sample of the rows (`sklearn.kernel_approximation.Nystroem`), or random
        features of "rbf" (`sklearn.kernel_approximation.RBFSampler`).  Float32 if the rows are.
    n_components : int, default 100
        Features of an approximation.  With "nystroem" this is also the number of rows of the
        sample, at most n, drawn from all rows, also from rows of weight 0.
    search : bool, default False
        Take the penalty as a price, and search for the lowest objective; with an approximation as
        in `DPMeans`.  In the exact form the sweeps of Algorithm 1 come first, and the search is
        never above them.  Then rows move alone, and clusters are cut into pieces that move, merge
        and split, by their exact effect on the objective.
    max_iter, tol, max_clusters
        See `DPMeans`.
    random_state : int, RandomState instance or None, default None
        Seed of an approximation and of the search, drawn once and stored in `random_state_`.

    Attributes
    ----------
    labels_, cluster_weights_, n_clusters_, inertia_, objective_
        See `DPMeans`.
    cluster_inertias_ : (k,) float64
        Weighted sum of squared distances of the rows of each cluster to its center, in the space
        of the kernel.
    implicit_centers_ : dask_dpmeans.kernels.kernel_centers.ImplicitCenters
        The centers of the exact form, as rows, weights and labels.
    cluster_centers_ : (k, n_components) float64
        The centers of an approximation, among the features.
    features_ : dask_dpmeans.estimators.kernel_maps.KernelFeatures
        The features of an approximation.
    penalty_, choice_, cluster_stability_
        See `DPMeans`.
    n_iter_, n_passes_, history_, random_state_, n_features_in_
        See `DPMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import KernelDPMeans
    >>> X = np.array([[0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [9.0, 0.0]])
    >>> KernelDPMeans(penalty=0.4, kernel="cosine").fit(X).labels_.tolist()
    [0, 0, 1, 1]
    """

    implicit_centers_: ImplicitCenters | None

    @without_row_options
    def __init__(
        self,
        penalty: float | str,
        *,
        kernel: str | Callable[[Float64Array, Float64Array], Float64Array] = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        approximation: str | None = None,
        n_components: int = 100,
        search: bool = False,
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: RandomState = None,
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags

    def description(self) -> Description:
        fields = self._describe_penalty()
        name = f"{self.kernel}"
        if self.approximation is not None:
            name += f", by {self.approximation}"
        fields["settings"] = {"kernel": name} | fields["settings"]
        words = replace(super().description(), **fields)
        if getattr(self, "implicit_centers_", None) is None:
            return words
        return replace(words, units="in the space of the kernel")

    def method(self) -> kernel.Method | kernel_search.Method | batch.Method | search.Method:
        """Return the checked parameters as an algorithm."""
        if self._feature_map() is not None:
            return METHODS[self._searches](self._number, **limits_of(self))
        if self._chooses:
            raise InputError(NO_CHOICE)
        settings = self.gamma, self.degree, self.coef0
        return EXACT[self._searches](self._number, self.kernel, *settings, **limits_of(self))

    def _feature_map(self) -> Approximation | None:
        if self.approximation is None:
            return None
        return approximation_of(self)

    def predict(self, X: object) -> Any:
        """Return the number of the nearest center of each row, (n,) int32; lazy if X is.

        With a precomputed kernel X holds the similarities of each row to all fitted rows.
        """
        check_is_fitted(self)
        if self.implicit_centers_ is None:
            return super().predict(X)
        return self._mapped(X, ImplicitLabels(self.implicit_centers_), np.int32)

    def transform(self, X: object) -> Any:
        """Return the distance of each row to each center, (n, k) float64; lazy if X is.

        Distances are in the space of the kernel.
        """
        check_is_fitted(self)
        check_output(self, X)
        if self.implicit_centers_ is None:
            return super().transform(X)
        distances = ImplicitDistances(self._measurable_centers())
        return self._mapped(X, distances, np.float64, self.n_clusters_)

    def score(self, X: object, y: object = None, sample_weight: object = None) -> float:
        check_is_fitted(self)
        if self.implicit_centers_ is None:
            return super().score(X, y, sample_weight)
        given = self._rows_given(X, sample_weight)
        source = self._source(given.checked(self, reset=False), given.sample_weight)
        return -source.fold(ImplicitInertia(self._measurable_centers()), name="score")

    def _set_centers(self, method: Algorithm[Any], source: "RowSource", state: Any) -> None:
        self.implicit_centers_ = None
        if self.approximation is None:
            exact: Any = method
            self.implicit_centers_ = exact.centers(source, state)
            self.__dict__.pop("cluster_centers_", None)  # of an earlier fit
        else:
            super()._set_centers(method, source, state)

    def _restore(self, result: "Result") -> None:
        self.implicit_centers_ = None
        if self._feature_map() is not None:
            super()._restore(result)
        else:
            ClustersMixin._restore(self, result)
            self._set_choice(result.manifest.parameters, None, None)
            self.implicit_centers_ = _exact_method(result).read_centers(result.arrays)

    @property
    def _points(self) -> Float64Array | None:
        if self.implicit_centers_ is not None:
            return None
        return super()._points

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == kernel.PRECOMPUTED

    def _measurable_centers(self) -> ImplicitCenters:
        """Return the centers of the exact form, if distances to them are known."""
        if self._precomputed:
            raise InputError(NO_DISTANCES)
        assert self.implicit_centers_ is not None
        return self.implicit_centers_


def _exact_method(result: "Result") -> kernel.Method | kernel_search.Method:
    manifest = result.manifest
    return kernel_search.EXACT[manifest.method](**manifest.parameters)


def _predictor(result: "Result") -> Kernel:
    if result.manifest.learned_features:
        return nearest_centers(result)
    method = _exact_method(result)
    if method.precomputed:
        raise InputError(
            "the run is of a precomputed kernel: similarities to its rows do not tell distances, "
            "and labels alone come from load(run).predict(K)"
        )
    return ImplicitPredictions(method.read_centers(result.arrays), method.penalty)


IMPLICIT_ARRAYS = (
    ArraySpec("cluster_totals", ("cluster",)),
    ArraySpec("center_labels", ("row",), "int32", below="cluster", lowest=-1),
    ArraySpec("center_weights", ("row",)),
    ArraySpec("center_rows", ("opener",), "int64", below="row"),
    ArraySpec("fitted_rows", ("row", "feature"), np.floating, sizes=("row", "column")),
)
"""Arrays of centers that are means in the space of a kernel.

These are the sums of the kernel within clusters, the clusters and weights of the rows, the rows
that are centers themselves, and the rows.
"""

SPEC = MethodSpec(
    KernelDPMeans,
    _predictor,
    restored_features,
    arrays=(*CENTERS, STABILITY, *IMPLICIT_ARRAYS, *FEATURE_ARRAYS),
)
