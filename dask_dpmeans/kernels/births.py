"""The serial opening rule: which rows of a sequence open clusters, one after the other.

A row of weight w opens a cluster iff min(1, w) times its squared distance to every center so far exceeds the penalty.
With w >= 1 this is Algorithm 1 of Kulis & Jordan 2012; the weight bounds the saving from above by what the row can pay
for, so that the objective never rises, and integer weights act as repeated rows do.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels import compiled
from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.distance import Centers, costs, nearest_squared
from dask_dpmeans.kernels.divergence import Divergence

BATCH = 256
"""Rows that the rule looks at together against the rows kept so far."""


@dataclass(frozen=True)
class Proposals:
    """Rows that object to every center, in row order."""

    numbers: Int64Array
    """(m,), global row numbers."""
    rows: Float64Array
    """(m, d), the rows as given."""
    weights: Float64Array
    """(m,), their weights."""

    @classmethod
    def none(cls, d: int) -> "Proposals":
        """No row, of d columns."""
        return cls(np.empty(0, np.int64), np.empty((0, d)), np.empty(0))

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: IndexArray | BoolArray) -> "Proposals":
        """Some of the proposals, by place or mask."""
        return Proposals(self.numbers[which], self.rows[which], self.weights[which])

    def then(self, other: "Proposals") -> "Proposals":
        """These, followed by `other`."""
        return Proposals(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.weights, other.weights]),
        )


def objects(squared: Float64Array, weights: Float64Array | None, penalty: float) -> BoolArray:
    """Whether rows at these squared distances from their nearest centers object to all of them."""
    price = squared if weights is None else np.minimum(1.0, weights) * squared
    objecting: BoolArray = price > penalty
    return objecting


def cover(proposals: Proposals, penalty: float, divergence: Divergence | None = None) -> Proposals:
    """The rows that open clusters when the rule goes through the proposals in order, starting from no center."""
    kept = proposals.take(np.empty(0, np.intp))
    for start in range(0, len(proposals), BATCH):
        batch = proposals.take(np.arange(start, min(start + BATCH, len(proposals))))
        kept = kept.then(_one_by_one(beyond(batch, kept.rows, penalty, divergence), penalty, divergence))
    return kept


def merge_covers(left: Proposals, right: Proposals, penalty: float, divergence: Divergence | None = None) -> Proposals:
    """The cover of two neighboring runs: all of `left`, then what of `right` objects to it."""
    return left.then(beyond(right, left.rows, penalty, divergence))


def beyond(
    proposals: Proposals, centers: Float64Array, penalty: float, divergence: Divergence | None = None
) -> Proposals:
    """The proposals that object to each of the centers, (k, d)."""
    if not len(proposals) or not len(centers):
        return proposals
    _, squared = nearest_squared(proposals.rows, Centers(centers, divergence))
    return proposals.take(objects(squared, proposals.weights, penalty))


def _one_by_one(proposals: Proposals, penalty: float, divergence: Divergence | None) -> Proposals:
    """The cover of a batch."""
    if compiled.AVAILABLE and divergence is None:
        which = np.empty(len(proposals), np.bool_)
        compiled.open_one_by_one(proposals.rows, proposals.weights, float(penalty), which)
        return proposals.take(which)
    left = np.arange(len(proposals))
    opened = []
    while left.size:
        first, left = left[0], left[1:]
        opened.append(first)
        center = Centers(proposals.rows[first : first + 1], divergence)
        squared = costs(proposals.rows[left], center, np.zeros(len(left), np.intp))
        left = left[objects(squared, proposals.weights[left], penalty)]
    return proposals.take(np.array(opened, np.intp))
