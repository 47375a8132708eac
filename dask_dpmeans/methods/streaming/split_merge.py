"""Split-merge DP-means: Algorithms 3 and 4 of Odashima et al. 2016.

The split is one pass in row order, serial by nature: where a row goes depends on every row before
it.  The merge reads no rows, only the moments of the clusters that the pass has left.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.kernels import online
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.ward import merge
from dask_dpmeans.methods.streaming.online import Parameters
from dask_dpmeans.methods.streaming.online import State as Clusters


@dataclass(frozen=True)
class State:
    """The clusters of the rows so far, before the merge."""

    boxes: online.Boxes
    """The clusters of Algorithm 3; the upper half of a split is the newest cluster."""

    @property
    def centers(self) -> Float64Array:
        """(k, d)."""
        return self.boxes.centers


@dataclass(frozen=True)
class Method(Parameters[State]):
    """Split-merge DP-means."""

    merge: bool = True
    """Whether Algorithm 4 follows Algorithm 3; split DP-means without."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.switch("merge", self.merge)

    def init(self, n_features: int) -> State:
        """Return the state before the first row."""
        nothing = np.empty((0, n_features))
        return State(online.Boxes(nothing, np.empty(0), nothing, nothing))

    def run(self, rows: Float64Array, state: State, most: int) -> State:
        """Return the state after rows, (n, d), by Algorithm 3."""
        return State(online.split(rows, self.penalty, state.boxes, most))

    def clusters(self, state: State) -> Clusters:
        """Return centers (k, d) and weights (k,), merged by Algorithm 4 unless `merge` is off."""
        boxes = state.boxes
        if self.merge:
            return merge_clusters(boxes.centers, boxes.weights, self.penalty)
        return Clusters(boxes.centers, boxes.weights)


def merge_clusters(centers: Float64Array, weights: Float64Array, penalty: float) -> Clusters:
    """Return the clusters, (k, d) and (k,), after the greedy merges of Algorithm 4.

    Clusters without weight are left out.  The others are in order of the lowest number of each
    group; a center is the weighted mean of its group's, in that order.
    """
    weighty = weights > 0
    centers, weights = centers[weighty], weights[weighty]
    groups, members = np.unique(merge(centers, weights, penalty), return_inverse=True)
    sums, totals = np.zeros((len(groups), centers.shape[1])), np.zeros(len(groups))
    np.add.at(sums, members, centers * weights[:, np.newaxis])
    np.add.at(totals, members, weights)
    return Clusters(sums / totals[:, np.newaxis], totals)
