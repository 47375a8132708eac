"""Answers that stand: what a run of rows answered in one pass, where it must answer the same in the next.

A row keeps its center if that has not moved and every center that has, or is new, is more than twice as far from it as
the row is: the triangle inequality, as Elkan 2003 has it, for all rows of a cluster in a shard at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.kernels.assign import Scan
from dask_dpmeans.kernels.births import Proposals
from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.moments import Moments

MARGIN = 1e-9
"""The relative rounding of squared distances, many thousand times over."""
UNDERFLOW = 1e-290
"""Far above what is lost where squares underflow."""


@dataclass(frozen=True)
class Kept:
    """The answer of a shard of which no row objected, as far as its m clusters go."""

    clusters: IndexArray
    """(m,), their numbers, ascending."""
    moments: Moments
    """Of these."""
    reaches: Float64Array
    """(m,), squared."""

    @classmethod
    def of(cls, scan: Scan, most_bytes: int) -> "Kept | None":
        """What is kept of an answer; None where rows object, or where that is more than `most_bytes`."""
        clusters = np.flatnonzero(scan.moments.counts)
        size = clusters.size * 8 * (5 + scan.moments.sums.shape[1])
        if len(scan.proposals) or size > most_bytes:
            return None
        return cls(clusters, scan.moments.keep(clusters), scan.reaches[clusters])

    def answer(self, k: int) -> Scan:
        """The answer, of k clusters."""
        d = self.moments.sums.shape[1]
        whole = Moments(np.zeros(k, np.int64), np.zeros(k), np.zeros((k, d)), np.zeros(k))
        for name, values in vars(self.moments).items():
            getattr(whole, name)[self.clusters] = values
        reaches = np.zeros(k)
        reaches[self.clusters] = self.reaches
        return Scan(whole, Proposals.none(d), reaches)


def standing(before: Float64Array, after: Float64Array, kept: Mapping[int, Kept]) -> dict[int, Kept]:
    """What stands when centers (k, d) have become centers (m, d), by the numbers of now.

    Centers that have not moved must be in the same order as before: it decides between equal distances.
    """
    first: dict[bytes, int] = {}
    for number, center in enumerate(after):
        first.setdefault(center.tobytes(), number)
    numbers = np.array([first.get(center.tobytes(), -1) for center in before], np.intp)
    same = numbers[numbers >= 0]
    left = {shard: each for shard, each in kept.items() if (numbers[each.clusters] >= 0).all()}
    if not left or not (np.diff(same) > 0).all():
        return {}
    used = np.unique(np.concatenate([each.clusters for each in left.values()]))
    clearances, fresh = np.full(len(before), np.inf), np.delete(after, same, axis=0)
    if len(fresh):
        clearances[used] = nearest_squared(before[used], Centers(fresh))[1]
    return {
        shard: replace(each, clusters=numbers[each.clusters])
        for shard, each in left.items()
        if (clearances[each.clusters] * (1 - MARGIN) > 4 * each.reaches * (1 + MARGIN) + UNDERFLOW).all()
    }
