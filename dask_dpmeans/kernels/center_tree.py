"""A tree of centers that finds the nearest ones of a row without looking at most of them.

The tree halves the centers at the median of the widest column, down to leaves of at most `LEAF`
centers (Friedman, Bentley & Finkel 1977).  A node knows the box around its centers.  The squared
distance of a row to a box is summed as the definition in `distance` sums that of a row to a center:
over the columns, in order, in float64.  Rounding is monotone, so that the computed distance to a
box never exceeds the computed distance to a center in it.  A box that is farther than the best
center so far is skipped, and the answer is the definition's without any margin.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Int64Array, Rows
from dask_dpmeans.kernels.numba_support import compile_loop

LEAF = 16
"""Most centers of a leaf; with 8 a row took 1.1 times as long at d = 2 to 8, with 4 twice."""
LEAST_CENTERS = 128
"""Fewest centers for which there is a tree: with fewer, the matrix product is faster."""
LEAST_ROWS = 256
"""Fewest rows for which a tree is built; building takes as long as the product for so many."""
MOST_COLUMNS = 64
"""Most columns for which a tree is tried."""
TRIAL = 32
"""Rows by which the steps that the tree takes are counted before it takes all rows."""


@dataclass(frozen=True)
class CenterTree:
    """Centers in a balanced binary tree; node i has the children 2 i and 2 i + 1, the root is 1."""

    boxes: Float64Array
    """(2 m, 2, d), least and greatest values of the centers of each node."""
    points: Float64Array
    """(m, d, leaf), centers of each leaf; infinity where there is none."""
    numbers: Int64Array
    """(m, leaf), their numbers; k where there is none."""
    k: int
    """Number of centers."""

    @classmethod
    def of(cls, values: Float64Array) -> Self:
        """Return the tree of centers, (k, d)."""
        k, d = values.shape
        leaves = 1 << max(0, -(-k // LEAF) - 1).bit_length()
        boxes, order = np.empty((2 * leaves, 2, d)), np.arange(k)
        points = np.full((leaves, d, -(-k // leaves)), np.inf)
        numbers = np.full((leaves, points.shape[2]), k, np.int64)
        _build(values, order, boxes, points, numbers)
        return cls(boxes, points, numbers, k)

    def pays(self, rows: Rows) -> bool:
        """Return whether the tree is faster than the product, by the steps of a few rows, (n, d).

        A step took about 18 + 3 d ns; the product and the search in it .4 + .04 d for a center.
        """
        some = rows[:: -(-len(rows) // TRIAL)]
        labels = np.empty((1, len(some)), np.intp)
        steps = _search(some, *self.parts, labels, np.empty(len(some)))
        d = rows.shape[1]
        return bool(steps * (18 + 3 * d) < len(some) * self.k * (0.4 + 0.04 * d))

    @property
    def parts(self) -> tuple[Float64Array, Float64Array, Int64Array, int]:
        """Arguments of the compiled loop."""
        return self.boxes, self.points, self.numbers, self.k

    def nearest(self, rows: Rows, count: int, squared: Float64Array) -> IndexArray:
        """Return the `count` (1 or 2) nearest centers of each row, (count, n).

        Fill `squared`, (n,), with squared distances to the nearest unless it is empty.
        """
        labels = np.empty((count, len(rows)), np.intp)
        _search(rows, *self.parts, labels, squared)
        return labels


@compile_loop
def _split(keys: Float64Array, order: Int64Array, start: int, stop: int, middle: int) -> None:
    """Reorder `order[start:stop]` so that keys before `middle` are at most those after it."""
    low, high = start, stop - 1
    while low < high:
        one, two, three = keys[order[low]], keys[order[(low + high) // 2]], keys[order[high]]
        pivot = max(min(one, two), min(max(one, two), three))
        i, j = low, high
        while i <= j:
            while keys[order[i]] < pivot:
                i += 1
            while keys[order[j]] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i, j = i + 1, j - 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@compile_loop
def _build(
    values: Float64Array,
    order: Int64Array,
    boxes: Float64Array,
    points: Float64Array,
    numbers: Int64Array,
) -> None:
    """Fill in boxes and leaves of the tree of centers, (k, d), whose numbers are `order`, (k,)."""
    (k, d), leaves = values.shape, len(points)
    starts, stops = np.zeros(2 * leaves, np.int64), np.zeros(2 * leaves, np.int64)
    stops[1] = k
    for node in range(1, 2 * leaves):
        start, stop, widest, width = starts[node], stops[node], 0, -1.0
        for j in range(d):
            least = greatest = values[order[start], j]
            for i in range(start + 1, stop):
                value = values[order[i], j]
                least, greatest = min(least, value), max(greatest, value)
            boxes[node, 0, j], boxes[node, 1, j] = least, greatest
            if greatest - least > width:
                widest, width = j, greatest - least
        if node < leaves:
            middle = (start + stop) // 2
            _split(values[:, widest], order, start, stop, middle)
            starts[2 * node], stops[2 * node] = start, middle
            starts[2 * node + 1], stops[2 * node + 1] = middle, stop
        else:
            for i in range(stop - start):
                numbers[node - leaves, i] = order[start + i]
                for j in range(d):
                    points[node - leaves, j, i] = values[order[start + i], j]


@compile_loop
def _to_box(row: Float64Array, box: Float64Array) -> float:
    """Return the squared distance of a row, (d,), to a box, (2, d), summed as the definition is."""
    total = 0.0
    for j in range(len(row)):
        gap = max(max(box[0, j] - row[j], row[j] - box[1, j]), 0.0)
        total += gap * gap
    return total


@compile_loop
def _to_points(row: Float64Array, points: Float64Array, squared: Float64Array) -> None:
    """Fill in the squared distances, (leaf,), of a row, (d,), to points, (d, leaf)."""
    squared[:] = 0.0
    for j in range(len(row)):
        for i in range(len(squared)):
            difference = row[j] - points[j, i]
            squared[i] += difference * difference


@compile_loop
def _search(
    rows: Rows,
    boxes: Float64Array,
    points: Float64Array,
    numbers: Int64Array,
    k: int,
    labels: IndexArray,
    squared: Float64Array,
) -> int:
    """Fill in the one or two nearest centers of each row; return the number of visited nodes.

    See `CenterTree` and `CenterTree.nearest`.  A row of NaN has the first centers.
    """
    (n, d), leaves, count = rows.shape, len(points), len(labels)
    nodes, distances = np.empty(64, np.int64), np.empty(64)
    row, found, steps = np.empty(d), np.empty(points.shape[2]), 0
    for i in range(n):
        for j in range(d):
            row[j] = rows[i, j]
        first = second = bound = np.inf
        label = other = k
        top, node = 0, 1
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
                for place in range(len(found)):
                    number, distance = numbers[node - leaves, place], found[place]
                    if distance < first or (distance == first and number < label):
                        first, second, label, other = distance, first, number, label
                    elif distance < second or (distance == second and number < other):
                        second, other = distance, number
                bound = first if count == 1 else second
            node = 0
            while top and not node:
                top -= 1
                if not distances[top] > bound:
                    node = nodes[top]
        if label == k:  # all distances are NaN
            label, other, first = 0, 1, np.nan
        labels[0, i] = label
        if count == 2:
            labels[1, i] = other
        if squared.size:
            squared[i] = first
    return steps
