"""The serial opening rule: which rows of a sequence open clusters, one after the other.

A row of weight w objects to a center if min(1, w) times its squared distance exceeds the penalty.
A row that objects to every center so far opens a cluster.  With w >= 1 this is Algorithm 1 of
Kulis & Jordan 2012.  min(1, w) bounds the saving from above by what the row can pay for, so that
the objective never rises, and integer weights act as repeated rows do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.answers import Records
from dask_dpmeans.kernels.block import BoolArray, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.numba_support import CALL, compile_loop, pays

BATCH = 256
"""Proposals that are compared together with the openers so far."""


@dataclass(frozen=True)
class Proposals(Records):
    """Rows that object to every center, in row order."""

    numbers: Int64Array
    """(m,), global row numbers."""
    rows: Float64Array
    """(m, d), the rows as given."""
    weights: Float64Array
    """(m,), weights of the rows."""

    @classmethod
    def none(cls, d: int) -> "Proposals":
        """Return no proposals, of d columns."""
        return cls(np.empty(0, np.int64), np.empty((0, d)), np.empty(0))


def objects(squared: Float64Array, weights: Float64Array | None, penalty: float) -> BoolArray:
    """Return whether rows at squared distances, (n,), from their centers object to all of them."""
    if weights is not None:
        squared = np.minimum(1.0, weights) * squared
    return np.asarray(squared > penalty)


def keep_openers(
    proposals: Proposals, penalty: float, divergence: Divergence | None = None
) -> Proposals:
    """Return the proposals that open clusters when taken in order, starting without centers.

    The cost is the squared distance, here and below, if the divergence is None.  The openers are
    kept in runs, each twice as long as the next one, so that trees of them are built a few times only.
    """
    runs: list[tuple[Proposals, Centers]] = []
    for start in range(0, len(proposals), BATCH):
        batch = proposals.take(np.arange(start, min(start + BATCH, len(proposals))))
        for _, centers in runs:
            batch = _objecting(batch, centers, penalty)
        opened = _open_in_order(batch, penalty, divergence)
        while runs and len(runs[-1][0]) <= 2 * len(opened):
            opened = runs.pop()[0].then(opened)
        runs.append((opened, Centers(opened.rows, divergence)))
    openers = proposals.take(slice(0))
    for opened, _ in runs:
        openers = openers.then(opened)
    return openers


def merge_openers(
    left: Proposals, right: Proposals, penalty: float, divergence: Divergence | None = None
) -> Proposals:
    """Merge the openers of two neighboring runs: `left`, then the rows of `right` that object."""
    if not len(right):
        return left
    return left.then(keep_objecting(right, left.rows, penalty, divergence))


def keep_objecting(
    proposals: Proposals,
    centers: Float64Array,
    penalty: float,
    divergence: Divergence | None = None,
) -> Proposals:
    """Return the proposals that object to each of the centers, (k, d)."""
    return _objecting(proposals, Centers(centers, divergence), penalty)


def _objecting(proposals: Proposals, centers: Centers, penalty: float) -> Proposals:
    if not len(proposals) or not len(centers):
        return proposals
    _, squared = nearest_squared(proposals.rows, centers)
    return proposals.take(objects(squared, proposals.weights, penalty))


def open_one_by_one(
    proposals: Proposals, still_object: Callable[[Proposals, Proposals], Proposals]
) -> Proposals:
    """Return the proposals that open clusters in order.

    `still_object` takes the proposals after an opener, and the opener, and returns those that
    object to it.
    """
    openers, left = proposals.take(slice(0)), proposals
    while len(left):
        opener = left.take(slice(1))
        openers, left = openers.then(opener), still_object(left.take(slice(1, None)), opener)
    return openers


def _open_in_order(
    proposals: Proposals, penalty: float, divergence: Divergence | None
) -> Proposals:
    """Return the openers of a batch."""
    opened = np.empty(len(proposals), np.bool_)
    given = proposals.rows, proposals.weights, float(penalty), opened
    work = len(proposals) * CALL
    if divergence is None and pays(_open_in_order_compiled, given, work):
        _open_in_order_compiled(*given)
        return proposals.take(opened)
    return open_one_by_one(
        proposals, lambda others, opener: keep_objecting(others, opener.rows, penalty, divergence)
    )


@compile_loop
def _open_in_order_compiled(
    rows: Float64Array, weights: Float64Array, penalty: float, opened: BoolArray
) -> None:
    """Fill `opened`, (n,): whether each row, (n, d), objects to all rows opened before it."""
    n, d = rows.shape
    kept, k = np.empty(n, np.intp), 0
    for i in range(n):
        share, objecting = min(1.0, weights[i]), True
        for c in range(k):
            squared = 0.0
            for j in range(d):
                difference = rows[i, j] - rows[kept[c], j]
                squared += difference * difference
            if not share * squared > penalty:
                objecting = False
                break
        opened[i] = objecting
        if objecting:
            kept[k] = i
            k += 1
