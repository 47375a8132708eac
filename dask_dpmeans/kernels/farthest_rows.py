"""The rows farthest from some points, for farthest-first traversal that takes several in a pass."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers


@dataclass(frozen=True)
class Candidates:
    """Rows of positive weight that are farthest from the points; among equals, the first."""

    numbers: Int64Array
    """(m,), global row numbers, ascending."""
    rows: Float64Array
    """(m, d)."""
    squared: Float64Array
    """(m,), squared distances to the nearest point, by definition."""
    bound: float = -1.0
    """Largest squared distance of all other rows; -1 if there are none."""


@dataclass(frozen=True)
class FarthestCandidates:
    """The reduction to the farthest rows."""

    points: Centers
    """(k, d), the points."""
    most: int
    """Largest number of candidates."""

    def chunk(self, block: Block) -> Candidates:
        """Return the candidates of one block."""
        _, squared = assign(block, self.points)
        heavy = np.flatnonzero(block.row_weights() > 0)
        kept, bound = largest_entries(squared[heavy], self.most)
        which = heavy[kept]
        rows = block.rows[which].astype(np.float64)
        return Candidates(block.start + which, rows, squared[which], bound)

    def combine(self, left: Candidates, right: Candidates) -> Candidates:
        """Merge the candidates of two neighboring runs of blocks."""
        squared = np.concatenate([left.squared, right.squared])
        kept, bound = largest_entries(squared, self.most)
        return Candidates(
            np.concatenate([left.numbers, right.numbers])[kept],
            np.concatenate([left.rows, right.rows])[kept],
            squared[kept],
            max(left.bound, right.bound, bound),
        )


def largest_entries(squared: Float64Array, most: int) -> tuple[Int64Array, float]:
    """Return the ascending positions, (m,), of the `most` largest values, and the largest other.

    The first of equal values is taken.  The second value is -1 if there are no others.
    """
    spare = len(squared) - most
    if spare <= 0:
        return np.arange(len(squared)), -1.0
    least = np.partition(squared, spare)[spare]
    kept = squared > least
    equal = np.flatnonzero(squared == least)
    kept[equal[: most - np.count_nonzero(kept)]] = True
    return np.flatnonzero(kept), float(squared[~kept].max())
