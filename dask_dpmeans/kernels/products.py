"""Sums of products of columns: what the eigenvectors of an affinity are made of."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.features import Axes, double_tiles


@dataclass(frozen=True)
class Gram:
    """The reduction Z' W Z, (c, c): Z is what the axes make of the rows, W their weights."""

    axes: Axes | None = None
    """None for the rows as they are."""

    def chunk(self, block: Block) -> Float64Array:
        """The products of one block."""
        roots = None if block.weights is None else np.sqrt(block.weights)[:, np.newaxis]
        columns = block.rows.shape[1] if self.axes is None else self.axes.matrix.shape[1]
        gram = np.zeros((columns, columns))
        with np.errstate(over="ignore", invalid="ignore"):
            for part, tile in double_tiles(block.rows, block.scratch):
                seen = tile if self.axes is None else self.axes(tile)
                seen = seen[: part.stop - part.start]
                seen = seen if roots is None else seen * roots[part]
                gram += seen.T @ seen  # of one array, so that it is symmetric to the bit
        return gram

    def combine(self, left: Float64Array, right: Float64Array) -> Float64Array:
        """The products of two neighboring runs."""
        return left + right
