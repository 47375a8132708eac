"""A coreset: weighted rows in memory that stand for all rows, drawn by sensitivity (Bachem et al. 2015, algorithm 2).

One pass draws a uniform sample, in which seeds are chosen by D² sampling (Arthur & Vassilvitskii 2007); one sums the
cells of the seeds; one draws each row with a probability that grows with its squared distance to its seed and with
one over the weight of its cell.  A row's draw hangs on its block and place in it alone: the chunking does not show.
"""

from dataclasses import dataclass

import numpy as np

from dask_dpmeans.algorithms.dpmeans import Openings
from dask_dpmeans.blocks import Source
from dask_dpmeans.held import HeldRows
from dask_dpmeans.kernels.block import Block, Float64Array, Rows
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.scan import Scan, assign
from dask_dpmeans.occ import Round

CORESET_ROWS = 2**16
"""Rows of a coreset, about: each row is drawn by itself."""
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


def coreset_of(source: Source, seed: int, most: int = CORESET_ROWS) -> tuple[HeldRows, int]:
    """A coreset of about `most` rows, and the passes that it took."""
    sample = source.fold(Uniform(min(1.0, SAMPLE_ROWS / source.plan.n_rows), seed), name="sample")
    seeds = Centers(d2_seeds(sample, SEEDS, np.random.default_rng([seed, 3])))
    cells: Scan = source.fold(Round(Openings(np.inf), seeds), name="cells")
    drawn = source.fold(by_sensitivity(seeds, cells, most, seed), name="draw")
    return HeldRows(np.ascontiguousarray(drawn.rows), drawn.weights, source.scale), 3


def by_sensitivity(seeds: Centers, cells: Scan, most: int, seed: int) -> BySensitivity:
    """The draw of about `most` rows.

    The three terms of the sensitivity, of a row's own error, of its cell's and of its cell's weight, share the draws
    as one, one and two do; the second and the third hang on the cell alone.
    """
    moments, inertia = cells.moments, cells.moments.inertia
    alive = moments.weights > 0
    weights = np.where(alive, moments.weights, 1.0)
    errors = moments.inertias / inertia if inertia > 0 else np.zeros(len(weights))
    of_cells = (errors / weights + 2 * alive / (weights * np.count_nonzero(alive))) * (most / 4)
    return BySensitivity(seeds, most / 4 / inertia if inertia > 0 else 0.0, of_cells, seed)


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
        chosen.append(int(np.searchsorted(chances, random.random() * chances[-1], side="right")))
    return rows[chosen]


def _draw(block: Block, probabilities: Float64Array, seed: list[int]) -> Drawn:
    weights = np.ones(len(block.rows)) if block.weights is None else block.weights
    drawn = np.flatnonzero((np.random.default_rng(seed).random(len(weights)) < probabilities) & (weights > 0))
    return Drawn(block.rows[drawn], weights[drawn] / probabilities[drawn])


def _joined(left: Drawn, right: Drawn) -> Drawn:
    return Drawn(np.concatenate([left.rows, right.rows]), np.concatenate([left.weights, right.weights]))
