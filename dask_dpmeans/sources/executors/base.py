"""Functions that the executors share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Answer, Shared, Stepwise, run_fits
from dask_dpmeans.sources.executors.keys import shard_bounds
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
