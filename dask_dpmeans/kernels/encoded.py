"""The divergence of encoded rows: one product ranks all centers, whatever the columns are.

Merges, splits and moves of single rows are exact from averages of encoded rows, as for any Bregman
divergence (Banerjee et al. 2005, section 3).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import BoolArray, Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.distance import Centers, costs
from dask_dpmeans.kernels.divergence import Divergence, ratio
from dask_dpmeans.kernels.encoding import LAST, Encoding
from dask_dpmeans.kernels.linear_costs import Linear

NO_MIXTURE = (
    "probabilities and margins of clusters are known for squared distances of complete rows and for "
    "metrics alone, not for other divergences or missing values"
)


@dataclass(frozen=True)
class EncodedDivergence(Divergence):
    """The cost of encoded rows; centers are averages of encoded rows."""

    encoding: Encoding
    encoded: ClassVar[bool] = True

    def linear(self, centers: Float64Array) -> Linear:
        """Return coefficients, (k, n_features), and constants, (k,), of the costs at centers.

        D(x, m) = D(x, g) - (f'(m) - f'(g)) (x - m) - D(m, g), with g the means of all rows.
        """
        encoding = self.encoding
        values, layout = encoding.values(centers), encoding.layout
        slopes = np.empty(values.shape)
        for kind, columns in layout.divergences:
            at_means = kind.slope(encoding.middles[columns])
            slopes[:, columns] = kind.slope(values[:, columns]) - at_means
        slopes *= encoding.weights
        own = encoding.weights * encoding.column_costs(values)
        offsets = slopes * (values - encoding.origins) - own
        coefficients = np.zeros(centers.shape)
        coefficients[:, : values.shape[1]] = -slopes
        coefficients[:, -1] = 1 / LAST
        if not encoding.masked:
            return Linear(coefficients, np.add.reduce(offsets, axis=1))
        by_input = np.add.reduceat(offsets, layout.starts, axis=1)
        coefficients[:, values.shape[1] : -1] = by_input
        return Linear(coefficients, np.zeros(len(centers)))

    def costs_to_all(self, rows: Rows, centers: Float64Array) -> Float64Array:
        """Return the cost of each row, (n, n_features), at each center, as (n, k)."""
        taken, same = Centers(centers, self), np.zeros(rows.shape[0], np.intp)
        return np.stack([costs(rows, taken, same + c) for c in range(len(centers))], axis=1)

    def costs(self, rows: Rows, centers: Float64Array, labels: IndexArray) -> Float64Array:
        """Return the cost of each row, (n, n_features), at the center of its label, (n,)."""
        return costs(rows, Centers(centers, self), labels)

    def given(self, centers: Float64Array) -> Float64Array:
        """Return first centers in units of the input, (k, D), as averages of encoded rows."""
        wanted = len(self.encoding.means)
        if centers.shape[1] != wanted:
            raise InputError(
                f"the first centers have {checks.format_count(centers.shape[1], 'column')}, the data has {wanted}, "
                "one for each category of a categorical column"
            )
        averages = self.encoding.encoded_centers(centers)
        wrong = np.flatnonzero(~np.isfinite(averages).all(axis=1))
        if wrong.size:
            raise InputError(
                f"center {wrong[0]} of the first centers cannot be used with these divergences: "
                f"{checks.describe_value(centers[wrong[0]])}"
            )
        return averages

    def flat(self, rows: Float64Array) -> Float64Array:
        """Return encoded rows, (n, n_features), in a flat space, (n, D); NaN without a value."""
        encoding = self.encoding
        values, D = encoding.values(rows), len(encoding.means)
        flat = np.empty(values.shape)
        for kind, columns in encoding.layout.divergences:
            flat[:, columns] = kind.flat(values[:, columns], encoding.middles[columns])
        flat *= np.sqrt(encoding.weights)
        if encoding.masked:
            flat[~(rows[:, D:-1] > 0)[:, encoding.layout.inputs]] = np.nan
        return flat

    def shown(self, centers: Float64Array) -> Float64Array:
        """Return averages of encoded rows, (k, n_features), as centers in units of the input."""
        return self.encoding.centers(centers)

    def points(self, centers: Float64Array) -> Float64Array:
        """Return averages of encoded rows, (k, n_features), without what the rows cost at them."""
        points = centers.copy()
        points[:, -1] -= self.costs(centers, centers, np.arange(len(centers))) * LAST
        return points

    def between(self, points: Float64Array, centers: Float64Array) -> Float64Array:
        """Return the cost of averages, (m, n_features), at centers, (m, n_features), in pairs."""
        return self._costs(points, self.encoding.values(centers))

    def rises(self, masses: Float64Array, means: Float64Array) -> Float64Array:
        """Return the rise of the cost if two clusters become one, (m,).

        Parameters
        ----------
        masses : (m, 2)
        means : (m, 2, n_features)
        """
        shares = ratio(masses, masses.sum(axis=1, keepdims=True))
        center = (shares[:, :, np.newaxis] * means).sum(axis=1)
        at = np.repeat(self.encoding.values(center), 2, axis=0)  # of the center once for both
        costs = masses * self._costs(means.reshape(-1, means.shape[2]), at).reshape(masses.shape)
        rises: Float64Array = costs[:, 0] + costs[:, 1]
        return rises

    def _costs(self, points: Float64Array, at: Float64Array) -> Float64Array:
        """Return the cost of averages, (m, n_features), at smoothed values, (m, D), in pairs."""
        encoding = self.encoding
        columns = encoding.weights * encoding.column_costs(encoding.values(points), at)
        if encoding.masked:
            columns = columns * points[:, len(encoding.means) : -1][:, encoding.layout.inputs]
        costs: Float64Array = np.add.reduce(columns, axis=1)
        return costs

    def offsets(
        self, directions: Float64Array, radii: Float64Array, centers: Float64Array
    ) -> Float64Array:
        """Return steps, (k, n_features), from centers that cost about the squares of radii, (k,)."""
        encoding = self.encoding
        values, D = encoding.values(centers), len(encoding.means)
        steps = np.zeros(centers.shape)
        for kind, columns in encoding.layout.divergences:
            curvature = encoding.weights[columns] * kind.curvature(values[:, columns]) / 2
            steps[:, columns] = directions[:, columns] * np.sqrt(
                ratio(np.ones(curvature.shape), curvature)
            )
        lengths = np.sqrt(np.einsum("ij,ij->i", directions[:, :D], directions[:, :D]))
        steps *= ratio(radii, lengths)[:, np.newaxis]
        lowest, highest = encoding.limits
        room = np.minimum(values - lowest, highest - values) / 2  # ends may cost infinitely much
        steps[:, :D] = np.clip(steps[:, :D], -room, room)
        if encoding.masked:
            steps[:, :D] *= centers[:, D:-1][:, encoding.layout.inputs]
        return steps

    def precision(self, cost: float, d: int) -> float:
        """Raise `InputError`: no mixture is known whose limit these costs are."""
        raise InputError(f"{NO_MIXTURE}: use predict")

    def unlabeled(self, rows: Rows) -> BoolArray | None:
        """Return the encoded rows, (n,), without any value; None if values cannot be missing."""
        if not self.encoding.masked:
            return None
        factors = rows[:, len(self.encoding.means) : -1]
        return np.asarray((factors <= 0).all(axis=1))
