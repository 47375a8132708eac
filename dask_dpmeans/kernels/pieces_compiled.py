"""Compiled loops of `pieces`: a descent of a partition, and the best halves of a cluster.

They return the same bytes as the NumPy code in `pieces`: sums are added in NumPy's order, and
`exact_sum` rounds once, as `math.fsum` does.  After a move the gains of two clusters change alone.
Here sums are (k, m), a row for each cluster.
"""

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

MOST_PIECES = 2**7
"""Most pieces searched together; NumPy adds more numbers than these in another order."""
GROWTH_SEEDS = 12
"""Most pieces of a cluster that halves grow from, spread evenly over it."""
KNOWN_HALVES = 2**11
"""Most halves that are remembered, a power of two; one takes the place of another."""

Problem = tuple[Float64Array, Float64Array, Float64Array, float, float]
"""Links (m, m), transposed, own kept weights (m,), masses (m,), price of a cluster, and the least gain."""
Known = tuple[Int64Array, Int64Array, Float64Array]
"""Members and second halves as bits, (KNOWN_HALVES, words), and gains, (KNOWN_HALVES,)."""

Cluster = tuple[Float64Array, Float64Array, Float64Array, Float64Array, float, float]
"""Links (n, n) between the pieces of a cluster and their sums (n,), masses (n,), own kept weights
(n,); kept weight and mass of the cluster."""
Tables = tuple[Float64Array, Float64Array, Float64Array]
"""Of k clusters: links of pieces to them (m + 1, m); their kept weights, masses, rates and sizes
(4, m + 1); by what their rates rise with each piece of others (m + 1, m)."""


@compile_part
def pairwise_sum(values: Float64Array, n: int) -> float:
    """Return the sum of the first n of values, (m,), at most 128, in the order of `np.sum`."""
    total, tail = 0.0, 0
    if n >= 8:
        tail = n - n % 8
        a, b, c, d = values[0], values[1], values[2], values[3]
        e, f, g, h = values[4], values[5], values[6], values[7]
        for q in range(8, tail, 8):
            a += values[q]
            b += values[q + 1]
            c += values[q + 2]
            d += values[q + 3]
            e += values[q + 4]
            f += values[q + 5]
            g += values[q + 6]
            h += values[q + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for q in range(tail, n):
        total += values[q]
    return total


@compile_part
def exact_sum(values: Float64Array, n: int) -> float:
    """Return the sum of n finite of values, (m,), rounded once as in `math.fsum` (Shewchuk 1997)."""
    partials, count = np.empty(n + 1), 0
    for i in range(n):
        kept, high = 0, values[i]
        for j in range(count):
            low = partials[j]
            if abs(high) < abs(low):
                high, low = low, high
            both = high + low
            low -= both - high
            if low != 0.0:
                partials[kept] = low
                kept += 1
            high = both
        partials[kept] = high
        count = kept + 1
    total, rest = 0.0, 0.0
    while count > 0 and rest == 0.0:
        count -= 1
        both = total + partials[count]
        rest = partials[count] - (both - total)
        total = both
    if count > 0 and rest * partials[count - 1] > 0.0:  # half way: the smaller partials decide
        both = total + 2.0 * rest
        if 2.0 * rest == both - total:
            total = both
    return total


@compile_part
def count_clusters(labels: Int64Array) -> int:
    """Return the number of clusters of labels, (m,), from 0 on without gaps."""
    k = 0
    for label in labels:
        k = max(k, label + 1)
    return k


@compile_part
def _fill_sums(links: Float64Array, labels: Int64Array, k: int, sums: Float64Array) -> None:
    """Fill `sums[:k]` with links of pieces to clusters, in the order of `np.add.reduceat`."""
    m = len(labels)
    ends, order, parts = np.zeros(k + 1, np.int64), np.empty(m, np.int64), np.empty((9, m))
    for label in labels:
        ends[label + 1] += 1
    for c in range(k):
        ends[c + 1] += ends[c]
    places = ends.copy()
    for j in range(m):
        order[places[labels[j]]] = j
        places[labels[j]] += 1
    for c in range(k):
        first, stop = ends[c], ends[c + 1]
        for i in range(m):
            parts[8, i] = 0.0
        tail = first + 1
        if stop - tail >= 8:
            tail = stop - (stop - tail) % 8
            for q in range(first + 1, tail):
                part, fresh, piece = (q - first - 1) % 8, q < first + 9, order[q]
                for i in range(m):
                    parts[part, i] = links[piece, i] + (0.0 if fresh else parts[part, i])
            for i in range(m):
                low = (parts[0, i] + parts[1, i]) + (parts[2, i] + parts[3, i])
                parts[8, i] = low + ((parts[4, i] + parts[5, i]) + (parts[6, i] + parts[7, i]))
        for q in range(tail, stop):
            piece = order[q]
            for i in range(m):
                parts[8, i] += links[piece, i]
        piece = order[first]
        for i in range(m):
            sums[c, i] = links[piece, i] + parts[8, i]


@compile_part
def _fill_totals(
    masses: Float64Array, labels: Int64Array, k: int, sums: Float64Array, totals: Float64Array
) -> None:
    """Fill `totals`, (4, m + 1), with kept weights, masses, rates and sizes of k clusters."""
    for c in range(k):
        totals[0, c] = totals[1, c] = totals[3, c] = 0.0
    for i in range(len(labels)):
        c = labels[i]
        totals[0, c] += sums[c, i]
        totals[1, c] += masses[i]
        totals[3, c] += 1.0
    for c in range(k):
        totals[2, c] = totals[0, c] / totals[1, c]


@compile_part
def _objective(price: float, k: int, totals: Float64Array) -> float:
    """Return price * k - sum of the rates of k clusters."""
    value: float = price * k - exact_sum(totals[2], k)
    return value


@compile_part
def _fill_joining(problem: Problem, labels: Int64Array, c: int, tables: Tables) -> None:
    """Fill `joining[c]`, (m,), with what a cluster's rate rises by with each piece of others."""
    (_, own, masses, _, _), (sums, totals, joining) = problem, tables
    kept, mass, rate = totals[0, c], totals[1, c], totals[2, c]
    for i in range(len(labels)):
        joining[c, i] = (kept + 2.0 * sums[c, i] + own[i]) / (mass + masses[i]) - rate
    for i in range(len(labels)):
        if labels[i] == c:
            joining[c, i] = -np.inf


@compile_part
def _best_move(
    problem: Problem, labels: Int64Array, k: int, tables: Tables
) -> tuple[int, int, float]:
    """Return the piece, the target and the gain of the best move, the first among equals."""
    (_, own, masses, price, _), (sums, totals, joining) = problem, tables
    best = np.empty(len(labels))
    for i in range(len(labels)):
        best[i] = joining[0, i]
    for c in range(1, k):
        for i in range(len(labels)):
            best[i] = max(best[i], joining[c, i])
    piece, target, most, leaving = 0, 0, -np.inf, 0.0
    for i in range(len(labels)):
        home = labels[i]
        single, rest = totals[3, home] == 1.0, totals[1, home] - masses[i]
        left = -np.inf
        if single:
            left = price
        elif rest > 0.0:
            left = (totals[0, home] - 2.0 * sums[home, i] + own[i]) / rest
        left -= totals[2, home]
        if not single:
            best[i] = max(best[i], own[i] / masses[i] - price)
        if best[i] + left > most:
            piece, most, leaving = i, best[i] + left, left
    while target < k and joining[target, piece] + leaving != most:
        target += 1
    return piece, target, most


@compile_part
def _move_pieces(problem: Problem, labels: Int64Array, k: int, tables: Tables) -> int:
    """Move single pieces of k clusters in place, and return the number of clusters."""
    (links, _, masses, price, least), (sums, totals, joining) = problem, tables
    _fill_totals(masses, labels, k, sums, totals)
    for c in range(k):
        _fill_joining(problem, labels, c, tables)
    value = price * k - pairwise_sum(totals[2], k)
    while True:
        piece, target, gain = _best_move(problem, labels, k, tables)
        if not gain > least:
            return k
        home = labels[piece]
        for i in range(len(labels)):
            if target == k:
                sums[k, i] = 0.0
            sums[home, i] -= links[piece, i]
            sums[target, i] += links[piece, i]
        k += target == k
        labels[piece] = target
        emptied = totals[3, home] == 1.0
        if emptied:
            k -= 1
            target -= target > home
            for i in range(len(labels)):
                labels[i] -= labels[i] > home
                for c in range(home, k):
                    sums[c, i], joining[c, i] = sums[c + 1, i], joining[c + 1, i]
        _fill_totals(masses, labels, k, sums, totals)
        before, value = value, price * k - pairwise_sum(totals[2], k)
        if not value < before:
            return k
        _fill_joining(problem, labels, target, tables)
        if not emptied:
            _fill_joining(problem, labels, home, tables)


@compile_part
def _merge_gains(
    labels: Int64Array, k: int, price: float, sums: Float64Array, totals: Float64Array
) -> Float64Array:
    """Return the gains, (k, k), of merges of k clusters; -inf on and below the diagonal."""
    gains = np.empty((k, k))
    for second in range(k):
        for first in range(k):
            gains[first, second] = 0.0
        for i in range(len(labels)):
            gains[labels[i], second] += sums[second, i]
    kept, masses, rates = totals[0], totals[1], totals[2]
    for first in range(k):
        for second in range(first + 1):
            gains[first, second] = -np.inf
        for second in range(first + 1, k):
            together = kept[first] + kept[second] + 2.0 * gains[first, second]
            together /= masses[first] + masses[second]
            gains[first, second] = price + together - rates[first] - rates[second]
    return gains


@compile_part
def _merge_best(
    problem: Problem, labels: Int64Array, k: int, sums: Float64Array, totals: Float64Array
) -> int:
    """Make the best merge of k clusters in place, if one gains; return the number of clusters."""
    gains = _merge_gains(labels, k, problem[3], sums, totals)
    best, one, other = problem[4], k, k
    for first in range(k):
        for second in range(first + 1, k):
            if gains[first, second] > best:
                best, one, other = gains[first, second], first, second
    for i in range(len(labels)):
        if labels[i] == other:
            labels[i] = one
        labels[i] -= labels[i] > other
    return k - (one < k)


@compile_part
def _grow_half(
    cluster: Cluster, seed: int, order: Int64Array, best: Float64Array, leads: Int64Array, s: int
) -> None:
    """Fill `order`, (n,), with the pieces of a half that grows from a seed, the best piece first.

    Where the rates of a stage are the best so far, they go to `best`, (n,), and s to `leads`, (n,).
    """
    inner, reach, weights, alone, kept, mass = cluster
    n = len(reach)
    inside, shared, rates = np.zeros(n, np.bool_), np.zeros(n), np.empty(n)
    grown_kept = grown_mass = grown_reach = 0.0
    for stage in range(n - 1):
        grown_kept += alone[seed] + 2.0 * shared[seed]
        grown_mass += weights[seed]
        grown_reach += reach[seed]
        inside[seed] = True
        order[stage] = seed
        rest, lighter = kept - 2.0 * grown_reach, mass - grown_mass
        if lighter > 0.0:
            rate = grown_kept / grown_mass + (rest + grown_kept) / lighter
            if rate > best[stage]:
                best[stage], leads[stage] = rate, s
        for j in range(n):
            shared[j] += inner[seed, j]
            next_kept = grown_kept + 2.0 * shared[j] + alone[j]
            next_mass = grown_mass + weights[j]
            left = kept - 2.0 * (grown_reach + reach[j]) + next_kept
            lighter = mass - next_mass
            left = left / lighter if lighter > 0.0 else 0.0
            rates[j] = next_kept / next_mass + left
        highest, seed = -np.inf, 0
        for j in range(n):
            if not inside[j] and rates[j] > highest:
                highest, seed = rates[j], j


@compile_loop
def halves_compiled(
    problem: Problem, members: Int64Array, seeds: Int64Array, second: BoolArray
) -> float:
    """Fill `second`, (members,), with the best half that grows from a seed, and return its gain."""
    links, own, masses, price, _ = problem
    n = len(members)
    inner, reach, weights, alone = np.empty((n, n)), np.empty(n), np.empty(n), np.empty(n)
    for a in range(n):
        for b in range(n):
            inner[a, b] = links[members[b], members[a]]
        reach[a] = pairwise_sum(inner[a], n)
        weights[a], alone[a] = masses[members[a]], own[members[a]]
    kept, mass = pairwise_sum(reach, n), pairwise_sum(weights, n)
    orders, leads = np.empty((len(seeds), n), np.int64), np.zeros(n, np.int64)
    best = np.full(n, -np.inf)
    for s in range(len(seeds)):
        cluster = inner, reach, weights, alone, kept, mass
        _grow_half(cluster, seeds[s], orders[s], best, leads, s)
    last, gain = -1, -np.inf
    for j in range(n):
        second[j] = False
    for stage in range(n - 1):
        found = best[stage] - kept / mass - price
        if found > gain:
            last, gain = stage, found
    for stage in range(last + 1):
        second[orders[leads[last], stage]] = True
    return gain


@compile_part
def _spread_seeds(n: int) -> Int64Array:
    """Return at most `GROWTH_SEEDS` of n positions, spread evenly, as `np.linspace` does."""
    seeds, count = np.empty(GROWTH_SEEDS, np.int64), 0
    for q in range(GROWTH_SEEDS):
        position = int(q * ((n - 1) / (GROWTH_SEEDS - 1)))
        if q == GROWTH_SEEDS - 1:
            position = n - 1
        if count == 0 or position > seeds[count - 1]:
            seeds[count] = position
            count += 1
    return seeds[:count]


@compile_part
def _known_halves(problem: Problem, members: Int64Array, second: BoolArray, known: Known) -> float:
    """Fill `second` with the best halves of a cluster, remembered or not, and return their gain."""
    keys, halves, gains = known
    bits, slot = np.zeros(keys.shape[1], np.int64), np.int64(0)
    for piece in members:
        bits[piece // 64] |= np.int64(1) << np.int64(piece % 64)
    for word in bits:
        slot = (slot ^ word) * 0x9E3779B97F4A7C1 & (1 << 60) - 1
    slot = slot >> 20 & KNOWN_HALVES - 1
    same = True
    for q in range(len(bits)):
        same &= keys[slot, q] == bits[q]
    if not same:
        gains[slot] = halves_compiled(problem, members, _spread_seeds(len(members)), second)
        for q in range(len(bits)):
            keys[slot, q], halves[slot, q] = bits[q], 0
        for q in range(len(members)):
            piece = members[q]
            halves[slot, piece // 64] |= np.int64(second[q]) << np.int64(piece % 64)
    for q in range(len(members)):
        second[q] = halves[slot, members[q] // 64] >> np.int64(members[q] % 64) & 1
    gain: float = gains[slot]
    return gain


@compile_part
def _split_clusters(problem: Problem, labels: Int64Array, k: int, known: Known) -> int:
    """Make all splits of k clusters that gain in place, and return the number of clusters."""
    after, m, second = k, len(labels), np.empty(len(labels), np.bool_)
    places = np.empty(m, np.int64)
    for cluster in range(k):
        count = 0
        for i in range(m):
            if labels[i] == cluster:
                places[count] = i
                count += 1
        members = places[:count]
        if _known_halves(problem, members, second, known) > problem[4]:
            for q in range(len(members)):
                if second[q]:
                    labels[members[q]] = after
            after += 1
    return after


@compile_loop
def descend_compiled(problem: Problem, labels: Int64Array, known: Known) -> None:
    """Move, merge and split clusters with labels, (m,), in place, until none gains."""
    links, _, masses, price, _ = problem
    m, k, value = len(labels), count_clusters(labels), np.inf
    sums, joining, totals = np.empty((m + 1, m)), np.empty((m + 1, m)), np.empty((4, m + 1))
    before = np.empty(m, np.int64)
    while True:
        for i in range(m):
            before[i] = labels[i]
        _fill_sums(links, labels, k, sums)
        k = _move_pieces(problem, labels, k, (sums, totals, joining))
        _fill_sums(links, labels, k, sums)
        _fill_totals(masses, labels, k, sums, totals)
        lower = _objective(price, k, totals)
        if not lower < value:
            for i in range(m):
                labels[i] = before[i]
            return
        value, same = lower, k
        k = _merge_best(problem, labels, k, sums, totals)
        if k == same:
            k = _split_clusters(problem, labels, k, known)
        if k == same:
            return


@compile_loop
def objective_compiled(problem: Problem, labels: Int64Array) -> float:
    """Return price * k - sum of kept / mass for labels, (m,), from 0 on without gaps."""
    m, k = len(labels), count_clusters(labels)
    sums, totals = np.empty((k, m)), np.empty((4, k))
    _fill_sums(problem[0], labels, k, sums)
    _fill_totals(problem[2], labels, k, sums, totals)
    return _objective(problem[3], k, totals)


@compile_loop
def merge_gains_compiled(problem: Problem, labels: Int64Array) -> Float64Array:
    """Return the gains of merges of k clusters, (k, k); -inf on and below the diagonal."""
    m, k = len(labels), count_clusters(labels)
    sums, totals = np.empty((k, m)), np.empty((4, k))
    _fill_sums(problem[0], labels, k, sums)
    _fill_totals(problem[2], labels, k, sums, totals)
    return _merge_gains(labels, k, problem[3], sums, totals)
