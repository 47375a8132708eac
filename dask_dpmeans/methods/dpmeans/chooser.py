"""The choice of a penalty, and so of a number of clusters, from the rows alone.

Each number of clusters k is best over an interval of penalties, as a price.  On a cloud without
clusters these intervals shrink like 1 / k, and by chance some are longer.  So two rules choose:

1. The interval with the greatest log(high / low) * sqrt(k) is chosen; of several with close scores,
   the one for which the score times the agreement of fits of halves of the rows is the greatest.
   Halves agree if they have as many clusters over the same penalties, and the same clusters.
   Many more clusters are looked at by splits alone, of one cluster in 20 at once, and compared too if
   one number stands out.
   Of clusters that are too many for a summary, a part of the rows chooses (`near_rows`).
2. If uniform clouds with the covariance of the rows do as well, or clouds of independent columns with
   one mode each, or halves of the rows do not agree on the clusters, there are none: k = 1.  But
   clusters with gaps between all of them are clusters (`apart`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Answer, Source
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.common import check_squares
from dask_dpmeans.methods.dpmeans.apart import ApartJob
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE, Alternative, Choice, score
from dask_dpmeans.methods.dpmeans.clouds import FEWEST_CLOUDS, MOST_EVIDENCE
from dask_dpmeans.methods.dpmeans.evidence import EvidenceJob, measure_evidence
from dask_dpmeans.methods.dpmeans.near_rows import SmallClustersFit, SmallClustersJob, larger_sample
from dask_dpmeans.methods.dpmeans.path import Interval, envelope
from dask_dpmeans.methods.dpmeans.summary import (
    FEWEST_TRIED,
    LOOK_STRIDE,
    ChoiceParameters,
    Summary,
    check_room,
    choice_summary,
    interval_of_one,
    intervals_of,
    solutions_of,
    summary_rows,
)

STANDS_OUT = 8.0
"""Least score of a further number of clusters.  186 draws of 12 kinds of rows without clusters, with 400,
1,000 and 3,000 rows, had scores of up to 6.3; 250 to 1,000 clusters, whose centers are 5 to 12 standard
deviations apart, had 12.6 to 90."""
CLEARLY, REPLICATED = 4.0, 0.25
"""... or this many times the best score of the others if that is more, and the least share of its
range over which halves of the rows have as many.  Groups of clusters scored 8 to 15 where all
clusters scored up to 25; 784 cells of rounded columns were replicated over none of their range."""
ENOUGH = 16
"""Rows of a summary for each cluster of a further number, or a sample is looked at for small clusters.
Halves of 6,085 rows had as many clusters over .95, 1.0, .14 and .005 of the range of 500, 600, 747 and
995 balls in 8 columns; 500 came out as 499."""
BEYOND = 1.5
"""Numbers up to this many times a further one that stands out are tried."""
CLOSE, MOST_CLOSE = 0.5, 16
"""Intervals with more than this share of the best score, and at most so many, compete by how well
halves agree on them too."""
ONE_IN = 40
"""Halves have as many clusters as all rows if the numbers differ by at most one in so many."""
HALVINGS, HALF_TRIED = 2, 1.25
"""Times that the rows are split into two halves, and the share of the number of clusters that is
fitted to a half."""
STABLE = 0.95
"""Least adjusted Rand index of fits of halves for clusters that may lie apart."""
FEW_ROWS = 2**10
"""Rows up to which jobs run one after the other: on two threads they took 1.2 times the processor time
for 500 rows, and 1.05 times for 5,000."""
MOST_ALTERNATIVES = 5
"""Numbers of clusters in `Choice.alternatives`."""
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
    return choose_from_summary(source, ChoiceParameters(seed, spherical=False), flat)[0]


def choose_from_summary(
    source: Source,
    parameters: ChoiceParameters,
    flat: Callable[[Float64Array], Float64Array] | None = None,
) -> tuple[Chosen, InMemoryRows]:
    """Choose a penalty from a summary of the rows, and return the summary, too.

    If no number has a high score, or one stands out and the summary has few rows of each, a larger
    sample is looked at for small clusters.  `flat` maps a summary, (n, d), to rows whose squared
    distances are about their costs, (n, m).
    """
    rows, whole = choice_summary(source, parameters.seed)
    summary = _prepared(source, flatten(rows, flat), parameters)
    near, number = _look(source, summary)
    passes, sample = 1 if whole else 3, None
    few = number is not None and not whole and len(rows.rows) < ENOUGH * number
    before = _choose(source, summary, near, None if few else number)
    clear = before.choice.divided and before.choice.chosen.score >= STANDS_OUT
    if few or not (whole or clear):
        sample, more = larger_sample(source, parameters.seed)
        passes += more
    chosen = before
    if sample is not None:
        chosen = _choose_small(source, flatten(sample, flat), parameters, before)
    if few and chosen is before:
        chosen = _choose_further(source, summary, near, number) or before
    return replace(chosen, passes=passes), rows


def choose_from(source: Source, rows: InMemoryRows, parameters: ChoiceParameters) -> Chosen:
    """Choose a penalty from a summary, with the workers of a source and no pass over its rows."""
    summary = _prepared(source, rows, parameters)
    return _choose(source, summary, *_look(source, summary))


def flatten(
    rows: InMemoryRows, flat: Callable[[Float64Array], Float64Array] | None
) -> InMemoryRows:
    """Return rows of a summary, as (n, m), in the space where squared distances are about costs."""
    if flat is None:
        return rows
    return InMemoryRows(flat(rows.rows.astype(np.float64)), rows.weights)


def _prepared(source: Source, rows: InMemoryRows, parameters: ChoiceParameters) -> Summary:
    """Return the summary that the jobs of a choice share."""
    check_squares(rows.summary)
    summary = parameters.summary(rows)
    return source.run([Summary.rotated], summary, "choose")[0] if summary.wide else summary


def _choose(source: Source, summary: Summary, near: "TriedIntervals", number: int | None) -> Chosen:
    """Choose a further number of clusters, if one stands out and is clear, or one tried at first."""
    further = _choose_further(source, summary, near, number)
    return further or _choose_among(source, summary, near)


def _choose_further(
    source: Source, summary: Summary, near: "TriedIntervals", number: int | None
) -> Chosen | None:
    """Choose a further number of clusters, if one stands out and is clear."""
    if number is None:
        return None
    most = min(near.n_tried, math.ceil(BEYOND * number))
    tried = source.run([IntervalsJob(most)], summary, "choose")[0]
    found = _choose_among(source, summary, replace(tried, n_tried=near.n_tried))
    chosen = found.choice.chosen
    clear = chosen.n_clusters > near.largest and chosen.score >= _least_score(near)
    return found if clear and (chosen.replicated or 0.0) >= REPLICATED else None


def _choose_small(
    source: Source, rows: InMemoryRows, parameters: ChoiceParameters, before: Chosen
) -> Chosen:
    """Choose small clusters of a sample of the rows, or what was chosen before.

    A part of the sample chooses their price, if they stand out in it.
    """
    check_squares(rows.summary)
    job = SmallClustersJob(parameters, summary_rows(source.plan.n_rows, rows.rows.shape[1]))
    clusters = source.run([job], rows, "choose")[0]
    if clusters is None:
        return before
    weights = None if rows.weights is None else rows.weights[clusters.part]
    part = InMemoryRows(np.ascontiguousarray(rows.rows[clusters.part]), weights)
    found = choose_from(source, part, parameters).choice
    clear = found.divided and found.chosen.score >= STANDS_OUT
    if not clear or (found.chosen.replicated or 0.0) < REPLICATED:
        return before
    price = found.penalty
    fits = [SmallClustersFit(parameters, price, clusters, half) for half in (None, 0, 1)]
    centers, *halves = source.run(fits, rows, "choose")
    start = 0 if before.choice.divided else 1
    others = slice(start, start + MOST_ALTERNATIVES - 1)
    choice = before.choice.with_small(len(centers), found, len(rows.rows), others)
    best = max((each.score for each in choice.alternatives[1:]), default=0.0)
    if len(centers) <= before.choice.largest or choice.chosen.score < CLEARLY * best:
        return before
    return Chosen(choice, tuple(halves), (centers, *before.centers[others]), before.passes)


def _look(source: Source, summary: Summary) -> "tuple[TriedIntervals, int | None]":
    """Return the intervals of the numbers tried at first, and a further number that stands out."""
    tried, looked = _run(source, [IntervalsJob(), IntervalsJob(further=True)], summary)
    near = replace(tried, n_tried=max(tried.n_tried, looked.n_tried))
    further = [each for each in looked.ranked if each.n_clusters > tried.largest]
    if not further or score(further[0]) < _least_score(tried):
        return near, None
    return near, further[0].n_clusters


def _run(
    source: Source, jobs: "Sequence[Callable[[Summary], Answer]]", summary: Summary
) -> list[Answer]:
    """Return the answers of jobs on a summary, side by side unless it has few rows."""
    if len(summary.rows) > FEW_ROWS:
        return source.run(jobs, summary, "choose")
    return source.run([InTurn(tuple(jobs))], summary, "choose")[0]


def _least_score(near: "TriedIntervals") -> float:
    """Return the least score of a further number of clusters."""
    return max([STANDS_OUT, *(CLEARLY * score(each) for each in near.ranked[:1])])


def _choose_among(source: Source, summary: Summary, tried: "TriedIntervals") -> Chosen:
    """Choose one of the numbers of clusters that were tried."""
    one, ranked, evidence = tried.one, list(tried.ranked), 0.0
    close = [each for each in ranked[:MOST_CLOSE] if score(each) > CLOSE * score(ranked[0])]
    halvings = [HalvesJob(number, (one, *close)) for number in range(HALVINGS)]
    halved = _run(source, halvings, summary)
    compared = {
        each: _alternative_of(each, place, halved) for place, each in enumerate((one, *close))
    }
    apart = False
    if close:
        first = max(close, key=lambda each: compared[each].merit)
        ranked.insert(0, ranked.pop(ranked.index(first)))
        stability = compared[first].stability or 0.0
        if stability * MOST_EVIDENCE >= EVIDENCE:  # otherwise no clouds could give as much
            evidence = _evidence(source, summary, first.n_clusters) * max(stability, 0.0)
        if evidence < EVIDENCE and stability >= STABLE:
            apart = _apart(source, summary, halved, (one, *close).index(first))
    if evidence < EVIDENCE and not apart:
        ranked.insert(0, one)
    ranked = _shown(ranked, compared)
    alternatives = tuple(compared.get(each) or Alternative.of(each, None) for each in ranked)
    place = (one, *close).index(ranked[0])
    halves = tuple(fits[place] for each in halved for fits in each.centers)
    figures = tried.n_tried, tried.largest, tried.n_rows, tried.intervals or (one,)
    choice = Choice(alternatives, evidence, *figures, apart=apart)
    return Chosen(choice, halves, tuple(tried.centers[each.n_clusters] for each in ranked), 0)


def _evidence(source: Source, summary: Summary, k: int) -> float:
    """Return the evidence for k clusters, of clouds side by side unless the summary has few rows."""
    if len(summary.rows) > FEW_ROWS:
        return measure_evidence(source, summary, k, at_once=FEWEST_CLOUDS)
    return source.run([EvidenceJob(k)], summary, "choose")[0]


def _apart(source: Source, summary: Summary, halved: Sequence["HalfFits"], place: int) -> bool:
    """Return whether the clusters of the fits of halves at some place lie apart in each other half."""
    jobs = [
        ApartJob(number, tuple(half[place] for half in fits.centers))
        for number, fits in enumerate(halved)
    ]
    return all(_run(source, jobs, summary))


def _shown(ranked: list[Interval], compared: Mapping[Interval, Alternative]) -> list[Interval]:
    """Return the first intervals, with the best but the chosen one by merit as the last if need be."""
    shown = ranked[:MOST_ALTERNATIVES]
    others = [each for each in ranked[1:] if each in compared and each.n_clusters > 1]
    if len(ranked) > MOST_ALTERNATIVES and others:
        second = max(others, key=lambda each: compared[each].merit)
        if second not in shown:
            shown[-1] = second
    return shown


def _alternative_of(interval: Interval, place: int, halved: Sequence["HalfFits"]) -> Alternative:
    """Return the number of clusters of an interval with what halves say of it."""
    stability = float(np.mean([each.agreement[place] for each in halved]))
    replicated = float(np.mean([each.replicated[place] for each in halved]))
    return Alternative.of(interval, stability, replicated)


@dataclass(frozen=True)
class InTurn(Generic[Answer]):
    """Jobs one after the other, as one job."""

    jobs: tuple[Callable[[Summary], Answer], ...]

    def __call__(self, summary: Summary) -> list[Answer]:
        """Return their answers."""
        return [job(summary) for job in self.jobs]


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

    most: int | None = None
    """The greatest number of clusters that is tried; None for the one of the summary."""
    further: bool = False
    """Whether further numbers are looked at, by splits alone of several clusters at once."""

    def __call__(self, summary: Summary) -> TriedIntervals:
        """Return the intervals at which they are best."""
        most = self.most or summary.most_tried
        if self.further:
            most = summary.most_looked_at if summary.most_looked_at > most else 1
        path = summary.path(most, stride=LOOK_STRIDE if self.further else 0)
        intervals = intervals_of(path)
        one, ranked = interval_of_one(path, intervals), summary.candidates(path, most, intervals)
        centers = {
            each.n_clusters: summary.lift(path.best(each.middle))
            for each in [one, *ranked[:MOST_CLOSE]]
        }
        return TriedIntervals(
            n_tried=path.largest,
            largest=summary.largest(path, most),
            n_rows=len(summary.rows),
            one=one,
            ranked=tuple(ranked),
            intervals=tuple(intervals),
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

    number: int
    """Number of the halving, which the draw of the halves hangs on."""
    intervals: tuple[Interval, ...]

    def __call__(self, summary: Summary) -> HalfFits:
        """Return the fits at the middle of each interval."""
        k = max(each.n_clusters for each in self.intervals)
        most = max(FEWEST_TRIED, math.ceil(HALF_TRIED * k))
        halves = [summary.fit_half(part, most) for part in summary.parts(self.number)]
        centers = [tuple(half.best(each.middle) for each in self.intervals) for half in halves]
        pairs = zip(self.intervals, zip(*centers, strict=True), strict=True)
        agreement = [summary.agreement(*pair, k=each.n_clusters) for each, pair in pairs]
        ranges = [envelope(solutions_of(half)) for half in halves]
        shares = [np.mean([replicated(each, ends) for ends in ranges]) for each in self.intervals]
        lifted = tuple(tuple(map(summary.lift, each)) for each in centers)
        return HalfFits(lifted, tuple(agreement), tuple(map(float, shares)))


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
