"""A chosen penalty: why it was chosen, and what else might be."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from dask_dpmeans.checks import describe_value, format_beside, format_count
from dask_dpmeans.engine.loop import Algorithm
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.methods.dpmeans.path import Interval

EVIDENCE = 3.0
"""Least evidence for more than one cluster.  Of 100 Gaussians, uniform cubes and uniform balls each,
in 2, 5, 10, 20 and 50 columns with 60 and 300 rows, 12 of 200 squares and 1 of 200 disks had more.  Of
400 uniform draws of 1 column, 28 had more with 60 rows, and 25 with 300 rows."""
NEARLY = 0.8
"""Another number of clusters is nearly as good with this share of the chosen one's score times
agreement of halves."""
DOUBTED = 0.8
"""Clusters on which halves agree less are doubtful.  Of 58 labelled sets and 135 drawn sets of balls, seven
had less, and one of these the right number; balls that cover rings had .49 to .72."""
LEADING = 0.995
"""A column leads if it holds at least this share of the squared spread.  Of 74 sets as they are,
only wine (.998) and bavaria1 (1.000), whose units differ, have such a column; birch2 has .991."""
LONGEST = 1e15
"""Numbers of a sentence from here on are written with an exponent."""
AUTO = "auto"
"""The penalty that is chosen from the rows."""


@dataclass(frozen=True)
class Alternative:
    """A number of clusters, and the penalties at which it is best."""

    negative: ClassVar[bool] = False
    """Whether penalties are below 0."""

    n_clusters: int
    penalty: float
    """Geometric mean of `low` and `high`."""
    low: float
    """Penalties below give more clusters."""
    high: float
    """Penalties above give fewer clusters."""
    score: float
    """log(high / low) * sqrt(n_clusters)."""
    stability: float | None
    """Mean adjusted Rand index of fits of two halves of the rows, at this penalty; None if the
    score is not close to the best."""
    replicated: float | None = field(default=None, kw_only=True)
    """Mean share of log(high / low) over which fits of halves of the rows have as many clusters,
    give or take one in 40; None if it was not measured."""

    @property
    def penalties(self) -> dict[str, float]:
        """The parameters of an estimator that prices this number of clusters, by name."""
        return {"penalty": self.penalty}

    @property
    def merit(self) -> float:
        """The score times how well halves of the rows agree, on the range and on the clusters."""
        share = 1.0 if self.replicated is None else self.replicated
        return self.score * (1 + share) / 2 * (self.stability or 0.0)

    @classmethod
    def of(
        cls, interval: Interval, stability: float | None, replicated: float | None = None
    ) -> Self:
        """Return the number of clusters of an interval."""
        found = interval.n_clusters, interval.middle, interval.low, interval.high, score(interval)
        return cls(*found, stability, replicated=replicated)


def _three_digits(value: float) -> str:
    """Return a number with three significant digits, for a sentence.

    >>> _three_digits(6407.3), _three_digits(2.1234e9), _three_digits(64.25), _three_digits(1.5e20)
    ('6,410', '2,120,000,000', '64.2', '1.5e+20')
    """
    digits = f"{value:.3g}"
    return f"{float(digits):,.0f}" if 100 <= value < LONGEST else digits


@dataclass(frozen=True)
class Choice:
    """A chosen penalty: why it was chosen, and what else might be."""

    alternative: ClassVar[type[Alternative]] = Alternative
    halved: ClassVar[str] = "rows"
    """What halves are made of."""
    without: ClassVar[str] = "is clear"
    """What no number of clusters does if there are none."""
    unclustered: ClassVar[str] = "random rows without clusters"
    """What the evidence compares with."""
    spread: ClassVar[str] = ", spread evenly in the same directions or with columns as skewed,"
    """How these are drawn, after their name."""
    shapes: ClassVar[str] = (
        "LinkageDPMeans, or the command shapes, looks for clusters of any shape, by squared distances."
    )
    """What else to try if there may be other clusters than balls; empty if nothing."""

    alternatives: tuple[Alternative, ...]
    """The chosen number of clusters, then the others by falling score."""
    evidence: float
    """Standard deviations by which the rows divide better than random rows without clusters, in inertia
    and score together, times the stability, at the best number of clusters.  Random rows are uniform
    clouds of the same covariance, or independent columns with one mode each.  There are clusters if it
    is at least `EVIDENCE`, or if they lie `apart`; 0 if halves agree so little that it could not be."""
    tried: int
    """Numbers of clusters from 1 to this were tried, those far above `largest` in steps of a twentieth,
    by splits alone; of more clusters, a part of the rows chose."""
    largest: int
    """Numbers of clusters up to this were compared; of larger ones none stands out, or they were
    compared with too few.  It is the chosen number if a part of the rows chose."""
    rows_used: int
    """Number of different rows that chose: of all rows, or of the summary."""
    intervals: tuple[Interval, ...]
    """The penalties at which each number of clusters is best, rising.  The first starts and the
    last ends at a limit of the penalties."""
    apart: bool = field(default=False, kw_only=True)
    """Whether there are clusters with less evidence, as hardly any rows are between them."""
    leading: str | None = field(default=None, kw_only=True)
    """The column, by name or number, that holds nearly all of the squared spread; None if none does."""

    @property
    def chosen(self) -> Alternative:
        """The chosen number of clusters."""
        return self.alternatives[0]

    @property
    def penalty(self) -> float:
        """The chosen penalty, a price."""
        return self.chosen.penalty

    @property
    def penalties(self) -> dict[str, float]:
        """The parameters that were chosen, by name."""
        return self.chosen.penalties

    @property
    def n_clusters(self) -> int:
        """Number of clusters at the chosen penalty."""
        return self.chosen.n_clusters

    @property
    def stability(self) -> float:
        """Mean adjusted Rand index of fits of two halves of the rows at the chosen penalty."""
        assert self.chosen.stability is not None
        return self.chosen.stability

    @property
    def divided(self) -> bool:
        """Whether there are clusters."""
        return self.n_clusters > 1

    @property
    def headline(self) -> str:
        """The chosen number of clusters and why, in a few words."""
        count = format_count(self.n_clusters, "cluster")
        if not self.divided:
            return f"{count}: no other number {self.without}"
        if self.apart:
            return f"{count}: hardly any rows are between them"
        if self.chosen.score >= max(
            each.score for each in self.alternatives if each.n_clusters > 1
        ):
            return f"{count}: the highest score"
        return f"{count}: a high score, and halves of the {self.halved} agree more"

    @property
    def nearly_as_good(self) -> Alternative | None:
        """The next number of clusters by merit, if nearly as good; None if not."""
        others = [each for each in self.alternatives[1:] if each.stability is not None]
        if not self.divided or not others:
            return None
        second = max(others, key=lambda each: each.merit)
        return second if second.merit >= NEARLY * self.chosen.merit else None

    def next_best(self, n_clusters: int) -> Alternative | None:
        """Return the next alternative to a fit with `n_clusters`; None if no other number is there."""
        known = self.n_clusters, n_clusters
        ranked = [self.nearly_as_good, *self.alternatives]
        others = (each for each in ranked if each is not None and each.n_clusters not in known)
        return next(others, None)

    @property
    def unclear(self) -> bool:
        """Whether a person should look at the reason before the clusters."""
        return self.nearly_as_good is not None or self.leading is not None

    @property
    def doubtful(self) -> bool:
        """Whether halves agree little on the clusters."""
        agreed = self.chosen.stability
        return self.divided and agreed is not None and agreed < DOUBTED

    @property
    def reason(self) -> str:
        """Why this number of clusters was chosen, and what to look at first, in a few sentences."""
        if self.leading is None:
            return self._why
        return (
            f"{self._why} Column {self.leading} holds nearly all of the squared spread, so that the "
            "others hardly count: if their units differ, divide each by its standard deviation, with "
            "scale='std' of fit, --scale std, or scikit-learn's StandardScaler."
        )

    @property
    def _why(self) -> str:
        """Why this number of clusters was chosen, in a sentence or two."""
        if not self.divided:
            return self._why_one
        chosen = self.chosen
        if self.of_part:
            return self._why_small
        if chosen.n_clusters == self.rows_used and not chosen.negative:
            return f"{chosen.n_clusters:,} clusters, because only so many rows differ: each is one."
        grows = f"grows {_three_digits(chosen.high / chosen.low)} times"
        if chosen.negative:
            grows = f"shrinks {_three_digits(chosen.low / chosen.high)} times"
        text = (
            f"{chosen.n_clusters:,} clusters stay the best while the penalty {grows}, from "
            f"{_three_digits(chosen.low)} to {_three_digits(chosen.high)}. Larger numbers have shorter "
            "ranges; allowing for that, "
        )
        longest = max(self.alternatives, key=lambda each: each.score)
        if longest.score > chosen.score:
            count = format_count(longest.n_clusters, "cluster")
            text += f"{count} would stay longer, but halves of the {self.halved} "
            if (longest.stability or 0.0) < (chosen.stability or 0.0):
                text += "agree less on them."
            else:
                text += "have as many over less of that range."
        else:
            text += f"no other number up to {self.largest:,} stays as long."
        second = self.nearly_as_good
        if second is not None:
            penalty = _three_digits(second.penalty)
            count = format_count(second.n_clusters, "cluster")
            text += f" Nearly as good: {count}, at penalty {penalty}."
        text += f" {self._how_sure}"
        if chosen.n_clusters > self.tried / 2 and self._stops_short:
            text += f" More than {self.tried:,} clusters were not tried."
        return text

    @property
    def _how_sure(self) -> str:
        """How sure the clusters are, and what to try if they are not."""
        little = " little" if self.doubtful else ""
        text = (
            f"Fits of halves of the {self.halved} agree{little} on the {self.n_clusters:,} clusters "
            f"(adjusted Rand index {self.agreement})"
        )
        if self.doubtful:
            return f"{text}, so they may be there by chance. {self.shapes}".rstrip()
        if self.apart:
            return (
                f"{text}. {self.unclustered.capitalize()} divide about as well: {self._better}. But "
                "hardly any rows are between these clusters."
            )
        return f"{text}. {self.unclustered.capitalize()} divide less well: {self._better}."

    @property
    def agreement(self) -> str:
        """The rounded adjusted Rand index of halves; it is below `DOUBTED` if the index is."""
        return format_beside(self.stability, DOUBTED, 2)

    @property
    def _better(self) -> str:
        """How much better the data divides than data without clusters."""
        figure = format_beside(self.evidence, EVIDENCE, 1)
        return (
            f"times the agreement of halves, the difference is {figure} standard deviations, and "
            f"{EVIDENCE:g} are needed"
        )

    @property
    def _divide_as_well(self) -> str:
        """That data without clusters divides about as well, or better."""
        about = "at least" if self.evidence < 0 else "about"
        return f"{self.unclustered}{self.spread} divide {about} as well: {self._better}."

    def with_small(self, k: int, of_part: "Choice", n_rows: int, others: slice) -> Self:
        """Return the choice of k clusters, at the penalty that a part of so many rows chose.

        Of the alternatives, `others` stay.
        """
        chosen = of_part.chosen
        interval = Interval(k, chosen.low, chosen.high)
        first = replace(chosen, n_clusters=k, score=score(interval))
        return replace(
            self,
            alternatives=(first, *self.alternatives[others]),
            evidence=of_part.evidence,
            apart=of_part.apart,
            tried=self.largest,
            largest=k,
            rows_used=n_rows,
            intervals=(interval, *(each for each in self.intervals if each.low >= interval.high)),
        )

    @property
    def of_part(self) -> bool:
        """Whether a part of the rows chose, as clusters are more than were tried."""
        return self.n_clusters > self.tried

    @property
    def _why_small(self) -> str:
        """Why more clusters than were tried were chosen."""
        chosen = self.chosen
        return (
            f"{chosen.n_clusters:,} clusters: of a sample of {self.rows_used:,} rows, nearly each has few "
            "others near, and all others are much farther. In a part of the sample, clusters like these "
            f"stay the best while the penalty grows {_three_digits(chosen.high / chosen.low)} times, from "
            f"{_three_digits(chosen.low)} to {_three_digits(chosen.high)}, and no other number there stays "
            "as long."
        )

    def explain(self, n_clusters: int) -> str:
        """Return the reason, and the number of clusters of the fit if it is another one."""
        if not self.unlike(n_clusters):
            return self.reason
        return f"{self.reason} {self.differs(n_clusters)}"

    def unlike(self, n_clusters: int) -> bool:
        """Return whether a fit has another number of clusters than was chosen."""
        return n_clusters != self.n_clusters

    def differs(self, n_clusters: int) -> str:
        """Return a sentence about a fit with another number of clusters."""
        count = format_count(n_clusters, "cluster")
        return (
            f"At the chosen penalty the fit has {count}, not {self.n_clusters:,}: its search, of "
            "all rows, ended elsewhere than the search that chose."
        )

    @property
    def _stops_short(self) -> bool:
        """Whether clusters that may be best were not tried."""
        return self.tried < self.rows_used

    @property
    def _why_one(self) -> str:
        """Why one cluster was chosen."""
        if self.rows_used == 1:
            return "1 cluster, because all rows are equal."
        if len(self.alternatives) == 1:
            return "1 cluster, because too few rows differ for more."
        best = self.alternatives[1]
        if self.evidence == 0 and best.stability is not None:
            why = (
                f"fits of halves of the {self.halved} do not agree on it: their adjusted Rand index is "
                f"{best.stability:z.2f}."
            )
        else:
            why = self._divide_as_well
        best_number = f"1 cluster. The best division is into {best.n_clusters:,}"
        return f"{best_number}, but {why} {self.shapes}".rstrip()

    def as_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        intervals = [each._asdict() for each in self.intervals]
        return asdict(self) | {
            "alternatives": [asdict(each) for each in self.alternatives],
            "intervals": intervals,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the choice that JSON holds; an error names what is wrong."""
        alternatives = tuple(cls.alternative(**each) for each in given["alternatives"])
        if not alternatives:
            raise ValueError("choice.alternatives cannot be empty")
        intervals = tuple(Interval(**each) for each in given["intervals"])
        found = cls(**{**given, "alternatives": alternatives, "intervals": intervals})
        for each in (found, *alternatives):
            for name, value in vars(each).items():
                if name not in ("alternatives", "intervals") and not cls._fits(name, value):
                    raise ValueError(f"choice.{name} cannot be {describe_value(value)}")
        return found

    @classmethod
    def _fits(cls, name: str, value: Any) -> bool:
        """Return whether a field of a choice or of an alternative can have a value."""
        if name == "apart":
            return isinstance(value, bool)
        if name in ("n_clusters", "tried", "rows_used", "components"):
            return type(value) is int and value > 0
        if name == "largest":  # of one row
            return type(value) is int and value >= 0
        if name in ("stability", "replicated", "leading") and value is None:
            return True
        if name == "leading":
            return isinstance(value, str)
        known = type(value) in (int, float) and math.isfinite(value)
        if known and name in ("penalty", "low", "high"):
            known = value < 0 if cls.alternative.negative else value > 0
        return known


class CostChoice(Choice):
    """A choice for rows with other costs than squared distances, such as tables with missing values.

    `LinkageDPMeans` does not take such rows.
    """

    shapes: ClassVar[str] = ""


def leading_column(source: Source) -> str | None:
    """Return the column, by name or number, with nearly all of the squared spread; None if none has.

    Constant columns do not count, as no scale makes them differ.
    """
    squares, names = source.summary.squares, source.used_names
    column = int(np.argmax(squares))
    if np.count_nonzero(squares) < 2 or not squares[column] >= LEADING * squares.sum():
        return None
    if names is not None:
        return repr(names[column])
    return str(column if source.used_columns is None else source.used_columns[column])


def score(interval: Interval) -> float:
    """Return the length of an interval times the root of its number of clusters."""
    return interval.length * math.sqrt(interval.n_clusters)


class ChosenFit(Protocol):
    """A method with chosen penalties."""

    @property
    def method(self) -> Algorithm[Any]:
        """The method."""

    @property
    def choice(self) -> Choice:
        """The choice."""

    @property
    def passes(self) -> int:
        """Passes of the choice and of `cluster_stability` over all rows."""

    def choice_after(self, state: Any) -> Choice:
        """Return the choice as a fit that ended with a state leaves it."""

    def cluster_stability(self, source: Source, state: Any) -> Float64Array | None:
        """Return the stability of each cluster of a state, (k,), from one pass over all rows.

        None if the choice does not measure it.
        """


class Auto(Protocol):
    """A method whose penalties are chosen from the rows."""

    penalties: ClassVar[tuple[str, ...]]
    """Names of the parameters that are chosen."""

    def choose(self, source: Source, seed: int) -> ChosenFit:
        """Choose the penalties for the rows."""
