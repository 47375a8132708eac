"""Algorithm 1 on a graph: weighted kernel DP-means from one cluster, as Kulis & Jordan 2012 have it (section 5.2).

Nodes go to the nearest mean, all at once, and open clusters where weight * distance^2 > lambda; lambda = sigma + price,
with the kernel and the weights of theorem 5.3.  The objective of its clusters is cut + penalty * k but for a constant,
and never rises while the kernel is positive semidefinite: sigma is as large as Gershgorin's circles ask for.  Under
the normalized cut nothing ever opens unless nodes have links to themselves: what starts as one cluster stays one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans.engine.occ import settle
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Block, Int64Array
from dask_dpmeans.kernels.graph import ALONE, GraphSummary
from dask_dpmeans.kernels.graph_sweep import Means, NodeScan, no_openers, objecting_nodes, scan_nodes
from dask_dpmeans.methods.dpmeans.batch import check_number
from dask_dpmeans.methods.graph_cut.objective import CutMethod, CutState


@dataclass(frozen=True)
class State(CutState):
    """Where a clustering of a graph stands after a number of sweeps: all that the next one needs."""

    sigma: float
    """What the diagonal of the kernel is raised by."""
    opened: Int64Array
    """(births,), the nodes that opened clusters in this sweep, in order."""

    @property
    def births(self) -> int:
        """Clusters opened in this sweep."""
        return len(self.opened)


@dataclass(frozen=True)
class Births:
    """The serial rule: a node beyond every center opens a cluster."""

    method: "Method"

    def scan(self, state: Means, block: Block) -> NodeScan:
        """The nearest centers of a block's nodes, and a cover of those that object."""
        return scan_nodes(state, block, self.method.price, self.method.normalized)

    def merge(self, state: Means, left: NodeScan, right: NodeScan) -> NodeScan:
        """The answer of two neighboring runs."""
        new = objecting_nodes(left.proposals, right.proposals, state.sigma, self.method.price)
        return NodeScan(np.concatenate([left.labels, right.labels]), left.proposals.then(new))

    def validate(self, state: Means, answer: NodeScan) -> tuple[Means, Int64Array]:
        """Open a cluster at each node of the cover: these object to one another already."""
        openers = state.openers.then(answer.proposals)
        check_number(len(openers), self.method.max_clusters, self.method.penalty)
        return replace(state, openers=openers), answer.proposals.nodes


@dataclass(frozen=True)
class Method(CutMethod):
    """Graph clustering by sweeps from one cluster, with its parameters."""

    name: ClassVar[str] = "graph-sweep"
    state: ClassVar[type[State]] = State

    def init(self, source: Source) -> State:
        """All nodes one cluster."""
        found = self.inspected(source)
        start = self.begun(source, found)
        if start is None:
            raise InputError(
                f"penalty must be > -sigma = {0.0 - self.sigma(found):g} for init='mean' on this graph, got "
                f"{self.penalty:g}: at lambda = penalty + sigma <= 0 clusters cost nothing, and each node is one"
            )
        return start

    def begun(self, source: Source, found: GraphSummary) -> State | None:
        """All nodes one cluster; None where clusters cost nothing."""
        sigma = self.sigma(found)
        if not self.price + sigma > 0:
            return None
        return State(
            step=0,
            labels=np.where(self.masses(found) > 0, 0, ALONE).astype(np.int32),
            weights=np.zeros(1),
            inertias=np.zeros(1),
            objective=math.inf,
            sigma=sigma,
            opened=np.empty(0, np.int64),
            deaths=0,
            rows_read=2 * source.plan.n_rows,
        )

    def sigma(self, found: GraphSummary) -> float:
        """The least that Gershgorin's circles show to be enough for a positive semidefinite kernel."""
        if self.normalized:
            linked = found.degrees > 0
            return max(0.0, 1.0 - 2.0 * float((found.loops[linked] / found.degrees[linked]).min()))
        return 2.0 * float((found.degrees - found.loops).max())

    def step(self, source: Source, state: State) -> State:
        """One sweep: nearest means, births until no node objects, the new clusters, deaths."""
        totals = self.totals(source, state.labels, len(state.weights))
        start = Means(state.labels, totals, no_openers(source.plan.n_rows), state.sigma)
        settled = settle(source, Births(self), start, gradually=state.step == 0)
        found = settled.answer.labels
        k = len(totals.masses) + len(settled.state.openers)
        alive = np.bincount(found[found >= 0], minlength=k) > 0
        check_number(int(np.count_nonzero(alive)), self.max_clusters, self.penalty)
        labels = np.append(np.where(alive, np.cumsum(alive) - 1, ALONE), ALONE).astype(np.int32)[found]
        after = self.totals(source, labels, int(np.count_nonzero(alive)))
        return State(
            step=state.step + 1,
            labels=labels,
            weights=after.masses,
            inertias=self.cuts(after),
            objective=self.objective(after),
            sigma=state.sigma,
            opened=settled.opened,
            deaths=int(np.count_nonzero(~alive)),
            rows_read=state.rows_read + 2 * source.plan.n_rows + settled.rows_read,
        )

    def result(self, source: Source, state: State) -> Mapping[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]:
        """The arrays of the result."""
        return {**super().result(source, state), "sigma": (np.array([state.sigma]), ("kernel",))}

    def done(self, before: State, after: State) -> bool:
        """Whether `after` is the end."""
        little = self.little(before.objective, after.objective, after.inertias)
        return not after.opened.size and (little or np.array_equal(before.labels, after.labels))
