"""The scikit-learn estimator of clusters of any shape: micro-clusters, their links, and a cut."""

from dataclasses import replace
from math import fsum
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks, sources
from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.history import History, Record
from dask_dpmeans.engine.loop import Algorithm, Progress
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.auto import AutoMixin
from dask_dpmeans.estimators.base import CentersMixin, ClustersMixin, RandomState, RowFit, limits_of
from dask_dpmeans.estimators.checked_rows import check_output
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.membership import MembershipMixin
from dask_dpmeans.estimators.row_options import without_row_options
from dask_dpmeans.estimators.spec import CLUSTERS, MethodSpec
from dask_dpmeans.kernels.assign import GroupDistances, NearestLabels, Predictions
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.links import Links
from dask_dpmeans.kernels.membership import Mixture, SoftPredictions
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.methods.dpmeans.choice import AUTO
from dask_dpmeans.methods.dpmeans.mixture import mixture_of
from dask_dpmeans.methods.linkage.choice import LinkageChoice
from dask_dpmeans.methods.linkage.chooser import AutoLinkage
from dask_dpmeans.methods.linkage.noise import labels_of
from dask_dpmeans.methods.linkage.search import Method, State
from dask_dpmeans.methods.linkage.tree import groups_at, without_light_components
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from dask_dpmeans.sources import Cube, RowSource
    from dask_dpmeans.storage import Result

ALLOWED = {"penalty": "from -1 to below 0", "micro_penalty": "> 0"}
"""Numbers that the penalties can be."""
UNCHOSEN = {"penalty": -0.5, "micro_penalty": 1.0}
"""Penalties of the algorithm before they are chosen."""


class LinkageDPMeans(AutoMixin, MembershipMixin, CentersMixin, BaseEstimator):
    """Clusters of any shape and size: micro-clusters, grouped where rows lie between them.

    DP-means finds many micro-clusters, with a low price for each.  One more pass finds their links:
    a row counts for the link of its two nearest micro-centers, the more the nearer it is to the
    middle.  The micro-clusters are then grouped by the normalized cut of the links and a price for
    each group (Kulis & Jordan 2012, section 5.2).  These groups are the clusters.  Yan, Huang &
    Jordan 2009 did this with k-means and a spectral cut, both told k.  The result is the same, to
    the byte, for any chunking, threads and workers.

    Parameters
    ----------
    penalty : float or "auto", default "auto"
        The price of a cluster, from -1 to below 0, as in `GraphCutDPMeans`.  The nearer to 0, the
        fewer clusters; at -1 each micro-cluster is a cluster.  "auto" chooses it twice, from the
        rows, or from a sample of about 6,144 of them if there are more than 12,288, and from the
        micro-clusters of the fit: by the mean score of both, and of fewer micro-clusters.
    micro_penalty : float or "auto", default "auto"
        The price of a micro-cluster, as for `DPMeans` with `search`.  "auto" chooses the price at
        which about 2 * sqrt(different rows), from 30 to 300, micro-clusters are best, or more of
        them for more `n_clusters`.  If the clusters are clearly balls, it is the price that
        `DPMeans` would choose, and `penalty_` is -1.
    n_clusters : int, optional
        The number of clusters, if it is known; `penalty` is then "auto".
    noise : float, optional
        Rows of a micro-cluster are noise, with label -1, if its density is below this share, above
        0 and below 1, of the density at the median row of its cluster.  The density is weight over
        mean squared distance.  0.2 is a good start.  By default there is no noise.
    metric : {"euclidean", "cosine"}, default "euclidean"
        See `DPMeans`.
    max_iter : int, default 300
        The most steps of the search of micro-clusters.  At the limit, a
        `sklearn.exceptions.ConvergenceWarning`; micro-clusters are grouped as they are then, and a
        run cannot be resumed with a higher limit.
    tol : float, default 1e-4
        See `DPMeans`.
    max_clusters : int, optional
        More micro-clusters are a `TooManyClustersError`.
    random_state : int, RandomState instance or None, default None
        Seed of the search, drawn once and stored in `random_state_`.

    Attributes
    ----------
    penalty_, micro_penalty_ : float
        The penalties, chosen or given.
    choice_ : `dask_dpmeans.methods.linkage.choice.LinkageChoice` or None
        Why the penalties were chosen, and which others might be; None if both were given.
        ``LinkageDPMeans(**choice_.penalties)`` with the same `random_state` is the same fit, unless
        `n_clusters` was given and is best at no penalty.
    labels_ : (n,) int32
        The cluster of each row: of its nearest micro-center; -1 for noise.  Heavier clusters come
        first, with their noise.  A lazy Dask array if the input is one, or a ``zarr.Array``.
    n_clusters_ : int
    micro_centers_ : (K, d) float64
        Centers of the micro-clusters.
    micro_weights_, micro_inertias_ : (K,) float64
        Weights of the rows of micro-clusters, and their squared errors.
    micro_labels_ : (n,) int32
        The micro-cluster of each row; as `labels_`.  A run does not keep it.
    groups_ : (K,) int64
        The cluster of each micro-cluster, of noise too.
    micro_noise_ : (K,) bool
        Whether the rows of a micro-cluster are noise.
    links_ : (K, K) scipy.sparse.csr_array
        The links of micro-clusters, symmetric, at most 64 of each.
    links_left_out_ : float
        The share of the weight of links that was left out for that.
    cluster_tree_ : (K - 1, 4) float64
        Merges of micro-clusters down to one cluster, as SciPy's `dendrogram` draws them.  A merge
        at height h lowers the cut by 1 - h; those that lower it by more than 1 are at 0.
    cluster_weights_ : (k,) float64
        Sum of the weights of the rows of each cluster, without noise.
    cluster_inertias_ : (k,) float64
        The part of each cluster in the normalized cut: the share of its links that leave it.
    inertia_ : float
        The cut: sum of `cluster_inertias_`.
    objective_ : float
        ``inertia_ + penalty_ * n_clusters_``; at most 0 with `n_clusters`.
    history_ : list of `dask_dpmeans.engine.history.Record`
        One record for each step.  Those before the last are of the micro-clusters.
    cluster_stability_ : None
    n_iter_, n_passes_, random_state_, n_features_in_
        See `DPMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import LinkageDPMeans
    >>> angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 400)
    >>> circle = np.column_stack([np.cos(angles), np.sin(angles)])
    >>> model = LinkageDPMeans(random_state=0).fit(np.concatenate([circle, 3 * circle]))
    >>> model.n_clusters_, model.cluster_weights_.tolist()
    (2, [400.0, 400.0])
    """

    _auto_type, _choice_type = AutoLinkage, LinkageChoice
    penalty_: float
    micro_penalty_: float

    @without_row_options
    def __init__(
        self,
        penalty: float | str = AUTO,
        micro_penalty: float | str = AUTO,
        *,
        n_clusters: int | None = None,
        noise: float | None = None,
        metric: str = "euclidean",
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.penalty = penalty
        self.micro_penalty = micro_penalty
        self.n_clusters = n_clusters
        self.noise = noise
        self.metric = metric
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    def predict(self, X: object) -> Any:
        """Return the cluster of the nearest micro-center of each row, (n,) int32; lazy if X is.

        It is -1 if rows of this micro-cluster are noise.
        """
        check_is_fitted(self)
        kernel = NearestLabels(self._centers(), groups=self._micro_labels(self.groups_))
        return self._mapped(X, kernel, np.int32)

    def transform(self, X: object) -> Any:
        """Return the distance of each row to each cluster, (n, k) float64; lazy if X is.

        It is the distance to the nearest micro-center of the cluster.
        """
        check_is_fitted(self)
        check_output(self, X)
        kernel = GroupDistances(self.micro_centers_, self.groups_)
        return self._mapped(X, kernel, np.float64, self.n_clusters_)

    def groups_at(self, n_clusters: int) -> Int64Array:
        """Return the cluster of each micro-cluster, (K,), at another number of clusters."""
        check_is_fitted(self)
        count, most = checks.integer("n_clusters", n_clusters), len(self.groups_)
        if count > most:
            raise InputError(
                f"n_clusters must be at most the number of micro-clusters, {most:,}, got {count:,}"
            )
        weights = self.micro_weights_
        graph = without_light_components(self.links_, weights)
        return groups_at(self.cluster_tree_, count, graph, self.micro_centers_, weights)

    def labels_at(self, n_clusters: int, X: object = None) -> Any:
        """Return the cluster of each row, (n,) int32, at another number of clusters.

        Parameters
        ----------
        n_clusters : number of clusters, from 1 to the number of micro-clusters
        X : (n, d) rows, as for `predict`; by default the rows of the fit, but a run does not keep
            their micro-clusters
        """
        groups = self._micro_labels(self.groups_at(n_clusters))
        if X is not None:
            return self._mapped(X, NearestLabels(self._centers(), groups=groups), np.int32)
        if not hasattr(self, "micro_labels_"):
            raise InputError("X must be given: a run does not keep the micro-clusters of its rows")
        return _take(groups.astype(np.int32), self.micro_labels_)

    def description(self) -> Description:
        choice = getattr(self, "choice_", None)
        words = replace(
            super().description(),
            inertia_name="cut",
            radii_are_cuts=True,
            objective_parts="cut {inertia:.9g} + penalty x clusters",
            metric=self.metric,
            settings={"metric": self.metric} | self._describe_penalties(),
            json={} if choice is None else {"choice": choice.as_json()},
            pictures=("merges", "micro-clusters"),
        )
        if not hasattr(self, "groups_"):
            return words
        count = len(self.groups_)
        clusters = f"{self.n_clusters_:,}, of {format_count(count, 'micro-cluster')}"
        numbers = np.bincount(self.groups_, minlength=len(self.cluster_weights_))
        facts = {"micro-clusters": f"{count:,}"}
        if self.links_left_out_:
            facts["links left out"] = f"{self.links_left_out_:.2%} of their weight"
        if self.noise is not None:
            weight = fsum(self.micro_weights_[self.micro_noise_])
            few = format_count(int(np.count_nonzero(self.micro_noise_)), "micro-cluster")
            facts["noise"] = f"{weight:,g} row{'s' * (weight != 1)} in {few}"
            clusters = f"{clusters}; noise: {facts['noise']}"
        return replace(
            words, clusters=clusters, facts=facts, cluster_columns={"micro-clusters": numbers}
        )

    def _describe_penalties(self) -> dict[str, str]:
        """Return the lines of `show` about the penalties."""
        if self._chooses and getattr(self, "choice_", None) is None:
            return {"penalties": f"{AUTO}, prices"}
        penalties = self._numbers
        read = f"{penalties['penalty']:g} a cluster, {penalties['micro_penalty']:g} a micro-cluster"
        if not self._chooses:
            return {"penalties": read}
        return {"penalties": f"{read}, chosen from the rows"} | self._describe_choice()

    def method(self) -> Method:
        """Return the checked parameters as an algorithm."""
        if self.n_clusters is not None and "penalty" in self._given:
            raise InputError(
                f"penalty must be {AUTO!r} with n_clusters, got {self.penalty!r}: give one of them"
            )
        return Method(
            **self._numbers,
            n_clusters=self.n_clusters,
            noise=self.noise,
            metric=self.metric,
            **limits_of(self),
        )

    @property
    def _given(self) -> dict[str, Any]:
        """The penalties that are numbers, by name."""
        given = {name: getattr(self, name) for name in ALLOWED}
        for name, value in given.items():
            if isinstance(value, str) and value != AUTO:
                allowed = f"a number {ALLOWED[name]} or {AUTO!r}"
                raise InputError(f"{name} must be {allowed}, got {value!r}")
        return {name: value for name, value in given.items() if not isinstance(value, str)}

    @property
    def _chooses(self) -> bool:
        return len(self._given) < len(ALLOWED)

    @property
    def _numbers(self) -> dict[str, Any]:
        chosen = {name: getattr(self, f"{name}_", UNCHOSEN[name]) for name in ALLOWED}
        return chosen | self._given

    def _auto(self) -> AutoLinkage | None:
        if not self._chooses:
            return None
        method = self.method()
        return AutoLinkage(method, {name: getattr(method, name) for name in self._given})

    def _note(self, given: RowFit, progress: Progress[Any]) -> None:
        progress = _group_progress(given.method, given.source, progress)
        super()._note(given, progress)
        self._note_choice(given.method, given.source, progress.state, given.chosen)

    def _price(self, penalty: float | None) -> Price:
        raise InputError(
            "estimator must have a price for new rows: the clusters of LinkageDPMeans are groups of "
            "micro-clusters, whose objective is a cut"
        )

    def _centers(self) -> Centers:
        return Centers(self.micro_centers_)

    def _micro_labels(self, groups: Int64Array) -> Int64Array:
        """Return the label of the rows of each micro-cluster, (K,), for its cluster, (K,)."""
        figures = self.micro_centers_, self.micro_weights_, self.micro_inertias_
        return labels_of(groups, *figures, self.noise)

    def _mixture(self) -> Mixture:
        """Return the mixture of the micro-clusters, with their clusters as groups."""
        figures = self.micro_centers_, self.micro_weights_, fsum(self.micro_inertias_)
        return mixture_of(*figures, metric_of(self.metric), self.groups_)

    @property
    def _points(self) -> Float64Array | None:
        return self.micro_centers_

    def _set_centers(self, method: Algorithm[Any], source: "RowSource", state: State) -> None:
        micro, found = state.micro, state.grouping
        self._set_micro_clusters(micro.centers, micro.weights, micro.inertias)
        self._set_groups(found.groups, found.links, found.merges, found.left_out)

    def _label(self, given: RowFit, state: State) -> None:
        kernel = NearestLabels(self._centers())
        if sources.is_lazy(given.rows):
            super()._label(given, state)
            self.micro_labels_ = self._row_labels(given, kernel)
        else:
            self.micro_labels_ = self._row_labels(given, kernel)
            labels = self._micro_labels(self.groups_)
            self.labels_ = labels.astype(np.int32)[self.micro_labels_]

    def _place_labels(self, cube: "Cube") -> None:
        super()._place_labels(cube)
        self.micro_labels_ = cube.place(self.micro_labels_)

    def _restore(self, result: "Result") -> None:
        ClustersMixin._restore(self, result)
        arrays, stored = result.arrays, result.manifest.choice
        choice = None if stored is None else LinkageChoice.from_json(stored)
        self._set_choice(result.manifest.parameters, choice, None)
        self._set_micro_clusters(
            *(arrays[f"micro_{name}"] for name in ("centers", "weights", "inertias"))
        )
        links = Links(*(arrays[f"links_{name}"] for name in ("lower", "higher", "weights")))
        merges = checked_merges(arrays["tree"], len(self.micro_centers_))
        self._set_groups(arrays["groups"], links, merges, float(arrays["links_left_out"][0]))

    def _set_micro_clusters(
        self, centers: Float64Array, weights: Float64Array, inertias: Float64Array
    ) -> None:
        self.micro_centers_, self.micro_weights_, self.micro_inertias_ = centers, weights, inertias

    def _set_groups(
        self, groups: Int64Array, links: Links, merges: Float64Array, left_out: float
    ) -> None:
        self.groups_, self.cluster_tree_, self.links_left_out_ = groups, merges, left_out
        self.links_: csr_array = links.matrix(len(groups))
        self.micro_noise_ = self._micro_labels(groups) < 0


def _group_progress(method: Any, source: "RowSource", progress: Progress[State]) -> Progress[State]:
    """Return the progress of a fit as if it had ended here, with groups of its micro-clusters."""
    if progress.state.grouped:
        return progress
    state, history = method.group(source, progress.state), progress.history
    record = Record.of(state, source.plan.n_rows, history[-1].seconds)
    return replace(progress, state=state, history=History([*history[:-1], record]))


def checked_merges(merges: Float64Array, k: int) -> Float64Array:
    """Return the tree of k micro-clusters, (k - 1, 4), if it is one."""
    steps = np.arange(len(merges))
    parts = merges[:, :2]
    whole = merges.shape == (k - 1, 4) and (parts == np.rint(parts)).all()
    if not whole or len(np.unique(parts)) < parts.size or (parts < 0).any():
        raise ValueError("the array tree holds no merges of the micro-clusters")
    if (parts >= k + steps[:, np.newaxis]).any():
        raise ValueError("the array tree holds no merges of the micro-clusters")
    return merges


def _take(values: np.ndarray[Any, Any], numbers: Any) -> Any:
    """Return values, (K,), at numbers, (n,), lazily if these are; -1 at samples that are no rows."""
    if sources.is_cube(numbers):
        found = _take(np.append(values, -1).astype(values.dtype), numbers.data)
        return numbers.copy(data=found)
    if sources.is_lazy(numbers):
        return numbers.map_blocks(values.take, dtype=values.dtype)
    return values[numbers]


def _predictor(result: "Result") -> Kernel:
    arrays, price = result.arrays, result.manifest.parameters["micro_penalty"]
    return Predictions(Centers(arrays["micro_centers"]), price, groups=_stored_labels(result))


def _stored_labels(result: "Result") -> Int64Array:
    """Return the label of the rows of each micro-cluster of a run, (K,)."""
    arrays, share = result.arrays, result.manifest.parameters["noise"]
    figures = arrays["micro_centers"], arrays["micro_weights"], arrays["micro_inertias"]
    return labels_of(arrays["groups"], *figures, share)


def _soft_predictor(result: "Result", top: int) -> SoftPredictions:
    """Return the kernel that also returns the `top` most probable clusters of each row."""
    arrays, parameters = result.arrays, result.manifest.parameters
    figures = arrays["micro_centers"], arrays["micro_weights"], fsum(arrays["micro_inertias"])
    mixture = mixture_of(*figures, metric_of(parameters["metric"]), arrays["groups"])
    noise = _stored_labels(result) < 0
    return SoftPredictions(
        mixture, parameters["micro_penalty"], min(top, mixture.n_clusters), noise
    )


MICRO_ARRAYS = (
    ArraySpec("micro_centers", ("micro_cluster", "feature")),
    ArraySpec("micro_weights", ("micro_cluster",), positive=True),
    ArraySpec("micro_inertias", ("micro_cluster",)),
    ArraySpec("groups", ("micro_cluster",), "int64", below="cluster"),
)
"""Micro-clusters, and the cluster of each."""
LINK_ARRAYS = (
    ArraySpec("links_lower", ("link",), "int64", below="micro_cluster"),
    ArraySpec("links_higher", ("link",), "int64", below="micro_cluster"),
    ArraySpec("links_weights", ("link",), positive=True),
    ArraySpec("links_left_out", ("fit",)),
    ArraySpec("tree", ("merge", "merge_field")),
)
"""Links of micro-clusters, the share of their weight that is left out, and the tree of merges."""

SPEC = MethodSpec(
    LinkageDPMeans,
    _predictor,
    arrays=(*CLUSTERS, *MICRO_ARRAYS, *LINK_ARRAYS),
    soft_predictor=_soft_predictor,
)
