"""Central points of a linear program whose columns become known one after the other."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cho_solve_banded, cholesky_banded
from scipy.sparse import csr_array, diags_array, vstack
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dask_dpmeans.kernels.block import Float64Array, IndexArray

NEWTON_STEPS = 50
CLOSE = 0.1
"""Newton decrement of a point that counts as central."""
TO_THE_WALL = 0.95
"""The longest step, over the step to the nearest constraint."""
CORRECTIONS = 100
INSIDE = 1e-10
"""Least slack of a point that Newton's method starts from, over `scale`."""
NARROW = 0.3
"""Width of the band of a matrix, over its side, up to which the rest is left out.

With 3,200 entries and a band of 577, a factor took .03 instead of .5 seconds."""


@dataclass(frozen=True)
class Band:
    """An order of the m entries of a program, for equations with a symmetric matrix."""

    ranks: IndexArray
    """(m,), places of the entries in this order."""
    width: int
    """How far the entries of a column are from each other at most, in this order."""

    @classmethod
    def of(cls, columns: csr_array) -> "Band":
        """Return an order for columns, (p, m): Cuthill & McKee 1969, reversed."""
        pattern = csr_array((np.ones(columns.nnz), columns.indices, columns.indptr), columns.shape)
        links = csr_array(pattern.T @ pattern).tocoo()
        order = reverse_cuthill_mckee(links.tocsr(), symmetric_mode=True)
        ranks = np.empty(len(order), np.intp)
        ranks[order] = np.arange(len(order))
        return cls(ranks, int(np.abs(ranks[links.row] - ranks[links.col]).max(initial=0)))

    @property
    def narrow(self) -> bool:
        """Whether entries outside of the band are left out."""
        return self.width < NARROW * len(self.ranks)

    @property
    def work(self) -> float:
        """Return the work of a solution, about: products of two numbers."""
        m = float(len(self.ranks))
        return m * (self.width + 500.0) ** 2 if self.narrow else m**3

    def solve(self, matrix: csr_array, diagonal: Float64Array, right: Float64Array) -> Float64Array:
        """Return the solution of (matrix + diagonal) x = right, (m,); both are positive."""
        if not self.narrow:
            whole = matrix.toarray()
            whole[np.diag_indices(len(right))] += diagonal
            return np.asarray(cho_solve(cho_factor(whole, overwrite_a=True), right))
        found = matrix.tocoo()
        row, column = self.ranks[found.row], self.ranks[found.col]
        lower = row >= column
        bands = np.zeros((self.width + 1, len(right)))
        bands[(row - column)[lower], column[lower]] = found.data[lower]
        bands[0, self.ranks] += diagonal
        given = np.empty_like(right)
        given[self.ranks] = right
        factor = cholesky_banded(bands, overwrite_ab=True, lower=True)
        return np.asarray(cho_solve_banded((factor, True), given)[self.ranks])


@dataclass(frozen=True)
class Program:
    """Maximize gains @ x where columns @ x <= limits and low <= x <= high; columns are >= 0."""

    gains: Float64Array
    """(m,)."""
    low: Float64Array
    """(m,), inside of all constraints."""
    high: Float64Array
    """(m,)."""
    columns: csr_array
    """(p, m)."""
    limits: Float64Array
    """(p,)."""
    scale: float
    """What limits are near to."""

    @property
    def constraints(self) -> int:
        """Number of logarithms in the barrier: the gap of a central point, over `barrier`."""
        return len(self.limits) + 2 * len(self.gains)

    def slacks(self, x: Float64Array) -> Float64Array:
        """Return what is left of each limit, (p,)."""
        left: Float64Array = self.limits - self.columns @ x
        return left

    def with_columns(self, columns: csr_array, limits: Float64Array) -> "Program":
        """Return the program with more columns."""
        return replace(
            self,
            columns=vstack([self.columns, columns], format="csr"),
            limits=np.concatenate([self.limits, limits]),
        )

    def keep_nearest(self, x: Float64Array, most: int) -> "Program":
        """Return the program with the `most` columns that are nearest to their limits."""
        if len(self.limits) <= most:
            return self
        kept = np.sort(np.argsort(self.slacks(x), kind="stable")[:most])
        return replace(self, columns=self.columns[kept], limits=self.limits[kept])

    def inside(self, x: Float64Array) -> Float64Array:
        """Return x moved towards `low` in the entries of the columns above their limits."""
        x = np.clip(x, self.low, self.high - 1e-3 * (self.high - self.low))
        pointers, indices, values = self.columns.indptr, self.columns.indices, self.columns.data
        for _ in range(CORRECTIONS):
            above = np.flatnonzero(self.slacks(x) <= INSIDE * self.scale)
            for column in above:
                entries = slice(pointers[column], pointers[column + 1])
                which, factors = indices[entries], values[entries]
                room = x[which] - self.low[which]
                excess = factors @ x[which] - self.limits[column] + 2 * INSIDE * self.scale
                share = max(0.0, 1.02 * excess) / (factors @ room + np.finfo(float).tiny)
                x[which] -= min(share, 0.999) * room
            if not len(above):
                break
        return x

    def center(self, x: Float64Array, barrier: float) -> Float64Array:
        """Return a point near the greatest gains @ x + barrier * sum of logarithms of all slacks.

        This is Newton's method from x, inside of all constraints.
        """
        band = self.band
        for _ in range(NEWTON_STEPS):
            step, decrement = self._newton(x, barrier, band)
            if not np.isfinite(decrement):
                break
            size = 1.0
            if decrement > CLOSE:
                size = min(1.0, TO_THE_WALL * self._reach(x, step))
            while self._change(x, size * step, barrier) < 0 and size > 1e-9:
                size /= 2
            if size <= 1e-9:
                break
            x = x + size * step
            if decrement < CLOSE:
                break
        return x

    @cached_property
    def band(self) -> "Band":
        """Return the order of the entries that brings a column's near each other."""
        return Band.of(self.columns)

    def _newton(self, x: Float64Array, barrier: float, band: "Band") -> tuple[Float64Array, float]:
        """Return Newton's step and decrement."""
        slacks, above, below = self.slacks(x), self.high - x, x - self.low
        slope = self.gains / barrier - self.columns.T @ (1 / slacks) - 1 / above + 1 / below
        curvature = csr_array(self.columns.T @ diags_array(slacks**-2) @ self.columns)
        try:
            step = band.solve(curvature, above**-2 + below**-2, slope)
        except (LinAlgError, ValueError):  # not positive definite to rounding, or not finite
            return slope, np.inf
        return step, float(np.sqrt(max(0.0, slope @ step)))

    def _reach(self, x: Float64Array, step: Float64Array) -> float:
        """Return how often a step leads to the nearest constraint."""
        shares = (self.columns @ step) / self.slacks(x)
        speed = max(
            shares.max(initial=0.0), (step / (self.high - x)).max(), (-step / (x - self.low)).max()
        )
        return 1 / max(float(speed), np.finfo(float).tiny)

    def _change(self, x: Float64Array, step: Float64Array, barrier: float) -> float:
        """Return the change of the barrier function by a step; -inf outside, 0 at rounding."""
        before = np.concatenate([self.slacks(x), self.high - x, x - self.low])
        after = np.concatenate([self.slacks(x + step), self.high - x - step, x + step - self.low])
        if after.min() <= 0:
            return -np.inf
        change = self.gains @ step / barrier + np.log(after / before).sum()
        return float(change) if abs(change) > 1e-8 else 0.0
