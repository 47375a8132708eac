"""Rows on their main axes, and what the objective of their projection proves of their own."""

import math
from dataclasses import dataclass
from math import fsum

import numpy as np

from dask_dpmeans.kernels.block import Float64Array

EPSILON = float(np.finfo(np.float64).eps)
NEGLIGIBLE = 1e-4
"""Share of the penalty that the axes left out may cost, where fewer than `most` axes are kept."""


@dataclass(frozen=True)
class MainAxes:
    """Rows less their mean, on main axes, in units that make the largest value about 1.

    J(rows, penalty) >= J(projection, penalty - spared) + sum of min(eigenvalue, spared) + spared, over
    the axes that are left out: k clusters of centered rows explain at most k - 1 axes.
    """

    rows: Float64Array
    """(n, q)."""
    weights: Float64Array
    """(n,), in units in which their sum is about 1."""
    mean: Float64Array
    """(d,), in units of the input."""
    axes: Float64Array
    """(d, q), orthonormal, divided by the new unit of length."""
    unit: float
    """A power of two: objectives of `rows` with `weights` over objectives of the input."""
    penalty: float
    """The penalty for `rows`, less what is spared for the other axes."""
    rest: float
    """What the axes left out cost at least."""
    rounding: float
    """A bound of the distance between `rows` and the exact projection, as a root of an inertia."""
    stretch: float
    """A bound of the squared distances of the projection over the squared distances of the rows."""

    @classmethod
    def of(
        cls, rows: Float64Array, weights: Float64Array, penalty: float, k: int, most: int
    ) -> "MainAxes":
        """Return rows, (n, d), on up to `most` axes, for an optimum of about k clusters."""
        n, d = rows.shape
        heaviness = math.frexp(fsum(weights))[1]
        weights = np.ldexp(weights, -heaviness)
        mean = np.average(rows, axis=0, weights=weights)
        centered = rows - mean
        exponent = math.frexp(float(np.abs(centered).max()))[1]
        centered = np.ldexp(centered, -exponent)
        # The mean of rows far from 0 is rounded to their units: now it is found in units of the rest.
        shift = np.average(centered, axis=0, weights=weights)
        centered -= shift
        unit = float(np.ldexp(1.0, -2 * exponent - heaviness))  # inf, not an error
        scatter = fsum(weights * (centered**2).sum(axis=1))
        penalty, axes, rest, spared = penalty * unit, np.eye(min(d, most)), 0.0, 0.0
        if d > most:
            values, axes = _main_axes(centered, weights, most)
            left = np.maximum(values - EPSILON * scatter * (max(n, d) + 20 * min(n, d) ** 2), 0)
            after = np.cumsum(left[::-1])[::-1]
            kept = min(most, max(1, int((after > NEGLIGIBLE * penalty).sum())))
            axes, left = axes[:, :kept], left[kept:]
            spared = min(float(np.append(left, np.zeros(k))[k - 1]), penalty / 2)
            rest = fsum(np.minimum(left, spared)) + spared
        off = axes.T @ axes - np.eye(axes.shape[1])
        stretch = 1 + float(np.sqrt((off**2).sum())) + 4 * EPSILON * d * d
        rounding = 2 * EPSILON * (d + 8) * math.sqrt(axes.shape[1] * scatter)
        return cls(
            centered @ axes,
            weights,
            mean + np.ldexp(shift, exponent),
            np.ldexp(axes, -exponent),
            unit,
            (penalty - spared) * (1 - 4 * EPSILON),
            rest,
            rounding,
            stretch,
        )

    def project(self, points: Float64Array) -> Float64Array:
        """Return points of the input, (p, d), on the axes."""
        projected: Float64Array = (points - self.mean) @ self.axes
        return projected

    def bound(self, found: float, upper: float) -> float:
        """Return a bound for the input: `found` is a bound for `rows`, `upper` is above the optimum."""
        lost = 2 * self.rounding * (math.sqrt(self.stretch * upper * self.unit) + self.rounding)
        total = (found - lost) / self.stretch + self.rest
        return (total - 16 * EPSILON * abs(total)) / self.unit


def _main_axes(
    rows: Float64Array, weights: Float64Array, most: int
) -> tuple[Float64Array, Float64Array]:
    """Return the min(n, d) eigenvalues of the scatter of rows, (n, d), and up to `most` axes, (d, q).

    The largest are first.  The other eigenvalues are 0.
    """
    if rows.shape[1] <= rows.shape[0]:
        values, vectors = np.linalg.eigh(rows.T @ (weights[:, np.newaxis] * rows))
        return values[::-1], vectors[:, ::-1][:, :most]
    scaled = np.sqrt(weights)[:, np.newaxis] * rows  # no (d, d) array of wide rows
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    return values[::-1], np.linalg.qr(scaled.T @ vectors[:, ::-1][:, :most])[0]
