"""Online DP-means: Algorithm 2 of Odashima et al. 2016, one pass in row order.

Serial by nature: where a row goes depends on every row before it.  Batches and blocks only cut the
one sequence, so that nothing depends on how it is cut.
"""

from dataclasses import dataclass
from typing import Generic

import numpy as np

from dask_dpmeans.engine.loop import AnyState
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.online import ENDLESS, online
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
class Method(Parameters[State]):
    """Online DP-means."""

    def init(self, n_features: int) -> State:
        """Return the state before the first row."""
        return State(np.empty((0, n_features)), np.empty(0))

    def run(self, rows: Float64Array, state: State, most: int) -> State:
        """Return the state after rows, (n, d), by Algorithm 2."""
        return State(*online(rows, self.penalty, state.centers, state.weights, most))

    def clusters(self, state: State) -> State:
        """Return the state itself, with centers (k, d) and weights (k,)."""
        return state
