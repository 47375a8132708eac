"""The state of a search."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.outliers import Candidates
from dask_dpmeans.methods.common import OpeningState, PlannedState
from dask_dpmeans.methods.dpmeans.moves import Placement

TRIES = 3
"""Rounds of trials that must fail before the next share, if the search starts on all rows, or on
cells of up to `starts.CORESET_ABOVE` rows, ..."""
TRIES_ON_CORESET = 2
"""... if it runs on a coreset, ..."""
FEWEST_TRIES = 1
"""... and in parts of a search: before crossovers, on all rows after a coreset, at a penalty of a path.

Seven of 19 penalties on s1, s3, a1, mnist10 (a coreset) and blobs were searched from the mean too,
with three rounds: J of the path was at most 1.0021 times as high, without trials up to
1.024 times (s3)."""
OPENINGS_ALONE = 0
"""With the quick effort, on all rows after a coreset: a share is given up when its first trial fails,
so that trials only open clusters.

Of four quick searches of 70,000 rows in 65 clusters with trials of all kinds, 28 of 45 openings ended
lower, 3 of 17 deletions and 2 of 14 swaps."""
NO_CENTERS = np.empty((0, 0))
"""In place of earlier centers, if there are none."""


@dataclass(frozen=True, kw_only=True)
class State(PlannedState, OpeningState):
    """A search after a number of steps: all that the next step needs."""

    centers: Float64Array
    """(k, d), the centers of the last committed pass.

    One half of a cluster that is split keeps its number, the other half gets the last number.  A
    merged pair keeps the lower number.  If a cluster leaves, those after it move up.
    """
    children: Float64Array
    """(k, 2, d), their children in that pass."""
    next_centers: Float64Array
    """(k', d), of the next pass, if the search has not settled."""
    next_children: Float64Array
    """(k', 2, d)."""
    earlier: Float64Array = field(default_factory=lambda: NO_CENTERS)
    """(k', d), what the next centers were one pass before, if only means have moved since; else none."""
    next_candidates: Candidates = field(default_factory=lambda: Candidates.none(0))
    """Centers of the next pass for outliers alone."""
    outlier_penalty: float = math.inf
    """Cost of an outlier for each unit of weight, given or found; infinite without outliers."""
    outlier_weight: float = 0.0
    """Weight of the outliers of the last committed pass."""
    outlier_cost: float = 0.0
    """Cost of these."""
    settled: bool = False
    """Whether no move is planned and means gain little."""
    tries: int = TRIES
    """Rounds of trials that must fail before a share is given up; `OPENINGS_ALONE` for the first trial."""
    share: int
    """Index of the present share in `trials.SHARES`."""
    finest: bool
    """Whether passes go on with a finer tolerance after the last trial."""
    to_cross: bool = False
    """Whether crossovers on all rows come once the search has settled."""
    failures: int = 0
    """Trials in a row that gained little."""
    alone: bool = False
    """Whether no short searches, births alone or population follow: it is a part of another search, or
    started at the end of one in fewer columns."""
    compared: bool = False
    """Whether the end of births alone, or of the normal effort, has been tried."""
    passes: int = 1
    """Passes so far; each draws its own random numbers."""

    @property
    def on_all_rows(self) -> bool:
        """Whether the search started on all rows, or on cells of few enough to compare births alone."""
        return self.tries == TRIES

    @property
    def places(self) -> Placement:
        """Centers of the last committed pass."""
        return Placement(self.centers, self.children, self.next_candidates)

    @property
    def next_places(self) -> Placement:
        """Centers of the next pass."""
        return Placement(self.next_centers, self.next_children, self.next_candidates)

    def after_passes(self, source: Source, passes: int) -> "State":
        """Return the state after more passes over the rows."""
        rows_read = self.rows_read + passes * source.plan.n_rows
        return replace(self, passes=self.passes + passes, rows_read=rows_read)
