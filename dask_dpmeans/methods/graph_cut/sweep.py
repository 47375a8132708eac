"""Algorithm 1 on a graph: weighted kernel DP-means (Kulis & Jordan 2012, section 5.2).

It starts from one cluster.

Nodes go to the nearest mean, all at once, and open clusters if weight * distance^2 > lambda = sigma
+ price, with the kernel and the weights of theorem 5.3.  The objective of the clusters is cut +
penalty * k up to a constant.  It never rises while the kernel is positive semidefinite, which
Gershgorin's circles guarantee for this sigma.  Under the normalized cut nothing opens unless nodes
have links to themselves: one cluster stays one cluster.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.engine.occ import settle
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Int64Array
from dask_dpmeans.kernels.graph_cut.gains import ALONE, GraphSummary
from dask_dpmeans.kernels.graph_cut.sweep import (
    Means,
    NodeScan,
    no_openers,
    objecting_nodes,
    scan_nodes,
)
from dask_dpmeans.methods.common import OpeningState
from dask_dpmeans.methods.dpmeans.batch import check_number
from dask_dpmeans.methods.graph_cut.objective import CutMethod, CutState, relabel_nodes


@dataclass(frozen=True, kw_only=True)
class State(CutState, OpeningState):
    """State of a graph clustering after a number of sweeps."""

    sigma: float
    """What is added to the diagonal of the kernel."""


@dataclass(frozen=True)
class OpeningRule:
    """The serial rule: a node too far from every center opens a cluster."""

    method: "Method"

    def scan(self, state: Means, block: Block) -> NodeScan:
        """Return the nearest centers of a block's nodes, and the openers among the nodes that object."""
        return scan_nodes(state, block, self.method.price, self.method.normalized)

    def merge(self, state: Means, left: NodeScan, right: NodeScan) -> NodeScan:
        """Merge neighboring answers."""
        new = objecting_nodes(left.proposals, right.proposals, state.sigma, self.method.price)
        return NodeScan(np.concatenate([left.labels, right.labels]), left.proposals.then(new))

    def validate(self, state: Means, answer: NodeScan) -> tuple[Means, Int64Array]:
        """Open a cluster at each proposed node; return these, (m,); all are far apart."""
        openers = state.openers.then(answer.proposals)
        check_number(len(openers), self.method.max_clusters, self.method.penalty)
        return replace(state, openers=openers), answer.proposals.nodes


@dataclass(frozen=True)
class Method(CutMethod):
    """Graph clustering by sweeps from one cluster."""

    name: ClassVar[str] = "graph-sweep"
    state: ClassVar[type[State]] = State

    def init(self, source: Source) -> State:
        """Start with all nodes in one cluster."""
        found = self.inspect(source)
        start = self.start(source, found)
        if start is None:
            raise InputError(
                f"penalty must be > -sigma = {0.0 - self.sigma(found):g} for init='mean' on this graph, "
                f"got {self.penalty:g}: at lambda = penalty + sigma <= 0 clusters cost nothing, and each "
                "node becomes one"
            )
        return start

    def start(self, source: Source, found: GraphSummary) -> State | None:
        """Return the state of one cluster; None if clusters cost nothing."""
        sigma = self.sigma(found)
        if not self.price + sigma > 0:
            return None
        return State(
            labels=np.where(self.masses(found) > 0, 0, ALONE).astype(np.int32),
            weights=np.zeros(1),
            inertias=np.zeros(1),
            sigma=sigma,
            rows_read=2 * source.plan.n_rows,
        )

    def sigma(self, found: GraphSummary) -> float:
        """Return the least sigma that makes the kernel positive semidefinite (Gershgorin)."""
        if self.normalized:
            linked = found.degrees > 0
            return max(0.0, 1.0 - 2.0 * float((found.loops[linked] / found.degrees[linked]).min()))
        return 2.0 * float((found.degrees - found.loops).max())

    def step(self, source: Source, state: State) -> State:
        """Do one sweep: nearest means, births until no node objects, new clusters, deaths."""
        totals = self.totals(source, state.labels, len(state.weights))
        start = Means(state.labels, totals, no_openers(source.plan.n_rows), state.sigma)
        settled = settle(source, OpeningRule(self), start, gradually=state.step == 0)
        found = settled.answer.labels
        k = len(totals.masses) + len(settled.state.openers)
        alive = np.bincount(found[found >= 0], minlength=k) > 0
        left = int(np.count_nonzero(alive))
        check_number(left, self.max_clusters, self.penalty)
        labels = relabel_nodes(found, np.where(alive, np.cumsum(alive) - 1, ALONE))
        after = self.totals(source, labels, left)
        return State(
            step=state.step + 1,
            labels=labels,
            weights=after.masses,
            inertias=self.cuts(after),
            objective=self.objective(after),
            sigma=state.sigma,
            opened=settled.opened,
            deaths=k - left,
            rows_read=state.rows_read + 2 * source.plan.n_rows + settled.rows_read,
        )

    def result(self, source: Source, state: CutState) -> NamedArrays:
        """Return the arrays of the result, (k,), with their dimensions, and sigma, (1,)."""
        assert isinstance(state, State)
        return {**super().result(source, state), "sigma": (np.array([state.sigma]), ("kernel",))}

    def done(self, before: State, after: State) -> bool:
        """Return whether `after` is the last state."""
        little = self.little(before.objective, after.objective, after.inertias)
        return not after.births and (little or np.array_equal(before.labels, after.labels))
