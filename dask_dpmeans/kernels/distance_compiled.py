"""Compiled loops of `distance`, which return the same bytes as its NumPy code."""

from typing import Any, TypeAlias

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, IntegerArray, Rows
from dask_dpmeans.kernels.definition_compiled import (
    linear_costs_compiled,
    squared_distances_compiled,
)
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part

RankingParts = tuple[Rows, Rows, Rows, Float64Array, int]
"""Shift, scale, matrix and bounds of a `Ranking`, and how many candidates the definition decides."""
BIT_FACTOR = 0x077CB531
"""Times a power of two, below 2**32, its five highest bits tell which power."""
BIT_PLACES = np.array(
    [(BIT_FACTOR << place & 2**32 - 1) >> 27 for place in range(32)], np.uint32
).argsort()
"""Powers by these five bits."""
Place: TypeAlias = "np.signedinteger[Any]"
"""The number of a center, as wide as a score."""
TileMemory = tuple[Rows, IntegerArray, Rows]
"""Shifted rows, (tile, d + 1), the same numbers as integers, and scores, (k * tile,)."""


@compile_part
def _squared_norm(row: Rows, d: int) -> np.floating:
    """Return the sum of squares of the first d numbers, in any order."""
    a = b = c = e = row.dtype.type(0)
    for j in range(0, d - 3, 4):
        a += row[j] * row[j]
        b += row[j + 1] * row[j + 1]
        c += row[j + 2] * row[j + 2]
        e += row[j + 3] * row[j + 3]
    for j in range(d // 4 * 4, d):
        a += row[j] * row[j]
    return a + b + c + e


@compile_part
def _shift(rows: Rows, shift: Rows, scale: Rows, left: Rows, bits: IntegerArray) -> float:
    """Fill `left`, (tile, d + 1), with shifted or scaled rows, (n, d), and a column of ones.

    Return a bound on the norms.  `bits` are the numbers of `left` as integers.  The largest absolute
    value is found among integers without their sign: only their comparisons are vectorized.
    """
    n, d = rows.shape
    for i in range(n):
        if len(scale):  # without a shift
            for j in range(d):
                left[i, j] = scale.dtype.type(rows[i, j]) * scale[j]
        else:
            for j in range(d):
                left[i, j] = rows[i, j] - shift[j]
        left[i, d] = 0
    largest = bits.dtype.type(0)
    mask = ~(bits.dtype.type(1) << bits.dtype.type(8 * bits.itemsize - 1))
    for i in range(n * (d + 1)):
        size = bits[i] & mask
        largest = size if size > largest else largest
    bits[d] = largest
    bound: float = np.sqrt(d) * left[0, d]
    for i in range(n):
        left[i, d] = 1
    return bound


@compile_part
def _doubt(norm: float, bounds: Float64Array) -> float:
    """Return `Ranking.doubt` for one row of this norm; infinity if the definition may overflow."""
    radius, slope, level, of_squares, least, most = bounds
    if not (norm + radius) ** 2 < most:
        return np.inf
    scores = slope * norm + level
    squares = of_squares * (norm * norm + radius * radius)
    doubt: float = scores + squares + least
    return doubt


@compile_part
def _candidates(columns: Rows, i: int, floor: float) -> int:
    """Return the number of scores in column i, of (k, n), that are at least `floor`."""
    count = 0
    for c in range(len(columns)):
        if not columns[c, i] < floor:
            count += 1
    return count


@compile_part
def _keep_two(
    value: np.floating, place: Place, best: np.floating, second: np.floating, label: Place
) -> tuple[np.floating, np.floating, Place]:
    """Return the two largest of a value and the two before, and the place of the first."""
    passed = best if value > best else value
    second = passed if passed > second else second
    return (value if value > best else best), second, (place if value > best else label)


@compile_part
def _two_largest(scores: Rows, first: Rows, second: Rows, label: IntegerArray) -> None:
    """Fill in the two largest scores, (k, n), of each column, and the number of the first.

    Four scores at a time took 0.4 to 0.7 of the time of one; loops have no branch, so that they are
    vectorized.
    """
    k, n = scores.shape
    place = label.dtype.type
    for i in range(n):
        first[i] = second[i] = -np.inf
        label[i] = 0
    for c in range(0, k // 4 * 4, 4):
        p, q, r, s = scores[c], scores[c + 1], scores[c + 2], scores[c + 3]
        for i in range(n):
            found = first[i], second[i], label[i]
            found = _keep_two(p[i], place(c), *found)
            found = _keep_two(q[i], place(c + 1), *found)
            found = _keep_two(r[i], place(c + 2), *found)
            first[i], second[i], label[i] = _keep_two(s[i], place(c + 3), *found)
    for c in range(k // 4 * 4, k):
        p = scores[c]
        for i in range(n):
            found = first[i], second[i], label[i]
            first[i], second[i], label[i] = _keep_two(p[i], place(c), *found)


@compile_part
def _nearest_two_among(
    row: Rows, centers: Float64Array, constants: Float64Array, scores: Rows, floor: float
) -> tuple[int, int]:
    """Return the first two nearest centers with a score of at least `floor`.

    `centers` and `constants` are as in `nearest_compiled`.
    """
    linear = constants.size > 0
    first, second = np.inf, np.inf
    label, other = -1, -1
    for c in range(len(centers)):
        if not scores[c] < floor:
            squared = 0.0
            if linear:
                squared = constants[c]
                for j in range(len(row) - 1):
                    squared += np.float64(row[j]) * centers[c, j]
            else:
                for j in range(len(row)):
                    difference = np.float64(row[j]) - centers[c, j]
                    squared += difference * difference
            if squared < first or label < 0:
                first, second = squared, first
                label, other = c, label
            elif squared < second or other < 0:
                second, other = squared, c
    return label, other


@compile_part
def _multiply_tile(
    rows: Rows, ranking: RankingParts, memory: TileMemory
) -> tuple[Rows, Rows, float]:
    """Return shifted rows, (n, d + 1), their scores, (k, n), and the greatest doubt of a row."""
    shift, scale, matrix, bounds, _ = ranking
    left, bits, scores = memory
    n, k = len(rows), matrix.shape[1]
    most_doubt = _doubt(_shift(rows, shift, scale, left, bits), bounds)
    columns = scores[: k * n].reshape(k, n)
    np.dot(matrix.T, left[:n].T, columns)
    return left[:n], columns, most_doubt


@compile_loop
def nearest_compiled(
    rows: Rows,
    centers: Float64Array,
    constants: Float64Array,
    ranking: RankingParts,
    memory: TileMemory,
    labels: IndexArray,
    sure: BoolArray,
    squared: Float64Array,
) -> None:
    """Fill in the nearest center of each row, (n, d), of centers, (k, d), by their ranking.

    With `constants`, (k,), `centers` are coefficients of linear costs, of which the last is the
    same at all centers.  The loop fills `labels`, (n,), by definition, and `sure`, (n,).  A row with more than
    `most_candidates` centers near the best one is not sure.  It fills `squared`, (n,), with squared
    distances to the labels, unless it is empty.
    """
    bounds, most_candidates = ranking[3], ranking[4]
    left, bits, _ = memory
    (n, d), height = rows.shape, len(left)
    best, next_best = np.empty(height, left.dtype), np.empty(height, left.dtype)
    place = np.empty(height, bits.dtype)
    for start in range(0, n, height):
        part = slice(start, min(start + height, n))
        shifted, columns, most_doubt = _multiply_tile(rows[part], ranking, memory)
        _two_largest(columns, best, next_best, place)
        for i in range(len(shifted)):
            label, gap, known = place[i], best[i] - next_best[i], True
            if not gap > most_doubt:
                doubt = _doubt(np.sqrt(_squared_norm(shifted[i], d)), bounds)
                if not gap > doubt:
                    floor = best[i] - doubt
                    known = _candidates(columns, i, floor) <= most_candidates
                    if known:
                        row = rows[start + i]
                        label, _ = _nearest_two_among(row, centers, constants, columns[:, i], floor)
            labels[start + i], sure[start + i] = label, known
        if squared.size and constants.size:
            linear_costs_compiled(rows[part], centers, constants, labels[part], squared[part])
        elif squared.size:
            squared_distances_compiled(rows[part], centers, labels[part], squared[part])


@compile_part
def _keep_three(
    value: np.floating,
    place: Place,
    best: np.floating,
    second: np.floating,
    third: np.floating,
    label: Place,
    other: Place,
) -> tuple[np.floating, np.floating, np.floating, Place, Place]:
    """Return the three largest of a value and the three before, and the places of two of them."""
    passed = second if value > second else value
    third = passed if passed > third else third
    passed_place = label if value > best else place
    other = passed_place if value > second else other
    best, second, label = _keep_two(value, place, best, second, label)
    return best, second, third, label, other


@compile_part
def _three_largest(
    scores: Rows, first: Rows, second: Rows, third: Rows, label: IntegerArray, other: IntegerArray
) -> None:
    """Fill in the three largest scores, (k, n), of each column, and the numbers of two of them.

    Four scores at a time took 0.4 to 0.6 of the time of one.
    """
    k, n = scores.shape
    place = label.dtype.type
    for i in range(n):
        first[i] = second[i] = third[i] = -np.inf
        label[i], other[i] = 0, 1
    for c in range(0, k // 4 * 4, 4):
        p, q, r, s = scores[c], scores[c + 1], scores[c + 2], scores[c + 3]
        for i in range(n):
            found = first[i], second[i], third[i], label[i], other[i]
            found = _keep_three(p[i], place(c), *found)
            found = _keep_three(q[i], place(c + 1), *found)
            found = _keep_three(r[i], place(c + 2), *found)
            found = _keep_three(s[i], place(c + 3), *found)
            first[i], second[i], third[i], label[i], other[i] = found
    for c in range(k // 4 * 4, k):
        p = scores[c]
        for i in range(n):
            found = first[i], second[i], third[i], label[i], other[i]
            found = _keep_three(p[i], place(c), *found)
            first[i], second[i], third[i], label[i], other[i] = found


@compile_loop
def nearest_two_compiled(
    rows: Rows,
    centers: Float64Array,
    constants: Float64Array,
    ranking: RankingParts,
    memory: TileMemory,
    labels: IndexArray,
    seconds: IndexArray,
    sure: BoolArray,
    gaps: Float64Array,
) -> None:
    """Fill in the nearest and the second nearest center of each row, (n,); see `nearest_compiled`.

    `gaps`, (n,) unless empty, mean what they mean in `distance.nearest_two`.
    """
    bounds, most_candidates = ranking[3], ranking[4]
    left, bits, _ = memory
    (n, d), height, dtype = rows.shape, len(left), left.dtype
    tops, places = np.empty((3, height), dtype), np.empty((2, height), bits.dtype)
    best, next_best, last = tops[0], tops[1], tops[2]
    place, next_place = places[0], places[1]
    for start in range(0, n, height):
        part = slice(start, min(start + height, n))
        shifted, columns, most_doubt = _multiply_tile(rows[part], ranking, memory)
        _three_largest(columns, best, next_best, last, place, next_place)
        for i in range(len(shifted)):
            label, other, known = place[i], next_place[i], True
            gap, next_gap = best[i] - next_best[i], next_best[i] - last[i]
            doubt = most_doubt
            if not (gap > most_doubt and next_gap > most_doubt):
                doubt = _doubt(np.sqrt(_squared_norm(shifted[i], d)), bounds)
                if not (gap > doubt and next_gap > doubt):
                    floor = next_best[i] - doubt
                    known = _candidates(columns, i, floor) <= most_candidates
                    if known:
                        row, values = rows[start + i], columns[:, i]
                        label, other = _nearest_two_among(row, centers, constants, values, floor)
            labels[start + i], seconds[start + i], sure[start + i] = label, other, known
            if gaps.size and next_gap > doubt:
                gaps[start + i] = 2 * (np.float64(next_best[i]) - np.float64(last[i]) - doubt)


@compile_part
def _floors(
    scores: Rows, shifted: Rows, reach: float, bounds: Float64Array, most_doubt: float, floors: Rows
) -> None:
    """Fill in the least score, (n,), that may be within `reach` of the best of scores, (k, n)."""
    k, n = scores.shape
    for i in range(n):
        floors[i] = -np.inf
    for c in range(k):
        values = scores[c]
        for i in range(n):  # without a branch, so that it is vectorized
            floors[i] = values[i] if values[i] > floors[i] else floors[i]
    for i in range(n):
        doubt = most_doubt
        if doubt > reach:
            doubt = _doubt(np.sqrt(_squared_norm(shifted[i], shifted.shape[1] - 1)), bounds)
        floor = np.float64(floors[i]) - (reach + doubt)
        floors[i] = floor - 2.0**-22 * abs(floor)  # it is rounded to float32


@compile_part
def _list_candidates(
    scores: Rows, floors: Rows, words: IntegerArray, lists: IntegerArray, counts: IndexArray
) -> None:
    """Fill in the numbers, (n, k), of the scores, (k, n), of each column that reach its floor.

    Comparisons of 32 centers are the bits of a word, because whole columns of words are vectorized.
    """
    k, n = scores.shape
    one = np.int32(1)
    for i in range(n):
        counts[i] = 0
    for first in range(0, k, 32):
        for i in range(n):
            words[i] = 0
        for c in range(first, min(first + 32, k)):
            values, bit = scores[c], one << np.int32(c - first)
            for i in range(n):
                words[i] |= np.int32(0) if values[i] < floors[i] else np.int32(bit)
        for i in range(n):
            word, count = np.uint32(words[i]), counts[i]
            while word:
                lowest = word & (~word + np.uint32(1))
                place = BIT_PLACES[np.uint32(lowest * np.uint32(BIT_FACTOR)) >> np.uint32(27)]
                lists[i, count] = first + place
                count += 1
                word = np.uint32(word & ~lowest)
            counts[i] = count


@compile_part
def _nearest_listed(
    row: Rows, centers: Float64Array, numbers: IntegerArray, squared: Float64Array
) -> int:
    """Fill in the squared distances of a row, (d,), to listed centers; return the nearest's place."""
    nearest, least = 0, np.inf
    for p in range(len(numbers)):
        center, total = np.uint32(numbers[p]), 0.0  # a sign would be looked at in each column
        for j in range(len(row)):
            difference = np.float64(row[j]) - centers[center, j]
            total += difference * difference
        squared[p] = total
        if total < least:
            least, nearest = total, p
    return nearest


@compile_loop
def candidates_compiled(
    rows: Rows,
    centers: Float64Array,
    ranking: RankingParts,
    memory: TileMemory,
    lists: IntegerArray,
    mixture: tuple[Float64Array, float, float, float],
    labels: IndexArray,
    starts: IndexArray,
    numbers: IntegerArray,
    exponents: Float64Array,
    squared: Float64Array,
) -> None:
    """Fill in the components, (k, d), of a mixture that matter for each row, (n, d).

    `numbers` and `exponents`, (m,), are CSR rows between `starts`, (n + 1,); see `membership`.
    The loop fills `squared`, (n,), with squared distances to the labels, unless it is empty.
    """
    log_weights, half, cutoff, reach = mixture
    n, height = len(rows), len(memory[0])
    floors, counts = np.empty(height, memory[0].dtype), np.empty(height, np.intp)
    words, distances = np.empty(height, np.int32), np.empty(len(centers))
    position = 0
    for start in range(0, n, height):
        part = slice(start, min(start + height, n))
        shifted, columns, most_doubt = _multiply_tile(rows[part], ranking, memory)
        _floors(columns, shifted, reach, ranking[3], most_doubt, floors)
        _list_candidates(columns, floors, words, lists, counts)
        for i in range(len(shifted)):
            starts[start + i] = position
            if counts[i] == 1:  # of 50 centers in 2 columns, 12 deviations apart: 60 % of the rows
                labels[start + i] = numbers[position] = lists[i, 0]
                exponents[position] = 0.0
                position += 1
                continue
            listed = lists[i, : counts[i]]
            nearest = _nearest_listed(rows[start + i], centers, listed, distances)
            label, least = np.uint32(listed[nearest]), distances[nearest]
            labels[start + i] = label
            for p in range(len(listed)):
                gap = distances[p] - least
                exponent = log_weights[np.uint32(listed[p])] - log_weights[label]
                if gap > 0:
                    exponent -= half * gap
                numbers[position], exponents[position] = listed[p], exponent
                position += exponent >= -cutoff
        if squared.size:
            squared_distances_compiled(rows[part], centers, labels[part], squared[part])
    starts[n] = position
