"""What labels are worth, whoever gave them: their objective, what clusters they make, how well two labelings agree."""

from dataclasses import dataclass
from math import fsum
from typing import Any, NamedTuple, Unpack

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import mutual_info_score

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import metric_of
from dask_dpmeans.kernels.group_sums import GroupSums
from dask_dpmeans.kernels.keyed_sums import rank_numbers
from dask_dpmeans.kernels.labelings import ClusterSpreads, LabelPairCounts, LabelPairs
from dask_dpmeans.methods.dpmeans.batch import checked_penalty
from dask_dpmeans.sources import Reading, Where, as_source, label_pairs
from dask_dpmeans.text import brief

# Clusters


class Options(Reading, total=False):
    """What else `inertia` and `objective` may be told, as `partition` has it."""

    metric: str


@dataclass(frozen=True, repr=False)
class Partition:
    """The k clusters that labels make of rows; a cluster without weight is none."""

    labels: Int64Array
    """(k,), the label of each, ascending."""
    sizes: Int64Array
    """(k,), rows of any weight."""
    weights: Float64Array
    """(k,), sums of the rows' weights."""
    centers: Float64Array
    """(k, d), means of the rows."""
    inertias: Float64Array
    """(k,), sums of weight times squared distance to the center, in squared units of the rows times weight."""
    radii: Float64Array
    """(k,), the largest distance of a row of positive weight to the center, in units of the rows."""
    deviations: Float64Array
    """(k,), the root of the mean squared distance, by weight, in units of the rows."""

    def __repr__(self) -> str:
        return brief(self)

    @property
    def inertia(self) -> float:
        """The squared error of all clusters."""
        return fsum(self.inertias)

    def objective(self, penalty: float) -> float:
        """Inertia + penalty * k (Kulis & Jordan 2012, eq. 1)."""
        return self.inertia + checked_penalty(penalty) * len(self.labels)


def partition(
    X: Any, labels: Any, sample_weight: Any = None, *, metric: str = "euclidean", **where: Unpack[Reading]
) -> Partition:
    """The clusters that labels make of rows: sizes, means, squared errors and radii.

    The squared error is summed from differences of rows and means, never from moments, which cancel.  Three passes over
    the rows; the answer is the same, to the byte, for any chunking, threads and workers.

    Parameters
    ----------
    X : (n, d) rows as `DPMeans.fit` takes them, or the path or URL of a Zarr array or ``.npy`` file
    labels : (n,) integers from 0 to below 2**24, NumPy, Dask or Zarr, in any chunks, or a path
        One a row.  Numbers need not be consecutive.
    sample_weight : (n,), optional
        Weights >= 0.
    metric : "euclidean" or "cosine"
        As `DPMeans` has it: with "cosine" rows and means have unit length.
    **where : columns, scale, client, threads, memory_limit, as `dask_dpmeans.fit` takes them

    Returns
    -------
    Partition

    Raises
    ------
    InputError
        Labels that are no integers, not one a row, or negative (such as the -1 of rows that are in no cluster: leave
        these rows out); rows that `DPMeans.fit` refuses.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.metrics import partition
    >>> found = partition(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 5]))
    >>> found.labels.tolist(), found.sizes.tolist(), found.radii.tolist(), found.objective(penalty=4.0)
    ([0, 5], [2, 1], [1.0, 0.0], 10.0)
    """
    geometry = metric_of(metric)
    if labels is None:
        raise InputError("labels is None: pass one integer a row")
    source = as_source(X, sample_weight, groups=labels, groups_are="labels", features=geometry.features, **where)
    found = source.fold(GroupSums(), name="groups")
    alive = found.moments.weights > 0
    numbers, moments = found.uses[alive], found.moments.keep(alive)
    centers = geometry.means(moments.means, np.eye(1, source.n_features).repeat(len(numbers), axis=0))
    reaches = source.fold(ClusterSpreads(numbers, centers), name="reaches")
    return Partition(
        numbers,
        moments.counts,
        moments.weights,
        centers,
        reaches.inertias,
        np.sqrt(reaches.largest),
        np.sqrt(reaches.inertias / moments.weights),
    )


def inertia(X: Any, labels: Any, sample_weight: Any = None, **options: Unpack[Options]) -> float:
    """The weighted sum of squared distances of rows to the means of their clusters, of any labels.

    Parameters and errors as `partition` has them.  It is at most the `inertia_` of a fit with these labels, whose
    centers are those that the rows were assigned to.
    """
    return partition(X, labels, sample_weight, **options).inertia


def objective(X: Any, labels: Any, penalty: float, sample_weight: Any = None, **options: Unpack[Options]) -> float:
    """Inertia + penalty * k of any labels (Kulis & Jordan 2012, eq. 1): of two labelings, the lower is better.

    Parameters and errors as `partition` has them; `penalty` is a number > 0, in squared units of the rows times weight.
    """
    checked_penalty(penalty)
    return partition(X, labels, sample_weight, **options).objective(penalty)


def objective_score(
    estimator: Any, X: Any, y: Any = None, sample_weight: Any = None, *, penalty: float | None = None
) -> float:
    """Minus the objective of rows at a fitted estimator's centers: a scorer for `sklearn.model_selection`.

    ``score`` is minus the inertia alone, as in `sklearn.cluster.KMeans`, so it is best if each row is a cluster.  This
    counts the clusters too: ``-(inertia of X + penalty * n_clusters_)``.  Objectives at different penalties, or of
    different rows, cannot be compared: in a search over penalties give one penalty here, by `functools.partial`, and
    fit and score all rows, as the one split below does.

    Parameters
    ----------
    estimator : a fitted `DPMeans`, `KernelDPMeans`, `SpectralDPMeans`, `OnlineDPMeans` or `SplitMergeDPMeans`
    X : (n, d) rows, as its ``score`` takes them
    y : ignored
    sample_weight : (n,), optional
        Weights >= 0.
    penalty : number > 0, optional
        The price of a cluster, by default that of the estimator: of `SpectralDPMeans` the threshold.

    Returns
    -------
    float
        In squared units of the rows times weight; the greater, the better.

    Raises
    ------
    InputError
        Where the objective is no sum of an inertia of new rows and a price of clusters.

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
    if not hasattr(type(estimator), "method") or hasattr(type(estimator), "cut_") or not hasattr(estimator, "score"):
        raise InputError(
            f"estimator must be one of this package with centers and a score, got {type(estimator).__name__}"
        )
    own = getattr(estimator.method(), "penalty", None)
    if own is None:
        raise InputError(
            "estimator must price clusters alone: the objective of HDPMeans has a price for those of each data set too,"
            " which a score does not know"
        )
    price = own if penalty is None else checked_penalty(penalty)
    squared: float = -estimator.score(X, sample_weight=sample_weight)
    return -(squared + price * int(estimator.n_clusters_))


# Agreement


class Contingency(NamedTuple):
    """How many rows have which two labels."""

    table: csr_array
    """(classes, clusters) int64, rows of each pair; sparse."""
    classes: Int64Array
    """(classes,), the true labels, ascending."""
    clusters: Int64Array
    """(clusters,), the predicted labels, ascending."""

    def __repr__(self) -> str:
        return brief(self)


class Agreement(NamedTuple):
    """How well two labelings of the same rows agree; 1 where they make the same clusters."""

    adjusted_rand: float
    """The adjusted Rand index (Hubert & Arabie 1985); about 0 for labels at random."""
    normalized_mutual_information: float
    """Over the arithmetic mean of the entropies, as Kulis & Jordan 2012 (section 6.1) measure clusterings."""
    homogeneity: float
    """1 where each cluster holds one class alone (Rosenberg & Hirschberg 2007)."""
    completeness: float
    """1 where each class lies in one cluster."""
    v_measure: float
    """The harmonic mean of the two."""


def contingency(labels_true: Any, labels_pred: Any, **where: Unpack[Where]) -> Contingency:
    """How many rows have which two labels, counted block by block.

    Parameters
    ----------
    labels_true, labels_pred : (n,) integers, NumPy, Dask or Zarr, in any chunks, or a path
        Any integers between -2**53 and 2**53; -1 is a label as any other.
    **where : client, threads, memory_limit, as `dask_dpmeans.fit` takes them

    Returns
    -------
    Contingency

    Raises
    ------
    InputError
        Labels that are no integers, or not of the same rows.
    """
    return _table(_counted(labels_true, labels_pred, where))


def agreement(labels_true: Any, labels_pred: Any, **where: Unpack[Where]) -> Agreement:
    """How well two labelings of the same rows agree, by all measures at once, in two passes over the labels.

    Parameters and errors as `contingency` has them.  The values are those of scikit-learn's functions of the same
    names, which take labels in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans.selection.metrics import agreement
    >>> found = agreement(np.array([0, 0, 1, 1]), np.array([7, 7, 3, 4]))
    >>> round(found.adjusted_rand, 3), round(found.completeness, 3)
    (0.571, 0.667)
    """
    counted = _counted(labels_true, labels_pred, where)
    table = _table(counted).table
    information = float(mutual_info_score(None, None, contingency=table))
    of_classes, of_clusters = (_entropy(table.sum(axis=axis)) for axis in (1, 0))
    homogeneity = information / of_classes if of_classes else 1.0
    completeness = information / of_clusters if of_clusters else 1.0
    both = homogeneity + completeness
    mean = (of_classes + of_clusters) / 2
    return Agreement(
        counted.adjusted_rand,
        1.0 if table.shape == (1, 1) else information / mean if information > np.finfo(np.float64).eps else 0.0,
        homogeneity,
        completeness,
        2 * homogeneity * completeness / both if both else 0.0,
    )


def adjusted_rand_score(labels_true: Any, labels_pred: Any, **where: Unpack[Where]) -> float:
    """The adjusted Rand index of two labelings (Hubert & Arabie 1985); parameters as `contingency` has them."""
    return _counted(labels_true, labels_pred, where).adjusted_rand


def normalized_mutual_info_score(labels_true: Any, labels_pred: Any, **where: Unpack[Where]) -> float:
    """Mutual information over the mean entropy of two labelings; parameters as `contingency` has them."""
    return agreement(labels_true, labels_pred, **where).normalized_mutual_information


def v_measure_score(labels_true: Any, labels_pred: Any, **where: Unpack[Where]) -> float:
    """The harmonic mean of homogeneity and completeness (Rosenberg & Hirschberg 2007); parameters as `contingency`."""
    return agreement(labels_true, labels_pred, **where).v_measure


def _counted(labels_true: Any, labels_pred: Any, where: Where) -> LabelPairs:
    pairs = label_pairs(labels_true, labels_pred, ("labels_true", "labels_pred"))
    return as_source(pairs, **where).fold(LabelPairCounts(), name="contingency")


def _table(counted: LabelPairs) -> Contingency:
    (classes, of_classes), (clusters, of_clusters) = rank_numbers(counted.first), rank_numbers(counted.second)
    shape = len(classes), len(clusters)
    return Contingency(csr_array((counted.counts, (of_classes, of_clusters)), shape=shape), classes, clusters)


def _entropy(counts: Float64Array) -> float:
    """In nats, of a labeling that gives so many rows to each label."""
    shares = counts / counts.sum()
    return max(0.0, -fsum(shares * np.log(shares)))
