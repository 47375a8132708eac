"""The scikit-learn estimator of DP-means."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks, sources
from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.auto import AutoPenaltyMixin
from dask_dpmeans.estimators.base import RandomState, limits_of
from dask_dpmeans.estimators.bounded import BoundedMixin
from dask_dpmeans.estimators.description import DIVERGENCES, Description, radius_or_price
from dask_dpmeans.estimators.divergence_map import ENCODING_ARRAYS, SMOOTHING, restored_encoding
from dask_dpmeans.estimators.divergences import DivergenceMixin, describe_divergence
from dask_dpmeans.estimators.first_centers import FIRST_CENTERS, center_names, first_centers
from dask_dpmeans.estimators.geography import HAVERSINE, describe_places, restored_points
from dask_dpmeans.estimators.membership import MembershipMixin
from dask_dpmeans.estimators.outliers import OutliersMixin
from dask_dpmeans.estimators.row_options import without_row_options
from dask_dpmeans.estimators.spec import (
    CENTERS,
    OUTLIERS,
    STABILITY,
    ArrayParameter,
    MethodSpec,
    nearest_centers,
    soft_nearest_centers,
)
from dask_dpmeans.kernels.assign import NearestLabels
from dask_dpmeans.kernels.block import Features
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.encoding import Encoding
from dask_dpmeans.kernels.membership import Mixture
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.choice import AUTO, Choice, CostChoice
from dask_dpmeans.methods.dpmeans.dry_run import ClusterSample, open_centers, search_centers
from dask_dpmeans.methods.dpmeans.mixture import mixture_of
from dask_dpmeans.methods.dpmeans.search import BEST, EFFORTS, NORMAL

if TYPE_CHECKING:
    from dask_dpmeans.sources import Names, RowSource
    from dask_dpmeans.storage import Result

METHODS: dict[bool, type[batch.Method] | type[search.Method]] = {
    False: batch.Method,
    True: search.Method,
}
"""Algorithms by `search`."""
SAMPLES: dict[bool, ClusterSample] = {False: open_centers, True: search_centers}
"""How the first rows are clustered, by `search`."""


class DPMeans(
    BoundedMixin, DivergenceMixin, OutliersMixin, AutoPenaltyMixin, MembershipMixin, BaseEstimator
):
    """DP-means clustering: the number of clusters follows from the penalty for each cluster.

    Minimizes J = inertia + penalty * k by Algorithm 1 of Kulis & Jordan 2012.  A row farther than
    the square root of the penalty from every center opens a cluster.  Then rows go to the nearest
    center, centers become means, and clusters without weight are removed, until nothing changes.
    The result is the same, to the byte, for any chunking, threads and workers.

    Parameters
    ----------
    penalty : float or "auto", default "auto"
        What a cluster costs, in squared units of the rows (lambda of the paper).

        A number is read as a radius: no row of weight 1 or more is farther than its square root
        from its center.  With `search` it is a price.  With ``metric="cosine"`` it is 2 (1 - cos)
        of an angle instead: 2 is a right angle.  Above 4 no row would open a cluster; this is an
        error without `search`.  With ``metric="haversine"`` a radius is a length in kilometers, and
        a price is in square kilometers.

        "auto" chooses a price, and so the number of clusters, from the rows, or from a coreset of
        about 6,144 to 12,288 of them if there are more than 12,288.  Each number of clusters k is
        best over an interval of prices; the one with the greatest log(high / low) * sqrt(k) is
        chosen, at the geometric mean of its interval.  Of close ones, fits of halves of the rows
        decide.  If uniform clouds with the covariance of the rows do as well, or clouds of
        independent columns with one mode each, there is one cluster.
        The fit is then the same, to the byte, as with that price and `search`; `choice_` says why
        it was chosen.
    search : bool, default False
        Take the penalty as a price, as "auto" always is, and search for the lowest objective.
        Clusters are opened, split, merged and deleted where the objective falls (after Odashima et
        al. 2016).  Then some of these changes are tried at random, and kept if they end lower
        (Fritzke 2020).

        More than 32,768 rows are first searched on a coreset, which is a weighted sample in memory
        (Bachem et al. 2015), and more than 8,192 rows in up to three columns on means of neighbors;
        then all rows are.  Centers as `init` replace this start.  If the rows are not too many,
        clusters of several searches are combined (Gribel & Vidal 2019), and up to 8,192 rows move
        one by one in the end (Hartigan 1975).  The page "Radius or price" of the guide tells what
        is done with how many rows.

        Up to 32,768 rows, a search that converges is never above the fit without `search` (with
        "cosine", up to rounding), unless that fit would be an error.
    effort : {"quick", "normal", "best"}, default "normal"
        How long a search goes on, never how its result is judged.  "quick" tries fewer changes.
        "best" goes on from the end of a normal search, and so is never above it: clusters of
        further searches are combined again and again (HG-means, Gribel & Vidal 2019, section 3),
        until nothing lower is found.  It takes 20 to 50 times as long on some thousand rows.  It is
        an error without a search.  The penalty "auto" is the same whatever the effort.
    gap_tol : float >= 0, optional
        With the best effort and up to 32,768 rows: end once a lower bound proves that the objective
        is at most this share above the lowest one (see `lower_bound`).  None: go on.
    metric : {"euclidean", "cosine", "haversine"}, default "euclidean"
        With "cosine" rows are compared by direction alone, as for embeddings.  Each row is scaled
        to unit length (after its columns were divided, if they are), so squared distances are
        2 (1 - cosine).  Centers are directions of sums of rows, of unit length (spherical k-means,
        Dhillon & Modha 2001).  If that sum is less than 1e-12 of the weight, the center stays
        as it was; the first center is then the first axis.  A row of zeros is an `InputError`.

        With "haversine" rows are places on the earth, a sphere of radius 6371.0088 km: latitude
        from -90 to 90 and longitude from -180 to 360, in degrees and in this order, unless the
        columns are called lat or latitude and lon, lng, long or longitude.  J sums squared
        distances through the earth in km^2 (0.05 % less than great circles at 500 km).  As a price,
        the penalty is in km^2; as a radius, it is in great-circle kilometers, as `transform` is.
    divergence : str, ColumnDivergence, dict or Divergence, default "squared"
        What a row costs at a center in each column: the squared distance, or another Bregman
        divergence D(x, m) of Banerjee et al. 2005, whose best center is the mean too.

        - "poisson": x log(x / m) - x + m, of counts (generalized Kullback-Leibler divergence).
        - "multinomial": the same of shares; each row counts as shares of its sum.
        - "bernoulli": x log(x / m) + (1 - x) log((1 - x) / (1 - m)), of numbers from 0 to 1.
        - "itakura-saito" or "gamma": x / m - log(x / m) - 1, of numbers > 0.
        - "categorical": of codes 0, 1, ... of categories, -log of the share of the category at the
          center.  Centers have a column for each category, its share.
        - "mixed": categories of a data frame are categorical, all other columns squared.

        A dict gives the divergence of some columns, by name or number; all others are as in
        "mixed".  With "poisson", "multinomial" or "bernoulli" for all columns, and without a search,
        a sweep of CSR rows costs as much as their stored values, and gives the result of dense rows to
        rounding.  A `dask_dpmeans.kernels.bregman.ColumnDivergence` is any other function of one
        column, a `dask_dpmeans.kernels.divergence.Divergence` any other cost of a row.
    missing : {"error", "observed", "unscaled"}, default "error"
        What NaN is.  "observed": a missing value; a row costs the divergence in its other columns,
        times d over their number, and a center is the mean of what was observed (after Chi, Chi &
        Baraniuk 2016).  "unscaled": the same without the factor.  Where no row of a cluster has a
        value, its center has the mean of all rows.  A row without any value has label -1 and counts
        for nothing.  A column without any value counts for nothing too, also not in d.
    smoothing : float, default 0.1
        Weight a of the mean g of all rows in each row of "poisson", "multinomial", "bernoulli" and
        "categorical": x becomes (x + a g) / (1 + a), since a center of 0 would cost infinitely much.
        Centers are shown without it.
    balance_columns : bool, optional
        Divide the costs in each column by their mean at the mean of all rows, so that no column
        outweighs the others.  None: if columns have divergences of their own ("mixed" or a dict).
    discount : float >= 0, default 0.0
        Fall of the price, for clusters whose sizes follow a power law: the j-th cluster costs
        max(penalty / 10, penalty - discount * log(j)), as in a Pitman-Yor process (Pitman & Yor
        1997; Fan, Zeng & Cao 2013).  The more clusters there are, the smaller another one may be.
        Without `search`, a row opens a cluster beside k others if it costs more than cluster
        k + 1.  0 is the objective of the paper.  The penalty must be a number.  The best clusters
        are also the best at a plain penalty, the price of the last one.
    outlier_penalty : float, optional
        The price of an outlier, with `search`: a row that costs more at every center is an outlier.
        It costs this for each unit of its weight, belongs to no cluster, and has label -1, so that

            J = sum of min(weight * cost, weight * outlier_penalty) + penalty * k.

        It should be well below the penalty: a row of weight 1 whose own cluster is cheaper than its
        outlier price opens that cluster.  Multiples of a cluster's variance are a start: in d
        columns of variance s, 9 d s is three times the root mean squared distance of a row to its
        center.  Without `search` it is an error: the penalty is then a radius, and a row beyond it
        opens a cluster.  The penalty "auto" is chosen from the rows that are no outliers.  One
        cluster stays, whatever outliers cost.
    outlier_share : float, optional
        Find an `outlier_penalty`, in `outlier_penalty_`, that rows of about this share of the
        weight exceed, such as 0.02, by searches of about 16,384 rows (as in trimmed k-means,
        Cuesta-Albertos, Gordaliza & Matran 1997).  The share is not met exactly, and not at all if
        that many rows would rather open clusters.
    min_cluster_weight : float, default 0.0
        Rows of clusters lighter than this have label -1, after a fit of any kind.  The clusters
        stay among centers, weights, inertias and the objective, and other rows keep their labels.
    init : "mean", array of shape (k, d), path or fitted estimator, default "mean"
        The first centers: the mean of all rows as in the paper, an array, or the centers of an
        earlier run or fit, in the units of the input.  With ``metric="cosine"`` their directions,
        with "haversine" places in degrees.
    max_iter : int, default 300
        The most sweeps, or steps of the search.  At the limit, a
        `sklearn.exceptions.ConvergenceWarning`.  A fit keeps the centers of its last pass, for
        which labels and figures are exact, not the means that follow.  So ``max_iter=1`` keeps
        the first centers and those that opened; with `init`, use at least 2 to move them.
    tol : float, default 1e-4
        The fit has converged when a sweep opens nothing and lowers the objective by less than
        ``tol`` times it.  0 goes on until the centers repeat to the bit.  The search settles to a
        fifth of ``tol``, and up to 524,288 rows ends at a hundredth of it.
    max_clusters : int, optional
        More clusters are a `TooManyClustersError`.
    random_state : int, RandomState instance or None, default None
        Seed of the search, drawn once and stored in `random_state_`.  Nothing else is random.

    Attributes
    ----------
    penalty_ : float
        The penalty, chosen or given; with ``metric="haversine"`` always in square kilometers.
    choice_ : `dask_dpmeans.methods.dpmeans.choice.Choice` or None
        Why the penalty was chosen, and which others might be; None if it was given.
        ``DPMeans(choice_.alternatives[1].penalty, search=True)`` fits the next best number.
    cluster_stability_ : (k,) float64 or None
        For a chosen penalty, the product of two Jaccard indices of each cluster: the mean index
        with the most similar cluster of fits of halves of the rows (Hennig 2007), and the index
        with its own component, if components are normal (after Maitra & Melnykov 2010).  It is 1
        if each half has the cluster and it lies apart, and about .87 for each of two clusters whose
        means are 3 standard deviations apart.
    cluster_centers_ : (k, d) float64
        Centers, in the order in which they opened.  A split opens the second of its halves.  With
        ``metric="cosine"`` of unit length, up to the rounding of the rows' own precision.  With
        "haversine" places in degrees, with the columns in the order of the rows.
    labels_ : (n,) int32
        The nearest center of each row, the lowest number among equals; -1 for outliers and for
        rows of clusters lighter than `min_cluster_weight`.  A lazy Dask array if the input is one,
        or a ``zarr.Array``.
    cluster_weights_ : (k,) float64
        Sum of the weights of the rows of each cluster.
    cluster_inertias_ : (k,) float64
        Weighted sum of squared distances of the rows of each cluster to its center.
    n_clusters_ : int
    inertia_ : float
        Sum of `cluster_inertias_`; with ``metric="cosine"`` of 2 (1 - cosine), with "haversine" of
        squared chords in km^2.  It includes what outliers cost.
    outlier_penalty_ : float or None
        The price of outliers, found or given; None if no row can be one.
    outlier_weight_ : float
        Weight of the outliers: rows that cost more than `outlier_penalty_` at every center.
    objective_ : float
        ``inertia_ + penalty * n_clusters_``; with a `discount`, inertia plus the prices of the
        clusters 1 to k.
    lower_bound_, gap_ : float
        A proved lower bound, and the most that the objective is above the lowest one, over that:
        after `lower_bound`, or in a run that keeps a bound.
    cluster_gaps_ : (k,) float64 or None
        Parts of the clusters in the gap; None if unknown.  It exists with `gap_`.
    n_iter_ : int
        Sweeps, or steps of the search.
    n_passes_ : float
        Passes over the rows; a pass over a part of them counts as that part.
    history_ : list of `dask_dpmeans.engine.history.Record`
        One record for each sweep or step: objective, inertia, clusters, births, deaths, moves and
        their gains, passes, seconds.
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

    Without a penalty:

    >>> rows = np.random.default_rng(0).normal(size=(300, 2)) + 10 * np.eye(3, 2).repeat(100, 0)
    >>> DPMeans(random_state=0).fit(rows).n_clusters_
    3
    """

    _on_csr: ClassVar[bool] = True

    @without_row_options
    def __init__(
        self,
        penalty: float | str = AUTO,
        *,
        search: bool = False,
        effort: str = NORMAL,
        gap_tol: float | None = None,
        metric: str = "euclidean",
        divergence: object = "squared",
        missing: str = "error",
        smoothing: float = SMOOTHING,
        balance_columns: bool | None = None,
        discount: float = 0.0,
        outlier_penalty: float | None = None,
        outlier_share: float | None = None,
        min_cluster_weight: float = 0.0,
        init: object = "mean",
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.penalty = penalty
        self.search = search
        self.effort = effort
        self.gap_tol = gap_tol
        self.metric = metric
        self.divergence = divergence
        self.missing = missing
        self.smoothing = smoothing
        self.balance_columns = balance_columns
        self.discount = discount
        self.outlier_penalty = outlier_penalty
        self.outlier_share = outlier_share
        self.min_cluster_weight = min_cluster_weight
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    def _check_fit(self, sample_weight: object) -> None:
        sources.check_centers(
            center_names(self.init), getattr(self, "feature_names_in_", None), None
        )

    def description(self) -> Description:
        other = isinstance(self.features_, Encoding) or isinstance(self.divergence, Divergence)
        fields = self._describe_penalty(DIVERGENCES if other else self.metric)
        first: dict[str, Any] = {"settings": {"metric": self.metric}}
        if other:
            first = describe_divergence(self.divergence, self.missing)
        if self.metric == HAVERSINE:
            first = describe_places()
        fields = first | fields | {"settings": first["settings"] | fields["settings"]}
        if self.discount:
            fields |= self._describe_discount(fields["settings"])
        if self.min_cluster_weight and hasattr(self, "cluster_weights_"):
            fields["settings"] |= self._describe_light()
        outliers, bound = self._describe_outliers(), self._describe_bound()
        if outliers:
            outliers["settings"] = fields["settings"] | outliers["settings"]
        if bound:
            bound["json"] = fields.get("json", {}) | bound["json"]
        return replace(
            super().description(),
            metric=self.metric,
            pictures=("profile",),
            nearest_centers=not outliers and not self.min_cluster_weight,
            **fields | outliers | bound,
        )

    def _describe_light(self) -> dict[str, str]:
        """Return the line of `show` about the clusters whose rows have label -1."""
        weights = self.cluster_weights_[self.cluster_weights_ < self.min_cluster_weight]
        light = f"{checks.format_count(len(weights), 'cluster')} lighter than {self.min_cluster_weight:g}"
        share = weights.sum() / (self.cluster_weights_.sum() + self.outlier_weight_)
        return {"label -1": f"rows of {light} ({share:.2%} of all)"}

    def _describe_discount(self, settings: dict[str, str]) -> dict[str, Any]:
        """Return the fields of a `Description` at a price that falls."""
        method = self.method()
        k = getattr(self, "n_clusters_", 1)
        threshold = method.price.threshold(k)
        metric = DIVERGENCES if isinstance(self.features_, Encoding) else self.metric
        radius, read = radius_or_price(threshold, search=self._searches, metric=metric)
        lines = {
            "penalty": f"{method.penalty:g}, of the first cluster",
            "discount": f"{method.discount:g}: the next cluster, number {k + 1:,}, costs {read}",
        }
        return {
            "radius": radius,
            "settings": settings | lines,
            "objective_parts": "inertia {inertia:.9g} + prices of clusters 1 to k",
        }

    def _paths(self) -> tuple[object, ...]:
        return (self.init,)

    def _center_names(self) -> "Names | None":
        return center_names(self.init)

    def _price(self, penalty: float | None) -> Price:
        method = self.method()
        return (method if penalty is None else replace(method, penalty=self._cost(penalty))).price

    @property
    def _choice_type(self) -> type[Choice]:
        return Choice if self._feature_map() is None else CostChoice

    def _cost(self, penalty: float) -> float:
        """Return a penalty, a radius or a price, in units of the cost."""
        search = self._searches
        if self.metric == HAVERSINE and self.discount and not search:
            raise InputError(
                f"discount needs search=True with metric={self.metric!r}: without it the penalty is a "
                "length, and the discount a price"
            )
        return metric_of(self.metric).price_of(batch.checked_penalty(penalty), search=search)

    def _centers(self) -> Centers:
        most = math.inf if self.outlier_penalty_ is None else self.outlier_penalty_
        return replace(super()._centers(), most=most)

    def predict(self, X: object) -> Any:
        """Return the number of the nearest center of each row, (n,) int32; lazy if X is.

        It is -1 for outliers, for rows of clusters lighter than `min_cluster_weight`, and with `missing`
        for rows without any value.
        """
        check_is_fitted(self)
        light = batch.lighter(self.cluster_weights_, self.min_cluster_weight)
        return self._mapped(X, NearestLabels(self._centers(), light), np.int32)

    def _set_centers(self, method: Algorithm[Any], source: "RowSource", state: Any) -> None:
        self._set_averages(state.centers)
        self._set_outliers(
            getattr(state, "outlier_penalty", math.inf), getattr(state, "outlier_weight", 0.0)
        )

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        self._set_outliers(*result.arrays.get("outliers", (math.inf, 0.0)))

    def _mixture(self) -> Mixture:
        inertia, centers = math.fsum(self.cluster_inertias_), self._centers()
        figures = self.cluster_averages_, self.cluster_weights_, inertia
        return mixture_of(*figures, self._divergence, most=centers.most)

    def method(self) -> batch.Method | search.Method:
        """Return the checked parameters as an algorithm."""
        effort = checks.choice("effort", self.effort, EFFORTS)
        further: dict[str, Any] = {}
        if self._searches:
            further = {"effort": effort, "gap_tol": self.gap_tol}
        elif self.gap_tol is not None:
            raise InputError(
                f"gap_tol needs search=True and effort={BEST!r}, got search=False: Algorithm 1 ends by "
                "itself; lower_bound tells the gap of its result"
            )
        if effort != NORMAL and not self._searches:
            raise InputError(
                f"effort must be {NORMAL!r} with search=False, got {effort!r}: Algorithm 1 has no "
                "trials; search=True takes the penalty as a price and searches"
            )
        return METHODS[self._searches](
            penalty=self._cost(self._number),
            metric=self.metric,
            discount=self.discount,
            outlier_penalty=self.outlier_penalty,
            outlier_share=self.outlier_share,
            min_cluster_weight=self.min_cluster_weight,
            centers=first_centers(self.init),
            learned=self.divergence if isinstance(self.divergence, Divergence) else None,
            **further,
            **limits_of(self),
        )


def _parameters(model: DPMeans, method: batch.Method | search.Method) -> dict[str, Any]:
    """Return the parameters that a run stores; first centers are an array of the run."""
    init: str | ArrayParameter = ArrayParameter("first_centers")
    if method.centers is None:
        init = "mean"
    return {**model.get_params(deep=False), "init": init}


def _cluster_sample(model: DPMeans) -> ClusterSample:
    """Return how the first rows are clustered, at a penalty that is known."""
    if model._auto() is not None:
        raise InputError(
            "a dry run needs a number as the penalty: the penalty 'auto' is chosen from all rows"
        )
    return SAMPLES[model._searches]


def _learned_features(result: "Result") -> Features | None:
    """Return the map that a run keeps of its rows to the rows of the method; None without one."""
    return restored_encoding(result) or restored_points(result)


SPEC = MethodSpec(
    DPMeans,
    nearest_centers,
    learned_features=_learned_features,
    arrays=(*CENTERS, STABILITY, OUTLIERS, FIRST_CENTERS, *ENCODING_ARRAYS),
    parameters=_parameters,
    cluster_sample=_cluster_sample,
    has_bound=True,
    soft_predictor=soft_nearest_centers,
)
