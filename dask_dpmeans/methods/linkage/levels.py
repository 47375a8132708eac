"""Numbers of clusters of a tree of micro-clusters: their intervals of penalties, and their scores.

A choice sees the micro-clusters of a summary, and the fit has micro-clusters of its own.  Either may
hold a gap by chance, so the number of clusters is taken by the mean of both scores, and of a third
one on fewer micro-clusters.  Of 368 fits of sets of many kinds, the mean of both took a right number
in 308, the score of the summary alone in 299, and of the fit alone in 301.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Self

import numpy as np

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.choice import Alternative, Choice, score
from dask_dpmeans.methods.dpmeans.chooser import MOST_ALTERNATIVES
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.methods.linkage.choice import ALONE, CLEARER, LinkageAlternative, LinkageChoice

NEAREST = 0.002
"""Penalties nearer to 0 than this are one.  It is added to their powers, too, in a score."""
LEAST_DIMENSION = 2.0
"""Least dimension of a score.  Sets of two columns had 1 to 2.2; without a least, two of 35 sets lost
their clusters."""
FARTHEST = 0.999
"""Penalties of single numbers of clusters are not farther from 0: -1 means balls."""
COARSER = 0.6
"""The fit compares the numbers on this share of the micro-clusters of the summary, too: a gap by chance
seldom stays.  Of 296 sets of 150 to 800 rows that this share was not chosen on, 239 had a right number
of clusters with it, 228 without; mean ARI .931 and .925."""
FEW_EACH = 4
"""Up to so many micro-clusters for each cluster are few: a cluster that is one of them has no links
inside, and is joined to others.  Of 49 sets of 10 to 40 balls in 2 to 200 columns 17 lost some of
them so.  Balls of as many clusters are chosen then, unless the cut is clearer."""
LEAST_SCORE = 1.0
"""Least score of a cut, and of balls where their number is given.  After the fit it is of the mean, unless
the rows are balls if they are not cut: of 12 sets in one cluster that were cut, four had less, and
no set in several clusters."""


@dataclass(frozen=True)
class Levels:
    """Numbers of clusters of the tree of a summary's micro-clusters, or of the fit's."""

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
    coarser: Float64Array
    """(m',), the cuts of `COARSER` times as many micro-clusters of the summary."""
    one_if_uncut: bool = False
    """Whether the rows are one cluster unless they are cut, as no balls were found."""
    summary: tuple[Mapping[int, float], ...] = ()
    """Scores on both micro-clusters of the summary, by number, if these are levels of a fit."""

    @property
    def intervals(self) -> list[Interval]:
        """Penalties at which the numbers of clusters are best."""
        return cut_intervals(self.cuts)

    def of_fit(self, cuts: Float64Array) -> Self:
        """Return the levels of a fit's micro-clusters, whose cuts are (m,), after the choice."""
        scores = tuple(
            {each.n_clusters: cut_score(each, self.dimension) for each in cut_intervals(some)}
            for some in (self.cuts, self.coarser)
        )
        return replace(self, cuts=cuts, summary=scores)

    @property
    def best(self) -> Interval:
        """The interval of at least two clusters with the highest score."""
        several = [each for each in self.intervals if each.n_clusters > 1]
        return max(several, key=self.score_of, default=Interval(1, ALONE, ALONE))

    @property
    def chosen(self) -> Interval:
        """The interval of a fit: the best one, or one cluster if that is not clear and balls are not."""
        best = self.best
        if self.one_if_uncut and best.n_clusters > 1 and self.score_of(best) < LEAST_SCORE:
            ones = (each for each in self.intervals if each.n_clusters == 1)
            return next(ones, best)
        return best

    def clearer_than(self, balls: Choice, crossed: bool) -> bool:
        """Return whether the best cut has some score, and balls not `CLEARER` times as much.

        The score of balls does not count if they have `crossed` the clusters of the cut.  With few
        micro-clusters for each cluster, the cut needs `CLEARER` times as much as balls.
        If both have as many clusters, they are likely balls that touch: the cut has the score of
        two dimensions then.  With its own, it was taken for four Gaussians in 5 to 20 columns, and
        ARI was .01 to .12 lower.
        """
        if crossed:
            return self.score_of(self.best) > LEAST_SCORE
        worth = balls.chosen.score * max(balls.stability, 0.0) if balls.divided else 0.0
        same = self.best.n_clusters == balls.n_clusters
        found = cut_score(self.best, LEAST_DIMENSION if same else self.dimension)
        few = len(self.cuts) <= FEW_EACH * self.best.n_clusters <= FEW_EACH * balls.n_clusters
        clearer = 1 / CLEARER if few else CLEARER
        return found > max(worth / clearer, LEAST_SCORE)

    def score_of(self, interval: Interval) -> float:
        """Return the score of an interval: of a fit, the mean with the scores of the summary."""
        others = [each.get(interval.n_clusters, 0.0) for each in self.summary]
        return fmean([cut_score(interval, self.dimension), *others])

    def interval_of(self, number: int) -> Interval:
        """Return the interval of a number of clusters, or the penalty at which it is nearly best."""
        return _interval_of(self.cuts, min(number, len(self.cuts)))

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
            return replace(self.cut(self.interval_of(best)), penalty=penalty)
        interval = self.interval_of(n_clusters)
        least = max(CLEARER * self.score_of(interval), LEAST_SCORE)
        if self.balls is not None and score(self.balls) > least:
            return ball(Alternative.of(self.balls, None))
        return self.cut(interval)

    def choice(
        self, found: Sequence[Alternative], evidence: float, *, asked: bool
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

    Next to no links lie between the groups that are best up to `NEAREST`, in any dimension, but powers
    of their prices may be below it.  Their score is at least the one of two dimensions: two moons in 5
    columns were cut into 6 to 14, and kinds of time series into halves.  Of 213 sets without
    clusters in 3 and more columns, none that was one cluster is cut.
    """
    low, high = ((-price) ** (dimension / 2) + NEAREST for price in (interval.low, interval.high))
    found = math.log(low / high) * math.sqrt(math.sqrt(interval.n_clusters))
    if interval.high != -NEAREST or dimension == LEAST_DIMENSION:
        return found
    return max(found, cut_score(interval, LEAST_DIMENSION))


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
