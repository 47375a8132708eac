"""Weighted kernel DP-means: Algorithm 1 in the space of a kernel function (Kulis & Jordan 2012, section 5.2).

Nothing but inner products of rows is known there, K_ij, so that a center is the mean of its members by their numbers.
A sweep compares each row with all others, in the tasks that hold the rows; the n x n matrix of K is never there whole.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.occ import Round, settle
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.births import Proposals, objects
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Labels, Rows
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.kernels.kernel_births import keep_openers, merge_openers
from dask_dpmeans.kernels.kernel_centers import (
    ImplicitCenters,
    ImplicitLabels,
    Near,
    Nearest,
    Partition,
    WithinClusterSums,
    nearest_with_openers,
)
from dask_dpmeans.kernels.kernel_functions import (
    SIMILARITIES,
    ComputedGram,
    GivenGram,
    Gram,
    NamedSimilarity,
    Similarity,
    Symmetry,
)
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import check_number, checked_penalty, set_limits

PRECOMPUTED = "precomputed"
"""The kernel of which the rows are the values."""
MOST_BYTES = 2**28
"""Of all rows together: each task compares its own with them."""
ASYMMETRY = 1e-6
"""The most that a row and a column of a Gram matrix may differ, over the greatest sum of absolute values of a row."""
FINEST = 2.0**-43
"""Of the greatest similarity of a row with itself, the share that a penalty must be: squared distances are differences
of similarities, whose rounding would be more than a hundredth of it otherwise."""
CHECKED = 2**8
"""Rows of which a function is asked twice, whether it is symmetric."""
DEFAULTS = {"gamma": None, "degree": 3, "coef0": 1.0}
USES = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0")}
"""What of these each kernel takes."""


@dataclass(frozen=True)
class State:
    """Where a fit stands after a number of sweeps: all that the next one needs."""

    step: int
    """Sweeps done."""
    labels: Labels
    """(n,), the clusters whose means are the first centers of the last pass; -1 where a row has no weight, or where its
    cluster has been left without any.  Clusters are numbered in the order in which they opened."""
    openers: Int64Array
    """(births,), the rows at which the other centers stand."""
    totals: Float64Array
    """(k,), sums of K over all pairs of rows of these clusters, by both weights; K of each opener with itself."""
    next_labels: Labels
    """(n,), the clusters that these centers make, as `labels` has them: their means are the centers of the next
    sweep."""
    weights: Float64Array
    """(k,), weights of the clusters."""
    inertias: Float64Array
    """(k,), squared error of the clusters, in units of K times weight."""
    objective: float
    """Inertia + penalty * k, of these centers on the data."""
    opened: Int64Array
    """(births,), the rows that opened clusters in this sweep, in order."""
    deaths: int
    """Clusters that were left without weight in this sweep."""
    rows_read: int
    """Rows of all passes since the start."""

    @property
    def births(self) -> int:
        """Clusters opened in this sweep."""
        return len(self.opened)

    @property
    def partition(self) -> tuple[Labels, int]:
        """The clusters whose means are the first centers, and how many these are."""
        return self.labels, len(self.totals) - len(self.openers)

    @property
    def repeats(self) -> bool:
        """Whether the next sweep would start from the centers of the last pass."""
        own = self.labels.copy()
        own[self.openers] = np.arange(len(self.totals) - len(self.openers), len(self.totals))
        return bool((self.labels[self.openers] < 0).all()) and np.array_equal(own, self.next_labels)


@dataclass(frozen=True)
class Sweep:
    """A sweep under way."""

    near: Near
    """The nearest mean of each row."""
    k: int
    """Means."""
    openers: Int64Array
    """The rows that have opened clusters, numbered after the means."""


@dataclass(frozen=True)
class Answer:
    """What a run of blocks answers."""

    near: Near
    """The nearest center of each row."""
    proposals: Proposals
    """A cover of the rows that object to every center."""


@dataclass(frozen=True)
class Openings:
    """The serial rule: a row beyond every center opens a cluster."""

    gram: Gram
    penalty: float
    max_clusters: int | None = None

    def scan(self, state: Sweep, block: Block) -> Answer:
        """The nearest centers of a block's rows, and a cover of those that object."""
        n = len(block.rows)
        near, norms = state.near.take(slice(block.start, block.start + n)), state.near.norms
        openers = state.openers
        found = nearest_with_openers(self.gram, block.rows, near.labels, near.scores, openers, norms[openers], state.k)
        near = Near(*found, near.norms)
        objecting = objects(near.squared, block.weights, self.penalty)
        own = state.openers - block.start
        objecting[own[(own >= 0) & (own < n)]] = False  # the distance of a row to itself is 0, however it was rounded
        which = np.flatnonzero(objecting)
        weights = np.ones(n) if block.weights is None else block.weights
        proposals = Proposals(block.start + which, block.rows[which].astype(np.float64), weights[which])
        return Answer(near, keep_openers(self.gram, norms, proposals, self.penalty))

    def merge(self, state: Sweep, left: Answer, right: Answer) -> Answer:
        """The answer of two neighboring runs."""
        proposals = merge_openers(self.gram, state.near.norms, left.proposals, right.proposals, self.penalty)
        return Answer(left.near.then(right.near), proposals)

    def validate(self, state: Sweep, answer: Answer) -> tuple[Sweep, Int64Array]:
        """Open a cluster at each row of the cover: its rows object to one another already."""
        opened = answer.proposals.numbers
        check_number(len(state.openers) + len(opened), self.max_clusters, self.penalty)
        return Sweep(state.near, state.k, np.concatenate([state.openers, opened])), opened


@dataclass(frozen=True)
class Parameters:
    """What sweeps and the search have in common: the kernel, the centers, and one sweep."""

    penalty: float
    """The price of a cluster, in units of K times weight."""
    kernel: str | Similarity = "rbf"
    """A name, "precomputed" where the rows are a Gram matrix, or a function of A, (a, d), and B, (b, d): (a, b)."""
    gamma: float | None = None
    """Of "rbf" and "poly"; None for 1 / (number of columns)."""
    degree: int = 3
    """Of "poly"."""
    coef0: float = 1.0
    """Of "poly"."""
    max_iter: int = 300
    """The most sweeps."""
    tol: float = 1e-4
    """The fit has converged when a sweep opens nothing and lowers J by less than tol * J.  0: when clusters repeat."""
    max_clusters: int | None = None
    """More clusters than this are an error."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", checked_penalty(self.penalty))
        names = (*SIMILARITIES, PRECOMPUTED)
        for name, value in checked_kernel(self.kernel, names, self.gamma, self.degree, self.coef0).items():
            object.__setattr__(self, name, value)
        set_limits(self)

    @property
    def precomputed(self) -> bool:
        """Whether the rows are the values of the kernel."""
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def gram(self, fitted: Any) -> Gram:
        """The similarities of rows and of those that were fitted, (n, d)."""
        if self.precomputed:
            return GivenGram()
        if isinstance(self.kernel, str):
            return ComputedGram(NamedSimilarity(self.kernel, self.gamma, self.degree, self.coef0), fitted)
        return ComputedGram(self.kernel, fitted)

    @property
    def sparse(self) -> bool:
        """Rows are seen dense, a block at a time."""
        return False

    @property
    def features(self) -> None:
        """Rows are seen as they are given."""
        return None

    def init(self, source: Source) -> State:
        """The state before the first sweep: all rows that have weight are one cluster."""
        self._check(source)
        function = callable(self.kernel)
        gathered = source.fold(Gather(columns=function), name="gather")
        if function:
            check_function(self.gram(gathered.rows), gathered.rows)
        weights = gathered.weights
        nothing = np.empty(0, np.int64)
        together = np.where(weights > 0, 0, -1).astype(np.int32)
        return State(
            step=0,
            labels=together,
            openers=nothing,
            totals=np.zeros(1),
            next_labels=together,
            weights=np.zeros(1),
            inertias=np.zeros(1),
            objective=math.inf,
            opened=nothing,
            deaths=0,
            rows_read=source.plan.n_rows * (3 if self.precomputed else 2),
        )

    def _check(self, source: Source) -> None:
        """Refuse rows that are too large together, or no Gram matrix."""
        n, d = source.plan.n_rows, len(source.summary.sums)
        if self.precomputed:
            check_gram(source, n, d)
        elif n * d * np.dtype(np.float64).itemsize > MOST_BYTES:
            raise InputError(
                f"each task would need all {n:,} rows of {d:,} columns, more than {MOST_BYTES:,} bytes: use "
                "approximation='nystroem', or 'fourier' for the kernel 'rbf', whose cost grows with n alone"
            )

    def swept(self, source: Source, state: State) -> State:
        """The state after one sweep: nearest means, births until no row objects, the new clusters, deaths."""
        k = len(state.weights)
        centers = self.means(source, state.next_labels, k)
        near = source.fold(Nearest(centers), name="nearest")
        self._check_size(float(near.norms[centers.partition.weights > 0].max()))
        rule = Openings(centers.gram, self.penalty, self.max_clusters)
        start = Sweep(near, k, np.empty(0, np.int64))
        settled = settle(source, rule, start, gradually=state.step == 0)
        near, openers = settled.answer.near, settled.state.openers
        weights, inertias = clusters_of(near, centers.partition.weights, k + len(openers))
        alive = weights > 0
        check_number(int(np.count_nonzero(alive)), self.max_clusters, self.penalty)
        numbers = np.append(np.where(alive, np.cumsum(alive) - 1, -1), -1).astype(np.int32)  # that of -1 is -1
        return State(
            step=state.step + 1,
            labels=numbers[state.next_labels],
            openers=openers[alive[k:]],
            totals=np.concatenate([centers.totals, near.norms[openers]])[alive],
            next_labels=np.where(centers.partition.weights > 0, numbers[near.labels], np.int32(-1)),
            weights=weights[alive],
            inertias=inertias[alive],
            objective=self.objective(inertias, int(np.count_nonzero(alive))),
            opened=settled.opened,
            deaths=int(np.count_nonzero(~alive)),
            rows_read=state.rows_read + 3 * source.plan.n_rows + settled.rows_read,
        )

    def _check_size(self, largest: float) -> None:
        """Refuse similarities, up to this one of a row with itself, whose differences are rounded too much."""
        if FINEST * largest > self.penalty:
            raise InputError(
                f"the kernel reaches {largest:g}, whose rounding hides squared distances of penalty={self.penalty:g}: "
                "subtract the mean of each column first, raise the penalty, or choose another kernel"
            )

    def means(self, source: Source, labels: Labels, k: int) -> ImplicitCenters:
        """The means of clusters as centers: two passes."""
        gathered = source.fold(Gather(columns=not self.precomputed), name="gather")
        gram, partition = self.gram(gathered.rows), Partition(labels, gathered.weights, k)
        totals = source.fold(WithinClusterSums(gram, partition), name="totals")
        return ImplicitCenters(gram, partition, totals, np.empty(0, np.int64))

    def swept_out(self, before: State, after: State) -> bool:
        """Whether a sweep that led from one state to the other is the last one."""
        small = not after.opened.size and before.objective - after.objective < self.tol * after.objective
        return small or after.repeats

    def score(self, source: Source, state: State) -> float:
        """The objective of a state's centers on these rows."""
        labels, k = state.partition
        centers = self.means(source, labels, k)
        sweep = Sweep(source.fold(Nearest(centers), name="nearest"), k, state.openers)
        near = source.fold(Round(Openings(centers.gram, math.inf), sweep), name="check").near
        _, inertias = clusters_of(near, centers.partition.weights, len(state.weights))
        return self.objective(inertias, len(state.weights))

    def centers(self, source: Source, state: State) -> ImplicitCenters:
        """A state's centers, with the rows that they are made of: one pass."""
        gathered = source.fold(Gather(columns=not self.precomputed), name="gather")
        labels, k = state.partition
        partition = Partition(labels, gathered.weights, k)
        return ImplicitCenters(self.gram(gathered.rows), partition, state.totals, state.openers)

    def labels(self, source: Source, state: State) -> ImplicitLabels:
        """The kernel of a map that labels the rows as a state has them."""
        return ImplicitLabels(self.centers(source, state))

    def result(self, source: Source, state: State) -> Mapping[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]:
        """The arrays of the result: with the centers, all that prediction needs."""
        centers = self.centers(source, state)
        gram = centers.gram
        return {
            "cluster_weights": (state.weights, ("cluster",)),
            "cluster_inertias": (state.inertias, ("cluster",)),
            "cluster_totals": (state.totals, ("cluster",)),
            "center_labels": (state.labels, ("row",)),
            "center_weights": (centers.partition.weights, ("row",)),
            "center_rows": (state.openers, ("opener",)),
            **({"fitted_rows": (gram.fitted, ("row", "feature"))} if isinstance(gram, ComputedGram) else {}),
        }

    def restored(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> ImplicitCenters:
        """The centers of a result, from its arrays."""
        totals, openers = arrays["cluster_totals"], arrays["center_rows"]
        k = len(totals) - len(openers)
        partition = Partition(arrays["center_labels"], arrays["center_weights"], k)
        return ImplicitCenters(self.gram(arrays.get("fitted_rows")), partition, totals, openers)

    def objective(self, inertias: Float64Array, k: int) -> float:
        """Inertia + penalty * k, which must be finite."""
        objective = math.fsum(inertias) + LinearPrice(self.penalty).of(k)
        if not math.isfinite(objective):
            raise InputError(f"the objective overflows float64 at penalty={self.penalty:g}: divide the data first")
        return objective


@dataclass(frozen=True)
class Method(Parameters):
    """Kernel DP-means by Algorithm 1, with its parameters."""

    name: ClassVar[str] = "kernel"
    state: ClassVar[type[State]] = State

    def seeded(self, seed: int) -> "Method":
        """This method: it draws nothing."""
        return self

    def step(self, source: Source, state: State) -> State:
        """One sweep."""
        return self.swept(source, state)

    def done(self, before: State, after: State) -> bool:
        """Whether `after` is the end."""
        return self.swept_out(before, after)


def clusters_of(near: Near, weights: Float64Array, k: int) -> tuple[Float64Array, Float64Array]:
    """(k,) and (k,), weights and squared errors of the clusters that k centers make of rows of these weights."""
    labels = near.labels.astype(np.intp)
    return total(labels, weights, k), total(labels, weights * near.squared, k)


def checked_kernel(
    kernel: Any, names: tuple[str, ...], gamma: float | None, degree: int, coef0: float
) -> dict[str, Any]:
    """Return `gamma`, `degree` and `coef0` as Python's numbers.

    Raises
    ------
    InputError
        Where one is none, or has no use with this kernel; or where that is none of the names, and no function.
    """
    if not (callable(kernel) or (isinstance(kernel, str) and kernel in names)):
        listed = ", ".join(repr(name) for name in names)
        raise InputError(
            f"kernel must be one of {listed}, or a function of two arrays of rows, got {checks.shown(kernel)}"
        )
    found = {
        "gamma": None if gamma is None else checks.number("gamma", gamma, or_none=" or None"),
        "degree": checks.integer("degree", degree),
        "coef0": checks.number("coef0", coef0, ""),
    }
    used = USES.get(kernel, ()) if isinstance(kernel, str) else ()
    for name, value in found.items():
        if value != DEFAULTS[name] and name not in used:
            raise InputError(f"{name} has no use where kernel={kernel!r}, got {value!r}: leave it out")
    return found


def check_function(gram: Gram, rows: Rows) -> None:
    """Refuse a function of two arrays of rows that gives other similarities once these are the other way round."""
    some = gram.columns(rows[:CHECKED], slice(CHECKED))
    apart = np.abs(some - some.T)
    if apart.max() > ASYMMETRY * np.abs(some).max():
        first, second = np.unravel_index(apart.argmax(), apart.shape)
        raise InputError(
            f"kernel(A, B) must be kernel(B, A).T, but gives {some[first, second]:g} for rows {first} and {second}, "
            f"and {some[second, first]:g} for these the other way round"
        )


def check_gram(source: Source, n: int, d: int) -> None:
    """Refuse rows that are no Gram matrix: not square, scaled, not symmetric, or of rows of negative length."""
    if n != d:
        raise InputError(f"kernel='precomputed' needs the similarities of all pairs of rows, (n, n), got {(n, d)}")
    if source.scale is not None:
        raise InputError("kernel='precomputed' takes similarities as they are: leave the scale out")
    found = source.fold(Symmetry(np.random.default_rng(0).uniform(1, 2, n)), name="symmetry")
    apart = np.abs(found.across - found.down)
    if apart.max() > ASYMMETRY * found.sums.max():
        raise InputError(
            f"kernel='precomputed' needs a symmetric matrix: row {apart.argmax():,} and column {apart.argmax():,} "
            "differ; (K + K.T) / 2 is symmetric"
        )
    wrong = np.flatnonzero((found.diagonal < 0) | ((found.diagonal == 0) & (found.sums > 0)))
    if wrong.size:
        raise InputError(
            f"kernel='precomputed' needs similarities, but that of row {wrong[0]:,} with itself is "
            f"{found.diagonal[wrong[0]]:g}, and others are not 0: distances D make some by np.exp(-gamma * D**2)"
        )
