"""The rows farthest from some points: what farthest-first traversal needs of a pass to take several."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers


@dataclass(frozen=True)
class Candidates:
    """The rows of positive weight that are farthest from the points, the lowest numbers among equals."""

    numbers: Int64Array
    """(m,), global row numbers, ascending."""
    rows: Float64Array
    """(m, d)."""
    squared: Float64Array
    """(m,), squared distances to the nearest point, by definition."""
    bound: float = -1.0
    """The greatest squared distance of any other row; -1 where there is none."""


@dataclass(frozen=True)
class Outlying:
    """The reduction that finds them."""

    points: Centers
    """The points that rows are to be far from."""
    most: int
    """Candidates, the most that there are."""

    def chunk(self, block: Block) -> Candidates:
        """Those of one block."""
        _, squared = assign(block, self.points)
        some = np.arange(len(squared)) if block.weights is None else np.flatnonzero(block.weights > 0)
        kept, bound = outermost(squared[some], self.most)
        some = some[kept]
        return Candidates(block.start + some, block.rows[some].astype(np.float64), squared[some], bound)

    def combine(self, left: Candidates, right: Candidates) -> Candidates:
        """Those of two neighboring runs."""
        squared = np.concatenate([left.squared, right.squared])
        kept, bound = outermost(squared, self.most)
        return Candidates(
            np.concatenate([left.numbers, right.numbers])[kept],
            np.concatenate([left.rows, right.rows])[kept],
            squared[kept],
            max(left.bound, right.bound, bound),
        )


def outermost(squared: Float64Array, most: int) -> tuple[Int64Array, float]:
    """The places of so many of the greatest, rising, the first among equals; the greatest of the others, or -1."""
    spare = len(squared) - most
    if spare <= 0:
        return np.arange(len(squared)), -1.0
    least = np.partition(squared, spare)[spare]
    kept = squared > least
    equal = np.flatnonzero(squared == least)
    kept[equal[: most - np.count_nonzero(kept)]] = True
    return np.flatnonzero(kept), float(squared[~kept].max())
