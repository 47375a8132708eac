"""The spectral relaxation of DP-means: Kulis & Jordan 2012, section 5.1.

Lemma 5.1: for normalized indicators Y of a partition, J = tr K - tr Y'(K - penalty I)Y, with the
products of rows in K.  Theorem 5.2: over all Y with orthonormal columns this trace is greatest if
the columns are all eigenvectors of K with eigenvalues greater than the penalty.
"""

import math
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from scipy.linalg import eigh, qr
from scipy.sparse import issparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from dask_dpmeans import checks
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.features import (
    NEGLIGIBLE,
    Axes,
    ColumnProducts,
    Projection,
    rbf_kernel,
    unit_or_zero,
)
from dask_dpmeans.kernels.random_streams import Stream, stream

AFFINITIES = ("linear", "rbf", "nearest_neighbors", "precomputed")
INDUCTIVE = ("linear", "rbf")
"""Affinities that are defined for new rows too."""
OWNERS = {"gamma": "rbf", "n_landmarks": "rbf", "n_neighbors": "nearest_neighbors"}
"""Parameters of a single affinity."""
MAX_COLUMNS = 2**12
"""The most columns for the linear affinity: their products, (d, d), take 128 MB in each task."""
RANK = 1e-12
"""Eigenvalues of the landmarks' kernel below this share of the greatest are taken for 0."""


@dataclass(frozen=True)
class Spectrum:
    """The affinity matrix to decompose, and the choice of eigenvectors."""

    penalty: float
    """Eigenvectors with greater eigenvalues are kept: lambda of the paper."""
    affinity: str = "linear"
    """One of `AFFINITIES`."""
    gamma: float | None = None
    """Parameter of "rbf", exp(-gamma * squared distance); None for 1 / columns."""
    n_neighbors: int = 10
    """Parameter of "nearest_neighbors": neighbors of each row, itself included."""
    n_landmarks: int = 1000
    """Parameter of "rbf": the matrix of more rows is approximated by this many."""
    max_components: int = 256
    """More eigenvectors are an error."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", checks.number("penalty", self.penalty))
        checks.choice("affinity", self.affinity, AFFINITIES)
        if self.gamma is not None:
            gamma = checks.number("gamma", self.gamma, or_none=" or None")
            object.__setattr__(self, "gamma", gamma)
        for name in ("n_neighbors", "n_landmarks", "max_components"):
            object.__setattr__(self, name, checks.integer(name, getattr(self, name)))
        for name, owner in OWNERS.items():
            if getattr(self, name) != getattr(Spectrum, name) and self.affinity != owner:
                raise InputError(
                    f"{name} is a parameter of affinity={owner!r}, it has no use with {self.affinity!r}: leave it out"
                )
        if self.affinity == "nearest_neighbors" and self.penalty >= 1:
            raise InputError(
                "penalty must be < 1 with affinity='nearest_neighbors', whose eigenvalues are 1 at most, "
                f"got {self.penalty!r}"
            )

    @property
    def inductive(self) -> bool:
        """Whether new rows can be projected."""
        return self.affinity in INDUCTIVE

    def check_weights(self, sample_weight: object) -> None:
        """Refuse weights if the affinity has no use for them."""
        if sample_weight is not None and not self.inductive:
            raise InputError(
                f"sample_weight has no use with affinity={self.affinity!r}: leave it out, or use 'linear'"
            )

    def axes(self, matrix: Float64Array, landmarks: Float64Array | None, columns: int) -> Axes:
        """Return axes with the matrix, (a, r), for rows and landmarks, (l, columns)."""
        gamma = 0.0
        if landmarks is not None:
            gamma = self.gamma or 1.0 / columns
        return Axes(matrix, landmarks, gamma)


@dataclass(frozen=True)
class Embedding:
    """The rows of Y at unit length, or a projection that gives them."""

    eigenvalues: Float64Array
    """(r,), eigenvalues greater than the penalty, descending."""
    trace: float
    """The trace of the decomposed matrix."""
    passes: int
    """Passes over the rows."""
    projection: Projection | None = None
    """Maps rows of the input to rows of Y; None if the affinity is not inductive."""
    rows: Float64Array | None = None
    """(n, r); None if there is a projection."""


def relaxed_objective(eigenvalues: Float64Array, penalty: float) -> float:
    """Return tr Y'(K - penalty I)Y for the eigenvalues above the penalty, (r,).

    No partition exceeds it.
    """
    return math.fsum(eigenvalues - penalty)


def linear(source: Source, asked: Spectrum) -> Embedding:
    """Return the embedding of K = W^1/2 X X' W^1/2, by the same eigenvalues of X'WX: one pass."""
    columns = len(source.summary.sums)
    if columns > MAX_COLUMNS:
        raise InputError(
            f"affinity='linear' takes rows of up to {MAX_COLUMNS:,} columns, got {columns:,}: choose some of "
            "them, or use affinity='rbf'"
        )
    return _from_gram(source, asked, None, passes=1)


def nystroem(source: Source, asked: Spectrum, seed: int) -> Embedding:
    """Return the embedding of the Gaussian kernel matrix, approximate for more rows than landmarks.

    Landmarks L are random rows.  K(X, L) K(L, L)^-1 K(L, X) is exact if they are all rows (Williams
    & Seeger 2001).  Its eigenvectors follow from products of the columns of K(X, L) K(L, L)^-1/2.
    """
    n, columns = source.plan.n_rows, len(source.summary.sums)
    random, size = stream(seed, Stream.LANDMARKS), min(n, asked.n_landmarks)
    chosen = random.choice(n, size, replace=False, shuffle=False)
    landmarks = source.fold(Gather(np.sort(chosen)), name="landmarks").rows.astype(np.float64)
    axes = asked.axes(np.empty((0, 0)), landmarks, columns)
    values, vectors = eigh(rbf_kernel(landmarks, landmarks, axes.gamma))
    positive = values > RANK * values[-1]
    axes = replace(axes, matrix=vectors[:, positive] / np.sqrt(values[positive]))
    return _from_gram(source, asked, axes, passes=2)


def _from_gram(source: Source, asked: Spectrum, axes: Axes | None, passes: int) -> Embedding:
    """Return the embedding by products of the columns of the rows, or of the rows on axes."""
    gram = source.fold(ColumnProducts(axes), name="gram")
    trace = sum(gram.diagonal().tolist())
    if not (np.isfinite(gram).all() and math.isfinite(trace)):
        raise InputError(
            "the products of columns overflow float64: divide the data by a constant first"
        )
    values, vectors = eigh(gram)
    rounding = len(values) * np.finfo(np.float64).eps * values[-1]  # of an eigenvalue of 0
    penalty = max(asked.penalty, rounding)
    eigenvalues, along = select_pairs(values, vectors, penalty, asked.max_components)
    along_axes = Axes(along)
    if axes is not None:
        along_axes = replace(axes, matrix=axes.matrix @ along)
    return Embedding(eigenvalues, trace, passes + 1, Projection.of(along_axes, eigenvalues))


def of_matrix(matrix: Any, asked: Spectrum, seed: int, passes: int) -> Embedding:
    """Return the embedding of a symmetric matrix, (n, n), NumPy or scipy.sparse."""
    eigenvalues, vectors = pairs_above(matrix, asked.penalty, asked.max_components, seed)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    rows = unit_or_zero(vectors, lengths <= NEGLIGIBLE)
    return Embedding(eigenvalues, float(matrix.diagonal().sum()), passes, rows=rows)


def symmetric(matrix: Any) -> Any:
    """Return a square matrix, symmetric up to rounding, made symmetric to the bit."""
    rows, columns = matrix.shape
    if rows != columns:
        raise InputError(f"affinity='precomputed' takes a square matrix, got {rows} x {columns}")
    difference, largest = float(abs(matrix - matrix.T).max()), float(abs(matrix).max())
    if largest > np.finfo(np.float64).max / (2 * rows):
        raise InputError(
            f"the affinity matrix reaches {largest:g}, its eigenvalues may overflow float64: divide it first"
        )
    if difference > 1e-10 * largest:
        raise InputError(
            f"the affinity matrix is not symmetric: it differs from its transpose by up to {difference:g}; pass "
            "(K + K.T) / 2 if that is what you mean"
        )
    return (matrix + matrix.T) / 2


DENSE_ROWS = 2**10
"""Matrices of at most this many rows are decomposed completely."""
FIRST = 16
"""Eigenvectors that the first round computes; twice as many more if all exceed the penalty."""
LEAST_BASIS = 64
"""The least number of Lanczos vectors.  For the neighbors of 20,000 rows (two moons) it took 0.46
of the products of a basis of 20."""
MAX_RESTARTS = 3000
"""Restarts of Lanczos; those neighbors took about 50."""


def pairs_above(
    matrix: Any, penalty: float, most: int, seed: int
) -> tuple[Float64Array, Float64Array]:
    """Return eigenvalues above a penalty > 0, (r,), descending, and unit eigenvectors, (n, r).

    The matrix, (n, n) and symmetric, is of NumPy or scipy.sparse.  It is an error if no eigenvalue
    is greater, if more than `most` are, or if they are too close together.
    """
    if matrix.shape[0] <= DENSE_ROWS:
        return select_pairs(*all_pairs(matrix), penalty, most)
    return select_pairs(*lanczos(matrix, penalty, most, seed), penalty, most)


def all_pairs(matrix: Any) -> tuple[Float64Array, Float64Array]:
    """Return all eigenvalues, (n,) ascending, and their eigenvectors, (n, n)."""
    if issparse(matrix):
        matrix = matrix.toarray()
    values, vectors = eigh(matrix)
    return values, vectors


def select_pairs(
    values: Float64Array, vectors: Float64Array, penalty: float, most: int
) -> tuple[Float64Array, Float64Array]:
    """Return the eigenvalues above the penalty, (r,), descending, and their eigenvectors, (n, r).

    The largest entry of each eigenvector is made positive.
    """
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > penalty]
    if not order.size:
        advice = "such a matrix tells no clusters apart"
        if values.max() > 0:
            advice = "lower the penalty below that"
        raise InputError(
            f"no eigenvalue of the affinity matrix is greater than penalty={penalty:g}, the largest found is "
            f"{values.max():.6g}: {advice}"
        )
    _check_number(len(order), penalty, most)
    chosen = vectors[:, order]
    largest = chosen[np.argmax(np.abs(chosen), axis=0), np.arange(len(order))]
    return values[order], chosen * np.where(largest < 0, -1.0, 1.0)


def lanczos(matrix: Any, penalty: float, most: int, seed: int) -> tuple[Float64Array, Float64Array]:
    """Return eigenvalues, (r,), and eigenvectors, (n, r), by Lanczos: all above, or some below.

    One Krylov space has one vector of each eigenspace, so that Lanczos may miss copies of an
    eigenvalue, such as the 1 of each component of a graph.  Each round starts from another random
    vector, orthogonal to all that were found, until a round finds nothing above the penalty.
    """
    found = np.empty((matrix.shape[0], 0))
    wanted, turn = FIRST, 0
    while True:
        wanted = min(wanted, most + 1 - found.shape[1], len(found) // 2)
        values, vectors = _largest(matrix, found, wanted, stream(seed, Stream.EIGENVECTORS, turn))
        above = values > penalty
        if not above.any():
            return _pairs_within(matrix, found) if found.shape[1] else (values, vectors)
        found, _ = qr(np.hstack([found, vectors[:, above]]), mode="economic")
        _check_number(found.shape[1], penalty, most)
        turn += 1
        if not above.all():
            wanted = 1
        else:
            wanted *= 2


def _largest(
    matrix: Any, found: Float64Array, wanted: int, random: np.random.Generator
) -> tuple[Float64Array, Float64Array]:
    """Return some of the largest eigenvalues, with eigenvectors orthogonal to `found`, (n, f)."""

    def orthogonal(vector: Float64Array) -> Float64Array:
        part: Float64Array = vector - found @ (found.T @ vector)
        return part

    def product(vector: Float64Array) -> Float64Array:
        return orthogonal(matrix @ orthogonal(vector.ravel()))

    n = matrix.shape[0]
    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    # If a Krylov space ends early, SciPy 1.17 and later go on with random numbers of this generator.
    options = {}
    if "rng" in signature(eigsh).parameters:
        options["rng"] = random
    start = orthogonal(random.standard_normal(n))
    basis = min(n - 1, max(2 * wanted + 1, LEAST_BASIS))
    if not product(start).any():  # nothing is left of the matrix; Lanczos would fail
        return np.zeros(1), start[:, np.newaxis] / np.linalg.norm(start)
    try:
        values, vectors = eigsh(
            operator, wanted, which="LA", v0=start, ncv=basis, maxiter=MAX_RESTARTS, **options
        )
    except ArpackNoConvergence as error:
        raise InputError(
            f"{len(error.eigenvalues)} of {wanted} eigenvalues converged in {MAX_RESTARTS} restarts of Lanczos: "
            "they are too close together; raise the penalty, take more neighbors, or fewer rows"
        ) from error
    return values, vectors


def _pairs_within(matrix: Any, basis: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return eigenvalues and eigenvectors in the space that an orthonormal basis, (n, r), spans."""
    inner = basis.T @ (matrix @ basis)
    values, rotation = eigh((inner + inner.T) / 2)
    return values, basis @ rotation


def _check_number(found: int, penalty: float, most: int) -> None:
    if found > most:
        raise InputError(
            f"at least {found:,} eigenvalues of the affinity matrix are greater than penalty={penalty:g}, "
            f"more than max_components={most}: raise the penalty, or max_components"
        )
