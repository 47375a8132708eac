"""Statistics for the search of the HDP: the cost of giving up a use, the saving of a new one.

Both are exact for the centers as they are, row by row.  Moving the means afterwards saves more.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.kernels.block import Block, Float64Array, IndexArray, Int64Array, Rows
from dask_dpmeans.kernels.distance import Centers, costs
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.hdp import (
    Choice,
    GroupScan,
    HDPPrices,
    Sharing,
    choose,
    find_uses,
    merge_group_scans,
    scan_choice,
)
from dask_dpmeans.kernels.hdp_compiled import Points
from dask_dpmeans.kernels.keyed_sums import (
    KeyedSums,
    UseMoments,
    UseSums,
    rank_numbers,
    use_moments,
)
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.numba_support import compile_loop, pays


@dataclass(frozen=True)
class SearchScan(GroupScan):
    """Answer of a run of blocks, with what changes of uses cost and save."""

    losses: UseSums
    """By use: increase of the rows' cost at other centers of the set; infinite without any."""
    savings: UseSums
    """By group * g + center, for centers not in use by the group: decrease of the cost there."""
    halves: UseMoments
    """Moments of the halves of the uses, with squared errors about the children of the centers.

    Of use u, the rows nearer to the first child are number 2u, the others 2u + 1.
    """


def scan_for_search(
    block: Block, sharing: Sharing, prices: HDPPrices, children: Float64Array
) -> SearchScan:
    """Return the answer of one block.

    Children, (h, 2, d), belong to the first h centers, which opened before this sweep.
    """
    chosen = choose(block, sharing, prices)
    losses, savings = find_changes(block, chosen, sharing)
    return SearchScan(
        **vars(scan_choice(block, chosen, sharing, prices)),
        losses=losses,
        savings=savings,
        halves=half_moments(block, chosen, children, sharing.centers.divergence),
    )


def half_moments(
    block: Block, chosen: Choice, children: Float64Array, divergence: Divergence | None = None
) -> UseMoments:
    """Return moments of the halves of uses, split by children, (h, 2, d); see `SearchScan`."""
    known = chosen.labels < len(children)
    both = Centers(children.reshape(2 * len(children), -1), divergence)
    labels = np.where(known, chosen.labels, 0)
    first, second = (costs(block.rows, both, 2 * labels + side) for side in (0, 1))
    sides = known & (second < first)
    keys = np.where(chosen.uses >= 0, 2 * chosen.uses + sides, -1)
    return use_moments(block, keys, np.where(sides, second, first))


def merge_search_scans(
    left: SearchScan, right: SearchScan, sharing: Sharing, prices: HDPPrices
) -> SearchScan:
    """Merge the answers of two neighboring runs."""
    return SearchScan(
        **vars(merge_group_scans(left, right, sharing, prices)),
        losses=left.losses + right.losses,
        savings=left.savings + right.savings,
        halves=left.halves + right.halves,
    )


def find_changes(block: Block, chosen: Choice, sharing: Sharing) -> tuple[UseSums, UseSums]:
    """Return the losses and savings of a block; see `SearchScan`."""
    assert block.groups is not None
    k, some = len(sharing.centers), np.flatnonzero(chosen.uses >= 0)
    if not len(some):
        empty = KeyedSums(np.empty(0, np.int64), np.empty(0))
        return empty, empty
    groups, slots = rank_numbers(block.groups[some])
    weights = block.row_weights(some)
    rows = np.ascontiguousarray(block.rows[some])
    losses, savings = np.zeros(len(some)), np.zeros((len(groups), k))
    own = chosen.uses[some], chosen.squared[some]
    sets = block.groups[some], slots, sharing.starts, sharing.used
    given = rows, weights, sharing.centers.definition, sets, own, (losses, savings)
    if pays(_use_changes_compiled, given, 8 * rows.size * k):
        _use_changes_compiled(*given)
    else:
        _use_changes(rows, weights, sharing, block.groups[some], slots, own, losses, savings)
    uses, ranks = rank_numbers(own[0])
    slot, centers = np.nonzero(savings)
    return (
        KeyedSums(uses, total(ranks, losses, len(uses))),
        KeyedSums(groups[slot] * k + centers, savings[slot, centers]),
    )


def _use_changes(
    rows: Rows,
    weights: Float64Array,
    sharing: Sharing,
    groups: Int64Array,
    slots: IndexArray,
    own: tuple[Int64Array, Float64Array],
    losses: Float64Array,
    savings: Float64Array,
) -> None:
    """NumPy twin of `_use_changes_compiled`."""
    uses, squared = own
    seconds = np.full(len(rows), np.inf)
    for center in range(len(sharing.centers)):
        labels = np.full(len(rows), center)
        to_center = costs(rows, sharing.centers, labels)
        use = find_uses(sharing, groups, labels)
        other = (use >= 0) & (use != uses)
        seconds[other] = np.minimum(seconds[other], to_center[other])
        saves = (use < 0) & (to_center < squared)
        saved = np.where(saves, weights * (squared - to_center), 0.0)
        savings[:, center] = np.bincount(slots, saved, len(savings))
    heavy = weights > 0
    losses[heavy] = weights[heavy] * (seconds[heavy] - squared[heavy])


@compile_loop
def _use_changes_compiled(
    rows: Rows,
    weights: Float64Array,
    centers: Points,
    sets: tuple[Int64Array, IndexArray, Int64Array, Int64Array],
    own: tuple[Int64Array, Float64Array],
    found: tuple[Float64Array, Float64Array],
) -> None:
    """Add the parts of rows, (n, d), to `found`: losses, (n,), and savings, (slots, k)."""
    groups, slots, starts, used = sets
    uses, squared = own
    losses, savings = found
    values, constants = centers
    for i in range(len(rows)):
        second, position, last = np.inf, starts[groups[i]], starts[groups[i] + 1]
        for c in range(len(values)):
            is_used = position < last and used[position] == c
            if is_used:
                position += 1
                if position - 1 == uses[i]:
                    continue
            total, limit = 0.0, second if is_used else squared[i]
            if constants.size:
                total = constants[c]
                for j in range(rows.shape[1]):
                    total += np.float64(rows[i, j]) * values[c, j]
                total = total if total > 0.0 else 0.0
            else:
                for j in range(rows.shape[1]):
                    difference = np.float64(rows[i, j]) - values[c, j]
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
