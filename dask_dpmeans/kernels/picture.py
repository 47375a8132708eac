"""What pictures ask of the rows: spread, a histogram in a plane, rows near the edge, all links of a small graph."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack

from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Rows
from dask_dpmeans.kernels.graph import links_of


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

    boxes: npt.NDArray[np.signedinteger[Any]]
    """(r,), numbers of boxes; one more than the last for a row that lies in none."""
    weights: Float64Array | None
    """(r,)."""


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
        number = np.dtype(np.int32 if self.n_boxes < 2**31 else np.int64)
        inside, boxes = np.ones(len(block.rows), np.bool_), np.zeros(len(block.rows), number)
        for along, low, high in zip(self.plane(block.doubles()).T, self.low, self.high, strict=True):
            inside &= (along >= low) & (along <= high)
            with np.errstate(over="ignore", invalid="ignore"):  # a row without weight may lie anywhere
                shares = (along - low) / (high - low)
                shares *= self.bins
            np.fmax(shares, 0, out=shares)
            np.fmin(shares, self.bins - 1, out=shares)  # the last box has its end
            boxes *= self.bins
            boxes += shares.astype(number)
        boxes[~inside] = self.n_boxes
        return Places(boxes, block.weights)

    def combine(self, left: Places | Float64Array, right: Places | Float64Array) -> Places | Float64Array:
        """Of two neighboring runs: added up where there are more rows than boxes, as that takes time for each box."""
        if isinstance(left, Places) and isinstance(right, Places):
            boxes = np.concatenate([left.boxes, right.boxes])
            if len(boxes) <= self.n_boxes:
                both = left.weights is not None and right.weights is not None
                return Places(boxes, np.concatenate([left.weights, right.weights]) if both else None)
        return self._sums(left) + self._sums(right)

    def counts(self, found: Places | Float64Array) -> Float64Array:
        """(bins, bins), or (bins,) where there is one direction, of the answer for all rows."""
        return self._sums(found).reshape((self.bins,) * len(self.low))

    def _sums(self, found: Places | Float64Array) -> Float64Array:
        """(boxes,), the weight in each."""
        if isinstance(found, Places):
            return np.bincount(found.boxes, found.weights, self.n_boxes + 1)[:-1].astype(np.float64)
        return found


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
