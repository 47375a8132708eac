"""The hard Gaussian HDP: Algorithm 2 of Kulis & Jordan 2012, swept optimistically.

Several data sets are clustered at once.  Their local clusters are tied to global centers: a *use* of a center by a set.
The objective is eq. 2, squared error + local penalty * uses + global penalty * centers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from dask_dpmeans.engine.occ import Round, settle
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, nearest_squared, squared_distances
from dask_dpmeans.kernels.hdp import (
    GroupLabels,
    GroupScan,
    Prices,
    Sharing,
    merge_group_scans,
    open_in_order,
    scan_groups,
)
from dask_dpmeans.kernels.moments import Moments, total
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import check_number, checked_penalty, clusters_of, set_limits
from dask_dpmeans.methods.dpmeans.moves import ROUNDING

FREE_SETS = 2**18
"""Numbers of data sets that may be left out, be the rows few.  50 rows, one of the set 2**18 - 1, took 0.6 seconds, of
the set 16,000,000 42."""


@dataclass(frozen=True)
class State:
    """Where a fit stands after a number of sweeps: all that the next one needs."""

    step: int
    """Sweeps done."""
    centers: Float64Array
    """(g, d), the global centers of the last pass."""
    means: Float64Array
    """(h, d), the centers of the next sweep: means of what step 5 makes of the local clusters."""
    weights: Float64Array
    """(g,), weights of the global clusters."""
    inertias: Float64Array
    """(g,), squared error of the global clusters, in squared units of the rows times weight."""
    objective: float
    """Eq. 2, of these centers and uses on the data."""
    local_groups: Int64Array
    """(m,), the data set of each use that has weight, ascending."""
    local_centers: Int64Array
    """(m,), the center that it uses, ascending for each set."""
    local_weights: Float64Array
    """(m,), the weight of its rows."""
    next_groups: Int64Array
    """(u,), the data set of each use in the next sweep."""
    next_centers: Int64Array
    """(u,), which of the `means` it uses."""
    opened: Int64Array
    """(openings,), the rows that opened centers or uses in this sweep, in order."""
    kept: Int64Array
    """(openings,), the center that each keeps; -1 where that has been left without weight."""
    births: int
    """Centers opened in this sweep."""
    deaths: int
    """Centers that were left without weight in this sweep."""
    associations: int
    """Local clusters that step 5 tied to another center; of the search, moves planned for the next sweep."""
    saved: float
    """What these save."""
    moves: Int64Array
    """(6,), merges, splits and deletes of centers, and trials to open, delete and swap, that led here."""
    gains: Float64Array
    """(3,), what merges, splits and deletes were to gain at least."""
    planned: Int64Array
    """(3,), merges, splits and deletes of the next sweep."""
    promised: Float64Array
    """(3,), what these are to gain at least."""
    turn: int
    """Where the next trials begin among all that there are."""
    rows_read: int
    """Rows of all passes since the start."""

    @property
    def n_local_clusters(self) -> int:
        """Uses that have weight."""
        return len(self.local_groups)

    def sharing(self, n_groups: int) -> Sharing:
        """The last pass: its centers, uses, and openers."""
        there = self.kept >= 0
        return Sharing.of(
            self.centers, self.local_groups, self.local_centers, n_groups, self.opened[there], self.kept[there]
        )


AnyState = TypeVar("AnyState", bound=State)


@dataclass(frozen=True)
class Requesting:
    """The serial rule of step 4: a row opens what costs less than all that is there."""

    prices: Prices
    max_clusters: int | None = None
    present: int = 0
    """Centers before the sweep.  Those may die in it, clusters that it opens do not."""

    def scan(self, state: Sharing, block: Block) -> GroupScan:
        """Moments of the uses, and the rows that open something in this block."""
        return scan_groups(block, state, self.prices)

    def merge(self, state: Sharing, left: GroupScan, right: GroupScan) -> GroupScan:
        """The answer of two neighboring runs; what the left opens, the right need not."""
        return merge_group_scans(left, right, state, self.prices)

    def validate(self, state: Sharing, answer: GroupScan) -> tuple[Sharing, Int64Array]:
        """Open what is requested, in row order."""
        requests = answer.requests
        if not len(requests):
            return state, requests.numbers
        kinds, targets = open_in_order(requests, state.centers.values, self.prices)
        opened = int(np.count_nonzero(kinds == 2))
        check_number(len(state.centers) + opened - self.present, self.max_clusters, self.prices.opening)
        return state.opened(requests, kinds, targets), requests.numbers


@dataclass(frozen=True)
class Parameters:
    """What the methods that minimize eq. 2 are told."""

    local_penalty: float
    """The price of a local cluster, in squared units of the rows times weight: lambda_l of the paper."""
    global_penalty: float
    """The price of a global cluster: lambda_g."""
    max_iter: int = 300
    """The most steps."""
    tol: float = 1e-4
    """The fit has converged when a step opens nothing and lowers the objective by less than tol times it, and so would
    tying local clusters anew.  0: when centers repeat."""
    max_clusters: int | None = None
    """More global clusters than this are an error."""

    def __post_init__(self) -> None:
        for name in ("local_penalty", "global_penalty"):
            object.__setattr__(self, name, checked_penalty(getattr(self, name), name))
        set_limits(self)

    @property
    def sparse(self) -> bool:
        """Rows are seen dense, a block at a time."""
        return False

    @property
    def features(self) -> None:
        """Rows are seen as they are given."""
        return None

    @property
    def prices(self) -> Prices:
        """As kernels take them."""
        return Prices(self.local_penalty, self.global_penalty)

    def init(self, source: Source) -> State:
        """Steps 1 and 2: the mean of all rows, used by all data sets."""
        groups = np.arange(source.summary.n_groups)
        if not len(groups):
            raise InputError("the rows come without groups: pass the number of each row's data set")
        check_sets(len(groups), source.plan.n_rows)
        nothing, mean = np.empty(0, np.int64), source.summary.mean[np.newaxis]
        return State(
            step=0,
            centers=mean,
            means=mean,
            weights=np.zeros(1),
            inertias=np.zeros(1),
            objective=math.inf,
            local_groups=nothing,
            local_centers=nothing,
            local_weights=np.empty(0),
            next_groups=groups,
            next_centers=np.zeros(len(groups), np.int64),
            opened=nothing,
            kept=nothing,
            births=0,
            deaths=0,
            associations=0,
            saved=0.0,
            moves=np.zeros(6, np.int64),
            gains=np.zeros(3),
            planned=np.zeros(3, np.int64),
            promised=np.zeros(3),
            turn=0,
            rows_read=source.plan.n_rows,
        )

    def rule(self, state: State) -> Requesting:
        """Step 4 of the sweep that follows a state."""
        return Requesting(self.prices, self.max_clusters, len(state.means))

    def score(self, source: Source, state: State) -> float:
        """Eq. 2 of a state's centers and uses on these rows: one pass."""
        sharing = state.sharing(source.summary.n_groups)
        found = source.fold(Round(Requesting(Prices(math.inf, math.inf)), sharing), name="check")
        return self.objective(found.uses.moments, len(state.centers))

    def objective(self, uses: Moments, n_centers: int) -> float:
        """Eq. 2, which must be finite."""
        n_uses = int(np.count_nonzero(uses.weights > 0))
        local_price, global_price = LinearPrice(self.local_penalty), LinearPrice(self.global_penalty)
        objective = uses.inertia + local_price.of(n_uses) + global_price.of(n_centers)
        if not math.isfinite(objective):
            raise InputError("the objective overflows float64 at these penalties: divide the data first")
        return objective

    def labels(self, source: Source, state: State) -> GroupLabels:
        """The kernel of a map that labels the rows as a state has them."""
        return GroupLabels(state.sharing(source.summary.n_groups))

    def result(self, source: Source, state: State) -> Mapping[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]:
        """The arrays of the result: the uses of centers, with the weight of each, among them."""
        names = ("local_groups", "local_centers", "local_weights")
        return clusters_of(state) | {name: (getattr(state, name), ("local_cluster",)) for name in names}


def check_sets(n_sets: int, n_rows: int) -> None:
    """Refuse numbers of data sets that are far more than the rows: each pass goes through all of them."""
    if n_sets > max(n_rows, FREE_SETS):
        raise InputError(
            f"groups holds {n_sets - 1:,}, the number of a data set, but there are {n_rows:,} rows: number the data "
            f"sets from 0 on, without gaps, as np.unique(groups, return_inverse=True)[1] does; where there are gaps "
            f"numbers are to be below {FREE_SETS:,}, or below the number of rows"
        )


@dataclass(frozen=True)
class Method(Parameters):
    """The hard Gaussian HDP, with its parameters."""

    name: ClassVar[str] = "hdp"
    state: ClassVar[type[State]] = State

    def seeded(self, seed: int) -> "Method":
        """This method: it draws nothing."""
        return self

    def step(self, source: Source, state: State) -> State:
        """Steps 4 to 6: openings until no row objects, local clusters tied to the centers that suit them, means."""
        swept = sweep(self, source, state)
        tied, saved = associate(swept, self.global_penalty)
        means, next_centers = means_of(swept, tied)
        check_number(len(means), self.max_clusters, self.global_penalty)
        associations = int(np.count_nonzero(tied != swept.centers_of))
        return swept.state_after(state, self, means, swept.groups, next_centers, associations, saved)

    def done(self, before: State, after: State) -> bool:
        """Whether `after` is the end."""
        least = self.tol * after.objective
        small = before.objective - after.objective < least and after.saved < least
        return not after.opened.size and (small or np.array_equal(after.means, after.centers))


@dataclass(frozen=True)
class Swept:
    """What a sweep came to: the uses that have weight, and the centers that are used."""

    centers: Float64Array
    """(g, d)."""
    groups: Int64Array
    """(m,), the data set of each use."""
    centers_of: Int64Array
    """(m,), the center that it uses."""
    moments: Moments
    """Of the m uses."""
    opened: Int64Array
    """Rows that opened something, in order."""
    kept: Int64Array
    """The center that each keeps; -1 where that is gone."""
    births: int
    deaths: int
    rows_read: int
    answer: Any
    """Of the last pass."""
    uses: Int64Array
    """(m,), the numbers that the uses had in it."""
    numbers: Int64Array
    """(g,), the numbers that the centers had in it."""
    n_present: int
    """Centers in it."""

    def state_after(
        self,
        before: AnyState,
        method: Parameters,
        means: Float64Array,
        next_groups: Int64Array,
        next_centers: Int64Array,
        associations: int,
        saved: float,
    ) -> AnyState:
        """The state, with the centers and uses of the next sweep."""
        g = len(self.centers)
        return replace(
            before,
            step=before.step + 1,
            centers=self.centers,
            means=means,
            weights=total(self.centers_of, self.moments.weights, g),
            inertias=total(self.centers_of, self.moments.inertias, g),
            objective=method.objective(self.moments, g),
            local_groups=self.groups,
            local_centers=self.centers_of,
            local_weights=self.moments.weights,
            next_groups=next_groups,
            next_centers=next_centers,
            opened=self.opened,
            kept=self.kept,
            births=self.births,
            deaths=self.deaths,
            associations=associations,
            saved=saved,
            moves=np.concatenate([before.planned, np.zeros(3, np.int64)]),
            gains=before.promised,
            planned=np.zeros(3, np.int64),
            promised=np.zeros(3),
            rows_read=before.rows_read + self.rows_read,
        )


def sweep(method: Parameters, source: Source, state: State) -> Swept:
    """Step 4, from the centers and uses that a state has for the next sweep."""
    present = len(state.means)
    start = Sharing.of(state.means, state.next_groups, state.next_centers, source.summary.n_groups)
    settled = settle(source, method.rule(state), start, gradually=state.step == 0)
    sharing, moments = settled.state, settled.answer.uses.moments
    alive = moments.weights > 0
    uses = settled.answer.uses.uses[alive]
    numbers, centers_of = np.unique(sharing.used[uses], return_inverse=True)
    check_number(len(numbers), method.max_clusters, method.global_penalty)
    renumbered = np.full(len(sharing.centers), -1)
    renumbered[numbers] = np.arange(len(numbers))
    kept = sharing.kept[np.searchsorted(sharing.openers, settled.opened)]
    return Swept(
        centers=sharing.centers.values[numbers],
        groups=sharing.groups[uses],
        centers_of=centers_of.ravel(),
        moments=moments.keep(alive),
        opened=settled.opened,
        kept=renumbered[kept],
        births=len(sharing.centers) - present,
        deaths=len(sharing.centers) - len(numbers),
        rows_read=settled.rows_read,
        answer=settled.answer,
        uses=uses,
        numbers=numbers,
        n_present=len(sharing.centers),
    )


def associate(swept: Swept, global_penalty: float) -> tuple[Int64Array, float]:
    """Step 5: each local cluster, in order, goes to the center that costs it least, be it a new one at its own mean.

    Its squared error about a center is that about its mean and weight * squared distance of the two, so that means and
    weights decide.  It stays where another gains no more than rounding.

    Returns
    -------
    (m,) the center of each, new ones numbered after those that are there, and what this saves
    """
    means, weights = swept.moments.means, swept.moments.weights
    nearest, squared = nearest_squared(means, Centers(swept.centers))
    own = squared_distances(means, swept.centers, swept.centers_of)
    stays = ~(weights * (own - squared) > ROUNDING * global_penalty)
    tied = np.where(stays, swept.centers_of, nearest).astype(np.int64)
    cost = weights * np.where(stays, own, squared)
    n_centers = len(swept.centers)
    while (opening := np.flatnonzero(cost > (1 + ROUNDING) * global_penalty)).size:
        first, rest = int(opening[0]), np.arange(opening[0], len(cost))
        there = weights[rest] * squared_distances(means[rest], means, np.full(len(rest), first))
        closer = rest[cost[rest] - there > ROUNDING * global_penalty]
        tied[closer], cost[closer] = n_centers, there[closer - first]
        n_centers += 1
    opened = LinearPrice(global_penalty).change(len(swept.centers), n_centers)
    saved = math.fsum(weights * own - cost) - opened
    return tied, saved


def means_of(swept: Swept, tied: Int64Array) -> tuple[Float64Array, Int64Array]:
    """Step 6: (h, d), the means of the centers that have local clusters, and which of these each is tied to, (m,)."""
    numbers, places = np.unique(tied, return_inverse=True)
    weights = total(places.ravel(), swept.moments.weights, len(numbers))
    sums = np.zeros((len(numbers), swept.centers.shape[1]))
    np.add.at(sums, places.ravel(), swept.moments.sums)
    return sums / weights[:, np.newaxis], places.ravel().astype(np.int64)
