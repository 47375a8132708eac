"""Clusters of rows in memory, which the steps of `center_path` change in place.

Lloyd's steps compare with centers only rows that may go to another one.  `CompiledClusters` take
the same steps in compiled loops, to the same bytes.
"""

import math
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.center_clusters_compiled import (
    LLOYD_STEPS,
    SURELY,
    TINY,
    Bounds,
    Buffers,
    Halves,
    Lists,
    Marks,
    State,
    Taken,
    walk,
)
from dask_dpmeans.kernels.halves import halve_each, pair_costs, squared_norms, weighted_average
from dask_dpmeans.kernels.halves_compiled import VANISHING, Data
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import CALL, pays

DISTANCES_AT_ONCE = 2**20
"""Most squared distances that are computed together without Numba."""
BOUNDED, MOST_BOUNDS = 8, 2**25
"""Bounds of distances are kept with at least this many columns, if they are at most so many: on
6,054 rows in 128 columns and up to 96 clusters, a path takes a quarter of the time.  On 12,000 normal rows in
8 columns and up to 1,536 clusters a look takes 3.05 s; with at most half as many bounds, 4.05 s."""
CALLS, READ, COLUMN, WIDE, FIRST = 33, 1000, 100, 24, 2**15
"""For `numba_support.pays`, of a step up or down: calls of NumPy; numbers that it handles for a row, and
for each of its columns, of so many at most; and numbers for a row in the steps of few clusters.  For each
row and step, rows in balls took 1.5 to 4.3 microseconds in 2 to 64 columns, which this is about, and
normal rows 2.6 to 21."""
ASSIGN, PASS, DISTANCE, HALVE = 40 * CALL, 90, 5, 630
"""Numbers that NumPy handles when rows are assigned: for each time, each row, each number of rows that
are compared with a center, and each number of a cluster that is halved.  This is .7 to 1.2 of the time that
24 paths of 300 to 8,000 normal rows and balls in 2 to 64 columns took."""
KNOWN = 64
"""Gains that are remembered without Numba, for each of the most clusters."""
AHEAD = 2**16
"""Most numbers in the centers of steps that are taken in one call."""


class Step(NamedTuple):
    """Where a step led."""

    k: int
    """Number of clusters."""
    halved: int
    """The cluster that was halved; -1 if none gained, or after a merge."""
    centers: Float64Array
    """(k, d), which a later step may overwrite."""
    errors: Float64Array
    """(k,), squared errors, likewise."""


class Clusters:
    """Up to `most` clusters of rows, which steps change in place."""

    def __init__(
        self, rows: Float64Array, weights: Float64Array, most: int, spherical: bool
    ) -> None:
        n, d = rows.shape
        room = most + 1
        self.rows, self.weights, self.spherical, self.most = rows, weights, spherical, most
        self.centers = np.zeros((room, d))
        self.masses, self.errors, self.gains = np.zeros(room), np.zeros(room), np.zeros(room)
        """(room,): weights or lengths of sums, squared errors, falls by halving, -1 if unknown."""
        self.labels, self.squared = np.zeros(n, np.int64), np.zeros(n)
        self.sides = np.zeros(n, np.bool_)
        """(n,), which rows of a cluster leave when it is halved."""
        self.handled = 0
        """Numbers that NumPy has handled since that was last asked; see `ASSIGN`."""
        self._halves: dict[bytes, tuple[float, BoolArray]] = {}
        """Gains and sides by the digest of the rows of a cluster."""

    def start(self) -> None:
        """Make all rows one cluster."""
        self.centers[0, 0] = 1.0  # a unit vector if all rows cancel
        self.place(0)
        self.restore(1)

    def restore(self, k: int) -> None:
        """Give the rows to the k centers as they are."""
        self.labels[:] = 0
        self._assign(np.ones(k, np.bool_))
        self.gains[:k] = -1.0
        for c in range(k):
            self.masses[c], _ = self._mass_and_center(c, np.flatnonzero(self.labels == c))
        self._sum_errors(k)

    def step(self, k: int, halved: int = -1) -> Step:
        """Return a step that led to the clusters as they are."""
        return Step(k, halved, self.centers[:k], self.errors[:k])

    def grow(self, k: int, several: bool = False) -> list[Step]:
        """Halve the cluster that gains most, and refine, `several` times if that is faster.

        The last step may lead to no more clusters.
        """
        return [self.split(k, 1)]

    def split(self, k: int, count: int) -> Step:
        """Halve the clusters that gain most, `count` of k, and refine; fewer if no more gain."""
        self._find_gains(np.flatnonzero(self.gains[:k] < 0).tolist())
        touched = list[int]()
        for new in range(k, k + count):
            best = int(self.gains[:new].argmax())
            if not self.gains[best] > 0:
                break
            self.centers[new] = self.centers[best]
            self.labels[(self.labels == best) & self.sides] = new
            self.gains[best] = self.gains[new] = 0.0
            touched += [best, new]
        if not touched:
            return self.step(k)
        k += len(touched) // 2
        return self.step(self.refine(k, *touched), touched[-2])

    def _find_gains(self, clusters: list[int]) -> None:
        """Find the gains of halving clusters; those that are known are looked up."""
        members = [np.flatnonzero(self.labels == c) for c in clusters]
        keys = [blake2b(rows.tobytes()).digest() for rows in members]
        if len(self._halves) >= KNOWN * (self.most + 1):
            self._halves.clear()
        new = {
            key: rows for key, rows in zip(keys, members, strict=True) if key not in self._halves
        }
        self.handled += HALVE * sum(map(len, new.values())) * self.rows.shape[1]
        halves = halve_each(self.rows, self.weights, list(new.values()), self.spherical)
        self._halves.update(zip(new, halves, strict=True))
        for c, key, rows in zip(clusters, keys, members, strict=True):
            self.gains[c], self.sides[rows] = self._halves[key]

    def shrink(self, k: int) -> Step:
        """Merge the pair of clusters that costs the least, and refine."""
        first, second = np.triu_indices(k, 1)
        squared = squared_norms(self.centers[first] - self.centers[second])
        costs = pair_costs(self.masses[first], self.masses[second], squared, self.spherical)
        pair = costs.argmin()
        p, q = int(first[pair]), int(second[pair])
        self.labels[self.labels == q] = p
        return self.step(self.refine(self._drop_empty(k), p))

    def refine(self, k: int, *touched: int) -> int:
        """Place the touched of k clusters, and take Lloyd's steps until no row moves, or as many as may be.

        After the last of these the rows are at their nearest centers, which may not be their averages
        yet.  Return the number of clusters with rows.
        """
        changed, moved = np.zeros((2, k), np.bool_)
        now = np.array(touched)
        changed[now] = True
        for _ in range(LLOYD_STEPS + 1):
            moved[:] = False
            for c in now.tolist():
                moved[c] = self.place(c)
            now = self._assign(moved)
            changed[now] = True
            if not len(now):
                break
        self.gains[:k][changed] = -1.0
        self._sum_errors(k)
        return self._drop_empty(k)

    def place(self, c: int) -> bool:
        """Compute mass and center of a cluster from its rows; return whether it has any."""
        members = np.flatnonzero(self.labels == c)
        if not len(members):
            return False
        self.masses[c], self.centers[c] = self._mass_and_center(c, members)
        return True

    def _mass_and_center(self, c: int, members: Int64Array) -> tuple[float, Float64Array]:
        """Return the mass of a cluster of rows, (m,), and where its center, (d,), should be."""
        average, weight = weighted_average(self.rows[members], self.weights[members])
        if not self.spherical:
            return weight, average
        length = math.sqrt(squared_norms(average[np.newaxis])[0])
        if not length > VANISHING:
            return 0.0, self.centers[c]
        return weight * length, average / length

    def _assign(self, moved: BoolArray) -> Int64Array:
        """Give rows to their nearest centers after some of k moved, (k,).

        Return the clusters whose rows changed.
        """
        self.handled += ASSIGN + PASS * len(self.rows)
        targets, changed = np.flatnonzero(moved), np.zeros(len(moved), np.bool_)
        own = moved[self.labels]
        rows, others = np.flatnonzero(own), np.flatnonzero(~own)
        self.squared[rows] = squared_norms(self.rows[rows] - self.centers[self.labels[rows]])
        apart = self._apart(targets, len(moved))
        near = np.flatnonzero(apart <= self.squared[rows].max() * SURELY + TINY)
        doubtful = apart[self.labels[others]] <= self.squared[others] * SURELY + TINY
        self._choose(rows, near, changed)
        self._choose(others[doubtful], targets, changed)
        return np.flatnonzero(changed)

    def _apart(self, targets: Int64Array, k: int) -> Float64Array:
        """Return how far each of k centers is from the nearest target, squared, (k,)."""
        if len(targets) == k:
            return np.zeros(k)
        apart = np.full(k, np.inf)
        height = max(1, DISTANCES_AT_ONCE // k)
        for start in range(0, len(targets), height):
            part = self.centers[targets[start : start + height]]
            np.minimum(apart, _distances(self.centers[:k], part).min(axis=0), out=apart)
        return apart

    def _choose(self, rows: Int64Array, among: Int64Array, changed: BoolArray) -> None:
        """Give rows, (m,), to the nearest of some centers, (q,), or of their own.

        Of equals the lowest number wins.  Clusters whose rows change are marked, (k,).
        """
        self.handled += DISTANCE * len(rows) * len(among) * self.rows.shape[1]
        height = max(1, DISTANCES_AT_ONCE // len(among))
        for start in range(0, len(rows), height):
            part = rows[start : start + height]
            distances = _distances(self.rows[part], self.centers[among])
            best = distances.argmin(axis=0)
            least, labels = distances[best, np.arange(len(part))], among[best]
            before, known = self.labels[part], self.squared[part]
            wins = np.flatnonzero((least < known) | ((least == known) & (labels < before)))
            part, labels = part[wins], labels[wins]
            changed[before[wins]] = changed[labels] = True
            self.labels[part], self.squared[part] = labels, least[wins]

    def _sum_errors(self, k: int) -> None:
        """Sum the error of each of k clusters in row order."""
        self.errors[:k] = total(self.labels, self.weights * self.squared, k)

    def _drop_empty(self, k: int) -> int:
        """Drop clusters without rows, and return the number of the others."""
        kept = np.flatnonzero(np.bincount(self.labels, minlength=k))
        if len(kept) < k:
            for values in (self.centers, self.masses, self.errors, self.gains):
                values[: len(kept)] = values[kept]
            self.labels[:] = np.searchsorted(kept, self.labels)
        return len(kept)


def _distances(rows: Float64Array, centers: Float64Array) -> Float64Array:
    """Return the squared distances, by definition, (q, m), of rows, (m, d), and centers, (q, d)."""
    squared = np.zeros((len(centers), len(rows)))
    for column, values in zip(rows.T, centers.T, strict=True):
        squared += np.square(column - values[:, np.newaxis])
    return squared


def _scale(rows: Float64Array) -> float:
    """Return a power of two that makes the widest of rows, (n, d), about 1; 0 without one."""
    with np.errstate(over="ignore"):
        widest = math.sqrt(squared_norms(np.ptp(rows, axis=0)[np.newaxis])[0])
    if not 0 < widest < math.inf:
        return 0.0
    return math.ldexp(1.0, -math.frexp(widest)[1])


def path_work(shape: tuple[int, int], most: int, turns: int, stride: int) -> int:
    """Return about the numbers that NumPy handles in a path of balls, if it takes all turns; see `center_path`."""
    n, d = shape
    if stride:
        most, turns = min(most, math.ceil(stride * (1 + math.log(max(1, most / stride))))), 0
    step = CALLS * CALL + n * (READ + COLUMN * min(d, WIDE))
    found: int = (1 + turns) * (most * step + FIRST * n) + (1 + turns) // 2 * most**3 * d
    return found


class CompiledClusters(Clusters):
    """Clusters whose steps are compiled; `ahead` are the numbers that NumPy would handle."""

    def __init__(
        self, rows: Float64Array, weights: Float64Array, most: int, spherical: bool, ahead: int = 0
    ) -> None:
        super().__init__(rows, weights, most, spherical)
        self.ahead = ahead
        (n, d), room = rows.shape, most + 1
        self._data: Data = (rows, weights, spherical)
        scale = _scale(rows)
        bounded = d >= BOUNDED and n * room <= MOST_BOUNDS and scale > 0
        known = np.zeros((room + 1, n if bounded else 0), np.float32)
        ways, lines, changes = np.zeros(room), np.arange(room), np.zeros(1, np.int64)
        self._bounds: Bounds = known, ways, lines, scale, np.arange(n), changes
        numbers = self.centers, self.masses, self.errors, self.gains
        state: State = (*numbers, self.labels, self.squared, self._bounds)
        pool, leaving, arriving = (np.zeros(size, np.int64) for size in (3 * n, n, n))
        starts, counts, first, last = np.zeros((4, room), np.int64)
        reach, apart = np.zeros((2, room))
        self._lists: Lists = (pool, starts, counts, np.zeros(1, np.int64), reach)
        moved, changed, touched = np.zeros((3, room), np.bool_)
        self._marks: Marks = moved, changed, touched
        memory = np.zeros(d), np.zeros(room, np.int64), np.zeros(room)
        self._buffers: Buffers = leaving, arriving, first, last, apart, *memory
        pool[:n], counts[0] = np.arange(n), n
        halves: Halves = self.sides, np.zeros((n + 8, d))
        ahead = max(1, min(most, AHEAD // (room * d)))
        taken = np.zeros((ahead, 2), np.int64), np.zeros((ahead, room, d)), np.zeros((ahead, room))
        self._taken: Taken = taken
        self._all = self._data, state, self._lists, self._marks, self._buffers, halves, taken

    def pay(self, work: int) -> bool:
        """Return whether compiled steps pay after so much work without; see `numba_support.pays`."""
        return pays(walk, (*self._all, self.most, 1, 1), work, ahead=self.ahead)

    def take_over(self, clusters: Clusters, k: int) -> None:
        """Become k clusters as they are."""
        pool, starts, counts, free, reach = self._lists
        for name in ("centers", "masses", "errors", "gains", "labels", "squared", "sides"):
            getattr(self, name)[:] = getattr(clusters, name)
        n, counts[:] = len(self.labels), np.bincount(self.labels, minlength=len(counts))
        pool[:n], starts[:], free[0] = (
            np.argsort(self.labels, kind="stable"),
            counts.cumsum() - counts,
            n,
        )
        np.maximum.at(reach, self.labels, self.squared)

    def restore(self, k: int) -> None:
        """Give the rows to the k centers as they are."""
        walk(*self._all, k, 0, 1)

    def grow(self, k: int, several: bool = False) -> list[Step]:
        """Halve the cluster that gains most, and refine, `several` times at once.

        The last step may lead to no more clusters.
        """
        most = min(len(self._taken[0]), self.most - k) if several else 1
        return self._steps(walk(*self._all, k, 1, most))

    def split(self, k: int, count: int) -> Step:
        """Halve the clusters that gain most, `count` of k, and refine; fewer if no more gain."""
        return self._steps(walk(*self._all, k, count, 1))[0]

    def shrink(self, k: int) -> Step:
        """Merge the pair of clusters that costs the least, and refine."""
        return self._steps(walk(*self._all, k, -1, 1))[0]

    def _steps(self, count: int) -> list[Step]:
        """Return the steps that were taken last."""
        numbers, centers, errors = self._taken
        return [
            Step(after, halved, centers[place, :after], errors[place, :after])
            for place, (after, halved) in enumerate(numbers[:count].tolist())
        ]
