"""Histograms of rows in boxes of a plane, in layers for clusters."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Float64Array, Int64Array, IntegerArray
from dask_dpmeans.kernels.cluster_statistics import LabelledBlock
from dask_dpmeans.kernels.numba_support import compile_loop
from dask_dpmeans.kernels.plot_statistics import Plane


@dataclass(frozen=True)
class BoxNumbers:
    """The boxes of r rows: used while it is smaller than a count for each box."""

    boxes: IntegerArray
    """(r,), numbers of boxes; the number of boxes for a row outside all of them."""
    weights: Float64Array | None
    """(r,); None if every row weighs 1."""


BoxSums: TypeAlias = Float64Array | Int64Array
"""(boxes + 1,), weight or number of the rows in each box of each layer, and outside all of them."""
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
    """The weight of the rows in each of bins x bins equal boxes of a window, by layer.

    Rows outside the window are left out.  `counts` turns the answer into an array.
    """

    plane: Plane
    low: Float64Array
    """(2,) or (1,), lower corner of the window."""
    high: Float64Array
    """(2,) or (1,), upper corner of the window."""
    bins: int
    """Boxes along each side."""
    layers: Int64Array
    """(k + 1,), the layer of each cluster, and last that of noise."""

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return int(self.layers.max()) + 1

    @property
    def n_boxes(self) -> int:
        """Number of boxes of all layers."""
        n_boxes: int = self.n_layers * self.bins ** len(self.low)
        return n_boxes

    def chunk(self, found: LabelledBlock) -> BoxNumbers:
        """Return the boxes of the rows of one block."""
        block = found.block
        coordinates = np.ascontiguousarray(self.plane(block.rows).T)
        dtype: type[np.signedinteger[Any]] = np.int32
        if self.n_boxes >= 2**31:
            dtype = np.int64
        boxes: IntegerArray = np.empty(len(block.rows), dtype)
        fill = fill_boxes
        if numba_support.AVAILABLE:
            fill = _fill_boxes_compiled
        with np.errstate(over="ignore", invalid="ignore"):  # a row without weight may be anywhere
            fill(coordinates, self.low, self.bins / (self.high - self.low), self.bins, boxes)
        of_layer = self.bins ** len(self.low)
        outside = boxes == of_layer
        boxes += self.layers[found.labels].astype(dtype) * of_layer
        boxes[outside] = self.n_boxes
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
        """Return the histograms, (layers, bins, bins) or (layers, bins), from the answer for all."""
        shape = self.n_layers, *((self.bins,) * len(self.low))
        return self._sums(found)[:-1].reshape(shape).astype(np.float64)

    def _sums(self, found: BoxAnswer) -> BoxSums:
        if isinstance(found, BoxNumbers):
            return np.bincount(found.boxes, found.weights, self.n_boxes + 1)
        return found


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
