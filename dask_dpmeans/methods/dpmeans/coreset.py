"""A coreset: weighted rows in memory that represent all rows (Bachem et al. 2015, algorithm 2).

One pass draws a uniform sample, in which seeds are chosen by D² sampling (Arthur & Vassilvitskii
2007); one sums the cells of the seeds; one draws each row with a probability that grows with its
squared distance to its seed and with one over the weight of its cell.  A row's draw hangs on its
block and place in it alone: the chunking does not show.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.occ import Round
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.kernels.answers import ConcatenatedAnswers, Records
from dask_dpmeans.kernels.assign import assign_or_leave, outlier_cost
from dask_dpmeans.kernels.block import Block, Float64Array, Rows
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.divergence import Divergence
from dask_dpmeans.kernels.moments import Moments
from dask_dpmeans.kernels.random_streams import Stream, stream
from dask_dpmeans.methods.dpmeans.batch import NO_BIRTHS

SAMPLE_ROWS = 2**13
"""Rows of the uniform sample, about."""
SEEDS = 2**7
"""Most seeds."""


@dataclass(frozen=True)
class Drawn(Records):
    """Drawn rows, in row order."""

    rows: Rows
    """(m, d); CSR rows if they were drawn so."""
    weights: Float64Array
    """(m,), weights over probabilities."""

    def then(self, other: "Drawn") -> "Drawn":
        """Return these rows, followed by others."""
        if not issparse(self.rows):
            return super().then(other)
        rows: Any = vstack([self.rows, other.rows], format="csr")
        return Drawn(rows, np.concatenate([self.weights, other.weights]))

    def in_memory(self, scale: Float64Array | None) -> InMemoryRows:
        """Return the rows as a source; `scale`, (d,), divided the columns before, if any."""
        rows = self.rows if issparse(self.rows) else np.ascontiguousarray(self.rows)
        return InMemoryRows(rows, self.weights, scale)


@dataclass(frozen=True)
class Uniform(ConcatenatedAnswers):
    """A reduction that draws every row of positive weight with the same probability."""

    probability: float
    seed: int
    takes_csr: bool = False
    """Whether CSR rows stay so."""

    def chunk(self, block: Block) -> Drawn:
        """Return the drawn rows of one block."""
        random = stream(self.seed, Stream.CORESET_SAMPLE, block.start)
        return _draw(block, np.full(block.rows.shape[0], self.probability), random)


@dataclass(frozen=True)
class BySensitivity(ConcatenatedAnswers):
    """A reduction that draws every row with its own probability."""

    seeds: Centers
    of_distances: float
    """Expected draws of a row for each unit of weight times cost at its seed."""
    of_cells: Float64Array
    """(k + 1,), expected draws of a row in a cell for each unit of weight; last of outliers."""
    seed: int

    def chunk(self, block: Block) -> Drawn:
        """Return the drawn rows of one block."""
        labels, squared = assign_or_leave(block, self.seeds)
        expected = (self.of_distances * squared + self.of_cells[labels]) * block.row_weights()
        random = stream(self.seed, Stream.CORESET_DRAW, block.start)
        return _draw(block, np.minimum(1.0, expected), random)


@dataclass(frozen=True)
class Sensitivity:
    """Sensitivities of rows: seeds, and the weights and errors of their cells.

    Outliers, which cost as much as they can at each seed, are a cell of their own.
    """

    seeds: Centers
    cells: Moments
    seed: int
    outliers: float = 0.0
    """Weight of the outliers."""

    @classmethod
    def of(
        cls, source: Source, seed: int, most: float = math.inf, divergence: Divergence | None = None
    ) -> tuple["Sensitivity", int]:
        """Return the sensitivities of the rows of a source, and the number of passes.

        A row costs at most `most` for each unit of weight.  With a Bregman divergence in place of
        squared distances it is the coreset of Lucic, Bachem & Krause 2016.  The passes count even
        if the source knows the answer, as after the choice of a penalty.
        """

        def find() -> "Sensitivity":
            return cls._of(source, seed, most, divergence)

        if divergence is not None:
            return find(), 2
        return source.once(f"sensitivities, {seed}, {most!r}", find), 2

    @classmethod
    def _of(
        cls, source: Source, seed: int, most: float, divergence: Divergence | None
    ) -> "Sensitivity":
        """Return the sensitivities of all rows by their distances to seeds, which are drawn from a sample."""
        probability = min(1.0, SAMPLE_ROWS / source.plan.n_rows)
        sample = source.fold(Uniform(probability, seed), name="sample")
        if not len(sample.rows):
            sample = Drawn(source.summary.mean[np.newaxis], np.ones(1))
        random = stream(seed, Stream.CORESET_SEEDS)
        seeds = Centers(d2_seeds(sample, SEEDS, random, most, divergence), divergence, most)
        found = source.fold(Round(NO_BIRTHS, seeds), name="cells")
        return cls(seeds, found.moments, seed, found.outliers)

    def coreset(self, source: Source, size: int) -> InMemoryRows:
        """Draw about `size` rows in one pass; if none is drawn, return the mean of all rows."""
        drawn = source.fold(self.draw(size), name="draw")
        if not len(drawn.rows):
            drawn = Drawn(source.summary.mean[np.newaxis], np.array([source.summary.weight]))
        return drawn.in_memory(source.scale)

    def draw(self, size: int) -> BySensitivity:
        """Return the draw of about `size` rows.

        The three terms of the sensitivity, of a row's own error, of its cell's and of its cell's
        weight, share the draws as one, one and two do; the second and the third hang on the cell
        alone.
        """
        cost = outlier_cost(self.seeds, self.outliers)
        weights, inertias = self.cells.weights, self.cells.inertias
        inertia = self.cells.inertia + cost
        if cost:
            weights, inertias = np.append(weights, self.outliers), np.append(inertias, cost)
        alive = weights > 0
        weights = np.where(alive, weights, 1.0)
        errors, of_distances = np.zeros(len(weights)), 0.0
        if inertia > 0:
            errors = inertias / inertia
            of_distances = min(size / 4 / inertia, np.finfo(np.float64).max)
        of_cells = (errors / weights + 2 * alive / (weights * np.count_nonzero(alive))) * (size / 4)
        return BySensitivity(self.seeds, of_distances, of_cells, self.seed)


def d2_seeds(
    sample: Drawn,
    most: int,
    random: np.random.Generator,
    most_cost: float = math.inf,
    divergence: Divergence | None = None,
) -> Float64Array:
    """Draw k <= `most` rows, (k, d), by weight times squared distance, or divergence, to earlier ones.

    It counts as `most_cost` at most.
    """
    rows = sample.rows.astype(np.float64)
    chosen = [int(random.choice(len(rows), p=sample.weights / sample.weights.sum()))]
    squared = np.full(len(rows), most_cost)
    while len(chosen) < most:
        if divergence is None:
            differences = rows - rows[chosen[-1]]
            found = np.einsum("ij,ij->i", differences, differences)
        else:
            found = divergence.costs(rows, rows[chosen[-1:]], np.zeros(len(rows), np.intp))
        squared = np.minimum(squared, found)
        chances = np.cumsum(squared * sample.weights)
        if not chances[-1] > 0:
            break
        place = int(np.searchsorted(chances, random.random() * chances[-1], side="right"))
        chosen.append(min(place, len(rows) - 1))  # subnormal chances may round up to the last
    return rows[chosen]


def different_rows(sample: InMemoryRows, n: int) -> int:
    """Return about how many of n rows differ, by a sample of them that were drawn alike.

    At least so many do, by how many rows of the sample are there once and twice (Chao 1984).  If
    none is there twice, all differ.
    """
    counts = np.unique(sample.rows + 0.0, axis=0, return_counts=True)[1]
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    return min(n, len(counts) + once * (once - 1) // (2 * (twice + 1)))


def _draw(block: Block, probabilities: Float64Array, random: np.random.Generator) -> Drawn:
    weights = block.row_weights()
    numbers = random.random(len(weights))
    drawn = np.flatnonzero((numbers < probabilities) & (weights > 0))
    return Drawn(block.rows[drawn], weights[drawn] / probabilities[drawn])
