"""A search whose penalty is chosen from the rows.

If rows may be outliers, the penalty is chosen from the others.  Which rows these are depends on the
penalty: first a search at the penalty chosen from all rows says it, then a search at the penalty
chosen from the rows that it left, as in trimmed k-means (Cuesta-Albertos, Gordaliza & Matran 1997),
until the same rows are left.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import BoolArray, Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans.choice import AUTO, Choice, CostChoice, leading_column
from dask_dpmeans.methods.dpmeans.chooser import Chosen, choose_from, choose_from_summary, flatten
from dask_dpmeans.methods.dpmeans.outlier_share import costs_of, outlier_penalty_for
from dask_dpmeans.methods.dpmeans.search_state import State
from dask_dpmeans.methods.dpmeans.stability import cluster_stability
from dask_dpmeans.methods.dpmeans.starts import Restart
from dask_dpmeans.methods.dpmeans.summary import ChoiceParameters, check_room

ROUNDS = 6
"""Most searches for the rows that are left."""
FIRST_SHARE = 0.1
"""Share of the outliers of the first search, since the penalty of all rows may be far off: with
`outlier_penalty` there too, s4 with 5 and 10 % of noise had 16 and 17 clusters, not 15."""


@dataclass(frozen=True)
class AutoPenalty:
    """A search whose penalty is chosen from the rows."""

    penalties: ClassVar[tuple[str, ...]] = ("penalty",)

    method: search.Method
    """The search, at any penalty."""
    flat: Callable[[Float64Array], Float64Array] | None = None
    """Map of rows to a space where squared distances are about the costs, if these are others."""
    leading: str | None = None
    """The column that holds nearly all of such costs; None if none does."""

    def __post_init__(self) -> None:
        if self.method.divergence.general is not None and self.flat is None:
            raise InputError(
                f"penalty must be a number with divergence={self.method.learned!r}, got {AUTO!r}"
            )
        if self.method.discount:
            raise InputError(
                f"penalty must be a number with discount={self.method.discount:g}, got {AUTO!r}: "
                "it is chosen where each cluster costs the same; give a number, or no discount"
            )

    def choose(self, source: Source, seed: int) -> "ChosenMethod":
        """Choose a penalty for the rows, or for a coreset of many rows.

        Fits of halves run at the same time if there are workers or threads.
        """
        check_room(source)
        divergence = self.method.divergence
        parameters = ChoiceParameters(seed, divergence.spherical, divergence.length)
        chosen, rows = choose_from_summary(source, parameters, self.flat)
        passes = chosen.passes
        if self.method.may_have_outliers and not chosen.choice.of_part:
            chosen = self._choose_without_outliers(source, rows, parameters, chosen)
        choice = replace(chosen.choice, leading=self.leading)
        if self.flat is None and not divergence.spherical:
            choice = replace(choice, leading=leading_column(source))
        if self.method.learned is not None:
            choice = CostChoice(**vars(choice))
        chosen = replace(chosen, choice=choice, passes=passes)
        return ChosenMethod(self.at(chosen.choice, seed), chosen)

    def _choose_without_outliers(
        self, source: Source, rows: InMemoryRows, parameters: ChoiceParameters, chosen: Chosen
    ) -> Chosen:
        """Choose from the rows of a summary that searches leave, given the choice of all rows."""
        first = replace(self.method, outlier_penalty=None, outlier_share=FIRST_SHARE)
        method, kept = first, np.zeros(len(rows.rows), np.bool_)
        for _ in range(ROUNDS):
            at = replace(method, penalty=chosen.choice.penalty, seed=parameters.seed)
            left = source.run([LeftRows(at)], rows, "choose")[0]
            if np.array_equal(left, kept) or not left.any():
                break
            part = InMemoryRows(
                rows.rows[left], None if rows.weights is None else rows.weights[left]
            )
            chosen = choose_from(source, flatten(part, self.flat), parameters)
            method, kept = self.method, left
        return chosen

    def at(self, choice: Choice, seed: int) -> search.Method:
        """Return the search at a chosen penalty."""
        return replace(self.method, penalty=choice.penalty, seed=seed)


@dataclass(frozen=True)
class LeftRows:
    """The rows that are no outliers of a search of moves and means alone, as a job."""

    method: search.Method

    def __call__(self, rows: InMemoryRows) -> BoolArray:
        """Return which rows these are, (n,)."""
        method = self.method
        if method.outlier_share is not None:
            method = method.with_outliers(outlier_penalty_for(method, rows)[0])
        end = Restart(method.without_limits(), tries=0)(rows)
        return costs_of(rows, method.kernel_centers(end.centers)) <= method.most


@dataclass(frozen=True)
class ChosenMethod:
    """A search at a chosen penalty."""

    method: search.Method
    chosen: Chosen

    @property
    def choice(self) -> Choice:
        """The choice."""
        return self.chosen.choice

    @property
    def passes(self) -> int:
        """Passes of the choice and of `cluster_stability` over all rows."""
        return self.chosen.passes + 1

    def choice_after(self, state: State) -> Choice:
        """Return the choice: a fit leaves it as it is, but for outliers among small clusters."""
        choice, k = self.choice, len(state.centers)
        if not (choice.of_part and self.method.may_have_outliers):
            return choice
        first = replace(choice.chosen, n_clusters=k)
        return replace(choice, alternatives=(first, *choice.alternatives[1:]))

    def cluster_stability(self, source: Source, state: State) -> Float64Array:
        """Return the stability of each cluster of a state, (k,), from one pass over all rows."""
        labels, flat = self.method.labels(source, state), self.method.learned
        if flat is None:
            others = tuple(map(self.method.kernel_centers, self.chosen.halves))
            return cluster_stability(source, labels, state.centers, others)
        centers, halves = flat.flat(state.centers), tuple(map(Centers, self.chosen.halves))
        return cluster_stability(source, labels, np.nan_to_num(centers), halves, flat)
