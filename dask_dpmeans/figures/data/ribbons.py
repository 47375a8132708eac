"""The layout of an alluvial picture: labelings side by side, and the flows between neighbors."""

from typing import NamedTuple

import numpy as np

from dask_dpmeans.figures.data.labelings import NOISE, Flows
from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array

GREY = -1
"""Color of noise, and of clusters that are not drawn one by one."""


class Box(NamedTuple):
    """One cluster in a picture, or all small ones together."""

    clusters: list[int]
    share: float
    """Of all rows."""
    top: float
    """Distance from the top of the picture, in shares of all rows."""
    color: int
    """Rank, by size, of the cluster of the first labeling that most of its rows come from; -1 for
    noise and small ones."""


class Ribbon(NamedTuple):
    """The rows of a box of one labeling in a box of the next."""

    column: int
    """Number of the first of the two labelings."""
    share: float
    """Of all rows."""
    left: float
    """Distance of its left end from the top of the picture, in shares of all rows."""
    right: float
    color: int
    """Color of the box at its left end."""


class Alluvial(NamedTuple):
    """Labelings side by side."""

    boxes: list[list[Box]]
    """Of each labeling, from the top; noise comes last, after the box of all small clusters."""
    ribbons: list[Ribbon]
    """From left to right, and the widest first."""
    left_out: list[tuple[int, float]]
    """Number of the flows that are not drawn, and their share of all rows, between neighbors."""


def alluvial(found: Flows, gap: float, most_boxes: int = 30, most_ribbons: int = 90) -> Alluvial:
    """Lay out labelings side by side.

    Clusters of the first labeling are ordered by size.  Clusters of each next one are ordered by
    the mean place of their rows in the labeling before, so that few ribbons cross.

    Parameters
    ----------
    gap : distance of boxes, in shares of all rows
    most_boxes : clusters of a labeling with a box each; the smaller ones share one box
    most_ribbons : flows between neighbors that are drawn, the largest
    """
    groups = [_groups(sizes, most_boxes) for sizes in found.sizes]
    ranks = np.array([GREY if _last(each) else rank for rank, each in enumerate(groups[0])])
    boxes = [_stack(groups[0], found.sizes[0], ranks, found.n_rows, gap)]
    ribbons: list[Ribbon] = []
    left_out: list[tuple[int, float]] = []
    for column in range(len(groups) - 1):
        table = (
            _table(found, (column, column + 1), groups[column], groups[column + 1]) / found.n_rows
        )
        order = _order(table, boxes[-1], groups[column + 1])
        table, after = table[:, order], [groups[column + 1][each] for each in order]
        origins = _table(found, (0, column + 1), groups[0], after).argmax(axis=0)
        colors = np.where([_last(each) for each in after], GREY, ranks[origins])
        boxes.append(_stack(after, found.sizes[column + 1], colors, found.n_rows, gap))
        groups[column + 1] = after
        drawn = _widest(table, most_ribbons)
        ribbons += _ribbons(np.where(drawn, table, 0.0), column, boxes[-2], boxes[-1])
        rest = table[(table > 0) & ~drawn]
        left_out.append((len(rest), float(rest.sum())))
    return Alluvial(boxes, ribbons, left_out)


def _groups(sizes: dict[int, int], most: int) -> list[list[int]]:
    """Return the clusters of each box: the largest ones, all small ones together, and noise."""
    clusters = [each for each in sizes if each != NOISE]
    if len(clusters) == most + 1:
        most += 1
    found = [[each] for each in clusters[:most]]
    if clusters[most:]:
        found.append(clusters[most:])
    if NOISE in sizes:
        found.append([NOISE])
    return found


def _last(clusters: list[int]) -> bool:
    """Return whether the box of these clusters is one of small ones, or of noise."""
    return len(clusters) > 1 or clusters == [NOISE]


def _stack(
    groups: list[list[int]], sizes: dict[int, int], colors: Int64Array, n_rows: int, gap: float
) -> list[Box]:
    boxes, top = [], 0.0
    for clusters, color in zip(groups, colors.tolist(), strict=True):
        share = sum(sizes[each] for each in clusters) / n_rows
        boxes.append(Box(clusters, share, top, color))
        top += share + gap
    return boxes


def _table(
    found: Flows, both: tuple[int, int], before: list[list[int]], after: list[list[int]]
) -> Float64Array:
    """Return the rows in each pair of boxes."""
    pairs = found.pairs[both]
    left, right = (
        {label: place for place, each in enumerate(groups) for label in each}
        for groups in (before, after)
    )
    table = np.zeros((len(before), len(after)))
    places = [left[label] for label in pairs.first.tolist()]
    np.add.at(table, (places, [right[label] for label in pairs.second.tolist()]), pairs.counts)
    return table


def _order(table: Float64Array, boxes: list[Box], groups: list[list[int]]) -> list[int]:
    """Return the order of the boxes of the next labeling, from the top."""
    middles = np.array([box.top + box.share / 2 for box in boxes])
    means = middles @ table / table.sum(axis=0)
    one = [place for place, clusters in enumerate(groups) if not _last(clusters)]
    ordered = sorted(one, key=lambda place: float(means[place]))
    return ordered + [place for place in range(len(groups)) if place not in one]


def _widest(table: Float64Array, most: int) -> BoolArray:
    """Return where the `most` largest flows are."""
    order = np.argsort(-table, axis=None, kind="stable")[:most]
    drawn = np.zeros(table.size, np.bool_)
    drawn[order] = True
    return drawn.reshape(table.shape) & (table > 0)


def _ribbons(table: Float64Array, column: int, left: list[Box], right: list[Box]) -> list[Ribbon]:
    """Return the ribbons of the flows between two labelings, without crossings at their ends."""
    ends = np.cumsum(table, axis=1) - table, np.cumsum(table, axis=0) - table
    found = [
        Ribbon(
            column,
            float(table[i, j]),
            left[i].top + float(ends[0][i, j]),
            right[j].top + float(ends[1][i, j]),
            left[i].color,
        )
        for i, j in np.argwhere(table > 0).tolist()
    ]
    return sorted(found, key=lambda ribbon: -ribbon.share)
