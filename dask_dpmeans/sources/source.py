"""The source that every method works on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dask_dpmeans.blocks import Answer, Carried, Kernel, Lasting, Plan, Reduction, Shared, Sink
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.survey import Summary
from dask_dpmeans.sources.executors import Executor
from dask_dpmeans.sources.shards import CarryJob, FoldJob, KeepJob, Known, MapJob, Prepare


@dataclass
class Ledger:
    """What lasts of the answers of a source's shards."""

    reduction: Any = None
    """Of the last pass."""
    kept: dict[int, Any] = field(default_factory=dict)
    """By the shards' first rows."""


PARTS = 8
"""Tasks that a fold of few shards is cut into, at most; on a cluster a shard is on one worker, or has to be copied."""


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
    resident: bool
    """Whether rows are in memory, so that threads may share a shard and nothing is read twice."""
    ledger: Ledger = field(default_factory=Ledger, compare=False)
    """Of rows that are read in each pass."""

    @property
    def n_features(self) -> int:
        """Columns that kernels see."""
        return len(self.summary.sums)

    @property
    def scale(self) -> Float64Array | None:
        """(d,), what the columns were divided by, if anything."""
        return self.prepare.scale

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
        ledger = self.ledger
        same = type(ledger.reduction) is type(reduction) and ledger.kept
        standing = reduction.standing(ledger.reduction, ledger.kept) if same else {}
        pieces = self._pieces(None)
        for place, start in enumerate(range(0, self.plan.n_rows, self.plan.shard_rows)):
            if start in standing:
                [known] = self.executor.wrap([Known(standing[start])])
                pieces[place] = known, pieces[place][1]
        answer, kept = self.executor.fold(KeepJob(job, reduction), pieces, name)
        ledger.reduction, ledger.kept = reduction, standing | kept
        return answer

    def carry(self, take: Callable[[Carried, Block], Carried], state: Carried, name: str = "carry") -> Carried:
        """Take a state through all blocks in row order, one after the other: for what is serial by nature."""
        job = CarryJob(take, self.prepare, self.plan.block_rows)
        return self.executor.carry(job, state, self._pieces(None), name)

    def map(self, kernel: Kernel, sink: Sink, name: str = "map") -> None:
        """Run a kernel on every block, and hand its answers to `sink` in runs of whole label chunks."""
        job = MapJob(kernel, sink, self.prepare, self.plan.block_rows, self.plan.chunk_rows)
        self.executor.each(job, self._pieces(None), name)

    def run(self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str = "run") -> list[Answer]:
        """Run jobs on something that they share, side by side where there are workers."""
        return self.executor.run(jobs, shared, name)

    def scaled(self, scale: Float64Array) -> "RowSource":
        """The same rows, each column divided by `scale`, (d,)."""
        prepare = replace(self.prepare, scale=scale)
        return replace(self, prepare=prepare, summary=self.summary.scaled(scale), ledger=Ledger())

    def _pieces(self, blocks: range | None, wanted: int = 1) -> list[tuple[Any, range]]:
        among = range(self.plan.n_blocks) if blocks is None else blocks
        return [(self.shards[shard], which) for shard, which in self.plan.pieces(among, wanted)]
