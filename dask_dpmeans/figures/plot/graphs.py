"""Pictures of small graphs."""

from typing import Any, Unpack

import networkx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from dask_dpmeans.checks import format_count
from dask_dpmeans.errors import InputError
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot import canvas
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.sources import RowSource, Stored
from dask_dpmeans.storage.location import AnyPlace

MARKERS = "os^DvPX*"
"""Markers of the clusters, in turn."""
NAMES_ABREAST = 4
"""Number of columns of the legend."""


def graph(
    graph: ArrayLike | AnyPlace | RowSource,
    labels: ArrayLike,
    figure: canvas.AnyFigure | None = None,
    ax: Axes | None = None,
    *,
    cluster_weights: ArrayLike | None = None,
    **where: Unpack[Stored],
) -> canvas.AnyFigure:
    """Draw nodes and links of a small graph, with a color and marker for each cluster.

    Parameters
    ----------
    graph : (n, n) as for `GraphCutDPMeans.fit`, up to 500 nodes and 20,000 links
    labels : (n,) integers; -1 for nodes without a cluster
    figure, ax : optional Figure or SubFigure, and Axes of a grid whose place the picture takes
    cluster_weights : (k,), optional
        The heaviest clusters have colors.  The default is the degrees of the clusters.
    **where : client, threads, memory_limit, as for `dask_dpmeans.fit`

    Returns
    -------
    The figure.  Springs pull linked nodes together (Fruchterman & Reingold 1991).
    """
    found = data.drawable(graph, labels, **where)
    numbers = np.unique(found.labels)
    names = min(len(numbers), len(canvas.COLORS) + 2)
    figure = canvas.new_figure(
        figure, ax, canvas.WIDTH, canvas.WIDTH + 0.2 * -(-names // NAMES_ABREAST)
    )
    axes = figure.subplots()
    positions = _positions(found.adjacency)
    links = found.adjacency.tocoo()
    once = links.row < links.col
    lines = np.stack([positions[links.row[once]], positions[links.col[once]]], axis=1)
    width = canvas.within(300 / max(1, len(lines)), 0.2, 0.8)
    axes.add_collection(LineCollection(list(lines), colors="0.75", linewidths=width))
    size = canvas.within(4000 / len(positions), 18, 60)
    alone = positions[found.labels < 0]
    if len(alone):
        label = f"no cluster ({len(alone):,})"
        axes.scatter(
            alone[:, 0], alone[:, 1], size, marker="x", color=canvas.INK, zorder=2, label=label
        )
    numbers = numbers[numbers >= 0]
    weights = _weights(found, numbers, cluster_weights)
    colors = canvas.colors_by_weight(weights)
    for rank, which in enumerate(np.argsort(-weights, kind="stable")):
        number = numbers[which]
        members, marker = positions[found.labels == number], MARKERS[rank % len(MARKERS)]
        style: dict[str, Any] = {"marker": marker, "color": colors[which], "edgecolor": canvas.INK}
        label = f"cluster {number} ({len(members):,})"
        axes.scatter(
            members[:, 0], members[:, 1], size, zorder=2, label=label, linewidth=0.6, **style
        )
    axes.set_axis_off()
    n_links = format_count(int(np.count_nonzero(once)), "link")
    axes.set_title(f"{format_count(len(positions), 'node')}, {n_links}", fontsize="medium")
    _add_legend(axes)
    return figure


def _positions(adjacency: csr_array) -> Float64Array:
    """Return positions of the nodes, (n, 2); always the same for the same graph."""
    if adjacency.nnz:
        adjacency = adjacency / adjacency.data.mean()
    found = networkx.spring_layout(networkx.from_scipy_sparse_array(adjacency), seed=0)
    nodes = [found[node] for node in range(adjacency.shape[0])]
    return np.array(nodes, np.float64).reshape(-1, 2)


def _add_legend(axes: Axes) -> None:
    """Name the clusters that have colors, the heaviest first, below the picture."""
    handles, names = axes.get_legend_handles_labels()
    most = len(canvas.COLORS) + names[0].startswith("no cluster")
    more = len(names) - most
    title = f"and {format_count(more, 'smaller cluster')}, grey" if more > 0 else None
    style: dict[str, Any] = {
        "frameon": False,
        "fontsize": canvas.SMALL,
        "title_fontsize": canvas.SMALL,
    }
    style |= {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "alignment": "left"}
    columns = min(len(names), NAMES_ABREAST)
    axes.legend(
        handles[:most], names[:most], ncols=columns, title=title, handletextpad=0.2, **style
    )


def _weights(found: data.Drawable, numbers: Int64Array, given: ArrayLike | None) -> Float64Array:
    """Return the weights of the clusters with these numbers, (c,), by default their degrees."""
    if given is None:
        degrees = np.asarray(found.adjacency.sum(axis=1)).ravel()
        inside = found.labels >= 0
        which = np.searchsorted(numbers, found.labels[inside])
        sums = np.bincount(which, degrees[inside], minlength=len(numbers))
        return np.asarray(sums, np.float64)
    k, weights = 1 + int(numbers.max(initial=-1)), np.asarray(given)
    if weights.ndim != 1 or len(weights) < k or weights.dtype.kind not in "iuf":
        got = f"{weights.dtype} of shape {weights.shape}"
        raise InputError(f"cluster_weights must be {k:,} numbers, one a cluster, got {got}")
    return weights[numbers].astype(np.float64)
