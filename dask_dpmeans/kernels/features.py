"""What kernels may see instead of the rows as they are given: maps of each row."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Rows, Scratch, tiles

TILE = 256
"""Rows of a product: BLAS rounds a row differently in tables of other heights."""
NOTHING = 1e-6
"""A row of which the kept eigenvectors hold no more than this share of its length has no direction among them: of rows
that they should hold nothing of, rounding left up to 1.4e-15, and 4.4e-8 where these were float32 (d = 3 to 784)."""


@dataclass(frozen=True)
class UnitRows:
    """Each row divided by its length, so that its squared distance to another is 2 (1 - cosine)."""

    n_features: None = None
    """As many columns as the rows have."""

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """Rows of unit length; NaN where all columns are 0."""
        largest = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            unit = rows / largest  # squares of these neither overflow nor vanish
            unit /= np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, np.newaxis]
        answer = scratch.array("features", rows.shape, rows.dtype)
        answer[...] = unit
        return answer

    def complaint(self, place: str) -> str:
        """What to say of a row without a direction."""
        return (
            f"data is 0 in every column at {place}: such a row has no direction; remove it, or use metric='euclidean'"
        )


@dataclass(frozen=True)
class Axes:
    """Linear functions of a row, or of its Gaussian kernel with landmarks (the Nystroem features of Williams & Seeger
    2001): products of what two rows are mapped to make up the affinity matrix, or what stands for it."""

    matrix: Float64Array
    """(d, c), or (m, c) where there are landmarks."""
    landmarks: Float64Array | None = None
    """(m, d)."""
    gamma: float = 0.0
    """The kernel is exp(-gamma * squared distance)."""

    def __call__(self, rows: Float64Array) -> Float64Array:
        """(height, c), of rows (height, d)."""
        if self.landmarks is None:
            return rows @ self.matrix
        return radial(rows, self.landmarks, self.gamma) @ self.matrix


def radial(rows: Float64Array, landmarks: Float64Array, gamma: float) -> Float64Array:
    """(height, m), the Gaussian kernel of rows, (height, d), and landmarks, (m, d)."""
    kernel: Float64Array = cdist(rows, landmarks, "sqeuclidean")
    kernel *= -gamma
    return np.exp(kernel, out=kernel)


def double_tiles(rows: Rows, scratch: Scratch) -> Iterator[tuple[slice, Float64Array]]:
    """Tiles of `TILE` rows in float64; the next overwrites one."""
    for part, tile in tiles(rows, TILE):
        doubles = scratch.array("tile", tile.shape, np.float64)
        doubles[...] = tile
        yield part, doubles


@dataclass(frozen=True)
class Projection:
    """The row of Y, the eigenvectors of an affinity matrix, that a row has or would have; at unit length.

    It depends on nothing but the row, so that rows that were not fitted have one too.
    """

    axes: Axes = field(compare=False)
    """Along the eigenvectors."""
    eigenvalues: Float64Array = field(compare=False)
    """(r,), > 0."""
    digest: str = field(repr=False)
    """Of all of these, by which equal ones are told."""

    @classmethod
    def of(cls, axes: Axes, eigenvalues: Float64Array) -> "Projection":
        """The projection with its digest."""
        digest = hashlib.sha256(repr((axes.matrix.shape, axes.gamma)).encode())
        for array in (axes.matrix, axes.landmarks, eigenvalues):
            digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
        return cls(axes, eigenvalues, digest.hexdigest())

    @property
    def n_features(self) -> int:
        """Eigenvectors."""
        return len(self.eigenvalues)

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """(height, r): rows of unit length, or 0 where the eigenvectors hold nothing of a row."""
        answer = scratch.array("features", (len(rows), self.n_features), rows.dtype)
        for part, tile in double_tiles(rows, scratch):
            answer[part] = self._tile(tile)[: part.stop - part.start]
        return answer

    def _tile(self, tile: Float64Array) -> Float64Array:
        lengths: float | Float64Array = 1.0  # of the kernel, in its own space
        if self.axes.landmarks is None:
            largest = np.abs(tile).max(axis=1, keepdims=True)
            tile /= np.where(largest > 0, largest, 1.0)  # squares of these neither overflow nor vanish
            lengths = np.sqrt(np.einsum("ij,ij->i", tile, tile))
        along = self.axes(tile)
        nothing = np.sqrt(np.einsum("ij,ij->i", along, along)) <= NOTHING * lengths
        return unit_or_zero(along / np.sqrt(self.eigenvalues), nothing)

    def complaint(self, place: str) -> str:
        """What to say of a row that cannot be mapped: its kernel overflows, which finite rows of a fit cannot do."""
        return f"data cannot be projected at {place}: its squared distances overflow float64; divide it by a constant"


def unit_or_zero(rows: Float64Array, nothing: BoolArray) -> Float64Array:
    """Rows, (height, r), divided by their lengths, and 0 where there is `nothing`, (height,)."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    unit: Float64Array = rows / np.where(nothing, 1.0, lengths)[:, np.newaxis]
    unit[nothing] = 0.0
    return unit
