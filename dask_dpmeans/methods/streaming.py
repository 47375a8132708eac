"""Methods that see each row once, in row order: online DP-means, and split-merge DP-means.

They are Algorithms 2 to 4 of Odashima et al. 2016.  A pass is serial by nature: where a row goes
depends on every row before it.  Batches and blocks only cut the one sequence, so that nothing depends
on how it is cut.  The merge, Algorithm 4, reads no rows, only the moments of the clusters that a pass
has left.
"""

from dataclasses import dataclass
from typing import Generic

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.loop import AnyState
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.online import ENDLESS, Boxes, online, split
from dask_dpmeans.kernels.ward import merge
from dask_dpmeans.methods.dpmeans import batch


@dataclass(frozen=True)
class State:
    """The clusters of the rows so far."""

    centers: Float64Array
    """(k, d), the running means of the clusters, in order of opening."""
    weights: Float64Array
    """(k,), numbers of rows of the clusters."""


@dataclass(frozen=True)
class Parameters(Generic[AnyState]):
    """The common part of both methods of one pass."""

    penalty: float
    """The price of a cluster, in squared units of the rows: lambda squared of the paper."""
    max_clusters: int | None = None
    """More clusters than this, before any merge, are an error."""

    def __post_init__(self) -> None:
        checked = batch.Method(self.penalty, max_clusters=self.max_clusters)
        object.__setattr__(self, "penalty", checked.penalty)

    def init(self, n_features: int) -> AnyState:
        """Return the state before the first row."""
        raise NotImplementedError

    def clusters(self, state: AnyState) -> State:
        """Return the clusters of a state, with centers (k, d) and weights (k,)."""
        raise NotImplementedError

    def run(self, rows: Float64Array, state: AnyState, most: int) -> AnyState:
        """Return the state after rows, (n, d), or the first one of more than `most` clusters."""
        raise NotImplementedError

    def take(self, state: AnyState, block: Block) -> AnyState:
        """Return the state after a block of rows.

        Raises
        ------
        TooManyClustersError
            A row opens or splits off one cluster more than `max_clusters`.
        InputError
            Weight times center overflows.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            after = self.run(block.doubles(), state, int(self.max_clusters or ENDLESS))
        batch.check_number(len(after.centers), self.max_clusters, self.penalty)
        if not np.isfinite(after.centers).all():
            raise InputError(
                "weight times center overflows float64: divide the data by a constant first"
            )
        return after


@dataclass(frozen=True)
class Online(Parameters[State]):
    """Online DP-means: Algorithm 2."""

    def init(self, n_features: int) -> State:
        return State(np.empty((0, n_features)), np.empty(0))

    def run(self, rows: Float64Array, state: State, most: int) -> State:
        """Return the state after rows, (n, d), by Algorithm 2."""
        return State(*online(rows, self.penalty, state.centers, state.weights, most))

    def clusters(self, state: State) -> State:
        """Return the state itself, with centers (k, d) and weights (k,)."""
        return state


@dataclass(frozen=True)
class SplitState:
    """The clusters of the rows so far, before the merge."""

    boxes: Boxes
    """The clusters of Algorithm 3; the upper half of a split is the newest cluster."""

    @property
    def centers(self) -> Float64Array:
        """(k, d)."""
        return self.boxes.centers


@dataclass(frozen=True)
class SplitMerge(Parameters[SplitState]):
    """Split-merge DP-means: Algorithm 3, then Algorithm 4."""

    merge: bool = True
    """Whether Algorithm 4 follows Algorithm 3; split DP-means without."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.switch("merge", self.merge)

    def init(self, n_features: int) -> SplitState:
        nothing = np.empty((0, n_features))
        return SplitState(Boxes(nothing, np.empty(0), nothing, nothing))

    def run(self, rows: Float64Array, state: SplitState, most: int) -> SplitState:
        """Return the state after rows, (n, d), by Algorithm 3."""
        return SplitState(split(rows, self.penalty, state.boxes, most))

    def clusters(self, state: SplitState) -> State:
        """Return centers (k, d) and weights (k,), merged by Algorithm 4 unless `merge` is off."""
        boxes = state.boxes
        if self.merge:
            return merge_clusters(boxes.centers, boxes.weights, self.penalty)
        return State(boxes.centers, boxes.weights)


def merge_clusters(centers: Float64Array, weights: Float64Array, penalty: float) -> State:
    """Return the clusters, (k, d) and (k,), after the greedy merges of Algorithm 4.

    State without weight are left out.  The others are in order of the lowest number of each
    group; a center is the weighted mean of its group's, in that order.
    """
    weighty = weights > 0
    centers, weights = centers[weighty], weights[weighty]
    groups, members = np.unique(merge(centers, weights, penalty), return_inverse=True)
    sums, totals = np.zeros((len(groups), centers.shape[1])), np.zeros(len(groups))
    np.add.at(sums, members, centers * weights[:, np.newaxis])
    np.add.at(totals, members, weights)
    return State(sums / totals[:, np.newaxis], totals)
