"""The inner loops of the other kernels, compiled by Numba where it is installed.

They give the same bytes as their NumPy counterparts: what decides is the definition in `distance`, and sums go through
the rows in the same order.  ``NUMBA_DISABLE_JIT=1`` leaves the work to NumPy.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

import numpy as np

WIDE = 16
"""Columns from which squares are taken before they are summed: at 8, 16, 32 and 64 columns that took 1.1, 0.8, 0.6 and
0.5 of the time."""

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
def _shift(rows, shift, left, bits, mask):
    """Fill `left`, (tile, d + 1), with the shifted rows, (n, d), and ones behind them; a bound on the rows' norms.

    `bits` are those of `left`, as integers, and `mask` all but the sign: the largest size of a number is looked for
    among integers, since only these are compared side by side.
    """
    n, d = rows.shape
    for i in range(n):
        for j in range(d):
            left[i, j] = rows[i, j] - shift[j]
        left[i, d] = 0
    largest = mask & 0
    for i in range(n * (d + 1)):
        size = bits[i] & mask
        largest = size if size > largest else largest
    bits[d] = largest
    bound = np.sqrt(d) * left[0, d]
    for i in range(n):
        left[i, d] = 1
    return bound


@_compiled
def squared_distances(rows, centers, labels, squared):
    """The squared distance of each row, (n, d), to its center, over its columns in order.

    Of eight wide rows at a time the squares are taken first, side by side, and then summed.
    """
    n, d = rows.shape
    whole = n // 8 * 8 if d >= WIDE else 0
    squares = np.empty((8, d))
    for start in range(0, whole, 8):
        for i in range(8):
            label = labels[start + i]
            for j in range(d):
                difference = np.float64(rows[start + i, j]) - centers[label, j]
                squares[i, j] = difference * difference
        p = q = r = s = t = u = v = w = 0.0
        for j in range(d):
            p += squares[0, j]
            q += squares[1, j]
            r += squares[2, j]
            s += squares[3, j]
            t += squares[4, j]
            u += squares[5, j]
            v += squares[6, j]
            w += squares[7, j]
        squared[start], squared[start + 1], squared[start + 2], squared[start + 3] = p, q, r, s
        squared[start + 4], squared[start + 5], squared[start + 6], squared[start + 7] = t, u, v, w
    for i in range(whole, n):
        label, total = labels[i], 0.0
        for j in range(d):
            difference = np.float64(rows[i, j]) - centers[label, j]
            total += difference * difference
        squared[i] = total


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
def _place_of(number, numbers, first, last):
    """Where a number stands between two places of ascending numbers; -1 where it does not."""
    if last - first <= 16:  # one after the other, without a branch
        found = -1
        for place in range(first, last):
            found = place if numbers[place] == number else found
        return found
    above = last
    while first < above:
        middle = (first + above) // 2
        if numbers[middle] < number:
            first = middle + 1
        else:
            above = middle
    return first if first < last and numbers[first] == number else -1


@_compiled
def choose(rows, groups, weights, centers, starts, used, prices, nearest, found):
    """The used center, the use and the objection of each row, (n, d), as `sharing.choose` has them.

    What is found, labels and squared distances, are those of the nearest center of all before.
    """
    labels, squared, uses, objecting = found
    for i in range(len(rows)):
        group, share, (local, both) = groups[i], 1.0, prices
        if weights.size and weights[i] < 1.0:
            share = weights[i]
            local, both = local / share, both / share
        first, last = (starts[group], starts[group + 1]) if group < len(starts) - 1 else (0, 0)
        uses[i] = _place_of(labels[i], used, first, last)
        if uses[i] >= 0:
            objecting[i] = share > 0 and squared[i] > both
            continue
        best, least = -1, np.inf
        for place in range(first, last):
            total = 0.0
            for j in range(rows.shape[1]):
                difference = np.float64(rows[i, j]) - centers[used[place], j]
                total += difference * difference
            if best < 0 or total < least:
                best, least = place, total
        uses[i] = best
        unused = nearest[1][i] + local
        objecting[i] = share > 0 and (unused < least or min(unused, least) > both)
        if best >= 0:
            labels[i], squared[i] = used[best], least


@_compiled
def trades(rows, weights, centers, sets, own, found):
    """What each row, (n, d), adds to losses, (n,), and savings, (slots, k), as `trades.trades` has them; 0 before."""
    groups, slots, starts, used = sets
    uses, squared = own
    losses, savings = found
    for i in range(len(rows)):
        second, place, last = np.inf, starts[groups[i]], starts[groups[i] + 1]
        for c in range(len(centers)):
            is_used = place < last and used[place] == c
            if is_used:
                place += 1
                if place - 1 == uses[i]:
                    continue
            total, limit = 0.0, second if is_used else squared[i]
            for j in range(rows.shape[1]):
                difference = np.float64(rows[i, j]) - centers[c, j]
                total += difference * difference
                if total >= limit:  # it only grows
                    break
            if total >= limit:
                continue
            if is_used:
                second = total
            else:
                savings[slots[i], c] += weights[i] * (squared[i] - total)
        if weights[i] > 0:
            losses[i] = weights[i] * (second - squared[i])


@_compiled
def add_rows(rows, weights, labels, squared, moments):
    """Add the rows, (n, d), to the moments of their clusters, one after the other; no weights stand for ones."""
    counts, totals, sums, inertias = moments
    n, d = rows.shape
    for i in range(n):
        label, weight = labels[i], weights[i] if weights.size else 1.0
        counts[label] += 1
        totals[label] += weight
        inertias[label] += weight * squared[i]
        for j in range(d):
            sums[label, j] += weight * np.float64(rows[i, j])


@_compiled
def greatest(labels, values, found):
    """Raise what is found, (k,), to the greatest value of each label."""
    for i in range(len(labels)):
        if values[i] > found[labels[i]]:
            found[labels[i]] = values[i]


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
    `most_candidates` centers near the best one are left.  It fills `squared`, (n,), with the squared distances to
    these labels, unless it is empty.  The other arguments are rows, (n, d), centers, (k, d), the parts of a `Ranking`,
    and memory to work in, (tile, d + 1) and (tile, k).  Scores stand in columns, one a row.
    """
    largest = np.iinfo(integer).max

    @_compiled
    def nearest(rows, centers, shift, matrix, bounds, most_candidates, left, scores, labels, sure, squared):
        n, d = rows.shape
        height, k = scores.shape
        memory, bits, mask, dtype = scores.reshape(-1), left.reshape(-1).view(integer), integer(largest), scores.dtype
        best, next_best, place = np.empty(height, dtype), np.empty(height, dtype), np.empty(height, integer)
        for start in range(0, n, height):
            count = min(height, n - start)
            part = slice(start, start + count)
            most_doubt = _doubt(_shift(rows[part], shift, left, bits, mask), bounds)
            columns = memory[: k * count].reshape(k, count)
            np.dot(matrix.T, left[:count].T, columns)
            _two_largest(columns, best, next_best, place)
            for i in range(count):
                label, gap, known = place[i], best[i] - next_best[i], True
                if not gap > most_doubt:
                    doubt = _doubt(np.sqrt(_squared_norm(left[i], d)), bounds)
                    if not gap > doubt:
                        floor = best[i] - doubt
                        known = _candidates(columns, i, floor) <= most_candidates
                        if known:
                            label = _nearest_among(rows[start + i], centers, columns[:, i], floor)
                labels[start + i], sure[start + i] = label, known
            if squared.size:
                squared_distances(rows[part], centers, labels[part], squared[part])

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
    largest = np.iinfo(integer).max

    @_compiled
    def nearest_two(rows, centers, shift, matrix, bounds, most_candidates, left, scores, labels, seconds, sure):
        n, d = rows.shape
        height, k = scores.shape
        memory, bits, mask, dtype = scores.reshape(-1), left.reshape(-1).view(integer), integer(largest), scores.dtype
        best, next_best, last = np.empty(height, dtype), np.empty(height, dtype), np.empty(height, dtype)
        place, next_place = np.empty(height, integer), np.empty(height, integer)
        for start in range(0, n, height):
            count = min(height, n - start)
            most_doubt = _doubt(_shift(rows[start : start + count], shift, left, bits, mask), bounds)
            columns = memory[: k * count].reshape(k, count)
            np.dot(matrix.T, left[:count].T, columns)
            _three_largest(columns, best, next_best, last, place, next_place)
            for i in range(count):
                label, other, known = place[i], next_place[i], True
                gap, next_gap = best[i] - next_best[i], next_best[i] - last[i]
                if not (gap > most_doubt and next_gap > most_doubt):
                    doubt = _doubt(np.sqrt(_squared_norm(left[i], d)), bounds)
                    if not (gap > doubt and next_gap > doubt):
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


@_compiled
def boxes_of(places, low, scale, bins, boxes):
    """The box of each of n places, (sides, n), into `boxes`, (n,); bins ** sides where it lies in none."""
    sides, n = places.shape
    for i in range(n):
        box = 0
        for side in range(sides):
            share = (places[side, i] - low[side]) * scale[side]
            if not (share >= 0 and share <= bins):
                box = bins**sides
                break
            box = box * bins + min(int(share), bins - 1)
        boxes[i] = box
