"""The choice of both prices of several data sets, and so of their numbers of clusters.

All rows, as one set, choose clusters and the price P of a cluster, by the rules of
`methods.dpmeans.chooser`.

1. Half of P is the price of a center, whoever uses it.
2. The other halves of the k clusters are shared by the uses, so that the pooled clusters cost the
   same: a use costs P / 2 * k / u, where u pairs of a data set and a cluster have rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.block import Block, Float64Array, Int64Array
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.hdp import NearestUses
from dask_dpmeans.methods.dpmeans.choice import Alternative, Choice, leading_column
from dask_dpmeans.methods.dpmeans.chooser import Chosen, choose
from dask_dpmeans.methods.dpmeans.stability import cluster_stability
from dask_dpmeans.methods.hdp import search
from dask_dpmeans.methods.hdp.state import State


@dataclass(frozen=True)
class SharedAlternative(Alternative):
    """A number of clusters of all rows, and the price of a cluster at which it is best."""

    uses: int
    """Number of pairs of a data set and a cluster that have rows."""

    @property
    def penalties(self) -> dict[str, float]:
        half = self.penalty / 2
        return {"local_penalty": half * (self.n_clusters / self.uses), "global_penalty": half}


class SharedChoice(Choice):
    """Chosen prices of several data sets: why they were chosen, and what else might be."""

    alternative: ClassVar[type[Alternative]] = SharedAlternative
    shapes: ClassVar[str] = ""


@dataclass(frozen=True)
class AutoPrices:
    """A search whose prices are chosen from the rows."""

    penalties: ClassVar[tuple[str, ...]] = ("local_penalty", "global_penalty")

    method: search.Method
    """The search, at any prices."""
    flat: Callable[[Float64Array], Float64Array] | None = None
    """Map of rows to a space where squared distances are about the costs, if these are others."""
    leading: str | None = None
    """The column that holds nearly all of such costs; None if none does."""

    def choose(self, source: Source, seed: int) -> "ChosenPrices":
        """Choose both prices for the rows of all data sets."""
        self.method.init(source)  # refuses rows without data sets
        chosen = choose(source, seed, flat=self.flat)
        counted = Uses(tuple(map(Centers, chosen.centers)), self.method.learned)
        uses = source.fold(counted, name="uses")
        alternatives = tuple(
            SharedAlternative(**vars(each), uses=len(keys))
            for each, keys in zip(chosen.choice.alternatives, uses, strict=True)
        )
        leading = leading_column(source) if self.flat is None else self.leading
        found = vars(chosen.choice) | {"alternatives": alternatives, "leading": leading}
        choice = SharedChoice(**found)
        prices: dict[str, Any] = choice.penalties
        return ChosenPrices(replace(self.method, **prices, seed=seed), choice, chosen)


@dataclass(frozen=True)
class Uses:
    """The reduction to `NearestUses` of several sets of centers."""

    centers: tuple[Centers, ...]
    """m centers, (k, d) each."""
    flat: Divergence | None = None
    """The divergence in whose flat space centers are; None if they are among the rows."""

    def chunk(self, block: Block) -> list[Int64Array]:
        """Return the pairs of one block, as `NearestUses` gives them, (p,) for each of the centers."""
        if self.flat is None:
            return [NearestUses(each).chunk(block) for each in self.centers]
        assert block.groups is not None
        heavy = block.row_weights() > 0
        rows, groups = self.flat.flat(block.doubles()[heavy]), block.groups[heavy]
        known, rows, found = ~np.isnan(rows), np.nan_to_num(rows), []
        # squared distances in the columns where rows have values, but for the norms of the rows
        for each in self.centers:
            ranks = known @ np.square(each.values).T - 2 * (rows @ each.values.T)
            found.append(np.unique(groups * len(each) + ranks.argmin(axis=1)))
        return found

    def combine(self, left: list[Int64Array], right: list[Int64Array]) -> list[Int64Array]:
        """Return the unions of the pairs, (p,) each, of two neighboring runs of blocks."""
        triples = zip(self.centers, left, right, strict=True)
        return [NearestUses(each).combine(one, other) for each, one, other in triples]


@dataclass(frozen=True)
class ChosenPrices:
    """A search at chosen prices."""

    method: search.Method
    choice: SharedChoice
    pooled: Chosen
    """The choice for all rows as one set."""

    @property
    def passes(self) -> int:
        """Passes of the choice and of `cluster_stability` over all rows."""
        return self.pooled.passes + 2

    def choice_after(self, state: State) -> SharedChoice:
        """Return the choice: a fit leaves it as it is."""
        return self.choice

    def cluster_stability(self, source: Source, state: State) -> Float64Array:
        """Return the stability of each center of a state, (g,), from one pass over all rows."""
        others, flat = tuple(map(Centers, self.pooled.halves)), self.method.learned
        labels, centers = self.method.labels(source, state), state.centers
        if flat is not None:
            centers = np.nan_to_num(flat.flat(centers))
        return cluster_stability(source, labels, centers, others, flat)
