"""What pictures ask of the rows: spread, a histogram in a plane, rows near the edge, all links of a small graph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, vstack

from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, IntegerArray, Rows
from dask_dpmeans.kernels.graph import links_of
from dask_dpmeans.kernels.numba_support import compile_loop, select_loop


@dataclass(frozen=True)
class Plane:
    """Two directions to look along, or one."""

    origin: Float64Array
    """(d,), what lies at 0."""
    directions: Float64Array
    """(d, 2), or (d, 1); of length 1."""

    def __call__(self, rows: Rows) -> Float64Array:
        """Where rows, (height, d), lie: (height, 2), or (height, 1)."""
        along = self.directions.T @ rows.T.astype(np.float64, copy=False)  # a quarter of the time of rows @ directions
        return along.T - self.origin @ self.directions


@dataclass(frozen=True)
class Covariance:
    """The reduction to weighted sums of products of differences from the mean, (d, d)."""

    mean: Float64Array
    """(d,)."""

    def chunk(self, block: Block) -> Float64Array:
        """Of one block."""
        memory = block.scratch.array("differences", block.rows.shape, np.float64)
        weighted = differences = np.subtract(block.doubles(), self.mean, out=memory)
        if block.weights is not None:
            memory = block.scratch.array("weighted", block.rows.shape, np.float64)
            weighted = np.multiply(differences, block.weights[:, np.newaxis], out=memory)
        products: Float64Array = weighted.T @ differences
        return products

    def combine(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """Of two neighboring runs."""
        return left + right


@dataclass(frozen=True)
class Places:
    """Where r rows lie, as long as that is shorter than what each box holds."""

    boxes: IntegerArray
    """(r,), numbers of boxes; one more than the last for a row that lies in none."""
    weights: Float64Array | None
    """(r,)."""


def boxes_of(places: Float64Array, low: Float64Array, scale: Float64Array, bins: int, boxes: IntegerArray) -> None:
    """The box of each of n places, (sides, n), into `boxes`, (n,); bins ** sides where it lies in none.

    `places` are written over.  `scale` is the number of boxes in a unit of length, of each side.
    """
    places -= low[:, np.newaxis]
    places *= scale[:, np.newaxis]
    inside = ((places >= 0) & (places <= bins)).all(axis=0)
    np.clip(places, 0, bins - 1, out=places)  # the last box has its end
    boxes[:] = 0
    for along in places:
        boxes *= bins
        boxes += along.astype(boxes.dtype)
    boxes[~inside] = bins ** len(low)


Sums: TypeAlias = Float64Array | Int64Array
"""(boxes + 1,), the weight or the number of the rows in each, and of those that lie in none."""


@dataclass(frozen=True)
class Histogram:
    """The reduction to the weight of the rows in each of bins x bins equal boxes of a window; the rest is left out.

    `counts` makes these of its answer.
    """

    plane: Plane
    low: Float64Array
    """(2,) or (1,), a corner of the window."""
    high: Float64Array
    """The corner opposite."""
    bins: int

    @property
    def n_boxes(self) -> int:
        """In all."""
        n_boxes: int = self.bins ** len(self.low)
        return n_boxes

    def chunk(self, block: Block) -> Places:
        """Of one block."""
        places = np.ascontiguousarray(self.plane(block.doubles()).T)
        boxes: IntegerArray = np.empty(len(block.rows), np.int32 if self.n_boxes < 2**31 else np.int64)
        fill = select_loop(_boxes_of_compiled, boxes_of)
        with np.errstate(over="ignore", invalid="ignore"):  # a row without weight may lie anywhere
            fill(places, self.low, self.bins / (self.high - self.low), self.bins, boxes)
        return Places(boxes, None if block.weights is None else block.weights.copy())  # theirs may be scratch memory

    def combine(self, left: Places | Sums, right: Places | Sums) -> Places | Sums:
        """Of two neighboring runs: added up where rows would take more memory than boxes, as that costs each box."""
        if isinstance(left, Places) and isinstance(right, Places):
            boxes = np.concatenate([left.boxes, right.boxes])
            both = left.weights is not None and right.weights is not None
            if len(boxes) <= 2 * self.n_boxes:
                return Places(boxes, np.concatenate([left.weights, right.weights]) if both else None)
        sums = self._sums(left)
        return np.add(sums, self._sums(right), out=sums if isinstance(left, Places) else None)

    def counts(self, found: Places | Sums) -> Float64Array:
        """(bins, bins), or (bins,) where there is one direction, of the answer for all rows."""
        return self._sums(found)[:-1].reshape((self.bins,) * len(self.low)).astype(np.float64)

    def _sums(self, found: Places | Sums) -> Sums:
        return np.bincount(found.boxes, found.weights, self.n_boxes + 1) if isinstance(found, Places) else found


NEAR = 0.9
"""A row is near the edge where its squared distance is more than this share of the penalty."""


@dataclass(frozen=True)
class Edge:
    """The reduction that counts rows of weight 1 or more near the edge of the radius, and beyond it: (2,) int64."""

    predict: Callable[[Block], tuple[np.ndarray[Any, Any], ...]]
    """The kernel of a map: labels, squared distances, and whether rows lie beyond the radius."""
    penalty: float

    def chunk(self, block: Block) -> Int64Array:
        """Of one block."""
        _, squared, beyond = self.predict(block)
        heavy = np.ones(len(squared), bool) if block.weights is None else block.weights >= 1
        near = (squared > NEAR * self.penalty) & ~beyond
        return np.array([np.count_nonzero(near & heavy), np.count_nonzero(beyond & heavy)])

    def combine(self, left: Int64Array, right: Int64Array) -> Int64Array:
        """Of two neighboring runs."""
        return left + right


@dataclass(frozen=True)
class Adjacency:
    """The reduction that brings the links of a graph together, (n, n); those that weigh 0 are none."""

    def chunk(self, block: Block) -> csr_array:
        """Those of a run of nodes, (height, n)."""
        links: csr_array = links_of(block).copy()
        return links

    def combine(self, left: csr_array, right: csr_array) -> csr_array:
        """Of two neighboring runs."""
        links: csr_array = vstack([left, right], format="csr")
        return links


@compile_loop
def _boxes_of_compiled(
    places: Float64Array, low: Float64Array, scale: Float64Array, bins: int, boxes: IntegerArray
) -> None:
    """Compiled twin of `boxes_of`."""
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
