"""Exchanges of single rows between the clusters of several data sets, in chains.

A pass sends each row to the nearest center, and a merge or split moves many rows at once.  Here one
row after another goes to the cluster for which eq. 2 of Kulis & Jordan 2012 changes least, with
means that move at once (Hartigan & Wong 1979).  Each row of a chain moves once, even if eq. 2 rises
for a while; the lowest point counts (Kernighan & Lin 1970).
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import SQUARED, Divergence, ratio
from dask_dpmeans.kernels.hdp import HDPPrices
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.dpmeans.moves import ROUNDING

MAX_CHAIN = 32
"""Rows that move in one chain."""


@dataclass(frozen=True)
class Members:
    """All rows that have weight, in memory.  Labels, (n,), number k clusters without gaps."""

    rows: Float64Array
    """(n, d), for squared distances minus a point among them, so that sums keep their digits."""
    weights: Float64Array
    """(n,), above 0."""
    sets: Int64Array
    """(n,), their data sets, numbered without gaps."""
    prices: HDPPrices
    divergence: Divergence = SQUARED

    def cluster_weights(self, labels: Int64Array) -> Float64Array:
        """Return (k,), weights of the clusters."""
        return total(labels, self.weights, int(labels.max()) + 1)

    def means(self, labels: Int64Array) -> Float64Array:
        """Return (k, d), means of the clusters."""
        weights = self.cluster_weights(labels)
        sums = [total(labels, self.weights * column, len(weights)) for column in self.rows.T]
        return np.stack(sums, axis=1) / weights[:, np.newaxis]

    def uses(self, labels: Int64Array) -> Int64Array:
        """Return (sets, k), the number of rows of each set in each cluster."""
        n_sets, k = int(self.sets.max()) + 1, int(labels.max()) + 1
        return np.bincount(self.sets * k + labels, minlength=n_sets * k).reshape(n_sets, k)

    def objective(self, labels: Int64Array) -> float:
        """Return eq. 2 about the means."""
        means = self.means(labels)
        if self.divergence.general is None:
            costs = ((self.rows - means[labels]) ** 2).sum(axis=1)
        else:
            costs = self.divergence.costs(self.rows, means, labels)
        inertia = float(self.weights @ costs)
        n_uses = np.count_nonzero(self.uses(labels))
        return inertia + self.prices.local * n_uses + self.prices.opening * len(means)

    def changes(self, labels: Int64Array) -> Float64Array:
        """Return changes of eq. 2, (n, k + 1), if a row moves: to a new cluster in the last."""
        weights, counts = self.cluster_weights(labels), self.uses(labels)[self.sets]
        k, every = len(weights), np.arange(len(labels))
        alone = np.bincount(labels)[labels] == 1
        costs, saved = self._rises_and_falls(labels, weights, alone)
        costs += self.prices.local * (counts == 0)
        saved += self.prices.opening * alone + self.prices.local * (counts[every, labels] == 1)
        to_new = np.full(len(labels), self.prices.both)
        changes = np.column_stack([costs, to_new]) - saved[:, np.newaxis]
        changes[every, labels] = np.inf
        changes[alone, k] = np.inf
        return changes

    def _rises_and_falls(
        self, labels: Int64Array, weights: Float64Array, alone: BoolArray
    ) -> tuple[Float64Array, Float64Array]:
        """Return the rise of the cost if a row joins a cluster, (n, k), the fall if it leaves, (n,)."""
        means = self.means(labels)
        if self.divergence.general is not None:
            own = weights[labels], means[labels]
            falls = self.divergence.leaving(self.rows, self.weights, *own)
            joining = self.divergence.joining(self.rows, self.weights, weights, means)
            return joining, np.where(alone, 0.0, falls)
        squared, own_weights = cdist(self.rows, means, "sqeuclidean"), self.weights[:, np.newaxis]
        rises: Float64Array = own_weights * weights / (weights + own_weights) * squared
        rest = np.where(alone, 0.0, weights[labels] - self.weights)
        every = np.arange(len(labels))
        return rises, ratio(self.weights * weights[labels] * squared[every, labels], rest)


def exchange_rows(members: Members, labels: Int64Array) -> Int64Array:
    """Run chains until none lowers eq. 2 by more than rounding; return the labels, (n,)."""
    lowest = members.objective(labels)
    while True:
        found, objective = run_chain(members, labels)
        if not lowest - objective > ROUNDING * lowest:
            return labels
        labels, lowest = found, objective


def run_chain(members: Members, labels: Int64Array) -> tuple[Int64Array, float]:
    """Move rows one by one, the cheapest first; return the lowest labels, (n,), and eq. 2."""
    left = np.ones(len(labels), np.bool_)
    best, lowest = labels, np.inf
    for _ in range(min(MAX_CHAIN, len(labels))):
        changes = np.where(left[:, np.newaxis], members.changes(labels), np.inf)
        row, target = divmod(int(changes.argmin()), changes.shape[1])
        if not changes[row, target] < np.inf:
            break
        left[row], labels = False, labels.copy()
        labels[row] = target
        labels = np.unique(labels, return_inverse=True)[1].ravel().astype(np.int64)
        objective = members.objective(labels)
        if objective < lowest:
            best, lowest = labels, objective
    return best, lowest
