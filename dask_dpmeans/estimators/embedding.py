"""The rows of Y: eigenvectors of the affinity matrix of the rows, as a feature map."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import diags_array, issparse, sparray
from threadpoolctl import threadpool_limits

from dask_dpmeans import sources
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.lazy import LazyModule
from dask_dpmeans.methods.spectral import (
    Embedding,
    Spectrum,
    linear,
    nystroem,
    of_matrix,
    symmetric,
)

if TYPE_CHECKING:
    from sklearn import neighbors

    from dask_dpmeans.sources import RowSource
else:
    # It loads the metrics of scikit-learn, and so scipy.stats.
    neighbors = LazyModule("sklearn.neighbors")

GATHERED_BYTES = 2**31
"""Most bytes of rows in float64 that are gathered in memory."""


@dataclass(frozen=True)
class Eigenvectors:
    """The map of rows to the rows of Y."""

    spectrum: Spectrum

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the affinity."""
        return {"spectrum": asdict(self.spectrum)}

    def check_weights(self, sample_weight: object) -> None:
        """Refuse weights for an affinity that cannot use them."""
        self.spectrum.check_weights(sample_weight)

    def fit(self, source: "RowSource", seed: int) -> MappedRows:
        """Return the rows of Y, as a projection of each row or gathered in memory."""
        with sources.one_blas_thread():
            embedding = _embedding(source, self.spectrum, seed)
        if embedding.projection is not None:
            return _mapped_rows(embedding, sources.source_of_features(source, embedding.projection))
        executor, threads = source.executor, None
        if isinstance(executor, sources.Threads):
            threads = executor.threads
        rows = sources.as_source(embedding.rows, threads=threads, on_pass=executor.on_pass)
        return _mapped_rows(embedding, rows)

    def fit_matrix(self, matrix: npt.NDArray[Any] | sparray, seed: int) -> MappedRows:
        """Return the rows of Y of an affinity matrix, (n, n), in memory, NumPy or scipy.sparse."""
        sources.as_source(matrix, sparse=issparse(matrix))  # names what is no number
        with sources.one_blas_thread():
            embedding = of_matrix(symmetric(matrix), self.spectrum, seed, passes=0)
        return _mapped_rows(embedding, sources.as_source(embedding.rows))


def _mapped_rows(embedding: Embedding, source: "RowSource") -> MappedRows:
    """Return the rows of an embedding for the method, with the arrays that map new rows."""
    arrays: dict[str, tuple[Float64Array, tuple[str, ...]]] = {}
    arrays["eigenvalues"] = embedding.eigenvalues, ("component",)
    if embedding.projection is not None:
        axes = embedding.projection.axes
        arrays["projection"] = axes.matrix, ("column", "component")
        if axes.landmarks is not None:
            arrays["projection"] = axes.matrix, ("landmark", "component")
            arrays["landmarks"] = axes.landmarks, ("landmark", "column")
    figures = {"affinity_trace": embedding.trace}
    return MappedRows(source, embedding.passes, arrays, figures, embedding.rows)


def _embedding(source: "RowSource", asked: Spectrum, seed: int) -> Embedding:
    """Return the embedding of the rows by the affinity asked for."""
    if asked.affinity == "linear":
        return linear(source, asked)
    if asked.affinity == "rbf":
        return nystroem(source, asked, seed)
    if asked.affinity == "precomputed" and source.scale is not None:
        raise InputError("affinity='precomputed' takes K as it is: leave the scale out")
    rows = _gather(source, asked)
    if asked.affinity == "precomputed":
        return of_matrix(symmetric(rows), asked, seed, passes=1)
    return of_matrix(neighbor_affinity(rows, asked.n_neighbors), asked, seed, passes=1)


def _gather(source: "RowSource", asked: Spectrum) -> Float64Array:
    """Return all rows, (n, d), in memory."""
    n, columns = source.plan.n_rows, source.n_features
    if 8 * n * columns > GATHERED_BYTES:
        most = f"{sources.format_bytes(GATHERED_BYTES)} of them ({GATHERED_BYTES // (8 * columns):,} rows"
        raise InputError(
            f"affinity={asked.affinity!r} needs all rows in one place, at most {most} of "
            f"{columns:,} columns), got {n:,} rows: use affinity='linear' or 'rbf', which read "
            "them in parts, or fewer rows"
        )
    rows: Float64Array = source.fold(Gather(), name="gather").rows.astype(np.float64)
    return rows


def neighbor_affinity(rows: Float64Array, n_neighbors: int) -> Any:
    """Return D^-1/2 A D^-1/2, (n, n) sparse, of the neighbors of rows, (n, d).

    The graph is the same as in `sklearn.cluster.SpectralClustering`.  A = (G + G') / 2, and G_ij =
    1 iff row j is one of the `n_neighbors` nearest of row i, itself included.  D holds the row sums
    of A.  All eigenvalues are in [-1, 1], with one 1 for each connected component.
    """
    if n_neighbors > len(rows):
        most = f"the number of rows, {len(rows):,}"
        raise InputError(f"n_neighbors must be at most {most}, got {n_neighbors:,}")
    with threadpool_limits(1):  # more threads choose others among equally near rows
        graph = neighbors.kneighbors_graph(rows, n_neighbors, include_self=True)
    affinity = (graph + graph.T) / 2
    roots = diags_array(1.0 / np.sqrt(np.asarray(affinity.sum(axis=1)).ravel()))
    return symmetric((roots @ affinity @ roots).tocsr())
