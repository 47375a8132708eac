"""A price of outliers, found for about a share of the weight.

The price that leaves the costliest rows of that share out is tried first, and again at the clusters
that follow, as in trimmed k-means (Cuesta-Albertos, Gordaliza & Matran 1997).  If that leads out of
the prices between which the share lies, these are bisected.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.methods.dpmeans.coreset import Uniform
from dask_dpmeans.methods.dpmeans.starts import Restart

if TYPE_CHECKING:
    from dask_dpmeans.methods.dpmeans.search import Method

SHARE_ROWS = 2**14
"""Rows that find the price, about."""
ROUNDS = 12
"""Most searches."""
STRIDE = 4.0
"""Factor by which the price changes until the share lies between two prices."""
CLOSE = 0.05
"""A share this close, relative to the share wanted, is taken."""


def outlier_penalty_for(method: "Method", source: Source) -> tuple[float, int]:
    """Return the price at which outliers have about the share of a method, and the rows read.

    It is found on about `SHARE_ROWS` rows, each drawn with the same probability, by searches of
    moves and means alone.  Of the prices tried, the one whose share is the closest is taken.
    """
    share, n = method.outlier_share, source.plan.n_rows
    assert share is not None
    draw = Uniform(min(1.0, SHARE_ROWS / n), method.seed, takes_csr=True)
    drawn = source.fold(draw, name="sample")
    if not len(drawn.weights):
        return math.inf, n
    rows = drawn.in_memory(source.scale)
    first, total = Restart(_alone(method, math.inf), tries=0)(rows), float(drawn.weights.sum())
    bracket, end, best, closest = Bracket(), first, math.inf, math.inf
    for _ in range(ROUNDS):
        centers = method.with_outliers(math.inf).kernel_centers(end.centers)
        price = bracket.next(price_of_share(costs_of(rows, centers), drawn.weights, share))
        end = Restart(_alone(method, price), tries=0, warm=first)(rows)
        found = end.outlier_weight / total
        off, bracket = abs(found - share) / share, bracket.after(price, high=found <= share)
        if off < closest:
            best, closest = price, off
        if off <= CLOSE:
            break
    return best, n


@dataclass(frozen=True)
class Bracket:
    """Prices at which outliers have too large and too small a share."""

    low: float = 0.0
    high: float = math.inf

    def next(self, wanted: float) -> float:
        """Return a price to try: the one wanted if it lies between, else the geometric mean."""
        if self.low < wanted < self.high:
            return wanted
        if not self.low:
            return self.high / STRIDE
        return min(math.sqrt(self.low) * math.sqrt(self.high), self.low * STRIDE)

    def after(self, price: float, *, high: bool) -> "Bracket":
        """Return the bracket when a price has been found too high, or too low."""
        return Bracket(self.low, price) if high else Bracket(price, self.high)


def _alone(method: "Method", penalty: float) -> "Method":
    """Return the method without a coreset, at a price of outliers."""
    return method.with_outliers(penalty).without_limits()


def costs_of(rows: InMemoryRows, centers: Centers) -> Float64Array:
    """Return the least costs of rows, (n,)."""
    return assign(Block(0, rows.rows, None), centers)[1]


def price_of_share(costs: Float64Array, weights: Float64Array, share: float) -> float:
    """Return a price that rows of about a share of the weight exceed by their costs, (n,).

    It lies between two costs; above 0, since rows that cost nothing are no outliers.
    """
    order = np.argsort(costs, kind="stable")
    costs, left = costs[order], np.cumsum(weights[order][::-1])[::-1]
    first = int(np.searchsorted(-left, -share * left[0], side="left"))
    above = costs[min(first, len(costs) - 1)]
    below = costs[max(first - 1, 0)]
    price = float(below + (above - below) / 2)
    if price > 0:
        return price
    positive = costs[costs > 0]
    return float(positive[0] / 2) if len(positive) else math.inf
