"""Clusters out of outliers: candidate centers of a pass, what they save, and the next ones."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.births import Proposals, keep_objecting, keep_openers
from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.divergence import Divergence, ratio
from dask_dpmeans.kernels.outliers import Candidates, DrawnOutliers, OutlierStatistics
from dask_dpmeans.kernels.price import Price

MOST_SEED = 2**53
"""Seeds are less than this: a run stores numbers of states as float64."""
MOST_CANDIDATES = 16
"""Candidates of a pass, ..."""
KEPT_CANDIDATES = 8
"""... of which so many, at most, are means of candidates of the pass before."""


@dataclass(frozen=True)
class AmongOutliers:
    """The m candidates of a pass, moved to the means of their outliers."""

    means: Float64Array
    """(m, d)."""
    savings: Float64Array
    """(m,), what their outliers cost less there, exact for this partition."""
    radii: Float64Array
    """(m,), roots of the mean costs of their outliers there."""
    drawn: DrawnOutliers
    """Rows drawn among all outliers."""
    most: float
    """Cost of an outlier for each unit of weight."""
    divergence: Divergence

    @classmethod
    def of(
        cls, candidates: Candidates, found: OutlierStatistics, most: float, divergence: Divergence
    ) -> "AmongOutliers":
        """Return the candidates after the pass that they were in."""
        points, moments = candidates.points, found.moments
        weights = moments.weights
        averages = ratio(moments.sums, weights[:, np.newaxis])
        alive = weights[:, np.newaxis] > 0
        means = np.where(alive, divergence.means(averages, points), points)
        shifts = divergence.masses(averages, weights) * divergence.between(means, points)
        errors = np.maximum(moments.inertias - shifts, 0.0)
        radii = np.sqrt(ratio(errors, weights))
        return cls(means, most * weights - errors, radii, found.drawn, most, divergence)

    @property
    def order(self) -> IndexArray:
        """(m,), numbers of the candidates by falling savings."""
        return np.argsort(-self.savings, kind="stable")

    def gaining(self, price: Price, alive: int, least: float) -> IndexArray:
        """Return the candidates that gain more than `least` beside `alive` clusters, best first."""
        opened: list[int] = []
        for candidate in self.order.tolist():
            if not self.savings[candidate] > price.threshold(alive + len(opened)) + least:
                break
            opened.append(candidate)
        return np.array(opened, np.intp)

    def one(self) -> tuple[Float64Array, Float64Array]:
        """Return the center, (1, d), of the best candidate, or else a drawn row, and its radius."""
        best = self.order[:1]
        if len(best):
            return self.means[best], self.radii[best]
        return self._points(self.drawn.take(slice(1))), np.sqrt([self.most])

    def next(self, opened: IndexArray, random: np.random.Generator) -> Candidates:
        """Return the candidates of the next pass: means of the best ones, and drawn outliers.

        Of rows that cost little at each other or at another candidate one is enough: several would
        share the outliers that are only together worth a cluster.
        """
        seed, order = int(random.integers(MOST_SEED)), self.order
        order = order[(self.savings[order] > 0) & ~np.isin(order, opened)]
        kept = self.means[order[:KEPT_CANDIDATES]]
        drawn = Proposals(self.drawn.numbers, self._points(self.drawn), np.ones(len(self.drawn)))
        rule = self.most, self.divergence.general
        apart = keep_objecting(drawn, np.concatenate([kept, self.means[opened]]), *rule)
        points = np.concatenate([kept, keep_openers(apart, *rule).rows])
        return Candidates(points[:MOST_CANDIDATES], seed)

    def _points(self, drawn: DrawnOutliers) -> Float64Array:
        """Return the best centers of single rows, (l, d)."""
        return self.divergence.means(drawn.rows, drawn.rows)
