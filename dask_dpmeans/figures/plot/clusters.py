"""Pictures of clusters: sizes, profiles of the centers, and their use by data sets."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any, TypedDict, Unpack

import numpy as np
from matplotlib.axes import Axes

from dask_dpmeans.estimators.hdp import HDPMeans
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot.canvas import (
    FEW,
    GREY,
    INK,
    SMALL,
    AnyFigure,
    new_figure,
    short_name,
    stacked_axes,
    within,
)
from dask_dpmeans.kernels.block import Float64Array, Int64Array

MOST_SCORE = 3.0
"""Larger scores have the color of this one, so that one outlier does not make all others pale."""


def sizes(model: data.Model, figure: AnyFigure | None = None) -> AnyFigure:
    """Draw the weight and the root-mean-square radius of each cluster, the heaviest first.

    Parameters
    ----------
    model : a fitted estimator
    figure : Figure or SubFigure, optional

    Returns
    -------
    The figure.  If the penalty is a radius, it is a dashed line.  For a graph, the part of the cut
    is drawn instead of the radius.
    """
    found, words = data.sizes(model), model.description()
    k = len(found.clusters)
    what = "part of the cut" if found.cut else f"root-mean-square\nradius, {words.units}"
    figure = new_figure(figure, 7.0, 4.6)
    above, below = stacked_axes(figure, [f"weight, {found.unit}", what])
    ranks = np.arange(k)
    above.vlines(ranks, 0, found.weights, color=GREY, linewidth=within(300 / k, 1, 8))
    _scale_weights(above, found.weights)
    below.plot(ranks, found.radii, "o", color=INK, markersize=within(200 / k, 2, 6))
    if found.limit is not None:
        label = f"√{words.penalty_name} = {found.limit:.4g}"
        below.axhline(found.limit, color=INK, linestyle="--", linewidth=1, label=label)
        below.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.2))
    top = max([*found.radii, found.limit or 0.0])
    below.set_ylim(-0.04 * top, 1.08 * top or 1.0)
    below.set_xlim(-0.6, k - 0.4)
    _label_clusters(below, found.clusters)
    return figure


def _scale_weights(axes: Axes, weights: Float64Array) -> None:
    """Use a logarithmic axis if weights, heaviest first, differ more than twentyfold."""
    heaviest, lightest = weights[0], weights[-1]
    if lightest > 0 and heaviest > 20 * lightest:
        axes.set_yscale("log")
        axes.set_ylim(lightest / 2, heaviest * 2)
    else:
        axes.set_ylim(0, heaviest * 1.08)


def _label_clusters(axes: Axes, clusters: Int64Array) -> None:
    if len(clusters) > FEW:
        axes.set_xlabel("clusters by weight, the heaviest is 0")
        return
    turn = 0 if len(clusters) * len(str(clusters.max())) <= 60 else 90
    axes.set_xticks(range(len(clusters)), [str(each) for each in clusters], rotation=turn)
    axes.set_xlabel("cluster, the heaviest first")


class ProfileOptions(TypedDict, total=False):
    """Limits of a profile."""

    max_features: int
    max_clusters: int


def profile(
    model: data.Model,
    feature_names: Sequence[str] | None = None,
    figure: AnyFigure | None = None,
    **most: Unpack[ProfileOptions],
) -> AnyFigure:
    """Draw z-scores of the centers as a heat map: the features in which clusters differ.

    Parameters
    ----------
    model : a fitted estimator with `cluster_centers_`
    feature_names : (d,) str, optional
        The default is the column names of the fitted DataFrame, or numbers.
    figure : Figure or SubFigure, optional
    **most : max_features, max_clusters, as for `dask_dpmeans.figures.data.profile`

    Returns
    -------
    The figure: + marks scores above 1, - marks scores below -1.  The axis names what is left out.
    """
    found = data.profile(model, feature_names, **most)
    lines, columns = found.scores.shape
    left_out = _left_out("clusters", [str(each) for each in found.clusters_left_out])
    left_out += _left_out("features", found.features_left_out)
    longest = max(map(len, found.features))
    height = 2.0 + 0.07 * min(longest, 24) + 0.22 * lines + 0.2 * len(left_out)
    figure = new_figure(figure, within(2.8 + 0.24 * columns, 5.5, 13), within(height, 3.2, 13))
    axes = figure.subplots()
    largest = float(np.abs(found.scores).max())
    bound = within(largest, 1.0, MOST_SCORE)
    colors: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -bound, "vmax": bound}
    image = axes.imshow(found.scores, aspect="auto", interpolation="nearest", **colors)
    for sign, marker in ((1, "+"), (-1, "_")):
        row, column = np.nonzero(sign * found.scores > 1)
        dark = np.abs(found.scores[row, column]) > 0.6 * bound
        color = np.where(dark, "white", "black")
        axes.scatter(column, row, marker=marker, s=22, linewidth=1.2, color=color)
    names = [short_name(name) for name in found.features]
    axes.set_xticks(range(columns), names, rotation=90, fontsize=SMALL)
    axes.set_yticks(range(lines), [str(each) for each in found.clusters], fontsize=SMALL)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(lines - 0.5, -0.5)
    axes.set_ylabel("cluster")
    axes.set_xlabel("\n".join(["feature", *left_out]))
    beyond = "both" if largest > MOST_SCORE else "neither"
    figure.colorbar(image, ax=axes, label="z-score of the center", extend=beyond)
    return figure


def _left_out(what: str, names: list[str], most: int = 8) -> list[str]:
    """Return lines that name what is left out."""
    if not names:
        return []
    more = f" and {len(names) - most:,} more" * (len(names) > most)
    some = ", ".join(map(short_name, names[:most]))
    return wrap(f"left out, differing least: {what} {some}{more}", 60)


class SharingOptions(TypedDict, total=False):
    """Limits of a picture of shares."""

    max_lines: int
    max_centers: int


def sharing(
    model: HDPMeans, figure: AnyFigure | None = None, **most: Unpack[SharingOptions]
) -> AnyFigure:
    """Draw the shares of the global centers in the weight of each data set.

    Parameters
    ----------
    model : a fitted `HDPMeans`
    figure : Figure or SubFigure, optional
    **most : max_lines, max_centers, as for `dask_dpmeans.figures.data.sharing`

    Returns
    -------
    The figure; data sets with most of their weight in the same center are neighbors.
    """
    found = data.sharing(model, **most)
    lines, columns = found.shares.shape
    width, height = within(2.8 + 0.22 * columns, 5, 13), within(1.4 + 0.16 * lines, 3, 8)
    figure = new_figure(figure, width, height)
    axes = figure.subplots()
    colors: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": 1}
    image = axes.imshow(found.shares, aspect="auto", interpolation="nearest", **colors)
    names, label = [str(each) for each in found.centers], "global center, the heaviest first"
    if len(found.centers_together):
        names.append("others")
        label += f", others: {len(found.centers_together):,}"
    axes.set_xticks(range(columns), names, rotation=90 * (columns > 20), fontsize=SMALL)
    axes.set_xlabel(label)
    _label_sets(axes, found.sets)
    figure.colorbar(image, ax=axes, label="share of the data set's weight")
    return figure


def _label_sets(axes: Axes, sets: list[Int64Array]) -> None:
    one_a_line = max(map(len, sets)) == 1
    if one_a_line and len(sets) <= FEW:
        axes.set_yticks(range(len(sets)), [str(each[0]) for each in sets], fontsize=SMALL)
        axes.set_ylabel("data set")
        return
    axes.set_yticks([])
    label = f"{sum(map(len, sets)):,} data sets, by their main center"
    if not one_a_line:
        label += f"\n{len(sets):,} lines of means"
    axes.set_ylabel(label)
