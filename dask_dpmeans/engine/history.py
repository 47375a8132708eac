"""The history of a fit: one record for each committed step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import Float64Array


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
    """Trials that did both, crossovers, moves of single rows, or the end of births alone."""

    @classmethod
    def of(cls, values: npt.ArrayLike) -> "MoveCounts":
        """Return the counts of an array (6,), or of other counts."""
        return cls(*np.asarray(values).tolist())

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return np.array([getattr(self, name) for name in MOVES], dtype or np.int64)


MOVES = tuple(each.name for each in fields(MoveCounts))
"""Columns of the history that count moves, in the order of a state's `moves`."""
GAINS = ("merge_gain", "split_gain", "delete_gain")
"""Columns of the history for what moves gained, in the order of a state's `gains`."""
INTEGERS = ("n_clusters", "n_local_clusters", "births", "deaths", *MOVES)
"""Columns of the history that hold integers."""


@dataclass(frozen=True)
class Record:
    """Figures of one committed step of a fit."""

    objective: float
    """Inertia + penalty * k."""
    inertia: float
    """Squared error, in squared units of the rows times weight; with what outliers cost."""
    n_clusters: int
    n_local_clusters: int
    """Local clusters of all data sets together, for the HDP; 0 elsewhere."""
    births: int
    """Clusters opened in the step."""
    deaths: int
    """Clusters left without weight in the step."""
    merges: int
    """Pairs of clusters that the search made one."""
    splits: int
    """Clusters that the search made two, or made of outliers."""
    deletes: int
    """Clusters whose rows went to their neighbors."""
    openings: int
    """Kept trials that opened clusters: 0 or 1, as for the next two."""
    closings: int
    """Kept trials that deleted clusters."""
    swaps: int
    """Kept trials that did both, crossovers, moves of single rows, and ends of births alone."""
    merge_gain: float
    """Decrease of the objective by the merges."""
    split_gain: float
    """Decrease by the splits, before the means moved."""
    delete_gain: float
    """Least decrease by the deletes."""
    passes: float
    """Passes since the start.  A pass over a part of the rows counts as that part; a pass that
    skips unchanged shards counts as one."""
    seconds: float
    """Time of the step; the one figure that differs from run to run."""

    @classmethod
    def of(cls, state: Any, n_rows: int, seconds: float) -> "Record":
        """Return the record of a state, as `methods.common.BaseState` is one, with its births.

        Figures that its method does not count are 0.
        """
        moves = np.asarray(getattr(state, "moves", MoveCounts()))
        gains = getattr(state, "gains", np.zeros(len(GAINS)))
        return cls(
            objective=state.objective,
            inertia=math.fsum(state.inertias) + getattr(state, "outlier_cost", 0.0),
            n_clusters=len(state.weights),
            n_local_clusters=getattr(state, "n_local_clusters", 0),
            births=state.births,
            deaths=state.deaths,
            **_by_name(MOVES, moves),
            **_by_name(GAINS, gains),
            passes=state.rows_read / n_rows,
            seconds=seconds,
        )


FIGURES = tuple(field.name for field in fields(Record))
"""Columns of the history, in order."""
DTYPES = dict.fromkeys(FIGURES, np.float64) | dict.fromkeys(INTEGERS, np.int64)


class History(list[Record]):
    """The records of a fit, one for each committed step, in order."""

    @classmethod
    def from_table(cls, table: Float64Array) -> Self:
        """Return the history of a table, (steps, figures) float64, with the columns `FIGURES`."""
        return cls(map(_record, table.tolist()))

    def table(self) -> Float64Array:
        """Return a table, (steps, figures) float64; integers below 2**53 are exact."""
        rows = [[getattr(record, name) for name in FIGURES] for record in self]
        return np.array(rows, np.float64)

    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the columns by name, (steps,) each, int64 or float64."""
        return {
            name: np.array([getattr(record, name) for record in self], dtype)
            for name, dtype in DTYPES.items()
        }

    def after(self, record: Record, *, committed: bool = True) -> Self:
        """Return this history after one more step.

        Of a rejected step only the `passes` count, in the last record.
        """
        if committed:
            return type(self)([*self, record])
        return type(self)([*self[:-1], replace(self[-1], passes=record.passes)])


def _record(row: list[float]) -> Record:
    figures: dict[str, Any] = dict(zip(FIGURES, row, strict=True))
    figures.update((name, int(figures[name])) for name in INTEGERS)
    return Record(**figures)


def _by_name(names: Sequence[str], values: np.ndarray[Any, Any]) -> dict[str, Any]:
    return dict(zip(names, values.tolist(), strict=True))
