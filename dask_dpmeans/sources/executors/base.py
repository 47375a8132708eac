"""Functions that the executors share, keys of tasks, and values that travel in tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Answer, Shared, Stepwise, run_fits
from dask_dpmeans.sources.lazy_modules import is_delayed
from dask_dpmeans.sources.progress import Count, OnPass
from dask_dpmeans.sources.shards import Shard, StoredShard

Pieces = Sequence[tuple[Any, range]]
"""Shards, each with the range of its blocks to work on."""


def with_check(shared: Shared, check: Callable[[], None]) -> Any:
    """Return rows that call `check` before each block; anything else as it is."""
    if isinstance(shared, InMemoryRows | Shard | StoredShard):
        return replace(shared, check=check)
    return shared


def call_job(
    job: Callable[[Shared], Answer], shared: Shared, note: Callable[[Mapping[str, float]], None]
) -> Answer:
    """Run a job; `note` is called after each fit of a stepwise job."""
    if isinstance(job, Stepwise):
        return run_fits(job.each(shared), note)
    return job(shared)


def count_rows(on_pass: OnPass | None, name: str, job: Any, pieces: Pieces) -> Count:
    """Return the counter of a pass, in rows that are read."""
    sizes = [] if on_pass is None else [_rows_of(job.block_rows, *piece) for piece in pieces]
    return Count(on_pass, name, sizes)


def _rows_of(block_rows: int, shard: object, blocks: range) -> int:
    """Return the rows of a piece; 0 for a shard that is not read."""
    bounds = shard_bounds(shard)
    if len(bounds) < 2:
        return 0
    start, stop = bounds
    return min(start + blocks.stop * block_rows, stop) - (start + blocks.start * block_rows)


class Literal:
    """A value inside a task; as a node of the graph it would be a task of its own in each pass.

    It is not a dataclass, since Dask searches dataclasses for collections.
    """

    def __init__(self, value: Any) -> None:
        self.value = value


def value_of(given: Any) -> Any:
    """Return the value of a literal; anything else as it is."""
    if isinstance(given, Literal):
        return given.value
    return given


@dataclass(frozen=True)
class Keys:
    """Keys of the tasks of a graph; Dask groups tasks whose keys begin with the same words."""

    name: str
    graph: str

    @classmethod
    def of(cls, name: str) -> "Keys":
        """Return the keys of a new graph."""
        return cls(name, uuid4().hex[:8])

    def __call__(self, kind: str, *numbers: int) -> str:
        """Return the key of a task of some kind."""
        return "-".join(["dpmeans", self.name, kind, self.graph, *map(str, numbers)])


def kind_of(key: str) -> str:
    """Return the kind of a task of this package, and the key of another."""
    if key.startswith("dpmeans-"):
        return key.split("-")[1]
    return key


def graph_of(key: object) -> object:
    """Return the graph of a task of this package, and the key of another."""
    words = str(key).split("-")
    if words[0] == "dpmeans" and len(words) > 3:
        return words[3]
    return key


def key_numbers(key: str) -> list[int]:
    """Return the numbers at the end of a key: of a shard, and its first row and its end."""
    if not key.startswith("dpmeans-"):
        return []
    return [int(word) for word in key.split("-")[4:]]


def shard_bounds(shard: object) -> list[int]:
    """Return the first row of a shard and its end; nothing if it does not tell."""
    if is_delayed(shard):
        return key_numbers(shard.key)[1:]
    bounds = [getattr(value_of(shard), name, None) for name in ("start", "stop")]
    return [bound for bound in bounds if isinstance(bound, int)]
