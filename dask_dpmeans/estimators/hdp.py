"""scikit-learn's face of the HDP: several data sets that share clusters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks
from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import CentersMixin, checked_rows, seed_of
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.kernel_maps import Approximation, approximation_of, restored_features
from dask_dpmeans.estimators.spec import MethodSpec
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.hdp import GroupPredictions, PredictedLabels, Prices, Sharing
from dask_dpmeans.methods.hdp import batch
from dask_dpmeans.methods.hdp import search as hdp_search
from dask_dpmeans.sources import (
    Names,
    RowSource,
    concatenated,
    is_lazy,
    known_rows,
    names_of,
    open_groups,
    opened_rows,
    unwrapped,
)
from dask_dpmeans.storage.manifest import LOCAL
from dask_dpmeans.storage.run_store import Result
from dask_dpmeans.text import counted


class HDPMeans(CentersMixin, BaseEstimator):
    """Cluster several data sets at once: each has clusters of its own, tied to global centers that the sets share.

    Minimizes the hard Gaussian HDP of Kulis & Jordan 2012 (section 4, eq. 2), squared error + local_penalty * (local
    clusters, summed over the data sets) + global_penalty * (global clusters), by their Algorithm 2.  The result is the
    same, to the byte, for any chunking, threads and workers.

    Parameters
    ----------
    local_penalty : float
        The price of a local cluster, in squared units of the rows times weight: what a data set pays for each global
        cluster that it uses (lambda_l of the paper).  With an approximation both penalties are in units of the kernel.
    global_penalty : float
        The price of a global cluster (lambda_g).
    search : bool, default False
        Search for the lowest objective.  It starts from the end of Algorithm 2 or from searches of all rows as one set,
        whichever a few passes take lower, so that it never ends above Algorithm 2, and with one data set never above
        ``DPMeans(local_penalty + global_penalty, search=True)`` of the same `random_state`.  Then data sets also give
        centers up and take them up, and centers merge, split and go, by the exact effect on the objective.  Up to
        524,288 rows trials of merges, deletes and splits follow, each kept where a few passes lead lower; up to 1,024
        rows, and 1,048,576 rows * centers * columns, single rows are exchanged too.  The searches of all rows as one
        set see a coreset, rows drawn by weight, where there are more than 32,768 rows.
    approximation : {"nystroem", "fourier"}, optional
        Cluster features of the rows in their place, whose inner products are about the values of a kernel function
        (section 5.2), so that clusters may be of any shape: `KernelDPMeans` tells of these.  All data sets share the
        features.
    kernel, gamma, degree, coef0, n_components
        Of an approximation, as `KernelDPMeans` has them; `InputError` where one is given without, but for
        `n_components`, which is of no use then.
    max_iter : int, default 300
        The most sweeps or steps of the search; `sklearn.exceptions.ConvergenceWarning` where they are reached.
    tol : float, default 1e-4
        The fit has converged when a sweep opens nothing and lowers the objective by less than ``tol`` times it, and
        so would tying local clusters anew.  With 0 it goes on until the centers repeat to the bit.  The search settles
        to a fifth of ``tol``.
    max_clusters : int, optional
        `TooManyClustersError` where there are more global clusters.
    random_state : int, RandomState instance or None, default None
        The seed of the search and of an approximation, drawn once and kept in `random_state_`; Algorithm 2 draws
        nothing.

    Attributes
    ----------
    cluster_centers_ : (g, d) float64
        The global centers; with an approximation (g, n_components), among the features.
    features_ : dask_dpmeans.estimators.kernel_maps.KernelFeatures
        Of an approximation.
    labels_ : (n,) int32
        The global cluster of each row; a lazy Dask array where the input is one, or a ``zarr.Array``.
    local_clusters_ : (n_groups, g) scipy.sparse.csr_array
        The weight that each data set has in each global cluster; its entries are the local clusters.
    cluster_weights_ : (g,) float64
        Rows of each global cluster, by weight.
    cluster_inertias_ : (g,) float64
        Weighted sum of squared distances of the rows of each global cluster to its center.
    n_clusters_, n_local_clusters_ : int
        Global clusters, and local ones of all data sets.
    inertia_ : float
        Weighted sum of squared distances of the rows to their centers.
    objective_ : float
        ``inertia_ + local_penalty * n_local_clusters_ + global_penalty * n_clusters_``.
    n_iter_, n_passes_, history_, random_state_, n_features_in_
        As `DPMeans` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import HDPMeans
    >>> sets = [np.array([[0.0], [1.0]]), np.array([[0.0], [1.0], [9.0], [10.0]])]
    >>> model = HDPMeans(local_penalty=2.0, global_penalty=4.0).fit(sets)
    >>> model.labels_.tolist(), model.local_clusters_.toarray().tolist(), model.objective_
    ([0, 0, 0, 0, 1, 1], [[2.0, 0.0], [2.0, 2.0]], 15.5)
    """

    def __init__(
        self,
        local_penalty: float,
        global_penalty: float,
        *,
        search: bool = False,
        approximation: str | None = None,
        kernel: str = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        n_components: int = 100,
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.local_penalty = local_penalty
        self.global_penalty = global_penalty
        self.search = search
        self.approximation = approximation
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of all data sets.

        Parameters
        ----------
        X : list of (n_j, d) arrays, one a data set; or (n, d) NumPy array, Dask array or DataFrame, ``zarr.Array``
            A list is read as data sets only where every item is two-dimensional.
        y : ignored
        groups : (n,) integers >= 0, optional
            The data set of each row, in any order; rows without groups are one data set.  Names are numbered first, by
            ``np.unique(names, return_inverse=True)[1]``.  Numbers may have gaps; `InputError` for one that is 262,144
            or more and not below the number of rows, as each pass goes through all of them.
        sample_weight : (n,), optional
            Weights >= 0.  A row of weight w bears 1 / min(1, w) of each penalty when it opens something, so that
            integer weights equal repeated rows.

        Returns
        -------
        self
        """
        method = self.method()
        given = X
        X, groups, names = data_sets(X, groups)
        tasks = Tasks.of(self, X, y, sample_weight, most=method.max_iter)
        self.random_state_ = seed_of(self.random_state)
        rows = known_rows(checked_rows(self, X, reset=True, names=names))
        groups = np.zeros(rows.shape[0], np.int64) if groups is None else open_groups(groups, rows.shape[0])
        self._n_sets = 0 if X is given else len(given)  # the last of which may be empty
        self._fit_rows(rows, method.seeded(self.random_state_), tasks, groups, sample_weight)
        tasks.end()
        return self

    def fit_predict(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> Any:
        """The global cluster of each row of X, which is fitted."""
        return self.fit(X, y, groups, sample_weight).labels_

    def predict(self, X: Any, groups: Any = None) -> Any:
        """The global cluster of each row, (n,) int32; lazy where X is.

        `score` and `transform` know no data sets: they measure distances to all centers.

        A center that a known data set does not use costs it `local_penalty`.  Rows of a set never seen, and rows
        without groups, go to the nearest center.
        """
        check_is_fitted(self)
        X, groups, names = data_sets(unwrapped(X, "X"), groups)
        if groups is None:
            return super().predict(X)
        coordinates = self.local_clusters_.tocoo()
        uses = coordinates.row.astype(np.int64), coordinates.col.astype(np.int64)
        sharing = Sharing.of(self.cluster_centers_, *uses, self.local_clusters_.shape[0])
        kernel = PredictedLabels(sharing, Prices(self.local_penalty, self.global_penalty))
        return self._mapped(X, kernel, np.int32, None, groups, names)

    def description(self) -> Description:
        """Return how texts and pictures speak of this estimator, fitted or not."""
        penalties = f"{self.local_penalty:g} a local cluster, {self.global_penalty:g} a global one"
        features = {} if self.approximation is None else {"kernel": f"{self.kernel}, by {self.approximation}"}
        plain = replace(
            super().description(),
            objective_parts="inertia {inertia:.9g} + penalties x clusters",
            settings={**features, "penalties": penalties},
            pictures=("profile", "sharing"),
        )
        if not hasattr(self, "local_clusters_"):
            return plain
        sets, local = self.local_clusters_.shape[0], self.n_local_clusters_
        return replace(
            plain,
            clusters=f"{self.n_clusters_:,} global; {local:,} local ones of {counted(sets, 'data set')}, "
            f"{local / sets:.2f} each",
            facts={"local clusters, of all data sets": f"{local:,}"},
            cluster_columns={"data sets": (self.local_clusters_ > 0).sum(axis=0)},
        )

    def method(self) -> batch.Method | hdp_search.Method:
        """The parameters, checked, as the library's core takes them."""
        checks.switch("search", self.search)
        self._recipe()  # which refuses what cannot be used
        return (hdp_search.Method if self.search else batch.Method)(
            local_penalty=self.local_penalty,
            global_penalty=self.global_penalty,
            max_iter=self.max_iter,
            tol=self.tol,
            max_clusters=self.max_clusters,
        )

    def _recipe(self) -> Approximation | None:
        return approximation_of(self)

    def _set_centers(self, method: Algorithm[Any], source: RowSource, state: Any) -> None:
        super()._set_centers(method, source, state)
        n_groups = max(source.summary.n_groups, self._n_sets)
        self._set_uses(state.local.groups, state.local.centers, state.local.weights, n_groups)

    def _restore(self, result: Result) -> None:
        super()._restore(result)
        groups, centers, weights = (result.arrays[name] for name in LOCAL)
        self._set_uses(groups, centers, weights, result.manifest["input"]["n_groups"])

    def _set_uses(self, groups: Int64Array, centers: Int64Array, weights: Float64Array, n_groups: int) -> None:
        self.local_clusters_ = csr_array((weights, (groups, centers)), shape=(n_groups, self.n_clusters_))
        self.n_local_clusters_ = len(groups)


def data_sets(X: Any, groups: Any) -> tuple[Any, Any, Names | None]:
    """One table, the number of each row's data set, and the names of columns, from a list of tables where X is one."""
    if not isinstance(X, list | tuple) or not X or any(_dimensions(item) != 2 for item in X):
        return X, groups, None
    if groups is not None:
        raise InputError("X is a list of data sets, which says what groups says: leave groups out")
    names = _shared_names(X)
    given = [unwrapped(item, "X") for item in X]
    tables = [item if is_lazy(item) else _table(item) for item in given]
    widths = sorted({int(table.shape[1]) for table in tables})
    if len(widths) > 1:
        raise InputError(f"the data sets of X must have the same columns, got {widths}")
    rows, heights = concatenated(tables)
    return rows, np.repeat(np.arange(len(tables)), heights), names


def _shared_names(tables: Sequence[Any]) -> Names | None:
    """What the columns of all data sets are called."""
    names = [names_of(table) for table in tables]
    for number, each in enumerate(names):
        if each != names[0]:
            one, other = ("no names" if some is None else list(some) for some in (names[0], each))
            raise InputError(
                f"the data sets of X must have the same columns in one order, got {one} in set 0 and {other} in set "
                f"{number}"
            )
    return names[0]


def _table(item: Any) -> Any:
    """One data set of a list."""
    if isinstance(item, np.ma.MaskedArray):
        raise InputError("a data set of X is a masked array: fill or drop the masked entries first, as .filled(0) does")
    return opened_rows(item) if issparse(item) else np.asarray(item)


def _dimensions(item: Any) -> int:
    """Of a table, or of a list of rows; 0 where these are of different lengths."""
    try:
        return int(item.ndim if hasattr(item, "ndim") else np.ndim(item))
    except ValueError:
        return 0


def _predictor(result: Result) -> Kernel:
    told, arrays = result.manifest["parameters"], result.arrays
    uses = arrays["local_groups"], arrays["local_centers"]
    sharing = Sharing.of(arrays["cluster_centers"], *uses, result.manifest["input"]["n_groups"])
    return GroupPredictions(sharing, Prices(told["local_penalty"], told["global_penalty"]))


SPEC = MethodSpec(HDPMeans, (batch.Method, hdp_search.Method), _predictor, restored_features, takes_groups=True)
