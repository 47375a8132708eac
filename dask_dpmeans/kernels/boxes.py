"""Histograms of rows in boxes of a plane, in layers for clusters."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import Float64Array, Int64Array, IntegerArray
from dask_dpmeans.kernels.cluster_statistics import LabelledBlock, bin_places
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import compile_loop, compiled_or_plain
from dask_dpmeans.kernels.plot_statistics import Chart, Plane


@dataclass(frozen=True)
class RowNumbers:
    """Boxes of r rows: used while they are smaller than the sums."""

    numbers: IntegerArray
    """(r,), or (r, c)."""
    weights: Float64Array | None
    """(r,); None if every row weighs 1."""

    def then(self, other: "RowNumbers") -> "RowNumbers":
        """Return these rows, followed by `other`."""
        weights = None
        if self.weights is not None and other.weights is not None:
            weights = np.concatenate([self.weights, other.weights])
        return RowNumbers(np.concatenate([self.numbers, other.numbers]), weights)


BoxSums: TypeAlias = Float64Array | Int64Array
"""Weight or number of the rows in each box."""
BoxAnswer: TypeAlias = RowNumbers | BoxSums
"""An answer for some blocks."""


class LateSums(ABC):
    """Base of reductions that sum rows in many boxes, once there are more rows than boxes."""

    @property
    @abstractmethod
    def n_boxes(self) -> int:
        """Number of all boxes."""

    @abstractmethod
    def _added(self, found: RowNumbers) -> BoxSums:
        """Return the sums of some rows."""

    def combine(self, left: BoxAnswer, right: BoxAnswer) -> BoxAnswer:
        """Merge two neighboring answers; sum them if the rows need more memory than the boxes."""
        if not isinstance(left, RowNumbers):
            return left + self._sums(right)
        few = 2 * self.n_boxes - len(left.numbers)
        if isinstance(right, RowNumbers) and len(right.numbers) <= few:
            return left.then(right)
        sums = self._sums(left)
        return np.add(sums, self._sums(right), out=sums)

    def _sums(self, found: BoxAnswer) -> BoxSums:
        return self._added(found) if isinstance(found, RowNumbers) else found


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
class Histogram(LateSums):
    """The weight of the rows in each of bins x bins equal boxes of a window, by layer.

    Rows outside the window are left out.  `counts` turns the answer into an array.
    """

    plane: Plane | Chart
    low: Float64Array
    """(2,) or (1,), lower corner of the window."""
    high: Float64Array
    """(2,) or (1,), upper corner of the window."""
    bins: int
    """Boxes along each side."""
    layers: Int64Array
    """(k + 1,), the layer of each cluster, and of noise at last."""

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return int(self.layers.max()) + 1

    @property
    def n_boxes(self) -> int:
        """Number of boxes of all layers."""
        n_boxes: int = self.n_layers * self.bins ** len(self.low)
        return n_boxes

    def chunk(self, found: LabelledBlock) -> RowNumbers:
        """Return the boxes of the rows of one block."""
        block = found.block
        coordinates = np.ascontiguousarray(self.plane(block.rows).T)
        dtype: type[np.signedinteger[Any]] = np.int32
        if self.n_boxes >= 2**31:
            dtype = np.int64
        boxes: IntegerArray = np.empty(len(block.rows), dtype)
        scale = self.bins / (self.high - self.low)
        with np.errstate(over="ignore", invalid="ignore"):  # a row without weight may be anywhere
            fill_boxes(coordinates, self.low, scale, self.bins, boxes)
        of_layer = self.bins ** len(self.low)
        outside = boxes == of_layer
        boxes += self.layers[found.labels].astype(dtype) * of_layer
        boxes[outside] = self.n_boxes
        weights = block.weights
        if weights is not None:
            weights = weights.copy()  # the next block may overwrite their memory
        return RowNumbers(boxes, weights)

    def counts(self, found: BoxAnswer) -> Float64Array:
        """Return the histograms, (layers, bins, bins) or (layers, bins), from the answer for all."""
        shape = self.n_layers, *((self.bins,) * len(self.low))
        return self._sums(found)[:-1].reshape(shape).astype(np.float64)

    def _added(self, found: RowNumbers) -> BoxSums:
        return np.bincount(found.numbers, found.weights, self.n_boxes + 1)


@dataclass(frozen=True)
class PairHistograms(LateSums):
    """The weight of the rows in bins x bins boxes of each pair of a few columns, by layer.

    Boxes at the sides also hold the rows beyond.
    """

    columns: Int64Array
    """(c,), numbers of columns."""
    low: Float64Array
    """(c,), lower end of the first bin."""
    high: Float64Array
    """(c,), upper end of the last bin."""
    bins: int
    """Bins of each column, at most 127."""
    layers: Int64Array
    """(k + 1,), the layer of each cluster, and of noise at last; at most 127."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Pairs, layers, and boxes along both sides."""
        c = len(self.columns)
        return c * (c - 1) // 2, int(self.layers.max()) + 1, self.bins, self.bins

    @property
    def n_boxes(self) -> int:
        """Number of boxes of all pairs and layers."""
        return prod(self.shape)

    def chunk(self, found: LabelledBlock) -> RowNumbers:
        """Return the layer of each row of a block, and its bins, (height, 1 + c)."""
        block = found.block
        places = bin_places(block.rows[:, self.columns], self.low, self.high, self.bins)
        numbers = np.empty((len(places), 1 + len(self.columns)), np.int8)
        numbers[:, 0], numbers[:, 1:] = self.layers[found.labels], places
        return RowNumbers(numbers, None if block.weights is None else block.weights.copy())

    def counts(self, found: BoxAnswer) -> Float64Array:
        """Return the weights, (pairs, layers, bins, bins); pairs are as (0, 1), (0, 2)."""
        return self._sums(found).astype(np.float64, copy=False)

    def _added(self, found: RowNumbers) -> BoxSums:
        sums, weights = np.zeros(self.shape), found.weights
        if weights is None:
            weights = np.ones(len(found.numbers))
        given = found.numbers, weights, sums
        work = 4 * len(weights) * len(sums)
        compiled_or_plain(_count_pairs_compiled, given, work, twin=count_pairs)(*given)
        return sums


def count_pairs(numbers: npt.NDArray[np.int8], weights: Float64Array, sums: Float64Array) -> None:
    """Add rows to `sums`, (pairs, layers, bins, bins), by their layers and bins, (n, 1 + c)."""
    _, n_layers, bins, _ = sums.shape
    layers, *places = numbers.T.astype(np.int64)
    for pair, (one, other) in enumerate(combinations(places, 2)):
        found = total((layers * bins + one) * bins + other, weights, n_layers * bins**2)
        sums[pair] += found.reshape(n_layers, bins, bins)


@compile_loop
def _count_pairs_compiled(
    numbers: npt.NDArray[np.int8], weights: Float64Array, sums: Float64Array
) -> None:
    """Compiled twin of `count_pairs`."""
    n, c = numbers.shape
    for i in range(n):
        weight, layer, pair = weights[i], numbers[i, 0], 0
        for one in range(1, c):
            for other in range(one + 1, c):
                sums[pair, layer, numbers[i, one], numbers[i, other]] += weight
                pair += 1
