"""Similarities of rows: what stands for inner products in the space of a kernel function, a tile at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array, Int64Array, Rows, tiles

TILE_ROWS = 2**8
"""Rows whose similarities are computed together."""
TILE_FITTED = 2**11
"""Fitted rows that these are compared with at a time: a tile of similarities takes 4 MB."""
DIAGONAL_ROWS = 2**6
"""Rows that are compared with one another for the sake of the diagonal alone."""
ROUNDED = 2.0**22
"""Gamma times the squared lengths of two rows, above which their similarity by a product would lose its ninth digit:
differences of their columns make it instead."""

Similarity = Callable[[Float64Array, Float64Array], Float64Array]
"""A kernel function: of A, (a, d), and B, (b, d), the inner products of their images, (a, b)."""
Selection = slice | Int64Array
"""Some of the fitted rows: a run of them, or their numbers."""


@dataclass(frozen=True)
class NamedSimilarity:
    """A kernel function as scikit-learn defines it under the same name, of rows in float64."""

    name: str
    """One of `SIMILARITIES`."""
    gamma: float | None = None
    """Of "rbf" and "poly"; None for 1 / (number of columns)."""
    degree: int = 3
    """Of "poly"."""
    coef0: float = 1.0
    """Of "poly"."""

    def __call__(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """The inner products of the images of `left`, (a, d), and `right`, (b, d): (a, b)."""
        return SIMILARITIES[self.name](self, left, right)

    def scale_of(self, rows: Float64Array) -> float:
        """Gamma, for rows of so many columns."""
        return 1 / rows.shape[1] if self.gamma is None else self.gamma


def _linear(_: NamedSimilarity, left: Float64Array, right: Float64Array) -> Float64Array:
    return left @ right.T


def _poly(kernel: NamedSimilarity, left: Float64Array, right: Float64Array) -> Float64Array:
    base: Float64Array = kernel.scale_of(left) * (left @ right.T) + kernel.coef0
    return reduce(np.multiply, [base] * kernel.degree)


def _rbf(kernel: NamedSimilarity, left: Float64Array, right: Float64Array) -> Float64Array:
    gamma, shift = kernel.scale_of(left), left.mean(axis=0)  # rows far from the origin lose nothing in the product then
    here, there = left - shift, right - shift
    squared = here @ there.T
    squared *= -2
    lengths = np.einsum("ij,ij->i", here, here)[:, np.newaxis], np.einsum("ij,ij->i", there, there)
    squared += lengths[0]
    squared += lengths[1]
    np.maximum(squared, 0, out=squared)
    if gamma * (lengths[0].max() + lengths[1].max()) > ROUNDED:
        exact = cdist(left, right, "sqeuclidean")
        squared = np.where(gamma * (lengths[0] + lengths[1]) > ROUNDED, exact, squared)
    if left is right:
        np.fill_diagonal(squared, 0)
    squared *= -gamma
    similar: Float64Array = np.exp(squared, out=squared)
    return similar


def _cosine(_: NamedSimilarity, left: Float64Array, right: Float64Array) -> Float64Array:
    return unit(left) @ unit(right).T


def unit(rows: Float64Array) -> Float64Array:
    """Rows of length 1; a row of zeros stays one, as scikit-learn has it."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = rows / np.where(largest > 0, largest, 1.0)  # squares of these neither overflow nor vanish
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    divided: Float64Array = rows / np.where(lengths > 0, lengths, 1.0)[:, np.newaxis]
    return divided


SIMILARITIES: dict[str, Callable[[NamedSimilarity, Float64Array, Float64Array], Float64Array]] = {
    "rbf": _rbf,
    "linear": _linear,
    "poly": _poly,
    "cosine": _cosine,
}


class Gram(Protocol):
    """The similarities of rows and the n rows that a model was fitted on."""

    def columns(self, rows: Rows, fitted: Selection) -> Float64Array:
        """Those of some fitted rows, (a,), and of the rows that a kernel sees, (b, columns): (a, b), C-contiguous."""
        ...

    def diagonal(self, rows: Rows, first: int) -> Float64Array:
        """Those of rows with themselves, (b,); the first has the global number `first`."""
        ...


@dataclass(frozen=True)
class ComputedGram:
    """Similarities that a function computes from the rows, again in each pass."""

    similarity: Similarity
    fitted: Rows
    """(n, d), the fitted rows, float32 or float64."""

    def columns(self, rows: Rows, fitted: Selection) -> Float64Array:
        """Those of some fitted rows, (a,), and of rows (b, d): (a, b)."""
        return self._between(_doubles(self.fitted[fitted]), _doubles(rows))

    def diagonal(self, rows: Rows, first: int) -> Float64Array:
        """Those of rows with themselves, (b,)."""
        found = np.empty(len(rows))
        for part, tile in tiles(rows, DIAGONAL_ROWS):
            doubles = _doubles(tile)
            found[part] = np.diagonal(self._between(doubles, doubles))[: part.stop - part.start]
        if (found < 0).any():
            number = int(np.argmax(found < 0))
            raise InputError(
                f"the kernel gives {found[number]:g} for row {first + number:,} and itself: squared lengths are >= 0, "
                "choose another kernel, or a coef0 >= 0"
            )
        return found

    def _between(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """Those of rows (a, d) and (b, d): (a, b)."""
        with np.errstate(all="ignore"):
            answer = self.similarity(left, right)
        array, wanted = np.asarray(answer), (len(left), len(right))
        if array.shape != wanted or array.dtype.kind not in "biuf":
            raise InputError(
                f"kernel(A, B) must give an array of real numbers of shape {wanted} for A of {len(left)} and B of "
                f"{len(right)} rows, got {type(answer).__name__} of {array.dtype}, shape {array.shape}"
            )
        return np.ascontiguousarray(array, np.float64)


def _doubles(rows: Rows) -> Float64Array:
    """Rows in float64, aligned: what came from another process may start at an odd address, and sums otherwise."""
    return np.require(rows, np.float64, ["C", "A"])


@dataclass(frozen=True)
class GivenGram:
    """Similarities that are the rows themselves: a symmetric matrix (n, n), or (m, n) for prediction."""

    def columns(self, rows: Rows, fitted: Selection) -> Float64Array:
        """Those of some fitted rows, (a,), and of rows (b, n): (a, b)."""
        return np.ascontiguousarray(rows[:, fitted].T, np.float64)

    def diagonal(self, rows: Rows, first: int) -> Float64Array:
        """Those of rows with themselves, (b,)."""
        places = np.arange(len(rows))
        return rows[places, first + places].astype(np.float64)


@dataclass(frozen=True)
class Likeness:
    """What a pass over a Gram matrix tells of its symmetry."""

    across: Float64Array
    """(rows so far,), each row times the vector."""
    down: Float64Array
    """(n,), each column of these rows times the vector."""
    sums: Float64Array
    """(rows so far,), of the absolute values of each row."""
    diagonal: Float64Array
    """(rows so far,)."""


@dataclass(frozen=True)
class Symmetry:
    """The reduction that compares a Gram matrix with its transpose: both times one vector of random numbers."""

    vector: Float64Array
    """(n,)."""

    def chunk(self, block: Any) -> Likeness:
        """The likeness of one block."""
        rows = block.doubles()
        down = self.vector[block.start : block.start + len(rows)] @ rows
        sums = np.add.reduce(np.abs(rows), axis=1)
        return Likeness(rows @ self.vector, down, sums, GivenGram().diagonal(rows, block.start))

    def combine(self, left: Likeness, right: Likeness) -> Likeness:
        """That of two neighboring runs."""
        joined = (np.concatenate(pair) for pair in zip(_by_row(left), _by_row(right), strict=True))
        across, sums, diagonal = joined
        return Likeness(across, left.down + right.down, sums, diagonal)


def _by_row(likeness: Likeness) -> tuple[Float64Array, Float64Array, Float64Array]:
    return likeness.across, likeness.sums, likeness.diagonal
