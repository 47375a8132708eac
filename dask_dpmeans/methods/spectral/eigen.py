"""Eigenvectors of a symmetric matrix with eigenvalues greater than a penalty."""

from inspect import signature
from typing import Any

import numpy as np
from scipy.linalg import eigh, qr
from scipy.sparse import issparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.random_streams import Stream, stream

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
            f"more than max_components={most:,}: raise the penalty, or max_components"
        )
