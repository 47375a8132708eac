"""Statistics for figures: covariance, histograms, rows near the radius, links of a small graph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.sparse import csr_array, vstack

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, IntegerArray, Rows
from dask_dpmeans.kernels.graph import links_of
from dask_dpmeans.kernels.numba_support import compile_loop


@dataclass(frozen=True)
class Plane:
    """A projection on one or two directions."""

    origin: Float64Array
    """(d,), the point with coordinates 0."""
    directions: Float64Array
    """(d, 2) or (d, 1), of length 1."""

    def __call__(self, rows: Rows) -> Float64Array:
        """Return the coordinates, (height, 2) or (height, 1), of rows, (height, d)."""
        # in this order the product takes a quarter of the time of rows @ directions
        along = self.directions.T @ rows.T.astype(np.float64, copy=False)
        return along.T - self.origin @ self.directions


@dataclass(frozen=True)
class Covariance(SummedAnswers):
    """The reduction to weighted sums of products of differences from the mean, (d, d)."""

    mean: Float64Array
    """(d,)."""

    def chunk(self, block: Block) -> Float64Array:
        """Return the sums, (d, d), of one block."""
        memory = block.scratch.array("differences", block.rows.shape, np.float64)
        weighted = differences = np.subtract(block.doubles(), self.mean, out=memory)
        if block.weights is not None:
            memory = block.scratch.array("weighted", block.rows.shape, np.float64)
            weighted = np.multiply(differences, block.weights[:, np.newaxis], out=memory)
        products: Float64Array = weighted.T @ differences
        return products


@dataclass(frozen=True)
class BoxNumbers:
    """The boxes of r rows: used while it is smaller than a count for each box."""

    boxes: IntegerArray
    """(r,), numbers of boxes; the number of boxes for a row outside all of them."""
    weights: Float64Array | None
    """(r,); None if every row weighs 1."""


BoxSums: TypeAlias = Float64Array | Int64Array
"""(boxes + 1,), weight or number of the rows in each box, and outside all of them."""
BoxAnswer: TypeAlias = BoxNumbers | BoxSums
"""An answer for some blocks."""


def fill_boxes(
    coordinates: Float64Array,
    low: Float64Array,
    scale: Float64Array,
    bins: int,
    boxes: IntegerArray,
) -> None:
    """Fill `boxes`, (n,), with the box of each row; bins ** sides for a row outside all boxes.

    `coordinates`, (sides, n), are overwritten.  `scale`, (sides,), is the number of boxes in a
    unit of length.
    """
    coordinates -= low[:, np.newaxis]
    coordinates *= scale[:, np.newaxis]
    inside = ((coordinates >= 0) & (coordinates <= bins)).all(axis=0)
    np.clip(coordinates, 0, bins - 1, out=coordinates)  # the last box is closed
    boxes[:] = 0
    for along in coordinates:
        boxes *= bins
        boxes += along.astype(boxes.dtype)
    boxes[~inside] = bins ** len(low)


@dataclass(frozen=True)
class Histogram:
    """The reduction to the weight of the rows in each of bins x bins equal boxes of a window.

    Rows outside the window are left out.  `counts` turns the answer into an array.
    """

    plane: Plane
    low: Float64Array
    """(2,) or (1,), lower corner of the window."""
    high: Float64Array
    """(2,) or (1,), upper corner of the window."""
    bins: int
    """BoxAnswer along each side."""

    @property
    def n_boxes(self) -> int:
        """Number of boxes."""
        n_boxes: int = self.bins ** len(self.low)
        return n_boxes

    def chunk(self, block: Block) -> BoxNumbers:
        """Return the boxes of the rows of one block."""
        coordinates = np.ascontiguousarray(self.plane(block.doubles()).T)
        dtype: type[np.signedinteger[Any]] = np.int32
        if self.n_boxes >= 2**31:
            dtype = np.int64
        boxes: IntegerArray = np.empty(len(block.rows), dtype)
        fill = fill_boxes
        if numba_support.AVAILABLE:
            fill = _fill_boxes_compiled
        with np.errstate(over="ignore", invalid="ignore"):  # a row without weight may be anywhere
            fill(coordinates, self.low, self.bins / (self.high - self.low), self.bins, boxes)
        weights = block.weights
        if weights is not None:
            weights = weights.copy()  # the next block may overwrite their memory
        return BoxNumbers(boxes, weights)

    def combine(self, left: BoxAnswer, right: BoxAnswer) -> BoxAnswer:
        """Merge two neighboring answers; sum them if the rows need more memory than the boxes."""
        if not isinstance(left, BoxNumbers):
            return left + self._sums(right)
        if isinstance(right, BoxNumbers) and len(left.boxes) + len(right.boxes) <= 2 * self.n_boxes:
            boxes, weights = np.concatenate([left.boxes, right.boxes]), None
            if left.weights is not None and right.weights is not None:
                weights = np.concatenate([left.weights, right.weights])
            return BoxNumbers(boxes, weights)
        sums = self._sums(left)
        return np.add(sums, self._sums(right), out=sums)

    def counts(self, found: BoxAnswer) -> Float64Array:
        """Return the histogram, (bins, bins) or (bins,), from the answer for all rows."""
        return self._sums(found)[:-1].reshape((self.bins,) * len(self.low)).astype(np.float64)

    def _sums(self, found: BoxAnswer) -> BoxSums:
        if isinstance(found, BoxNumbers):
            return np.bincount(found.boxes, found.weights, self.n_boxes + 1)
        return found


NEAR = 0.9
"""A row is near the radius if its squared distance exceeds this share of the penalty."""


@dataclass(frozen=True)
class Edge(SummedAnswers):
    """The reduction to the counts, (2,), of rows of weight >= 1 near the radius and beyond it."""

    predict: Callable[[Block], tuple[np.ndarray[Any, Any], ...]]
    """Kernel that returns labels, squared distances and whether rows are beyond the radius."""
    penalty: float

    def chunk(self, block: Block) -> Int64Array:
        """Return the numbers, (2,), of one block."""
        _, squared, beyond = self.predict(block)
        heavy = block.row_weights() >= 1
        near = (squared > NEAR * self.penalty) & ~beyond
        return np.array([np.count_nonzero(near & heavy), np.count_nonzero(beyond & heavy)])


@dataclass(frozen=True)
class Adjacency:
    """The reduction that collects the links of a graph, (n, n) CSR; a link of weight 0 is none."""

    def chunk(self, block: Block) -> csr_array:
        """Return the links, (height, n), of the nodes of a block."""
        links: csr_array = links_of(block).copy()
        return links

    def combine(self, left: csr_array, right: csr_array) -> csr_array:
        """Stack the links of two neighboring runs of blocks, (m, n)."""
        links: csr_array = vstack([left, right], format="csr")
        return links


@compile_loop
def _fill_boxes_compiled(
    coordinates: Float64Array,
    low: Float64Array,
    scale: Float64Array,
    bins: int,
    boxes: IntegerArray,
) -> None:
    """Compiled twin of `fill_boxes`."""
    sides, n = coordinates.shape
    for i in range(n):
        box = 0
        for side in range(sides):
            share = (coordinates[side, i] - low[side]) * scale[side]
            if not (share >= 0 and share <= bins):
                box = bins**sides
                break
            box = box * bins + min(int(share), bins - 1)
        boxes[i] = box
