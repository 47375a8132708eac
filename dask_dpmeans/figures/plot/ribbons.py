"""Pictures of the flows of rows between the clusters of labelings."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from dask_dpmeans import checks
from dask_dpmeans.checks import describe_value, format_count, format_share
from dask_dpmeans.errors import InputError
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot import canvas

HEIGHT, LABEL = 3.4, 0.17
"""Inches of all rows together, and from one box to the next, which leaves room for its name."""
HALF = 0.05
"""Half of the width of a box, in distances between labelings."""
BEND = 0.45
"""Place of the control points of a ribbon, from one end to the other."""


def flows(
    flows: data.Flows,
    names: Sequence[str] | None = None,
    figure: canvas.AnyFigure | None = None,
    ax: Axes | None = None,
) -> canvas.AnyFigure:
    """Draw labelings of the same rows side by side, and the flows of rows between their clusters.

    Parameters
    ----------
    flows : as `dask_dpmeans.figures.data.labelings` returns it
    names : a name for each labeling, optional
        The default is A, B, C.
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure, an alluvial picture: boxes are clusters, as high as their share of the rows, and
    ribbons are the rows of two clusters of neighbors, in the color of the cluster of the first
    labeling.  The largest 30 clusters have a box each, and the largest 90 flows a ribbon; how much
    is left out is said.
    """
    checks.instance("flows", flows, data.Flows, "dask_dpmeans.figures.data.labelings")
    titles = _titles(names, len(flows.sizes))
    found = data.alluvial(flows, LABEL / HEIGHT)
    bottom = max(boxes[-1].top + boxes[-1].share for boxes in found.boxes)
    width = 2.4 + 2.3 * (len(titles) - 1)
    figure = canvas.new_figure(figure, ax, max(5.0, width), 0.9 + HEIGHT * bottom)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(-0.45, len(titles) - 0.55)
    axes.set_ylim(bottom + 0.02, -0.02)
    _draw_ribbons(axes, found)
    for column, (boxes, title) in enumerate(zip(found.boxes, titles, strict=True)):
        _draw_boxes(axes, column, boxes, len(titles))
        axes.text(
            column, -0.06, canvas.short_name(title, 30), ha="center", va="bottom", weight="bold"
        )
    for column, (number, share) in enumerate(found.left_out):
        if number:
            text = f"not drawn: {format_count(number, 'flow')},\n{share:.2%} of the rows"
            axes.text(
                column + 0.5, bottom + 0.03, text, ha="center", va="top", fontsize=canvas.SMALL
            )
    return figure


def _titles(names: Sequence[str] | None, number: int) -> list[str]:
    if names is None:
        return data.letters(number)
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InputError(f"names must be a list of texts or None, got {describe_value(names)}")
    if len(names) != number or not all(isinstance(name, str) for name in names):
        raise InputError(f"names must be {number} texts, got {describe_value(names)}")
    return list(names)


def _color(rank: int) -> tuple[float, float, float, float]:
    if rank == data.NO_COLOR:
        return to_rgba(canvas.GREY)
    return to_rgba(canvas.cluster_colors(np.array([rank]))[0])


def _draw_ribbons(axes: Axes, found: data.Alluvial) -> None:
    for ribbon in found.ribbons:
        start, stop = ribbon.column + HALF, ribbon.column + 1 - HALF
        bends = start + BEND * (stop - start), stop - BEND * (stop - start)
        left, right, share = ribbon.left, ribbon.right, ribbon.share
        corners = [(start, left), (bends[0], left), (bends[1], right), (stop, right)]
        corners += [(stop, right + share), (bends[1], right + share)]
        corners += [(bends[0], left + share), (start, left + share), (start, left)]
        codes = [Path.MOVETO, *3 * [Path.CURVE4], Path.LINETO, *3 * [Path.CURVE4], Path.CLOSEPOLY]
        path = Path(corners, codes)
        axes.add_patch(PathPatch(path, facecolor=_color(ribbon.color), alpha=0.45, linewidth=0))


def _draw_boxes(axes: Axes, column: int, boxes: list[data.Box], columns: int) -> None:
    for box in boxes:
        corner = column - HALF, box.top
        color = _color(box.color)
        axes.add_patch(Rectangle(corner, 2 * HALF, box.share, facecolor=color, edgecolor=color))
        where, side = column + HALF + 0.02, "left"
        if column == 0:
            where, side = column - HALF - 0.02, "right"
        middle = box.top + box.share / 2
        text = axes.text(
            where, middle, _name(box), ha=side, va="center", fontsize=canvas.SMALL, color=canvas.INK
        )
        if 0 < column < columns - 1:  # it lies upon ribbons
            text.set_bbox({"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.8})


def _name(box: data.Box) -> str:
    if len(box.clusters) > 1:
        return f"{len(box.clusters):,} small ones, {format_share(box.share)}"
    [cluster] = box.clusters
    return f"{data.cluster_name(cluster)}, {format_share(box.share)}"
