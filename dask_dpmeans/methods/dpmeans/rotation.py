"""A summary of fewer rows than columns, in as many columns as it has rows.

The rows lie in the space that they span.  Its coordinates keep all distances, and so the squared error
of every division, but for rounding: a choice tries all numbers of clusters in them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.common import check_squares
from dask_dpmeans.methods.dpmeans.summary import is_wide


@dataclass(frozen=True)
class Rotation:
    """Rows in the coordinates of a space that holds them all."""

    rows: InMemoryRows
    """(n, m)."""
    origin: Float64Array | None = None
    """(d,); None if the rows are as they were."""
    directions: Float64Array | None = None
    """(m, d), orthonormal, of the coordinates."""

    def lift(self, centers: Float64Array) -> Float64Array:
        """Return centers, (k, m), among the rows as they were, (k, d)."""
        if self.origin is None or self.directions is None:
            return centers
        return centers @ self.directions + self.origin


def rotate(source: Source, rows: InMemoryRows, spherical: bool) -> Rotation:
    """Return a summary in fewer columns, found by a worker of a source, or as it is if it is not wide."""
    if not is_wide(*rows.rows.shape):
        return Rotation(rows)
    check_squares(rows.summary)
    return source.run([RotationJob(spherical)], rows, "choose")[0]


@dataclass(frozen=True)
class RotationJob:
    """The rotation of a summary, as a job."""

    spherical: bool
    """Whether centers are directions: then rows keep their origin, and others are as near 0 as can be."""

    def __call__(self, rows: InMemoryRows) -> Rotation:
        """Return the rotation: equal rows stay equal, and the order of rows changes nothing else."""
        values, places = np.unique(rows.rows.astype(np.float64) + 0.0, axis=0, return_inverse=True)
        origin = np.zeros(values.shape[1]) if self.spherical else values.mean(axis=0)
        values -= origin
        basis, coordinates = scipy.linalg.qr(values.T, mode="economic", overwrite_a=True)
        rotated = np.ascontiguousarray(coordinates.T[places.ravel()])
        return Rotation(InMemoryRows(rotated, rows.weights), origin, basis.T)
