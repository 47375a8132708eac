"""Pictures of rows and centers."""

from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any, Unpack

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from dask_dpmeans.checks import format_count
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot import maps
from dask_dpmeans.figures.plot.canvas import SMALL, WIDTH, AnyFigure, new_figure, short_name, within
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.sources import RowSource
from dask_dpmeans.storage.location import AnyPlace


def density(
    X: ArrayLike | AnyPlace | RowSource,
    model: data.Model,
    columns: Sequence[int | str] | None = None,
    figure: AnyFigure | None = None,
    ax: Axes | None = None,
    **options: Unpack[data.DensityOptions],
) -> AnyFigure:
    """Draw rows, in the colors of their clusters, and centers, in two columns or directions.

    Fewer than 10,000 rows are drawn as points.  More are drawn as a histogram that is counted
    exactly, block by block, in the memory of a fit: up to three passes over the rows.

    Parameters
    ----------
    X : (n, d) rows as for `fit`, or the path or URL of a Zarr array or ``.npy`` file
    model : a fitted estimator with `cluster_centers_` or `micro_centers_`
    columns : two (or one) numbers or names of columns of X, optional
        The default is the two directions of largest variance.
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes
    **options : feature_names, sample_weight, bins, client, threads, memory_limit, as for
        `dask_dpmeans.figures.data.density`

    Returns
    -------
    The figure, as `row_map` draws it.
    """
    return row_map(data.density(X, model, columns, **options), model, figure, ax)


def row_map(
    found: data.Density,
    model: data.Model | None = None,
    figure: AnyFigure | None = None,
    ax: Axes | None = None,
) -> AnyFigure:
    """Draw rows, in the colors of their clusters, and centers.

    Parameters
    ----------
    found : as `dask_dpmeans.figures.data.density` returns it
    model : the fitted estimator, needed if its centers are of micro-clusters
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure; centers have the numbers of their clusters if there is room, the heaviest first.
    Centers of micro-clusters have an area by their weight instead.  Above and at the right are the
    rows along each axis.  Where clusters overlap, their colors are mixed; boxes with fewer rows are
    paler.  The 24 heaviest clusters have colors, all others are grey.
    """
    micro_weights = getattr(model, "micro_weights_", None)
    word = "center" if micro_weights is None else "micro-center"
    colors = maps.density_colors(found)
    names = [f"{short_name(name, 48)}\n({found.unit})" for name in found.axes]
    flat, places = len(names) == 2, found.centers
    figure = new_figure(figure, ax, WIDTH, _height(found))
    if flat:
        axes, above = _draw_plane(figure, found, colors)
        axes.set_ylabel(names[1])
    else:
        axes = above = figure.subplots()
        places = np.column_stack([places[:, 0], np.zeros(len(places))])
        _draw_line(axes, found, colors)
    if micro_weights is not None and flat:
        maps.draw_micro_centers(axes, found, colors, micro_weights)
    else:
        largest = 12.0 if found.is_chart else 36.0  # a chart has most rows near centers
        maps.draw_centers(axes, places, colors[found.groups], largest, clip_on=flat)
    axes.set_xlabel(names[0])
    above.set_title(_title(found, word), fontsize="medium", loc="left")
    if micro_weights is None:
        maps.number_centers(axes, found, places)
    return figure


def _height(found: data.Density) -> float:
    """Return the height of the picture: a degree of a chart is as long to the east as to the north."""
    if len(found.axes) == 1:
        return 3.4
    if not found.is_chart:
        return WIDTH
    (width, height), middle = found.high - found.low, (found.high + found.low)[1] / 2
    wide = max(1e-9, width * np.cos(np.radians(middle)))
    return WIDTH * within(height / wide, 0.55, 1.3)


def _title(found: data.Density, word: str) -> str:
    """Count rows and centers, of which one is called `word`, and what lies outside."""
    counted = f"{format_count(found.n_rows, 'row')}, {format_count(len(found.centers), word)}"
    title, outside = f"{short_name(found.title, 56)}\n{counted}", []
    if found.outside > 0.5:
        outside.append(f"rows of weight {found.outside:,.6g}")
    n_outside = np.count_nonzero(~maps.inside(found))
    if n_outside:
        outside.append(format_count(int(n_outside), word))
    return f"{title}\noutside of the picture: {', '.join(outside)}" if outside else title


def _draw_plane(figure: AnyFigure, found: data.Density, colors: Float64Array) -> tuple[Axes, Axes]:
    """Draw rows in two directions, and along each; return the axes of the map and above it."""
    sides: dict[str, Any] = {"width_ratios": [7, 1], "height_ratios": [1, 7]}
    panels = figure.subplots(2, 2, sharex="col", sharey="row", squeeze=False, **sides)
    (above, corner), (axes, right) = panels
    maps.draw_stripes(above, found, 0, colors)
    maps.draw_stripes(right, found, 1, colors, orientation="horizontal")
    for side in (above, right, corner):
        side.set_axis_off()
    maps.draw_map(axes, found, colors)
    above.set_ylim(0, None)
    right.set_xlim(0, None)
    return axes, above


def _draw_line(axes: Axes, found: data.Density, colors: Float64Array) -> None:
    maps.draw_stripes(axes, found, 0, colors, most=200)
    axes.set_xlim(found.low[0], found.high[0])
    axes.set_ylim(0, None)
    axes.set_ylabel("weight of the rows in a box")
    axes.spines[["top", "right"]].set_visible(False)


def pairs(
    found: Sequence[data.Density],
    columns: Sequence[str],
    figure: AnyFigure | None = None,
    ax: Axes | None = None,
) -> AnyFigure:
    """Draw rows in all pairs of some columns, in the colors of their clusters.

    Parameters
    ----------
    found : one for each pair of columns, in the order (0, 1), (0, 2), ..., (1, 2), ...
    columns : (d,) names
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure: a panel for each pair, and on the diagonal the rows along each column.
    """
    d = len(columns)
    figure = new_figure(figure, ax, 1.0 + 0.9 * d, 0.8 + 0.9 * d)
    panels = figure.subplots(d, d, sharex="col", squeeze=False)
    colors = maps.density_colors(found[0])
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    for (one, other), each in zip(combinations(range(d), 2), found, strict=True):
        both = [one, other]
        low[both], high[both] = np.minimum(low[both], each.low), np.maximum(high[both], each.high)
        panels[one, other].remove()
        axes = panels[other, one]
        maps.draw_map(axes, each, colors)
        maps.draw_centers(axes, each.centers, colors[each.groups], 14)
        if one == 0:
            maps.draw_stripes(panels[other, other], each, 1, colors, most=30)
    maps.draw_stripes(panels[0, 0], found[0], 0, colors, most=30)
    for one, other in combinations_with_replacement(range(d), 2):
        _set_panel(panels[other, one], one, other, low, high)
    for axes, name in zip(panels[-1], columns, strict=True):
        axes.set_xlabel(short_name(name, 12), fontsize=SMALL)
    for axes, name in zip(panels[1:, 0], columns[1:], strict=True):
        axes.set_ylabel(short_name(name, 12), fontsize=SMALL)
    _add_key(figure, found[0], colors, 4 * (d - 1))
    return figure


def _set_panel(axes: Axes, one: int, other: int, low: Float64Array, high: Float64Array) -> None:
    """Set the range and the ticks of the panel of two columns; diagonal panels have one column."""
    axes.xaxis.set_major_locator(MaxNLocator(2))
    axes.yaxis.set_major_locator(MaxNLocator(2))
    axes.tick_params(labelsize=SMALL, labelleft=one == 0, length=2)
    if one != other:
        maps.set_limits(axes, low[[one, other]], high[[one, other]])
        return
    axes.set_ylim(0, None)
    axes.set_yticks([])
    axes.spines[["top", "left", "right"]].set_visible(False)


def _add_key(figure: AnyFigure, found: data.Density, colors: Float64Array, most: int) -> None:
    """Name the colors of the heaviest clusters in the corner at the right and above."""
    shown = found.layers[:-1][:most]
    style: dict[str, Any] = {"marker": "s", "linestyle": "", "markersize": 7}
    handles = [
        Line2D([], [], color=tuple(colors[each]), label=str(each), **style) for each in shown
    ]
    figure.legend(
        handles=handles,
        loc="upper right",
        title="cluster",
        ncols=-(-len(shown) // 8),
        frameon=False,
        fontsize=SMALL,
        handletextpad=0.1,
        columnspacing=0.8,
        title_fontsize=SMALL,
    )
