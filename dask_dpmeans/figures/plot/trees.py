"""Dendrograms: of a tree of clusters, and of the merges of micro-clusters."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.ticker import FuncFormatter, NullFormatter

from dask_dpmeans import checks
from dask_dpmeans.checks import format_count
from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.linkage import LinkageDPMeans
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot import canvas
from dask_dpmeans.kernels.block import Int64Array
from dask_dpmeans.selection.tree import ClusterTree

MOST_LEAVES = 300
"""Number of clusters, or of micro-clusters, that fit side by side."""
LABEL_WIDTH = 0.15
"""Inches of the name of a cluster, turned by 90 degrees."""
LEAST_GAIN = 1e-3
"""Merges that save less of the cut are drawn as if they saved this."""


def tree(
    tree: ClusterTree, figure: canvas.AnyFigure | None = None, ax: Axes | None = None
) -> canvas.AnyFigure:
    """Draw a tree of clusters as a dendrogram.

    Parameters
    ----------
    tree : as `dask_dpmeans.selection.tree.cluster_tree` returns it
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure: the clusters of the fit side by side, and above them their joins, at the logarithm
    of the penalty.  With more than 300 clusters, the lowest levels are left out.
    """
    checks.instance("tree", tree, ClusterTree, "cluster_tree")
    drawn = data.upper(tree, MOST_LEAVES)
    found = data.dendrogram(drawn)
    if not found.joins:
        reason = "the tree has no levels at which clusters join"
        raise InputError(f"{reason}: it needs two clusters, and higher penalties")
    wide = LABEL_WIDTH * len(found.leaves) if len(found.leaves) <= canvas.FEW else 0.0
    figure = canvas.new_figure(figure, ax, max(canvas.WIDTH, 1.3 + wide), 4.0)
    axes = figure.subplots()
    axes.set_yscale("log")
    bottom = drawn.leaves.penalty or found.joins[0].height / 2
    width = canvas.within(120 / len(found.leaves), 0.3, 1)
    for join in found.joins:
        axes.hlines(
            join.height, join.places.min(), join.places.max(), color=canvas.INK, linewidth=width
        )
        starts = np.maximum(join.heights, bottom)
        axes.vlines(join.places, starts, join.height, color=canvas.INK, linewidth=width)
    axes.set_ylim(bottom, 1.5 * found.joins[-1].height)
    axes.set_xlim(-0.6, len(found.leaves) - 0.4)
    axes.set_ylabel("penalty, squared units\nof the centers times weight")
    axes.spines[["top", "right"]].set_visible(False)
    _label_leaves(axes, tree, drawn, found.leaves)
    return figure


def _label_leaves(axes: Axes, tree: ClusterTree, drawn: ClusterTree, leaves: Int64Array) -> None:
    """Name each leaf if they are few clusters of the fit, else say what they are."""
    upper_part = drawn.leaves.penalty > 0
    if len(leaves) <= canvas.FEW and not upper_part:
        turn = 90 if len(leaves) > canvas.FEW / 2 else 0
        axes.set_xticks(range(len(leaves)), [str(leaf) for leaf in leaves], rotation=turn)
        axes.set_xlabel("cluster")
        bottoms = np.full(len(leaves), axes.get_ylim()[0])
        colors = canvas.colors_by_weight(tree.leaves.weights)[leaves]
        axes.scatter(
            range(len(leaves)), bottoms, 50, color=colors, marker="s", clip_on=False, zorder=3
        )
        return
    axes.set_xticks([])
    label = format_count(drawn.leaves.n_clusters, "cluster")
    if upper_part:
        label += f" at penalty {drawn.leaves.penalty:.4g}, of {tree.leaves.n_clusters:,} of the fit"
    axes.set_xlabel(label)


def merges(
    model: LinkageDPMeans, figure: canvas.AnyFigure | None = None, ax: Axes | None = None
) -> canvas.AnyFigure:
    """Draw the merges of micro-clusters as a dendrogram, with the colors of the clusters.

    Parameters
    ----------
    model : a fitted `LinkageDPMeans`
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes

    Returns
    -------
    The figure: the micro-clusters side by side, and above them their merges, at the logarithm of
    the penalty at which a merge pays.  Merges across clusters are black.  The penalty of the fit is
    a dashed line.  With more than 300 micro-clusters, the first merges are left out.
    """
    found = data.merges(model, MOST_LEAVES)
    figure = canvas.new_figure(figure, ax, canvas.WIDTH, 3.6)
    axes = figure.subplots()
    colors = canvas.colors_by_weight(model.cluster_weights_)[found.clusters]
    colors[found.clusters < 0] = to_rgba(canvas.INK)
    gains = np.maximum(found.gains, LEAST_GAIN)
    width = canvas.within(150 / len(gains), 0.5, 1.5)
    lines = np.stack([found.places, gains], axis=2)
    axes.add_collection(LineCollection(list(lines), colors=list(colors), linewidths=width))
    price = canvas.within(-found.penalty, LEAST_GAIN, 1.0)
    label = f"penalty {found.penalty:.3g}"
    axes.axhline(price, color=canvas.GREY, linestyle="--", linewidth=1, label=label)
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.0)
    axes.set_yscale("log")
    axes.set_ylim(1.0, 0.8 * LEAST_GAIN)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{-value:.12g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("penalty: the price of a cluster")
    axes.set_xlim(-0.6, found.places.max() + 0.6)
    axes.set_xticks([])
    shown = len(gains) + 1
    left_out = "" if shown == found.n_micro else f", the last {shown - 1:,} merges"
    axes.set_xlabel(format_count(found.n_micro, "micro-cluster") + left_out, color=canvas.INK)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
