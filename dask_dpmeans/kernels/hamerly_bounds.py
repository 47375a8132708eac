"""What a block's last assignment spares the next one: a bound on how near any other center can have come.

A row keeps its center where that is nearer than a lower bound on its distance to all others; the bound shrinks by what
these have moved since (Hamerly 2010, section 3).  Where only a few centers moved far or are new, a row is measured
against those few instead (after Elkan 2003).  The bounds decide by strict inequality and a margin far above rounding,
so that the answer is the definition's; all other rows are ranked against all centers.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Rows, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest_squared, nearest_two, squared_distances

LEAST_CENTERS = 128
"""With 64, a pass in which few moved took 1.22 (d = 2), 1.14 (d = 16) and 0.84 (d = 64) of the time of one without
bounds; with 128, 0.80, 0.73 and 0.62."""
CALM = 0.05
"""A center has moved far where that is more than this share of the root mean squared distance of rows to centers."""
MOST_FAR = 0.25
"""The share of centers that are new or have moved far, above which bounds are not looked at."""
MOST_UNSURE = 0.5
"""The share of rows that the bounds leave open, above which they are given up: for 1 pass, 3 the next time, 7, ..."""
LEAST_BOUND = 1e-30
"""Lower bounds below it are none: float32 would round them by more than the last bit."""
MARGIN = 1e-9
"""The relative rounding of distances, bounds and what centers moved, many thousand times over."""


@dataclass
class Memory:
    """Of one block of rows that stay the same; each pass changes it."""

    centers: Float64Array | None = None
    """(k, d), of the last pass."""
    radius: float = 0.0
    """Root mean squared distance of the rows to their centers in that pass."""
    bounds: tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]] | None = field(default=None, repr=False)
    """(n,) labels, and what no center but a row's own is nearer to it than, (n,); None where they are not kept."""
    failures: int = 0
    """Times in a row that the bounds left most rows open."""
    rest: int = 0
    """Passes to come without bounds, after that."""

    def assign(self, rows: Rows, centers: Centers, scratch: Scratch) -> tuple[IndexArray, Float64Array]:
        """Labels and squared distances, (n,) each, of the same rows, (n, d), as the last time."""
        shifts = self._shifts(centers.values)
        far = shifts > CALM * self.radius
        if self.rest or np.count_nonzero(far) > MOST_FAR * len(far):
            self.rest = max(0, self.rest - 1)
            labels, squared = nearest_squared(rows, centers, scratch)
            self.bounds = None
        else:
            labels, squared = self._bounded(rows, centers, shifts, far, scratch)
        self.centers, self.radius = centers.values, float(np.sqrt(squared.mean()))
        return labels, squared

    def _shifts(self, values: Float64Array) -> Float64Array:
        """(k,), how far each center has moved, infinite where it is new."""
        shifts = np.full(len(values), np.inf)
        if self.centers is not None and len(self.centers) <= len(values):
            known = len(self.centers)
            differences = values[:known] - self.centers
            shifts[:known] = np.sqrt(np.einsum("ij,ij->i", differences, differences))
        return shifts

    def _bounded(
        self, rows: Rows, centers: Centers, shifts: Float64Array, far: BoolArray, scratch: Scratch
    ) -> tuple[IndexArray, Float64Array]:
        n, values = len(rows), centers.values
        kept = self.bounds
        if kept is None:
            labels, squared, lower = np.zeros(n, np.intp), np.empty(n), np.empty(n)
            unsure = np.arange(n)
        else:
            labels = kept[0].astype(np.intp)
            squared = squared_distances(rows, values, labels, scratch)
            moved = shifts[~far].max(initial=0.0) * (1 + MARGIN)
            lower = np.maximum(kept[1] - moved, 0.0)
            if far.any():
                which = np.flatnonzero(far)
                distances = np.sqrt(squared)
                among = _to_nearest_of(values, which)[labels] * (1 - MARGIN) - distances
                measured = np.flatnonzero(~(among > distances * (1 + MARGIN)))
                few = measured.size < n // 2
                part = rows[measured] if few else rows
                _, nearer = nearest_squared(part, Centers(values[which]), scratch)
                among[measured if few else slice(None)] = np.sqrt(nearer)
                np.minimum(lower, among, out=lower)
            unsure = _unsure(squared, lower)
        if unsure.size:
            part = rows if unsure.size == n else rows[unsure]
            labels[unsure], seconds = nearest_two(part, centers, scratch)
            squared[unsure] = squared_distances(part, values, labels[unsure], scratch)
            lower[unsure] = np.sqrt(squared_distances(part, values, seconds, scratch))
        if kept is not None:
            self.failures = self.failures + 1 if unsure.size > MOST_UNSURE * n else 0
            self.rest = 2**self.failures - 1
        self.bounds = labels.astype(np.int32), _rounded_down(lower)
        return labels, squared


def _unsure(squared: Float64Array, lower: Float64Array) -> IndexArray:
    """The rows whose own center may not be the nearest: (n,) squared distances to it, and bounds on all others."""
    return np.flatnonzero(~(squared * (1 + MARGIN) < lower * lower * (1 - MARGIN)))


def _to_nearest_of(centers: Float64Array, which: IndexArray) -> Float64Array:
    """(k,), the distance of each center to the nearest of some of them; 0 for these themselves.

    A row at distance u from its own center is at least so much less u from all of those.
    """
    _, squared = nearest_squared(centers, Centers(centers[which]))
    return np.sqrt(squared)


def _rounded_down(values: Float64Array) -> npt.NDArray[np.float32]:
    """The same or a little less, in float32; 0 where so little is left that float32 has few bits for it."""
    single = np.minimum(values, np.finfo(np.float32).max).astype(np.float32)
    single *= np.float32(1 - 2.0**-22)
    single[single < LEAST_BOUND] = 0
    return single
