"""A proved lower bound from any multipliers of the relaxation in `relaxation`, rounding included.

Let N >= 0, prices t >= 0 of cuts <A_q, Y> <= 0, and prices u of the items be any numbers.  For
every partition, with Y and C as in `relaxation`,

    <C, Y> >= <C + sum of t_q A_q - N, Y> = sum of m_i u_i + <M, Y>,
    m_ij = c_ij + (sum of t_q A_q)_ij - n_ij - v_i v_j (u_i + u_j) / 2,

because Y v = v.  For a positive semidefinite R such that M + R + s I is positive semidefinite too,
<M, Y> >= -tr R - s tr Y = -tr R - s k for k clusters: the eigenvalues of Y are 0 and 1.  The cost J
of the partition is at least k, so J >= b - tr R - s J with b = sum of m_i u_i, and

    J >= (b - tr R) / (1 + s)        where this is >= 0.

(Jansson, Chaykin & Keil 2007 bound tr Y in advance, and so do Piccialli, Sudoso & Wiegele 2022.)

Rounding.  Y >= 0, so M may be replaced by any matrix that is not above it in any entry: each entry
is lowered by more than its rounding.  R is F F' for a matrix F of floats, and its trace is the sum of
the squares of F.  s is proved with the computed Cholesky factor L of M + R + s I: the norm of
M + R + s I - L'L is at most the norm of the computed residual plus 2 n eps times the sum of the
squares of L and F, which holds for products in any order of additions.  On rows of like weights the
bound is about 4 n^2 eps, as a share of it, below the exact bound of the multipliers.
"""

import math

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.kernels.lower_bound.relaxation import Point, Problem
from dask_dpmeans.kernels.lower_bound.triangle_cuts import Cuts

EPS = float(np.finfo(np.float64).eps)
SHIFTS = (1.0, 16.0, 256.0, 2.0**16)
"""What Cholesky's factor is tried with, in units of the rounding expected."""


def proved_bound(problem: Problem, cuts: Cuts, point: Point) -> float:
    """Return a lower bound on the cost of every partition, in prices of a cluster, at least 1.

    The costs of the problem must not be above the exact ones for its masses, which are taken as exact.
    """
    pull, size = np.zeros_like(problem.costs), np.zeros_like(problem.costs)
    if len(point.prices):
        prices = point.prices * point.scale
        pull, size = cuts.pull(prices), cuts.size_of_pull(prices)
    against = np.maximum(pull - point.scale * point.multipliers, 0.0)
    length = float(np.linalg.norm(problem.roots))
    unit = problem.roots / length
    column = (problem.costs + pull - against) @ unit
    # the best u with which M v = 0, for M without this part
    prices_of_items = (2 * column - (unit @ column) * unit) / (length * problem.roots)
    return bound_of(problem, (pull, size, len(point.prices)), against, prices_of_items)


def bound_of(
    problem: Problem,
    pull: tuple[Float64Array, Float64Array, int],
    against: Float64Array,
    prices: Float64Array,
) -> float:
    """Return the bound of given multipliers.

    Parameters
    ----------
    pull : the sum of t_q A_q, the same sum of absolute values, both (n, n), and the number of cuts
    against : (n, n), N >= 0
    prices : (n,), u
    """
    total, size, n_cuts = pull
    outer = np.outer(problem.roots, problem.roots)
    absolute = np.abs(prices)
    matrix = problem.costs + total - against
    matrix -= 0.5 * outer * (prices[:, np.newaxis] + prices)
    magnitude = problem.costs + size + against
    magnitude += 0.5 * outer * (absolute[:, np.newaxis] + absolute)
    matrix -= (n_cuts + 32) * EPS * magnitude
    worth = problem.masses * prices
    value = math.fsum(worth) - 4 * EPS * math.fsum(np.abs(worth))
    bound = _less_negative_part(np.minimum(matrix, matrix.T), value)
    return bound if bound > 1 else 1.0  # also for NaN


def _less_negative_part(matrix: Float64Array, value: float) -> float:
    """Return (value - tr R) / (1 + s) for the best R of the eigenvectors of a symmetric matrix, (n, n)."""
    if not np.isfinite(matrix).all():
        return 1.0
    values, vectors = eigh(matrix, driver="evd")
    below = -values[values < 0]
    choices = [0.0, *below.tolist()]
    s = max(choices, key=lambda s: (value - np.maximum(below - s, 0.0).sum()) / (1 + s))
    factor = vectors[:, : len(below)] * np.sqrt(np.maximum(below - s, 0.0))
    trace = float((factor**2).sum()) * (1 + 2 * len(matrix) * len(matrix) * EPS)
    lack = _lack(matrix + factor @ factor.T, s, trace) + 2 * (len(matrix) + 8) * EPS * trace
    return (value - trace) / (1 + lack) * (1 - 8 * EPS)


def _lack(matrix: Float64Array, about: float, added: float) -> float:
    """Return an s >= 0, about as given, with which matrix + s I is proved semidefinite.

    It is inf if there is no proof.  `added` is the trace of what the matrix was rounded with: that
    rounding may be all that is left of it.
    """
    diagonal = np.diag(matrix)
    unit = 4 * len(matrix) * EPS * (float(np.abs(diagonal).sum()) + added)
    for shift in SHIFTS:
        shifted = matrix.copy()
        shifted[np.diag_indices_from(shifted)] += about + shift * unit
        try:
            factor = cholesky(shifted)
        except LinAlgError:
            continue
        raised = float((np.diag(shifted) - diagonal).max())
        raised += 4 * EPS * float(np.abs(np.diag(shifted)).max())
        residual = float(np.linalg.norm(shifted - factor.T @ factor))
        residual += 2 * (len(matrix) + 8) * EPS * float((factor**2).sum())
        return (max(raised, 0.0) + residual) * (1 + 1e-6)
    return math.inf
