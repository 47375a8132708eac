"""The moves of the search, each a pure function of what a probe found.

C is a center of the probe, M the mean of the cluster that it makes, as the metric has it.  Gains are lower bounds of
what the objective falls by, whatever the rows do next: that of a merge and of a split is exact for the partition, that
of a delete is a bound.  A merge changes its two clusters, a split one, and a delete its cluster and all that receive
its rows.  The moves of one step change disjoint clusters, but that deletes may share receivers; a receiver is not
itself deleted, merged or split.
"""

from dataclasses import dataclass
from functools import cached_property
from math import fsum

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray
from dask_dpmeans.kernels.divergence import SQUARED, Divergence, ratio
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.move_statistics import MoveStatistics
from dask_dpmeans.kernels.price import Price

ROUNDING = 1e-9
"""A move must gain more than this share of the penalty: more than the rounding of its own evaluation."""


@dataclass(frozen=True)
class Findings:
    """What one probe says of k clusters."""

    centers: Float64Array
    """(k, d)."""
    children: Float64Array
    """(k, 2, d), as probed."""
    probe: MoveStatistics
    price: Price
    divergence: Divergence = SQUARED

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
        """Squared error of all clusters, about the centers."""
        return fsum(self.probe.inertias)

    @cached_property
    def objective(self) -> float:
        """Inertia + penalty * k; clusters without weight are not counted, for they leave."""
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
        """(k, 2, d), of the rows of each half; 0 for a half without weight."""
        sums = self.probe.halves.sums.reshape(self.children.shape)
        return ratio(sums, self.half_weights[:, :, np.newaxis])

    @cached_property
    def half_means(self) -> Float64Array:
        """(k, 2, d); of no use for a half without weight."""
        return self.divergence.means(self.half_averages, self.children)

    @cached_property
    def half_masses(self) -> Float64Array:
        """(k, 2)."""
        return self.divergence.masses(self.half_averages, self.half_weights)

    @cached_property
    def averages(self) -> Float64Array:
        """(k, d), of the rows of each cluster; 0 for one without weight."""
        sums = self.probe.halves.sums.reshape(self.children.shape).sum(axis=1)
        return ratio(sums, self.weights[:, np.newaxis])

    @cached_property
    def means(self) -> Float64Array:
        """(k, d): M; C for a cluster without weight."""
        alive = self.weights > 0
        return np.where(alive[:, np.newaxis], self.divergence.means(self.averages, self.centers), self.centers)

    @cached_property
    def masses(self) -> Float64Array:
        """(k,), what the squared error rises by for each unit of squared distance between a center and M."""
        return self.divergence.masses(self.averages, self.weights)

    @cached_property
    def shifts(self) -> Float64Array:
        """(k,), mass times the cost of M at C: what the means will gain."""
        return self.masses * self.divergence.between(self.means, self.centers)

    @cached_property
    def radii(self) -> Float64Array:
        """(k,), root mean squared distances of the rows from M."""
        errors = np.maximum(self.probe.inertias - self.shifts, 0.0)
        return np.sqrt(ratio(errors, self.weights))

    @cached_property
    def half_radii(self) -> Float64Array:
        """(k, 2), root mean squared distances of the rows of a half from its child center."""
        return np.sqrt(ratio(self.probe.halves.inertias, self.probe.halves.weights)).reshape(self.k, 2)

    @cached_property
    def savings(self) -> Float64Array:
        """(k,), the squared error that a split of each cluster saves."""
        both = self.half_masses.min(axis=1) > 0
        return np.where(both, self.divergence.rises(self.half_masses, self.half_means), 0.0)

    @cached_property
    def transfer_losses(self) -> Float64Array:
        """(k,), what the rows of a cluster would lose by going to their second nearest centers."""
        givers, _ = self.receivers
        return total(givers, self.probe.transfers.losses, self.k)

    @cached_property
    def deletion_losses(self) -> Float64Array:
        """(k,), bounds on what deleting a cluster adds to the squared error."""
        givers, takers = self.receivers
        return self.transfer_losses + self.shifts + total(givers, self.shifts[takers], self.k)

    @cached_property
    def receivers(self) -> tuple[IndexArray, IndexArray]:
        """Pairs of clusters: rows of the first have the second as their second nearest."""
        givers, takers = np.divmod(self.probe.transfers.pairs, self.k)
        return givers, takers


@dataclass(frozen=True)
class Moves:
    """Moves of one step, which do not touch."""

    deleted: BoolArray
    """(k,), clusters that leave, those without weight included."""
    merged: IndexArray
    """(m, 2), pairs of clusters, the lower number first."""
    split: BoolArray
    """(k,), clusters of which each half goes on alone."""

    @property
    def any(self) -> bool:
        """Whether there is a move."""
        return bool(self.deleted.any() or len(self.merged) or self.split.any())


def no_moves(found: Findings) -> Moves:
    """No move, but that clusters without weight leave."""
    return Moves(found.weights <= 0, np.empty((0, 2), np.intp), np.zeros(found.k, np.bool_))


def profitable_moves(found: Findings) -> Moves:
    """All moves that lower the objective and do not touch: deletes first, then merges, then splits."""
    dead = found.weights <= 0
    deleted, receiving = deletions(found, found.deletion_losses, found.least, found.k)
    busy = deleted | receiving | dead
    left = found.alive - int(np.count_nonzero(deleted))
    merged = merges(found, busy, found.least, left)
    busy[merged] = True
    return Moves(deleted | dead, merged, splits(found, busy, left - len(merged)))


def deletions(found: Findings, losses: Float64Array, least: float, most: int) -> tuple[BoolArray, BoolArray]:
    """Return at most `most` clusters to delete, and the clusters that receive their rows, (k,) each.

    A delete must gain more than `least` by its loss, (k,); the least loss comes first.  One cluster always stays.
    """
    k = found.k
    givers, takers = found.receivers
    starts = np.searchsorted(givers, np.arange(k + 1))
    gone = found.weights <= 0
    deleted, receiving = np.zeros(k, np.bool_), np.zeros(k, np.bool_)
    alive = found.alive
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
    """Return pairs of clusters, (m, 2), none of them busy, whose merges gain more than `least`, the best first.

    `alive` is the number of clusters before the merges.
    """
    nobody = np.empty((0, 2), np.intp)
    free = np.flatnonzero(~busy)
    if len(free) < 2:
        return nobody
    other = found.divergence.partners(found.masses[free], found.means[free], found.saved(alive))
    own = np.arange(len(free))
    keys = np.unique(free[np.minimum(own, other)] * found.k + free[np.maximum(own, other)])
    pairs = np.column_stack(np.divmod(keys, found.k))
    rises = merge_rises(found, pairs)
    taken, chosen = np.zeros(found.k, np.bool_), list[IndexArray]()
    for place in np.argsort(rises - found.saved(alive), kind="stable"):
        if found.saved(alive - len(chosen)) - rises[place] <= least:
            break
        if not taken[pairs[place]].any():
            taken[pairs[place]] = True
            chosen.append(pairs[place])
    return np.array(chosen, np.intp).reshape(-1, 2)


def merge_rises(found: Findings, pairs: IndexArray) -> Float64Array:
    """Return what the cost rises by if two clusters, (m, 2), become one, (m,)."""
    return found.divergence.rises(found.masses[pairs], found.means[pairs])


def splits(found: Findings, busy: BoolArray, alive: int) -> BoolArray:
    """Return the clusters, (k,), none of them busy, whose splits gain; `alive` is their number before the splits."""
    split = np.zeros(found.k, np.bool_)
    for cluster in np.argsort(-found.savings, kind="stable"):
        if not found.savings[cluster] > found.price.threshold(alive) + found.least:
            break
        if not busy[cluster]:
            split[cluster] = True
            alive += 1
    return split


def gains_of(found: Findings, moves: Moves) -> Float64Array:
    """Return what the merges, the splits and the deletes gain at least, (3,); deletes come first, splits last."""
    losses = found.deletion_losses[moves.deleted & (found.weights > 0)]
    rises, savings = merge_rises(found, moves.merged), found.savings[moves.split]
    few = found.alive - len(losses)
    fewer = few - len(rises)
    deleted = [found.saved(found.alive - number) - loss for number, loss in enumerate(losses)]
    merged = [found.saved(few - number) - rise for number, rise in enumerate(rises)]
    split = [saving - found.price.threshold(fewer + number) for number, saving in enumerate(savings)]
    return np.array([fsum(merged), fsum(split), fsum(deleted)])


def apply_moves(found: Findings, moves: Moves, random: np.random.Generator) -> tuple[Float64Array, Float64Array]:
    """The centers, (k, d), and children, (k, 2, d), of the next probe.

    Clusters go to their means, but for those that receive the rows of a deleted one: the bound of its loss holds where
    they stand.  Clusters keep their order.  A merged pair goes on under the lower number; of a split cluster the first
    half goes on under its number, and the second is added at the end.
    """
    centers, children = found.means.copy(), next_children(found, random)
    first, second = moves.merged[:, 0], moves.merged[:, 1]
    children[first] = found.means[moves.merged]
    masses = found.masses[moves.merged]
    sums = masses[:, :1] * centers[first] + masses[:, 1:] * centers[second]
    centers[first] = found.divergence.means(ratio(sums, masses.sum(axis=1)[:, np.newaxis]), centers[first])
    halves = found.half_means[moves.split]
    born = around(
        halves.reshape(-1, halves.shape[-1]), found.half_radii[moves.split].reshape(-1), random, found.divergence
    )
    born = born.reshape(*halves.shape[:2], *halves.shape[1:])
    centers[moves.split], children[moves.split] = halves[:, 0], born[:, 0]
    givers, takers = found.receivers
    receiving = takers[moves.deleted[givers] & (found.weights[givers] > 0)]
    centers[receiving] = found.centers[receiving]
    stay = ~moves.deleted
    stay[second] = False
    return np.concatenate([centers[stay], halves[:, 1]]), np.concatenate([children[stay], born[:, 1]])


def next_children(found: Findings, random: np.random.Generator) -> Float64Array:
    """(k, 2, d): the means of the halves, and new children where a half has no weight."""
    children = found.half_means.copy()
    empty = ~(found.half_weights > 0).all(axis=1)
    children[empty] = around(found.means[empty], found.radii[empty], random, found.divergence)
    return children


def around(
    centers: Float64Array, radii: Float64Array, random: np.random.Generator, divergence: Divergence = SQUARED
) -> Float64Array:
    """(k, 2, d): two children on either side of each center, in a random direction."""
    if not len(centers):
        return np.empty((0, 2, centers.shape[1]))
    directions = divergence.sideways(random.standard_normal(centers.shape), centers)
    lengths = np.sqrt(np.einsum("ij,ij->i", directions, directions))
    offsets = directions * ratio(radii, lengths)[:, np.newaxis]
    return divergence.inside(np.stack([centers + offsets, centers - offsets], axis=1))
