"""Statistics of the outliers of one pass: rows that cost more than `Centers.most` everywhere.

Splits cannot find a cluster among outliers, since outliers are in no cluster.  So a pass carries a
few candidates, which are centers for the outliers alone, and draws rows among the outliers for the
next candidates.  A row's draw hangs on its number alone.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.answers import Records
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, IntegerArray, Rows, dense
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.moments import MomentParts, Moments, cluster_moments
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part, pays
from dask_dpmeans.kernels.random_streams import GOLDEN, mix, mix_array

DRAWN_OUTLIERS = 32
"""Most rows that a pass draws among the outliers."""


@dataclass(frozen=True)
class DrawnOutliers(Records):
    """Outliers drawn with chances that grow with their weights, by rising key."""

    keys: Float64Array
    """(m,), odds of uniform random numbers over weights."""
    numbers: Int64Array
    """(m,), global row numbers."""
    rows: Float64Array
    """(m, d)."""

    def merge(self, other: "DrawnOutliers") -> "DrawnOutliers":
        """Return the rows with the least keys among these and `other`."""
        if not other.keys.size:
            return self
        keys = np.concatenate((self.keys, other.keys))
        least = keys.argsort(kind="stable")[:DRAWN_OUTLIERS]
        numbers = np.concatenate((self.numbers, other.numbers))[least]
        return DrawnOutliers(keys[least], numbers, np.concatenate((self.rows, other.rows))[least])


@dataclass(frozen=True)
class Candidates:
    """Centers for the outliers of a pass, and the seed of its draw."""

    points: Float64Array
    """(m, d)."""
    seed: int

    @classmethod
    def none(cls, d: int) -> "Candidates":
        """Return no candidates, of d columns."""
        return cls(np.empty((0, d)), 0)


@dataclass(frozen=True)
class OutlierStatistics:
    """The outliers of a pass with k centers and m candidates."""

    weight: float
    """Weight of all outliers."""
    departures: Float64Array
    """(k,), the rise of the cost if rows of a cluster without another center become outliers."""
    moments: Moments
    """Moments of the m candidates: of the outliers that cost at most `Centers.most` there."""
    drawn: DrawnOutliers

    def __add__(self, other: "OutlierStatistics") -> "OutlierStatistics":
        return OutlierStatistics(
            self.weight + other.weight,
            self.departures + other.departures,
            self.moments + other.moments if self.moments.counts.size else self.moments,
            self.drawn.merge(other.drawn),
        )

    @classmethod
    def of(
        cls,
        block: Block,
        outliers: IntegerArray,
        departures: Float64Array,
        candidates: Centers,
        seed: int,
    ) -> "OutlierStatistics":
        """Return the statistics of one block; `outliers` are the places of these rows, (l,)."""
        if numba_support.AVAILABLE and candidates.divergence is None:
            statistics = _statistics_compiled(block, outliers, departures, candidates, seed)
            if statistics is not None:
                return statistics
        outliers = outliers.astype(np.intp)
        rows, weights = block.rows[outliers], block.row_weights(outliers)
        m, d = candidates.values.shape
        moments = Moments.none(m, d)
        if m and len(weights):
            labels, costs = nearest_squared(rows, candidates, block.scratch)
            labels[costs > candidates.most] = m
            some = Block(block.start, rows, weights, block.scratch)
            moments = cluster_moments(some, labels, costs, m + 1).keep(np.arange(m))
        total = float(np.add.accumulate(weights)[-1]) if len(weights) else 0.0
        drawn = draw_outliers(block.start + outliers, rows, weights, seed)
        return cls(total, departures, moments, drawn)


def draw_outliers(
    numbers: Int64Array, rows: Rows, weights: Float64Array, seed: int
) -> DrawnOutliers:
    """Return the outliers, of (l,) numbers and weights and (l, d) rows, with the least keys."""
    uniform = uniform_of(numbers, seed)
    some = np.flatnonzero(weights > 0)
    keys = uniform[some] / (1.0 - uniform[some]) / weights[some]
    least = np.argsort(keys, kind="stable")[:DRAWN_OUTLIERS]
    some = some[least]
    return DrawnOutliers(keys[least], numbers[some], dense(rows[some]).astype(np.float64))


def uniform_of(numbers: Int64Array, seed: int) -> Float64Array:
    """Return a random number in [0, 1) for each row number, (l,), that hangs on it and the seed."""
    mixed = mix_array((numbers.astype(np.uint64) + np.uint64(1)) * GOLDEN + np.uint64(seed))
    return np.asarray((mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _statistics_compiled(
    block: Block, outliers: IntegerArray, departures: Float64Array, candidates: Centers, seed: int
) -> OutlierStatistics | None:
    """As `OutlierStatistics.of`, by one compiled loop; None if the loop does not pay."""
    weights = np.empty(0) if block.weights is None else block.weights
    moments, d = Moments.none(*candidates.values.shape), block.rows.shape[1]
    keys, numbers = np.empty(DRAWN_OUTLIERS), np.empty(DRAWN_OUTLIERS, np.int64)
    rows = np.empty((DRAWN_OUTLIERS, d))
    rule = candidates.values, candidates.most, np.uint64(seed), block.start
    found = moments.parts, keys, numbers, rows
    given = block.rows, weights, outliers, rule, found
    if not pays(_add_outliers, given, len(outliers) * (len(candidates.values) + d) * d):
        return None
    total, drawn = _add_outliers(*given)
    taken = DrawnOutliers(keys[:drawn], numbers[:drawn], rows[:drawn])
    return OutlierStatistics(total, departures, moments, taken)


@compile_part
def _keep_least(
    keys: Float64Array, numbers: Int64Array, drawn: int, key: float, number: int
) -> int:
    """Insert a key and its row among the least ones, drawn so far; return how many there are then."""
    place = min(drawn, len(keys) - 1)
    if drawn == len(keys) and not key < keys[place]:
        return drawn
    while place > 0 and keys[place - 1] > key:
        keys[place], numbers[place] = keys[place - 1], numbers[place - 1]
        place -= 1
    keys[place], numbers[place] = key, number
    return min(drawn + 1, len(keys))


@compile_loop
def _add_outliers(
    rows: Rows,
    weights: Float64Array,
    outliers: IntegerArray,
    rule: tuple[Float64Array, float, np.uint64, int],
    found: tuple[MomentParts, Float64Array, Int64Array, Float64Array],
) -> tuple[float, int]:
    """Fill in moments of candidates and drawn rows; return weight and how many rows are drawn.

    Rows are (n, d), weights (n,), or empty if all are 1, places of outliers (l,).  `rule` has the
    candidates, (m, d), what outliers cost, the seed, and the number of the first row.
    """
    candidates, most, seed, first = rule
    (counts, totals, sums, errors), keys, numbers, drawn_rows = found
    d, m, total, drawn = rows.shape[1], len(candidates), 0.0, 0
    for i in outliers:
        weight = weights[i] if weights.size else 1.0
        total += weight
        best, least = -1, np.inf
        for c in range(m):
            cost = 0.0
            for j in range(d):
                difference = np.float64(rows[i, j]) - candidates[c, j]
                cost += difference * difference
            if cost < least:
                best, least = c, cost
        if best >= 0 and not least > most:
            counts[best] += 1
            totals[best] += weight
            errors[best] += weight * least
            for j in range(d):
                sums[best, j] += weight * np.float64(rows[i, j])
        if not weight > 0:
            continue
        mixed = mix((np.uint64(first + i) + np.uint64(1)) * GOLDEN + seed)
        uniform = np.float64(mixed >> np.uint64(11)) * 2.0**-53
        key = uniform / (1.0 - uniform) / weight
        drawn = _keep_least(keys, numbers, drawn, key, first + i)
    for place in range(drawn):
        for j in range(d):
            drawn_rows[place, j] = rows[numbers[place] - first, j]
    return total, drawn
