"""Bounds from one pass over a block to the next: how near any other center can be to a row.

A row keeps its center if that is nearer than a lower bound on the row's distance to all others.
The bound shrinks by the distance that these have moved since (Hamerly 2010, section 3).  A center j
that moved by s_j is at least b - s_j away from a row if it was at least b away before, and at least
D - u away if it is D away from the center of the row, and the row u away from that (Elkan 2003,
lemmas 1 and 2).  So for each number of centers that have moved most, taken by the second bound, all
others have the first bound with the greatest move among them.  Each row has the best of these.

The bounds decide by strict inequality and a margin far above rounding, so that the answer follows
the definition.  All other rows are ranked against all centers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Labels, Rows, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest_squared, nearest_two, squared_distances
from dask_dpmeans.kernels.distance_parts import squared_to_center
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part, pays

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
MARGIN = 1e-9
"""The relative rounding of distances, bounds and moves of centers, many thousand times over."""
MOST_SINGLE = float(np.finfo(np.float32).max)
"""The greatest number of float32."""
MOST_MOVED = 2**10
"""Most centers whose distances to all centers are found in each pass."""
TABLE = 2**18
"""Most distances between centers that NumPy holds at a time."""

Singles = npt.NDArray[np.float32]
Kept = tuple[Labels, Labels, Singles, Singles]
"""The two nearest centers of each row, lower bounds on the distance to the second and to all others."""


class Moves(NamedTuple):
    """Moves of k centers, in groups of 0, 1, 2, 4, ... that have moved most: g groups."""

    steps: Float64Array
    """(g,), at least as far as any center outside each group has moved."""
    nearest: Labels
    """(k, g), the other center of each group that is nearest to each center; -1 for none."""
    clearances: Float64Array
    """(2, k, g), at most the distance of each center to that one, and to the next one."""
    order: IndexArray
    """(m,), the centers that have moved, those that moved most first; new ones before all."""
    counts: IndexArray
    """(g,), numbers of centers of the groups."""
    shifts: Float64Array
    """(k,), at least as far as each center has moved; infinity for a new one."""


def moves_of(before: Float64Array, centers: Centers) -> Moves | None:
    """Return the moves of centers that were (j, d) and are (k, d), k >= j; None if k < j.

    They are found once for all blocks.
    """
    if len(before) > len(centers):
        return None
    known: tuple[Float64Array, Moves] | None = vars(centers).get("moves")
    if known is None or known[0] is not before:
        known = before, _moves(before, centers.values)
        vars(centers)["moves"] = known
    return known[1]


def _moves(before: Float64Array, values: Float64Array) -> Moves:
    shifts = np.full(len(values), np.inf)
    differences = values[: len(before)] - before
    shifts[: len(before)] = np.sqrt(np.einsum("ij,ij->i", differences, differences))
    order = np.argsort(-shifts, kind="stable")
    moved = min(int(np.count_nonzero(shifts)), MOST_MOVED)
    counts = np.array([0, *_powers(moved), moved] if moved else [0])
    steps = np.append(shifts[order], 0.0)[counts] * (1 + MARGIN)
    order = order[:moved]
    columns = np.ascontiguousarray(values[order].T)
    nearest = np.full((len(values), len(counts)), -1, np.int32)
    clearances = np.full((2, *nearest.shape), np.inf)
    given = values, columns, order, counts, nearest, clearances
    loop = _fill_clearances
    if pays(_fill_clearances_compiled, given, len(values) * columns.size):
        loop = _fill_clearances_compiled
    loop(*given)
    clearances *= 1 - MARGIN
    return Moves(steps, nearest, clearances, order, counts, shifts * (1 + MARGIN))


def _powers(most: int) -> Sequence[int]:
    """Return the powers of two below `most`."""
    return [2**power for power in range(max(most - 1, 0).bit_length())]


def _fill_clearances(
    values: Float64Array,
    columns: Float64Array,
    order: IndexArray,
    counts: IndexArray,
    nearest: Labels,
    clearances: Float64Array,
) -> None:
    """Fill in which other center of each group is nearest to each center, (k, d), and distances."""
    height = max(1, TABLE // max(1, len(order)))
    for start in range(0, len(values), height):
        part = slice(start, start + height)
        squared = np.zeros((len(values[part]), len(order)))
        for column, value in zip(columns, values[part].T, strict=True):
            squared += (column - value[:, np.newaxis]) ** 2
        squared[order == np.arange(len(values))[part, np.newaxis]] = np.inf
        for group, count in enumerate(counts):
            if count:
                some = squared[:, :count].copy()
                first = some.argmin(axis=1)[:, np.newaxis]
                least = np.take_along_axis(some, first, 1)[:, 0]
                np.put_along_axis(some, first, np.inf, 1)
                nearest[part, group] = np.where(np.isinf(least), -1, order[first[:, 0]])
                clearances[:, part, group] = np.sqrt([least, some.min(axis=1)])


@compile_loop
def _fill_clearances_compiled(
    values: Float64Array,
    columns: Float64Array,
    order: IndexArray,
    counts: IndexArray,
    nearest: Labels,
    clearances: Float64Array,
) -> None:
    """As `_fill_clearances`."""
    (k, d), m = values.shape, columns.shape[1]
    squared = np.empty(m)
    for number in range(k):
        squared[:] = 0.0
        for j in range(d):
            value, column = values[number, j], columns[j]
            for i in range(m):
                difference = column[i] - value
                squared[i] += difference * difference
        first, least, second, i = -1, np.inf, np.inf, 0
        for group in range(len(counts)):
            while i < counts[group]:
                if squared[i] < second and order[i] != number:
                    second = squared[i]
                    if second < least:
                        first, least, second = order[i], second, least
                i += 1
            nearest[number, group] = first
            clearances[0, number, group] = np.sqrt(least)
            clearances[1, number, group] = np.sqrt(second)


@compile_part
def _rounded_down(value: float) -> np.float32:
    """As `rounded_down`."""
    single = np.float32(min(value, MOST_SINGLE)) * np.float32(1 - 2.0**-22)
    return single if single >= LEAST_BOUND else np.float32(0)


@compile_loop
def keep_labels(
    rows: Rows,
    centers: Float64Array,
    kept: Kept,
    moves: Moves,
    few: int,
    labels: IndexArray,
    squared: Float64Array,
) -> IndexArray:
    """Fill in labels and squared distances, (n,), and return which rows, (n, d), are not sure.

    What is kept becomes what is known of each row now.  A row in doubt is compared with the centers
    of group `few` themselves.
    """
    steps, closest, clearances, order, counts, shifts = moves
    firsts, seconds, far, lower = kept
    n = len(rows)
    unsure, open_rows = np.empty(n, np.intp), 0
    for i in range(n):
        label, other = np.int64(firsts[i]), np.int64(seconds[i])
        total = squared_to_center(rows[i], centers[label])
        distance = np.float64(far[i]) - shifts[other]
        if not (distance > LEAST_BOUND and total * (1 + 4 * MARGIN) < distance * distance):
            second = squared_to_center(rows[i], centers[other])
            if second < total or (second == total and other < label):
                label, other, total, second = other, label, second, total
            distance = np.sqrt(second) * (1 - MARGIN)
        labels[i], firsts[i], seconds[i], squared[i] = label, label, other, total
        far[i] = _rounded_down(distance)
        reach, bound, best = np.sqrt(total) * (1 + MARGIN), np.float64(lower[i]), 0.0
        for group in range(len(steps)):
            rank = 1 if closest[label, group] == other else 0
            others, moved = bound - steps[group], clearances[rank, label, group] - reach
            best = max(best, min(others, moved))
            if not moved > others:
                break
        least = total * (1 + 4 * MARGIN)
        if not (best > LEAST_BOUND and least < best * best):
            others, nearest = bound - steps[few], np.inf
            sure = others > LEAST_BOUND and least < others * others
            for t in range(counts[few] if sure else 0):
                if order[t] != label and order[t] != other:
                    nearest = min(nearest, squared_to_center(rows[i], centers[order[t]]))
                    if not nearest > least:
                        break
            best = min(others, np.sqrt(nearest) * (1 - MARGIN))
            if not (sure and best > LEAST_BOUND and least < best * best):
                unsure[open_rows] = i
                open_rows += 1
        lower[i] = _rounded_down(best)
    return unsure[:open_rows]


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
    given = rows, centers, kept, moves, few, labels, squared
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
