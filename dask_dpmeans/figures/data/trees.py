"""The layout of dendrograms: of a tree of clusters, and of the merges of micro-clusters."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import dendrogram as laid_out

from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.linkage import LinkageDPMeans
from dask_dpmeans.figures.data.columns import attribute
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.selection.tree import ClusterTree

STEP = 10.0
"""From one leaf to the next, in the units of SciPy."""


class Join(NamedTuple):
    """Clusters that become one cluster."""

    height: float
    """Penalty at which they join."""
    places: Float64Array
    """(m,), horizontal positions of the parts; the leaves are at 0 to k - 1."""
    heights: Float64Array
    """(m,), penalties at which the parts were made; 0 for clusters of the fit."""


class Dendrogram(NamedTuple):
    """A tree of clusters, laid out over its k leaves."""

    leaves: Int64Array
    """(k,), clusters of the lowest level, in an order in which no two joins cross."""
    joins: list[Join]
    """Joins, the lowest first."""


def upper(tree: ClusterTree, most: int) -> ClusterTree:
    """Return the part of a tree above its lowest level with at most `most` clusters."""
    levels = [tree.leaves, *tree.levels]
    few = [level for level in levels if level.n_clusters <= most] or levels[-1:]
    members = np.unique(few[0].clusters, return_index=True)[1]  # one for each cluster of this level
    leaves, *above = (level._replace(clusters=level.clusters[members]) for level in few)
    return tree._replace(leaves=leaves, levels=tuple(above))


def dendrogram(tree: ClusterTree) -> Dendrogram:
    """Lay out the joins of a tree."""
    levels = [tree.leaves, *tree.levels]
    leaves = np.lexsort([level.clusters for level in levels])
    places, heights = np.empty(len(leaves)), np.full(len(leaves), tree.leaves.penalty)
    places[leaves] = np.arange(len(leaves))
    joins = []
    for below, above in pairwise(levels):
        parents = np.empty(below.n_clusters, np.int32)
        parents[below.clusters] = above.clusters
        joined, raised = np.empty(above.n_clusters), np.empty(above.n_clusters)
        for cluster in range(above.n_clusters):
            parts = np.flatnonzero(parents == cluster)
            parts = parts[np.argsort(places[parts])]
            joined[cluster], raised[cluster] = places[parts].mean(), heights[parts].max()
            if len(parts) > 1:
                raised[cluster] = above.penalty
                joins.append(Join(above.penalty, places[parts], heights[parts]))
        places, heights = joined, raised
    return Dendrogram(leaves, joins)


class Merges(NamedTuple):
    """The last m merges of micro-clusters, over their m + 1 leaves."""

    places: Float64Array
    """(m, 4), horizontal positions of the corners of each merge; leaves are at 0 to m."""
    gains: Float64Array
    """(m, 4), of the same corners: how much of the cut a merge saves, from 1 to 0."""
    clusters: Int64Array
    """(m,), the cluster of all micro-clusters below a merge; -1 if there are several."""
    n_micro: int
    """Number of micro-clusters."""
    penalty: float
    """The price of a cluster."""


def merges(model: LinkageDPMeans, most: int) -> Merges:
    """Return the last merges of the micro-clusters of a fit, of at most `most` leaves.

    A merge is not drawn below one that it contains, though it may save more.
    """
    tree, groups = attribute(model, "cluster_tree_", "tree of micro-clusters"), model.groups_
    k = len(groups)
    if k == 1:
        raise InputError("the tree has one micro-cluster: there are no merges to show")
    rising, own = tree.copy(), np.concatenate([groups, np.empty(k - 1, np.int64)])
    raised = np.concatenate([np.zeros(k), rising[:, 2]])
    for step, (one, other) in enumerate(tree[:, :2].astype(int)):
        raised[k + step] = max(raised[[k + step, one, other]])
        own[k + step] = own[one] if own[one] == own[other] else -1
    rising[:, 2] = raised[k:]
    nodes: list[int] = []

    def note(node: int) -> str:
        nodes.append(node)
        return ""

    found = laid_out(rising, most, "lastp", no_plot=True, link_color_func=note)
    places = (np.array(found["icoord"]) - STEP / 2) / STEP
    gains = 1.0 - np.array(found["dcoord"])
    return Merges(places, gains, own[nodes], k, model.penalty_)
