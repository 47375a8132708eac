"""Compiled loops of crossovers and openings in short searches of few rows.

Their NumPy twins are in `short_search`.  `_square_distances`, `_least`, `_squared` and `_less` are
the same as in `row_exchange_compiled`: all that a loop calls must be in its own file (`numba_support`).
"""

from typing import Any

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

DISTANCE_ROUNDING = 1e-9
"""A distance counts as smaller or larger by this share of it, for its own rounding."""
TINY = 1e-290
"""Squared distances up to this may be equal for rounding."""
WIDER = 1.5
"""Centers are looked for up to this many times the distance of a row from a near one; second nearest
ones may be farther."""
ZERO: Any = np.int64(0)
"""Where a count starts that is passed on: Numba compiles what takes a literal number once more."""


@compile_part
def _square_distances(
    row: Float64Array, centers: Float64Array, count: int, squared: Float64Array
) -> None:
    """Compiled twin of `squared_to_each`, for one row, (d,); it fills `squared`, (room,).

    The first `count` of centers, (d, room), are used.
    """
    for c in range(count):
        difference = row[0] - centers[0, c]
        squared[c] = difference * difference
    for j in range(1, len(row)):
        value = row[j]
        for c in range(count):
            difference = value - centers[j, c]
            squared[c] += difference * difference


@compile_part
def _least(values: Float64Array, count: int) -> float:
    """Return the least of the first values, (m,), `count` of them.

    Eight are compared at a time, which compilers make into vector instructions.
    """
    a = b = c = d = e = f = g = h = np.inf
    eights = count // 8 * 8
    for i in range(0, eights, 8):
        a, b = min(a, values[i]), min(b, values[i + 1])
        c, d = min(c, values[i + 2]), min(d, values[i + 3])
        e, f = min(e, values[i + 4]), min(f, values[i + 5])
        g, h = min(g, values[i + 6]), min(h, values[i + 7])
    least = min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))
    for i in range(eights, count):
        least = min(least, values[i])
    return least


@compile_part
def _squared(row: Float64Array, centers: Float64Array, c: int) -> float:
    """Return the squared distance of a row, (d,), to center c of (d, room)."""
    total = 0.0
    for j in range(len(row)):
        difference = row[j] - centers[j, c]
        total += difference * difference
    return total


@compile_part
def _less(distance: float, other: float) -> float:
    """Return at least by how much a distance is above another one; 0 if it may not be."""
    larger = distance * (1.0 - DISTANCE_ROUNDING)
    return max(0.0, larger - other * (1.0 + DISTANCE_ROUNDING)) * (1.0 - DISTANCE_ROUNDING)


@compile_part
def _first_least(values: Float64Array, count: int) -> tuple[int, float]:
    """Return the place of the least of the first values, (m,), `count` of them, and the least.

    Of equal ones the first counts.
    """
    least, place = _least(values, count), 0
    while place < count - 1 and values[place] != least:
        place += 1
    return place, least


@compile_loop
def assign_compiled(
    rows: Float64Array, centers: Float64Array, labels: Int64Array, costs: Float64Array
) -> None:
    """Fill the labels and the squared distances, (n,), of the nearest of centers, (d, k)."""
    k = centers.shape[1]
    squared = np.empty(k)
    for i in range(len(rows)):
        _square_distances(rows[i], centers, k, squared)
        labels[i], costs[i] = _first_least(squared, k)


@compile_part
def add_chances(weights: Float64Array, costs: Float64Array, sums: Float64Array) -> int:
    """Fill the sums of weight times cost, (n,) each, up to each row; return the last row that costs.

    It is -1 if no row does.
    """
    total, last = 0.0, -1
    for i in range(len(costs)):
        chance = weights[i] * costs[i]
        total += chance
        sums[i] = total
        last = i if chance > 0.0 else last
    return last


@compile_part
def draw_row(sums: Float64Array, last: int, draw: float) -> int:
    """Return the number of a row that is drawn by what is added in sums, (n,), at most the last one."""
    wanted, low, high = draw * sums[len(sums) - 1], 0, last
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return high


@compile_loop
def open_at_best(
    rows: Float64Array,
    weights: Float64Array,
    draws: Float64Array,
    least: float,
    opened: int,
    labels: Int64Array,
    costs: Float64Array,
) -> bool:
    """Open a cluster at the one of some drawn rows that saves most, and return whether it opens.

    Labels and costs, (n,), change in place.  It opens only if it saves more than `least`.
    """
    n, d = rows.shape
    highest, found = least, False
    trial, best, sums = np.empty(n), np.empty(n), np.empty(n)
    last = add_chances(weights, costs, sums)
    if last < 0:
        return False
    for draw in draws:
        row = draw_row(sums, last, draw)
        saved = 0.0
        for i in range(n):
            squared = 0.0
            for j in range(d):
                difference = rows[i, j] - rows[row, j]
                squared += difference * difference
            trial[i] = squared
            if squared < costs[i]:
                saved += weights[i] * (costs[i] - squared)
        if saved > highest:
            highest, found = saved, True
            best, trial = trial, best
    if found:
        for i in range(n):
            if best[i] < costs[i]:
                costs[i], labels[i] = best[i], opened
    return found


@compile_part
def _apart(centers: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return how far centers, (d, k), are from each other, squared, (k, k), and from the nearest, (k,).

    A center is infinitely far from itself.
    """
    d, k = centers.shape
    squared, nearest, column = np.empty((k, k)), np.empty(k), np.empty(d)
    for c in range(k):
        for j in range(d):
            column[j] = centers[j, c]
        _square_distances(column, centers, k, squared[c])
        squared[c, c] = np.inf
        nearest[c] = np.sqrt(_least(squared[c], k))
    return squared, nearest


@compile_part
def assign_from(
    rows: Float64Array,
    centers: Float64Array,
    labels: Int64Array,
    costs: Float64Array,
    seconds: Float64Array,
) -> None:
    """Fill the labels, (n,), of the nearest of centers, (d, k), from labels of near ones.

    Also fill the squared distances to the nearest, (n,), and at least how far the others are,
    squared, (n,).  A row is compared only with centers that are as near to the one of its label as
    they must be.
    """
    n, k = len(rows), centers.shape[1]
    apart, nearest = _apart(centers)
    listed, count = np.empty(n, np.int64), 0
    for i in range(n):
        c = labels[i]
        costs[i] = _squared(rows[i], centers, c)
        root = np.sqrt(costs[i])
        beyond = _less(nearest[c], root)
        seconds[i] = beyond * beyond
        listed[count] = i
        count += int(not (beyond > root and seconds[i] > TINY))
    for place in range(count):
        i = listed[place]
        start, best, least = labels[i], labels[i], costs[i]
        root = np.sqrt(least)
        second = (WIDER * root) ** 2
        reach = max(TINY, ((1.0 + WIDER) * root * (1.0 + DISTANCE_ROUNDING)) ** 2)
        for c in range(k):
            if apart[start, c] <= reach:
                squared = _squared(rows[i], centers, c)
                if squared < least or (squared == least and c < best):
                    best, least, squared = c, squared, least
                second = min(second, squared)
        labels[i], costs[i], seconds[i] = best, least, second


@compile_part
def swap_compiled(
    rows: Float64Array,
    weights: Float64Array,
    centers: Float64Array,
    draws: Float64Array,
    labels: Int64Array,
) -> tuple[Float64Array, int]:
    """Compiled twin of `short_search.swap` for rows, (n, d), and centers, (d, k), k > 1.

    Labels, (n,), are of centers near to the rows at first, and change in place.  Return at least how
    far rows are from other centers, but the new one, squared, (n,), and the number of the new one.
    """
    n, k = len(rows), centers.shape[1]
    others, costs, second = np.empty(n, np.int64), np.empty(n), np.empty(n)
    assign_from(rows, centers, labels, costs, second)
    losses, squared = np.full(k, -1.0), np.empty(k)
    for draw in draws[0]:
        losses[min(k - 1, int(draw * k))] = 0.0
    for i in range(n):
        c = labels[i]
        if losses[c] >= 0.0:
            _square_distances(rows[i], centers, k, squared)
            squared[c] = np.inf
            others[i], second[i] = _first_least(squared, k)
            losses[c] += weights[i] * (second[i] - costs[i])
    removed = min(k - 1, int(draws[0, 0] * k))
    for draw in draws[0, 1:]:
        c = min(k - 1, int(draw * k))
        if losses[c] < losses[removed]:
            removed = c
    for i in range(n):
        if labels[i] == removed:
            labels[i], costs[i] = others[i], second[i]
    before = costs.copy()
    open_at_best(rows, weights, draws[1], 0.0, removed, labels, costs)
    for i in range(n):
        if labels[i] == removed:
            second[i] = before[i]
    return second, removed


@compile_part
def _nearest_columns(centers: Float64Array, others: Float64Array) -> Int64Array:
    """Return the numbers, (k,), of the nearest of other centers, (d, m), to centers, (d, k)."""
    d, k = centers.shape
    rows, found, costs = np.empty((k, d)), np.empty(k, np.int64), np.empty(k)
    for c in range(k):
        for j in range(d):
            rows[c, j] = centers[j, c]
    assign_compiled(rows, others, found, costs)
    return found


@compile_part
def _draw_centers(
    first: Float64Array, second: Float64Array, draws: Float64Array
) -> tuple[Float64Array, Int64Array]:
    """Return the centers that a crossover draws, (d, l), of two ends with (d, k) and (d, m).

    Also return the numbers of the drawn ones that are nearest to the first centers, (k,).
    """
    (d, k), m = first.shape, second.shape[1]
    drawn: int = ZERO
    of_first, of_second = _nearest_columns(first, second), _nearest_columns(second, first)
    centers = np.empty((d, k + m))
    for c in range(k + m):
        chosen = draws[c] < 0.5
        if c >= k and of_first[of_second[c - k]] == c - k:
            chosen = not draws[of_second[c - k]] < 0.5
        if chosen:
            for j in range(d):
                centers[j, drawn] = first[j, c] if c < k else second[j, c - k]
            drawn += 1
    centers = centers[:, :drawn].copy()
    return centers, _nearest_columns(first, centers)


@compile_loop
def cross_compiled(
    rows: Float64Array,
    weights: Float64Array,
    first: Float64Array,
    second: Float64Array,
    labels: Int64Array,
    draws: Float64Array,
) -> tuple[Int64Array, Float64Array, Float64Array]:
    """Compiled twin of `short_search.cross` for rows, (n, d), and centers, (d, k) and (d, m).

    Rows have labels, (n,), of the first centers.  Return labels, (n,), and what `settle_compiled`
    takes: at least how far rows are from other centers, squared, (n,), and the centers, (d, l),
    infinite where one opened.
    """
    n, k, m = len(rows), first.shape[1], second.shape[1]
    centers, places = _draw_centers(first, second, draws)
    near, seconds = np.empty(n, np.int64), np.zeros(n)
    for i in range(n):
        near[i] = places[labels[i]]
    if centers.shape[1] > 1:
        swaps = draws[k + m :].copy().reshape((2, (len(draws) - k - m) // 2))
        seconds, removed = swap_compiled(rows, weights, centers, swaps, near)
        for j in range(len(centers)):
            centers[j, removed] = np.inf
    return near, seconds, centers
