"""Bounds from one pass over a block to the next: whether a row keeps its two nearest centers.

A row keeps both if the farther of them is nearer than a lower bound on the row's distance to all
other centers, which shrinks as far as these move (Hamerly 2010, section 3).  Centers of two passes
need not have the same numbers: each center counts as the old one that is nearest to it.  Centers
that are new or have moved far are compared with the row themselves (after Elkan 2003).  Bounds
decide by strict inequality and a margin far above rounding, so that the answer follows the
definition.  All other rows are ranked against all centers.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Labels, Rows, Scratch
from dask_dpmeans.kernels.distance import Centers, nearest_squared, nearest_two
from dask_dpmeans.kernels.hamerly_bounds import MARGIN, rounded_down
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

LEAST_CENTERS = 128
"""Fewest centers for which bounds are used."""
CALM = 0.05
"""A center moves far if it moves by more than this share of `radius`."""
MOST_FAR = 0.04
"""Bounds are not used if a larger share of the centers is new or has moved far."""
MOST_UNSURE = 0.3
"""Bounds pause if they leave a larger share of rows open: for 1 pass, 3 the next time, 7, ..."""

Pairs = tuple[Labels, Labels, npt.NDArray[np.float32]]
PairsOfCosts = tuple[IndexArray, IndexArray, Float64Array, Float64Array]
"""The two nearest centers of each row, (n,) and (n,), and their squared distances, (n,) and (n,)."""
MovesOfCenters = tuple[IndexArray, IndexArray, Float64Array, IndexArray, Float64Array]
"""See `_moves`."""


@dataclass
class PairBounds:
    """Bounds for one block of n rows; each pass changes them."""

    centers: Float64Array | None = None
    """(k, d), centers of the last pass."""
    radius: float = 0.0
    """Root mean squared distance of the rows to their centers in the last pass."""
    pairs: Pairs | None = field(default=None, repr=False)
    """Numbers of the two nearest centers, and lower bounds on distances to all others, (n,) each."""
    failures: int = 0
    """Consecutive passes in which the bounds left most rows open."""
    rest: int = 0
    """Number of next passes without bounds."""

    def nearest_two(self, rows: Rows, centers: Centers, scratch: Scratch) -> PairsOfCosts:
        """Return the two nearest centers of the rows, (n, d), the same rows in each pass."""
        n = len(rows)
        labels, seconds = scratch.array("pairs", (2, n), np.intp)
        near, far, lower = scratch.array("of pairs", (3, n), np.float64)
        found = labels, seconds, near, far, lower
        unsure: IndexArray | None = None
        if self.pairs is not None and self.centers is not None and not self.rest:
            moves = _moves(self.centers, centers, CALM * self.radius)
            if moves is not None:
                unsure = np.flatnonzero(
                    _keep_pairs(rows, centers.values, self.pairs, moves, MARGIN, found)
                )
            self._judge(unsure is not None and unsure.size <= MOST_UNSURE * n)
        elif self.rest:
            self.rest -= 1
        if unsure is None:
            _rank_pairs(rows, centers, scratch, found)
        elif unsure.size:
            some = tuple(each[unsure] for each in found)
            _rank_pairs(rows[unsure], centers, scratch, some)
            for whole, part in zip(found, some, strict=True):
                whole[unsure] = part
        self.pairs = None  # an interrupt must not leave bounds beside other centers
        self.centers, self.radius = centers.values, float(np.sqrt(near.mean()))
        self.pairs = labels.astype(np.int32), seconds.astype(np.int32), rounded_down(lower)
        return labels, seconds, near, far

    def _judge(self, success: bool) -> None:
        self.failures = 0 if success else self.failures + 1
        self.rest = 2**self.failures - 1


def bounds_pay(rows: Rows, centers: Centers) -> bool:
    """Return whether a ranking that bounds may spare is what finds the nearest two of rows, (n, d)."""
    return LEAST_CENTERS <= len(centers) <= rows.shape[0] and centers.ranks_all(rows)


Found = tuple[IndexArray, IndexArray, Float64Array, Float64Array, Float64Array]
"""`PairsOfCosts`, and lower bounds on the distances to all other centers, (n,)."""


def _rank_pairs(rows: Rows, centers: Centers, scratch: Scratch, found: Found) -> None:
    """Fill in what a ranking finds."""
    labels, seconds, near, far, lower = found
    gaps = np.zeros(len(rows))
    labels[:], seconds[:] = nearest_two(rows, centers, scratch, gaps)
    distances_to_pairs(rows, centers.values, labels, seconds, near, far)
    np.sqrt((far + gaps) * (1 - MARGIN), out=lower)


def _moves(before: Float64Array, centers: Centers, calm: float) -> MovesOfCenters | None:
    """Return how centers, (k, d), have become what they are now; None if too many have moved far.

    That is, for each of the old ones the number of the new one, or -1, (m,); the numbers of those
    that are new or have moved farther than `calm`, (f,); for each new one the least distance to
    any other of these, (k,); and the numbers of the three others that have moved most, with their
    moves, (3,) and (3,).
    """
    olds, shifts = _nearest_old(before, centers)
    order = np.argsort(shifts, kind="stable")[::-1]
    numbers = np.full(len(before), -1)
    numbers[olds[order]] = order  # the nearest one, which comes last
    far = np.flatnonzero((numbers[olds] != np.arange(len(centers))) | ~(shifts <= calm))
    if len(far) > MOST_FAR * len(centers):
        return None
    shifts = shifts.copy()
    shifts[far] = 0.0
    most = np.argsort(-shifts, kind="stable")[:3]
    return numbers, far, _clearances(centers.values, far), most, shifts[most] * (1 + MARGIN)


def _nearest_old(before: Float64Array, centers: Centers) -> tuple[IndexArray, Float64Array]:
    """Return the nearest old center of each center and its distance, (k,) each, for all blocks once."""
    known: tuple[Float64Array, IndexArray, Float64Array] | None = vars(centers).get("old")
    if known is None or known[0] is not before:
        olds, squared = nearest_squared(centers.values, Centers(before))
        known = before, olds, np.sqrt(squared)
        vars(centers)["old"] = known
    return known[1], known[2]


def _clearances(values: Float64Array, far: IndexArray) -> Float64Array:
    """Return the distance of each center, (k,), to the nearest other one of some."""
    if not len(far):
        return np.full(len(values), np.inf)
    if len(far) == 1:
        squared = ((values - values[far]) ** 2).sum(axis=1)
        squared[far] = np.inf
    else:
        points = Centers(values[far])
        first, second = nearest_two(values, points)
        own = far[first] == np.arange(len(values))
        differences = values - values[far][np.where(own, second, first)]
        squared = np.einsum("ij,ij->i", differences, differences)
    clearances: Float64Array = np.sqrt(squared) * (1 - MARGIN)
    return clearances


@compile_loop
def distances_to_pairs(
    rows: Rows,
    centers: Float64Array,
    labels: IndexArray,
    seconds: IndexArray,
    near: Float64Array,
    far: Float64Array,
) -> None:
    """Fill in the squared distances of rows, (n, d), to both centers of each, (n,) and (n,)."""
    n, d = rows.shape
    for i in range(n):
        # A sign would be looked at in each column.  A function of both distances, which `_keep_pairs`
        # finds too, took 1.3 times as long here.
        p, q = np.uint32(labels[i]), np.uint32(seconds[i])
        to_first = to_second = 0.0
        for j in range(d):
            value = np.float64(rows[i, j])
            first, second = value - centers[p, j], value - centers[q, j]
            to_first += first * first
            to_second += second * second
        near[i], far[i] = to_first, to_second


@compile_part
def _least_of_some(
    row: Rows, centers: Float64Array, some: IndexArray, label: int, other: int, least: float
) -> float:
    """Return the least squared distance of a row to some centers but two; -1 if below `least`."""
    found = np.inf
    for t in some:
        if t != label and t != other:
            total = 0.0
            for j in range(len(row)):
                difference = np.float64(row[j]) - centers[t, j]
                total += difference * difference
            if not total > least:
                return -1.0
            found = min(found, total)
    return found


@compile_loop
def _keep_pairs(
    rows: Rows,
    centers: Float64Array,
    pairs: Pairs,
    moves: MovesOfCenters,
    margin: float,
    found: Found,
) -> BoolArray:
    """Fill in what is found of rows, (n, d), that surely keep both centers; return the others."""
    old_labels, old_seconds, old_lower = pairs
    numbers, some, clearances, most, shifts = moves
    labels, seconds, near, far, lower = found
    n, d = rows.shape
    unsure = np.ones(n, np.bool_)
    for i in range(n):
        label, other = numbers[old_labels[i]], numbers[old_seconds[i]]
        if label < 0 or other < 0:
            continue
        p, q = np.uint32(label), np.uint32(other)
        to_first = to_second = 0.0
        for j in range(d):
            value = np.float64(rows[i, j])
            first, second = value - centers[p, j], value - centers[q, j]
            to_first += first * first
            to_second += second * second
        place = 0
        while place < 2 and (most[place] == label or most[place] == other):
            place += 1
        bound = np.float64(old_lower[i]) - shifts[place]
        least = max(to_first, to_second) * (1 + 4 * margin)
        if not (bound > 0 and least < bound * bound):
            continue
        if len(some):
            reach = clearances[label] - np.sqrt(to_first) * (1 + margin)
            if not (reach > 0 and least < reach * reach):
                squared = _least_of_some(rows[i], centers, some, label, other, least)
                if squared < 0:
                    continue
                reach = np.sqrt(squared) * (1 - margin)
            bound = min(bound, reach)
        if to_second < to_first or (to_second == to_first and other < label):
            label, other, to_first, to_second = other, label, to_second, to_first
        labels[i], seconds[i], near[i], far[i] = label, other, to_first, to_second
        lower[i], unsure[i] = bound, False
    return unsure
