"""The moves of the search, each a pure function of the findings of a pass.

C is a center of the pass, M the best center of its cluster.  Gains are lower bounds of the fall of
the objective, whatever the rows do next.  The gain of a merge or a split is exact for the
partition, the gain of a delete is a bound.  The moves of one step change disjoint clusters: a merge
its two clusters, a split one, a delete its cluster and all that receive its rows.  Deletes may
share receivers.  A receiver is not deleted, merged or split.

If outliers have a price, candidate centers among the outliers may open too.  A center that moves,
comes or goes leaves every row a cost of at most that price, so that gains stay lower bounds: the
rows that a move counts on are no outliers before it and after it, or are counted as outliers.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum
from typing import NamedTuple

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray
from dask_dpmeans.kernels.divergence import SQUARED, Divergence, ratio
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.move_statistics import MoveStatistics
from dask_dpmeans.kernels.outliers import Candidates
from dask_dpmeans.kernels.price import Price
from dask_dpmeans.methods.dpmeans.outliers import AmongOutliers

MOMENTUM = 0.9
"""How far beyond the means, as a share of their last step.

Eight searches of 70,000 rows in 64 clusters took 0.72 of the time of those without, and J was .02 % lower
on average; with 0.75 they took 0.76 of it."""
MIDDLE_CUT = 2 / math.pi
"""Share of the variance of a normal distribution in one column that a cut in the middle saves."""
LEAST_ROWS = 2**12
"""Fewest rows with momentum: 1,797 rows in 29 clusters took .52 s with it, .54 s without."""
ROUNDING = 1e-9
"""Least gain of a move, as a share of the price of a cluster: more than its rounding."""


@dataclass(frozen=True)
class Findings:
    """Statistics of one pass over k clusters."""

    centers: Float64Array
    """(k, d)."""
    children: Float64Array
    """(k, 2, d), of the pass."""
    probe: MoveStatistics
    price: Price
    divergence: Divergence = SQUARED
    candidates: Candidates | None = None
    """Centers of the pass for outliers alone; None if no row can be an outlier."""
    most: float = math.inf
    """Cost of an outlier for each unit of weight."""

    @property
    def k(self) -> int:
        """Number of clusters, those without weight included."""
        return len(self.centers)

    @cached_property
    def alive(self) -> int:
        """Number of clusters with weight."""
        return int(np.count_nonzero(self.weights > 0))

    @property
    def least(self) -> float:
        """Gain that a move must exceed."""
        return ROUNDING * self.price.threshold(self.alive)

    def saved(self, k: int) -> float:
        """Return the price that is saved if one of k clusters leaves."""
        return self.price.change(k - 1, k)

    @cached_property
    def inertia(self) -> float:
        """Cost of all rows at the centers or as outliers."""
        return fsum(self.probe.inertias) + self.outlier_cost

    @property
    def outlier_weight(self) -> float:
        """Weight of the outliers."""
        return 0.0 if self.probe.outliers is None else self.probe.outliers.weight

    @property
    def outlier_cost(self) -> float:
        """Cost of the outliers."""
        return self.most * self.outlier_weight if self.outlier_weight else 0.0

    @cached_property
    def objective(self) -> float:
        """Inertia plus price of the clusters with weight; infinite if there is none."""
        if not self.alive:
            return math.inf
        return self.inertia + self.price.of(self.alive)

    @cached_property
    def half_weights(self) -> Float64Array:
        """(k, 2)."""
        return self.probe.halves.weights.reshape(self.k, 2)

    @cached_property
    def weights(self) -> Float64Array:
        """(k,)."""
        weights: Float64Array = self.half_weights.sum(axis=1)
        return weights

    @cached_property
    def half_averages(self) -> Float64Array:
        """(k, 2, d), averages of the rows of each half; 0 without weight."""
        sums = self.probe.halves.sums.reshape(self.children.shape)
        return ratio(sums, self.half_weights[:, :, np.newaxis])

    @cached_property
    def half_means(self) -> Float64Array:
        """(k, 2, d); meaningless for a half without weight."""
        return self.divergence.means(self.half_averages, self.children)

    @cached_property
    def half_masses(self) -> Float64Array:
        """(k, 2)."""
        return self.divergence.masses(self.half_averages, self.half_weights)

    @cached_property
    def averages(self) -> Float64Array:
        """(k, d), averages of the rows of each cluster; 0 without weight."""
        sums = self.probe.halves.sums.reshape(self.children.shape).sum(axis=1)
        return ratio(sums, self.weights[:, np.newaxis])

    @cached_property
    def means(self) -> Float64Array:
        """(k, d): M; C for a cluster without weight."""
        alive = self.weights[:, np.newaxis] > 0
        means = self.divergence.means(self.averages, self.centers)
        return np.where(alive, means, self.centers)

    @cached_property
    def masses(self) -> Float64Array:
        """(k,), rise of the cost for each unit of cost of M at a center."""
        return self.divergence.masses(self.averages, self.weights)

    @cached_property
    def shifts(self) -> Float64Array:
        """(k,), mass times the cost of M at C: what the means will gain."""
        return self.masses * self.divergence.between(self.means, self.centers)

    @cached_property
    def radii(self) -> Float64Array:
        """(k,), roots of the mean costs of the rows at M."""
        errors = np.maximum(self.probe.inertias - self.shifts, 0.0)
        return np.sqrt(ratio(errors, self.weights))

    @cached_property
    def half_radii(self) -> Float64Array:
        """(k, 2), roots of the mean costs of the rows of a half at its child center."""
        halves = self.probe.halves
        return np.sqrt(ratio(halves.inertias, halves.weights)).reshape(self.k, 2)

    @cached_property
    def savings(self) -> Float64Array:
        """(k,), cost that a split of each cluster saves."""
        both = self.half_masses.min(axis=1) > 0
        return np.where(both, self.divergence.rises(self.half_masses, self.half_means), 0.0)

    @cached_property
    def transfer_losses(self) -> Float64Array:
        """(k,), rise of the cost if the rows of a cluster go to their second nearest centers.

        Rows without another center become outliers.
        """
        givers, _ = self.receivers
        losses = total(givers, self.probe.transfers.losses, self.k)
        if self.probe.outliers is not None:
            losses += self.probe.outliers.departures
        return losses

    @cached_property
    def deletion_losses(self) -> Float64Array:
        """(k,), upper bounds of the rise of the cost if a cluster is deleted."""
        givers, takers = self.receivers
        return self.transfer_losses + self.shifts + total(givers, self.shifts[takers], self.k)

    @cached_property
    def receivers(self) -> tuple[IndexArray, IndexArray]:
        """Pairs of clusters, (m,) and (m,): rows of the first are second nearest to the second."""
        givers, takers = np.divmod(self.probe.transfers.pairs, self.k)
        return givers, takers

    @cached_property
    def among_outliers(self) -> AmongOutliers | None:
        """Savings of candidates among the outliers; None if no row can be an outlier."""
        if self.probe.outliers is None:
            return None
        candidates = self.candidates or Candidates.none(self.centers.shape[1])
        return AmongOutliers.of(candidates, self.probe.outliers, self.most, self.divergence)


class Placement(NamedTuple):
    """Where the centers of a pass are, and their children."""

    centers: Float64Array
    """(k, d)."""
    children: Float64Array
    """(k, 2, d)."""
    candidates: Candidates | None = None
    """Centers for outliers alone."""


@dataclass(frozen=True)
class Moves:
    """Moves of one step, of disjoint clusters."""

    deleted: BoolArray
    """(k,), clusters that leave, those without weight included."""
    merged: IndexArray
    """(m, 2), pairs of clusters, the lower number first."""
    split: BoolArray
    """(k,), clusters whose halves go on alone."""
    opened: IndexArray = field(default_factory=lambda: np.empty(0, np.intp))
    """Numbers of the candidates among the outliers that become clusters."""

    @property
    def any(self) -> bool:
        """Whether there is a move."""
        moved = self.deleted.any() or len(self.merged) or self.split.any()
        return bool(moved or len(self.opened))


def no_moves(found: Findings) -> Moves:
    """Return the moves by which only clusters without weight leave."""
    return Moves(found.weights <= 0, np.empty((0, 2), np.intp), np.zeros(found.k, np.bool_))


def profitable_moves(found: Findings) -> Moves:
    """Return disjoint moves that lower the objective: deletes, then merges, then splits."""
    dead = found.weights <= 0
    deleted, receiving = deletions(found, found.deletion_losses, found.least, found.k)
    busy = deleted | receiving | dead
    left = found.alive - int(np.count_nonzero(deleted))
    merged = merges(found, busy, found.least, left)
    busy[merged] = True
    split = splits(found, busy, left - len(merged))
    left += int(np.count_nonzero(split)) - len(merged)
    return Moves(deleted | dead, merged, split, openings(found, left))


def deletions(
    found: Findings, losses: Float64Array, least: float, most: int
) -> tuple[BoolArray, BoolArray]:
    """Return at most `most` clusters to delete, and the receivers of their rows, (k,) each.

    A delete must gain more than `least` by its loss, (k,); the least loss comes first.  One cluster
    always stays.
    """
    k, alive = found.k, found.alive
    deleted, receiving = np.zeros(k, np.bool_), np.zeros(k, np.bool_)
    if not losses.min() < found.saved(alive) - least:  # as in most passes
        return deleted, receiving
    givers, takers = found.receivers
    starts = np.searchsorted(givers, np.arange(k + 1))
    gone = found.weights <= 0
    left = min(most, alive - 1)
    for cluster in np.argsort(losses, kind="stable"):
        if left <= 0 or not losses[cluster] < found.saved(alive) - least:
            break
        to = takers[starts[cluster] : starts[cluster + 1]]
        if gone[cluster] or receiving[cluster] or (gone | deleted)[to].any():
            continue
        deleted[cluster], receiving[to] = True, True
        alive, left = alive - 1, left - 1
    return deleted, receiving


def merges(found: Findings, busy: BoolArray, least: float, alive: int) -> IndexArray:
    """Return pairs of clusters, (m, 2), whose merges gain more than `least`, the best first.

    Busy clusters, (k,), are left out.  `alive` is the number of clusters before the merges.
    """
    nobody = np.empty((0, 2), np.intp)
    free = np.flatnonzero(~busy)
    if len(free) < 2:
        return nobody
    other = found.divergence.partners(found.masses[free], found.means[free], found.saved(alive))
    own = np.arange(len(free))
    pairs = free[np.stack([np.minimum(own, other), np.maximum(own, other)], axis=1)]
    rises = merge_rises(found, pairs)
    if found.saved(alive) - rises.min() <= least:  # as in most passes
        return nobody
    pairs, places = np.unique(pairs, axis=0, return_index=True)
    rises = rises[places]
    taken, chosen = np.zeros(found.k, np.bool_), list[IndexArray]()
    for place in np.argsort(rises - found.saved(alive), kind="stable"):
        if found.saved(alive - len(chosen)) - rises[place] <= least:
            break
        if not taken[pairs[place]].any():
            taken[pairs[place]] = True
            chosen.append(pairs[place])
    return np.array(chosen, np.intp).reshape(-1, 2)


def merge_rises(found: Findings, pairs: IndexArray) -> Float64Array:
    """Return the rise of the cost if two clusters, (m, 2), become one, (m,)."""
    return found.divergence.rises(found.masses[pairs], found.means[pairs])


def splits(found: Findings, busy: BoolArray, alive: int) -> BoolArray:
    """Return the clusters, (k,), not busy, (k,), whose splits gain beside `alive` clusters."""
    split = np.zeros(found.k, np.bool_)
    if not found.savings.max() > found.price.threshold(alive) + found.least:  # as in most passes
        return split
    for cluster in np.argsort(-found.savings, kind="stable"):
        if not found.savings[cluster] > found.price.threshold(alive) + found.least:
            break
        if not busy[cluster]:
            split[cluster] = True
            alive += 1
    return split


def openings(found: Findings, alive: int) -> IndexArray:
    """Return the (m,) candidates among outliers that gain beside `alive` clusters, best first."""
    if found.among_outliers is None:
        return np.empty(0, np.intp)
    return found.among_outliers.gaining(found.price, alive, found.least)


def gains_of(found: Findings, moves: Moves) -> Float64Array:
    """Return the least gains of the merges, the splits and the deletes, (3,)."""
    losses = found.deletion_losses[moves.deleted & (found.weights > 0)]
    rises, savings = merge_rises(found, moves.merged), found.savings[moves.split].tolist()
    if found.among_outliers is not None:
        savings += found.among_outliers.savings[moves.opened].tolist()
    k = found.alive  # deletes come first, splits last
    deleted = [found.saved(k - number) - loss for number, loss in enumerate(losses)]
    k -= len(losses)
    merged = [found.saved(k - number) - rise for number, rise in enumerate(rises)]
    k -= len(rises)
    split = [saving - found.price.threshold(k + number) for number, saving in enumerate(savings)]
    return np.array([fsum(merged), fsum(split), fsum(deleted)])


def apply_moves(found: Findings, moves: Moves, random: np.random.Generator) -> Placement:
    """Return the k centers, their children and the candidates of the next pass.

    Clusters go to their means.  Receivers of the rows of a deleted cluster keep their centers, since
    the bound of its loss holds for these.  Clusters keep their order.  A merged pair keeps the
    lower number.  The first half of a split cluster keeps its number, the second comes last, and
    then clusters out of outliers.
    """
    children = next_children(found, random)
    if not moves.any:
        return with_candidates(found, moves, Placement(found.means, children), random)
    centers = found.means.copy()
    first, second = moves.merged[:, 0], moves.merged[:, 1]
    children[first] = found.means[moves.merged]
    masses = found.masses[moves.merged]
    sums = masses[:, :1] * centers[first] + masses[:, 1:] * centers[second]
    averages = ratio(sums, masses.sum(axis=1)[:, np.newaxis])
    centers[first] = found.divergence.means(averages, centers[first])
    halves = found.half_means[moves.split]
    points = halves.reshape(-1, halves.shape[-1])
    born = around(points, found.half_radii[moves.split].reshape(-1), random, found.divergence)
    born = born.reshape(*halves.shape[:2], *halves.shape[1:])
    centers[moves.split], children[moves.split] = halves[:, 0], born[:, 0]
    givers, takers = found.receivers
    receiving = takers[moves.deleted[givers] & (found.weights[givers] > 0)]
    centers[receiving] = found.centers[receiving]
    stay = ~moves.deleted
    stay[second] = False
    centers = np.concatenate([centers[stay], halves[:, 1]])
    children = np.concatenate([children[stay], born[:, 1]])
    return with_candidates(found, moves, Placement(centers, children), random)


def with_candidates(
    found: Findings, moves: Moves, places: Placement, random: np.random.Generator
) -> Placement:
    """Return places with the clusters that open among outliers, and the next candidates.

    One opens if there is no other, since a fit has a cluster.
    """
    among, (centers, children, _) = found.among_outliers, places
    if among is None:
        return places
    fresh, radii = among.means[moves.opened], among.radii[moves.opened]
    if not (len(centers) or len(fresh)):
        fresh, radii = among.one()
    if len(fresh):
        centers = np.concatenate([centers, fresh])
        born = around(fresh, radii, random, found.divergence)
        children = np.concatenate([children, born])
    return Placement(centers, children, among.next(moves.opened, random))


def next_children(found: Findings, random: np.random.Generator) -> Float64Array:
    """Return the means of the halves, (k, 2, d), or new children if a half has no weight or is stuck."""
    children = found.half_means.copy()
    anew = ~(found.half_weights > 0).all(axis=1) | stuck_halves(found)
    if anew.any():  # the radii of all clusters are work
        children[anew] = around(found.means[anew], found.radii[anew], random, found.divergence)
    return children


def stuck_halves(found: Findings) -> BoolArray:
    """Return the clusters, (k,), whose halves stand still and do not gain, though most others would.

    In many columns a few rows may be a half for ever, as all others are nearer to the mean of all others.
    Of 1,230 normal rows in 100 columns three were: they saved half of the price, and a cut of normal
    rows in a direction by chance saves `MIDDLE_CUT` of the mean variance of a column, 3.3 times the price.
    For other costs than squared distances this is a guess; a wrong one only draws halves anew.
    """
    price = found.price.threshold(found.alive) + found.least
    likely = found.probe.inertias * (MIDDLE_CUT / found.centers.shape[1])
    stuck: BoolArray = (likely > price) & ~(found.savings > price)
    if stuck.any():
        stuck &= (found.half_means == found.children).all(axis=(1, 2))
    return stuck


def around(
    centers: Float64Array,
    radii: Float64Array,
    random: np.random.Generator,
    divergence: Divergence = SQUARED,
) -> Float64Array:
    """Return two children on either side of each center, in a random direction, (k, 2, d)."""
    if not len(centers):
        return np.empty((0, 2, centers.shape[1]))
    offsets = divergence.offsets(random.standard_normal(centers.shape), radii, centers)
    return divergence.inside(np.stack([centers + offsets, centers - offsets], axis=1))


def has_momentum(divergence: Divergence, n: int) -> bool:
    """Return whether centers of n rows may go beyond the means: they may be anywhere, and rows are many."""
    return n >= LEAST_ROWS and divergence.general is None and not divergence.spherical


def beyond(places: Placement, earlier: Float64Array | None) -> Placement:
    """Return places beyond the means, (k, d), as seen from earlier means, (k, d); the same without these.

    Means of one pass after the other move in much the same direction, ever more slowly.  A pass at
    ``m + MOMENTUM * (m - m')``, with the means m' of the pass before, saves some of those that follow.
    Once no row changes its cluster, m = m', and the means stay exact.  Such a pass may raise the
    objective: it is then taken again at the means.
    """
    if earlier is None or earlier.shape != places.centers.shape:
        return places
    return places._replace(centers=places.centers + MOMENTUM * (places.centers - earlier))
