"""Lower bounds of the objective of rows in memory; the highest one counts.

Each bound in `BOUNDS` is a proof: no clusters of these rows cost less, rounding included.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.dpmeans.anticlusters import MOST_ROWS, pieces_bound
from dask_dpmeans.methods.dpmeans.relaxed_bound import relaxed_bound
from dask_dpmeans.methods.dpmeans.row_prices import (
    LEAST_PENALTY,
    NOTHING,
    PricesBound,
    prices_bound,
)

RELAXED_ROWS = 1500
"""More rows have no bound by relaxation: the work of its pieces would be split too often."""
RELAXED_WORK = 3 * 2**34
"""Work of the relaxations of all pieces; see `relaxed_bound`."""
PROVED = 1e-6
"""A bound this near to the lowest objective known, over the bound, is the last."""


@dataclass(frozen=True)
class Fitted:
    """Rows in memory, and the clusters that a fit found of them."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""
    penalty: float
    centers: Float64Array
    """(k, d)."""
    labels: IndexArray
    """(n,)."""
    costs: Float64Array
    """(n,), squared distances to the centers of the labels."""
    objective: float

    def cluster_gaps(self, paid: Float64Array) -> tuple[float, ...]:
        """Return what each cluster costs less what its rows pay, (n,): never below 0 but by rounding."""
        beyond = total(self.labels, self.weights * self.costs - paid, len(self.centers))
        return tuple(np.maximum(beyond + self.penalty, 0.0).tolist())

    def one_cluster(self) -> PricesBound:
        """Return what one cluster without inertia costs."""
        return PricesBound(self.penalty)

    def prices(self) -> PricesBound:
        """Return the bound by prices of rows."""
        data = self.rows, self.weights, self.penalty
        return prices_bound(*data, self.objective, self.centers)

    def relaxation(self) -> PricesBound:
        """Return the bound by relaxations of pieces of the rows; 0 of too many rows."""
        n = len(self.rows)
        if n > RELAXED_ROWS:
            return NOTHING
        work = RELAXED_WORK / -(-n // MOST_ROWS)
        data = self.rows, self.weights, self.penalty
        bound = partial(relaxed_bound, work=work)
        return PricesBound(pieces_bound(*data, self.labels, bound=bound))


BOUNDS: dict[str, Callable[[Fitted], PricesBound]] = {
    "one cluster": Fitted.one_cluster,
    "prices of rows": Fitted.prices,
    "relaxation": Fitted.relaxation,
}
"""Bounds by name, the quicker ones first."""


def clusters_at(rows: Any, weights: Float64Array, penalty: float, centers: Float64Array) -> Fitted:
    """Return the rows, (n, d), that have weight, (n,), at the nearest of some centers, (k, d)."""
    some = weights > 0
    rows, weights = np.ascontiguousarray(rows[some], np.float64), weights[some]
    labels, costs = assign(Block(0, rows, weights), Centers(centers))
    objective = float(weights @ costs) + penalty * len(centers)
    return Fitted(rows, weights, penalty, centers, labels, costs, objective)


def highest(fitted: Fitted) -> tuple[PricesBound, str]:
    """Return the highest bound and its name; it is nearer the better the clusters are."""
    best, method = NOTHING, "none"
    for name, bound in BOUNDS.items():
        found = bound(fitted)
        if found.value > best.value:
            best, method = found, name
        if fitted.penalty < LEAST_PENALTY or fitted.objective <= (1 + PROVED) * best.value:
            break
    return best, method
