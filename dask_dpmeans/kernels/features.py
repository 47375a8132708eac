"""What kernels may see instead of the rows as they are given: maps of each row."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Rows, Scratch


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
