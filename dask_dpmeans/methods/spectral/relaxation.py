"""The spectral relaxation of DP-means: Kulis & Jordan 2012, section 5.1.

Lemma 5.1: for normalized indicators Y of a partition, J = tr K - tr Y'(K - penalty I)Y, where K holds the products of
rows.  Theorem 5.2: over all Y with orthonormal columns that trace is greatest where Y holds all eigenvectors of K whose
eigenvalues are greater than the penalty.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from dask_dpmeans import checks
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.features import NEGLIGIBLE, Axes, Projection, rbf_kernel, unit_or_zero
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.products import Gram
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.spectral.eigen import kept, pairs_above

AFFINITIES = ("linear", "rbf", "nearest_neighbors", "precomputed")
INDUCTIVE = ("linear", "rbf")
"""Affinities that rows have which were not fitted."""
OWNERS = {"gamma": "rbf", "n_landmarks": "rbf", "n_neighbors": "nearest_neighbors"}
"""Parameters of one affinity alone."""
MOST_COLUMNS = 2**12
"""Of the rows, for the linear affinity: their products, (d, d), take 128 MB then, and each task has some."""
RANK = 1e-12
"""Of the greatest eigenvalue of the landmarks' kernel, the share below which one is taken for 0."""


@dataclass(frozen=True)
class Spectrum:
    """Which affinity matrix is decomposed, and which of its eigenvectors are kept."""

    penalty: float
    """Eigenvectors are kept whose eigenvalues are greater: lambda of the paper."""
    affinity: str = "linear"
    """One of `AFFINITIES`."""
    gamma: float | None = None
    """Of "rbf", exp(-gamma * squared distance); None for 1 / columns."""
    n_neighbors: int = 10
    """Of "nearest_neighbors": of each row, itself included."""
    n_landmarks: int = 1000
    """Of "rbf": rows up to which the matrix is exact; of more rows, so many stand for all."""
    max_components: int = 256
    """More eigenvectors are an error."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", checks.number("penalty", self.penalty))
        checks.choice("affinity", self.affinity, AFFINITIES)
        if self.gamma is not None:
            object.__setattr__(self, "gamma", checks.number("gamma", self.gamma, or_none=" or None"))
        for name in ("n_neighbors", "n_landmarks", "max_components"):
            object.__setattr__(self, name, checks.integer(name, getattr(self, name)))
        for name, owner in OWNERS.items():
            if getattr(self, name) != getattr(Spectrum, name) and self.affinity != owner:
                raise InputError(f"{name} is of affinity={owner!r}, {self.affinity} has no use for it: leave it out")
        if self.affinity == "nearest_neighbors" and self.penalty >= 1:
            raise InputError(
                "penalty must be < 1 with affinity='nearest_neighbors', whose eigenvalues are 1 at most, got "
                f"{self.penalty!r}"
            )

    @property
    def inductive(self) -> bool:
        """Whether rows that were not fitted can be projected."""
        return self.affinity in INDUCTIVE

    def check_weights(self, sample_weight: Any) -> None:
        """Refuse weights where rows have no say in the affinity one by one."""
        if sample_weight is not None and not self.inductive:
            raise InputError(f"sample_weight has no place in affinity={self.affinity!r}: leave it out, or use 'linear'")

    def axes(self, matrix: Float64Array, landmarks: Float64Array | None, columns: int) -> Axes:
        """Of rows with so many columns."""
        return Axes(matrix, landmarks, 0.0 if landmarks is None else self.gamma or 1.0 / columns)


@dataclass(frozen=True)
class Embedding:
    """The rows of Y at unit length, or what makes them."""

    eigenvalues: Float64Array
    """(r,), those greater than the penalty, from the greatest on."""
    trace: float
    """Of the matrix that was decomposed."""
    passes: int
    """Over the rows."""
    projection: Projection | None = None
    """Makes them of rows; None where the affinity is of all rows together."""
    rows: Float64Array | None = None
    """(n, r); None where the projection makes them."""


def relaxed_objective(eigenvalues: Float64Array, penalty: float) -> float:
    """tr Y'(K - penalty I)Y at the eigenvectors whose eigenvalues are greater, (r,); no partition exceeds it."""
    return math.fsum(eigenvalues - penalty)


def linear(source: Source, asked: Spectrum) -> Embedding:
    """The embedding of K = W^1/2 X X' W^1/2, through X'WX, which has the same eigenvalues > 0: one pass."""
    columns = len(source.summary.sums)
    if columns > MOST_COLUMNS:
        raise InputError(
            f"affinity='linear' takes rows of up to {MOST_COLUMNS:,} columns, got {columns:,}: choose some of them, or "
            "use affinity='rbf'"
        )
    return _from_gram(source, asked, None, passes=1)


def nystroem(source: Source, asked: Spectrum, seed: int) -> Embedding:
    """The embedding of the Gaussian kernel matrix, or of what stands for it where there are more rows than landmarks.

    Landmarks L are rows drawn from the seed by row number.  K(X, L) K(L, L)^-1 K(L, X) is exact where they are all rows
    (Williams & Seeger 2001), and has its eigenvectors by products of the columns of K(X, L) K(L, L)^-1/2.
    """
    n, columns = source.plan.n_rows, len(source.summary.sums)
    chosen = stream(seed, Stream.LANDMARKS).choice(n, min(n, asked.n_landmarks), replace=False, shuffle=False)
    landmarks = source.fold(Gather(np.sort(chosen)), name="landmarks").rows.astype(np.float64)
    axes = asked.axes(np.empty((0, 0)), landmarks, columns)
    values, vectors = eigh(rbf_kernel(landmarks, landmarks, axes.gamma))
    there = values > RANK * values[-1]
    axes = replace(axes, matrix=vectors[:, there] / np.sqrt(values[there]))
    return _from_gram(source, asked, axes, passes=2)


def _from_gram(source: Source, asked: Spectrum, axes: Axes | None, passes: int) -> Embedding:
    """The embedding by products of what the axes make of the rows, of these themselves where there are none."""
    gram = source.fold(Gram(axes), name="gram")
    trace = sum(gram.diagonal().tolist())
    if not (np.isfinite(gram).all() and math.isfinite(trace)):
        raise InputError("the products of columns overflow float64: divide the data by a constant first")
    values, vectors = eigh(gram)
    rounding = len(values) * np.finfo(np.float64).eps * values[-1]  # what it leaves of an eigenvalue of 0
    eigenvalues, along = kept(values, vectors, max(asked.penalty, rounding), asked.max_components)
    axes = Axes(along) if axes is None else replace(axes, matrix=axes.matrix @ along)
    return Embedding(eigenvalues, trace, passes + 1, Projection.of(axes, eigenvalues))


def of_matrix(matrix: Any, asked: Spectrum, seed: int, passes: int) -> Embedding:
    """The embedding of a symmetric matrix, (n, n), NumPy or scipy.sparse."""
    eigenvalues, vectors = pairs_above(matrix, asked.penalty, asked.max_components, seed)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    rows = unit_or_zero(vectors, lengths <= NEGLIGIBLE)
    return Embedding(eigenvalues, float(matrix.diagonal().sum()), passes, rows=rows)


def symmetric(matrix: Any) -> Any:
    """A square matrix, NumPy or scipy.sparse, symmetric to the bit.

    Raises
    ------
    InputError
        Where it is not symmetric but for rounding.
    """
    rows, columns = matrix.shape
    if rows != columns:
        raise InputError(f"affinity='precomputed' takes a square matrix, got {rows} x {columns}")
    difference, largest = float(abs(matrix - matrix.T).max()), float(abs(matrix).max())
    if largest > np.finfo(np.float64).max / (2 * rows):
        raise InputError(
            f"the affinity matrix reaches {largest:g}, so that eigenvalues may overflow float64: divide it first"
        )
    if difference > 1e-10 * largest:
        raise InputError(
            f"the affinity matrix is not symmetric: entries differ by up to {difference:g} from those across the "
            "diagonal; pass (K + K.T) / 2 if that is what you mean"
        )
    return (matrix + matrix.T) / 2
