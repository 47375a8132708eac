"""Packages that scikit-learn and SciPy import for few of their functions are loaded once they are used.

Together they take longer to load than all else that `show` needs, which uses none of them.  Commands
that work with rows do not postpone imports: a `LazyLoader` is not made for several threads.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType

POSTPONED = ("numpy.f2py", "numpy.testing", "pandas", "scipy.spatial.transform", "scipy.stats")


class PostponingFinder:
    """Finds modules that are run when one of their names is first asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of one of `POSTPONED`; None of others, which are imported as usual."""
        if fullname not in POSTPONED:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def postponed_imports() -> Iterator[None]:
    """Import the packages of `POSTPONED` inside in this way."""
    finder = PostponingFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
