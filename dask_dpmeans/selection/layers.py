"""Layers of clusters, from fine to coarse, in the form of Toponymy."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.selection.tree import ClusterTree

Labels = npt.NDArray[np.int32]
Node = tuple[int, int]
"""Number of a layer, and of a cluster in it."""


@dataclass(frozen=True)
class ClusterLayers:
    """Layers of clusters of the same rows, each of unions of clusters of the layer below.

    The clusterers of Toponymy have attributes of these names; they make their layers of labels such
    as these.
    """

    cluster_layers_: list[Labels]
    """Labels of the rows, (n,), layer by layer, from fine to coarse; -1 for rows in no cluster."""
    cluster_tree_: dict[Node, list[Node]]
    """Clusters of the layer below, by the cluster that they are parts of.  A node above all layers
    holds the clusters of the last one."""


def cluster_layers(source: Any, labels: Any = None, *, n_clusters: Any = None) -> ClusterLayers:
    """Return the labels of rows at rising levels of a tree, and which clusters each level unites.

    Parameters
    ----------
    source : ClusterTree, or fitted `LinkageDPMeans`
        A tree has a layer for its leaves and one for each of its levels.
    labels : (n,) integers, for a tree
        Labels of the rows in the fit that the tree is of.
    n_clusters : sequence of integers, falling, for `LinkageDPMeans`
        Numbers of clusters of the layers.

    Returns
    -------
    ClusterLayers

    Raises
    ------
    InputError
        `labels` is missing for a tree, or `n_clusters` for a `LinkageDPMeans`.

    Examples
    --------
    >>> from dask_dpmeans import DPMeans
    >>> from dask_dpmeans.selection.tree import cluster_tree
    >>> X = np.array([[0.0], [1.0], [10.0], [12.0]])
    >>> model = DPMeans(0.5, random_state=0).fit(X)
    >>> layers = cluster_layers(cluster_tree(model, [10.0]), model.labels_)
    >>> [layer.tolist() for layer in layers.cluster_layers_]
    [[0, 1, 2, 3], [0, 0, 1, 1]]
    >>> layers.cluster_tree_
    {(1, 0): [(0, 0), (0, 1)], (1, 1): [(0, 2), (0, 3)], (2, 0): [(1, 0), (1, 1)]}
    """
    if isinstance(source, ClusterTree):
        if labels is None or n_clusters is not None:
            raise InputError("a tree needs the labels of the rows, and no n_clusters")
        numbers = np.asarray(labels)
        found = [_above(level.clusters, numbers) for level in (source.leaves, *source.levels)]
    else:
        if not hasattr(source, "labels_at") or n_clusters is None or labels is not None:
            raise InputError(
                "source must be a ClusterTree with labels, or a LinkageDPMeans with n_clusters, got "
                f"{checks.describe_value(source)}"
            )
        counts = [checks.integer("n_clusters", each) for each in n_clusters]
        if not counts or counts != sorted(set(counts), reverse=True):
            shown = checks.describe_value(n_clusters)
            raise InputError(f"n_clusters must be falling integers, got {shown}")
        found = [np.asarray(source.labels_at(count)) for count in counts]
    return ClusterLayers(found, _tree_of(found))


def _above(clusters: Labels, labels: npt.NDArray[Any]) -> Labels:
    """Return the cluster of each row, (n,), for the cluster of each old cluster; -1 stays."""
    return np.append(clusters, np.int32(-1))[labels]


def _tree_of(layers: list[Labels]) -> dict[Node, list[Node]]:
    """Return the clusters that each cluster of the layers unites."""
    tree: dict[Node, list[Node]] = {}
    for layer, (fine, coarse) in enumerate(pairwise(layers)):
        pairs = np.unique(np.stack([coarse, fine], axis=1), axis=0)
        for parent, child in pairs[(pairs >= 0).all(axis=1)].tolist():
            tree.setdefault((layer + 1, parent), []).append((layer, child))
    last = len(layers) - 1
    tops = np.unique(layers[last])
    tree[last + 1, 0] = [(last, top) for top in tops[tops >= 0].tolist()]
    return tree
