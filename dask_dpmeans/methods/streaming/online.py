"""Online DP-means: Algorithm 2 of Odashima et al. 2016, one pass in row order.

Serial by nature: where a row goes depends on every row before it.  Batches and blocks only cut the
one sequence, so that nothing depends on how it is cut.
"""

from dataclasses import dataclass

import numpy as np

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
class Method:
    """Parameters of online DP-means."""

    penalty: float
    """The price of a cluster, in squared units of the rows: lambda squared of the paper."""
    max_clusters: int | None = None
    """More clusters than this are an error."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", checked_penalty(self.penalty, self.max_clusters))

    def init(self, n_features: int) -> State:
        """Return the state before the first row."""
        return State(np.empty((0, n_features)), np.empty(0))

    def take(self, state: State, block: Block) -> State:
        """Return the state after a block of rows.

        Raises
        ------
        TooManyClustersError
            A row opens one cluster more than `max_clusters`.
        InputError
            Weight times center overflows.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            most = most_clusters(self.max_clusters)
            after = State(
                *online(block.doubles(), self.penalty, state.centers, state.weights, most)
            )
        check_clusters(after.centers, self.max_clusters, self.penalty)
        return after

    def clusters(self, state: State) -> State:
        """Return the state itself, with centers (k, d) and weights (k,)."""
        return state


def checked_penalty(penalty: float, max_clusters: int | None) -> float:
    """Return the penalty as Python's number, once DP-means takes both."""
    return batch.Method(penalty, max_clusters=max_clusters).penalty


def most_clusters(max_clusters: int | None) -> int:
    """Return the limit as a number."""
    return int(max_clusters or ENDLESS)


def check_clusters(centers: Float64Array, max_clusters: int | None, penalty: float) -> None:
    """Raise an error for too many centers, (k, d), and for centers that are not finite."""
    batch.check_number(len(centers), max_clusters, penalty)
    if not np.isfinite(centers).all():
        raise InputError(
            "weight times center overflows float64: divide the data by a constant first"
        )
