"""Compiled loops of `center_clusters`: Lloyd's steps that touch only what has changed.

They return the same bytes as the NumPy code there.  The state is a plain tuple of arrays,
and each cluster has a list of its rows in ascending order, so that a step reads only clusters near a
center that moved.

A loop is compiled once more within each loop that calls it.  So few loops are called from outside,
and what can be done in between is done by NumPy; slices and sorts of arrays are written as loops,
since Numba takes seconds to compile its own.
"""

import math
from typing import Any

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float32Array, Float64Array, Int64Array
from dask_dpmeans.kernels.halves_compiled import VANISHING, Data, halve, pair_cost
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

ZERO: Any = np.int64(0)
"""Zero where a variable begins: Numba takes a literal for a type of its own."""
LLOYD_STEPS = 50
"""Most Lloyd's steps after a split or a merge.  Up to 4 took .7 of the time for a choice of 156 sets of
rows, whose agreement with their labels was the same, but 31 clusters of three balls with outliers were chosen."""
SURELY = 4.0 * (1 + 1e-6)
"""A center that is squared this many times as far from the own center as the row is cannot win, ..."""
TINY = 1e-290
"""... nor tie, if its squared distance is greater than this, too: underflow is far below."""
SLACK = 1e-9
"""Share of a distance by which a bound of it is lowered: rounding errors are far below."""
ROUNDED, LEAST_BOUND, MOST_BOUND = 2e-7, 1e-30, 1e30
"""Share by which a number is above what it was before it became a float32, and the least and the
greatest bound that count: of lesser ones, the share may be greater, and others may overflow."""
SORTED_ANEW = 4
"""The bounds are sorted by cluster anew once as many rows as one in so many went to nearer centers."""
Bounds = tuple[Float32Array, Float64Array, Int64Array, float, Int64Array, Int64Array]
"""Distances when they were computed, plus the way that the center had moved by then, (lines, n), or
(lines, 0) if none are kept, with a spare line at the end; the ways that centers have moved, (room,);
the line of each center, (room,); what all are multiplied by, a power of two that makes them about 1;
the place of each row in a line, (n,); how many rows went to nearer centers since the bounds were
sorted, (1,).

As float32 they take half the memory.  Rows of a cluster are side by side, and so are read together: a
path of 10,000 rows in 8 columns with up to 200 clusters took .42 of the time of bounds by row, and of
5,000 rows in 20 columns .4."""
State = tuple[
    Float64Array, Float64Array, Float64Array, Float64Array, Int64Array, Float64Array, Bounds
]
"""Centers (room, d), masses, errors and gains of splits, (room,); labels and squared distances of
the rows, (n,); bounds of the distances of rows and centers."""
Lists = tuple[Int64Array, Int64Array, Int64Array, Int64Array, Float64Array]
"""Pool of row numbers (size,); first places and numbers of rows of the clusters, (room,); place of
the free part (1,); greatest squared distance in each cluster (room,)."""
Marks = tuple[BoolArray, BoolArray, BoolArray]
"""Clusters whose center moved, whose rows changed, and whose error changed, (room,) each."""
Buffers = tuple[
    Int64Array,
    Int64Array,
    Int64Array,
    Int64Array,
    Float64Array,
    Float64Array,
    Int64Array,
    Float64Array,
]
"""Work arrays: (n,), (n,), (room,), (room,) integers, (room,) and (d,) numbers, (room,) integers and
numbers."""
Halves = tuple[BoolArray, Float64Array]
"""Which rows leave when their cluster is halved, (n,), and a work array, (n + 8, d)."""
Taken = tuple[Int64Array, Float64Array, Float64Array]
"""Of each step: the number of clusters it led to and the one that was halved, (steps, 2); centers,
(steps, room, d); errors, (steps, room)."""


@compile_part
def _squared(rows: Float64Array, i: int, centers: Float64Array, c: int) -> float:
    """Return the squared distance, by definition, of a row, of (n, d), and a center, of (k, d)."""
    total = 0.0
    for j in range(rows.shape[1]):
        difference = rows[i, j] - centers[c, j]
        total += difference * difference
    return total


@compile_part
def _note_way(state: State, c: int, target: Float64Array) -> None:
    """Add the distance to a target, (d,), to the way of a center, if bounds are kept."""
    centers, (known, ways, lines, scale, _, _) = state[0], state[6]
    if not known.shape[1]:
        return
    squared = 0.0
    for j in range(len(target)):
        squared += (target[j] - centers[c, j]) * (target[j] - centers[c, j])
    ways[lines[c]] += math.sqrt(squared) * scale * (1 + SLACK)


@compile_part
def _place(data: Data, state: State, lists: Lists, c: int, sums: Float64Array, moves: bool) -> None:
    """Compute the mass of a cluster, and its center if that moves, from its rows; sums are (d,)."""
    rows, weights, spherical = data
    centers, masses = state[0], state[1]
    pool, starts, counts = lists[0], lists[1], lists[2]
    d = rows.shape[1]
    weight = 0.0
    for j in range(d):
        sums[j] = 0.0
    for place in range(starts[c], starts[c] + counts[c]):
        i = pool[place]
        weight += weights[i]
        for j in range(d):
            sums[j] += weights[i] * rows[i, j]
    for j in range(d):
        sums[j] /= weight
    masses[c] = weight
    if spherical:
        length = 0.0
        for j in range(d):
            length += sums[j] * sums[j]
        length = math.sqrt(length)
        if not length > VANISHING:
            masses[c] = 0.0
            return
        masses[c] = weight * length
        for j in range(d):
            sums[j] /= length
    if moves:
        _note_way(state, c, sums)
        for j in range(d):
            centers[c, j] = sums[j]


@compile_part
def _make_room(lists: Lists, k: int, wanted: int, spare: Int64Array) -> None:
    """Move the lists of k clusters to the front of the pool if `wanted` places are not free."""
    pool, starts, counts, free, _ = lists
    if free[0] + wanted <= len(pool):
        return
    place = 0
    for c in range(k):
        for member in range(starts[c], starts[c] + counts[c]):
            spare[place] = pool[member]
            place += 1
        starts[c] = place - counts[c]
    for member in range(place):
        pool[member] = spare[member]
    free[0] = place


@compile_part
def _sort(values: Int64Array, count: int) -> None:
    """Sort the first values (Shell 1959)."""
    gap = 1
    while 3 * gap < count:
        gap = 3 * gap + 1
    while gap:
        for i in range(gap, count):
            value, place = values[i], i
            while place >= gap and values[place - gap] > value:
                values[place] = values[place - gap]
                place -= gap
            values[place] = value
        gap //= 3


@compile_part
def _move_rows(
    labels: Int64Array, lists: Lists, k: int, found: int, changed: BoolArray, buffers: Buffers
) -> None:
    """Bring the lists of changed clusters up to date; the moved rows have new labels, (n,)."""
    pool, starts, counts, free, _ = lists
    moved, arrivals, firsts, ends = buffers[0], buffers[1], buffers[2], buffers[3]
    _sort(moved, found)
    for c in range(k):
        firsts[c] = 0
    for row in range(found):
        firsts[labels[moved[row]]] += 1
    total = 0
    for c in range(k):
        total += firsts[c]
        ends[c] = firsts[c] = total - firsts[c]
    for row in range(found):
        i = moved[row]
        arrivals[ends[labels[i]]] = i
        ends[labels[i]] += 1
    for c in range(k):
        if not changed[c]:
            continue
        first, arrival = free[0], firsts[c]
        place = first
        for member in range(starts[c], starts[c] + counts[c]):
            i = pool[member]
            if labels[i] != c:
                continue
            while arrival < ends[c] and arrivals[arrival] < i:
                pool[place] = arrivals[arrival]
                place, arrival = place + 1, arrival + 1
            pool[place] = i
            place += 1
        while arrival < ends[c]:
            pool[place] = arrivals[arrival]
            place, arrival = place + 1, arrival + 1
        starts[c], counts[c], free[0] = first, place - first, place


@compile_part
def _measure(data: Data, state: State, lists: Lists, c: int) -> None:
    """Compute the squared distances of the rows of a cluster, and the greatest."""
    rows, centers, squared = data[0], state[0], state[5]
    pool, starts, counts, _, reach = lists
    reach[c] = 0.0
    for place in range(starts[c], starts[c] + counts[c]):
        i = pool[place]
        squared[i] = _squared(rows, i, centers, c)
        reach[c] = max(reach[c], squared[i])


@compile_part
def _near_centers(state: State, reach: float, every: bool, k: int, a: int, buffers: Buffers) -> int:
    """List centers that may win rows of cluster a by rising distance, with lines and ways; return how many.

    They are looked for among every one of k centers, or among the first k that are listed.  A squared
    distance never falls from column to column, so its sum ends once it is too large: paths to 750 and
    1,250 clusters took .86 of the time.
    """
    centers, (_, ways, lines, _, _, _) = state[0], state[6]
    _, _, near, listed, apart, _, line_of, way_of = buffers
    limit = reach * SURELY + TINY
    count = 0
    for other in range(k):
        c = other if every else listed[other]
        if c == a:
            continue
        squared = 0.0
        for j in range(centers.shape[1]):
            squared += (centers[a, j] - centers[c, j]) * (centers[a, j] - centers[c, j])
            if squared > limit:
                break
        if squared > limit:
            continue
        place = count
        while place > 0 and apart[place - 1] > squared:
            near[place], apart[place] = near[place - 1], apart[place - 1]
            place -= 1
        near[place], apart[place] = c, squared
        count += 1
    for place in range(count):
        line_of[place] = lines[near[place]]
        way_of[place] = ways[line_of[place]]
    return count


@compile_part
def _threshold(scale: float, least: float) -> float:
    """Return what a bound has to exceed if a center is surely farther than a squared distance."""
    return max(LEAST_BOUND, math.sqrt(least * (1 + SLACK) + TINY) * scale)


@compile_part
def _bound(scale: float, distance: float, way: float) -> float:
    """Return the bound of a distance, given squared, to a center that has come a way; see `Bounds`."""
    found = math.sqrt(distance) * scale + way
    return found if found < MOST_BOUND else -np.inf


@compile_part
def _assign(data: Data, state: State, lists: Lists, marks: Marks, buffers: Buffers, k: int) -> int:
    """Give rows to their nearest centers, list those that changed, and return how many."""
    rows, centers, labels, squared = data[0], state[0], state[4], state[5]
    pool, starts, counts, _, reach = lists
    moved, changed, _ = marks
    leaving, _, near, listed, apart, _, line_of, way_of = buffers
    known, _, _, scale, slots, changes = state[6]
    found, n_moved, bounded = 0, 0, known.shape[1] > 0
    for c in range(k):
        changed[c] = False
        if moved[c]:
            _measure(data, state, lists, c)
            listed[n_moved] = c
            n_moved += 1
    for a in range(k):
        if not counts[a]:
            continue
        among = k if moved[a] else n_moved
        count = _near_centers(state, reach[a], moved[a], among, a, buffers)
        if not count:
            continue
        for place in range(starts[a], starts[a] + counts[a]):
            i = pool[place]
            best, least, slot = a, squared[i], slots[i]
            limit = least * SURELY + TINY
            threshold = _threshold(scale, least) if bounded else 0.0
            for other in range(count):
                if apart[other] > limit:
                    break
                line = line_of[other]
                if bounded and known[line, slot] * (1 - ROUNDED) - way_of[other] > threshold:
                    continue
                c = near[other]
                distance = _squared(rows, i, centers, c)
                if bounded:
                    known[line, slot] = _bound(scale, distance, way_of[other])
                if distance < least or (distance == least and c < best):
                    best, least = c, distance
                    threshold = _threshold(scale, least) if bounded else 0.0
            if best != a:
                labels[i], squared[i] = best, least
                changed[a] = changed[best] = True
                leaving[found] = i
                found += 1
    changes[0] += found
    return found


@compile_part
def _sort_bounds(state: State, lists: Lists, buffers: Buffers, k: int) -> None:
    """Bring the bounds of rows of the same of k clusters together, if many rows have changed theirs."""
    known, _, lines, _, slots, changes = state[6]
    (pool, starts, counts, _, _), order = lists, buffers[1]
    if not known.shape[1] or changes[0] * SORTED_ANEW < len(slots):
        return
    changes[0] = place = ZERO
    spare = len(known) - 1
    for c in range(k):
        for member in range(starts[c], starts[c] + counts[c]):
            order[place], slots[pool[member]] = slots[pool[member]], place
            place += 1
    for c in range(k):
        line = known[lines[c]]
        for slot in range(len(order)):
            known[spare, slot] = line[order[slot]]
        for slot in range(len(order)):
            line[slot] = known[spare, slot]


@compile_part
def _drop_empty(state: State, lists: Lists, k: int) -> int:
    """Drop clusters without rows, and return the number of the others."""
    centers, masses, errors, gains, labels, _, (_, _, lines, _, _, _) = state
    pool, starts, counts, _, reach = lists
    kept = 0
    for c in range(k):
        if not counts[c]:
            continue
        if c != kept:
            for j in range(centers.shape[1]):
                centers[kept, j] = centers[c, j]
            masses[kept], errors[kept], gains[kept] = masses[c], errors[c], gains[c]
            starts[kept], counts[kept], reach[kept] = starts[c], counts[c], reach[c]
            lines[kept], lines[c] = lines[c], lines[kept]
            for place in range(starts[c], starts[c] + counts[c]):
                labels[pool[place]] = kept
        kept += 1
    for c in range(kept, k):
        counts[c] = 0
    return kept


@compile_part
def _sum_errors(data: Data, state: State, lists: Lists, c: int) -> None:
    """Compute the error of a cluster, and its greatest squared distance."""
    weights, errors, squared = data[1], state[2], state[5]
    pool, starts, counts, _, reach = lists
    errors[c] = reach[c] = 0.0
    for place in range(starts[c], starts[c] + counts[c]):
        i = pool[place]
        errors[c] += weights[i] * squared[i]
        reach[c] = max(reach[c], squared[i])


@compile_part
def _refine(
    data: Data,
    state: State,
    lists: Lists,
    marks: Marks,
    buffers: Buffers,
    clusters: tuple[int, int, bool],
    steps: int,
) -> int:
    """Compiled twin of `Clusters.refine`; return the number of clusters with rows.

    `clusters` are their number, how many rows have new labels and are yet to leave their lists, and
    whether a cluster is dropped if it has no rows then.  Clusters marked as moved are placed before
    so many of Lloyd's steps.  If there are none, rows go to the centers as these are.
    """
    gains, labels, n, sums = state[3], state[4], len(data[0]), buffers[5]
    counts, (moved, changed, touched), moves = lists[2], marks, steps > 0
    k, found, joined = clusters
    _sort_bounds(state, lists, buffers, k)
    if found:
        _make_room(lists, k, n, buffers[1])
        _move_rows(labels, lists, k, found, changed, buffers)
        if joined:
            k = _drop_empty(state, lists, k)  # the lists of others keep their order
    for c in range(k):
        touched[c] = moved[c]
        if moved[c] and moves:
            _place(data, state, lists, c, sums, moves)
    for step in range(steps + 1):
        found = _assign(data, state, lists, marks, buffers, k)
        if not found:
            break
        _make_room(lists, k, n, buffers[1])
        _move_rows(labels, lists, k, found, changed, buffers)
        for c in range(k):
            touched[c] |= changed[c]
            moved[c] = changed[c] and counts[c] > 0
            if moved[c] and step < steps:
                _place(data, state, lists, c, sums, moves)
    for c in range(k):
        moved[c] = False
        if touched[c]:
            gains[c] = -1.0
            _sum_errors(data, state, lists, c)
            if not moves:
                _place(data, state, lists, c, sums, moves)
    return _drop_empty(state, lists, k)


@compile_part
def _guess_labels(
    rows: Float64Array, centers: Float64Array, labels: Int64Array, lists: Lists, k: int
) -> None:
    """Give all rows, (n, d), of each list to the nearest of k centers, (room, d), of its first row."""
    pool, starts, counts, free, _ = lists
    for a in range(len(starts)):
        if not counts[a]:
            continue
        first, guess, least = pool[starts[a]], 0, np.inf
        for c in range(k):
            distance = _squared(rows, first, centers, c)
            if distance < least:
                guess, least = c, distance
        for place in range(starts[a], starts[a] + counts[a]):
            labels[pool[place]] = guess
    for c in range(len(counts)):
        counts[c] = 0
    for i in range(len(labels)):
        counts[labels[i]] += 1
    place = 0
    for c in range(k):
        starts[c] = place
        place += counts[c]
    for i in range(len(labels)):
        pool[starts[labels[i]]] = i
        starts[labels[i]] += 1
    for c in range(k):
        starts[c] -= counts[c]
    free[0] = len(labels)


@compile_part
def _cheapest_pair(
    centers: Float64Array, masses: Float64Array, spherical: bool, k: int
) -> tuple[int, int]:
    """Return the two of k clusters, the lower number first, whose merge costs the least.

    Centers are (room, d), masses (room,).
    """
    least, p, q = np.inf, 0, 1
    for a in range(k):
        for b in range(a + 1, k):
            squared = _squared(centers, a, centers, b)
            cost = pair_cost(masses[a], masses[b], squared, spherical)
            if cost < least:
                least, p, q = cost, a, b
    return p, q


@compile_part
def _restore(data: Data, state: State, lists: Lists, marks: Marks, k: int) -> None:
    """Make the k centers, as they are, ready for rows to go to."""
    known = state[6][0]
    for line in range(known.shape[0]):
        for slot in range(known.shape[1]):
            known[line, slot] = -np.inf
    _guess_labels(data[0], state[0], state[4], lists, k)
    for c in range(k):
        marks[0][c] = True


@compile_part
def _best_halved(data: Data, state: State, lists: Lists, halves: Halves, k: int) -> int:
    """Find the gains of halving that are unknown, and return the cluster that gains most, or -1."""
    gains, (pool, starts, counts, _, _) = state[3], lists
    best, most = -1, 0.0
    for c in range(k):
        if gains[c] < 0:
            members = pool[starts[c] : starts[c] + counts[c]]
            gains[c] = halve(data, members, halves[0], halves[1])
        if gains[c] > most:
            best, most = c, gains[c]
    for c in range(k):
        if math.isnan(gains[c]):
            return -1
    return best


@compile_part
def _open(
    state: State, lists: Lists, halves: Halves, leaving: Int64Array, m: int, best: int, k: int
) -> int:
    """Open cluster k for the rows that leave a halved one, and return how many leave then.

    They are listed after the first m of (n,).
    """
    centers, (known, ways, lines, _, _, _), (pool, starts, counts, _, _) = state[0], state[6], lists
    for place in range(starts[best], starts[best] + counts[best]):
        leaving[m] = pool[place]
        m += halves[0][pool[place]]
    for j in range(centers.shape[1]):
        centers[k, j] = centers[best, j]
    starts[k] = counts[k] = 0
    ways[lines[k]] = ways[lines[best]]
    for slot in range(known.shape[1]):
        known[lines[k], slot] = known[lines[best], slot]
    return m


@compile_part
def _list_rows(lists: Lists, c: int, leaving: Int64Array) -> int:
    """List the rows of a cluster in `leaving`, (n,), and return how many they are."""
    pool, starts, counts, _, _ = lists
    for row in range(counts[c]):
        leaving[row] = pool[starts[c] + row]
    count: int = counts[c]
    return count


@compile_part
def _move(
    state: State, lists: Lists, marks: Marks, leaving: Int64Array, move: tuple[int, int, int, int]
) -> None:
    """Give rows that leave, (n,), other labels; the clusters gain nothing by splits until they are placed.

    `move` are the places of the first and after the last, and from which cluster to which they move.
    """
    gains, labels, counts, (moved, changed, _) = state[3], state[4], lists[2], marks
    first, end, old, new = move
    for row in range(first, end):
        labels[leaving[row]] = new
    moved[old], moved[new] = end - first < counts[old], end - first + counts[new] > 0
    changed[old] = changed[new] = True
    gains[old] = gains[new] = 0.0


@compile_part
def _note(state: State, taken: Taken, step: int, k: int, halved: int) -> None:
    """Note the k clusters after a step, and the cluster that was halved."""
    numbers, centers, errors = taken
    numbers[step, 0], numbers[step, 1] = k, halved
    for c in range(k):
        errors[step, c] = state[2][c]
        for j in range(centers.shape[2]):
            centers[step, c, j] = state[0][c, j]


@compile_loop
def walk(
    data: Data,
    state: State,
    lists: Lists,
    marks: Marks,
    buffers: Buffers,
    halves: Halves,
    taken: Taken,
    k: int,
    way: int,
    most: int,
) -> int:
    """Take up to `most` steps from k clusters, and note the clusters after each.

    Return how many were taken.  The way of a step is the number of clusters that are halved, or -1 to
    merge two, or 0 to give the rows to the centers as they are.  A step that leads elsewhere is the last.
    """
    leaving, counts, (moved, changed, _) = buffers[0], lists[2], marks
    for step in range(most):
        m: int = ZERO
        opened: int = ZERO
        after, halved, joined = k, ZERO - 1, False
        for c in range(k + max(way, 0)):
            moved[c] = changed[c] = False
        if way == 0:
            _restore(data, state, lists, marks, k)
        elif way < 0:
            target, emptied = _cheapest_pair(state[0], state[1], data[2], k)
            m, joined = _list_rows(lists, emptied, leaving), counts[target] > 0
            _move(state, lists, marks, leaving, (ZERO, m, emptied, target))
        while opened < way:
            halved = _best_halved(data, state, lists, halves, k + opened)
            if halved < 0:
                break
            end = _open(state, lists, halves, leaving, m, halved, k + opened)
            _move(state, lists, marks, leaving, (m, end, halved, k + opened))
            m, opened = end, opened + 1
        if way < 1 or opened:
            clusters = (k + opened, m, joined)
            after = _refine(data, state, lists, marks, buffers, clusters, LLOYD_STEPS if way else 0)
        _note(state, taken, step, after, halved)
        if after != k + way:
            return step + 1
        k = after
    return most
