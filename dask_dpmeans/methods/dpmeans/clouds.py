"""Clouds without clusters, and how far rows with clusters differ from them.

They are uniform with the covariance of the rows, or of independent columns with one mode each: such
rows are skewed, but have no clusters.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import ndtri, stdtr

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.lazy import LazyModule
from dask_dpmeans.methods.dpmeans.choice import EVIDENCE

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
REST = 1e-3
"""Share of the variance of the rows that clouds may lack: that along the last principal axes."""
GRID_POINTS = 4
"""Rows fill a grid if it has at most this many points for each different row; so do the clouds."""
FEWEST_ON_A_GRID = 10
"""Most different rows that fill no grid."""
TINY = 1e-6
"""Least standard deviation of the figures of clouds."""
FEWEST_CLOUDS, CLOUDS, CLEAR = 4, 16, 3.0
"""Clouds are drawn until the evidence is this far from `EVIDENCE`, at least the first number
and at most the second."""
LEAST_CHANCE = 1e-15
"""Smaller chances of a deviate count as this one."""
MOST_EVIDENCE = -2 * float(ndtri(LEAST_CHANCE))
"""The most that two deviates add up to."""
Figures = tuple[float, float]
"""The logarithm of what clusters leave, of the error or of the links, and the best score."""


@dataclass(frozen=True)
class UniformClouds:
    """Clouds that are uniform along the principal axes of rows, as in Tibshirani et al. 2001.

    The axes are the first ones that have all but a share `REST` of the variance.
    """

    rows: Float64Array
    """(n, d), different from each other."""
    weights: Float64Array
    """(n,), > 0."""
    spherical: bool
    """Whether rows have unit length; so have the rows of the clouds."""

    @property
    def least_rows(self) -> int:
        """Fewest rows of a cloud."""
        return len(self._principal[1]) + 1

    def prepared(self) -> Self:
        """Return the clouds after all has been computed that they have in common."""
        _ = self._principal, self._steps
        return self

    def draw(self, n: int, random: np.random.Generator) -> Float64Array:
        """Return a cloud of n rows, (n, r), that has just the covariance of the rows.

        Its columns are the principal axes, since only distances count.  If the rows fill a grid,
        the cloud is rounded to the grid, and has the columns of the rows: (n, d).
        """
        mean, deviations, axes = self._principal
        cloud = uncorrelated(random.uniform(-1.0, 1.0, (n, len(deviations)))) * deviations
        if self.spherical:
            along = mean @ axes
            beyond = math.sqrt(max(0.0, float(mean @ mean - along @ along)))
            cloud = np.column_stack((cloud + along, np.full(n, beyond)))
            cloud /= np.linalg.norm(cloud, axis=1)[:, np.newaxis]
        elif self._steps is not None:
            lowest = self.rows.min(axis=0)
            steps = np.rint((cloud @ axes.T + mean - lowest) / self._steps)
            cloud = lowest + steps * self._steps
        return np.asarray(cloud)

    @cached_property
    def _principal(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """The mean, (d,), and the standard deviations, (r,), along the principal axes, (d, r)."""
        mean = np.average(self.rows, axis=0, weights=self.weights)
        scaled = (self.rows - mean) * np.sqrt(self.weights / self.weights.sum())[:, np.newaxis]
        wide = scaled.shape[0] < scaled.shape[1]
        products = scaled @ scaled.T if wide else scaled.T @ scaled
        variances, vectors = np.linalg.eigh(products)
        variances, vectors = np.maximum(variances[::-1], 0.0), vectors[:, ::-1]
        beyond = variances.sum() - np.cumsum(variances)
        r = 1 + int(np.count_nonzero(beyond > REST * variances.sum()))
        deviations = np.sqrt(variances[:r])
        axes = scaled.T @ (vectors[:, :r] / deviations) if wide else vectors[:, :r]
        return mean, deviations, axes

    @cached_property
    def _steps(self) -> Float64Array | None:
        """The steps of the grid, (d,), on most of whose points there are rows; None without one."""
        steps, most = np.ones(self.rows.shape[1]), GRID_POINTS * len(self.rows)
        points = 1.0
        for column, values in enumerate(self.rows.T):
            between = np.diff(np.unique(values))
            if len(between) and points <= most:
                steps[column] = between.min()
                points *= float(np.ptp(values)) / float(steps[column]) + 1
        filled = len(self.rows) > FEWEST_ON_A_GRID and points <= most
        return steps if filled else None


def uncorrelated(rows: Float64Array) -> Float64Array:
    """Return rows, (n, r) with n > r, whose columns have mean 0, variance 1 and no correlation.

    Each column is changed by the columns before it alone.
    """
    directions, factors = np.linalg.qr(rows - rows.mean(axis=0))
    return np.asarray(directions * np.copysign(math.sqrt(len(rows)), np.diag(factors)))


def deviate_from_clouds(
    figures: Figures,
    of_clouds: Callable[[Sequence[int]], Iterable[Figures]],
    drawn: Sequence[Figures] = (),
    *,
    at_once: int = 1,
) -> float:
    """Return the deviates of both figures of rows from figures of clouds, added.

    Clusters have a lower first figure than clouds, and a higher second one.

    Parameters
    ----------
    figures : of the rows
    of_clouds : returns the figures of clouds with some numbers
    drawn : the figures of the first clouds
    at_once : for how many clouds it is asked at a time, which changes nothing but the time
    """
    known, found = list(drawn), 0.0
    for count in range(FEWEST_CLOUDS, CLOUDS + 1):
        if len(known) < count:
            end = min(CLOUDS, max(count, len(known) + at_once))
            known += of_clouds(range(len(known), end))
        firsts, seconds = zip(*known[:count], strict=True)
        found = deviate(firsts, figures[0]) - deviate(seconds, figures[1])
        if abs(found - EVIDENCE) > CLEAR:
            break
    return found


def deviate(draws: Sequence[float], value: float) -> float:
    """Return the normal deviate, in standard deviations, by which draws exceed a value.

    It is as unlikely as Student's t of the value, with one degree of freedom less than draws.
    """
    spread = max(float(np.std(draws, ddof=1)), TINY) * math.sqrt(1 + 1 / len(draws))
    t = (float(np.mean(draws)) - value) / spread
    chance = max(float(stdtr(len(draws) - 1, -abs(t))), LEAST_CHANCE)
    return math.copysign(float(ndtri(chance)), t)


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

    columns: tuple[OneMode, ...]

    @classmethod
    def of(cls, rows: Float64Array, weights: Float64Array, count: float) -> Self | None:
        """Return the clouds of rows that stand for so many; None if a column cannot have one mode.

        Columns after the first that cannot are not looked at.

        Parameters
        ----------
        rows : (n, d)
        weights : (n,), > 0
        count : number of rows that they stand for
        """
        columns = []
        for column in rows.T:
            columns.append(OneMode.of(column, weights))
            if not columns[-1].distance * math.sqrt(count) <= NEAR:  # nor if it is no number
                return None
        return cls(tuple(columns))

    def draw(self, n: int, random: np.random.Generator) -> Float64Array:
        """Return a cloud of n rows, (n, d)."""
        drawn = random.random((n, len(self.columns)))
        columns = [
            np.interp(shares, each.shares, each.values)
            for shares, each in zip(drawn.T, self.columns, strict=True)
        ]
        return np.stack(columns, axis=1)
