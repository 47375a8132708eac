"""State of a fit of several data sets: global centers, local clusters, progress of the search."""

from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.hdp import Sharing
from dask_dpmeans.methods.common import PlannedState


class Move(IntEnum):
    """Kinds of moves of a pass, by their positions in `planned` and `gains` of a state."""

    MERGE = 0
    SPLIT = 1
    DELETE = 2


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


@dataclass(frozen=True, kw_only=True)
class State(PlannedState):
    """A fit of several data sets after a number of steps: all that the next step needs."""

    centers: Float64Array
    """(g, d), global centers of the last pass."""
    means: Float64Array
    """(h, d), centers of the next sweep."""
    local: LocalClusters
    """The m uses of `centers` that have weight."""
    next: Uses
    """The uses of `means` in the next sweep."""
    opened: Int64Array
    """(openings,), rows that opened centers or uses in this sweep, in order."""
    kept: Int64Array
    """(openings,), the center of each of these rows; -1 if it has no weight any more."""
    births: int = 0
    """Centers opened in this sweep.  If step 5 before it added more centers than it left without a local
    cluster, the difference counts too; the other way round it counts as deaths."""
    associations: int = 0
    """Local clusters that step 5 tied to another center; in a search, moves planned for the next
    sweep."""
    saved: float = 0.0
    """What these save at least."""
    turn: int = 0
    """The number of the first trial to run next."""

    @property
    def n_local_clusters(self) -> int:
        """Number of uses that have weight."""
        return len(self.local.groups)

    def sharing(self, n_groups: int, divergence: Divergence) -> Sharing:
        """Return the centers, uses and openers of the last pass."""
        alive = self.kept >= 0
        uses = self.local.groups, self.local.centers, n_groups
        openers = self.opened[alive], self.kept[alive]
        return Sharing.of(self.centers, *uses, *openers, divergence=divergence.general)


AnyState = TypeVar("AnyState", bound=State)
