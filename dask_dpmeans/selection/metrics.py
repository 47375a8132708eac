"""Measures of labels: their clusters, their objective, and the agreement of two labelings."""

from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from dask_dpmeans.checks import short_repr
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import NO_SCORE
from dask_dpmeans.estimators.geography import measured_rows
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.keyed_sums import GroupSums, rank_numbers
from dask_dpmeans.kernels.labelings import ClusterSpreads, LabelPairCounts, LabelPairs
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.lazy import LazyModule
from dask_dpmeans.methods.dpmeans.batch import checked_penalty
from dask_dpmeans.sources import Reading, Where, as_source, check_option_names, label_pairs
from dask_dpmeans.storage.location import AnyPlace

if TYPE_CHECKING:
    from sklearn import metrics as scikit_learn
else:
    # It loads scipy.stats, and a report of one run needs none of it.
    scikit_learn = LazyModule("sklearn.metrics")

# Clusters


class Options(Reading, total=False):
    """Keyword options of `inertia` and `objective`, as in `partition`."""

    metric: str


@dataclass(frozen=True, repr=False)
class Partition:
    """The k clusters of labeled rows; clusters of weight 0 are left out."""

    labels: Int64Array
    """(k,), their labels, rising."""
    sizes: Int64Array
    """(k,), numbers of rows, of any weight."""
    weights: Float64Array
    """(k,), sums of the rows' weights."""
    centers: Float64Array
    """(k, d), means of the rows."""
    inertias: Float64Array
    """(k,), sums of weight times squared distance to the center, in squared units of the rows times
    weight."""
    radii: Float64Array
    """(k,), the largest distance of a row of positive weight to the center, in units of the
    rows."""
    deviations: Float64Array
    """(k,), the root of the mean squared distance, by weight, in units of the rows."""

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def inertia(self) -> float:
        """Squared error of all clusters."""
        return fsum(self.inertias)

    def objective(self, penalty: float) -> float:
        """Return inertia + penalty * k (Kulis & Jordan 2012, eq. 1)."""
        return self.inertia + checked_penalty(penalty) * len(self.labels)


def partition(
    X: ArrayLike | AnyPlace,
    labels: ArrayLike | AnyPlace,
    sample_weight: ArrayLike | AnyPlace | None = None,
    *,
    metric: str = "euclidean",
    **where: Unpack[Reading],
) -> Partition:
    """Return sizes, means, squared errors and radii of the clusters of labeled rows.

    The squared error is summed from differences between rows and means, not from moments, which
    would cancel.  This takes three passes over the rows.  The result is the same, to the byte, for
    any chunking, threads and workers.

    Parameters
    ----------
    X : (n, d) rows, as for `DPMeans.fit`, or the path or URL of a Zarr array or ``.npy`` file
    labels : (n,) integers between -2**24 and 2**24
        A NumPy, Dask or Zarr array with any chunks, or a path.  Labels need not be consecutive.  -1
        is a label like any other, as in the metrics of scikit-learn: if it marks outliers, they are
        a cluster here, with a center and a squared error.  A ``sample_weight`` of ``labels >= 0``
        leaves these rows out.
    sample_weight : (n,), optional, weights >= 0
    metric : "euclidean", "cosine" or "haversine" as in `DPMeans`
        With "cosine" rows and means have unit length.  With "haversine" rows and means are places in
        degrees, latitude and longitude unless named otherwise; squared errors and radii are of
        chords through the earth, in kilometers.
    **where : columns, scale, client, threads, memory_limit, as for `dask_dpmeans.fit`

    Returns
    -------
    Partition

    Raises
    ------
    InputError
        Labels are not integers, or not one a row.  Rows that `DPMeans.fit` refuses are refused too.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.metrics import partition
    >>> found = partition(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 5]))
    >>> found.labels.tolist(), found.sizes.tolist(), found.radii.tolist(), found.objective(penalty=4.0)
    ([0, 5], [2, 1], [1.0, 0.0], 10.0)
    """
    check_option_names("partition", where, Reading)
    geometry = metric_of(metric)
    if labels is None:
        raise InputError("labels is None: pass one integer a row")
    source = as_source(
        X, sample_weight, groups=labels, groups_are="labels", features=geometry.features, **where
    )
    source, geometry = measured_rows(source, metric)
    found = source.fold(GroupSums(), name="groups")
    alive = found.values.weights > 0
    numbers, moments = found.keys[alive], found.values.keep(alive)
    centers = geometry.means(
        moments.means, np.eye(1, source.n_features).repeat(len(numbers), axis=0)
    )
    reaches = source.fold(ClusterSpreads(numbers, centers), name="reaches")
    return Partition(
        numbers,
        moments.counts,
        moments.weights,
        geometry.shown(centers),
        reaches.inertias,
        np.sqrt(reaches.largest),
        np.sqrt(reaches.inertias / moments.weights),
    )


def inertia(
    X: ArrayLike | AnyPlace,
    labels: ArrayLike | AnyPlace,
    sample_weight: ArrayLike | AnyPlace | None = None,
    **options: Unpack[Options],
) -> float:
    """Return the weighted sum of squared distances between rows and the means of their clusters.

    Parameters and errors are as in `partition`.  The result is at most the `inertia_` of a fit with
    these labels, because a fit measures to the centers that the rows were assigned to.
    """
    return partition(X, labels, sample_weight, **options).inertia


def objective(
    X: ArrayLike | AnyPlace,
    labels: ArrayLike | AnyPlace,
    penalty: float,
    sample_weight: ArrayLike | AnyPlace | None = None,
    **options: Unpack[Options],
) -> float:
    """Return inertia + penalty * k of labels (Kulis & Jordan 2012, eq. 1); the lower, the better.

    Parameters and errors are as in `partition`.  `penalty` is a number > 0, in squared units of the
    rows times weight.
    """
    checked_penalty(penalty)
    return partition(X, labels, sample_weight, **options).objective(penalty)


def objective_score(
    estimator: Any,
    X: Any,
    y: object = None,
    sample_weight: ArrayLike | None = None,
    *,
    penalty: float | None = None,
) -> float:
    """Return minus the objective of rows at the centers of an estimator.

    This is a scorer for `sklearn.model_selection`.

    ``score`` is minus the inertia alone, as in `sklearn.cluster.KMeans`, so it is best if each row
    is a cluster.  This scorer counts the clusters too: ``-(inertia of X + penalty * n_clusters_)``.
    Objectives at different penalties, or of different rows, cannot be compared.  In a search over
    penalties, set one penalty here with `functools.partial`, and fit and score all rows, as with
    the single split below.

    Parameters
    ----------
    estimator : a fitted `DPMeans`, `KernelDPMeans`, `SpectralDPMeans`, `OnlineDPMeans` or `SplitMergeDPMeans`
    X : (n, d) rows, as for its ``score``
    y : ignored
    sample_weight : (n,), optional, weights >= 0
    penalty : number > 0, optional
        The price of a cluster.  The default is the penalty of the estimator; for `SpectralDPMeans`,
        its threshold.  The discount of the estimator, if it has one, lowers it.

    Returns
    -------
    float
        In squared units of the rows times weight; the higher, the better.

    Raises
    ------
    InputError
        The objective of the estimator is not the inertia of new rows plus a price for clusters.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from dask_dpmeans import DPMeans
    >>> from dask_dpmeans.selection.metrics import objective_score
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0], [20.0], [21.0]])
    >>> everything = [(np.arange(6), np.arange(6))]
    >>> grid = {"search": [False, True], "init": ["mean", [[0.0], [9.0]]]}
    >>> found = GridSearchCV(DPMeans(40.0, random_state=0), grid, scoring=objective_score, cv=everything).fit(X)
    >>> float(found.best_score_), found.best_estimator_.n_clusters_
    (-121.5, 3)
    """
    ask_price = getattr(estimator, "_price", None)
    if ask_price is None:
        raise InputError(NO_SCORE.format(type(estimator).__name__))
    price: Price = ask_price(None if penalty is None else checked_penalty(penalty))
    squared: float = -estimator.score(X, sample_weight=sample_weight)
    return -(squared + price.of(int(estimator.n_clusters_)))


# Agreement


class Contingency(NamedTuple):
    """Number of rows for each pair of labels."""

    table: csr_array
    """(classes, clusters) int64, sparse: number of rows for each pair."""
    classes: Int64Array
    """(classes,), true labels, rising."""
    clusters: Int64Array
    """(clusters,), predicted labels, rising."""

    def __repr__(self) -> str:
        return short_repr(self)


class Agreement(NamedTuple):
    """Agreement of two labelings of the same rows; each measure is 1 for the same clusters."""

    adjusted_rand: float
    """Adjusted Rand index (Hubert & Arabie 1985); about 0 for random labels."""
    normalized_mutual_information: float
    """Mutual information over the arithmetic mean of the entropies, as in Kulis & Jordan 2012,
    section 6.1."""
    homogeneity: float
    """1 if each cluster holds one class only (Rosenberg & Hirschberg 2007)."""
    completeness: float
    """1 if each class lies in one cluster."""
    v_measure: float
    """Harmonic mean of homogeneity and completeness."""


def contingency(
    labels_true: ArrayLike | AnyPlace, labels_pred: ArrayLike | AnyPlace, **where: Unpack[Where]
) -> Contingency:
    """Count the rows for each pair of labels, block by block.

    Parameters
    ----------
    labels_true, labels_pred : (n,) integers
        NumPy, Dask or Zarr arrays with any chunks, or paths.  Labels are between -2**53 and 2**53;
        -1 is a label like any other.
    **where : client, threads, memory_limit, as for `dask_dpmeans.fit`

    Returns
    -------
    Contingency

    Raises
    ------
    InputError
        Labels are not integers, or the two arrays differ in length.
    """
    return _table(_count_pairs(labels_true, labels_pred, where))


def agreement(
    labels_true: ArrayLike | AnyPlace, labels_pred: ArrayLike | AnyPlace, **where: Unpack[Where]
) -> Agreement:
    """Return all measures of the agreement of two labelings, in two passes over the labels.

    Parameters and errors are as in `contingency`.  The values equal the functions of scikit-learn
    with the same names, which need the labels in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.metrics import agreement
    >>> found = agreement(np.array([0, 0, 1, 1]), np.array([7, 7, 3, 4]))
    >>> round(found.adjusted_rand, 3), round(found.completeness, 3)
    (0.571, 0.667)
    """
    return agreement_of(_count_pairs(labels_true, labels_pred, where))


def agreement_of(counted: LabelPairs) -> Agreement:
    """Return all measures of the agreement of two labelings, from the rows of each pair of labels.

    Values are as in `agreement`.
    """
    table = _table(counted).table
    information = float(scikit_learn.mutual_info_score(None, None, contingency=table))
    class_entropy, cluster_entropy = (_entropy(table.sum(axis=axis)) for axis in (1, 0))
    homogeneity = _ratio(information, class_entropy)
    completeness = _ratio(information, cluster_entropy)
    normalized = 0.0
    if table.shape == (1, 1):
        normalized = 1.0
    elif information > np.finfo(np.float64).eps:
        normalized = information / ((class_entropy + cluster_entropy) / 2)
    v_measure = 0.0
    if homogeneity + completeness:
        v_measure = 2 * homogeneity * completeness / (homogeneity + completeness)
    return Agreement(counted.adjusted_rand, normalized, homogeneity, completeness, v_measure)


def adjusted_rand_score(
    labels_true: ArrayLike | AnyPlace, labels_pred: ArrayLike | AnyPlace, **where: Unpack[Where]
) -> float:
    """Return the adjusted Rand index of two labelings (Hubert & Arabie 1985).

    Parameters are those in `contingency`.
    """
    return _count_pairs(labels_true, labels_pred, where).adjusted_rand


def normalized_mutual_info_score(
    labels_true: ArrayLike | AnyPlace, labels_pred: ArrayLike | AnyPlace, **where: Unpack[Where]
) -> float:
    """Return mutual information over the mean entropy of two labelings.

    Parameters are those in `contingency`.
    """
    return agreement(labels_true, labels_pred, **where).normalized_mutual_information


def v_measure_score(
    labels_true: ArrayLike | AnyPlace, labels_pred: ArrayLike | AnyPlace, **where: Unpack[Where]
) -> float:
    """Return the harmonic mean of homogeneity and completeness; parameters as in `contingency`."""
    return agreement(labels_true, labels_pred, **where).v_measure


def _count_pairs(
    labels_true: ArrayLike | AnyPlace, labels_pred: ArrayLike | AnyPlace, where: Where
) -> LabelPairs:
    pairs = label_pairs(labels_true, labels_pred)
    return as_source(pairs, **where).fold(LabelPairCounts(), name="contingency")


def _table(counted: LabelPairs) -> Contingency:
    classes, of_classes = rank_numbers(counted.first)
    clusters, of_clusters = rank_numbers(counted.second)
    shape = len(classes), len(clusters)
    return Contingency(
        csr_array((counted.counts, (of_classes, of_clusters)), shape=shape), classes, clusters
    )


def _entropy(counts: Float64Array) -> float:
    """Return the entropy, in nats, of a labeling with these numbers of rows."""
    shares = counts / counts.sum()
    return max(0.0, -fsum(shares * np.log(shares)))


def _ratio(information: float, entropy: float) -> float:
    """Return the share of an entropy that the other labeling explains; 1 for a single label."""
    return information / entropy if entropy else 1.0
