"""The stability of clusters: how much like them are clusters of other fits."""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.engine.plan import Kernel, Source
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.moments import total


@dataclass(frozen=True)
class Overlaps:
    """The reduction to the weight of the rows in each pair of clusters of two clusterings."""

    labels: Kernel
    """The map of the rows to their clusters."""
    n_clusters: int
    others: tuple[Centers, ...]
    """m centers, (k', d) each."""

    def chunk(self, block: Block) -> list[Float64Array]:
        """Return the weights of one block, m arrays (k, k')."""
        labels, weights = self.labels(block)[0].astype(np.int64), block.row_weights()
        found = []
        for other in self.others:
            k = len(other)
            pairs = labels * k + assign(block, other)[0]
            sums = total(pairs, weights, self.n_clusters * k)
            found.append(sums.reshape(-1, k))
        return found

    def combine(self, left: list[Float64Array], right: list[Float64Array]) -> list[Float64Array]:
        """Merge the weights of two neighboring runs of blocks."""
        return [one + other for one, other in zip(left, right, strict=True)]


def cluster_stability(
    source: Source, labels: Kernel, n_clusters: int, others: tuple[Centers, ...]
) -> Float64Array:
    """Return the stability of each cluster, (k,), from one pass over all rows.

    The Jaccard index of two clusters is the weight of the rows in both over the weight of the rows
    in either.  The stability of a cluster is the index with the cluster that is most like it, averaged
    over fits of halves of the rows (Hennig 2007).
    """
    tables = source.fold(Overlaps(labels, n_clusters, others), name="stability")
    best = []
    for both in tables:
        either = both.sum(axis=1, keepdims=True) + both.sum(axis=0) - both
        best.append((both / np.where(either > 0, either, 1.0)).max(axis=1))
    return np.asarray(np.mean(best, axis=0))
