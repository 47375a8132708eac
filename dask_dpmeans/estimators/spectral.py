"""scikit-learn's face of the spectral relaxation: DP-means on eigenvectors."""

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks
from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import CentersMixin, checked_rows, seed_of
from dask_dpmeans.estimators.callbacks import Tasks, with_callbacks
from dask_dpmeans.estimators.description import Description, radius_or_price
from dask_dpmeans.estimators.embedding import Eigenvectors
from dask_dpmeans.estimators.spec import CENTERS, MethodSpec
from dask_dpmeans.estimators.transform import Learned
from dask_dpmeans.kernels.assign import Predictions
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.features import Projection
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.spectral.relaxation import Spectrum, relaxed_objective
from dask_dpmeans.sources import is_lazy, lazy_rows
from dask_dpmeans.storage.array_spec import ArraySpec
from dask_dpmeans.storage.run_store import Result
from dask_dpmeans.text import counted


def _inductive(model: "SpectralDPMeans") -> bool:
    if not model.spectrum().inductive:
        raise AttributeError(
            f"the clusters of affinity={model.affinity!r} are of the rows that were fitted, whose labels are in "
            "labels_; new rows need affinity='linear' or 'rbf'"
        )
    return True


class _OfNewRows:
    """What rows that were not fitted are asked, where the affinity has an answer.

    These stand in a class of their own: what scikit-learn wraps for `set_output`, the `transform` of each class that
    has it, would be there for any affinity.
    """

    @available_if(_inductive)
    def predict(self: Any, X: Any) -> Any:
        """The number of the nearest center of each row, (n,) int32; lazy where X is.

        With "rbf" the eigenvectors reach rows that were not fitted by Nystroem's formula.
        """
        return CentersMixin.predict(self, X)

    @available_if(_inductive)
    def transform(self: Any, X: Any) -> Any:
        """The distance of each row of Y to each center, (n, k) float64; lazy where X is."""
        return CentersMixin.transform(self, X)

    @available_if(_inductive)
    def fit_transform(self: Any, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and give the distance of each row of Y to each center, (n, k) float64; lazy where X is."""
        return CentersMixin.fit_transform(self, X, y, **fit_params)

    @available_if(_inductive)
    def score(self: Any, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Minus the inertia of the rows of Y."""
        return CentersMixin.score(self, X, y, sample_weight)


class SpectralDPMeans(_OfNewRows, CentersMixin, BaseEstimator):
    """Spectral clustering whose number of eigenvectors and of clusters follow from penalties.

    The relaxation of the DP-means objective by Kulis & Jordan 2012 (section 5.1): of the affinity matrix K, all
    eigenvectors whose eigenvalues are greater than the penalty are columns of Y; its rows, at unit length, are
    clustered by DP-means with a threshold of its own.  The result is the same, to the byte, for any chunking, threads
    and workers.

    Parameters
    ----------
    penalty : float
        What an eigenvalue must exceed: lambda of the paper, in units of K.  With "linear" it is the penalty of
        `DPMeans`, whose objective K relaxes.
    affinity : {"linear", "rbf", "nearest_neighbors", "precomputed"}, default "linear"
        "linear": K = X X', of rows as they are, not centered; read in parts, so that it takes any number of rows.
        "rbf": K_ij = exp(-gamma * squared distance), as it is for up to `n_landmarks` rows.  Of more, so many rows,
        drawn from the seed, stand for all (Nystroem; Williams & Seeger 2001), and K is K(X, L) K(L, L)^-1 K(L, X).
        "nearest_neighbors": K = D^-1/2 A D^-1/2 of the graph of neighbors, A = (G + G') / 2, where row i of G has 1 at
        its `n_neighbors` nearest rows, itself included, and D holds the row sums of A.  Its eigenvalues lie in [-1, 1];
        1 is one for each connected component, those of nearly separate parts lie little below, and 1 - penalty is how
        little: say .9999.  A large cluster has eigenvalues near 1 of its own; where the penalty keeps these too, it
        is cut up.
        "precomputed": X is K, (n, n), symmetric.
        The last two take all rows into memory, up to 2 GiB of them.
    gamma : float, optional
        Of "rbf"; 1 / columns by default.  `InputError` where it is given and the affinity has no use for it, as for the
        next two.
    n_neighbors : int, default 10
        Of "nearest_neighbors".
    n_landmarks : int, default 1000
        Of "rbf"; drawn from all rows, those of weight 0 too.
    max_components : int, default 256
        `InputError` where more eigenvalues are greater than the penalty.
    threshold : float, default 0.25
        The penalty of DP-means on the rows of Y: ideal clusters stand at squared distances of 2 there.  At 1 nothing
        would open: the mean of k such clusters stands at 1 - 1 / k from each.
    search : bool, default False
        Take the threshold as a price and search, as `DPMeans` does; it is then to be as large as what a cluster saves.
    max_iter, tol, max_clusters
        Of DP-means, as `DPMeans` has them.
    random_state : int, RandomState instance or None, default None
        Drawn once and kept in `random_state_`: for landmarks, Lanczos and the search.

    Attributes
    ----------
    labels_ : (n,) int32
        The cluster of each row; a lazy Dask array where the input is one and rows were not gathered.
    cluster_centers_ : (k, r) float64
        Among the rows of Y.
    n_clusters_ : int
    eigenvalues_ : (r,) float64
        Those greater than the penalty, from the greatest on.
    embedding_ : (n, r) float64
        The rows of Y at unit length, where the affinity is "nearest_neighbors" or "precomputed"; of others `embed`
        makes them.  A row of which the eigenvectors hold nothing (1e-6 of its length) stands at 0, as far from each
        ideal cluster as 1: such rows are a cluster of their own.
    relaxed_objective_ : float
        Sum of eigenvalues - penalty.  No clustering has a greater tr Y'(K - penalty I)Y (theorem 5.2).
    affinity_trace_ : float
        tr K.  Less the relaxed objective it bounds the DP-means objective of every clustering in the space of K from
        below (lemma 5.1), for "linear" `DPMeans.objective_` at the same penalty.  Where landmarks stand for all rows,
        both are of the matrix that stands for K, and bound nothing about K itself.
    inertia_, objective_, history_, n_iter_
        Of DP-means on the rows of Y; the objective is ``inertia_ + threshold * n_clusters_``.
    cluster_weights_, cluster_inertias_, n_passes_, random_state_, n_features_in_
        As `DPMeans` has them.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import SpectralDPMeans
    >>> X = np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    >>> model = SpectralDPMeans(penalty=2.0).fit(X)
    >>> model.labels_.tolist(), model.eigenvalues_.tolist(), model.relaxed_objective_
    ([0, 0, 1, 1], [25.0, 13.0], 34.0)
    """

    def __init__(
        self,
        penalty: float,
        *,
        affinity: str = "linear",
        gamma: float | None = None,
        n_neighbors: int = 10,
        n_landmarks: int = 1000,
        max_components: int = 256,
        threshold: float = 0.25,
        search: bool = False,
        max_iter: int = 300,
        tol: float = 1e-4,
        max_clusters: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.penalty = penalty
        self.affinity = affinity
        self.gamma = gamma
        self.n_neighbors = n_neighbors
        self.n_landmarks = n_landmarks
        self.max_components = max_components
        self.threshold = threshold
        self.search = search
        self.max_iter = max_iter
        self.tol = tol
        self.max_clusters = max_clusters
        self.random_state = random_state

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : (n, d), what `DPMeans.fit` takes; (n, n) where it is precomputed
        y : ignored
        sample_weight : (n,), optional
            Weights >= 0, with "linear" and "rbf": K is W^1/2 K W^1/2 then, so that integer weights equal repeated rows,
            but for the landmarks drawn.

        Returns
        -------
        self
        """
        method: Algorithm[Any] = self.method()
        self.spectrum().check_weights(sample_weight)
        tasks = Tasks.of(self, X, y, sample_weight, most=method.max_iter)
        self.random_state_ = seed_of(self.random_state)
        rows = checked_rows(self, X, reset=True)
        self._fit_rows(rows, method.seeded(self.random_state_), tasks, sample_weight=sample_weight)
        tasks.end()
        return self

    @available_if(_inductive)
    def embed(self, X: Any) -> Any:
        """The rows of Y at unit length, (n, r); lazy where X is."""
        check_is_fitted(self)
        return self._mapped(X, embedded_rows, np.float64, len(self.eigenvalues_))

    def spectrum(self) -> Spectrum:
        """What is asked of the affinity, checked, as the library's core takes it."""
        return Spectrum(
            penalty=self.penalty,
            affinity=self.affinity,
            gamma=self.gamma,
            n_neighbors=self.n_neighbors,
            n_landmarks=self.n_landmarks,
            max_components=self.max_components,
        )

    def _recipe(self) -> Eigenvectors:
        return Eigenvectors(self.spectrum())

    def description(self) -> Description:
        """Return how texts and pictures speak of this estimator, fitted or not."""
        read = radius_or_price(self.threshold, "euclidean", search=self.search)
        words = replace(
            super().description(),
            penalty_name="threshold",
            radius=None if self.search else math.sqrt(self.threshold),
            objective_parts="inertia {inertia:.9g} + threshold x clusters",
            units="along eigenvectors",
            center_columns="eigenvector",
            learned_rows=True,
            settings={"metric": "euclidean", "threshold": f"{self.threshold:g}{read}"},
        )
        if not hasattr(self, "eigenvalues_"):
            return words
        values, relaxed = self.eigenvalues_, f"{self.relaxed_objective_:.9g}"
        range_ = f"{values[0]:.6g} to {values[-1]:.6g}"
        above = f"{counted(len(values), 'eigenvalue')} above {self.penalty:g}"
        settings = {
            "affinity": f"{self.affinity}, {above}: {range_}; their eigenvectors are clustered",
            "relaxed": f"{relaxed} at most is tr Y'(K - {self.penalty:g} I)Y of any clustering; "
            f"tr K = {self.affinity_trace_:.9g}",
        }
        return replace(
            words,
            stored_rows=getattr(self, "embedding_", None),
            settings={**settings, **words.settings},
            facts={"eigenvalues above the penalty": f"{len(values):,}: {range_}", "relaxed objective": relaxed},
            json={"eigenvalues": values.tolist(), "relaxed_objective": self.relaxed_objective_},
        )

    def method(self) -> batch.Method | search.Method:
        """What is asked of DP-means on the rows of Y."""
        checks.switch("search", self.search)
        return (search.Method if self.search else batch.Method)(
            penalty=checks.number("threshold", self.threshold),
            max_iter=self.max_iter,
            tol=self.tol,
            max_clusters=self.max_clusters,
        )

    def _learned(self, rows: Any, method: Algorithm[Any], groups: Any, sample_weight: Any) -> Learned:
        if self.affinity == "precomputed" and not is_lazy(rows):
            return self._recipe().learn_matrix(rows.astype(np.float64), self.random_state_)
        return super()._learned(rows, method, groups, sample_weight)

    def _note(self, learned: Learned, *end: Any) -> None:
        super()._note(learned, *end)
        self._set_embedding(learned.arrays["eigenvalues"][0], learned.figures["affinity_trace"], learned.rows)

    def _restore(self, result: Result) -> None:
        super()._restore(result)
        values, rows = result.arrays["eigenvalues"], None
        if "projection" not in result.arrays:
            rows = lazy_rows(result.open_rows("embedding", len(values)))
        self._set_embedding(values, result.manifest.figures["affinity_trace"], rows)

    def _set_embedding(self, eigenvalues: Float64Array, trace: float, rows: Any) -> None:
        self.eigenvalues_ = eigenvalues
        self.relaxed_objective_ = relaxed_objective(eigenvalues, self.spectrum().penalty)
        self.affinity_trace_ = trace
        self.__dict__.pop("embedding_", None)  # of an earlier fit
        if rows is not None:
            self.embedding_ = rows

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.affinity == "precomputed"
        return tags


def embedded_rows(block: Block) -> tuple[Float64Array]:
    """The kernel of a map: the rows that kernels see."""
    return (block.rows.astype(np.float64),)


def _predictor(result: Result) -> Kernel:
    if "projection" not in result.arrays:
        raise InputError(
            "the clusters of the run are of the rows that were fitted, whose labels are in it: for new rows fit with "
            "affinity linear or rbf"
        )
    return Predictions(Centers(result.arrays["cluster_centers"]), result.manifest.parameters["penalty"])


def _projection(result: Result) -> Projection | None:
    """Return what a run's centers are centers of, if it is of eigenvectors that rows can be projected on."""
    if "projection" not in result.arrays:
        return None
    arrays, asked = result.arrays, Spectrum(**result.manifest.parameters["spectrum"])
    axes = asked.axes(arrays["projection"], arrays.get("landmarks"), result.manifest.input.n_columns)
    return Projection.of(axes, arrays["eigenvalues"])


EMBEDDING_ARRAYS = (
    ArraySpec("eigenvalues", ("component",), sizes=("feature",)),
    ArraySpec("landmarks", ("landmark", "column")),
    ArraySpec("projection", ("landmark", "component"), sizes=("landmark", "feature"), beside="landmarks"),
    ArraySpec("projection", ("column", "component"), sizes=("column", "feature")),
    ArraySpec("embedding", ("row", "component"), over_rows=True),
)
"""The eigenvalues; and what rows, or their kernel with landmarks, are multiplied by, or else their products."""

SPEC = MethodSpec(
    SpectralDPMeans,
    (batch.Method, search.Method),
    _predictor,
    _projection,
    arrays=(*CENTERS, *EMBEDDING_ARRAYS),
)
