"""Pictures of sequences: the steps of a fit, and a path of penalties."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from dask_dpmeans import checks
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot.canvas import (
    FEW,
    GREY,
    INK,
    PALE,
    SMALL,
    AnyFigure,
    new_figure,
    scale_values,
    stacked_axes,
    within,
)
from dask_dpmeans.kernels.block import Int64Array
from dask_dpmeans.selection.path import PenaltyPath


def path(path: PenaltyPath, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw k, J and, if known, stability over the penalties of a path.

    Parameters
    ----------
    path : as `dask_dpmeans.selection.penalty.penalty_path` returns it
    figure : Figure or SubFigure, optional

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
    figure = new_figure(figure, 7.0, 2.4 * len(panels))
    numbers, *below = stacked_axes(figure, panels)
    marker = "." if len(path.penalties) > FEW else "o"
    _draw_intervals([numbers, *below], path)
    style: dict[str, Any] = {"color": GREY, "markersize": 4, "zorder": 1}
    numbers.plot(path.penalties, path.n_clusters, marker, label="penalties tried", **style)
    scale_values(numbers, path.n_clusters, whole=True)
    line: dict[str, Any] = {"marker": marker, "color": INK, "markersize": 3, "linewidth": 1}
    below[0].plot(path.penalties, path.objectives, **line)
    scale_values(below[0], path.objectives)
    if path.stability is not None:
        below[-1].plot(path.penalties, path.stability, **line)
        below[-1].set_ylim(min(0.0, path.stability.min()) - 0.05, 1.05)
    numbers.legend(frameon=False)
    read_as = "prices" if path.search else "radii"
    seen = "all" if path.full else "a summary of"
    numbers.set_title(f"{read_as}, {seen} {path.rows_used:,} rows", fontsize="medium")
    below[-1].set_xscale("log")
    unit = "squared units of the rows" + " times weight" * path.search
    below[-1].set_xlabel(f"penalty, in {unit}")
    return figure


def _draw_intervals(panels: list[Axes], path: PenaltyPath) -> None:
    """Draw a line at k over each interval, and shade the longest interval of prices."""
    for interval in path.intervals:
        ends, k = [interval.low, interval.high], interval.n_clusters
        if not (path.search and k == path.longest):
            panels[0].plot(ends, [k, k], color=INK, linewidth=1.5)
            continue
        label = f"longest interval: {k:,} clusters"
        panels[0].plot(ends, [k, k], color=INK, linewidth=4, label=label)
        for axes in panels:
            axes.axvspan(*ends, color=PALE, zorder=0)


def history(model: data.Model, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw J, k, and births, deaths and moves over the steps of a fit.

    Parameters
    ----------
    model : a fitted estimator with `history_`, or a list of `dask_dpmeans.engine.history.Record`
    figure : Figure or SubFigure, optional

    Returns
    -------
    The figure.  Panels over the steps: the objective, the number of clusters, and one lane of bars
    for each kind of change, in the logarithm of the count, with the largest count beside it.
    """
    found = data.history(model)
    lanes = len(found.changes)
    panels, heights = ["objective J", "clusters k"], [2.0, 1.6]
    if lanes:
        panels.append("changes\n(logarithm)")
        heights.append(0.7 + 0.3 * lanes)
    figure = new_figure(figure, 7.0, 4.4 + 0.3 * lanes)
    objective, clusters, *changes = stacked_axes(figure, panels, heights)
    steps = np.arange(1, len(found.objectives) + 1)
    marker = "o" if len(steps) <= FEW else ""
    objective.plot(steps, found.objectives, marker=marker, color=INK, markersize=4)
    scale_values(objective, found.objectives)
    clusters.step(steps, found.n_clusters, where="mid", marker=marker, color=INK, markersize=4)
    scale_values(clusters, found.n_clusters, whole=True)
    for axes in changes:
        _draw_lanes(axes, steps, found.changes)
    last = [objective, clusters, *changes][-1]
    last.set_xlabel("step")
    last.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    last.set_xlim(0.5, len(steps) + 0.5)
    return figure


def _draw_lanes(axes: Axes, steps: Int64Array, changes: dict[str, Int64Array]) -> None:
    """Draw one lane of bars for each kind of change."""
    counts = np.array(list(changes.values()))
    kinds, which = np.nonzero(counts)
    tops = kinds + 0.4 - 0.8 * np.log1p(counts[kinds, which]) / np.log1p(counts.max())
    width = within(250 / len(steps), 0.8, 6)
    axes.vlines(steps[which], tops, kinds + 0.4, color=INK, linewidth=width)
    lanes = np.arange(len(changes))
    axes.hlines(lanes + 0.4, 0.5, len(steps) + 0.5, color=GREY, linewidth=0.5)
    names = [f"{name} ≤ {each.max():,}" for name, each in changes.items()]
    axes.set_yticks(lanes, names, fontsize=SMALL)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(changes) - 0.5, -0.5)
