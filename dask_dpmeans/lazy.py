"""Names of a package that are imported when they are first asked for (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib.util import resolve_name
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
        value = getattr(__import__(modules[name], fromlist=[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name
