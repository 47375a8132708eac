"""Squared distances, and the nearest center of every row.

The squared distance of a row and a center *is* the float64 sum, over the columns in order, of
``(x[j] - center[j]) ** 2``, each operation rounded once (no fused multiply-add).  Equal distances
go to the lowest center number.  `squared_distances` computes the definition.  `nearest` ranks by
one matrix product, ``x . c - |c|^2 / 2``, and hands every row whose two best centers lie within the
rounding of that product to the definition, so that its answer is the definition's for any BLAS,
number of threads and height of the block.  For many centers in few columns, a tree of the centers
takes the place of the product (`center_tree`), or cells of space (`center_grid`); in many columns, a
product of fewer columns (`leading_columns`).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from dask_dpmeans.kernels import distance_compiled, numba_support
from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Rows, Scratch
from dask_dpmeans.kernels.center_grid import LEAST_CENTERS as LEAST_GRID
from dask_dpmeans.kernels.center_grid import CenterGrid, grid_pays
from dask_dpmeans.kernels.center_tree import (
    LEAST_CENTERS,
    LEAST_ROWS,
    MOST_COLUMNS,
    CenterTree,
    tree_pays,
)
from dask_dpmeans.kernels.definition_compiled import (
    is_narrow,
    nearest_by_definition,
    nearest_of_narrow_rows,
    squared_distances_compiled,
    two_nearest_of_narrow_rows,
)
from dask_dpmeans.kernels.leading_columns import LEAST_CENTERS as LEAST_TURNED
from dask_dpmeans.kernels.leading_columns import LEAST_COLUMNS, LeadingColumns, axes_pay
from dask_dpmeans.kernels.linear_costs import (
    Linear,
    csr_costs,
    linear_costs,
    linear_sums,
    nearest_csr,
)
from dask_dpmeans.kernels.numba_support import pays
from dask_dpmeans.kernels.ranking import Ranking

if TYPE_CHECKING:
    from dask_dpmeans.kernels.divergence import Divergence

FEW_DIFFERENCES = 2**16
"""Differences of rows and centers up to which the definition alone is faster than a ranking."""
COMPILED_TILE = 176
"""Most rows that compiled loops rank together: their float32 scores fill 11 lines of the cache.

256 scores lie a power of two apart, and displace one another there: at k = 64 to 256 and d = 3 and
10 tiles of 256 rows took 1.2 to 1.9 times as long, at d = 32 and above .9 to 1.06 times."""
LEAST_COMPILED_TILE = 2**7
"""Least of these: at d = 129, k = 32 products of 256 rows took 1.9 times as long as of 128."""
NOTHING = np.empty(0)
"""In place of constants or of squared distances that nobody asks for."""


@dataclass(frozen=True)
class Centers:
    """Cluster centers, ready to be ranked against rows of either precision."""

    values: Float64Array
    """The centers as given, (k, d)."""
    divergence: "Divergence | None" = None
    """What a row costs at a center; None for the squared distance, by its fast paths."""
    most: float = math.inf
    """Cost above which a row is an outlier, which belongs to no center and costs this."""

    def __len__(self) -> int:
        return len(self.values)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: trees and cells of the centers are made anew in each process."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @property
    def takes_csr(self) -> bool:
        """Whether encoded rows may be CSR: squared distances are computed of dense rows."""
        return self.divergence is not None

    @cached_property
    def linear(self) -> Linear | None:
        """The costs, if they are linear in the row."""
        return None if self.divergence is None else self.divergence.linear(self.values)

    @cached_property
    def definition(self) -> Linear:
        """Linear costs, or centers without constants, of which the definition is computed."""
        return self.linear or Linear(self.values, NOTHING)

    @cached_property
    def columns(self) -> Float64Array:
        """(d, k), what is multiplied with each column of the rows."""
        return np.ascontiguousarray(self.definition.coefficients.T)

    @property
    def ranked(self) -> bool:
        """Whether one product ranks the centers."""
        return self.divergence is None or self.linear is not None

    def searchable(self, rows: Rows, work: int) -> bool:
        """Return whether a tree of the centers may be tried on rows, (n, d); see `pays` for work."""
        k, d = self.values.shape
        if self.divergence is not None or k < LEAST_CENTERS or d > MOST_COLUMNS:
            return False
        return "tree" in vars(self) or (len(rows) >= LEAST_ROWS and tree_pays(rows, work))

    def ranks_all(self, rows: Rows) -> bool:
        """Return whether a ranking of all centers is the fastest search for rows, (n, d)."""
        (k, d), known = self.values.shape, vars(self)
        if self.divergence is not None or is_narrow(self.values, NOTHING, 2):
            return False
        if k >= LEAST_TURNED and d >= LEAST_COLUMNS:
            return False
        if "ranked_all" not in known:
            searchable = self.searchable(rows, _work(rows, self.values))
            known["ranked_all"] = not searchable or not self.tree.pays(rows, 2)
        ranked_all: bool = known["ranked_all"]
        return ranked_all

    @cached_property
    def tree(self) -> CenterTree:
        """A tree of the centers, built once in each process."""
        return CenterTree.of(self.values)

    def grid(self, rows: Rows, count: int) -> CenterGrid | None:
        """Return cells of the tree for `count` nearest centers, made once there were many rows."""
        found, name = vars(self), f"grid_{count}"
        if name not in found and len(self) >= LEAST_GRID:
            searched = found[f"searched_{count}"] = found.get(f"searched_{count}", 0) + len(rows)
            if grid_pays(self.tree, rows, searched):
                found[name] = None  # for other threads, which would make the same cells
                found[name] = CenterGrid.of(self.tree, self.values, count)
        grid_or_none: CenterGrid | None = found.get(name)
        return grid_or_none

    def leading(self, rows: Rows, count: int, work: int) -> LeadingColumns | None:
        """Return the centers on main axes if the `count` nearest of rows, (n, d), are found faster by them.

        That is tried once for each count.
        """
        (k, d), found, name = self.values.shape, vars(self), f"turned_{count}"
        if self.divergence is not None or k < LEAST_TURNED or d < LEAST_COLUMNS:
            return None
        if name not in found and len(rows) >= LEAST_ROWS and axes_pay(rows, work):
            found[name] = LeadingColumns.of(self.values, rows, count)
        turned: LeadingColumns | None = found.get(name)
        return turned

    @cached_property
    def single(self) -> Ranking:
        """The ranking in float32, which every row goes through, whatever its precision."""
        return self._ranking(np.float32)

    @cached_property
    def double(self) -> Ranking:
        """The ranking in float64, of rows that the other leaves in doubt."""
        return self._ranking(np.float64)

    def _ranking(self, dtype: type[np.float32] | type[np.float64]) -> Ranking:
        if self.linear is not None:
            return Ranking.of_linear(self.linear, dtype)
        return Ranking.of(self.values, dtype)


def costs(
    rows: Rows, centers: Centers, labels: IndexArray, scratch: Scratch | None = None
) -> Float64Array:
    """Return the cost of each row, (n, d), at the center of its label, (n,) float64."""
    if issparse(rows):
        return csr_costs(rows, centers.definition, labels)
    if centers.linear is not None:
        return linear_costs(rows, centers.linear, labels, scratch)
    if centers.divergence is not None:
        return centers.divergence.costs(rows, centers.values, labels)
    return squared_distances(rows, centers.values, labels, scratch)


def squared_distances(
    rows: Rows, centers: Float64Array, labels: IndexArray, scratch: Scratch | None = None
) -> Float64Array:
    """Return the squared distance, by definition, of each row to the center of its label.

    Parameters
    ----------
    rows : (n, d), float32 or float64
    centers : (k, d)
    labels : (n,), numbers of centers
    scratch : working memory

    Returns
    -------
    (n,) float64, in squared units of the rows
    """
    n, d = rows.shape
    squared = np.empty(n)
    given = rows, centers, labels, squared
    if pays(squared_distances_compiled, given, 2 * rows.size):
        squared_distances_compiled(*given)
        return squared
    scratch = scratch or Scratch()
    tile = max(1, 2**15 // d)
    for start in range(0, n, tile):
        part = slice(start, min(start + tile, n))
        height = part.stop - start
        differences = scratch.array("differences", (height, d), np.float64)
        np.take(centers, labels[part], axis=0, out=differences, mode="clip")
        np.subtract(rows[part], differences, out=differences)
        columns = scratch.array("columns", (d, height), np.float64)
        columns[...] = differences.T
        np.multiply(columns, columns, out=columns)
        total = squared[part]
        if height > 1:
            np.add.reduce(columns, axis=0, out=total)  # one row of `columns` after the other
        else:
            total[0] = np.add.accumulate(columns[:, 0])[-1]
    return squared


def nearest(rows: Rows, centers: Centers, scratch: Scratch | None = None) -> IndexArray:
    """Return the number of the nearest center of each row, the lowest among equals.

    Rows are (n, d), float32 or float64, or encoded CSR rows; the answer is (n,).
    """
    if centers.divergence is not None and not centers.ranked:
        return centers.divergence.nearest(rows, centers.values)[0]
    labels: IndexArray = _rank(Query(rows, centers, scratch or Scratch(), 1))[0]
    return labels


def nearest_squared(
    rows: Rows, centers: Centers, scratch: Scratch | None = None
) -> tuple[IndexArray, Float64Array]:
    """Return the number of the nearest center of each row, (n,), and its squared distance, (n,)."""
    if centers.divergence is not None and not centers.ranked:
        return centers.divergence.nearest(rows, centers.values)
    squared = np.empty(rows.shape[0])
    return _rank(Query(rows, centers, scratch or Scratch(), 1, squared))[0], squared


def nearest_two(
    rows: Rows, centers: Centers, scratch: Scratch | None = None, gaps: Float64Array = NOTHING
) -> tuple[IndexArray, IndexArray]:
    """Return the numbers of the two nearest of k >= 2 centers of each row, (n,) and (n,).

    The lower number is first among equals.  Parameters are as in `nearest`.  `gaps`, (n,) zeros,
    are raised to lower bounds of how much farther the third nearest center is than the second, in
    squared distances, where a ranking by compiled loops tells.
    """
    if centers.divergence is not None and rows.shape[0] and not centers.ranked:
        return centers.divergence.nearest_two(rows, centers.values)
    labels, seconds = _rank(Query(rows, centers, scratch or Scratch(), 2, gaps=gaps))
    return labels, seconds


class Query(NamedTuple):
    """Rows whose nearest centers are wanted."""

    rows: Rows
    centers: Centers
    scratch: Scratch
    wanted: int
    """Centers of each row, 1 or 2."""
    squared: Float64Array = NOTHING
    """(n,), filled with squared distances to the nearest center unless it is empty."""
    gaps: Float64Array = NOTHING
    """See `nearest_two`."""


def _rank(query: Query) -> IndexArray:
    """Return the nearest centers of each row, (wanted, n)."""
    rows, centers, scratch, count, squared, _ = query
    if issparse(rows):
        return nearest_csr(rows, centers.definition, centers.columns, count, squared)
    if len(centers) == 1 or not len(rows):
        labels = np.zeros((count, len(rows)), np.intp)
        if squared.size:
            squared[:] = costs(rows, centers, labels[0], scratch)
        return labels
    if numba_support.AVAILABLE:
        found = _without_ranking(query)
        if found is not None:
            return found
    labels, unsure = _rank_by(centers.single, query)
    if unsure.size:
        doubles = rows[unsure].astype(np.float64)
        labels[:, unsure], _ = _rank_by(centers.double, Query(doubles, centers, scratch, count))
        if squared.size:
            squared[unsure] = costs(doubles, centers, labels[0, unsure])
    return labels


def _without_ranking(query: Query) -> IndexArray | None:
    """As `_rank`, by the definition alone, a tree or main axes; None where the ranking is faster."""
    rows, centers, _, count, squared, _ = query
    points, constants = centers.definition
    few, work = len(rows) * points.size <= FEW_DIFFERENCES, _work(rows, points)
    if not few and centers.searchable(rows, work):
        grid = centers.grid(rows, count)
        labels = None if grid is None else grid.nearest(rows, squared)
        if labels is not None:
            return labels
        if centers.tree.pays(rows, count):
            return centers.tree.nearest(rows, count, squared)
    if few or is_narrow(points, constants, count):
        labels = np.empty((count, len(rows)), np.intp)
        loop: Callable[..., None] = two_nearest_of_narrow_rows
        given: tuple[Any, ...] = rows, points, *labels
        if few:
            loop, given = nearest_by_definition, (rows, centers.columns, constants, labels, squared)
        elif count == 1:
            loop, given = nearest_of_narrow_rows, (rows, points, labels[0], squared)
        if pays(loop, given, work):
            loop(*given)
            return labels
    leading = centers.leading(rows, count, work)
    return None if leading is None else leading.nearest(rows, count, squared)


def _work(rows: Rows, points: Float64Array) -> int:
    """Return how many numbers NumPy handles to rank points, (k, d), for rows, (n, d)."""
    work: int = len(rows) * (len(points) + 16 * points.shape[1])
    return work


def _rank_by(ranking: Ranking, query: Query) -> tuple[IndexArray, IndexArray]:
    """As `_rank_tiles`, by compiled loops if these pay."""
    if numba_support.AVAILABLE:
        ranked = _rank_compiled(ranking, query)
        if ranked is not None:
            return ranked
    return _rank_tiles(ranking, query)


def _rank_compiled(ranking: Ranking, query: Query) -> tuple[IndexArray, IndexArray] | None:
    """As `_rank_tiles`, by compiled loops, which measure a tile of rows while it is in the cache.

    None if these loops do not pay.
    """
    rows, centers, scratch, count, squared, gaps = query
    labels, sure = np.empty((count, len(rows)), np.intp), np.empty(len(rows), np.bool_)
    small = ranking.height >= LEAST_COMPILED_TILE
    tile = min(COMPILED_TILE, ranking.height) if small else COMPILED_TILE
    left, scores = _memory(rows, ranking, scratch, tile)
    integer: type[np.signedinteger[Any]] = np.int32
    if ranking.decides:
        integer = np.int64
    memory = left, left.reshape(-1).view(integer), scores.reshape(-1)
    loop: Callable[..., None] = distance_compiled.nearest_two_compiled
    answers: tuple[Any, ...] = labels[0], labels[-1], sure, gaps
    if count == 1:
        loop, answers = distance_compiled.nearest_compiled, (labels[0], sure, squared)
    given = rows, *centers.definition, ranking.parts, memory, *answers
    if not pays(loop, given, _work(rows, centers.values)):
        return None
    loop(*given)
    return labels, np.flatnonzero(~sure)


def _memory(rows: Rows, ranking: Ranking, scratch: Scratch, tile: int) -> tuple[Rows, Rows]:
    """Return memory for a tile: shifted rows with one more column, and scores."""
    height, (d, k), dtype = min(tile, len(rows)), ranking.matrix.shape, ranking.matrix.dtype
    return scratch.array("left", (height, d), dtype), scratch.array("product", (height, k), dtype)


def _rank_tiles(ranking: Ranking, query: Query) -> tuple[IndexArray, IndexArray]:
    """Return the nearest centers of each row, (wanted, n), and the rows left in doubt."""
    rows, centers, scratch, count, squared, _ = query
    found = np.empty((count, len(rows)), np.intp)
    doubtful = [np.empty(0, np.intp)]
    with np.errstate(all="ignore"):
        for part, shifted, scores in _scores(rows, ranking, scratch):
            found[:, part], floors, unsure = _best(scores, ranking.doubt(shifted), count)
            if unsure.size and ranking.decides:
                candidates = ~(scores[unsure] < floors[unsure, np.newaxis])
                exact = rows[part][unsure]
                for labels in found:
                    labels[part.start + unsure] = first = _decide(exact, candidates, centers)
                    candidates[np.arange(len(unsure)), first] = False
            elif unsure.size:
                doubtful.append(part.start + unsure)
    if squared.size:
        squared[:] = costs(rows, centers, found[0], scratch)
    return found, np.concatenate(doubtful)


def _scores(rows: Rows, ranking: Ranking, scratch: Scratch) -> Iterator[tuple[slice, Rows, Rows]]:
    """Yield tiles of shifted rows and their scores; the next tile overwrites both."""
    d = rows.shape[1]
    left, product = _memory(rows, ranking, scratch, ranking.tile)
    left[:, d] = 1
    for start in range(0, len(rows), len(left)):
        part = slice(start, min(start + len(left), len(rows)))
        count = part.stop - start
        np.subtract(rows[part], ranking.shift, out=left[:count, :d])
        if ranking.scale.size:
            left[:count, :d] *= ranking.scale
        scores = _multiply(left[:count], ranking.matrix, ranking.height, product[:count])
        yield part, left[:count, :d], scores


def _multiply(left: Rows, right: Rows, height: int, product: Rows) -> Rows:
    """Write left @ right, (n, k), to `product`, as products of `height` rows and the rest."""
    (n, d), k = left.shape, right.shape[1]
    stacked = n // height * height
    stack, out = left[:stacked].reshape(-1, height, d), product[:stacked].reshape(-1, height, k)
    np.matmul(stack, right, out=out)
    if stacked < n:
        np.matmul(left[stacked:], right, out=product[stacked:])
    return product


def _best(scores: Rows, doubt: Rows, count: int) -> tuple[IndexArray, Rows, IndexArray]:
    """Return the `count` best centers of each row, (count, n), and the rows in doubt.

    Between them, return the least scores of candidates, (n,).
    """
    n, k = scores.shape
    flat, rows = scores.reshape(-1), np.arange(0, n * k, k)
    places, tops = np.empty((count + 1, n), np.intp), np.empty((count + 1, n), scores.dtype)
    for number in range(count + 1):
        places[number] = rows + scores.argmax(axis=1)
        tops[number] = flat[places[number]]
        flat[places[number]] = -np.inf
    for place, top in zip(places[::-1], tops[::-1], strict=True):
        flat[place] = top
    floors = tops[:-1] - doubt
    unsure = np.flatnonzero(~(tops[1:] < floors).all(axis=0))
    return places[:-1] - rows, floors[-1], unsure


def _decide(rows: Rows, candidates: BoolArray, centers: Centers) -> IndexArray:
    """Return the nearest candidate center of each row, by definition; candidates are (n, k)."""
    decided = np.empty(len(rows), np.intp)
    height = max(1, 2**22 // (candidates.shape[1] * rows.shape[1]))
    for start in range(0, len(rows), height):
        part = slice(start, start + height)
        row, center = np.nonzero(candidates[part])
        if centers.linear is None:
            squared = squared_distances(rows[part][row], centers.values, center)
        else:  # without the last column
            squared = linear_sums(rows[part][row, :-1], centers.linear, center)
        lowest = np.full(len(rows[part]), np.inf)
        np.minimum.at(lowest, row, squared)
        hits = np.flatnonzero(squared == lowest[row])
        _, first = np.unique(row[hits], return_index=True)
        decided[part] = center[hits[first]]
    return decided
