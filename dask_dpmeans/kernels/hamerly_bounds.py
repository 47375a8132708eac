"""Bounds from one pass over a block to the next: how near any other center can be to a row.

A row keeps its center if that is nearer than a lower bound on the row's distance to all others.
The bound shrinks by the distance that these have moved since (Hamerly 2010, section 3); centers
that have moved farther or are new are kept apart (`center_moves`).  The bounds decide by strict
inequality and a margin far above rounding, so that the answer follows the definition.  All other
rows are ranked against all centers.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows, Scratch
from dask_dpmeans.kernels.center_moves import MARGIN, Kept, Moves, keep_labels, moves_of
from dask_dpmeans.kernels.distance import Centers, nearest_squared, nearest_two, squared_distances
from dask_dpmeans.kernels.numba_support import pays

LEAST_CENTERS = 128
"""Fewest centers for which bounds are used.

With 64, a pass in which few centers moved took 1.22 (d = 2), 1.14 (d = 16) and 0.84 (d = 64) of
the time of a pass without bounds; with 128, 0.80, 0.73 and 0.62.
"""
FEW = 8
"""Most centers that have moved with which a row in doubt is compared by itself."""
MOST_UNSURE = 0.5
"""Bounds pause if they leave a larger share of rows open: for 1 pass, 3 the next time, 7, ..."""
LEAST_BOUND = 1e-30
"""Smaller lower bounds are set to 0: float32 would round them by more than the last bit."""


@dataclass
class HamerlyBounds:
    """Bounds for one block of n rows; each pass changes them."""

    centers: Float64Array | None = None
    """(k, d), centers of the last pass."""
    bounds: Kept | None = field(default=None, repr=False)
    """What is known of each row; None if nothing is."""
    failures: int = 0
    """Consecutive passes in which the bounds left most rows open."""
    rest: int = 0
    """Number of next passes without bounds."""

    def assign(
        self, rows: Rows, centers: Centers, scratch: Scratch
    ) -> tuple[IndexArray, Float64Array]:
        """Return labels and squared distances, (n,) each, of the rows, (n, d), of the last pass."""
        before, kept = self.centers, self.bounds
        self.centers, self.bounds = centers.values, None
        if self.rest:
            self.rest -= 1
            return nearest_squared(rows, centers, scratch)
        n, moves = len(rows), None
        if kept is not None and before is not None:
            moves = moves_of(before, centers)
        labels, squared = np.empty(n, np.intp), np.empty(n)
        if kept is None or moves is None:
            bounds = np.zeros((2, n), np.float32)
            kept, unsure = (*np.empty((2, n), np.int32), *bounds), np.arange(n)
        else:
            unsure = _keep(rows, centers.values, kept, moves, labels, squared)
            self.failures = 0 if unsure.size <= MOST_UNSURE * n else self.failures + 1
            self.rest = 2**self.failures - 1
        if unsure.size:
            part, gaps = rows if unsure.size == n else rows[unsure], np.zeros(unsure.size)
            ranked = nearest_two(part, centers, scratch, gaps)
            _fill(part, centers.values, unsure, ranked, gaps, kept, labels, squared)
        self.bounds = kept
        return labels, squared


def _keep(
    rows: Rows,
    centers: Float64Array,
    kept: Kept,
    moves: Moves,
    labels: IndexArray,
    squared: Float64Array,
) -> IndexArray:
    """Fill in labels and squared distances, (n,), and return which rows, (n, d), are not sure.

    What is kept becomes what is known of each row now.
    """
    few = int(np.searchsorted(moves.counts, FEW, side="right")) - 1
    given = rows, centers, kept, moves, few, (MARGIN, LEAST_BOUND), labels, squared
    if pays(keep_labels, given, 4 * rows.size):
        return keep_labels(*given)
    pair = np.stack(kept[:2]).astype(np.intp)
    costs = np.stack([squared_distances(rows, centers, each) for each in pair])
    swap = (costs[1] < costs[0]) | ((costs[1] == costs[0]) & (pair[1] < pair[0]))
    labels[:], kept[1][:] = np.where(swap, pair[::-1], pair)
    squared[:], far = np.where(swap, costs[::-1], costs)
    reaches, best = np.sqrt(squared) * (1 + MARGIN), np.zeros(len(rows))
    with np.errstate(invalid="ignore"):  # infinity less infinity
        for group, step in enumerate(moves.steps):
            ranks = (moves.nearest[labels, group] == kept[1]).astype(np.intp)
            bound = np.minimum(kept[3] - step, moves.clearances[ranks, labels, group] - reaches)
            np.fmax(best, bound, out=best)
    with np.errstate(over="ignore"):
        sure = (best > LEAST_BOUND) & (squared * (1 + 4 * MARGIN) < best * best)
    kept[0][:] = labels
    kept[2][:], kept[3][:] = rounded_down(np.sqrt(far) * (1 - MARGIN)), rounded_down(best)
    return np.flatnonzero(~sure)


def _fill(
    rows: Rows,
    centers: Float64Array,
    unsure: IndexArray,
    ranked: tuple[IndexArray, IndexArray],
    gaps: Float64Array,
    kept: Kept,
    labels: IndexArray,
    squared: Float64Array,
) -> None:
    """Fill in what a ranking tells of rows in doubt, (m, d), whose numbers are `unsure`, (m,)."""
    costs, seconds = (squared_distances(rows, centers, each) for each in ranked)
    labels[unsure], squared[unsure] = ranked[0], costs
    for known, each in zip(kept[:2], ranked, strict=True):
        known[unsure] = each
    kept[2][unsure] = rounded_down(np.sqrt(seconds))
    kept[3][unsure] = rounded_down(np.sqrt((seconds + gaps) * (1 - MARGIN)))


def rounded_down(values: Float64Array) -> npt.NDArray[np.float32]:
    """Return values, (n,), rounded down to float32; 0 for values below `LEAST_BOUND`."""
    single = np.minimum(values, np.finfo(np.float32).max).astype(np.float32)
    single *= np.float32(1 - 2.0**-22)
    single[single < LEAST_BOUND] = 0
    return single
