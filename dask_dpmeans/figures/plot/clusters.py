"""Pictures of clusters: sizes, profiles of the centers, and their use by data sets."""

from collections.abc import Sequence
from textwrap import wrap
from typing import Any, TypedDict, Unpack

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, PercentFormatter

from dask_dpmeans.checks import format_share
from dask_dpmeans.estimators.description import Description
from dask_dpmeans.estimators.hdp import HDPMeans
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot import canvas
from dask_dpmeans.kernels.block import Float64Array, Int64Array

MOST_WIDTH = 7.0
"""Width of the widest picture, in inches."""
MANY = 300
"""Lighter clusters are drawn as one area: the picture of 11,494 bars took 25 s and 4.6 MB."""
LEAST_LINES = 3
"""Lines of the lowest profile; the label of its colors would be cut beside fewer."""
MOST_SCORE = 3.0
"""Larger scores have the color of this one, so that one outlier does not make all others pale."""


def sizes(
    model: data.Model, figure: canvas.AnyFigure | None = None, ax: Axes | None = None
) -> canvas.AnyFigure:
    """Draw the share and the root-mean-square radius of each cluster, the heaviest first.

    Parameters
    ----------
    model : a fitted estimator
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure.  If the penalty is a radius, it is a dashed line.  For a graph, the part of the cut
    is drawn instead of the radius; for costs that are no squared distances, their mean.  More than
    40 clusters are thin bars without numbers.
    """
    found, words = data.sizes(model), model.description()
    k = len(found.clusters)
    height = canvas.within(1.2 + 0.21 * k, 2.0, 6.0 if k > canvas.FEW else 10.0)
    figure = canvas.new_figure(figure, ax, canvas.WIDTH, height)
    bars, radii = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
    for axes in (bars, radii):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xmargin(0.08)
    ranks, shares = np.arange(k), found.weights / found.weights.sum()
    colors = canvas.colors_by_weight(model.cluster_weights_)[found.clusters]
    bars.barh(
        ranks[:MANY], shares[:MANY], height=0.8 if k <= canvas.FEW else 1.0, color=colors[:MANY]
    )
    if k > MANY:
        edges = np.arange(MANY, k + 1) - 0.5
        bars.stairs(shares[MANY:], edges, orientation="horizontal", fill=True, color=canvas.OTHER)
    bars.xaxis.set_major_formatter(PercentFormatter(1.0))
    bars.set_xlabel("share of the " + found.unit.replace("sum over rows", "weight of the rows"))
    dots = {"s": canvas.within(1500 / k, 6, 40), "clip_on": False, "rasterized": k > MANY}
    radii.scatter(found.radii, ranks, color=colors, **dots)
    radii.set_xlabel(_radii_label(words))
    radii.tick_params(axis="y", length=0)
    if found.limit is not None:
        root = "" if words.distance_unit else "√"
        label = f"{root}{words.penalty_name} = {found.limit:.4g}"
        radii.axvline(found.limit, color=canvas.INK, linestyle="--", linewidth=1, label=label)
        radii.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), fontsize=canvas.SMALL)
    radii.set_xlim(0, 1.08 * max(*found.radii, found.limit or 0.0) or 1.0)
    bars.set_ylim(k - 0.4, -0.6)
    for axes in (bars, radii):
        axes.xaxis.set_major_locator(MaxNLocator(4))
    if k > canvas.FEW:
        bars.set_ylabel("clusters by weight, the heaviest is 0")
        return figure
    bars.set_yticks(ranks, [str(each) for each in found.clusters])
    bars.set_ylabel("cluster")
    _write_shares(bars, shares)
    return figure


def _radii_label(words: Description) -> str:
    if words.radii_are_cuts:
        return "part of the cut"
    if not words.squares:
        return "mean divergence of a row"
    return f"radius (root mean square)\n{words.distance_unit or words.units}"


def _write_shares(axes: Axes, shares: Float64Array) -> None:
    for rank, share in enumerate(shares):
        place: dict[str, Any] = {
            "textcoords": "offset points",
            "va": "center",
            "fontsize": canvas.SMALL,
        }
        axes.annotate(format_share(float(share)), (share, rank), (3, 0), **place)
    end = 1.25 * shares.max()
    axes.set_xlim(0, end)
    axes.set_xticks([each for each in axes.get_xticks() if 0 <= each <= min(end, 1.0)])


class ProfileOptions(TypedDict, total=False):
    """Limits of a profile."""

    max_features: int
    max_clusters: int


def profile(
    model: data.Model,
    feature_names: Sequence[str] | None = None,
    figure: canvas.AnyFigure | None = None,
    ax: Axes | None = None,
    **most: Unpack[ProfileOptions],
) -> canvas.AnyFigure:
    """Draw z-scores of the centers as a heat map: the features in which clusters differ.

    Parameters
    ----------
    model : a fitted estimator with `cluster_centers_`
    feature_names : (d,) str, optional
        The default is the column names of the fitted DataFrame, or numbers.
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes
    **most : max_features, max_clusters, as for `dask_dpmeans.figures.data.profile`

    Returns
    -------
    The figure: + marks scores above 1, - marks scores below -1.  Clusters have their colors above.
    The axis names what is left out.
    """
    found = data.profile(model, feature_names, **most)
    lines, columns = found.scores.T.shape
    left_out = _left_out("clusters", [str(each) for each in found.clusters_left_out])
    left_out += _left_out("features", found.features_left_out)
    width = canvas.within(3.6 + 0.16 * columns, 4.2, MOST_WIDTH)
    figure = canvas.new_figure(
        figure, ax, width, 1.4 + 0.2 * max(lines, LEAST_LINES) + 0.18 * len(left_out)
    )
    axes = figure.subplots()
    largest = float(np.abs(found.scores).max())
    bound = canvas.within(largest, 1.0, MOST_SCORE)
    colors: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -bound, "vmax": bound}
    image = axes.imshow(found.scores.T, aspect="auto", interpolation="nearest", **colors)
    for sign, marker in ((1, "+"), (-1, "_")):
        row, column = np.nonzero(sign * found.scores.T > 1)
        dark = np.abs(found.scores.T[row, column]) > 0.6 * bound
        color = np.where(dark, "white", "black")
        axes.scatter(column, row, marker=marker, s=22, linewidth=1.2, color=color)
    names = [canvas.short_name(name) for name in found.features]
    axes.set_yticks(range(lines), names, fontsize=canvas.SMALL)
    axes.set_ylim(lines - 0.5, -0.5)
    axes.set_xlabel("\n".join(["cluster", *left_out]))
    numbers = [str(each) for each in found.clusters]
    _mark_clusters(axes, numbers, canvas.colors_by_weight(model.cluster_weights_)[found.clusters])
    beyond = "both" if largest > MOST_SCORE else "neither"
    figure.colorbar(image, ax=axes, label="z-score of the center", extend=beyond, aspect=30)
    return figure


def _mark_clusters(axes: Axes, names: list[str], colors: Float64Array) -> None:
    """Name the columns of a heat map, and mark the colors, (c, 4), of their clusters above."""
    turn = 90 * (len(names) > canvas.FEW / 3)
    axes.set_xticks(range(len(names)), names, rotation=turn, fontsize=canvas.SMALL)
    axes.set_xlim(-0.5, len(names) - 0.5)
    bottom, top = axes.get_ylim()
    height = max(0.4, 0.012 * bottom)
    axes.bar(range(len(colors)), -height, 0.9, bottom=top - 0.1, color=colors, clip_on=False)
    axes.set_ylim(bottom, top)


def _left_out(what: str, names: list[str], most: int = 8) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - most:,} more" * (len(names) > most)
    some = ", ".join(map(canvas.short_name, names[:most]))
    return wrap(f"left out, differing least: {what} {some}{more}", 60)


class SharingOptions(TypedDict, total=False):
    """Limits of a picture of shares."""

    max_lines: int
    max_centers: int


def sharing(
    model: HDPMeans,
    figure: canvas.AnyFigure | None = None,
    ax: Axes | None = None,
    **most: Unpack[SharingOptions],
) -> canvas.AnyFigure:
    """Draw the shares of the clusters in the weight of each data set.

    Parameters
    ----------
    model : a fitted `HDPMeans`
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes
    **most : max_lines, max_centers, as for `dask_dpmeans.figures.data.sharing`

    Returns
    -------
    The figure; data sets with most of their weight in the same center are neighbors.
    """
    found = data.sharing(model, **most)
    lines, columns = found.shares.shape
    width = canvas.within(2.8 + 0.16 * columns, 5, MOST_WIDTH)
    height = canvas.within(1.4 + 0.18 * lines, 3, 8)
    figure = canvas.new_figure(figure, ax, width, height)
    axes = figure.subplots()
    colors: dict[str, Any] = {"cmap": "Blues", "vmin": 0, "vmax": found.shares.max()}
    image = axes.imshow(found.shares, aspect="auto", interpolation="nearest", **colors)
    names, label = [str(each) for each in found.centers], "cluster, the heaviest first"
    if len(found.centers_together):
        names.append("others")
        label += f", others: {len(found.centers_together):,}"
    axes.set_xlabel(label)
    _mark_clusters(axes, names, canvas.colors_by_weight(model.cluster_weights_)[found.centers])
    _label_sets(axes, found.sets)
    figure.colorbar(image, ax=axes, label="share of the data set's weight")
    return figure


def _label_sets(axes: Axes, sets: list[Int64Array]) -> None:
    one_a_line = max(map(len, sets)) == 1
    if one_a_line and len(sets) <= canvas.FEW:
        axes.set_yticks(range(len(sets)), [str(each[0]) for each in sets], fontsize=canvas.SMALL)
        axes.set_ylabel("data set")
        return
    axes.set_yticks([])
    label = f"{sum(map(len, sets)):,} data sets, by their main center"
    if not one_a_line:
        label += f"\n{len(sets):,} lines of means"
    axes.set_ylabel(label)
