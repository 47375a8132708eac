"""Micro-clusters: rows that are near each other, as their moments and a box (Zhang et al. 1996).

A row is in the micro-cluster of its nearest center and of its place in a grid about that center.  One
pass makes as many micro-clusters of any number of rows as fit in memory.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.keyed_sums import Positions, rank_numbers, union_positions
from dask_dpmeans.kernels.moments import total

SIDE = 2**11
"""Most places along a side of a grid: keys of 4 sides and 2**19 centers are int64."""
DEVIATIONS = 3.0
"""A grid spans so many deviations from the mean; its outer places have the rows beyond."""
LIGHT = 1e-100
"""A row with a smaller share of all weight is left out: no clusters cost less with it."""


@dataclass(frozen=True)
class MicroClusters:
    """Moments and boxes of micro-clusters of rows less their nearest centers."""

    keys: Int64Array
    """(m,), ascending."""
    weights: Float64Array
    """(m,), > 0."""
    sums: Float64Array
    """(m, d), sums of weight times row."""
    products: Float64Array
    """(m, d, d), sums of weight times row times row."""
    low: Float64Array
    """(m, d), the smallest values."""
    high: Float64Array
    """(m, d), the largest values."""

    def __add__(self, other: Self) -> Self:
        keys, own, others = union_positions(self.keys, other.keys)
        both, m = [(own, self), (others, other)], len(keys)
        return type(self)(
            keys,
            _join(m, [(places, each.weights) for places, each in both], np.add, 0.0),
            _join(m, [(places, each.sums) for places, each in both], np.add, 0.0),
            _join(m, [(places, each.products) for places, each in both], np.add, 0.0),
            _join(m, [(places, each.low) for places, each in both], np.minimum, np.inf),
            _join(m, [(places, each.high) for places, each in both], np.maximum, -np.inf),
        )

    @property
    def means(self) -> Float64Array:
        """(m, d)."""
        return np.clip(self.sums / self.weights[:, np.newaxis], self.low, self.high)

    @property
    def covariances(self) -> Float64Array:
        """(m, d, d), up to rounding."""
        means = self.sums / self.weights[:, np.newaxis]
        squares = self.products / self.weights[:, np.newaxis, np.newaxis]
        found: Float64Array = squares - means[:, :, np.newaxis] * means[:, np.newaxis]
        return found


def _join(
    m: int, parts: list[tuple[Positions, Float64Array]], join: np.ufunc, neutral: float
) -> Float64Array:
    """Return the join, (m, ...), of arrays at their positions in it."""
    found = np.full((m, *parts[0][1].shape[1:]), neutral)
    for places, values in parts:
        found[places] = join(found[places], values)
    return found


@dataclass(frozen=True)
class Grids:
    """A grid of places about each of k centers."""

    low: Float64Array
    """(k, d), the lower corner."""
    width: Float64Array
    """(k, d), widths of places, > 0."""
    sides: Float64Array
    """(k, d), whole numbers of places."""

    @classmethod
    def one_place(cls, k: int, d: int) -> "Grids":
        """Return grids with one place each."""
        return cls(np.zeros((k, d)), np.ones((k, d)), np.ones((k, d)))

    @classmethod
    def over(cls, whole: MicroClusters, k: int, most: int) -> "Grids":
        """Return grids of about most / k nearly cubic places, for one micro-cluster of each center."""
        means, d = whole.means, whole.sums.shape[1]
        variances = np.maximum(np.diagonal(whole.covariances, axis1=1, axis2=2), 0)
        reach = DEVIATIONS * np.sqrt(variances)
        low, high = np.maximum(whole.low, means - reach), np.minimum(whole.high, means + reach)
        spans, number = np.maximum(high - low, 0), most / k
        kept = spans > 0
        for _ in range(d):  # an axis that is thinner than a place has one
            axes = np.maximum(kept.sum(axis=1, keepdims=True), 1)
            volume = np.prod(np.where(kept, spans, 1) ** (1 / axes), axis=1, keepdims=True)
            size = volume / number ** (1 / axes)
            kept &= spans >= size
        sides = np.where(kept, np.clip(np.floor(spans / size), 1, SIDE), 1)
        grids = cls.one_place(k, d)
        grids.low[whole.keys], grids.sides[whole.keys] = low, sides
        grids.width[whole.keys] = np.where(spans > 0, spans, 1) / sides
        return grids

    def keys(self, labels: IndexArray, rows: Float64Array) -> Int64Array:
        """Return the key of each row, (n, d), less its center, by label, (n,)."""
        keys = labels.astype(np.int64)
        for column in range(rows.shape[1]):
            beyond = (rows[:, column] - self.low[labels, column]) / self.width[labels, column]
            places = np.clip(np.floor(beyond), 0, self.sides[labels, column] - 1)
            keys = keys * SIDE + places.astype(np.int64)
        return keys

    def labels(self, keys: Int64Array) -> IndexArray:
        """Return the labels in some keys, (m,)."""
        found: IndexArray = (keys // SIDE ** self.low.shape[1]).astype(np.intp)
        return found


@dataclass(frozen=True)
class Collect(SummedAnswers):
    """The reduction that collects rows in micro-clusters."""

    centers: Centers
    grids: Grids
    exponent: int
    """Of the power of two that is the unit of length."""
    heaviness: int
    """Of the power of two that is the unit of weight."""

    def chunk(self, block: Block) -> MicroClusters:
        """Return the micro-clusters of one block; moments of very large rows may be infinite."""
        labels, _ = assign(block, self.centers)
        with np.errstate(over="ignore"):
            rows = np.ldexp(block.doubles() - self.centers.values[labels], -self.exponent)
            weights = np.ldexp(block.row_weights(), -self.heaviness)
            some = np.flatnonzero(weights > LIGHT)
            return self._of(labels[some], rows[some], weights[some])

    def _of(self, labels: IndexArray, rows: Float64Array, weights: Float64Array) -> MicroClusters:
        """Return the micro-clusters of rows, (n, d), less their centers."""
        n, d = rows.shape
        keys, ranks = np.empty(0, np.int64), np.empty(0, np.intp)
        if n:
            keys, ranks = rank_numbers(self.grids.keys(labels, rows))
        m = len(keys)
        low, high = np.full((m, d), np.inf), np.full((m, d), -np.inf)
        np.minimum.at(low, ranks, rows)
        np.maximum.at(high, ranks, rows)
        moments = weights[:, np.newaxis] * rows
        sums = np.stack([total(ranks, column, m) for column in moments.T], axis=1)
        products = np.empty((m, d, d))
        for i in range(d):
            for j in range(i + 1):
                products[:, i, j] = total(ranks, moments[:, i] * rows[:, j], m)
                products[:, j, i] = products[:, i, j]
        return MicroClusters(keys, total(ranks, weights, m), sums, products, low, high)
