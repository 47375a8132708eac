"""The inner loops of the other kernels, compiled by Numba where it is installed.

They give the same bytes as their NumPy counterparts: what decides is the definition in `distance`, and sums go through
the rows in the same order.  ``NUMBA_DISABLE_JIT=1`` leaves the work to NumPy.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

import numpy as np

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

AVAILABLE = find_spec("numba") is not None
if AVAILABLE:
    import numba
    import scipy.linalg  # noqa: F401  Numba multiplies by its BLAS: loaded here, before its threads are limited

    AVAILABLE = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


def _compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Without fused or reordered arithmetic: each operation is rounded once, as NumPy does it."""
    if not AVAILABLE:
        return function
    try:
        return numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder to keep the compiled code in
        return numba.njit(nogil=True, error_model="numpy")(function)


@_compiled
def _squared_norm(row, d):
    """The sum of squares of the first d numbers, in any order."""
    a = b = c = e = row.dtype.type(0)
    for j in range(0, d - 3, 4):
        a += row[j] * row[j]
        b += row[j + 1] * row[j + 1]
        c += row[j + 2] * row[j + 2]
        e += row[j + 3] * row[j + 3]
    for j in range(d // 4 * 4, d):
        a += row[j] * row[j]
    return a + b + c + e


@_compiled
def _shift(rows, shift, left, norms):
    """Fill the first rows of `left` with the shifted rows, (n, d), and `norms` with their norms."""
    count, d = rows.shape
    for i in range(count):
        for j in range(d):
            left[i, j] = rows[i, j] - shift[j]
        norms[i] = np.sqrt(_squared_norm(left[i], d))


@_compiled
def squared_distances(rows, centers, labels, squared):
    """The squared distance of each row, (n, d), to its center: four rows at a time, each over its columns in order."""
    n, d = rows.shape
    whole = n // 4 * 4
    for i in range(0, whole, 4):
        p, q, r, s = labels[i], labels[i + 1], labels[i + 2], labels[i + 3]
        a = b = c = e = 0.0
        for j in range(d):
            w = np.float64(rows[i, j]) - centers[p, j]
            x = np.float64(rows[i + 1, j]) - centers[q, j]
            y = np.float64(rows[i + 2, j]) - centers[r, j]
            z = np.float64(rows[i + 3, j]) - centers[s, j]
            a += w * w
            b += x * x
            c += y * y
            e += z * z
        squared[i], squared[i + 1], squared[i + 2], squared[i + 3] = a, b, c, e
    for i in range(whole, n):
        a = 0.0
        for j in range(d):
            w = np.float64(rows[i, j]) - centers[labels[i], j]
            a += w * w
        squared[i] = a


@_compiled
def open_one_by_one(rows, weights, penalty, opened):
    """Whether each row, (n, d), objects to all that opened before it, into `opened`, (n,)."""
    n, d = rows.shape
    kept, k = np.empty(n, np.intp), 0
    for i in range(n):
        share, objecting = min(1.0, weights[i]), True
        for c in range(k):
            squared = 0.0
            for j in range(d):
                difference = rows[i, j] - rows[kept[c], j]
                squared += difference * difference
            if not share * squared > penalty:
                objecting = False
                break
        opened[i] = objecting
        if objecting:
            kept[k] = i
            k += 1


@_compiled
def add_rows(rows, weights, labels, sums):
    """Add the rows, (n, d), times their weights, to the sums of their clusters, (k, d), one after the other."""
    n, d = rows.shape
    for i in range(n):
        label, weight = labels[i], weights[i]
        for j in range(d):
            sums[label, j] += weight * np.float64(rows[i, j])


@_compiled
def measure(rows, weights, centers, children, labels, seconds, squared, losses, halves, inertias, pairs):
    """All that a probe learns of rows whose two nearest centers are known, in one go; what it fills in is zero before.

    Of the rows, (n, d): the squared distance to the nearest center and what going to the second would cost.  Of the
    halves of the clusters, (2k,) each and (2k, d): counts, weights, sums and squared errors about the children,
    (2k, d).  Of the clusters, (k,): squared errors about the centers, (k, d).  Of the pairs of nearest and second
    nearest center, (k * k,) each: whether there are any, and the sum of what these rows would lose; not where empty.
    """
    present, lost = pairs
    counts, totals, sums, errors = halves
    n, d = rows.shape
    for i in range(n):
        label, other, weight = labels[i], seconds[i], weights[i]
        near = far = left = right = 0.0
        for j in range(d):
            value = np.float64(rows[i, j])
            from_near, from_far = value - centers[label, j], value - centers[other, j]
            from_left, from_right = value - children[2 * label, j], value - children[2 * label + 1, j]
            near += from_near * from_near
            far += from_far * from_far
            left += from_left * from_left
            right += from_right * from_right
        half = 2 * label + (right < left)
        squared[i], losses[i] = near, weight * (far - near)
        if present.size:
            pair = label * len(centers) + other
            present[pair] = True
            lost[pair] += losses[i]
        inertias[label] += weight * near
        counts[half] += 1
        totals[half] += weight
        errors[half] += weight * (right if right < left else left)
        for j in range(d):
            sums[half, j] += weight * np.float64(rows[i, j])


@_compiled
def _two_largest(scores, first, second, label):
    """Fill in the two largest scores, (k, n), of each column, and the place of the first."""
    k, n = scores.shape
    for i in range(n):
        first[i] = second[i] = -np.inf
        label[i] = 0
    for c in range(k):
        values = scores[c]
        for i in range(n):  # without a branch, so that it is vectorized
            value, best, next_best, place = values[i], first[i], second[i], label[i]
            passed = best if value > best else value
            second[i] = passed if passed > next_best else next_best
            first[i] = value if value > best else best
            label[i] = c if value > best else place


def _nearest_of(integer: type[np.signedinteger[Any]]) -> Callable[..., None]:
    """The nearest center of rows, ranked by scores as wide as `integer`.

    It fills `labels`, (n,), by definition, and `sure`, (n,): whether that is done.  Rows with more than
    `most_candidates` centers near the best one are left.  The other arguments are rows, (n, d), centers, (k, d), the
    parts of a `Ranking`, and memory to work in, (tile, d + 1) and (tile, k).  Scores stand in columns, one a row.
    """

    @_compiled
    def nearest(rows, centers, shift, matrix, bounds, most_candidates, left, scores, labels, sure):
        n, d = rows.shape
        height, k = scores.shape
        norms, memory, dtype = np.empty(height), scores.reshape(-1), scores.dtype
        best, next_best, place = np.empty(height, dtype), np.empty(height, dtype), np.empty(height, integer)
        left[:, d] = 1
        for start in range(0, n, height):
            count = min(height, n - start)
            _shift(rows[start : start + count], shift, left, norms)
            columns = memory[: k * count].reshape(k, count)
            np.dot(matrix.T, left[:count].T, columns)
            _two_largest(columns, best, next_best, place)
            for i in range(count):
                label = place[i]
                doubt, known = _doubt(norms[i], bounds), True
                if not best[i] - next_best[i] > doubt:
                    floor = best[i] - doubt
                    known = _candidates(columns, i, floor) <= most_candidates
                    if known:
                        label = _nearest_among(rows[start + i], centers, columns[:, i], floor)
                labels[start + i], sure[start + i] = label, known

    return nearest


@_compiled
def _doubt(norm, bounds):
    """As `Ranking.doubt`, of one row of that norm: infinite where the definition may overflow."""
    radius, of_scores, of_squares, least, most = bounds
    if not (norm + radius) ** 2 < most:
        return np.inf
    return of_scores * radius * (norm + radius) + of_squares * (norm * norm + radius * radius) + least


@_compiled
def _candidates(columns, i, floor):
    """How many scores of column i are not below `floor`."""
    count = 0
    for c in range(len(columns)):
        if not columns[c, i] < floor:
            count += 1
    return count


@_compiled
def _nearest_among(row, centers, scores, floor):
    """The first center of least squared distance, (k, d), among those whose scores are not below `floor`."""
    lowest, label = np.inf, 0
    for c in range(len(centers)):
        if not scores[c] < floor:
            squared = 0.0
            for j in range(len(row)):
                difference = np.float64(row[j]) - centers[c, j]
                squared += difference * difference
            if squared < lowest:
                lowest, label = squared, c
    return label


nearest_single = _nearest_of(np.int32)
nearest_double = _nearest_of(np.int64)


@_compiled
def _three_largest(scores, first, second, third, label, other):
    """Fill in the three largest scores, (k, n), of each column, and the places of the first two."""
    k, n = scores.shape
    for i in range(n):
        first[i] = second[i] = third[i] = -np.inf
        label[i], other[i] = 0, 1
    for c in range(k):
        values = scores[c]
        for i in range(n):  # without a branch, so that it is vectorized
            value, best, next_best, last = values[i], first[i], second[i], third[i]
            place, next_place = label[i], other[i]
            passed = next_best if value > next_best else value
            third[i] = passed if passed > last else last
            passed = best if value > best else value
            second[i] = passed if passed > next_best else next_best
            first[i] = value if value > best else best
            label[i] = c if value > best else place
            passed_place = place if value > best else c
            other[i] = passed_place if value > next_best else next_place


def _nearest_two_of(integer: type[np.signedinteger[Any]]) -> Callable[..., None]:
    """The nearest and the second nearest center of rows, ranked by scores as wide as `integer`.

    The arguments are those of the ranking above; `seconds` are (n,) too.  Scores stand in columns, one a row.
    """

    @_compiled
    def nearest_two(rows, centers, shift, matrix, bounds, most_candidates, left, scores, labels, seconds, sure):
        n, d = rows.shape
        height, k = scores.shape
        norms, memory, dtype = np.empty(height), scores.reshape(-1), scores.dtype
        best, next_best, last = np.empty(height, dtype), np.empty(height, dtype), np.empty(height, dtype)
        place, next_place = np.empty(height, integer), np.empty(height, integer)
        left[:, d] = 1
        for start in range(0, n, height):
            count = min(height, n - start)
            _shift(rows[start : start + count], shift, left, norms)
            columns = memory[: k * count].reshape(k, count)
            np.dot(matrix.T, left[:count].T, columns)
            _three_largest(columns, best, next_best, last, place, next_place)
            for i in range(count):
                label, other = place[i], next_place[i]
                doubt, known = _doubt(norms[i], bounds), True
                if not (best[i] - next_best[i] > doubt and next_best[i] - last[i] > doubt):
                    floor = next_best[i] - doubt
                    known = _candidates(columns, i, floor) <= most_candidates
                    if known:
                        label, other = _nearest_two_among(rows[start + i], centers, columns[:, i], floor)
                labels[start + i], seconds[start + i], sure[start + i] = label, other, known

    return nearest_two


@_compiled
def _nearest_two_among(row, centers, scores, floor):
    """The two centers of least squared distance, lower numbers first among equals, of those not below `floor`."""
    first, second = np.inf, np.inf
    label, other = -1, -1
    for c in range(len(centers)):
        if not scores[c] < floor:
            squared = 0.0
            for j in range(len(row)):
                difference = np.float64(row[j]) - centers[c, j]
                squared += difference * difference
            if squared < first or label < 0:
                first, second = squared, first
                label, other = c, label
            elif squared < second or other < 0:
                second, other = squared, c
    return label, other


nearest_two_single = _nearest_two_of(np.int32)
nearest_two_double = _nearest_two_of(np.int64)
