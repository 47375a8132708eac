"""The hard Gaussian HDP by Algorithm 2 of Kulis & Jordan 2012, with optimistic sweeps.

Several data sets are clustered at once.  Each local cluster ties a data set to a global center: a
*use* of the center.  The objective is eq. 2, squared error + local penalty * uses + global penalty *
centers.  The squared error may be a sum of other divergences (Jiang, Kulis & Jordan 2012).
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from dask_dpmeans.engine.history import MoveCounts
from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.engine.occ import Round, Sweep, settle
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, IntegerArray
from dask_dpmeans.kernels.distance import Centers, nearest, nearest_squared, squared_distances
from dask_dpmeans.kernels.divergence import SQUARED, Divergence
from dask_dpmeans.kernels.hdp import (
    GroupLabels,
    GroupScan,
    HDPPrices,
    Sharing,
    merge_group_scans,
    open_in_order,
    scan_groups,
)
from dask_dpmeans.kernels.hdp_compiled import NEW_CENTER
from dask_dpmeans.kernels.moments import Moments, total
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.common import LEARNED, BaseMethod, finite_objective
from dask_dpmeans.methods.dpmeans.batch import (
    check_number,
    checked_penalty,
    set_limits,
    shown_clusters,
)
from dask_dpmeans.methods.dpmeans.moves import ROUNDING
from dask_dpmeans.methods.hdp.state import AnyState, LocalClusters, State, Uses


def mean_costs(
    divergence: Divergence, means: Float64Array, centers: Float64Array, labels: IntegerArray
) -> Float64Array:
    """Return the cost of means, (m, d), at the centers, of (k, d), of their labels, (m,).

    Rows of weight w cost w times this more there than at their mean, whatever their divergence is
    (Banerjee et al. 2005).
    """
    if divergence.general is None:
        return squared_distances(means, centers, labels.astype(np.intp))
    return divergence.between(means, centers[labels])


def cheapest(
    divergence: Divergence, means: Float64Array, centers: Float64Array
) -> tuple[IntegerArray, Float64Array]:
    """Return the cheapest of centers, (k, d), for each mean, (m, d), and the cost there, (m,)."""
    if divergence.general is None:
        return nearest_squared(means, Centers(centers))
    labels = nearest(means, Centers(centers, divergence))
    return labels, mean_costs(divergence, means, centers, labels)


def relative_costs(
    divergence: Divergence, means: Float64Array, centers: Float64Array
) -> Float64Array:
    """Return the cost of each mean, (m, d), at each center, (g, d), but for a constant: (m, g)."""
    if divergence.general is None:
        return np.asarray(cdist(means, centers, "sqeuclidean"))
    return divergence.costs_to_all(means, centers)


def merge_costs(
    divergence: Divergence, weights: Float64Array, means: Float64Array, part: slice
) -> Float64Array:
    """Return the rise of the cost if a cluster of `part` and another one merge, (p, g).

    All g clusters have weights, (g,), and means, (g, d).
    """
    if divergence.general is not None:
        return divergence.joining(means[part], weights[part], weights, means)
    own = weights[part, np.newaxis]
    costs: Float64Array = own * weights / (own + weights)
    costs *= cdist(means[part], means, "sqeuclidean")
    return costs


FREE_SETS = 2**18
"""Numbers of data sets that are allowed for any number of rows.  A fit of 50 rows with the data set
2**18 - 1 took 0.6 seconds, with the data set 16,000,000 it took 42."""


@dataclass(frozen=True)
class OpeningRule:
    """Step 4 as a serial rule: a row opens the use or the center that costs it least."""

    prices: HDPPrices
    max_clusters: int | None = None
    present: int = 0
    """Centers before the sweep.  These may die in the sweep; centers that it opens do not."""

    def scan(self, state: Sharing, block: Block) -> GroupScan:
        """Return the moments of the uses, and the rows of this block that open something."""
        return scan_groups(block, state, self.prices)

    def merge(self, state: Sharing, left: GroupScan, right: GroupScan) -> GroupScan:
        """Merge neighboring answers; the right does not open again what the left opens."""
        return merge_group_scans(left, right, state, self.prices)

    def validate(self, state: Sharing, answer: GroupScan) -> tuple[Sharing, Int64Array]:
        """Open what the rows request, in row order; return the numbers of these rows, (m,)."""
        requests = answer.requests
        if not len(requests):
            return state, requests.numbers
        kinds, targets = open_in_order(requests, state.centers, self.prices)
        opened = int(np.count_nonzero(kinds == NEW_CENTER))
        k = len(state.centers) + opened - self.present
        check_number(k, self.max_clusters, self.prices.opening)
        return state.with_openings(requests, kinds, targets), requests.numbers


@dataclass(frozen=True)
class Parameters(BaseMethod):
    """Parameters of the methods that minimize eq. 2."""

    draws: ClassVar[bool] = False

    local_penalty: float
    """The price of a local cluster, in squared units of the rows times weight: lambda_l."""
    global_penalty: float
    """The price of a global cluster: lambda_g."""
    max_iter: int = 300
    """The greatest number of steps."""
    tol: float = 1e-4
    """A fit has converged if a step opens nothing, and neither this step nor tying local clusters
    anew lowers the objective by tol times its value.  With 0 a fit converges when the centers
    repeat."""
    max_clusters: int | None = None
    """More global clusters are an error."""
    learned: Divergence | None = field(default=None, metadata=LEARNED)
    """Divergence that was learned from the rows, linear in them; not a parameter."""

    def __post_init__(self) -> None:
        for name in ("local_penalty", "global_penalty"):
            object.__setattr__(self, name, checked_penalty(getattr(self, name), name))
        set_limits(self)

    @property
    def divergence(self) -> Divergence:
        """The cost of a row at a center."""
        return self.learned or SQUARED

    @property
    def prices(self) -> HDPPrices:
        """Both penalties, for the kernels."""
        return HDPPrices(self.local_penalty, self.global_penalty)

    def init(self, source: Source) -> State:
        """Start at the mean of all rows, which all data sets use (steps 1 and 2)."""
        groups = np.arange(source.summary.n_groups)
        if not len(groups):
            raise InputError("the rows come without groups: pass the number of each row's data set")
        check_sets(len(groups), source.plan.n_rows)
        no_rows, mean = np.empty(0, np.int64), source.summary.mean[np.newaxis]
        return State(
            centers=mean,
            means=mean,
            weights=np.zeros(1),
            inertias=np.zeros(1),
            local=LocalClusters(no_rows, no_rows, np.empty(0)),
            next=Uses(groups, np.zeros(len(groups), np.int64)),
            opened=no_rows,
            kept=no_rows,
            rows_read=source.plan.n_rows,
        )

    def rule(self, state: State) -> OpeningRule:
        """Return the rule of the sweep that follows a state."""
        return OpeningRule(self.prices, self.max_clusters, len(state.means))

    def score(self, source: Source, state: State) -> float:
        """Return eq. 2 of a state's centers and uses on these rows: one pass."""
        rule = OpeningRule(HDPPrices(math.inf, math.inf))
        sharing = state.sharing(source.summary.n_groups, self.divergence)
        scan = source.fold(Round(rule, sharing), name="check")
        return self.objective(scan.uses.values, len(state.centers))

    def objective(self, uses: Moments, n_centers: int) -> float:
        """Return eq. 2; `InputError` if it overflows."""
        n_uses = int(np.count_nonzero(uses.weights > 0))
        local_price = LinearPrice(self.local_penalty).of(n_uses)
        global_price = LinearPrice(self.global_penalty).of(n_centers)
        return finite_objective(uses.inertia + local_price + global_price, "these penalties")

    def labels(self, source: Source, state: State) -> GroupLabels:
        """Return the map kernel that labels the rows by a state."""
        return GroupLabels(state.sharing(source.summary.n_groups, self.divergence))

    def result(self, source: Source, state: State) -> NamedArrays:
        """Return the arrays of the result: (m,) of local clusters, else (k,) or (k, d)."""
        local, dimensions = state.local, ("local_cluster",)
        return shown_clusters(state, self.learned) | {
            "local_groups": (local.groups, dimensions),
            "local_centers": (local.centers, dimensions),
            "local_weights": (local.weights, dimensions),
        }


def check_sets(n_sets: int, n_rows: int) -> None:
    """Refuse far more numbers of data sets than rows: each pass goes through all numbers."""
    if n_sets > max(n_rows, FREE_SETS):
        raise InputError(
            f"groups holds the data set {n_sets - 1:,}, but there are only {n_rows:,} rows: number the "
            "data sets from 0 on without gaps, as np.unique(groups, return_inverse=True)[1] does; numbers "
            f"with gaps must be below {FREE_SETS:,} or below the number of rows"
        )


@dataclass(frozen=True)
class Method(Parameters):
    """The hard Gaussian HDP by Algorithm 2."""

    name: ClassVar[str] = "hdp"
    state: ClassVar[type[State]] = State

    def step(self, source: Source, state: State) -> State:
        """Do steps 4 to 6: openings until no row objects, associations, means."""
        found = sweep(self, source, state)
        tied, saved = associate(found, self.global_penalty)
        means, next_centers = means_of(found, tied)
        check_number(len(means), self.max_clusters, self.global_penalty)
        associations = int(np.count_nonzero(tied != found.uses.centers))
        after = found.state_after(state, self)
        next_uses = Uses(found.uses.groups, next_centers)
        tied_before = len(state.means) - len(state.centers)  # by step 5 of the step before
        return replace(
            after,
            means=means,
            next=next_uses,
            births=after.births + max(0, tied_before),
            deaths=after.deaths + max(0, -tied_before),
            associations=associations,
            saved=saved,
        )

    def done(self, before: State, after: State) -> bool:
        """Return whether `after` is the last state."""
        least = self.tol * after.objective
        small = before.objective - after.objective < least and after.saved < least
        return not after.opened.size and (small or np.array_equal(after.means, after.centers))


@dataclass(frozen=True)
class SweepResult:
    """The uses that have weight after a sweep, and the centers that they use."""

    settled: Sweep[Sharing, GroupScan]
    """The end of the sweep, with other numbers of uses and centers."""
    use_numbers: Int64Array
    """(m,), numbers of the uses there."""
    center_numbers: Int64Array
    """(g,), numbers of the centers there."""
    uses: Uses
    """m uses of the centers."""
    moments: Moments
    """Moments of the m uses."""
    births: int

    @property
    def divergence(self) -> Divergence:
        """The cost of a row at a center."""
        return self.settled.state.centers.divergence or SQUARED

    @cached_property
    def centers(self) -> Float64Array:
        """(g, d)."""
        return self.settled.state.centers.values[self.center_numbers]

    @cached_property
    def new_numbers(self) -> Int64Array:
        """The number here of each center of the sweep, (k,); -1 if it has no weight."""
        new_numbers = np.full(len(self.settled.state.centers), -1)
        new_numbers[self.center_numbers] = np.arange(len(self.center_numbers))
        return new_numbers

    @cached_property
    def shrunk(self) -> Int64Array:
        """(s,), the data sets of uses that have no weight any more; a set may come twice."""
        return np.delete(self.settled.state.groups, self.use_numbers)

    def state_after(self, before: AnyState, method: Parameters) -> AnyState:
        """Return the state of the last pass; `means` and `next` are still to be set."""
        g, used, sharing = len(self.centers), self.uses.centers, self.settled.state
        kept = sharing.kept[np.searchsorted(sharing.openers, self.settled.opened)]
        return replace(
            before,
            step=before.step + 1,
            centers=self.centers,
            weights=total(used, self.moments.weights, g),
            inertias=total(used, self.moments.inertias, g),
            objective=method.objective(self.moments, g),
            local=LocalClusters(self.uses.groups, used, self.moments.weights),
            opened=self.settled.opened,
            kept=self.new_numbers[kept],
            births=self.births,
            deaths=len(sharing.centers) - g,
            moves=MoveCounts(*before.planned.tolist()),
            gains=before.promised,
            rows_read=before.rows_read + self.settled.rows_read,
        )


def sweep(method: Parameters, source: Source, state: State) -> SweepResult:
    """Do step 4 from the next centers and uses of a state."""
    pairs, divergence = (state.next.groups, state.next.centers), method.divergence.general
    start = Sharing.of(state.means, *pairs, source.summary.n_groups, divergence=divergence)
    settled = settle(source, method.rule(state), start, gradually=state.step == 0)
    sharing, moments = settled.state, settled.answer.uses.values
    alive = moments.weights > 0
    numbers = settled.answer.uses.keys[alive]
    center_numbers, centers = np.unique(sharing.used[numbers], return_inverse=True)
    check_number(len(center_numbers), method.max_clusters, method.global_penalty)
    uses = Uses(sharing.groups[numbers], centers.ravel())
    births = len(sharing.centers) - len(state.means)
    return SweepResult(settled, numbers, center_numbers, uses, moments.keep(alive), births)


def associate(found: SweepResult, global_penalty: float) -> tuple[Int64Array, float]:
    """Do step 5: tie each local cluster, in order, to the cheapest center or a new one at its mean.

    The cost at a center is the cost at the mean plus weight * cost of the mean at the center, so that
    means and weights decide.  A local cluster stays if another center
    gains no more than rounding.  Return the center of each local cluster, (m,), new ones numbered
    from g on, and what the changes save.
    """
    means, weights, divergence = found.moments.means, found.moments.weights, found.divergence
    nearest, least = cheapest(divergence, means, found.centers)
    own = mean_costs(divergence, means, found.centers, found.uses.centers)
    stays = ~(weights * (own - least) > ROUNDING * global_penalty)
    tied = np.where(stays, found.uses.centers, nearest).astype(np.int64)
    cost = weights * np.where(stays, own, least)
    n_centers = len(found.centers)
    while (opening := np.flatnonzero(cost > (1 + ROUNDING) * global_penalty)).size:
        first, rest = int(opening[0]), np.arange(opening[0], len(cost))
        same = np.full(len(rest), first)
        to_new = weights[rest] * mean_costs(divergence, means[rest], means, same)
        closer = rest[cost[rest] - to_new > ROUNDING * global_penalty]
        tied[closer], cost[closer] = n_centers, to_new[closer - first]
        n_centers += 1
    opened = LinearPrice(global_penalty).change(len(found.centers), n_centers)
    saved = math.fsum(weights * own - cost) - opened
    return tied, saved


def means_of(found: SweepResult, tied: Int64Array) -> tuple[Float64Array, Int64Array]:
    """Do step 6: return means, (h, d), of the centers in use, and the center, (m,), of each use."""
    numbers, positions = np.unique(tied, return_inverse=True)
    positions = positions.ravel().astype(np.int64)
    weights = total(positions, found.moments.weights, len(numbers))
    sums = np.zeros((len(numbers), found.centers.shape[1]))
    np.add.at(sums, positions, found.moments.sums)
    return sums / weights[:, np.newaxis], positions
