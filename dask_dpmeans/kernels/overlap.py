"""The overlap of clusters, if their rows are of normal components cut at the middles between them.

A cluster of nearest rows has lost the rows of its component that lie beyond the middle to another
center, and has rows of other components on its own side.  How many there are follows from how far
the rows spread along the lines between centers.
"""

import numpy as np
from scipy.sparse import csc_array
from scipy.spatial.distance import cdist
from scipy.special import erf, ndtr

from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.features import double_tiles

FARTHEST, STEPS = 9.0, 2**12
"""Half distances of components, in standard deviations: the farthest that `misclassified` tells
from others, and how many it tabulates.  1e-19 of a normal component lies beyond the farthest."""


def squared_projections(block: Block, labels: Int64Array, centers: Float64Array) -> Float64Array:
    """Return the sums of weight times the squared projection of the rows of each cluster, (k, k).

    The projection is of a row x, less its center c, on each other center less c, in units of the
    greatest distance of a center from their mean.

    Parameters
    ----------
    labels : (height,), the cluster of each row
    centers : (k, d)
    """
    k, (lines, _) = len(centers), _lines(centers)
    sums, weights = np.zeros((k, k)), block.row_weights()
    for part, tile in double_tiles(block.rows, block.scratch):
        own = labels[part]
        n = len(own)
        tile[:n] -= centers[own]
        projected = (tile @ lines.T)[:n]
        projected -= projected[np.arange(n), own][:, np.newaxis]
        members = csc_array((weights[part], own, np.arange(n + 1)), shape=(k, n))
        sums += members @ np.square(projected, out=projected)
    return sums


def component_index(
    squares: Float64Array, weights: Float64Array, centers: Float64Array
) -> Float64Array:
    """Return the Jaccard index of each cluster with its normal component, (k,).

    Parameters
    ----------
    squares : (k, k), of `squared_projections`
    weights : (k,), of the clusters
    centers : (k, d)
    """
    lines, radius = _lines(centers)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.sqrt(squares / weights[:, np.newaxis])
        ratios = radius / 2 * cdist(lines, lines, "sqeuclidean") / deviations
    wrong = misclassified(np.where(deviations > 0, ratios, np.inf))
    kept = weights * np.maximum(1 - wrong.sum(axis=1), 0.0)
    either = weights + (weights[:, np.newaxis] * wrong).sum(axis=0)  # rounded alike on any BLAS
    return np.asarray(kept / np.where(either > 0, either, 1.0))


def misclassified(ratios: Float64Array) -> Float64Array:
    """Return the share of normal components beyond the middle to another one, as (k, k).

    The ratio, of any shape, is half the distance of two centers over the standard deviation of the
    rows of a cluster along the line between them.  Rows of N(-h, 1) and N(h, 1) that are cut at 0
    have the mean m = h erf(h / sqrt 2) + sqrt(2 / pi) exp(-h^2 / 2), and the variance
    1 + h^2 - m^2, on each side, so the ratio grows with h.  It is 1.32 if one component was cut in
    two: h = 0.
    """
    h = np.linspace(0.0, FARTHEST, STEPS)
    m = h * erf(h / np.sqrt(2)) + np.sqrt(2 / np.pi) * np.exp(-h * h / 2)
    return np.asarray(ndtr(-np.interp(ratios, m / np.sqrt(1 + h * h - m * m), h)))


def _lines(centers: Float64Array) -> tuple[Float64Array, float]:
    """Return the centers less their mean, (k, d), in units of the greatest norm, and this norm."""
    lines = centers - centers.mean(axis=0)
    radius = float(np.sqrt(np.square(lines).sum(axis=1).max()))
    if radius > 0:
        lines /= radius
    return lines, radius
