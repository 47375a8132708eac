"""Local files made from a run: each appears when complete, and replaces only files of its kind."""

import os
from collections.abc import Callable
from pathlib import Path

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.storage.location import AnyPlace, Location, check_slashes

HEAD = 2000
"""Characters at the start of a file by which files of this package are known."""


def checked_target(
    out: str | os.PathLike[str],
    run: AnyPlace,
    what: str,
    is_ours: Callable[[Path], bool],
    *,
    force: bool,
) -> Path:
    """Return the path to write, if it is free.

    `is_ours` recognizes a file that holds a `what` of this package.
    """
    checks.switch("force", force)
    text = os.fspath(out) if isinstance(out, str | os.PathLike) else None
    if not isinstance(text, str) or "\0" in text:
        raise InputError(f"out must be the path of a file, got {checks.describe_value(out)}")
    check_slashes(text)
    if "://" in text:
        raise InputError(f"{text}: a {what} is written to a file of this machine, give its path")
    target, inside = Path(os.path.realpath(os.path.expanduser(text))), Location.at(run).url
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent} to put {target.name} in")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise InputError(
            f"this user may not write {target.name} in {target.parent}: change the permissions of "
            "the folder, or give another path"
        )
    if target.is_relative_to(os.path.realpath(inside)):
        raise InputError(f"{target} lies within {inside}: give another path")
    if not target.exists():
        return target
    if not (target.is_file() and is_ours(target)):
        raise InputError(
            f"{target} exists and is not a {what} of this package, so it is never written over: give another path"
        )
    if not force:
        raise InputError(f"{target} holds a {what}: force=True writes over it")
    return target


def head_of(path: Path) -> str:
    """Return the start of a file as text."""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(HEAD)
