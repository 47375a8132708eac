"""Objective for graphs: a cut plus a price for each cluster (Kulis & Jordan 2012, 5.2)."""

from dataclasses import dataclass
from math import fsum
from typing import ClassVar

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.engine.plan import Kernel, Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array, IndexArray, Labels
from dask_dpmeans.kernels.graph_cut.gains import (
    ALONE,
    GivenLabels,
    GraphSummary,
    Inspection,
    Tally,
    Totals,
    kept_shares,
)
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.common import BaseMethod, BaseState
from dask_dpmeans.methods.dpmeans.batch import set_limits


@dataclass(frozen=True, kw_only=True)
class CutState(BaseState):
    """Common part of the states of these methods.

    Weights are the degrees of the clusters under the normalized cut, their numbers of nodes under
    the ratio cut.  Inertias are the parts of the cut.
    """

    labels: Labels
    """(n,), the cluster of each node; -1 for a node without links under the normalized cut."""


@dataclass(frozen=True)
class CutMethod(BaseMethod):
    """Parameters of a method that lowers cut + penalty * k."""

    draws: ClassVar[bool] = False
    sparse: ClassVar[bool] = True
    """True: blocks are CSR."""

    penalty: float
    """The price of a cluster in the units of the cut, negative: lambda' of Kulis & Jordan 2012."""
    normalized: bool = True
    """Whether a cluster's cut is divided by its degrees, or by its number of nodes."""
    max_iter: int = 300
    """The greatest number of steps."""
    tol: float = 1e-4
    """A fit has converged if a step lowers the objective by less than this share of cut + |penalty|
    k."""
    max_clusters: int | None = None
    """More clusters in the end are an error."""
    seed: int = 0
    """The seed of all random choices."""

    def __post_init__(self) -> None:
        checks.number("penalty", self.penalty, "")
        if self.penalty >= 0:
            raise InputError(
                f"penalty must be < 0, got {self.penalty!r}: a cut is 0 for one cluster and grows with their "
                "number, so that one cluster is always best unless the penalty is negative"
            )
        if self.normalized and self.penalty <= -1:
            raise InputError(
                f"penalty must be > -1, got {self.penalty!r}: each cluster costs 1 + penalty minus the share of "
                "its links that stay inside, so that at -1 and below clusters cost nothing"
            )
        set_limits(self)

    @property
    def price(self) -> float:
        """The price of a cluster minus the share of its mass that it keeps, at a share of 0."""
        if self.normalized:
            return 1.0 + self.penalty
        return self.penalty

    def inspect(self, source: Source) -> GraphSummary:
        """Return degrees and loops of the nodes of an undirected graph, in one pass."""
        found = source.fold(Inspection(), name="inspect")
        check_graph(found, source.plan.n_rows)
        return found

    def masses(self, found: GraphSummary) -> Float64Array:
        """Return the masses of the nodes, (n,): degrees, or 1 for the ratio cut."""
        if self.normalized:
            return found.degrees
        return np.ones(len(found.degrees))

    def totals(self, source: Source, labels: Labels, k: int, name: str = "tally") -> Totals:
        """Return the totals of all k clusters of labels, (n,): one pass."""
        return source.fold(Tally(labels, self.normalized), name=name).whole(k)

    def score(self, source: Source, state: CutState) -> float:
        """Return cut + penalty * k of a state's clusters on this graph: one pass."""
        return self.objective(self.totals(source, state.labels, len(state.weights), "check"))

    def labels(self, source: Source, state: CutState) -> Kernel:
        """Return the map kernel that labels the nodes by a state."""
        return GivenLabels(state.labels)

    def result(self, source: Source, state: CutState) -> NamedArrays:
        """Return the arrays of the result, (k,), with their dimensions."""
        dimensions = ("cluster",)
        return {
            "cluster_weights": (state.weights, dimensions),
            "cluster_inertias": (state.inertias, dimensions),
        }

    def cuts(self, totals: Totals) -> Float64Array:
        """Return (k,), the part of the cut of each cluster."""
        if self.normalized:
            return np.where(totals.sizes > 0, 1.0 - kept_shares(totals), 0.0)
        return -kept_shares(totals)

    def objective(self, totals: Totals) -> float:
        """Return cut + penalty * k."""
        k = int(np.count_nonzero(totals.sizes))
        return fsum(self.cuts(totals)) + LinearPrice(self.penalty).of(k)

    def little(self, before: float, after: float, inertias: Float64Array, parts: int = 1) -> bool:
        """Return whether J fell by less than tol / parts of cut, (k,) `inertias`, + |penalty| k."""
        scale = fsum(inertias) + abs(self.penalty) * len(inertias)
        return before - after < self.tol / parts * scale


def relabel_nodes(labels: Labels, numbers: IndexArray | Labels) -> Labels:
    """Return labels, (n,), with new numbers of clusters, (k,); nodes without links stay so."""
    return np.append(numbers, ALONE).astype(np.int32)[labels]


def check_graph(found: GraphSummary, n: int) -> None:
    """Refuse a matrix that is no undirected graph."""
    if found.columns != n:
        raise InputError(
            f"the graph must be a square matrix, n x n, got {n:,} x {found.columns:,}: of rows X, "
            f"A = sklearn.neighbors.kneighbors_graph(X, {min(10, n - 1)}) has the links of near rows, and "
            "A.maximum(A.T) is the graph; or cluster the rows by LinkageDPMeans"
        )
    if found.negative is not None:
        node, other, weight = found.negative
        raise InputError(
            f"links must weigh >= 0, got {weight} from node {node:,} to node {other:,}"
        )
    if found.forward != found.backward:
        raise InputError(
            "the graph is not symmetric: some links from node i to node j differ from the link from j to i; take "
            "A + A.T, or the larger of both, A.maximum(A.T)"
        )
    if not found.degrees.any():
        raise InputError("the graph has no links: there is nothing to cut")
