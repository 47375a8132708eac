"""Bounds from one pass over a block to the next: how near any other center can be to a row.

A row keeps its center if that is nearer than a lower bound on the row's distance to all others.
The bound shrinks by the distance that these have moved since (Hamerly 2010, section 3).  If only a
few centers have moved far or are new, a row is compared with those few instead (after Elkan
2003).  The bounds decide by strict inequality and a margin far above rounding, so that the answer
follows the definition.  All other rows are ranked against all centers.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Rows, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest_squared, nearest_two, squared_distances

Bounds = tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]
LEAST_CENTERS = 128
"""Fewest centers for which bounds are used.

With 64, a pass in which few centers moved took 1.22 (d = 2), 1.14 (d = 16) and 0.84 (d = 64) of
the time of a pass without bounds; with 128, 0.80, 0.73 and 0.62.
"""
CALM = 0.05
"""A center moves far if it moves by more than this share of `radius`."""
MOST_FAR = 0.25
"""Bounds are not used if a larger share of the centers is new or has moved far."""
MOST_UNSURE = 0.5
"""Bounds pause if they leave a larger share of rows open: for 1 pass, 3 the next time, 7, ..."""
LEAST_BOUND = 1e-30
"""Smaller lower bounds are set to 0: float32 would round them by more than the last bit."""
MARGIN = 1e-9
"""The relative rounding of distances, bounds and moves of centers, many thousand times over."""


@dataclass
class HamerlyBounds:
    """Bounds for one block of n rows; each pass changes them."""

    centers: Float64Array | None = None
    """(k, d), centers of the last pass."""
    radius: float = 0.0
    """Root mean squared distance of the rows to their centers in the last pass."""
    bounds: Bounds | None = field(default=None, repr=False)
    """Labels, (n,), and lower bounds on distances to all other centers, (n,); None if not known."""
    failures: int = 0
    """Consecutive passes in which the bounds left most rows open."""
    rest: int = 0
    """Number of next passes without bounds."""

    def assign(
        self, rows: Rows, centers: Centers, scratch: Scratch
    ) -> tuple[IndexArray, Float64Array]:
        """Return labels and squared distances, (n,) each, of the rows, (n, d), of the last pass."""
        shifts = self._shifts(centers.values)
        far = shifts > CALM * self.radius
        if self.rest or np.count_nonzero(far) > MOST_FAR * len(far):
            self.rest = max(0, self.rest - 1)
            labels, squared = nearest_squared(rows, centers, scratch)
            self.bounds = None
        else:
            labels, squared = self._assign_by_bounds(rows, centers, shifts, far, scratch)
        self.centers, self.radius = centers.values, float(np.sqrt(squared.mean()))
        return labels, squared

    def _shifts(self, values: Float64Array) -> Float64Array:
        """Return the distance, (k,), that each center has moved; infinity for a new center."""
        shifts = np.full(len(values), np.inf)
        if self.centers is not None and len(self.centers) <= len(values):
            known = len(self.centers)
            differences = values[:known] - self.centers
            shifts[:known] = np.sqrt(np.einsum("ij,ij->i", differences, differences))
        return shifts

    def _assign_by_bounds(
        self, rows: Rows, centers: Centers, shifts: Float64Array, far: BoolArray, scratch: Scratch
    ) -> tuple[IndexArray, Float64Array]:
        """Return labels, (n,), and costs, (n,): rows whose bounds leave a doubt are compared with all centers."""
        n, values = len(rows), centers.values
        kept = self.bounds
        if kept is None:
            labels, squared, lower = np.zeros(n, np.intp), np.empty(n), np.empty(n)
            unsure = np.arange(n)
        else:
            labels = kept[0].astype(np.intp)
            squared = squared_distances(rows, values, labels, scratch)
            lower = np.maximum(kept[1] - shifts[~far].max(initial=0.0) * (1 + MARGIN), 0.0)
            if far.any():
                which = np.flatnonzero(far)
                bounds = _bounds_on_far(rows, centers, which, labels, squared, scratch)
                np.minimum(lower, bounds, out=lower)
            certain = squared * (1 + MARGIN) < lower * lower * (1 - MARGIN)
            unsure = np.flatnonzero(~certain)
        if unsure.size:
            part = rows
            if unsure.size < n:
                part = rows[unsure]
            labels[unsure], seconds = nearest_two(part, centers, scratch)
            squared[unsure] = squared_distances(part, values, labels[unsure], scratch)
            lower[unsure] = np.sqrt(squared_distances(part, values, seconds, scratch))
        if kept is not None:
            self.failures += 1
            if unsure.size <= MOST_UNSURE * n:
                self.failures = 0
            self.rest = 2**self.failures - 1
        self.bounds = labels.astype(np.int32), rounded_down(lower)
        return labels, squared


def _bounds_on_far(
    rows: Rows,
    centers: Centers,
    which: IndexArray,
    labels: IndexArray,
    squared: Float64Array,
    scratch: Scratch,
) -> Float64Array:
    """Return lower bounds, (n,), on the distances to the centers that are new or moved far."""
    distances = np.sqrt(squared)
    bounds = _distances_to_some(centers.values, which)[labels] * (1 - MARGIN) - distances
    open_rows = np.flatnonzero(~(bounds > distances * (1 + MARGIN)))
    some = Centers(centers.values[which])
    if open_rows.size < len(rows) // 2:
        bounds[open_rows] = np.sqrt(nearest_squared(rows[open_rows], some, scratch)[1])
    else:
        bounds[:] = np.sqrt(nearest_squared(rows, some, scratch)[1])
    return bounds


def _distances_to_some(centers: Float64Array, which: IndexArray) -> Float64Array:
    """Return the distance of each center, (k,), to the nearest of some centers; 0 for these.

    A row at distance u from its own center is at least this distance minus u away from all of them.
    """
    _, squared = nearest_squared(centers, Centers(centers[which]))
    return np.sqrt(squared)


def rounded_down(values: Float64Array) -> npt.NDArray[np.float32]:
    """Return values, (n,), rounded down to float32; 0 for values below `LEAST_BOUND`."""
    single = np.minimum(values, np.finfo(np.float32).max).astype(np.float32)
    single *= np.float32(1 - 2.0**-22)
    single[single < LEAST_BOUND] = 0
    return single
