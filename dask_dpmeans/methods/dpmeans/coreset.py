"""A coreset: weighted rows in memory that stand for all rows, drawn by sensitivity (Bachem et al. 2015, algorithm 2).

One pass draws a uniform sample, in which seeds are chosen by D² sampling (Arthur & Vassilvitskii
2007); one sums the cells of the seeds; one draws each row with a probability that grows with its
squared distance to its seed and with one over the weight of its cell.  A row's draw hangs on its
block and place in it alone: the chunking does not show.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.engine.in_memory import HeldRows
from dask_dpmeans.engine.occ import Round
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.assign import assign
from dask_dpmeans.kernels.block import Block, Float64Array, Rows
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.moments import Moments
from dask_dpmeans.methods.dpmeans.batch import NO_BIRTHS

SAMPLE_ROWS = 2**13
"""Rows of the uniform sample, about."""
SEEDS = 2**7
"""Seeds, the most there are."""


@dataclass(frozen=True)
class Drawn:
    """Rows that were drawn, in row order."""

    rows: Rows
    """(m, d)."""
    weights: Float64Array
    """(m,), weights that make them stand for all rows."""


@dataclass(frozen=True)
class Uniform:
    """A reduction that draws every row of positive weight with one probability."""

    probability: float
    seed: int

    def chunk(self, block: Block) -> Drawn:
        """The rows of one block that are drawn."""
        return _draw(block, np.full(len(block.rows), self.probability), [self.seed, 1, block.start])

    def combine(self, left: Drawn, right: Drawn) -> Drawn:
        """The rows of two neighboring runs."""
        return _joined(left, right)


@dataclass(frozen=True)
class BySensitivity:
    """A reduction that draws every row with a probability of its own."""

    seeds: Centers
    of_distances: float
    """What a row's expected number of draws has for each unit of weight times squared distance to its seed."""
    of_cells: Float64Array
    """(k,), what it has for each unit of weight in a cell."""
    seed: int

    def chunk(self, block: Block) -> Drawn:
        """The rows of one block that are drawn."""
        labels, squared = assign(block, self.seeds)
        expected = self.of_distances * squared + self.of_cells[labels]
        if block.weights is not None:
            expected = expected * block.weights
        return _draw(block, np.minimum(1.0, expected), [self.seed, 2, block.start])

    def combine(self, left: Drawn, right: Drawn) -> Drawn:
        """The rows of two neighboring runs."""
        return _joined(left, right)


@dataclass(frozen=True)
class Sensitivity:
    """How much each row matters: seeds, and the weights and errors of their cells."""

    seeds: Centers
    cells: Moments
    seed: int

    @classmethod
    def of(cls, source: Source, seed: int) -> tuple["Sensitivity", int]:
        """The sensitivity of a source's rows, and the passes that it took."""
        sample = source.fold(Uniform(min(1.0, SAMPLE_ROWS / source.plan.n_rows), seed), name="sample")
        if not len(sample.rows):
            sample = Drawn(source.summary.mean[np.newaxis], np.ones(1))
        seeds = Centers(d2_seeds(sample, SEEDS, np.random.default_rng([seed, 3])))
        return cls(seeds, source.fold(Round(NO_BIRTHS, seeds), name="cells").moments, seed), 2

    def coreset(self, source: Source, size: int) -> HeldRows:
        """About `size` rows, in one pass; the mean of all rows where none was drawn."""
        drawn = source.fold(self.draw(size), name="draw")
        if not len(drawn.rows):
            drawn = Drawn(source.summary.mean[np.newaxis], np.array([source.summary.weight]))
        return HeldRows(np.ascontiguousarray(drawn.rows), drawn.weights, source.scale)

    def draw(self, size: int) -> BySensitivity:
        """The draw of about `size` rows.

        The three terms of the sensitivity, of a row's own error, of its cell's and of its cell's
        weight, share the draws as one, one and two do; the second and the third hang on the cell
        alone.
        """
        weights, inertia = self.cells.weights, self.cells.inertia
        alive = weights > 0
        weights = np.where(alive, weights, 1.0)
        errors = self.cells.inertias / inertia if inertia > 0 else np.zeros(len(weights))
        of_cells = (errors / weights + 2 * alive / (weights * np.count_nonzero(alive))) * (size / 4)
        of_distances = min(size / 4 / inertia, np.finfo(np.float64).max) if inertia > 0 else 0.0
        return BySensitivity(self.seeds, of_distances, of_cells, self.seed)


def d2_seeds(sample: Drawn, most: int, random: np.random.Generator) -> Float64Array:
    """(k, d), rows of a sample, each drawn by weight times squared distance to those drawn before; k at most `most`."""
    rows = sample.rows.astype(np.float64)
    chosen = [int(random.choice(len(rows), p=sample.weights / sample.weights.sum()))]
    squared = np.full(len(rows), np.inf)
    while len(chosen) < most:
        differences = rows - rows[chosen[-1]]
        squared = np.minimum(squared, np.einsum("ij,ij->i", differences, differences))
        chances = np.cumsum(squared * sample.weights)
        if not chances[-1] > 0:
            break
        place = int(np.searchsorted(chances, random.random() * chances[-1], side="right"))
        chosen.append(min(place, len(rows) - 1))  # subnormal chances may round up to the last
    return rows[chosen]


def _draw(block: Block, probabilities: Float64Array, seed: list[int]) -> Drawn:
    weights = np.ones(len(block.rows)) if block.weights is None else block.weights
    drawn = np.flatnonzero((np.random.default_rng(seed).random(len(weights)) < probabilities) & (weights > 0))
    return Drawn(block.rows[drawn], weights[drawn] / probabilities[drawn])


def _joined(left: Drawn, right: Drawn) -> Drawn:
    return Drawn(np.concatenate([left.rows, right.rows]), np.concatenate([left.weights, right.weights]))
