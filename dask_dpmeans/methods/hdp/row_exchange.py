"""Exchanges of single rows between clusters that data sets share, in chains: what passes cannot see in a few rows.

A pass sends rows to the nearest center, and a merge or split moves many rows at once.  Here one row after another goes
where eq. 2 of Kulis & Jordan 2012 changes least, means included (Hartigan & Wong 1979), be it up for a while: of a
chain in which each row moves once the lowest point is kept (Kernighan & Lin 1970).
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import ratio
from dask_dpmeans.kernels.hdp import Prices
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.dpmeans.moves import ROUNDING

LONGEST_CHAIN = 32
"""Rows that move in a chain, the most."""


@dataclass(frozen=True)
class Members:
    """All rows that have weight, in memory."""

    rows: Float64Array
    """(n, d), less a point among them, so that sums keep their digits."""
    weights: Float64Array
    """(n,), above 0."""
    sets: Int64Array
    """(n,), their data sets, numbered without gaps."""
    prices: Prices

    def means(self, labels: Int64Array) -> tuple[Float64Array, Float64Array]:
        """(k,) weights and (k, d) means of clusters that are numbered without gaps."""
        weights = total(labels, self.weights, int(labels.max()) + 1)
        sums = [total(labels, self.weights * column, len(weights)) for column in self.rows.T]
        return weights, np.stack(sums, axis=1) / weights[:, np.newaxis]

    def uses(self, labels: Int64Array) -> Int64Array:
        """(sets, k), rows of each set in each cluster."""
        n_sets, k = int(self.sets.max()) + 1, int(labels.max()) + 1
        return np.bincount(self.sets * k + labels, minlength=n_sets * k).reshape(n_sets, k)

    def objective(self, labels: Int64Array) -> float:
        """Eq. 2, of the means."""
        _, means = self.means(labels)
        inertia = float(self.weights @ ((self.rows - means[labels]) ** 2).sum(axis=1))
        return inertia + self.prices.local * np.count_nonzero(self.uses(labels)) + self.prices.opening * len(means)

    def changes(self, labels: Int64Array) -> Float64Array:
        """(n, k + 1), what eq. 2 changes by if one row goes to each cluster or, last, a new one; infinite to stay."""
        weights, means = self.means(labels)
        k, counts, every = len(weights), self.uses(labels)[self.sets], np.arange(len(labels))
        squared = cdist(self.rows, means, "sqeuclidean")
        own, sizes = self.weights[:, np.newaxis], np.bincount(labels)
        costs = own * weights / (weights + own) * squared + self.prices.local * (counts == 0)
        alone = sizes[labels] == 1
        rest = np.where(alone, 0.0, weights[labels] - self.weights)
        saved = ratio(self.weights * weights[labels] * squared[every, labels], rest)
        saved += self.prices.opening * alone + self.prices.local * (counts[every, labels] == 1)
        changes = np.column_stack([costs, np.full(len(labels), self.prices.both)]) - saved[:, np.newaxis]
        changes[every, labels] = np.inf
        changes[alone, k] = np.inf
        return changes


def exchanged(members: Members, labels: Int64Array) -> Int64Array:
    """(n,), the labels where no chain of exchanges is lower by more than rounding, numbered without gaps."""
    lowest = members.objective(labels)
    while True:
        found, objective = chain(members, labels)
        if not lowest - objective > ROUNDING * lowest:
            return labels
        labels, lowest = found, objective


def chain(members: Members, labels: Int64Array) -> tuple[Int64Array, float]:
    """The lowest labels of a chain, and eq. 2 of them: of the rows left, the one that costs least moves."""
    left = np.ones(len(labels), np.bool_)
    best, lowest = labels, np.inf
    while (len(left) - np.count_nonzero(left)) < LONGEST_CHAIN:
        changes = np.where(left[:, np.newaxis], members.changes(labels), np.inf)
        row, to = divmod(int(changes.argmin()), changes.shape[1])
        if not changes[row, to] < np.inf:
            break
        left[row], labels = False, labels.copy()
        labels[row] = to
        labels = np.unique(labels, return_inverse=True)[1].ravel().astype(np.int64)
        objective = members.objective(labels)
        if objective < lowest:
            best, lowest = labels, objective
    return best, lowest
