"""The surplus of a center: what priced rows would pay for it beyond their distances.

A row with price u pays max(0, u - |row - center|^2) for a center.  If no center of the whole space has
a surplus above the penalty, then no clusters cost less than the sum of all prices (the dual of the
facility location problem with every point as a site; du Merle et al. 1999 for squared distances).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import fsum
from typing import Any

import numpy as np

from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray
from dask_dpmeans.kernels.moments import total

EPSILON = float(np.finfo(np.float64).eps)
AT_ONCE = 2**16
"""Pairs of boxes and rows that are looked at together: about 100 bytes each."""
ENTRIES = 2**18
"""Distances between points and rows in memory."""
DEEPEST = 1000
"""Boxes are halved as often as this."""
NEAR_ENOUGH = 1e-9
"""Share of the greatest surplus by which its bound may be above it."""
ASCENT_STEPS = 60
PER_BOX = ("middles", "halves", "constants", "linear", "weights", "bounds")
"""Fields of `Boxes` with a value for each box."""


@dataclass(frozen=True)
class PricedRows:
    """Rows, and what each one pays for all centers together."""

    rows: Float64Array
    """(n, d)."""
    weights: Float64Array
    """(n,), > 0."""
    prices: Float64Array
    """(n,), in squared units of the rows; a row that pays 0 or less has no surplus anywhere."""

    def __getitem__(self, which: IndexArray | BoolArray) -> "PricedRows":
        return PricedRows(self.rows[which], self.weights[which], self.prices[which])

    def margins(self, points: Float64Array) -> Iterator[tuple[slice, Float64Array]]:
        """Yield price minus squared distance, (points, n), for some points at a time."""
        height = max(1, ENTRIES // len(self.rows))
        for start in range(0, len(points), height):
            some = slice(start, start + height)
            squared = np.zeros((len(points[some]), len(self.rows)))
            for column in range(self.rows.shape[1]):
                squared += (points[some, column, np.newaxis] - self.rows[:, column]) ** 2
            yield some, self.prices - squared

    @property
    def near(self) -> float:
        """Share of the greatest surplus by which its bound may be above it."""
        return NEAR_ENOUGH

    def paid(self) -> tuple[Float64Array, float]:
        """Return what each row pays with its weight, (n,), and a lower bound of the sum."""
        paid = self.weights * self.prices
        return paid, fsum(paid) - 2 * EPSILON * fsum(np.abs(paid))

    @property
    def paying(self) -> "PricedRows":
        """The rows that pay for a center at their place."""
        return self[self.prices > 0]

    def corners(self) -> tuple[Float64Array, Float64Array]:
        """Return the corners of the box of all rows, (d,) each."""
        return self.rows.min(axis=0), self.rows.max(axis=0)

    def payments(
        self, margins: Float64Array, points: Float64Array
    ) -> tuple[Float64Array, Float64Array]:
        """Return what each row pays at each point, (p, n), and how fast it rises with its price."""
        return np.maximum(margins, 0), (margins > 0).astype(np.float64)

    def surplus(self, points: Float64Array) -> Float64Array:
        """Return the surplus of centers at points, (p, d)."""
        found = np.empty(len(points))
        for some, margins in self.margins(points):
            found[some] = self.payments(margins, points[some])[0] @ self.weights
        return found

    def ascend(self, points: Float64Array) -> Float64Array:
        """Move points, (p, d), to the mean of the rows that pay for them, while that changes any.

        The surplus never falls: the mean is best for the rows that pay.
        """
        points, moving = points.copy(), np.arange(len(points))
        for _ in range(ASCENT_STEPS):
            before = points[moving]
            means = before.copy()
            for some, margins in self.margins(before):
                paying = np.where(margins > 0, self.weights, 0.0)
                weights = paying.sum(axis=1, keepdims=True)
                np.divide(paying @ self.rows, weights, out=means[some], where=weights > 0)
            points[moving] = means
            moving = moving[(means != before).any(axis=1)]
            if not len(moving):
                break
        return points

    @property
    def rounding(self) -> float:
        """A bound of what rounding may take from the bound of a surplus in `greatest_surplus`.

        Each of its at most n + 4 * DEEPEST + 8 d + 64 operations rounds a number of at most 8 times
        the weighted sum of root(price) * (root(price) + width of all rows).
        """
        reach = np.sqrt(np.maximum(self.prices, 0))
        width = 2 * float(np.sqrt(self.rows.shape[1]) * np.ptp(self.rows, axis=0).max())
        return self._rounding(reach, width, 64)

    def _rounding(self, reach: Float64Array, width: float, more: int) -> float:
        n, d = self.rows.shape
        largest = float(self.weights @ (reach * (reach + width)))
        return float(16 * EPSILON * (n + 4 * DEEPEST + 8 * d + more) * largest)

    def judge(
        self, middles: Float64Array, halves: Float64Array, margins: Float64Array
    ) -> "Majorants":
        """Return bounds of what each row pays for the centers in a box.

        `middles` and `halves`, (n, d), are of the boxes, `margins`, (n,), are at the middles.  A row
        that pays for some centers alone costs at most the chord of its margin over the box, which
        is quadratic too.
        """
        reach = np.abs(self.rows - middles)
        most = self.prices - (np.maximum(reach - halves, 0) ** 2).sum(axis=1)
        least = self.prices - ((reach + halves) ** 2).sum(axis=1)
        between = (most > 0) & (least < 0)
        slopes = most / np.where(between, most - least, 1.0)
        constants = -slopes * np.minimum(least, 0)
        return Majorants(least >= 0, between, slopes, constants, np.maximum(margins, 0))


@dataclass(frozen=True)
class Majorants:
    """Bounds of what rows pay for the centers in a box, linear in their margins."""

    decided: BoolArray
    """(n,), whether a row pays its margin for all centers."""
    between: BoolArray
    """(n,), whether it may pay for some and not for others."""
    slopes: Float64Array
    """(n,), >= 0."""
    constants: Float64Array
    """(n,): between, a row pays at most slope * margin + constant."""
    values: Float64Array
    """(n,), what a row pays for the middle, or a bound that gets no better in smaller boxes."""


@dataclass(frozen=True)
class Greatest:
    """A bound of the greatest surplus of any center, and centers with a large one."""

    bound: float
    """No center has a greater surplus, or `enough` if none has more than that."""
    points: Float64Array
    """(p, d), some points with a surplus above `enough`."""
    pairs: int
    """Pairs of boxes and rows that were looked at."""


@dataclass(frozen=True)
class Boxes:
    """Boxes of centers, with the rows that pay for some centers of a box and not for others.

    The rows that pay everywhere in a box have the surplus constant + 2 linear t - weight |t|^2 at
    the middle + t.
    """

    middles: Float64Array
    """(b, d)."""
    halves: Float64Array
    """(b, d), half of the widths."""
    constants: Float64Array
    """(b,)."""
    linear: Float64Array
    """(b, d)."""
    weights: Float64Array
    """(b,)."""
    boxes: IndexArray
    """(pairs,), the box of each undecided row."""
    rows: IndexArray
    """(pairs,), its row."""
    bounds: Float64Array
    """(b,), no center in the box has a greater surplus."""

    halvings: int
    """How often the first box was halved."""

    def keep(self, which: BoolArray) -> "Boxes":
        """Return some boxes."""
        of_kept, numbers = which[self.boxes], np.cumsum(which) - 1
        kept: dict[str, Any] = {name: getattr(self, name)[which] for name in PER_BOX}
        return replace(self, boxes=numbers[self.boxes[of_kept]], rows=self.rows[of_kept], **kept)

    def then(self, other: "Boxes") -> "Boxes":
        """Return these boxes, followed by `other`."""
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("rows", *PER_BOX)
        }
        boxes = np.concatenate([self.boxes, other.boxes + len(self.middles)])
        return replace(self, boxes=boxes, **joined)

    def halve(self) -> "Boxes":
        """Return both halves of each box, cut across its longest side."""
        longest = (np.arange(len(self.middles)), self.halves.argmax(axis=1))
        return self._half(longest, -0.5).then(self._half(longest, 0.5))

    def _half(self, side: tuple[IndexArray, IndexArray], share: float) -> "Boxes":
        """Return the lower half of each box along a side, with a share of -0.5, or the upper one, with 0.5."""
        middles, halves, linear = self.middles.copy(), self.halves.copy(), self.linear.copy()
        middles[side] += share * halves[side]
        # The middle is rounded: the half is made wider by that much, so that no center is lost.
        halves[side] = (0.5 + EPSILON) * halves[side] + EPSILON * np.abs(middles[side])
        moved = middles[side] - self.middles[side]
        constants = self.constants + (2 * linear[side] - self.weights * moved) * moved
        linear[side] -= self.weights * moved
        return replace(
            self,
            middles=middles,
            halves=halves,
            constants=constants,
            linear=linear,
            halvings=self.halvings + 1,
        )

    def with_bounds(self, priced: PricedRows) -> tuple["Boxes", Float64Array]:
        """Return the boxes with bounds, decided rows in their sums, and the surplus of the middles."""
        of_pairs = priced[self.rows]
        offsets = of_pairs.rows - self.middles[self.boxes]
        margins = of_pairs.prices - (offsets**2).sum(axis=1)
        found = of_pairs.judge(self.middles[self.boxes], self.halves[self.boxes], margins)
        decided, between, weights = found.decided, found.between, of_pairs.weights
        everywhere = self._with(decided, weights, weights * margins, offsets)
        chords = weights * found.slopes
        upper = everywhere._with(
            between, chords, chords * margins + weights * found.constants, offsets
        )
        at_middles = everywhere.constants + total(
            self.boxes[between], (weights * found.values)[between], len(self.middles)
        )
        kept = replace(
            everywhere, boxes=self.boxes[between], rows=self.rows[between], bounds=upper.greatest()
        )
        return kept, at_middles

    def _with(
        self, which: BoolArray, weights: Float64Array, values: Float64Array, offsets: Float64Array
    ) -> "Boxes":
        """Return the boxes with some rows added to their sums; `values` are at the middles."""
        boxes, weights, offsets = self.boxes[which], weights[which], offsets[which]
        n_boxes, columns = self.linear.shape
        linear = [total(boxes, weights * offsets[:, j], n_boxes) for j in range(columns)]
        return replace(
            self,
            constants=self.constants + total(boxes, values[which], n_boxes),
            linear=self.linear + np.stack(linear, axis=1),
            weights=self.weights + total(boxes, weights, n_boxes),
        )

    def greatest(self) -> Float64Array:
        """Return the greatest value of each quadratic in its box."""
        weights = self.weights[:, np.newaxis]
        best = np.divide(
            self.linear, weights, out=np.zeros_like(self.linear), where=weights > 0
        ).clip(-self.halves, self.halves)
        found: Float64Array = self.constants + ((2 * self.linear - weights * best) * best).sum(
            axis=1
        )
        return found

    def stacks(self) -> list["Boxes"]:
        """Return parts of at most `AT_ONCE` pairs, the boxes with the highest bounds last."""
        if len(self.rows) <= AT_ONCE or len(self.middles) == 1:
            return [self]
        high = np.zeros(len(self.middles), dtype=bool)
        high[np.argsort(self.bounds, kind="stable")[len(high) // 2 :]] = True
        return self.keep(~high).stacks() + self.keep(high).stacks()


def whole_space(priced: PricedRows) -> Boxes:
    """Return the box of all rows: a center elsewhere has a lower surplus than its nearest point."""
    low, high = priced.corners()
    middle = low / 2 + high / 2
    half = np.maximum(high - middle, middle - low) * (1 + 2 * EPSILON)
    n, d = priced.rows.shape
    return Boxes(
        middle[np.newaxis],
        half[np.newaxis],
        np.zeros(1),
        np.zeros((1, d)),
        np.zeros(1),
        np.zeros(n, np.intp),
        np.arange(n),
        np.array([np.inf]),
        0,
    )


def greatest_surplus(priced: PricedRows, enough: float, most_pairs: int) -> Greatest:
    """Return a bound of the surplus of all centers, by halving boxes of centers.

    Boxes in which no center can have more than `enough` are left.  After `most_pairs` pairs of
    boxes and rows the boxes that are left give the bound: still true, but not near.
    """
    paying = priced.paying
    columns = priced.rows.shape[1]
    found: list[Float64Array] = []
    if not len(paying.rows):
        return Greatest(enough, np.empty((0, columns)), 0)
    stack, pairs, bound = [whole_space(paying)], 0, enough
    while stack and pairs <= most_pairs:
        boxes = stack.pop()
        pairs += len(boxes.rows) + len(boxes.middles)
        boxes, at_middles = boxes.with_bounds(paying)
        found.append(boxes.middles[at_middles > enough])
        bound = max(bound, float(at_middles.max()) * (1 + paying.near))
        left = boxes.keep(boxes.bounds > bound)
        if boxes.halvings == DEEPEST:
            bound = float(left.bounds.max(initial=bound))
        elif len(left.middles):
            stack += left.halve().stacks()
    bound = max([bound, *(float(each.bounds.max()) for each in stack)])
    return Greatest(bound + paying.rounding, np.concatenate(found), pairs)
