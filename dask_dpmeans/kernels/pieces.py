"""Search over partitions of a few pieces for the lowest price * k - sum of kept(c) / mass(c).

Pieces are nodes of a graph or rows in the space of a kernel function, one or several of them.  A
cluster keeps the sum of the links between its pieces, and its mass is the sum of their masses.  So
three problems are one:

    cuts of a graph     links and masses as in `graph_cut.gains`
    kernel k-means      links w_i w_j K_ij, masses w_i, price the penalty (up to a constant)
    pieces of clusters  sums of both over the members of each piece

A descent takes the best move of a piece, the best merge and the best split, each by its exact gain,
until none gains.  Then the partition is shaken and descends again, and the lowest one is kept
(iterated local search, Lourenço et al. 2003).  Splits grow as in Kernighan & Lin 1970: pieces
change sides one after the other, the best first, even at a loss, and the best of all stages counts.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from typing import NamedTuple

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Labels
from dask_dpmeans.kernels.graph_cut.gains import Totals
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import pays
from dask_dpmeans.kernels.pieces_compiled import (
    GROWTH_SEEDS,
    KNOWN_HALVES,
    MOST_PIECES,
    Known,
    Problem,
    descend_compiled,
    halves_compiled,
    merge_gains_compiled,
    objective_compiled,
)

PRICE_ROUNDING = 1e-9
"""A move must gain more than this share of the price, ..."""
EVALUATION_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""... plus this share of kept / mass of the pieces: more than the rounding of its evaluation."""
FAILED_SHAKES = 32
"""The search ends after this many shakes in a row without a gain."""
PIECE_WORK = 2**21
"""Numbers that NumPy handles in the time of a search for each of its pieces, some 2 milliseconds."""


class Halves(NamedTuple):
    """A split of a cluster in two."""

    second: BoolArray
    """(members,), the pieces that leave it."""
    gain: float
    """Decrease of the objective."""


@dataclass(frozen=True)
class PieceProblem:
    """Links, masses and price of a few pieces, m of them."""

    links: Float64Array
    """(m, m), symmetric; each piece's own kept weight on the diagonal."""
    masses: Float64Array
    """(m,), > 0."""
    price: float
    """Price of a cluster."""
    least: float
    """A change must gain more than this."""

    @classmethod
    def of(cls, links: Float64Array, masses: Float64Array, price: float) -> "PieceProblem":
        """Return the problem of links, (m, m), and masses, (m,); `least` exceeds the rounding."""
        return cls(links, masses, price, least_gain(price, np.abs(links.diagonal()) / masses))

    def centered(self) -> "PieceProblem":
        """Return the same problem with the mean as the origin of the space, where sums round less.

        All changes gain the same, and must still gain more than the rounding of the given links.
        """
        reach = self.links.sum(axis=1) / self.masses.sum()
        middle = float(reach.sum() / self.masses.sum())
        shift = np.outer(self.masses, reach - 0.5 * middle * self.masses)
        return replace(self, links=self.links - (shift + shift.T))

    @cached_property
    def own(self) -> Float64Array:
        """(m,), the kept weight of each piece alone."""
        return self.links.diagonal().copy()

    @cached_property
    def halves(self) -> dict[bytes, Halves]:
        """The best halves of clusters found so far, by the bytes of their members."""
        return {}

    @cached_property
    def compiled(self) -> tuple[Problem, Known] | None:
        """The arguments of compiled loops: the problem, and halves found; None if they do not pay."""
        m = len(self.masses)
        if m > MOST_PIECES:
            return None
        bits = np.zeros((2, KNOWN_HALVES, 1 + m // 64), np.int64)
        problem = np.ascontiguousarray(self.links.T), self.own, self.masses, self.price, self.least
        known = bits[0], bits[1], np.zeros(KNOWN_HALVES)
        given = problem, np.zeros(m, np.int64), known
        if not pays(descend_compiled, given, m * PIECE_WORK):
            return None
        return problem, known

    def sums(self, labels: IndexArray) -> Float64Array:
        """Return links of pieces to clusters, (m, k), for labels, (m,), from 0 on without gaps."""
        order = np.argsort(labels, kind="stable")
        firsts = np.searchsorted(labels[order], np.arange(labels.max() + 1))
        sums: Float64Array = np.add.reduceat(self.links[:, order], firsts, axis=1)
        return sums

    def objective(self, labels: IndexArray) -> float:
        """Return price * k - sum of kept / mass for labels, (m,), from 0 on without gaps."""
        if self.compiled:
            return objective_compiled(self.compiled[0], labels.astype(np.int64))
        totals = self.totals(self.sums(labels), labels)
        return self.price * len(totals.kept) - fsum(totals.kept / totals.masses)

    def totals(self, sums: Float64Array, labels: IndexArray) -> Totals:
        """Return the totals of the k clusters from `sums`, (m, k), and labels, (m,)."""
        k = sums.shape[1]
        kept = total(labels, sums[np.arange(len(labels)), labels], k)
        return Totals(kept, total(labels, self.masses, k), np.bincount(labels, minlength=k))


def least_gain(price: float, rates: Float64Array) -> float:
    """Return a bound on the rounding of a gain made of rates kept / mass, (c,), and the price."""
    return PRICE_ROUNDING * abs(price) + EVALUATION_ROUNDING * fsum(np.abs(rates))


def search_partitions(
    problem: PieceProblem, labels: IndexArray, random: np.random.Generator
) -> IndexArray:
    """Return the lowest partition found from `labels`, (m,); `labels` itself if none is lower."""
    best, lowest, failures = labels, problem.objective(labels), 0
    starts = [labels, np.zeros(len(labels), np.intp), np.arange(len(labels))]
    while failures < FAILED_SHAKES:
        start = starts.pop(0) if starts else shake(problem, best, random)
        found = descend(problem, start)
        value = problem.objective(found)
        if value < lowest - problem.least:
            best, lowest, failures = found, value, 0
        else:
            failures += 1
    return best


def descend(problem: PieceProblem, labels: IndexArray) -> IndexArray:
    """Return labels, (m,), after moves, merges and splits until none gains."""
    if problem.compiled:
        labels = labels.astype(np.int64)
        descend_compiled(problem.compiled[0], labels, problem.compiled[1])
        return labels
    value = np.inf
    while True:
        moved = _move_pieces(problem, labels)
        lower = problem.objective(moved)
        if not lower < value:  # ends the loop even if a gain were only rounding
            return labels
        labels, value = moved, lower
        after = _merge_best(problem, labels)
        if after is None:
            after = _split_clusters(problem, labels)
        if after is None:
            return labels
        labels = after


def _move_pieces(problem: PieceProblem, labels: IndexArray) -> IndexArray:
    """Return the labels, (m,), after moves of single pieces, the best first."""
    labels, sums, value = labels.copy(), problem.sums(labels), np.inf
    while True:
        totals = problem.totals(sums, labels)
        before = value
        value = problem.price * len(totals.kept) - float((totals.kept / totals.masses).sum())
        if not value < before:  # the updated sums round, and moves could go in a circle
            return labels
        gains = move_gains(sums, labels, problem.own, problem.masses, totals, problem.price)
        piece, target = divmod(int(gains.argmax()), gains.shape[1])
        if not gains[piece, target] > problem.least:
            return labels
        labels, sums = _with_move(problem, labels, sums, piece, target)


def move_gains(
    links: Float64Array,
    labels: IndexArray,
    own: Float64Array,
    masses: Float64Array,
    totals: Totals,
    price: float,
) -> Float64Array:
    """Return the gains of moving each piece alone to each cluster, and last to a new one.

    Parameters
    ----------
    links : (m, k), of each piece to each cluster
    labels, own, masses : (m,), the cluster, the kept weight and the mass of each piece
    totals : of the k clusters
    price : price of a cluster

    Returns
    -------
    (m, k + 1), -inf for the cluster that holds the piece
    """
    each, rates = np.arange(len(links)), totals.kept / totals.masses
    single = totals.sizes[labels] == 1
    rest = totals.masses[labels] - masses
    known = ~single & (rest > 0)  # rounding leaves a rest of 0 if one piece outweighs all others
    left = np.where(single, price, -np.inf)
    np.divide(totals.kept[labels] - 2 * links[each, labels] + own, rest, out=left, where=known)
    gains = np.empty((len(links), len(rates) + 1))
    joint_masses = totals.masses + masses[:, np.newaxis]
    gains[:, :-1] = (totals.kept + 2 * links + own[:, np.newaxis]) / joint_masses - rates
    gains[:, -1] = np.where(single, -np.inf, own / masses - price)
    gains += (left - rates[labels])[:, np.newaxis]
    gains[each, labels] = -np.inf
    return gains


def _with_move(
    problem: PieceProblem, labels: IndexArray, sums: Float64Array, piece: int, target: int
) -> tuple[IndexArray, Float64Array]:
    """Return labels, (m,), and sums, (m, k), after a move to a cluster, or to a new one, k."""
    home, links = labels[piece], problem.links[:, piece]
    if target == sums.shape[1]:
        sums = np.column_stack([sums, np.zeros(len(labels))])
    sums[:, home] -= links
    sums[:, target] += links
    labels[piece] = target
    if (labels == home).any():
        return labels, sums
    return labels - (labels > home), np.delete(sums, home, axis=1)


def _merge_best(problem: PieceProblem, labels: IndexArray) -> IndexArray | None:
    """Return the labels, (m,), after the best merge; None if no merge gains."""
    gains = merge_gains(problem, labels)
    first, second = divmod(int(gains.argmax()), len(gains))
    if gains[first, second] > problem.least:
        return merge_two(labels, first, second)
    return None


def merge_gains(problem: PieceProblem, labels: IndexArray) -> Float64Array:
    """Return the gains of merges, (k, k); -inf on and below the diagonal."""
    if problem.compiled:
        return merge_gains_compiled(problem.compiled[0], labels.astype(np.int64))
    sums = problem.sums(labels)
    totals = problem.totals(sums, labels)
    kept, masses, k = totals.kept, totals.masses, len(totals.kept)
    between = np.stack([total(labels, column, k) for column in sums.T], axis=1)
    rates = kept / masses
    together = (kept[:, np.newaxis] + kept + 2 * between) / (masses[:, np.newaxis] + masses)
    gains: Float64Array = problem.price + together - rates[:, np.newaxis] - rates
    gains[np.tril_indices(k)] = -np.inf
    return gains


def merge_two(labels: IndexArray, first: int, second: int) -> IndexArray:
    """Return the labels, (m,), after two clusters have become one."""
    return relabel(np.where(labels == second, first, labels))


def relabel(labels: Labels | IndexArray) -> IndexArray:
    """Return the same clusters, (m,), numbered without gaps in the order of their labels."""
    found: IndexArray = (np.cumsum(np.bincount(labels) > 0) - 1)[labels]
    return found


def _split_clusters(problem: PieceProblem, labels: IndexArray) -> IndexArray | None:
    """Return the labels, (m,), after all splits that gain; None if no split gains."""
    after, k, known = labels.copy(), int(labels.max()) + 1, problem.halves
    for cluster in range(k):
        members = np.flatnonzero(labels == cluster)
        key = members.tobytes()
        if key not in known:
            seeds = np.unique(np.linspace(0, len(members) - 1, GROWTH_SEEDS).astype(np.intp))
            known[key] = best_halves(problem, members, seeds)
        second, gain = known[key]
        if gain > problem.least:
            after[members[second]] = k
            k += 1
    return after if k > labels.max() + 1 else None


def best_halves(problem: PieceProblem, members: IndexArray, seeds: IndexArray) -> Halves:
    """Return the best halves of a cluster, (members,), that grow from seeds, (s,) positions.

    One half grows from each seed at the same time, piece by piece; arrays of growing halves are
    (s,).
    """
    if problem.compiled:
        second = np.empty(len(members), np.bool_)
        return Halves(second, halves_compiled(problem.compiled[0], members, seeds, second))
    links = problem.links[np.ix_(members, members)]
    masses, own = problem.masses[members], problem.own[members]
    each, reach = np.arange(len(seeds)), links.sum(axis=1)
    kept, mass = float(reach.sum()), float(masses.sum())
    inside = np.zeros((len(seeds), len(members)), np.bool_)
    shared = np.zeros(inside.shape)  # links of each piece to the growing half
    grown_kept, grown_mass, grown_reach = np.zeros((3, len(seeds)))
    best = Halves(inside[0], -np.inf)
    chosen = seeds
    for _ in range(len(members) - 1):
        grown_kept += own[chosen] + 2 * shared[each, chosen]
        grown_mass += masses[chosen]
        grown_reach += reach[chosen]
        inside[each, chosen] = True
        shared += links[chosen]
        rates = _rates_of_halves(kept - 2 * grown_reach, mass, grown_kept, grown_mass, -np.inf)
        lead = int(rates.argmax())
        gain = float(rates[lead] - kept / mass - problem.price)
        if gain > best.gain:
            best = Halves(inside[lead].copy(), gain)
        next_kept = grown_kept[:, np.newaxis] + 2 * shared + own
        rest = kept - 2 * (grown_reach[:, np.newaxis] + reach)
        after = _rates_of_halves(rest, mass, next_kept, grown_mass[:, np.newaxis] + masses, 0.0)
        after[inside] = -np.inf
        chosen = after.argmax(axis=1)
    return best


def _rates_of_halves(
    rest: Float64Array, mass: float, kept: Float64Array, masses: Float64Array, empty: float
) -> Float64Array:
    """Return rates kept / mass of growing halves plus the rates of their rests, of one shape.

    A rest keeps `rest + kept`; `empty` is its rate if it has no mass.
    """
    lighter = mass - masses
    left = np.divide(rest + kept, lighter, out=np.full(lighter.shape, empty), where=lighter > 0)
    rates: Float64Array = kept / masses + left
    return rates


def shake(problem: PieceProblem, labels: IndexArray, random: np.random.Generator) -> IndexArray:
    """Return the labels, (m,), after a random change, whatever it loses."""
    m, k = len(labels), int(labels.max()) + 1
    kind = random.integers(5)
    if kind == 0 and k > 1:
        cluster, gains = int(random.integers(k)), merge_gains(problem, labels)
        best = int(np.maximum(gains, gains.T)[cluster].argmax())  # which loses least
        return merge_two(labels, *sorted((cluster, best)))
    if kind == 1 and k > 1:
        first, second = random.choice(k, 2, replace=False)
        return _split_random(problem, merge_two(labels, *sorted((int(first), int(second)))), random)
    if kind == 2:
        return _split_random(problem, labels, random)
    if kind == 3:
        return relabel(random.integers(0, random.integers(1, min(m, 2 * k + 1) + 1), m))
    some = random.random(m) < random.choice([0.1, 0.3])
    some[random.integers(m)] = True
    return relabel(np.where(some, random.integers(0, k + 1, m), labels))


def _split_random(
    problem: PieceProblem, labels: IndexArray, random: np.random.Generator
) -> IndexArray:
    """Return the labels, (m,), after a split of a cluster: one half grows from a random piece."""
    piece = int(random.integers(len(labels)))
    members = np.flatnonzero(labels == labels[piece])
    if len(members) < 2:
        return labels
    halves = best_halves(problem, members, np.searchsorted(members, [piece]))
    after = labels.copy()
    after[members[halves.second]] = labels.max() + 1
    return after
