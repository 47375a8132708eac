"""Names of a package (PEP 562), and modules, that are imported when they are first used."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import resolve_name
from threading import RLock
from typing import Any


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Parameters
    ----------
    package : name of the package
    homes : names, with spaces between them, by their module; a dot stands for the package
    """
    modules = {
        name: resolve_name(home, package) for home, names in homes.items() for name in names.split()
    }

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with paused_collector():
            value = getattr(__import__(modules[name], fromlist=[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name


class LazyModule:
    """A module that is imported when one of its names is first asked for."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


class PausedCollector:
    """Pauses of the garbage collector, by several threads at once, or one inside another.

    The end of a pause may collect garbage at once, and so call finalizers, which may pause too: they
    get the lock of their own thread, and the pause around them counts until the collector is as before.
    """

    def __init__(self) -> None:
        self.lock, self.pauses, self.enabled = RLock(), 0, False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Collect no garbage while modules are imported: they make many objects, and all of these stay."""
        with self.lock:
            self.pauses += 1
            if self.pauses == 1:
                self.enabled = gc.isenabled()
                gc.disable()
        try:
            yield
        finally:
            with self.lock:
                if self.enabled and self.pauses == 1:
                    gc.enable()
                self.pauses -= 1


paused_collector = PausedCollector()
