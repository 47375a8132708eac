"""Metrics: what the mean of a cluster is, and what it costs to be away from it.

The mean is the center at which a cluster's squared error is least, and its mass says how much more that is elsewhere:
mass times the squared distance of center and mean.  Both follow from the weight and the average of the rows, so that a
method that knows these alone is exact in either metric.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Features, Float64Array, Scratch
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.features import UnitRows
from dask_dpmeans.kernels.row_exchange import VANISHING

MOST_UNEVEN = 2.0**20
"""Clusters lighter than the heaviest by more than this look for partners as if they were heavier: what they add to a
squared distance would round the others' away."""
HIGHEST = 1e140
"""A mean's column more is this high at the most, times the root of the above: its square is finite."""


class Metric(Protocol):
    """What a method asks of a metric; all squared errors are in squared units of the rows times weight."""

    @property
    def features(self) -> Features | None:
        """What is made of each row before a method sees it."""
        ...

    @property
    def spherical(self) -> bool:
        """Whether rows and centers are of unit length, and a mean is the direction of a sum."""
        ...

    @property
    def farthest(self) -> float:
        """The greatest squared distance that two rows can have, the rounding of it aside."""
        ...

    def given(self, centers: Float64Array) -> Float64Array:
        """Centers that someone gave, (k, d), as centers of this metric."""
        ...

    def means(self, averages: Float64Array, otherwise: Float64Array) -> Float64Array:
        """The means of clusters, (..., d), from the averages of their rows; `otherwise` where there is none."""
        ...

    def masses(self, averages: Float64Array, weights: Float64Array) -> Float64Array:
        """The masses of clusters, (...), from the averages of their rows, (..., d), and their weights, (...)."""
        ...

    def rises(self, masses: Float64Array, means: Float64Array) -> Float64Array:
        """(m,), what the squared error rises by when two clusters become one: masses (m, 2) and means (m, 2, d)."""
        ...

    def sideways(self, directions: Float64Array, centers: Float64Array) -> Float64Array:
        """What of directions, (k, d), leads from centers, (k, d), to others: it tells the halves of a cluster apart."""
        ...

    def partners(self, masses: Float64Array, means: Float64Array, penalty: float) -> tuple[Float64Array, Float64Array]:
        """Two sets of k points: the nearest of the second set to one of the first is the best partner for a merge.

        Wherever the penalty is more than the squared error that some merge adds, it is so for the merge of some cluster
        with its best partner.
        """
        ...


@dataclass(frozen=True)
class Euclidean:
    """Squared distances: the mean is the average, and its mass is the weight."""

    features: ClassVar[None] = None
    spherical: ClassVar[bool] = False
    farthest: ClassVar[float] = math.inf

    def given(self, centers: Float64Array) -> Float64Array:
        """The same."""
        return centers

    def means(self, averages: Float64Array, otherwise: Float64Array) -> Float64Array:
        """The averages."""
        return averages

    def masses(self, averages: Float64Array, weights: Float64Array) -> Float64Array:
        """The weights."""
        return weights

    def rises(self, masses: Float64Array, means: Float64Array) -> Float64Array:
        """The product of the weights over their sum, times the squared distance of the means."""
        first, second = masses.T
        rises: Float64Array = first * ratio(second, first + second) * _between(means)
        return rises

    def sideways(self, directions: Float64Array, centers: Float64Array) -> Float64Array:
        """All of it."""
        return directions

    def partners(self, masses: Float64Array, means: Float64Array, penalty: float) -> tuple[Float64Array, Float64Array]:
        """Means with a column more.

        Merging a and b pays iff d(a, b)^2 < r(a) + r(b), with r = penalty / weight.  So of all partners the one of
        least d(a, b)^2 - r(b) decides for a: a nearest neighbor, once each mean has a column more, the square root of
        the most that r is minus its own.
        """
        heaviest = masses.max()
        lightness = heaviest / np.maximum(masses, heaviest / MOST_UNEVEN)
        scale = min(math.sqrt(penalty) / math.sqrt(heaviest), HIGHEST)
        heights = scale * np.sqrt(lightness.max() - lightness)
        return np.column_stack([means, np.zeros(len(means))]), np.column_stack([means, heights])


@dataclass(frozen=True)
class Cosine:
    """2 (1 - cosine): squared distances of rows and centers of unit length, as spherical k-means has them.

    Dhillon & Modha 2001, section 3: the mean is the direction of the sum S of the rows, at which the squared error of a
    cluster of weight w is 2 (w - |S|); elsewhere it is 2 (w - S . center), so that the mass is |S|.  Rows that cancel
    (`VANISHING`) have no mean, and cost 2 w wherever their center is: it stays where it was.
    """

    features: ClassVar[UnitRows] = UnitRows()
    spherical: ClassVar[bool] = True
    farthest: ClassVar[float] = 4.0

    def given(self, centers: Float64Array) -> Float64Array:
        """Their directions."""
        unit = self.features(centers, Scratch()).astype(np.float64)
        without = np.flatnonzero(np.isnan(unit).any(axis=1))
        if without.size:
            raise InputError(f"center {without[0]} of the first centers is 0 in every column and has no direction")
        return unit

    def means(self, averages: Float64Array, otherwise: Float64Array) -> Float64Array:
        """The directions of the averages."""
        lengths = _lengths(averages)[..., np.newaxis]
        return np.divide(averages, lengths, out=otherwise.copy(), where=lengths > VANISHING)

    def masses(self, averages: Float64Array, weights: Float64Array) -> Float64Array:
        """The lengths of the sums."""
        lengths = _lengths(averages)
        return np.where(lengths > VANISHING, weights * lengths, 0.0)

    def rises(self, masses: Float64Array, means: Float64Array) -> Float64Array:
        """2 (|S1| + |S2| - |S1 + S2|), without its cancellation."""
        first, second = masses.T
        total = first + second
        average = (ratio(masses, total[:, np.newaxis])[:, :, np.newaxis] * means).sum(axis=1)
        rises: Float64Array = first * ratio(second, total) * (2 / (1 + _lengths(average))) * _between(means)
        return rises

    def sideways(self, directions: Float64Array, centers: Float64Array) -> Float64Array:
        """What is at right angles to the center: all rows of a cluster may lie on one side of it otherwise.

        All of it where nothing is, as in one column.
        """
        along = np.einsum("ij,ij->i", directions, centers)
        across = directions - along[:, np.newaxis] * centers
        return np.where(_lengths(across)[:, np.newaxis] > VANISHING, across, directions)

    def partners(self, masses: Float64Array, means: Float64Array, penalty: float) -> tuple[Float64Array, Float64Array]:
        """Means with two columns more.

        With u = penalty / (4 mass), any merge of a cluster of u >= 1 pays, and of two others iff the squared cosine of
        half the angle between their means exceeds (1 - u(a)) (1 - u(b)).  So of all partners the one of greatest
        (1 + cosine) / (1 - u(b)) decides for a.  That is the product of (1, mean of a) and (1, mean of b) / (1 - u(b)):
        a nearest neighbor, once a column more makes the latter equally long.
        """
        with np.errstate(over="ignore"):
            lightness = ratio(np.full(len(masses), penalty / 4), masses, np.inf)
        factors = 1 / np.maximum(1 - lightness, 1 / MOST_UNEVEN)
        heights = np.sqrt(2 * (factors.max() - factors) * (factors.max() + factors))
        ones = np.ones(len(means))
        points = np.column_stack([factors, factors[:, np.newaxis] * means, heights])
        return np.column_stack([ones, means, 0 * ones]), points


EUCLIDEAN = Euclidean()
METRICS: Mapping[str, Metric] = MappingProxyType({"euclidean": EUCLIDEAN, "cosine": Cosine()})
"""By name."""


def metric_of(name: str) -> Metric:
    """The metric of a name that someone gave."""
    return METRICS[checks.choice("metric", name, METRICS)]


def ratio(above: Float64Array, below: Float64Array, otherwise: float = 0.0) -> Float64Array:
    """The quotient, `otherwise` where the divisor is 0."""
    quotient: Float64Array = np.full(np.broadcast_shapes(above.shape, below.shape), otherwise)
    return np.divide(above, below, out=quotient, where=below > 0)


def _between(means: Float64Array) -> Float64Array:
    """(m,), the squared distances of pairs of means, (m, 2, d)."""
    differences = means[:, 0] - means[:, 1]
    squared: Float64Array = np.einsum("ij,ij->i", differences, differences)
    return squared


def _lengths(values: Float64Array) -> Float64Array:
    """(...), the lengths of values (..., d), by the definition of distances: the same wherever they lie in memory."""
    flat = values.reshape(-1, values.shape[-1])
    squared = squared_distances(flat, np.zeros((1, flat.shape[1])), np.zeros(len(flat), np.intp))
    lengths: Float64Array = np.sqrt(squared).reshape(values.shape[:-1])
    return lengths
