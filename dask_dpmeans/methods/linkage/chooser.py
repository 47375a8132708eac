"""The choice of the prices of micro-clusters and of clusters of any shape, from a summary.

1. K micro-clusters of the summary, about 2 * sqrt(different rows), give the price of one, and each
   number of clusters of their tree is best over an interval of penalties.  The longest one, by
   a score that allows for the number and for the dimension of the rows, is the best cut.
2. DP-means chooses a number of clusters that are balls (`methods.dpmeans.chooser`).
3. Balls are chosen if their score, times the agreement of fits of halves, is 1.5 times the score of
   the cut, or a 1.5th of it if micro-clusters are few, unless they cross its clusters (`crossing`).
   If not, it is the cut, if it differs from cuts of uniform clouds and of independent columns with
   one mode each; then balls; then one cluster.
4. If it is the cut, the fit compares the numbers of clusters again, with its own micro-clusters, and
   takes one cluster if none is clear there and balls were not.

Balls are micro-clusters at their own price that nothing joins: the penalty is -1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_array

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
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE, leading_column
from dask_dpmeans.methods.dpmeans.chooser import choose_from
from dask_dpmeans.methods.dpmeans.clouds import (
    Figures,
    OneModeClouds,
    UniformClouds,
    deviate_from_clouds,
)
from dask_dpmeans.methods.dpmeans.coreset import Drawn, Uniform, different_rows
from dask_dpmeans.methods.dpmeans.path import Interval, summary_of
from dask_dpmeans.methods.dpmeans.summary import (
    FLOOR,
    SUMMARY_ROWS,
    ChoiceParameters,
    Summary,
    intervals_of,
    solutions_of,
)
from dask_dpmeans.methods.linkage import search
from dask_dpmeans.methods.linkage.choice import ALONE, LinkageChoice
from dask_dpmeans.methods.linkage.crossing import MicroTree
from dask_dpmeans.methods.linkage.levels import (
    COARSER,
    LEAST_DIMENSION,
    Levels,
    ball,
    cut_intervals,
    cut_score,
)
from dask_dpmeans.methods.linkage.search import State
from dask_dpmeans.methods.linkage.tree import GroupTree, tree_of, without_light_components

FEWEST, BY_ROOT, MOST, ROWS_EACH = 30, 2, 300, 2
"""Micro-clusters: this many times the root of the different rows, between the first and the third
number, and at least so many of these each."""
FURTHER = 1.1
"""Numbers of micro-clusters are tried up to this many times theirs, so that it may be best."""
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
        choice, levels = choose(
            source, seed, method.n_clusters, spherical=method.divergence.spherical, **self.given
        )
        if not method.divergence.spherical:
            choice = replace(choice, leading=leading_column(source))
        chosen: dict[str, Any] = {**choice.penalties, "seed": seed}
        if "penalty" not in self.given:
            chosen["levels"] = levels
        return ChosenMethod(replace(method, **chosen), choice, levels)


@dataclass(frozen=True)
class ChosenMethod:
    """A method at chosen prices."""

    method: search.Method
    choice: LinkageChoice
    """The choice by the summary alone."""
    levels: Levels
    """The numbers of clusters of the summary's micro-clusters."""
    passes: int = 1
    """Passes of the choice over all rows."""

    def choice_after(self, state: State) -> LinkageChoice:
        """Return the choice with the penalties and the number of clusters of a fit.

        Balls keep theirs, unless their number or their price was given.
        """
        before, number = self.choice, len(state.weights)
        others = before.alternatives[1:]
        if before.penalty == ALONE:
            first = replace(before.chosen, n_clusters=number) if before.asked else before.chosen
            return replace(before, alternatives=(first, *others))
        levels, found = self.levels.of_fit(state.grouping.cuts), state.grouping.penalty
        clear = levels.chosen == levels.best
        if self.method.levels is not None and before.divided and number == 1 and clear:
            return before  # of a fit that was stopped early
        first = replace(levels.cut(levels.interval_of(number)), n_clusters=number, penalty=found)
        balls = [each for each in others if each.penalty == ALONE and each.n_clusters != number]
        after = levels.choice([first, *balls], before.evidence, asked=before.asked)
        return replace(after, leading=before.leading)

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
) -> tuple[LinkageChoice, Levels]:
    """Choose the price of a micro-cluster and the price of a cluster, unless they are given.

    The second is what numbers of clusters the choice compared, for the fit to compare them too.

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
    small = n <= 2 * SUMMARY_ROWS
    rows = summary_of(source, SUMMARY_ROWS, seed)[0] if small else _sample(source, seed)
    check_squares(rows.summary)  # first: the count of rows takes squares of weights
    if small:
        summary = parameters.summary(rows)
        n = int(min(summary.count, len(summary.rows)))
    else:
        n = different_rows(rows, n)
    job = LevelsJob(parameters, n, micro_penalty, n_clusters)
    levels, micro = source.run([job], rows, "choose")[0]
    if n_clusters is not None or penalty is not None:
        return levels.choice([levels.asked(n_clusters, penalty)], 0.0, asked=True), levels
    cut = levels.best
    if micro_penalty is not None:
        return levels.choice([levels.cut(cut)], 0.0, asked=True), levels
    chosen = choose_from(source, rows, parameters)
    balls = chosen.choice
    levels = replace(levels, one_if_uncut=not balls.divided)
    found = [ball(each) for each in balls.alternatives]
    evidence = balls.evidence
    if levels.clearer_than(balls, micro.crossed_by(chosen.centers[0], cut.n_clusters)):
        differ = source.run([CutEvidenceJob(parameters, cut.n_clusters)], rows, "choose")[0]
        if differ >= EVIDENCE:
            found.insert(0, levels.cut(cut))
        if differ >= EVIDENCE or not balls.divided:
            evidence = differ
    choice = levels.choice(found, evidence, asked=False)
    apart = balls.apart and choice.alternatives[0] == found[0] == ball(balls.chosen)
    return replace(choice, apart=apart), levels


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
class LevelsJob:
    """The levels of the tree of a summary, as a job."""

    parameters: ChoiceParameters
    n_rows: int
    """Number of different rows that the summary stands for."""
    micro_penalty: float | None
    n_clusters: int | None

    def __call__(self, rows: InMemoryRows) -> tuple[Levels, MicroTree]:
        """Return the levels, and the tree."""
        summary = self.parameters.summary(rows)
        wanted = max(micro_clusters(self.n_rows), math.ceil(FURTHER * (self.n_clusters or 0)))
        most = min(wanted, len(summary.rows))
        path = summary.path(min(math.ceil(FURTHER * most) + 1, len(summary.rows)))
        price, k = price_of(path, most, self.micro_penalty)
        centers, fewer = path.centers[k - 1], path.centers[max(1, round(COARSER * k)) - 1]
        micro = _tree(summary, centers)
        levels = Levels(
            price=price,
            cuts=micro.tree.cuts,
            coarser=_tree(summary, fewer).tree.cuts,
            n_rows=len(summary.rows),
            dimension=intrinsic_dimension(path.inertias),
            balls=self._balls(path, micro),
        )
        return levels, micro

    def _balls(self, path: CenterPath, micro: MicroTree) -> Interval | None:
        """Return the prices at which the given number of balls is best; None if they are not clear.

        They are not if they cross as many groups of micro-clusters.
        """
        if self.n_clusters is None or self.micro_penalty is not None:
            return None
        for each in intervals_of(path):
            if each.n_clusters == self.n_clusters:
                balls = path.best(each.middle)
                return None if micro.crossed_by(balls, each.n_clusters) else each
        return None


@dataclass(frozen=True)
class CutEvidenceJob:
    """The evidence for a cut into some clusters, as a job."""

    parameters: ChoiceParameters
    n_clusters: int

    def __call__(self, rows: InMemoryRows) -> float:
        """Return by how many standard deviations the cut differs from cuts of clouds without clusters.

        The deviates of the logarithm of the cut and of the best score are added.
        """
        summary = self._some(self.parameters.summary(rows))
        clouds = UniformClouds(summary.rows, summary.weights, summary.spherical)
        n, seed = max(clouds.least_rows, len(summary.rows)), self.parameters.seed

        figures = self._figures(summary)

        def differ(clouds: UniformClouds | OneModeClouds) -> float:
            def of_cloud(number: int) -> Figures:
                draw = clouds.draw(n, stream(seed, Stream.UNIFORM_CLOUDS, number))
                return self._figures(self.parameters.summary(InMemoryRows(draw, None)))

            return deviate_from_clouds(figures, lambda numbers: map(of_cloud, numbers))

        found = differ(clouds)
        if found < EVIDENCE or summary.spherical:
            return found
        skewed = OneModeClouds.of(summary.rows, summary.weights, summary.count)
        return found if skewed is None else min(found, differ(skewed))

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
        cuts = _tree(summary, path.centers[-1]).tree.cuts
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


def _tree(summary: Summary, centers: Float64Array) -> MicroTree:
    """Return the tree of micro-centers, (k, d), of the summary."""
    k, points = len(centers), Centers(centers)
    labels, squared = nearest_squared(summary.rows, points)
    weights = total(labels, summary.weights, k)
    if k == 1:
        return MicroTree(
            centers, weights, csr_array((1, 1)), GroupTree(np.empty((0, 4)), np.zeros(1))
        )
    variances = line_variances(centers, weights, total(labels, summary.weights * squared, k))
    sums = LinkScan(points, variances).chunk(Block(0, summary.rows, summary.weights))
    graph = without_light_components(links_of(sums, k)[0].matrix(k), weights)
    return MicroTree(centers, weights, graph, tree_of(graph, centers, weights))
