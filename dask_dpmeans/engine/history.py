"""What each step of a fit came to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class MoveCounts:
    """Moves that led to a state from the state before it; an array of six integers in a store."""

    merges: int = 0
    """Pairs of clusters that became one."""
    splits: int = 0
    """Clusters that became two."""
    deletes: int = 0
    """Clusters whose rows went to their neighbors."""
    openings: int = 0
    """Trials that opened clusters: 0 or 1, as for the next two."""
    closings: int = 0
    """Trials that deleted clusters."""
    swaps: int = 0
    """Trials that did both, moves of single rows, or the end of births alone."""

    @classmethod
    def of(cls, values: npt.ArrayLike) -> "MoveCounts":
        """Return the counts of an array (6,), or of other counts."""
        return cls(*np.asarray(values).tolist())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array([getattr(self, name) for name in MOVES], dtype or np.int64)


@dataclass(frozen=True)
class Record:
    """One committed step of a fit, as the history keeps it."""

    objective: float
    """Inertia + penalty * k."""
    inertia: float
    """Squared error, in squared units of the rows times weight."""
    n_clusters: int
    n_local_clusters: int
    """Uses of clusters by data sets, of the HDP; 0 elsewhere."""
    births: int
    """Clusters opened in the step."""
    deaths: int
    """Clusters left without weight in it."""
    merges: int
    """Pairs of clusters that became one, by the search."""
    splits: int
    """Clusters that became two."""
    deletes: int
    """Clusters whose rows went to their neighbors."""
    openings: int
    """Trials that opened clusters, settled and were kept: 0 or 1, as the next two."""
    closings: int
    """Trials that deleted clusters."""
    swaps: int
    """Trials that did both, moves of single rows and a step to what births alone end with among them."""
    merge_gain: float
    """What the merges lowered the objective by."""
    split_gain: float
    """What the splits did, before the means moved."""
    delete_gain: float
    """What the deletes did at least."""
    passes: float
    """Passes since the start; one over a part of the rows counts as that part, one that need not read shards as one."""
    seconds: float
    """What the step took; the one figure that differs from run to run."""

    @classmethod
    def of(cls, state: Any, n_rows: int, seconds: float) -> "Record":
        """The record of a state; what its method does not count is 0."""
        return cls(
            objective=state.objective,
            inertia=math.fsum(state.inertias),
            n_clusters=len(state.weights),
            n_local_clusters=getattr(state, "n_local_clusters", 0),
            births=state.births,
            deaths=state.deaths,
            **_named(MOVES, getattr(state, "moves", MoveCounts())),
            **_named(GAINS, getattr(state, "gains", np.zeros(len(GAINS)))),
            passes=state.rows_read / n_rows,
            seconds=seconds,
        )


MOVES = tuple(each.name for each in fields(MoveCounts))


GAINS = ("merge_gain", "split_gain", "delete_gain")


INTEGERS = ("n_clusters", "n_local_clusters", "births", "deaths", *MOVES)
"""Columns of the history that hold integers."""


def _named(names: Sequence[str], values: npt.ArrayLike) -> dict[str, Any]:
    return dict(zip(names, np.asarray(values).tolist(), strict=True))
