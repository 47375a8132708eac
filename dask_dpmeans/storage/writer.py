"""`Writer`: answers for rows, written to arrays in memory or in a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.lazy import LazyModule
from dask_dpmeans.storage.array_spec import DIGEST_BYTES, Digests

if TYPE_CHECKING:
    import zarr

    from dask_dpmeans.storage import arrays
else:
    arrays = LazyModule("dask_dpmeans.storage.arrays")


@dataclass(frozen=True)
class Writer:
    """Arrays over the rows that the answers of a map are written to."""

    arrays: "Sequence[zarr.Array[Any] | np.ndarray[Any, Any]]"

    def __call__(self, start: int, answers: tuple[np.ndarray[Any, Any], ...]) -> Digests:
        """Write answers, (m, ...), for whole chunks of rows from `start` on.

        Return the digests, (chunk, array, byte).
        """
        parts = zip(self.arrays, answers, strict=True)
        return np.stack([_write(array, start, answer) for array, answer in parts], axis=1)


def _write(
    array: "zarr.Array[Any] | np.ndarray[Any, Any]", start: int, answer: np.ndarray[Any, Any]
) -> Digests:
    """Write rows, and return the digests of their chunks; an array in memory has none."""
    if isinstance(array, np.ndarray):
        array[start : start + len(answer)] = answer
        return np.empty((0, DIGEST_BYTES), np.uint8)
    return arrays.write_chunks(array, start, answer)
