"""Compiled loops of moves of single rows, and of short searches made of them.

Their NumPy twins are in `row_exchange` and `short_search`.
"""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.numba_support import compile_loop

EXCHANGE_ROUNDING = 1e-9
"""A move must gain more than this share of the penalty, and the rest of the old cluster must weigh
more than this share of it; less is rounding."""

BOUND_ROUNDING = 1e-9
"""A bound falls by this share of it, for its own rounding."""
MOTION_ROUNDING = 1e-14
"""What a center moves more than is computed at most, for each column, as a share of the largest number."""

SHARE_ROUNDING = 1e-9
"""How much farther a cluster is looked at, as a share, for the rounding of costs."""
SPARE = 8
"""Room for new clusters at first, beyond twice the present ones."""

MovableClusters = tuple[Float64Array, Float64Array, Int64Array]
"""Centers, (d, room), masses and numbers of rows, (room,), which change in place.

Unused numbers have 0 rows.  The mass of a cluster is its weight, or the length of the weighted sum
of its unit rows.  A plain tuple, since Numba cannot read a cache that names a class of an earlier
version.
"""


@compile_loop
def _turn(
    row: Float64Array, weight: float, c: int, vanishing: float, clusters: MovableClusters
) -> None:
    """Add a row, (d,), of some weight, possibly negative, to the sum of unit rows of cluster c."""
    centers, masses, _ = clusters
    squares = 0.0
    for j in range(len(row)):
        total = masses[c] * centers[j, c] + weight * row[j]
        squares += total * total
    length = np.sqrt(squares)
    if length > vanishing * abs(weight):
        for j in range(len(row)):
            centers[j, c] = (masses[c] * centers[j, c] + weight * row[j]) / length
    masses[c] = length


@compile_loop
def _shift(row: Float64Array, share: float, c: int, centers: Float64Array) -> None:
    """Move center c of (d, room) by a share of its way to a row, (d,), without memory of its own."""
    for j in range(len(row)):
        centers[j, c] += share * (row[j] - centers[j, c])


@compile_loop
def take_out(
    row: Float64Array, weight: float, c: int, vanishing: float, clusters: MovableClusters
) -> None:
    """Take a row, (d,), out of cluster c."""
    centers, masses, counts = clusters
    counts[c] -= 1
    rest = masses[c] - weight
    if not counts[c]:
        return
    if vanishing:
        _turn(row, -weight, c, vanishing, clusters)
    else:
        _shift(row, -(weight / rest), c, centers)
        masses[c] = rest


@compile_loop
def put_in(
    row: Float64Array, weight: float, c: int, vanishing: float, clusters: MovableClusters
) -> None:
    """Put a row, (d,), into cluster c."""
    centers, masses, counts = clusters
    counts[c] += 1
    if counts[c] == 1:
        for j in range(len(row)):
            centers[j, c] = row[j]
        masses[c] = weight
    elif vanishing:
        _turn(row, weight, c, vanishing, clusters)
    else:
        masses[c] += weight
        _shift(row, weight / masses[c], c, centers)


@compile_loop
def _leaving_gain_compiled(
    weight: float, count: int, mass: float, squared: float, penalty: float, vanishing: float
) -> float:
    """Compiled twin of `_leaving_gains`, for one row."""
    if count == 1:
        return penalty
    if not vanishing:
        rest = mass - weight
        if rest > EXCHANGE_ROUNDING * mass:
            return weight * (mass / rest) * squared
        return 0.0
    if not mass > vanishing * weight:
        return 4.0 * weight
    share = weight / mass
    length: float = np.sqrt((1.0 - share) * (1.0 - share) + share * squared)
    if share < 1.0:
        return 2.0 * weight * squared / (length + (1.0 - share))
    return 2.0 * mass * (length + (share - 1.0))


@compile_loop
def _joining_cost_compiled(weight: float, mass: float, squared: float, vanishing: float) -> float:
    """Compiled twin of `_joining_costs`, for one row and one cluster, a direction."""
    total = mass + weight
    share = mass / total
    length: float = np.sqrt(max(0.0, 1.0 - share * (weight / total) * squared))
    return 2.0 * weight * share * squared / (1.0 + length)


@compile_loop
def _square_distances(
    row: Float64Array, centers: Float64Array, count: int, squared: Float64Array
) -> None:
    """Compiled twin of `squared_to_each`, for one row, (d,); it fills `squared`, (room,).

    The first `count` of centers, (d, room), are used.
    """
    for c in range(count):
        squared[c] = 0.0
    for j in range(len(row)):
        value = row[j]
        for c in range(count):
            difference = value - centers[j, c]
            squared[c] += difference * difference


@compile_loop
def _cheapest(
    row: Float64Array,
    weight: float,
    own: int,
    present: int,
    clusters: MovableClusters,
    squared: Float64Array,
    share: float,
) -> tuple[int, float]:
    """Return the other cluster that a row, (d,), joins at the least cost, and the cost.

    The cost is the squared distance times the weight times a share, the mass over the mass with
    the row, which is at least `share` in all clusters: only near ones need the division.  Clusters
    from `present` on have no rows; `squared`, (room,), is memory to work in.
    """
    centers, masses, counts = clusters
    _square_distances(row, centers, present, squared)
    near, least = -1, np.inf
    for c in range(present):
        if squared[c] < least and c != own and counts[c]:
            near, least = c, squared[c]
    if near < 0:
        return near, least
    limit = least / share * (1.0 + SHARE_ROUNDING)
    best, least = -1, np.inf
    for c in range(present):
        if squared[c] <= limit and c != own and counts[c]:
            cost = weight * (masses[c] / (masses[c] + weight)) * squared[c]
            if cost < least:
                best, least = c, cost
    return best, least


@compile_loop
def _cheapest_direction(
    row: Float64Array,
    weight: float,
    own: int,
    present: int,
    vanishing: float,
    clusters: MovableClusters,
    squared: Float64Array,
) -> tuple[int, float]:
    """Return what `_cheapest` returns, for a row of unit length and centers that are directions."""
    centers, masses, counts = clusters
    _square_distances(row, centers, present, squared)
    best, least = -1, np.inf
    for c in range(present):
        if c != own and counts[c]:
            cost = _joining_cost_compiled(weight, masses[c], squared[c], vanishing)
            if cost < least:
                best, least = c, cost
    return best, least


@compile_loop
def _squared(row: Float64Array, centers: Float64Array, c: int) -> float:
    """Return the squared distance of a row, (d,), to center c of (d, room)."""
    total = 0.0
    for j in range(len(row)):
        difference = row[j] - centers[j, c]
        total += difference * difference
    return total


@compile_loop
def exchange_rows_compiled(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    penalty: float,
    outlier_penalty: float,
    vanishing: float,
    most: int,
    clusters: MovableClusters,
) -> int:
    """Compiled twin of `row_exchange.move_rows` for rows, (n, d).

    A bound of the least cost of each row, as a distance, falls with the motion of the centers and
    of the masses in this pass and the one before (as in Hamerly 2010).  A row whose bound proves
    that it stays is not evaluated.
    """
    centers, masses, counts = clusters
    n, d = rows.shape
    room, passes, moved = len(masses), 0, True
    present = room
    while present and not counts[present - 1]:
        present -= 1
    heaviest, largest = 0.0, 0.0
    for i in range(n):
        heaviest = max(heaviest, weights[i])
        for j in range(d):
            largest = max(largest, abs(rows[i, j]))
    rounding = MOTION_ROUNDING * d * largest
    squared, bounds = np.empty(room), np.zeros(n)
    drifts, shares = np.empty(room), np.empty(room)
    motion, fall = np.inf, 1.0
    while moved and passes < most:
        passes += 1
        moved = False
        earlier, motion, before, fall = motion, 0.0, fall, 1.0
        lowest = 1.0
        for c in range(room):
            drifts[c], shares[c] = 0.0, masses[c] / (masses[c] + heaviest)
            if counts[c]:
                lowest = min(lowest, shares[c])
        for i in range(n):
            row, weight, own = rows[i], weights[i], labels[i]
            count, left, out = 0, weight * outlier_penalty, weight * outlier_penalty
            between = 0.0
            if own >= 0:
                count, between = counts[own], _squared(row, centers, own)
                left = _leaving_gain_compiled(
                    weight, count, masses[own], between, penalty, vanishing
                )
            if bounds[i] > 0.0 and not vanishing and not min(penalty, out) < left:
                bound = bounds[i] - earlier - motion - BOUND_ROUNDING * bounds[i]
                bound *= before * fall * (1.0 - BOUND_ROUNDING)
                bounds[i] = max(0.0, bound)
                if bound > 0.0 and weight * bound * bound * (1.0 - BOUND_ROUNDING) >= left:
                    continue
            if vanishing:
                best, least = _cheapest_direction(
                    row, weight, own, present, vanishing, clusters, squared
                )
            else:
                best, least = _cheapest(row, weight, own, present, clusters, squared, lowest)
            bounds[i] = np.sqrt(least / weight)
            some = best >= 0 or count > 1
            if count != 1 and penalty < least:
                empty = 0
                while empty < room and counts[empty]:
                    empty += 1
                if empty < room:
                    best, least = empty, penalty
            if own >= 0 and some and out < least:
                best, least = -1, out
            if not least + EXCHANGE_ROUNDING * penalty < left:
                continue
            if own >= 0:
                take_out(row, weight, own, vanishing, clusters)
                if counts[own]:
                    drifts[own] += weight / masses[own] * np.sqrt(between) + rounding
                    motion = max(motion, drifts[own])
                    share = masses[own] / (masses[own] + heaviest)
                    fall = min(fall, np.sqrt(share / shares[own]))
                    lowest = min(lowest, share)
            if best >= 0:
                if not counts[best]:
                    motion = np.inf
                put_in(row, weight, best, vanishing, clusters)
                drifts[best] += weight / masses[best] * np.sqrt(squared[best]) + rounding
                motion = max(motion, drifts[best])
                share = masses[best] / (masses[best] + heaviest)
                shares[best] = max(shares[best], share)
                lowest = min(lowest, share)
                present = max(present, best + 1)
            labels[i] = best
            bounds[i] = 0.0
            moved = True
    return passes


@compile_loop
def assign_compiled(
    rows: Float64Array, centers: Float64Array, labels: Int64Array, costs: Float64Array
) -> None:
    """Fill the labels and the squared distances, (n,), of the nearest of centers, (d, k)."""
    k = centers.shape[1]
    squared = np.empty(k)
    for i in range(len(rows)):
        _square_distances(rows[i], centers, k, squared)
        best = 0
        for c in range(1, k):
            if squared[c] < squared[best]:
                best = c
        labels[i], costs[i] = best, squared[best]


@compile_loop
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
    for c in range(len(masses)):
        masses[c], counts[c] = 0.0, 0
        for j in range(d):
            centers[j, c] = 0.0
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
            _square_distances(middle, centers, room, squared)
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


@compile_loop
def first_columns(values: Float64Array, k: int) -> Float64Array:
    """Return the first k columns of values, (d, room)."""
    found = np.empty((values.shape[0], k))
    for j in range(found.shape[0]):
        for c in range(k):
            found[j, c] = values[j, c]
    return found


@compile_loop
def settle_compiled(
    rows: Float64Array, weights: Float64Array, labels: Int64Array, penalty: float, most: int
) -> tuple[Float64Array, float, int]:
    """Compiled twin of `short_search.settle` for rows, (n, d)."""
    n, d = rows.shape
    last = labels[0]
    for i in range(n):
        last = max(last, labels[i])
    room, passes, merged = 2 * (last + 1) + SPARE, 0, True
    centers, masses, counts = np.empty((d, room)), np.empty(room), np.empty(room, np.int64)
    while merged and passes < most:
        means_compiled(rows, weights, labels, centers, masses, counts)
        passes += exchange_rows_compiled(
            rows, weights, labels, penalty, np.inf, 0.0, most - passes, (centers, masses, counts)
        )
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
    cost, k = 0.0, 0
    for i in range(n):
        cost += weights[i] * _squared(rows[i], centers, labels[i])
    for c in range(room):
        if counts[c]:
            for j in range(d):
                centers[j, k] = centers[j, c]
            k += 1
    return first_columns(centers, k), cost + penalty * k, passes


@compile_loop
def draw_row(weights: Float64Array, costs: Float64Array, draw: float) -> int:
    """Return the number of a row that is drawn by weight times cost, (n,) each; -1 if all are 0."""
    total = 0.0
    for i in range(len(costs)):
        total += weights[i] * costs[i]
    wanted, reached, last = draw * total, 0.0, -1
    for i in range(len(costs)):
        chance = weights[i] * costs[i]
        reached += chance
        if chance > 0.0:
            last = i
            if reached > wanted:
                break
    return last


@compile_loop
def _open_at_best(
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
    trial, best = np.empty(n), np.empty(n)
    for draw in draws:
        row = draw_row(weights, costs, draw)
        if row < 0:
            break
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


@compile_loop
def open_compiled(
    rows: Float64Array, weights: Float64Array, penalty: float, draws: Float64Array
) -> Int64Array:
    """Compiled twin of `short_search.start` for rows, (n, d)."""
    n, d = rows.shape
    labels, costs = np.zeros(n, np.int64), np.empty(n)
    row = min(n - 1, int(draws[0, 0] * n))
    for i in range(n):
        costs[i] = 0.0
        for j in range(d):
            difference = rows[i, j] - rows[row, j]
            costs[i] += difference * difference
    for step in range(1, len(draws)):
        if not _open_at_best(rows, weights, draws[step], 0.5 * penalty, step, labels, costs):
            break
    return labels


@compile_loop
def swap_compiled(
    rows: Float64Array, weights: Float64Array, centers: Float64Array, draws: Float64Array
) -> Int64Array:
    """Compiled twin of `short_search.swap` for rows, (n, d), and centers, (d, k), k > 1."""
    n, k = len(rows), centers.shape[1]
    labels, others = np.empty(n, np.int64), np.empty(n, np.int64)
    costs, second, squared = np.empty(n), np.empty(n), np.empty(k)
    losses = np.zeros(k)
    for i in range(n):
        _square_distances(rows[i], centers, k, squared)
        best, other = 0, -1
        for c in range(1, k):
            if squared[c] < squared[best]:
                best, other = c, best
            elif other < 0 or squared[c] < squared[other]:
                other = c
        labels[i], others[i] = best, other
        costs[i], second[i] = squared[best], squared[other]
        losses[best] += weights[i] * (second[i] - costs[i])
    left = min(k - 1, int(draws[0, 0] * k))
    for draw in draws[0, 1:]:
        c = min(k - 1, int(draw * k))
        if losses[c] < losses[left]:
            left = c
    for i in range(n):
        if labels[i] == left:
            labels[i], costs[i] = others[i], second[i]
    _open_at_best(rows, weights, draws[1], 0.0, left, labels, costs)
    return labels
