"""Small graphs with clusters."""

from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.graph_cut import as_graph
from dask_dpmeans.kernels.block import Int64Array
from dask_dpmeans.kernels.plot_statistics import Adjacency
from dask_dpmeans.sources import RowSource, Stored, as_source
from dask_dpmeans.storage.location import AnyPlace

MOST_NODES, MOST_LINKS = 500, 20_000
"""Limits of a graph that can be drawn."""
SMALLER = "take the nodes of a few clusters, graph[nodes][:, nodes]"


class Drawable(NamedTuple):
    """A small graph of n nodes, and its clusters."""

    adjacency: csr_array
    """(n, n), weights of the links."""
    labels: Int64Array
    """(n,); -1 for nodes without a cluster."""


def drawable(
    graph: ArrayLike | AnyPlace | RowSource, labels: ArrayLike, **where: Unpack[Stored]
) -> Drawable:
    """Return a graph that is small enough to draw, with the clusters of its nodes.

    Parameters
    ----------
    graph : as for `GraphCutDPMeans.fit`
    labels : (n,) integers, NumPy or Dask; -1 for nodes without a cluster
    **where : client, threads, memory_limit, as for `dask_dpmeans.fit`

    Raises
    ------
    InputError
        The graph has more than 500 nodes or 20,000 links, or labels are not one integer a node.
    """
    source: Any = graph
    if not isinstance(graph, RowSource):
        source = as_source(as_graph(graph), sparse=True, **where)
    n = source.plan.n_rows
    if n > MOST_NODES:
        raise InputError(
            f"the graph has {n:,} nodes, and up to {MOST_NODES:,} can be drawn: {SMALLER}"
        )
    adjacency = source.fold(Adjacency(), name="links")
    if adjacency.nnz > 2 * MOST_LINKS:
        links = f"{adjacency.nnz // 2:,} links, and up to {MOST_LINKS:,} can be drawn"
        raise InputError(f"the graph has {links}: {SMALLER}")
    wanted = f"labels must be {n:,} integers, one a node"
    try:
        clusters = np.asarray(labels)
    except ValueError as error:
        raise InputError(f"{wanted}: {error}") from error
    if clusters.shape != (n,) or clusters.dtype.kind not in "iu":
        raise InputError(f"{wanted}, got {clusters.dtype} of shape {clusters.shape}")
    return Drawable(adjacency, clusters.astype(np.int64))
