"""Jobs of a pass: what is done with the blocks of one shard, and how answers are merged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from dask_dpmeans.engine.occ import ReusableRound
from dask_dpmeans.engine.plan import Answer, Carried, Kernel, Reduction, Sink, merge_tree
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.sources.shards import Prepare, Shard, StoredShard

AnyShard = Shard | StoredShard


@dataclass(frozen=True)
class Known:
    """Kept answer of a shard that need not be read."""

    kept: Any


@dataclass(frozen=True)
class FoldJob(Generic[Answer]):
    """Job that reduces the blocks of each shard, and merges the answers of neighboring shards."""

    reduction: Reduction[Answer]
    prepare: Prepare
    block_rows: int

    def __call__(self, shard: AnyShard, blocks: range) -> Answer:
        """Return the answer of some blocks of a shard."""
        prepare = self.prepare.seen_by(self.reduction)
        if isinstance(shard, Shard) and getattr(self.reduction, "any_blocks", False):
            return self.reduction.chunk(shard.run(prepare, self.block_rows, blocks))
        found = shard.blocks(prepare, self.block_rows, blocks)
        return merge_tree(map(self.reduction.chunk, found), self.reduction.combine)

    @property
    def grows(self) -> bool:
        """Whether a merged answer is about as large as both together."""
        return getattr(self.reduction, "grows", False)

    def merge(self, answers: list[Answer]) -> Answer:
        """Return the answer of neighboring subtrees."""
        return merge_tree(answers, self.reduction.combine)


@dataclass(frozen=True)
class KeepJob(FoldJob[Any]):
    """Fold of shards that also answers what to keep of each, by the shard's first row."""

    reduction: ReusableRound[Any, Any]
    most_bytes: int
    """Bytes that may be kept of a shard."""

    def __call__(self, shard: AnyShard | Known, blocks: range) -> tuple[Any, dict[int, Any]]:
        """Return the answer of a shard, and what to keep of it."""
        if isinstance(shard, Known):
            return self.reduction.rule.restore(self.reduction.state, shard.kept), {}
        answer = super().__call__(shard, blocks)
        kept = self.reduction.rule.keep(answer, self.most_bytes)
        return answer, {} if kept is None else {shard.start: kept}

    def merge(self, answers: list[tuple[Any, dict[int, Any]]]) -> tuple[Any, dict[int, Any]]:
        """Return the answer of neighboring subtrees, and what to keep of all their shards."""
        kept = {start: each for _, some in answers for start, each in some.items()}
        return super().merge([answer for answer, _ in answers]), kept


@dataclass(frozen=True)
class CarryJob(Generic[Carried]):
    """Job that takes a state through the blocks of one shard after the other."""

    take: Callable[[Carried, Block], Carried]
    prepare: Prepare
    block_rows: int

    def __call__(self, shard: AnyShard, blocks: range, state: Carried) -> Carried:
        """Return the state after some blocks of a shard."""
        for block in shard.blocks(self.prepare, self.block_rows, blocks):
            state = self.take(state, block)
            del block
        return state


@dataclass(frozen=True)
class MapJob:
    """Job that runs a kernel on each block and gives its answers to a sink."""

    kernel: Kernel
    sink: Sink
    prepare: Prepare
    block_rows: int
    chunk_rows: int
    """Rows that the sink takes at once: a multiple of `block_rows`."""

    def __call__(self, shard: AnyShard, blocks: range) -> list[Any]:
        """Run the kernel on the blocks of a shard, and return the answers of the sink."""
        answers: list[tuple[Raw, ...]] = []
        per_chunk = self.chunk_rows // self.block_rows
        start, written = shard.start, []
        prepare = self.prepare.seen_by(self.kernel)
        for answer in map(self.kernel, shard.blocks(prepare, self.block_rows, blocks)):
            answers.append(answer)
            if len(answers) == per_chunk:
                written.append(self._write(start, answers))
                start += self.chunk_rows
                answers = []
        if answers:
            written.append(self._write(start, answers))
        return written

    def _write(self, start: int, answers: list[tuple[Raw, ...]]) -> Any:
        columns = zip(*answers, strict=True)
        return self.sink(start, tuple(np.concatenate(parts) for parts in columns))
