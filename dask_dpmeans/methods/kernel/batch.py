"""Weighted kernel DP-means: Algorithm 1 with a kernel function (Kulis & Jordan 2012, section 5.2).

Only inner products of rows, K_ij, are known there, so that a center is given by the numbers of its
members.  A sweep compares each row with all others, in the tasks that have the rows in memory; the
n x n matrix of K is never in memory as one array.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.engine.occ import Round, settle
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.kernels.births import Proposals, objects
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array, Labels
from dask_dpmeans.kernels.kernel_centers import (
    ImplicitCenters,
    ImplicitLabels,
    Near,
    Nearest,
    Partition,
    WithinClusterSums,
    keep_kernel_openers,
    merge_kernel_openers,
    nearest_with_openers,
)
from dask_dpmeans.kernels.kernel_functions import (
    SIMILARITIES,
    ComputedGram,
    GivenGram,
    Gram,
    NamedSimilarity,
    Similarity,
)
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.common import BaseMethod, OpeningState, finite_objective
from dask_dpmeans.methods.dpmeans.batch import check_number, checked_penalty, set_limits
from dask_dpmeans.methods.kernel.kernel_checks import check_function, check_gram, checked_kernel

PRECOMPUTED = "precomputed"
"""The kernel whose values are the rows themselves."""
MAX_BYTES = 2**28
"""The most bytes of all rows: each task compares its own rows with them."""
FINEST = 2.0**-43
"""The least penalty, as a share of the greatest similarity of a row with itself.  Squared distances
are differences of similarities; their rounding would exceed a hundredth of a smaller penalty."""


@dataclass(frozen=True, kw_only=True)
class State(OpeningState):
    """State of a fit after a number of sweeps; `inertias` are in units of K times weight."""

    labels: Labels
    """(n,), the clusters whose means are the first centers of the last pass, numbered in the order
    in which they opened; -1 for rows without weight, and for clusters left without weight."""
    openers: Int64Array
    """(births,), the rows that are the other centers."""
    totals: Float64Array
    """(k,), sums of K over all pairs of rows of a cluster, times both weights; K of each opener
    with itself."""
    next_labels: Labels
    """(n,), the clusters of these centers, numbered like `labels`: their means are the centers of
    the next sweep."""

    @property
    def n_means(self) -> int:
        """Number of centers that are means; the others are openers."""
        return len(self.totals) - len(self.openers)

    @property
    def repeats(self) -> bool:
        """Whether the next sweep would start from the centers of the last pass."""
        own = self.labels.copy()
        own[self.openers] = np.arange(self.n_means, len(self.totals))
        return bool((self.labels[self.openers] < 0).all()) and np.array_equal(own, self.next_labels)


@dataclass(frozen=True)
class Sweep:
    """The means of a sweep and the centers opened so far."""

    near: Near
    """The nearest mean of each row."""
    k: int
    """Number of means."""
    openers: Int64Array
    """Rows that have opened clusters, numbered after the means."""


@dataclass(frozen=True)
class Answer:
    """The answer of a run of blocks."""

    near: Near
    """The nearest center of each row."""
    proposals: Proposals
    """The openers among the rows that are too far from every center."""


@dataclass(frozen=True)
class OpeningRule:
    """The serial rule: a row too far from every center opens a cluster."""

    gram: Gram
    penalty: float
    max_clusters: int | None = None

    def scan(self, state: Sweep, block: Block) -> Answer:
        """Return the nearest centers of a block's rows, and the openers among the rows that object."""
        n, openers, norms = len(block.rows), state.openers, state.near.norms
        near = state.near.take(slice(block.start, block.start + n))
        opened = openers, norms[openers], state.k
        found = nearest_with_openers(self.gram, block.rows, near.labels, near.scores, *opened)
        near = Near(*found, near.norms)
        objecting = objects(near.squared, block.weights, self.penalty)
        own = openers - block.start
        # The distance of a row to itself is 0, whatever its rounding.
        objecting[own[(own >= 0) & (own < n)]] = False
        which = np.flatnonzero(objecting)
        rows, weights = block.rows[which].astype(np.float64), block.row_weights()[which]
        proposals = Proposals(block.start + which, rows, weights)
        return Answer(near, keep_kernel_openers(self.gram, norms, proposals, self.penalty))

    def merge(self, state: Sweep, left: Answer, right: Answer) -> Answer:
        """Merge neighboring answers."""
        covers = left.proposals, right.proposals
        proposals = merge_kernel_openers(self.gram, state.near.norms, *covers, self.penalty)
        return Answer(left.near.then(right.near), proposals)

    def validate(self, state: Sweep, answer: Answer) -> tuple[Sweep, Int64Array]:
        """Open a cluster at each proposed row; return their numbers, (m,); all are far apart."""
        opened = answer.proposals.numbers
        check_number(len(state.openers) + len(opened), self.max_clusters, self.penalty)
        return Sweep(state.near, state.k, np.concatenate([state.openers, opened])), opened


@dataclass(frozen=True)
class Parameters(BaseMethod):
    """Common part of sweeps and search: the kernel, the centers, and one sweep."""

    draws: ClassVar[bool] = False

    penalty: float
    """The price of a cluster, in units of K times weight."""
    kernel: str | Similarity = "rbf"
    """A name, "precomputed" for rows that are a Gram matrix, or a function of arrays (a, d) and (b,
    d) that returns (a, b)."""
    gamma: float | None = None
    """Parameter of "rbf" and "poly"; None for 1 / (number of columns)."""
    degree: int = 3
    coef0: float = 1.0
    """Parameters of "poly"."""
    max_iter: int = 300
    """The greatest number of sweeps."""
    tol: float = 1e-4
    """A fit has converged if a sweep opens nothing and lowers J by less than tol * J.  With 0 a fit
    converges when the clusters repeat."""
    max_clusters: int | None = None
    """More clusters are an error."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", checked_penalty(self.penalty))
        names, numbers = (*SIMILARITIES, PRECOMPUTED), (self.gamma, self.degree, self.coef0)
        for name, value in checked_kernel(self.kernel, names, *numbers).items():
            object.__setattr__(self, name, value)
        set_limits(self)

    @property
    def precomputed(self) -> bool:
        """Whether the rows are the values of the kernel."""
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def gram(self, fitted: Any) -> Gram:
        """Return the similarities of rows with the fitted rows, (n, d)."""
        if self.precomputed:
            return GivenGram()
        similarity = self.kernel
        if isinstance(similarity, str):
            similarity = NamedSimilarity(similarity, self.gamma, self.degree, self.coef0)
        return ComputedGram(similarity, fitted)

    def init(self, source: Source) -> State:
        """Start with all rows that have weight in one cluster."""
        self._check(source)
        function = callable(self.kernel)
        gathered = source.fold(Gather(columns=function), name="gather")
        if function:
            check_function(self.gram(gathered.rows), gathered.rows)
        together = np.where(gathered.weights > 0, 0, -1).astype(np.int32)
        passes = 2 + self.precomputed
        return State(
            labels=together,
            openers=np.empty(0, np.int64),
            totals=np.zeros(1),
            next_labels=together,
            weights=np.zeros(1),
            inertias=np.zeros(1),
            rows_read=passes * source.plan.n_rows,
        )

    def _check(self, source: Source) -> None:
        """Refuse too many rows, or rows that are no Gram matrix."""
        n, d = source.plan.n_rows, len(source.summary.sums)
        if self.precomputed:
            check_gram(source, n, d)
        elif n * d * np.dtype(np.float64).itemsize > MAX_BYTES:
            raise InputError(
                f"each task would need all {n:,} rows of {d:,} columns, more than {MAX_BYTES:,} bytes: use "
                "approximation='nystroem', or 'fourier' for the kernel 'rbf', whose cost grows with n alone"
            )

    def sweep(self, source: Source, state: State) -> State:
        """Do one sweep: nearest means, births until no row objects, new clusters, deaths."""
        k = len(state.weights)
        centers = self.means(source, state.next_labels, k)
        near = source.fold(Nearest(centers), name="nearest")
        rows_have_weight = centers.partition.weights > 0
        largest = float(near.norms[rows_have_weight].max())
        if FINEST * largest > self.penalty:
            raise InputError(
                f"the kernel reaches {largest:g}, whose rounding hides squared distances of "
                f"penalty={self.penalty:g}: subtract the mean of each column first, raise the penalty, or "
                "choose another kernel"
            )
        rule = OpeningRule(centers.gram, self.penalty, self.max_clusters)
        start = Sweep(near, k, np.empty(0, np.int64))
        settled = settle(source, rule, start, gradually=state.step == 0)
        near, openers = settled.answer.near, settled.state.openers
        weights, inertias = clusters_of(near, centers.partition.weights, k + len(openers))
        alive = weights > 0
        left = int(np.count_nonzero(alive))
        check_number(left, self.max_clusters, self.penalty)
        numbers = np.append(np.where(alive, np.cumsum(alive) - 1, -1), -1).astype(np.int32)
        return State(
            step=state.step + 1,
            labels=numbers[state.next_labels],
            openers=openers[alive[k:]],
            totals=np.concatenate([centers.totals, near.norms[openers]])[alive],
            next_labels=np.where(rows_have_weight, numbers[near.labels], np.int32(-1)),
            weights=weights[alive],
            inertias=inertias[alive],
            objective=self.objective(inertias, left),
            opened=settled.opened,
            deaths=len(alive) - left,
            rows_read=state.rows_read + 3 * source.plan.n_rows + settled.rows_read,
        )

    def means(self, source: Source, labels: Labels, k: int) -> ImplicitCenters:
        """Return the means of k clusters, (n,) labels, as centers: two passes."""
        gathered = source.fold(Gather(columns=not self.precomputed), name="gather")
        gram, partition = self.gram(gathered.rows), Partition(labels, gathered.weights, k)
        totals = source.fold(WithinClusterSums(gram, partition), name="totals")
        return ImplicitCenters(gram, partition, totals, np.empty(0, np.int64))

    def is_last_sweep(self, before: State, after: State) -> bool:
        """Return whether the sweep between two states is the last one."""
        gained = before.objective - after.objective
        return (not after.births and gained < self.tol * after.objective) or after.repeats

    def score(self, source: Source, state: State) -> float:
        """Return the objective of a state's centers on these rows."""
        centers = self.means(source, state.labels, state.n_means)
        near = source.fold(Nearest(centers), name="nearest")
        sweep = Sweep(near, state.n_means, state.openers)
        near = source.fold(Round(OpeningRule(centers.gram, math.inf), sweep), name="check").near
        _, inertias = clusters_of(near, centers.partition.weights, len(state.weights))
        return self.objective(inertias, len(state.weights))

    def centers(self, source: Source, state: State) -> ImplicitCenters:
        """Return a state's centers, with the rows that they are made of: one pass."""
        gathered = source.fold(Gather(columns=not self.precomputed), name="gather")
        partition = Partition(state.labels, gathered.weights, state.n_means)
        return ImplicitCenters(self.gram(gathered.rows), partition, state.totals, state.openers)

    def labels(self, source: Source, state: State) -> ImplicitLabels:
        """Return the map kernel that labels the rows by a state."""
        return ImplicitLabels(self.centers(source, state))

    def result(self, source: Source, state: State) -> NamedArrays:
        """Return the arrays of the result with their dimensions: all that prediction needs."""
        centers = self.centers(source, state)
        arrays: dict[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]] = {
            "cluster_weights": (state.weights, ("cluster",)),
            "cluster_inertias": (state.inertias, ("cluster",)),
            "cluster_totals": (state.totals, ("cluster",)),
            "center_labels": (state.labels, ("row",)),
            "center_weights": (centers.partition.weights, ("row",)),
            "center_rows": (state.openers, ("opener",)),
        }
        if isinstance(centers.gram, ComputedGram):
            arrays["fitted_rows"] = centers.gram.fitted, ("row", "feature")
        return arrays

    def read_centers(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> ImplicitCenters:
        """Return the centers of a result from its arrays."""
        totals, openers = arrays["cluster_totals"], arrays["center_rows"]
        n_means, labels = len(totals) - len(openers), arrays["center_labels"]
        if (labels >= n_means).any():
            raise ValueError(
                f"the array center_labels holds numbers that are not from -1 to below {n_means:,}"
            )
        partition = Partition(labels, arrays["center_weights"], n_means)
        return ImplicitCenters(self.gram(arrays.get("fitted_rows")), partition, totals, openers)

    def objective(self, inertias: Float64Array, k: int) -> float:
        """Return inertia + penalty * k; `InputError` if it overflows."""
        objective = math.fsum(inertias) + LinearPrice(self.penalty).of(k)
        return finite_objective(objective, f"penalty={self.penalty:g}")


@dataclass(frozen=True)
class Method(Parameters):
    """Kernel DP-means by Algorithm 1."""

    name: ClassVar[str] = "kernel"
    state: ClassVar[type[State]] = State

    def step(self, source: Source, state: State) -> State:
        """Do one sweep."""
        return self.sweep(source, state)

    def done(self, before: State, after: State) -> bool:
        """Return whether `after` is the last state."""
        return self.is_last_sweep(before, after)


def clusters_of(near: Near, weights: Float64Array, k: int) -> tuple[Float64Array, Float64Array]:
    """Return weights and squared errors, (k,) each, of clusters of rows of weights (n,)."""
    labels = near.labels.astype(np.intp)
    return total(labels, weights, k), total(labels, weights * near.squared, k)
