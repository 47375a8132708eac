"""Cells of space, each with the centers that can be the nearest of a row in it.

In up to three columns, the leaves of a tree of the centers (`center_tree`) are cut into cells that
are about half as wide as centers are apart.  Two to ten centers are candidates of a cell, so that a
row takes a fifth to a third of the time that the search of the tree takes.  A center is left out of
a cell if its least squared distance to the cell is greater than the greatest one of another center,
or of two others if the two nearest are asked for.  These distances are summed as the definition in
`distance` sums the distance of a row, and rounding is monotone, so that no margin is needed.  The
definition decides between the candidates, in the order of their numbers.

Rows that are far from the centers of their leaf, and rows of cells with many candidates, are
searched for in the tree.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Int64Array, Rows
from dask_dpmeans.kernels.center_tree import CenterTree, TreeParts
from dask_dpmeans.kernels.numba_support import compile_loop, compile_part, pays

WIDTH = 16
"""Places of a leaf, as in `center_tree`; a constant, so that loops over them are unrolled."""
MOST_COLUMNS = 3
"""Most columns of cells: a ball around a cell has more centers with each column."""
LEAST_CENTERS = 2**8
"""Fewest centers for which there are cells.

In one, two and three columns a row took 21, 47 and 56 ns in cells of 256 centers, 101, 164 and 187
in the tree, and 121, 79 and 81 by the matrix product; of 128 centers 20, 44 and 51, by the product
45 to 48.
"""
NOTHING = np.empty(0)
CELLS = (0, 32, 64, 128)
"""Cells of a leaf, by the number of columns: with half as many in 3 columns, a row took 1.1 to 1.4
times as long, and with twice as many .8 to 1.1, but cells then take twice as long to make."""
MOST_CANDIDATES = 40
"""Most candidates of a cell; the tree is searched for rows of a cell with more."""
OPEN = 256
"""Most centers that are kept while the candidates of a cell are sought."""
TILE = 256
"""Rows that go down the tree together."""
ROWS_OF_CELL = 4
"""Rows that are searched for without cells before there are cells, for each cell.

To make a cell took as long as to search the tree for 3 to 6 rows.
"""
MOST_LEFT = 0.25
"""Share of the rows of a block that cells may leave; with more, cells are not used for the block."""
LEAST_EXTENT = 1e-290
"""Least extent of a leaf's cells along a column: the width of a cell, and its inverse, keep all digits."""
TREE_WORK = 300
"""Numbers that NumPy handles in the time in which the tree finds the nearest center of a row."""
Leaves = tuple[Float64Array, Int64Array, Int64Array]
"""Of each leaf: least and greatest values of its cells and cells for each unit, (m, 3, d), numbers
of cells along each column, (m, d), and the number of its first cell, (m + 1,)."""
Cells = tuple[Int64Array, npt.NDArray[np.int32]]
"""The start of each cell's list or -1 for too many candidates, and lists after their length."""


@dataclass(frozen=True)
class CenterGrid:
    """The cells of a tree, for searches of the `count` (1 or 2) nearest centers."""

    tree: CenterTree
    values: Float64Array
    """The centers, (k, d)."""
    count: int
    leaves: Leaves
    cells: Cells

    @classmethod
    def of(cls, tree: CenterTree, values: Float64Array, count: int) -> Self:
        """Return the cells of a tree of centers, (k, d), d <= 3."""
        d, m = values.shape[1], len(tree.points)
        boxes, sides = np.empty((m, 3, d)), np.empty((m, d), np.int64)
        _fill_leaves(tree.parts, CELLS[d], boxes, sides)
        firsts = np.concatenate([[0], np.cumsum(sides.prod(axis=1))])
        leaves, starts = (boxes, sides, firsts), np.empty(firsts[-1], np.int64)
        lists = np.empty((MOST_CANDIDATES + 1) * len(starts), np.int32)
        lists = lists[: _fill_lists(tree.parts, leaves, count, starts, lists)].copy()
        return cls(tree, np.array(values, order="C"), count, leaves, (starts, lists))

    def nearest(self, rows: Rows, squared: Float64Array) -> IndexArray | None:
        """Return the `count` nearest centers of each row, (count, n); see `CenterTree.nearest`.

        None if many rows are in no cell, or in cells with many candidates.
        """
        labels, left = np.empty((self.count, len(rows)), np.intp), np.empty(len(rows), np.bool_)
        _search(rows, self.tree.parts, self.leaves, self.cells, self.values, labels, squared, left)
        which = np.flatnonzero(left)
        if len(which) > MOST_LEFT * len(rows):
            return None
        if len(which):
            found = np.empty(len(which) if squared.size else 0)
            labels[:, which] = self.tree.nearest(rows[which], self.count, found)
            if squared.size:
                squared[which] = found
        return labels


def grid_pays(tree: CenterTree, rows: Rows, searched: int) -> bool:
    """Return whether to make cells for rows, (n, d), after rows like these were `searched` for.

    Loops that are not compiled yet may have to wait, as `numba_support.pays` tells.
    """
    d = rows.shape[1]
    if d > MOST_COLUMNS or searched < ROWS_OF_CELL * CELLS[d] * len(tree.points):
        return False
    ints, floats = np.empty((1, 0), np.int64), np.empty((1, 1, 0))
    leaves, cells = (floats, ints, ints[0]), (ints[0], np.empty(0, np.int32))
    given = rows, tree.parts, leaves, cells, floats[0], ints, NOTHING, np.empty(0, np.bool_)
    return pays(_search, given, TREE_WORK * len(rows), others=(_fill_leaves, _fill_lists))


@compile_part
def _spacing(points: Float64Array) -> float:
    """Return the greatest distance of a point, of (d, WIDTH), to the nearest other one.

    Points at infinity are none.
    """
    d, width = points.shape
    greatest = 0.0
    for one in range(width):
        nearest = np.inf
        for two in range(width):
            if one != two:
                squared = 0.0
                for j in range(d):
                    difference = points[j, one] - points[j, two]
                    squared += difference * difference
                nearest = min(nearest, squared)
        if nearest < np.inf:
            greatest = max(greatest, nearest)
    return float(np.sqrt(greatest))


@compile_part
def _fill_sides(box: Float64Array, most: int, sides: Int64Array) -> None:
    """Fill in the numbers of cells, (d,), along the columns of a box, (2, d), so that they are cubes.

    There are at most about `most` cells.  A column that is narrower than a cell has one.
    """
    extents = box[1] - box[0]
    widest = 0.0
    for j in range(len(sides)):
        widest = max(widest, extents[j])
    for j in range(len(sides)):
        sides[j] = 0 if extents[j] > 0 and extents[j] * most > widest else 1
    for _ in range(len(sides)):
        volume, wide = 1.0, 0
        for j in range(len(sides)):
            if sides[j] == 0:
                volume, wide = volume * (extents[j] / widest), wide + 1
        width = widest * (volume / most) ** (1 / max(wide, 1))
        for j in range(len(sides)):
            if sides[j] == 0 and not extents[j] > width:
                sides[j] = 1
    for j in range(len(sides)):
        if sides[j] == 0:
            sides[j] = min(most, int(extents[j] / width + 0.5))


@compile_loop
def _fill_leaves(tree: TreeParts, most_cells: int, boxes: Float64Array, sides: Int64Array) -> None:
    """Fill in what `Leaves` has of the leaves of a tree.

    The cells of a leaf are where its centers are, and as far around as these are apart, but only
    where rows go down to this leaf.
    """
    around, columns, cuts, points, _, _ = tree
    leaves, d = len(points), points.shape[1]
    region = np.empty((2, d))
    for leaf in range(leaves):
        region[0], region[1] = -np.inf, np.inf
        node = leaf + leaves
        while node > 1:
            column, cut = columns[node // 2], cuts[node // 2]
            if node % 2:
                region[0, column] = max(region[0, column], cut)
            else:
                region[1, column] = min(region[1, column], cut)
            node //= 2
        spacing = _spacing(points[leaf])
        for j in range(d):
            least = max(region[0, j], around[leaf + leaves, 0, j] - spacing)
            most = min(region[1, j], around[leaf + leaves, 1, j] + spacing)
            if not LEAST_EXTENT < most - least < np.inf and most != least:
                least, most = np.inf, -np.inf  # no row is in there
            boxes[leaf, 0, j], boxes[leaf, 1, j] = least, most
        _fill_sides(boxes[leaf], most_cells, sides[leaf])
        for j in range(d):
            extent = boxes[leaf, 1, j] - boxes[leaf, 0, j]
            boxes[leaf, 2, j] = sides[leaf, j] / extent if extent > 0 else 0.0


@compile_loop
def _fill_lists(
    tree: TreeParts, leaves: Leaves, count: int, starts: Int64Array, lists: npt.NDArray[np.int32]
) -> int:
    """Fill in the starts and the lists of `Cells`; return the length of the lists."""
    boxes, _, firsts = leaves
    size, box = 0, np.empty((2, boxes.shape[2]))
    found, lows = np.empty(OPEN, np.int64), np.empty(OPEN)
    for leaf in range(len(boxes)):
        for cell in range(firsts[leaf], firsts[leaf + 1]):
            _fill_box(leaves, leaf, cell, box)
            starts[cell] = -1
            if not (box[0] <= box[1]).all():
                continue
            m = _fill_candidates(box, tree, count, found, lows)
            if m <= MOST_CANDIDATES:
                starts[cell], lists[size] = size, m
                for place in range(m):
                    lists[size + 1 + place] = found[place]
                size += m + 1
    return size


@compile_part
def _fill_box(leaves: Leaves, leaf: int, cell: int, box: Float64Array) -> None:
    """Fill in the box, (2, d), of a cell of a leaf.

    It is wider than the cell by what rounding may shift the places of rows in `_fill_cells`, which
    have errors of less than 2^-40 cells and 2^-51 of a coordinate.
    """
    boxes, sides, firsts = leaves
    rest = cell - firsts[leaf]
    for j in range(box.shape[1]):
        least, most = boxes[leaf, 0, j], boxes[leaf, 1, j]
        width = (most - least) / sides[leaf, j]
        error = 2.0**-20 * width + 2.0**-50 * max(abs(least), abs(most))
        box[0, j] = least + rest % sides[leaf, j] * width - error
        box[1, j] = box[0, j] + width + 2 * error
        rest //= sides[leaf, j]


@compile_part
def _to_points(
    box: Float64Array, points: Float64Array, lows: Float64Array, highs: Float64Array
) -> None:
    """Fill in the least and greatest squared distances of points, (d, WIDTH), to a box, (2, d).

    Points at infinity are infinitely far away.
    """
    for i in range(WIDTH):
        lows[i] = highs[i] = 0.0
    for j in range(len(points)):
        for i in range(WIDTH):
            below, above = box[0, j] - points[j, i], points[j, i] - box[1, j]
            gap, reach = max(max(below, above), 0.0), max(-below, -above)
            lows[i] += gap * gap
            highs[i] += reach * reach


@compile_part
def _to_node(box: Float64Array, node: Float64Array) -> float:
    """Return the least squared distance of points of two boxes, (2, d)."""
    low = 0.0
    for j in range(box.shape[1]):
        gap = max(max(node[0, j] - box[1, j], box[0, j] - node[1, j]), 0.0)
        low += gap * gap
    return low


@compile_part
def _keep(found: Int64Array, lows: Float64Array, size: int, bound: float) -> int:
    """Keep of the first `size` centers those whose least distances are within a bound."""
    kept = 0
    for i in range(size):
        if lows[i] <= bound:
            found[kept], lows[kept] = found[i], lows[i]
            kept += 1
    return kept


@compile_part
def _fill_candidates(
    box: Float64Array, tree: TreeParts, count: int, found: Int64Array, lows: Float64Array
) -> int:
    """Fill in the numbers, ascending, of the centers that can be nearest in a box, (2, d).

    These are the centers whose least distance is at most the greatest of the nearest one, or, for a
    `count` of 2, of the second.  Return how many there are, or more than OPEN if there are more, or
    if squared distances overflow.
    """
    boxes, columns, cuts, points, numbers, k = tree
    nodes, leaves = np.empty(64, np.int64), len(points)
    least, greatest = np.empty(WIDTH), np.empty(WIDTH)
    top, node, size, first, second = 0, 1, 0, np.inf, np.inf
    while node < leaves:  # down to the leaf of the middle, for a bound that is nearly the last
        middle = 0.5 * (box[0, columns[node]] + box[1, columns[node]])
        node = 2 * node + (middle >= cuts[node])
        nodes[top], top = node ^ 1, top + 1
    nodes[top], top = node, top + 1
    while top:
        top -= 1
        node = nodes[top]
        if _to_node(box, boxes[node]) > (first if count == 1 else second):
            continue
        if node < leaves:
            nodes[top], nodes[top + 1] = 2 * node, 2 * node + 1
            top += 2
            continue
        _to_points(box, points[node - leaves], least, greatest)
        for place in range(WIDTH):
            low, high = least[place], greatest[place]
            if numbers[node - leaves, place] == k or low > (first if count == 1 else second):
                continue
            if high < first:
                first, second = high, first
            elif high < second:
                second = high
            bound = first if count == 1 else second
            if size == OPEN:
                size = _keep(found, lows, size, bound)
            if size == OPEN:
                return OPEN + 1
            if low <= bound:
                found[size], lows[size] = numbers[node - leaves, place], low
                size += 1
    bound = first if count == 1 else second
    if bound == np.inf:
        return OPEN + 1
    size = _keep(found, lows, size, bound)
    found[:size].sort()
    return size


@compile_loop
def _search(
    rows: Rows,
    tree: TreeParts,
    leaves: Leaves,
    cells: Cells,
    values: Float64Array,
    labels: IndexArray,
    squared: Float64Array,
    left: BoolArray,
) -> None:
    """Fill in the one or two nearest centers of each row, and which rows, (n,), are left to the tree.

    Each step is a loop over the rows of a tile: what it reads for one row does not depend on what it
    reads for another, so that the processor reads for many rows at the same time.
    """
    starts, lists = cells
    places, stops = np.empty(TILE, np.int64), np.empty(TILE, np.int64)
    for first in range(0, len(rows), TILE):
        some = rows[first : first + TILE]
        _fill_cells(some, tree, leaves, places)
        for i in range(len(some)):
            places[i] = starts[places[i]] if places[i] >= 0 else -1
            left[first + i] = places[i] < 0
        for i in range(len(some)):
            stops[i] = places[i] + 1 + lists[places[i]] if places[i] >= 0 else 0
        found, least = labels[:, first : first + TILE], squared[first : first + TILE]
        _fill_nearest(some, values, lists, (places, stops), found, least)


@compile_part
def _fill_cells(rows: Rows, tree: TreeParts, leaves: Leaves, places: Int64Array) -> None:
    """Fill in the numbers of the cells of rows, or -1 for rows outside of all cells."""
    _, columns, cuts, points, _, _ = tree
    boxes, sides, firsts = leaves
    n, d = rows.shape
    places[:n] = 1
    node = 1
    while node < len(points):
        for i in range(n):
            places[i] = 2 * places[i] + (rows[i, columns[places[i]]] >= cuts[places[i]])
        node *= 2
    for i in range(n):
        leaf = places[i] - len(points)
        cell, step = firsts[leaf], 1
        for j in range(d):
            least, value = boxes[leaf, 0, j], rows[i, j]
            if cell >= 0 and least <= value <= boxes[leaf, 1, j]:
                place = np.int64((value - least) * boxes[leaf, 2, j])
                cell += step * min(place, sides[leaf, j] - 1)
                step *= sides[leaf, j]
            else:
                cell = -1
        places[i] = cell


@compile_part
def _fill_nearest(
    rows: Rows,
    values: Float64Array,
    lists: npt.NDArray[np.int32],
    ends: tuple[Int64Array, Int64Array],
    labels: IndexArray,
    squared: Float64Array,
) -> None:
    """Fill in the one or two nearest candidates of each row; its list is where `ends` begin and stop."""
    (starts, stops), two = ends, len(labels) == 2
    for i in range(len(rows)):
        least, second, label, other = np.inf, np.inf, 0, 0
        for place in range(starts[i] + 1, stops[i]):
            number, distance = lists[place], 0.0
            for j in range(values.shape[1]):
                difference = rows[i, j] - values[number, j]
                distance += difference * difference
            if distance < least:
                least, second, label, other = distance, least, number, label
            elif two and distance < second:
                second, other = distance, number
        labels[0, i] = label
        if two:
            labels[1, i] = other
        if squared.size:
            squared[i] = least
