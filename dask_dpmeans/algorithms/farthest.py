"""Farthest-first traversal, several points a pass (Kulis & Jordan 2012, section 6.1; Gonzalez 1985)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dask_dpmeans.blocks import Source
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.outlying import MARGIN, Candidates, Outlying, at_most, to_one

CANDIDATES = 2
"""For each point that is wanted, ..."""
LEAST_CANDIDATES, MOST_CANDIDATES = 16, 128
"""... but not fewer or more than these in all."""


@dataclass(frozen=True)
class Traversal:
    """Rows in the order in which they were taken."""

    numbers: Int64Array
    """(k,), row numbers."""
    rows: Float64Array
    """(k, d)."""
    squared: Float64Array
    """(k,), each row's squared distance to the points before it; never rises."""
    passes: int
    """Over all rows."""


def traverse(source: Source, first: Float64Array, k: int) -> Traversal:
    """Take k rows, time after time the one farthest from `first`, (1, d), and all that were taken; fewer where no more
    lie at any distance."""
    points, numbers, squared, passes = first, np.empty(0, np.int64), np.empty(0), 0
    while len(numbers) < k:
        wanted = k - len(numbers)
        most = min(max(CANDIDATES * wanted, LEAST_CANDIDATES), MOST_CANDIDATES)
        found = source.fold(Outlying(Centers(points), most), name="farthest")
        passes += 1
        certain = list(decided(found, wanted))
        if not certain:
            break
        places, distances = [place for place, _ in certain], [each for _, each in certain]
        points = np.concatenate([points, found.rows[places]])
        numbers, squared = np.append(numbers, found.numbers[places]), np.append(squared, distances)
    return Traversal(numbers, points[len(first) :], squared, passes)


def decided(found: Candidates, wanted: int) -> Iterator[tuple[int, float]]:
    """The next candidates of the traversal and their squared distances, as far as no other row can come before them."""
    left, bounds = found.squared.copy(), found.beyond.copy()
    for turn in range(wanted):
        place = int(left.argmax())
        certain = turn == 0 or left[place] > bounds.max()
        if not (left[place] > 0 and certain):
            return
        yield place, float(left[place])
        squared = to_one(found.rows, place)
        np.minimum(left, squared, out=left)
        with np.errstate(over="ignore"):
            farthest = (at_most(squared) + found.reaches) ** 2 * (1 + MARGIN)
        bounds = np.where(bounds < 0, bounds, np.minimum(bounds, farthest))
