"""Sizes, styles, axes, files and labels that all pictures share."""

import io
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba_array
from matplotlib.figure import Figure, SubFigure
from matplotlib.image import imsave
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

from dask_dpmeans.checks import describe_value
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array


def place_labels(
    points: Float64Array,
    box: tuple[float, float],
    offsets: Sequence[tuple[float, float]],
    most: int | None = None,
) -> Float64Array:
    """Place labels at points, the first points first: no label overlaps another or covers a point.

    Parameters
    ----------
    points : (k, 2)
    box : width and height of a label, in the same units
    offsets : places of the middle of a label from its point; the first with room is taken
    most : number of points that may have labels, the first ones; by default all

    Returns
    -------
    (k, 2), the offset of each label; NaN if there is no room
    """
    placed, size = np.full(points.shape, np.nan), np.array(box)
    for number, point in enumerate(points[:most]):
        others = np.delete(points, number, axis=0)
        for offset in offsets:
            middle = point + offset
            covers = (np.abs(others - middle) < size / 2).all(axis=1).any()
            overlaps = (np.abs(points + placed - middle) < size).all(axis=1).any()
            if not (covers or overlaps):
                placed[number] = offset
                break
    return placed


def choose_spaced(
    points: Float64Array, box: tuple[float, float], above: float, most: int | None = None
) -> BoolArray:
    """Choose points to label, the first ones first, as `place_labels` does.

    Parameters
    ----------
    points : (k, 2)
    box : width and height of a label, in the same units
    above : distance from a point to the middle of the label above it
    most : as for `place_labels`

    Returns
    -------
    (k,) bool
    """
    return np.isfinite(place_labels(points, box, [(0.0, above)], most)[:, 0])


def paper_places(axes: Axes, points: Float64Array) -> Float64Array:
    """Return where points, (k, 2), are drawn, in points of 1/72 inch; this arranges the figure."""
    root = axes.get_figure(root=True)
    assert root is not None
    engine = root.get_layout_engine()
    if engine is not None:
        engine.execute(root)
    return axes.transData.transform(points) * 72 / root.dpi


AnyFigure: TypeAlias = Figure | SubFigure

INK, GREY, PALE = "black", "0.5", "0.9"
COLORS = (
    *("#4390de", "#c80b43", "#dec800", "#85437a", "#00d3e9", "#bc6400", "#434ed3", "#a6d385"),
    *("#18499e", "#610c24", "#b69255", "#3d2449", "#3d929e", "#553100", "#55006d", "#496d49"),
    *("#55c2ff", "#ce8679", "#f3dbb6", "#db86c2", "#aae7f3", "#ce9e24", "#3186ff", "#aaf36d"),
)
"""Colors of the heaviest clusters: eight hues, then each darker, then each lighter.

The hues differ by 29 or more in CIELAB for readers without red or green cones (simulated as by
Machado et al. 2009), and all 24 by 11 or more.
"""
OTHER = "#a8a8a8"
"""Color of lighter clusters, and of rows without a cluster."""
FEW = 40
"""Up to this many clusters or steps have a tick or a marker each."""
SMALL = 9
"""Font size, in points, of many labels: no text is smaller."""
WIDTH = 5.4
"""Width of a picture, in inches, at which its text can be read on a telephone."""
RESOLUTION = 200
"""Points of an image in an inch of the page."""


def new_figure(figure: AnyFigure | None, ax: Axes | None, width: float, height: float) -> AnyFigure:
    """Return the figure that was given, one in the place of the axes, or a new one, in inches.

    Raises
    ------
    InputError
        Both are given, or the axes are not in a grid.
    """
    if figure is not None and ax is not None:
        raise InputError("figure and ax are both places of the picture: give one of them")
    if figure is not None:
        return figure
    if ax is None:
        return Figure(figsize=(width, height), layout="constrained")
    spec = ax.get_subplotspec() if isinstance(ax, Axes) else None
    parent = ax.get_figure() if spec is not None else None
    if spec is None or parent is None:
        raise InputError(f"ax must be one of figure.subplots(), got {describe_value(ax)}")
    ax.remove()
    return parent.add_subfigure(spec)


def stacked_axes(
    figure: AnyFigure, names: list[str], heights: list[float] | None = None
) -> list[Axes]:
    """Add panels with names over one shared horizontal axis."""
    panels = figure.subplots(len(names), sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    for axes, name in zip(panels, names, strict=True):
        axes.set_ylabel(name)
        axes.spines[["top", "right"]].set_visible(False)
    figure.align_ylabels()
    return list(panels)


def scale_values(axes: Axes, values: NDArray[np.generic], *, whole: bool = False) -> None:
    """Scale an axis for values, (m,): logarithmic if they differ more than tenfold.

    Ticks are whole for whole numbers.
    """
    logarithmic = values.min() > 0 and values.max() > 10 * values.min()
    if logarithmic:
        axes.set_yscale("log")
    if not whole:
        return
    if logarithmic:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def within(value: float, low: float, high: float) -> float:
    """Return the value, or the nearer limit if it is outside."""
    return max(low, min(high, value))


def shortened(name: str, most: int = 24) -> str:
    """Return a name in one line, without its middle if it is long."""
    line = " ".join(name.split())
    return line if len(line) <= most else f"{line[: most // 2]}…{line[1 - most // 2 :]}"


def short_name(name: str, most: int = 24) -> str:
    """Return a shortened name for a picture, in which it is not read as a formula."""
    return shortened(name, most).replace("$", r"\$")


def cluster_colors(ranks: Int64Array) -> Float64Array:
    """Return the color, (k, 4), of each cluster by its rank, (k,): the heaviest cluster has rank 0."""
    shown = np.where(ranks < len(COLORS), ranks, len(COLORS))
    return np.array(to_rgba_array([*COLORS, OTHER])[shown])


def colors_by_weight(weights: Float64Array) -> Float64Array:
    """Return the colors, (k + 1, 4), of clusters with these weights, (k,).

    The last color, at -1, is the one of rows without a cluster.
    """
    ranks = np.full(len(weights) + 1, len(COLORS))
    ranks[np.argsort(-weights, kind="stable")] = np.arange(len(weights))
    return cluster_colors(ranks)


def svg(figure: AnyFigure) -> str:
    """Return a figure as SVG with letters as shapes, so that no fonts are needed.

    The same figure always gives the same text.
    """
    root = figure.get_figure(root=True)
    assert root is not None
    settings: dict[Any, Any] = {"svg.hashsalt": "dask_dpmeans", "svg.fonttype": "path"}
    with rc_context(settings), io.StringIO() as file:
        root.savefig(file, format="svg", dpi=RESOLUTION, metadata={"Date": None})
        return file.getvalue()


def png(figure: AnyFigure) -> bytes:
    """Return a figure as PNG: smaller than SVG if most of it is an image."""
    root = figure.get_figure(root=True)
    assert root is not None
    with io.BytesIO() as file:
        root.savefig(file, format="png", dpi=RESOLUTION)
        return file.getvalue()


def image(pixels: Float64Array) -> bytes:
    """Return an image, (h, w) grey or (h, w, 3) colors between 0 and 1, as PNG."""
    with io.BytesIO() as file:
        imsave(file, pixels, cmap="gray", vmin=0.0, vmax=1.0, format="png")
        return file.getvalue()
