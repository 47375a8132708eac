"""Blocks, shards and the merge tree, as plain arithmetic, and what a method may ask of its rows.

*Block*: a run of rows, the unit of work of every kernel.  Its bounds are fixed by global row
numbers and by the number of columns alone (`block_height`), never by the chunks of the input.

*Shard*: a run of ``2**m`` blocks that one task handles.  The number of threads and their memory
decide how high it is.

*Merge tree*: the answers of all blocks are merged in pairs, in one fixed binary tree over block
numbers.  A shard is a subtree of it, so shards and workers never change a result::

    blocks   0   1   2   3   4   5   6
              \\ /     \\ /     \\ /     |
               o       o       o     |      <- shards of 2 blocks end here
                \\     /         \\   /
                   o               o
                    \\____     ____/
                         \\   /
                           o

Methods ask two things of a `Source`.  A *fold* runs a `Reduction` on each block, and merges the
small answers in the tree: sums, proposals, farthest rows.  A *map* runs a `Kernel` on each block,
and keeps its answers row by row: labels, distances, features.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from dask_dpmeans.engine.checkpoints import Checkpointed
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
FEW_SHARDS = 2**6
"""Shards of a pass, however few rows they have, if there are threads for them."""
LABEL_CHUNKS = 64
"""Chunks of row-aligned results, about; each has 1 to `LABEL_CHUNK_BLOCKS` blocks."""
LABEL_CHUNK_BLOCKS = 8


class Reduction(Protocol[Answer]):
    """A reduction over all rows: the answer of a block, and the merge of two answers.

    It may have two attributes, both false if they are missing.  `any_blocks`: the answer is the
    same, to the byte, for blocks of any height, so that rows in memory need not be cut.  `grows`:
    a merged answer is about as large as both together, so that workers should not merge.
    """

    def chunk(self, block: Block) -> Answer:
        """Return the answer of one block."""

    def combine(self, left: Answer, right: Answer) -> Answer:
        """Merge the answers of two neighboring runs of blocks, `left` before `right`."""


@runtime_checkable
class Stepwise(Protocol):
    """A job made of fits, one after the other."""

    @property
    def n_fits(self) -> int | None:
        """Number of fits; None if it is not known before; 0 for a job of one fit, which tells of its steps."""

    def each(self, shared: Any) -> Generator[Mapping[str, float], None, Any]:
        """Yield `penalty` and `n_clusters` of each fit, and return the answer of the job.

        Of a step, only `n_clusters` is known.
        """


def run_fits(
    fits: Generator[Mapping[str, float], None, Answer],
    note: Callable[[Mapping[str, float]], None] = lambda fit: None,
) -> Answer:
    """Run a job made of fits, and return its answer; `note` is called with what each fit yields."""
    while True:
        try:
            fit = next(fits)
        except StopIteration as end:
            answer: Answer = end.value
            return answer
        note(fit)


Kernel = Callable[[Block], tuple[np.ndarray[Any, Any], ...]]
"""Function that a map runs on each block; its answers are aligned with the rows."""
Sink = Callable[[int, tuple[np.ndarray[Any, Any], ...]], Any]
"""Receiver of the answers of a map: takes the first row number and the answers of a run of rows."""


class Source(Checkpointed, Protocol):
    """Rows, and all that a method may ask of them."""

    @property
    def plan(self) -> "Plan":
        """Blocks and shards of the rows."""

    @property
    def scale(self) -> Float64Array | None:
        """(d,), by which the columns were divided; None if they were not."""

    @property
    def summary(self) -> Summary:
        """Column statistics of the first pass."""

    @property
    def used_names(self) -> Sequence[Any] | None:
        """Names of the columns, (d,); None if they have none."""

    @property
    def used_columns(self) -> Sequence[int] | None:
        """Numbers of the columns, (d,), in the input; None if all of them are used."""

    @property
    def worker_room(self) -> float:
        """Bytes of a worker for all but the rows; infinite in this process, which has no limit."""

    def fold(
        self, reduction: Reduction[Answer], blocks: range | None = None, name: str = "fold"
    ) -> Answer:
        """Reduce all rows, or a run of blocks that is a subtree of the merge tree."""

    def map(self, kernel: Kernel, sink: Sink, name: str = "map") -> list[Any]:
        """Run a kernel on every block, and pass its answers to `sink` in whole label chunks.

        Return the answers of the sink, in row order.
        """

    def run(
        self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str = "run"
    ) -> list[Answer]:
        """Run jobs on a value that they share, at the same time if there are workers."""

    def here(self, job: Callable[[Self], Answer], name: str = "run") -> Answer:
        """Run a job on these rows in this thread; progress is told of it."""

    def once(self, name: str, work: Callable[[], Answer]) -> Answer:
        """Return what `work` returned when it was last called for these rows by this name.

        It is called if that is not known.
        """


def block_height(n_features: int) -> int:
    """Return the rows of a block, a power of two chosen from the number of columns alone.

    >>> block_height(1), block_height(16), block_height(128), block_height(10**6)
    (16384, 16384, 4096, 256)
    """
    return max(LEAST_BLOCK_ROWS, min(MOST_BLOCK_ROWS, power_of_two(BLOCK_ELEMENTS // n_features)))


def label_chunk(n_rows: int, block_rows: int) -> int:
    """Return the rows of a stored chunk of row-aligned results: a power of two, and whole blocks.

    >>> label_chunk(1000, 256), label_chunk(10**6, 256), label_chunk(10**9, 256)
    (256, 2048, 2048)
    """
    rows = power_of_two(n_rows // LABEL_CHUNKS)
    return max(block_rows, min(LABEL_CHUNK_BLOCKS * block_rows, rows))


def power_of_two(number: int) -> int:
    """Return the greatest power of two up to a number, at least 1."""
    return 1 << (max(1, number).bit_length() - 1)


@dataclass(frozen=True)
class Plan:
    """The division of rows into blocks, and of blocks into shards."""

    n_rows: int
    block_rows: int
    """Rows of each block but the last; a power of two."""
    shard_blocks: int
    """Blocks of each shard but the last; a power of two."""

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return -(-self.n_rows // self.block_rows)

    @property
    def shard_rows(self) -> int:
        """Rows of each shard but the last."""
        return self.block_rows * self.shard_blocks

    @property
    def chunk_rows(self) -> int:
        """Rows of a stored chunk of row-aligned results."""
        return label_chunk(self.n_rows, self.block_rows)

    @property
    def n_shards(self) -> int:
        """Number of shards."""
        return -(-self.n_rows // self.shard_rows)

    def rows_of(self, blocks: range) -> int:
        """Return the number of rows in a range of blocks."""
        start, stop = blocks.start * self.block_rows, blocks.stop * self.block_rows
        return min(self.n_rows, stop) - min(self.n_rows, start)

    def shard_bounds(self) -> list[tuple[int, int]]:
        """Return the first row and the end of each shard."""
        starts = range(0, self.n_rows, self.shard_rows)
        return [(start, min(start + self.shard_rows, self.n_rows)) for start in starts]

    def pieces(self, blocks: range, wanted: int = 1) -> list[tuple[int, range]]:
        """Return the shards of a range of blocks, each with its blocks, numbered within the shard.

        Fewer shards than `wanted` are cut into smaller subtrees, down to blocks.
        """
        height = self.shard_blocks
        while height > 1 and -(-blocks.stop // height) - blocks.start // height < wanted:
            height //= 2
        inner = range((blocks.start // height + 1) * height, blocks.stop, height)
        found = []
        for start, stop in pairwise([blocks.start, *inner, blocks.stop]):
            shard, first = divmod(start, self.shard_blocks)
            found.append((shard, range(first, first + stop - start)))
        return found


def shard_blocks(
    n_rows: int,
    block_rows: int,
    n_threads: int,
    most_rows: int,
    stored_rows: int = 1,
    heavy_rows: int = 1,
    per_thread: int = 8,
) -> int:
    """Return the blocks of a shard, a power of two, for about `per_thread` shards a thread.

    A shard has at most `most_rows`.

    From `ENOUGH_SHARDS` on there are fewer shards a thread, down to one, since each is a task.
    From `FEW_SHARDS` on, none has fewer than `heavy_rows`, the rows that are worth a task.  A shard
    is at least a label chunk and as high as `stored_rows`, the rows stored together, so that
    tasks do not all decode the same chunk.  The grouping never changes a result, so it may follow
    the threads and their memory.

    >>> shard_blocks(10**6, 256, 2, 10**9), shard_blocks(10**6, 256, 2, 1), shard_blocks(10**6, 256, 2, 1, 5000)
    (128, 8, 16)
    >>> shard_blocks(2**40, 2**14, 2**9, 2**40), shard_blocks(2**40, 2**14, 2**12, 2**40)
    (16384, 16384)
    """
    wanted = max(n_threads, min(per_thread * n_threads, ENOUGH_SHARDS))
    wanted = min(wanted, max(FEW_SHARDS, n_rows // heavy_rows))
    rows = power_of_two(min(n_rows // wanted, most_rows))
    return max(label_chunk(n_rows, block_rows), power_of_two(stored_rows), rows) // block_rows


def doublings(n_blocks: int) -> Iterator[range]:
    """Yield runs of blocks that double from the first block on; each is a subtree.

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

    The last subtree may be smaller.

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
