"""Compiled loops of moves of single rows; their NumPy twins are in `row_exchange`."""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.changed_clusters_compiled import (
    SHARE_ROUNDING,
    ZERO,
    MovableClusters,
    begin_pass,
    cost_of_changed,
    first_changed,
    light_masses,
    lightest_mass,
    list_change,
    note_change,
)
from dask_dpmeans.kernels.distance_parts import (
    distance_less,
    least_of,
    square_distances,
    squared_to_column,
)
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

EXCHANGE_ROUNDING = 1e-9
"""A move must gain more than this share of the penalty, and the rest of the old cluster must weigh
more than this share of it; less is rounding."""
TINY = 1e-290
"""Costs up to this may be equal for rounding, so that ties are decided among all of these clusters."""
SPARE = 8
"""Room for new clusters at first, beyond twice the present ones."""
FEW_CHANGED = 0.25
"""Without the table, changed clusters are looked at first if they are at most this share of all."""
BLOCK = 32
"""Rows that are looked at together; after a move, the rest of them once more."""
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
    square_distances(row, centers, present, squared)
    if own >= 0:
        squared[own] = np.inf
    limit = least_of(squared, present) / share * (1.0 + SHARE_ROUNDING)
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
) -> tuple[int, float]:
    """Return what `_cheapest` returns, for a row of unit length and centers that are directions."""
    centers, masses, counts = clusters
    square_distances(row, centers, present, squared)
    best, least = -1, np.inf
    for c in range(present):
        if c != own and counts[c]:
            cost = _joining_cost_compiled(weight, masses[c], squared[c])
            if cost < least:
                best, least = c, cost
    return best, least


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
        squared = squared_to_column(rows[i], centers, own)
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
        bound = min(kept[i], weight * share * distance_less(distances[own], roots[i]) ** 2)
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
    work, (light, heaviest) = (squared, np.empty(d)), light_masses(weights)
    changed, n_changed = first_changed(ages, d)
    known = False
    for i in range(n):
        known |= kept[i] > 0.0
    while moved and passes < most:
        passes, moved, first = passes + 1, False, ZERO
        lightest, others = lightest_mass(clusters, 0.0), (lightest_mass(clusters, light), heaviest)
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
                if (
                    known
                    and few
                    and not vanishing
                    and kept[i] >= gain
                    and not min(penalty, out) < gain
                ):
                    heavy = others[0] / (others[0] + weight)
                    bound = cost_of_changed(
                        row, weight, own, roots[i], gain, heavy, changed, n_changed, masses
                    )
                    kept[i] = min(kept[i], bound)
                    if bound >= gain:
                        continue
                given = row, weight, own, present, clusters, squared
                if vanishing:
                    best, kept[i] = _cheapest_direction(*given)
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
                        if not known:  # all rows are compared with all clusters
                            n_changed = list_change(c, changed, n_changed)
                            continue
                        n_changed = note_change(
                            c, changed, n_changed, clusters, present, others, work
                        )
                moved, first = True, i + 1
                break  # the next rows see the clusters that this move leads to
        known = True
    return passes
