"""Statistics for figures: planes, charts, bounds, covariance, links of a small graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array, Rows
from dask_dpmeans.kernels.graph_cut.gains import links_of
from dask_dpmeans.kernels.great_circle import places_of


@dataclass(frozen=True)
class Plane:
    """A projection on one or two directions."""

    origin: Float64Array
    """(d,), the point with coordinates 0."""
    directions: Float64Array
    """(d, a), of length 1 unless said otherwise; a is 1 or 2."""
    columns: tuple[int, ...] | None = None
    """The columns that are the directions, if they are columns and the origin is 0."""

    @classmethod
    def of_columns(cls, d: int, columns: Sequence[int]) -> "Plane":
        """Return the plane of one or two of d columns."""
        return cls(np.zeros(d), np.eye(d)[:, list(columns)], tuple(columns))

    def __call__(self, rows: Rows) -> Float64Array:
        """Return the coordinates, (height, a), of rows, (height, d)."""
        if self.columns is not None:
            return rows[:, self.columns].astype(np.float64)
        # in this order the product takes a quarter of the time of rows @ directions
        along = self.directions.T @ rows.T.astype(np.float64, copy=False)
        return along.T - self.origin @ self.directions


@dataclass(frozen=True)
class Chart:
    """A chart of the earth: longitudes and latitudes of points in space, in degrees."""

    west: float = -180.0
    """The longitude at which it begins; it ends 360 degrees farther."""

    def __call__(self, rows: Rows) -> Float64Array:
        """Return longitudes, from `west`, and latitudes, (height, 2), of points, (height, 3)."""
        places = places_of(rows.astype(np.float64), swapped=True)
        places[:, 0] -= 360 * np.floor((places[:, 0] - self.west) / 360)
        return places


@dataclass(frozen=True)
class Bounds:
    """The reduction to the lowest and the highest coordinates, (2, a), of the rows."""

    plane: Plane | Chart

    def chunk(self, block: Block) -> Float64Array:
        """Return the bounds of one block."""
        places = self.plane(block.rows)
        return np.stack([places.min(axis=0), places.max(axis=0)])

    def combine(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """Return the bounds of two neighboring runs of blocks."""
        return np.stack([np.minimum(left[0], right[0]), np.maximum(left[1], right[1])])


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
