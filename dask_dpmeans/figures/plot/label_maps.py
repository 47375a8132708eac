"""Pictures of labels on the grid of a cube."""

import numpy as np
from matplotlib.axes import Axes

from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot.canvas import AnyFigure, colors_by_weight, new_figure, within
from dask_dpmeans.kernels.block import Float64Array

WIDE, BESIDE, BELOW = 8.0, 0.9, 0.7
"""Width of a map, and of the text beside and below it, in inches."""
FLATTEST, TALLEST = 0.2, 0.7
"""Height of a map over its width: flatter ones are stretched, taller ones are narrower."""
MOST_STRETCH = 5.0
"""Most by which a degree of latitude is longer than one of longitude."""


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
