"""Prices of clusters, as values.

A method asks a price what k clusters cost, how that changes from one number of clusters to another,
and what a row must cost before it opens a cluster.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np


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
        return LinearPrice(min(self.penalty / weight, float(np.finfo(np.float64).max)))


@dataclass(frozen=True)
class DividedPrice(Price):
    """Another price, in other units of weight."""

    price: Price
    weight: float

    def of(self, k: int) -> float:
        """Return the cost of k clusters."""
        return self.price.of(k) / self.weight
