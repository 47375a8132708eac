"""Costs and sums of a block of rows from one compiled loop, in place of one loop for each.

A tile of rows is ranked, measured and added to its clusters while it is in the cache.  Costs and
sums are the ones of `distance` and `moments`, to the byte: labels that the ranking leaves in doubt
are decided by the definition, costs follow the definition, and rows are added in their order.
"""

from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import issparse

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, IntegerArray, Rows
from dask_dpmeans.kernels.definition_compiled import is_narrow, squared_distances_compiled
from dask_dpmeans.kernels.distance import COMPILED_TILE, LEAST_COMPILED_TILE, NOTHING, Centers
from dask_dpmeans.kernels.hamerly_bounds import LEAST_CENTERS
from dask_dpmeans.kernels.moments import MomentParts, Moments, add_rows_compiled, greatest_compiled
from dask_dpmeans.kernels.numba_support import compile_any_order, compile_loop, compile_part, pays

NARROW = 4
"""Most columns of narrow rows."""
TILE = 2**8
"""Narrow rows that are ranked together."""
MOST_DOUBTFUL = 1 / 8
"""A scan is given up if the ranking leaves a larger share of the rows in doubt."""
FEW_DOUBTFUL = 64
"""Rows that may be in doubt anyway."""
Place: TypeAlias = "np.signedinteger[Any]"
"""The number of a center."""
Ranked = tuple[Rows, Rows, IntegerArray]
"""The two largest scores of each row, (tile,) each, and the number of the center of the first."""
ScanParts = tuple[Rows, Rows, Rows, Float64Array]
"""Shift, matrix, constants and bounds of the gaps of a `Ranking`."""
MOST_CENTERS = 2**7
"""Most centers of rows that a product ranks.

At d = 64 and k = 16, 128 and 256 a block took 0.72, 0.87 and 0.93 of the time, at d = 16 and k = 64,
128 and 256 0.93, 0.89 and 1.02, and at k = 1,000 1.04."""
GIVEN_UP = "joint_scan_given_up"
"""The mark of centers whose ranking leaves too many rows in doubt."""
Found = tuple[Moments, Float64Array, Float64Array]
"""Moments, squared distances of the rows, (height,), and reaches of the clusters, (k,)."""


def scan_at_once(block: Block, centers: Centers) -> Found | None:
    """Return moments, squared distances and reaches; None if loops of their own are to find them.

    Centers are without divergence, and rows without outliers.  The answer is the one of `assign`,
    `cluster_moments` and `greatest`, to the byte.
    """
    if not numba_support.AVAILABLE or GIVEN_UP in vars(centers) or issparse(block.rows):
        return None
    k = len(centers)
    plain = centers.divergence is None and not np.isfinite(centers.most)
    bounded = block.memory is not None and k >= LEAST_CENTERS
    if not plain or bounded or not 2 <= k <= len(block.rows):
        return None
    if is_narrow(centers.values, NOTHING, 1):
        return _scan_narrow(block, centers)
    ranked = k <= MOST_CENTERS and centers.ranks_all(block.rows)
    return _scan_wide(block, centers) if ranked else None


def _scan_narrow(block: Block, centers: Centers) -> Found | None:
    """Return the answer for rows of up to four columns."""
    (n, d), k = block.rows.shape, len(centers)
    squared, table = np.empty(n), np.zeros((k, 8))
    points = np.zeros((k, NARROW))
    points[:, :d] = centers.values
    given = block.rows, _weights(block), points, _parts(centers, "narrow"), squared, table
    if not _succeeds(scan_narrow_compiled, given, centers, 32 * n):
        return None
    counts = table[:, 6].astype(np.int64)
    moments = Moments(counts, table[:, 5].copy(), table[:, :d].copy(), table[:, 4].copy())
    return moments, squared, table[:, 7].copy()


def _scan_wide(block: Block, centers: Centers) -> Found | None:
    """Return the answer for other rows, which a product ranks."""
    rows, ranking, k = block.rows, centers.single, len(centers)
    n, d = rows.shape
    tile = COMPILED_TILE
    if ranking.height >= LEAST_COMPILED_TILE:
        tile = min(tile, ranking.height)
    factor, kind = rows, "plain"
    if rows.dtype != np.float32 or not ranking.shifts_little:
        factor, kind = block.scratch.array("left", (tile, d), np.float32), "shifted"
    scores = block.scratch.array("product", (tile, k), np.float32).reshape(-1)
    squared, reaches, moments = np.empty(n), np.zeros(k), Moments.none(k, d)
    shared = rows, _weights(block), centers.values, _parts(centers, kind)
    given = *shared, factor, scores, squared, moments.parts, reaches
    if not _succeeds(scan_compiled, given, centers, 2 * rows.size):
        return None
    return moments, squared, reaches


def _weights(block: Block) -> Float64Array:
    return np.empty(0) if block.weights is None else block.weights


def _succeeds(loop: Any, given: tuple[Any, ...], centers: Centers, work: int) -> bool:
    """Return whether the loop pays, and was not given up.

    `work` is what it saves, since its twins are compiled too, and a few times more, since Numba
    keeps what it compiles.
    """
    if not pays(loop, given, work):
        return False
    done: bool = loop(*given)
    if not done:
        vars(centers)[GIVEN_UP] = True
    return done


def _parts(centers: Centers, kind: str) -> ScanParts:
    """Return the arguments of a loop, made once for the centers."""
    known, name = vars(centers), f"joint_scan_{kind}"
    if name not in known:
        known[name] = _parts_anew(centers, kind)
    parts: ScanParts = known[name]
    return parts


def _parts_anew(centers: Centers, kind: str) -> ScanParts:
    ranking, (k, d) = centers.single, centers.values.shape
    shifted = kind != "plain"
    with np.errstate(all="ignore"):
        constants, gaps = ranking.constants(shifted), ranking.gaps(shifted)
    matrix = ranking.matrix[:d]
    if kind == "narrow":
        padded: Rows = np.zeros((-(-k // 4) * 4, NARROW + 1), np.float32)
        padded[k:, NARROW] = -np.inf
        padded[:k, :d], padded[:k, NARROW] = matrix.T, constants
        matrix = padded
    return (ranking.shift if shifted else ranking.shift[:0]), matrix, constants, gaps


@compile_part
def _is_doubtful(gap: float, squared: float, bounds: Float64Array) -> bool:
    """Return whether another center may be nearer, given the gap of the two largest scores."""
    return not (gap > bounds[0] + bounds[1] * squared and squared < bounds[2])


@compile_part
def _is_hopeless(doubtful: np.int64, rows: int) -> bool:
    """Return whether too many of the rows so far are in doubt."""
    return bool(doubtful > FEW_DOUBTFUL + MOST_DOUBTFUL * rows)


@compile_any_order
def _rank_narrow(columns: Rows, matrix: Rows, ranked: Ranked) -> None:
    """Fill in the two largest scores of shifted rows, (4, tile), and the number of the first.

    The matrix, (k, 5), has the constants last; k is a multiple of four.  Four centers at a time, and
    no branch, so that the loop is vectorized.
    """
    first, second, third, fourth = columns[0], columns[1], columns[2], columns[3]
    best, other, place = ranked
    best[:], other[:], place[:] = -np.inf, -np.inf, 0
    for c in range(0, len(matrix), 4):
        a, b, g, h, z = matrix[c]
        a1, b1, g1, h1, z1 = matrix[c + 1]
        a2, b2, g2, h2, z2 = matrix[c + 2]
        a3, b3, g3, h3, z3 = matrix[c + 3]
        number, next_number = np.int32(c), np.int32(c + 1)
        third_number, last_number = np.int32(c + 2), np.int32(c + 3)
        for i in range(len(best)):
            p, q, r, s = first[i], second[i], third[i], fourth[i]
            found = best[i], other[i], place[i]
            found = _keep(a * p + b * q + g * r + h * s + z, number, *found)
            found = _keep(a1 * p + b1 * q + g1 * r + h1 * s + z1, next_number, *found)
            found = _keep(a2 * p + b2 * q + g2 * r + h2 * s + z2, third_number, *found)
            found = _keep(a3 * p + b3 * q + g3 * r + h3 * s + z3, last_number, *found)
            best[i], other[i], place[i] = found


@compile_any_order
def _keep(
    value: np.floating, number: Place, best: np.floating, other: np.floating, place: Place
) -> tuple[np.floating, np.floating, Place]:
    """Return the two largest of a score and the two before, and the center of the first."""
    passed = best if value > best else value
    other = passed if passed > other else other
    return (value if value > best else best), other, (number if value > best else place)


@compile_part
def _fill_narrow(rows: Rows, shift: Rows, doubles: Float64Array, columns: Rows) -> None:
    """Fill in rows, (m, d) with d <= 4: `doubles`, (tile, 4), and shifted `columns`, (4, tile)."""
    m, d = rows.shape
    if d == NARROW:
        flat, values = rows.reshape(-1), doubles.reshape(-1)
        first, second, third, fourth = columns[0], columns[1], columns[2], columns[3]
        for i in range(4 * m):
            values[i] = flat[i]
        for i in range(m):
            first[i] = flat[4 * i] - shift[0]
            second[i] = flat[4 * i + 1] - shift[1]
            third[i] = flat[4 * i + 2] - shift[2]
            fourth[i] = flat[4 * i + 3] - shift[3]
        return
    for j in range(d):
        for i in range(m):
            doubles[i, j] = rows[i, j]
            columns[j, i] = rows[i, j] - shift[j]


@compile_part
def _nearest(row: Float64Array, points: Float64Array) -> tuple[int, float]:
    """Return the nearest of the points, (k, 4), and the squared distance of the row, (4,)."""
    label, least = 0, np.inf
    for c in range(len(points)):
        a, b = row[0] - points[c, 0], row[1] - points[c, 1]
        g, h = row[2] - points[c, 2], row[3] - points[c, 3]
        total = a * a + b * b + g * g + h * h
        if total < least:
            label, least = c, total
    return label, least


@compile_part
def _add_narrow(
    doubles: Float64Array,
    weights: Float64Array,
    points: Float64Array,
    ranked: Ranked,
    bounds: Float64Array,
    squared: Float64Array,
    table: Float64Array,
) -> np.int64:
    """Fill in the squared distances, (m,), of a tile of rows, and add the rows to the table.

    A line of the table, (k, 8), is of one cluster: four sums of columns, inertia, weight, count and
    reach.  Return how many rows the ranking left in doubt.
    """
    best, other, place = ranked
    doubtful = np.int64(0)
    for i in range(len(squared)):
        label = np.uint64(place[i])
        p, q, r, s = doubles[i, 0], doubles[i, 1], doubles[i, 2], doubles[i, 3]
        a, b = p - points[label, 0], q - points[label, 1]
        g, h = r - points[label, 2], s - points[label, 3]
        total = a * a + b * b + g * g + h * h
        if _is_doubtful(np.float64(best[i] - other[i]), total, bounds):
            nearest, total = _nearest(doubles[i], points)
            label = np.uint64(nearest)
            doubtful += 1
        squared[i] = total
        weight = 1.0
        if weights.size:
            weight = weights[i]
        table[label, 0] += weight * p
        table[label, 1] += weight * q
        table[label, 2] += weight * r
        table[label, 3] += weight * s
        table[label, 4] += weight * total
        table[label, 5] += weight
        table[label, 6] += 1.0
        table[label, 7] = total if total > table[label, 7] else table[label, 7]
    return doubtful


@compile_loop
def scan_narrow_compiled(
    rows: Rows,
    weights: Float64Array,
    points: Float64Array,
    parts: ScanParts,
    squared: Float64Array,
    table: Float64Array,
) -> bool:
    """Fill in squared distances, (n,), of rows, (n, d) with d <= 4, and the sums of clusters.

    Centers, (k, 4), get zeros up to four columns, which leave the sums as they are.  Empty weights
    mean 1.  `table` is as in `_add_narrow`, as yet 0.  Return whether the scan was not given up.
    """
    shift, matrix, _, bounds = parts
    columns, doubles = np.zeros((4, TILE), np.float32), np.zeros((TILE, 4))
    scores, places = np.empty((2, TILE), np.float32), np.empty(TILE, np.int32)
    ranked = scores[0], scores[1], places
    doubtful = np.int64(0)
    for start in range(0, len(rows), TILE):
        part = slice(start, min(start + TILE, len(rows)))
        _fill_narrow(rows[part], shift, doubles, columns)
        _rank_narrow(columns, matrix, ranked)
        doubtful += _add_narrow(
            doubles, weights[part], points, ranked, bounds, squared[part], table
        )
        if _is_hopeless(doubtful, part.stop):
            return False
    return True


@compile_part
def _rank_wide(scores: Rows, constants: Rows, ranked: Ranked) -> None:
    """Fill in the two largest of scores, (k, m), plus constants, (k,), and the number of the first."""
    (k, m), one, two, three = scores.shape, np.int32(1), np.int32(2), np.int32(3)
    best, other, place = ranked
    best[:], other[:], place[:] = -np.inf, -np.inf, 0
    for c in range(0, k // 4 * 4, 4):
        p, q, r, s = scores[c], scores[c + 1], scores[c + 2], scores[c + 3]
        a, b, g, h = constants[c], constants[c + 1], constants[c + 2], constants[c + 3]
        number = np.int32(c)
        for i in range(m):
            found = best[i], other[i], place[i]
            found = _keep(p[i] + a, number, *found)
            found = _keep(q[i] + b, number + one, *found)
            found = _keep(r[i] + g, number + two, *found)
            best[i], other[i], place[i] = _keep(s[i] + h, number + three, *found)
    for c in range(k // 4 * 4, k):
        p, a, number = scores[c], constants[c], np.int32(c)
        for i in range(m):
            best[i], other[i], place[i] = _keep(p[i] + a, number, best[i], other[i], place[i])


@compile_part
def _decide(
    rows: Rows,
    centers: Float64Array,
    ranked: Ranked,
    bounds: Float64Array,
    labels: IndexArray,
    squared: Float64Array,
) -> np.int64:
    """Decide labels and squared distances, (m,), of the rows, (m, d), in doubt; return their number."""
    best, other, _ = ranked
    doubtful = np.int64(0)
    for i in range(len(rows)):
        if _is_doubtful(np.float64(best[i] - other[i]), squared[i], bounds):
            doubtful += 1
            squared[i] = np.inf
            for c in range(len(centers)):
                total = 0.0
                for j in range(rows.shape[1]):
                    difference = np.float64(rows[i, j]) - centers[c, j]
                    total += difference * difference
                if total < squared[i]:
                    labels[i], squared[i] = c, total
    return doubtful


@compile_loop
def scan_compiled(
    rows: Rows,
    weights: Float64Array,
    centers: Float64Array,
    parts: ScanParts,
    factor: Rows,
    scores: Rows,
    squared: Float64Array,
    moments: MomentParts,
    reaches: Float64Array,
) -> bool:
    """Fill in squared distances, (n,), of rows, (n, d), moments, and the reach of each cluster, (k,).

    `factor` is what is multiplied: the rows in float32, or if there is a shift, memory for a tile
    of shifted rows, (tile, d).  `scores` is memory, (k * tile,).  Moments and reaches are as yet 0.
    Return whether the scan was not given up.
    """
    shift, matrix, constants, bounds = parts
    (n, d), k = rows.shape, len(centers)
    height = len(scores) // k
    tops, places = np.empty((2, height), np.float32), np.empty(height, np.int32)
    labels, doubtful = np.empty(height, np.intp), np.int64(0)
    for start in range(0, n, height):
        part = slice(start, min(start + height, n))
        tile, m, where = rows[part], part.stop - start, start
        if len(shift):
            where = 0
            for i in range(m):
                for j in range(d):
                    factor[i, j] = tile[i, j] - shift[j]
        columns = scores[: k * m].reshape(k, m)
        np.dot(matrix.T, factor[where : where + m].T, columns)
        ranked = tops[0, :m], tops[1, :m], places[:m]
        _rank_wide(columns, constants, ranked)
        found, measured = labels[:m], squared[part]
        for i in range(m):
            found[i] = places[i]
        squared_distances_compiled(tile, centers, found, measured)
        doubtful += _decide(tile, centers, ranked, bounds, found, measured)
        if _is_hopeless(doubtful, part.stop):
            return False
        add_rows_compiled(tile, weights[part], found, measured, moments)
        greatest_compiled(found, measured, reaches)
    return True
