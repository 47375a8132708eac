"""A divergence of the tests' own, in this one file: it shows what adding a divergence takes."""

from dataclasses import dataclass

import numpy as np
from scipy.special import kl_div

from dask_dpmeans.kernels.block import Float64Array, IndexArray, Rows
from dask_dpmeans.kernels.divergence import Divergence


@dataclass(frozen=True)
class Poisson(Divergence):
    """Generalized Kullback-Leibler divergence, sum of x log(x / m) - x + m: half the Poisson deviance of counts."""

    def costs(self, rows: Rows, centers: Float64Array, labels: IndexArray) -> Float64Array:
        """Return the divergence of each row, (n, d), from the center of its label, (n,)."""
        costs: Float64Array = kl_div(rows.astype(np.float64), centers[labels]).sum(axis=1)
        return costs

    def inside(self, points: Float64Array) -> Float64Array:
        """Return points, (..., d), with positive numbers."""
        return np.maximum(points, 1e-3)
