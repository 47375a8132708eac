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
from dask_dpmeans.kernels.distance import Centers, nearest_two
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.move_statistics import MoveStatistics
from dask_dpmeans.methods.dpmeans.metric import EUCLIDEAN, Metric, ratio

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
    penalty: float
    metric: Metric = EUCLIDEAN

    @property
    def k(self) -> int:
        """Clusters, those without weight included."""
        return len(self.centers)

    @cached_property
    def inertia(self) -> float:
        """Squared error of all clusters, about the centers."""
        return fsum(self.probe.inertias)

    @cached_property
    def objective(self) -> float:
        """Inertia + penalty * k; clusters without weight are not counted, for they leave."""
        return self.inertia + self.penalty * int(np.count_nonzero(self.weights > 0))

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
        return self.metric.means(self.half_averages, self.children)

    @cached_property
    def half_masses(self) -> Float64Array:
        """(k, 2)."""
        return self.metric.masses(self.half_averages, self.half_weights)

    @cached_property
    def averages(self) -> Float64Array:
        """(k, d), of the rows of each cluster; 0 for one without weight."""
        sums = self.probe.halves.sums.reshape(self.children.shape).sum(axis=1)
        return ratio(sums, self.weights[:, np.newaxis])

    @cached_property
    def means(self) -> Float64Array:
        """(k, d): M; C for a cluster without weight."""
        alive = self.weights > 0
        return np.where(alive[:, np.newaxis], self.metric.means(self.averages, self.centers), self.centers)

    @cached_property
    def masses(self) -> Float64Array:
        """(k,), what the squared error rises by for each unit of squared distance between a center and M."""
        return self.metric.masses(self.averages, self.weights)

    @cached_property
    def shifts(self) -> Float64Array:
        """(k,), mass times squared distance of C and M: what the means will gain."""
        differences = self.centers - self.means
        shifts: Float64Array = self.masses * np.einsum("ij,ij->i", differences, differences)
        return shifts

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
        return np.where(both, self.metric.rises(self.half_masses, self.half_means), 0.0)

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


def none_of(found: Findings) -> Moves:
    """No move, but that clusters without weight leave."""
    return Moves(found.weights <= 0, np.empty((0, 2), np.intp), np.zeros(found.k, np.bool_))


def profitable(found: Findings) -> Moves:
    """All moves that lower the objective and do not touch: deletes first, then merges, then splits."""
    least = ROUNDING * found.penalty
    dead = found.weights <= 0
    deleted, receiving = deletions(found, found.deletion_losses, found.penalty - least, found.k)
    busy = deleted | receiving | dead
    merged = merges(found, busy, least)
    busy[merged] = True
    split = (found.savings > found.penalty + least) & ~busy
    return Moves(deleted | dead, merged, split)


def deletions(found: Findings, losses: Float64Array, limit: float, most: int) -> tuple[BoolArray, BoolArray]:
    """At most `most` clusters whose losses, (k,), are below a limit, the least first, and the clusters that receive.

    One cluster always stays.
    """
    k = found.k
    givers, takers = found.receivers
    starts = np.searchsorted(givers, np.arange(k + 1))
    gone = found.weights <= 0
    deleted, receiving = np.zeros(k, np.bool_), np.zeros(k, np.bool_)
    left = min(most, int(np.count_nonzero(~gone)) - 1)
    for cluster in np.argsort(losses, kind="stable"):
        if left <= 0 or not losses[cluster] < limit:
            break
        to = takers[starts[cluster] : starts[cluster + 1]]
        if gone[cluster] or receiving[cluster] or (gone | deleted)[to].any():
            continue
        deleted[cluster], receiving[to] = True, True
        left -= 1
    return deleted, receiving


def merges(found: Findings, busy: BoolArray, least: float) -> IndexArray:
    """Pairs of clusters, (m, 2), none of them busy, whose merging gains more than `least`; the largest gain first."""
    nobody = np.empty((0, 2), np.intp)
    free = np.flatnonzero(~busy)
    if len(free) < 2:
        return nobody
    seekers, sought = found.metric.partners(found.masses[free], found.means[free], found.penalty)
    nearest, second = nearest_two(seekers, Centers(sought))
    own = np.arange(len(free))
    other = np.where(nearest == own, second, nearest)
    keys = np.unique(free[np.minimum(own, other)] * found.k + free[np.maximum(own, other)])
    pairs = np.column_stack(np.divmod(keys, found.k))
    gains = merge_gains(found, pairs)
    taken, chosen = np.zeros(found.k, np.bool_), []
    for place in np.argsort(-gains, kind="stable"):
        if gains[place] <= least:
            break
        if not taken[pairs[place]].any():
            taken[pairs[place]] = True
            chosen.append(pairs[place])
    return np.array(chosen, np.intp) if chosen else nobody


def merge_gains(found: Findings, pairs: IndexArray) -> Float64Array:
    """(m,), what the objective falls by when two clusters, (m, 2), become one."""
    return found.penalty - found.metric.rises(found.masses[pairs], found.means[pairs])


def gains_of(found: Findings, moves: Moves) -> Float64Array:
    """(3,), what the merges, the splits and the deletes gain at least."""
    merged = merge_gains(found, moves.merged)
    split = found.savings[moves.split] - found.penalty
    deleted = found.penalty - found.deletion_losses[moves.deleted & (found.weights > 0)]
    return np.array([fsum(merged), fsum(split), fsum(deleted)])


def moved(found: Findings, moves: Moves, random: np.random.Generator) -> tuple[Float64Array, Float64Array]:
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
    centers[first] = found.metric.means(ratio(sums, masses.sum(axis=1)[:, np.newaxis]), centers[first])
    halves = found.half_means[moves.split]
    born = around(halves.reshape(-1, halves.shape[-1]), found.half_radii[moves.split].reshape(-1), random, found.metric)
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
    children[empty] = around(found.means[empty], found.radii[empty], random, found.metric)
    return children


def around(
    centers: Float64Array, radii: Float64Array, random: np.random.Generator, metric: Metric = EUCLIDEAN
) -> Float64Array:
    """(k, 2, d): two children on either side of each center, in a random direction."""
    if not len(centers):
        return np.empty((0, 2, centers.shape[1]))
    directions = metric.sideways(random.standard_normal(centers.shape), centers)
    lengths = np.sqrt(np.einsum("ij,ij->i", directions, directions))
    offsets = directions * ratio(radii, lengths)[:, np.newaxis]
    return np.stack([centers + offsets, centers - offsets], axis=1)
