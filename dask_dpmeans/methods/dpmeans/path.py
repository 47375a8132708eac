"""Fits over many penalties: how many clusters each gives, and over which interval of penalties a number stands.

As a price, clusters of inertia I and number k cost I + penalty * k at any penalty, whichever led to them: a line.  The
lower envelope of these lines says which clusters are the best that are known at each penalty, so that k falls as the
penalty rises, and at which penalty one takes the place of another: where the slopes of the lower convex hull of the
points (k, I) change.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from dask_dpmeans.engine.in_memory import HeldRows
from dask_dpmeans.engine.loop import last_state
from dask_dpmeans.engine.plan import Source, finished
from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.labelings import count_label_pairs
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.coreset import Sensitivity
from dask_dpmeans.methods.dpmeans.search_state import State
from dask_dpmeans.methods.dpmeans.starts import NO_LIMIT, Restart

Answer = TypeVar("Answer")

TRIES = 1
"""Rounds of trials of each search on the way down.  Seven of 19 penalties on s1, s3, a1, mnist10 (a coreset) and blobs
were searched from the mean too, with three rounds: J of the path was at most 1.0021 times as high, without trials up to
1.024 times (s3)."""


@dataclass(frozen=True)
class Solution:
    """Clusters that a fit ended with."""

    centers: Float64Array
    """(k, d)."""
    inertia: float
    """Squared error, in squared units of the rows times weight; of a summary, what all rows would have."""
    end: State | None = field(default=None, repr=False)
    """Where another search may start from."""

    @property
    def k(self) -> int:
        """Clusters."""
        return len(self.centers)

    def objective(self, penalty: float) -> float:
        """Return inertia + penalty * k."""
        return self.inertia + LinearPrice(penalty).of(self.k)


Fitting = Generator[Mapping[str, float], None, Answer]
"""What fits came to, one after the other, and an answer in the end."""


def fitted(penalty: float, end: Solution) -> dict[str, float]:
    """What a fit came to, in two numbers."""
    return {"penalty": float(penalty), "n_clusters": end.k}


class Interval(NamedTuple):
    """Penalties over which a number of clusters stands."""

    n_clusters: int
    low: float
    high: float

    @property
    def length(self) -> float:
        """The logarithm of high / low."""
        return math.log(self.high / self.low)

    @property
    def middle(self) -> float:
        """The geometric mean."""
        return math.sqrt(self.low) * math.sqrt(self.high)


class Fits(Protocol):
    """Fits at some penalties, as a job."""

    @property
    def penalties(self) -> tuple[float, ...]:
        """Rising."""
        ...

    @property
    def n_fits(self) -> int:
        """How many."""
        ...

    def __call__(self, rows: Source) -> list[Solution]:
        """Clusters: what stands at each penalty is among them."""
        ...

    def each(self, rows: Source) -> Fitting[list[Solution]]:
        """The same, fit by fit."""
        ...


@dataclass(frozen=True)
class Prices:
    """Searches down from the highest penalty, with splits and trials, and up from the lowest, with merges and deletes.

    Each starts from the best clusters that are known at the penalty before, and ends no higher.
    """

    method: search.Method
    penalties: tuple[float, ...]
    optimism: float = 0.0
    """Rows stand for more: they are so many times nearer to means, over their number, than those are (Efron 1986)."""

    @property
    def n_fits(self) -> int:
        """Two at each penalty, one at the highest."""
        return 2 * len(self.penalties) - 1

    def __call__(self, rows: Source) -> list[Solution]:
        """All that were found."""
        return finished(self.each(rows))

    def each(self, rows: Source) -> Fitting[list[Solution]]:
        """The same, fit by fit."""
        found = [self.at(rows, self.penalties[-1], None)]
        yield fitted(self.penalties[-1], found[-1])
        for before, penalty in pairwise(reversed(self.penalties)):
            found.append(self.at(rows, penalty, best(found, before)))
            yield fitted(penalty, found[-1])
        for before, penalty in pairwise(self.penalties):
            found.append(self.at(rows, penalty, best(found, before), tries=0))
            yield fitted(penalty, found[-1])
        return found

    def at(self, rows: Source, penalty: float, start: Solution | None, tries: int = TRIES) -> Solution:
        """The end of a search from some clusters, or from the mean of all rows."""
        if start is None and self.optimism:  # whose squared error says how much the rows flatter
            start = replace(self, optimism=0.0).at(rows, penalty, None, tries=0)
        share = self.optimism / rows.plan.n_rows
        price = penalty + share * (start.inertia if start else 0.0)
        method = replace(self.method, penalty=price, coreset_rows=0, max_iter=NO_LIMIT)
        end = Restart(method, tries, start.end if start else None)(rows)
        return Solution(end.centers, math.fsum(end.inertias) * (1 + share * len(end.centers)), end)


@dataclass(frozen=True)
class Radii:
    """Algorithm 1 at each penalty, from the mean of all rows: what it gives hangs on where it starts."""

    method: batch.Method
    penalties: tuple[float, ...]

    @property
    def n_fits(self) -> int:
        """One at each penalty."""
        return len(self.penalties)

    def __call__(self, rows: Source) -> list[Solution]:
        """One for each penalty."""
        return finished(self.each(rows))

    def each(self, rows: Source) -> Fitting[list[Solution]]:
        """The same, fit by fit."""
        found: list[Solution] = []
        for penalty in self.penalties:
            found.append(self.at(rows, penalty))
            yield fitted(penalty, found[-1])
        return found

    def at(self, rows: Source, penalty: float) -> Solution:
        """The end of a fit."""
        end = last_state(rows, replace(self.method, penalty=penalty))
        return Solution(end.centers, math.fsum(end.inertias))


@dataclass(frozen=True)
class Halving:
    """How well fits of two halves of the rows agree on all of them, as a job."""

    fits: Fits
    seed: int
    number: int
    """Of the halving."""
    heavier: float
    """What weights are multiplied by, so that the halves weigh as much as all rows where that counts."""

    @property
    def n_fits(self) -> int:
        """Of both halves."""
        return 2 * self.fits.n_fits

    def __call__(self, rows: HeldRows) -> Float64Array:
        """(p,), the adjusted Rand index at each penalty."""
        return finished(self.each(rows))

    def each(self, rows: HeldRows) -> Fitting[Float64Array]:
        """The same, fit by fit."""
        n = len(rows.rows)
        order = np.random.default_rng([self.seed, 6, self.number]).permutation(n)
        weights = self.heavier * (np.ones(n) if rows.weights is None else rows.weights)
        ends = []
        for half in (np.sort(order[: n // 2]), np.sort(order[n // 2 :])):
            part = replace(rows, rows=np.ascontiguousarray(rows.rows[half]), weights=weights[half])
            found = yield from self.fits.each(part)
            ends.append(_labels(rows, self.fits, found))
        return np.array([count_label_pairs(*labels).adjusted_rand for labels in zip(*ends, strict=True)])


def _labels(rows: HeldRows, fits: Fits, found: list[Solution]) -> list[Int64Array]:
    """The label of each row, (n,), at each penalty."""
    return [nearest(rows.rows, Centers(each.centers)).astype(np.int64) for each in standing(fits, found)]


def standing(fits: Fits, found: list[Solution]) -> list[Solution]:
    """The clusters that stand at each penalty: as a price the best of all."""
    return [best(found, penalty) for penalty in fits.penalties] if isinstance(fits, Prices) else found


def summary_of(source: Source, size: int, seed: int) -> tuple[HeldRows, bool]:
    """Rows in memory that stand for all, about so many where there are more than twice as many; whether they are all.

    Those without weight are left out.
    """
    if source.plan.n_rows > 2 * size:
        drawn = Sensitivity.of(source, seed)[0].coreset(source, size)
        return replace(drawn, scale=None), False
    everything = source.fold(Gather(), name="gather")
    some = everything.weights > 0
    return HeldRows(np.ascontiguousarray(everything.rows[some]), everything.weights[some]), True


# The envelope


def best(found: Sequence[Solution], penalty: float) -> Solution:
    """The lowest at a penalty, the first among equals."""
    return min(found, key=lambda each: each.objective(penalty))


def hull(found: Sequence[Solution]) -> list[Solution]:
    """Those that are lowest at some penalty > 0, by rising numbers of clusters."""
    corners: list[Solution] = []
    for each in sorted(found, key=lambda each: (each.k, each.inertia)):
        if corners and not each.inertia < corners[-1].inertia:
            continue
        while len(corners) > 1 and not exchange(corners[-2], corners[-1]) > exchange(corners[-1], each):
            corners.pop()
        corners.append(each)
    return corners


def exchange(fewer: Solution, more: Solution) -> float:
    """The penalty at which both cost the same."""
    return (fewer.inertia - more.inertia) / (more.k - fewer.k)


def envelope(found: Sequence[Solution], low: float = 0.0, high: float = math.inf) -> list[Interval]:
    """The intervals of penalties, from low to high, at which each number of clusters is best; these fall."""
    corners = hull(found)
    cuts = [math.inf, *(exchange(*pair) for pair in pairwise(corners)), 0.0]
    each = [
        Interval(corner.k, max(low, lower), min(high, upper))
        for corner, (upper, lower) in zip(corners, pairwise(cuts), strict=True)
    ]
    return [interval for interval in reversed(each) if interval.low < interval.high]


def runs(penalties: Sequence[float], numbers: Sequence[int]) -> list[Interval]:
    """Runs of neighboring penalties, rising, that gave one number of clusters.

    Between two that gave different numbers, the end lies at their geometric mean.
    """
    changes = [place for place in range(1, len(numbers)) if numbers[place] != numbers[place - 1]]
    cuts = [penalties[0], *(math.sqrt(penalties[i - 1]) * math.sqrt(penalties[i]) for i in changes), penalties[-1]]
    return [Interval(numbers[first], *ends) for first, ends in zip([0, *changes], pairwise(cuts), strict=True)]


def longest(intervals: Sequence[Interval]) -> Interval | None:
    """The longest in the logarithm of the penalty, among 2 <= k < the largest k; None where there is none."""
    most = max((interval.n_clusters for interval in intervals), default=0)
    among = [interval for interval in intervals if 2 <= interval.n_clusters < most]
    return max(among, key=lambda interval: interval.length, default=None)
