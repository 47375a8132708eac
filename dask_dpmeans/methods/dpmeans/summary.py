"""The rows that choose a penalty: all of them or a coreset, and their clusterings into 1, 2, ... clusters.

`chooser` compares these clusterings.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.center_path import CenterPath, center_path
from dask_dpmeans.kernels.distance import Centers, nearest
from dask_dpmeans.kernels.labelings import count_label_pairs
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans.choice import AUTO, score
from dask_dpmeans.methods.dpmeans.path import Interval, Solution, envelope, summary_of
from dask_dpmeans.methods.dpmeans.rotation import Rotation, is_wide

SUMMARY_ROWS, SUMMARY_NUMBERS = 6144, 2**15
"""Rows of a summary of many rows, about; up to twice as many if they are at most so many numbers.
Up to twice as many rows are their own summary.

Of nine sets of 15,000 to 30,000 rows in 2 columns, of 100 blobs that overlap, with four seeds each,
12,288 rows chose 81 to 100 clusters; 6,144 rows chose 1 to 67 on 7 of 36."""
FEWEST_TRIED, CLUSTERS_BY_ROOT, ROWS_A_CLUSTER, MOST_BY_ROWS = 10, 2, 8, 192
"""Numbers of clusters are tried up to the greatest of this number, this many times the root of the
rows, and the number of which each has so many rows, or the last if that is less."""
REFINED = 0.8
"""Share of the numbers tried that may be chosen: those after have not been compared with more."""
ROWS_A_SMALL_CLUSTER, MOST_LOOKED_AT, MOST_NUMBERS = 4, 1536, 2**24
"""Further numbers of clusters are looked at by splits alone, up to the greatest of which each has so
many rows, and at most so many; the centers of all have at most so many numbers, if more than those
that are tried anyway."""
FLOOR = 1e-9
"""The lowest penalty, as a share of the squared error of one cluster: rows that are all at a few
points have intervals without a lower end."""
LOOK_STRIDE = 20
"""One cluster in so many is halved at once where further numbers are looked at."""
TURNS = 1
"""Ways down by merges, and up again by splits, after the first splits.  On 18 sets, five more took
1.4 to 3 times as long, and changed the number of clusters with the best score on none."""
MOST_DRAWN = 2**53
"""Weights from here on are not divided among halves."""
WIDE_COPIES = 10
"""Copies of a wide summary that a choice holds at once: 9.9 of 200 rows of 6,000 columns."""
NUMBER_COPIES = 7
"""Copies of the summary, and of the centers of all numbers of clusters, that a choice holds at once.
200 rows of 20,000 columns took 1.2 GB, 7.2 times their numbers."""
NO_QUESTION = 2**33
"""Bytes that a choice may take without a look at the memory that is there."""


def summary_rows(n: int, d: int) -> int:
    """Return about how many of n rows in d columns choose: all of them, or so many in a coreset."""
    if n <= 2 * SUMMARY_ROWS:
        return n
    return min(2 * SUMMARY_ROWS, max(SUMMARY_ROWS, SUMMARY_NUMBERS // d))


def choice_summary(source: Source, seed: int) -> tuple[InMemoryRows, bool]:
    """Return the rows that choose, and whether they are all rows with weight."""
    n = source.plan.n_rows
    size = summary_rows(n, len(source.summary.sums))
    return summary_of(source, size, seed, whole=2 * SUMMARY_ROWS)


def check_room(source: Source) -> None:
    """Refuse rows of so many columns that a choice from their summary does not fit in memory.

    Raises
    ------
    InputError
        The summary is dense, and the centers of each number of clusters that is tried are, too.
    """
    d = len(source.summary.sums)
    rows = summary_rows(source.plan.n_rows, d)
    size = choice_bytes(rows, d)
    room = getattr(source, "room", math.inf)  # of rows in memory for a job, nothing is known
    if size > max(room, NO_QUESTION):
        raise InputError(
            f"the penalty {AUTO!r} compares clusterings of {rows:,} dense rows of {d:,} columns, which "
            f"takes about {size / 2**30:,.0f} GiB, more than the {room / 2**30:,.0f} GiB that are free: "
            "give the penalty as a number, or fewer columns, such as those that vary most"
        )


def choice_bytes(rows: int, d: int) -> int:
    """Return about how many bytes a choice from a summary of so many rows of d columns takes."""
    wide = WIDE_COPIES * rows * d if is_wide(rows, d) else 0
    d = rows if wide else d
    most = max(
        FEWEST_TRIED,
        CLUSTERS_BY_ROOT * math.isqrt(rows),
        min(rows // ROWS_A_CLUSTER, MOST_BY_ROWS),
        most_looked_at(rows, d),
    )
    return 8 * max(wide, NUMBER_COPIES * d * (3 * rows + most * (most + 1) // 2))


def most_looked_at(rows: int, d: int) -> int:
    """Return the greatest further number of clusters of a summary of so many rows of d columns.

    >>> most_looked_at(1000, 2), most_looked_at(12_288, 2), most_looked_at(6_144, 784)
    (250, 1536, 206)
    """
    return min(rows // ROWS_A_SMALL_CLUSTER, MOST_LOOKED_AT, math.isqrt(2 * MOST_NUMBERS // d))


@dataclass(frozen=True)
class ChoiceParameters:
    """Parameters of a choice."""

    seed: int
    spherical: bool
    """Whether centers are directions, as for the metric "cosine"."""
    length: float = 1.0
    """Length of rows and centers, if centers are directions."""

    def summary(self, rows: InMemoryRows) -> "Summary":
        """Return the summary of rows; equal rows become one with the sum of their weights."""
        values = rows.rows.astype(np.float64) + 0.0
        given = np.ones(len(values)) if rows.weights is None else rows.weights
        order = np.argsort(values[:, 0])
        if (np.diff(values[order, 0]) > 0).all():  # no row equals another: this is faster
            values, weights, copies = values[order], given[order].astype(np.float64), None
        else:
            values, numbers = np.unique(values, axis=0, return_inverse=True)
            copies = Copies(numbers.ravel(), given.astype(np.float64), len(values))
            weights = copies.weights_of(slice(None))
        values = np.ascontiguousarray(values)
        return Summary(values, weights, self.spherical, self.seed, self.length, copies)


@dataclass(frozen=True)
class Copies:
    """Rows as they were given, of which some are equal."""

    places: Int64Array
    """(m,), which of the different rows each is."""
    weights: Float64Array
    """(m,), > 0."""
    n: int
    """Number of different rows."""

    def weights_of(self, some: BoolArray | slice) -> Float64Array:
        """Return the weight of some, selected by (m,), at each of the different rows, (n,)."""
        return np.bincount(self.places[some], self.weights[some], self.n).astype(np.float64)


@dataclass(frozen=True)
class Summary:
    """Different rows in memory, in lexicographic order, and their weights."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""
    spherical: bool
    """Whether centers are directions, as for the metric "cosine"."""
    seed: int
    length: float = 1.0
    """Length of rows and centers, if centers are directions."""
    copies: Copies | None = None
    """The rows as they were given; None if they all differ."""
    rotation: Rotation | None = None
    """The rows in fewer columns; None if they have not many more columns than rows."""

    def rotated(self) -> Self:
        """Return the summary with a rotation of its rows."""
        return replace(self, rotation=Rotation.of(self.rows, self.spherical))

    @property
    def coordinates(self) -> Float64Array:
        """The rows, (n, m), as paths see them."""
        return self.rows if self.rotation is None else self.rotation.coordinates

    @property
    def wide(self) -> bool:
        """Whether the rows are to be rotated into fewer columns."""
        return is_wide(*self.rows.shape)

    def lift(self, centers: Float64Array) -> Float64Array:
        """Return centers of a path, (k, m), in the columns of the rows, (k, d)."""
        return centers if self.rotation is None else self.rotation.lift(centers)

    @property
    def count(self) -> float:
        """Number of rows that the weights stand for: their sum, if they are numbers of rows.

        Otherwise the effective number of Kish 1965: as many equal weights vary as little.
        """
        if self._counted:
            return float(self.weights.sum())
        weights = self.weights if self.copies is None else self.copies.weights
        return float(weights.sum()) ** 2 / float((weights**2).sum())

    @cached_property
    def _counted(self) -> bool:
        """Whether the weights are numbers of rows."""
        return bool((self.weights == np.rint(self.weights)).all())

    @property
    def _drawn(self) -> bool:
        """Whether each of the rows that a row stands for goes to a half of its own."""
        return self._counted and bool(self.weights.max() < MOST_DRAWN)

    @property
    def most_tried(self) -> int:
        """The greatest number of clusters that is tried, if so many rows differ."""
        by_root = math.ceil(CLUSTERS_BY_ROOT * math.sqrt(self.count))
        by_rows = min(int(self.count / ROWS_A_CLUSTER), MOST_BY_ROWS)
        return max(FEWEST_TRIED, min(len(self.rows), max(by_root, by_rows)))

    @property
    def most_looked_at(self) -> int:
        """The greatest number of clusters that is tried or looked at by splits alone."""
        n, d = self.rows.shape
        return max(self.most_tried, most_looked_at(int(min(n, self.count)), d))

    def path(self, most: int, turns: int = TURNS, stride: int = 0) -> CenterPath:
        """Return clusterings with up to `most` clusters, in `coordinates`; see `center_path`."""
        how = (most, self.spherical, turns, stride)
        if self.length == 1:
            return center_path(self.coordinates, self.weights, *how)
        found = center_path(self.coordinates / self.length, self.weights, *how)
        centers = tuple(self.length * each for each in found.centers)
        return CenterPath(self.length**2 * found.inertias, centers)

    def candidates(self, path: CenterPath, tried: int, intervals: list[Interval]) -> list[Interval]:
        """Return the intervals of at least two clusters that may be chosen, by falling score."""
        if FLOOR * path.inertias[0] == 0:  # less than any number but 0
            return []
        most = self.largest(path, tried)
        found = [each for each in intervals if 2 <= each.n_clusters <= most]
        return sorted(found, key=score, reverse=True)

    def largest(self, path: CenterPath, tried: int) -> int:
        """Return the greatest number of clusters that may be chosen."""
        found = path.largest
        if found < tried and path.inertias[-1] <= FLOOR * path.inertias[0]:  # no more rows differ
            return int(self.count / 2)
        limit = int(REFINED * found)
        return next(k for k in map(len, path.centers) if k >= limit)

    def parts(self, number: int) -> list[Float64Array]:
        """Return the weights, (n,), of the rows in each half that has any.

        Of a row that stands for several, each goes its own way.
        """
        random, n = stream(self.seed, Stream.HALVES, number), len(self.rows)
        if self._drawn:
            first = random.binomial(self.weights.astype(np.int64), 0.5).astype(np.float64)
            parts = first, self.weights - first
        elif self.copies is None:
            side = random.permutation(n) < n / 2
            parts = np.where(side, self.weights, 0.0), np.where(side, 0.0, self.weights)
        else:
            m = len(self.copies.places)
            side = random.permutation(m) < m / 2
            parts = self.copies.weights_of(side), self.copies.weights_of(~side)
        return [part for part in parts if part.any()]

    def fit_half(self, part: Float64Array, most: int) -> CenterPath:
        """Return clusters of the rows with some weight in a half, doubled, in `coordinates`."""
        some = part > 0
        half = Summary(
            self.coordinates[some], 2 * part[some], self.spherical, self.seed, self.length
        )
        return half.path(min(most, len(half.rows)))

    def agreement(self, *fits: Float64Array, k: int) -> float:
        """Return the adjusted Rand index of the labels by two sets of centers, (k', m), for k clusters.

        Each different row counts once, or cells of independent categories would agree.  But if each
        is a cluster, all its copies count: a half that lacks a rare row divides the others alike.
        """
        if len(fits) == 1:
            return 1.0
        first, second = (nearest(self.coordinates, Centers(each)).astype(np.int64) for each in fits)
        counts = None
        if k == len(self.rows) and self._drawn:
            counts = self.weights.astype(np.int64)
        elif k == len(self.rows) and self.copies is not None:
            counts = np.bincount(self.copies.places)
        return count_label_pairs(first, second, counts).adjusted_rand


def solutions_of(path: CenterPath) -> list[Solution]:
    return [Solution(*pair) for pair in zip(path.centers, path.inertias.tolist(), strict=True)]


def intervals_of(path: CenterPath) -> list[Interval]:
    """Return the intervals of penalties, rising, down to a share of the error of one cluster."""
    most = float(path.inertias[0])
    return envelope(solutions_of(path), FLOOR * most, 2 * most)


def interval_of_one(path: CenterPath, intervals: list[Interval]) -> Interval:
    """Return the penalties up to twice the greatest at which any clusters save as much."""
    if FLOOR * path.inertias[0] == 0:
        return Interval(1, 1.0, 1.0)
    return intervals[-1]
