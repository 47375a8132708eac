"""One pass of the search: its rule, its state, and the state that planned moves lead to."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.hdp import GroupScan, Sharing
from dask_dpmeans.kernels.hdp_search import SearchScan, merge_search_scans, scan_for_search
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans.batch import check_number
from dask_dpmeans.methods.dpmeans.moves import ROUNDING, around
from dask_dpmeans.methods.hdp import state as hdp_state
from dask_dpmeans.methods.hdp.batch import OpeningRule, Parameters, sweep
from dask_dpmeans.methods.hdp.moves import MovePlan, RetiedCenters
from dask_dpmeans.methods.hdp.pass_statistics import PassStatistics
from dask_dpmeans.methods.hdp.state import Uses

TOL_SHARE = 5
"""Passes and trials that gain less than tol / TOL_SHARE of the objective gain nothing."""


@dataclass(frozen=True, kw_only=True)
class State(hdp_state.State):
    """State of a search after a number of steps."""

    children: Float64Array
    """(h, 2, d), two child centers of each of `means`, which divide its rows in the next pass."""


@dataclass(frozen=True)
class SearchRule(OpeningRule):
    """The rule of Algorithm 2, with statistics of moves for each pass."""

    children: Float64Array = field(kw_only=True)
    """(h, 2, d), two child centers of each center before the sweep."""

    def scan(self, state: Sharing, block: Block) -> GroupScan:
        """Return the answer of one block."""
        return scan_for_search(block, state, self.prices, self.children)

    def merge(self, state: Sharing, left: GroupScan, right: GroupScan) -> GroupScan:
        """Merge neighboring answers."""
        assert isinstance(left, SearchScan)
        assert isinstance(right, SearchScan)
        return merge_search_scans(left, right, state, self.prices)


@dataclass(frozen=True)
class SearchParameters(Parameters):
    """Parameters of the search, and its passes."""

    state: ClassVar[type[State]] = State

    seed: int = 0
    """The seed of all random numbers."""

    def init(self, source: Source) -> State:
        """Start at the mean of all rows, which all data sets use."""
        start = super().init(source)
        spread = math.sqrt(float(source.summary.squares.sum()) / source.summary.weight)
        radii = np.array([spread])
        children = around(start.means, radii, self.random(start), self.divergence)
        return State(**vars(start), children=children)

    def rule(self, state: hdp_state.State) -> SearchRule:
        assert isinstance(state, State)
        return SearchRule(self.prices, self.max_clusters, len(state.means), children=state.children)

    def random(self, state: hdp_state.State) -> np.random.Generator:
        """Return the random numbers of the pass that follows a state."""
        return stream(self.seed, Stream.HDP_SEARCH, state.rows_read)

    def least_gain(self, state: State) -> float:
        """Return what a pass or a trial must gain."""
        return max(self.tol / TOL_SHARE, ROUNDING) * state.objective

    def statistics(self, source: Source, state: State) -> PassStatistics:
        """Sweep from the next centers and uses of a state."""
        return PassStatistics(sweep(self, source, state), self.prices)

    def state_after(self, found: PassStatistics, plan: MovePlan, before: State) -> State:
        """Return the state of a pass, with its planned moves."""
        retied = RetiedCenters(found, plan.tied, len(plan.fixed))
        groups = np.concatenate([retied.uses.groups, plan.taken_up.groups])
        numbers, centers = renumber(np.concatenate([retied.uses.centers, plan.taken_up.centers]))
        check_number(len(numbers), self.max_clusters, self.global_penalty)
        means = np.zeros_like(retied.means)
        means[: found.g] = found.sweep.centers
        moving = ~plan.fixed & (retied.weights > 0)
        means[moving] = retied.means[moving]
        after = found.sweep.state_after(before, self)
        return replace(
            after,
            means=means[numbers],
            children=retied.children(self.random(after))[numbers],
            next=Uses(groups, centers),
            associations=plan.changes,
            saved=plan.gain,
            planned=plan.moves,
            promised=plan.promised,
        )

    def start_at(self, state: State, centers: Float64Array, uses: Uses, rows_read: int) -> State:
        """Return a first state whose next sweep has these centers, (h, d), and uses."""
        radii = np.full(len(centers), math.sqrt(self.prices.both))
        children = around(centers, radii, self.random(state), self.divergence)
        return replace(
            state, step=1, means=centers, children=children, next=uses, rows_read=rows_read
        )

    def start_with(self, state: State, found: PassStatistics, tied: Int64Array) -> State:
        """Return a state whose next sweep has other ties, (m, 2), with centers at their means."""
        retied = RetiedCenters(found, tied, max(found.g, int(tied.max()) + 1))
        numbers, centers = renumber(retied.uses.centers)
        children = retied.children(self.random(state))[numbers]
        uses = Uses(retied.uses.groups, centers)
        return replace(state, means=retied.means[numbers], children=children, next=uses)


def renumber(labels: npt.NDArray[np.integer[Any]]) -> tuple[Int64Array, Int64Array]:
    """Return the different labels, ascending, and the position of each label, (n,), among them."""
    found, positions = np.unique(labels, return_inverse=True)
    return found.astype(np.int64), positions.ravel().astype(np.int64)
