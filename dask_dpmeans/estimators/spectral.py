"""The scikit-learn estimator of the spectral relaxation: DP-means on eigenvectors."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from dask_dpmeans import checks, sources
from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.loop import Algorithm, Progress
from dask_dpmeans.engine.plan import Kernel
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.base import CentersMixin, RandomState, RowFit, limits_of
from dask_dpmeans.estimators.description import Description, radius_or_price
from dask_dpmeans.estimators.dpmeans import METHODS
from dask_dpmeans.estimators.embedding import Eigenvectors
from dask_dpmeans.estimators.row_options import without_row_options
from dask_dpmeans.estimators.spec import CENTERS, MethodSpec, nearest_centers
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.features import Projection
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.spectral import Spectrum, relaxed_objective
from dask_dpmeans.storage.array_spec import ArraySpec

if TYPE_CHECKING:
    from dask_dpmeans.storage import Result


def _inductive(model: "SpectralDPMeans") -> bool:
    if not model.spectrum().inductive:
        raise AttributeError(
            f"the clusters of affinity={model.affinity!r} are of the rows that were fitted, "
            "whose labels are in labels_; new rows need affinity='linear' or 'rbf'"
        )
    return True


class _NewRowsMixin:
    """The methods for new rows, which are there only if the affinity allows them.

    They are in a class of their own because scikit-learn wraps the `transform` of each class that
    has one for `set_output`; it would then be there for any affinity.
    """

    @available_if(_inductive)
    def predict(self: Any, X: object) -> Any:
        """Return the number of the nearest center of each row, (n,) int32; lazy if X is.

        With "rbf" the eigenvectors are extended to new rows by Nystroem's formula.
        """
        return CentersMixin.predict(self, X)

    @available_if(_inductive)
    def transform(self: Any, X: object) -> Any:
        """Return the distance of each row of Y to each center, (n, k) float64; lazy if X is."""
        return CentersMixin.transform(self, X)

    @available_if(_inductive)
    def fit_transform(self: Any, X: object, y: object = None, **fit_params: object) -> Any:
        """Fit, and return the distances of the rows of Y to the centers, (n, k); lazy if X is."""
        return CentersMixin.fit_transform(self, X, y, **fit_params)

    @available_if(_inductive)
    def score(self: Any, X: object, y: object = None, sample_weight: object = None) -> float:
        """Return minus the inertia of the rows of Y."""
        return CentersMixin.score(self, X, y, sample_weight)


class SpectralDPMeans(_NewRowsMixin, CentersMixin, BaseEstimator):
    """Spectral clustering: the number of eigenvectors and of clusters follow from penalties.

    The relaxation of the DP-means objective by Kulis & Jordan 2012 (section 5.1).  All eigenvectors
    of the affinity matrix K with eigenvalues greater than the penalty are the columns of Y.  The
    rows of Y, at unit length, are clustered by DP-means with a threshold of its own.  The result is
    the same, to the byte, for any chunking, threads and workers.

    Parameters
    ----------
    penalty : float
        The bound of the eigenvalues: lambda of the paper, in units of K.  With "linear" it is the
        penalty of `DPMeans`, whose objective K relaxes.
    affinity : {"linear", "rbf", "nearest_neighbors", "precomputed"}, default "linear"
        "linear": K = X X', of rows as they are, not centered.  Any number of rows, read in parts.

        "rbf": K_ij = exp(-gamma * squared distance), exact for up to `n_landmarks` rows.  More rows
        are approximated from so many landmarks L, drawn from the seed, as
        K(X, L) K(L, L)^-1 K(L, X) (Nystroem; Williams & Seeger 2001).

        "nearest_neighbors": K = D^-1/2 A D^-1/2 of the graph of neighbors.  A = (G + G') / 2; row i
        of G has 1 at its `n_neighbors` nearest rows, itself included; D holds the row sums of A.
        The eigenvalues are in [-1, 1].  There is one 1 for each connected component; nearly
        separate parts have values little below 1, so use a penalty of, say, .9999.  A large cluster
        has further eigenvalues near 1.  If the penalty keeps these too, the cluster is cut up.

        "precomputed": X is K, (n, n), symmetric.

        The last two read all rows into memory, up to 2 GiB.
    gamma : float, optional
        Parameter of "rbf"; 1 / columns by default.  This parameter and the next two are an
        `InputError` with an affinity that has no use for them.
    n_neighbors : int, default 10
        Neighbors of "nearest_neighbors".
    n_landmarks : int, default 1000
        Landmarks of "rbf", drawn from all rows, also from rows of weight 0.
    max_components : int, default 256
        More eigenvalues above the penalty are an `InputError`.
    threshold : float, default 0.25
        The penalty of DP-means on the rows of Y.  Ideal clusters are at squared distances of 2
        there.  A threshold of 1 opens nothing: the mean of k such clusters is at 1 - 1 / k from
        each.
    search : bool, default False
        Take the threshold as a price and search, as in `DPMeans`.  The threshold must then be as
        large as what a cluster saves.
    max_iter, tol, max_clusters
        Parameters of DP-means, see `DPMeans`.
    random_state : int, RandomState instance or None, default None
        Seed of landmarks, of Lanczos and of the search, drawn once and stored in `random_state_`.

    Attributes
    ----------
    labels_ : (n,) int32
        The cluster of each row.  A lazy Dask array if the input is one and rows were not gathered.
    cluster_centers_ : (k, r) float64
        Centers among the rows of Y.
    n_clusters_ : int
    eigenvalues_ : (r,) float64
        The eigenvalues greater than the penalty, in descending order.
    embedding_ : (n, r) float64
        The rows of Y at unit length, with "nearest_neighbors" or "precomputed"; otherwise `embed`
        makes them.  A row that is nearly orthogonal to all eigenvectors (1e-6 of its length) is 0,
        at distance 1 from each ideal cluster.  Such rows are a cluster of their own.
    relaxed_objective_ : float
        Sum of eigenvalues - penalty.  No clustering has a greater tr Y'(K - penalty I)Y (theorem
        5.2).
    affinity_trace_ : float
        tr K.  The trace minus the relaxed objective is a lower bound of the DP-means objective of
        every clustering in the space of K (lemma 5.1); with "linear" of `DPMeans.objective_` at the
        same penalty.  With landmarks both are of the approximated matrix, and bound nothing about
        K.
    inertia_, objective_, history_, n_iter_
        Figures of DP-means on the rows of Y; the objective is ``inertia_ + threshold *
        n_clusters_``.
    cluster_weights_, cluster_inertias_, n_passes_, random_state_, n_features_in_
        See `DPMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_dpmeans import SpectralDPMeans
    >>> X = np.array([[3.0, 0.0], [4.0, 0.0], [0.0, 2.0], [0.0, 3.0]])
    >>> model = SpectralDPMeans(penalty=2.0).fit(X)
    >>> model.labels_.tolist(), model.eigenvalues_.tolist(), model.relaxed_objective_
    ([0, 0, 1, 1], [25.0, 13.0], 34.0)
    """

    @without_row_options
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
        random_state: RandomState = None,
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

    def _check_fit(self, sample_weight: object) -> None:
        self.spectrum().check_weights(sample_weight)

    @available_if(_inductive)
    def embed(self, X: object) -> Any:
        """Return the rows of Y at unit length, (n, r) float64; lazy if X is."""
        check_is_fitted(self)
        return self._mapped(X, embedded_rows, np.float64, len(self.eigenvalues_), dim="component")

    def spectrum(self) -> Spectrum:
        """Return the checked parameters of the affinity."""
        return Spectrum(
            penalty=self.penalty,
            affinity=self.affinity,
            gamma=self.gamma,
            n_neighbors=self.n_neighbors,
            n_landmarks=self.n_landmarks,
            max_components=self.max_components,
        )

    def _feature_map(self) -> Eigenvectors:
        return Eigenvectors(self.spectrum())

    def description(self) -> Description:
        radius, read = radius_or_price(self.threshold, search=self.search)
        words = replace(
            super().description(),
            penalty_name="threshold",
            radius=radius,
            objective_parts="inertia {inertia:.9g} + threshold x clusters",
            units="along eigenvectors",
            center_columns="eigenvector",
            learned_rows=True,
            settings={"metric": "euclidean", "threshold": read},
        )
        if not hasattr(self, "eigenvalues_"):
            return words
        values, relaxed = self.eigenvalues_, f"{self.relaxed_objective_:.9g}"
        range_ = " to ".join(dict.fromkeys(f"{each:.6g}" for each in (values[0], values[-1])))
        above = f"{format_count(len(values), 'eigenvalue')} above {self.penalty:g}"
        within = f"affinity within clusters less {self.penalty:g} a cluster"
        settings = {
            "affinity": f"{self.affinity}, {above}: {range_}; their eigenvectors are clustered",
            "relaxed": f"{relaxed} at most for any clustering: {within}; the affinity of the rows "
            f"with themselves is {self.affinity_trace_:.9g}",
        }
        return replace(
            words,
            stored_rows=getattr(self, "embedding_", None),
            settings={**settings, **words.settings},
            facts={
                "eigenvalues above the penalty": f"{len(values):,}: {range_}",
                "relaxed objective": relaxed,
            },
            json={"eigenvalues": values.tolist(), "relaxed_objective": self.relaxed_objective_},
        )

    def method(self) -> batch.Method | search.Method:
        """Return the checked parameters of DP-means on the rows of Y as an algorithm."""
        return METHODS[checks.switch("search", self.search)](
            penalty=checks.number("threshold", self.threshold), **limits_of(self)
        )

    def _map_rows(
        self, rows: Any, method: Algorithm[Any], groups: object, sample_weight: object
    ) -> MappedRows:
        if self.affinity == "precomputed" and not sources.is_lazy(rows):
            return self._feature_map().fit_matrix(rows.astype(np.float64), self.random_state_)
        return super()._map_rows(rows, method, groups, sample_weight)

    def _note(self, given: RowFit, progress: Progress[Any]) -> None:
        super()._note(given, progress)
        mapped = given.mapped
        eigenvalues, _ = mapped.arrays["eigenvalues"]
        self._set_embedding(eigenvalues, mapped.figures["affinity_trace"], mapped.rows)

    def _restore(self, result: "Result") -> None:
        super()._restore(result)
        values, rows = result.arrays["eigenvalues"], None
        if "projection" not in result.arrays:
            rows = sources.lazy_rows(result.open_rows("embedding", len(values)))
        self._set_embedding(values, result.manifest.figures["affinity_trace"], rows)

    def _set_embedding(
        self, eigenvalues: Float64Array, trace: float, rows: npt.ArrayLike | None
    ) -> None:
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
    """Return the rows of a block, (height, r), in float64: the kernel of a map."""
    return (block.rows.astype(np.float64),)


def _predictor(result: "Result") -> Kernel:
    if "projection" not in result.arrays:
        raise InputError(
            "the clusters of the run are of the rows that were fitted, whose labels are in it: "
            "for new rows fit with affinity linear or rbf"
        )
    return nearest_centers(result)


def _projection(result: "Result") -> Projection | None:
    """Return the projection of rows on the eigenvectors of a run, if it has one."""
    if "projection" not in result.arrays:
        return None
    arrays, asked = result.arrays, Spectrum(**result.manifest.parameters["spectrum"])
    axes = asked.axes(
        arrays["projection"], arrays.get("landmarks"), result.manifest.input.n_columns
    )
    return Projection.of(axes, arrays["eigenvalues"])


EMBEDDING_ARRAYS = (
    ArraySpec("eigenvalues", ("component",), sizes=("feature",)),
    ArraySpec("landmarks", ("landmark", "column"), np.floating),
    ArraySpec(
        "projection", ("landmark", "component"), sizes=("landmark", "feature"), beside="landmarks"
    ),
    ArraySpec("projection", ("column", "component"), sizes=("column", "feature")),
    ArraySpec("embedding", ("row", "component"), over_rows=True),
)
"""The eigenvalues, and how to embed rows.

The matrix multiplies rows or their kernel with landmarks; otherwise the embedding is stored.
"""

SPEC = MethodSpec(SpectralDPMeans, _predictor, _projection, arrays=(*CENTERS, *EMBEDDING_ARRAYS))
