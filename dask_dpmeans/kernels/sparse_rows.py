"""The most probable clusters of rows as a sparse array."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import IntegerArray, Labels
from dask_dpmeans.kernels.numba_support import compile_loop

Probabilities = npt.NDArray[np.float32]


@dataclass(frozen=True)
class SparseRows:
    """The sink of a map, for the answers of `pack`: CSR rows, with gaps between chunks."""

    top: int
    starts: IntegerArray
    """(n + 1,), 0 and the number of clusters of each row."""
    numbers: Labels
    """(n * top,), clusters; each chunk of rows fills the beginning of its part."""
    probabilities: Probabilities
    """(n * top,), likewise."""

    @classmethod
    def empty(cls, n: int, top: int) -> "SparseRows":
        """Return memory for at most `top` clusters of n rows; unused pages cost nothing."""
        most = n * top
        index: type[np.signedinteger[Any]] = np.int32
        if most >= 2**31:
            index = np.int64
        return cls(
            top, np.zeros(n + 1, index), np.empty(most, np.int32), np.empty(most, np.float32)
        )

    def __call__(self, start: int, answers: tuple[np.ndarray[Any, Any], ...]) -> tuple[int, int]:
        """Write the answers of `pack` for rows from `start` on.

        Return the first place in `numbers`, and how many clusters were written.
        """
        counts, numbers, probabilities = answers
        place, size = start * self.top, len(numbers)
        self.starts[start + 1 : start + 1 + len(counts)] = counts
        self.numbers[place : place + size] = numbers
        self.probabilities[place : place + size] = probabilities
        return place, size

    def join(self, parts: Iterable[tuple[int, int]], k: int) -> Any:
        """Return all rows as a `scipy.sparse.csr_array`, (n, k), in the same memory.

        Parts are moved: new memory for all rows, as `scipy.sparse.vstack` takes it, took 15 % of the
        time of `predict_proba` where clusters overlap.
        """
        filled = 0
        for place, size in parts:
            for array in (self.numbers, self.probabilities):
                array[filled : filled + size] = array[place : place + size]
            filled += size
        for array in (self.numbers, self.probabilities):
            array.resize(filled, refcheck=False)
        np.cumsum(self.starts, out=self.starts)
        rows = self.probabilities, self.numbers, self.starts
        return csr_array(rows, shape=(len(self.starts) - 1, k))


def pack(labels: Labels, probabilities: Probabilities) -> tuple[Labels, Labels, Probabilities]:
    """Drop labels that are -1 from rows, (n, top).

    Return the number of labels left in each row, (n,), then these labels and their probabilities,
    (m,).
    """
    filled = labels >= 0
    if not numba_support.AVAILABLE:
        return filled.sum(axis=1, dtype=np.int32), labels[filled], probabilities[filled]
    counts, size = np.empty(len(labels), np.int32), np.count_nonzero(filled)
    numbers, values = np.empty(size + 1, np.int32), np.empty(size + 1, np.float32)
    _pack_compiled(labels, probabilities, counts, numbers, values)
    return counts, numbers[:size], values[:size]


@compile_loop
def _pack_compiled(
    labels: Labels,
    probabilities: Probabilities,
    counts: Labels,
    numbers: Labels,
    values: Probabilities,
) -> None:
    """Fill in the answers of `pack`; labels and probabilities have one place more."""
    filled = 0
    for i in range(len(labels)):
        before = filled
        for place in range(labels.shape[1]):  # without a branch: rows have any number of labels
            numbers[filled], values[filled] = labels[i, place], probabilities[i, place]
            filled += labels[i, place] >= 0
        counts[i] = filled - before
