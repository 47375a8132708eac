"""Statistics of one search pass: what each merge, split, delete and change of one use would gain.

m uses of g centers have weight.  Each center has two children, which divide the rows of each use
into two halves.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.divergence import Divergence, ratio
from dask_dpmeans.kernels.hdp import HDPPrices
from dask_dpmeans.kernels.hdp_search import SearchScan
from dask_dpmeans.kernels.moments import Moments, total
from dask_dpmeans.methods.hdp.batch import SweepResult, merge_costs, relative_costs

LLOYD_ROUNDS = 8
"""Rounds of the two-means of a center's uses."""
MAX_PAIRS = 2**22
"""Distances in memory at the same time, ..."""
MAX_NUMBERS = 2**20
"""... or numbers of pairs of means, of other divergences."""


class Alternatives(NamedTuple):
    """The best other center for each of m uses: the nearest one that its set does not use."""

    centers: Int64Array
    """(m,)."""
    costs: Float64Array
    """(m,), what tying the use there adds to the squared error; infinite if there is no such
    center."""


class Savings(NamedTuple):
    """Squared error that sets would save with centers that they do not use."""

    groups: Int64Array
    """(s,), data sets."""
    centers: Int64Array
    """(s,), centers."""
    values: Float64Array
    """(s,), squared error saved."""


class Merges(NamedTuple):
    """The best merge of each of g centers with a center of a lower number."""

    partners: Int64Array
    """(g,)."""
    gains: Float64Array
    """(g,), exact for the partition."""


class Splits(NamedTuple):
    """The best split of each of g centers."""

    second: BoolArray
    """(m, 2), which halves of the uses go to the second child; (m,) for whole uses."""
    gains: Float64Array
    """(g,), exact for the partition."""


@dataclass(frozen=True)
class PassStatistics:
    """Moments, losses and savings of one pass, and the gains of moves that follow from them."""

    sweep: SweepResult
    prices: HDPPrices

    @property
    def divergence(self) -> Divergence:
        """The cost of a row at a center."""
        return self.sweep.divergence

    @property
    def m(self) -> int:
        """Number of uses."""
        return len(self.sweep.uses.groups)

    @property
    def g(self) -> int:
        """Number of centers."""
        return len(self.sweep.centers)

    @property
    def n_sets(self) -> int:
        """One more than the greatest number of a data set."""
        return int(self.groups[-1]) + 1

    @property
    def groups(self) -> Int64Array:
        """(m,), the data set of each use."""
        return self.sweep.uses.groups

    @property
    def centers_of(self) -> Int64Array:
        """(m,), the center of each use."""
        return self.sweep.uses.centers

    @property
    def scan(self) -> SearchScan:
        """The answer of the pass."""
        scan = self.sweep.settled.answer
        assert isinstance(scan, SearchScan)
        return scan

    @cached_property
    def means(self) -> Float64Array:
        """(m, d), means of the uses."""
        return self.sweep.moments.means

    @cached_property
    def tied(self) -> Int64Array:
        """(m, 2), the center of each half of a use: the same for both."""
        return np.repeat(self.centers_of, 2).reshape(self.m, 2)

    @cached_property
    def halves(self) -> Moments:
        """Moments of the halves of uses, (m, 2), about the children; 0 for a half without rows."""
        scanned = self.scan.halves
        uses, sides = np.divmod(scanned.keys, 2)
        positions = np.minimum(np.searchsorted(self.sweep.use_numbers, uses), self.m - 1)
        known = self.sweep.use_numbers[positions] == uses
        sums = []
        for values in vars(scanned.values).values():
            sums.append(np.zeros((self.m, 2, *values.shape[1:]), values.dtype))
            sums[-1][positions[known], sides[known]] = values[known]
        return Moments(*sums)

    @cached_property
    def half_means(self) -> Float64Array:
        """(m, 2, d), means of the halves; 0 for a half without weight."""
        return ratio(self.halves.sums, self.halves.weights[:, :, np.newaxis])

    @cached_property
    def weights(self) -> Float64Array:
        """(g,), weights of the centers."""
        return total(self.centers_of, self.sweep.moments.weights, self.g)

    @cached_property
    def center_means(self) -> Float64Array:
        """(g, d), means of the centers' rows."""
        sums = sums_by_label(self.centers_of, self.sweep.moments.sums, self.g)
        return sums / self.weights[:, np.newaxis]

    @cached_property
    def losses(self) -> Float64Array:
        """(m,), squared error added if a use is given up; infinite for the only use of its set.

        It is infinite, too, if another use of the set has no weight any more: in the pass, rows
        were compared with its center, which the set does not use in the next pass.
        """
        losses = self.scan.losses
        values = losses.values[np.searchsorted(losses.keys, self.sweep.use_numbers)]
        return np.where(np.isin(self.groups, self.sweep.shrunk), np.inf, values)

    @cached_property
    def savings(self) -> Savings:
        """Squared error that sets would save with centers that they do not use."""
        savings, new_numbers = self.scan.savings, self.sweep.new_numbers
        groups, scanned = np.divmod(savings.keys, len(new_numbers))
        centers = new_numbers[scanned]
        alive = centers >= 0
        return Savings(groups[alive], centers[alive], savings.values[alive])

    @cached_property
    def alternatives(self) -> Alternatives:
        """The best other center for each use."""
        found = Alternatives(np.zeros(self.m, np.int64), np.full(self.m, np.inf))
        bounds = np.flatnonzero(np.diff(self.groups, prepend=-1, append=-1))
        starts = [0]
        for bound in bounds.tolist():  # complete groups, about MAX_PAIRS distances at a time
            if bound == self.m or (bound - starts[-1]) * self.g >= MAX_PAIRS:
                starts.append(bound)
        for first, last in pairwise(starts):
            part = slice(first, last)
            groups, centers = self.groups[part], self.centers_of[part]
            costs = relative_costs(self.divergence, self.means[part], self.sweep.centers)
            slots = np.cumsum(np.diff(groups, prepend=groups[0]) > 0)
            used = np.zeros((slots[-1] + 1, self.g), np.bool_)
            used[slots, centers] = True
            own = costs[np.arange(last - first), centers]
            costs[used[slots]] = np.inf
            found.centers[part] = costs.argmin(axis=1)
            found.costs[part] = self.sweep.moments.weights[part] * (costs.min(axis=1) - own)
        return found

    @cached_property
    def merges(self) -> Merges:
        """The best merge of each center."""
        found = Merges(np.zeros(self.g, np.int64), np.full(self.g, -np.inf))
        uses, means = self._use_matrix(), self.center_means
        step = max(1, MAX_PAIRS // self.g)
        if self.divergence.general is not None:
            step = max(1, MAX_NUMBERS // means.size)
        for first in range(0, self.g, step):
            part = slice(first, min(first + step, self.g))
            shared = uses[part] @ uses.T
            if isinstance(shared, csr_array):
                shared = shared.toarray()
            cost = merge_costs(self.divergence, self.weights, means, part)
            gain = self.prices.opening + self.prices.local * shared - cost
            gain[np.arange(self.g) >= np.arange(part.start, part.stop)[:, np.newaxis]] = -np.inf
            found.partners[part], found.gains[part] = gain.argmax(axis=1), gain.max(axis=1)
        return found

    def _use_matrix(self) -> Float64Array | csr_array:
        """Return (g, n_sets), 1 if a set uses a center: sparse if it is large."""
        positions, shape = (self.centers_of, self.groups), (self.g, self.n_sets)
        if self.g * self.n_sets > MAX_PAIRS:
            return csr_array((np.ones(self.m), positions), shape=shape)
        uses = np.zeros(shape)
        uses[positions] = 1
        return uses

    @cached_property
    def deletes(self) -> Float64Array:
        """(g,), lower bounds of the gains of deletes."""
        costs = np.minimum(self.losses - self.prices.local, self.alternatives.costs)
        gains: Float64Array = self.prices.opening - total(self.centers_of, costs, self.g)
        return gains

    @cached_property
    def splits(self) -> Splits:
        """The best split of each center: between its uses, or by its two children."""
        uses, rows = self.splits_between_uses, self.splits_by_rows
        by_rows = (rows.gains > uses.gains)[self.centers_of, np.newaxis]
        second = np.where(by_rows, rows.second, uses.second[:, np.newaxis])
        return Splits(second, np.maximum(rows.gains, uses.gains))

    @cached_property
    def splits_between_uses(self) -> Splits:
        """Splits by the two-means of each center's uses, which stay undivided."""
        offsets = self.means - self.center_means[self.centers_of]
        weights, sums = self.sweep.moments.weights, self.sweep.moments.sums
        spread = sums_by_label(self.centers_of, weights[:, np.newaxis] * offsets**2, self.g)
        second = offsets[np.arange(self.m), spread.argmax(axis=1)[self.centers_of]] > 0
        halves = self._divide(self.centers_of, weights, sums, second)
        for _ in range(LLOYD_ROUNDS):
            costs = halves.costs(self.means, self.centers_of)
            other = halves.both[self.centers_of] & (costs[1] < costs[0])
            if (other == second).all():
                break
            second = other
            halves = self._divide(self.centers_of, weights, sums, second)
        return Splits(second, halves.savings - self.prices.opening)

    @cached_property
    def splits_by_rows(self) -> Splits:
        """Splits of each center by its children.

        A use is divided if that saves more than the local penalty; else it goes undivided to the
        better child.
        """
        owners = self.centers_of[:, np.newaxis]
        costs = self.children.costs(self.half_means, owners)
        weights, sums = self.halves.weights, self.halves.sums
        first, second = weights * costs[0], weights * costs[1]
        price = self.prices.local * (weights > 0).all(axis=1)
        undivided = first.sum(axis=1), second.sum(axis=1)
        divided = np.minimum(first, second).sum(axis=1) + price < np.minimum(*undivided)
        better = (undivided[1] < undivided[0])[:, np.newaxis]
        sides = np.where(divided[:, np.newaxis], second < first, better)
        sides &= self.children.both[owners]
        paid = (sides[:, 0] != sides[:, 1]) & (price > 0)
        paid_uses = np.bincount(self.centers_of[paid], minlength=self.g)
        prices = self.prices.local * paid_uses + self.prices.opening
        halves = self._divide(self.tied, weights, sums, sides)
        return Splits(sides, halves.savings - prices)

    @cached_property
    def children(self) -> "CenterHalves":
        """The halves of the centers as the pass divided the rows."""
        halves = self.halves
        return self._divide(self.tied, halves.weights, halves.sums, np.array([False, True]))

    @cached_property
    def row_savings(self) -> float:
        """The squared error that splits into `children` save, prices aside."""
        return float(self.children.savings[self.children.both].sum())

    def _divide(
        self, owners: Int64Array, weights: Float64Array, sums: Float64Array, second: BoolArray
    ) -> "CenterHalves":
        """Divide centers into two halves: parts, (p,) or (p, 2), of `owners` go to one of these."""
        keys = (2 * owners + second).ravel()
        half_weights = total(keys, weights.ravel(), 2 * self.g)
        half_sums = sums_by_label(keys, sums.reshape(len(keys), -1), 2 * self.g)
        means = ratio(half_sums, half_weights[:, np.newaxis]).reshape(self.g, 2, -1)
        half_weights, centers = half_weights.reshape(self.g, 2), self.center_means
        means = np.where(half_weights[:, :, np.newaxis] > 0, means, centers[:, np.newaxis])
        return CenterHalves(half_weights, means, centers, self.divergence)


@dataclass(frozen=True)
class CenterHalves:
    """Two halves of each center's rows."""

    weights: Float64Array
    """(g, 2)."""
    means: Float64Array
    """(g, 2, d); the mean of both for a half without weight."""
    center_means: Float64Array
    """(g, d), means of both."""
    divergence: Divergence

    @cached_property
    def both(self) -> BoolArray:
        """(g,), whether both halves have weight."""
        return np.logical_and(self.weights[:, 0] > 0, self.weights[:, 1] > 0)

    def costs(self, points: Float64Array, centers: Int64Array) -> list[Float64Array]:
        """Return the costs, (...,), of points, (..., d), at both halves of centers."""
        return [self._between(points, self.means[centers, side]) for side in (0, 1)]

    @cached_property
    def savings(self) -> Float64Array:
        """(g,), the cost that two means save over one; -inf for one half."""
        costs = self._between(self.means, self.center_means[:, np.newaxis])
        return np.where(self.both, (self.weights * costs).sum(axis=1), -np.inf)

    def _between(self, points: Float64Array, centers: Float64Array) -> Float64Array:
        """Return the costs, (...,), of points, (..., d), at centers, (..., d)."""
        if self.divergence.general is None:
            squared: Float64Array = ((points - centers) ** 2).sum(axis=-1)
            return squared
        d = points.shape[-1]
        centers = np.broadcast_to(centers, points.shape).reshape(-1, d)
        return self.divergence.between(points.reshape(-1, d), centers).reshape(points.shape[:-1])


def sums_by_label(labels: IndexArray, values: Float64Array, k: int) -> Float64Array:
    """Return sums of values, (m, d), by labels, (m,), in order: (k, d)."""
    return np.stack([total(labels, np.ascontiguousarray(column), k) for column in values.T], axis=1)
