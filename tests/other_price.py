"""Prices of the tests' own, in this one file, and the methods that minimize cost plus price with them."""

import math
from dataclasses import dataclass
from typing import ClassVar

from dask_dpmeans.kernels.price import Price
from dask_dpmeans.methods.dpmeans import batch, search


@dataclass(frozen=True)
class Concave(Price):
    """a k ** 0.8: the more clusters there are, the less the next one costs, as in a Pitman-Yor process."""

    first: float

    def of(self, k: int) -> float:
        return self.first * k**0.8


@dataclass(frozen=True)
class Convex(Price):
    """a k + a log(k!): the more clusters there are, the more the next one costs."""

    first: float

    def of(self, k: int) -> float:
        return self.first * (k + math.lgamma(k + 1))


@dataclass(frozen=True)
class ConcaveSweeps(batch.Method):
    """Algorithm 1 at a concave price."""

    @property
    def price(self) -> Price:
        return Concave(self.penalty)


@dataclass(frozen=True)
class ConcaveSearch(search.Method):
    """The search at a concave price."""

    sweeps: ClassVar[type[batch.Method]] = ConcaveSweeps

    @property
    def price(self) -> Price:
        return Concave(self.penalty)


@dataclass(frozen=True)
class ConvexSweeps(batch.Method):
    """Algorithm 1 at a convex price."""

    @property
    def price(self) -> Price:
        return Convex(self.penalty)


@dataclass(frozen=True)
class ConvexSearch(search.Method):
    """The search at a convex price."""

    sweeps: ClassVar[type[batch.Method]] = ConvexSweeps

    @property
    def price(self) -> Price:
        return Convex(self.penalty)
