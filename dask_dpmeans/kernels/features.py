"""Feature maps: functions of single rows whose values kernels see instead of the rows."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, Rows, Scratch, tiles

TILE = 256
"""Rows of a product: BLAS rounds a row differently in matrices of other heights."""
NEGLIGIBLE = 1e-6
"""A row has no direction if its part in the span of the eigenvectors is at most this share of its
length.

For rows orthogonal to the eigenvectors, rounding left shares up to 1.4e-15, and up to 4.4e-8 if
these were float32 (d = 3 to 784).
"""


@dataclass(frozen=True)
class UnitRows:
    """Each row divided by its length: the squared distance of two such rows is 2 (1 - cosine)."""

    n_features: None = None
    """None: there are as many features as columns."""

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """Return rows, (height, d), at unit length; NaN for rows that are 0 in all columns."""
        largest = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            unit = rows / largest  # squares of these neither overflow nor vanish
            unit /= np.sqrt(np.einsum("ij,ij->i", unit, unit))[:, np.newaxis]
        features = scratch.array("features", rows.shape, rows.dtype)
        features[...] = unit
        return features

    def error_message(self, position: str) -> str:
        """Return the error message for a row of zeros."""
        return (
            f"data is 0 in every column at {position}: such a row has no direction; "
            "remove it, or use metric='euclidean'"
        )


@dataclass(frozen=True)
class Axes:
    """Linear functions of a row, or of its Gaussian kernel with landmarks.

    The second are the Nystroem features of Williams & Seeger 2001.  Products of the features of
    two rows approximate the affinity matrix.
    """

    matrix: Float64Array
    """(d, c); with landmarks (m, c)."""
    landmarks: Float64Array | None = None
    """(m, d)."""
    gamma: float = 0.0
    """The kernel is exp(-gamma * squared distance)."""

    def __call__(self, rows: Float64Array) -> Float64Array:
        """Return the features, (height, c), of rows, (height, d)."""
        if self.landmarks is None:
            return rows @ self.matrix
        return rbf_kernel(rows, self.landmarks, self.gamma) @ self.matrix


def rbf_kernel(rows: Float64Array, landmarks: Float64Array, gamma: float) -> Float64Array:
    """Return the Gaussian kernel, (height, m), of rows, (height, d), and landmarks, (m, d)."""
    kernel: Float64Array = cdist(rows, landmarks, "sqeuclidean")
    kernel *= -gamma
    return np.exp(kernel, out=kernel)


def double_tiles(rows: Rows, scratch: Scratch) -> Iterator[tuple[slice, Float64Array]]:
    """Yield tiles, (`TILE`, d), of rows in float64; the next tile overwrites the memory."""
    for part, tile in tiles(rows, TILE):
        doubles = scratch.array("tile", tile.shape, np.float64)
        doubles[...] = tile
        yield part, doubles


@dataclass(frozen=True)
class Projection:
    """A row of Y, the matrix of eigenvectors of an affinity matrix, at unit length.

    It depends on nothing but the input row, so that new rows have a projection too.
    """

    axes: Axes = field(compare=False)
    """Directions of the eigenvectors."""
    eigenvalues: Float64Array = field(compare=False)
    """(r,), > 0."""
    digest: str = field(repr=False)
    """Checksum of all arrays; equal projections have equal checksums."""

    @classmethod
    def of(cls, axes: Axes, eigenvalues: Float64Array) -> "Projection":
        """Return the projection, with its digest, for eigenvalues, (r,)."""
        digest = hashlib.sha256(repr((axes.matrix.shape, axes.gamma)).encode())
        for array in (axes.matrix, axes.landmarks, eigenvalues):
            if array is not None:
                digest.update(np.ascontiguousarray(array).tobytes())
        return cls(axes, eigenvalues, digest.hexdigest())

    @property
    def n_features(self) -> int:
        """Number of eigenvectors."""
        return len(self.eigenvalues)

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """Return features, (height, r), of unit length; 0 for rows without a direction."""
        features = scratch.array("features", (len(rows), self.n_features), rows.dtype)
        for part, tile in double_tiles(rows, scratch):
            features[part] = self._project(tile)[: part.stop - part.start]
        return features

    def _project(self, tile: Float64Array) -> Float64Array:
        lengths: float | Float64Array = 1.0  # of a row in the space of the Gaussian kernel
        if self.axes.landmarks is None:
            largest = np.abs(tile).max(axis=1, keepdims=True)
            tile /= np.where(largest > 0, largest, 1.0)  # squares then neither overflow nor vanish
            lengths = np.sqrt(np.einsum("ij,ij->i", tile, tile))
        along = self.axes(tile)
        negligible = np.sqrt(np.einsum("ij,ij->i", along, along)) <= NEGLIGIBLE * lengths
        return unit_or_zero(along / np.sqrt(self.eigenvalues), negligible)

    def error_message(self, position: str) -> str:
        """Return the error message for a row, never a fitted one, whose kernel overflows."""
        reason = "its squared distances overflow float64"
        return f"data cannot be projected at {position}: {reason}; divide it by a constant"


def unit_or_zero(rows: Float64Array, negligible: BoolArray) -> Float64Array:
    """Return rows, (height, r), divided by their lengths; 0 for `negligible` rows, (height,)."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    unit: Float64Array = rows / np.where(negligible, 1.0, lengths)[:, np.newaxis]
    unit[negligible] = 0.0
    return unit


@dataclass(frozen=True)
class ColumnProducts(SummedAnswers):
    """The reduction to Z' W Z, (c, c): Z holds the features of the rows, W their weights."""

    axes: Axes | None = None
    """Map of the rows to features; None for the rows themselves."""

    def chunk(self, block: Block) -> Float64Array:
        """Return the products, (c, c), of one block."""
        columns, roots = block.rows.shape[1], None
        if self.axes is not None:
            columns = self.axes.matrix.shape[1]
        if block.weights is not None:
            roots = np.sqrt(block.weights)[:, np.newaxis]
        gram = np.zeros((columns, columns))
        with np.errstate(over="ignore", invalid="ignore"):
            for part, tile in double_tiles(block.rows, block.scratch):
                features = tile
                if self.axes is not None:
                    features = self.axes(tile)
                features = features[: part.stop - part.start]
                if roots is not None:
                    features = features * roots[part]
                gram += features.T @ features  # of one array, so that it is symmetric to the bit
        return gram
