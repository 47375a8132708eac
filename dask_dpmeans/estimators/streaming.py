"""scikit-learn's face of the methods that read the rows once, in order."""

import math
from typing import Any, Protocol, Self, TypeVar

from sklearn.base import BaseEstimator

from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import CentersMixin, checked_rows
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.methods.streaming import online, split_merge
from dask_dpmeans.sources import as_source

AnyState = TypeVar("AnyState", bound=Any)


class OnePass(Protocol[AnyState]):
    """A method that takes rows in order, once: its parameters, and what a state says."""

    @property
    def penalty(self) -> float:
        """The price of a cluster."""
        ...

    def init(self, n_features: int) -> AnyState:
        """The state before the first row."""
        ...

    def take(self, state: AnyState, block: Block) -> AnyState:
        """The state after a block of rows."""
        ...

    def clusters(self, state: AnyState) -> Any:
        """The `centers`, (k, d), and `weights`, (k,), that a state answers with."""
        ...


class _Stream(CentersMixin, BaseEstimator):
    """What the two have in common."""

    penalty: float
    feature_columns_: list[int] | None
    feature_scale_: Float64Array | None

    def method(self) -> OnePass[Any]:
        """The parameters, checked, as the library's core takes them."""
        raise NotImplementedError

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows of X, in their order, and label them.

        Parameters
        ----------
        X : (n, d) NumPy array, Dask array or DataFrame, ``zarr.Array``
            Read block by block; what does not fit in memory is not held there.
        y : ignored

        Returns
        -------
        self
        """
        method, task = self.method(), Tasks.of(self, X, y)
        source = as_source(checked_rows(self, X, reset=True))
        state = source.carry(method.take, method.init(source.n_features), "stream")
        found = method.clusters(state)
        inertia = batch.inertia_of(source, found.centers)
        objective = inertia + LinearPrice(method.penalty).of(len(found.centers))
        if not math.isfinite(objective):
            raise InputError(f"the objective overflows float64 at penalty={method.penalty:g}: divide the data first")
        self._set_state(state, found)
        self.inertia_, self.objective_ = inertia, objective
        self.labels_ = self.predict(X)
        task.end()
        return self

    @with_callbacks
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on with the rows of X, after those seen before: any batches give what one `fit` of all rows gives.

        It takes back `labels_`, `inertia_` and `objective_`: the rows before are not there to be measured against
        centers that have moved.

        Parameters
        ----------
        X : (n, d), as `fit` takes it
        y : ignored

        Returns
        -------
        self
            Its clusters are as they were, where an error is raised.
        """
        method, task = self.method(), Tasks.of(self, X, y)
        first = not hasattr(self, "state_")
        rows = checked_rows(self, X, reset=first)
        source = as_source(rows, centers=None if first else self.cluster_centers_)
        before = method.init(source.n_features) if first else self.state_
        state = source.carry(method.take, before, "stream")
        self._set_state(state, method.clusters(state))
        for name in ("labels_", "inertia_", "objective_"):
            self.__dict__.pop(name, None)
        task.end()
        return self

    def _set_state(self, state: Any, found: Any) -> None:
        self.state_ = state
        self.cluster_centers_: Float64Array = found.centers
        self.cluster_weights_: Float64Array = found.weights
        self.n_clusters_ = len(found.centers)
        self.feature_columns_, self.feature_scale_ = None, None


class OnlineDPMeans(_Stream):
    """Online DP-means (Odashima et al. 2016, Algorithm 2): each row once, in order.

    A row farther than the square root of the penalty from every center opens a cluster; any other moves the nearest
    center, which is the mean of the rows that it has taken.  The result follows the order of the rows, and is the same,
    to the byte, for any chunking, batches, threads and workers.  The pass over the rows is serial by nature, wherever
    they are; labels, inertia and predictions are not.  `DPMeans` goes over the rows until nothing changes, and usually
    ends at a lower objective.

    Parameters
    ----------
    penalty : float
        The price of a cluster, in squared units of the rows (lambda squared of the paper).
    max_clusters : int, optional
        `TooManyClustersError` where the penalty opens more.

    Attributes
    ----------
    cluster_centers_ : (k, d) float64
        In order of opening.
    cluster_weights_ : (k,) float64
        Rows that each center is the mean of.  Those of `labels_`, which come after the pass, may be others.
    n_clusters_ : int
    labels_ : (n,) int32
        The nearest center of each row, the lowest number among equals; lazy where the input is.  After `fit` alone.
    inertia_ : float
        Sum of squared distances of the rows to their nearest centers.  After `fit` alone.
    objective_ : float
        ``inertia_ + penalty * n_clusters_``.  After `fit` alone.
    state_ : dask_dpmeans.methods.streaming.online.State
        What `partial_fit` goes on from.
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

    def __init__(self, penalty: float, *, max_clusters: int | None = None) -> None:
        self.penalty = penalty
        self.max_clusters = max_clusters

    def method(self) -> online.Method:
        """The parameters, checked, as the library's core takes them."""
        return online.Method(self.penalty, self.max_clusters)


class SplitMergeDPMeans(_Stream):
    """Split-merge DP-means (Odashima et al. 2016, Algorithms 3 and 4): each row once, in order, then a merge.

    Each cluster remembers the weight, mean and range of its rows, and splits in its widest column where two halves of
    a uniform cluster of that weight and range would cost less: clusters grow in number with the rows, as the objective
    wants it.  Algorithm 3 is printed with a sign that cannot be meant; it is read so that among equally near clusters
    the first wins, and a row at exactly the radius opens a cluster.  At the end those are merged, the cheapest pair
    first, whose merge lowers the objective.  The pass over the rows is serial by nature, wherever they are; the merge
    needs no rows; labels, inertia and predictions are distributed.  The result follows the order of the rows, and is
    the same, to the byte, for any chunking, batches, threads and workers.

    Parameters
    ----------
    penalty : float
        The price of a cluster, in squared units of the rows (lambda squared of the paper).
    merge : bool, default True
        Whether Algorithm 4 follows; without, this is split DP-means.
    max_clusters : int, optional
        `TooManyClustersError` where the pass makes more, before the merge.

    Attributes
    ----------
    cluster_centers_ : (k, d) float64
    cluster_weights_ : (k,) float64
        What the pass holds for the rows of each cluster; a split divides it by range, so that it need not be whole.
        Those of `labels_`, which come after the pass, are others.
    n_clusters_ : int
    labels_ : (n,) int32
        The nearest center of each row, the lowest number among equals; lazy where the input is.  After `fit` alone.
    inertia_ : float
        Sum of squared distances of the rows to their nearest centers.  After `fit` alone.
    objective_ : float
        ``inertia_ + penalty * n_clusters_``.  After `fit` alone.
    state_ : dask_dpmeans.methods.streaming.split_merge.State
        The clusters before the merge: what `partial_fit` goes on from.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import OnlineDPMeans, SplitMergeDPMeans
    >>> X = np.tile([[-1.0, 0.0], [1.0, 0.0]], (1000, 1))  # figure 2 of the paper: all within one radius
    >>> [round(model(penalty=100.0).fit(X).objective_) for model in (OnlineDPMeans, SplitMergeDPMeans)]
    [2100, 220]
    """

    def __init__(self, penalty: float, *, merge: bool = True, max_clusters: int | None = None) -> None:
        self.penalty = penalty
        self.merge = merge
        self.max_clusters = max_clusters

    def method(self) -> split_merge.Method:
        """The parameters, checked, as the library's core takes them."""
        return split_merge.Method(self.penalty, self.merge, self.max_clusters)
