"""Chosen prices of micro-clusters and of clusters: why they were chosen, and what else might be."""

from dataclasses import dataclass
from typing import ClassVar

from dask_dpmeans.checks import format_count
from dask_dpmeans.methods.dpmeans.choice import Alternative, Choice

ALONE = -1.0
"""Penalty at which each micro-cluster is a cluster."""
CLEARER = 1.5
"""Balls are chosen if their score is this many times the score of the best cut; but see
`levels.FEW_EACH`."""


@dataclass(frozen=True)
class LinkageAlternative(Alternative):
    """A number of clusters, and the penalties, below 0, at which it is best.

    The score is log(low / high) * n_clusters**(1 / 4) in two dimensions; in more, penalties count
    by a power (see `levels.cut_score`).  After a fit, penalties are of its micro-clusters, and the
    score is the mean with the scores on the summary's micro-clusters, and on fewer.  For balls,
    with penalty -1, it is the score of their own prices, and halves are of the rows.
    """

    negative: ClassVar[bool] = True

    micro_penalty: float
    """Price of a micro-cluster."""

    @property
    def penalties(self) -> dict[str, float]:
        return {"micro_penalty": self.micro_penalty, "penalty": self.penalty}

    @property
    def balls(self) -> bool:
        """Whether each micro-cluster is a cluster."""
        return self.penalty == ALONE


@dataclass(frozen=True)
class LinkageChoice(Choice):
    """Chosen prices of micro-clusters and of clusters: why, and what else might be.

    The evidence is for the best cut, or for balls if these have the higher score.
    """

    alternative: ClassVar[type[Alternative]] = LinkageAlternative
    shapes: ClassVar[str] = ""

    asked: bool
    """Whether the number of clusters, or a price, was given."""

    @property
    def headline(self) -> str:
        count = format_count(self.n_clusters, "cluster")
        if self.asked:
            return f"{count}, with a number or a price given"
        if not self.divided and self.penalty != ALONE and len(self.alternatives) > 1:
            return f"{count}: no cut is clear on the micro-clusters of the fit"
        if not self.divided:
            return super().headline
        if self.penalty == ALONE:
            return f"{count}, which are balls"
        return f"{count}: few rows between them"

    @property
    def nearly_as_good(self) -> None:
        """Return None: cuts and balls are not compared so closely."""
        return None

    @property
    def _why(self) -> str:
        chosen, count = self.chosen, format_count(self.n_clusters, "cluster")
        if self.asked:
            return f"{count}, with a number of clusters or a price given."
        if self.rows_used == 1 or len(self.alternatives) == 1:
            return self._why_one
        if not self.divided and self.penalty != ALONE:
            return (
                "1 cluster: a cut was clear on the micro-clusters of a summary, but not on the mean of "
                "them and of the micro-clusters of the fit, so it may be there by chance."
            )
        if not self.divided and self.evidence == 0:
            return self._why_one
        if not self.divided:
            return f"1 cluster: {self._divide_as_well}"
        if self.penalty == ALONE:
            return (
                f"{count}, which are balls: their score is {chosen.score:.2f}, fits of halves of "
                f"the rows agree by {self.stability:.2f}, and cuts between micro-clusters are not "
                "clearer, or do no better than on rows without clusters."
            )
        return (
            f"{count} stay the best while the penalty goes from {chosen.low:.3g} to "
            f"{chosen.high:.3g}: few rows lie between them. Allowing for the number of clusters "
            "and the dimension, no other cut stays as long, on the mean of the micro-clusters of a "
            f"summary and of the fit. On the summary, balls do not score {CLEARER:g} times as much "
            "as its best cut, or they cross its clusters."
        )

    @classmethod
    def _fits(cls, name: str, value: object) -> bool:
        if name == "asked":
            return isinstance(value, bool)
        return super()._fits(name, value)
