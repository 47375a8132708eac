"""Compiled parts for the clusters that have changed since rows were compared with all of them.

`row_exchange_compiled` compares a row with these alone, if the costs that are kept bound all others.
"""

from typing import Any

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.distance_parts import (
    DISTANCE_ROUNDING,
    least_of,
    square_distances,
    squared_to_column,
)
from dask_dpmeans.kernels.numba_support import compile_part

SHARE_ROUNDING = 1e-9
"""How much farther a cluster is looked at, as a share, for the rounding of costs."""
ENOUGH = 1.5
"""A changed cluster that costs more than this many times what a row pays counts as costing so much,
which spares its exact cost."""
LIGHT = 10.0
"""Clusters lighter than this many rows count as changed in each pass: a row may join them for little.

Children of 2,310 rows in 40 clusters took .74 of the time so, and children without light clusters took
up to 1.05 of it."""
MOST_NOTED = 2**21
"""Most numbers of the table of distances between centers; more clusters have none.

8,192 rows in 4,000 random clusters took 2.5 times as long with a table, and 100 MB more; in 400, .68
of the time with one."""
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


@compile_part
def near_changed(c: int, changed: Changed, count: int, column: Float64Array) -> float:
    """Return the distance of center c, in a column, (d,), to the nearest other one of `count` that changed.

    All these distances are noted, squared, if there is a table.
    """
    _, places, ages, _, columns, apart, shares = changed
    squared = apart[c % len(apart)]
    square_distances(column, columns, count, squared)
    for place in range(count):
        squared[place] *= shares[place]
    if ages[c]:
        squared[places[c]] = np.inf
    nearest: float = np.sqrt(least_of(squared, count))
    return nearest


@compile_part
def first_changed(ages: Int64Array, d: int) -> tuple[Changed, int]:
    """Return memory for clusters that change, which lists clusters of some age, (room,), and how many."""
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
            distances[c] = near_changed(c, changed, kept, column)
    return kept


@compile_part
def list_change(c: int, changed: Changed, count: int) -> int:
    """List cluster c among those that changed in this pass, and return how many have changed."""
    numbers, places, ages, _, _, _, _ = changed
    if not ages[c]:
        numbers[count], places[c] = c, count
        count += 1
    ages[c] = 2
    return count


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
    _, places, _, distances, columns, apart, shares = changed
    squared, column = work
    count = list_change(c, changed, count)
    share = light_share(masses[c], others)
    shares[places[c]] = share
    for j in range(len(centers)):
        column[j] = columns[j, places[c]] = centers[j, c]
    if counts[c]:
        square_distances(column, centers, present, squared)
    for other in range(present):
        squares = share * squared[other] if counts[c] and other != c else np.inf
        if len(apart) > 1:
            apart[other, places[c]] = squares
        if squares < distances[other] * distances[other]:
            distances[other] = np.sqrt(squares)
    if counts[c]:
        distances[c] = near_changed(c, changed, count, column)
    return count


@compile_part
def cost_of_changed(
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
            cost = weight * (mass / (mass + weight)) * squared_to_column(row, columns, place)
            bound = min(bound, cost)
    return bound


@compile_part
def lightest_mass(clusters: MovableClusters, least: float) -> float:
    """Return the least mass of a cluster that is not lighter than `least`, or `least` if all are."""
    _, masses, counts = clusters
    found = np.inf
    for c in range(len(masses)):
        if counts[c] and masses[c] >= least:
            found = min(found, masses[c])
    return found if found < np.inf else least


@compile_part
def light_masses(weights: Float64Array) -> tuple[float, float]:
    """Return the mass below which a cluster is light, and the greatest of weights, (n,)."""
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
