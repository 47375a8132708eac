"""Costs and sums of a block of rows from one compiled loop, in place of one loop for each."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from dask_dpmeans.kernels import numba_support
from dask_dpmeans.kernels.block import Block, Float64Array, Rows
from dask_dpmeans.kernels.definition_compiled import is_narrow
from dask_dpmeans.kernels.distance import COMPILED_TILE, LEAST_COMPILED_TILE, NOTHING, Centers
from dask_dpmeans.kernels.hamerly_bounds import LEAST_CENTERS
from dask_dpmeans.kernels.moments import Moments
from dask_dpmeans.kernels.numba_support import pays
from dask_dpmeans.kernels.scan_compiled import (
    NARROW,
    ScanParts,
    scan_compiled,
    scan_narrow_compiled,
)

MOST_CENTERS = 2**7
"""Most centers of rows that a product ranks.

At d = 64 and k = 16, 128 and 256 a block took 0.72, 0.87 and 0.93 of the time, at d = 16 and k = 64,
128 and 256 0.93, 0.89 and 1.02, and at k = 1,000 1.04."""
GIVEN_UP = "joint_scan_given_up"
"""The mark of centers whose ranking leaves too many rows in doubt."""
Found = tuple[Moments, Float64Array, Float64Array]
"""Moments, squared distances of the rows, (height,), and reaches of the clusters, (k,)."""


def scan_at_once(block: Block, centers: Centers) -> Found | None:
    """Return moments, squared distances and reaches; None if loops of their own are to find them.

    Centers are without divergence, and rows without outliers.  The answer is the one of `assign`,
    `cluster_moments` and `greatest`, to the byte.
    """
    if not numba_support.AVAILABLE or GIVEN_UP in vars(centers) or issparse(block.rows):
        return None
    k = len(centers)
    plain = centers.divergence is None and not np.isfinite(centers.most)
    bounded = block.memory is not None and k >= LEAST_CENTERS
    if not plain or bounded or not 2 <= k <= len(block.rows):
        return None
    if is_narrow(centers.values, NOTHING, 1):
        return _scan_narrow(block, centers)
    ranked = k <= MOST_CENTERS and centers.ranks_all(block.rows)
    return _scan_wide(block, centers) if ranked else None


def _scan_narrow(block: Block, centers: Centers) -> Found | None:
    """Return the answer for rows of up to four columns."""
    (n, d), k = block.rows.shape, len(centers)
    squared, table = np.empty(n), np.zeros((k, 8))
    points = np.zeros((k, NARROW))
    points[:, :d] = centers.values
    given = block.rows, _weights(block), points, _parts(centers, "narrow"), squared, table
    if not _succeeds(scan_narrow_compiled, given, centers, 32 * n):
        return None
    counts = table[:, 6].astype(np.int64)
    moments = Moments(counts, table[:, 5].copy(), table[:, :d].copy(), table[:, 4].copy())
    return moments, squared, table[:, 7].copy()


def _scan_wide(block: Block, centers: Centers) -> Found | None:
    """Return the answer for other rows, which a product ranks."""
    rows, ranking, k = block.rows, centers.single, len(centers)
    n, d = rows.shape
    tile = COMPILED_TILE
    if ranking.height >= LEAST_COMPILED_TILE:
        tile = min(tile, ranking.height)
    factor, kind = rows, "plain"
    if rows.dtype != np.float32 or not ranking.shifts_little:
        factor, kind = block.scratch.array("left", (tile, d), np.float32), "shifted"
    scores = block.scratch.array("product", (tile, k), np.float32).reshape(-1)
    squared, reaches, moments = np.empty(n), np.zeros(k), Moments.none(k, d)
    shared = rows, _weights(block), centers.values, _parts(centers, kind)
    given = *shared, factor, scores, squared, moments.parts, reaches
    if not _succeeds(scan_compiled, given, centers, 2 * rows.size):
        return None
    return moments, squared, reaches


def _weights(block: Block) -> Float64Array:
    return np.empty(0) if block.weights is None else block.weights


def _succeeds(loop: Any, given: tuple[Any, ...], centers: Centers, work: int) -> bool:
    """Return whether the loop pays, and was not given up.

    `work` is what it saves, since its twins are compiled too, and a few times more, since Numba
    keeps what it compiles.
    """
    if not pays(loop, given, work):
        return False
    done: bool = loop(*given)
    if not done:
        vars(centers)[GIVEN_UP] = True
    return done


def _parts(centers: Centers, kind: str) -> ScanParts:
    """Return the arguments of a loop, made once for the centers."""
    known, name = vars(centers), f"joint_scan_{kind}"
    if name not in known:
        known[name] = _parts_anew(centers, kind)
    parts: ScanParts = known[name]
    return parts


def _parts_anew(centers: Centers, kind: str) -> ScanParts:
    ranking, (k, d) = centers.single, centers.values.shape
    shifted = kind != "plain"
    with np.errstate(all="ignore"):
        constants, gaps = ranking.constants(shifted), ranking.gaps(shifted)
    matrix = ranking.matrix[:d]
    if kind == "narrow":
        padded: Rows = np.zeros((-(-k // 4) * 4, NARROW + 1), np.float32)
        padded[k:, NARROW] = -np.inf
        padded[:k, :d], padded[:k, NARROW] = matrix.T, constants
        matrix = padded
    return (ranking.shift if shifted else ranking.shift[:0]), matrix, constants, gaps
