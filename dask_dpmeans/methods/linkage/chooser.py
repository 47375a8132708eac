"""The choice of the prices of micro-clusters and of clusters of any shape, from a summary.

1. K micro-clusters of the summary, about 2 * sqrt(rows), give the price of a micro-cluster, and
   each number of clusters of their tree is best over an interval of penalties.  The longest one, by
   a score that allows for the number and for the dimension of the rows, is the best cut, of those
   whose clusters do not touch (`contacts`).
2. DP-means chooses a number of clusters that are balls (`methods.dpmeans.chooser`).  Their score
   counts by the share of balls that do not touch, and if this is half or less, there are none.
   Without balls and a clear cut, half as many micro-clusters are tried.
3. Balls are chosen if their score, times the agreement of fits of halves, is 1.5 times the score of
   the cut.  If not, it is the cut, if it differs from cuts of uniform clouds; then balls; then one
   cluster.

Balls are micro-clusters at their own price that nothing joins: the penalty is -1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.common import check_squares
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE, Alternative, Choice
from dask_dpmeans.methods.dpmeans.chooser import (
    MOST_ALTERNATIVES,
    SUMMARY_ROWS,
    ChoiceParameters,
    choose_from,
)
from dask_dpmeans.methods.dpmeans.coreset import Drawn, Uniform
from dask_dpmeans.methods.dpmeans.path import summary_of
from dask_dpmeans.methods.linkage import search
from dask_dpmeans.methods.linkage.choice import LinkageChoice
from dask_dpmeans.methods.linkage.levels import (
    CutEvidenceJob,
    Levels,
    LevelsJob,
    ShareApartJob,
    ball,
)
from dask_dpmeans.methods.linkage.search import State

LEAST_SHARE = 0.5
"""Balls are none if this share of them, or less, do not touch."""


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
        n = int(parameters.summary(rows).count)
    else:
        rows = _sample(source, seed)
    check_squares(rows.summary)
    job = LevelsJob(parameters, n, micro_penalty, n_clusters)
    if n_clusters is None and not {micro_penalty, penalty} - {None}:
        return _unasked(source, rows, job)
    levels = source.run([job], rows, "choose")[0]
    if n_clusters is not None or penalty is not None:
        return levels.choice([levels.asked(n_clusters, penalty)], 0.0, asked=True)
    return levels.choice([levels.cut(levels.best)], 0.0, asked=True)


def _unasked(source: Source, rows: InMemoryRows, job: LevelsJob) -> LinkageChoice:
    """Return the choice between balls and cuts of the summary.

    If pieces touch here and there, but no clear cut and no balls are joined to one cluster, what
    would be chosen without a look at contacts is kept.
    """
    chosen = choose_from(source, rows, job.parameters)
    balls, share = chosen.choice, 1.0
    if balls.divided:
        apart = ShareApartJob(job.parameters, chosen.centers[0])
        share = source.run([apart], rows, "choose")[0]
        if share <= LEAST_SHARE:
            balls = undivided(balls)
    checked = replace(job, checked=True, halved=not balls.divided)
    levels = source.run([checked], rows, "choose")[0]
    choice = _best(source, rows, levels, job.parameters, balls, share)
    touched = share < 1 or levels.fewest < math.inf
    if choice.divided or not touched or share == 0 or levels.fewest == 1:
        return choice
    levels = source.run([job], rows, "choose")[0]
    return _best(source, rows, levels, job.parameters, chosen.choice, 1.0)


def _best(
    source: Source,
    rows: InMemoryRows,
    levels: Levels,
    parameters: ChoiceParameters,
    balls: Choice,
    share: float,
) -> LinkageChoice:
    """Return the choice between balls, of which a share does not touch, and the best cut."""
    found = [ball(each) for each in balls.alternatives]
    evidence = balls.evidence
    if levels.clearer_than(balls, share):
        cut = levels.best
        job = CutEvidenceJob(parameters, cut.n_clusters, levels.halvings)
        differ = source.run([job], rows, "choose")[0]
        if differ >= EVIDENCE:
            found.insert(0, levels.cut(cut))
        if differ >= EVIDENCE or not balls.divided:
            evidence = differ
    return levels.choice(found, evidence, asked=False)


def undivided(balls: Choice) -> Choice:
    """Return the choice of one cluster, in place of balls that touch."""
    one = Alternative.of(balls.intervals[-1], 1.0)
    return replace(balls, alternatives=(one, *balls.alternatives)[:MOST_ALTERNATIVES])


def _sample(source: Source, seed: int) -> InMemoryRows:
    """Return about `SUMMARY_ROWS` rows, each drawn with the same probability, in one pass."""
    probability = SUMMARY_ROWS / source.plan.n_rows
    drawn = source.fold(Uniform(probability, seed), name="sample")
    if not len(drawn.rows):
        drawn = Drawn(source.summary.mean[np.newaxis], np.array([source.summary.weight]))
    return InMemoryRows(np.ascontiguousarray(drawn.rows), drawn.weights)
