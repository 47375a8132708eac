"""A block: the rows that a kernel gets at once, and the memory that kernels work in."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

Rows = npt.NDArray[np.floating[Any]]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
IntegerArray = npt.NDArray[np.signedinteger[Any]]
Labels = npt.NDArray[np.int32]


class Scratch:
    """Buffers that the kernels of a task use again from block to block.

    Dask starts its workers so that freed memory goes back to the system at once, and fresh pages
    then cost more than the arithmetic: a pass at d = 128, k = 166 took 2.4 times as long without
    buffers.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, np.dtype[Any]], npt.NDArray[Any]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return an uninitialized array of this shape, such as (n, d).

        The next array of the same name and dtype overwrites it.
        """
        size, key = prod(shape), (name, np.dtype(dtype))
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, dtype)
        return self._buffers[key][:size].reshape(shape)


class Features(Protocol):
    """A map of rows to the features that kernels see instead; a hashable value."""

    @property
    def n_features(self) -> int | None:
        """Number of features; None if it equals the number of columns."""
        ...

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """Map rows, (height, d), to (height, n_features) of the same dtype; invalid rows to NaN."""
        ...

    def error_message(self, position: str) -> str:
        """Return the error message for a row, at `position`, that cannot be mapped."""
        ...


@dataclass(frozen=True)
class Block:
    """Consecutive rows.  The next block may overwrite their memory."""

    start: int
    """Global number of the first row."""
    rows: Rows
    """(height, d), float32 or float64, C-contiguous and aligned.

    If the source was asked for sparse rows, or has them for a kernel that `takes_csr`, this is a
    `scipy.sparse.csr_array` of float64 without duplicates; the columns of each row ascend.
    """
    weights: Float64Array | None
    """(height,), or None if every row weighs 1."""
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)
    """Memory for intermediate results."""
    memory: dict[str, Any] | None = field(default=None, repr=False, compare=False)
    """State that kernels keep for these rows between passes; None if each pass reads them again."""
    groups: Int64Array | None = None
    """(height,), numbers of the data sets of the rows; None if there is one data set."""

    def doubles(self) -> Float64Array:
        """Return the rows, (height, d), in float64."""
        if self.rows.dtype == np.float64:
            return self.rows.view(np.float64)
        doubles = self.scratch.array("doubles", self.rows.shape, np.float64)
        doubles[...] = self.rows
        return doubles

    def row_weights(self, rows: IndexArray | None = None) -> Float64Array:
        """Return the weights, (height,), of all or some rows, also if every row weighs 1."""
        if self.weights is None:
            return np.ones(self.rows.shape[0] if rows is None else len(rows))
        return self.weights if rows is None else self.weights[rows]


def takes_csr(worker: object) -> bool:
    """Return whether a kernel, a reduction or a map of rows takes CSR rows as well as dense rows.

    It then has the attribute of this name.
    """
    return bool(getattr(worker, "takes_csr", False))


def dense(rows: Any) -> Rows:
    """Return rows, (n, d), that may be CSR, as an array."""
    array: Rows = rows.toarray() if issparse(rows) else rows
    return array


def row_numbers(rows: csr_array) -> IndexArray:
    """Return the row of each stored value, (m,), of CSR rows."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def tiles(rows: Rows, height: int) -> Iterator[tuple[slice, Rows]]:
    """Yield `height` rows at a time, (height, d); copies of the last row fill the last tile.

    Products of one shape round alike, so that the features of a row do not depend on the other
    rows.
    """
    for start in range(0, len(rows), height):
        part = slice(start, min(start + height, len(rows)))
        tile, missing = rows[part], start + height - part.stop
        if missing:
            tile = np.pad(tile, ((0, missing), (0, 0)), mode="edge")
        yield part, tile
