"""A block: the run of rows that a kernel sees at once, and the memory that kernels work in."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.floating[Any]]
Float64Array = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]
BoolArray = npt.NDArray[np.bool_]
IntegerArray = npt.NDArray[np.signedinteger[Any]]
Labels = npt.NDArray[np.int32]


class Scratch:
    """Buffers that a task's kernels use again from block to block.

    Dask starts its workers so that freed memory goes back to the system at once, and fresh pages then cost more than
    the arithmetic: a pass at d = 128, k = 166 took 2.4 times as long without these buffers.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, np.dtype[Any]], npt.NDArray[Any]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An uninitialized array; the next one of this name and dtype overwrites it."""
        size, key = prod(shape), (name, np.dtype(dtype))
        if key not in self._buffers or self._buffers[key].size < size:
            self._buffers[key] = np.empty(size, dtype)
        return self._buffers[key][:size].reshape(shape)


class Features(Protocol):
    """What kernels see instead of the rows: a map of each row, as a value that is hashable."""

    @property
    def n_features(self) -> int | None:
        """Columns that it makes; None for as many as the rows have."""
        ...

    def __call__(self, rows: Rows, scratch: Scratch) -> Rows:
        """Rows, (height, columns), as (height, n_features) of the same dtype; NaN where a row cannot be mapped."""
        ...

    def complaint(self, place: str) -> str:
        """What to say of a row that cannot be mapped."""
        ...


@dataclass(frozen=True)
class Block:
    """A run of rows.  They stand in memory that the next block may use again."""

    start: int
    """Global number of the first row."""
    rows: Rows
    """(height, d), float32 or float64, C-contiguous and aligned.

    Where the source was asked for sparse rows it is a `scipy.sparse.csr_array` of float64, with each place once and the
    columns of a row in order.
    """
    weights: Float64Array | None
    """(height,), or None where every row weighs 1."""
    scratch: Scratch = field(default_factory=Scratch, repr=False, compare=False)
    """Where kernels put what they do not return."""
    memory: dict[str, Any] | None = field(default=None, repr=False, compare=False)
    """What kernels keep of these rows from pass to pass; None where the rows are read anew each time."""
    groups: Int64Array | None = None
    """(height,), numbers of the data sets that the rows belong to, or None where there is but one."""

    def doubles(self) -> Float64Array:
        """The rows in float64, (height, d)."""
        if self.rows.dtype == np.float64:
            return self.rows.view(np.float64)
        doubles = self.scratch.array("doubles", self.rows.shape, np.float64)
        doubles[...] = self.rows
        return doubles


def tiles(rows: Rows, height: int) -> Iterator[tuple[slice, Rows]]:
    """Runs of `height` rows; the last is filled up with copies of its last row.

    Products of one shape round alike, so that a row's similarities do not follow from how many others come with it.
    """
    for start in range(0, len(rows), height):
        part = slice(start, min(start + height, len(rows)))
        missing = height - (part.stop - start)
        yield part, np.pad(rows[part], ((0, missing), (0, 0)), mode="edge") if missing else rows[part]
