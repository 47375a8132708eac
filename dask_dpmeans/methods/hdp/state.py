"""State of a fit of several data sets: global centers, local clusters, progress of the search."""

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TypeVar

import numpy as np

from dask_dpmeans.engine.checkpoints import PREFIX
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.hdp import Sharing


class Move(IntEnum):
    """Kinds of moves of the search, by their positions in the counts of a state."""

    MERGE = 0
    SPLIT = 1
    DELETE = 2
    OPENING_TRIAL = 3
    CLOSING_TRIAL = 4
    SWAP_TRIAL = 5


N_PASS_MOVES = Move.DELETE + 1
"""Moves of a pass: merges, splits and deletes; all others are trials."""


@dataclass(frozen=True)
class Uses:
    """Pairs of a data set and a center that it uses."""

    groups: Int64Array
    """(u,), data sets, ascending."""
    centers: Int64Array
    """(u,), numbers of centers, ascending in each data set."""


@dataclass(frozen=True)
class LocalClusters(Uses):
    """Uses that have weight."""

    weights: Float64Array
    """(u,), sums of the weights of their rows."""


@dataclass(frozen=True)
class SearchProgress:
    """Moves that led to a state of the search, and moves planned for the next pass."""

    moves: Int64Array
    """(6,), moves of this step, as `Move` numbers them."""
    gains: Float64Array
    """(3,), lower bounds of the gains of merges, splits and deletes."""
    planned: Int64Array
    """(3,), merges, splits and deletes of the next pass."""
    promised: Float64Array
    """(3,), lower bounds of their gains."""
    turn: int
    """The number of the first trial to run next."""

    @classmethod
    def none(cls) -> "SearchProgress":
        """Return progress without any move."""
        counts, gains = np.zeros(N_PASS_MOVES, np.int64), np.zeros(N_PASS_MOVES)
        return cls(np.zeros(len(Move), np.int64), gains, counts, gains, 0)

    def after_pass(self) -> "SearchProgress":
        """Return the progress after the planned moves."""
        nothing = SearchProgress.none()
        moves = np.concatenate([self.planned, nothing.moves[N_PASS_MOVES:]])
        return replace(nothing, moves=moves, gains=self.promised, turn=self.turn)

    def after_trial(self, move: Move, turn: int) -> "SearchProgress":
        """Return the progress after one successful trial."""
        nothing = SearchProgress.none()
        nothing.moves[move] = 1
        return replace(self, moves=nothing.moves, gains=nothing.gains, turn=turn)


@dataclass(frozen=True)
class State:
    """State of a fit after a number of steps; the next step needs nothing else."""

    step: int
    """Steps done."""
    centers: Float64Array
    """(g, d), global centers of the last pass."""
    means: Float64Array
    """(h, d), centers of the next sweep."""
    weights: Float64Array
    """(g,), weights of the global clusters."""
    inertias: Float64Array
    """(g,), squared error of each global cluster, in squared units of the rows times weight."""
    objective: float
    """Eq. 2 of the centers and uses of the last pass."""
    local: LocalClusters
    """The m uses of `centers` that have weight."""
    next: Uses
    """The uses of `means` in the next sweep."""
    opened: Int64Array
    """(openings,), rows that opened centers or uses in this sweep, in order."""
    kept: Int64Array
    """(openings,), the center of each of these rows; -1 if it has no weight any more."""
    births: int
    """Centers opened in this sweep."""
    deaths: int
    """Centers left without weight in this sweep."""
    associations: int
    """Local clusters that step 5 tied to another center; in a search, moves planned for the next
    sweep."""
    saved: float
    """What these save at least."""
    search: SearchProgress = field(metadata={PREFIX: ""})
    """Moves of the search; all 0 for Algorithm 2."""
    rows_read: int
    """Rows of all passes since the start."""

    @property
    def n_local_clusters(self) -> int:
        """Number of uses that have weight."""
        return len(self.local.groups)

    @property
    def moves(self) -> Int64Array:
        """(6,), moves of the search in this step."""
        return self.search.moves

    @property
    def gains(self) -> Float64Array:
        """(3,), lower bounds of the gains of merges, splits and deletes in this step."""
        return self.search.gains

    def sharing(self, n_groups: int) -> Sharing:
        """Return the centers, uses and openers of the last pass."""
        alive = self.kept >= 0
        uses = self.local.groups, self.local.centers
        return Sharing.of(self.centers, *uses, n_groups, self.opened[alive], self.kept[alive])


AnyState = TypeVar("AnyState", bound=State)
