"""The stability of clusters: how like clusters of other fits and like components they are.

A cluster of nearest rows has lost the rows of its component that lie beyond the middle to another
center, and has rows of other components on its own side.  How many there are follows from how far
the rows spread along the lines between centers, if their rows are of normal components.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csc_array
from scipy.spatial.distance import cdist
from scipy.special import erf, ndtr

from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.plan import Kernel, Source
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.features import double_tiles
from dask_dpmeans.kernels.moments import total

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


TRUSTED = 0.65
"""Clusters of a lower stability are not stable.  Halves of a round cluster had .30, of a long one
.46 and of a uniform square .66, of 300 rows in 2 columns."""
MOST_NAMED = 10
"""Most clusters that a sentence names for their low stability."""


@dataclass(frozen=True)
class ClusterSums:
    """The reduction to the squared projections and to the weights of pairs of clusters.

    The answer is a list: (k, k) of `squared_projections`, then for each other clustering the weight
    of the rows in each pair of clusters, m arrays (k, k').
    """

    labels: Kernel
    """The map of the rows to their clusters."""
    centers: Float64Array
    """Centers of the clusters, (k, d)."""
    others: tuple[Centers, ...]
    """m centers, (k', d) each."""
    flat: Divergence | None = None
    """The divergence in whose flat space centers are; None if they are among the rows."""

    def chunk(self, block: Block) -> list[Float64Array]:
        """Return the sums of one block."""
        labels, weights = self.labels(block)[0].astype(np.int64), block.row_weights()
        if (labels < 0).any():
            weights = np.where(labels < 0, 0.0, weights)
            labels, block = np.maximum(labels, 0), replace(block, weights=weights)
        if self.flat is not None:
            rows = self.flat.flat(block.doubles())
            rows = np.where(np.isnan(rows), self.centers[labels], rows)
            block = replace(block, rows=rows, memory=None)
        found = [squared_projections(block, labels, self.centers)]
        for other in self.others:
            k = len(other)
            pairs = labels * k + assign(block, other)[0]
            sums = total(pairs, weights, len(self.centers) * k)
            found.append(sums.reshape(-1, k))
        return found

    def combine(self, left: list[Float64Array], right: list[Float64Array]) -> list[Float64Array]:
        """Add the sums of two neighboring runs of blocks."""
        return [one + other for one, other in zip(left, right, strict=True)]


def unstable_clusters(stability: Float64Array) -> str:
    """Return which clusters are not stable, given the stability of each, (k,); empty if all are.

    >>> unstable_clusters(np.array([0.91, 0.5, 0.99, 0.41]))
    '2 of 4 clusters are not stable (below 0.65): 3 (0.41), 1 (0.50)'
    """
    order = np.argsort(stability, kind="stable")
    low = order[: np.count_nonzero(stability < TRUSTED)].tolist()
    if not low:
        return ""
    floors = np.floor(100 * stability) / 100  # 0.649 is not 0.65
    named = ", ".join(f"{each} ({floors[each]:.2f})" for each in low[:MOST_NAMED])
    more = f" and {len(low) - MOST_NAMED:,} more" if len(low) > MOST_NAMED else ""
    of_all = f"{len(low):,} of {format_count(len(stability), 'cluster')}"
    verb = "is" if len(low) == 1 else "are"
    return f"{of_all} {verb} not stable (below {TRUSTED}): {named}{more}"


def cluster_stability(
    source: Source,
    labels: Kernel,
    centers: Float64Array,
    others: tuple[Centers, ...],
    flat: Divergence | None = None,
) -> Float64Array:
    """Return the stability of each cluster, (k,), from one pass over all rows.

    The Jaccard index of two clusters is the weight of the rows in both over the weight of the rows
    in either.  The stability of a cluster is the product of two of them: the index with the cluster
    that is most like it, averaged over fits of halves of the rows (Hennig 2007), and the index with
    its own component, if components are normal.

    Halves of many rows find the same clusters even where clusters overlap, so the first index says
    whether there is enough data.  The second says whether clusters lie apart: rows of a component
    beyond the middle to another are misclassified (Maitra & Melnykov 2010).

    Parameters
    ----------
    labels : the map of the rows to their clusters
    centers : (k, d), of the clusters
    others : centers, (k', d) each, of fits of halves of the rows
    flat : the divergence in whose flat space all centers are; None if they are among the rows
    """
    squares, *tables = source.fold(ClusterSums(labels, centers, others, flat), name="stability")
    best = []
    for both in tables:
        either = both.sum(axis=1, keepdims=True) + both.sum(axis=0) - both
        best.append((both / np.where(either > 0, either, 1.0)).max(axis=1))
    index = component_index(squares, tables[0].sum(axis=1), centers)
    return np.asarray(np.mean(best, axis=0) * index)
