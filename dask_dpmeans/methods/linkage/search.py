"""Clusters of any shape, from micro-clusters.

1. DP-means with search, at a low price, finds many micro-clusters (`methods.dpmeans.search`).
2. One pass finds how densely rows lie between them (`kernels.links`).
3. The normalized cut of these links groups the micro-clusters (Kulis & Jordan 2012, section 5.2),
   without another pass (`tree`).

Micro-clusters and a spectral cut of k groups were combined by Yan, Huang & Jordan 2009.  The last
step of a fit does 2 and 3.  Its objective, cut + penalty * k, is at most 0, below the
objective of any micro-clusters.
"""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.history import MoveCounts
from dask_dpmeans.engine.loop import NamedArrays
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.assign import NearestLabels
from dask_dpmeans.kernels.block import Features, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.links import Links, LinkScan, line_variances, links_of
from dask_dpmeans.kernels.metrics import metric_of
from dask_dpmeans.kernels.moments import total
from dask_dpmeans.methods.common import LEARNED, BaseMethod
from dask_dpmeans.methods.dpmeans import batch, search, search_state
from dask_dpmeans.methods.dpmeans.search_passes import NO_GAINS
from dask_dpmeans.methods.dpmeans.trials import SHARES
from dask_dpmeans.methods.linkage.choice import ALONE
from dask_dpmeans.methods.linkage.levels import Levels
from dask_dpmeans.methods.linkage.noise import labels_of
from dask_dpmeans.methods.linkage.tree import (
    GroupTree,
    cut_parts,
    groups_at,
    tree_of,
    without_light_components,
)

METRICS = ("euclidean", "cosine")
RESUMED = (
    "the fit stopped at max_iter, and its micro-clusters are grouped already: start anew with a "
    "larger max_iter"
)


@dataclass(frozen=True)
class Grouping:
    """Groups of K micro-clusters."""

    groups: Int64Array
    """(K,), the cluster of each micro-cluster; heavier clusters come first, with their noise."""
    links: Links
    """Links of micro-clusters."""
    merges: Float64Array
    """(K - 1, 4), the tree of all numbers of clusters; see `GroupTree`."""
    left_out: float
    """Share of the weight of links that is not among `links`."""
    cuts: Float64Array
    """(m,), the normalized cuts of 1, 2, ... groups."""
    penalty: float
    """The price of a cluster at which the number of groups is best."""


@dataclass(frozen=True, kw_only=True)
class State:
    """A fit after a number of steps; before the last, micro-clusters are the clusters."""

    step: int
    """Steps done."""
    micro: search_state.State
    """The search of the micro-clusters."""
    grouping: Grouping
    weights: Float64Array
    """(k,), weights of the clusters, without noise."""
    inertias: Float64Array
    """(k,), squared errors of the micro-clusters; after the last step, parts of the cut."""
    objective: float
    """Of the last step, cut + penalty * k; before, the objective of the micro-clusters."""
    rows_read: int
    """Rows of all passes since the start."""
    grouped: bool = False
    """Whether micro-clusters are grouped."""
    settled: bool = False
    """Whether the search of the micro-clusters had come to its end before."""

    @classmethod
    def of(cls, micro: search_state.State, step: int) -> "State":
        """Return the state of a search of micro-clusters, each a cluster of its own."""
        nothing = np.empty(0, np.int64)
        links = Links(nothing, nothing, np.empty(0))
        alone = np.arange(len(micro.centers))
        return cls(
            step=step,
            micro=micro,
            grouping=Grouping(alone, links, np.empty((0, 4)), 0.0, np.empty(0), ALONE),
            weights=micro.weights,
            inertias=micro.inertias,
            objective=micro.objective,
            rows_read=micro.rows_read,
        )

    @property
    def births(self) -> int:
        """Micro-clusters opened in the step."""
        return 0 if self.grouped else self.micro.births

    @property
    def deaths(self) -> int:
        """Micro-clusters that lost all weight in the step."""
        return 0 if self.grouped else self.micro.deaths

    @property
    def moves(self) -> MoveCounts:
        """Moves of the search in the step."""
        return MoveCounts() if self.grouped else self.micro.moves

    @property
    def gains(self) -> Float64Array:
        """(3,), gains of these moves."""
        return NO_GAINS if self.grouped else self.micro.gains


@dataclass(frozen=True)
class Method(BaseMethod):
    """The search of micro-clusters, and the cut of their links."""

    name: ClassVar[str] = "linkage"
    state: ClassVar[type[State]] = State
    draws: ClassVar[bool] = False

    micro_penalty: float
    """The price of a micro-cluster, in squared units of the rows times weight."""
    penalty: float
    """The price of a cluster, in units of the normalized cut, from -1 to below 0."""
    n_clusters: int | None = None
    """Number of clusters; None for the number that is best at the penalty."""
    noise: float | None = None
    """Micro-clusters below this share of the density of their cluster are noise; None for none."""
    max_iter: int = 300
    """Most steps."""
    tol: float = 1e-4
    """As for the search of DP-means."""
    max_clusters: int | None = None
    """More micro-clusters than this are an error."""
    metric: str = "euclidean"
    """One of `METRICS`."""
    seed: int = 0
    """Seed of all random numbers."""
    levels: Levels | None = field(default=None, metadata=LEARNED, compare=False)
    """The numbers of clusters of the summary that chose the penalty; the fit then chooses it anew,
    with its own micro-clusters.  None if it was given."""

    def __post_init__(self) -> None:
        price = batch.checked_penalty(self.micro_penalty, "micro_penalty")
        object.__setattr__(self, "micro_penalty", price)
        penalty = checks.number("penalty", self.penalty, "")
        if not -1 <= penalty < 0:
            raise InputError(f"penalty must be a number >= -1 and < 0, got {penalty!r}")
        object.__setattr__(self, "penalty", penalty)
        if self.n_clusters is not None:
            count = checks.integer("n_clusters", self.n_clusters, or_none=" or None")
            object.__setattr__(self, "n_clusters", count)
        if self.noise is not None:
            share = checks.number("noise", self.noise, or_none=" or None")
            if share >= 1:
                raise InputError(
                    f"noise must be below 1, got {share!r}: it is a share of a density"
                )
            object.__setattr__(self, "noise", share)
        batch.set_limits(self)
        if self.metric == "haversine":
            raise InputError(
                "metric='haversine' is for DPMeans alone: links of micro-clusters are measured along "
                "straight lines; give LinkageDPMeans the points (cos lat cos lon, cos lat sin lon, "
                "sin lat) * 6371.0088 as rows, whose distances are chords in kilometers"
            )
        checks.choice("metric", self.metric, METRICS)

    @property
    def search(self) -> search.Method:
        """The search of the micro-clusters."""
        return search.Method(
            self.micro_penalty,
            max_iter=self.max_iter,
            tol=self.tol,
            max_clusters=self.max_clusters,
            metric=self.metric,
            seed=self.seed,
        )

    @property
    def divergence(self) -> Divergence:
        """Divergence of the metric."""
        return metric_of(self.metric)

    @property
    def features(self) -> Features | None:
        return self.divergence.features

    def init(self, source: Source) -> State:
        """Return the state before the first step.

        Micro-clusters that are to be joined are found by moves alone, without trials unless a
        coreset is the start.
        """
        micro = self.search.init(source)
        if self.penalty != ALONE:
            micro = replace(micro, share=len(SHARES), finest=False, compared=True)
        return State.of(micro, 0)

    def step(self, source: Source, state: State) -> State:
        """Return the state after a step of the search, grouped if the search has ended."""
        if state.grouped:
            raise InputError(RESUMED)
        micro = self.search.step(source, state.micro)
        settled = not micro.objective < state.objective
        if settled:
            micro = replace(state.micro, rows_read=micro.rows_read)
        if settled or state.step + 1 == self.max_iter:
            return self.group(source, replace(State.of(micro, state.step + 1), settled=settled))
        return State.of(micro, state.step + 1)

    def group(self, source: Source, state: State) -> State:
        """Return the state with groups of its micro-clusters, from one pass."""
        found = self.grouping(source, state.micro)
        k = int(found.groups.max()) + 1
        weights, labels = state.micro.weights, self.micro_labels(state.micro, found.groups)
        graph = without_light_components(found.links.matrix(len(found.groups)), weights)
        parts = cut_parts(graph, found.groups, k)
        return replace(
            state,
            grouping=found,
            weights=total(labels[labels >= 0], weights[labels >= 0], k),
            inertias=parts,
            objective=self.objective(parts, found.penalty),
            rows_read=state.rows_read + source.plan.n_rows,
            grouped=True,
        )

    def objective(self, parts: Float64Array, penalty: float) -> float:
        """Return cut + penalty * k of parts of the cut, (k,); at most 0 for a number asked for."""
        found = math.fsum(parts) + penalty * len(parts)
        return found if self.n_clusters is None else min(found, 0.0)

    def grouping(self, source: Source, micro: search_state.State) -> Grouping:
        """Return groups of micro-clusters by the links that one pass finds."""
        centers, weights, most = micro.centers, micro.weights, len(micro.centers)
        if self.n_clusters is not None and self.n_clusters > most:
            raise InputError(
                f"n_clusters must be at most the number of micro-clusters, {most:,}, got "
                f"{self.n_clusters:,}: give a lower micro_penalty, a larger max_iter, or rows that "
                "differ more"
            )
        variances = np.zeros(most)
        if most > 1:
            variances = line_variances(centers, weights, micro.inertias)
        sums = source.fold(LinkScan(Centers(centers), variances), name="links")
        links, left_out = links_of(sums, most)
        graph = without_light_components(links.matrix(most), weights)
        tree = tree_of(graph, centers, weights)
        penalty = self._penalty_of(tree)
        count = self.n_clusters
        if count is None:
            count = most if penalty == ALONE else tree.best_level(penalty)
        groups = groups_at(tree.merges, count, graph, centers, weights)
        return Grouping(groups, links, tree.merges, left_out, tree.cuts, penalty)

    def _penalty_of(self, tree: GroupTree) -> float:
        """Return the penalty of a tree of micro-clusters: the given one, or the one it chooses.

        Balls keep theirs, and a tree without a number of clusters that is best at some penalty.
        """
        if self.levels is None or self.penalty == ALONE:
            return self.penalty
        levels = self.levels.of_fit(tree.cuts)
        if self.n_clusters is not None:
            return levels.interval_of(self.n_clusters).middle
        return levels.chosen.middle if levels.best.n_clusters > 1 else self.penalty

    def done(self, before: State, after: State) -> bool:
        """Return whether the micro-clusters have settled and are grouped."""
        return after.settled

    def score(self, source: Source, state: State) -> float:
        """Return the objective that the micro-centers of a state give on these rows."""
        if state.grouped:
            return self.group(source, state).objective
        return self.search.score(source, state.micro)

    def micro_labels(self, micro: search_state.State, groups: Int64Array) -> Int64Array:
        """Return the label of the rows of each micro-cluster, (K,): its group, or -1 if noise."""
        return labels_of(groups, micro.centers, micro.weights, micro.inertias, self.noise)

    def labels(self, source: Source, state: State) -> NearestLabels:
        """Return the kernel of a map that labels the rows by a state."""
        labels = self.micro_labels(state.micro, state.grouping.groups)
        return NearestLabels(Centers(state.micro.centers), groups=labels)

    def result(self, source: Source, state: State) -> NamedArrays:
        """Return the arrays of the result, by name, with the names of their dimensions."""
        found, micro = state.grouping, state.micro
        return {
            "cluster_weights": (state.weights, ("cluster",)),
            "cluster_inertias": (state.inertias, ("cluster",)),
            "micro_centers": (micro.centers, ("micro_cluster", "feature")),
            "micro_weights": (micro.weights, ("micro_cluster",)),
            "micro_inertias": (micro.inertias, ("micro_cluster",)),
            "groups": (found.groups, ("micro_cluster",)),
            "links_lower": (found.links.lower, ("link",)),
            "links_higher": (found.links.higher, ("link",)),
            "links_weights": (found.links.weights, ("link",)),
            "links_left_out": (np.array([found.left_out]), ("fit",)),
            "tree": (found.merges, ("merge", "merge_field")),
        }
