"""The eigenvectors of a symmetric matrix whose eigenvalues are greater than a penalty."""

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
"""Rows up to which all eigenvectors are computed."""
FIRST = 16
"""Eigenvectors asked for first; where all of their eigenvalues are greater than the penalty, twice as many more."""
LEAST_BASIS = 64
"""Lanczos vectors, at least: the neighbors of 20,000 rows (two moons) took 0.46 of the products that 20 took."""
MOST_RESTARTS = 3000
"""Of Lanczos; those neighbors took about 50."""


def pairs_above(matrix: Any, penalty: float, most: int, seed: int) -> tuple[Float64Array, Float64Array]:
    """Eigenvalues greater than a penalty > 0, (r,) from the greatest on, and their unit eigenvectors, (n, r).

    Parameters
    ----------
    matrix : (n, n) symmetric, NumPy or scipy.sparse
    most : an error where there are more
    seed : where Lanczos starts from

    Raises
    ------
    InputError
        None is greater, more than `most` are, or they lie too close together to be found.
    """
    dense = matrix.shape[0] <= DENSE_ROWS
    values, vectors = all_pairs(matrix) if dense else lanczos(matrix, penalty, most, seed)
    return kept(values, vectors, penalty, most)


def all_pairs(matrix: Any) -> tuple[Float64Array, Float64Array]:
    """All eigenvalues, ascending, and their eigenvectors."""
    values, vectors = eigh(matrix.toarray() if issparse(matrix) else matrix)
    return values, vectors


def kept(values: Float64Array, vectors: Float64Array, penalty: float, most: int) -> tuple[Float64Array, Float64Array]:
    """Those greater than the penalty, from the greatest on; the largest entry of each eigenvector is positive."""
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > penalty]
    if not order.size:
        way = "lower the penalty below that" if values.max() > 0 else "such a matrix tells no clusters apart"
        raise InputError(
            f"no eigenvalue of the affinity matrix is greater than penalty={penalty:g}, the largest found is "
            f"{values.max():.6g}: {way}"
        )
    _check_number(len(order), penalty, most)
    chosen = vectors[:, order]
    largest = chosen[np.argmax(np.abs(chosen), axis=0), np.arange(len(order))]
    return values[order], chosen * np.where(largest < 0, -1.0, 1.0)


def lanczos(matrix: Any, penalty: float, most: int, seed: int) -> tuple[Float64Array, Float64Array]:
    """Eigenvalues and eigenvectors found by Lanczos, among them all whose eigenvalues are greater than the penalty.

    One Krylov space holds one vector of each eigenspace, so that Lanczos may miss copies of an eigenvalue: the 1 that
    each component of a graph has.  Rounds go on in what is orthogonal to all that were found, each from a random vector
    of its own, until one finds nothing greater than the penalty there.
    """
    found = np.empty((matrix.shape[0], 0))
    wanted, turn = FIRST, 0
    while True:
        wanted = min(wanted, most + 1 - found.shape[1], len(found) // 2)
        values, vectors = _largest(matrix, found, wanted, stream(seed, Stream.EIGENVECTORS, turn))
        above = values > penalty
        if not above.any() and found.shape[1]:
            return _rotated(matrix, found)
        if not above.any():
            return values, vectors
        found, _ = qr(np.hstack([found, vectors[:, above]]), mode="economic")
        _check_number(found.shape[1], penalty, most)
        wanted, turn = 2 * wanted if above.all() else 1, turn + 1


def _largest(
    matrix: Any, found: Float64Array, wanted: int, random: np.random.Generator
) -> tuple[Float64Array, Float64Array]:
    """Some of the largest eigenvalues, and eigenvectors, orthogonal to those `found`, whose eigenvalues become 0."""

    def orthogonal(vector: Float64Array) -> Float64Array:
        part: Float64Array = vector - found @ (found.T @ vector)
        return part

    def product(vector: Float64Array) -> Float64Array:
        return orthogonal(matrix @ orthogonal(vector.ravel()))

    n = matrix.shape[0]
    operator = LinearOperator((n, n), matvec=product, dtype=np.float64)
    # Where a Krylov space ends early, SciPy 1.17 and later go on with random numbers, and draw those of no seed if not
    # told otherwise.
    drawn = {"rng": random} if "rng" in signature(eigsh).parameters else {}
    start, basis = orthogonal(random.standard_normal(n)), min(n - 1, max(2 * wanted + 1, LEAST_BASIS))
    if not product(start).any():  # nothing is left of the matrix, of which Lanczos would complain
        return np.zeros(1), start[:, np.newaxis] / np.linalg.norm(start)
    try:
        values, vectors = eigsh(operator, wanted, which="LA", v0=start, ncv=basis, maxiter=MOST_RESTARTS, **drawn)
    except ArpackNoConvergence as error:
        raise InputError(
            f"{len(error.eigenvalues)} of {wanted} eigenvalues converged in {MOST_RESTARTS} restarts of Lanczos, so "
            "close do they lie together: raise the penalty, take more neighbors, or fewer rows"
        ) from error
    return values, vectors


def _rotated(matrix: Any, basis: Float64Array) -> tuple[Float64Array, Float64Array]:
    """The eigenvalues and eigenvectors of a matrix in the space that an orthonormal basis, (n, r), spans."""
    inner = basis.T @ (matrix @ basis)
    values, rotation = eigh((inner + inner.T) / 2)
    return values, basis @ rotation


def _check_number(found: int, penalty: float, most: int) -> None:
    if found > most:
        raise InputError(
            f"at least {found:,} eigenvalues of the affinity matrix are greater than penalty={penalty:g}, more than "
            f"max_components={most:,}: raise the penalty, or max_components"
        )
