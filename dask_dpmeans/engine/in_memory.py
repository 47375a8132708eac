"""Rows held in memory, as a source: what a search on a coreset works on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dask_dpmeans.engine.checkpoints import Shelf, digest
from dask_dpmeans.engine.plan import Answer, Kernel, Plan, Reduction, Shared, Sink, block_height, merge_tree
from dask_dpmeans.kernels.block import Block, Float64Array, Rows, Scratch
from dask_dpmeans.kernels.column_statistics import ColumnStatistics, Summary


def go_on() -> None:
    """Let work go on; the check of rows that nobody may take back."""


@dataclass(frozen=True)
class HeldRows:
    """Rows as kernels see them, and their weights; one thread works on them."""

    rows: Rows
    """(n, d), float32 or float64, C-contiguous."""
    weights: Float64Array | None
    """(n,)."""
    scale: Float64Array | None = None
    """(d,), what the columns were divided by before."""
    check: Callable[[], None] = field(default=go_on, compare=False, repr=False)
    """Called before each block: raises where nobody waits for the answer any more."""
    shelf: Shelf | None = field(default=None, compare=False, repr=False)
    """Where fits of these rows keep how far they have come."""

    @cached_property
    def plan(self) -> Plan:
        """Blocks as any source has them, in one shard."""
        n, d = self.rows.shape
        height = block_height(d)
        return Plan(n, height, -(-n // height))

    @cached_property
    def identity(self) -> str:
        """What tells these rows from others."""
        return digest(self.rows, self.weights, self.scale)

    @cached_property
    def summary(self) -> Summary:
        """Column statistics."""
        return self.fold(ColumnStatistics(float("inf")))

    def fold(self, reduction: Reduction[Answer], blocks: range | None = None, name: str = "fold") -> Answer:
        """Reduce all rows, or those of a run of blocks that is a subtree of the merge tree."""
        wanted = range(self.plan.n_blocks) if blocks is None else blocks
        scratch = Scratch()
        return merge_tree((reduction.chunk(self._block(number, scratch)) for number in wanted), reduction.combine)

    def map(self, kernel: Kernel, sink: Sink, name: str = "map") -> list[Any]:
        """Run a kernel on every block; return what the sink says of each."""
        scratch, height = Scratch(), self.plan.block_rows
        return [sink(number * height, kernel(self._block(number, scratch))) for number in range(self.plan.n_blocks)]

    def run(self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str = "run") -> list[Answer]:
        """Run jobs on something that they share, one after the other."""
        return [job(shared) for job in jobs]

    def _block(self, number: int, scratch: Scratch) -> Block:
        self.check()
        start = number * self.plan.block_rows
        part = slice(start, start + self.plan.block_rows)
        return Block(start, self.rows[part], None if self.weights is None else self.weights[part], scratch)
