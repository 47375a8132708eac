"""Blocks, shards and the merge tree, as plain arithmetic.

A block is a run of rows fixed by global row number alone.  The answers of all blocks meet in one fixed binary tree
over block numbers; a shard is an aligned run of ``2**m`` blocks, a subtree of it, so that neither the grouping nor the
workers can change a result::

    blocks   0   1   2   3   4   5   6
              \\ /     \\ /     \\ /     |
               o       o       o     |      <- shards of 2 blocks end here
                \\     /         \\   /
                   o               o
                    \\____     ____/
                         \\   /
                           o
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from dask_dpmeans.engine.checkpoints import CheckpointStore
from dask_dpmeans.kernels.block import Block, Float64Array
from dask_dpmeans.kernels.column_statistics import Summary

Answer = TypeVar("Answer")
Carried = TypeVar("Carried")
Shared = TypeVar("Shared")

BLOCK_ELEMENTS = 2**19
"""Numbers in a block, about; 2 MB of float32."""
MOST_BLOCK_ROWS = 2**14
LEAST_BLOCK_ROWS = 2**8
ENOUGH_SHARDS = 2**12
"""Shards of a pass on a large cluster, as long as every thread has one."""
LABEL_CHUNKS = 64
"""Row-aligned results are written in about as many chunks, each of 1 to `LABEL_CHUNK_BLOCKS` blocks."""
LABEL_CHUNK_BLOCKS = 8


class Reduction(Protocol[Answer]):
    """A reduction over all rows, as a value: what a block answers, and how two neighbors' answers become one."""

    def chunk(self, block: Block) -> Answer:
        """The answer of one block."""
        ...

    def combine(self, left: Answer, right: Answer) -> Answer:
        """The answer of two neighboring runs of blocks, `left` before `right`."""
        ...


@runtime_checkable
class Lasting(Reduction[Answer], Protocol[Answer]):
    """A reduction whose answers may hold in the next pass too, so that a shard need not be read again."""

    def keep(self, answer: Answer, most_bytes: int) -> Any:
        """What to keep of a shard's answer for later passes; None where that would be more than `most_bytes`."""
        ...

    def standing(self, earlier: Any, kept: Mapping[int, Any]) -> dict[int, Any]:
        """What is kept of those shards that answer as they did in an earlier pass, a reduction of the same kind."""
        ...

    def restore(self, kept: Any) -> Answer:
        """The answer of which that was kept."""
        ...


@runtime_checkable
class Stepwise(Protocol):
    """A job that is made of fits, one after the other."""

    @property
    def n_fits(self) -> int | None:
        """How many; None where that shows on the way."""
        ...

    def each(self, shared: Any) -> Generator[Mapping[str, float], None, Any]:
        """Yield the `penalty` of each fit and the `n_clusters` that it gave, and return what the job answers."""
        ...


def finished(
    fits: Generator[Mapping[str, float], None, Answer], note: Callable[[Mapping[str, float]], None] = lambda fit: None
) -> Answer:
    """What a job made of fits answers in the end; `note` is called with what each came to."""
    while True:
        try:
            fit = next(fits)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        note(fit)


Kernel = Callable[[Block], tuple[np.ndarray[Any, Any], ...]]
"""What a map runs on each block: row-aligned answers."""
Sink = Callable[[int, tuple[np.ndarray[Any, Any], ...]], Any]
"""Where a map's answers go: the first row's number, and the answers of a run of rows.  It may say something of them."""


class Source(Protocol):
    """Rows, wherever they are: everything a method may ask of them."""

    @property
    def plan(self) -> "Plan":
        """How the rows are cut."""
        ...

    @property
    def scale(self) -> Float64Array | None:
        """(d,), what the columns were divided by, if anything."""
        ...

    @property
    def summary(self) -> Summary:
        """What the first pass found."""
        ...

    @property
    def identity(self) -> str:
        """What tells the rows from others."""
        ...

    @property
    def checkpoints(self) -> CheckpointStore | None:
        """Where fits keep how far they have come."""
        ...

    def fold(self, reduction: Reduction[Answer], blocks: range | None = None, name: str = "fold") -> Answer:
        """Reduce all rows, or those of a run of blocks that is a subtree of the merge tree."""
        ...

    def map(self, kernel: Kernel, sink: Sink, name: str = "map") -> list[Any]:
        """Run a kernel on every block, and hand its answers to `sink` in runs of whole label chunks.

        Return what the sink says of each, in row order.
        """
        ...

    def run(self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str = "run") -> list[Answer]:
        """Run jobs on something that they share, side by side where there are workers."""
        ...


def block_height(n_features: int) -> int:
    """Rows of a block, a power of two chosen from the number of columns alone.

    >>> block_height(1), block_height(16), block_height(128), block_height(10**6)
    (16384, 16384, 4096, 256)
    """
    return max(LEAST_BLOCK_ROWS, min(MOST_BLOCK_ROWS, power_of_two(BLOCK_ELEMENTS // n_features)))


def label_chunk(n_rows: int, block_rows: int) -> int:
    """Rows of a stored chunk of row-aligned results, a power of two: whole blocks, whatever the shards are.

    >>> label_chunk(1000, 256), label_chunk(10**6, 256), label_chunk(10**9, 256)
    (256, 2048, 2048)
    """
    return max(block_rows, min(LABEL_CHUNK_BLOCKS * block_rows, power_of_two(n_rows // LABEL_CHUNKS)))


def power_of_two(number: int) -> int:
    """The greatest power of two up to a number, at least 1."""
    return 1 << (max(1, number).bit_length() - 1)


@dataclass(frozen=True)
class Plan:
    """How rows are cut into blocks, and blocks into shards."""

    n_rows: int
    """Rows in all."""
    block_rows: int
    """Rows of a block, the last one excepted; a power of two."""
    shard_blocks: int
    """Blocks of a shard, the last one excepted; a power of two."""

    @property
    def n_blocks(self) -> int:
        """Blocks in all."""
        return -(-self.n_rows // self.block_rows)

    @property
    def shard_rows(self) -> int:
        """Rows of a shard, the last one excepted."""
        return self.block_rows * self.shard_blocks

    @property
    def chunk_rows(self) -> int:
        """Rows of a stored chunk of row-aligned results."""
        return label_chunk(self.n_rows, self.block_rows)

    @property
    def n_shards(self) -> int:
        """Shards in all."""
        return -(-self.n_rows // self.shard_rows)

    def rows_of(self, blocks: range) -> int:
        """Rows in a range of blocks."""
        return min(self.n_rows, blocks.stop * self.block_rows) - min(self.n_rows, blocks.start * self.block_rows)

    def shard_bounds(self) -> list[tuple[int, int]]:
        """First row and end of each shard."""
        return [(start, min(start + self.shard_rows, self.n_rows)) for start in range(0, self.n_rows, self.shard_rows)]

    def pieces(self, blocks: range, wanted: int = 1) -> list[tuple[int, range]]:
        """The shards that a range of blocks touches, each with its blocks in it, numbered within the shard.

        Where these are fewer than `wanted`, they are cut into smaller subtrees, down to blocks.
        """
        height = self.shard_blocks
        while height > 1 and -(-blocks.stop // height) - blocks.start // height < wanted:
            height //= 2
        cuts = [blocks.start, *range((blocks.start // height + 1) * height, blocks.stop, height), blocks.stop]
        within = [
            (start // self.shard_blocks, start % self.shard_blocks, stop - start) for start, stop in pairwise(cuts)
        ]
        return [(shard, range(first, first + count)) for shard, first, count in within]


def shard_blocks(n_rows: int, block_rows: int, n_threads: int, most_rows: int, stored_rows: int = 1) -> int:
    """Blocks of a shard, a power of two: about eight shards a thread, none over `most_rows` rows.

    Where that would be more than `ENOUGH_SHARDS` in all, there are fewer a thread, down to one: each is a task.
    Where that is less, a shard is a whole label chunk, and as high as what is stored together, so that tasks do not
    all decode the same.  The grouping never changes a result, so it may follow the threads and their memory.

    >>> shard_blocks(10**6, 256, 2, 10**9), shard_blocks(10**6, 256, 2, 1), shard_blocks(10**6, 256, 2, 1, 5000)
    (128, 8, 16)
    >>> shard_blocks(2**40, 2**14, 2**9, 2**40), shard_blocks(2**40, 2**14, 2**12, 2**40)
    (16384, 16384)
    """
    wanted = max(n_threads, min(8 * n_threads, ENOUGH_SHARDS))
    rows = power_of_two(min(n_rows // wanted, most_rows))
    return max(label_chunk(n_rows, block_rows), power_of_two(stored_rows), rows) // block_rows


def doublings(n_blocks: int) -> Iterator[range]:
    """Runs of blocks that double from the first block on; each is a subtree.

    >>> list(doublings(5))
    [range(0, 1), range(1, 2), range(2, 4), range(4, 5)]
    """
    start = 0
    while start < n_blocks:
        stop = min(max(1, 2 * start), n_blocks)
        yield range(start, stop)
        start = stop


def merge_tree(answers: Iterable[Answer], combine: Callable[[Answer, Answer], Answer]) -> Answer:
    """Merge the answers of neighboring subtrees of one size, in order, as the fixed tree does.

    The last may be smaller, as the tail of the rows is.

    >>> merge_tree("abcdefg", lambda left, right: f"({left}{right})")
    '(((ab)(cd))((ef)g))'
    """
    waiting: list[tuple[int, Answer]] = []
    for answer in answers:
        level = 0
        while waiting and waiting[-1][0] == level:
            answer = combine(waiting.pop()[1], answer)
            level += 1
        waiting.append((level, answer))
    _, merged = waiting.pop()
    while waiting:
        merged = combine(waiting.pop()[1], merged)
    return merged
