"""The nearest of many centers in many columns, by a product over a few main axes of the centers.

Rows x and centers c are turned to the axes in which the centers vary the most.  By the inequality
of Cauchy and Schwarz,

    x . c - |c|^2 / 2  <=  x' . c' + |x''| |c''| - |c|^2 / 2

with ' for the first m axes and '' for all others.  The right side is one product of m + 2 columns.
Centers for which it is less than what the best one reaches, by more than the rounding, are not the
nearest; the definition in `distance` decides between those that are left (as Kuffo et al. 2025,
"PDX", prune by partial distances).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, IntegerArray, Rows
from dask_dpmeans.kernels.distance_parts import squared_to_center
from dask_dpmeans.kernels.numba_support import compile_any_order, compile_loop, compile_part, pays

LEAST_CENTERS = 2**12
"""Fewest centers for which leading columns are tried.

The nearest of 2,048, 4,096 and 16,384 centers of SIFT descriptors, of 128 columns, took 1.0 to 1.3, 0.7
to 1.0 and 0.7 to 0.8 of the time of the product in two runs."""
LEAST_COLUMNS = 48
"""Fewest columns for which leading columns are tried."""
SHARES = (0.4, 0.3, 0.2, 0.1)
"""Shares of the columns that are tried, until one is slower."""
MOST = 1e30
"""Squared numbers above this are left to the other ways, which know of overflow."""
TRIAL = 32
"""Rows by which candidates are counted before all rows are taken."""
TILE_ELEMENTS = 2**21
"""Scores of a tile of rows.  With 2**22 the nearest of 5,000 centers took 1.2 times as long, with 2**20 of
16,384 centers 1.1 times."""
CHUNK = 2**10
"""Centers of a product."""
WORD = 16
"""Centers whose comparisons are the bits of a word."""
DOUBLE = float(np.finfo(np.float64).eps) / 2
SINGLE = float(np.finfo(np.float32).eps) / 2


@dataclass(frozen=True)
class LeadingColumns:
    """Centers, (k, d), turned to m main axes."""

    values: Float64Array
    """The centers as given, (k, d)."""
    middle: Float64Array
    """(d,), subtracted before the turn."""
    axes: Float64Array
    """(d, m), orthonormal."""
    matrix: Rows
    """(k, m + 2) float32: c', |c''| and -|c|^2 / 2."""
    singles: tuple[Rows, Float64Array]
    """(k, d) float32, shifted centers as they are, and (k,), half their squared norms."""
    radius: float
    """The largest norm of a center about the middle."""

    @classmethod
    def of(cls, values: Float64Array, rows: Rows, count: int) -> Self | None:
        """Return the centers on as many axes as find the `count` nearest of some rows, (n, d), fastest.

        None if the product of all columns is faster, or if numbers may overflow.
        """
        middle = values.mean(axis=0)
        with np.errstate(all="ignore"):
            shifted = values - middle
            products = shifted.T @ shifted
        if not 0 < products.trace() < MOST:
            return None
        main = np.linalg.eigh(products)[1][:, ::-1]
        k, d = values.shape
        least, best = k * (0.2 + 0.021 * d), None
        for share in SHARES:
            found = cls.on_axes(values, middle, main[:, : max(1, int(share * d))])
            cost = found.cost(rows, count)
            if cost >= least:
                break
            least, best = cost, found
        return best

    @classmethod
    def on_axes(cls, values: Float64Array, middle: Float64Array, axes: Float64Array) -> Self:
        """Return centers, (k, d), turned to axes, (d, m), about a point, (d,)."""
        turned, norms = _turn(values, middle, axes)
        matrix = np.column_stack([turned, -0.5 * norms]).astype(np.float32)
        singles = (values - middle).astype(np.float32), 0.5 * norms
        radius = float(np.sqrt(norms.max()))
        return cls(values, middle, np.ascontiguousarray(axes), matrix, singles, radius)

    def cost(self, rows: Rows, count: int) -> float:
        """Return the nanoseconds that the `count` nearest of a row take, by a few of the rows, (n, d).

        A product took about .021 ns for a column of a center, the search in it .45 ns for a center
        (.2 if the product has all columns), a listed center 10 ns, and a candidate .45 ns for a column.
        """
        some = np.ascontiguousarray(rows[:: -(-len(rows) // TRIAL)])
        labels, (k, m) = np.empty((count, len(some)), np.intp), self.matrix.shape
        listed, candidates = self._fill(some, labels, np.empty(0))
        each: float = k * (0.45 + 0.021 * m) + (
            10.0 * listed + 0.45 * rows.shape[1] * candidates
        ) / len(some)
        return each

    def nearest(self, rows: Rows, count: int, squared: Float64Array) -> IndexArray:
        """Return the `count` (1 or 2) nearest centers of each row, (count, n).

        Fill `squared`, (n,), with squared distances to the nearest unless it is empty.
        """
        labels = np.empty((count, len(rows)), np.intp)
        self._fill(rows, labels, squared)
        return labels

    def _fill(self, rows: Rows, labels: IndexArray, squared: Float64Array) -> tuple[int, int]:
        """Fill in labels and squared distances; return how many centers were listed, and were candidates."""
        tile, listed, candidates = max(16, TILE_ELEMENTS // len(self.values)), 0, 0
        for start in range(0, len(rows), 1024):
            part = slice(start, min(start + 1024, len(rows)))
            with np.errstate(all="ignore"):
                turned, norms = _turn(rows[part].astype(np.float64), self.middle, self.axes)
                left = np.column_stack([turned, np.ones(len(turned))]).astype(np.float32)
                whole = (rows[part] - self.middle).astype(np.float32)
            found = np.empty((len(labels), len(left)), np.intp)
            ranking = self.matrix, *self.singles, self.radius
            measured = squared[part] if squared.size else squared
            given = rows[part], whole, (left, norms), self.values, ranking, tile, found, measured
            some, of_them = _nearest(*given)
            listed, candidates = listed + some, candidates + of_them
            labels[:, part] = found
        return listed, candidates


def axes_pay(rows: Rows, work: int) -> bool:
    """Return whether centers may be turned for rows, (n, d); see `numba_support.pays`."""
    wide, doubles = np.empty((0, 0)), np.empty(0)
    singles, labels = wide.astype(np.float32), np.empty((0, 0), np.intp)
    ranking = singles, singles, doubles, 0.0
    given = rows, singles, (singles, doubles), wide, ranking, 0, labels, doubles
    return pays(_nearest, given, work)


def _turn(
    rows: Float64Array, middle: Float64Array, axes: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return rows, (n, d), on the axes and what is left of their norms, (n, m + 1), and |x|^2, (n,).

    What is left is rounded up.
    """
    shifted = rows - middle
    turned = shifted @ axes
    norms = np.einsum("ij,ij->i", shifted, shifted)
    rest = np.maximum(norms - np.einsum("ij,ij->i", turned, turned), 0.0)
    rest += 8 * (len(axes) + 8) * DOUBLE * norms
    return np.column_stack([turned, np.sqrt(rest)]), norms


@compile_part
def _doubt(norm: float, radius: float, d: int) -> float:
    """Return a bound of the rounding of a score and of the definition, see `Ranking.doubt`."""
    if not (norm + radius) ** 2 < MOST:
        return np.inf
    scores = 2.02 * (d + 10) * SINGLE * radius * (norm + radius)
    squares = 16.0 * (d + 8) * DOUBLE * (norm + radius) ** 2
    return scores + squares + 1e-30


@compile_part
def _keep_two(
    value: np.floating,
    number: np.int32,
    best: np.floating,
    second: np.floating,
    label: np.int32,
    other: np.int32,
) -> tuple[np.floating, np.floating, np.int32, np.int32]:
    """Return the two largest of a value and the two before, and their numbers."""
    passed = best if value > best else value
    passed_number = label if value > best else number
    other = passed_number if passed > second else other
    second = passed if passed > second else second
    return (value if value > best else best), second, (number if value > best else label), other


@compile_part
def _two_largest(scores: Rows, start: int, first: Rows, second: Rows, places: IntegerArray) -> None:
    """Go on with the places, (2, n), of the two largest scores; scores, (k, n), are from `start`.

    See `distance_compiled._two_largest`.
    """
    k, n = scores.shape
    labels, others = places[0], places[1]
    for c in range(0, k // 4 * 4, 4):
        p, q, r, s = scores[c], scores[c + 1], scores[c + 2], scores[c + 3]
        number = start + c
        for i in range(n):
            found = first[i], second[i], labels[i], others[i]
            found = _keep_two(p[i], np.int32(number), *found)
            found = _keep_two(q[i], np.int32(number + 1), *found)
            found = _keep_two(r[i], np.int32(number + 2), *found)
            found = _keep_two(s[i], np.int32(number + 3), *found)
            first[i], second[i], labels[i], others[i] = found
    for c in range(k // 4 * 4, k):
        p = scores[c]
        for i in range(n):
            found = first[i], second[i], labels[i], others[i]
            found = _keep_two(p[i], np.int32(start + c), *found)
            first[i], second[i], labels[i], others[i] = found


@compile_any_order
def _product(row: Rows, center: Rows) -> float:
    """Return the scalar product of a row and a center, (d,)."""
    total = np.float32(0.0)
    for j in range(len(row)):
        total += row[j] * center[j]
    return float(total)


@compile_part
def _list(
    scores: Rows,
    start: int,
    floors: Rows,
    lists: IntegerArray,
    listed_scores: Rows,
    counts: IndexArray,
) -> None:
    """Append the scores, (k, n), of each column that reach its floor, and their numbers from `start`."""
    k, n = scores.shape
    words, none, one = np.empty(n, np.int32), np.int32(0), np.int32(1)
    for first in range(0, k, WORD):
        stop = min(first + WORD, k)
        words[:] = 0
        for c in range(first, stop):
            values, bit = scores[c], one << np.int32(c - first)
            for i in range(n):  # without a branch, so that it is vectorized
                words[i] |= none if values[i] < floors[i] else bit
        for i in range(n):
            word, c = np.uint32(words[i]), first
            while word:
                if word & np.uint32(1):
                    place = counts[i]
                    lists[i, place], listed_scores[i, place] = start + c, scores[c, i]
                    counts[i] = place + 1
                word, c = np.uint32(word >> np.uint32(1)), c + 1


@compile_part
def _raise_floors(
    whole: Rows,
    singles: Rows,
    halves: Float64Array,
    doubts: Float64Array,
    count: int,
    places: IntegerArray,
    seen: IntegerArray,
    floors: Rows,
) -> None:
    """Raise the floors of rows, (n, d), whose best places, (2, n), are not those seen before.

    So many centers (1 or 2) have a score that is not below the floor by more than the rounding.
    """
    for i in range(len(whole)):
        label, other = places[0, i], places[1, i]
        if label == seen[0, i] and other == seen[1, i]:
            continue
        seen[0, i], seen[1, i] = label, other
        one = _product(whole[i], singles[label]) - halves[label]
        two = _product(whole[i], singles[other]) - halves[other]
        floor = (max(one, two) if count == 1 else min(one, two)) - 2 * doubts[i]
        floor -= 2.0**-22 * abs(floor)  # it is rounded to float32
        if floor > floors[i]:
            floors[i] = floor


@compile_part
def _two_nearest(
    row: Rows, values: Float64Array, listed: IntegerArray, scores: Float64Array, floor: float
) -> tuple[float, int, int]:
    """Return the least squared distance to listed centers whose scores reach the floor, and two numbers."""
    first = second = np.inf
    label = other = -1
    for p in range(len(listed)):
        if scores[p] < floor:
            continue
        distance = squared_to_center(row, values[listed[p]])
        if distance < first or label < 0:
            first, second, label, other = distance, first, listed[p], label
        elif distance < second or other < 0:
            second, other = distance, listed[p]
    return first, label, other


@compile_part
def _keep_listed(
    row: Rows,
    singles: Rows,
    halves: Float64Array,
    scores: Rows,
    floor: float,
    listed: IntegerArray,
    exact: Float64Array,
) -> int:
    """Keep the listed centers whose scores are not below a floor, and return their number.

    The list, (k,), is overwritten; `exact`, (k,), are their scores from all columns.
    """
    number = 0
    for p in range(len(scores)):
        if not scores[p] < floor:
            center = listed[p]
            exact[number] = _product(row, singles[center]) - halves[center]
            listed[number] = center
            number += 1
    return number


@compile_loop
def _nearest(
    rows: Rows,
    whole: Rows,
    turned: tuple[Rows, Float64Array],
    values: Float64Array,
    ranking: tuple[Rows, Rows, Float64Array, float],
    tile: int,
    labels: IndexArray,
    squared: Float64Array,
) -> tuple[int, int]:
    """Fill in the one or two nearest centers of each row; return how many were listed, and candidates.

    See `LeadingColumns`; `whole` are shifted rows, (n, d), and `turned` has them on the axes, and
    their norms.
    """
    (left, norms), (matrix, singles, halves, radius) = turned, ranking
    (n, d), k, count, listed, total = rows.shape, len(matrix), len(labels), 0, 0
    tops, places = np.empty((2, tile), np.float32), np.empty((2, tile), np.int32)
    seen, doubts = np.empty((2, tile), np.int32), np.empty(tile)
    floors, counts = np.empty(tile, np.float32), np.empty(tile, np.intp)
    lists, listed_scores = np.empty((tile, k), np.int32), np.empty((tile, k), np.float32)
    exact, memory = np.empty(k), np.empty(min(CHUNK, k) * tile, np.float32)
    for start in range(0, n, tile):
        height = min(tile, n - start)
        part = slice(start, start + height)
        for i in range(height):
            doubts[i] = _doubt(np.sqrt(norms[start + i]), radius, d)
        tops[:], places[0], places[1], seen[:], floors[:], counts[:] = -np.inf, 0, 1, -1, -np.inf, 0
        for first_center in range(0, k, CHUNK):
            some = matrix[first_center : first_center + CHUNK]
            scores = memory[: len(some) * height].reshape(len(some), height)
            np.dot(some, left[part].T, scores)
            _two_largest(scores, first_center, tops[0], tops[1], places)
            _raise_floors(whole[part], singles, halves, doubts, count, places, seen, floors)
            _list(scores, first_center, floors[:height], lists, listed_scores, counts)
        for i in range(height):
            scores_of_row = listed_scores[i, : counts[i]]
            number = _keep_listed(
                whole[start + i], singles, halves, scores_of_row, floors[i], lists[i], exact
            )
            row, floor = rows[start + i], np.float64(floors[i])
            first, label, other = _two_nearest(row, values, lists[i, :number], exact, floor)
            listed, total = listed + counts[i], total + number
            labels[0, start + i] = label
            if count == 2:
                labels[1, start + i] = other
            if squared.size:
                squared[start + i] = first
    return listed, total
