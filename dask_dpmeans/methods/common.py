"""The common part of methods and of their states."""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from dask_dpmeans.engine.history import GAINS, MoveCounts
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Features, Float64Array, Int64Array
from dask_dpmeans.kernels.column_statistics import LEAST_SQUARES, Summary

LEARNED = {"learned": True}
"""Metadata of a field of a method that is learned from the rows; it is not among the parameters."""
OPTIONAL = {"optional": True}
"""Metadata of a field that is among the parameters only if it is not the default, so that runs from
before it came, or without it, are the same."""


@dataclass(frozen=True)
class BaseMethod:
    """A method of rows as they are given."""

    sparse: ClassVar[bool] = False
    """Whether kernels see CSR rows."""

    @property
    def features(self) -> Features | None:
        """The map of each row that kernels see instead of the row; None for none."""
        return None

    def seeded(self, seed: int) -> Self:
        """Return the same method with another seed, if it draws random numbers."""
        drawn: dict[str, Any] = {each.name: seed for each in fields(self) if each.name == "seed"}
        return replace(self, **drawn)


@dataclass(frozen=True, kw_only=True)
class BaseState:
    """A fit after a number of steps; defaults are those before the first step."""

    step: int = 0
    """Steps done."""
    weights: Float64Array
    """(k,), weights of the clusters."""
    inertias: Float64Array
    """(k,), squared error of the clusters, in squared units of the rows times weight."""
    objective: float = math.inf
    """Inertia plus price of the clusters on the data."""
    deaths: int = 0
    """Clusters that lost all weight in this step."""
    rows_read: int
    """Rows of all passes since the start; a shard whose answer is reused counts too."""


@dataclass(frozen=True, kw_only=True)
class OpeningState(BaseState):
    """A state of a method whose rows open clusters."""

    opened: Int64Array = field(default_factory=lambda: np.empty(0, np.int64))
    """(births,), the rows that opened clusters in this step, in order."""

    @property
    def births(self) -> int:
        """Clusters opened in this step."""
        return len(self.opened)


@dataclass(frozen=True, kw_only=True)
class MovedState(BaseState):
    """A state of a method that counts its moves."""

    moves: MoveCounts = field(default_factory=MoveCounts)
    """Moves and trials that led here from the step before."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "moves", MoveCounts.of(self.moves))


@dataclass(frozen=True, kw_only=True)
class PlannedState(MovedState):
    """A state of a search that plans the moves of the next pass."""

    gains: Float64Array = field(default_factory=lambda: np.zeros(len(GAINS)))
    """(3,), least gains of the merges, splits and deletes."""
    planned: Int64Array = field(default_factory=lambda: np.zeros(len(GAINS), np.int64))
    """(3,), merges, splits and deletes of the next pass."""
    promised: Float64Array = field(default_factory=lambda: np.zeros(len(GAINS)))
    """(3,), least gains of the planned moves."""


def finite_objective(objective: float, prices: str) -> float:
    """Return an objective, or raise an error that names the prices if it is not finite."""
    if not math.isfinite(objective):
        raise InputError(f"the objective overflows float64 at {prices}: divide the data first")
    return objective


def check_squares(summary: Summary) -> None:
    """Refuse weights or different rows whose squares overflow or vanish in float64.

    Raises
    ------
    InputError
        The sum of the weights is too large or too small, or the values of all columns differ too little.
    """
    weight, square = summary.weight, summary.weight * summary.weight
    if not LEAST_SQUARES <= square < math.inf:
        kind, way = ("overflows", "divide") if weight > 1 else ("underflows", "multiply")
        raise InputError(
            f"the square of the sum of sample_weight, {weight:.3g}, {kind} float64: {way} the weights "
            "by a constant first"
        )
    if summary.underflowing:
        span = float((summary.highest - summary.lowest).max())
        what = "the data" if weight >= 1 else "the data or the weights"
        raise InputError(
            "squared distances underflow float64: values of a column differ by "
            f"{span:.3g} at most; multiply {what} by a constant first"
        )
