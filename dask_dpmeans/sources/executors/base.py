"""`Executor`, and what its two kinds share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Carried, Shared, Stepwise, run_fits
from dask_dpmeans.sources.executors.keys import shard_bounds
from dask_dpmeans.sources.progress import Count, OnPass
from dask_dpmeans.sources.shards import (
    AnyFold,
    AnyShard,
    CarryJob,
    Checked,
    Known,
    MapJob,
    Shard,
    StoredShard,
)

Answer = TypeVar("Answer")
Pieces = Sequence[tuple[Any, range]]
"""Shards, each with the range of its blocks to work on."""


class Executor(Protocol):
    """Runs jobs on shards."""

    @property
    def threads(self) -> int:
        """Number of jobs that run at once."""
        ...

    @property
    def on_pass(self) -> OnPass | None:
        """Observer of the progress."""
        ...

    def load(self, shards: Sequence[StoredShard]) -> Sequence[Any]:
        """Load the rows of shards, and return the shards as pieces."""
        ...

    def wrap(self, shards: Sequence[AnyShard | Known]) -> Sequence[Any]:
        """Return shards as pieces, as they are."""
        ...

    def fold(self, job: AnyFold[Answer], pieces: Pieces, name: str) -> Answer:
        """Merge the answers of all pieces along the tree."""
        ...

    def carry(self, job: CarryJob[Carried], state: Carried, pieces: Pieces, name: str) -> Carried:
        """Take a state through all pieces, in order."""
        ...

    def map(self, job: MapJob, pieces: Pieces, name: str) -> list[list[Any]]:
        """Return the answer of each piece."""
        ...

    def run(
        self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str
    ) -> list[Answer]:
        """Run jobs on one shared input, side by side if there are workers."""
        ...


def with_check(shared: Shared, check: Callable[[], None]) -> Any:
    """Return rows that call `check` before each block; anything else as it is."""
    if isinstance(shared, InMemoryRows):
        return replace(shared, check=check)
    if isinstance(shared, Shard | StoredShard):
        return Checked(shared, check)
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
