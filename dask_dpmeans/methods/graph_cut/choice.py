"""A chosen penalty of a graph cut: why it was chosen, and what else might be."""

from dataclasses import dataclass
from typing import ClassVar

from dask_dpmeans.checks import format_count
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE, Alternative, Choice

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

    Larger penalties, nearer to 0, give fewer clusters, as for rows.  The evidence is standard
    deviations by which the clusters save more of cut + penalty * k than clusters of random graphs
    with the degrees of the nodes, times the stability; 0 if it was not needed, because score times stability is too low
    already.  `tried` clusters were merged, and `rows_used` is the number of nodes.
    """

    alternative: ClassVar[type[Alternative]] = CutAlternative
    halved: ClassVar[str] = "links"
    without: ClassVar[str] = "is clear among these links"

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
            return (
                f"{text}it is the best over a short range of penalties, or halves of the links "
                f"disagree on it: score times stability is {product:.2f}, and {LEAST_SCORE:g} is "
                "needed."
            )
        return (
            f"{text}random graphs with the same degrees divide about as well: the evidence is "
            f"{self.evidence:.1f}, and {EVIDENCE:g} is needed."
        )

    @property
    def _stops_short(self) -> bool:
        return self.largest < self.tried
