"""The source that every method works on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from dask_dpmeans.engine.checkpoints import Shelf, digest
from dask_dpmeans.engine.in_memory import HeldRows
from dask_dpmeans.engine.plan import Answer, Carried, Kernel, Lasting, Plan, Reduction, Shared, Sink
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.column_statistics import Summary
from dask_dpmeans.sources.executors.base import Executor, call_job
from dask_dpmeans.sources.executors.process import one_blas_thread
from dask_dpmeans.sources.names import Names
from dask_dpmeans.sources.progress import Count
from dask_dpmeans.sources.shards import CarryJob, FoldJob, KeepJob, Known, MapJob, Prepare

PARTS = 8
"""Tasks that a fold of few shards is cut into, or up to twice as many; a cluster may have to copy the shard."""
KEPT_BYTES = 2**24
"""Of what is kept of all shards' answers, and as much goes to the coordinator and back in a pass."""
MOST_KEPT = 2**14
"""Bytes of that, of one shard."""


@dataclass(frozen=True)
class Last:
    """What the last pass left: the shards that need not be read if their answers stand."""

    reduction: Any = None
    kept: Mapping[int, Any] = field(default_factory=dict)
    """What was kept of the shards, by their first rows."""


@dataclass
class Ledger:
    """The one thing about a source that changes; answers never show it."""

    last: Last = Last()


@dataclass(frozen=True)
class RowSource:
    """Checked rows, cut into shards, and who works on them."""

    plan: Plan
    shards: tuple[Any, ...]
    """As the executor takes them."""
    executor: Executor
    prepare: Prepare
    summary: Summary
    """Of the rows as kernels see them."""
    stored_dtype: np.dtype[Any]
    """Of the input."""
    stored_columns: int
    """Columns of the input."""
    checksummed: bool
    """Whether a flipped bit in the input would be seen."""
    resident: bool
    """Whether rows are in memory: threads may share a shard then, and none need be left unread."""
    room: int = 0
    """Bytes that might be kept in memory beside the rows."""
    column_names: Names | None = None
    """Of the input, where it is a table."""
    shelf: Shelf | None = field(default=None, compare=False)
    """Where fits keep how far they have come."""
    ledger: Ledger = field(default_factory=Ledger, compare=False)
    """Where rows are read in each pass: what lasts of the answers of shards."""

    @property
    def n_features(self) -> int:
        """Columns that kernels see."""
        return self.stored_columns if self.prepare.sparse else len(self.summary.sums)

    @property
    def scale(self) -> Float64Array | None:
        """(d,), what the columns were divided by, if anything."""
        return self.prepare.scale

    @property
    def identity(self) -> str:
        """What tells these rows from others, as far as a summary tells."""
        return digest(self.plan.n_rows, self.plan.block_rows, self.scale, self.summary)

    def fold(self, reduction: Reduction[Answer], blocks: range | None = None, name: str = "fold") -> Answer:
        """Reduce all rows, or those of a run of blocks that is a subtree of the merge tree."""
        job = FoldJob(reduction, self.prepare, self.plan.block_rows)
        whole = blocks is None or len(blocks) == self.plan.n_blocks
        if whole and not self.resident and isinstance(reduction, Lasting):
            return self._fold_changed(job, reduction, name)
        parts = min(self.executor.threads, PARTS) if self.resident else 1
        return self.executor.fold(job, self._pieces(blocks, parts), name)

    def _fold_changed(self, job: FoldJob[Answer], reduction: Lasting[Answer], name: str) -> Answer:
        """Reduce all rows, and read only shards whose answers may have changed since the last time."""
        last = self.ledger.last
        with one_blas_thread():
            known = type(last.reduction) is type(reduction) and last.kept
            standing = reduction.standing(last.reduction, last.kept) if known else {}
        pieces = self._pieces(None)
        for place, start in enumerate(range(0, self.plan.n_rows, self.plan.shard_rows)):
            if start in standing:
                [shard] = self.executor.wrap([Known(standing[start])])
                pieces[place] = shard, pieces[place][1]
        most_bytes = min(MOST_KEPT, KEPT_BYTES // self.plan.n_shards)
        answer, kept = self.executor.fold(KeepJob(job, reduction, most_bytes), pieces, name)
        self.ledger.last = Last(reduction, standing | kept)
        return answer

    def carry(self, take: Callable[[Carried, Block], Carried], state: Carried, name: str = "carry") -> Carried:
        """Take a state through all blocks in row order, one after the other: for what is serial by nature."""
        job = CarryJob(take, self.prepare, self.plan.block_rows)
        return self.executor.carry(job, state, self._pieces(None), name)

    def map(self, kernel: Kernel, sink: Sink, name: str = "map") -> list[Any]:
        """Run a kernel on every block, and hand its answers to `sink` in runs of whole label chunks.

        Return what the sink says of each, in row order; so little that it may travel.
        """
        job = MapJob(kernel, sink, self.prepare, self.plan.block_rows, self.plan.chunk_rows)
        return list(chain.from_iterable(self.executor.map(job, self._pieces(None), name)))

    def here(self, job: Callable[["RowSource"], Answer], name: str = "run") -> Answer:
        """Run a job on these rows in this thread, whose passes are run where they always are."""
        with Count.of_jobs(self.executor.on_pass, name, [job]) as count:
            return call_job(job, self, partial(count.say, 0))

    def run(self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str = "run") -> list[Answer]:
        """Run jobs on something that they share, side by side where there are workers."""
        given: Any = replace(shared, shelf=self.shelf) if isinstance(shared, HeldRows) else shared
        return self.executor.run(jobs, given, name)

    def _pieces(self, blocks: range | None, wanted: int = 1) -> list[tuple[Any, range]]:
        among = range(self.plan.n_blocks) if blocks is None else blocks
        return [(self.shards[shard], which) for shard, which in self.plan.pieces(among, wanted)]
