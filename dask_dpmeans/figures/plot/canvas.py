"""Sizes, styles, axes and files that all pictures share."""

import io
from typing import Any, TypeAlias

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

from dask_dpmeans.kernels.block import Float64Array, Int64Array

AnyFigure: TypeAlias = Figure | SubFigure

INK, GREY, PALE = "black", "0.5", "0.9"
GOLDEN = 0.618
"""Step of colors: multiples of it spread evenly, modulo 1."""
FEW = 40
"""Up to this many clusters or steps have a tick or a marker each."""
SMALL = 8
"""Font size, in points, of many labels."""
NAMED = 60
"""Number of clusters in a legend."""


def new_figure(figure: AnyFigure | None, width: float, height: float) -> AnyFigure:
    """Return the figure that was given, or a new one, in inches."""
    if figure is not None:
        return figure
    return Figure(figsize=(width, height), layout="constrained")


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


def short_name(name: str, most: int = 24) -> str:
    """Return a name, without its middle if it is long."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[1 - most // 2 :]}"


def colors_of(clusters: Int64Array) -> Float64Array:
    """Return a color, (k, 4), for each cluster number, (k,); neighbors differ in lightness."""
    return np.array(colormaps["viridis"](clusters * GOLDEN % 1.0))


def cluster_colors(ranks: Int64Array) -> Float64Array:
    """Return a color, (k, 4), for each rank of weight, (k,), the heaviest first."""
    strong = colormaps["tab20"](np.array([0, 2, 4, 8, 10, 12, 16, 18]))
    light = 0.55 * strong + 0.45
    dark = 0.6 * strong
    dark[:, 3] = 1.0
    hues = np.concatenate([strong, light, dark])
    colors = np.full((len(ranks), 4), (0.6, 0.6, 0.6, 1.0))
    few = ranks < len(hues)
    colors[few] = hues[ranks[few]]
    return colors


def svg(figure: AnyFigure) -> str:
    """Return a figure as SVG with letters as shapes, so that no fonts are needed.

    The same figure always gives the same text.
    """
    root = figure.get_figure(root=True)
    assert root is not None
    settings: dict[Any, Any] = {"svg.hashsalt": "dask_dpmeans", "svg.fonttype": "path"}
    with rc_context(settings), io.StringIO() as file:
        root.savefig(file, format="svg", metadata={"Date": None})
        return file.getvalue()
