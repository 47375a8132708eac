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
        digests = []
        for array, answer in zip(self.arrays, answers, strict=True):
            if isinstance(array, np.ndarray):  # in memory, where nothing is compared
                array[start : start + len(answer)] = answer
                digests.append(np.empty((0, DIGEST_BYTES), np.uint8))
            else:
                digests.append(arrays.write_chunks(array, start, answer))
        return np.stack(digests, axis=1)
