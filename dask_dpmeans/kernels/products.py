"""Sums of products of columns, from which the eigenvectors of an affinity matrix are computed."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.answers import SummedAnswers
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.features import Axes, double_tiles


@dataclass(frozen=True)
class ColumnProducts(SummedAnswers):
    """The reduction to Z' W Z, (c, c): Z holds the features of the rows, W their weights."""

    axes: Axes | None = None
    """Map of the rows to features; None for the rows themselves."""

    def chunk(self, block: Block) -> Float64Array:
        """Return the products, (c, c), of one block."""
        columns, roots = block.rows.shape[1], None
        if self.axes is not None:
            columns = self.axes.matrix.shape[1]
        if block.weights is not None:
            roots = np.sqrt(block.weights)[:, np.newaxis]
        gram = np.zeros((columns, columns))
        with np.errstate(over="ignore", invalid="ignore"):
            for part, tile in double_tiles(block.rows, block.scratch):
                features = tile
                if self.axes is not None:
                    features = self.axes(tile)
                features = features[: part.stop - part.start]
                if roots is not None:
                    features = features * roots[part]
                gram += features.T @ features  # of one array, so that it is symmetric to the bit
        return gram
