"""A semidefinite relaxation of partitions with a price: Peng & Wei 2007, and one step of a solver.

A partition of n items with masses m costs, in units of the price of a cluster,

    sum over the clusters c of  1 + (sum over i, j in c of links_ij) / mass of c.

With roots v = sqrt(m) and y_ij = v_i v_j / mass of c for i, j in c, else 0, this is linear in Y:

    <C, Y>,    C = links_ij / (v_i v_j), plus 1 on the diagonal,

and Y is a projection of nonnegative numbers with Y v = v.  The relaxation is the least <C, Y> over all Y that are
positive semidefinite, Y v = v, Y >= 0, and over the cuts of `triangle_cuts`.  (No eigenvalue of such a Y is above 1.)

The solver is the alternating direction method of multipliers between the two sets {eigenvalues of Y
from 0 to 1, Y v = v} and {Y >= 0, cuts} (as Wen, Goldfarb & Yin 2010 on the dual), over-relaxed.
The projection on the second set is approximate.  The multipliers need no accuracy:
`relaxation_proof` makes a proved bound of any of them.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import eigh

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.lower_bound.triangle_cuts import Cuts

OVER_RELAXATION = 1.6
FIRST_SCALE = 20.0
"""Scale of the first step; 100 steps with pieces of four sets ended at 15 to 45.

From 1, gaps after 50 steps were 1.05 to 3.4 times as large as from 10."""
FEW = 8
"""If fewer than a FEW-th of the eigenvalues were above 0 in the step before, only these are asked for.

Of 600 and 800 rows, 20 eigenvectors took 0.4 of the time of all; a quarter of them took longer than all."""
TINY = 1e-14
"""Lower eigenvalues count as 0."""
CAP = 2.0
"""Highest cost, in units of the one above which no cost has an effect but through cuts."""
PRICE_STEPS = 5
"""Steps of the prices of the cuts in a step of the solver."""
STEPS_BETWEEN_SCALES = 20
"""Steps after which the scale may change."""
LEAST_CHANGE, MOST_CHANGE = 1.3, 2.0
"""Of the scale, as a factor or a divisor."""


@dataclass(frozen=True)
class Problem:
    """Costs and masses of the n items of a relaxation."""

    costs: Float64Array
    """(n, n), C, symmetric, >= 0 and finite."""
    roots: Float64Array
    """(n,), square roots of the masses, > 0."""
    masses: Float64Array
    """(n,), > 0."""

    @classmethod
    def of(cls, links: Float64Array, masses: Float64Array) -> Self:
        """Return the problem of links, (n, n), symmetric, >= 0, infinite for two items that must not be together.

        Costs are capped at `CAP` times the one above which none has an effect without cuts:
        c_ij = (c_ii r + c_jj / r) / 2, r = v_j / v_i.  (A semidefinite matrix C - (y v' + v y') / 2 - N
        with N >= 0 has off-diagonals of at most that much less (y_i v_j + v_i y_j) / 2.)  A lower cost
        never raises the relaxation.
        """
        roots = np.sqrt(masses)
        costs = links / np.outer(roots, roots)
        costs[np.diag_indices_from(costs)] += 1.0
        half = np.outer(np.diag(costs) / roots, roots) / 2
        return cls(np.minimum(costs, CAP * (half + half.T)), roots, masses)


@dataclass(frozen=True)
class Point:
    """Where the solver is."""

    shared: Float64Array
    """(n, n), Y >= 0."""
    multipliers: Float64Array
    """(n, n), over the scale: the pull of the prices of the cuts, less nonnegative multipliers of Y >= 0."""
    prices: Float64Array
    """(m,), >= 0, of the cuts, over the scale."""
    scale: float
    """Of the penalty on differences between the two sets' Y."""
    residual: float = np.inf
    """The larger one of the relative primal and dual residuals."""
    steps: int = 0
    """Steps taken."""
    rank: int = sys.maxsize
    """Eigenvalues above 0 in the last step."""

    @classmethod
    def first(cls, n: int) -> Self:
        """Return the point of n clusters of one item."""
        return cls(np.eye(n), np.zeros((n, n)), np.empty(0), FIRST_SCALE)


def advance(problem: Problem, cuts: Cuts, point: Point, steps: int) -> Point:
    """Return the point after this many steps; each takes the eigenvectors of an (n, n) matrix."""
    for _ in range(steps):
        point = _step(problem, cuts, point)
    return point


def _step(problem: Problem, cuts: Cuts, point: Point) -> Point:
    """Return the point after one step of the alternating direction method of multipliers."""
    scale, before = point.scale, point.shared
    matrix = before - point.multipliers - problem.costs / scale
    semidefinite, rank = _projection(matrix, problem.roots, point.rank)
    mixed = OVER_RELAXATION * semidefinite + (1 - OVER_RELAXATION) * before + point.multipliers
    prices = point.prices
    pull: Float64Array | float = 0.0
    if len(prices):
        prices = _update_prices(cuts, mixed, prices)
        pull = cuts.pull(prices)
    shared = np.maximum(mixed - pull, 0.0)
    multipliers = mixed - shared
    primal = _length(semidefinite - shared) / max(_length(shared), 1.0)
    dual = _length(shared - before) / max(_length(multipliers), 1 / scale)
    residual = max(primal, dual)
    after = Point(shared, multipliers, prices, scale, residual, point.steps + 1, rank)
    if after.steps % STEPS_BETWEEN_SCALES:
        return after
    return _rescale(after, np.sqrt(primal / max(dual, 1e-30)))


def _projection(matrix: Float64Array, roots: Float64Array, rank: int) -> tuple[Float64Array, int]:
    """Return the nearest Y with eigenvalues from 0 to 1 and Y v = v, and its rank, but for v's one.

    `rank` is about that rank.
    """
    unit = roots / _length(roots)
    column = matrix @ unit
    both = np.outer(unit, column - 0.5 * (unit @ column) * unit)
    asked: dict[str, Any] = {"driver": "evd"}
    if FEW * rank < len(roots):
        asked = {"driver": "evr", "subset_by_value": (TINY, np.inf)}
    values, vectors = eigh(matrix - both - both.T, overwrite_a=True, **asked)
    first = int(np.searchsorted(values, TINY))
    kept: Float64Array = vectors[:, first:]
    scaled: Float64Array = kept * np.minimum(values[first:], 1.0)
    return scaled @ kept.T + np.outer(unit, unit), kept.shape[1]


def _update_prices(cuts: Cuts, mixed: Float64Array, prices: Float64Array) -> Float64Array:
    """Return prices after some steps towards the prices of the projection on Y >= 0 and the cuts."""
    flat = mixed.ravel()
    for _ in range(PRICE_STEPS):
        shared = np.maximum(flat - cuts.transposed @ prices, 0.0)
        prices = np.maximum(prices + cuts.steps * (cuts.matrix @ shared), 0.0)
    return prices


def _rescale(point: Point, factor: float) -> Point:
    """Return the point at a scale that balances the residuals."""
    if max(factor, 1 / max(factor, 1e-30)) < LEAST_CHANGE:
        return point
    factor = float(np.clip(factor, 1 / MOST_CHANGE, MOST_CHANGE))
    return replace(
        point,
        multipliers=point.multipliers / factor,
        prices=point.prices / factor,
        scale=point.scale * factor,
    )


def _length(array: Float64Array) -> float:
    return float(np.linalg.norm(array))
