"""The evidence for a number of clusters: how far the rows differ from clouds without clusters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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


def measure_evidence(
    source: Source, rows: InMemoryRows, parameters: ChoiceParameters, k: int, at_once: int
) -> float:
    """Return by how many standard deviations k clusters of a summary differ from clouds.

    The clouds are `UniformClouds`, and `OneModeClouds` if each column may have one mode: then
    the rows must differ from both.  The deviates of the logarithm of the squared error and of
    the best score are added.  The clouds and the rows are split alike, without merges.

    Parameters
    ----------
    source : its workers do the work
    rows, parameters : the summary
    k : number of clusters
    at_once : clouds that are split side by side after the first; the last ones may not be needed
    """

    def figures_of(skewed: bool, numbers: Sequence[int | None]) -> list[Figures]:
        jobs = [FiguresJob(parameters, k, skewed, number) for number in numbers]
        return source.run(jobs, rows, "choose")

    first = FEWEST_CLOUDS if at_once > 1 else 0
    figures, *drawn = figures_of(False, [None, *range(first)])
    found = deviate_from_clouds(
        figures, lambda numbers: figures_of(False, numbers), drawn, at_once=at_once
    )
    summary = parameters.summary(rows)
    skewed = OneModeClouds(summary.rows, summary.weights)
    if found < EVIDENCE or summary.spherical or not skewed.fits(summary.count):
        return found
    others = deviate_from_clouds(
        figures, lambda numbers: figures_of(True, numbers), at_once=at_once
    )
    return min(found, others)


@dataclass(frozen=True)
class EvidenceJob:
    """The evidence for k clusters, as a job."""

    parameters: ChoiceParameters
    k: int

    def __call__(self, rows: InMemoryRows) -> float:
        """Return by how many standard deviations they differ from clusters of clouds."""
        return measure_evidence(rows, rows, self.parameters, self.k, at_once=1)


@dataclass(frozen=True)
class FiguresJob:
    """The figures of the clusterings of a summary, or of a cloud to compare it with, as a job."""

    parameters: ChoiceParameters
    k: int
    """The number of clusters that is compared."""
    skewed: bool
    """Whether the cloud has independent columns with one mode each."""
    number: int | None
    """Number of the cloud; None for the summary itself."""

    def __call__(self, rows: InMemoryRows) -> Figures:
        """Return the logarithm of the share of the error that k clusters leave, and the best score."""
        summary = self.parameters.summary(rows)
        tried = min(summary.most_tried, max(FEWEST_TRIED, 2 * self.k))
        if self.k > REFINED * tried:
            tried = math.ceil(self.k / REFINED)
        if self.number is not None:
            summary = draw_cloud(summary, self.k, self.number, self.skewed)
        path = summary.path(min(tried, len(summary.rows)), turns=0)
        scores = map(score, summary.candidates(path, tried, intervals_of(path)))
        left = path.inertias[min(self.k, len(path.inertias)) - 1] / path.inertias[0]
        return math.log(max(left, FLOOR)), max(scores, default=0.0)


def draw_cloud(summary: Summary, k: int, number: int, skewed: bool = False) -> Summary:
    """Return a cloud to compare k clusters of a summary with."""
    rows, weights = summary.rows, summary.weights
    uniform = UniformClouds(rows / summary.length, weights, summary.spherical)
    clouds = OneModeClouds(rows, weights) if skewed else uniform
    most = min(max(CLOUD_ROWS, CLOUD_ROWS_A_CLUSTER * k), MOST_CLOUD_ROWS)
    n = max(k + 1, uniform.least_rows, int(min(summary.count, most)))
    drawn = clouds.draw(n, stream(summary.seed, Stream.UNIFORM_CLOUDS, number))
    parameters = ChoiceParameters(summary.seed, summary.spherical)
    return parameters.summary(InMemoryRows(drawn, None))
