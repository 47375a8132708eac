"""Rows far from some points and from each other, and what they say of all other rows: farthest-first, several a pass.

A pass brings candidates, each with a ball that holds the rows nearest to it.  Once one of them has become a point, no
row in a ball can be farther from it than the ball's center is, and the ball's reach; so that the next candidate may be
known to be the farthest of all rows before these are read again.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Rows
from dask_dpmeans.kernels.distance import Centers, squared_distances
from dask_dpmeans.kernels.scan import assign

MARGIN = 1e-9
"""The relative rounding of distances and of their sums, many thousand times over."""
LEAST = 1e-150
"""And what is lost where squares underflow, many times over, for distances."""


@dataclass(frozen=True)
class Candidates:
    """Some rows, in row order, and a ball around each; together the balls hold all other rows of positive weight."""

    numbers: Int64Array
    """(m,), global row numbers, ascending."""
    rows: Rows
    """(m, d)."""
    squared: Float64Array
    """(m,), squared distances to the nearest point, by definition.  The farthest row, the first of equals, is here."""
    reaches: Float64Array
    """(m,), no row of the ball is farther from the candidate than this."""
    beyond: Float64Array
    """(m,), the greatest squared distance to the nearest point of a row of the ball; -1 where it is empty."""


@dataclass(frozen=True)
class Outlying:
    """The reduction that finds candidates."""

    points: Centers
    """The points that rows are to be far from."""
    most: int
    """Candidates, the most that there are."""

    def chunk(self, block: Block) -> Candidates:
        """Those of one block."""
        _, squared = assign(block, self.points)
        numbers, rows = np.arange(block.start, block.start + len(squared)), block.rows
        if block.weights is not None:
            some = block.weights > 0
            numbers, rows, squared = numbers[some], np.ascontiguousarray(rows[some]), squared[some]
        nothing = np.zeros(len(numbers))
        found = thinned(Candidates(numbers, rows, squared, nothing, nothing - 1), self.most)
        return Candidates(found.numbers, found.rows.astype(np.float64), found.squared, found.reaches, found.beyond)

    def combine(self, left: Candidates, right: Candidates) -> Candidates:
        """Those of two neighboring runs."""
        both = zip(vars(left).values(), vars(right).values(), strict=True)
        return thinned(Candidates(*(np.concatenate(parts) for parts in both)), self.most)


def thinned(found: Candidates, most: int) -> Candidates:
    """Up to so many of the candidates, by farthest-first traversal; the others join the balls of the nearest."""
    n = len(found.numbers)
    if n <= most:
        return found
    left, away, home = found.squared.copy(), np.full(n, np.inf), np.zeros(n, np.intp)
    chosen: list[int] = []
    while len(chosen) < most:
        place = int(left.argmax())
        if chosen and not left[place] > 0:
            break
        squared = to_one(found.rows, place)
        home[squared < away] = len(chosen)
        np.minimum(away, squared, out=away)
        np.minimum(left, squared, out=left)
        chosen.append(place)
    kept = np.zeros(n, np.bool_)
    kept[chosen] = True
    reaches, beyond = np.zeros(len(chosen)), np.full(len(chosen), -1.0)
    np.maximum.at(reaches, home, np.where(kept, found.reaches, at_most(away) + found.reaches))
    np.maximum.at(beyond, home, np.where(kept, found.beyond, np.maximum(found.squared, found.beyond)))
    places = np.array(chosen)
    order = np.argsort(places)
    places = places[order]
    return Candidates(found.numbers[places], found.rows[places], found.squared[places], reaches[order], beyond[order])


def to_one(rows: Rows, place: int) -> Float64Array:
    """(n,), squared distances of rows to one of them, by definition."""
    return squared_distances(rows, rows[place : place + 1].astype(np.float64), np.zeros(len(rows), np.intp))


def at_most(squared: Float64Array) -> Float64Array:
    """(n,), distances whose computed squares are these, rounded up."""
    distances: Float64Array = np.sqrt(squared) * (1 + MARGIN) + LEAST
    return distances
