"""Prices of clusters, as values.

A method asks a price what k clusters cost, how that changes from one number of clusters to another,
and what a row must cost before it opens a cluster.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy  # it loads scipy.optimize once that is used

FLOOR_SHARE = 0.1
"""Least price of a cluster, as a share of the penalty: the price never falls to 0, at which each
row would be a cluster."""


MARGIN = 1e-9
"""Share by which bounds of a penalty are moved apart, since prices are rounded."""


class Price(ABC):
    """The cost of a number of clusters, in squared units of the rows times weight.

    A subclass is a frozen dataclass that defines `of`.  The cost must rise with the number of
    clusters.
    """

    @abstractmethod
    def of(self, k: int) -> float:
        """Return the cost of k clusters."""

    def change(self, before: int, after: int) -> float:
        """Return how much more `after` clusters cost than `before` clusters."""
        return self.of(after) - self.of(before)

    def threshold(self, k: int) -> float:
        """Return what a row must cost at least to open a cluster beside k others."""
        return self.change(k, k + 1)

    def divide(self, weight: float) -> "Price":
        """Return the same price for rows whose weights are divided by `weight`."""
        return DividedPrice(self, weight)

    def describe(self) -> str:
        """Return the parameters as errors name them."""
        return f"penalty={self.of(1):g}"


@dataclass(frozen=True)
class LinearPrice(Price):
    """The price of DP-means: each cluster costs the penalty (Kulis & Jordan 2012, eq. 1)."""

    penalty: float
    """Cost of one cluster; infinite if no row may open one."""

    def of(self, k: int) -> float:
        """Return the penalty times k."""
        return self.penalty * k

    def change(self, before: int, after: int) -> float:
        """Return the penalty times the difference, without cancellation."""
        return self.penalty * (after - before)

    def divide(self, weight: float) -> "LinearPrice":
        """Return the price of a finite penalty."""
        return LinearPrice(_quotient(self.penalty, weight))


@dataclass(frozen=True)
class PitmanYorPrice(Price):
    """A price that falls: the j-th cluster costs max(floor, penalty - discount * log j).

    In a Pitman-Yor process (Pitman & Yor 1997) another cluster is the more probable, the more
    clusters there are, so that their sizes follow a power law.  Kulis & Jordan 2012, section 7,
    name it as an extension; the threshold is after pyp-means (Fan, Zeng & Cao 2013).
    """

    penalty: float
    """Price of the first cluster."""
    discount: float
    """Fall of the price, > 0, if the number of clusters grows by the factor e."""
    floor: float
    """Least price of a cluster, > 0 and at most the penalty."""

    def of(self, k: int) -> float:
        """Return the cost of k clusters, in closed form, to about 1e-14 of it."""
        falling: float = k  # clusters that cost more than the floor
        span = (self.penalty - self.floor) / self.discount
        if span < math.log(k + 1):
            falling = min(k, math.floor(math.exp(span)))
        falls = self.discount * math.lgamma(falling + 1)
        return self.penalty * falling - falls + self.floor * (k - falling)

    def change(self, before: int, after: int) -> float:
        """Return the sum of the prices of the clusters between, without cancellation."""
        if after < before:
            return -self.change(after, before)
        return math.fsum(map(self.threshold, range(before, after)))

    def threshold(self, k: int) -> float:
        """Return the price of cluster k + 1."""
        return max(self.floor, self.penalty - self.discount * math.log(k + 1))

    def divide(self, weight: float) -> "PitmanYorPrice":
        """Return the price of finite numbers."""
        numbers = self.penalty, self.discount, self.floor
        return PitmanYorPrice(*(_quotient(number, weight) for number in numbers))

    def describe(self) -> str:
        return f"penalty={self.penalty:g}, discount={self.discount:g}"


@dataclass(frozen=True)
class DividedPrice(Price):
    """Another price, in other units of weight."""

    price: Price
    weight: float

    def of(self, k: int) -> float:
        return self.price.of(k) / self.weight


def price_of(penalty: float, discount: float, floor: float | None = None) -> Price:
    """Return the price of a penalty and a discount; the floor is `FLOOR_SHARE` if it is None."""
    if not discount:
        return LinearPrice(penalty)
    return PitmanYorPrice(penalty, discount, FLOOR_SHARE * penalty if floor is None else floor)


def penalty_between(saving: float, fewer: int, more: int, discount: float) -> float:
    """Return the penalty at which `more` clusters cost `saving` > 0 more than `fewer` clusters."""
    mean = saving / (more - fewer)
    if not discount:
        return mean
    # Each price between is at most the penalty, and at least its share.
    found: float = scipy.optimize.brentq(
        lambda penalty: price_of(penalty, discount).change(fewer, more) - saving,
        mean * (1 - MARGIN),
        mean / FLOOR_SHARE * (1 + MARGIN),
        xtol=np.finfo(np.float64).tiny,
    )
    return found


def _quotient(number: float, weight: float) -> float:
    """Return a finite quotient of a number >= 0 and a weight."""
    return min(number / weight, float(np.finfo(np.float64).max))
