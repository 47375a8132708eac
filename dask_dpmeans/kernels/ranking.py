"""The right factor of the matrix product that ranks centers, and a bound of its rounding."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dask_dpmeans.kernels import distance_compiled
from dask_dpmeans.kernels.block import Float64Array, Rows
from dask_dpmeans.kernels.linear_costs import Linear

_DOUBLE = float(np.finfo(np.float64).eps) / 2
SMALL_PRODUCT = 10**6
"""Multiplications up to which OpenBLAS does not pack the factors first.

At d = 16, k = 512 products of 1,024 rows took 0.79 of the time of one large product, stacks of
products of this size 0.5 to 0.6."""
MOST_CANDIDATES = 16
"""Most centers between which the definition decides after the ranking in float32.

With more candidates the row is ranked again in float64."""
MOST_SHIFT = 8.0
"""Most radii of a shift without which rows are ranked as well."""
LEAST_HEIGHT = 32
"""Least rows of a small product.

At d = 128, k = 1,000 products of fewer rows were slower than one product of 1,024."""


@dataclass(frozen=True)
class Ranking:
    """Centers shifted around the origin, as the right factor of one matrix product."""

    matrix: Rows
    """(d + 1, k): the shifted centers as columns, minus half their squared norms below them."""
    shift: Rows
    """(d,), subtracted from rows before the product, for the ranking alone."""
    scale: Rows
    """(d,), powers of two that multiply shifted rows, or (0,) for none."""
    radius: float
    """The largest norm of a shifted center."""
    slope: float
    """A score of a row x is off by at most D (slope |x| + level), for D columns; see `doubt`."""
    level: float
    tile: int
    """Rows that are ranked together; their scores fit in the cache."""
    height: int
    """Rows to a product; a tile is a stack of products."""

    @classmethod
    def of(cls, values: Float64Array, dtype: type[np.float32] | type[np.float64]) -> "Ranking":
        """Return the ranking of `values`, (k, d), in precision `dtype`."""
        k, d = values.shape
        with np.errstate(all="ignore"):
            shift: Rows = values.mean(axis=0).astype(dtype)
            shifted = values - shift
            squared_norms = np.einsum("ij,ij->i", shifted, shifted)
            matrix: Rows = np.empty((d + 1, k), dtype)
            matrix[:d] = shifted.T
            matrix[d] = -0.5 * squared_norms
            radius = float(np.sqrt(squared_norms.max()))
        slope = float(np.finfo(dtype).eps) / 2 * radius
        level, none = slope * radius, np.empty(0, dtype)
        return cls(matrix, shift, none, radius, slope, level, *_heights(matrix))

    @classmethod
    def of_linear(cls, linear: Linear, dtype: type[np.float32] | type[np.float64]) -> "Ranking":
        """Return the ranking of linear costs, without what all centers have in common.

        With A the longest coefficients and T the greatest constant of those that are left, a score
        is off by at most D u (A |x| + T).  The definition rounds coefficients and constants as they
        are.  Columns are scaled, so that lengths do not mix units.  Least values stand for numbers
        too small for this precision.
        """
        unit = float(np.finfo(dtype).eps) / 2
        with np.errstate(all="ignore"):
            apart, whole, scales = linear.scaled(2 * _DOUBLE / unit)
            matrix: Rows = np.zeros((len(scales) + 2, len(linear.constants)), dtype)
            matrix[:-2], matrix[-1] = -apart.coefficients.T, -apart.constants
            (steep, high), (whole_steep, whole_high) = apart.greatest, whole.greatest
            slope = unit * max(steep, 1e-15) + 2 * _DOUBLE * whole_steep
            level = unit * max(high, 1e-15 * steep, 1e-30) + 2 * _DOUBLE * whole_high
            radius = max(steep, math.sqrt(high))
        shift: Rows = np.zeros(linear.coefficients.shape[1], dtype)
        scale: Rows = np.append(scales, 0.0).astype(dtype)
        return cls(matrix, shift, scale, radius, slope, level, *_heights(matrix))

    @property
    def decides(self) -> bool:
        """Whether the definition decides the rows that this ranking leaves in doubt."""
        return self.matrix.dtype == np.float64

    @cached_property
    def parts(self) -> distance_compiled.RankingParts:
        """Arguments of compiled loops."""
        most = MOST_CANDIDATES
        if self.decides:
            most = self.matrix.shape[1]
        return self.shift, self.scale, self.matrix, self.bounds, most

    @cached_property
    def bounds(self) -> Float64Array:
        """(6,), numbers of `doubt` for compiled loops."""
        limits, terms = np.finfo(self.matrix.dtype), 2 * (len(self.shift) + 8)
        tiny, most = terms * float(limits.tiny), limits.max / 4
        scores = 1.01 * terms * self.slope, 1.01 * terms * self.level
        return np.array([self.radius, *scores, 2 * terms * _DOUBLE, tiny, most])

    @cached_property
    def distance(self) -> float:
        """The norm of the shift."""
        return float(np.linalg.norm(self.shift.astype(np.float64)))

    @property
    def shifts_little(self) -> bool:
        """Whether rows that are not shifted may be multiplied: the bounds grow little by that."""
        return self.distance <= MOST_SHIFT * self.radius

    def constants(self, shifted: bool) -> Rows:
        """Return what is added to the products of the centers, (k,), with rows, shifted or not."""
        d, known = len(self.shift), self.matrix.astype(np.float64)
        found: Rows = self.matrix[d]
        if not shifted:
            moved = known[d] - self.shift.astype(np.float64) @ known[:d]
            found = moved.astype(self.matrix.dtype)
        return found

    def gaps(self, shifted: bool) -> Float64Array:
        """Return bounds, (3,), of the gap between two scores of a row.

        The larger score is of the nearest center if the gap exceeds ``bounds[0] + bounds[1] * q``,
        where q < bounds[2] is the squared distance of the row to that center.

        With shift s and radius R the norm of a shifted row is at most sqrt(q) + R.  Without the
        shift, products are off by what |x| <= sqrt(q) + R + |s| says, and constants by |s| R more.
        Instead of the square root q / 2 R + R / 2 is taken, which is no less.
        """
        radius, slope, level, of_squares, least, most = self.bounds.tolist()
        apart = 1.01 * radius
        if not shifted:
            apart += 2.02 * self.distance
        unit = 0.0 if radius == 0 else slope / radius
        square, inner = apart * apart, radius * radius
        first = slope * (radius / 2 + apart) + level + of_squares * (2 * square + inner)
        limit = (most - 4 * square - 2 * inner) / 4
        return np.array([1.01 * (first + least), 1.01 * (unit / 2 + 2 * of_squares), limit])

    def doubt(self, rows: Rows) -> Rows:
        """Return a bound of the rounding of the difference of two scores, (n,).

        The rows, (n, d), are shifted and scaled.

        With D = d + 8 unit roundoffs for shifting, converting and summing, a score is off by at
        most D u |c| (|x| + |c|); the definition rounds each squared distance, at most 2 (|x|^2 +
        |c|^2), by (d + 2) units of float64.  Both are doubled, for two scores are compared.
        """
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        radius = rows.dtype.type(self.radius)
        terms = 2 * (rows.shape[1] + 8)
        number = rows.dtype.type
        scores = number(1.01 * terms * self.slope) * norms + number(1.01 * terms * self.level)
        definition = rows.dtype.type(2 * terms * _DOUBLE) * (norms * norms + radius * radius)
        bound: Rows = scores + definition + terms * np.finfo(rows.dtype).tiny
        finite = (norms + radius) ** 2 < np.finfo(rows.dtype).max / 4
        bound[~finite] = np.inf  # the definition may overflow
        return bound


def _heights(matrix: Rows) -> tuple[int, int]:
    """Return the rows of a tile and of a product with a matrix, (d + 1, k)."""
    tile = 1 << max(7, min(10, (2**21 // matrix.shape[1]).bit_length() - 1))
    height = min(tile, SMALL_PRODUCT // matrix.size)
    return tile, height if height >= LEAST_HEIGHT else tile
