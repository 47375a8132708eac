"""The choice of the prices of micro-clusters and of clusters of any shape, from a summary.

1. K micro-clusters of the summary, about 2 * sqrt(different rows), give the price of one, and each
   number of clusters of their tree is best over an interval of penalties.  The longest one, by
   a score that allows for the number and for the dimension of the rows, is the best cut.
2. DP-means chooses a number of clusters that are balls (`methods.dpmeans.chooser`).
3. Balls are chosen if their score, times the agreement of fits of halves, is 1.5 times the score of
   the cut, or a 1.5th of it if micro-clusters are few.  If not, it is the cut, if it differs from
   cuts of uniform clouds; then balls; then one cluster.

Balls are micro-clusters at their own price that nothing joins: the penalty is -1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.center_path import CenterPath
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.links import LinkScan, line_variances, links_of
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.common import check_squares
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE, Alternative, Choice, score
from dask_dpmeans.methods.dpmeans.chooser import (
    FLOOR,
    MOST_ALTERNATIVES,
    SUMMARY_ROWS,
    ChoiceParameters,
    Summary,
    choose_from,
    intervals_of,
    solutions_of,
)
from dask_dpmeans.methods.dpmeans.clouds import Figures, UniformClouds, deviate_from_clouds
from dask_dpmeans.methods.dpmeans.coreset import Drawn, Uniform, different_rows
from dask_dpmeans.methods.dpmeans.path import Interval, summary_of
from dask_dpmeans.methods.linkage import search
from dask_dpmeans.methods.linkage.choice import CLEARER, LinkageAlternative, LinkageChoice
from dask_dpmeans.methods.linkage.search import ALONE, State
from dask_dpmeans.methods.linkage.tree import tree_of, without_light_components

FEWEST, BY_ROOT, MOST, ROWS_EACH = 30, 2, 300, 2
"""Micro-clusters: this many times the root of the different rows, between the first and the third
number, and at least so many of these each."""
FURTHER = 1.1
"""Numbers of micro-clusters are tried up to this many times theirs, so that it may be best."""
NEAREST = 0.002
"""Penalties nearer to 0 than this are one.  It is added to their powers, too, in a score."""
LEAST_DIMENSION = 2.0
"""Least dimension of a score.  Sets of two columns had 1 to 2.2; without a least, two of 35 sets lost
their clusters."""
FARTHEST = 0.999
"""Penalties of single numbers of clusters are not farther from 0: -1 means balls."""
FEW_EACH = 4
"""Up to so many micro-clusters for each cluster are few: a cluster that is one of them has no links
inside, and is joined to others.  Of 49 sets of 10 to 40 balls in 2 to 200 columns 17 lost some of
them so.  Balls of as many clusters are chosen then, unless the cut is clearer."""
LEAST_SCORE = 1.0
"""Least score of a cut, and of balls where their number is given."""
LEAST_CUT = 1e-4
"""Cuts below this count as this much when they are compared with cuts of clouds."""
CLOUD_ROWS, CLOUD_ROWS_A_CLUSTER = 2**11, 40
"""Rows that are compared with clouds of as many rows, at most: so many, or so many for each cluster
if that is more."""


@dataclass(frozen=True)
class AutoLinkage:
    """A method whose prices are chosen from the rows, or one of them."""

    penalties: ClassVar[tuple[str, ...]] = ("micro_penalty", "penalty")

    method: search.Method
    """The method, at any prices."""
    given: Mapping[str, float]
    """Prices that are numbers, by name."""

    def choose(self, source: Source, seed: int) -> "ChosenMethod":
        """Choose the prices for the rows."""
        method = self.method
        choice = choose(
            source, seed, method.n_clusters, spherical=method.divergence.spherical, **self.given
        )
        prices: dict[str, Any] = choice.penalties
        return ChosenMethod(replace(method, **prices, seed=seed), choice)


@dataclass(frozen=True)
class ChosenMethod:
    """A method at chosen prices."""

    method: search.Method
    choice: LinkageChoice
    passes: int = 1
    """Passes of the choice over all rows."""

    def cluster_stability(self, source: Source, state: State) -> Float64Array | None:
        """Return None, in place of (k,) numbers: the stability of clusters is not measured."""
        return None


def choose(
    source: Source,
    seed: int,
    n_clusters: int | None = None,
    *,
    spherical: bool = False,
    micro_penalty: float | None = None,
    penalty: float | None = None,
) -> LinkageChoice:
    """Choose the price of a micro-cluster and the price of a cluster, unless they are given.

    The rows themselves choose, or a sample if there are more than ``2 * SUMMARY_ROWS``.

    Parameters
    ----------
    source : the rows
    seed : seed of the sample and of all draws
    n_clusters : number of clusters; None to choose it
    spherical : whether centers are directions
    micro_penalty, penalty : prices that are given

    Raises
    ------
    InputError
        There are fewer rows than clusters.
    """
    parameters, n = ChoiceParameters(seed, spherical), source.plan.n_rows
    if n_clusters is not None and n_clusters > n:
        raise InputError(
            f"n_clusters must be at most the number of rows, {n:,}, got {n_clusters:,}"
        )
    if n <= 2 * SUMMARY_ROWS:
        rows = summary_of(source, SUMMARY_ROWS, seed)[0]
        summary = parameters.summary(rows)
        n = int(min(summary.count, len(summary.rows)))
    else:
        rows = _sample(source, seed)
        n = different_rows(rows, n)
    check_squares(rows.summary)
    levels = source.run([LevelsJob(parameters, n, micro_penalty, n_clusters)], rows, "choose")[0]
    if n_clusters is not None or penalty is not None:
        return levels.choice([levels.asked(n_clusters, penalty)], 0.0, asked=True)
    cut = levels.best
    if micro_penalty is not None:
        return levels.choice([levels.cut(cut)], 0.0, asked=True)
    balls = choose_from(source, rows, parameters).choice
    found = [ball(each) for each in balls.alternatives]
    evidence = balls.evidence
    if levels.clearer_than(balls):
        job = CutEvidenceJob(parameters, cut.n_clusters)
        differ = source.run([job], rows, "choose")[0]
        if differ >= EVIDENCE:
            found.insert(0, levels.cut(cut))
        if differ >= EVIDENCE or not balls.divided:
            evidence = differ
    return levels.choice(found, evidence, asked=False)


def ball(alternative: Alternative) -> LinkageAlternative:
    """Return the same number of clusters as micro-clusters that nothing joins."""
    return LinkageAlternative(
        n_clusters=alternative.n_clusters,
        penalty=ALONE,
        low=ALONE,
        high=ALONE,
        score=alternative.score,
        stability=alternative.stability,
        replicated=alternative.replicated,
        micro_penalty=alternative.penalty,
    )


def cut_score(interval: Interval, dimension: float) -> float:
    """Return the logarithm of low / high times the fourth root of the number of clusters.

    Low and high are penalties to the power dimension / 2, plus `NEAREST`.  If rows are spread
    evenly, the price of k clusters grows like k**(1 / dimension), and its power like the root of k
    in any dimension.
    """
    low, high = ((-price) ** (dimension / 2) + NEAREST for price in (interval.low, interval.high))
    return math.log(low / high) * math.sqrt(math.sqrt(interval.n_clusters))


def intrinsic_dimension(inertias: Float64Array) -> float:
    """Return the d for which the squared error of k clusters falls like k**(-2 / d).

    The greater half of the numbers of clusters count (Raginsky & Lazebnik 2005).  Of 2,000 even
    rows in 3 and 4 dimensions it is 2.6 and 3.2.  It is at least `LEAST_DIMENSION`, and at most
    log2(K): along so many axes K clusters can halve the rows.

    Parameters
    ----------
    inertias : (K,), squared errors of 1, 2, ... clusters, falling
    """
    some = inertias[inertias > FLOOR * inertias[0]]
    k, half = len(some), len(some) // 2
    if half == 0:
        return LEAST_DIMENSION
    found = 2 * math.log(k / half) / math.log(some[half - 1] / some[-1])
    return max(min(found, math.log2(k)), LEAST_DIMENSION)


def _sample(source: Source, seed: int) -> InMemoryRows:
    """Return about `SUMMARY_ROWS` rows, each drawn with the same probability, in one pass."""
    probability = SUMMARY_ROWS / source.plan.n_rows
    drawn = source.fold(Uniform(probability, seed), name="sample")
    if not len(drawn.rows):
        drawn = Drawn(source.summary.mean[np.newaxis], np.array([source.summary.weight]))
    return InMemoryRows(np.ascontiguousarray(drawn.rows), drawn.weights)


@dataclass(frozen=True)
class Levels:
    """Numbers of clusters of the tree of a summary's micro-clusters."""

    price: float
    """Price of a micro-cluster."""
    cuts: Float64Array
    """(m,), the normalized cuts of 1, 2, ... groups."""
    n_rows: int
    """Number of different rows."""
    dimension: float
    """Dimension of the rows; see `intrinsic_dimension`."""
    balls: Interval | None
    """Prices at which the given number of clusters is best, if they are clear."""

    @property
    def intervals(self) -> list[Interval]:
        """Penalties at which the numbers of clusters are best."""
        return cut_intervals(self.cuts)

    @property
    def best(self) -> Interval:
        """The interval of at least two clusters with the highest score."""
        several = [each for each in self.intervals if each.n_clusters > 1]
        return max(several, key=self.score_of, default=Interval(1, ALONE, ALONE))

    def clearer_than(self, balls: Choice) -> bool:
        """Return whether the best cut has some score, and balls not `CLEARER` times as much.

        With few micro-clusters for each cluster, the cut needs `CLEARER` times as much as balls.
        If both have as many clusters, they are likely balls that touch: the cut has the score of
        two dimensions then.  With its own, it was taken for four Gaussians in 5 to 20 columns, and
        ARI was .01 to .12 lower.
        """
        worth = balls.chosen.score * max(balls.stability, 0.0) if balls.divided else 0.0
        same = self.best.n_clusters == balls.n_clusters
        found = cut_score(self.best, LEAST_DIMENSION if same else self.dimension)
        few = len(self.cuts) <= FEW_EACH * self.best.n_clusters <= FEW_EACH * balls.n_clusters
        clearer = 1 / CLEARER if few else CLEARER
        return found > max(worth / clearer, LEAST_SCORE)

    def score_of(self, interval: Interval) -> float:
        """Return the score of an interval."""
        return cut_score(interval, self.dimension)

    def cut(self, interval: Interval) -> LinkageAlternative:
        """Return the clusters of an interval."""
        return LinkageAlternative(
            n_clusters=interval.n_clusters,
            penalty=interval.middle,
            low=interval.low,
            high=interval.high,
            score=self.score_of(interval),
            stability=None,
            micro_penalty=self.price,
        )

    def asked(self, n_clusters: int | None, penalty: float | None) -> LinkageAlternative:
        """Return a number of clusters that was given, or the number at a penalty that was given."""
        if n_clusters is None:
            assert penalty is not None
            numbers = np.arange(1, len(self.cuts) + 1)
            best = int(np.argmin(self.cuts + penalty * numbers)) + 1
            return replace(self.cut(_interval_of(self.cuts, best)), penalty=penalty)
        interval = _interval_of(self.cuts, min(n_clusters, len(self.cuts)))
        least = max(CLEARER * self.score_of(interval), LEAST_SCORE)
        if self.balls is not None and score(self.balls) > least:
            return ball(Alternative.of(self.balls, None))
        return self.cut(interval)

    def choice(
        self, found: Sequence[LinkageAlternative], evidence: float, *, asked: bool
    ) -> LinkageChoice:
        """Return the choice of the first alternative, with the best cuts as further ones."""
        numbers = {each.n_clusters for each in found}
        cuts = [self.cut(each) for each in sorted(self.intervals, key=self.score_of, reverse=True)]
        others = [each for each in cuts if each.n_clusters not in numbers]
        return LinkageChoice(
            alternatives=(*found, *others)[:MOST_ALTERNATIVES],
            evidence=evidence,
            tried=len(self.cuts),
            largest=len(self.cuts),
            rows_used=self.n_rows,
            intervals=tuple(self.intervals),
            asked=asked,
        )


@dataclass(frozen=True)
class LevelsJob:
    """The levels of the tree of a summary, as a job."""

    parameters: ChoiceParameters
    n_rows: int
    """Number of different rows that the summary stands for."""
    micro_penalty: float | None
    n_clusters: int | None

    def __call__(self, rows: InMemoryRows) -> Levels:
        """Return the levels."""
        summary = self.parameters.summary(rows)
        most = min(self._wanted, len(summary.rows))
        path = summary.path(min(math.ceil(FURTHER * most) + 1, len(summary.rows)))
        price, k = price_of(path, most, self.micro_penalty)
        balls = None
        if self.n_clusters is not None and self.micro_penalty is None:
            same = [each for each in intervals_of(path) if each.n_clusters == self.n_clusters]
            balls = same[0] if same else None
        return Levels(
            price=price,
            cuts=_cuts(summary, path.centers[k - 1]),
            n_rows=len(summary.rows),
            dimension=intrinsic_dimension(path.inertias),
            balls=balls,
        )

    @property
    def _wanted(self) -> int:
        """Number of micro-clusters, if so many rows differ; more than the clusters asked for."""
        return max(micro_clusters(self.n_rows), math.ceil(FURTHER * (self.n_clusters or 0)))


@dataclass(frozen=True)
class CutEvidenceJob:
    """The evidence for a cut into some clusters, as a job."""

    parameters: ChoiceParameters
    n_clusters: int

    def __call__(self, rows: InMemoryRows) -> float:
        """Return by how many standard deviations the cut differs from cuts of uniform clouds.

        The deviates of the logarithm of the cut and of the best score are added.
        """
        summary = self._some(self.parameters.summary(rows))
        clouds = UniformClouds(summary.rows, summary.weights, summary.spherical)
        n, seed = max(clouds.least_rows, len(summary.rows)), self.parameters.seed

        def of_cloud(number: int) -> Figures:
            draw = clouds.draw(n, stream(seed, Stream.UNIFORM_CLOUDS, number))
            return self._figures(self.parameters.summary(InMemoryRows(draw, None)))

        return deviate_from_clouds(self._figures(summary), of_cloud)

    def _some(self, summary: Summary) -> Summary:
        """Return a summary of at most so many rows, drawn at random."""
        most = max(CLOUD_ROWS, CLOUD_ROWS_A_CLUSTER * self.n_clusters)
        if len(summary.rows) <= most:
            return summary
        random = stream(self.parameters.seed, Stream.CLOUD_ROWS)
        drawn = np.sort(random.permutation(len(summary.rows))[:most])
        return replace(summary, rows=summary.rows[drawn], weights=summary.weights[drawn])

    def _figures(self, summary: Summary) -> Figures:
        """Return the logarithm of the cut, and the best score."""
        n = len(summary.rows)
        path = summary.path(min(micro_clusters(n), n))
        cuts = _cuts(summary, path.centers[-1])
        dimension = intrinsic_dimension(path.inertias)
        several = [each for each in cut_intervals(cuts) if each.n_clusters > 1]
        scores = [cut_score(each, dimension) for each in several]
        cut = cuts[min(self.n_clusters, len(cuts)) - 1]
        return math.log(max(cut, LEAST_CUT)), max(scores, default=0.0)


def micro_clusters(n: int) -> int:
    """Return how many micro-clusters n different rows get."""
    return max(1, int(min(MOST, max(FEWEST, BY_ROOT * math.sqrt(n)), n / ROWS_EACH)))


def price_of(path: CenterPath, most: int, given: float | None) -> tuple[float, int]:
    """Return the price of a micro-cluster, and how many the summary has at it.

    The price is the middle of those at which `most` are best, or of the nearest number.
    """
    if given is not None:
        return given, min(solutions_of(path), key=lambda each: each.objective(given)).k
    if not FLOOR * path.inertias[0] > 0:
        return 1.0, 1
    found = min(intervals_of(path), key=lambda each: abs(each.n_clusters - most))
    return found.middle, found.n_clusters


def _cuts(summary: Summary, centers: Float64Array) -> Float64Array:
    """Return the cuts of 1, 2, ... groups of micro-centers, (k, d), of the summary."""
    k, points = len(centers), Centers(centers)
    if k == 1:
        return np.zeros(1)
    labels, squared = nearest_squared(summary.rows, points)
    weights = total(labels, summary.weights, k)
    variances = line_variances(centers, weights, total(labels, summary.weights * squared, k))
    sums = LinkScan(points, variances).chunk(Block(0, summary.rows, summary.weights))
    graph = without_light_components(links_of(sums, k)[0].matrix(k), weights)
    return tree_of(graph, centers, weights).cuts


def cut_intervals(cuts: Float64Array) -> list[Interval]:
    """Return the intervals of penalties, from -1 to below 0, at which numbers of clusters are best.

    `cuts`, (m,), belong to 1, 2, ... clusters.  Penalties rise.
    """
    found, number, near = [], 1, NEAREST
    while near < 1:
        steps = np.arange(1, len(cuts) - number + 1)
        slopes = (cuts[number:] - cuts[number - 1]) / steps
        further = float(slopes.min(initial=np.inf))
        if further > near:
            found.append(Interval(number, -min(further, 1.0), -near))
            near = further
        if not len(slopes):
            break
        number += int(steps[slopes == slopes.min()][-1])
    return found[::-1]


def _interval_of(cuts: Float64Array, number: int) -> Interval:
    """Return the interval of a number of clusters, or the penalty at which it is nearly best."""
    for each in cut_intervals(cuts):
        if each.n_clusters == number:
            return each
    fewer, more = max(number - 2, 0), min(number, len(cuts) - 1)
    slope = float(cuts[more] - cuts[fewer]) / max(more - fewer, 1)
    price = -min(max(slope, NEAREST), FARTHEST)
    return Interval(number, price, price)
