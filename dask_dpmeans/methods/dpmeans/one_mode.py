"""Clouds of independent columns with one mode each: rows that are skewed, but have no clusters."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.lazy import LazyModule

optimize = LazyModule("scipy.optimize")
NEAR = 0.8
"""A column has one mode if its distribution is nowhere farther than this, over the root of the rows, from
the nearest with one mode.  Of 300 draws each of 50 to 6,000 normal, exponential, lognormal, gamma and t
numbers, 99 % were nearer than .55 to .85; of uniform numbers, which uniform clouds compare with, half
were nearer than .57 to .76, and 99 % than 1.07 to 1.31.  With 1.36, the 5 % point of Kolmogorov, 6 of
220 mixtures of up to 11 normal distributions that were divided came out as one cluster, with this limit
3."""
DENSEST = 0.1
"""The middle of the shortest range that holds this share of the rows may be the mode."""


@dataclass(frozen=True)
class OneMode:
    """A distribution of a column with one mode: its density rises up to there, and falls after.

    Up to the mode it is the greatest convex minorant of the column's distribution function, and
    after the mode the least concave majorant (Hartigan & Hartigan 1985), both up to a factor.
    """

    values: Float64Array
    """(v,), rising."""
    shares: Float64Array
    """(v,), the distribution function at the values; linear in between."""
    distance: float
    """Greatest distance from the distribution function of the column."""

    @classmethod
    def of(cls, column: Float64Array, weights: Float64Array) -> "OneMode":
        """Return the nearest to a column, (n,), with weights, (n,), of three tried modes.

        These are the first value, the last one, and the middle of the densest tenth.
        """
        values, numbers = np.unique(column, return_inverse=True)
        masses = np.bincount(numbers, weights)
        if len(values) == 1:
            return cls(values, np.ones(1), 0.0)
        shares = np.append(0.0, np.cumsum(masses[1:] + masses[:-1]))
        shares /= shares[-1]
        places = np.searchsorted(shares, shares[shares <= 1 - DENSEST] + DENSEST)
        first = int(np.argmin(values[places] - values[: len(places)]))
        middle = (first + int(places[first])) // 2
        with np.errstate(over="ignore", invalid="ignore"):  # values of some 1e-310 that differ
            tried = [_with_mode(values, shares, mode) for mode in (0, middle, len(values) - 1)]
        distances = [float(np.abs(each - shares).max()) for each in tried]
        best = int(np.argmin(distances))
        return cls(values, tried[best], distances[best])


def _with_mode(values: Float64Array, shares: Float64Array, mode: int) -> Float64Array:
    """Return the distribution function, (v,), whose density rises to a value, and falls after."""
    widths = np.diff(values)
    density = np.diff(shares) / widths
    rising, falling = density[:mode], density[mode:]
    if len(rising):
        rising = optimize.isotonic_regression(rising, weights=widths[:mode]).x
    if len(falling):
        falling = optimize.isotonic_regression(falling, weights=widths[mode:], increasing=False).x
    found = np.append(0.0, np.cumsum(np.append(rising, falling) * widths))
    return np.asarray(found / found[-1])


@dataclass(frozen=True)
class OneModeClouds:
    """Clouds of independent columns, each with the distribution of a column of rows, but one mode."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""

    def fits(self, count: float) -> bool:
        """Return whether each column of rows that stand for so many may have one mode."""
        return all(each.distance * math.sqrt(count) <= NEAR for each in self._columns)

    def draw(self, n: int, random: np.random.Generator) -> Float64Array:
        """Return a cloud of n rows, (n, d)."""
        drawn = random.random((n, len(self._columns)))
        columns = [
            np.interp(shares, each.shares, each.values)
            for shares, each in zip(drawn.T, self._columns, strict=True)
        ]
        return np.stack(columns, axis=1)

    @cached_property
    def _columns(self) -> list[OneMode]:
        return [OneMode.of(column, self.weights) for column in self.rows.T]
