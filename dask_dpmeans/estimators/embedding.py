"""From rows to the rows of Y: which affinity matrix is decomposed, and where its eigenvectors stand."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import diags_array, issparse
from sklearn.neighbors import kneighbors_graph
from threadpoolctl import threadpool_limits

from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.transform import MappedRows
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.methods.spectral.relaxation import Embedding, Spectrum, linear, nystroem, of_matrix, symmetric
from dask_dpmeans.sources import RowSource, Threads, as_source, featured, format_bytes, one_blas_thread

GATHERED_BYTES = 2**31
"""Rows in float64, the most that are gathered in one place."""


@dataclass(frozen=True)
class Eigenvectors:
    """The rows of Y in place of the rows, as a feature_map."""

    asked: Spectrum

    @property
    def parameters(self) -> dict[str, Any]:
        """What is asked of the affinity."""
        return {"spectrum": asdict(self.asked)}

    def check_weights(self, sample_weight: Any) -> None:
        """Refuse weights where rows have no say in the affinity one by one."""
        self.asked.check_weights(sample_weight)

    def fit(self, source: RowSource, seed: int) -> MappedRows:
        """The rows of Y: what projects each row, or all of them, gathered."""
        with one_blas_thread():
            embedding = _embedding(source, self.asked, seed)
        if embedding.projection is not None:
            return _learned(embedding, featured(source, embedding.projection))
        threads = source.executor.threads if isinstance(source.executor, Threads) else None
        return _learned(embedding, as_source(embedding.rows, threads=threads, on_pass=source.executor.on_pass))

    def fit_matrix(self, matrix: Any, seed: int) -> MappedRows:
        """The same of an affinity matrix, (n, n), in memory, NumPy or scipy.sparse."""
        as_source(matrix, sparse=issparse(matrix))  # which names what is no number
        with one_blas_thread():
            embedding = of_matrix(symmetric(matrix), self.asked, seed, passes=0)
        return _learned(embedding, as_source(embedding.rows))


def _learned(embedding: Embedding, source: RowSource) -> MappedRows:
    arrays: dict[str, Any] = {"eigenvalues": (embedding.eigenvalues, ("component",))}
    if embedding.projection is not None:
        axes = embedding.projection.axes
        arrays["projection"] = axes.matrix, ("column" if axes.landmarks is None else "landmark", "component")
        if axes.landmarks is not None:
            arrays["landmarks"] = axes.landmarks, ("landmark", "column")
    return MappedRows(source, embedding.passes, arrays, {"affinity_trace": embedding.trace}, embedding.rows)


def _embedding(source: RowSource, asked: Spectrum, seed: int) -> Embedding:
    if asked.affinity == "linear":
        return linear(source, asked)
    if asked.affinity == "rbf":
        return nystroem(source, asked, seed)
    if asked.affinity == "precomputed" and source.scale is not None:
        raise InputError("affinity='precomputed' takes K as it is: leave the scale out")
    rows = _gathered(source, asked)
    matrix = symmetric(rows) if asked.affinity == "precomputed" else neighbor_affinity(rows, asked.n_neighbors)
    return of_matrix(matrix, asked, seed, passes=1)


def _gathered(source: RowSource, asked: Spectrum) -> Float64Array:
    n, columns = source.plan.n_rows, source.n_features
    if 8 * n * columns > GATHERED_BYTES:
        raise InputError(
            f"affinity={asked.affinity!r} needs all rows in one place, at most {format_bytes(GATHERED_BYTES)} of them "
            f"({GATHERED_BYTES // (8 * columns):,} rows of {columns:,} columns), got {n:,} rows: use affinity='linear' "
            "or 'rbf', which read them in parts, or fewer rows"
        )
    rows: Float64Array = source.fold(Gather(), name="gather").rows.astype(np.float64)
    return rows


def neighbor_affinity(rows: Float64Array, n_neighbors: int) -> Any:
    """D^-1/2 A D^-1/2, (n, n) sparse, of the graph that `sklearn.cluster.SpectralClustering` makes of neighbors.

    A = (G + G') / 2, where G_ij = 1 iff row j is one of the `n_neighbors` nearest of row i, itself included; D holds
    the row sums of A.  All eigenvalues lie in [-1, 1], and 1 is one for each connected component.
    """
    if n_neighbors > len(rows):
        raise InputError(f"n_neighbors must be at most the number of rows, {len(rows):,}, got {n_neighbors:,}")
    with threadpool_limits(1):  # more would divide the rows differently, and choose others among equally near ones
        graph = kneighbors_graph(rows, n_neighbors, include_self=True)
    affinity = (graph + graph.T) / 2
    roots = diags_array(1.0 / np.sqrt(np.asarray(affinity.sum(axis=1)).ravel()))
    return symmetric((roots @ affinity @ roots).tocsr())
