"""DP-means: Algorithm 1 of Kulis & Jordan 2012, swept optimistically."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.engine.occ import Round, settle
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.kernels.assign import NearestLabels, Scan, merge_scans, scan
from dask_dpmeans.kernels.births import Proposals, objects
from dask_dpmeans.kernels.block import Block, BoolArray, Features, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.kernels.price import LinearPrice, PitmanYorPrice, Price, price_of
from dask_dpmeans.kernels.shard_reuse import ShardAnswer, reusable_answers
from dask_dpmeans.methods.common import (
    LEARNED,
    OPTIONAL,
    BaseMethod,
    OpeningState,
    finite_objective,
)


@dataclass(frozen=True, kw_only=True)
class State(OpeningState):
    """A fit after a number of sweeps: all that the next sweep needs."""

    centers: Float64Array
    """(k, d), the centers of the last pass, in the order in which the clusters opened."""
    means: Float64Array
    """(k, d), the means of the clusters of these centers: the centers of the next sweep."""


@dataclass(frozen=True)
class Openings:
    """The serial rule: a row opens a cluster if it costs more at every center than a cluster."""

    takes_csr: ClassVar[bool] = True
    price: Price
    max_clusters: int | None = None
    present: int = 0
    """Centers before the sweep, which may die in it."""
    room: float = math.inf
    """Bytes of a worker for all but the rows."""

    def scan(self, state: Centers, block: Block) -> Scan:
        """Return moments, and the openers among the rows that object."""
        return scan(block, state, self.price.threshold(len(state)))

    def merge(self, state: Centers, left: Scan, right: Scan) -> Scan:
        """Return the answer of two neighboring runs of blocks."""
        return merge_scans(left, right, self.price.threshold(len(state)), state.divergence)

    def validate(self, state: Centers, answer: Scan) -> tuple[Centers, Int64Array]:
        """Open a cluster at each proposed row; return their numbers, (m,); all are far apart."""
        proposals = answer.proposals
        if not len(proposals):
            return state, proposals.numbers
        if self.price.threshold(len(state) + len(proposals)) > self.price.threshold(len(state)):
            proposals = self._affordable(state, proposals)
        k = len(state) + len(proposals)
        check_number(k - self.present, self.max_clusters, self.price)
        check_room(CENTER_NUMBERS, (k, state.values.shape[1]), self.room, self.price)
        values = np.concatenate([state.values, proposals.rows])
        return replace(state, values=values), proposals.numbers

    def _affordable(self, state: Centers, proposals: Proposals) -> Proposals:
        """Return the proposals that cost more than the next cluster, given all earlier ones."""
        opened: list[int] = []
        for number, weight in enumerate(proposals.weights):
            centers = replace(state, values=np.concatenate([state.values, proposals.rows[opened]]))
            _, costs = nearest_squared(proposals.rows[number : number + 1], centers)
            if objects(costs, np.array([weight]), self.price.threshold(len(centers)))[0]:
                opened.append(number)
        return proposals.take(np.array(opened, np.intp))

    def keep(self, answer: Scan, most_bytes: int) -> ShardAnswer | None:
        """Return the clusters of a shard if they are few."""
        return ShardAnswer.of(answer, most_bytes)

    def unchanged(
        self, earlier: "Openings", before: Centers, after: Centers, kept: Mapping[int, ShardAnswer]
    ) -> dict[int, ShardAnswer]:
        """Return the answers of shards that hold after the centers have changed."""
        same = earlier.price.threshold(len(before)) == self.price.threshold(len(after))
        squared = before.divergence is None and after.divergence is None  # triangle inequality
        if not (same and squared):
            return {}
        return reusable_answers(before.values, after.values, kept)

    def restore(self, state: Centers, kept: ShardAnswer) -> Scan:
        """Return the answer of a shard that was kept."""
        return kept.to_scan(len(state))


NO_RADIUS = (
    "outlier_penalty and outlier_share need search=True: with search=False the penalty is a radius, "
    "beyond which a row opens a cluster, so that no row could be an outlier"
)
NO_BIRTHS = Openings(LinearPrice(math.inf))
"""The rule under which no row opens a cluster."""
CENTER_NUMBERS = 3, 64
"""Memory of a sweep for each cluster: so many float64 for each column, and so many more; at the lower end
of what was measured, so that nothing that fits is refused.

The peaks of sweeps on a worker in which all rows became clusters were 3.6 to 4.6 for each column and 75 more, in
16 to 256 columns; others 2.6 and 65, in 2 and 16 columns.
"""
LEAST_PRICE = float(np.finfo(np.float64).tiny)
"""The least price of a cluster."""


def check_number(k: int, max_clusters: int | None, price: float | Price) -> None:
    """Raise an error if k clusters, at a price or at a penalty for each, are too many."""
    if max_clusters is not None and k > max_clusters:
        if not isinstance(price, Price):
            price = LinearPrice(price)
        raise TooManyClustersError(
            f"{price.describe()} makes at least {k:,} clusters, more than "
            f"max_clusters={max_clusters}: give a higher penalty, or a higher max_clusters"
        )


def check_room(numbers: tuple[int, int], shape: tuple[int, int], room: float, price: Price) -> None:
    """Refuse centers of a shape, (k, d), for which a worker has less `room` than they take, in bytes.

    `numbers` are the float64 for each cluster and column, and those for each cluster.
    """
    (k, d), (a_column, a_cluster) = shape, numbers
    needed = 8 * k * (a_column * d + a_cluster)
    if needed > room:
        raise InputError(
            f"{price.describe()} leads to at least {k:,} centers: in {d:,} columns they take {needed / 1e6:,.0f} MB "
            f"of a worker or more, and it has {room / 1e6:,.0f} MB beside the rows. Give a higher penalty, fewer "
            "columns, or workers with more memory"
        )


def checked_penalty(penalty: float, name: str = "penalty") -> float:
    """Return a penalty as a Python number, since a float32 would round each objective."""
    return checks.number(name, penalty)


def set_limits(method: Any) -> None:
    """Check `max_iter`, `tol` and `max_clusters` of a method and make them Python numbers."""
    object.__setattr__(method, "max_iter", checks.integer("max_iter", method.max_iter))
    object.__setattr__(method, "tol", checks.number("tol", method.tol, ">= 0"))
    if method.max_clusters is not None:
        most = checks.integer("max_clusters", method.max_clusters, or_none=" or None")
        object.__setattr__(method, "max_clusters", most)


@dataclass(frozen=True)
class Parameters(BaseMethod):
    """Parameters of every method that minimizes the DP-means objective."""

    draws: ClassVar[bool] = False

    penalty: float
    """The price of a cluster (lambda of Kulis & Jordan 2012), in squared units times weight.

    With metric="cosine" the unit is 2 (1 - cosine), with "haversine" km^2 of chords."""
    centers: Float64Array | None = None
    """(k, d), the first centers in the units of the input; None for the mean of all rows."""
    max_iter: int = 300
    """Most steps."""
    tol: float = 1e-4
    """A fit has converged if a step opens no cluster and lowers J by less than tol * J.

    0: if centers repeat."""
    max_clusters: int | None = None
    """More clusters than this are an error."""
    metric: str = "euclidean"
    """Name of the divergence in `METRICS`."""
    learned: Divergence | None = field(default=None, metadata=LEARNED)
    """Divergence that was learned from the rows, in place of the metric; not a parameter."""
    discount: float = field(default=0.0, metadata=OPTIONAL)
    """Fall of the price of a cluster with the logarithm of its number (`PitmanYorPrice`)."""
    floor: float | None = field(default=None, metadata=OPTIONAL)
    """Least price of a cluster with a discount; None for a share of the penalty."""
    outlier_penalty: float | None = field(default=None, metadata=OPTIONAL)
    """Cost of an outlier for each unit of weight; None if no row can be an outlier."""
    outlier_share: float | None = field(default=None, metadata=OPTIONAL)
    """Share of the weight for which an outlier penalty is found; None to find none."""
    min_cluster_weight: float = field(default=0.0, metadata=OPTIONAL)
    """Rows of clusters lighter than this have label -1."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", checked_penalty(self.penalty))
        object.__setattr__(self, "discount", checks.number("discount", self.discount, ">= 0"))
        if self.centers is not None and not (
            self.centers.ndim == 2 and len(self.centers) and np.isfinite(self.centers).all()
        ):
            got = checks.describe_value(self.centers)
            raise InputError(
                f"init: the first centers must be finite numbers of shape (k, d), k >= 1, got {got}"
            )
        set_limits(self)
        metric_of(self.metric)
        if self.outlier_penalty is not None:
            outlier_penalty = checks.number(
                "outlier_penalty", self.outlier_penalty, or_none=" or None"
            )
            object.__setattr__(self, "outlier_penalty", outlier_penalty)
        if self.outlier_share is not None:
            share = checks.number("outlier_share", self.outlier_share, or_none=" or None")
            if share >= 1:
                raise InputError(
                    f"outlier_share must be below 1, got {share!r}: it is a share of the rows, such "
                    "as 0.02"
                )
            if self.outlier_penalty is not None:
                raise InputError(
                    "give outlier_share or outlier_penalty, not both: outlier_share finds the "
                    f"penalty of an outlier, got {share!r} and {self.outlier_penalty!r}"
                )
            object.__setattr__(self, "outlier_share", share)
        least = checks.number("min_cluster_weight", self.min_cluster_weight, ">= 0")
        object.__setattr__(self, "min_cluster_weight", least)

    @property
    def divergence(self) -> Divergence:
        """The cost of a row at a center: learned, or of the metric."""
        return self.learned or metric_of(self.metric)

    @property
    def price(self) -> Price:
        """Price of clusters."""
        return price_of(self.penalty, self.discount, self.floor)

    @property
    def first_threshold(self) -> float:
        """Least cost at which a row opens a cluster beside the first centers."""
        return self.price.threshold(1 if self.centers is None else len(self.centers))

    def with_prices(self, share: float = 1.0, more: float = 0.0) -> Self:
        """Return the method at which each cluster costs a share of its price, and `more`."""
        penalty, price = max(self.penalty * share + more, LEAST_PRICE), self.price
        if not isinstance(price, PitmanYorPrice):
            return replace(self, penalty=penalty)
        floor = max(price.floor * share + more, LEAST_PRICE)
        return replace(self, penalty=penalty, discount=self.discount * share, floor=floor)

    @property
    def most(self) -> float:
        """Cost above which a row is an outlier; infinite if none can be one."""
        return math.inf if self.outlier_penalty is None else self.outlier_penalty

    @property
    def may_have_outliers(self) -> bool:
        """Whether rows may be outliers, at a price that is given or to be found."""
        return self.outlier_penalty is not None or self.outlier_share is not None

    def kernel_centers(self, values: Float64Array) -> Centers:
        """Return centers, (k, d), for kernels."""
        return Centers(values, self.divergence.general, self.most)

    @property
    def features(self) -> Features | None:
        return self.divergence.features

    def first_centers(self, source: Source) -> Float64Array:
        """Return the first centers, (k, d), as kernels see them; an axis if all rows cancel."""
        average = source.summary.mean[np.newaxis]
        centers = self.divergence.means(average, np.eye(*average.shape))
        if self.centers is not None:
            given = self.centers if source.scale is None else self.centers / source.scale
            columns, centers = centers.shape[1], self.divergence.given(given)
            d = centers.shape[1]
            if d != columns:
                found = checks.format_count(d, "column")
                raise InputError(f"the first centers have {found}, the data has {columns}")
        if source.summary.overflowing(centers) is not None:
            raise InputError(
                "squared distances of rows to the first centers overflow float64: divide both first"
            )
        return centers

    def score(self, source: Source, state: Any) -> float:
        """Return the objective of the centers of a state on these rows, from one pass."""
        centers = self.kernel_centers(state.centers)
        found = source.fold(Round(NO_BIRTHS, centers), name="check")
        return self.objective(found.inertia(centers), len(state.centers))

    def labels(self, source: Source, state: Any) -> NearestLabels:
        """Return the kernel of a map that labels the rows by the centers of a state."""
        noise = lighter(state.weights, self.min_cluster_weight)
        return NearestLabels(self.kernel_centers(state.centers), noise)

    def result(self, source: Source, state: Any) -> NamedArrays:
        """Return the arrays of the result, by name, with the names of their dimensions."""
        encoded = self.divergence if self.divergence.encoded else None
        arrays = shown_clusters(state, self.learned or encoded)
        if self.centers is not None:
            arrays["first_centers"] = self.centers, ("first_cluster", "feature")
        return arrays

    def objective(self, inertia: float, k: int) -> float:
        """Return inertia plus price, which must be finite."""
        return finite_objective(inertia + self.price.of(k), self.price.describe())


@dataclass(frozen=True)
class Method(Parameters):
    """DP-means, with its parameters."""

    name: ClassVar[str] = "dpmeans"
    state: ClassVar[type[State]] = State

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.may_have_outliers:
            raise InputError(NO_RADIUS)
        farthest, first = self.divergence.farthest, self.first_threshold
        if first > farthest:
            got = repr(self.penalty)
            if self.discount:
                got = f"{self.price.describe()}, at which the next cluster costs {first:g}"
            raise InputError(
                f"penalty must be <= {farthest:g} where metric={self.metric!r}, "
                f"got {got}: no two rows are farther apart, so that none would open a "
                "cluster; lower it, or search=True takes it as a price"
            )

    def reduction(self, centers: Float64Array) -> Round[Centers, Scan]:
        """Return the work of a pass at these centers, (k, d)."""
        return Round(Openings(self.price), self.kernel_centers(centers))

    def init(self, source: Source) -> State:
        """Return the state before the first sweep."""
        centers = self.first_centers(source)
        nothing, n = np.zeros(len(centers)), source.plan.n_rows
        return State(centers=centers, means=centers, weights=nothing, inertias=nothing, rows_read=n)

    def step(self, source: Source, state: State) -> State:
        """Return the state after a sweep: births until no row objects, new means, deaths."""
        limits = self.max_clusters, len(state.means), source.worker_room
        rule = Openings(self.price, *limits)
        settled = settle(source, rule, self.kernel_centers(state.means), gradually=state.step == 0)
        answer = settled.answer.of_all(len(settled.state))
        alive = answer.moments.weights > 0
        moments = answer.moments.keep(alive)
        centers = settled.state.values[alive]
        check_number(len(centers), self.max_clusters, self.price)
        return State(
            step=state.step + 1,
            centers=centers,
            means=self.divergence.means(moments.means, centers),
            weights=moments.weights,
            inertias=moments.inertias,
            objective=self.objective(moments.inertia, len(centers)),
            opened=settled.opened,
            deaths=int(np.count_nonzero(~alive)),
            rows_read=state.rows_read + settled.rows_read,
        )

    def done(self, before: State, after: State) -> bool:
        """Return whether `after` is the end."""
        gained = before.objective - after.objective
        small = not after.opened.size and gained < self.tol * after.objective
        return small or np.array_equal(after.means, after.centers)


def lighter(weights: Float64Array, least: float) -> BoolArray | None:
    """Return which clusters, (k,), weigh less than `least`; None if there is none."""
    light = weights < least
    return light if light.any() else None


def clusters_of(state: Any) -> dict[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]:
    """Return the arrays that every result with centers has, (k, d) or (k,)."""
    return {
        "cluster_centers": (state.centers, ("cluster", "feature")),
        "cluster_weights": (state.weights, ("cluster",)),
        "cluster_inertias": (state.inertias, ("cluster",)),
    }


def shown_clusters(state: Any, learned: Divergence | None) -> NamedArrays:
    """Return the arrays of `clusters_of`, with centers in units of the input, and their averages."""
    arrays = clusters_of(state)
    if learned is not None:
        arrays["cluster_averages"] = state.centers, ("cluster", "encoded")
        arrays["cluster_centers"] = learned.shown(state.centers), ("cluster", "feature")
    return arrays


def inertia_of(
    source: Source,
    centers: Float64Array,
    divergence: Divergence | None = None,
    most: float = math.inf,
) -> float:
    """Return the weighted cost of all rows at the nearest of `centers`, (k, d), but at most `most`."""
    taken = Centers(centers, divergence, most)
    return source.fold(Round(NO_BIRTHS, taken), name="score").inertia(taken)
