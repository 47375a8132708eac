"""The layout of a dendrogram."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.selection.tree import ClusterTree


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
