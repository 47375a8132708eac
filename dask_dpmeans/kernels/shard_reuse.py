"""Reuse of a shard's answer in the next pass, if the shard must answer the same.

A row keeps its center if that center has not moved, and each center that has moved or is new is
more than twice as far from it as the row.  This is the triangle inequality of Elkan 2003, for all
rows of a cluster in a shard at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dask_dpmeans.kernels.assign import LEAST_SPARSE, Scan
from dask_dpmeans.kernels.births import Proposals
from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.hamerly_bounds import MARGIN
from dask_dpmeans.kernels.moments import Moments

UNDERFLOW = 1e-290
"""Far above the error of squares that underflow."""


@dataclass(frozen=True)
class ShardAnswer:
    """The answer of a shard without proposals, for the m clusters that have rows in it."""

    clusters: IndexArray
    """(m,), numbers of the clusters, ascending."""
    moments: Moments
    """Moments of these clusters."""
    reaches: Float64Array
    """(m,), greatest squared distance of a row to its center."""

    @classmethod
    def of(cls, scan: Scan, most_bytes: int) -> "ShardAnswer | None":
        """Return the answer in compact form; None if it exceeds `most_bytes`.

        Also None with proposals or outliers.
        """
        places = np.flatnonzero(scan.moments.counts)
        clusters = places if scan.clusters is None else scan.clusters[places]
        size = clusters.size * 8 * (5 + scan.moments.sums.shape[1])
        if len(scan.proposals) or scan.outliers or size > most_bytes:
            return None
        return cls(clusters, scan.moments.keep(places), scan.reaches[places])

    def to_scan(self, k: int) -> Scan:
        """Return the answer for k clusters."""
        none = Proposals.none(self.moments.sums.shape[1])
        found = Scan(self.moments, none, self.reaches, clusters=self.clusters)
        return found if k * self.moments.sums.shape[1] >= LEAST_SPARSE else found.of_all(k)


def reusable_answers(
    before: Float64Array, after: Float64Array, kept: Mapping[int, ShardAnswer]
) -> dict[int, ShardAnswer]:
    """Return the answers, by shard, that stay valid when centers (k, d) become centers (m, d).

    The clusters get their new numbers.  Centers that have not moved must be in the same order as
    before, because the order decides between equal distances.
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
    valid = {}
    for shard, each in left.items():
        farthest = 4 * each.reaches * (1 + MARGIN) + UNDERFLOW
        if (clearances[each.clusters] * (1 - MARGIN) > farthest).all():
            valid[shard] = replace(each, clusters=numbers[each.clusters])
    return valid
