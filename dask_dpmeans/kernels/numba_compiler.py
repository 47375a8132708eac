"""The calls of Numba itself: `numba_support` loads this module when a compiled loop is first used."""

import logging
import time
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

logger = logging.getLogger(__name__)

PATIENCE = 1.0
"""Seconds of compiling after which the user is told."""
MESSAGE = "Numba compiles loops of dask_dpmeans, which can take half a minute, "
KEPT = "and keeps what it compiles for the next time"
NOT_KEPT = "each time anew, since no folder for the compiled code can be written: set NUMBA_CACHE_DIR to one"


def compile_function(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return Numba's function, which compiles when it is called, and keeps what it compiles."""
    try:
        return numba.njit(**{"cache": True, **options})(function)
    except RuntimeError:  # there is no folder to cache the compiled code in
        teller.then = NOT_KEPT
        return numba.njit(**options)(function)


def load_compiled(compiled: Any, arguments: tuple[Any, ...]) -> bool:
    """Load what a function of Numba was compiled to for such arguments; return whether it was."""
    types = tuple(numba.typeof(each) for each in arguments)
    with global_compiler_lock:
        if types in compiled.overloads:
            return True
        try:
            cache = FunctionCache(compiled.py_func)
        except RuntimeError:  # there is no folder
            return False
        context = cpu_target.target_context
        found = cache.load_overload(types, context)
        if found is None:
            return False
        context.insert_user_function(found.entry_point, found.fndesc, [found.library])
        compiled.add_overload(found)
        return True


class Teller(event.Listener):
    """Tells the user once that loops of this package are compiled, if that takes longer."""

    def __init__(self) -> None:
        self.has_warned, self.then = False, KEPT
        self.depth, self.started, self.seconds = 0, 0.0, 0.0
        """Loops that are compiled at the moment, one within the other; and the time they take."""

    def on_start(self, event: event.Event) -> None:
        """Note that a function is about to be compiled."""
        if not self.depth:
            module = event.data["dispatcher"].py_func.__module__
            if not module.startswith("dask_dpmeans."):
                return
            self.started = time.perf_counter()
        self.depth += 1
        if not self.has_warned and self.seconds + time.perf_counter() - self.started >= PATIENCE:
            self.has_warned = True
            logger.warning(MESSAGE + self.then)

    def on_end(self, event: event.Event) -> None:
        """Note that a function was compiled, or could not be."""
        if self.depth:
            self.depth -= 1
            if not self.depth:
                self.seconds += time.perf_counter() - self.started


teller = Teller()
event.register("numba:compile", teller)
