"""The merges of micro-clusters, laid out as a dendrogram."""

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import dendrogram as laid_out

from dask_dpmeans.errors import InputError
from dask_dpmeans.estimators.linkage import LinkageDPMeans
from dask_dpmeans.figures.data.columns import attribute
from dask_dpmeans.kernels.block import Float64Array, Int64Array

STEP = 10.0
"""From one leaf to the next, in the units of SciPy."""


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
