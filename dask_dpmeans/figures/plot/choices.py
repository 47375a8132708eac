"""Pictures of the choice of a penalty."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot import canvas
from dask_dpmeans.figures.plot.canvas import choose_spaced
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.choice import Alternative, Choice

BEYOND, FEWEST_SHOWN = 1.2, 10
"""Numbers of clusters are drawn up to this multiple of the largest alternative, or to this number."""
MOST_PLAIN = 1e7
"""If there are penalties from here on, labels are such as 1e+07; with all digits, eight of them would overlap."""
LABEL = (0.06, 0.13)
"""Width and height of a label, as shares of a panel."""
ABOVE = 3
"""Distance of a label from its point, in points of 1/72 inch."""


def choice(
    model: data.Model | Choice, figure: canvas.AnyFigure | None = None, ax: Axes | None = None
) -> canvas.AnyFigure:
    """Draw the scores, the stability and the penalties of the numbers of clusters of a choice.

    Parameters
    ----------
    model : an estimator that was fitted with ``penalty="auto"``, or its `choice_`
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure.  Panels over the number of clusters: the score of each number, and how well fits of
    halves of the rows agree at the best numbers.  Below, the best number over the penalty.  The
    chosen number is black and bold, and the next best are labeled.
    """
    found = data.choice(model)
    figure = canvas.new_figure(figure, ax, 5.6, 6.4)
    halves = figure.subfigures(2, 1, height_ratios=[1.3, 1.0], squeeze=False)
    above, below = halves[:, 0]
    scores, stability = above.subplots(2, 1, sharex=True, height_ratios=[1.7, 1.0])
    stairs = below.subplots()
    for axes in (scores, stability, stairs):
        axes.spines[["top", "right"]].set_visible(False)
    most = max(BEYOND * max(each.n_clusters for each in found.alternatives), FEWEST_SHOWN)
    _draw_scores(scores, found, most)
    _draw_stability(stability, found.alternatives)
    _draw_stairs(stairs, found)
    above.align_ylabels()
    return figure


def _draw_scores(axes: Axes, found: data.Numbers, most: float) -> None:
    chosen = found.alternatives[0]
    scored = [each for each in found.alternatives if each.n_clusters > 1]
    shown = (found.n_clusters <= most) & ~np.isnan(found.scores)
    axes.vlines(found.n_clusters[shown], 0, found.scores[shown], color=canvas.GREY, linewidth=1.5)
    points = np.array([[each.n_clusters, each.score] for each in scored]).reshape(-1, 2)
    axes.vlines(points[:, 0], 0, points[:, 1], color=canvas.GREY, linewidth=1.5)
    if chosen.n_clusters > 1:
        axes.vlines(chosen.n_clusters, 0, chosen.score, color=canvas.INK, linewidth=4)
    axes.set_title(found.headline, fontsize="medium", loc="left")
    axes.set_ylabel("score")
    axes.set_xlim(0, most)
    axes.set_ylim(0, 1.2 * max((each.score for each in scored), default=1.0))
    _label(axes, scored, chosen, points)


def _draw_stability(axes: Axes, alternatives: tuple[Alternative, ...]) -> None:
    known = [
        (each.n_clusters, each.stability) for each in alternatives if each.stability is not None
    ]
    numbers, indices = np.array(known).reshape(-1, 2).T
    chosen = int(alternatives[0].stability is not None)  # it is the first
    style: dict[str, Any] = {"marker": "o", "linestyle": ""}
    axes.plot(numbers[chosen:], indices[chosen:], color=canvas.GREY, markersize=5, **style)
    axes.plot(numbers[:chosen], indices[:chosen], color=canvas.INK, markersize=8, **style)
    axes.set_ylim(indices.min(initial=0.0) - 0.05, 1.1)
    axes.set_ylabel("stability")
    axes.set_xlabel("number of clusters")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _draw_stairs(axes: Axes, found: data.Numbers) -> None:
    """Draw the best number of clusters over the penalties, with the interval of the chosen one."""
    chosen, sign = found.alternatives[0], 1.0
    low = min(each.low for each in found.alternatives) / 2
    high = 2 * max(
        *(each.high for each in found.alternatives), found.low[-1]
    )  # where one cluster begins
    if chosen.negative:  # drawn as positive numbers, from right to left
        sign, low, high = -1.0, found.low[0], found.high[-1]
    shown = (found.high > low) & (found.low < high)
    numbers, ends = found.n_clusters[shown], found.high[shown]
    edges = sign * np.array([max(low, found.low[shown][0]), *ends])
    axes.stairs(numbers, edges, baseline=None, color=canvas.GREY, linewidth=1.5)
    axes.axvspan(sign * chosen.low, sign * chosen.high, color=canvas.PALE, zorder=0)
    span = [sign * chosen.low, sign * chosen.high]
    axes.plot(span, 2 * [chosen.n_clusters], color=canvas.INK, linewidth=4)
    _scale_penalties(axes, sign * low, sign * high, sign)
    canvas.scale_values(axes, numbers, whole=True)
    bottom, top = numbers.min(), numbers.max()
    axes.set_ylim(bottom / 1.2, 1.5 * top)
    axes.set_ylabel("best number\nof clusters")
    axes.set_xlabel("penalty: the price of one more cluster")
    points = [[sign * each.penalty, each.n_clusters] for each in found.alternatives]
    _label(axes, found.alternatives, chosen, np.array(points))


def _scale_penalties(axes: Axes, low: float, high: float, sign: float) -> None:
    """Scale the horizontal axis for penalties, in the logarithm, with plain numbers if there is room.

    The numbers are positive, and penalties are that times `sign`.
    """
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    subs = (1,) if max(low, high) > 100 * min(low, high) else (1, 2, 5)
    axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=8))
    style = ",.12g" if max(low, high) < MOST_PLAIN else "g"
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{sign * value:{style}}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _label(
    axes: Axes, alternatives: Sequence[Alternative], chosen: Alternative, points: Float64Array
) -> None:
    """Write the numbers of clusters above their points, (m, 2), if there is room.

    Labels near the chosen number stand beside it.
    """
    if not len(points):
        return
    places = axes.transAxes.inverted().transform(axes.transData.transform(points))
    spaced = choose_spaced(places, LABEL, LABEL[1] / 2)
    for each, point, place, room in zip(alternatives, points, places, spaced, strict=True):
        side, weight = place[0] - places[0, 0], "normal"
        if each is chosen:
            weight = "bold"
        align = "center"
        if alternatives[0] is chosen and 0 < abs(side) < LABEL[0]:
            align = "left" if side > 0 else "right"
        if room:
            box = None if each is chosen else {"facecolor": "white", "edgecolor": "none", "pad": 0}
            axes.annotate(
                f"{each.n_clusters:,}",
                point,
                (0, ABOVE),
                textcoords="offset points",
                ha=align,
                va="bottom",
                fontsize=canvas.SMALL,
                fontweight=weight,
                bbox=box,
            )
