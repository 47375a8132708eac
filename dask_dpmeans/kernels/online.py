"""Rules of one pass in row order: each row joins or opens a cluster before the next row is read.

Clusters are columns here, with room for more, so that a row's distances to all clusters are sums of
contiguous runs.  A row adds at most one cluster.  A rule stops if the room is used up, and
continues with more room.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part, compiled_or_plain, plain

LEAST_ROOM = 64
"""Room for clusters at first."""
ROW_WORK = 2**13
"""Numbers that NumPy handles in the time of its calls for one row, some 8 microseconds."""
CENTER_TILE = 512
"""Centers whose distances to a row are summed side by side, in the first-level cache."""
ENDLESS = 2**62
"""No limit on the number of clusters."""


class Boxes(NamedTuple):
    """Clusters with the ranges of their rows (Odashima et al. 2016, section 3.2)."""

    centers: Float64Array
    """(k, d), mu."""
    weights: Float64Array
    """(k,), w; a split divides it, so that it may be a fraction."""
    lows: Float64Array
    """(k, d), p, the minima of a cluster."""
    highs: Float64Array
    """(k, d), q, the maxima."""


MeanColumns = tuple[Float64Array, Float64Array]
"""Centers, (d, room), and weights, (room,)."""
BoxColumns = tuple[Float64Array, Float64Array, Float64Array, Float64Array]
"""Centers, (d, room), weights, (room,), lows and highs, (d, room)."""
ClusterColumns = TypeVar("ClusterColumns", MeanColumns, BoxColumns)
Rule = Callable[[Float64Array, int, float, int, ClusterColumns], tuple[int, int]]


def online(
    rows: Float64Array,
    penalty: float,
    centers: Float64Array,
    weights: Float64Array,
    most: int = ENDLESS,
) -> tuple[Float64Array, Float64Array]:
    """Run Algorithm 2 of Odashima et al. 2016 over rows, (n, d).

    It starts from centers, (k, d), and weights, (k,), and returns new ones, (l, d) and (l,).  It
    ends early with more than `most` clusters.
    """
    rules = join_or_open, _join_or_open_compiled
    columns, weights = _run(rules, rows, penalty, (centers.T, weights), most)
    return np.ascontiguousarray(columns.T), weights


def split(rows: Float64Array, penalty: float, boxes: Boxes, most: int = ENDLESS) -> Boxes:
    """Run Algorithm 3 of Odashima et al. 2016 over rows, (n, d), from given clusters.

    It ends early with more than `most` clusters.
    """
    rules = join_split_or_open, _join_split_or_open_compiled
    columns = boxes.centers.T, boxes.weights, boxes.lows.T, boxes.highs.T
    found = _run(rules, rows, penalty, columns, most)
    return Boxes(*(np.ascontiguousarray(each.T) for each in found))


def _run(
    rules: tuple[Rule[ClusterColumns], Rule[ClusterColumns]],
    rows: Float64Array,
    penalty: float,
    clusters: ClusterColumns,
    most: int,
) -> ClusterColumns:
    """Run a rule over rows, (n, d), and double the room for clusters, (..., k), if used up.

    The rule is given in NumPy and as a compiled loop.
    """
    rule, loop = rules
    k, done = len(clusters[1]), 0
    while done < len(rows) and k <= most:
        room = min(max(LEAST_ROOM, 2 * k), most + 1)
        clusters = cast(ClusterColumns, tuple(_widen(each[..., :k], room) for each in clusters))
        given = rows, done, float(penalty), k, clusters
        work = (len(rows) - done) * (ROW_WORK + 4 * clusters[0].size)
        done, k = compiled_or_plain(loop, given, work, twin=rule)(*given)
    return cast(ClusterColumns, tuple(each[..., :k].copy() for each in clusters))


def _widen(values: Float64Array, room: int) -> Float64Array:
    """Return a copy of values, (..., k), with a last axis of length `room`."""
    wide = np.zeros((*values.shape[:-1], room))
    wide[..., : values.shape[-1]] = values
    return wide


def join_or_open(
    rows: Float64Array, done: int, penalty: float, k: int, clusters: MeanColumns
) -> tuple[int, int]:
    """Apply Algorithm 2 in place from row number `done` on.

    Returned are the numbers of rows done and of clusters.  Rows are (n, d); k clusters are in use.
    """
    centers, weights = clusters
    for i in range(done, len(rows)):
        if k == len(weights):
            return i, k
        squared = _squared_to_all(rows[i], centers[:, :k])
        best = int(squared.argmin()) if k else -1
        if best < 0 or squared[best] > penalty:
            centers[:, k], weights[k] = rows[i], 1.0
            k += 1
        else:
            _take(rows[i], best, centers, weights)
    return len(rows), k


def join_split_or_open(
    rows: Float64Array, done: int, penalty: float, k: int, boxes: BoxColumns
) -> tuple[int, int]:
    """Apply Algorithm 3 in place from row number `done` on.

    Returned are the numbers of rows done and of clusters.  Rows are (n, d).  Of the boxes, as
    columns, k are in use.

    The paper prints the comparison with the least squared distance so far as ``>``, which would
    find the farthest cluster beyond the radius.  Section 3.2 describes the nearest one within it.
    Two corrections give this.  One is ``<``, used here: the first of equally near clusters wins, as
    everywhere in this package, and a row at exactly the radius opens a cluster, although it joins
    one in Algorithm 2.  The other is ``<=``, if a ``continue`` was lost in print, as in the
    condition above it ("if > then continue"): the last of equally near clusters wins, and a row at
    exactly the radius joins.  They differ in such ties only.  ``<`` changes one printed sign and
    keeps the one rule for equal distances.
    """
    centers, weights, lows, highs = boxes
    for i in range(done, len(rows)):
        if k == len(weights):
            return i, k
        row = rows[i]
        squared = _squared_to_all(row, centers[:, :k])
        near = np.flatnonzero(squared < penalty)
        if near.size:
            near = near[~_would_split(row, near, penalty, boxes)]
        if not near.size:
            centers[:, k], lows[:, k], highs[:, k], weights[k] = row, row, row, 1.0
            k += 1
            continue
        best = int(near[squared[near].argmin()])
        _take(row, best, centers, weights)
        lows[:, best] = np.minimum(lows[:, best], row)
        highs[:, best] = np.maximum(highs[:, best], row)
        ranges = highs[:, best] - lows[:, best]
        column = int(ranges.argmax())
        if _is_too_large(weights[best], ranges[column], penalty):
            plain(_cut)(best, k, column, boxes)
            k += 1
    return len(rows), k


def _squared_to_all(row: Float64Array, centers: Float64Array) -> Float64Array:
    """Return the squared distances, (k,), by definition, of a row, (d,), to centers, (d, k)."""
    squares = np.square(row[:, np.newaxis] - centers)
    if squares.shape[1] == 1:
        return np.asarray(np.add.accumulate(squares, axis=0)[-1])
    return np.asarray(np.add.reduce(squares, axis=0))  # one column of the data after the other


def _take(row: Float64Array, c: int, centers: Float64Array, weights: Float64Array) -> None:
    """Move the running mean of cluster c to a row, (d,), and count it (eq. 5)."""
    centers[:, c] = (weights[c] * centers[:, c] + row) / (weights[c] + 1.0)
    weights[c] += 1.0


def _would_split(
    row: Float64Array, near: IndexArray, penalty: float, boxes: BoxColumns
) -> BoolArray:
    """Return for some clusters, (m,), whether a row, (d,), outside would make them split."""
    _, weights, lows, highs = boxes
    each, low, high = row[:, np.newaxis], lows[:, near], highs[:, near]
    outside = ((each < low) | (each > high)).any(axis=0)
    widest = (np.maximum(high, each) - np.minimum(low, each)).max(axis=0)
    return np.asarray(outside & _is_too_large(weights[near] + 1.0, widest, penalty))


def _is_too_large(
    weight: Float64Array | np.float64, widest: Float64Array | np.float64, penalty: float
) -> BoolArray | np.bool_:
    """Return whether two halves of a uniform cluster of this size would cost less (eq. 4)."""
    return weight * (widest * widest) > 16.0 * penalty


@compile_loop
def _cut(c: int, new: int, j: int, boxes: BoxColumns) -> None:
    """Cut cluster c at its center in column j; the upper half becomes cluster `new` (eq. 6)."""
    centers, weights, lows, highs = boxes
    low, high, weight = lows[j, c], highs[j, c], weights[c]
    middle = min(max(centers[j, c], low), high)  # rounding may have moved a mean out of its box
    for column in range(len(centers)):
        for every in (centers, lows, highs):
            every[column, new] = every[column, c]
    centers[j, c], centers[j, new] = (middle + low) / 2.0, (middle + high) / 2.0
    highs[j, c], lows[j, new] = middle, middle
    weights[c] = weight * ((middle - low) / (high - low))
    weights[new] = weight * ((high - middle) / (high - low))


@compile_part
def _squared_to_all_compiled(
    row: Float64Array, centers: Float64Array, k: int, squared: Float64Array
) -> None:
    """Compiled twin of `_squared_to_all`, which fills `squared`, (room,), for k centers."""
    for first in range(0, k, CENTER_TILE):
        part = squared[first : min(first + CENTER_TILE, k)]
        part[:] = 0.0
        for j in range(len(row)):
            value, middles = row[j], centers[j, first : first + len(part)]
            for c in range(len(part)):
                difference = value - middles[c]
                part[c] += difference * difference


@compile_part
def _take_compiled(row: Float64Array, c: int, centers: Float64Array, weights: Float64Array) -> None:
    """Compiled twin of `_take`."""
    weight = weights[c]
    for j in range(len(row)):
        centers[j, c] = (weight * centers[j, c] + row[j]) / (weight + 1.0)
    weights[c] = weight + 1.0


@compile_loop
def _join_or_open_compiled(
    rows: Float64Array, done: int, penalty: float, k: int, clusters: MeanColumns
) -> tuple[int, int]:
    """Compiled twin of `join_or_open`."""
    centers, weights = clusters
    room = len(weights)
    squared = np.empty(room)
    for i in range(done, len(rows)):
        if k == room:
            return i, k
        _squared_to_all_compiled(rows[i], centers, k, squared)
        best, least = -1, np.inf
        for c in range(k):
            if squared[c] < least:
                best, least = c, squared[c]
        if least > penalty:
            for j in range(len(centers)):
                centers[j, k] = rows[i, j]
            weights[k] = 1.0
            k += 1
        else:
            _take_compiled(rows[i], best, centers, weights)
    return len(rows), k


@compile_part
def _would_split_compiled(row: Float64Array, c: int, penalty: float, boxes: BoxColumns) -> bool:
    """Compiled twin of `_would_split`, for one cluster."""
    _, weights, lows, highs = boxes
    outside, widest = False, 0.0
    for j in range(len(row)):
        low, high = lows[j, c], highs[j, c]
        outside = outside or row[j] < low or row[j] > high
        widest = max(widest, max(high, row[j]) - min(low, row[j]))
    return outside and (weights[c] + 1.0) * (widest * widest) > 16.0 * penalty


@compile_loop
def _join_split_or_open_compiled(
    rows: Float64Array, done: int, penalty: float, k: int, boxes: BoxColumns
) -> tuple[int, int]:
    """Compiled twin of `join_split_or_open`."""
    centers, weights, lows, highs = boxes
    room = len(weights)
    squared = np.empty(room)
    for i in range(done, len(rows)):
        if k == room:
            return i, k
        row = rows[i]
        _squared_to_all_compiled(row, centers, k, squared)
        best, least = -1, penalty
        for c in range(k):
            if squared[c] < least and not _would_split_compiled(row, c, penalty, boxes):
                best, least = c, squared[c]
        if best < 0:
            for j in range(len(row)):
                centers[j, k] = lows[j, k] = highs[j, k] = row[j]
            weights[k] = 1.0
            k += 1
            continue
        _take_compiled(row, best, centers, weights)
        widest, column = -1.0, 0
        for j in range(len(row)):
            lows[j, best] = min(lows[j, best], row[j])
            highs[j, best] = max(highs[j, best], row[j])
            if highs[j, best] - lows[j, best] > widest:
                widest, column = highs[j, best] - lows[j, best], j
        if weights[best] * (widest * widest) > 16.0 * penalty:
            _cut(best, k, column, boxes)
            k += 1
    return len(rows), k
