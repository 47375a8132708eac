"""What the search of the HDP learns in a pass: what giving up a use would cost, and what taking one up would save.

Both for the centers as they are, row by row, so that they are exact; what the means then move to saves more.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array, Rows
from dask_dpmeans.kernels.distance import squared_distances
from dask_dpmeans.kernels.hdp import (
    Choice,
    GroupScan,
    Prices,
    Sharing,
    UseMoments,
    added,
    choose,
    find,
    merge_group_scans,
    opening,
    ranked,
    requests_of,
    united,
    use_moments,
)
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import compile_loop


@dataclass(frozen=True)
class Tally:
    """Sums by key."""

    keys: Int64Array
    """(m,), ascending."""
    values: Float64Array
    """(m,)."""

    def __add__(self, other: "Tally") -> "Tally":
        if not len(self.keys) or not len(other.keys):
            return self if len(self.keys) else other
        keys, here, there = united(self.keys, other.keys)
        return Tally(keys, added(self.values, here, other.values, there, len(keys)))


@dataclass(frozen=True)
class TradeScan(GroupScan):
    """The answer of a run of blocks."""

    losses: Tally
    """By use: what its rows would cost more at the centers that their sets use beside it; infinite without any."""
    savings: Tally
    """By group * g + center, of g centers, one that the set does not use: what its rows would save there."""
    halves: UseMoments
    """Of the halves of the uses: of use u, the rows nearer to its center's first child are number 2u, the others
    2u + 1; squared errors about the children."""


def scan_trades(block: Block, sharing: Sharing, prices: Prices, children: Float64Array) -> TradeScan:
    """The answer of one block; children, (h, 2, d), of the first h centers, which are those that opened before."""
    chosen = choose(block, sharing, prices)
    requests = opening(requests_of(block, chosen), sharing, prices)
    uses = use_moments(block, chosen.uses, chosen.squared)
    return TradeScan(uses, requests, *trades(block, chosen, sharing), half_moments(block, chosen, children))


def half_moments(block: Block, chosen: Choice, children: Float64Array) -> UseMoments:
    """The moments of the halves of a block's uses, as `TradeScan` has them."""
    known = chosen.labels < len(children)
    both, labels = children.reshape(2 * len(children), -1), np.where(known, chosen.labels, 0)
    first, second = (squared_distances(block.rows, both, 2 * labels + side) for side in (0, 1))
    sides = known & (second < first)
    keys = np.where(chosen.uses >= 0, 2 * chosen.uses + sides, -1)
    return use_moments(block, keys, np.where(sides, second, first))


def merge_trade_scans(left: TradeScan, right: TradeScan, sharing: Sharing, prices: Prices) -> TradeScan:
    """The answer of two neighboring runs."""
    both = merge_group_scans(left, right, sharing, prices)
    losses, savings = left.losses + right.losses, left.savings + right.savings
    return TradeScan(both.uses, both.requests, losses, savings, left.halves + right.halves)


def trades(block: Block, chosen: Choice, sharing: Sharing) -> tuple[Tally, Tally]:
    """The losses and savings of a block, as `TradeScan` has them."""
    assert block.groups is not None
    k, some = len(sharing.centers), np.flatnonzero(chosen.uses >= 0)
    if not len(some):
        nothing = Tally(np.empty(0, np.int64), np.empty(0))
        return nothing, nothing
    groups, slots = ranked(block.groups[some])
    weights = np.ones(len(some)) if block.weights is None else block.weights[some]
    rows = np.ascontiguousarray(block.rows[some])
    losses, savings = np.zeros(len(some)), np.zeros((len(groups), k))
    own = chosen.uses[some], chosen.squared[some]
    if numba_support.AVAILABLE:
        sets = block.groups[some], slots, sharing.starts, sharing.used
        _trades_compiled(rows, weights, sharing.centers.values, sets, own, (losses, savings))
    else:
        _trades(rows, weights, sharing, block.groups[some], slots, own, losses, savings)
    uses, ranks = ranked(own[0])
    places, centers = np.nonzero(savings)
    return (
        Tally(uses, total(ranks, losses, len(uses))),
        Tally(groups[places] * k + centers, savings[places, centers]),
    )


def _trades(
    rows: Any,
    weights: Float64Array,
    sharing: Sharing,
    groups: Int64Array,
    slots: Any,
    own: tuple[Int64Array, Float64Array],
    losses: Float64Array,
    savings: Float64Array,
) -> None:
    """As `_trades_compiled`."""
    uses, squared = own
    seconds = np.full(len(rows), np.inf)
    for center in range(len(sharing.centers)):
        there = squared_distances(rows, sharing.centers.values, np.full(len(rows), center))
        use = find(sharing, groups, np.full(len(rows), center))
        other = (use >= 0) & (use != uses)
        seconds[other] = np.minimum(seconds[other], there[other])
        saves = np.where((use < 0) & (there < squared), weights * (squared - there), 0.0)
        savings[:, center] = np.bincount(slots, saves, len(savings))
    heavy = weights > 0
    losses[heavy] = weights[heavy] * (seconds[heavy] - squared[heavy])


@compile_loop
def _trades_compiled(
    rows: Rows,
    weights: Float64Array,
    centers: Float64Array,
    sets: tuple[Int64Array, IndexArray, Int64Array, Int64Array],
    own: tuple[Int64Array, Float64Array],
    found: tuple[Float64Array, Float64Array],
) -> None:
    """Add what each row, (n, d), contributes to `found`: losses, (n,), and savings, (slots, k)."""
    groups, slots, starts, used = sets
    uses, squared = own
    losses, savings = found
    for i in range(len(rows)):
        second, place, last = np.inf, starts[groups[i]], starts[groups[i] + 1]
        for c in range(len(centers)):
            is_used = place < last and used[place] == c
            if is_used:
                place += 1
                if place - 1 == uses[i]:
                    continue
            total, limit = 0.0, second if is_used else squared[i]
            for j in range(rows.shape[1]):
                difference = np.float64(rows[i, j]) - centers[c, j]
                total += difference * difference
                if total >= limit:  # it only grows
                    break
            if total >= limit:
                continue
            if is_used:
                second = total
            else:
                savings[slots[i], c] += weights[i] * (squared[i] - total)
        if weights[i] > 0:
            losses[i] = weights[i] * (second - squared[i])
