"""The papers' loops, row by row: slow, obvious, and sharing no code with what they check."""

from collections.abc import Sequence
from typing import NamedTuple

Row = Sequence[float]


class Sweep(NamedTuple):
    """One iteration of Algorithm 1."""

    labels: list[int]
    """The cluster of each row, in row order, numbered in order of opening."""
    opened: list[int]
    """The rows that opened clusters, in order."""
    centers: list[list[float]]
    """The centers that the rows were assigned to, opened rows included."""
    means: list[list[float]]
    """The means of the clusters that have weight, in order: the centers of the next iteration."""


def squared_distance(row: Row, center: Row) -> float:
    """The sum, over the columns in order, of squared differences."""
    total = 0.0
    for value, middle in zip(row, center, strict=True):
        total += (value - middle) * (value - middle)
    return total


def nearest_center(row: Row, centers: Sequence[Row]) -> tuple[int, float]:
    """The lowest number among the nearest centers, and the squared distance."""
    best, least = 0, squared_distance(row, centers[0])
    for number, center in enumerate(centers):
        squared = squared_distance(row, center)
        if squared < least:
            best, least = number, squared
    return best, least


def mean_of(rows: Sequence[Row], weights: Sequence[float]) -> list[float]:
    """The weighted mean of rows."""
    totals = [0.0] * len(rows[0])
    for row, weight in zip(rows, weights, strict=True):
        for column, value in enumerate(row):
            totals[column] += weight * value
    return [total / sum(weights) for total in totals]


def sweep(
    rows: Sequence[Row],
    penalty: float,
    centers: Sequence[Row],
    order: Sequence[int],
    weights: Sequence[float],
) -> Sweep:
    """One pass of Algorithm 1 (Kulis & Jordan 2012), step 3, over the rows in the given order.

    A row of weight w opens a cluster iff min(1, w) times its squared distance to the nearest center exceeds the
    penalty; with unit weights this is the printed rule.
    """
    present = [list(center) for center in centers]
    labels = [-1] * len(rows)
    opened = []
    for number in order:
        label, squared = nearest_center(rows[number], present)
        if min(1.0, weights[number]) * squared > penalty:
            label = len(present)
            present.append(list(rows[number]))
            opened.append(number)
        labels[number] = label
    means = []
    for cluster in range(len(present)):
        members = [number for number, label in enumerate(labels) if label == cluster]
        if sum(weights[number] for number in members) > 0:
            means.append(mean_of([rows[number] for number in members], [weights[number] for number in members]))
    return Sweep(labels, opened, present, means)


def dpmeans(
    rows: Sequence[Row], penalty: float, order: Sequence[int] | None = None, weights: Sequence[float] | None = None
) -> list[Sweep]:
    """Algorithm 1 from the global mean until the means repeat, one `Sweep` an iteration."""
    order = range(len(rows)) if order is None else order
    weights = [1.0] * len(rows) if weights is None else weights
    centers = [mean_of(rows, weights)]
    sweeps: list[Sweep] = []
    while not sweeps or sweeps[-1].means != centers:
        centers = sweeps[-1].means if sweeps else centers
        sweeps.append(sweep(rows, penalty, centers, order, weights))
    return sweeps


def objective(rows: Sequence[Row], penalty: float, found: Sweep, weights: Sequence[float] | None = None) -> float:
    """Squared error of a sweep's labels to its centers, plus the penalty for each cluster with weight."""
    weights = [1.0] * len(rows) if weights is None else weights
    error = 0.0
    for row, weight, label in zip(rows, weights, found.labels, strict=True):
        error += weight * squared_distance(row, found.centers[label])
    return error + penalty * len(found.means)
