"""Numba, if it is installed: the options of compilation, and the switch for compiled loops.

A compiled loop returns the same bytes as its NumPy twin: sums go through the rows in the same
order, and ties are decided by the definition in `distance`.  A loop without a twin runs as plain
Python if there is no Numba.

Numba keeps compiled code until the file of the loop changes.  So all that a loop calls or takes
from outside is in its own file, or an argument.  The environment variable
``NUMBA_DISABLE_JIT=1`` turns compiled loops off.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

AVAILABLE = find_spec("numba") is not None
"""Whether kernels call compiled loops; tests set it to False."""
if AVAILABLE:
    import numba

    # Numba multiplies by the BLAS of SciPy: it is loaded here, before its threads are limited.
    import scipy.linalg  # noqa: F401

    AVAILABLE = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


def compile_loop(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Compile without fused or reordered arithmetic: each operation rounds once, as in NumPy."""
    if not AVAILABLE:
        return function
    try:
        return numba.njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # there is no folder to cache the compiled code in
        return numba.njit(nogil=True, error_model="numpy")(function)
