"""Types of the arrays that rows are read from."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

Raw = npt.NDArray[Any]
"""Numbers as they are stored."""
RawRows = Raw | csr_array
"""Rows as they are stored, dense or CSR."""


class RowArray(Protocol):
    """An array that is sliced by rows: NumPy's, Zarr's, Dask's, a file, or CSR rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, and columns if there are two dimensions."""
        ...

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored numbers."""
        ...

    def __getitem__(self, rows: slice, /) -> Any: ...
