"""Farthest-first traversal (Kulis & Jordan 2012, section 6.1; Gonzalez 1985).

One pass brings several points.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, costs
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.methods.common import check_squares

CANDIDATES = 2**10
"""Rows that a pass brings.

20 points of s1, mnist10, and 200,000 x 16 rows of 50 blobs took 3, 2 and 3 passes, with 64 rows
8, 4 and 4."""
NUMBERS = 2**18
"""Most numbers in these rows, if they are more than `LEAST_CANDIDATES` rows."""
LEAST_CANDIDATES = 2**4
ROUNDING = 1e-9
"""Rows are equal if one costs less than this share of the greatest cost at the other, in a
divergence: it is computed as a difference of sums."""


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


@dataclass(frozen=True)
class Traversal:
    """Rows in the order of the traversal."""

    numbers: Int64Array
    """(k,), row numbers."""
    rows: Float64Array
    """(k, d)."""
    squared: Float64Array
    """(k,), each row's squared distance, or divergence, to the points before it; never rises."""
    passes: int
    """Over all rows."""


def traverse(
    source: Source,
    first: Float64Array,
    k: int,
    divergence: Divergence | None = None,
    *,
    fewer: bool = False,
) -> Traversal:
    """Take k rows, each the farthest from all earlier points; `first`, (1, d), is the first point.

    A divergence, of a row at a point, takes the place of the squared distance.

    If fewer rows differ from each other, it is an error, or the end with `fewer`.
    """
    points, numbers, squared, passes = first, np.empty(0, np.int64), np.empty(0), 0
    least = 0.0
    most = max(LEAST_CANDIDATES, min(CANDIDATES, NUMBERS // first.shape[1]))
    while len(numbers) < k:
        centers = Centers(points, divergence)
        found = source.fold(FarthestCandidates(centers, most), name="farthest")
        passes += 1
        if divergence is not None and not len(numbers):
            least = ROUNDING * float(found.squared.max(initial=0.0))
        taken = list(next_rows(found, k - len(numbers), divergence, least))
        if not taken:
            break
        places = [place for place, _ in taken]
        points = np.concatenate([points, found.rows[places]])
        numbers = np.append(numbers, found.numbers[places])
        squared = np.append(squared, [each for _, each in taken])
    if not len(numbers) and divergence is None:
        check_squares(source.summary)
    if len(numbers) < k and not fewer:
        if not len(numbers):
            raise InputError("all rows are equal: there is one cluster at any penalty")
        raise InputError(
            f"{k} clusters are more than the rows that differ from each other and from their mean, "
            f"{len(numbers)}: ask for fewer"
        )
    return Traversal(numbers, points[1:], squared, passes)


def next_rows(
    found: Candidates, wanted: int, divergence: Divergence | None = None, least: float = 0.0
) -> Iterator[tuple[int, float]]:
    """Yield the next rows of the traversal and their squared distances, while these are certain.

    The distances are more than `least`.

    Distances only shrink as points join: no row outside `found` is farther than its bound.
    """
    left = found.squared
    for turn in range(wanted):
        place = int(left.argmax())
        if not left[place] > least or (turn > 0 and not left[place] > found.bound):
            return
        yield place, float(left[place])
        center, same = found.rows[place : place + 1], np.zeros(len(left), np.intp)
        to_it = costs(found.rows, Centers(center, divergence), same)
        left = np.minimum(left, to_it)
