"""Checks of kernels: parameters of names, symmetry of functions, and Gram matrices."""

from typing import Any

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.engine.plan import Source
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Rows
from dask_dpmeans.kernels.kernel_functions import Gram, Symmetry
from dask_dpmeans.kernels.random_streams import Stream, stream

ASYMMETRY = 1e-6
"""The greatest difference of a row and a column of a Gram matrix, as a share of the greatest sum of
absolute values of a row."""
CHECKED_ROWS = 2**8
"""Rows for which the symmetry of a function is checked."""
DEFAULTS = {"gamma": None, "degree": 3, "coef0": 1.0}
USES = {"rbf": ("gamma",), "poly": ("gamma", "degree", "coef0")}
"""Parameters that each kernel uses."""


def checked_kernel(
    kernel: Any, names: tuple[str, ...], gamma: float | None, degree: int, coef0: float
) -> dict[str, Any]:
    """Return `gamma`, `degree` and `coef0` as Python's numbers, if valid and of use with a kernel.

    The kernel must be a function, or one of `names`.
    """
    named = isinstance(kernel, str) and kernel in names
    if not (named or callable(kernel)):
        listed, got = ", ".join(repr(name) for name in names), checks.describe_value(kernel)
        raise InputError(
            f"kernel must be one of {listed}, or a function of two arrays of rows, got {got}"
        )
    if gamma is not None:
        gamma = checks.number("gamma", gamma, or_none=" or None")
    degree, coef0 = checks.integer("degree", degree), checks.number("coef0", coef0, "")
    found = {"gamma": gamma, "degree": degree, "coef0": coef0}
    used = USES.get(kernel, ()) if named else ()
    for name, value in found.items():
        if value != DEFAULTS[name] and name not in used:
            raise InputError(
                f"{name} has no use with kernel={kernel!r}, got {value!r}: leave it out"
            )
    return found


def check_function(gram: Gram, rows: Rows) -> None:
    """Refuse a function that is not symmetric in its two arrays of rows; `rows` are (n, d)."""
    some = gram.columns(rows[:CHECKED_ROWS], slice(CHECKED_ROWS))
    apart = np.abs(some - some.T)
    if apart.max() > ASYMMETRY * np.abs(some).max():
        first, second = np.unravel_index(apart.argmax(), apart.shape)
        raise InputError(
            f"kernel(A, B) must be kernel(B, A).T, but gives {some[first, second]:g} for rows {first} and "
            f"{second}, and {some[second, first]:g} for these the other way round"
        )


def check_gram(source: Source, n: int, d: int) -> None:
    """Refuse a Gram matrix, (n, d), that is not square, scaled, not symmetric or not positive."""
    if n != d:
        raise InputError(
            f"kernel='precomputed' needs the similarities of all pairs of rows, (n, n), got {(n, d)}"
        )
    if source.scale is not None:
        raise InputError("kernel='precomputed' takes similarities as they are: leave the scale out")
    factors = stream(0, Stream.GRAMIAN_SYMMETRY).uniform(1, 2, n)
    found = source.fold(Symmetry(factors), name="symmetry")
    apart = np.abs(found.across - found.down)
    if apart.max() > ASYMMETRY * found.sums.max():
        raise InputError(
            f"kernel='precomputed' needs a symmetric matrix: row {apart.argmax():,} and column "
            f"{apart.argmax():,} differ; (K + K.T) / 2 is symmetric"
        )
    wrong = np.flatnonzero((found.diagonal < 0) | ((found.diagonal == 0) & (found.sums > 0)))
    if wrong.size:
        raise InputError(
            f"kernel='precomputed' needs similarities, but row {wrong[0]:,} has {found.diagonal[wrong[0]]:g} "
            "with itself, and others are not 0: np.exp(-gamma * D**2) makes similarities of distances D"
        )
