"""A search whose penalty is chosen from the rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans.choice import AUTO, Choice
from dask_dpmeans.methods.dpmeans.chooser import Chosen, choose
from dask_dpmeans.methods.dpmeans.search_state import State
from dask_dpmeans.methods.dpmeans.stability import cluster_stability


@dataclass(frozen=True)
class AutoPenalty:
    """A search whose penalty is chosen from the rows."""

    penalties: ClassVar[tuple[str, ...]] = ("penalty",)

    method: search.Method
    """The search, at any penalty."""
    flat: Callable[[Float64Array], Float64Array] | None = None
    """Map of rows to a space where squared distances are about the costs, if these are others."""

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
        """Choose a penalty for the rows."""
        spherical = self.method.divergence.spherical
        chosen = choose(source, seed, spherical=spherical, flat=self.flat)
        return ChosenMethod(self.at(chosen.choice, seed), chosen)

    def at(self, choice: Choice, seed: int) -> search.Method:
        """Return the search at a chosen penalty."""
        return replace(self.method, penalty=choice.penalty, seed=seed)


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

    def cluster_stability(self, source: Source, state: State) -> Float64Array:
        """Return the stability of each cluster of a state, (k,), from one pass over all rows."""
        labels, flat = self.method.labels(source, state), self.method.learned
        if flat is None:
            others = tuple(map(self.method.kernel_centers, self.chosen.halves))
            return cluster_stability(source, labels, state.centers, others)
        centers, halves = flat.flat(state.centers), tuple(map(Centers, self.chosen.halves))
        return cluster_stability(source, labels, np.nan_to_num(centers), halves, flat)
