"""Statistics of rows by cluster, for pictures and reports: all of them in one pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from dask_dpmeans.kernels.answers import ConcatenatedAnswers, Records, SummedAnswers, Sums
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, Int64Array, Labels, Rows
from dask_dpmeans.kernels.distance import nearest_two, squared_distances
from dask_dpmeans.kernels.keyed_sums import UseSums
from dask_dpmeans.kernels.membership import Mixture
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import compile_loop, compiled_or_plain
from dask_dpmeans.kernels.plot_statistics import Chart, Plane

NEAR = 0.9
"""A row is near the radius if its squared distance exceeds this share of the penalty."""
DOUBT = 3.0
"""A row is in doubt if its cluster is less than this many times as probable as the second."""


class LabelledBlock(NamedTuple):
    """A block, and what is known of its rows."""

    block: Block
    labels: Labels
    """(height,), -1 for noise."""
    squared: Float64Array
    """(height,), costs at the nearest center."""
    beyond: BoolArray
    """(height,), whether costs exceed the penalty."""
    seconds: Labels | None = None
    """(height,), the cluster of the second-nearest center, -1 if there is none; None if unknown."""
    log_odds: Float64Array | None = None
    """(height,), logarithm of how many times the nearest center is as probable as the second."""


@dataclass(frozen=True)
class NearestTwo:
    """The kernel that returns the fields of a `LabelledBlock`."""

    mixture: Mixture
    penalty: float
    noise: BoolArray | None = None
    """(k,), whether rows nearest to the center of a component have label -1; None: never."""

    def __call__(
        self, block: Block
    ) -> tuple[Labels, Float64Array, BoolArray, Labels, Float64Array]:
        """Return labels, costs, whether these exceed the penalty, seconds and log odds.

        All are (height,).
        """
        mixture, n = self.mixture, len(block.rows)
        centers, log_weights = mixture.centers, mixture.log_weights
        first, second = np.zeros(n, np.intp), np.full(n, -1)
        log_odds = np.full(n, np.inf)
        if len(centers) > 1:
            first, second = nearest_two(block.rows, centers, block.scratch)
        squared = squared_distances(block.rows, centers.values, first, block.scratch)
        if len(centers) > 1:
            gap = squared_distances(block.rows, centers.values, second, block.scratch) - squared
            with np.errstate(invalid="ignore"):  # 0 times infinity
                apart = np.where(gap > 0, mixture.precision / 2 * gap, 0.0)
            log_odds = log_weights[first] - log_weights[second] + apart
        labels, seconds = first.astype(np.int32), second.astype(np.int32)
        if mixture.groups is not None:
            labels, seconds = (mixture.groups[each].astype(np.int32) for each in (first, second))
            seconds[(seconds == labels) | (second < 0)] = -1
        if self.noise is not None:
            labels[self.noise[first]] = -1
        labels[squared > centers.most] = -1
        return labels, squared, squared > self.penalty, seconds, log_odds


class Statistic(Protocol):
    """A reduction of labelled blocks."""

    def chunk(self, found: LabelledBlock) -> Any:
        """Return the answer of one block."""

    def combine(self, left: Any, right: Any) -> Any:
        """Merge the answers of two neighboring runs of blocks, `left` before `right`."""


@dataclass(frozen=True)
class ByCluster:
    """The reduction to several statistics of rows that are labelled once."""

    predict: Callable[[Block], tuple[np.ndarray[Any, Any], ...]]
    """Returns labels, costs and whether they exceed the penalty, and perhaps the other fields of a
    `LabelledBlock`."""
    statistics: tuple[Statistic, ...]

    def chunk(self, block: Block) -> tuple[Any, ...]:
        """Return the answers of one block."""
        found = LabelledBlock(block, *self.predict(block))
        return tuple(each.chunk(found) for each in self.statistics)

    def combine(self, left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        """Merge the answers of two neighboring runs of blocks."""
        parts = zip(self.statistics, left, right, strict=True)
        return tuple(each.combine(one, other) for each, one, other in parts)


# Positions


@dataclass(frozen=True)
class LabelledPoints(Records):
    """Rows in a plane, in order."""

    coordinates: Float64Array
    """(m, a)."""
    labels: Labels
    """(m,)."""


@dataclass(frozen=True)
class Points(ConcatenatedAnswers):
    """The positions and labels of all rows, if they are few."""

    plane: Plane | Chart

    def chunk(self, found: LabelledBlock) -> LabelledPoints:
        """Return the positions in one block."""
        return LabelledPoints(self.plane(found.block.rows), found.labels.astype(np.int32))


# Features


@dataclass(frozen=True)
class FeatureSums(Sums):
    """Histograms of features."""

    overall: Float64Array
    """(u, bins), weight of all rows."""
    counts: Float64Array
    """(c, m, bins), weight of the rows of some clusters."""


@dataclass(frozen=True)
class FeatureHistograms(SummedAnswers):
    """Histograms of a few features for all rows, and of the features of a cluster for its rows.

    The first and the last bin also hold the rows beyond.
    """

    slots: Int64Array
    """(k + 1,), position of a cluster among the c clusters; c for the others, and last for noise."""
    features: Int64Array
    """(u,), numbers of features."""
    chosen: Int64Array
    """(c, m), positions in `features` of the features of each cluster."""
    low: Float64Array
    """(u,), lower end of the first bin."""
    high: Float64Array
    """(u,), upper end of the last bin."""
    bins: int

    def chunk(self, found: LabelledBlock) -> FeatureSums:
        """Return the histograms of one block."""
        (c, m), u, bins = self.chosen.shape, len(self.features), self.bins
        sums = FeatureSums(np.zeros((u, bins)), np.zeros((c, m, bins)))
        values = bin_places(found.block.rows[:, self.features], self.low, self.high, bins)
        weights, slots = found.block.row_weights(), self.slots[found.labels]
        count_features(values, weights, slots, self.chosen, sums.overall, sums.counts)
        return sums


def bin_places(rows: Rows, low: Float64Array, high: Float64Array, bins: int) -> Float64Array:
    """Return the places, (n, c), of values, (n, c), among bins; the integer part is the bin.

    The ends of the bins, `low` and `high`, are (c,).  The first and the last bin hold what lies
    beyond.
    """
    places = rows.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # a row without weight may be anywhere
        places -= low
        places *= bins / (high - low)
        np.fmin(np.fmax(places, 0, out=places), bins - 1, out=places)  # NaN to the first bin
    return places


def count_features(
    places: Float64Array,
    weights: Float64Array,
    slots: Int64Array,
    chosen: Int64Array,
    overall: Float64Array,
    counts: Float64Array,
) -> None:
    """Add rows, (n,), at their bins to the last two; `places` are (n, u), see `FeatureHistograms`."""
    (c, m, bins), u = counts.shape, len(overall)
    numbers = places.astype(np.int64)
    keys = numbers + bins * np.arange(u)
    overall += total(keys.ravel(), np.repeat(weights, u), u * bins).reshape(u, bins)
    some = np.flatnonzero(slots < c)
    slots = slots[some]
    own = np.take_along_axis(numbers[some], chosen[slots], axis=1)
    keys = (slots[:, np.newaxis] * m + np.arange(m)) * bins + own
    found = total(keys.ravel(), np.repeat(weights[some], m), c * m * bins)
    counts += found.reshape(c, m, bins)


# Rows


class Extremes(NamedTuple):
    """For each of c clusters the rows nearest to their center, and the farthest."""

    nearest: Int64Array
    """(c, m), global row numbers, the nearest first; -1 if there are fewer rows."""
    near: Float64Array
    """(c, m), their squared distances; infinity if there are fewer rows."""
    farthest: Int64Array
    """(c, m), the farthest first."""
    far: Float64Array
    """(c, m), minus infinity if there are fewer rows."""


@dataclass(frozen=True)
class ExtremeRows:
    """The rows of positive weight nearest to the center of their cluster, and the farthest.

    The first of equal rows is taken.
    """

    slots: Int64Array
    """(k + 1,), position of a cluster among the c clusters; c for the others, and last for noise."""
    n_slots: int
    """Number of clusters, c."""
    most: int
    """Rows of each kind, m."""

    def chunk(self, found: LabelledBlock) -> Extremes:
        """Return the rows of one block."""
        heavy = np.flatnonzero(found.block.row_weights() > 0)
        slots, squared = self.slots[found.labels[heavy]], found.squared[heavy]
        shape = self.n_slots, self.most
        near, far = np.full(shape, np.inf), np.full(shape, np.inf)
        nearest, farthest = np.full(shape, -1), np.full(shape, -1)
        numbers, work = found.block.start + heavy, 256 * len(heavy)
        for values, rows, best in ((squared, nearest, near), (-squared, farthest, far)):
            given = slots, numbers, values, rows, best
            compiled_or_plain(_fill_least_compiled, given, work, twin=fill_least)(*given)
        return Extremes(nearest, near, farthest, -far)

    def combine(self, left: Extremes, right: Extremes) -> Extremes:
        """Merge the rows of two neighboring runs of blocks."""
        near, far = (
            np.concatenate([getattr(each, name) for each in (left, right)], axis=1)
            for name in ("near", "far")
        )
        first = near.argsort(axis=1, kind="stable")[:, : self.most]
        last = (-far).argsort(axis=1, kind="stable")[:, : self.most]
        nearest = np.concatenate([left.nearest, right.nearest], axis=1)
        farthest = np.concatenate([left.farthest, right.farthest], axis=1)
        pairs = (nearest, first), (near, first), (farthest, last), (far, last)
        return Extremes(*(np.take_along_axis(values, order, axis=1) for values, order in pairs))


def fill_least(
    slots: Int64Array,
    numbers: Int64Array,
    values: Float64Array,
    rows: Int64Array,
    best: Float64Array,
) -> None:
    """Fill in the least values and their rows, (c, m) each, from values and numbers of rows, (n,)."""
    n_slots, most = rows.shape
    order = np.lexsort((numbers, values, slots))
    ends = np.searchsorted(slots[order], np.arange(n_slots + 1))
    for slot in range(n_slots):
        some = order[ends[slot] : ends[slot + 1]][:most]
        rows[slot, : len(some)], best[slot, : len(some)] = numbers[some], values[some]


@compile_loop
def _fill_least_compiled(
    slots: Int64Array,
    numbers: Int64Array,
    values: Float64Array,
    rows: Int64Array,
    best: Float64Array,
) -> None:
    """Compiled twin of `fill_least`."""
    n_slots, most = rows.shape
    for i in range(len(slots)):
        slot, value, place = slots[i], values[i], most - 1
        if slot >= n_slots or not value < best[slot, place]:
            continue
        while place > 0 and value < best[slot, place - 1]:
            best[slot, place], rows[slot, place] = best[slot, place - 1], rows[slot, place - 1]
            place -= 1
        best[slot, place], rows[slot, place] = value, numbers[i]


# Rows between clusters, or far from all


@dataclass(frozen=True)
class Doubts(SummedAnswers):
    """The weight of the rows in doubt, by cluster and second cluster.

    Keys of the sums are label * k + second.
    """

    k: int

    def chunk(self, found: LabelledBlock) -> UseSums:
        """Return the sums of one block."""
        assert found.seconds is not None
        assert found.log_odds is not None
        doubtful = (found.log_odds < np.log(DOUBT)) & (found.labels >= 0) & (found.seconds >= 0)
        which = np.flatnonzero(doubtful)
        pairs = found.labels[which].astype(np.int64) * self.k + found.seconds[which]
        keys, places = np.unique(pairs, return_inverse=True)
        weights = found.block.row_weights(which)
        return UseSums(keys, total(places.ravel(), weights, len(keys)))


@dataclass(frozen=True)
class Edge(SummedAnswers):
    """The counts, (2,), of rows of weight >= 1 near the radius and beyond it."""

    penalty: float

    def chunk(self, found: LabelledBlock) -> Int64Array:
        """Return the numbers, (2,), of one block."""
        heavy = found.block.row_weights() >= 1
        near = (found.squared > NEAR * self.penalty) & ~found.beyond
        return np.array([np.count_nonzero(near & heavy), np.count_nonzero(found.beyond & heavy)])
