"""Compiled loops of `hdp`: the choice of a center for each row, and the serial opening rule.

They return the same bytes as the NumPy code in `hdp`.
"""

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Int64Array, Rows
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

Points = tuple[Float64Array, Float64Array]
"""Centers, (k, d), and no constants, or linear costs: see `distance.Centers.definition`."""
NEW_USE = 1
"""Kind of an opening: a center becomes used by one more data set."""
NEW_CENTER = 2
"""Kind of an opening: a new center, and its first use."""


@compile_part
def _position(number: int, numbers: Int64Array, first: int, last: int) -> int:
    """Return the index of a number in ascending `numbers[first:last]`; -1 if it is not there."""
    if last - first <= 16:  # one after the other, without a branch
        found = -1
        for position in range(first, last):
            found = position if numbers[position] == number else found
        return found
    above = last
    while first < above:
        middle = (first + above) // 2
        if numbers[middle] < number:
            first = middle + 1
        else:
            above = middle
    return first if first < last and numbers[first] == number else -1


@compile_loop
def choose_compiled(
    rows: Rows,
    groups: Int64Array,
    weights: Float64Array,
    centers: Points,
    starts: Int64Array,
    used: Int64Array,
    prices: tuple[float, float],
    nearest: tuple[IndexArray, Float64Array],
    found: tuple[IndexArray, Float64Array, Int64Array, BoolArray],
) -> None:
    """Fill `found` with labels, squared distances, uses and objections of rows, (n, d).

    The fields are those in `hdp.Choice`.

    `found` starts with the labels and squared distances of `nearest`, the nearest center of all.
    """
    labels, squared, uses, objecting = found
    values, constants = centers
    linear = constants.size > 0
    for i in range(len(rows)):
        group, share, (local, both) = groups[i], 1.0, prices
        if weights.size and weights[i] < 1.0:
            share = weights[i]
            local, both = local / share, both / share
        first, last = (starts[group], starts[group + 1]) if group < len(starts) - 1 else (0, 0)
        uses[i] = _position(labels[i], used, first, last)
        if uses[i] >= 0:
            objecting[i] = share > 0 and squared[i] > both
            continue
        best, least = -1, np.inf
        for place in range(first, last):
            total = 0.0  # in line: a call took 1.5 times as long
            if linear:
                total = constants[used[place]]
                for j in range(rows.shape[1]):
                    total += np.float64(rows[i, j]) * values[used[place], j]
                total = total if total > 0.0 else 0.0
            else:
                for j in range(rows.shape[1]):
                    difference = np.float64(rows[i, j]) - values[used[place], j]
                    total += difference * difference
            if best < 0 or total < least:
                best, least = place, total
        uses[i] = best
        unused = nearest[1][i] + local
        objecting[i] = share > 0 and (unused < least or min(unused, least) > both)
        if best >= 0:
            labels[i], squared[i] = used[best], least


@compile_part
def _cost(rows: Float64Array, i: int, centers: Points, c: int) -> float:
    """Return the cost of row i, of (n, d), at center c, of k."""
    values, constants = centers
    total = 0.0
    if constants.size:
        total = constants[c]
        for j in range(rows.shape[1]):
            total += rows[i, j] * values[c, j]
        return total if total > 0.0 else 0.0
    for j in range(rows.shape[1]):
        difference = rows[i, j] - values[c, j]
        total += difference * difference
    return total


@compile_loop
def open_in_order_compiled(
    rows: Float64Array,
    asked: tuple[Float64Array, IndexArray, Float64Array, Float64Array, Int64Array],
    places: tuple[Points, Points],
    prices: tuple[float, float],
    kinds: Int64Array,
    targets: Int64Array,
) -> None:
    """Fill `kinds` and `targets`, (n,), of the requests of rows, (n, d); see `hdp.open_in_order`.

    `asked` has (n,) weights, slots, used, unused and wanted; slots number the groups without gaps.
    `places` are the centers, and the rows as centers.
    """
    (local, both), (centers, own) = prices, places
    weights, slots, used, unused, wanted = asked
    n, g = len(rows), len(centers[0])
    opened, k = np.empty(n, np.intp), 0  # rows that became centers
    last, before = np.full(n, -1), np.empty(n, np.intp)  # openings by a slot
    for i in range(n):
        share = min(1.0, weights[i])
        if not share > 0:
            continue
        nearest_used, nearest_unused, target = used[i], unused[i], wanted[i]
        opening = last[slots[i]]
        while opening >= 0:
            number = targets[opening]
            points, place = (centers, number) if number < g else (own, opened[number - g])
            squared = _cost(rows, i, points, place)
            nearest_used = min(nearest_used, squared)
            opening = before[opening]
        for c in range(k):  # one that the slot uses already is no nearer than the nearest used
            squared = _cost(rows, i, own, opened[c])
            if squared < nearest_unused:
                nearest_unused, target = squared, g + c
        cost = min(nearest_used, nearest_unused + local / share)
        if cost > both / share:
            kinds[i], targets[i] = NEW_CENTER, g + k
            opened[k] = i
            k += 1
        elif nearest_unused + local / share < nearest_used:
            kinds[i], targets[i] = NEW_USE, target
        else:
            continue
        before[i], last[slots[i]] = last[slots[i]], i
