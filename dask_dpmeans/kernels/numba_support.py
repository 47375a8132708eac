"""Numba: the options of compilation, and the switch for compiled loops.

A compiled loop returns the same bytes as its NumPy twin: sums go through the rows in the same
order, and ties are decided by the definition in `distance`.  A loop without a twin runs as plain
Python until it is compiled.

Compiling takes seconds.  So a loop that is asked for by `pays` is compiled only after calls, of
earlier processes too, have asked for so much work that it pays, or at once if so much is known to be
ahead.  A loop that Numba finds in its cache is used at once, or if Numba is still to be loaded, soon.

Where a variable starts at a literal number, Numba compiles what takes it for the literal, too: a
variable that a loop passes on starts at `np.int64(0)`.

Numba keeps compiled code until the text of the loop's file changes.  What the loop calls in other
files is a part of its name in the cache, so that it is compiled anew if one of them changes.

The environment variable ``NUMBA_DISABLE_JIT=1`` turns compiled loops off.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, update_wrapper
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar
from zlib import crc32

import numpy as np

from dask_dpmeans.lazy import LazyModule, paused_collector

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")

AVAILABLE = find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "") in ("", "0")
"""Whether kernels call compiled loops; tests set it to False."""
if AVAILABLE:
    # Numba multiplies by the BLAS of SciPy: it is loaded here, before its threads are limited.
    import scipy.linalg  # noqa: F401

LEAST_WORK = 2**30
"""Numbers that NumPy handles in about a second; tests set it to 0."""
PLAIN = 2**10
"""Numbers that NumPy handles while plain Python handles one."""
COMPILING = 1e-3
"""Seconds that Numba compiles a byte of code: 1.0e-3 to 1.4e-3 in loops that took 5 to 24 seconds."""
LOADING = 3 * 2**28
"""Work of all loops so far, or ahead of one, for which Numba is loaded: that took .25 to .3 seconds."""
CALL = 2**14
"""Numbers that NumPy handles in the time of a call, some 15 microseconds."""
UNIT = 2**28
"""Numbers that NumPy handles in about a quarter of a second."""
SHARE = 10
"""Past work counts for at most so many times the present: few rows never wait long."""
compiler = LazyModule("dask_dpmeans.kernels.numba_compiler")
"""It loads Numba, which takes longer than the rest of the package."""


class PastWork:
    """Work that NumPy did in earlier processes for want of one loop, for one kind of arguments.

    A process that makes one fit may never work long enough for compiling to pay, and the next is as
    slow.  So a file beside the code that Numba keeps has a byte for each `UNIT` numbers that NumPy has
    handled.  Bytes are only added, hence several processes may add at once, and no file can be damaged.
    Which of a loop and its twin works changes no bit of a result, so neither does a file that is lost,
    or that cannot be written.

    Parameters
    ----------
    file : a file that may not exist yet, or None if there is no folder
    """

    def __init__(self, file: Path | None) -> None:
        self.file, self.added = file, 0
        """Units that this process has added."""
        self.before = 0
        """Numbers that earlier processes handled."""
        if file is not None:
            with suppress(OSError):  # nothing was added yet
                self.before = file.stat().st_size * UNIT

    def with_present(self, work: int) -> int:
        """Return the numbers that were handled, now that this process has handled `work` of them."""
        return work + min(self.before, SHARE * work)

    def keep(self, work: int) -> None:
        """Add what is new of the numbers that this process has handled, if the file can be written."""
        new, file = work // UNIT - self.added, self.file  # which another thread may give up
        if file is None or new <= 0:
            return
        self.added += new
        try:
            with file.open("ab") as opened:
                opened.write(bytes(new))
        except OSError:  # a full disk, or a folder that is gone
            self.file = None


UNKNOWN = PastWork(None)
"""The past work of arguments for which Numba's cache was not asked yet."""


class CompiledLoop(Generic[Arguments, Returned]):
    """A loop that Numba takes when it is first called, or first called by another loop."""

    handled = 0
    """Numbers that the twins of all loops have handled; what threads add at once may be lost, which
    delays Numba and changes nothing else."""

    def __init__(self, function: Callable[Arguments, Returned], **options: Any) -> None:
        update_wrapper(self, function)
        self.function, self.options = function, options
        self.ready: set[tuple[Any, ...]] = set()
        """Kinds of arguments for which the loop is used."""
        self.work: dict[tuple[Any, ...], int] = {}
        """Numbers that the twin has handled, by the kinds of other arguments."""
        self.past: dict[tuple[Any, ...], PastWork] = {}
        """What earlier processes did, by the kinds for which Numba's cache was asked."""
        self.lock = Lock()
        """Held while one of several threads makes Numba's function."""
        self.known: Any = None
        """Numba's function, once it is made."""

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        result: Returned = self.compiled(*args, **kwargs)
        return result

    @property
    def compiled(self) -> Any:
        """Numba's function."""
        if self.known is None:
            with self.lock:
                if self.known is None:
                    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
                    options |= self.options
                    self.function.__qualname__ = self.function.__name__ + self.stamp
                    self.known = compiler.compile_function(self.function, options)
        return self.known

    def pays(
        self, arguments: tuple[Any, ...], work: int, ahead: int, others: "tuple[Loop, ...]"
    ) -> bool:
        """Return whether the loop is to be called rather than its twin; see `pays` below."""
        kinds = _kinds(arguments)
        if kinds in self.ready:
            return True
        done = self.add_work(kinds, work + CALL)
        handled = max(CompiledLoop.handled, ahead)
        if kinds not in self.past and (handled >= LOADING or "numba" in sys.modules):
            with paused_collector():
                self.past[kinds] = self._past(kinds)
                loaded = compiler.load_compiled(self.compiled, arguments)
            if loaded:
                self.ready.add(kinds)
                return True
        past = self.past.get(kinds, UNKNOWN)
        ready = max(past.with_present(done), ahead) >= seconds_of(self, *others) * LEAST_WORK
        if ready:
            self.ready.add(kinds)
        else:
            past.keep(done)
        return ready

    def add_work(self, kinds: tuple[Any, ...], work: int) -> int:
        """Add numbers that the twin handles for such arguments, and return how many it has handled."""
        CompiledLoop.handled += work
        done = self.work[kinds] = self.work.get(kinds, 0) + work
        return done

    def _past(self, kinds: tuple[Any, ...]) -> PastWork:
        """Return the work that earlier processes did for such arguments."""
        folder = self.compiled.stats.cache_path
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        name += f"-{crc32(repr(kinds).encode()):08x}.work"
        return PastWork(None if folder is None else Path(folder, name))

    @cached_property
    def parts(self) -> set[FunctionType]:
        """The functions of the loop and of all that it calls."""
        found: set[FunctionType] = set()
        open_loops: list[Loop] = [self]
        while open_loops:
            function: Any = open_loops.pop().function
            if function not in found:
                found.add(function)
                used = map(function.__globals__.get, function.__code__.co_names)
                open_loops += [each for each in used if isinstance(each, CompiledLoop)]
        return found

    @property
    def stamp(self) -> str:
        """Checksums of the texts of other files whose parts the loop calls; empty without any.

        A package in a zip file, or of compiled modules alone, has no such files, and changes as a whole.
        """
        found, files = "", {each.__code__.co_filename for each in self.parts}
        for each in sorted(files - {self.function.__code__.co_filename}):
            with suppress(OSError):
                found += f"-{crc32(Path(each).read_bytes()):08x}"
        return found

    @cached_property
    def plain(self) -> Callable[Arguments, Returned]:
        """The loop, and all that it calls, as plain Python."""
        function, names = self.function, self.function.__globals__
        used = {name: plain(names[name]) for name in function.__code__.co_names if name in names}
        found: Callable[Arguments, Returned] = FunctionType(function.__code__, names | used)
        return found

    @property
    def _numba_type_(self) -> Any:
        """The type by which Numba knows this loop where another loop calls it."""
        return self.compiled._numba_type_


class CompiledPart(CompiledLoop[Arguments, Returned]):
    """A loop that only other loops call; where Python calls it, it is plain Python.

    Numba makes no way into it from Python, and keeps it as a part of those that call it: .79 and .95
    of the time of compiling.
    """

    def __init__(self, function: Callable[Arguments, Returned]) -> None:
        super().__init__(function, no_cpython_wrapper=True, cache=False)

    def __call__(self, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        return self.plain(*args, **kwargs)


Loop = CompiledLoop[..., Any]


@cache
def seconds_of(*loops: Loop) -> float:
    """Return about how long Numba compiles loops and all that they call, by the bytes of their code."""
    parts = set[FunctionType]().union(*(loop.parts for loop in loops))
    return COMPILING * sum(len(each.__code__.co_code) for each in parts)


def pays(
    loop: Callable[..., Any],
    arguments: tuple[Any, ...],
    work: int,
    *,
    ahead: int = 0,
    others: tuple[Any, ...] = (),
) -> bool:
    """Return whether to call a loop with these arguments rather than its NumPy twin.

    Both give the same bytes.  A loop that Numba has yet to compile for such arguments waits until
    the twin has worked about as long as that takes: by the sizes of its arrays, not by the clock.

    Parameters
    ----------
    loop, arguments : what is called
    work : numbers that the twin handles in this call
    ahead : numbers that the twin would handle at least in this call and those that surely follow;
        if they take longer than compiling, the twin does not begin
    others : loops that will be called with this one, and are compiled too
    """
    if not (AVAILABLE and isinstance(loop, CompiledLoop)):
        return False
    return loop.pays(arguments, work, ahead, others)


def add_work(loop: Callable[..., Any], arguments: tuple[Any, ...], work: int) -> None:
    """Add numbers that the twin of a loop has handled, where only its end tells how many."""
    if AVAILABLE and isinstance(loop, CompiledLoop):
        loop.add_work(_kinds(arguments), work)


def compiled_or_plain(
    loop: Callable[Arguments, Returned],
    arguments: tuple[Any, ...],
    work: int,
    *,
    twin: Callable[Arguments, Returned] | None = None,
) -> Callable[Arguments, Returned]:
    """Return a loop to be called with these arguments, or until it pays its NumPy twin.

    A loop without a twin is plain Python until then.  The other parameters are as for `pays`.
    """
    if pays(loop, arguments, work):
        return loop
    found: Callable[Arguments, Returned] = plain(loop) if twin is None else twin
    return found


def plain(loop: Any) -> Any:
    """Return a loop as plain Python, as it is without Numba; anything else as it is."""
    return loop.plain if isinstance(loop, CompiledLoop) else loop


def _kinds(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what tells apart the arguments for which Numba compiles a loop anew."""
    found: list[Any] = []
    for each in arguments:
        if isinstance(each, np.ndarray):
            flags = each.flags
            layout = flags.c_contiguous or (flags.f_contiguous and "F")
            found.append((each.dtype, each.ndim, layout, flags.writeable))
        else:
            found.append(_kinds(each) if isinstance(each, tuple) else type(each))
    return tuple(found)


def compile_loop(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Compile without fused or reordered arithmetic: each operation rounds once, as in NumPy."""
    if AVAILABLE:
        return CompiledLoop(function)
    return function


def compile_part(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Compile as `compile_loop`, for other loops alone."""
    if AVAILABLE:
        return CompiledPart(function)
    return function


def compile_any_order(function: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Compile sums in any order, with fused arithmetic, where bounds of the rounding allow for it."""
    if AVAILABLE:
        return CompiledLoop(function, fastmath={"reassoc", "contract", "nsz"})
    return function
