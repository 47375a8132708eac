"""Short searches of few rows, or of cells that stand for many: starts, crossovers, moves of single rows.

A start opens clusters at rows that are drawn by their costs, the best of some at a time (greedy
k-means++), while one saves half the price of a cluster.  Then rows move one by one, and clusters
merge while that gains.  Centers are columns here, (d, k).
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, Int64Array
from dask_dpmeans.kernels.divergence import SquaredEuclidean
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import add_work, compile_loop, compile_part, pays, plain
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.kernels.row_exchange import MOVING, move_rows, squared_to_each
from dask_dpmeans.kernels.row_exchange_compiled import EXCHANGE_ROUNDING, SPARE
from dask_dpmeans.kernels.short_search_compiled import (
    assign_compiled,
    cross_compiled,
    merge_compiled,
    open_at_best,
    settle_compiled,
)

MOST_NUMBERS = 2**20
"""Most squared distances at a time without Numba."""
PASS = 2**11
"""Nanoseconds of a row in a pass, without Numba: 1,100 to 4,300 in searches of 150 to 5,000 rows."""
SWAP_TRIES = 6
"""Most centers that are drawn to leave, and rows to open at, for the swap of a child.

With one of each, four problems with 50 to 80 clusters ended .04 % higher on average than with
three; with six, 2,310 rows in 80 clusters ended .04 % lower, and five other problems about as low.
The number is drawn for each child: with six always, one of 144 problems of few rows ended 5 % above
its optimum.
"""


Known = tuple[Float64Array, Float64Array]
"""At least how far rows are from the centers of other clusters, squared, (n,), and the centers, (d, k),
infinite where not known."""


@dataclass(frozen=True)
class Partition:
    """The end of a short search."""

    centers: Float64Array
    """(d, k), the means of the clusters."""
    objective: float
    passes: int
    """Passes over the rows in which single rows moved."""
    labels: Int64Array
    """(n,), the numbers of the rows' clusters."""


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
    searches: int = 0
    """Searches that are ahead, at least, so that Numba compiles the loops at once if that pays."""

    def settle(self, labels: Int64Array, known: Known | None = None) -> Partition:
        """Return the end of moves of single rows, and of merges, from labels, (n,).

        What is known spares work, and may be overwritten.
        """
        labels, k = labels.copy(), int(labels.max()) + 1
        seconds, centers = known or (np.zeros(len(labels)), np.empty((self.rows.shape[1], 0)))
        given = self.rows, self.weights, labels, seconds, centers, self.penalty, self.most
        work = MOVING * k * self.rows.size
        if pays(settle_compiled, given, 0, ahead=max(1, self.searches) * work):
            return Partition(*settle_compiled(*given), labels)
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
        add_work(settle_compiled, given, PASS * passes * len(labels))
        centers, _, counts = self._means(labels, room)
        k = int(np.count_nonzero(counts))
        squares = np.square(self.rows.T - centers[:, labels])
        costs = self.weights * np.add.accumulate(squares, axis=0)[-1]
        objective = float(np.add.accumulate(costs)[-1]) + self.penalty * k
        means = np.ascontiguousarray(centers[:, counts > 0])
        return Partition(means, objective, passes, (np.cumsum(counts > 0) - 1)[labels])

    def _means(
        self, labels: Int64Array, room: int
    ) -> tuple[Float64Array, Float64Array, Int64Array]:
        """Return the means, (d, room), the masses and the numbers of rows of clusters, (room,)."""
        counts = np.bincount(labels, minlength=room).astype(np.int64)
        masses = total(labels, self.weights, room)
        sums = [total(labels, self.weights * column, room) for column in self.rows.T]
        means: Float64Array = np.array(sums) / np.where(counts > 0, masses, 1.0)
        return means, masses, counts

    def start(self, draw: float) -> tuple[Int64Array, Float64Array]:
        """Return labels and squared distances, (n,) each, with one center, at a row that is drawn."""
        n = len(self.rows)
        return np.zeros(n, np.int64), self._squared(min(n - 1, int(draw * n)))

    def open(self, draws: Float64Array, k: int, labels: Int64Array, costs: Float64Array) -> int:
        """Open clusters after the first k, one for each row of draws at most, and return how many are open.

        Labels and squared distances, (n,), change in place.  `draws`, (m, tries), are numbers in
        [0, 1).  It ends where no drawn row would save half the penalty.
        """
        least = 0.5 * self.penalty
        given = self.rows, self.weights, draws.ravel(), least, k, labels, costs
        compiled = pays(open_at_best, given, 16 * draws.size * self.rows.size)
        for step in draws:
            if compiled:
                opens = open_at_best(self.rows, self.weights, step, least, k, labels, costs)
            else:
                opens = self._open(step, least, k, labels, costs)
            if not opens:
                break
            k += 1
        return k

    def _open(
        self, draws: Float64Array, least: float, k: int, labels: Int64Array, costs: Float64Array
    ) -> bool:
        """Open cluster k at the one of some drawn rows that saves most, and return whether it opens.

        Labels and costs, (n,), change in place.  It opens only if it saves more than `least`.
        """
        rows = [row for row in _draw_rows(self.weights * costs, draws) if row >= 0]
        trials = [self._squared(row) for row in rows]
        saved = [
            float(np.add.accumulate(self.weights * np.maximum(costs - trial, 0.0))[-1])
            for trial in trials
        ]
        if not max(saved, default=0.0) > least:
            return False
        best = trials[int(np.argmax(saved))]
        labels[best < costs] = k
        np.minimum(costs, best, out=costs)
        return True

    def assign(self, centers: Float64Array) -> Int64Array:
        """Return the numbers, (n,), of the nearest of centers, (d, k)."""
        return _assign(self.rows, centers)

    def child(self, one: Partition, two: Partition, draws: Float64Array) -> Partition:
        """Return the end of a search from a crossover; see `cross` for the draws."""
        given = self.rows, self.weights, one.centers, two.centers, one.labels, draws
        work = 16 * one.centers.shape[1] * self.rows.size
        if pays(cross_compiled, given, work, ahead=self.searches * work):
            labels, *known = cross_compiled(*given)
            return self.settle(labels, (known[0], known[1]))
        return self.settle(self.cross(one, two, draws))

    def cross(self, one: Partition, two: Partition, draws: Float64Array) -> Int64Array:
        """Return labels, (n,), at a crossover of two ends with one center swapped.

        Of two centers that are nearest to each other one is drawn; each other one is drawn or left
        out.  `draws`, (k + m + 2 * tries,), are numbers in [0, 1).
        """
        first, second = one.centers, two.centers
        k, m = first.shape[1], second.shape[1]
        of_first = _assign(np.ascontiguousarray(first.T), second)
        of_second = _assign(np.ascontiguousarray(second.T), first)
        drawn, others = draws[:k] < 0.5, draws[k : k + m] < 0.5
        paired = of_first[of_second] == np.arange(m)
        others[paired] = ~drawn[of_second[paired]]
        centers = np.concatenate([first[:, drawn], second[:, others]], axis=1)
        if centers.shape[1] == 1:
            return self.assign(centers)
        return self.swap(centers, draws[k + m :].reshape(2, -1))

    def swap(self, centers: Float64Array, draws: Float64Array) -> Int64Array:
        """Return labels, (n,), at centers, (d, k), of which one left and one opened at a row.

        Of some drawn centers the one leaves that costs least without it.  Of some rows, drawn by
        what they cost then, the one is opened at that saves most.  `draws`, (2, tries), are numbers
        in [0, 1); k > 1.
        """
        k = centers.shape[1]
        labels, costs, others, second = _nearest_two(self.rows, centers)
        losses = total(labels, self.weights * (second - costs), k)
        tried = np.minimum(k - 1, (draws[0] * k).astype(np.int64))
        left = int(tried[np.argmin(losses[tried])])
        leaves = labels == left
        labels[leaves], costs[leaves] = others[leaves], second[leaves]
        self._open(draws[1], 0.0, left, labels, costs)
        return labels

    def _squared(self, row: int) -> Float64Array:
        """Return the squared distances, (n,), from a row."""
        return squared_to_each(self.rows, self.rows[row : row + 1].T)[:, 0]


def _assign(rows: Float64Array, centers: Float64Array) -> Int64Array:
    """Return the numbers, (n,), of the nearest of centers, (d, k)."""
    labels, costs = np.empty(len(rows), np.int64), np.empty(len(rows))
    given = rows, centers, labels, costs
    if pays(assign_compiled, given, 16 * centers.size * len(rows)):
        assign_compiled(*given)
        return labels
    for part in _parts(rows, centers):
        labels[part] = squared_to_each(rows[part], centers).argmin(axis=1)
    return labels


def _nearest_two(
    rows: Float64Array, centers: Float64Array
) -> tuple[Int64Array, Float64Array, Int64Array, Float64Array]:
    """Return the two nearest of centers, (d, k), and their squared distances, (n,) each."""
    n = len(rows)
    first, second = np.empty(n, np.int64), np.empty(n, np.int64)
    costs, others = np.empty(n), np.empty(n)
    for part in _parts(rows, centers):
        squared = squared_to_each(rows[part], centers)
        for numbers, least in ((first, costs), (second, others)):
            numbers[part] = squared.argmin(axis=1)
            at = numbers[part, np.newaxis]
            least[part] = np.take_along_axis(squared, at, axis=1)[:, 0]
            np.put_along_axis(squared, at, np.inf, axis=1)
    return first, costs, second, others


def _parts(rows: Float64Array, centers: Float64Array) -> list[slice]:
    """Return parts of rows, (n, d), with few squared distances to centers, (d, k), at a time."""
    step = max(1, MOST_NUMBERS // centers.size)
    return [slice(i, i + step) for i in range(0, len(rows), step)]


def _draw_rows(chances: Float64Array, draws: Float64Array) -> list[int]:
    """Return numbers of rows drawn by their chances, (n,); -1 if none has any."""
    sums, some = np.add.accumulate(chances), np.flatnonzero(chances > 0.0)
    if not len(some):
        return [-1] * len(draws)
    places = np.searchsorted(sums[some], draws * sums[-1], side="right")
    return [int(some[min(place, len(some) - 1)]) for place in places]


def cell_means(
    rows: Float64Array, weights: Float64Array, most: int
) -> tuple[Float64Array, Float64Array]:
    """Return the means, (m, d), and weights, (m,), of at most `most` cells of rows.

    The cell of the largest squared error is cut in two at its mean, across the column of the
    largest error, until there are `most` or no error is left.  Rows are (n, d), weights (n,), > 0.
    """
    # about as long as NumPy took for 700 rows in 320 cells, and for 100,000 in 2,560
    work = 64 * rows.size * most.bit_length() + 2**15 * most
    if pays(cell_means_compiled, (rows, weights, most), work):
        means, masses, count = cell_means_compiled(rows, weights, most)
        return means[:count], masses[:count]
    members = [np.arange(len(rows))]
    means, masses, errors = np.empty((most, rows.shape[1])), np.empty(most), np.empty(most)
    widest = np.empty(most, np.int64)
    means[0], masses[0], errors[0], widest[0] = _statistics_of(rows, weights, members[0])
    while len(members) < most:
        cell = int(errors[: len(members)].argmax())
        if not errors[cell] > 0.0:
            break
        low = rows[members[cell], widest[cell]] <= means[cell, widest[cell]]
        if low.all() or not low.any():  # rows that are equal but for the rounding of their mean
            errors[cell] = 0.0
            continue
        members.append(members[cell][~low])
        members[cell] = members[cell][low]
        for c in (cell, len(members) - 1):
            means[c], masses[c], errors[c], widest[c] = _statistics_of(rows, weights, members[c])
    return means[: len(members)], masses[: len(members)]


def _statistics_of(
    rows: Float64Array, weights: Float64Array, members: Int64Array
) -> tuple[Float64Array, float, float, int]:
    """Return the mean, (d,), weight, squared error and widest column of some rows."""
    some, heavy = rows[members], weights[members, np.newaxis]
    mass = float(np.add.accumulate(heavy[:, 0])[-1])
    mean: Float64Array = (np.add.accumulate(heavy * some)[-1] + 0.0) / mass
    apart = some - mean
    errors = np.add.accumulate(heavy * apart * apart)[-1]
    return mean, mass, float(np.add.accumulate(errors)[-1]), int(errors.argmax())


@compile_part
def _measure(
    rows: Float64Array, weights: Float64Array, members: Int64Array, mean: Float64Array
) -> tuple[float, float, int]:
    """Fill in the mean, (d,), of some rows; return their weight, squared error and widest column."""
    mass, total, largest, widest = 0.0, 0.0, -1.0, 0
    for i in range(len(members)):
        mass += weights[members[i]]
    for j in range(len(mean)):
        middle, error = 0.0, 0.0
        for i in range(len(members)):
            middle += weights[members[i]] * rows[members[i], j]
        middle /= mass
        for i in range(len(members)):
            difference = rows[members[i], j] - middle
            error += weights[members[i]] * difference * difference
        mean[j] = middle
        total += error
        if error > largest:
            largest, widest = error, j
    return mass, total, widest


@compile_part
def _cut(
    rows: Float64Array, members: Int64Array, column: int, value: float, spare: Int64Array
) -> int:
    """Put the members up to a value in a column first, both parts in order; return their number."""
    below, above = 0, 0
    for i in range(len(members)):
        row = members[i]
        if rows[row, column] <= value:
            members[below] = row
            below += 1
        else:
            spare[above] = row
            above += 1
    for i in range(above):
        members[below + i] = spare[i]
    return below


@compile_loop
def cell_means_compiled(
    rows: Float64Array, weights: Float64Array, most: int
) -> tuple[Float64Array, Float64Array, int]:
    """Return means, (most, d), weights, (most,), and the number of cells: twin of `cell_means`."""
    n, d = rows.shape
    means, masses, errors = np.empty((most, d)), np.empty(most), np.empty(most)
    columns, stops = np.empty(most, np.int64), np.empty(most, np.int64)
    starts, order, spare = np.empty(most, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
    starts[0], stops[0], count = 0, n, 1
    masses[0], errors[0], columns[0] = _measure(rows, weights, order, means[0])
    while count < most:
        cell = 0
        for c in range(1, count):
            if errors[c] > errors[cell]:
                cell = c
        if not errors[cell] > 0.0:
            break
        first, stop, column = starts[cell], stops[cell], columns[cell]
        below = _cut(rows, order[first:stop], column, means[cell, column], spare)
        if below in (0, stop - first):  # rows that are equal but for the rounding of their mean
            errors[cell] = 0.0
            continue
        stops[cell], starts[count], stops[count] = first + below, first + below, stop
        for c in (cell, count):
            masses[c], errors[c], columns[c] = _measure(
                rows, weights, order[starts[c] : stops[c]], means[c]
            )
        count += 1
    return means, masses, count
