"""Pictures of sequences: the steps of a fit, and a path of penalties."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dask_dpmeans import checks
from dask_dpmeans.checks import format_count
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot import canvas
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.selection.path import PenaltyPath

KEPT = {
    "openings": "trial kept: opened some",
    "closings": "trial kept: deleted some",
    "swaps": "trial kept: another kind",
}
"""Kinds of changes that happen once in a step or not at all, in words."""
MOST_ABOVE = 10.0
"""Greatest fall of the objective, relative to its lowest value, that is drawn in percent."""
LEAST_RANGE = 0.01
"""Smallest range of the axis of the objective, as a share of its lowest value."""
LEAST_BAR = 0.1
"""Height of the smallest bar of changes, as a share of the largest."""


def path(
    path: PenaltyPath, figure: canvas.AnyFigure | None = None, ax: Axes | None = None
) -> canvas.AnyFigure:
    """Draw k, J and, if known, stability over the penalties of a path.

    Parameters
    ----------
    path : as `dask_dpmeans.selection.penalty.penalty_path` returns it
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure.  Panels over the penalty, in the logarithm: the number of clusters with its
    intervals (with prices, the longest is shaded), the objective, and the mean adjusted Rand index
    of halves.
    """
    checks.instance("path", path, PenaltyPath, "penalty_path")
    panels = ["clusters k", "objective J"]
    if path.stability is not None:
        panels.append("adjusted Rand index\nof halves")
    figure = canvas.new_figure(figure, ax, canvas.WIDTH, 2.0 * len(panels))
    numbers, *below = canvas.stacked_axes(figure, panels)
    marker = "." if len(path.penalties) > canvas.FEW else "o"
    _draw_intervals([numbers, *below], path)
    style: dict[str, Any] = {"color": canvas.GREY, "markersize": 4, "zorder": 1}
    numbers.plot(path.penalties, path.n_clusters, marker, label="penalties tried", **style)
    canvas.scale_values(numbers, path.n_clusters, whole=True)
    line: dict[str, Any] = {"marker": marker, "color": canvas.INK, "markersize": 3, "linewidth": 1}
    below[0].plot(path.penalties, path.objectives, **line)
    canvas.scale_values(below[0], path.objectives)
    if below[0].get_yscale() == "linear":
        below[0].set_ylim(min(0.0, 1.08 * path.objectives.min()), 1.08 * path.objectives.max())
    if path.stability is not None:
        below[-1].plot(path.penalties, path.stability, **line)
        below[-1].set_ylim(min(0.0, path.stability.min()) - 0.05, 1.05)
    numbers.legend(frameon=False)
    read_as = "the price of a cluster" if path.search else "a squared radius"
    seen = "all" if path.full else "a summary of"
    title = f"the penalty is {read_as}; {seen} {path.rows_used:,} rows"
    numbers.set_title(title, fontsize="medium", loc="left")
    below[-1].set_xscale("log")
    unit = "squared units of the rows" + " times weight" * path.search
    below[-1].set_xlabel(f"penalty, in {unit}")
    return figure


def _draw_intervals(panels: list[Axes], path: PenaltyPath) -> None:
    """Draw a line at k over each interval, and shade the longest interval of prices."""
    for interval in path.intervals:
        ends, k = [interval.low, interval.high], interval.n_clusters
        if not (path.search and k == path.longest):
            panels[0].plot(ends, [k, k], color=canvas.INK, linewidth=1.5)
            continue
        label = f"longest interval: {k:,} clusters"
        panels[0].plot(ends, [k, k], color=canvas.INK, linewidth=4, label=label)
        for axes in panels:
            axes.axvspan(*ends, color=canvas.PALE, zorder=0)


def history(
    model: data.Model, figure: canvas.AnyFigure | None = None, ax: Axes | None = None
) -> canvas.AnyFigure:
    """Draw J, k, and births, deaths and moves over the steps of a fit.

    Parameters
    ----------
    model : a fitted estimator with `history_`, or a list of `dask_dpmeans.engine.history.Record`
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure.  Panels over the steps: the objective, in percent above its lowest value (itself if
    it falls more than tenfold, in the logarithm if positive), the number of clusters, and one lane
    of bars for each kind of change, with the largest count beside it.
    """
    found = data.history(model)
    lanes = len(found.changes)
    panels, heights = ["objective J", "clusters k"], [2.0, 1.6]
    if lanes:
        panels.append("changes\nin each step")
        heights.append(0.7 + 0.3 * lanes)
    figure = canvas.new_figure(figure, ax, canvas.WIDTH, 3.8 + 0.3 * lanes)
    objective, clusters, *changes = canvas.stacked_axes(figure, panels, heights)
    steps = np.arange(1, len(found.objectives) + 1)
    marker = "o" if len(steps) <= canvas.FEW else ""
    _draw_objectives(objective, steps, found.objectives, marker)
    clusters.step(
        steps, found.n_clusters, where="mid", marker=marker, color=canvas.INK, markersize=4
    )
    canvas.scale_values(clusters, found.n_clusters, whole=True)
    for axes in changes:
        _draw_lanes(axes, steps, found.changes)
    last = [objective, clusters, *changes][-1]
    last.set_xlabel("step")
    last.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    last.set_xlim(0.5, len(steps) + 0.5)
    return figure


def _draw_objectives(axes: Axes, steps: Int64Array, objectives: Float64Array, marker: str) -> None:
    """Draw the objective after each step, so that a small fall looks small."""
    style: dict[str, Any] = {"marker": marker, "color": canvas.INK, "markersize": 4}
    lowest = objectives.min()
    axes.set_title(
        f"J = {objectives[-1]:,.6g} after {format_count(len(steps), 'step')}",
        fontsize="medium",
        loc="left",
    )
    if lowest > 0 and objectives.max() > 10 * lowest:
        axes.plot(steps, objectives, **style)
        axes.set_yscale("log")
        return
    above = (objectives - lowest) / (abs(lowest) or 1.0)
    if above.max() > MOST_ABOVE:
        axes.plot(steps, objectives, **style)
        return
    axes.plot(steps, above, **style)
    top = max(LEAST_RANGE, 1.1 * above.max())
    axes.set_ylim(-0.05 * top, top)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("objective J, percent\nabove its lowest value")


def _draw_lanes(axes: Axes, steps: Int64Array, changes: dict[str, Int64Array]) -> None:
    """Draw one lane of bars for each kind of change."""
    counts = np.array(list(changes.values()))
    most = counts.max(axis=1)
    kinds, which = np.nonzero(counts)
    heights = np.maximum(counts[kinds, which] / most[kinds], LEAST_BAR)
    width = canvas.within(200 / len(steps), 0.8, 6)
    lines = axes.vlines(steps[which], kinds + 0.4 - 0.8 * heights, kinds + 0.4, color=canvas.INK)
    lines.set_linewidth(width)
    lanes = np.arange(len(changes))
    axes.hlines(lanes + 0.4, 0.5, len(steps) + 0.5, color=canvas.GREY, linewidth=0.5)
    names = [
        KEPT.get(name) or f"{name}, at most {highest:,}"
        for name, highest in zip(changes, most, strict=True)
    ]
    axes.set_yticks(lanes, names, fontsize=canvas.SMALL)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(changes) - 0.5, -0.5)
