"""Divergences as values: costs of rows at centers, and exact changes of merges and splits.

The center of a cluster is the point at which its rows cost least.  The mass of the cluster says how
much more they cost elsewhere.  Center and mass follow from the weight and the average of the rows,
so that the moments of a pass are enough for exact merges and splits.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import BoolArray, Features, Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.distance import Centers, nearest_two, squared_distances
from dask_dpmeans.kernels.linear_costs import Linear

MOST_UNEVEN = 2.0**20
"""Greatest ratio of masses in `partners`; a greater one would round squared distances away."""
HIGHEST = 1e140
"""Greatest scale of the additional column of `partners`, so that its square is finite."""


class Divergence(ABC):
    """The cost of a row at a center, in any units, and all that methods ask of it.

    A Bregman divergence (Banerjee et al. 2005) defines `costs` alone: its best center is the
    average of the rows, with the weight of the rows as mass.  All other functions have a general
    form here, which is correct and slow.
    """

    features: ClassVar[Features | None] = None
    """Map of each row that kernels see instead of the row; None for the row itself."""
    vanishing: ClassVar[float] = 0.0
    """If rows and centers have one length, and a center is the direction of a sum: rows whose
    average is no longer than this share of it cancel, since its direction is rounding.  Else 0."""
    farthest: ClassVar[float] = math.inf
    """Greatest cost of a row at another row."""
    length: ClassVar[float] = 1.0
    """Length of rows and centers, if a center is the direction of a sum."""
    encoded: ClassVar[bool] = False
    """Whether centers have other columns for kernels than for users."""

    @property
    def spherical(self) -> bool:
        """Whether rows and centers have one length, and a center is the direction of a sum."""
        return self.vanishing > 0

    @abstractmethod
    def costs(self, rows: Rows, centers: Float64Array, labels: IndexArray) -> Float64Array:
        """Return the cost of each row at the center of its label, (n,) float64 >= 0.

        Parameters
        ----------
        rows : (n, d), float32 or float64
        centers : (k, d)
        labels : (n,), numbers of centers
        """

    @property
    def general(self) -> "Divergence | None":
        """The divergence that kernels compute; None for the squared distance, by its fast paths.

        Products with error bounds, bounds by the triangle inequality, compiled loops and coresets
        are for squared distances alone.
        """
        return self

    def linear(self, centers: Float64Array) -> Linear | None:
        """Return costs that are linear in the row, at centers, (k, d); None if they are not.

        Then one product ranks all centers, and `costs` may be slow.
        """
        return None

    def unlabeled(self, rows: Rows) -> BoolArray | None:
        """Return the rows, (n,), that no cluster can have, whose labels are -1; None for none."""
        return None

    def flat(self, rows: Float64Array) -> Float64Array:
        """Return rows, (n, d), in a space where squared distances are about the costs, (n, m).

        Missing values are NaN.
        """
        raise InputError(
            f"no space is known where squared distances are about {type(self).__name__}"
        )

    def costs_to_all(self, rows: Rows, centers: Float64Array) -> Float64Array:
        """Return the cost of each row, (n, d), at each center, (k, d), as (n, k)."""
        same = np.zeros(len(rows), np.intp)
        columns = [self.costs(rows, centers, same + number) for number in range(len(centers))]
        return np.stack(columns, axis=1)

    def nearest(self, rows: Rows, centers: Float64Array) -> tuple[IndexArray, Float64Array]:
        """Return the cheapest center of each row, (n,), and its cost, (n,).

        Equal costs go to the lowest number.
        """
        costs = self.costs_to_all(rows, centers)
        labels = costs.argmin(axis=1)
        return labels, costs[np.arange(len(rows)), labels]

    def nearest_two(self, rows: Rows, centers: Float64Array) -> tuple[IndexArray, IndexArray]:
        """Return the two cheapest of k >= 2 centers of each row, (n,) and (n,)."""
        order = self.costs_to_all(rows, centers).argsort(axis=1, kind="stable")
        return order[:, 0], order[:, 1]

    def given(self, centers: Float64Array) -> Float64Array:
        """Return first centers of a user, (k, d), as centers of this divergence."""
        return centers

    def shown(self, centers: Float64Array) -> Float64Array:
        """Return centers, (k, d), in units of the input."""
        return centers

    def points(self, centers: Float64Array) -> Float64Array:
        """Return rows as kernels see them, (k, d), at centers: each costs nothing at its own."""
        return centers

    def at_rows(self, rows: Float64Array) -> Float64Array:
        """Return centers, (k, d), at rows as kernels see them."""
        return rows

    def price_of(self, penalty: float, *, search: bool) -> float:
        """Return the penalty of a user, a radius or with `search` a price, in units of the cost."""
        return penalty

    def penalty_of(self, price: float, *, search: bool) -> float:
        """Return a price in units of the cost as the penalty of a user."""
        return price

    def distances(self, rows: Rows, centers: Float64Array) -> Float64Array:
        """Return the distance of each row, (n, d), to each center, (k, d), for users, (n, k)."""
        return self.costs_to_all(rows, centers)

    def shown_costs(
        self, rows: Rows, centers: Float64Array, labels: IndexArray, costs: Float64Array
    ) -> Float64Array:
        """Return the costs of rows, (n, d), at the centers of their labels, for users, (n,)."""
        return costs

    def inside(self, points: Float64Array) -> Float64Array:
        """Return points, (..., d), moved to where centers may be."""
        return points

    def means(self, averages: Float64Array, otherwise: Float64Array) -> Float64Array:
        """Return the centers of clusters from the averages of their rows, (..., d).

        A cluster without a center gets `otherwise`.
        """
        return averages

    def masses(self, averages: Float64Array, weights: Float64Array) -> Float64Array:
        """Return the masses of clusters, (...), from averages, (..., d), and weights, (...)."""
        return weights

    def precision(self, cost: float, d: int) -> float:
        """Return 1 / variance of the mixture whose small-variance limit this is.

        Raises
        ------
        InputError
            No mixture is known.

        Parameters
        ----------
        cost : average cost > 0 of rows at their own centers
        d : number of columns
        """
        raise InputError(
            f"no mixture is known whose small-variance limit is {type(self).__name__}: "
            "there are no probabilities of its clusters"
        )

    def between(self, points: Float64Array, centers: Float64Array) -> Float64Array:
        """Return the cost of each point, (m, d), at the center, (m, d), in the same place, (m,)."""
        return self.costs(points, centers, np.arange(len(points)))

    def rises(self, masses: Float64Array, means: Float64Array) -> Float64Array:
        """Return the rise of the cost if two clusters become one, (m,).

        A split saves the same amount.

        Parameters
        ----------
        masses : (m, 2)
        means : (m, 2, d)
        """
        shares = ratio(masses, masses.sum(axis=1, keepdims=True))
        center = (shares[:, :, np.newaxis] * means).sum(axis=1)
        first, second = masses.T
        rises: Float64Array = first * self.between(means[:, 0], center)
        rises += second * self.between(means[:, 1], center)
        return rises

    def joining(
        self, rows: Float64Array, weights: Float64Array, masses: Float64Array, means: Float64Array
    ) -> Float64Array:
        """Return the rise of the cost if a row, (n, d), joins a cluster, (k, d): (n, k)."""
        n, k = len(rows), len(masses)
        pairs = np.stack([np.repeat(rows, k, axis=0), np.tile(means, (n, 1))], axis=1)
        both = np.stack([np.repeat(weights, k), np.tile(masses, n)], axis=1)
        return self.rises(both, pairs).reshape(n, k)

    def leaving(
        self, rows: Float64Array, weights: Float64Array, masses: Float64Array, means: Float64Array
    ) -> Float64Array:
        """Return the fall of the cost if a row leaves its cluster, (n,).

        `masses`, (n,), and `means`, (n, d), belong to the cluster of each row.
        """
        rest = np.maximum(masses - weights, 0.0)[:, np.newaxis]
        left = ratio(masses[:, np.newaxis] * means - weights[:, np.newaxis] * rows, rest)
        pairs = np.stack([rows, np.where(rest > 0, self.inside(left), rows)], axis=1)
        return self.rises(np.column_stack([weights, rest]), pairs)

    def sideways(self, directions: Float64Array, centers: Float64Array) -> Float64Array:
        """Return the part of directions, (k, d), that leads from centers, (k, d), to others."""
        return directions

    def offsets(
        self, directions: Float64Array, radii: Float64Array, centers: Float64Array
    ) -> Float64Array:
        """Return steps, (k, d), from centers in directions, (k, d), to where a row costs about the
        squares of radii, (k,)."""
        directions = self.sideways(directions, centers)
        lengths = np.sqrt(np.einsum("ij,ij->i", directions, directions))
        steps: Float64Array = directions * ratio(radii, lengths)[:, np.newaxis]
        return steps

    def partners(self, masses: Float64Array, means: Float64Array, saved: float) -> IndexArray:
        """Return the best partner of each of k >= 2 clusters for a merge, (k,).

        A merge saves the price `saved`.  If any merge gains, then a merge of some cluster with its
        best partner gains.
        """
        k = len(masses)
        best = np.empty(k, np.intp)
        for cluster in range(k):
            own = np.full(k, cluster)
            pairs = np.stack([means[own], means], axis=1)
            rises = self.rises(np.stack([masses[own], masses], axis=1), pairs)
            rises[cluster] = np.inf
            best[cluster] = rises.argmin()
        return best


@dataclass(frozen=True)
class SquaredEuclidean(Divergence):
    """The squared distance, in squared units of the rows."""

    @property
    def general(self) -> None:
        """None: kernels compute squared distances by their fast paths."""
        return None

    def costs(self, rows: Rows, centers: Float64Array, labels: IndexArray) -> Float64Array:
        """Return the squared distance of each row, (n, d), to the center of its label, (n,)."""
        return squared_distances(rows, centers, labels)

    def distances(self, rows: Rows, centers: Float64Array) -> Float64Array:
        """Return the Euclidean distance of each row, (n, d), to each center, (k, d), (n, k)."""
        distances: Float64Array = cdist(rows, centers)
        return distances

    def precision(self, cost: float, d: int) -> float:
        """Return 1 / variance of spherical Gaussians: the columns over the squared distance."""
        return d / cost

    def between(self, points: Float64Array, centers: Float64Array) -> Float64Array:
        """Return the squared distances of points, (m, d), to centers, (m, d), in pairs, (m,)."""
        differences = points - centers
        squared: Float64Array = np.einsum("ij,ij->i", differences, differences)
        return squared

    def rises(self, masses: Float64Array, means: Float64Array) -> Float64Array:
        """Return the product of the weights over their sum, times squared distances, (m,)."""
        first, second = masses.T
        squared = self.between(means[:, 0], means[:, 1])
        rises: Float64Array = first * ratio(second, first + second) * squared
        return rises

    def partners(self, masses: Float64Array, means: Float64Array, saved: float) -> IndexArray:
        """Return the nearest neighbor of each mean, (k,), among means with an additional column.

        A merge of a and b gains iff d(a, b)^2 < r(a) + r(b), with r = saved / weight.  So the best
        partner of a has the least d(a, b)^2 - r(b).  The additional column is the square root of
        the greatest r minus r(b).
        """
        heaviest = masses.max()
        lightness = heaviest / np.maximum(masses, heaviest / MOST_UNEVEN)
        scale = min(math.sqrt(saved) / math.sqrt(heaviest), HIGHEST)
        heights = scale * np.sqrt(lightness.max() - lightness)
        seekers = np.column_stack([means, np.zeros(len(means))])
        return nearest_other(seekers, np.column_stack([means, heights]))


SQUARED = SquaredEuclidean()


def ratio(above: Float64Array, below: Float64Array, otherwise: float = 0.0) -> Float64Array:
    """Return the quotient, `otherwise` if the divisor is 0; shapes (...) are broadcast."""
    positive = below > 0
    if positive.all():  # as nearly always; it takes 0.6 of the time
        return np.divide(above, below)
    quotient: Float64Array = np.full(np.broadcast_shapes(above.shape, below.shape), otherwise)
    return np.divide(above, below, out=quotient, where=positive)


def nearest_other(seekers: Float64Array, points: Float64Array) -> IndexArray:
    """Return the nearest point of each seeker, (k,), other than the point of the same number."""
    nearest, second = nearest_two(seekers, Centers(points))
    return np.where(nearest == np.arange(len(points)), second, nearest)


def lengths_of(values: Float64Array) -> Float64Array:
    """Return the lengths of values, (..., d), by the definition of distances."""
    flat = values.reshape(-1, values.shape[-1])
    squared = squared_distances(flat, np.zeros((1, flat.shape[1])), np.zeros(len(flat), np.intp))
    lengths: Float64Array = np.sqrt(squared).reshape(values.shape[:-1])
    return lengths
