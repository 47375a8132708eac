"""Rows of more columns than rows, in as many columns as there are rows.

The rows lie in the space that they span.  Its coordinates keep all distances, and so the squared error
of every division, but for rounding: a choice tries numbers of clusters, and a search runs, in them.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.linalg

from dask_dpmeans.kernels.block import Float64Array

WIDE = 1.25
"""Least columns for each row of rows that are rotated into fewer columns."""


def is_wide(n: int, d: int) -> bool:
    """Return whether n rows of d columns are to be rotated."""
    return d >= WIDE * n


@dataclass(frozen=True)
class Rotation:
    """Coordinates of rows in a space that holds them all."""

    coordinates: Float64Array
    """(n, m), with m the lesser of n and d."""
    origin: Float64Array
    """(d,)."""
    directions: Float64Array
    """(m, d), orthonormal, of the coordinates."""

    @classmethod
    def of(cls, rows: Float64Array, spherical: bool) -> Self:
        """Return the rotation of rows, (n, d).

        If centers are directions, the origin stays 0; otherwise it is the mean, so that rows far from
        0 lose nothing.
        """
        origin = np.zeros(rows.shape[1]) if spherical else rows.mean(axis=0)
        basis, coordinates = scipy.linalg.qr((rows - origin).T, mode="economic", overwrite_a=True)
        return cls(np.ascontiguousarray(coordinates.T), origin, np.ascontiguousarray(basis.T))

    def lift(self, centers: Float64Array) -> Float64Array:
        """Return centers, (k, m), in the columns of the rows, (k, d)."""
        return centers @ self.directions + self.origin
