"""Numba, if it is installed: the options of compilation, and the switch for compiled loops.

A compiled loop returns the same bytes as its NumPy twin: sums go through the rows in the same
order, and ties are decided by the definition in `distance`.  A loop without a twin runs as plain
Python if there is no Numba.

Numba keeps compiled code until the file of the loop changes.  So all that a loop calls or takes
from outside is in its own file, or an argument.  The environment variable
``NUMBA_DISABLE_JIT=1`` turns compiled loops off.
"""

import os
from collections.abc import Callable
from functools import cached_property, update_wrapper
from importlib.util import find_spec
from typing import Any, Generic, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

AVAILABLE = find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "") in ("", "0")
"""Whether kernels call compiled loops; tests set it to False."""
if AVAILABLE:
    # Numba multiplies by the BLAS of SciPy: it is loaded here, before its threads are limited.
    import scipy.linalg  # noqa: F401


class CompiledLoop(Generic[Arguments, Returned]):
    """A loop that Numba takes when it is first called, or first called by another loop.

    From then on the name in its module is Numba's own function, so that later calls cost no more.
    """

    def __init__(self, function: Callable[Arguments, Returned], **options: Any) -> None:
        update_wrapper(self, function)
        self.function, self.options = function, options

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        result: Returned = self.compiled(*args, **kwargs)
        return result

    @cached_property
    def compiled(self) -> Any:
        """Numba's function."""
        # It takes longer to load than the rest of the package.
        import numba  # noqa: PLC0415

        options = {"nogil": True, "error_model": "numpy", **self.options}
        try:
            compiled = numba.njit(cache=True, **options)(self.function)
        except RuntimeError:  # there is no folder to cache the compiled code in
            compiled = numba.njit(**options)(self.function)
        names = self.function.__globals__
        names.update({name: compiled for name, value in names.copy().items() if value is self})
        return compiled

    @property
    def _numba_type_(self) -> Any:
        """The type by which Numba knows this loop where another loop calls it."""
        return self.compiled._numba_type_


def compile_loop(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Compile without fused or reordered arithmetic: each operation rounds once, as in NumPy."""
    if AVAILABLE:
        return CompiledLoop(function)
    return function


def compile_any_order(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Compile sums in any order, with fused arithmetic, where bounds of the rounding allow for it."""
    if AVAILABLE:
        return CompiledLoop(function, fastmath={"reassoc", "contract", "nsz"})
    return function
