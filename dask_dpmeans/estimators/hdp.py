"""The scikit-learn estimator of the hard HDP: several data sets that share clusters."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import sources
from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.auto import AutoPriceMixin
from dask_dpmeans.estimators.base import RandomState, limits_of, seed_of
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.estimators.checked_rows import checked_rows
from dask_dpmeans.estimators.data_sets import DataSets, data_sets
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.divergence_map import ENCODING_ARRAYS, SMOOTHING, restored_encoding
from dask_dpmeans.estimators.divergences import DivergenceMixin, describe_divergence
from dask_dpmeans.estimators.kernel_maps import FEATURE_ARRAYS, approximation_of, restored_features
from dask_dpmeans.estimators.row_options import without_row_options
from dask_dpmeans.estimators.spec import CENTERS, STABILITY, MethodSpec, centers_of
from dask_dpmeans.kernels.block import Features, Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.encoding import Encoding
from dask_dpmeans.kernels.hdp import GroupPredictions, HDPPrices, PredictedLabels, Sharing
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.methods.dpmeans.choice import AUTO
from dask_dpmeans.methods.hdp import batch
from dask_dpmeans.methods.hdp import search as hdp_search
from dask_dpmeans.methods.hdp.choice import AutoPrices, SharedChoice
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from dask_dpmeans.estimators.transform import FeatureMap
    from dask_dpmeans.sources import Dimensions, RowSource
    from dask_dpmeans.storage import Result

METHODS: dict[bool, type[batch.Method] | type[hdp_search.Method]] = {
    False: batch.Method,
    True: hdp_search.Method,
}
"""Algorithms by `search`."""


class HDPMeans(DivergenceMixin, AutoPriceMixin, BaseEstimator):
    """Cluster several data sets at once: their local clusters are tied to shared global clusters.

    Minimizes the hard Gaussian HDP of Kulis & Jordan 2012 (section 4, eq. 2) by their Algorithm 2:
    squared error + local_penalty * (local clusters of all data sets) + global_penalty * (global
    clusters).  The result is the same, to the byte, for any chunking, threads and workers.

    Parameters
    ----------
    local_penalty : float or "auto", default "auto"
        The price of a local cluster, in squared units of the rows times weight: what a data set
        pays for each global cluster that it uses (lambda_l of the paper).  With an approximation
        both penalties are in units of the kernel.

        "auto" chooses both prices; one of them alone cannot be "auto".  The rows of all data sets
        choose k clusters and the price P of a cluster, as `DPMeans` does.  Half of it is the
        global penalty, and the other halves are shared by the local clusters: ``P / 2 * k / u``
        each, if u pairs of a data set and a cluster have rows.  So these clusters cost the same as
        before, and one data set is clustered as by `DPMeans`.  The fit is then the same, to the
        byte, as with these numbers and `search`.
    global_penalty : float or "auto", default "auto"
        The price of a global cluster (lambda_g).
    search : bool, default False
        Search for the lowest objective, as "auto" always does.  The search starts from the end of Algorithm 2 or from
        searches of all rows as one set, whichever a few passes take lower.  So it is never above
        Algorithm 2, nor, for one data set, above ``DPMeans(local_penalty + global_penalty,
        search=True)`` with the same `random_state`.  Then data sets drop and adopt centers, and
        centers merge, split and go, by their exact effect on the objective.

        Up to 524,288 rows, trials of merges, deletes and splits follow; each is kept if a few
        passes lead lower.  Up to 1,024 rows, and 1,048,576 rows * centers * columns, single rows
        are exchanged too.  More than 32,768 rows are searched as one set on a coreset, rows drawn
        by weight; a single data set is searched as by `DPMeans`.
    divergence : str, ColumnDivergence or dict, default "squared"
        What a row costs at a center in each column, see `DPMeans`: the hard HDP of exponential
        families (Jiang, Kulis & Jordan 2012).  All data sets share the means of the columns, and
        with categories their codes.  A `Divergence` of whole rows is an `InputError`.
    missing : {"error", "observed", "unscaled"}, default "error"
        What NaN is, see `DPMeans`.  A row without any value has label -1, and is in no local
        cluster.
    smoothing, balance_columns
        See `DPMeans`.
    approximation : {"nystroem", "fourier"}, optional
        Cluster features of the rows, whose inner products approximate a kernel function (section
        5.2), so that clusters can have any shape.  See `KernelDPMeans`.  All data sets share the
        features.
    kernel, gamma, degree, coef0, n_components
        Parameters of an approximation, see `KernelDPMeans`.  Without one, all but `n_components`
        are an `InputError`.
    max_iter : int, default 300
        See `DPMeans`.
    tol : float, default 1e-4
        The fit has converged when a sweep opens nothing and lowers the objective by less than
        ``tol`` times it, and tying local clusters anew would not lower it more.  0 goes on until
        the centers repeat to the bit.  The search settles to a fifth of ``tol``.
    max_clusters : int, optional
        More global clusters are a `TooManyClustersError`.
    random_state : int, RandomState instance or None, default None
        Seed of the search and of an approximation, drawn once and stored in `random_state_`.
        Algorithm 2 draws nothing.

    Attributes
    ----------
    local_penalty_, global_penalty_ : float
        The penalties, chosen or given.
    choice_ : `dask_dpmeans.methods.hdp.choice.SharedChoice` or None
        Why the penalties were chosen, and which others might be; None if they were given.
        ``HDPMeans(**choice_.alternatives[1].penalties, search=True)`` fits the next best number.
    cluster_stability_ : (g,) float64 or None
        For chosen penalties, the stability of each global cluster, see `DPMeans`.
    cluster_centers_ : (g, d) float64
        The global centers; with an approximation (g, n_components), among the features.  A
        categorical column has a column for each category, its share.
    features_ : dask_dpmeans.estimators.kernel_maps.KernelFeatures
        The features of an approximation.
    labels_ : (n,) int32
        The global cluster of each row.  A lazy Dask array if the input is one, or a ``zarr.Array``.
    local_clusters_ : (n_groups, g) scipy.sparse.csr_array
        The weight of each data set in each global cluster; its entries are the local clusters.
    cluster_weights_ : (g,) float64
        Sum of the weights of the rows of each global cluster.
    cluster_inertias_ : (g,) float64
        Weighted sum of squared distances of the rows of each global cluster to its center.
    n_clusters_, n_local_clusters_ : int
        Number of global clusters, and of local clusters of all data sets.
    inertia_ : float
        Sum of `cluster_inertias_`.
    objective_ : float
        ``inertia_ + local_penalty * n_local_clusters_ + global_penalty * n_clusters_``.
    n_iter_, n_passes_, history_, random_state_, n_features_in_
        See `DPMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import HDPMeans
    >>> sets = [np.array([[0.0], [1.0]]), np.array([[0.0], [1.0], [9.0], [10.0]])]
    >>> model = HDPMeans(local_penalty=2.0, global_penalty=4.0).fit(sets)
    >>> model.labels_.tolist(), model.local_clusters_.toarray().tolist(), model.objective_
    ([0, 0, 0, 0, 1, 1], [[2.0, 0.0], [2.0, 2.0]], 15.5)

    Without penalties, three clusters of which each data set uses two:

    >>> rows = np.random.default_rng(0).normal(size=(300, 2)) + 10 * np.eye(3, 2).repeat(100, 0)
    >>> model = HDPMeans(random_state=0).fit([rows[:200], rows[100:]])
    >>> model.n_clusters_, model.n_local_clusters_
    (3, 4)
    """

    _auto_type, _choice_type = AutoPrices, SharedChoice
    local_penalty_: float
    global_penalty_: float

    @without_row_options
    def __init__(
        self,
        local_penalty: float | str = AUTO,
        global_penalty: float | str = AUTO,
        *,
        search: bool = False,
        divergence: object = "squared",
        missing: str = "error",
        smoothing: float = SMOOTHING,
        balance_columns: bool | None = None,
        approximation: str | None = None,
        kernel: str = "rbf",
        gamma: float | None = None,
        degree: int = 3,
        coef0: float = 1.0,
        n_components: int = 100,
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.local_penalty = local_penalty
        self.global_penalty = global_penalty
        self.search = search
        self.divergence = divergence
        self.missing = missing
        self.smoothing = smoothing
        self.balance_columns = balance_columns
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
    def fit(  # type: ignore[override]  # groups stand before the weights
        self,
        X: object,
        y: object = None,
        groups: object = None,
        sample_weight: object = None,
        *,
        samples: "Dimensions" = None,
        features: "Dimensions" = None,
    ) -> Self:
        """Cluster the rows of all data sets.

        Parameters
        ----------
        X : list of (n_j, d) arrays, one for each data set
            Or (n, d): NumPy array, Dask array or DataFrame, ``zarr.Array``.  A list is read as data
            sets only if every item is two-dimensional.
        y : ignored
        groups : (n,) integers >= 0, optional
            The data set of each row, in any order; or the name of a column of a data frame X,
            which is then no feature, as for weights.  Rows without groups are one data set.  Number
            names first, by ``np.unique(names, return_inverse=True)[1]``.  Numbers may have gaps,
            but one of 262,144 or more must be below the number of rows, since each pass goes
            through all numbers.
        sample_weight : (n,), optional
            Weights >= 0.  A row of weight w bears 1 / min(1, w) of each penalty when it opens
            something.  So an integer weight equals a repeated row.
        samples, features : str or sequence of str, optional
            Dimensions of a cube of xarray, see `DPMeans.fit`.  Groups are then a DataArray that
            broadcasts against the samples.

        Returns
        -------
        self
        """
        method = self.method()
        given = self._rows_to_fit(X, samples, features, sample_weight, groups)
        table, groups, names, categories = data_sets(given.rows, given.groups, self._accepts())
        tasks = Tasks.of(self, table, y, sample_weight, most=method.max_iter)
        self.random_state_ = seed_of(self.random_state)
        names = given.names if names is None else names
        checked = checked_rows(self, table, reset=True, names=names, categories=categories)
        rows = sources.known_rows(checked)
        if groups is None:
            groups = np.zeros(rows.shape[0], np.int64)
        self._n_sets = 0
        if isinstance(X, list | tuple) and table is not given.rows:
            self._n_sets = len(X)  # the last of which may be empty
        groups = sources.open_groups(groups, rows.shape[0])
        beside = replace(given, groups=groups)
        self._fit_rows(rows, method.seeded(self.random_state_), tasks, beside)
        tasks.end()
        return self

    def fit_predict(
        self,
        X: object,
        y: object = None,
        groups: object = None,
        sample_weight: object = None,
        *,
        samples: "Dimensions" = None,
        features: "Dimensions" = None,
    ) -> Any:
        """Fit to X, and return the global cluster of each row, (n,) int32."""
        cube = {"samples": samples, "features": features}
        return self.fit(X, y, groups, sample_weight, **cube).labels_

    def predict(self, X: object, groups: object = None) -> Any:
        """Return the global cluster of each row, (n,) int32; lazy if X is.  It is -1 for no value.

        A center that a known data set does not use costs it `local_penalty` more.  Rows of a new
        data set, and rows without groups, go to the nearest center.  `score` and `transform` take
        no groups: they use the distances to all centers.
        """
        check_is_fitted(self)
        names = None
        if self.grid_ is None or not sources.is_cube(X):
            X, _, groups = sources.named_rows(X, None, groups)
            X, groups, names, _ = self._data_sets(X, groups)
        if groups is None:
            return super().predict(X)
        uses, centers = self.local_clusters_.tocoo(), self._centers()
        pairs = uses.row.astype(np.int64), uses.col.astype(np.int64), uses.shape[0]
        sharing = Sharing.of(centers.values, *pairs, divergence=centers.divergence)
        prices = HDPPrices(self.local_penalty_, self.global_penalty_)
        kernel = PredictedLabels(sharing, prices)
        return self._mapped(X, kernel, np.int32, groups=groups, names=names)

    def impute(self, X: object, groups: object = None) -> Any:
        """Return rows, (n, d) float64 or a cube, with missing values from the centers of `predict`.

        The rows of a list of data sets follow one another.  All else is as in `DPMeans`.
        """
        self._check_imputes()
        given = self._rows_given(X, groups=groups)
        table, _, names, _ = self._data_sets(given.rows, given.groups)
        names = given.names if names is None else names
        rows = checked_rows(self, table, reset=False, names=names)
        return self._filled(given, rows, partial(self.predict, X, groups))

    def _data_sets(self, X: object, groups: object) -> DataSets:
        """Return rows of new data sets, with the categories of the fit."""
        if isinstance(X, list | tuple):  # `unwrap` takes them for parts of one data set
            sources.refuse_lazy(X, "X", apart=groups is None)
        return data_sets(sources.unwrap(X, "X"), groups, self._accepts(), self.categories_)

    def description(self) -> Description:
        settings, choice = self._describe_penalties(), getattr(self, "choice_", None)
        if self.approximation is not None:
            settings = {"kernel": f"{self.kernel}, by {self.approximation}"} | settings
        fields: dict[str, Any] = {"settings": settings}
        if isinstance(self.features_, Encoding):
            fields = describe_divergence(self.divergence, self.missing)
            fields["settings"] |= settings
        words = replace(
            super().description(),
            objective_parts="inertia {inertia:.9g} + penalties x clusters",
            json={} if choice is None else {"choice": choice.as_json()},
            pictures=("profile", "sharing"),
            **fields,
        )
        if not hasattr(self, "local_clusters_"):
            return words
        n_sets, n_local = self.local_clusters_.shape[0], self.n_local_clusters_
        local = f"{n_local:,} local ones of {format_count(n_sets, 'data set')}, {n_local / n_sets:.2f} each"
        clusters = f"{self.n_clusters_:,} global; {local}"
        facts = {"local clusters, of all data sets": f"{n_local:,}"}
        columns = {"data sets": (self.local_clusters_ > 0).sum(axis=0)}
        return replace(words, clusters=clusters, facts=facts, cluster_columns=columns)

    def _describe_penalties(self) -> dict[str, str]:
        """Return the lines of `show` about the penalties."""
        choice = getattr(self, "choice_", None)
        if self._chooses and choice is None:
            return {"penalties": f"{AUTO}, prices"}
        local, shared = self._numbers.values()
        read = f"{local:g} a local cluster, {shared:g} a global one"
        if choice is None:
            return {"penalties": read}
        reason = choice.explain(self.n_clusters_)
        return {"penalties": f"{read}, chosen from the rows", "choice": reason}

    def method(self) -> batch.Method | hdp_search.Method:
        """Return the checked parameters as an algorithm."""
        method = METHODS[self._searches]
        self._feature_map()  # refuses parameters that cannot be used
        return method(**self._numbers, **limits_of(self))

    def _feature_map(self) -> "FeatureMap | None":
        if isinstance(self.divergence, Divergence):
            raise InputError(
                f"divergence must be a name, a ColumnDivergence or a dict, got {self.divergence!r}: the centers that "
                "data sets share are means, and the best center of any cost of rows may be another; DPMeans takes it"
            )
        learned, approximation = super()._feature_map(), approximation_of(self)
        if learned is not None and approximation is not None:
            raise InputError(
                f"divergence={self.divergence!r} and missing={self.missing!r} cannot be used with "
                f"approximation={self.approximation!r}: the features of a kernel are complete, and "
                "their costs are squared distances; leave one of them out"
            )
        return learned or approximation

    def _price(self, penalty: float | None) -> Price:
        raise InputError(
            "estimator must have one penalty: HDPMeans also has a price for the clusters of each data set, which a "
            "score does not know"
        )

    def _set_centers(self, method: Algorithm[Any], source: "RowSource", state: Any) -> None:
        self._set_averages(state.centers)
        n_groups = max(source.summary.n_groups, self._n_sets)
        self._set_uses(state.local.groups, state.local.centers, state.local.weights, n_groups)

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        groups, centers, weights = (result.arrays[spec.name] for spec in LOCAL_ARRAYS)
        self._set_uses(groups, centers, weights, result.manifest.input.n_groups)

    def _set_uses(
        self, groups: Int64Array, centers: Int64Array, weights: Float64Array, n_groups: int
    ) -> None:
        shape = n_groups, self.n_clusters_
        self.local_clusters_ = csr_array((weights, (groups, centers)), shape=shape)
        self.n_local_clusters_ = len(groups)


def _predictor(result: "Result") -> Kernel:
    parameters, arrays = result.manifest.parameters, result.arrays
    uses = arrays["local_groups"], arrays["local_centers"], result.manifest.input.n_groups
    centers, divergence = centers_of(result)
    sharing = Sharing.of(centers, *uses, divergence=divergence.general)
    return GroupPredictions(
        sharing, HDPPrices(parameters["local_penalty"], parameters["global_penalty"])
    )


def _learned_features(result: "Result") -> Features | None:
    return restored_encoding(result) or restored_features(result)


LOCAL_ARRAYS = (
    ArraySpec("local_groups", ("local_cluster",), "int64", below="group"),
    ArraySpec("local_centers", ("local_cluster",), "int64", below="cluster"),
    ArraySpec("local_weights", ("local_cluster",)),
)
"""The data set, the center and the weight of each use of a center by a data set."""

SPEC = MethodSpec(
    HDPMeans,
    _predictor,
    _learned_features,
    arrays=(*CENTERS, STABILITY, *LOCAL_ARRAYS, *FEATURE_ARRAYS, *ENCODING_ARRAYS),
    takes_groups=True,
)
