"""Layers of clusters in the form of Toponymy."""

import numpy as np
import pytest

from dask_dpmeans import DPMeans, InputError, LinkageDPMeans
from dask_dpmeans.selection.layers import cluster_layers
from dask_dpmeans.selection.tree import cluster_tree

ROWS = np.random.default_rng(0).normal(size=(300, 2)) + 8 * (np.arange(300)[:, np.newaxis] // 50)


def check(layers: object, depth: int) -> None:
    """Each cluster below is part of the one cluster above that holds its rows."""
    found, tree = layers.cluster_layers_, layers.cluster_tree_
    assert len(found) == depth
    for layer in range(depth - 1):
        for cluster in np.unique(found[layer][found[layer] >= 0]):
            (above,) = np.unique(found[layer + 1][found[layer] == cluster])
            parents = [node for node, parts in tree.items() if (layer, cluster) in parts]
            assert parents == [(layer + 1, above)]
    tops = np.unique(found[-1][found[-1] >= 0])
    assert tree[depth, 0] == [(depth - 1, top) for top in tops]


def test_a_tree_of_centers_nests() -> None:
    model = DPMeans(2.0, random_state=0).fit(ROWS)
    tree = cluster_tree(model)
    labels = model.labels_.copy()
    labels[:3] = -1
    layers = cluster_layers(tree, labels)
    check(layers, len(tree.levels) + 1)
    assert all((layer[:3] == -1).all() for layer in layers.cluster_layers_)
    assert layers.cluster_layers_[0].tolist() == labels.tolist()


def test_merges_of_micro_clusters_nest() -> None:
    model = LinkageDPMeans(random_state=0).fit(ROWS)
    counts = [5, 3, 2]
    layers = cluster_layers(model, n_clusters=counts)
    check(layers, 3)
    assert [len(np.unique(layer)) for layer in layers.cluster_layers_] == counts


def test_what_is_missing_is_named() -> None:
    model = DPMeans(2.0, random_state=0).fit(ROWS)
    with pytest.raises(InputError, match="a tree needs the labels of the rows"):
        cluster_layers(cluster_tree(model))
    with pytest.raises(InputError, match="source must be a ClusterTree with labels"):
        cluster_layers(model)
    linkage = LinkageDPMeans(random_state=0).fit(ROWS)
    with pytest.raises(InputError, match="n_clusters must be falling integers"):
        cluster_layers(linkage, n_clusters=[2, 3])
