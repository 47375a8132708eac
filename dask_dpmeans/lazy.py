"""Names of a package (PEP 562), and modules, that are imported when they are first used.

A package lists its names once, as imports below ``if TYPE_CHECKING``: type checkers read them there,
and so does `lazy_names`.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def imported_names(file: str) -> dict[str, str]:
    """Return the names that a file imports below ``if TYPE_CHECKING``, with their modules."""
    found: dict[str, str] = {}
    for block in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        for each in block.body if isinstance(block, ast.If) else ():
            if isinstance(each, ast.ImportFrom):
                found |= {name.name: str(each.module) for name in each.names}
    return found


def lazy_names(package: str, file: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, whose ``__init__.py`` is the file."""
    modules = imported_names(file)

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
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
