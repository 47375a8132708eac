"""One pass that finds the gain of every move of the search.

Besides the moments of a scan, it finds two things.  Two child centers of each cluster split its
rows in two. The second nearest center of each row is the center that the row goes to if its own is
deleted; if it costs more than `Centers.most` there, it becomes an outlier.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse import issparse

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.assign import propose
from dask_dpmeans.kernels.births import Proposals, merge_openers
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, IndexArray, Int64Array, Rows
from dask_dpmeans.kernels.distance import NOTHING, Centers, costs, nearest_two
from dask_dpmeans.kernels.keyed_sums import Positions, union_positions
from dask_dpmeans.kernels.moments import MomentParts, Moments, cluster_moments, total
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part, pays
from dask_dpmeans.kernels.outliers import Candidates, OutlierStatistics
from dask_dpmeans.kernels.pair_bounds import (
    PairBounds,
    PairsOfCosts,
    bounds_pay,
    distances_to_pairs,
)

NUMBERS = np.empty(0, np.intp)
DENSE = 8
"""Pairs of clusters for each row, or pair that occurs, up to which a sum over all pairs is the fastest."""
NOBODY = np.empty(0, np.int64)


@dataclass(frozen=True)
class Transfers:
    """The rise of the squared error if rows go to their second nearest centers; sparse."""

    pairs: Int64Array
    """(m,), k * cluster + second nearest center, ascending."""
    losses: Float64Array
    """(m,), the rise for the rows of this pair, in squared units of the rows times weight."""

    def __add__(self, other: "Transfers") -> "Transfers":
        both = self.pairs, other.pairs
        size = max((int(each[-1]) + 1 for each in both if len(each)), default=0)
        own: Positions
        others: Positions
        if size <= DENSE * sum(map(len, both)):  # at k = 65, .3 of the time of the union
            present, losses = np.zeros(size, np.bool_), np.zeros(size)
            present[self.pairs] = present[other.pairs] = True
            pairs, own, others = np.flatnonzero(present), *both
        else:
            pairs, own, others = union_positions(*both)
            losses = np.zeros(len(pairs))
        losses[own] = self.losses
        losses[others] += other.losses
        return Transfers(pairs, losses if len(losses) == len(pairs) else losses[pairs])


@dataclass(frozen=True)
class MoveStatistics:
    """The answer for k centers."""

    halves: Moments
    """Moments of 2k halves: of cluster c, half 2c has the rows nearer to the first child."""
    inertias: Float64Array
    """(k,), squared error of the clusters about the centers."""
    transfers: Transfers
    """Losses of the rows at their second nearest centers."""
    proposals: Proposals
    """Openers among the rows that object to every center."""
    outliers: OutlierStatistics | None = None
    """None if no row can be an outlier."""


@dataclass(frozen=True)
class MoveScan:
    """The reduction to `MoveStatistics`."""

    takes_csr: ClassVar[bool] = True
    centers: Centers
    """(k, d), the centers."""
    children: Float64Array
    """(k, 2, d)."""
    penalty: float
    """Penalty of the proposals; infinite for no proposals."""
    candidates: Candidates | None = None
    """Centers for outliers alone."""

    def chunk(self, block: Block) -> MoveStatistics:
        """Return the statistics of one block."""
        divergence = self.centers.divergence
        children = Centers(self.children.reshape(2 * len(self.centers), -1), divergence)
        pairs = nearest_pairs(block, self.centers)
        squared, halves, inertias, transfers, (outliers, departures) = _measure(
            block, self.centers, children, pairs
        )
        found = halves, inertias, transfers
        if not math.isfinite(self.centers.most):
            return MoveStatistics(*found, propose(block, squared, self.penalty, divergence))
        left = OutlierStatistics.of(block, outliers, departures, *self._outlier_centers)
        if math.isfinite(self.penalty):
            squared = np.minimum(squared, self.centers.most)
        proposals = propose(block, squared, self.penalty, divergence)
        return MoveStatistics(*found, proposals, left)

    @cached_property
    def _outlier_centers(self) -> tuple[Centers, int]:
        """The candidates, ready for kernels, and the seed of the draw."""
        candidates = self.candidates or Candidates.none(self.children.shape[2])
        return replace(self.centers, values=candidates.points), candidates.seed

    def combine(self, left: MoveStatistics, right: MoveStatistics) -> MoveStatistics:
        """Merge the statistics of two neighboring runs of blocks."""
        proposals, outliers = (left.proposals, right.proposals), None
        if left.outliers is not None and right.outliers is not None:
            outliers = left.outliers + right.outliers
        return MoveStatistics(
            left.halves + right.halves,
            left.inertias + right.inertias,
            left.transfers + right.transfers,
            merge_openers(*proposals, self.penalty, self.centers.divergence),
            outliers,
        )


def two_nearest(block: Block, centers: Centers) -> tuple[IndexArray, IndexArray]:
    """Return the nearest and second nearest centers, (height,) each; 0 and 0 if k = 1."""
    if len(centers) > 1:
        return nearest_two(block.rows, centers, block.scratch)
    only = np.zeros(block.rows.shape[0], np.intp)
    return only, only


def nearest_pairs(block: Block, centers: Centers) -> PairsOfCosts:
    """Return the two nearest centers, (height,) each, and what the rows cost there, (height,) each.

    Squared distances that bounds have not found on the way are (0,): `_add_rows` finds them.
    """
    rows = block.rows
    squared = centers.divergence is None and not issparse(rows)
    if squared and block.memory is not None and bounds_pay(rows, centers):
        given = rows, centers.values, NUMBERS, NUMBERS, NOTHING, NOTHING
        if pays(distances_to_pairs, given, 4 * rows.size):
            bounds: PairBounds = block.memory.setdefault("pairs", PairBounds())
            return bounds.nearest_two(rows, centers, block.scratch)
    labels, seconds = two_nearest(block, centers)
    if squared:
        return labels, seconds, NOTHING, NOTHING
    near, far = (costs(rows, centers, each, block.scratch) for each in (labels, seconds))
    return labels, seconds, near, far


Measured = tuple[
    Float64Array, Moments, Float64Array, Transfers, tuple[IndexArray | Int64Array, Float64Array]
]
"""Squared distances, (height,), then halves, inertias and transfers of `MoveStatistics`, places of
outliers, (l,), and departures of `OutlierStatistics`."""


def _measure(block: Block, centers: Centers, children: Centers, pairs: PairsOfCosts) -> Measured:
    """Return the statistics of rows whose two nearest centers are known."""
    if numba_support.AVAILABLE and centers.ranked and not issparse(block.rows):
        measured = _measure_compiled(block, centers, children, pairs)
        if measured is not None:
            return measured
    labels, seconds, squared, far = pairs
    k, rows, scratch = len(centers), block.rows, block.scratch
    if not squared.size:
        squared, far = (costs(rows, centers, each, scratch) for each in (labels, seconds))
    losses = far - squared
    first = costs(rows, children, 2 * labels, scratch)
    second = costs(rows, children, 2 * labels + 1, scratch)
    sides = second < first
    places, nearer = 2 * labels + sides, np.where(sides, second, first)
    errors = squared
    if block.weights is not None:
        errors, losses = block.weights * errors, block.weights * losses
    numbers = labels.astype(np.int64) * k + seconds
    if not math.isfinite(centers.most):
        halves = cluster_moments(block, places, nearer, 2 * k)
        transfers = _sum_by_pair(numbers, losses)
        return squared, halves, total(labels, errors, k), transfers, (NOBODY, np.zeros(k))
    inside, near = squared <= centers.most, far <= centers.most
    halves = cluster_moments(block, np.where(inside, places, 2 * k), nearer, 2 * k + 1)
    moving, parting = inside & near, np.flatnonzero(inside & ~near)
    rises = block.row_weights(parting) * (centers.most - squared[parting])
    return (
        squared,
        halves.keep(np.arange(2 * k)),
        total(labels[inside], errors[inside], k),
        _sum_by_pair(numbers[moving], losses[moving]),
        (np.flatnonzero(~inside), total(labels[parting], rises, k)),
    )


def _measure_compiled(
    block: Block, centers: Centers, children: Centers, pairs: PairsOfCosts
) -> Measured | None:
    """As `_measure`, by a compiled loop, which sums the transfers if there are few pairs.

    None if the loop does not pay.
    """
    labels, seconds, near, far = pairs
    n, (k, d) = len(labels), centers.values.shape
    points = centers.values[:0]
    if not near.size:
        near, far = block.scratch.array("of pairs", (2, n), np.float64)
        points = centers.values
    losses = block.scratch.array("losses", (n,), np.float64)
    inertias, departures = np.zeros((2, k))
    halves = Moments.none(2 * k, d)
    dense = k * k <= DENSE * n
    sums = np.zeros(dense * k * k, np.bool_), np.zeros(dense * k * k)
    moving = block.scratch.array("moving", (n,), np.bool_)
    outliers = block.scratch.array("outliers", (n,), np.int64)
    found = losses, halves.parts, inertias, sums, (moving, departures, outliers)
    weights = NOTHING if block.weights is None else block.weights
    measured = labels, seconds, near, far
    given = block.rows, weights, points, measured, (*children.definition,), centers.most, found
    if not pays(_add_rows, given, n * (200 + 8 * d)):
        return None
    count = _add_rows(*given)
    if dense:
        present = np.flatnonzero(sums[0]).astype(np.int64)
        transfers = Transfers(present, sums[1][present])
    else:
        numbers = labels.astype(np.int64) * k + seconds
        if not moving.all():
            numbers, losses = numbers[moving], losses[moving]
        transfers = _sum_by_pair(numbers, losses)
    return near, halves, inertias, transfers, (outliers[:count].copy(), departures)


def _sum_by_pair(pairs: Int64Array, losses: Float64Array) -> Transfers:
    """Return the distinct pairs, (m,), of (n,), with the sum of the losses, (n,), of each."""
    distinct, ranks = np.unique(pairs, return_inverse=True)
    return Transfers(distinct, total(ranks, losses, len(distinct)))


@compile_part
def _linear_costs(
    row: Rows, children: Float64Array, constants: Float64Array, label: int
) -> tuple[float, float]:
    """Return linear costs of a row, (d,), at both children of a center."""
    left, right = constants[2 * label], constants[2 * label + 1]
    for j in range(len(row)):
        value = np.float64(row[j])
        left += value * children[2 * label, j]
        right += value * children[2 * label + 1, j]
    return max(left, 0.0), max(right, 0.0)


@compile_loop
def _add_rows(
    rows: Rows,
    weights: Float64Array,
    points: Float64Array,
    pairs: PairsOfCosts,
    children: tuple[Float64Array, Float64Array],
    most: float,
    found: tuple[
        Float64Array,
        MomentParts,
        Float64Array,
        tuple[BoolArray, Float64Array],
        tuple[BoolArray, Float64Array, Int64Array],
    ],
) -> int:
    """Fill in all statistics of rows, (n, d); sums start from 0.  Return the number of outliers.

    `points` are the centers, (k, d), if the costs of `pairs` are to be filled in too, else (0, d).
    `children` are (2k, d), with the constants of linear costs or none; empty weights mean 1.
    `found` are, in this order:

    - losses at the second centers, (n,); the halves about the children; errors about the centers, (k,);
    - of each pair of first and second center, (k * k,) or empty: whether rows have it, and the sum of
      their losses;
    - whether a row, (n,), is no outlier and its second center costs at most `most`; by cluster, (k,),
      what the rows whose second center costs more lose as outliers; and places of outliers, (n,).
    """
    (halves, constants), (labels, seconds, near, far) = children, pairs
    linear, known = constants.size > 0, len(points) == 0
    losses, (counts, totals, sums, errors), inertias, (present, lost), parting = found
    (moving, departures, outliers), count = parting, 0
    n, d = rows.shape
    for i in range(n):
        label, weight = labels[i], 1.0
        if weights.size:
            weight = weights[i]
        left = right = 0.0
        first, second = np.uint32(2 * label), np.uint32(2 * label + 1)
        if linear:
            left, right = _linear_costs(rows[i], halves, constants, label)
        elif known:
            for j in range(d):
                value = np.float64(rows[i, j])
                from_left, from_right = value - halves[first, j], value - halves[second, j]
                left += from_left * from_left
                right += from_right * from_right
        else:  # four sums side by side took .7 of the time of two and two
            to_first = to_second = 0.0
            p, q = np.uint32(label), np.uint32(seconds[i])
            for j in range(d):
                value = np.float64(rows[i, j])
                from_left, from_right = value - halves[first, j], value - halves[second, j]
                from_first, from_second = value - points[p, j], value - points[q, j]
                left += from_left * from_left
                right += from_right * from_right
                to_first += from_first * from_first
                to_second += from_second * from_second
            near[i], far[i] = to_first, to_second
        half = 2 * label + (right < left)
        losses[i], moving[i] = weight * (far[i] - near[i]), True
        if near[i] > most:
            moving[i] = False
            outliers[count] = i
            count += 1
            continue
        if far[i] > most:
            moving[i] = False
            departures[label] += weight * (most - near[i])
        elif present.size:
            pair = label * len(inertias) + seconds[i]
            present[pair] = True
            lost[pair] += losses[i]
        inertias[label] += weight * near[i]
        counts[half] += 1
        totals[half] += weight
        errors[half] += weight * (right if right < left else left)
        for j in range(d):
            sums[half, j] += weight * np.float64(rows[i, j])
    return count
