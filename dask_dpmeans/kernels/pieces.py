"""Clusters of a few pieces: a search over partitions for the lowest price * k - sum of kept(c) / mass(c).

Pieces are nodes of a graph or rows in the space of a kernel, alone or some of them together.  What a cluster keeps is
the sum of the links between its pieces, and its mass is the sum of theirs, so that three problems are one:

    cuts of a graph     links and masses as `graph` has them
    kernel k-means      links w_i w_j K_ij, masses w_i, price the penalty; but for the constant sum of w_i K_ii
    pieces of clusters  sums of both over the members of each piece

A descent takes the best move of a piece, the best merge and the best split, each by its exact effect, until none gains.
Then the partition is shaken and descends again, and the lowest stays (iterated local search, Lourenço et al. 2003).
Splits are grown as Kernighan & Lin 1970 do: pieces change sides one after the other, the best first, also where that
loses, and the best of all stages counts.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray
from dask_dpmeans.kernels.graph import Totals
from dask_dpmeans.kernels.moments import total

ROUNDING = 1e-9
"""Of the price, the share that a move must gain, ..."""
EVALUATION = 16 * float(np.finfo(np.float64).eps)
"""... and of what the pieces keep by their masses: more than the rounding of its own evaluation."""
MOST_PIECES = 2**7
"""Pieces that are searched together: 0.6 seconds of one core."""
TRIES = 32
"""Shakes in a row that must fail."""
SEEDS = 12
"""Pieces of a cluster that halves grow from, spread evenly over it where it has more."""

Halves = tuple[BoolArray, float]
"""Which pieces of a cluster leave it, (members,), and what that gains."""


@dataclass(frozen=True)
class Pieces:
    """A problem of a few pieces."""

    links: Float64Array
    """(m, m), symmetric; what each piece keeps on the diagonal."""
    masses: Float64Array
    """(m,), > 0."""
    price: float
    """Of a cluster."""
    least: float
    """What a change must gain."""

    @classmethod
    def of(cls, links: Float64Array, masses: Float64Array, price: float) -> "Pieces":
        """The problem of these links, a change of which must gain more than it is rounded by."""
        return cls(links, masses, price, least_gain(price, np.abs(links.diagonal()) / masses))

    def centered(self) -> "Pieces":
        """The same problem in the space of a kernel whose origin is the mean, where sums are rounded less.

        The gains of all changes are the same, and must still be above what the links were rounded by.
        """
        reach = self.links.sum(axis=1) / self.masses.sum()
        middle = float(reach.sum() / self.masses.sum())
        shift = np.outer(self.masses, reach - 0.5 * middle * self.masses)
        return replace(self, links=self.links - (shift + shift.T))

    @cached_property
    def own(self) -> Float64Array:
        """(m,), what each piece keeps."""
        return self.links.diagonal().copy()

    def sums(self, labels: IndexArray) -> Float64Array:
        """(m, k), the links of each piece to each cluster, numbered from 0 on, none empty."""
        order = np.argsort(labels, kind="stable")
        firsts = np.searchsorted(labels[order], np.arange(labels.max() + 1))
        found: Float64Array = np.add.reduceat(self.links[:, order], firsts, axis=1)
        return found

    def objective(self, labels: IndexArray) -> float:
        """Price * k - shares of clusters numbered from 0 on, none empty."""
        totals = self.totals(self.sums(labels), labels)
        return self.price * len(totals.kept) - fsum(totals.kept / totals.masses)

    def totals(self, sums: Float64Array, labels: IndexArray) -> Totals:
        """Of the k clusters."""
        k = sums.shape[1]
        kept = total(labels, sums[np.arange(len(labels)), labels], k)
        return Totals(kept, total(labels, self.masses, k), np.bincount(labels, minlength=k))


def least_gain(price: float, rates: Float64Array) -> float:
    """What a change must gain where these shares, kept by mass, are what is summed: more than its own rounding."""
    return ROUNDING * abs(price) + EVALUATION * fsum(np.abs(rates))


def regrouped(pieces: Pieces, labels: IndexArray, random: np.random.Generator) -> IndexArray:
    """(m,), the lowest partition that a search from `labels` finds; these themselves where none is lower."""
    best, lowest, failures = labels, pieces.objective(labels), 0
    starts = [labels, np.zeros(len(labels), np.intp), np.arange(len(labels))]
    known: dict[bytes, Halves] = {}
    while failures < TRIES:
        start = starts.pop(0) if starts else shaken(pieces, best, random)
        found = settled(pieces, start, known)
        value = pieces.objective(found)
        if value < lowest - pieces.least:
            best, lowest, failures = found, value, 0
        else:
            failures += 1
    return best


def settled(pieces: Pieces, labels: IndexArray, known: dict[bytes, Halves]) -> IndexArray:
    """(m,), the clusters after moves, merges and splits until none gains; `known` keeps the best halves of clusters."""
    value = np.inf
    while True:
        moved = _moved(pieces, labels)
        lower = pieces.objective(moved)
        if not lower < value:  # what a merge or a split gains is above its rounding, and yet no loop has an end by that
            return labels
        labels, value = moved, lower
        after = _merged(pieces, labels)
        if after is None:
            after = _split(pieces, labels, known)
        if after is None:
            return labels
        labels = after


def _moved(pieces: Pieces, labels: IndexArray) -> IndexArray:
    """The clusters after moves of single pieces, the best first."""
    labels, sums, value = labels.copy(), pieces.sums(labels), np.inf
    while True:
        totals = pieces.totals(sums, labels)
        before, value = value, pieces.price * len(totals.kept) - float((totals.kept / totals.masses).sum())
        if not value < before:  # sums that are changed in place round, and a circle would have no end
            return labels
        gains = move_gains(sums, labels, pieces.own, pieces.masses, totals, pieces.price)
        piece, target = divmod(int(gains.argmax()), gains.shape[1])
        if not gains[piece, target] > pieces.least:
            return labels
        labels, sums = _with_move(pieces, labels, sums, piece, target)


def move_gains(
    links: Float64Array,
    labels: IndexArray,
    own: Float64Array,
    masses: Float64Array,
    totals: Totals,
    price: float,
) -> Float64Array:
    """What pieces gain by moving alone to each cluster, and last to one of their own.

    Parameters
    ----------
    links : (m, k), of each piece to each cluster
    labels, own, masses : (m,), the cluster of each piece, what it keeps, and its mass
    totals : of the k clusters
    price : of a cluster

    Returns
    -------
    (m, k + 1), minus infinity to where a piece is
    """
    each, rates = np.arange(len(links)), totals.kept / totals.masses
    single = totals.sizes[labels] == 1
    rest = totals.masses[labels] - masses
    known = ~single & (rest > 0)  # of a piece that outweighs all others of its cluster by far, nothing may be left
    left = np.where(single, price, -np.inf)
    np.divide(totals.kept[labels] - 2 * links[each, labels] + own, rest, out=left, where=known)
    gains = np.empty((len(links), len(rates) + 1))
    gains[:, :-1] = (totals.kept + 2 * links + own[:, np.newaxis]) / (totals.masses + masses[:, np.newaxis]) - rates
    gains[:, -1] = np.where(single, -np.inf, own / masses - price)
    gains += (left - rates[labels])[:, np.newaxis]
    gains[each, labels] = -np.inf
    return gains


def _with_move(
    pieces: Pieces, labels: IndexArray, sums: Float64Array, piece: int, target: int
) -> tuple[IndexArray, Float64Array]:
    """Labels and sums once a piece has gone to a cluster, or to a new one numbered k."""
    home, links = labels[piece], pieces.links[:, piece]
    if target == sums.shape[1]:
        sums = np.column_stack([sums, np.zeros(len(labels))])
    sums[:, home] -= links
    sums[:, target] += links
    labels[piece] = target
    if (labels == home).any():
        return labels, sums
    return labels - (labels > home), np.delete(sums, home, axis=1)


def _merged(pieces: Pieces, labels: IndexArray) -> IndexArray | None:
    """The clusters after the best merge; None where none gains."""
    gains = _merge_gains(pieces, labels)
    first, second = divmod(int(gains.argmax()), len(gains))
    return joined(labels, first, second) if gains[first, second] > pieces.least else None


def _merge_gains(pieces: Pieces, labels: IndexArray) -> Float64Array:
    """(k, k), what merges gain; -inf on and below the diagonal."""
    sums = pieces.sums(labels)
    kept, masses, _ = pieces.totals(sums, labels)
    between = np.stack([total(labels, column, len(kept)) for column in sums.T], axis=1)
    rates = kept / masses
    together = (kept[:, np.newaxis] + kept + 2 * between) / (masses[:, np.newaxis] + masses)
    gains: Float64Array = pieces.price + together - rates[:, np.newaxis] - rates
    gains[np.tril_indices(len(kept))] = -np.inf
    return gains


def joined(labels: IndexArray, first: int, second: int) -> IndexArray:
    """The clusters once two of them have become one."""
    return numbered(np.where(labels == second, first, labels))


def numbered(labels: npt.NDArray[np.integer[Any]]) -> IndexArray:
    """The same clusters, numbered from 0 on in the order of their labels."""
    found: IndexArray = np.unique(labels, return_inverse=True)[1]
    return found


def _split(pieces: Pieces, labels: IndexArray, known: dict[bytes, Halves]) -> IndexArray | None:
    """The clusters after all splits that gain; None where none does."""
    after, k = labels.copy(), int(labels.max()) + 1
    for cluster in range(k):
        members = np.flatnonzero(labels == cluster)
        key = members.tobytes()
        if key not in known:
            known[key] = _halves(pieces, members, np.unique(np.linspace(0, len(members) - 1, SEEDS).astype(np.intp)))
        second, gain = known[key]
        if gain > pieces.least:
            after[members[second]] = k
            k += 1
    return after if k > labels.max() + 1 else None


def _halves(pieces: Pieces, members: IndexArray, seeds: IndexArray) -> Halves:
    """The best halves of a cluster that grow from one of the seeds, places among its members."""
    links, masses, own = pieces.links[np.ix_(members, members)], pieces.masses[members], pieces.own[members]
    each, reach = np.arange(len(seeds)), links.sum(axis=1)
    kept, mass = float(reach.sum()), float(masses.sum())
    inside = np.zeros((len(seeds), len(members)), np.bool_)
    shared, taken = np.zeros(inside.shape), np.zeros((3, len(seeds)))  # of what grows: kept, mass, reach
    best, gain = inside[0], -np.inf
    chosen = seeds
    for _ in range(len(members) - 1):
        taken += own[chosen] + 2 * shared[each, chosen], masses[chosen], reach[chosen]
        inside[each, chosen] = True
        shared += links[chosen]
        rest, lighter = kept - 2 * taken[2] + taken[0], mass - taken[1]
        shares = taken[0] / taken[1] + np.divide(rest, lighter, out=np.full(len(seeds), -np.inf), where=lighter > 0)
        lead = int(shares.argmax())
        if shares[lead] - kept / mass - pieces.price > gain:
            best, gain = inside[lead].copy(), float(shares[lead] - kept / mass - pieces.price)
        grown, heavier = taken[0][:, np.newaxis] + 2 * shared + own, taken[1][:, np.newaxis] + masses
        left, lighter = kept - 2 * (taken[2][:, np.newaxis] + reach) + grown, mass - heavier
        after = grown / heavier + np.divide(left, lighter, out=np.zeros(left.shape), where=lighter > 0)
        after[inside] = -np.inf
        chosen = after.argmax(axis=1)
    return best, gain


def shaken(pieces: Pieces, labels: IndexArray, random: np.random.Generator) -> IndexArray:
    """The clusters after a change that is drawn, whatever it loses."""
    m, k = len(labels), int(labels.max()) + 1
    kind = random.integers(5)
    if kind == 0 and k > 1:
        return _joined_with_best(pieces, labels, int(random.integers(k)))
    if kind == 1 and k > 1:
        first, second = random.choice(k, 2, replace=False)
        return _cut_up(pieces, joined(labels, *sorted((int(first), int(second)))), random)
    if kind == 2:
        return _cut_up(pieces, labels, random)
    if kind == 3:
        return numbered(random.integers(0, random.integers(1, min(m, 2 * k + 1) + 1), m))
    some = random.random(m) < random.choice([0.1, 0.3])
    some[random.integers(m)] = True
    return numbered(np.where(some, random.integers(0, k + 1, m), labels))


def _joined_with_best(pieces: Pieces, labels: IndexArray, cluster: int) -> IndexArray:
    """The clusters once one of them has become part of the one where that loses least."""
    gains = _merge_gains(pieces, labels)
    gains = np.maximum(gains, gains.T)[cluster]
    return joined(labels, *sorted((cluster, int(gains.argmax()))))


def _cut_up(pieces: Pieces, labels: IndexArray, random: np.random.Generator) -> IndexArray:
    """The clusters once that of a piece that is drawn is split, by what grows from this piece."""
    piece = int(random.integers(len(labels)))
    members = np.flatnonzero(labels == labels[piece])
    if len(members) < 2:
        return labels
    second, _ = _halves(pieces, members, np.searchsorted(members, [piece]))
    after = labels.copy()
    after[members[second]] = labels.max() + 1
    return after
