"""Data sets that share centers: the cheapest center of each row, and openings of centers or uses.

A *use* is a local cluster of a data set: the center to which it is tied, paid for by the set.  A
row costs its squared distance to a center that its set uses, this plus the local penalty for
another center, and both penalties for a new one (Kulis & Jordan 2012, Algorithm 2, step 4).  A row
of weight w bears 1 / min(1, w) of each penalty, so that the objective never rises and integer
weights act as repeated rows.  Among equal costs a used center wins, then the lowest number.

In place of the squared distance, here and below, a row may have any cost that is linear in it (Jiang,
Kulis & Jordan 2012, section 4): the divergence of the centers.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dask_dpmeans.kernels import hdp_compiled
from dask_dpmeans.kernels.answers import Records
from dask_dpmeans.kernels.assign import labels_of
from dask_dpmeans.kernels.block import (
    Block,
    BoolArray,
    Float64Array,
    IndexArray,
    Int64Array,
    IntegerArray,
    Labels,
)
from dask_dpmeans.kernels.distance import Centers, costs, nearest_squared
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.keyed_sums import UseMoments, use_moments
from dask_dpmeans.kernels.numba_support import PLAIN, compiled_or_plain, pays

NO_OPENERS = np.empty(0, np.int64)


@dataclass(frozen=True)
class HDPPrices:
    """HDPPrices of openings, in squared units of the rows times weight."""

    local: float
    """Price of a use: lambda_l."""
    opening: float
    """Price of a center: lambda_g."""

    @property
    def both(self) -> float:
        """Price of a center and its first use."""
        return self.local + self.opening


@dataclass(frozen=True)
class Sharing:
    """Global centers, and the centers that each data set uses."""

    centers: Centers
    """g centers."""
    starts: Int64Array
    """(n_groups + 1,): group j has the uses from ``starts[j]`` to before ``starts[j + 1]``."""
    used: Int64Array
    """(n_uses,), their centers, ascending within each group."""
    openers: Int64Array
    """(m,), rows that opened a center or a use in this sweep and stay in it, ascending."""
    kept: Int64Array
    """(m,), the centers of these rows."""

    @classmethod
    def of(
        cls,
        centers: Float64Array,
        groups: Int64Array,
        used: Int64Array,
        n_groups: int,
        openers: Int64Array = NO_OPENERS,
        kept: Int64Array = NO_OPENERS,
        *,
        divergence: Divergence | None = None,
    ) -> "Sharing":
        """Return the sharing of centers, (g, d), from pairs of a group and a used center, (p,).

        Pairs come in any order and may repeat, openers and the centers they keep, (m,), in any
        order.  The divergence is None for squared distances, else its costs are linear in the row.
        """
        groups, used = np.divmod(np.unique(groups * len(centers) + used), len(centers))
        starts = np.searchsorted(groups, np.arange(n_groups + 1)).astype(np.int64)
        order = np.argsort(openers)
        return cls(Centers(centers, divergence), starts, used, openers[order], kept[order])

    @cached_property
    def groups(self) -> Int64Array:
        """(n_uses,), the data set of each use."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def keys(self) -> Int64Array:
        """(n_uses,), group * g + center of each use, ascending."""
        return self.groups * len(self.centers) + self.used

    def with_openings(
        self, requests: "Requests", kinds: Int64Array, targets: Int64Array
    ) -> "Sharing":
        """Return the sharing after openings, (m,) each; see `open_in_order`."""
        new = requests.rows[kinds == hdp_compiled.NEW_CENTER]
        return Sharing.of(
            np.concatenate([self.centers.values, new]),
            np.concatenate([self.groups, requests.groups]),
            np.concatenate([self.used, targets]),
            len(self.starts) - 1,
            np.concatenate([self.openers, requests.numbers]),
            np.concatenate([self.kept, targets]),
            divergence=self.centers.divergence,
        )


@dataclass(frozen=True)
class Choice:
    """Centers of the rows of a block, (height,) each."""

    labels: IndexArray
    """The center kept by an opener, else the nearest in use by the data set, else the nearest."""
    squared: Float64Array
    """Squared distances to these."""
    uses: Int64Array
    """Numbers of the uses; -1 for a row whose set uses no center."""
    nearest: IndexArray
    """The nearest center of all."""
    nearest_squared: Float64Array
    """Squared distances to these."""
    objecting: BoolArray
    """Whether another center, possibly a new one, would cost less."""


def choose(block: Block, sharing: Sharing, prices: HDPPrices) -> Choice:
    """Return the centers of a block's rows."""
    assert block.groups is not None
    nearest, near_squared = nearest_squared(block.rows, sharing.centers, block.scratch)
    n = len(nearest)
    chosen = Choice(
        labels=nearest.copy(),
        squared=near_squared.copy(),
        uses=np.empty(n, np.int64),
        nearest=nearest,
        nearest_squared=near_squared,
        objecting=np.empty(n, np.bool_),
    )
    given = (
        block.rows,
        block.groups,
        np.empty(0) if block.weights is None else block.weights,
        sharing.centers.definition,
        sharing.starts,
        sharing.used,
        (prices.local, prices.both),
        (chosen.nearest, chosen.nearest_squared),
        (chosen.labels, chosen.squared, chosen.uses, chosen.objecting),
    )
    uses = len(sharing.used) // max(1, len(sharing.starts) - 1)
    if pays(hdp_compiled.choose_compiled, given, 8 * block.rows.size * (1 + uses)):
        hdp_compiled.choose_compiled(*given)
    else:
        _choose(block, sharing, prices, chosen)
    first, last = np.searchsorted(sharing.openers, [block.start, block.start + n])
    if last > first:
        which, kept = sharing.openers[first:last] - block.start, sharing.kept[first:last]
        chosen.labels[which], chosen.objecting[which] = kept, False
        chosen.squared[which] = costs(block.rows[which], sharing.centers, kept)
        chosen.uses[which] = find_uses(sharing, block.groups[which], kept)
    return chosen


def find_uses(sharing: Sharing, groups: Int64Array, centers: IntegerArray) -> Int64Array:
    """Return the numbers of the uses of centers by groups, (n,) each; -1 for a pair without use."""
    keys, wanted = sharing.keys, groups * len(sharing.centers) + centers
    positions = np.searchsorted(keys, wanted)
    known = positions < len(keys)
    known[known] = keys[positions[known]] == wanted[known]
    return np.where(known, positions, -1)


def _choose(block: Block, sharing: Sharing, prices: HDPPrices, chosen: Choice) -> None:
    """NumPy twin of `hdp_compiled.choose_compiled`."""
    assert block.groups is not None
    n_groups = len(sharing.starts) - 1
    known = block.groups < n_groups
    inside = np.where(known, block.groups, 0)
    chosen.uses[:] = np.where(known, find_uses(sharing, block.groups, chosen.nearest), -1)
    share = np.ones(len(inside)) if block.weights is None else np.minimum(1.0, block.weights)
    elsewhere = np.flatnonzero(chosen.uses < 0)
    if n_groups:
        _choose_used(block, sharing, chosen, elsewhere[known[elsewhere]])
    with np.errstate(divide="ignore"):
        local, both = prices.local / share, prices.both / share
    used = np.where(chosen.uses >= 0, chosen.squared, np.inf)
    unused = np.full(len(used), np.inf)
    unused[elsewhere] = chosen.nearest_squared[elsewhere] + local[elsewhere]
    chosen.objecting[:] = (share > 0) & ((unused < used) | (np.minimum(used, unused) > both))


def _choose_used(block: Block, sharing: Sharing, chosen: Choice, rows: IndexArray) -> None:
    """Fill in the nearest used centers of some rows, (m,) positions, whose data sets are known."""
    assert block.groups is not None
    groups = block.groups[rows]
    counts = sharing.starts[groups + 1] - sharing.starts[groups]
    rows, groups, counts = rows[counts > 0], groups[counts > 0], counts[counts > 0]
    if not len(rows):
        return
    ends = np.cumsum(counts)
    begins = ends - counts
    pair = np.repeat(np.arange(len(rows)), counts)  # the row of each pair of a row and a use
    uses = sharing.starts[groups][pair] + np.arange(ends[-1]) - begins[pair]
    centers = sharing.used[uses]
    squared = costs(block.rows[rows[pair]], sharing.centers, centers)
    least = np.minimum.reduceat(squared, begins)
    hits = np.flatnonzero(squared == least[pair])
    firsts = hits[np.unique(pair[hits], return_index=True)[1]]
    chosen.uses[rows], chosen.labels[rows] = uses[firsts], centers[firsts]
    chosen.squared[rows] = least


@dataclass(frozen=True)
class Requests(Records):
    """Rows that object, in row order, with their best known centers."""

    numbers: Int64Array
    """(m,), global row numbers."""
    rows: Float64Array
    """(m, d), the rows as given."""
    weights: Float64Array
    """(m,), their weights."""
    groups: Int64Array
    """(m,), their data sets."""
    used: Float64Array
    """(m,), squared distance to the nearest center in use by the set; infinite without any."""
    unused: Float64Array
    """(m,), squared distance to the nearest center not in use; infinite if it cannot be best."""
    wanted: Int64Array
    """(m,), the number of the latter."""


def requests_of(block: Block, chosen: Choice) -> Requests:
    """Return the rows of a block that object."""
    assert block.groups is not None
    which = np.flatnonzero(chosen.objecting)
    at_nearest = chosen.labels[which] == chosen.nearest[which]
    is_used = chosen.uses[which] >= 0
    return Requests(
        numbers=block.start + which.astype(np.int64),
        rows=block.rows[which].astype(np.float64),
        weights=block.row_weights(which),
        groups=block.groups[which],
        used=np.where(is_used, chosen.squared[which], np.inf),
        unused=np.where(at_nearest & is_used, np.inf, chosen.nearest_squared[which]),
        wanted=chosen.nearest[which].astype(np.int64),
    )


def open_in_order(
    requests: Requests, centers: Centers, prices: HDPPrices
) -> tuple[Int64Array, Int64Array]:
    """Return what each request opens if the rule takes them in order, beside g centers.

    Blocks and the coordinator share this rule.  Until it is compiled it is a plain Python loop.

    Returns
    -------
    (m,) kinds: 0, or `NEW_USE` or `NEW_CENTER` of `hdp_compiled`; and (m,) their centers, new ones
    numbered from g on
    """
    kinds, targets = np.zeros(len(requests), np.int64), np.zeros(len(requests), np.int64)
    if len(requests):
        _, slots = np.unique(requests.groups, return_inverse=True)
        asked = requests.weights, slots.ravel(), requests.used, requests.unused, requests.wanted
        points = centers.definition, Centers(requests.rows, centers.divergence).definition
        both_prices = prices.local, prices.both
        given = requests.rows, asked, points, both_prices, kinds, targets
        # Each request is compared with the openings before it, of which the number is not known.
        work = PLAIN * requests.rows.size * (4 + len(requests) // 32)
        loop = hdp_compiled.open_in_order_compiled
        compiled_or_plain(loop, given, work)(*given)
    return kinds, targets


@dataclass(frozen=True)
class GroupScan:
    """Answer of a run of blocks."""

    uses: UseMoments
    """Moments of the rows by use."""
    requests: Requests
    """The rows that open something if the rule takes the rows of this run in order."""


def scan_groups(block: Block, sharing: Sharing, prices: HDPPrices) -> GroupScan:
    """Return the answer of one block."""
    return scan_choice(block, choose(block, sharing, prices), sharing, prices)


def scan_choice(block: Block, chosen: Choice, sharing: Sharing, prices: HDPPrices) -> GroupScan:
    """Return the answer of one block whose rows have chosen centers."""
    requests = keep_openings(requests_of(block, chosen), sharing, prices)
    return GroupScan(use_moments(block, chosen.uses, chosen.squared), requests)


def merge_group_scans(
    left: GroupScan, right: GroupScan, sharing: Sharing, prices: HDPPrices
) -> GroupScan:
    """Merge the answers of two neighboring runs."""
    requests = left.requests
    if len(right.requests):
        requests = keep_openings(left.requests.then(right.requests), sharing, prices)
    return GroupScan(left.uses + right.uses, requests)


def keep_openings(requests: Requests, sharing: Sharing, prices: HDPPrices) -> Requests:
    """Return the requests that open something."""
    if not len(requests):
        return requests
    kinds, _ = open_in_order(requests, sharing.centers, prices)
    return requests.take(kinds > 0)


@dataclass(frozen=True)
class NearestUses:
    """Reduction to the centers that data sets would use if all rows went to the nearest center."""

    centers: Centers
    """g centers."""

    def chunk(self, block: Block) -> Int64Array:
        """Return group * g + center, (p,) ascending, of the pairs that rows of weight form."""
        assert block.groups is not None
        nearest, _ = nearest_squared(block.rows, self.centers, block.scratch)
        keys = block.groups * len(self.centers) + nearest
        return np.unique(keys if block.weights is None else keys[block.weights > 0])

    def combine(self, left: Int64Array, right: Int64Array) -> Int64Array:
        """Return the union of the pairs, (p,) ascending, of two neighboring runs."""
        return np.union1d(left, right)


@dataclass(frozen=True)
class GroupLabels:
    """Map over blocks: the center of each row in the fit."""

    sharing: Sharing

    def __call__(self, block: Block) -> tuple[Labels]:
        """Return labels, (height,) int32; -1 for rows without any value."""
        labels = choose(block, self.sharing, HDPPrices(np.inf, np.inf)).labels
        return (labels_of(block.rows, labels, None, self.sharing.centers, None),)


@dataclass(frozen=True)
class GroupPredictions:
    """Map over blocks: the cheapest center of each row, in a known or an unknown data set.

    A center that a known data set does not use costs it the local penalty; other sets take the
    nearest.
    """

    sharing: Sharing
    prices: HDPPrices

    def __call__(self, block: Block) -> tuple[Labels, Float64Array, BoolArray]:
        """Return labels (int32), squared distances, and if a new center costs less: (height,)."""
        chosen = choose(replace(block, weights=None), self.sharing, self.prices)
        used = np.where(chosen.uses >= 0, chosen.squared, np.inf)
        unused = chosen.nearest_squared + self.prices.local
        other = unused < used
        nearest = np.where(other, chosen.nearest, chosen.labels)
        labels = labels_of(block.rows, nearest, None, self.sharing.centers, None)
        squared = np.where(other, chosen.nearest_squared, chosen.squared)
        return labels, squared, np.minimum(used, unused) > self.prices.both


@dataclass(frozen=True)
class PredictedLabels:
    """Map over blocks: the labels of `GroupPredictions` alone."""

    sharing: Sharing
    prices: HDPPrices

    def __call__(self, block: Block) -> tuple[Labels]:
        """Return labels, (height,) int32."""
        return GroupPredictions(self.sharing, self.prices)(block)[:1]
