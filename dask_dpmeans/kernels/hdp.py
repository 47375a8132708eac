"""Data sets that share centers: which center each row goes to, and which rows open a center, or a use of one.

A *use* is a data set's local cluster: the center that it is tied to, for which the set has paid.  A row may go to a
center that its set uses at the squared distance, to any other at that and the local penalty, and to a new one at both
penalties (Kulis & Jordan 2012, Algorithm 2, step 4).  A row of weight w bears 1 / min(1, w) of each penalty, so that
the objective never rises and integer weights act as repeated rows do.  Among equals a used center wins, then the lowest
number.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels import hdp_compiled, numba_support
from dask_dpmeans.kernels.block import Block, BoolArray, Float64Array, IndexArray, Int64Array
from dask_dpmeans.kernels.distance import Centers, nearest_squared, squared_distances
from dask_dpmeans.kernels.moments import Moments, cluster_moments


@dataclass(frozen=True)
class Prices:
    """What opening costs, in squared units of the rows times weight."""

    local: float
    """Of a use: lambda_l."""
    opening: float
    """Of a center: lambda_g."""

    @property
    def both(self) -> float:
        """Of a center and its first use."""
        return self.local + self.opening


@dataclass(frozen=True)
class Sharing:
    """Global centers, and which data set uses which of them."""

    centers: Centers
    """g of them."""
    starts: Int64Array
    """(n_groups + 1,): the uses of group j are those from ``starts[j]`` to before ``starts[j + 1]``."""
    used: Int64Array
    """(n_uses,), their centers, ascending for each group."""
    openers: Int64Array
    """(m,), rows that opened something in this sweep and keep it, ascending."""
    kept: Int64Array
    """(m,), the centers that they keep."""

    @classmethod
    def of(
        cls,
        centers: Float64Array,
        groups: Int64Array,
        used: Int64Array,
        n_groups: int,
        openers: Any = (),
        kept: Any = (),
    ) -> "Sharing":
        """From pairs of a group and a center that it uses, in any order; a pair may come more than once."""
        groups, used = np.divmod(np.unique(groups * len(centers) + used), len(centers))
        starts = np.searchsorted(groups, np.arange(n_groups + 1)).astype(np.int64)
        rows, rank = np.asarray(openers, np.int64), np.argsort(np.asarray(openers, np.int64))
        return cls(Centers(centers), starts, used, rows[rank], np.asarray(kept, np.int64)[rank])

    @cached_property
    def groups(self) -> Int64Array:
        """(n_uses,), the data set of each use."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def keys(self) -> Int64Array:
        """(n_uses,), a number for each pair of a data set and a center, ascending."""
        return self.groups * len(self.centers) + self.used

    def opened(self, requests: "Requests", kinds: Int64Array, targets: Int64Array) -> "Sharing":
        """The same after some openings: kind 1 is a use of the target, kind 2 a new center and its first use."""
        values = np.concatenate([self.centers.values, requests.rows[kinds == 2]])
        return Sharing.of(
            values,
            np.concatenate([self.groups, requests.groups]),
            np.concatenate([self.used, targets]),
            len(self.starts) - 1,
            np.concatenate([self.openers, requests.numbers]),
            np.concatenate([self.kept, targets]),
        )


@dataclass(frozen=True)
class Choice:
    """Where the rows of a block go, (height,) each."""

    labels: IndexArray
    """The nearest center that the row's data set uses; that which an opener keeps; the nearest of all where the set
    uses none."""
    squared: Float64Array
    """Squared distances to these."""
    uses: Int64Array
    """Numbers of the uses, -1 where the set uses none."""
    nearest: IndexArray
    """The nearest center of all."""
    nearest_squared: Float64Array
    """Squared distances to these."""
    objecting: BoolArray
    """Whether another center, be it a new one, would cost less."""


def choose(block: Block, sharing: Sharing, prices: Prices) -> Choice:
    """Where the rows of a block go."""
    assert block.groups is not None
    nearest, nearest_sq = nearest_squared(block.rows, sharing.centers, block.scratch)
    n = len(nearest)
    chosen = Choice(
        nearest.copy(), nearest_sq.copy(), np.empty(n, np.int64), nearest, nearest_sq, np.empty(n, np.bool_)
    )
    if numba_support.AVAILABLE:
        weights = np.empty(0) if block.weights is None else block.weights
        hdp_compiled.choose(
            block.rows,
            block.groups,
            weights,
            sharing.centers.values,
            sharing.starts,
            sharing.used,
            (prices.local, prices.both),
            (chosen.nearest, chosen.nearest_squared),
            (chosen.labels, chosen.squared, chosen.uses, chosen.objecting),
        )
    else:
        _choose(block, sharing, prices, chosen)
    first, last = np.searchsorted(sharing.openers, [block.start, block.start + n])
    if last > first:
        which, kept = sharing.openers[first:last] - block.start, sharing.kept[first:last]
        chosen.labels[which], chosen.objecting[which] = kept, False
        chosen.squared[which] = squared_distances(block.rows[which], sharing.centers.values, kept)
        chosen.uses[which] = find(sharing, block.groups[which], kept)
    return chosen


def find(sharing: Sharing, groups: Int64Array, centers: npt.NDArray[np.integer[Any]]) -> Int64Array:
    """The numbers of the uses of centers by groups, (n,) each; -1 where there is no such use."""
    keys, wanted = sharing.keys, groups * len(sharing.centers) + centers
    places = np.searchsorted(keys, wanted)
    there = places < len(keys)
    there[there] = keys[places[there]] == wanted[there]
    return np.where(there, places, -1)


def _choose(block: Block, sharing: Sharing, prices: Prices, chosen: Choice) -> None:
    """As `hdp_compiled.choose`."""
    assert block.groups is not None
    n_groups = len(sharing.starts) - 1
    known = block.groups < n_groups
    inside = np.where(known, block.groups, 0)
    chosen.uses[:] = np.where(known, find(sharing, block.groups, chosen.nearest), -1)
    share = np.ones(len(inside)) if block.weights is None else np.minimum(1.0, block.weights)
    elsewhere = np.flatnonzero(chosen.uses < 0)
    first = sharing.starts[inside[elsewhere]]
    counts = np.where(known[elsewhere], sharing.starts[inside[elsewhere] + 1] - first, 0) if n_groups else first * 0
    if counts.any():
        some = counts > 0
        ends = np.cumsum(counts[some])
        begins = ends - counts[some]
        pair = np.repeat(np.arange(len(ends)), counts[some])
        uses = first[some][pair] + np.arange(ends[-1]) - begins[pair]
        rows = elsewhere[some]
        squared = squared_distances(block.rows[rows[pair]], sharing.centers.values, sharing.used[uses])
        least = np.minimum.reduceat(squared, begins)
        hits = np.flatnonzero(squared == least[pair])
        firsts = hits[np.unique(pair[hits], return_index=True)[1]]
        chosen.uses[rows], chosen.labels[rows], chosen.squared[rows] = uses[firsts], sharing.used[uses[firsts]], least
    with np.errstate(divide="ignore"):
        local, both = prices.local / share, prices.both / share
    used = np.where(chosen.uses >= 0, chosen.squared, np.inf)
    unused = np.full(len(used), np.inf)
    unused[elsewhere] = chosen.nearest_squared[elsewhere] + local[elsewhere]
    chosen.objecting[:] = (share > 0) & ((unused < used) | (np.minimum(used, unused) > both))


@dataclass(frozen=True)
class Requests:
    """Rows that object, in row order, each with the best that it knew of."""

    numbers: Int64Array
    """(m,), global row numbers."""
    rows: Float64Array
    """(m, d), the rows as given."""
    weights: Float64Array
    """(m,), their weights."""
    groups: Int64Array
    """(m,), their data sets."""
    used: Float64Array
    """(m,), squared distance to the nearest center that the set uses; infinity where there is none."""
    unused: Float64Array
    """(m,), squared distance to the nearest that it does not use; infinity where that cannot be the best."""
    wanted: Int64Array
    """(m,), which that is."""

    @classmethod
    def none(cls, d: int) -> "Requests":
        """No row, of d columns."""
        integers, floats = np.empty(0, np.int64), np.empty(0)
        return cls(integers, np.empty((0, d)), floats, integers, floats, floats, integers)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, which: Any) -> "Requests":
        """Some of the requests, by place or mask."""
        return Requests(**{name: value[which] for name, value in vars(self).items()})

    def then(self, other: "Requests") -> "Requests":
        """These, followed by `other`."""
        if not len(other):
            return self
        return Requests(**{name: np.concatenate([value, vars(other)[name]]) for name, value in vars(self).items()})


def requests_of(block: Block, chosen: Choice) -> Requests:
    """The rows of a block that object."""
    assert block.groups is not None
    which = np.flatnonzero(chosen.objecting)
    if not len(which):
        return Requests.none(block.rows.shape[1])
    at_nearest = chosen.labels[which] == chosen.nearest[which]
    is_used = chosen.uses[which] >= 0
    return Requests(
        numbers=block.start + which.astype(np.int64),
        rows=block.rows[which].astype(np.float64),
        weights=np.ones(len(which)) if block.weights is None else block.weights[which],
        groups=block.groups[which],
        used=np.where(is_used, chosen.squared[which], np.inf),
        unused=np.where(at_nearest & is_used, np.inf, chosen.nearest_squared[which]),
        wanted=chosen.nearest[which].astype(np.int64),
    )


def open_in_order(requests: Requests, centers: Float64Array, prices: Prices) -> tuple[Int64Array, Int64Array]:
    """What each request opens when the rule goes through them in order: the one that blocks and the coordinator share.

    Without Numba this is a plain Python loop.

    Returns
    -------
    (m,) kinds, 0 for nothing, 1 for a use, 2 for a center and its first use; and (m,) the centers meant, new ones
    numbered after those of `centers`, (g, d)
    """
    kinds, targets = np.zeros(len(requests), np.int64), np.zeros(len(requests), np.int64)
    if len(requests):
        _, slots = np.unique(requests.groups, return_inverse=True)
        asked = requests.weights, slots.ravel(), requests.used, requests.unused, requests.wanted
        hdp_compiled.open_in_order(requests.rows, asked, centers, (prices.local, prices.both), kinds, targets)
    return kinds, targets


@dataclass(frozen=True)
class UseMoments:
    """The moments of some uses."""

    uses: Int64Array
    """(m,), their numbers, ascending."""
    moments: Moments
    """Of m clusters."""

    def __add__(self, other: "UseMoments") -> "UseMoments":
        if not len(other.uses) or not len(self.uses):
            return self if len(self.uses) else other
        uses, here, there = united(self.uses, other.uses)
        moments = {}
        for name, value in vars(self.moments).items():
            moments[name] = added(value, here, vars(other.moments)[name], there, len(uses))
        return UseMoments(uses, Moments(**moments))


def united(left: Int64Array, right: Int64Array) -> tuple[Int64Array, Any, Any]:
    """All different numbers of two ascending runs, (m,) and (n,), neither empty, and where those of each are in it."""
    if left[-1] < right[0]:
        return np.concatenate([left, right]), slice(len(left)), slice(len(left), None)
    here = np.arange(len(left)) + np.searchsorted(right, left)
    there = np.arange(len(right)) + np.searchsorted(left, right)
    both = np.searchsorted(left, right, side="right") - np.searchsorted(left, right)  # 1 where it is in both
    here -= np.concatenate([[0], np.cumsum(both)])[np.searchsorted(right, left)]
    there -= np.cumsum(both) - both
    numbers = np.empty(len(left) + len(right) - int(both.sum()), np.int64)
    numbers[here], numbers[there] = left, right
    return numbers, here, there


def added(left: Any, here: Any, right: Any, there: Any, size: int) -> Any:
    """The sum of two arrays whose entries stand at such places of one of that size."""
    total = np.zeros((size, *left.shape[1:]), left.dtype)
    total[here] = left
    total[there] += right
    return total


def use_moments(block: Block, uses: Int64Array, squared: Float64Array) -> UseMoments:
    """Moments of the uses of a block's rows, (height,) each; rows without a use, -1, are left out."""
    some = np.flatnonzero(uses >= 0)
    if len(some) < len(uses):
        weights = None if block.weights is None else block.weights[some]
        block = replace(block, rows=np.ascontiguousarray(block.rows[some]), weights=weights)
        uses, squared = uses[some], squared[some]
    if not len(uses):
        return UseMoments(uses, cluster_moments(block, uses, squared, 0))
    found, labels = ranked(uses)
    return UseMoments(found, cluster_moments(block, labels, squared, len(found)))


def ranked(numbers: Int64Array) -> tuple[Int64Array, IndexArray]:
    """The different numbers, ascending, and the rank of each, (n,); by counting where they lie close together."""
    low, high = int(numbers.min()), int(numbers.max())
    if high - low >= 8 * len(numbers):
        found, ranks = np.unique(numbers, return_inverse=True)
        return found, ranks.ravel()
    there = np.zeros(high - low + 1, np.bool_)
    there[numbers - low] = True
    places: IndexArray = np.cumsum(there) - 1
    return np.flatnonzero(there) + low, places[numbers - low]


@dataclass(frozen=True)
class GroupScan:
    """The answer of a run of blocks."""

    uses: UseMoments
    """Of the clusters that the uses make of the rows."""
    requests: Requests
    """Those rows that open something, taken in order from this run on."""


def scan_groups(block: Block, sharing: Sharing, prices: Prices) -> GroupScan:
    """The answer of one block."""
    chosen = choose(block, sharing, prices)
    requests = opening(requests_of(block, chosen), sharing, prices)
    return GroupScan(use_moments(block, chosen.uses, chosen.squared), requests)


def merge_group_scans(left: GroupScan, right: GroupScan, sharing: Sharing, prices: Prices) -> GroupScan:
    """The answer of two neighboring runs."""
    requests = left.requests
    if len(right.requests):
        requests = opening(left.requests.then(right.requests), sharing, prices)
    return GroupScan(left.uses + right.uses, requests)


def opening(requests: Requests, sharing: Sharing, prices: Prices) -> Requests:
    """Those of the requests that open something."""
    if not len(requests):
        return requests
    kinds, _ = open_in_order(requests, sharing.centers.values, prices)
    return requests.take(kinds > 0)


@dataclass(frozen=True)
class NearestUses:
    """A reduction: which centers each data set would use if all of its rows went to the nearest."""

    centers: Centers
    """g of them."""

    def chunk(self, block: Block) -> Int64Array:
        """Of one block, data set * g + center for each pair of these, ascending; rows without weight use none."""
        assert block.groups is not None
        nearest, _ = nearest_squared(block.rows, self.centers, block.scratch)
        keys = block.groups * len(self.centers) + nearest
        return np.unique(keys if block.weights is None else keys[block.weights > 0])

    def combine(self, left: Int64Array, right: Int64Array) -> Int64Array:
        """Of two neighboring runs."""
        return np.union1d(left, right)


@dataclass(frozen=True)
class GroupLabels:
    """The kernel of a map: the center of each row, as the fit has it."""

    sharing: Sharing

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32]]:
        """Labels, (height,) int32."""
        return (choose(block, self.sharing, Prices(np.inf, np.inf)).labels.astype(np.int32),)


@dataclass(frozen=True)
class GroupPredictions:
    """The kernel of a map: where a row would go, in a data set that is known or not."""

    sharing: Sharing
    prices: Prices

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32], Float64Array, BoolArray]:
        """Labels (height,) int32, squared distances, and whether a new center would cost less, (height,) each.

        A center that a known data set does not use costs it the local penalty; a set that uses none takes the nearest.
        """
        chosen = choose(replace(block, weights=None), self.sharing, self.prices)
        used = np.where(chosen.uses >= 0, chosen.squared, np.inf)
        unused = chosen.nearest_squared + self.prices.local
        other = unused < used
        squared = np.where(other, chosen.nearest_squared, chosen.squared)
        cost = np.minimum(used, unused)
        return np.where(other, chosen.nearest, chosen.labels).astype(np.int32), squared, cost > self.prices.both


@dataclass(frozen=True)
class PredictedLabels(GroupPredictions):
    """The same, of which the labels alone are wanted."""

    def __call__(self, block: Block) -> tuple[npt.NDArray[np.int32]]:  # type: ignore[override]
        """Labels, (height,) int32."""
        return super().__call__(block)[:1]
