"""Packages that scikit-learn and SciPy import for few of their functions are loaded once they are used.

They take longer to load than all else that a command needs, and hardly a command uses them.  A
`LazyLoader` is not made for several threads, so that a command postpones only what no function that
its threads call looks into.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

POSTPONED = ("numpy.f2py", "numpy.testing", "scipy.spatial.transform", "scipy.stats")
"""Packages that every command postpones."""
PANDAS = ("pandas",)
"""What a command without rows postpones too: readers of tables and scikit-learn look into it."""


class PostponingFinder:
    """Finds modules that are run when one of their names is first asked for."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of the names; None of others, which are imported as usual."""
        if fullname not in self.names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def postponed_imports(names: Sequence[str] = POSTPONED) -> Iterator[None]:
    """Import the packages with these names inside in this way."""
    finder = PostponingFinder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
