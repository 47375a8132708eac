"""Triangle inequalities of partitions: cuts of the relaxation in `relaxation`.

Let z_ij be 1 / mass of the cluster that i and j share, and 0 if they share none.  If j and k are
both with i, they are with each other:

    z_ij + z_ik <= z_ii + z_jk        for j != k,        z_ij <= z_ii        (here j = k)

(Peng & Wei 2007; Piccialli, Sudoso & Wiegele 2022 add them in rounds, the most violated ones first.)
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from dask_dpmeans.kernels.block import Float64Array, IndexArray

LEAST_VIOLATION = 1e-4
"""Least violation of a new cut, as a share of the largest value of z_ii: 1 / mass."""
MOST_OF_ITEM = 60
"""Most new cuts with the same i in one round."""


@dataclass(frozen=True)
class Cuts:
    """Some of the inequalities, m of them, in Y: y_ij = root_i root_j z_ij."""

    triples: IndexArray
    """(m, 3), i, j and k."""
    matrix: csr_array
    """(m, n * n), coefficients of Y, so that matrix @ Y <= 0; rows of unit length."""
    transposed: csr_array
    """(n * n, m)."""
    steps: Float64Array
    """(m,), step lengths with which projected gradient steps converge (Pock & Chambolle 2011)."""

    @classmethod
    def of(cls, triples: IndexArray, roots: Float64Array) -> Self:
        """Return the cuts of triples, (m, 3), for roots, (n,), the square roots of masses."""
        matrix = _coefficients(triples, roots)
        sums = abs(matrix) @ np.asarray(abs(matrix).sum(axis=0)).ravel()
        return cls(triples, matrix, matrix.T.tocsr(), 1 / np.maximum(sums, 1e-300))

    def pull(self, prices: Float64Array) -> Float64Array:
        """Return the sum of the cuts' coefficients, each times its price, (n, n)."""
        n = round(self.matrix.shape[1] ** 0.5)
        return np.asarray(self.transposed @ prices).reshape(n, n)

    def size_of_pull(self, prices: Float64Array) -> Float64Array:
        """Return the same sum over the coefficients' absolute values, (n, n)."""
        n = round(self.matrix.shape[1] ** 0.5)
        return np.asarray(abs(self.transposed) @ prices).reshape(n, n)


def no_cuts(roots: Float64Array) -> Cuts:
    """Return no cuts for n items with roots, (n,)."""
    return Cuts.of(np.empty((0, 3), np.intp), roots)


def _coefficients(triples: IndexArray, roots: Float64Array) -> csr_array:
    """Return the coefficients of Y, each with a relative error below 8 units in the last place.

    The length of a row is a factor of all of them, whatever its own error.
    """
    n, m, (i, j, k) = len(roots), len(triples), triples.T
    one = np.arange(m)
    two = j != k

    def half(a: IndexArray, b: IndexArray) -> Float64Array:
        return 0.5 / (roots[a] * roots[b])

    parts = [(one, i, j, half(i, j)), (one, j, i, half(i, j)), (one, i, i, -2 * half(i, i))]
    for a, b, sign in ((i, k, 1), (k, i, 1), (j, k, -1), (k, j, -1)):
        parts.append((one[two], a[two], b[two], sign * half(a, b)[two]))
    row, a, b, value = (np.concatenate(each) for each in zip(*parts, strict=True))
    lengths = np.sqrt(np.bincount(row, value**2, minlength=m))
    return csr_array((value / lengths[row], (row, a * n + b)), shape=(m, n * n))


def most_violated(shared: Float64Array, roots: Float64Array, most: int) -> IndexArray:
    """Return the triples, (m, 3), that Y, (n, n), violates the most, at most `most` of them, the worst first."""
    z, found, sizes = shared / np.outer(roots, roots), [], []
    for i, mass in enumerate(roots**2):
        excess = z[i][:, np.newaxis] + z[i] - z[i, i] - z
        pairs = np.diag_indices_from(excess)
        excess[pairs] = z[i] - z[i, i]
        excess[i] = excess[:, i] = 0.0
        j, k = np.nonzero(np.triu(excess * mass > LEAST_VIOLATION))
        size = excess[j, k] * mass
        worst = np.argsort(-size, kind="stable")[:MOST_OF_ITEM]
        found.append(np.column_stack([np.full(len(worst), i), j[worst], k[worst]]))
        sizes.append(size[worst])
    order = np.argsort(-np.concatenate(sizes), kind="stable")[:most]
    return np.concatenate(found)[order]
