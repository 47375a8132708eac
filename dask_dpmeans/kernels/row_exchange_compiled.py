"""Compiled loops of moves of single rows, and of short searches made of them.

Their NumPy twins are in `row_exchange` and `short_search`.
"""

from typing import Any

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

EXCHANGE_ROUNDING = 1e-9
"""A move must gain more than this share of the penalty, and the rest of the old cluster must weigh
more than this share of it; less is rounding."""

DISTANCE_ROUNDING = 1e-9
"""A distance counts as smaller or larger by this share of it, for its own rounding."""
SHARE_ROUNDING = 1e-9
"""How much farther a cluster is looked at, as a share, for the rounding of costs."""
TINY = 1e-290
"""Costs up to this may be equal for rounding, so that ties are decided among all of these clusters."""
SPARE = 8
"""Room for new clusters at first, beyond twice the present ones."""
ENOUGH = 1.5
"""A changed cluster that costs more than this many times what a row pays counts as costing so much,
which spares its exact cost."""
STILL = 1e-2
"""A mean that is nearer to its center before than this share of the root of the penalty counts as
unchanged; bounds fall by its motion."""
LIGHT = 10.0
"""Clusters lighter than this many rows count as changed in each pass: a row may join them for little.

Children of 2,310 rows in 40 clusters took .74 of the time so, and children without light clusters took
up to 1.05 of it."""
MOST_NOTED = 2**21
"""Most numbers of the table of distances between centers; more clusters have none.

8,192 rows in 4,000 random clusters took 2.5 times as long with a table, and 100 MB more; in 400, .68
of the time with one."""
FEW_CHANGED = 0.25
"""Without the table, changed clusters are looked at first if they are at most this share of all."""
BLOCK = 32
"""Rows that are looked at together; after a move, the rest of them once more."""

ZERO: Any = np.int64(0)
"""Where a count starts that is passed on: Numba compiles what takes a literal number once more."""

MovableClusters = tuple[Float64Array, Float64Array, Int64Array]
"""Centers, (d, room), masses and numbers of rows, (room,), which change in place.

Unused numbers have 0 rows.  The mass of a cluster is its weight, or the length of the weighted sum
of its unit rows.  A plain tuple, since Numba cannot read a cache that names a class of an earlier
version.
"""

Changed = tuple[
    Int64Array, Int64Array, Int64Array, Float64Array, Float64Array, Float64Array, Float64Array
]
"""Clusters that changed in this pass or the one before: their numbers, (room,), of which the first
count; the place of each cluster among these, (room,); when each changed last, (room,): 2 in this
pass, 1 in the one before, 0 earlier; the distance of each center to the nearest other one that
changed, (room,); the centers in order of the numbers, (d, room); how far all centers are from
these, squared, (room, room), or memory to work in, (1, room), if there are too many; and what light
ones cost, as a share of others, (room,)."""

Others = tuple[float, float]
"""The mass of the lightest cluster that is not light, and the weight of the heaviest row."""

Work = tuple[Float64Array, Float64Array]
"""Memory to work in, which is overwritten: squared distances, (room,), and a center, (d,)."""

Costs = tuple[float, float, float]
"""Price of a cluster, cost of an outlier for each unit of weight, and the `vanishing` of directions."""

Rows = tuple[int, int, int]
"""A block of rows: the first, the one after the last, and the first that was not measured yet."""

Found = tuple[Float64Array, Float64Array, Float64Array, Int64Array, Int64Array]
"""What rows gain by leaving their clusters, (n,), their distances to the centers, (n,), what they cost
at least in clusters that have not changed, (n,); the ages of clusters, (room,); and memory for a list
of rows of a block."""


@compile_part
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


@compile_part
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


@compile_part
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


@compile_part
def _joining_cost_compiled(weight: float, mass: float, squared: float) -> float:
    """Compiled twin of `_joining_costs`, for one row and one cluster, a direction."""
    total = mass + weight
    share = mass / total
    length: float = np.sqrt(max(0.0, 1.0 - share * (weight / total) * squared))
    return 2.0 * weight * share * squared / (1.0 + length)


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
    from `present` on have no rows, others without rows are infinitely far; `squared`, (room,), is
    memory to work in.
    """
    centers, masses, counts = clusters
    _square_distances(row, centers, present, squared)
    if own >= 0:
        squared[own] = np.inf
    limit = _least(squared, present) / share * (1.0 + SHARE_ROUNDING)
    limit = max(limit, TINY / (weight * share))
    best, least = -1, np.inf
    for c in range(present):
        if squared[c] <= limit and c != own and counts[c]:
            cost = weight * (masses[c] / (masses[c] + weight)) * squared[c]
            if cost < least:
                best, least = c, cost
    return best, least


@compile_part
def _cheapest_direction(
    row: Float64Array,
    weight: float,
    own: int,
    present: int,
    clusters: MovableClusters,
    squared: Float64Array,
    vanishing: float,
) -> tuple[int, float]:
    """Return what `_cheapest` returns, for a row of unit length and centers that are directions."""
    centers, masses, counts = clusters
    _square_distances(row, centers, present, squared)
    best, least = -1, np.inf
    for c in range(present):
        if c != own and counts[c]:
            cost = _joining_cost_compiled(weight, masses[c], squared[c])
            if cost < least:
                best, least = c, cost
    return best, least


@compile_part
def _squared(row: Float64Array, centers: Float64Array, c: int) -> float:
    """Return the squared distance of a row, (d,), to center c of (d, room)."""
    total = 0.0
    for j in range(len(row)):
        difference = row[j] - centers[j, c]
        total += difference * difference
    return total


@compile_part
def _near_changed(c: int, changed: Changed, count: int, column: Float64Array) -> float:
    """Return the distance of center c, in a column, (d,), to the nearest other one of `count` that changed.

    All these distances are noted, squared, if there is a table.
    """
    _, places, ages, _, columns, apart, shares = changed
    squared = apart[c % len(apart)]
    _square_distances(column, columns, count, squared)
    for place in range(count):
        squared[place] *= shares[place]
    if ages[c]:
        squared[places[c]] = np.inf
    nearest: float = np.sqrt(_least(squared, count))
    return nearest


@compile_part
def _first_changed(ages: Int64Array, d: int) -> tuple[Changed, int]:
    """Return memory for clusters that change, which lists clusters of some age, and how many they are."""
    room, count = len(ages), 0
    numbers, places, distances = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros(room)
    for c in range(room):
        if ages[c]:
            numbers[count] = c
            count += 1
    noted = room if room * room <= MOST_NOTED else 1  # without a table, a row to work in
    columns, apart, shares = np.empty((d, room)), np.empty((noted, room)), np.empty(room)
    return (numbers, places, ages, distances, columns, apart, shares), count


@compile_part
def begin_pass(
    changed: Changed,
    count: int,
    clusters: MovableClusters,
    present: int,
    others: Others,
    column: Float64Array,
) -> int:
    """Return how many clusters changed in the pass before, and note how far others are from them.

    Light ones always count as changed.  The column, (d,), is overwritten.
    """
    centers, masses, counts = clusters
    numbers, places, ages, distances, columns, _, shares = changed
    kept: int = ZERO
    for place in range(count):
        c = numbers[place]
        share = light_share(masses[c], others)
        ages[c] = max(ages[c] - 1, int(share < 1.0)) if counts[c] else 0
        if ages[c]:
            numbers[kept], places[c], shares[kept] = c, kept, share
            for j in range(len(centers)):
                columns[j, kept] = centers[j, c]
            kept += 1
    for c in range(present):
        if counts[c]:
            for j in range(len(centers)):
                column[j] = centers[j, c]
            distances[c] = _near_changed(c, changed, kept, column)
    return kept


@compile_part
def note_change(
    c: int,
    changed: Changed,
    count: int,
    clusters: MovableClusters,
    present: int,
    others: Others,
    work: Work,
) -> int:
    """Note that cluster c changed in this pass, and return how many have changed.

    Also note how far other centers are from it.
    """
    centers, masses, counts = clusters
    numbers, places, ages, distances, columns, apart, shares = changed
    squared, column = work
    if not ages[c]:
        numbers[count], places[c] = c, count
        count += 1
    ages[c], share = 2, light_share(masses[c], others)
    shares[places[c]] = share
    for j in range(len(centers)):
        column[j] = columns[j, places[c]] = centers[j, c]
    if counts[c]:
        _square_distances(column, centers, present, squared)
    for other in range(present):
        squares = share * squared[other] if counts[c] and other != c else np.inf
        if len(apart) > 1:
            apart[other, places[c]] = squares
        if squares < distances[other] * distances[other]:
            distances[other] = np.sqrt(squares)
    if counts[c]:
        distances[c] = _near_changed(c, changed, count, column)
    return count


@compile_part
def _cost_of_changed(
    row: Float64Array,
    weight: float,
    own: int,
    root: float,
    gain: float,
    share: float,
    changed: Changed,
    count: int,
    masses: Float64Array,
) -> float:
    """Return a lower bound of the cost of a row, (d,), in clusters that changed.

    It is below the row's gain by leaving its cluster only if one of them costs less than that.
    Centers that are noted as far from the row's own one, at a distance `root`, are not looked at.
    """
    numbers, _, _, _, columns, apart, _ = changed
    bound = ENOUGH * gain
    reach = root + np.sqrt(bound / (weight * share))
    reach = (reach * (1.0 + DISTANCE_ROUNDING)) ** 2
    for place in range(count):
        c = numbers[place]
        if own < 0 or (c != own and (len(apart) == 1 or apart[own, place] <= reach)):
            mass = masses[c]
            cost = weight * (mass / (mass + weight)) * _squared(row, columns, place)
            bound = min(bound, cost)
    return bound


@compile_part
def _present(clusters: MovableClusters) -> int:
    """Return the number of clusters up to the last with rows; centers without are infinitely far."""
    centers, _, counts = clusters
    present = len(counts)
    while present and not counts[present - 1]:
        present -= 1
    for c in range(present):
        if not counts[c]:
            centers[:, c] = np.inf
    return present


@compile_part
def _or_alone(
    best: int, least: float, own: int, penalty: float, out: float, counts: Int64Array
) -> tuple[int, float]:
    """Return the cheapest of the best other cluster of a row, a new one and the outliers, -1."""
    count = counts[own] if own >= 0 else 0
    some = best >= 0 or count > 1
    if count != 1 and penalty < least:
        empty = 0
        while empty < len(counts) and counts[empty]:
            empty += 1
        if empty < len(counts):
            best, least = empty, penalty
    if own >= 0 and some and out < least:
        best, least = -1, out
    return best, least


@compile_part
def _lightest(clusters: MovableClusters, least: float) -> float:
    """Return the least mass of a cluster that is not lighter than `least`, or `least` if all are."""
    _, masses, counts = clusters
    found = np.inf
    for c in range(len(masses)):
        if counts[c] and masses[c] >= least:
            found = min(found, masses[c])
    return found if found < np.inf else least


@compile_part
def _light(weights: Float64Array) -> tuple[float, float]:
    """Return the mass below which a cluster is light, and the weight of the heaviest row."""
    total, heaviest = 0.0, 0.0
    for weight in weights:
        total += weight
        heaviest = max(heaviest, weight)
    return LIGHT * total / len(weights), heaviest


@compile_part
def light_share(mass: float, others: Others) -> float:
    """Return at least what a light cluster costs, as a share of what others cost as near, for any row."""
    lightest, heaviest = others
    if mass >= lightest:
        return 1.0
    share = mass / (mass + heaviest) * (1.0 + heaviest / lightest)
    return share * (1.0 - SHARE_ROUNDING)


@compile_part
def _move(
    row: Float64Array,
    weight: float,
    own: int,
    target: int,
    vanishing: float,
    clusters: MovableClusters,
) -> None:
    """Move a row, (d,), between clusters, -1 for none; a center without rows is infinitely far."""
    centers, _, counts = clusters
    if own >= 0:
        take_out(row, weight, own, vanishing, clusters)
        if not counts[own]:
            centers[:, own] = np.inf
    if target >= 0:
        put_in(row, weight, target, vanishing, clusters)


@compile_part
def _less(distance: float, other: float) -> float:
    """Return at least by how much a distance is above another one; 0 if it may not be."""
    larger = distance * (1.0 - DISTANCE_ROUNDING)
    return max(0.0, larger - other * (1.0 + DISTANCE_ROUNDING)) * (1.0 - DISTANCE_ROUNDING)


@compile_part
def _measure_gains(
    rows: Float64Array,
    weights: Float64Array,
    labels: Int64Array,
    costs: Costs,
    clusters: MovableClusters,
    block: Rows,
    found: Found,
) -> None:
    """Fill what rows of a block gain by leaving their clusters, and their distances to the centers.

    Only rows that are measured for the first time, or whose cluster changed, are measured.
    """
    first, stop, measured = block
    centers, masses, counts = clusters
    penalty, outlier_penalty, vanishing = costs
    gains, roots, _, ages, listed = found
    count = 0
    for i in range(first, stop):
        own = labels[i]
        listed[count] = i
        count += int((i >= measured) | (own < 0) | (ages[own] != 0))
    for place in range(count):
        i = listed[place]
        own, weight = labels[i], weights[i]
        if own < 0:
            gains[i] = weight * outlier_penalty
            continue
        squared = _squared(rows[i], centers, own)
        roots[i] = np.sqrt(squared)
        gains[i] = _leaving_gain_compiled(
            weight, counts[own], masses[own], squared, penalty, vanishing
        )


@compile_part
def _list_doubtful(
    weights: Float64Array,
    labels: Int64Array,
    costs: Costs,
    lightest: float,
    distances: Float64Array,
    block: Rows,
    found: Found,
) -> int:
    """List the rows of a block that may gain by a move, and return their number.

    A row stays if it gains less by leaving than it costs in any cluster that has not changed, in
    one that changed, in a new one, and as an outlier.  Directions are all doubtful.
    """
    first, stop, _ = block
    penalty, outlier_penalty, vanishing = costs
    gains, roots, kept, _, listed = found
    count = 0
    for i in range(first, stop):
        own, weight, gain = labels[i], weights[i], gains[i]
        share = lightest / (lightest + weight)
        bound = min(kept[i], weight * share * _less(distances[own], roots[i]) ** 2)
        stays = (bound >= gain) & (penalty >= gain) & (weight * outlier_penalty >= gain)
        stays &= (own >= 0) & (vanishing == 0.0)
        kept[i] = bound if stays else kept[i]
        listed[count] = i
        count += int(not stays)
    return count


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
    kept: Float64Array,
    ages: Int64Array,
) -> int:
    """Compiled twin of `row_exchange.move_rows` for rows, (n, d).

    The least cost of each row in another cluster is kept.  A cluster that has not changed since
    costs the same, to the bit.  So a row is compared with the clusters that have changed: if none of
    them costs less than the row gains by leaving, nor does the cost that is kept, the row stays.  They
    are at least as far from it as their nearest is from its center, less its own distance.

    What is kept, (n,), and ages, (room,), change in place.  At first, what is kept is a lower bound of
    the costs in all other clusters of age 0; it is 0 if nothing is known.  Clusters of age 2 changed.
    """
    _, masses, counts = clusters
    (n, d), room, passes, moved = rows.shape, len(masses), 0, True
    first: int = ZERO
    measured: int = ZERO
    gains, roots, squared = np.empty(n), np.zeros(n), np.empty(room)
    present, costs = _present(clusters), (penalty, outlier_penalty, vanishing)
    listed = np.empty(BLOCK, np.int64)
    found = gains, roots, kept, ages, listed
    work, (light, heaviest) = (squared, np.empty(d)), _light(weights)
    changed, n_changed = _first_changed(ages, d)
    while moved and passes < most:
        passes, moved, first = passes + 1, False, ZERO
        lightest, others = _lightest(clusters, 0.0), (_lightest(clusters, light), heaviest)
        n_changed = begin_pass(changed, n_changed, clusters, present, others, work[1])
        while first < n:
            block = first, min(first + BLOCK, n), measured
            _measure_gains(rows, weights, labels, costs, clusters, block, found)
            count = _list_doubtful(weights, labels, costs, others[0], changed[3], block, found)
            first, measured = block[1], max(measured, block[1])
            for place in range(count):
                i = listed[place]
                row, weight, own, gain = rows[i], weights[i], labels[i], gains[i]
                out, share = weight * outlier_penalty, lightest / (lightest + weight)
                # a row that gains more than a new cluster costs, or an outlier, moves without other clusters
                few = len(changed[5]) > 1 or n_changed <= FEW_CHANGED * present
                if few and not vanishing and kept[i] >= gain and not min(penalty, out) < gain:
                    heavy = others[0] / (others[0] + weight)
                    bound = _cost_of_changed(
                        row, weight, own, roots[i], gain, heavy, changed, n_changed, masses
                    )
                    kept[i] = min(kept[i], bound)
                    if bound >= gain:
                        continue
                given = row, weight, own, present, clusters, squared
                if vanishing:
                    best, kept[i] = _cheapest_direction(*given, vanishing)
                else:
                    best, kept[i] = _cheapest(*given, share)
                best, least = _or_alone(best, kept[i], own, penalty, out, counts)
                if not least + EXCHANGE_ROUNDING * penalty < gain:
                    continue
                _move(row, weight, own, best, vanishing, clusters)
                present, labels[i] = max(present, best + 1), best
                for c in (own, best):
                    if c >= 0:
                        lightest = min(lightest, masses[c] if counts[c] else np.inf)
                        n_changed = note_change(
                            c, changed, n_changed, clusters, present, others, work
                        )
                moved, first = True, i + 1
                break  # the next rows see the clusters that this move leads to
    return passes


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
    slack, (light, _) = 0.0, _light(weights)
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
    lightest = _lightest(clusters, light)
    for i in range(len(weights)):
        share = lightest / (lightest + weights[i])
        kept[i] = weights[i] * share * _less(np.sqrt(seconds[i]), slack) ** 2


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
    n, d = rows.shape
    room, passes, merged = 2 * (labels.max() + 1) + SPARE, 0, True
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
    cost = 0.0
    k: int = ZERO
    for i in range(n):
        cost += weights[i] * _squared(rows[i], centers, labels[i])
    for c in range(room):
        if counts[c]:
            for j in range(d):
                centers[j, k] = centers[j, c]
            counts[c], k = k, k + 1
    for i in range(n):
        labels[i] = counts[labels[i]]
    return centers[:, :k].copy(), cost + penalty * k, passes
