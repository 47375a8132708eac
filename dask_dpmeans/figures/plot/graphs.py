"""Pictures of small graphs."""

from collections.abc import Iterable
from typing import Any, Unpack

import networkx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from dask_dpmeans.checks import format_count
from dask_dpmeans.figures import data
from dask_dpmeans.figures.plot.canvas import (
    INK,
    NAMED,
    SMALL,
    AnyFigure,
    colors_of,
    new_figure,
    within,
)
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.sources import RowSource, Stored
from dask_dpmeans.storage.location import AnyPlace

MARKERS = "os^DvPX*"
"""Markers of the clusters, in turn."""
COLUMN = 22
"""Number of clusters in one column of the legend."""


def graph(
    graph: ArrayLike | AnyPlace | RowSource,
    labels: ArrayLike,
    figure: AnyFigure | None = None,
    **where: Unpack[Stored],
) -> AnyFigure:
    """Draw nodes and links of a small graph, with a color and marker for each cluster.

    Parameters
    ----------
    graph : (n, n) as for `GraphCutDPMeans.fit`, up to 500 nodes and 20,000 links
    labels : (n,) integers; -1 for nodes without a cluster
    figure : Figure or SubFigure, optional
    **where : client, threads, memory_limit, as for `dask_dpmeans.fit`

    Returns
    -------
    The figure.  Springs pull linked nodes together (Fruchterman & Reingold 1991).
    """
    found = data.drawable(graph, labels, **where)
    numbers = np.unique(found.labels)
    figure = new_figure(figure, 6.0 + 1.4 * _legend_columns(len(numbers)), 6.0)
    axes = figure.subplots()
    positions = _positions(found.adjacency)
    links = found.adjacency.tocoo()
    once = links.row < links.col
    lines = np.stack([positions[links.row[once]], positions[links.col[once]]], axis=1)
    width = within(300 / max(1, len(lines)), 0.2, 0.8)
    axes.add_collection(LineCollection(list(lines), colors="0.75", linewidths=width))
    size = within(4000 / len(positions), 18, 60)
    alone = positions[found.labels < 0]
    if len(alone):
        label = f"no cluster ({len(alone):,})"
        axes.scatter(alone[:, 0], alone[:, 1], size, marker="x", color=INK, zorder=2, label=label)
    for marker, color, number in _styles(numbers[numbers >= 0]):
        members = positions[found.labels == number]
        style: dict[str, Any] = {"marker": marker, "color": color, "edgecolor": INK}
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


def _legend_columns(names: int) -> int:
    return -(-min(names, NAMED) // COLUMN)


def _add_legend(axes: Axes) -> None:
    """Name the first clusters beside the picture."""
    handles, names = axes.get_legend_handles_labels()
    title = f"the first {NAMED} of {len(names):,}" if len(names) > NAMED else None
    style: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "title": title}
    style |= {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    axes.legend(handles[:NAMED], names[:NAMED], ncols=_legend_columns(len(names)), **style)


def _styles(clusters: Int64Array) -> Iterable[tuple[str, tuple[float, ...], int]]:
    """Yield marker and color of each cluster; neighboring numbers differ in lightness."""
    colors = colors_of(np.arange(len(clusters)))
    for rank, (color, number) in enumerate(zip(colors, clusters.tolist(), strict=True)):
        yield MARKERS[rank % len(MARKERS)], tuple(color), number
