"""Pictures of rows and centers."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.patheffects import withStroke
from numpy.typing import ArrayLike

from dask_dpmeans.checks import format_count
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot.canvas import (
    GREY,
    INK,
    SMALL,
    AnyFigure,
    colors_of,
    new_figure,
    short_name,
    within,
)
from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Int64Array
from dask_dpmeans.sources import RowSource
from dask_dpmeans.storage.location import AnyPlace

DENSITY = ListedColormap(colormaps["Greys"](np.linspace(0.25, 1.0, 256)))
"""Greys in which a box with one row is not white."""


def density(
    X: ArrayLike | AnyPlace | RowSource,
    model: data.Model,
    columns: Sequence[int | str] | None = None,
    figure: AnyFigure | None = None,
    **options: Unpack[data.DensityOptions],
) -> AnyFigure:
    """Draw rows and centers in two columns, or in the two directions of largest variance.

    Fewer than 10,000 rows are drawn as points.  More are drawn as a histogram that is counted
    exactly, block by block, in the memory of a fit: up to three passes over the rows.

    Parameters
    ----------
    X : (n, d) rows as for `fit`, or the path or URL of a Zarr array or ``.npy`` file
    model : a fitted estimator with `cluster_centers_` or `micro_centers_`
    columns : two (or one) numbers or names of columns of X, optional
    figure : Figure or SubFigure, optional
    **options : feature_names, sample_weight, bins, client, threads, memory_limit, as for
        `dask_dpmeans.figures.data.density`

    Returns
    -------
    The figure; centers have their numbers if there is room, the heaviest first.  Centers of
    micro-clusters have the color of their cluster instead, and an area by their weight.
    """
    return row_map(data.density(X, model, columns, **options), model, figure)


def row_map(found: data.Density, model: data.Model, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw rows and centers whose positions are known; see `density`."""
    grouped = hasattr(model, "micro_centers_")
    figure = new_figure(figure, 7.0, 5.4)
    axes = figure.subplots()
    names = [f"{short_name(name, 48)}\n({found.unit})" for name in found.axes]
    axes.set_xlabel(names[0])
    if len(names) == 1:
        _draw_line(axes, found)
    else:
        axes.set_ylabel(names[1])
        _draw_plane(figure, axes, found)
        if grouped:
            _draw_micro_centers(axes, found.centers, model.micro_weights_, model.groups_)
        else:
            _draw_centers(axes, found, np.argsort(-model.cluster_weights_, kind="stable"))
    axes.set_title(_title(found, "micro-center" if grouped else "center"), fontsize="medium")
    return figure


def _title(found: data.Density, word: str) -> str:
    """Count rows and centers, of which one is called `word`, and what lies outside."""
    title = f"{format_count(found.n_rows, 'row')}, {format_count(len(found.centers), word)}"
    inside = ((found.centers >= found.low) & (found.centers <= found.high)).all(axis=1)
    outside = []
    if found.outside > 0.5:
        outside.append(f"rows of weight {found.outside:,.6g}")
    if not inside.all():
        outside.append(format_count(int(np.count_nonzero(~inside)), word))
    return f"{title}\noutside of the picture: {', '.join(outside)}" if outside else title


def _draw_plane(figure: AnyFigure, axes: Axes, found: data.Density) -> None:
    """Draw the rows in two directions."""
    margin = 0.03 * (found.high - found.low)
    margin = np.where(margin > 0, margin, 0.5)
    if found.points is not None:
        size = within(4000 / len(found.points), 2, 12)
        axes.scatter(
            found.points[:, 0], found.points[:, 1], size, color=GREY, linewidth=0, rasterized=True
        )
    elif found.counts is not None:
        shown = np.ma.masked_equal(found.counts.sum(axis=0).T, 0)
        norm = LogNorm(shown.min(), max(shown.max(), 2 * shown.min()))
        extent = (found.low[0], found.high[0], found.low[1], found.high[1])
        image = axes.imshow(
            shown, cmap=DENSITY, norm=norm, extent=extent, origin="lower", aspect="auto"
        )
        figure.colorbar(image, ax=axes, label="weight of the rows in a box")
    low, high = found.low - margin, found.high + margin
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])


def _draw_line(axes: Axes, found: data.Density) -> None:
    """Draw the rows in one direction, and the centers below."""
    assert found.counts is not None
    counts = found.counts.sum(axis=0)
    edges = np.linspace(found.low[0], found.high[0], len(counts) + 1)
    axes.stairs(counts, edges, fill=True, color=GREY)
    zeros = np.zeros(len(found.centers))
    axes.plot(found.centers[:, 0], zeros, "^", color=INK, clip_on=False, label="center")
    axes.set_xlim(found.low[0], found.high[0])
    axes.set_ylim(0, None)
    axes.set_ylabel("weight of the rows in a box")
    axes.legend(frameon=False)


def _draw_centers(axes: Axes, found: data.Density, order: IndexArray) -> None:
    """Draw centers in two directions, with the numbers that have room, in this order."""
    centers = found.centers[order]
    size = within(1000 / len(centers), 3, 36)
    width = within(size / 10, 0.4, 1.2)
    axes.scatter(
        centers[:, 0], centers[:, 1], size, color="white", edgecolor=INK, linewidth=width, zorder=3
    )
    span = np.where(found.high > found.low, found.high - found.low, 1.0)
    points = (centers - found.low) / span * (360, 300)
    inside = ((points >= 0) & (points <= (360, 300))).all(axis=1)
    room = choose_spaced(points[inside], (18, 12), 10)
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": SMALL}
    for number, center in zip(order[inside][room], centers[inside][room], strict=True):
        text = axes.annotate(str(number), center, (0, 5), zorder=4, **style)
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])


def _draw_micro_centers(
    axes: Axes, centers: Float64Array, weights: Float64Array, groups: Int64Array
) -> None:
    """Draw centers of micro-clusters, (k, 2), with the colors of their clusters, (k,)."""
    area = within(9000 / len(centers), 10, 150)
    axes.scatter(
        centers[:, 0],
        centers[:, 1],
        area * weights / weights.max(),
        color=colors_of(groups),
        edgecolor=INK,
        linewidth=0.4,
        zorder=3,
    )


def choose_spaced(points: Float64Array, box: tuple[float, float], above: float) -> BoolArray:
    """Choose points to label, the first ones first: no label overlaps another or covers a point.

    Parameters
    ----------
    points : (k, 2)
    box : width and height of a label, in the same units
    above : distance from a point to the middle of the label above it

    Returns
    -------
    (k,) bool
    """
    chosen = np.zeros(len(points), bool)
    for number, point in enumerate(points):
        label = point + np.array([0.0, above])
        others = np.abs(np.delete(points, number, axis=0) - label) < np.array(box) / 2
        labels = np.abs(points[chosen] - point) < box
        chosen[number] = not (others.all(axis=1).any() or labels.all(axis=1).any())
    return chosen
