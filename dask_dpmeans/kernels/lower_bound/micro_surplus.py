"""The surplus of a center, of rows that are known by micro-clusters alone: a bound from above.

A row x of a micro-cluster with the anchor a pays |x - a|^2 + offset, so that its margin at a center c,
offset + |x - a|^2 - |x - c|^2 = offset + (c - a) (2 x - a - c), is linear in x.  The mean of the
margins is the margin of the mean m, and their variance is s^2 = 4 (c - a)' covariance (c - a).  If all
margins lie in [least, most], then the mean of max(0, margin) is at most each of

    most (m - least) / (most - least)              the chord
    (m + root(m^2 + s^2)) / 2                      Scarf 1958, equation 10
"""

from dataclasses import dataclass
from math import fsum

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray
from dask_dpmeans.kernels.lower_bound.surplus import EPSILON, Majorants, PricedRows

ROUNDED_SUMS = 2**14 + 64
"""Additions that the moments of a micro-cluster went through, one after the other, at most: the rows
of a block and the levels of the merge tree."""
SUMMED = 4 * EPSILON * ROUNDED_SUMS
"""Rounding of a moment, over the sum of the absolute values."""
NEAR_ENOUGH = 2e-5
"""Share of the greatest surplus by which its bound may be above it."""
SMALL = 2.0
"""Scarf's bound is taken for boxes over which mean margins differ by at most this times its root."""


@dataclass(frozen=True)
class MicroRows:
    """The rows of m micro-clusters, as far as they are known."""

    rows: Float64Array
    """(m, d), their means."""
    weights: Float64Array
    """(m,), > 0."""
    low: Float64Array
    """(m, d), not above the smallest values."""
    high: Float64Array
    """(m, d), not below the largest values."""
    covariances: Float64Array
    """(m, d, d), not less than the true ones."""
    scatters: Float64Array
    """(m,), squared errors about the means, up to rounding."""
    squares: Float64Array
    """(m,), weighted squared distances of which the moments were made: of these is their rounding."""


@dataclass(frozen=True)
class Extents:
    """How the rows of m micro-clusters lie about their anchors."""

    anchors: Float64Array
    """(m, d)."""
    means: Float64Array
    """(m, d), less the anchors."""
    low: Float64Array
    """(m, d), not above the smallest values less the anchors."""
    high: Float64Array
    """(m, d), not below the largest values less the anchors."""
    covariances: Float64Array
    """(m, d, d), not less than the true ones."""
    scatters: Float64Array
    """(m,), squared errors about the means."""
    squares: Float64Array
    """(m,), of which the rounding of moments is: see `MicroRows`."""

    @classmethod
    def about(cls, anchors: Float64Array, micro: MicroRows) -> "Extents":
        """Return the extents about some anchors, (m, d)."""
        low, high = micro.low - anchors, micro.high - anchors
        return cls(
            anchors,
            micro.rows - anchors,
            low - EPSILON * np.abs(low),
            high + EPSILON * np.abs(high),
            micro.covariances,
            micro.scatters,
            micro.squares,
        )

    def __getitem__(self, which: IndexArray | BoolArray) -> "Extents":
        return Extents(*(values[which] for values in vars(self).values()))

    def farthest(self) -> Float64Array:
        """Return the greatest squared distances of rows to the anchors, (m,)."""
        found: Float64Array = (np.maximum(self.high**2, self.low**2)).sum(axis=1)
        return found

    def range(
        self, offsets: Float64Array, shifts: Float64Array, halves: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return the least and the greatest margin of rows, (m,), at centers in boxes.

        `shifts` are the middles of boxes less the anchors, (m, d), `halves` half of their widths.
        """
        start, end = shifts - halves, shifts + halves
        most, least = np.full(shifts.shape, -np.inf), np.full(shifts.shape, np.inf)
        for rows in (self.low, self.high):
            best = np.clip(rows, start, end)
            most = np.maximum(most, best * (2 * rows - best))
            for corner in (start, end):
                least = np.minimum(least, corner * (2 * rows - corner))
        return offsets + least.sum(axis=1), offsets + most.sum(axis=1)

    def of_means(
        self, offsets: Float64Array, shifts: Float64Array, halves: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return the least and the greatest margin of the means, (m,), at centers in boxes."""
        start, end = shifts - halves, shifts + halves
        best = np.clip(self.means, start, end)
        least = np.minimum(start * (2 * self.means - start), end * (2 * self.means - end))
        most = best * (2 * self.means - best)
        return offsets + least.sum(axis=1), offsets + most.sum(axis=1)

    def deviations(self, shifts: Float64Array) -> Float64Array:
        """Return the standard deviations of margins, (m,), at centers less the anchors, (m, d)."""
        squares = np.einsum("mi,mij,mj->m", shifts, self.covariances, shifts)
        return np.asarray(2 * np.sqrt(np.maximum(squares, 0)))

    def greatest_deviations(self, shifts: Float64Array, halves: Float64Array) -> Float64Array:
        """Return bounds of them, (m,), in boxes about such centers."""
        axes = np.sqrt(np.maximum(np.diagonal(self.covariances, axis1=1, axis2=2), 0))
        found: Float64Array = self.deviations(shifts) + 2 * (axes * halves).sum(axis=1)
        return found


@dataclass(frozen=True)
class PricedMicroClusters(PricedRows):
    """Micro-clusters, and what the mean of the rows of each one pays."""

    extents: Extents

    def __getitem__(self, which: IndexArray | BoolArray) -> "PricedMicroClusters":
        return PricedMicroClusters(
            self.rows[which], self.weights[which], self.prices[which], self.extents[which]
        )

    @property
    def offsets(self) -> Float64Array:
        """(m,), what rows pay beyond their squared distances to the anchors."""
        found: Float64Array = self.prices - (self.extents.means**2).sum(axis=1)
        return found

    def paid(self) -> tuple[Float64Array, float]:
        """Return what the rows pay with their weights, (m,), and a lower bound of the sum."""
        extents, means = self.extents, self.weights * self.prices
        paid = means + extents.scatters
        from_anchors = self.weights * (extents.means**2).sum(axis=1)
        size = fsum(np.abs(means)) + fsum(from_anchors) + 2 * fsum(extents.squares)
        at_all = fsum(self.weights * (self.rows**2).sum(axis=1))
        return paid, fsum(paid) - SUMMED * size - 8 * EPSILON * at_all

    @property
    def near(self) -> float:
        return NEAR_ENOUGH

    @property
    def paying(self) -> "PricedMicroClusters":
        """Those with a row that pays."""
        return self[self.offsets + self.extents.farthest() > 0]

    def corners(self) -> tuple[Float64Array, Float64Array]:
        """Return the corners of the box of all rows, (d,) each."""
        extents = self.extents
        low = (extents.anchors + extents.low).min(axis=0)
        high = (extents.anchors + extents.high).max(axis=0)
        return low - EPSILON * np.abs(low), high + EPSILON * np.abs(high)

    def payments(
        self, margins: Float64Array, points: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return what a row pays on average for each point, (p, m), and how fast it rises with the price."""
        values, shares = np.empty_like(margins), np.empty_like(margins)
        zeros, offsets = np.zeros(self.rows.shape), self.offsets
        for each, (point, of_point) in enumerate(zip(points, margins, strict=True)):
            shifts = point - self.extents.anchors
            least, most = self.extents.range(offsets, shifts, zeros)
            values[each], shares[each] = averages(
                of_point, least, most, self.extents.deviations(shifts)
            )
        return values, shares

    def judge(
        self, middles: Float64Array, halves: Float64Array, margins: Float64Array
    ) -> Majorants:
        """Return bounds of what each micro-cluster, (m,), pays for the centers in a box."""
        extents, offsets = self.extents, self.offsets
        shifts, zeros = middles - extents.anchors, np.zeros(halves.shape)
        least, most = extents.range(offsets, shifts, halves)
        between = (most > 0) & (least < 0)
        safe = np.where(between, most - least, 1.0)
        slopes = most / safe
        constants = -slopes * np.minimum(least, 0)
        lowest, highest = extents.of_means(offsets, shifts, halves)
        deviations = extents.greatest_deviations(shifts, halves)
        root = np.sqrt(margins**2 + deviations**2)
        small = between & (highest - lowest <= SMALL * root)
        root = np.where(small, root, 1.0)
        rises = (lowest + highest + 2 * root) / (4 * root)
        starts = (root**2 + deviations**2 - lowest * highest) / (4 * root)
        better = small & (rises * margins + starts < slopes * margins + constants) & (rises > 0)
        slopes, constants = np.where(better, rises, slopes), np.where(better, starts, constants)
        here = extents.range(offsets, shifts, zeros)
        values, _ = averages(margins, *here, extents.deviations(shifts))
        return Majorants(least >= 0, between, slopes, constants, values)

    @property
    def rounding(self) -> float:
        """A bound of what rounding may take from the bound of a surplus: see `PricedRows.rounding`.

        Where a row pays for a center, their squared distances to the anchor are at most 4 times `reach`
        squared; slopes are at most the shares by which a box is farther.
        """
        extents = self.extents
        squares = extents.farthest() + np.maximum(self.offsets, 0) + extents.squares / self.weights
        reach = np.sqrt(squares)
        low, high = self.corners()
        width = 2 * np.sqrt(len(low)) * float((high - low).max())
        return self._rounding(reach, width, 4 * ROUNDED_SUMS)


def averages(
    margins: Float64Array, least: Float64Array, most: Float64Array, deviations: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return bounds of the means of max(0, margin), (m,), and their slopes in the mean margin."""
    root = np.sqrt(margins**2 + deviations**2)
    between = (most > 0) & (least < 0)
    chord = most / np.where(between, most - least, 1.0)
    above = chord * (margins - least)
    scarf = (margins + root) / 2
    share = 0.5 + 0.5 * np.divide(margins, root, out=np.zeros_like(margins), where=root > 0)
    nearer = scarf < above
    values = np.where(between, np.where(nearer, scarf, above), np.maximum(margins, 0))
    # Both ends of the chord rise with the price.
    of_chord = (margins - least) / np.where(between, most - least, 1.0)
    shares = np.where(between, np.where(nearer, share, of_chord), (least >= 0) & (most > 0))
    return values, np.asarray(shares, np.float64)
