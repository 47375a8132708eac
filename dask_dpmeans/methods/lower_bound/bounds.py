"""Lower bounds of the objective of rows in memory; the highest one counts.

Each bound in `BOUNDS` is a proof: no clusters of these rows cost less, rounding included.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.lower_bound.anticlusters import pieces_bound, split_rows
from dask_dpmeans.methods.lower_bound.row_prices import (
    LEAST_PENALTY,
    MOST_AXES,
    NOTHING,
    PricesBound,
    prices_bound,
)

PRICES = "prices of rows"
FEW_ROWS = 1500
"""Of up to so many rows bounds are tried until one is within `PROVED`, of more until one is within `NEAR`."""
NEAR = 0.05
"""A bound this near to the lowest objective known, over the bound, is the last of more rows: others take minutes."""
PROVED = 1e-6
"""A bound this near to the lowest objective known, over the bound, is the last of few rows."""
RELAXED_ROWS = 2**17
"""More rows have no bound by relaxation, which takes some 10 ms of a processor for each."""
WORK, WORK_OF_ROW = 3 * 2**34, 2e7
"""Least work of the relaxations of all pieces, and work for each row; see `relaxed_bound`."""
STEPS = 80
"""Steps of the solver that the work must be enough for in all pieces: so the larger they are, the better."""


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
    source: Source
    """Whose workers bound pieces side by side, and whose checkpoints save their bounds."""

    def cluster_gaps(self, paid: Float64Array) -> tuple[float, ...]:
        """Return what each cluster costs less what its rows pay, (n,): never below 0 but by rounding."""
        beyond = total(self.labels, self.weights * self.costs - paid, len(self.centers))
        return tuple(np.maximum(beyond + self.penalty, 0.0).tolist())

    def one_cluster(self, _: float) -> PricesBound:
        """Return what one cluster without inertia costs."""
        return PricesBound(self.penalty)

    def prices(self, known: float) -> PricesBound:
        """Return the bound by prices of rows, if it can be higher than a known one."""
        data = self.rows, self.weights, self.penalty
        given = *data, self.objective, self.centers, known
        return self.source.here(lambda _: prices_bound(*given), "prices")

    def relaxation(self, _: float) -> PricesBound:
        """Return the bound by relaxations of pieces of the rows."""
        n = len(self.rows)
        work = max(WORK, WORK_OF_ROW * n)
        n_pieces = math.ceil(math.sqrt(STEPS * n**3 / work))
        data = self.rows, self.weights, self.penalty, self.labels
        return PricesBound(pieces_bound(split_rows(*data, n_pieces, work), self.source))


BOUNDS: dict[str, Callable[[Fitted, float], PricesBound]] = {
    "one cluster": Fitted.one_cluster,
    PRICES: Fitted.prices,
    "relaxation": Fitted.relaxation,
}
"""Bounds by name, of fitted clusters and the highest bound so far."""


def clusters_at(
    rows: Any, weights: Float64Array, penalty: float, centers: Float64Array, source: Source
) -> Fitted:
    """Return the rows, (n, d), that have weight, (n,), at the nearest of some centers, (k, d)."""
    some = weights > 0
    rows, weights = np.ascontiguousarray(rows[some], np.float64), weights[some]
    labels, costs = assign(Block(0, rows, weights), Centers(centers))
    objective = float(weights @ costs) + penalty * len(centers)
    return Fitted(rows, weights, penalty, centers, labels, costs, objective, source)


def highest(fitted: Fitted, relaxed_rows: float = math.inf) -> tuple[PricesBound, str]:
    """Return the highest bound and its name; it is nearer the better the clusters are.

    More than `relaxed_rows` rows, or than `RELAXED_ROWS`, have no bound by relaxation.
    """
    best, method, (n, d) = NOTHING, "none", fitted.rows.shape
    enough = PROVED if n <= FEW_ROWS else NEAR
    names = [
        name for name in BOUNDS if name != "relaxation" or n <= min(relaxed_rows, RELAXED_ROWS)
    ]
    if d > MOST_AXES:
        names.sort(key=PRICES.__eq__)  # to the end: they lose what the other axes cost
    for name in names:
        found = BOUNDS[name](fitted, best.value)
        if found.value > best.value:
            best, method = found, name
        if fitted.penalty < LEAST_PENALTY or fitted.objective <= (1 + enough) * best.value:
            break
    return best, method
