"""The evidence for a number of clusters: how far the rows differ from clouds without clusters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE, score
from dask_dpmeans.methods.dpmeans.clouds import (
    FEWEST_CLOUDS,
    Figures,
    OneModeClouds,
    UniformClouds,
    deviate_from_clouds,
)
from dask_dpmeans.methods.dpmeans.summary import (
    FEWEST_TRIED,
    FLOOR,
    MOST_BY_ROWS,
    REFINED,
    ChoiceParameters,
    Summary,
    intervals_of,
)

CLOUD_ROWS, CLOUD_ROWS_A_CLUSTER, MOST_CLOUD_ROWS = 2**10, 40, 40 * MOST_BY_ROWS
"""Most rows of a cloud, or most rows for each cluster if that is more, and most rows of any cloud."""


def measure_evidence(source: Source, summary: Summary, k: int, at_once: int) -> float:
    """Return by how many standard deviations k clusters of a summary differ from clouds.

    The clouds are `UniformClouds`, and `OneModeClouds` if each column may have one mode: then
    the rows must differ from both.  The deviates of the logarithm of the squared error and of
    the best score are added.  The clouds and the rows are split alike, without merges.

    Parameters
    ----------
    source : its workers do the work
    summary : the rows
    k : number of clusters
    at_once : clouds that are split side by side after the first; the last ones may not be needed
    """
    comparison = source.run([ComparisonJob(k)], summary, "choose")[0]

    def figures_of(compared: Comparison, numbers: Sequence[int | None]) -> list[Figures]:
        return source.run([FiguresJob(number) for number in numbers], compared, "choose")

    figures, *drawn = figures_of(comparison, [None, *range(FEWEST_CLOUDS)])
    found = deviate_from_clouds(
        figures, lambda numbers: figures_of(comparison, numbers), drawn, at_once=at_once
    )
    if found < EVIDENCE or summary.spherical:
        return found
    skewed = source.run([SkewedJob()], comparison, "choose")[0]
    if skewed is None:
        return found
    others = deviate_from_clouds(
        figures, lambda numbers: figures_of(skewed, numbers), at_once=at_once
    )
    return min(found, others)


@dataclass(frozen=True)
class Comparison:
    """A summary, and clouds that it is compared with."""

    summary: Summary
    k: int
    """The number of clusters that is compared."""
    clouds: UniformClouds | OneModeClouds
    cloud_rows: int
    """Number of rows of a cloud."""

    @property
    def tried(self) -> int:
        """The greatest number of clusters that rows and clouds are split into."""
        tried = min(self.summary.most_tried, max(FEWEST_TRIED, 2 * self.k))
        return math.ceil(self.k / REFINED) if self.k > REFINED * tried else tried

    def cloud(self, number: int) -> Summary:
        """Return the cloud with a number."""
        seed, spherical = self.summary.seed, self.summary.spherical
        drawn = self.clouds.draw(self.cloud_rows, stream(seed, Stream.UNIFORM_CLOUDS, number))
        cloud = ChoiceParameters(seed, spherical).summary(InMemoryRows(drawn, None))
        return cloud.rotated() if cloud.wide else cloud


@dataclass(frozen=True)
class EvidenceJob:
    """The evidence for k clusters, as a job."""

    k: int

    def __call__(self, summary: Summary) -> float:
        """Return by how many standard deviations they differ from clusters of clouds."""
        here = InMemoryRows(summary.rows, summary.weights)
        return measure_evidence(here, summary, self.k, at_once=1)


@dataclass(frozen=True)
class ComparisonJob:
    """A comparison of k clusters with uniform clouds, as a job."""

    k: int

    def __call__(self, summary: Summary) -> Comparison:
        """Return the comparison, with all that its clouds have in common."""
        scaled = summary.rows if summary.length == 1 else summary.rows / summary.length
        clouds = UniformClouds(scaled, summary.weights, summary.spherical).prepared()
        most = min(max(CLOUD_ROWS, CLOUD_ROWS_A_CLUSTER * self.k), MOST_CLOUD_ROWS)
        n = max(self.k + 1, clouds.least_rows, int(min(summary.count, most)))
        return Comparison(summary, self.k, clouds, n)


@dataclass(frozen=True)
class SkewedJob:
    """A comparison with clouds of independent columns in place of uniform ones, as a job."""

    def __call__(self, comparison: Comparison) -> Comparison | None:
        """Return the comparison; None if not every column of the rows may have one mode."""
        summary = comparison.summary
        clouds = OneModeClouds.of(summary.rows, summary.weights, summary.count)
        return None if clouds is None else replace(comparison, clouds=clouds)


@dataclass(frozen=True)
class FiguresJob:
    """The figures of the clusterings of a summary, or of a cloud, as a job."""

    number: int | None
    """Number of the cloud; None for the summary itself."""

    def __call__(self, comparison: Comparison) -> Figures:
        """Return the logarithm of the share of the error that k clusters leave, and the best score."""
        k, tried = comparison.k, comparison.tried
        summary = comparison.summary
        if self.number is not None:
            summary = comparison.cloud(self.number)
        path = summary.path(min(tried, len(summary.rows)), turns=0)
        scores = map(score, summary.candidates(path, tried, intervals_of(path)))
        left = path.inertias[min(k, len(path.inertias)) - 1] / path.inertias[0]
        return math.log(max(left, FLOOR)), max(scores, default=0.0)
