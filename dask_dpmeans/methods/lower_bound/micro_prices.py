"""The bound by prices of rows for data larger than memory: micro-clusters pay for their rows.

Two passes: the first one finds how far the rows of each center spread, the second one collects them in
micro-clusters.  What follows is in memory: prices of micro-clusters, proved by bounds of what their
rows pay (`kernels.lower_bound.micro_surplus`).
"""

import math
from dataclasses import dataclass, replace
from math import fsum

import numpy as np

from dask_dpmeans.engine.checkpoints import Checkpoint, state_of, values_of
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.lower_bound.micro_clusters import Collect, Grids, MicroClusters
from dask_dpmeans.kernels.lower_bound.micro_surplus import SUMMED, MicroRows
from dask_dpmeans.kernels.lower_bound.surplus import EPSILON
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.lower_bound.row_prices import (
    LEAST_PENALTY,
    MOST_CELLS,
    NOTHING,
    SETTINGS,
    TINY,
    PricesBound,
    Proof,
    best_prices,
    first_pricing,
)

MICRO_CLUSTERS = 2**15
"""About so many stand for all rows."""


@dataclass(frozen=True, eq=False)
class FittedMicro:
    """Rows in micro-clusters, and the clusters that a fit found of them.

    Weights and lengths are in units that make their sum and the widest column about 1; positions are
    less a point among the rows.
    """

    micro: MicroRows
    labels: IndexArray
    """(m,), the nearest of the fitted centers."""
    penalty: float
    centers: Float64Array
    """(k, d)."""
    costs: Float64Array
    """(m,), weighted squared distances of their rows to the fitted centers."""
    unit: float
    """A power of two: objectives here over objectives of the input."""
    rounding: float
    """A bound of the distance between these rows and the rows of the input, as a root of an inertia."""

    @property
    def objective(self) -> float:
        """Return the objective of the fitted centers, in units of the input."""
        return (fsum(self.costs) + self.penalty * len(self.centers)) / self.unit

    def cluster_gaps(self, paid: Float64Array) -> tuple[float, ...]:
        """Return what each cluster costs less what its rows pay, (m,), in units of the input."""
        beyond = total(self.labels, self.costs - paid, len(self.centers)) + self.penalty
        return tuple((np.maximum(beyond, 0.0) / self.unit).tolist())

    def prices(self, centers: Float64Array, source: Source) -> PricesBound:
        """Return a lower bound for the input; it is nearer the better the centers, (k, d), are.

        If the source keeps checkpoints, a search for prices that was stopped goes on.
        """
        small = self.penalty < max(TINY, LEAST_PENALTY * self.unit)
        if len(centers) > MOST_CELLS or small or self.penalty > 1 / TINY:
            return NOTHING
        upper = fsum(self.costs) + self.penalty * len(self.centers)
        with np.errstate(all="ignore"):  # prices that are not finite prove nothing
            data = self.micro.rows, self.micro.weights, self.penalty
            first = first_pricing(*data, centers, self.micro)
            start = self.micro, self.penalty, upper, centers
            checkpoint = Checkpoint.of(source, Proof, SETTINGS, *start)
            found = best_prices(first, upper, checkpoint)
        lost = 2 * self.rounding * (math.sqrt(upper * (1 + SUMMED)) + self.rounding)
        value = found.value - lost
        return replace(found, value=(value - 4 * EPSILON * abs(value)) / self.unit)


def fitted_micro(source: Source, centers: Float64Array, penalty: float) -> FittedMicro | None:
    """Return the rows of a source in micro-clusters about centers, (k, d), in two passes.

    None if their weighted squared distances are beyond the range of numbers.
    """
    k, d = centers.shape
    summary = source.summary
    with np.errstate(over="ignore"):
        high = np.maximum(summary.highest, centers.max(axis=0))
        spread = float((high - np.minimum(summary.lowest, centers.min(axis=0))).max())
    exponent, heaviness = math.frexp(spread)[1], math.frexp(summary.weight)[1]
    if not -1000 < 2 * exponent + heaviness < 1000:
        return None
    first = Collect(Centers(centers), Grids.one_place(k, d), exponent, heaviness)
    whole = _collect(source, first)
    if not (math.isfinite(spread) and np.isfinite(whole.products).all() and len(whole.keys)):
        return None
    whole = replace(whole, keys=first.grids.labels(whole.keys))
    collect = replace(first, grids=Grids.over(whole, k, MICRO_CLUSTERS))
    found = _collect(source, collect)
    return _move_origin(
        found, collect, np.clip(summary.mean, summary.lowest, summary.highest), penalty
    )


def _collect(source: Source, collect: Collect) -> MicroClusters:
    """Return the answer of a pass; a run that was stopped after it reads it."""
    with Checkpoint.of(source, collect) as checkpoint:
        found = checkpoint.restore(lambda values: state_of(MicroClusters, values))
        if found is None:
            found = source.fold(collect, name="bound")
            checkpoint.update(values_of(found), over=True)
    return found


def _move_origin(
    found: MicroClusters, collect: Collect, origin: Float64Array, penalty: float
) -> FittedMicro:
    """Return micro-clusters less a point among the rows, with moments about their means."""
    labels, d = collect.grids.labels(found.keys), found.sums.shape[1]
    centers = np.ldexp(collect.centers.values - origin, -collect.exponent)
    places, squares = centers[labels], np.trace(found.products, axis1=1, axis2=2)
    covariances = found.covariances
    covariances[:, np.arange(d), np.arange(d)] += (d * SUMMED * squares / found.weights)[
        :, np.newaxis
    ]
    low, high, means = places + found.low, places + found.high, found.means
    micro = MicroRows(
        places + means,
        found.weights,
        low - EPSILON * np.abs(low),
        high + EPSILON * np.abs(high),
        covariances,
        np.maximum(squares - found.weights * (means**2).sum(axis=1), 0),
        squares,
    )
    # Rows less their center, and centers less the origin, are rounded.
    inertia = fsum(found.weights * (places**2).sum(axis=1)) + fsum(squares)
    unit = float(np.ldexp(1.0, -2 * collect.exponent - collect.heaviness))
    rounding = 2 * EPSILON * math.sqrt(inertia)
    return FittedMicro(micro, labels, penalty * unit, centers, squares, unit, rounding)
