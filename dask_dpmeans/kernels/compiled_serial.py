"""The inner loops of `online`, `ward`, `sharing`, `gibbs` and `exchange`, compiled by Numba where it is installed.

They give the same bytes with and without it.
"""

import numpy as np

from dask_dpmeans.kernels.compiled import _compiled

ABREAST = 512
"""Centers whose distances to a row are summed side by side, in the nearest cache."""
ROUNDING = 1e-9
"""Of `exchange`: a move must gain more than this share of the penalty, and what a row leaves must weigh more than this
share of the cluster; less is rounding."""
VANISHING = 1e-12
"""Unit rows whose average is no longer than this cancel: its direction is rounding."""


@_compiled
def _squared_to_all(row, centers, k, squared):
    """The squared distance of a row to each of the first k centers, (d, room): many centers at a time."""
    for first in range(0, k, ABREAST):
        part = squared[first : min(first + ABREAST, k)]
        part[:] = 0.0
        for j in range(len(row)):
            value, middles = row[j], centers[j, first : first + len(part)]
            for c in range(len(part)):
                difference = value - middles[c]
                part[c] += difference * difference


@_compiled
def _take(row, c, centers, weights):
    """Move a running mean, and count the row."""
    weight = weights[c]
    for j in range(len(row)):
        centers[j, c] = (weight * centers[j, c] + row[j]) / (weight + 1.0)
    weights[c] = weight + 1.0


@_compiled
def join_or_open(rows, done, penalty, k, centers, weights):
    """As `online.join_or_open`."""
    room = len(weights)
    squared = np.empty(room)
    for i in range(done, len(rows)):
        if k == room:
            return i, k
        _squared_to_all(rows[i], centers, k, squared)
        best, least = -1, np.inf
        for c in range(k):
            if squared[c] < least:
                best, least = c, squared[c]
        if least > penalty:
            centers[:, k] = rows[i]
            weights[k] = 1.0
            k += 1
        else:
            _take(rows[i], best, centers, weights)
    return len(rows), k


@_compiled
def _bursts(row, c, penalty, weights, lows, highs):
    """Whether a row lies outside a cluster, (d, room), that it would make so heavy and wide that it splits."""
    outside, widest = False, 0.0
    for j in range(len(row)):
        low, high = lows[j, c], highs[j, c]
        outside = outside or row[j] < low or row[j] > high
        widest = max(widest, max(high, row[j]) - min(low, row[j]))
    return outside and (weights[c] + 1.0) * (widest * widest) > 16.0 * penalty


@_compiled
def join_split_or_open(rows, done, penalty, k, centers, weights, lows, highs):
    """As `online.join_split_or_open`."""
    room = len(weights)
    squared = np.empty(room)
    for i in range(done, len(rows)):
        if k == room:
            return i, k
        row = rows[i]
        _squared_to_all(row, centers, k, squared)
        best, least = -1, penalty
        for c in range(k):
            if squared[c] < least and not _bursts(row, c, penalty, weights, lows, highs):
                best, least = c, squared[c]
        if best < 0:
            centers[:, k], lows[:, k], highs[:, k] = row, row, row
            weights[k] = 1.0
            k += 1
            continue
        _take(row, best, centers, weights)
        widest, column = -1.0, 0
        for j in range(len(row)):
            lows[j, best] = min(lows[j, best], row[j])
            highs[j, best] = max(highs[j, best], row[j])
            if highs[j, best] - lows[j, best] > widest:
                widest, column = highs[j, best] - lows[j, best], j
        if weights[best] * (widest * widest) > 16.0 * penalty:
            _split(best, k, column, centers, weights, lows, highs)
            k += 1
    return len(rows), k


@_compiled
def _split(c, new, j, centers, weights, lows, highs):
    """Cut cluster c in column j: the lower half keeps the number, the upper one gets the number `new`."""
    low, high, weight = lows[j, c], highs[j, c], weights[c]
    middle = min(max(centers[j, c], low), high)
    for every in (centers, lows, highs):
        every[:, new] = every[:, c]
    centers[j, c], centers[j, new] = (middle + low) / 2.0, (middle + high) / 2.0
    highs[j, c], lows[j, new] = middle, middle
    weights[c] = weight * ((middle - low) / (high - low))
    weights[new] = weight * ((high - middle) / (high - low))


@_compiled
def _merge_cost(a, b, centers, weights):
    """What merging two clusters, (k, d), adds to the squared error."""
    squared = 0.0
    for j in range(centers.shape[1]):
        difference = centers[a, j] - centers[b, j]
        squared += difference * difference
    return weights[a] * weights[b] / (weights[a] + weights[b]) * squared


@_compiled
def _cheapest_after(a, centers, weights, groups, costs, partners):
    """Find the partner after cluster a whose merge with it costs least."""
    costs[a] = np.inf
    for b in range(a + 1, len(weights)):
        if groups[b] == b:
            cost = _merge_cost(a, b, centers, weights)
            if cost < costs[a]:
                costs[a], partners[a] = cost, b


@_compiled
def merge_cheapest(penalty, centers, weights, sums, groups):
    """As `ward.merge_cheapest`."""
    k = len(weights)
    costs, partners = np.empty(k), np.zeros(k, np.intp)
    for a in range(k):
        _cheapest_after(a, centers, weights, groups, costs, partners)
    while k:
        a = np.argmin(costs)
        if not costs[a] < penalty:
            return
        b = partners[a]
        groups[b], costs[b] = a, np.inf
        weights[a] += weights[b]
        for j in range(centers.shape[1]):
            sums[a, j] += sums[b, j]
            centers[a, j] = sums[a, j] / weights[a]
        for c in range(b):
            if groups[c] == c and (partners[c] == a or partners[c] == b):
                _cheapest_after(c, centers, weights, groups, costs, partners)


@_compiled
def open_in_order(rows, asked, centers, prices, kinds, targets):
    """As `sharing.open_in_order`, for rows, (n, d), whose groups are numbered without gaps, the slots."""
    local, both = prices
    weights, slots, used, unused, wanted = asked
    n, d = rows.shape
    opened, k = np.empty(n, np.intp), 0  # rows that became centers
    last, before = np.full(slots.max() + 1, -1), np.empty(n, np.intp)  # openings by a slot, the latest first
    for i in range(n):
        share = min(1.0, weights[i])
        if not share > 0:
            continue
        nearest_used, nearest_unused, target = used[i], unused[i], wanted[i]
        opening = last[slots[i]]
        while opening >= 0:
            number, squared = targets[opening], 0.0
            center = centers[number] if number < len(centers) else rows[opened[number - len(centers)]]
            for j in range(d):
                difference = rows[i, j] - center[j]
                squared += difference * difference
            nearest_used = min(nearest_used, squared)
            opening = before[opening]
        for c in range(k):  # one that the slot uses already is no nearer than the nearest used
            squared = 0.0
            for j in range(d):
                difference = rows[i, j] - rows[opened[c], j]
                squared += difference * difference
            if squared < nearest_unused:
                nearest_unused, target = squared, len(centers) + c
        cost = min(nearest_used, nearest_unused + local / share)
        if cost > both / share:
            kinds[i], targets[i] = 2, len(centers) + k
            opened[k] = i
            k += 1
        elif nearest_unused + local / share < nearest_used:
            kinds[i], targets[i] = 1, target
        else:
            continue
        before[i], last[slots[i]] = last[slots[i]], i


@_compiled
def reseat_rows(done, k, rows, fresh, opening, logs, half_precision, labels, means, counts, offers):
    """As `gibbs.reseat_rows`."""
    n, room = offers.shape
    for i in range(done, n):
        if k == room:
            return i, k
        counts[labels[i]] -= 1
        best, most = 0, -np.inf
        for c in range(k):
            weight = offers[i, c] + logs[counts[c]]
            if weight > most:
                best, most = c, weight
        if opening[i] > most:
            best = k
            means[k] = fresh[i]
            for later in range(i + 1, n):
                squared = 0.0
                for j in range(rows.shape[1]):
                    difference = rows[later, j] - fresh[i, j]
                    squared += difference * difference
                offers[later, k] -= half_precision * squared
            k += 1
        labels[i] = best
        counts[best] += 1
    return n, k


@_compiled
def _left(weight, count, mass, squared, penalty, spherical):
    """As `exchange._left`."""
    if count == 1:
        return penalty
    if not spherical:
        rest = mass - weight
        return weight * (mass / rest) * squared if rest > ROUNDING * mass else 0.0
    if not mass > VANISHING * weight:
        return 4.0 * weight
    share = weight / mass
    length = np.sqrt((1.0 - share) * (1.0 - share) + share * squared)
    if share < 1.0:
        return 2.0 * weight * squared / (length + (1.0 - share))
    return 2.0 * mass * (length + (share - 1.0))


@_compiled
def _joined(weight, mass, squared, spherical):
    """As `exchange._joined`, of one cluster."""
    total = mass + weight
    share = mass / total
    if not spherical:
        return weight * share * squared
    length = np.sqrt(max(0.0, 1.0 - share * (weight / total) * squared))
    return 2.0 * weight * share * squared / (1.0 + length)


@_compiled
def _turn(row, weight, c, centers, masses):
    """As `exchange._turn`."""
    mass, squared = masses[c], 0.0
    for j in range(len(row)):
        value = mass * centers[j, c] + weight * row[j]
        squared += value * value
    length = np.sqrt(squared)
    masses[c] = length
    if length > VANISHING * abs(weight):
        for j in range(len(row)):
            centers[j, c] = (mass * centers[j, c] + weight * row[j]) / length


@_compiled
def _take_out(row, weight, c, spherical, centers, masses, counts):
    """As `exchange._take_out`."""
    counts[c] -= 1
    rest = masses[c] - weight
    if not counts[c]:
        return
    if spherical:
        _turn(row, -weight, c, centers, masses)
    else:
        share = weight / rest
        for j in range(len(row)):
            centers[j, c] -= share * (row[j] - centers[j, c])
        masses[c] = rest


@_compiled
def _put_in(row, weight, c, spherical, centers, masses, counts):
    """As `exchange._put_in`."""
    counts[c] += 1
    if counts[c] == 1:
        centers[:, c] = row
        masses[c] = weight
    elif spherical:
        _turn(row, weight, c, centers, masses)
    else:
        masses[c] += weight
        share = weight / masses[c]
        for j in range(len(row)):
            centers[j, c] += share * (row[j] - centers[j, c])


@_compiled
def exchange_rows(rows, weights, labels, penalty, spherical, most, centers, masses, counts):
    """As `exchange.exchange_rows`."""
    room, passes, moved = len(masses), 0, True
    squared = np.empty(room)
    while moved and passes < most:
        passes += 1
        moved = False
        for i in range(len(rows)):
            row, weight, own = rows[i], weights[i], labels[i]
            _squared_to_all(row, centers, room, squared)
            left = _left(weight, counts[own], masses[own], squared[own], penalty, spherical)
            best, least, empty = -1, np.inf, -1
            for c in range(room):
                if counts[c] == 0:
                    if empty < 0:
                        empty = c
                elif c != own:
                    cost = _joined(weight, masses[c], squared[c], spherical)
                    if cost < least:
                        best, least = c, cost
            if counts[own] > 1 and empty >= 0 and penalty < least:
                best, least = empty, penalty
            if least + ROUNDING * penalty < left:
                _take_out(row, weight, own, spherical, centers, masses, counts)
                _put_in(row, weight, best, spherical, centers, masses, counts)
                labels[i] = best
                moved = True
    return passes
