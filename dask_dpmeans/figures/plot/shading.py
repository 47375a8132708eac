"""Counts of rows by cluster, as colors."""

import numpy as np

from dask_dpmeans.kernels.block import Float64Array

FAINTEST = 0.45
"""Opacity of the boxes with the least weight."""


def shade(counts: Float64Array, colors: Float64Array) -> Float64Array:
    """Return the colors, (b', b, 4), of boxes by the weight of each cluster in them.

    The color is the mean of the colors of the clusters, by weight.  The opacity rises with the rank
    of the box by weight among the boxes with rows (histogram equalization), so that boxes with a
    few rows can be seen beside boxes with millions.  Boxes without rows are transparent.

    Parameters
    ----------
    counts : (c, b, b'), weights by cluster, horizontal and vertical box
    colors : (c, 4), of the clusters
    """
    totals = counts.sum(axis=0)
    filled = totals > 0
    image = np.zeros((*totals.shape, 4))
    shares = counts[:, filled] / totals[filled]
    image[filled, :3] = np.clip(shares.T @ colors[:, :3], 0.0, 1.0)
    _, ranks, sizes = np.unique(totals[filled], return_inverse=True, return_counts=True)
    below = np.cumsum(sizes) - sizes[:1].sum()
    image[filled, 3] = FAINTEST + (1.0 - FAINTEST) * (below / max(1, below[-1:].sum()))[ranks]
    return image.transpose(1, 0, 2)


def marginal(
    counts: Float64Array, low: float, high: float, most: int
) -> tuple[Float64Array, Float64Array]:
    """Return the mean counts, (c, m), of boxes, (c, b), in at most so many bars, and their edges."""
    bins = counts.shape[1]
    starts = np.unique(np.linspace(0, bins, min(bins, most) + 1).astype(np.intp))
    edges = low + (high - low) * starts / bins
    return np.add.reduceat(counts, starts[:-1], axis=1) / np.diff(starts), edges
