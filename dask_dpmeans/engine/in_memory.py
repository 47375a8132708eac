"""Rows in memory as a source: a search on a coreset works on them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import get_ident
from typing import Any, Self

from dask_dpmeans.engine.checkpoints import CheckpointStore, digest
from dask_dpmeans.engine.plan import (
    Answer,
    Kernel,
    Plan,
    Reduction,
    Shared,
    Sink,
    block_height,
    merge_tree,
)
from dask_dpmeans.kernels.block import Block, Float64Array, Rows, Scratch, dense, takes_csr
from dask_dpmeans.kernels.column_statistics import ColumnStatistics, Summary


def go_on() -> None:
    """Let work go on; the check of rows whose job nobody can cancel."""


@dataclass(frozen=True)
class InMemoryRows:
    """Rows as kernels see them, and their weights; one thread works on them."""

    rows: Rows
    """(n, d), float32 or float64, C-contiguous; CSR rows are dense for kernels that do not take
    them."""
    weights: Float64Array | None
    """(n,); None if every row weighs 1."""
    scale: Float64Array | None = None
    """(d,), by which the columns were divided before; None if they were not."""
    check: Callable[[], None] = field(default=go_on, compare=False, repr=False)
    """Called before each block; raises if nobody waits for the answer any more."""
    memories: dict[tuple[int, int, bool], dict[str, Any]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """State that kernels keep of the blocks, for each thread; it does not travel with the rows."""
    checkpoints: CheckpointStore | None = field(default=None, compare=False, repr=False)
    """Where fits of these rows save their states; None to save nothing."""
    worker_room: float = field(default=math.inf, compare=False, repr=False)
    """Bytes of the worker that has the rows for all but the rows; infinite in this process."""

    @cached_property
    def plan(self) -> Plan:
        """Blocks as for any source, in one shard."""
        n, d = self.rows.shape
        height = block_height(d)
        return Plan(n, height, -(-n // height))

    @cached_property
    def identity(self) -> str:
        """Digest of the rows, weights and scale."""
        return digest(self.rows, self.weights, self.scale)

    @property
    def used_names(self) -> None:
        """Return None: the columns have no names."""
        return None

    @property
    def used_columns(self) -> None:
        """Return None: all columns are used."""
        return None

    @cached_property
    def summary(self) -> Summary:
        """Column statistics."""
        return self.fold(ColumnStatistics(float("inf")))

    def fold(
        self, reduction: Reduction[Answer], blocks: range | None = None, name: str = "fold"
    ) -> Answer:
        """Reduce all rows, or a run of blocks that is a subtree of the merge tree."""
        if blocks is None:
            blocks = range(self.plan.n_blocks)
        scratch = Scratch()
        csr = takes_csr(reduction)
        answers = (reduction.chunk(self._block(number, scratch, csr)) for number in blocks)
        return merge_tree(answers, reduction.combine)

    def map(self, kernel: Kernel, sink: Sink, name: str = "map") -> list[Any]:
        """Run a kernel on every block; return the answers of the sink."""
        scratch, csr = Scratch(), takes_csr(kernel)
        blocks = (self._block(number, scratch, csr) for number in range(self.plan.n_blocks))
        return [sink(block.start, kernel(block)) for block in blocks]

    def run(
        self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str = "run"
    ) -> list[Answer]:
        """Run jobs on a value that they share, one after the other."""
        return [job(shared) for job in jobs]

    def here(self, job: Callable[[Self], Answer], name: str = "run") -> Answer:
        """Run a job on these rows."""
        return job(self)

    def once(self, name: str, work: Callable[[], Answer]) -> Answer:
        """Return what `work` returns: passes over rows in memory are short."""
        return work()

    def _block(self, number: int, scratch: Scratch, csr: bool) -> Block:
        self.check()
        start = number * self.plan.block_rows
        part = slice(start, start + self.plan.block_rows)
        rows, weights = self.rows[part], self.weights
        if weights is not None:
            weights = weights[part]
        key = get_ident(), number, csr
        memory: dict[str, Any] = self.memories.setdefault(key, {})
        return Block(start, rows if csr else dense(rows), weights, scratch, memory)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"memories": {}}
