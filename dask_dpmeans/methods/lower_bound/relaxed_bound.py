"""A proved lower bound on the objective of every partition of a few hundred rows: the relaxation with the price.

    J* >= min <D / 2, Z> + penalty tr Z    over Z >= 0, Z positive semidefinite, Z w = 1

with D the squared distances, for weights of 1 (`kernels.lower_bound.relaxation` has any weights).  This is the
relaxation of Peng & Wei 2007 with a price for tr Z in place of tr Z = k.  Triangle inequalities are
added in rounds.  If there are no more, the problem is split in two: a pair of rows together or apart, as
Piccialli, Sudoso & Wiegele 2022 do for a given k.  The bound is proved by `kernels.lower_bound.relaxation_proof`:
the accuracy of the solver matters only for its height.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.lower_bound.relaxation import Point, Problem, advance
from dask_dpmeans.kernels.lower_bound.relaxation_proof import EPS, proved_bound
from dask_dpmeans.kernels.lower_bound.triangle_cuts import Cuts, most_violated, no_cuts

WORK = 2**36
"""Most work of a bound; 1,000 steps of 400 rows."""
STEP_WORK = 2**17
"""Work of a step, and n**3 for n groups of rows."""
LEAST_GAP = 1e-7
"""A bound this near to the best known objective, as a share of it, is good enough."""
STEPS = 25
"""Steps between proofs."""
PROOFS = 12
"""Proofs between rounds of cuts, unless the solver converges before."""
CUTS_OF_ROW = 10
"""Most new cuts of a round, for each row."""
CONVERGED = 1e-5, 1e-10
"""Residuals at which a round ends: with cuts to come, and without."""
LEAST_GAIN = 0.05
"""A round without new cuts is the last one if it closes less than this share of the gap."""
LEAST_DOUBT = 1e-6
"""Least doubt of a pair that a problem is split on."""
LEAST_PRICE = 1e-9
"""A cut stays while its price is above this share of the highest one."""
TINY, HUGE = 1e-100, 1e100
"""Range of weights in units of the penalty; heavier rows count as this, lighter ones are left out."""


@dataclass(frozen=True)
class Instance:
    """Rows in units of the penalty and of their spread, n of them."""

    squared: Float64Array
    """(n, n), squared distances, rounded down."""
    weights: Float64Array
    """(n,), > 0, rounded down."""


@dataclass(frozen=True, eq=False)
class Before:
    """Where the solver ended in the node before."""

    groups: IndexArray
    """(n,), its groups."""
    roots: Float64Array
    """(groups,), square roots of their masses."""
    triples: IndexArray
    """(m, 3), rows of its last cuts."""
    point: Point
    """Its last point."""

    def for_larger_groups(self, groups: IndexArray, roots: Float64Array) -> tuple[Cuts, Point]:
        """Return the cuts and the point for larger groups, (n,), with these square roots of masses."""
        i, j, k = triples = groups[self.triples].T
        still = (i != j) & (i != k)  # the others are no inequalities any more
        triples, which = np.unique(triples.T[still], axis=0, return_inverse=True)
        paid = np.bincount(which.ravel(), self.point.prices[still], len(triples))
        shares = np.zeros((len(roots), len(self.roots)))
        shares[groups, self.groups] = self.roots[self.groups] / roots[groups]
        shared, multipliers = (
            shares @ each @ shares.T for each in (self.point.shared, self.point.multipliers)
        )
        point = Point(shared, multipliers, paid.astype(np.float64), self.point.scale)
        return Cuts.of(triples, roots), point


@dataclass(frozen=True, eq=False)
class Node:
    """The partitions in which some rows are together and some are not."""

    groups: IndexArray
    """(n,), numbers of the groups of rows that are together."""
    apart: tuple[tuple[int, int], ...]
    """Pairs of rows that are not together."""
    bound: float
    """Proved, in prices of a cluster."""
    pair: tuple[int, int] | None = None
    """Two rows to split on; None if all rows are together."""
    before: Before | None = None
    """Where the solver begins; None: at clusters of one item."""


def relaxed_bound(
    rows: Rows, weights: Float64Array, penalty: float, upper: float = math.inf, work: float = WORK
) -> float:
    """Return a lower bound on the objective of every partition of the rows, proved, rounding included.

    The same arguments give the same bytes if BLAS has one thread.  Memory is about 20 (n, n) arrays,
    and 2 of each node that is not closed.

    Parameters
    ----------
    rows : (n, d), finite, a few hundred of them that differ
    weights : (n,), >= 0, some > 0
    penalty : > 0
    upper : the objective of some partition, where the work may stop
    work : most work, `STEP_WORK` + n**3 for each step of the solver; what was proved until then is
        returned
    """
    instance = _instance(rows, weights, penalty)
    if not len(instance.weights):
        return penalty
    bound = _branch_and_bound(instance, upper / penalty * (1 - LEAST_GAP), work)
    return max(penalty, penalty * bound * (1 - 4 * EPS))


def _instance(rows: Rows, weights: Float64Array, penalty: float) -> Instance:
    """Return rows that differ, with weights over the penalty; no rounding raises the objective of a partition."""
    some = weights > 0
    values, inverse = np.unique(rows[some].astype(np.float64) + 0.0, axis=0, return_inverse=True)
    quarter = 0.25 * values
    spread = float((quarter.max(axis=0) - quarter.min(axis=0)).max())
    exponent = math.frexp(spread)[1] + 2
    mantissa, of_penalty = math.frexp(penalty)
    with np.errstate(over="ignore", under="ignore"):
        mantissas, exponents = np.frexp(weights[some])  # quotients of subnormal weights are coarse
        in_units = np.ldexp(mantissas / mantissa, exponents + (2 * exponent - of_penalty))
        heavy = np.minimum(np.bincount(inverse.ravel(), in_units), HUGE)
        heavy *= 1 - 2 * (len(weights) + 8) * EPS
        kept = heavy > TINY
        return Instance(_squared(np.ldexp(values, -exponent)[kept]), heavy[kept])


def _squared(rows: Float64Array) -> Float64Array:
    """Return squared distances, (n, n), of rows that lie within 1 of each other, rounded down."""
    n, d = rows.shape
    squared = np.zeros((n, n))
    for column in rows.T:
        squared += (column[:, np.newaxis] - column) ** 2
    lower: Float64Array = squared * (1 - 2 * (d + 8) * EPS) - 1e-290
    return np.maximum(lower, 0.0)


def _branch_and_bound(instance: Instance, enough: float, work: float) -> float:
    """Return a bound in prices of a cluster: branch and bound, the lowest node first."""
    n = len(instance.weights)
    root, left = _bound_node(instance, Node(np.arange(n), (), 1.0), enough, work)
    nodes = [root]
    while True:
        lowest = min(nodes, key=lambda node: node.bound)
        if lowest.bound >= enough or lowest.pair is None or left <= 0:
            return lowest.bound
        nodes.remove(lowest)
        node = replace(lowest, pair=None)
        one, two = node.groups[list(lowest.pair)]
        joined = np.unique(np.where(node.groups == two, one, node.groups), return_inverse=True)[1]
        together = replace(node, groups=joined)
        for child in (together, replace(node, apart=(*node.apart, lowest.pair))):
            bounded, left = _bound_node(instance, child, enough, left)
            nodes.append(bounded)


def _bound_node(instance: Instance, node: Node, enough: float, work: float) -> tuple[Node, float]:
    """Return a node with its bound and its pair, and the work that is left."""
    groups = node.groups
    if any(groups[one] == groups[two] for one, two in node.apart):
        return replace(node, bound=math.inf), work
    problem = _problem(instance, node)
    if len(problem.masses) == 1:
        return replace(node, bound=max(node.bound, problem.costs[0, 0] * (1 - 32 * EPS))), work
    cuts, point = no_cuts(problem.roots), Point.first(len(problem.masses))
    if node.before is not None:
        cuts, point = node.before.for_larger_groups(groups, problem.roots)
    bound, cuts, point, work = _solve_relaxation(problem, cuts, point, _apart(node), enough, work)
    first = np.unique(groups, return_index=True)[1]
    pair = _pair(point.shared, problem.roots, _apart(node))
    rows = None if pair is None else (int(first[pair[0]]), int(first[pair[1]]))
    before = Before(groups, problem.roots, first[cuts.triples], point)
    return replace(node, bound=max(node.bound, bound), pair=rows, before=before), work


def _problem(instance: Instance, node: Node) -> Problem:
    """Return the problem whose items are the groups of a node, with costs and masses rounded down."""
    groups = node.groups
    n, lower = int(groups.max()) + 1, 1 - 8 * (len(groups) + 8) * EPS
    links = np.zeros((n, n))
    each = 0.5 * np.outer(instance.weights, instance.weights) * instance.squared
    np.add.at(links, (groups[:, np.newaxis], groups), each)
    links *= lower
    one, two = _apart(node)
    links[one, two] = links[two, one] = math.inf
    masses = np.bincount(groups, instance.weights).astype(np.float64) * lower
    return Problem.of(links, masses)


def _solve_relaxation(
    problem: Problem, cuts: Cuts, point: Point, apart: IndexArray, enough: float, work: float
) -> tuple[float, Cuts, Point, float]:
    """Return a bound, the last cuts and point, and the work that is left."""
    bound, n = 1.0, len(problem.masses)
    while True:
        before = bound
        for _ in range(PROOFS):
            point = advance(problem, cuts, point, STEPS)
            bound, work = (
                max(bound, proved_bound(problem, cuts, point)),
                work - STEPS * (n**3 + STEP_WORK),
            )
            if bound >= enough or work <= 0:
                return bound, cuts, point, work
            if point.residual < CONVERGED[0]:
                break
        new = most_violated(point.shared, problem.roots, CUTS_OF_ROW * n)
        if len(new):
            cuts, point = _with_cuts(cuts, point, new, problem.roots)
            continue
        slow = bound - before < LEAST_GAIN * (enough - bound)
        if point.residual < CONVERGED[1] or (slow and _pair(point.shared, problem.roots, apart)):
            return bound, cuts, point, work


def _with_cuts(
    cuts: Cuts, point: Point, new: IndexArray, roots: Float64Array
) -> tuple[Cuts, Point]:
    """Return the cuts that have a price, and new ones, which have none yet."""
    kept = point.prices > LEAST_PRICE * point.prices.max(initial=0.0)
    triples = np.concatenate([cuts.triples[kept], new])
    first = np.sort(np.unique(triples, axis=0, return_index=True)[1])
    prices = np.concatenate([point.prices[kept], np.zeros(len(new))])[first]
    return Cuts.of(triples[first], roots), replace(point, prices=prices)


def _apart(node: Node) -> IndexArray:
    """Return the groups of the pairs that are not together, (2, pairs)."""
    return node.groups[np.array(node.apart, np.intp).reshape(-1, 2)].T


def _pair(shared: Float64Array, roots: Float64Array, apart: IndexArray) -> tuple[int, int] | None:
    """Return the two items that are least decided: together in part, and with other items in common.

    None if all are decided, or are apart already, (2, pairs).
    """
    z = shared / np.outer(roots, roots)
    norms = (z**2).sum(axis=1)
    other = np.maximum(norms[:, np.newaxis] + norms - 2 * z @ z, 0.0)
    doubt = np.minimum(z / z.max(), other / other.max(initial=1e-300))
    doubt[*apart] = doubt[*apart[::-1]] = 0.0
    doubt = np.triu(doubt, 1)
    one, two = divmod(int(doubt.argmax()), len(z))
    return (one, two) if one < two and doubt[one, two] > LEAST_DOUBT else None
