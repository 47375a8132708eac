"""Kernel functions, and tiles of their Gram matrix, the similarities of rows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Rows, tiles

GRAM_ROWS = 2**8
"""Rows whose similarities are computed together."""
GRAM_FITTED = 2**11
"""Fitted rows in a tile of similarities, which takes 4 MB."""
DIAGONAL_ROWS = 2**6
"""Rows compared with one another when only the diagonal is needed."""
ROUNDED = 2.0**22
"""Above this gamma * (squared lengths of two rows), a product loses the ninth digit of their
similarity: it is computed from differences of their columns instead."""

Similarity = Callable[[Float64Array, Float64Array], Float64Array]
"""A kernel function: the inner products, (a, b), of the images of A, (a, d), and B, (b, d)."""
Selection = slice | Int64Array
"""Some of the fitted rows: a slice, or their numbers."""


@dataclass(frozen=True)
class NamedSimilarity:
    """A kernel function as scikit-learn defines it under the same name, in float64."""

    name: str
    """A key of `SIMILARITIES`."""
    gamma: float | None = None
    """Parameter of "rbf" and "poly"; None for 1 / (number of columns)."""
    degree: int = 3
    """Parameter of "poly"."""
    coef0: float = 1.0
    """Parameter of "poly"."""

    def __call__(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """Return inner products, (a, b), of the images of `left`, (a, d), and `right`, (b, d)."""
        return SIMILARITIES[self.name](self, left, right)

    def scale_of(self, rows: Float64Array) -> float:
        """Return gamma for rows, (n, d)."""
        return 1 / rows.shape[1] if self.gamma is None else self.gamma


def _poly(kernel: NamedSimilarity, left: Float64Array, right: Float64Array) -> Float64Array:
    base: Float64Array = kernel.scale_of(left) * (left @ right.T) + kernel.coef0
    return reduce(np.multiply, [base] * kernel.degree)


def _rbf(kernel: NamedSimilarity, left: Float64Array, right: Float64Array) -> Float64Array:
    """Return exp(-gamma * squared distance), (a, b), of rows, (a, d) and (b, d); a row is 1 with itself."""
    gamma = kernel.scale_of(left)
    shift = left.mean(axis=0)  # far from the origin the product would round too much
    from_left, from_right = left - shift, right - shift
    squared = from_left @ from_right.T
    squared *= -2
    left_norms = np.einsum("ij,ij->i", from_left, from_left)[:, np.newaxis]
    right_norms = np.einsum("ij,ij->i", from_right, from_right)
    squared += left_norms
    squared += right_norms
    np.maximum(squared, 0, out=squared)
    if gamma * (left_norms.max() + right_norms.max()) > ROUNDED:
        exact = cdist(left, right, "sqeuclidean")
        squared = np.where(gamma * (left_norms + right_norms) > ROUNDED, exact, squared)
    if left is right:
        np.fill_diagonal(squared, 0)
    squared *= -gamma
    similar: Float64Array = np.exp(squared, out=squared)
    return similar


def unit(rows: Float64Array) -> Float64Array:
    """Return rows, (n, d), divided by their lengths; a row of zeros stays, as in scikit-learn."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1.0)  # so squares neither overflow nor vanish
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    divided: Float64Array = rows / np.where(lengths > 0, lengths, 1.0)[:, np.newaxis]
    return divided


SIMILARITIES: dict[str, Callable[[NamedSimilarity, Float64Array, Float64Array], Float64Array]] = {
    "rbf": _rbf,
    "linear": lambda _, left, right: left @ right.T,
    "poly": _poly,
    "cosine": lambda _, left, right: unit(left) @ unit(right).T,
}


class Gram(Protocol):
    """Similarities of rows with the n rows that a model was fitted on."""

    def columns(self, rows: Rows, fitted: Selection) -> Float64Array:
        """Return similarities, (a, b) and C-contiguous, of a fitted rows and rows, (b, columns)."""
        ...

    def diagonal(self, rows: Rows, first: int) -> Float64Array:
        """Return similarities, (b,), of rows, (b, columns), to themselves, from row `first` on."""
        ...


@dataclass(frozen=True)
class ComputedGram:
    """Similarities computed from the rows by a kernel function, anew in each pass."""

    similarity: Similarity
    fitted: Rows
    """(n, d), the fitted rows, float32 or float64."""

    def columns(self, rows: Rows, fitted: Selection) -> Float64Array:
        """Return the similarities of a fitted rows with rows, (b, d): (a, b)."""
        return self._between(_doubles(self.fitted[fitted]), _doubles(rows))

    def diagonal(self, rows: Rows, first: int) -> Float64Array:
        """Return the similarities of rows, (b, d), with themselves, (b,)."""
        found = np.empty(len(rows))
        for part, tile in tiles(rows, DIAGONAL_ROWS):
            doubles = _doubles(tile)
            found[part] = np.diagonal(self._between(doubles, doubles))[: part.stop - part.start]
        if (found < 0).any():
            number = int(np.argmax(found < 0))
            raise InputError(
                f"the kernel gives {found[number]:g} for row {first + number:,} and itself: "
                "squared lengths are >= 0, choose another kernel, or a coef0 >= 0"
            )
        return found

    def _between(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """Return the similarities, (a, b), of rows, (a, d) and (b, d)."""
        with np.errstate(all="ignore"):
            answer = self.similarity(left, right)
        array, wanted = np.asarray(answer), (len(left), len(right))
        if array.shape != wanted or array.dtype.kind not in "biuf":
            raise InputError(
                f"kernel(A, B) must give an array of real numbers of shape {wanted} for A of "
                f"{len(left)} and B of {len(right)} rows, got {type(answer).__name__} of "
                f"{array.dtype}, shape {array.shape}"
            )
        return np.ascontiguousarray(array, np.float64)


def _doubles(rows: Rows) -> Float64Array:
    """Return rows as aligned float64: rows from another process may start at an odd address.

    Sums of unaligned rows would round otherwise.
    """
    return np.require(rows, np.float64, ["C", "A"])


@dataclass(frozen=True)
class GivenGram:
    """Similarities given as the rows: a symmetric matrix (n, n), or (m, n) for prediction."""

    def columns(self, rows: Rows, fitted: Selection) -> Float64Array:
        """Return the similarities of a fitted rows with rows, (b, n): (a, b)."""
        return np.ascontiguousarray(rows[:, fitted].T, np.float64)

    def diagonal(self, rows: Rows, first: int) -> Float64Array:
        """Return the similarities of rows, (b, n), with themselves, (b,)."""
        numbers = np.arange(len(rows))
        return rows[numbers, first + numbers].astype(np.float64)


@dataclass(frozen=True)
class SymmetryCheck:
    """Products of a Gram matrix and of its transpose with one vector, for a run of blocks."""

    across: Float64Array
    """(rows,), each row times the vector."""
    down: Float64Array
    """(n,), each column of these rows times the vector."""
    sums: Float64Array
    """(rows,), sums of the absolute values of each row."""
    diagonal: Float64Array
    """(rows,)."""


@dataclass(frozen=True)
class Symmetry:
    """Reduction that compares a Gram matrix with its transpose by products with a random vector."""

    vector: Float64Array
    """(n,)."""

    def chunk(self, block: Block) -> SymmetryCheck:
        """Return the products of one block."""
        rows = block.doubles()
        down = self.vector[block.start : block.start + len(rows)] @ rows
        sums = np.add.reduce(np.abs(rows), axis=1)
        diagonal = GivenGram().diagonal(rows, block.start)
        return SymmetryCheck(rows @ self.vector, down, sums, diagonal)

    def combine(self, left: SymmetryCheck, right: SymmetryCheck) -> SymmetryCheck:
        """Merge the products of two neighboring runs of blocks."""
        return SymmetryCheck(
            np.concatenate([left.across, right.across]),
            left.down + right.down,
            np.concatenate([left.sums, right.sums]),
            np.concatenate([left.diagonal, right.diagonal]),
        )
