"""How centers have moved since the last pass, and what that leaves of a lower bound.

A center j that moved by s_j is at least b - s_j away from a row if it was at least b away before,
and at least D - u away if it is D away from the center of the row, and the row u away from that
(Elkan 2003, lemmas 1 and 2).  So for each number of centers that have moved most, taken by the
second bound, all others have the first bound with the greatest move among them.  Each row has the
best of these numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Labels, Rows
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.distance_parts import squared_to_center
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part, pays

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
Limits = tuple[float, float]
"""The margin of bounds, and the least bound that is not 0."""


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
def _rounded_down(value: float, least_bound: float) -> np.float32:
    """As `hamerly_bounds.rounded_down`."""
    single = np.float32(min(value, MOST_SINGLE)) * np.float32(1 - 2.0**-22)
    return single if single >= least_bound else np.float32(0)


@compile_loop
def keep_labels(
    rows: Rows,
    centers: Float64Array,
    kept: Kept,
    moves: Moves,
    few: int,
    limits: Limits,
    labels: IndexArray,
    squared: Float64Array,
) -> IndexArray:
    """Fill in labels and squared distances, (n,), and return which rows, (n, d), are not sure.

    What is kept becomes what is known of each row now.  A row in doubt is compared with the centers
    of group `few` themselves.
    """
    steps, closest, clearances, order, counts, shifts = moves
    firsts, seconds, far, lower = kept
    margin, least_bound = limits
    n = len(rows)
    unsure, open_rows = np.empty(n, np.intp), 0
    for i in range(n):
        label, other = np.int64(firsts[i]), np.int64(seconds[i])
        total = squared_to_center(rows[i], centers[label])
        distance = np.float64(far[i]) - shifts[other]
        if not (distance > least_bound and total * (1 + 4 * margin) < distance * distance):
            second = squared_to_center(rows[i], centers[other])
            if second < total or (second == total and other < label):
                label, other, total, second = other, label, second, total
            distance = np.sqrt(second) * (1 - margin)
        labels[i], firsts[i], seconds[i], squared[i] = label, label, other, total
        far[i] = _rounded_down(distance, least_bound)
        reach, bound, best = np.sqrt(total) * (1 + margin), np.float64(lower[i]), 0.0
        for group in range(len(steps)):
            rank = 1 if closest[label, group] == other else 0
            others, moved = bound - steps[group], clearances[rank, label, group] - reach
            best = max(best, min(others, moved))
            if not moved > others:
                break
        least = total * (1 + 4 * margin)
        if not (best > least_bound and least < best * best):
            others, nearest = bound - steps[few], np.inf
            sure = others > least_bound and least < others * others
            for t in range(counts[few] if sure else 0):
                if order[t] != label and order[t] != other:
                    nearest = min(nearest, squared_to_center(rows[i], centers[order[t]]))
                    if not nearest > least:
                        break
            best = min(others, np.sqrt(nearest) * (1 - margin))
            if not (sure and best > least_bound and least < best * best):
                unsure[open_rows] = i
                open_rows += 1
        lower[i] = _rounded_down(best, least_bound)
    return unsure[:open_rows]
