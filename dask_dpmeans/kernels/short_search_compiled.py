"""Compiled loops of short searches of few rows: crossovers, openings, and where moves of rows end.

Their NumPy twins are in `short_search`.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.changed_clusters_compiled import (
    ZERO,
    MovableClusters,
    light_masses,
    lightest_mass,
)
from dask_dpmeans.kernels.distance_parts import (
    DISTANCE_ROUNDING,
    distance_less,
    least_of,
    square_distances,
    squared_to_column,
)
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part
from dask_dpmeans.kernels.row_exchange_compiled import (
    EXCHANGE_ROUNDING,
    SPARE,
    exchange_rows_compiled,
)

TINY = 1e-290
"""Costs up to this may be equal for rounding, so that ties are decided among all of these clusters."""
WIDER = 1.5
"""Centers are looked for up to this many times the distance of a row from a near one; second nearest
ones may be farther."""
STILL = 1e-2
"""A mean that is nearer to its center before than this share of the root of the penalty counts as
unchanged; bounds fall by its motion."""


@compile_part
def _first_least(values: Float64Array, count: int) -> tuple[int, float]:
    """Return the place of the least of the first values, (m,), `count` of them, and the least.

    Of equal ones the first counts.
    """
    least, place = least_of(values, count), 0
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
        square_distances(rows[i], centers, k, squared)
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
        square_distances(column, centers, k, squared[c])
        squared[c, c] = np.inf
        nearest[c] = np.sqrt(least_of(squared[c], k))
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
        costs[i] = squared_to_column(rows[i], centers, c)
        root = np.sqrt(costs[i])
        beyond = distance_less(nearest[c], root)
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
                squared = squared_to_column(rows[i], centers, c)
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
            square_distances(rows[i], centers, k, squared)
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


@compile_part
def means_compiled(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    centers: Float64Array,
    masses: Float64Array,
    counts: Int64Array,
) -> None:
    """Fill the means, (d, room), the masses and the numbers of rows, (room,)."""
    n, d = rows.shape
    masses[:], counts[:], centers[:] = 0.0, 0, 0.0
    for i in range(n):
        c = labels[i]
        counts[c] += 1
        masses[c] += weights[i]
        for j in range(d):
            centers[j, c] += weights[i] * rows[i, j]
    for c in range(len(masses)):
        if counts[c]:
            for j in range(d):
                centers[j, c] /= masses[c]


@compile_loop
def merge_compiled(
    centers: Float64Array, masses: Float64Array, counts: Int64Array, most: float
) -> Int64Array:
    """Join clusters whose merge costs less than `most`, and return their new numbers, (room,)."""
    d, room = centers.shape
    targets, squared, middle = np.empty(room, np.int64), np.empty(room), np.empty(d)
    for a in range(room):
        targets[a] = a
    for a in range(room):
        while counts[a]:
            for j in range(d):
                middle[j] = centers[j, a]
            square_distances(middle, centers, room, squared)
            best, least = -1, most
            for b in range(room):
                if b != a and counts[b]:
                    rise = masses[a] * masses[b] / (masses[a] + masses[b]) * squared[b]
                    if rise < least:
                        best, least = b, rise
            if best < 0:
                break
            share = masses[best] / (masses[a] + masses[best])
            for j in range(d):
                centers[j, a] += share * (centers[j, best] - centers[j, a])
            masses[a] += masses[best]
            counts[a] += counts[best]
            counts[best], targets[best] = 0, a
    for c in range(room):
        while targets[c] != targets[targets[c]]:
            targets[c] = targets[targets[c]]
    return targets


@compile_part
def bound_costs(
    weights: Float64Array,
    seconds: Float64Array,
    before: Float64Array,
    still: float,
    clusters: MovableClusters,
    kept: Float64Array,
    ages: Int64Array,
) -> None:
    """Fill what `exchange_rows_compiled` keeps, (n,), and ages, (room,), as means take the place of centers.

    Rows have squared distances `seconds`, (n,), or more to the centers `before`, (d, k), of other
    clusters.  Means that moved more than `still`, and of light clusters, count as changed.
    """
    centers, masses, counts = clusters
    slack, (light, _) = 0.0, light_masses(weights)
    ages[:] = 0
    for c in range(len(masses)):
        if counts[c]:
            squares = np.inf
            if c < before.shape[1]:
                squares = 0.0
                for j in range(len(centers)):
                    difference = centers[j, c] - before[j, c]
                    squares += difference * difference
            if masses[c] < light or not squares <= still * still:
                ages[c] = 2
            else:
                slack = max(slack, squares)
    slack = np.sqrt(slack)
    lightest = lightest_mass(clusters, light)
    for i in range(len(weights)):
        share = lightest / (lightest + weights[i])
        kept[i] = weights[i] * share * distance_less(np.sqrt(seconds[i]), slack) ** 2


@compile_loop
def settle_compiled(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    seconds: Float64Array,
    before: Float64Array,
    penalty: float,
    most: int,
) -> tuple[Float64Array, float, int]:
    """Compiled twin of `short_search.settle` for rows, (n, d), whose labels, (n,), change in place.

    Rows have squared distances `seconds`, (n,), or more to the centers `before`, (d, k), of other
    clusters; 0 if nothing is known.
    """
    (n, d), k, passes, merged = rows.shape, ZERO, 0, True
    for label in labels:
        k = max(k, label + 1)
    room = 2 * k + SPARE
    centers, masses, counts = np.empty((d, room)), np.empty(room), np.empty(room, np.int64)
    clusters, kept, ages = (centers, masses, counts), np.empty(n), np.empty(room, np.int64)
    while merged and passes < most:
        means_compiled(rows, weights, labels, centers, masses, counts)
        still = STILL * np.sqrt(penalty)
        bound_costs(weights, seconds, before, still, clusters, kept, ages)
        passes += exchange_rows_compiled(
            rows, weights, labels, penalty, np.inf, 0.0, most - passes, clusters, kept, ages
        )
        before = centers.copy()
        for i in range(n):
            seconds[i] = kept[i] / weights[i]
        means_compiled(rows, weights, labels, centers, masses, counts)
        targets = merge_compiled(
            centers.copy(), masses.copy(), counts.copy(), penalty * (1.0 - EXCHANGE_ROUNDING)
        )
        merged = False
        for i in range(n):
            if targets[labels[i]] != labels[i]:
                merged = True
                labels[i] = targets[labels[i]]
    if merged:
        means_compiled(rows, weights, labels, centers, masses, counts)
    cost, k = 0.0, ZERO
    for i in range(n):
        cost += weights[i] * squared_to_column(rows[i], centers, labels[i])
    for c in range(room):
        if counts[c]:
            for j in range(d):
                centers[j, k] = centers[j, c]
            counts[c], k = k, k + 1
    for i in range(n):
        labels[i] = counts[labels[i]]
    return centers[:, :k].copy(), cost + penalty * k, passes
