"""Fits over many penalties: the number of clusters of each, and the interval of each number.

As a price, clusters of inertia I and number k cost I + penalty * k at any penalty, whichever led to
them: a line.  The lower envelope of these lines says which clusters are the best that are known at
each penalty, so that k falls as the penalty rises, and at which penalty one takes the place of
another: where the slopes of the lower convex hull of the points (k, I) change.
"""

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import last_state
from dask_dpmeans.engine.plan import Answer, Source, run_fits
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import nearest
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.labelings import count_label_pairs
from dask_dpmeans.kernels.price import penalty_between, price_of
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans import batch, search
from dask_dpmeans.methods.dpmeans.batch import inertia_of
from dask_dpmeans.methods.dpmeans.coreset import Sensitivity
from dask_dpmeans.methods.dpmeans.search_state import FEWEST_TRIES, State
from dask_dpmeans.methods.dpmeans.starts import NO_LIMIT, Restart

FittedRows = TypeVar("FittedRows", contravariant=True)

USUAL_PENALTIES = 40
"""Number of default penalties of a path."""


@dataclass(frozen=True)
class Solution:
    """The last clusters of a fit."""

    centers: Float64Array
    """(k, d)."""
    inertia: float
    """What rows cost, outliers too, in squared units of the rows times weight; estimated for all rows."""
    end: State | None = field(default=None, repr=False)
    """State from which another search may start."""
    discount: float = 0.0
    """Fall of the price of a cluster with the logarithm of its number."""

    @property
    def k(self) -> int:
        """Clusters."""
        return len(self.centers)

    def objective(self, penalty: float) -> float:
        """Return inertia + penalty * k, or less with a discount."""
        return self.inertia + price_of(penalty, self.discount).of(self.k)


Fitting = Generator[Mapping[str, float], None, Answer]
"""Figures of fits, one after the other, and an answer in the end."""


def fit_figures(penalty: float, end: Solution) -> dict[str, float]:
    """Return the figures of a fit: penalty and number of clusters."""
    return {"penalty": float(penalty), "n_clusters": end.k}


class Interval(NamedTuple):
    """Penalties that give a number of clusters."""

    n_clusters: int
    low: float
    high: float

    @property
    def length(self) -> float:
        """Logarithm of high / low; of low / high if they are negative."""
        return abs(math.log(self.high / self.low))

    @property
    def middle(self) -> float:
        """Geometric mean of low and high, negative if they are."""
        return math.copysign(math.sqrt(abs(self.low)) * math.sqrt(abs(self.high)), self.low)


class FitJob(Generic[FittedRows, Answer]):
    """A job made of fits, one after the other."""

    @property
    def n_fits(self) -> int | None:
        """Number of fits; None if it is not known before the end."""
        return None

    def each(self, rows: FittedRows) -> Fitting[Answer]:
        """Yield the figures of each fit; return the answer."""
        raise NotImplementedError

    def __call__(self, rows: FittedRows) -> Answer:
        """Return the answer of all fits."""
        return run_fits(self.each(rows))


class Fits(FitJob[Source, list[Solution]]):
    """Fits at some penalties, whose answer has the best clusters at each."""

    method: batch.Method | search.Method
    penalties: tuple[float, ...]
    """Rising."""

    @property
    def n_fits(self) -> int:
        """Number of fits: one at each penalty."""
        return len(self.penalties)


@dataclass(frozen=True)
class Prices(Fits):
    """Searches down from the highest penalty, then up from the lowest.

    Each search starts from the best known clusters at the penalty before, and ends no higher.
    """

    method: search.Method
    penalties: tuple[float, ...]
    optimism: float = 0.0
    """Errors of a mean by which rows of a sample are too near to it; see `starts.OPTIMISM`."""

    @property
    def n_fits(self) -> int:
        """Number of fits: two at each penalty, one at the highest."""
        return 2 * len(self.penalties) - 1

    def each(self, rows: Source) -> Fitting[list[Solution]]:
        """Yield the figures of each fit; return all clusters."""
        found = [self.at(rows, self.penalties[-1], None)]
        yield fit_figures(self.penalties[-1], found[-1])
        for before, penalty in pairwise(reversed(self.penalties)):
            found.append(self.at(rows, penalty, best(found, before)))
            yield fit_figures(penalty, found[-1])
        for before, penalty in pairwise(self.penalties):
            found.append(self.at(rows, penalty, best(found, before), tries=0))
            yield fit_figures(penalty, found[-1])
        return found

    def at(
        self, rows: Source, penalty: float, start: Solution | None, tries: int = FEWEST_TRIES
    ) -> Solution:
        """Return the end of a search from some clusters, or from the mean of all rows."""
        if start is None and self.optimism:  # its squared error is needed for the price
            start = replace(self, optimism=0.0).at(rows, penalty, None, tries=0)
        share = self.optimism / rows.plan.n_rows
        warm, more = None, 0.0
        if start is not None:
            warm, more = start.end, share * start.inertia
        method = replace(
            self.method, penalty=penalty, coreset_rows=0, max_iter=NO_LIMIT, effort="normal"
        )
        end = Restart(method.with_prices(more=more), tries, warm)(rows)
        inertia = math.fsum(end.inertias) * (1 + share * len(end.centers)) + end.outlier_cost
        return Solution(end.centers, inertia, end, method.discount)

    def cost_at_mean(self, rows: Source) -> float:
        """Return what all rows cost at their mean: at this penalty one cluster is best."""
        divergence = self.method.divergence
        if divergence.general is None:
            return float(rows.summary.squares.sum())
        average = rows.summary.mean[np.newaxis]
        return inertia_of(rows, divergence.means(average, average), divergence)


@dataclass(frozen=True)
class Radii(Fits):
    """Algorithm 1 at each penalty, from the mean of all rows."""

    method: batch.Method
    penalties: tuple[float, ...]

    def each(self, rows: Source) -> Fitting[list[Solution]]:
        """Yield the figures of each fit; return all clusters."""
        found: list[Solution] = []
        for penalty in self.penalties:
            found.append(self.at(rows, penalty))
            yield fit_figures(penalty, found[-1])
        return found

    def at(self, rows: Source, penalty: float) -> Solution:
        """Return the end of a fit."""
        end = last_state(rows, replace(self.method, penalty=penalty))
        return Solution(end.centers, math.fsum(end.inertias), discount=self.method.discount)


@dataclass(frozen=True)
class Halving(FitJob[InMemoryRows, Float64Array]):
    """Agreement of fits of two halves of the rows on all rows, as a job."""

    fits: Fits
    seed: int
    number: int
    """Number of the halving."""
    heavier: float
    """Factor of the weights, so that each half weighs as much as all rows."""

    @property
    def n_fits(self) -> int:
        """Number of fits of both halves."""
        return 2 * self.fits.n_fits

    def each(self, rows: InMemoryRows) -> Fitting[Float64Array]:
        """Yield the figures of each fit; return the adjusted Rand index at each penalty, (p,)."""
        n = len(rows.rows)
        order = stream(self.seed, Stream.STABILITY, self.number).permutation(n)
        weights = np.full(n, self.heavier)
        if rows.weights is not None:
            weights *= rows.weights
        ends = []
        for half in (np.sort(order[: n // 2]), np.sort(order[n // 2 :])):
            part = replace(rows, rows=np.ascontiguousarray(rows.rows[half]), weights=weights[half])
            found = yield from self.fits.each(part)
            kernel_centers = self.fits.method.kernel_centers
            centers = [kernel_centers(end.centers) for end in best_at_each(self.fits, found)]
            ends.append([nearest(rows.rows, each).astype(np.int64) for each in centers])
        pairs = zip(*ends, strict=True)
        return np.array([count_label_pairs(*labels).adjusted_rand for labels in pairs])


def best_at_each(fits: Fits, found: list[Solution]) -> list[Solution]:
    """Return the solution of each penalty: the best of all if penalties are prices."""
    if isinstance(fits, Prices):
        return [best(found, penalty) for penalty in fits.penalties]
    return found


def summary_of(
    source: Source,
    size: int,
    seed: int,
    most: float = math.inf,
    divergence: Divergence | None = None,
    whole: int | None = None,
) -> tuple[InMemoryRows, bool]:
    """Return a coreset of about `size` rows, or all rows with weight, and whether it is all.

    A source of at most `whole` rows, by default ``2 * size``, is its own summary.  For a coreset,
    rows cost a divergence, or squared distances, and at most `most` for each unit of weight.
    """
    if source.plan.n_rows > (2 * size if whole is None else whole):
        drawn = Sensitivity.of(source, seed, most, divergence)[0].coreset(source, size)
        return replace(drawn, scale=None), False
    everything = source.fold(Gather(), name="gather")
    some = everything.weights > 0
    return InMemoryRows(np.ascontiguousarray(everything.rows[some]), everything.weights[some]), True


# The envelope


def best(found: Sequence[Solution], penalty: float) -> Solution:
    """Return the lowest solution at a penalty, the first among equals."""
    return min(found, key=lambda each: each.objective(penalty))


def hull(found: Sequence[Solution]) -> list[Solution]:
    """Return the solutions that are lowest at some penalty > 0, by rising numbers of clusters."""
    return _corners(found)[0]


def _corners(found: Sequence[Solution]) -> tuple[list[Solution], list[float]]:
    """Return the solutions of `hull`, and up to which penalty each is the lowest."""
    corners, cuts = list[Solution](), list[float]()
    for each in sorted(found, key=lambda each: (each.k, each.inertia)):
        if corners and not each.inertia < corners[-1].inertia:
            continue
        cut = math.inf
        while corners:
            cut = exchange(corners[-1], each)
            if cuts[-1] > cut or len(corners) == 1:
                break
            corners.pop()
            cuts.pop()
        corners.append(each)
        cuts.append(cut)
    return corners, cuts


def exchange(fewer: Solution, more: Solution) -> float:
    """Return the penalty at which both cost the same."""
    return penalty_between(fewer.inertia - more.inertia, fewer.k, more.k, fewer.discount)


def envelope(found: Sequence[Solution], low: float = 0.0, high: float = math.inf) -> list[Interval]:
    """Return the intervals of rising penalties at which each number of clusters is best."""
    corners, cuts = _corners(found)
    bounds = zip(corners, pairwise([*cuts, 0.0]), strict=True)
    each = [Interval(end.k, max(low, lower), min(high, upper)) for end, (upper, lower) in bounds]
    return [interval for interval in reversed(each) if interval.low < interval.high]


def runs(penalties: Sequence[float], numbers: Sequence[int]) -> list[Interval]:
    """Return the runs of rising penalties that gave one number of clusters.

    The end between two runs is the geometric mean of their neighboring penalties.
    """
    changes = [place for place in range(1, len(numbers)) if numbers[place] != numbers[place - 1]]
    middles = [math.sqrt(penalties[i - 1]) * math.sqrt(penalties[i]) for i in changes]
    ends = pairwise([penalties[0], *middles, penalties[-1]])
    starts = zip([0, *changes], ends, strict=True)
    return [Interval(numbers[first], low, high) for first, (low, high) in starts]


def longest(intervals: Sequence[Interval]) -> Interval | None:
    """Return the longest interval by its logarithm among 2 <= k < the largest k, if any."""
    most = max((interval.n_clusters for interval in intervals), default=0)
    among = [interval for interval in intervals if 2 <= interval.n_clusters < most]
    return max(among, key=lambda interval: interval.length, default=None)
