"""The choice of a penalty, and so of a number of clusters, from the links alone.

Clusters that nodes and merges find near the top of the useful penalties, the parts, are merged on,
best changes of the cut first.  The lower convex hull of their numbers k and cuts gives the interval
of penalties at which each number is best.  Two rules choose:

1. The interval with the greatest log(low / high) * sqrt(k) is chosen; of several with close scores,
   the one for which the score times the agreement of merges by halves of the links is the greatest.
2. If that product is below `LEAST_SCORE`, as on grids and among neighbors in a cloud, or if random
   graphs with the same degrees do as well, the components of the graph are its clusters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.sparse import coo_array

from dask_dpmeans.checks import format_beside, format_count
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array, Int64Array, Labels
from dask_dpmeans.kernels.graph_cut.random_graph import Degrees
from dask_dpmeans.kernels.labelings import count_label_pairs
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans.choice import AUTO, EVIDENCE, Alternative, Choice, score
from dask_dpmeans.methods.dpmeans.chooser import CLOSE, HALVINGS, MOST_ALTERNATIVES
from dask_dpmeans.methods.dpmeans.clouds import CLEAR, deviate
from dask_dpmeans.methods.dpmeans.path import Interval
from dask_dpmeans.methods.graph_cut import multilevel, sweep
from dask_dpmeans.methods.graph_cut.parts import Parted

LEAST_SCORE = 1.0
"""Least score times stability for more clusters than the graph has components.  Of 216 graphs of 6
to 20 neighbors in uniform and Gaussian clouds, of 150 and 600 rows in 2, 3 and 5 columns, 3 had at
least this, all in 2 columns."""


@dataclass(frozen=True)
class CutAlternative(Alternative):
    """A number of clusters of nodes, and the penalties, below 0, at which it is best.

    The score is log(low / high) * sqrt(n_clusters), and halves are of the links.
    """

    negative: ClassVar[bool] = True


@dataclass(frozen=True)
class CutChoice(Choice):
    """A chosen penalty of a graph cut: why it was chosen, and what else might be.

    Larger penalties, nearer to 0, give fewer clusters, as for rows.  The evidence is how much more of
    cut + penalty * k the clusters save than clusters of random graphs with the degrees of the nodes, in
    standard deviations of these, times the stability; 0 if it was not needed, because score times
    stability is too low already.  `tried` clusters were merged, and `rows_used` is the number of nodes.
    """

    alternative: ClassVar[type[Alternative]] = CutAlternative
    halved: ClassVar[str] = "links"
    without: ClassVar[str] = "is clear among these links"
    unclustered: ClassVar[str] = "random graphs with the same degrees"
    spread: ClassVar[str] = ""
    shapes: ClassVar[str] = ""

    components: int
    """Number of components of the graph, which are clusters in any case."""

    @property
    def divided(self) -> bool:
        """Whether there are more clusters than components."""
        return self.n_clusters > self.components

    @property
    def reason(self) -> str:
        """Why this number of clusters was chosen, in a sentence or two."""
        if self.divided:
            return super().reason
        if self._stops_short:
            return f"{self._why_components} More than {self.tried:,} clusters were not tried."
        return self._why_components

    @property
    def _why_components(self) -> str:
        """Why there are no more clusters than components."""
        count = format_count(self.n_clusters, "cluster")
        if self.components > 1:
            count += ", the components of the graph"
        further = [each for each in self.alternatives[1:] if each.n_clusters > self.components]
        if not further:
            return f"{count}, because nothing divides the links at any penalty that was tried."
        text = f"{count}. The best division is into {further[0].n_clusters:,}, but "
        products = [each.score * (each.stability or 0.0) for each in self.alternatives]
        if self.components > 1 and products[0] >= max(products):
            return (
                f"{text}its range of penalties is shorter, or halves of the links disagree on it."
            )
        product = products[self.alternatives.index(further[0])]
        if product < LEAST_SCORE:
            figure = format_beside(product, LEAST_SCORE, 2)
            return (
                f"{text}it is the best over a short range of penalties, or halves of the links "
                f"disagree on it: score times stability is {figure}, and {LEAST_SCORE:g} is needed."
            )
        return f"{text}{self._divide_as_well}"

    @property
    def _stops_short(self) -> bool:
        return self.largest < self.tried


FEWEST_GRAPHS, GRAPHS = 4, 16
"""Random graphs are drawn: the first number, and the second if the evidence is within `CLEAR` of
`EVIDENCE`."""
GRAPH_NODES = 2**10
"""Most nodes of a random graph."""


@dataclass(frozen=True)
class RandomGraphJob:
    """The best clusters of a random graph, as a job."""

    method: multilevel.Method
    number: int
    """Number of the graph, which its draw hangs on."""
    penalty: float

    def __call__(self, degrees: Degrees) -> float:
        """Return how much lower cut + penalty * k is."""
        random = stream(self.method.seed, Stream.RANDOM_GRAPHS, self.number)
        graph = InMemoryRows(degrees.draw(random), None)
        found = self.method.inspect(graph)
        return Parted.of(self.method, graph, found, 2 + self.number).parts.saving(self.penalty)


@dataclass(frozen=True)
class AutoCut:
    """A cut whose penalty is chosen from the links."""

    penalties: ClassVar[tuple[str, ...]] = ("penalty",)

    method: multilevel.Method | sweep.Method
    """The fit, at any penalty."""

    def __post_init__(self) -> None:
        if isinstance(self.method, sweep.Method):
            raise InputError(f'penalty must be a number with init="mean", got {AUTO!r}')

    def choose(self, source: Source, seed: int) -> "ChosenCut":
        """Choose a penalty for the graph."""
        method = self.method.seeded(seed)
        assert isinstance(method, multilevel.Method)
        return choose(method, source)


def choose(method: multilevel.Method, source: Source) -> "ChosenCut":
    """Return the method with a penalty for the graph."""
    summary = method.inspect(source)
    found = Parted.of(method, source, summary, 1)
    intervals = found.intervals()
    few, ranked = intervals[-1], candidates(found, intervals)
    close = [each for each in ranked[:MOST_ALTERNATIVES] if score(each) > CLOSE * score(ranked[0])]
    by_halves = compare(found, source, method.seed, [few, *close])
    stability = {each: fits.agreement for each, fits in by_halves.items()}
    chosen, evidence = few, 0.0
    if close:
        chosen = max(close, key=lambda each: score(each) * stability[each])
        ranked.insert(0, ranked.pop(ranked.index(chosen)))
    if chosen != few and score(chosen) * stability[chosen] >= LEAST_SCORE:
        degrees = Degrees.of(summary)
        evidence = stability[chosen] * evidence_of(method, source, degrees, found, chosen.middle)
    if evidence < EVIDENCE:
        chosen = few
    if chosen == few:
        ranked = [few, *(each for each in ranked if each != few)]
    choice = CutChoice(
        alternatives=tuple(
            CutAlternative.of(each, stability.get(each)) for each in ranked[:MOST_ALTERNATIVES]
        ),
        evidence=evidence,
        tried=len(found.parts.masses),
        largest=found.largest,
        rows_used=len(found.node_parts),
        intervals=tuple(intervals),
        components=few.n_clusters,
    )
    return ChosenCut(
        replace(method, penalty=choice.penalty),
        choice,
        found.node_parts,
        by_halves[chosen].labels,
        found.passes + HALVINGS,
    )


class HalfFits(NamedTuple):
    """Clusters of the parts of a graph by halves of its links."""

    labels: tuple[Int64Array, ...]
    """(m,) each, by both halves of each halving."""
    agreement: float
    """Mean adjusted Rand index of the labels by both halves."""


def compare(
    found: Parted, source: Source, seed: int, intervals: Sequence[Interval]
) -> dict[Interval, HalfFits]:
    """Return the clusters by halves of the links at the middle of each interval."""
    halved = [found.halves(source, seed, number) for number in range(HALVINGS)]
    fits = {}
    for each in intervals:
        pairs = [(one.labels(each.middle), other.labels(each.middle)) for one, other in halved]
        agreement = float(np.mean([found.agreement(*pair) for pair in pairs]))
        fits[each] = HalfFits(tuple(half for pair in pairs for half in pair), agreement)
    return fits


def candidates(found: Parted, intervals: Sequence[Interval]) -> list[Interval]:
    """Return the intervals of at least two clusters that may be chosen, by falling score."""
    some = [each for each in intervals if 2 <= each.n_clusters <= found.largest]
    return sorted(some, key=score, reverse=True)


def evidence_of(
    method: multilevel.Method, source: Source, degrees: Degrees, found: Parted, penalty: float
) -> float:
    """Return by how many standard deviations clusters save more than in random graphs.

    If these have fewer nodes, their clusters would save more in proportion.
    """
    some = degrees.sample(GRAPH_NODES, stream(method.seed, Stream.RANDOM_GRAPHS))
    ratio = np.count_nonzero(degrees.links) / np.count_nonzero(some.links)
    ratio /= found.scale
    saved, evidence = found.parts.saving(penalty) / found.scale, 0.0
    drawn: list[float] = []
    for number in (FEWEST_GRAPHS, GRAPHS):
        jobs = [RandomGraphJob(method, each, penalty) for each in range(len(drawn), number)]
        drawn += [-ratio * each for each in source.run(jobs, some, "choose")]
        evidence = deviate(drawn, -saved)
        if abs(evidence - EVIDENCE) > CLEAR:
            break
    return evidence


@dataclass(frozen=True)
class ChosenCut:
    """A cut at a chosen penalty."""

    method: multilevel.Method
    choice: CutChoice
    node_parts: Labels
    """(n,), the part of each node."""
    halves: tuple[Int64Array, ...]
    """Clusters of the parts, (m,) each, by both halves of each halving at the chosen penalty."""
    passes: int
    """Passes of the choice over all links."""

    def choice_after(self, state: multilevel.State) -> CutChoice:
        """Return the choice: a fit leaves it as it is."""
        return self.choice

    def cluster_stability(self, source: Source, state: multilevel.State) -> Float64Array:
        """Return the stability of each cluster of a state, (k,).

        The Jaccard index of two clusters is the number of nodes in both over that in either.  The
        stability is the index with the cluster that is most like it, averaged over halves.
        """
        linked = self.node_parts >= 0
        labels, parts = state.labels[linked].astype(np.int64), self.node_parts[linked]
        best = [most_alike(labels, half[parts]) for half in self.halves]
        return np.asarray(np.mean(best, axis=0))


def most_alike(labels: Int64Array, others: Int64Array) -> Float64Array:
    """Return the greatest Jaccard index of each cluster with one of the others, (k,)."""
    pairs = count_label_pairs(labels, others)
    both = coo_array((pairs.counts, (pairs.first, pairs.second)))
    either = both.sum(axis=1)[pairs.first] + both.sum(axis=0)[pairs.second] - pairs.counts
    best = np.zeros(both.shape[0])
    np.maximum.at(best, pairs.first, pairs.counts / either)
    return best
