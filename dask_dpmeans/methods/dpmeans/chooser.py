"""The choice of a penalty, and so of a number of clusters, from the rows alone.

Each number of clusters k is best over an interval of penalties, as a price.  On a cloud without
clusters these intervals shrink like 1 / k, and by chance some are longer.  So two rules choose:

1. The interval with the greatest log(high / low) * sqrt(k) is chosen; of several with close scores,
   the one for which the score times the agreement of fits of halves of the rows is the greatest.
   Halves agree if they have as many clusters over the same penalties, and the same clusters.
   Many more clusters are looked at by splits alone, and compared too if one number stands out.
2. If uniform clouds with the covariance of the rows do as well, or halves of the rows do not agree
   on the clusters, there are none: k = 1.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.center_path import CenterPath, center_path
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.kernels.labelings import count_label_pairs
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.common import check_squares
from dask_dpmeans.methods.dpmeans.choice import AUTO, EVIDENCE, Alternative, Choice, score
from dask_dpmeans.methods.dpmeans.clouds import Figures, UniformClouds, deviate_from_clouds
from dask_dpmeans.methods.dpmeans.path import Interval, Solution, best, envelope, summary_of

SUMMARY_ROWS, SUMMARY_NUMBERS = 6144, 2**15
"""Rows of a summary of many rows, about; up to twice as many if they are at most so many numbers.
Up to twice as many rows are their own summary.

Of nine sets of 15,000 to 30,000 rows in 2 columns, of 100 blobs that overlap, with four seeds each,
12,288 rows chose 81 to 100 clusters; 6,144 rows chose 1 to 67 on 7 of 36."""
FEWEST_TRIED, CLUSTERS_BY_ROOT, ROWS_A_CLUSTER, MOST_BY_ROWS = 10, 2, 8, 192
"""Numbers of clusters are tried up to the greatest of this number, this many times the root of the
rows, and the number of which each has so many rows, or the last if that is less."""
REFINED = 0.8
"""Share of the numbers tried that may be chosen: those after have not been compared with more."""
ROWS_A_SMALL_CLUSTER, MOST_LOOKED_AT, MOST_NUMBERS = 4, 1536, 2**24
"""Further numbers of clusters are looked at by splits alone, up to the greatest of which each has so
many rows, and at most so many; the centers of all have at most so many numbers, if more than those
that are tried anyway."""
STANDS_OUT = 8.0
"""Least score of a further number of clusters.  17 kinds of rows without so many clusters, with 400,
1,000 and 3,000 rows, had scores of up to 6.0; 300 to 1,000 separate clusters had 24 to 54."""
CLEARLY, REPLICATED = 4.0, 0.25
"""... or this many times the best score of the others if that is more, and the least share of its
range over which halves of the rows have as many.  Groups of clusters scored 8 to 15 where all
clusters scored up to 25; 784 cells of rounded columns were replicated over none of their range."""
BEYOND = 1.5
"""Numbers up to this many times a further one that stands out are tried."""
FLOOR = 1e-9
"""The lowest penalty, as a share of the squared error of one cluster: rows that are all at a few
points have intervals without a lower end."""
TURNS = 1
"""Ways down by merges, and up again by splits, after the first splits.  On 18 sets, five more took
1.4 to 3 times as long, and changed the number of clusters with the best score on none."""
CLOUD_ROWS, CLOUD_ROWS_A_CLUSTER, MOST_CLOUD_ROWS = 2**10, 40, 40 * MOST_BY_ROWS
"""Most rows of a cloud, or most rows for each cluster if that is more, and most rows of any cloud."""
CLOSE, MOST_CLOSE = 0.5, 16
"""Intervals with more than this share of the best score, and at most so many, compete by how well
halves agree on them too."""
ONE_IN = 40
"""Halves have as many clusters as all rows if the numbers differ by at most one in so many."""
HALVINGS, HALF_TRIED = 2, 1.25
"""Times that the rows are split into two halves, and the share of the number of clusters that is
fitted to a half."""
MOST_DRAWN = 2**53
"""Weights from here on are not divided among halves."""
MOST_ALTERNATIVES = 5
"""Numbers of clusters in `Choice.alternatives`."""
NUMBER_COPIES = 7
"""Copies of the summary, and of the centers of all numbers of clusters, that a choice holds at once.
200 rows of 20,000 columns took 1.2 GB, 7.2 times their numbers."""
NO_QUESTION = 2**33
"""Bytes that a choice may take without a look at the memory that is there."""
Halves = tuple[Float64Array, ...]
"""Centers, (k', d) each, of fits of halves of the rows."""


@dataclass(frozen=True)
class Chosen:
    """A choice, and what the stability of its clusters is measured by."""

    choice: Choice
    halves: Halves
    """Fits of both halves of each halving at the chosen penalty."""
    centers: tuple[Float64Array, ...]
    """Centers of each alternative on the summary, (k, d) each."""
    passes: int
    """Passes over all rows."""


def choose(
    source: Source, seed: int, *, flat: Callable[[Float64Array], Float64Array] | None = None
) -> Chosen:
    """Choose a penalty for the rows, a price.

    The rows themselves choose, or a coreset if there are many (`summary_rows`).  Fits of halves
    run at the same time if there are workers or threads.  `flat` maps the summary, (n, d), to
    rows whose squared distances are about their costs, (n, m).
    """
    check_room(source)
    rows, whole = choice_summary(source, seed)
    if flat is not None:
        rows = InMemoryRows(flat(rows.rows.astype(np.float64)), rows.weights)
    chosen = choose_from(source, rows, ChoiceParameters(seed, spherical=False))
    return replace(chosen, passes=1 if whole else 3)


def summary_rows(n: int, d: int) -> int:
    """Return about how many of n rows in d columns choose: all of them, or so many in a coreset."""
    if n <= 2 * SUMMARY_ROWS:
        return n
    return min(2 * SUMMARY_ROWS, max(SUMMARY_ROWS, SUMMARY_NUMBERS // d))


def choice_summary(source: Source, seed: int) -> tuple[InMemoryRows, bool]:
    """Return the rows that choose, and whether they are all rows with weight."""
    n = source.plan.n_rows
    size = summary_rows(n, len(source.summary.sums))
    return summary_of(source, size, seed, whole=2 * SUMMARY_ROWS)


def check_room(source: Source) -> None:
    """Refuse rows of so many columns that a choice from their summary does not fit in memory.

    Raises
    ------
    InputError
        The summary is dense, and the centers of each number of clusters that is tried are, too.
    """
    d = len(source.summary.sums)
    rows = summary_rows(source.plan.n_rows, d)
    size = choice_bytes(rows, d)
    room = getattr(source, "room", math.inf)  # of rows in memory for a job, nothing is known
    if size > max(room, NO_QUESTION):
        raise InputError(
            f"the penalty {AUTO!r} compares clusterings of {rows:,} dense rows of {d:,} columns, which "
            f"takes about {size / 2**30:,.0f} GiB, more than the {room / 2**30:,.0f} GiB that are free: "
            "give the penalty as a number, or fewer columns, such as those that vary most"
        )


def choice_bytes(rows: int, d: int) -> int:
    """Return about how many bytes a choice from a summary of so many rows of d columns takes."""
    most = max(
        FEWEST_TRIED,
        CLUSTERS_BY_ROOT * math.isqrt(rows),
        min(rows // ROWS_A_CLUSTER, MOST_BY_ROWS),
        most_looked_at(rows, d),
    )
    return 8 * d * NUMBER_COPIES * (3 * rows + most * (most + 1) // 2)


def most_looked_at(rows: int, d: int) -> int:
    """Return the greatest further number of clusters of a summary of so many rows of d columns.

    >>> most_looked_at(1000, 2), most_looked_at(12_288, 2), most_looked_at(6_144, 784)
    (250, 1536, 206)
    """
    return min(rows // ROWS_A_SMALL_CLUSTER, MOST_LOOKED_AT, math.isqrt(2 * MOST_NUMBERS // d))


def choose_from(source: Source, rows: InMemoryRows, parameters: "ChoiceParameters") -> Chosen:
    """Choose a penalty from a summary, with the workers of a source and no pass over its rows."""
    check_squares(rows.summary)
    near, further = _try_numbers(source, rows, parameters)
    if further is not None:
        found = _choose_among(source, rows, parameters, further)
        if _stands_out(found.choice.chosen, near):
            return found
    return _choose_among(source, rows, parameters, near)


def _try_numbers(
    source: Source, rows: InMemoryRows, parameters: "ChoiceParameters"
) -> "tuple[TriedIntervals, TriedIntervals | None]":
    """Return the intervals of the numbers tried at first, and with further ones, if one stands out."""
    jobs = [IntervalsJob(parameters), IntervalsJob(parameters, further=True)]
    tried, looked = source.run(jobs, rows, "choose")
    n_tried = max(tried.n_tried, looked.n_tried)
    near, least = replace(tried, n_tried=n_tried), _least_score(tried)
    further = [each for each in looked.ranked if each.n_clusters > tried.largest]
    if not further or score(further[0]) < least:
        return near, None
    most = min(n_tried, math.ceil(BEYOND * further[0].n_clusters))
    tried = source.run([IntervalsJob(parameters, most)], rows, "choose")[0]
    return near, replace(tried, n_tried=n_tried)


def _least_score(near: "TriedIntervals") -> float:
    """Return the least score of a further number of clusters."""
    return max([STANDS_OUT, *(CLEARLY * score(each) for each in near.ranked[:1])])


def _stands_out(chosen: Alternative, near: "TriedIntervals") -> bool:
    """Return whether a chosen number of clusters is further than the near ones, and clearly better."""
    return (
        chosen.n_clusters > near.largest
        and chosen.score >= _least_score(near)
        and (chosen.replicated or 0.0) >= REPLICATED
    )


def _choose_among(
    source: Source, rows: InMemoryRows, parameters: "ChoiceParameters", tried: "TriedIntervals"
) -> Chosen:
    """Choose one of the numbers of clusters that were tried."""
    one, ranked, evidence = tried.one, list(tried.ranked), 0.0
    close = [each for each in ranked[:MOST_CLOSE] if score(each) > CLOSE * score(ranked[0])]
    halvings = [HalvesJob(parameters, number, (one, *close)) for number in range(HALVINGS)]
    halved = source.run(halvings, rows, "choose")
    compared = {each: _compared(each, place, halved) for place, each in enumerate((one, *close))}
    if close:
        first = max(close, key=lambda each: compared[each].merit)
        ranked.insert(0, ranked.pop(ranked.index(first)))
        differ = source.run([EvidenceJob(parameters, first.n_clusters)], rows, "choose")[0]
        evidence = differ * max(compared[first].stability or 0.0, 0.0)
    if evidence < EVIDENCE:
        ranked.insert(0, one)
    ranked = _shown(ranked, compared)
    alternatives = tuple(compared.get(each) or Alternative.of(each, None) for each in ranked)
    place = (one, *close).index(ranked[0])
    halves = tuple(fits[place] for each in halved for fits in each.centers)
    figures = tried.n_tried, tried.largest, tried.n_rows, tried.intervals or (one,)
    choice = Choice(alternatives, evidence, *figures)
    return Chosen(choice, halves, tuple(tried.centers[each.n_clusters] for each in ranked), 0)


def _shown(ranked: list[Interval], compared: Mapping[Interval, Alternative]) -> list[Interval]:
    """Return the first intervals, with the best but the chosen one by merit as the last if need be."""
    shown = ranked[:MOST_ALTERNATIVES]
    others = [each for each in ranked[1:] if each in compared and each.n_clusters > 1]
    if len(ranked) > MOST_ALTERNATIVES and others:
        second = max(others, key=lambda each: compared[each].merit)
        if second not in shown:
            shown[-1] = second
    return shown


def _compared(interval: Interval, place: int, halved: Sequence["HalfFits"]) -> Alternative:
    """Return the number of clusters of an interval with what halves say of it."""
    stability = float(np.mean([each.agreement[place] for each in halved]))
    replicated = float(np.mean([each.replicated[place] for each in halved]))
    return Alternative.of(interval, stability, replicated)


@dataclass(frozen=True)
class ChoiceParameters:
    """Parameters of a choice."""

    seed: int
    spherical: bool
    """Whether centers are directions, as for the metric "cosine"."""
    length: float = 1.0
    """Length of rows and centers, if centers are directions."""

    def summary(self, rows: InMemoryRows) -> "Summary":
        """Return the summary of rows; equal rows become one with the sum of their weights."""
        values, numbers = np.unique(rows.rows.astype(np.float64) + 0.0, axis=0, return_inverse=True)
        given = np.ones(len(rows.rows)) if rows.weights is None else rows.weights
        weights = np.bincount(numbers.ravel(), given).astype(np.float64)
        return Summary(
            np.ascontiguousarray(values), weights, self.spherical, self.seed, self.length
        )


@dataclass(frozen=True)
class TriedIntervals:
    """The intervals of all numbers of clusters that were tried."""

    n_tried: int
    largest: int
    """The greatest number of clusters that may be chosen."""
    n_rows: int
    """Number of different rows."""
    one: Interval
    """The interval of one cluster."""
    ranked: tuple[Interval, ...]
    """Intervals of at least two clusters that may be chosen, by falling score."""
    intervals: tuple[Interval, ...]
    """All intervals, rising."""
    centers: dict[int, Float64Array]
    """Centers, (k, d), of one cluster and of the intervals with the best scores, by k."""


@dataclass(frozen=True)
class IntervalsJob:
    """Clusterings of a summary into 1, 2, ... clusters, as a job."""

    parameters: ChoiceParameters
    most: int | None = None
    """The greatest number of clusters that is tried; None for the one of the summary."""
    further: bool = False
    """Whether further numbers are looked at, by splits alone."""

    def __call__(self, rows: InMemoryRows) -> TriedIntervals:
        """Return the intervals at which they are best."""
        summary = self.parameters.summary(rows)
        most = self.most or summary.most_tried
        if self.further:
            most = summary.most_looked_at if summary.most_looked_at > most else 1
        path = summary.path(most, turns=0 if self.further else TURNS)
        one, ranked = _one_cluster(path), summary.candidates(path, most)
        found = solutions_of(path)
        centers = {
            each.n_clusters: best(found, each.middle).centers
            for each in [one, *ranked[:MOST_CLOSE]]
        }
        return TriedIntervals(
            n_tried=len(path.inertias),
            largest=summary.largest(path, most),
            n_rows=len(summary.rows),
            one=one,
            ranked=tuple(ranked),
            intervals=tuple(intervals_of(path)),
            centers=centers,
        )


@dataclass(frozen=True)
class HalfFits:
    """Fits of both halves of a summary."""

    centers: tuple[tuple[Float64Array, ...], ...]
    """Centers, (k, d), of each half at the middle of each interval."""
    agreement: tuple[float, ...]
    """Adjusted Rand index of the labels that both halves give to all rows, for each interval."""
    replicated: tuple[float, ...]
    """Mean share of each interval over which the halves have as many clusters."""


@dataclass(frozen=True)
class HalvesJob:
    """Fits of both halves of a summary, as a job."""

    parameters: ChoiceParameters
    number: int
    """Number of the halving, which the draw of the halves hangs on."""
    intervals: tuple[Interval, ...]

    def __call__(self, rows: InMemoryRows) -> HalfFits:
        """Return the fits at the middle of each interval."""
        summary = self.parameters.summary(rows)
        k = max(each.n_clusters for each in self.intervals)
        most = max(FEWEST_TRIED, math.ceil(HALF_TRIED * k))
        halves = [summary.fit_half(part, most) for part in summary.parts(self.number)]
        centers = [
            tuple(best(half, each.middle).centers for each in self.intervals) for half in halves
        ]
        agreement = [summary.agreement(*pair) for pair in zip(*centers, strict=True)]
        ranges = [envelope(half) for half in halves]
        shares = [np.mean([replicated(each, ends) for ends in ranges]) for each in self.intervals]
        return HalfFits(tuple(centers), tuple(agreement), tuple(map(float, shares)))


@dataclass(frozen=True)
class EvidenceJob:
    """The evidence for k clusters, as a job."""

    parameters: ChoiceParameters
    k: int

    def __call__(self, rows: InMemoryRows) -> float:
        """Return by how many standard deviations they differ from clusters of uniform clouds."""
        return self.parameters.summary(rows).evidence(self.k)


@dataclass(frozen=True)
class Summary:
    """Different rows in memory, in lexicographic order, and their weights."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""
    spherical: bool
    """Whether centers are directions, as for the metric "cosine"."""
    seed: int
    length: float = 1.0
    """Length of rows and centers, if centers are directions."""

    @property
    def count(self) -> float:
        """Number of rows that the weights stand for: their sum, if they are numbers of rows.

        Otherwise the effective number of Kish 1965: as many equal weights vary as little.
        """
        weight = float(self.weights.sum())
        if self._counted:
            return weight
        return weight**2 / float((self.weights**2).sum())

    @cached_property
    def _counted(self) -> bool:
        """Whether the weights are numbers of rows."""
        return bool((self.weights == np.rint(self.weights)).all())

    @property
    def most_tried(self) -> int:
        """The greatest number of clusters that is tried, if so many rows differ."""
        by_root = math.ceil(CLUSTERS_BY_ROOT * math.sqrt(self.count))
        by_rows = min(int(self.count / ROWS_A_CLUSTER), MOST_BY_ROWS)
        return max(FEWEST_TRIED, min(len(self.rows), max(by_root, by_rows)))

    @property
    def most_looked_at(self) -> int:
        """The greatest number of clusters that is tried or looked at by splits alone."""
        n, d = self.rows.shape
        return max(self.most_tried, most_looked_at(int(min(n, self.count)), d))

    def path(self, most: int, turns: int = TURNS) -> CenterPath:
        """Return clusterings with up to `most` clusters."""
        if self.length == 1:
            return center_path(self.rows, self.weights, most, self.spherical, turns)
        found = center_path(self.rows / self.length, self.weights, most, self.spherical, turns)
        centers = tuple(self.length * each for each in found.centers)
        return CenterPath(self.length**2 * found.inertias, centers)

    def candidates(self, path: CenterPath, tried: int) -> list[Interval]:
        """Return the intervals of at least two clusters that may be chosen, by falling score."""
        if FLOOR * path.inertias[0] == 0:  # less than any number but 0
            return []
        most = self.largest(path, tried)
        found = [each for each in intervals_of(path) if 2 <= each.n_clusters <= most]
        return sorted(found, key=score, reverse=True)

    def largest(self, path: CenterPath, tried: int) -> int:
        """Return the greatest number of clusters that may be chosen."""
        found = len(path.inertias)
        if found < tried and path.inertias[-1] <= FLOOR * path.inertias[0]:  # no more rows differ
            return int(self.count / 2)
        return int(REFINED * found)

    def evidence(self, k: int) -> float:
        """Return by how many standard deviations k clusters of the rows differ from uniform clouds.

        The clouds are `UniformClouds`.  The deviates of the logarithm of the squared error and of
        the best score are added.  The clouds and the rows are split alike, without merges.
        """
        tried = min(self.most_tried, max(FEWEST_TRIED, 2 * k))
        if k > REFINED * tried:
            tried = math.ceil(k / REFINED)
        return deviate_from_clouds(
            self._figures(k, tried), lambda number: self._cloud(k, number)._figures(k, tried)
        )

    def _figures(self, k: int, tried: int) -> Figures:
        """Return the logarithm of the share of the error that k clusters leave, and the best score."""
        path = self.path(min(tried, len(self.rows)), turns=0)
        scores = map(score, self.candidates(path, tried))
        left = path.inertias[min(k, len(path.inertias)) - 1] / path.inertias[0]
        return math.log(max(left, FLOOR)), max(scores, default=0.0)

    def _cloud(self, k: int, number: int) -> "Summary":
        """Return a uniform cloud with the covariance of the rows."""
        most = min(max(CLOUD_ROWS, CLOUD_ROWS_A_CLUSTER * k), MOST_CLOUD_ROWS)
        n = max(k + 1, self._clouds.least_rows, int(min(self.count, most)))
        rows = self._clouds.draw(n, stream(self.seed, Stream.UNIFORM_CLOUDS, number))
        return ChoiceParameters(self.seed, self.spherical).summary(InMemoryRows(rows, None))

    @cached_property
    def _clouds(self) -> UniformClouds:
        return UniformClouds(self.rows / self.length, self.weights, self.spherical)

    def parts(self, number: int) -> list[Float64Array]:
        """Return the weights, (n,), of the rows in each half that has any.

        Of a row that stands for several, each goes its own way.
        """
        random, n = stream(self.seed, Stream.HALVES, number), len(self.rows)
        if self._counted and self.weights.max() < MOST_DRAWN:
            first = random.binomial(self.weights.astype(np.int64), 0.5).astype(np.float64)
        else:
            first = np.where(random.permutation(n) < n / 2, self.weights, 0.0)
        return [part for part in (first, self.weights - first) if part.any()]

    def fit_half(self, part: Float64Array, most: int) -> list[Solution]:
        """Return clusters of the rows with some weight in a half, doubled."""
        some = part > 0
        half = replace(self, rows=self.rows[some], weights=2 * part[some])
        return solutions_of(half.path(min(most, len(half.rows))))

    def agreement(self, *fits: Float64Array) -> float:
        """Return the adjusted Rand index of the labels by two sets of centers."""
        labels = [nearest(self.rows, Centers(each)).astype(np.int64) for each in fits]
        if len(labels) == 1:
            return 1.0
        return count_label_pairs(*labels).adjusted_rand


def replicated(interval: Interval, others: Sequence[Interval]) -> float:
    """Return the share of an interval over which other rows have as many clusters.

    `others` are all intervals of the other rows.
    """
    k, length = interval.n_clusters, 0.0
    for each in others:
        low, high = max(each.low, interval.low), min(each.high, interval.high)
        if abs(each.n_clusters - k) <= k // ONE_IN and low < high:
            length += math.log(high / low)
    return min(length / interval.length, 1.0) if interval.length else 1.0


def solutions_of(path: CenterPath) -> list[Solution]:
    return [Solution(*pair) for pair in zip(path.centers, path.inertias.tolist(), strict=True)]


def intervals_of(path: CenterPath) -> list[Interval]:
    """Return the intervals of penalties, rising, down to a share of the error of one cluster."""
    most = float(path.inertias[0])
    return envelope(solutions_of(path), FLOOR * most, 2 * most)


def _one_cluster(path: CenterPath) -> Interval:
    """Return the penalties up to twice the greatest at which any clusters save as much."""
    if FLOOR * path.inertias[0] == 0:
        return Interval(1, 1.0, 1.0)
    return intervals_of(path)[-1]
