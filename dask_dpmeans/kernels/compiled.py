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

SEGMENT = 1024
"""Scores that are counted in one word: so many hits and the sum of their places fit in 31 bits."""
ONE_HIT = 2**20
"""A hit, in that word; a place is less."""


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
def _score(rows, shift, matrix, left, scores, norms):
    """Fill the first rows of `left`, shifted and with a column of ones, of their `norms` and of `scores`."""
    count, d = rows.shape
    for i in range(count):
        for j in range(d):
            left[i, j] = rows[i, j] - shift[j]
        norms[i] = np.sqrt(_squared_norm(left[i], d))
    if count == len(left):
        np.dot(left, matrix, scores)
    else:
        np.dot(left[:count], matrix, scores[:count])


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
def add_rows(rows, weights, labels, sums):
    """Add the rows, (n, d), times their weights, to the sums of their clusters, (k, d), one after the other."""
    n, d = rows.shape
    for i in range(n):
        label, weight = labels[i], weights[i]
        for j in range(d):
            sums[label, j] += weight * np.float64(rows[i, j])


def _nearest_of(integer: type[np.signedinteger[Any]]) -> Callable[..., None]:
    """The nearest center of rows whose numbers are as wide as `integer`.

    It fills `labels`, (n,), by definition, and `sure`, (n,): whether that is done.  Rows with more than
    `most_candidates` centers near the best one are left.  The other arguments are rows, (n, d), centers, (k, d), the
    parts of a `Ranking`, and memory to work in, (tile, d + 1) and (tile, k).
    """
    none = integer(0)

    @_compiled
    def nearest(rows, centers, shift, matrix, bounds, most_candidates, left, scores, labels, sure):
        n, d = rows.shape
        height, k = scores.shape
        radius, of_scores, of_squares, least, most = bounds
        bits = scores.view(integer)
        word = np.empty(1, integer)
        norms = np.empty(height)
        left[:, d] = 1
        for start in range(0, n, height):
            count = min(height, n - start)
            _score(rows[start : start + count], shift, matrix, left, scores, norms)
            for i in range(count):
                # The bits of the largest float: the largest integer, or the smallest one where all are negative.
                row = bits[i]
                largest = smallest = row[0]
                for c in range(k):
                    largest = max(largest, row[c])
                    smallest = min(smallest, row[c])
                word[0] = largest if largest >= 0 else smallest
                reach = radius * (norms[i] + radius)
                doubt = of_scores * reach + of_squares * (norms[i] * norms[i] + radius * radius) + least
                floor = rows.dtype.type(word.view(rows.dtype)[0] - doubt)
                hits, place = 0, 0
                for first in range(0, k, SEGMENT):
                    values = scores[i, first : first + SEGMENT]
                    found = none
                    for c in range(values.size):
                        found += integer(c + ONE_HIT) if values[c] >= floor else none
                    if found:
                        hits += found // ONE_HIT
                        place = first + found % ONE_HIT
                if not (reach < most and hits):
                    floor, hits = -rows.dtype.type(np.inf), k
                if 1 < hits <= most_candidates:
                    place = _nearest_among(rows[start + i], centers, scores[i], floor)
                labels[start + i] = place
                sure[start + i] = hits <= most_candidates

    return nearest


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
def nearest_two(rows, centers, shift, matrix, bounds, most_candidates, left, scores, labels, seconds, sure):
    """The nearest and the second nearest center of each row, with the arguments of the ranking above."""
    n, d = rows.shape
    height, k = scores.shape
    radius, of_scores, of_squares, least, most = bounds
    norms = np.empty(height)
    left[:, d] = 1
    for start in range(0, n, height):
        count = min(height, n - start)
        _score(rows[start : start + count], shift, matrix, left, scores, norms)
        for i in range(count):
            values = scores[i]
            first, second, third = -np.inf, -np.inf, -np.inf
            label, other = 0, 1
            for c in range(k):
                value = values[c]
                if value > third:
                    if value > first:
                        first, second, third = value, first, second
                        label, other = c, label
                    elif value > second:
                        second, third = value, second
                        other = c
                    else:
                        third = value
            reach = radius * (norms[i] + radius)
            doubt = of_scores * reach + of_squares * (norms[i] * norms[i] + radius * radius) + least
            safe = reach < most
            known = True
            if not (safe and first - second > doubt and second - third > doubt):
                floor = second - doubt if safe else -np.inf
                candidates = 0
                for c in range(k):
                    if not values[c] < floor:
                        candidates += 1
                known = candidates <= most_candidates
                if known:
                    label, other = _nearest_two_among(rows[start + i], centers, values, floor)
            labels[start + i], seconds[start + i], sure[start + i] = label, other, known


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
