"""The scikit-learn estimators of methods that read the rows once, in order."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from sklearn.base import BaseEstimator

from dask_dpmeans import sources
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import NearestCenterMixin
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.estimators.checked_rows import names_in
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.row_options import without_row_options
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.methods.streaming import Online, Parameters, SplitMerge, State

if TYPE_CHECKING:
    from dask_dpmeans.sources import Dimensions


class _Stream(NearestCenterMixin, BaseEstimator):
    """The common part of the two estimators."""

    penalty: float

    def description(self) -> Description:
        return replace(super().description(), nearest_centers=True)

    def method(self) -> Parameters[Any]:
        """Return the checked parameters as a method of one pass."""
        raise NotImplementedError

    @with_callbacks
    def fit(
        self,
        X: object,
        y: object = None,
        *,
        samples: "Dimensions" = None,
        features: "Dimensions" = None,
    ) -> Self:
        """Cluster the rows of X, in their order, and label them.

        Parameters
        ----------
        X : (n, d) NumPy array, Dask array or DataFrame, ``zarr.Array``
            Read block by block, so it may be larger than memory.
        y : ignored
        samples, features : str or sequence of str, optional
            Dimensions of a cube of xarray, see `DPMeans.fit`.

        Returns
        -------
        self
        """
        method, task = self.method(), Tasks.of(self, X, y)
        given = self._rows_to_fit(X, samples, features)
        rows = given.checked(self, reset=True)
        source = sources.as_source(rows, known_names=names_in(self))
        state = source.carry(method.take, method.init(source.n_features), "stream")
        clusters = method.clusters(state)
        inertia = batch.inertia_of(source, clusters.centers)
        objective = inertia + LinearPrice(method.penalty).of(len(clusters.centers))
        if not math.isfinite(objective):
            found = f"the objective overflows float64 at penalty={method.penalty:g}"
            raise InputError(f"{found}: divide the data first")
        self._set_state(state, clusters)
        self.inertia_, self.objective_ = inertia, objective
        self.labels_ = self.predict(X)
        task.end()
        return self

    @with_callbacks
    def partial_fit(
        self,
        X: object,
        y: object = None,
        *,
        samples: "Dimensions" = None,
        features: "Dimensions" = None,
    ) -> Self:
        """Go on with the rows of X; any batches give the same as one `fit` of all rows.

        This removes `labels_`, `inertia_` and `objective_`: earlier rows are not there to be
        compared with centers that have moved.  If an error is raised, the clusters stay as they
        were.

        Parameters
        ----------
        X : (n, d), as for `fit`
        y : ignored
        samples, features : as for `fit`; later cubes have the dimensions of the first

        Returns
        -------
        self
        """
        method, task = self.method(), Tasks.of(self, X, y)
        first = not hasattr(self, "state_")
        if first or samples is not None or features is not None:
            given = self._rows_to_fit(X, samples, features)
        else:
            given = self._rows_given(X)
        rows = given.checked(self, reset=first)
        source = sources.as_source(
            rows, known_names=names_in(self), centers=getattr(self, "cluster_centers_", None)
        )
        before = method.init(source.n_features) if first else self.state_
        state = source.carry(method.take, before, "stream")
        self._set_state(state, method.clusters(state))
        for name in ("labels_", "inertia_", "objective_"):
            self.__dict__.pop(name, None)
        task.end()
        return self

    def _set_state(self, state: Any, clusters: State) -> None:
        self.state_ = state
        self.cluster_centers_ = clusters.centers
        self.cluster_weights_ = clusters.weights
        self.n_clusters_ = len(clusters.centers)
        self.feature_columns_, self.feature_scale_ = None, None


class OnlineDPMeans(_Stream):
    """Online DP-means (Odashima et al. 2016, Algorithm 2): each row once, in order.

    A row farther than the square root of the penalty from every center opens a cluster.  Any other
    row moves the nearest center, which is the mean of its rows so far.  The result depends on the
    order of the rows.  It is the same, to the byte, for any chunking, batches, threads and workers.
    The pass over the rows is serial; labels, inertia and predictions are not.  `DPMeans` goes over
    the rows until nothing changes, and usually reaches a lower objective.

    Parameters
    ----------
    penalty : float
        The price of a cluster, in squared units of the rows (lambda squared of the paper).
    max_clusters : int, optional
        More clusters are a `TooManyClustersError`.

    Attributes
    ----------
    cluster_centers_ : (k, d) float64
        Centers, in the order in which they opened.
    cluster_weights_ : (k,) float64
        Number of rows in the mean of each center.  `labels_`, made after the pass, may differ.
    n_clusters_ : int
    labels_ : (n,) int32
        The nearest center of each row, the lowest number among equals; lazy if the input is.
        After `fit` only.
    inertia_ : float
        Sum of squared distances of the rows to their nearest centers.  After `fit` only.
    objective_ : float
        ``inertia_ + penalty * n_clusters_``.  After `fit` only.
    state_ : dask_dpmeans.methods.streaming.State
        The state from which `partial_fit` goes on.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import OnlineDPMeans
    >>> model = OnlineDPMeans(penalty=4.0)
    >>> for batch in ([[0.0, 0.0], [9.0, 0.0]], [[0.0, 1.0], [9.0, 1.0]]):
    ...     model = model.partial_fit(np.array(batch))
    >>> model.cluster_centers_.tolist()
    [[0.0, 0.5], [9.0, 0.5]]
    """

    @without_row_options
    def __init__(self, penalty: float, *, max_clusters: int | None = None) -> None:
        self.penalty = penalty
        self.max_clusters = max_clusters

    def method(self) -> Online:
        return Online(self.penalty, self.max_clusters)


class SplitMergeDPMeans(_Stream):
    """Split-merge DP-means (Odashima et al. 2016, Algorithms 3 and 4): one pass, then a merge.

    Each cluster stores the weight, mean and range of its rows.  It splits in its widest column if
    two halves of a uniform cluster of this weight and range would cost less.  So the number of
    clusters grows with the rows, as the objective asks.  At the end pairs are merged, the cheapest
    first, as long as a merge lowers the objective.  Algorithm 3 is printed with a wrong sign; here
    the first of equally near clusters wins, and a row at exactly the radius opens a cluster.

    The result depends on the order of the rows.  It is the same, to the byte, for any chunking,
    batches, threads and workers.  The pass over the rows is serial, and the merge needs no rows;
    labels, inertia and predictions are distributed.

    Parameters
    ----------
    penalty : float
        The price of a cluster, in squared units of the rows (lambda squared of the paper).
    merge : bool, default True
        Run Algorithm 4 at the end; without, this is split DP-means.
    max_clusters : int, optional
        More clusters in the pass, before the merge, are a `TooManyClustersError`.

    Attributes
    ----------
    cluster_centers_ : (k, d) float64
    cluster_weights_ : (k,) float64
        Weight of each cluster in the pass.  A split divides it by range, so it may be fractional.
        `labels_`, made after the pass, differ.
    state_ : dask_dpmeans.methods.streaming.SplitState
        The clusters before the merge, from which `partial_fit` goes on.
    n_clusters_, labels_, inertia_, objective_, n_features_in_
        See `OnlineDPMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import OnlineDPMeans, SplitMergeDPMeans
    >>> X = np.tile([[-1.0, 0.0], [1.0, 0.0]], (1000, 1))  # figure 2: all within one radius
    >>> models = OnlineDPMeans(penalty=100.0), SplitMergeDPMeans(penalty=100.0)
    >>> [round(model.fit(X).objective_) for model in models]
    [2100, 220]
    """

    @without_row_options
    def __init__(
        self, penalty: float, *, merge: bool = True, max_clusters: int | None = None
    ) -> None:
        self.penalty = penalty
        self.merge = merge
        self.max_clusters = max_clusters

    def method(self) -> SplitMerge:
        return SplitMerge(self.penalty, self.max_clusters, self.merge)
