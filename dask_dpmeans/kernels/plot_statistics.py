"""Statistics for figures: planes, covariance, links of a small graph."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array, Rows
from dask_dpmeans.kernels.graph import links_of


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
