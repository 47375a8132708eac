"""Answers that stand: what a run of rows answered in one pass, where it must answer the same in the next.

A row keeps its center if that has not moved and every center that has, or is new, is more than twice as far from it as
the row is: the triangle inequality, as Elkan 2003 has it, for all rows of a cluster in a shard at once.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Float64Array, IndexArray
from dask_dpmeans.kernels.cover import Proposals
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.moments import Moments
from dask_dpmeans.kernels.scan import Scan

MOST_BYTES = 2**14
"""Of what is kept of a shard."""
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
    def of(cls, scan: Scan) -> "Kept | None":
        """What is kept of an answer; None where rows object, or their clusters are many."""
        clusters = np.flatnonzero(scan.moments.counts)
        size = clusters.size * 8 * (5 + scan.moments.sums.shape[1])
        if len(scan.proposals) or size > MOST_BYTES:
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


@dataclass(frozen=True)
class Change:
    """What became of k centers."""

    numbers: IndexArray
    """(k,), the number of each now; -1 where it has moved or is gone."""
    clearances: Float64Array
    """(k,), the squared distance of each, where it was, to the nearest center that is new or has moved."""

    @classmethod
    def between(cls, before: Float64Array, after: Float64Array) -> "Change":
        """From centers (k, d) to centers (m, d); nothing stands where those that have not moved changed their order."""
        first: dict[bytes, int] = {}
        for number, center in enumerate(after):
            first.setdefault(center.tobytes(), number)
        numbers = np.array([first.get(center.tobytes(), -1) for center in before], np.intp)
        same = numbers[numbers >= 0]
        if not (np.diff(same) > 0).all():
            return cls(np.full(len(before), -1), np.zeros(len(before)))
        fresh = np.delete(after, same, axis=0)
        if not len(fresh):
            return cls(numbers, np.full(len(before), np.inf))
        return cls(numbers, nearest_squared(before, Centers(fresh))[1])

    def standing(self, kept: Kept) -> Kept | None:
        """What is kept, by the numbers of now; None where a row may have got another center."""
        numbers = self.numbers[kept.clusters]
        clear = self.clearances[kept.clusters] * (1 - MARGIN) > 4 * kept.reaches * (1 + MARGIN) + UNDERFLOW
        return Kept(numbers, kept.moments, kept.reaches) if (numbers >= 0).all() and clear.all() else None
