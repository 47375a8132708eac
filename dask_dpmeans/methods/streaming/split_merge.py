"""Split-merge DP-means: Algorithms 3 and 4 of Odashima et al. 2016.

The split is one pass in row order, serial by nature: where a row goes depends on every row before
it.  The merge reads no rows, only the moments of the clusters that the pass has left.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.kernels import online
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.ward import merge
from dask_dpmeans.methods.streaming.online import check_clusters, checked_penalty, most_clusters


@dataclass(frozen=True)
class State:
    """The clusters of the rows so far, before the merge."""

    boxes: online.Boxes
    """The clusters of Algorithm 3; the upper half of a split is the newest cluster."""


@dataclass(frozen=True)
class Clusters:
    """The clusters of a state, after the merge."""

    centers: Float64Array
    """(k, d)."""
    weights: Float64Array
    """(k,)."""


@dataclass(frozen=True)
class Method:
    """Parameters of split-merge DP-means."""

    penalty: float
    """The price of a cluster, in squared units of the rows: lambda squared of the paper."""
    merge: bool = True
    """Whether Algorithm 4 follows Algorithm 3; split DP-means without."""
    max_clusters: int | None = None
    """More clusters than this, before the merge, are an error."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", checked_penalty(self.penalty, self.max_clusters))
        checks.switch("merge", self.merge)

    def init(self, n_features: int) -> State:
        """Return the state before the first row."""
        nothing = np.empty((0, n_features))
        return State(online.Boxes(nothing, np.empty(0), nothing, nothing))

    def take(self, state: State, block: Block) -> State:
        """Return the state after a block of rows, by Algorithm 3.

        Raises
        ------
        TooManyClustersError
            A row opens or splits off one cluster more than `max_clusters`.
        InputError
            Weight times center overflows.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            most = most_clusters(self.max_clusters)
            boxes = online.split(block.doubles(), self.penalty, state.boxes, most)
        check_clusters(boxes.centers, self.max_clusters, self.penalty)
        return State(boxes)

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
