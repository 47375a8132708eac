"""DP-means: Algorithm 1 of Kulis & Jordan 2012, swept optimistically."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.occ import Round, settle
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError, TooManyClustersError
from dask_dpmeans.kernels.assign import Labels, Scan, merge_scans, scan
from dask_dpmeans.kernels.births import Proposals, objects
from dask_dpmeans.kernels.block import Block, Features, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers, nearest_squared
from dask_dpmeans.kernels.divergence import Divergence, metric_of
from dask_dpmeans.kernels.price import LinearPrice, Price
from dask_dpmeans.kernels.shard_reuse import ShardAnswer, reusable_answers


@dataclass(frozen=True)
class State:
    """Where a fit stands after a number of sweeps: all that the next one needs."""

    step: int
    """Sweeps done."""
    centers: Float64Array
    """(k, d), the centers of the last pass.  Clusters are numbered in the order in which they opened; where one dies,
    those after it move up."""
    means: Float64Array
    """(k, d), the means of the clusters that these centers make: the centers of the next sweep."""
    weights: Float64Array
    """(k,), weights of the clusters."""
    inertias: Float64Array
    """(k,), squared error of the clusters, in squared units of the rows times weight."""
    objective: float
    """Inertia + penalty * k, of these centers on the data."""
    opened: Int64Array
    """(births,), the rows that opened clusters in this sweep, in order."""
    deaths: int
    """Clusters that were left without weight in this sweep."""
    rows_read: int
    """Rows of all passes since the start, as if each had read them all: shards that stand are counted too."""

    @property
    def births(self) -> int:
        """Clusters opened in this sweep."""
        return len(self.opened)


@dataclass(frozen=True)
class Openings:
    """The serial rule: a row opens a cluster if it costs more at every center than the cluster would."""

    price: Price
    max_clusters: int | None = None
    present: int = 0
    """Centers before the sweep.  Those may die in it, clusters that it opens do not."""

    def scan(self, state: Centers, block: Block) -> Scan:
        """Return moments, and a cover of the rows that object."""
        return scan(block, state, self.price.threshold(len(state)))

    def merge(self, state: Centers, left: Scan, right: Scan) -> Scan:
        """Return the answer of two neighboring runs of blocks."""
        return merge_scans(left, right, self.price.threshold(len(state)), state.divergence)

    def validate(self, state: Centers, answer: Scan) -> tuple[Centers, Int64Array]:
        """Open a cluster at each row of the cover: its rows object to one another already."""
        proposals = answer.proposals
        if not len(proposals):
            return state, proposals.numbers
        if self.price.threshold(len(state) + len(proposals)) > self.price.threshold(len(state)):
            proposals = self._affordable(state, proposals)
        k = len(state) + len(proposals)
        check_number(k - self.present, self.max_clusters, self.price.threshold(k - 1))
        return replace(state, values=np.concatenate([state.values, proposals.rows])), proposals.numbers

    def _affordable(self, state: Centers, proposals: Proposals) -> Proposals:
        """Return the proposals that cost more than a cluster beside all that the earlier ones open."""
        opened: list[int] = []
        for number, weight in enumerate(proposals.weights):
            centers = replace(state, values=np.concatenate([state.values, proposals.rows[opened]]))
            _, costs = nearest_squared(proposals.rows[number : number + 1], centers)
            if objects(costs, np.array([weight]), self.price.threshold(len(centers)))[0]:
                opened.append(number)
        return proposals.take(np.array(opened, np.intp))

    def keep(self, answer: Scan, most_bytes: int) -> ShardAnswer | None:
        """The clusters of a shard, where they are few."""
        return ShardAnswer.of(answer, most_bytes)

    def standing(
        self, earlier: "Openings", before: Centers, after: Centers, kept: Mapping[int, ShardAnswer]
    ) -> dict[int, ShardAnswer]:
        """What stands after the centers have changed."""
        same = earlier.price.threshold(len(before)) == self.price.threshold(len(after))
        if not same or after.divergence is not None:  # it goes by the triangle inequality
            return {}
        return reusable_answers(before.values, after.values, kept)

    def restore(self, state: Centers, kept: ShardAnswer) -> Scan:
        """Return the answer of a shard that was kept."""
        return kept.to_scan(len(state))


NO_BIRTHS = Openings(LinearPrice(math.inf))
"""The rule under which no row opens a cluster."""


def check_number(k: int, max_clusters: int | None, penalty: float) -> None:
    """Stop where a sweep makes k clusters and that is too many."""
    if max_clusters is not None and k > max_clusters:
        raise TooManyClustersError(
            f"penalty={penalty:g} makes at least {k:,} clusters, more than max_clusters={max_clusters:,}: "
            "raise the penalty, or max_clusters"
        )


def checked_penalty(penalty: float, name: str = "penalty") -> float:
    """A price, as Python's number: one of NumPy's float32 would round each objective to its precision."""
    return checks.number(name, penalty)


def set_limits(method: Any) -> None:
    """Make what ends a fit Python's own numbers, in the `__post_init__` of a method; refuse what cannot end one."""
    object.__setattr__(method, "max_iter", checks.integer("max_iter", method.max_iter))
    object.__setattr__(method, "tol", checks.number("tol", method.tol, ">= 0"))
    if method.max_clusters is not None:
        most = checks.integer("max_clusters", method.max_clusters, or_none=" or None")
        object.__setattr__(method, "max_clusters", most)


@dataclass(frozen=True)
class Parameters:
    """What every method that minimizes the DP-means objective is told."""

    penalty: float
    """The price of a cluster, in squared units of the rows times weight: lambda of Kulis & Jordan 2012.  Of directions
    these are 2 (1 - cosine)."""
    centers: Float64Array | None = None
    """(k, d), the first centers, in the units of the input; None for the mean of all rows, as the paper has it."""
    max_iter: int = 300
    """The most steps."""
    tol: float = 1e-4
    """The fit has converged when a step changes no cluster number and lowers J by less than tol * J.  0: when centers
    repeat."""
    max_clusters: int | None = None
    """More clusters than this are an error."""
    metric: str = "euclidean"
    """Which distances and means: a name of `METRICS`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", checked_penalty(self.penalty))
        if self.centers is not None and not (
            self.centers.ndim == 2 and len(self.centers) and np.isfinite(self.centers).all()
        ):
            got = checks.shown(self.centers)
            raise InputError(f"init: the first centers must be finite numbers of shape (k, d), k >= 1, got {got}")
        set_limits(self)
        metric_of(self.metric)

    @property
    def divergence(self) -> Divergence:
        """What a row costs at a center."""
        return metric_of(self.metric)

    @property
    def price(self) -> Price:
        """What clusters cost."""
        return LinearPrice(self.penalty)

    def kernel_centers(self, values: Float64Array) -> Centers:
        """Return centers, (k, d), for kernels."""
        return Centers(values, self.divergence.general)

    @property
    def sparse(self) -> bool:
        """Rows are seen dense, a block at a time."""
        return False

    @property
    def features(self) -> Features | None:
        """What is made of each row of the input before the method sees it."""
        return self.divergence.features

    def first_centers(self, source: Source) -> Float64Array:
        """(k, d), where the fit starts, in the units that kernels see; the first axis where all rows cancel."""
        average, scale = source.summary.mean[np.newaxis], 1.0 if source.scale is None else source.scale
        mean = self.divergence.means(average, np.eye(*average.shape))
        centers = mean if self.centers is None else self.divergence.given(self.centers / scale)
        d = centers.shape[1]
        if d != mean.shape[1]:
            raise InputError(f"the first centers have {d} columns, the data has {mean.shape[1]}")
        if source.summary.overflowing(centers) is not None:
            raise InputError("squared distances of rows to the first centers overflow float64: divide both first")
        return centers

    def score(self, source: Source, state: Any) -> float:
        """The objective of a state's centers on these rows: one pass."""
        found = source.fold(Round(NO_BIRTHS, self.kernel_centers(state.centers)), name="check").moments
        return self.objective(found.inertia, len(state.centers))

    def labels(self, source: Source, state: Any) -> Labels:
        """The kernel of a map that labels the rows as a state has them."""
        return Labels(self.kernel_centers(state.centers))

    def result(self, source: Source, state: Any) -> Mapping[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]:
        """The arrays of the result, by name, with the names of their dimensions."""
        first = {} if self.centers is None else {"first_centers": (self.centers, ("first_cluster", "feature"))}
        return clusters_of(state) | first

    def objective(self, inertia: float, k: int) -> float:
        """Inertia + penalty * k, which must be finite."""
        objective = inertia + self.price.of(k)
        if not math.isfinite(objective):
            raise InputError(f"the objective overflows float64 at penalty={self.penalty:g}: divide the data first")
        return objective


@dataclass(frozen=True)
class Method(Parameters):
    """DP-means, with its parameters."""

    name: ClassVar[str] = "dpmeans"
    state: ClassVar[type[State]] = State

    def __post_init__(self) -> None:
        super().__post_init__()
        farthest = self.divergence.farthest
        if self.penalty > farthest:
            raise InputError(
                f"penalty must be <= {farthest:g} where metric={self.metric!r}, got {self.penalty!r}: no two rows are "
                "farther apart, so that none would open a cluster; lower it, or search=True takes it as a price"
            )

    def seeded(self, seed: int) -> "Method":
        """This method: it draws nothing."""
        return self

    def reduction(self, centers: Float64Array) -> Round[Centers, Scan]:
        """What a pass does at these centers, (k, d)."""
        return Round(Openings(self.price), self.kernel_centers(centers))

    def init(self, source: Source) -> State:
        """The state before the first sweep."""
        centers = self.first_centers(source)
        k = len(centers)
        return State(
            step=0,
            centers=centers,
            means=centers,
            weights=np.zeros(k),
            inertias=np.zeros(k),
            objective=math.inf,
            opened=np.empty(0, np.int64),
            deaths=0,
            rows_read=source.plan.n_rows,
        )

    def step(self, source: Source, state: State) -> State:
        """One sweep: births until no row objects, the new means, deaths."""
        rule = Openings(self.price, self.max_clusters, present=len(state.means))
        settled = settle(source, rule, self.kernel_centers(state.means), gradually=state.step == 0)
        alive = settled.answer.moments.weights > 0
        moments = settled.answer.moments.keep(alive)
        check_number(len(moments.weights), self.max_clusters, self.penalty)
        objective = self.objective(moments.inertia, len(moments.weights))
        centers = settled.state.values[alive]
        return State(
            step=state.step + 1,
            centers=centers,
            means=self.divergence.means(moments.means, centers),
            weights=moments.weights,
            inertias=moments.inertias,
            objective=objective,
            opened=settled.opened,
            deaths=int(np.count_nonzero(~alive)),
            rows_read=state.rows_read + settled.rows_read,
        )

    def done(self, before: State, after: State) -> bool:
        """Whether `after` is the end."""
        small = not after.opened.size and before.objective - after.objective < self.tol * after.objective
        return small or np.array_equal(after.means, after.centers)


def clusters_of(state: Any) -> dict[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]:
    """The arrays that every result with centers has."""
    return {
        "cluster_centers": (state.centers, ("cluster", "feature")),
        "cluster_weights": (state.weights, ("cluster",)),
        "cluster_inertias": (state.inertias, ("cluster",)),
    }


def inertia_of(source: Source, centers: Float64Array, divergence: Divergence | None = None) -> float:
    """Return the weighted cost of all rows at the nearest of `centers`, (k, d)."""
    return source.fold(Round(NO_BIRTHS, Centers(centers, divergence)), name="score").moments.inertia
