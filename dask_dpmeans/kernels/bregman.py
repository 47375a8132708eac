"""Bregman divergences of single numbers (Banerjee et al. 2005, table 1).

With a convex function f of one number, a number x costs D(x, m) = f(x) - f(m) - f'(m) (x - m) at a
center m.  Whatever f is, the weighted mean is the best center.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import kl_div, logit

from dask_dpmeans.kernels.block import Float64Array


class ColumnDivergence(ABC):
    """A Bregman divergence of single numbers, by its convex function f.

    A subclass is a frozen dataclass.  All functions work number by number, on arrays of any shape (...).
    """

    smoothed: ClassVar[bool] = False
    """Whether a number x becomes (x + a g) / (1 + a), with g the mean of all rows and a small weight
    a: without it all numbers but 0 would cost infinitely much at a center of 0."""
    centered: ClassVar[bool] = True
    """Whether g is subtracted before numbers are added up; not where ratios of numbers count."""
    lowest: ClassVar[float] = -np.inf
    """Least number, ..."""
    highest: ClassVar[float] = np.inf
    """... greatest number, ..."""
    positive: ClassVar[bool] = False
    """... and whether the least is excluded."""

    @property
    def takes(self) -> str:
        """The numbers that a row may have, for errors."""
        least = f"{'>' if self.positive else '>='} {self.lowest:g}"
        if math.isfinite(self.highest):
            return f"numbers from {self.lowest:g} to {self.highest:g}"
        return f"numbers {least}" if math.isfinite(self.lowest) else "finite numbers"

    @abstractmethod
    def between(self, values: Float64Array, centers: Float64Array) -> Float64Array:
        """Return the costs >= 0 of numbers, (...), at centers, (...)."""

    @abstractmethod
    def slope(self, centers: Float64Array) -> Float64Array:
        """Return f' at centers, (...)."""

    @abstractmethod
    def curvature(self, centers: Float64Array) -> Float64Array:
        """Return f'' > 0 at centers, (...)."""

    def flat(self, values: Float64Array, means: Float64Array) -> Float64Array:
        """Return numbers, (...), whose squared differences are about the costs of `values`, (...).

        They are exact for each number at the mean of all rows, (...).
        """
        return np.sign(values - means) * np.sqrt(self.between(values, means))


@dataclass(frozen=True)
class Squared(ColumnDivergence):
    """(x - m)^2, of normal columns."""

    def between(self, values: Float64Array, centers: Float64Array) -> Float64Array:
        """Return squared differences, (...)."""
        squares: Float64Array = (values - centers) ** 2
        return squares

    def slope(self, centers: Float64Array) -> Float64Array:
        """Return 2 m, (...)."""
        return 2 * centers

    def curvature(self, centers: Float64Array) -> Float64Array:
        """Return 2, (...)."""
        return np.full_like(centers, 2.0)


@dataclass(frozen=True)
class Poisson(ColumnDivergence):
    """x log(x / m) - x + m, of counts: half their Poisson deviance (generalized Kullback-Leibler)."""

    smoothed: ClassVar[bool] = True
    lowest: ClassVar[float] = 0.0

    def between(self, values: Float64Array, centers: Float64Array) -> Float64Array:
        """Return generalized Kullback-Leibler divergences, (...)."""
        costs: Float64Array = np.maximum(kl_div(values, centers), 0.0)
        return costs

    def slope(self, centers: Float64Array) -> Float64Array:
        """Return log m, (...)."""
        return np.log(centers)

    def curvature(self, centers: Float64Array) -> Float64Array:
        """Return 1 / m, (...)."""
        return 1 / centers

    def flat(self, values: Float64Array, means: Float64Array) -> Float64Array:
        """Return square roots of 2 x, (...)."""
        return np.sqrt(2 * values)


@dataclass(frozen=True)
class Bernoulli(ColumnDivergence):
    """x log(x / m) + (1 - x) log((1 - x) / (1 - m)), of probabilities and of zeros and ones."""

    smoothed: ClassVar[bool] = True
    lowest: ClassVar[float] = 0.0
    highest: ClassVar[float] = 1.0

    def between(self, values: Float64Array, centers: Float64Array) -> Float64Array:
        """Return Kullback-Leibler divergences of two outcomes, (...)."""
        costs: Float64Array = kl_div(values, centers) + kl_div(1 - values, 1 - centers)
        return np.maximum(costs, 0.0)

    def slope(self, centers: Float64Array) -> Float64Array:
        """Return log(m / (1 - m)), (...)."""
        slopes: Float64Array = logit(centers)
        return slopes

    def curvature(self, centers: Float64Array) -> Float64Array:
        """Return 1 / m + 1 / (1 - m), (...)."""
        return 1 / centers + 1 / (1 - centers)

    def flat(self, values: Float64Array, means: Float64Array) -> Float64Array:
        """Return angles, times the square root of 2, (...)."""
        angles: Float64Array = np.sqrt(2) * np.arcsin(np.sqrt(values))
        return angles


@dataclass(frozen=True)
class ItakuraSaito(ColumnDivergence):
    """x / m - log(x / m) - 1, of positive numbers with a gamma distribution: half their deviance."""

    centered: ClassVar[bool] = False
    lowest: ClassVar[float] = 0.0
    positive: ClassVar[bool] = True

    def between(self, values: Float64Array, centers: Float64Array) -> Float64Array:
        """Return Itakura-Saito divergences, (...)."""
        quotients = values / centers
        return np.maximum(quotients - np.log(quotients) - 1, 0.0)

    def slope(self, centers: Float64Array) -> Float64Array:
        """Return -1 / m, (...)."""
        return -1 / centers

    def curvature(self, centers: Float64Array) -> Float64Array:
        """Return 1 / m^2, (...)."""
        return 1 / centers**2

    def flat(self, values: Float64Array, means: Float64Array) -> Float64Array:
        """Return logarithms over the square root of 2, (...)."""
        logarithms: Float64Array = np.log(values) / np.sqrt(2)
        return logarithms


SQUARED, POISSON, BERNOULLI, ITAKURA_SAITO = Squared(), Poisson(), Bernoulli(), ItakuraSaito()
CATEGORICAL, MULTINOMIAL = "categorical", "multinomial"
COLUMN_DIVERGENCES: dict[str, ColumnDivergence] = {
    "squared": SQUARED,
    "poisson": POISSON,
    MULTINOMIAL: POISSON,  # of shares, which add up to 1
    "bernoulli": BERNOULLI,
    "itakura-saito": ITAKURA_SAITO,
    "gamma": ITAKURA_SAITO,
    CATEGORICAL: POISSON,  # of a column of zeros and ones for each category
}
"""Divergences of columns, by the names of the option `divergence`."""
PLAIN, MIXED = "squared", "mixed"
"""Values of the option `divergence`: the squared distance, and the divergence for the kind of each
column."""
MISSING = ("error", "observed", "unscaled")
"""Values of the option `missing`."""
