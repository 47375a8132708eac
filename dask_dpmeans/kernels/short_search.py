"""Short searches of few rows: a start, or a crossover of two ends, and moves of single rows.

A start opens clusters at rows that are drawn by their costs, the best of some at a time (greedy
k-means++), while one saves half the price of a cluster.  Then rows move one by one, and clusters
merge while that gains.  Centers are columns here, (d, k).
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import SquaredEuclidean
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import pays, plain
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.kernels.row_exchange import MOVING, move_rows, squared_to_each
from dask_dpmeans.kernels.row_exchange_compiled import (
    EXCHANGE_ROUNDING,
    SPARE,
    assign_compiled,
    cross_compiled,
    merge_compiled,
    open_compiled,
    settle_compiled,
)

MOST_NUMBERS = 2**20
"""Most squared distances at a time without Numba."""


@dataclass(frozen=True)
class Partition:
    """The end of a short search."""

    centers: Float64Array
    """(d, k), the means of the clusters."""
    objective: float
    passes: int
    """Passes over the rows in which single rows moved."""


@dataclass(frozen=True)
class FewRows:
    """Rows in memory, with the price of a cluster."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""
    penalty: float
    most: int
    """Most passes of single rows in a search."""

    def settle(self, labels: Int64Array) -> Partition:
        """Return the end of moves of single rows, and of merges, from labels, (n,)."""
        labels, k = labels.copy(), int(labels.max()) + 1
        given = self.rows, self.weights, labels, self.penalty, self.most
        if pays(settle_compiled, given, MOVING * k * self.rows.size, seconds=4):
            return Partition(*settle_compiled(*given))
        room, passes, merged = 2 * k + SPARE, 0, True
        rule = LinearPrice(self.penalty), SquaredEuclidean(), np.inf
        while merged and passes < self.most:
            clusters, left = self._means(labels, room), self.most - passes
            passes += move_rows(self.rows, self.weights, labels, rule, left, clusters)
            centers, masses, counts = self._means(labels, room)
            least = self.penalty * (1.0 - EXCHANGE_ROUNDING)
            joined = plain(merge_compiled)(centers, masses, counts, least)[labels]
            merged = bool((joined != labels).any())
            labels[:] = joined
        centers, _, counts = self._means(labels, room)
        k = int(np.count_nonzero(counts))
        squares = np.square(self.rows.T - centers[:, labels])
        costs = self.weights * np.add.accumulate(squares, axis=0)[-1]
        objective = float(np.add.accumulate(costs)[-1]) + self.penalty * k
        return Partition(np.ascontiguousarray(centers[:, counts > 0]), objective, passes)

    def _means(
        self, labels: Int64Array, room: int
    ) -> tuple[Float64Array, Float64Array, Int64Array]:
        """Return the means, (d, room), the masses and the numbers of rows of clusters, (room,)."""
        counts = np.bincount(labels, minlength=room).astype(np.int64)
        masses = total(labels, self.weights, room)
        sums = [total(labels, self.weights * column, room) for column in self.rows.T]
        means: Float64Array = np.array(sums) / np.where(counts > 0, masses, 1.0)
        return means, masses, counts

    def start(self, draws: Float64Array) -> Int64Array:
        """Return labels, (n,), of a start; `draws`, (m, tries), are numbers in [0, 1)."""
        given = self.rows, self.weights, self.penalty, draws
        if pays(open_compiled, given, 16 * draws.size * self.rows.size):
            return open_compiled(*given)
        n = len(self.rows)
        labels = np.zeros(n, np.int64)
        costs = self._squared(min(n - 1, int(draws[0, 0] * n)))
        for k, step in enumerate(draws[1:], start=1):
            rows = [row for row in _drawn(self.weights * costs, step) if row >= 0]
            trials = [self._squared(row) for row in rows]
            drops = [
                float(np.add.accumulate(self.weights * np.maximum(costs - trial, 0.0))[-1])
                for trial in trials
            ]
            if not max(drops, default=0.0) > 0.5 * self.penalty:
                break
            best = trials[int(np.argmax(drops))]
            labels[best < costs] = k
            costs = np.minimum(costs, best)
        return labels

    def assign(self, centers: Float64Array) -> Int64Array:
        """Return the numbers, (n,), of the nearest of centers, (d, k)."""
        labels, costs = np.empty(len(self.rows), np.int64), np.empty(len(self.rows))
        given = self.rows, centers, labels, costs
        if pays(assign_compiled, given, centers.size * len(self.rows)):
            assign_compiled(*given)
            return labels
        return _nearest(self.rows, centers)[0]

    def cross(self, one: Partition, two: Partition, draws: Float64Array) -> Int64Array:
        """Return labels, (n,), at a crossover of two ends with one center swapped.

        Of two centers that are nearest to each other one is drawn; each other one is drawn or left
        out.  `draws`, (k + l + 2,), are numbers in [0, 1).
        """
        first, second = one.centers, two.centers
        k, m = first.shape[1], second.shape[1]
        given = self.rows, self.weights, first, second, draws
        if pays(cross_compiled, given, 16 * max(k, m) * self.rows.size):
            return cross_compiled(*given)
        of_first, of_second = _nearest(first.T, second)[0], _nearest(second.T, first)[0]
        drawn, others = draws[:k] < 0.5, draws[k : k + m] < 0.5
        paired = of_first[of_second] == np.arange(m)
        others[paired] = ~drawn[of_second[paired]]
        centers = np.concatenate([first[:, drawn], second[:, others]], axis=1)
        count = centers.shape[1]
        if count == 1:
            return _nearest(self.rows, centers)[0]
        left = min(count - 1, int(draws[k + m] * count))
        centers[:, left] = centers[:, -1]
        labels, costs = _nearest(self.rows, centers[:, :-1])
        row = _drawn(self.weights * costs, draws[k + m + 1 :])[0]
        if row >= 0:
            labels[self._squared(row) < costs] = count - 1
        return labels

    def _squared(self, row: int) -> Float64Array:
        """Return the squared distances, (n,), from a row."""
        return squared_to_each(self.rows, self.rows[row : row + 1].T)[:, 0]


def _nearest(rows: Float64Array, centers: Float64Array) -> tuple[Int64Array, Float64Array]:
    """Return the nearest of centers, (d, k), and its squared distance, (n,) each."""
    step = max(1, MOST_NUMBERS // centers.size)
    parts = [squared_to_each(rows[i : i + step], centers) for i in range(0, len(rows), step)]
    labels = np.concatenate([part.argmin(axis=1) for part in parts])
    return labels, np.concatenate([part.min(axis=1) for part in parts])


def _drawn(chances: Float64Array, draws: Float64Array) -> list[int]:
    """Return numbers of rows drawn by their chances, (n,); -1 if none has any."""
    sums, some = np.add.accumulate(chances), np.flatnonzero(chances > 0.0)
    if not len(some):
        return [-1] * len(draws)
    places = np.searchsorted(sums[some], draws * sums[-1], side="right")
    return [int(some[min(place, len(some) - 1)]) for place in places]
