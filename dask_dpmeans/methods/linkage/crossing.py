"""Whether balls and the clusters of a cut cross, so that neither are made of whole clusters of the other.

Rows of the arms of a spiral are balls, too: sectors that each hold a piece of all arms.  A price sees
squared distances alone, and may prefer the sectors by far.  But hardly any rows are between the arms,
so that there are gaps inside the sectors, and a ball with a gap inside is none.

Balls that are pieces of a cluster, or several of its clusters, do not cross it: they are another level.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.methods.linkage.tree import GroupTree, groups_at

CROSSED = 0.2
"""Least share of the rows outside the main ball of their cluster, and outside the main cluster of their
ball, for balls that cross the clusters of a cut."""


@dataclass(frozen=True)
class MicroTree:
    """The tree of K micro-clusters of a summary."""

    centers: Float64Array
    """(K, d)."""
    weights: Float64Array
    """(K,)."""
    graph: csr_array
    """(K, K), their links."""
    tree: GroupTree

    def crossed_by(self, balls: Float64Array, count: int) -> bool:
        """Return whether balls, whose centers are (k, d), cross the clusters of the cut in `count`."""
        if min(len(balls), count) == 1 or count > len(self.centers):
            return False
        groups = groups_at(self.tree.merges, count, self.graph, self.centers, self.weights)
        shared = np.zeros((len(balls), count))
        np.add.at(shared, (nearest(self.centers, Centers(balls)), groups), self.weights)
        everything = float(shared.sum())
        outside = [everything - float(shared.max(axis=axis).sum()) for axis in (0, 1)]
        return min(outside) >= CROSSED * everything
