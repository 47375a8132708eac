"""The keyword options of public functions, by name and type, so that a type checker knows a wrong one."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypedDict

from distributed import Client

from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.sources.progress import OnPass


class Where(TypedDict, total=False):
    """Where to work, as `as_source` takes it."""

    client: Client | None
    threads: int | None
    memory_limit: int | None
    worker_timeout: float
    on_pass: OnPass | None


class Opening(Where, total=False):
    """The same, and how a store is read."""

    fill_missing: bool


class Stored(Opening, total=False):
    """The same, and what fsspec takes for URLs."""

    storage_options: Mapping[str, Any] | None


class Reading(Stored, total=False):
    """The same, and what is made of the columns."""

    columns: Sequence[int] | None
    scale: Literal["std"] | Float64Array | None


SMALL_BLOCKS = "block_rows"
"""An option of `as_source` that no function names: blocks smaller than usual, for small data of many blocks."""


def check_option_names(function: str, given: Mapping[str, Any], known: type[Any]) -> None:
    """Refuse options that a function does not know, under its own name.

    Raises
    ------
    TypeError
        As Python raises it for a keyword that a function does not take.
    """
    for name in given:
        if name not in known.__annotations__ and name != SMALL_BLOCKS:
            near = get_close_matches(name, known.__annotations__, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")
