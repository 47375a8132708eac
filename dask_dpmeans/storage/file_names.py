"""Names of the files that this package writes into outputs; no other file is ever removed."""

import re
from collections.abc import Iterable
from functools import cache

from dask_dpmeans.storage import lock
from dask_dpmeans.storage.array_spec import TABLES

LOCK = lock.NAME
"""The file of the lock."""
STEPS = "steps"
"""The group of the steps of an output."""
MARK = f"{STEPS}/zarr.json"
"""The file that marks an output of this package while it is made or removed."""
BOUND = f"{STEPS}/bound"
"""The group of a lower bound of the objective of a run."""
CHECKPOINTS = "searches"
"""The folder of the checkpoints beside the steps."""
PARTIAL = re.compile(r"\.[0-9a-f]{32}\.partial$")
"""The end of the names of files that Zarr has not renamed yet; a killed job may leave one."""
_ARRAY = r"(zarr\.json|c(/\d+)*)"
_STEP = rf"{STEPS}/(zarr\.json|bound/zarr\.json|{CHECKPOINTS}/[0-9a-f]{{64}}|\d+/(zarr\.json|(state|history)/{_ARRAY}))"


def is_written(entry: str, arrays: Iterable[str] = ()) -> bool:
    """Return whether an output with arrays of these names has files of this path.

    Zarr drops the ending of a file that it has written in part.
    """
    pattern = _pattern(frozenset(arrays))
    partial = PARTIAL.search(entry)
    if partial is None:
        return pattern.fullmatch(entry) is not None
    path = entry[: partial.start()]
    return pattern.fullmatch(path) is not None or pattern.fullmatch(f"{path}.json") is not None


@cache
def _pattern(arrays: frozenset[str]) -> re.Pattern[str]:
    member = rf"({'|'.join(sorted(map(re.escape, arrays)))})/{_ARRAY}"
    found = rf"zarr\.json|{LOCK}|{TABLES}/zarr\.json|{_STEP}"
    if arrays:
        found = rf"{found}|({TABLES}/)?{member}"
    return re.compile(found)


def top_or_path(entry: str, arrays: Iterable[str]) -> str:
    """Return the folder of a foreign file, or its path in a folder that this package writes."""
    top = entry.partition("/")[0]
    if top in {"zarr.json", STEPS, TABLES, *arrays}:
        return entry
    return top
