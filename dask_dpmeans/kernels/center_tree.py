"""A tree of centers that finds the nearest ones of a row without looking at most of them.

The tree halves the centers at the median of the widest column, down to leaves of at most `LEAF`
centers (Friedman, Bentley & Finkel 1977).  A node knows the box around its centers.  The squared
distance of a row to a box is summed as the definition in `distance` sums a row's to a center:
over the columns, in order, in float64.  Rounding is monotone, so that the computed distance to a
box never exceeds the computed distance to a center in it.  A box that is farther than the best
center so far is skipped, and the answer is the definition's without any margin.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Int64Array, Rows
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part, pays

LEAF = 16
"""Most centers of a leaf; with 8 a row took 1.1 times as long at d = 2 to 8, with 4 twice."""
WIDTH = 16
"""Places of a leaf; a constant, so that loops over them are unrolled."""
LEAST_CENTERS = 128
"""Fewest centers for which there is a tree: with fewer, the matrix product is faster."""
LEAST_ROWS = 256
"""Fewest rows for which a tree is built; building takes as long as the product for so many."""
MOST_COLUMNS = 64
"""Most columns for which a tree is tried."""
TRIAL = 32
"""Rows by which the steps that the tree takes are counted before it takes all rows."""
TreeParts = tuple[Float64Array, Int64Array, Float64Array, Float64Array, Int64Array, int]
"""The fields of a `CenterTree`."""


@dataclass(frozen=True)
class CenterTree:
    """Centers in a balanced binary tree; node i has the children 2 i and 2 i + 1, the root is 1."""

    boxes: Float64Array
    """(2 m, 2, d), least and greatest values of the centers of each node."""
    columns: Int64Array
    """(m,), the column in which each inner node was halved."""
    cuts: Float64Array
    """(m,), the least value there of the upper half."""
    points: Float64Array
    """(m, d, WIDTH), centers of each leaf; infinity in places without one."""
    numbers: Int64Array
    """(m, WIDTH), their numbers; k in places without one."""
    k: int
    """Number of centers."""

    @classmethod
    def of(cls, values: Float64Array) -> Self:
        """Return the tree of centers, (k, d)."""
        k, d = values.shape
        leaves = 1 << max(0, -(-k // LEAF) - 1).bit_length()
        boxes = np.empty((2 * leaves, 2, d))
        columns, cuts = np.zeros(leaves, np.int64), np.zeros(leaves)
        points = np.full((leaves, d, WIDTH), np.inf)
        numbers = np.full((leaves, WIDTH), k, np.int64)
        starts = np.zeros((2, 2 * leaves), np.int64)
        starts[1, 1] = k
        _build(values.copy(), np.arange(k), starts, boxes, columns, cuts, points, numbers)
        return cls(boxes, columns, cuts, points, numbers, k)

    def pays(self, rows: Rows, count: int) -> bool:
        """Return whether the tree is faster than the product for rows, (n, d), by the steps of a few.

        They are counted with the `count` nearest that are wanted: in 16 columns, rows that lie close to
        one of 16,384 centers took 12 times as long for two as for one.  A level took about 20 ns and a
        node 30 + 3 d; the product and its maximum .2 + .019 d ns for a center.
        """
        some = np.ascontiguousarray(rows[:: -(-len(rows) // TRIAL)])
        labels = np.empty((count, len(some)), np.intp)
        steps = _search(some, self.parts, labels, np.empty(len(some)))
        d, levels = rows.shape[1], len(self.points).bit_length() - 1
        product = self.k * (0.2 + 0.019 * d)
        return bool(steps * (30 + 3 * d) < len(some) * (product - 20 * levels))

    @property
    def parts(self) -> TreeParts:
        """Arguments of the compiled loop."""
        return self.boxes, self.columns, self.cuts, self.points, self.numbers, self.k

    def nearest(self, rows: Rows, count: int, squared: Float64Array) -> IndexArray:
        """Return the `count` (1 or 2) nearest centers of each row, (count, n).

        Fill `squared`, (n,), with squared distances to the nearest unless it is empty.
        """
        labels = np.empty((count, len(rows)), np.intp)
        _search(rows, self.parts, labels, squared)
        return labels


def tree_pays(rows: Rows, work: int) -> bool:
    """Return whether trees may be searched for rows, (n, d); see `numba_support.pays`."""
    ints, floats = np.empty((1, 0), np.int64), np.empty((1, 1, 0))
    parts: TreeParts = floats, ints[0], floats[0, 0], floats, ints, 0
    return pays(_search, (rows, parts, ints, np.empty(0)), work, others=(_build,))


@compile_part
def _swap(points: Float64Array, order: Int64Array, i: int, j: int) -> None:
    order[i], order[j] = order[j], order[i]
    for column in range(points.shape[1]):
        one = points[i, column]
        points[i, column] = points[j, column]
        points[j, column] = one


@compile_part
def _split(points: Float64Array, order: Int64Array, column: int, start: int, stop: int) -> None:
    """Reorder points `start` to `stop`: the lower half first, by a column."""
    low, high, middle, keys = start, stop - 1, (start + stop) // 2, points[:, column]
    while low < high:
        one, two, three = keys[low], keys[(low + high) // 2], keys[high]
        pivot = max(min(one, two), min(max(one, two), three))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                _swap(points, order, i, j)
                i, j = i + 1, j - 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@compile_part
def _fill_box(points: Float64Array, start: int, stop: int, box: Float64Array) -> int:
    """Fill in the box, (2, d), around points `start` to `stop`; return its widest column."""
    for j in range(points.shape[1]):
        box[0, j] = box[1, j] = points[start, j]
    for i in range(start + 1, stop):
        for j in range(points.shape[1]):
            box[0, j], box[1, j] = min(box[0, j], points[i, j]), max(box[1, j], points[i, j])
    widest = 0
    for j in range(points.shape[1]):
        if box[1, j] - box[0, j] > box[1, widest] - box[0, widest]:
            widest = j
    return widest


@compile_loop
def _build(
    ordered: Float64Array,
    order: Int64Array,
    ends: Int64Array,
    boxes: Float64Array,
    columns: Int64Array,
    cuts: Float64Array,
    points: Float64Array,
    numbers: Int64Array,
) -> None:
    """Fill in the arrays of a `CenterTree` of centers, (k, d), of which copies are reordered.

    `order` is 0, 1, ..., k - 1.  `ends`, (2, 2 m), are where the centers of each node begin and end;
    at first the root has its own alone.
    """
    leaves, (starts, stops) = len(points), ends
    for node in range(1, 2 * leaves):
        start, stop = starts[node], stops[node]
        column = _fill_box(ordered, start, stop, boxes[node])
        if node < leaves:
            middle = (start + stop) // 2
            _split(ordered, order, column, start, stop)
            columns[node], cuts[node] = column, ordered[middle, column]
            starts[2 * node], stops[2 * node] = start, middle
            starts[2 * node + 1], stops[2 * node + 1] = middle, stop
        else:
            for i in range(start, stop):
                numbers[node - leaves, i - start] = order[i]
                for j in range(ordered.shape[1]):
                    points[node - leaves, j, i - start] = ordered[i, j]


@compile_part
def _to_box(row: Float64Array, box: Float64Array) -> float:
    """Return the squared distance of a row, (d,), to a box, (2, d), summed as the definition is."""
    total = 0.0
    for j in range(len(row)):
        gap = max(max(box[0, j] - row[j], row[j] - box[1, j]), 0.0)
        total += gap * gap
    return total


@compile_part
def _to_points(row: Float64Array, points: Float64Array, squared: Float64Array) -> None:
    """Fill in the squared distances, (WIDTH,), of a row, (d,), to points, (d, WIDTH)."""
    for i in range(WIDTH):
        squared[i] = 0.0
    for j in range(len(row)):
        for i in range(WIDTH):
            difference = row[j] - points[j, i]
            squared[i] += difference * difference


@compile_part
def _two_least(
    numbers: Int64Array, distances: Float64Array, best: tuple[float, float, int, int], count: int
) -> tuple[float, float, int, int]:
    """Return the two least distances and their numbers, out of a leaf and of those so far.

    The second one is not followed if `count` is 1.
    """
    first, second, label, other = best
    bound = first if count == 1 else second
    for place in range(WIDTH):
        number, distance = numbers[place], distances[place]
        if distance > bound:
            continue
        if distance < first or (distance == first and number < label):
            first, second, label, other = distance, first, number, label
        elif distance < second or (distance == second and number < other):
            second, other = distance, number
        bound = first if count == 1 else second
    return first, second, label, other


@compile_part
def _first_leaf(
    row: Float64Array,
    columns: Int64Array,
    cuts: Float64Array,
    nodes: Int64Array,
    distances: Float64Array,
) -> tuple[int, int]:
    """Return the leaf of a row by the cuts alone, and how many nodes are left to visit.

    Distances to these are not known yet, -1.
    """
    top, node = 0, 1
    while node < len(cuts):
        node = 2 * node + (row[columns[node]] >= cuts[node])
        nodes[top], distances[top] = node ^ 1, -1.0
        top += 1
    return node, top


@compile_loop
def _search(rows: Rows, tree: TreeParts, labels: IndexArray, squared: Float64Array) -> int:
    """Fill in the one or two nearest centers of each row; return the number of visited nodes.

    See `CenterTree.nearest`.  The first leaf is found by the cuts alone, which takes half the time.
    A row of NaN has the first centers.
    """
    boxes, columns, cuts, points, numbers, k = tree
    (n, d), leaves, count = rows.shape, len(points), len(labels)
    nodes, distances = np.empty(64, np.int64), np.empty(64)
    row, found, steps = np.empty(d), np.empty(WIDTH), 0
    for i in range(n):
        for j in range(d):
            row[j] = rows[i, j]
        node, top = _first_leaf(row, columns, cuts, nodes, distances)
        best, bound = (np.inf, np.inf, k, k), np.inf
        while node:
            steps += 1
            if node < leaves:
                node *= 2
                near, far = _to_box(row, boxes[node]), _to_box(row, boxes[node + 1])
                nodes[top], distances[top] = node + 1, far
                if far < near:
                    nodes[top], distances[top] = node, near
                    node, far, near = node + 1, near, far
                if not far > bound:
                    top += 1
                if not near > bound:
                    continue
            else:
                _to_points(row, points[node - leaves], found)
                best = _two_least(numbers[node - leaves], found, best, count)
                bound = best[0] if count == 1 else best[1]
            node = 0
            while top and not node:
                top -= 1
                if distances[top] < 0.0:
                    distances[top] = _to_box(row, boxes[nodes[top]])
                if not distances[top] > bound:
                    node = nodes[top]
        first, _, label, other = best
        if label == k:  # all distances are NaN
            label, other, first = 0, 1, np.nan
        labels[0, i] = label
        if count == 2:
            labels[1, i] = other
        if squared.size:
            squared[i] = first
    return steps
