"""Maps of rows: a `Density` on axes, counts of rows by cluster as colors, labels on the grid of a cube."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from dask_dpmeans.figures import data
from dask_dpmeans.figures.data.rows import upper_ends
from dask_dpmeans.figures.plot import canvas
from dask_dpmeans.figures.plot.canvas import AnyFigure, colors_by_weight, new_figure, within
from dask_dpmeans.kernels.block import BoolArray, Float64Array

WIDE, BESIDE, BELOW = 8.0, 0.9, 0.7
"""Width of a map, and of the text beside and below it, in inches."""
FLATTEST, TALLEST = 0.2, 0.7
"""Height of a map over its width: flatter ones are stretched, taller ones are narrower."""
MOST_STRETCH = 5.0
"""Most by which a degree of latitude is longer than one of longitude."""
FAINTEST = 0.45
"""Opacity of the boxes with the least weight."""


def shade(counts: Float64Array, colors: Float64Array) -> Float64Array:
    """Return the colors, (b', b, 4), of boxes by the weight of each cluster in them.

    The color is the mean of the colors of the clusters, by weight.  The opacity rises with the rank
    of the box by weight among the boxes with rows (histogram equalization), so that boxes with a
    few rows can be seen beside boxes with millions.  Boxes without rows are transparent.

    Parameters
    ----------
    counts : (c, b, b'), weights by cluster, horizontal and vertical box
    colors : (c, 4), of the clusters
    """
    totals = counts.sum(axis=0)
    filled = totals > 0
    image = np.zeros((*totals.shape, 4))
    shares = counts[:, filled] / totals[filled]
    image[filled, :3] = np.clip(shares.T @ colors[:, :3], 0.0, 1.0)
    _, ranks, sizes = np.unique(totals[filled], return_inverse=True, return_counts=True)
    below = np.cumsum(sizes) - sizes[:1].sum()
    image[filled, 3] = FAINTEST + (1.0 - FAINTEST) * (below / max(1, below[-1:].sum()))[ranks]
    return image.transpose(1, 0, 2)


def marginal(
    counts: Float64Array, low: float, high: float, most: int
) -> tuple[Float64Array, Float64Array]:
    """Return the mean counts, (c, m), of boxes, (c, b), in at most so many bars, and their edges."""
    bins = counts.shape[1]
    starts = np.unique(np.linspace(0, bins, min(bins, most) + 1).astype(np.intp))
    edges = low + (high - low) * starts / bins
    return np.add.reduceat(counts, starts[:-1], axis=1) / np.diff(starts), edges


MARGIN = 0.04
"""Empty part at each side, as a share of the range of the rows."""
GOLDEN = 0.618
"""Multiples of it spread evenly, modulo 1."""
MOST_LABELS = 300
"""Number of centers that may have their number."""
DIGIT, LINE = 6.0, 12.0
"""Width and height of a digit in a label, in points of 1/72 inch."""


def density_colors(found: data.Density) -> Float64Array:
    """Return the color of each cluster, (k + 1, 4); the last is the one of rows without a cluster."""
    k = 1 + max(found.groups.max(), found.layers.max())
    ranks = np.full(k + 1, len(canvas.COLORS))
    ranks[found.layers[:-1]] = np.arange(len(found.layers) - 1)
    return canvas.cluster_colors(ranks)


def draw_map(axes: Axes, found: data.Density, colors: Float64Array) -> None:
    """Draw the rows in two directions, in the colors of their clusters, (k + 1, 4)."""
    if found.points is not None:
        assert found.labels is not None
        # Neighbors in the table are drawn far from each other, so that no cluster hides another.
        order = np.argsort(np.arange(len(found.points)) * GOLDEN % 1.0)
        order = order[np.argsort(found.labels[order] >= 0, kind="stable")]
        x, y = found.points[order].T
        size = canvas.within(12_000 / len(order), 3, 14)
        shown = colors[found.labels[order]]
        axes.scatter(x, y, size, color=shown, linewidth=0, rasterized=True)
    else:
        assert found.counts is not None
        image = shade(found.counts, colors[found.layers])
        (left, bottom), (right, top) = found.low, found.high
        place: dict[str, Any] = {"extent": (left, right, bottom, top), "origin": "lower"}
        axes.imshow(image, aspect="auto", interpolation="none", **place)
    set_limits(axes, found.low, found.high)


def set_limits(axes: Axes, low: Float64Array, high: Float64Array) -> None:
    """Set the ends of both axes around two corners, (2,)."""
    margin = np.where(high > low, MARGIN * (high - low), (upper_ends(low, high) - low) / 2)
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])


def inside(found: data.Density) -> BoolArray:
    """Return which centers are in the picture, (k,)."""
    lower, upper = found.centers >= found.low, found.centers <= found.high
    return np.all(lower & upper, axis=1)


def stripes(found: data.Density, side: int, most: int) -> tuple[Float64Array, Float64Array]:
    """Return the weight of the rows along an axis by layer, (c, m), and the edges, (m + 1,)."""
    low, high = found.low[side], float(upper_ends(found.low, found.high)[side])
    if found.counts is not None:
        others = tuple(set(range(1, found.counts.ndim)) - {side + 1})
        return marginal(found.counts.sum(axis=others), low, high, most)
    assert found.points is not None
    assert found.labels is not None
    edges = np.linspace(low, high, 1 + int(canvas.within(len(found.points) / 10, 10, most)))
    of_layer = [found.labels == layer for layer in found.layers[:-1]]
    of_layer.append(~np.any(of_layer, axis=0) & np.ones(len(found.points), bool))
    counts = [np.histogram(found.points[each, side], edges)[0] for each in of_layer]
    return np.array(counts, np.float64), edges


def draw_stripes(
    axes: Axes, found: data.Density, side: int, colors: Float64Array, most: int = 60, **turn: Any
) -> None:
    """Draw the rows along an axis, stacked in the colors of their clusters, (k + 1, 4)."""
    counts, edges = stripes(found, side, most)
    base = np.zeros(len(edges) - 1)
    for layer, heights in zip(found.layers, counts, strict=True):
        if heights.any():
            color = tuple(colors[layer])
            axes.stairs(base + heights, edges, baseline=base, fill=True, color=color, **turn)
            base = base + heights


def draw_centers(
    axes: Axes, places: Float64Array, colors: Float64Array, largest: float = 36.0, **style: Any
) -> None:
    """Draw centers at places, (k, 2), in their colors, (k, 4), with an area up to the largest."""
    (x, y), size = places.T, canvas.within(1000 / len(places), largest / 4, largest)
    axes.scatter(x, y, size, color=colors, edgecolor=canvas.INK, linewidth=0.8, zorder=3, **style)


def draw_micro_centers(
    axes: Axes, found: data.Density, colors: Float64Array, weights: Float64Array
) -> None:
    """Draw centers of micro-clusters with the colors of their clusters and an area by weight, (k,)."""
    size = canvas.within(9000 / len(weights), 10, 150) * weights / weights.max()
    style: dict[str, Any] = {"edgecolor": canvas.INK, "linewidth": 0.4, "zorder": 3}
    x, y = found.centers.T
    axes.scatter(x, y, size, color=colors[found.groups], **style)


def number_centers(axes: Axes, found: data.Density, places: Float64Array) -> None:
    """Write the numbers of clusters beside their centers, drawn at `places`, (k, 2), if there is room.

    Clusters with colors come first, the heaviest first.
    """
    numbers = np.flatnonzero(inside(found))
    colored = [each for each in found.layers if each in numbers]
    numbers = np.array([*colored, *np.setdiff1d(numbers, colored)], np.int64)
    width = DIGIT * len(str(numbers.max(initial=0))) + 3.0
    x, y = width / 2 + 4.0, LINE / 2 + 3.0
    beside = [(0.0, y), (x, 0.0), (-x, 0.0), (0.0, -y), (x, y), (-x, y), (x, -y), (-x, -y)]
    placed = canvas.place_labels(
        canvas.paper_places(axes, places[numbers]), (width, LINE), beside, MOST_LABELS
    )
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": canvas.SMALL, "zorder": 4}
    for number, offset in zip(numbers, placed, strict=True):
        if np.isfinite(offset).all():
            at = places[number]
            text = axes.annotate(str(number), at, offset, textcoords="offset points", **style)
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def label_map(
    found: data.LabelMap,
    weights: Float64Array,
    figure: AnyFigure | None = None,
    ax: Axes | None = None,
) -> AnyFigure:
    """Draw the samples of a cube on their grid, in the colors of their clusters.

    Parameters
    ----------
    found : labels on a grid
    weights : (k,), weights of the clusters
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure.  Samples in no cluster are blank.  A degree of latitude and one of longitude are as
    long as in the middle of the map, unless it is very flat; lengths in one unit are equally long, and
    pixels without coordinates are squares.
    """
    colors = colors_by_weight(weights)
    colors[-1, 3] = 0.0
    aspect, height = _aspect(found), TALLEST
    if aspect is not None:
        height = min(TALLEST, aspect * _length(found.down) / _length(found.across))
    if height < FLATTEST:
        aspect, height = None, FLATTEST
    figure = new_figure(figure, ax, WIDE, (WIDE - BESIDE) * height + BELOW)
    axes = figure.subplots()
    places = found.across.places, found.down.places
    axes.pcolormesh(*places, colors[found.labels], shading="nearest", rasterized=True)
    axes.set(xlabel=found.across.name, ylabel=found.down.name, aspect=aspect or "auto")
    if found.from_top:
        axes.invert_yaxis()
    return figure


def _length(side: data.Side) -> float:
    """Return the length of a side in units of its coordinate, at least the length of a sample."""
    return max(float(np.ptp(side.places)), 1.0) if side.has_coordinate else float(len(side.places))


def _aspect(found: data.LabelMap) -> float | None:
    """Return the length of a unit of the first dimension over one of the second; None if unknown."""
    if found.down.is_latitude:
        middle = np.radians(found.down.places.mean())
        return float(within(1 / max(1e-9, np.cos(middle)), 1.0, MOST_STRETCH))
    sides = found.down, found.across
    plain = not any(each.has_coordinate for each in sides)
    return 1.0 if plain or (sides[0].unit and sides[0].unit == sides[1].unit) else None
