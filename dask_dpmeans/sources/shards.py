"""Shards: the rows that one task handles, in memory or read in pieces as they are needed."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from scipy.sparse import issparse, vstack

from dask_dpmeans.engine.in_memory import go_on
from dask_dpmeans.engine.plan import Carried, Kernel, Lasting, Reduction, Sink, merge_tree
from dask_dpmeans.errors import CorruptStoreError, InputError, of_store
from dask_dpmeans.kernels.block import Block, Features, Float64Array, Rows, Scratch
from dask_dpmeans.sources.formats.csr import dense_rows, float_rows, part_of, row_bytes_of, stored_values
from dask_dpmeans.sources.row_array import Raw, RawRows

Answer = TypeVar("Answer")
Piece = tuple[RawRows | None, ...]
"""Rows, their weights, and their groups, as they are stored; None for what was not given."""

PIECE_BYTES = 2**24
"""Read at a time from a store: whole chunks, up to about this."""
MOST_CHUNKS = 4096
"""Chunks of rows that are read at a time; each costs memory of its own, however small it is."""


@dataclass(frozen=True)
class Prepare:
    """How rows as they are stored become rows that kernels see."""

    dtype: np.dtype[Any]
    """float32 or float64."""
    columns: tuple[int, ...] | None = None
    """The columns used, in order; None for all."""
    scale: Float64Array | None = None
    """What each column is divided by, in float64, before rounding to `dtype`."""
    features: Features | None = None
    """What is made of these rows; None where kernels see them as they are."""
    sparse: bool = False
    """Whether kernels see CSR rows as such, in float64; otherwise those of one block at a time are made dense."""
    keep: bool = False
    """Whether features of rows in memory are kept there too: of 200,000 x 16 rows 100 features by Nystroem took 0.9 s a
    pass, all else 0.1 s."""

    def n_columns(self, stored_columns: int) -> int:
        """Return how many of the stored columns are used."""
        return stored_columns if self.columns is None else len(self.columns)

    @property
    def key(self) -> tuple[Any, ...]:
        """Identity of the prepared rows among all that are made of the same stored rows."""
        scale = None if self.scale is None else self.scale.tobytes()
        return self.dtype.str, self.columns, scale, self.features, self.sparse

    def __call__(self, raw: RawRows, scratch: Scratch) -> Rows:
        """Rows, C-contiguous and aligned: the same memory where nothing changes, and in `scratch` otherwise.

        Rows that came from another worker may start at an odd address, and NumPy sums such arrays in another order.
        """
        if self.sparse:
            return float_rows(raw)
        if self.columns is not None:
            raw = raw[:, list(self.columns)]
        if issparse(raw):
            raw = dense_rows(raw, self.dtype, scratch)
        if self.scale is not None:
            raw = np.divide(raw, self.scale, out=scratch.array("scaled", raw.shape, np.float64))
        rows = aligned(raw, self.dtype, scratch, "rows")
        return rows if self.features is None else self.features(rows, scratch)


def aligned(raw: Raw, dtype: np.dtype[Any], scratch: Scratch, name: str) -> np.ndarray[Any, Any]:
    """The same numbers as `dtype`, C-contiguous and aligned; copied to `scratch` only where they are not so already."""
    if raw.dtype == dtype and raw.flags.c_contiguous and raw.flags.aligned:
        return raw
    copy = scratch.array(name, raw.shape, dtype)
    copy[...] = raw
    return copy


@dataclass(frozen=True)
class Shard:
    """Rows in memory."""

    start: int
    """Global number of the first row."""
    rows: RawRows
    """(height, columns as stored)."""
    weights: Raw | None
    """(height,)."""
    groups: Raw | None = None
    """(height,)."""
    memories: dict[Any, dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    """What kernels keep of the blocks; it stays where it is when the rows go elsewhere."""

    @property
    def stop(self) -> int:
        """Global number of the row after the last."""
        return self.start + int(self.rows.shape[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.start, self.rows, self.weights, self.groups)

    def blocks(self, prepare: Prepare, block_rows: int, which: range) -> Iterator[Block]:
        """Some of the shard's blocks, in order."""
        scratch = Scratch()
        for number in which:
            part = slice(number * block_rows, (number + 1) * block_rows)
            piece = _part(self.rows, part), _part(self.weights, part), _part(self.groups, part)
            memory = self.memories.setdefault((number, block_rows, prepare.key), {})
            yield _block(self.start + number * block_rows, piece, prepare, scratch, memory)


@dataclass(frozen=True)
class StoredShard:
    """Rows that are read from arrays (Zarr's, or any that are sliced the same way) each time they are needed."""

    start: int
    stop: int
    data: Any
    """(n, columns as stored)."""
    weights: Any
    """(n,), or None; (stop - start,) where it is a NumPy array."""
    groups: Any = None
    """As the weights."""

    def blocks(self, prepare: Prepare, block_rows: int, which: range) -> Iterator[Block]:
        """Some of the shard's blocks, in order; the next piece is read while one is worked on."""
        start = self.start + which.start * block_rows
        stop = min(self.start + which.stop * block_rows, self.stop)
        scratch = Scratch()
        for piece in _blocks_of(self._pieces(start, stop), block_rows):
            block = _block(start, piece, prepare, scratch)
            yield block
            start += block.rows.shape[0]

    def load(self, check: Callable[[], None] = go_on) -> Shard:
        """The same rows, in memory; `check` is called before each piece is read."""
        if stored_values(self.data) is not None:
            rows, weights, groups = self.read(self.start, self.stop)
            return Shard(self.start, rows, weights, groups)
        rows = np.empty((self.stop - self.start, self.data.shape[1]), self.data.dtype)
        for start, stop in self._bounds(self.start, self.stop):
            check()
            rows[start - self.start : stop - self.start] = self.read(start, stop)[0]
        weights, groups = (self._beside(array, self.start, self.stop) for array in (self.weights, self.groups))
        return Shard(self.start, rows, weights, groups)

    def _pieces(self, start: int, stop: int) -> Iterator[Piece]:
        bounds = self._bounds(start, stop)
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self.read, *bounds[0])
            for next_bounds in bounds[1:]:
                piece = coming.result()
                coming = ahead.submit(self.read, *next_bounds)
                yield piece
            yield coming.result()

    def read(self, start: int, stop: int) -> Piece:
        try:
            return self.data[start:stop], *(self._beside(array, start, stop) for array in (self.weights, self.groups))
        except (InputError, MemoryError):
            raise
        except Exception as error:  # of the store, or what a codec says of a damaged chunk
            kind = OSError if of_store(error) else CorruptStoreError
            raise kind(f"rows {start:,} to {stop:,} of {_named(self.data)} cannot be read: {error}") from error

    def _beside(self, array: Any, start: int, stop: int) -> Raw | None:
        """The weights or groups of some rows."""
        if isinstance(array, np.ndarray):
            start, stop = start - self.start, stop - self.start
        return None if array is None else np.asarray(array[start:stop])

    def _bounds(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Pieces that end on chunk boundaries, so that no chunk is read twice, those at the shard's ends excepted."""
        step = read_rows(self.data)
        cuts = [start, *range((start // step + 1) * step, stop, step), stop]
        return list(pairwise(cuts))


def _block(
    start: int,
    piece: Piece,
    prepare: Prepare,
    scratch: Scratch,
    memory: dict[str, Any] | None = None,
) -> Block:
    rows, weights, groups = piece
    assert rows is not None
    each = None if weights is None else aligned(weights, np.dtype(np.float64), scratch, "weights")
    sets = None if groups is None else aligned(groups, np.dtype(np.int64), scratch, "groups")
    return Block(start, _prepared(rows, prepare, scratch, memory), each, scratch, memory, sets)


def _prepared(rows: Raw, prepare: Prepare, scratch: Scratch, memory: dict[str, Any] | None) -> Rows:
    """Rows as kernels see them, kept where they are to be."""
    if memory is None or not prepare.keep:
        return prepare(rows, scratch)
    if "rows" not in memory:
        memory["rows"] = prepare(rows, scratch).copy()
    kept: Rows = memory["rows"]
    return kept


def _part(array: RawRows | None, part: slice) -> RawRows | None:
    return None if array is None else part_of(array, part.start, part.stop)


def _named(data: Any) -> str:
    """An array and its chunks, for an error."""
    chunks = f", chunks of {data.chunks[0]:,} rows" if getattr(data, "chunks", None) else ""
    return f"{getattr(data, 'store_path', type(data).__name__)}{chunks}"


def piece_rows(data: Any) -> int:
    """Rows that are best read together: those of a shard of a sharded Zarr array where it is small, or of a chunk."""
    grids = [grid for grid in (getattr(data, "shards", None), getattr(data, "chunks", None)) if grid]
    heights = [int(grid[0]) for grid in grids if isinstance(grid[0], int)]
    row_bytes = row_bytes_of(data)
    small = [height for height in heights if height * row_bytes <= PIECE_BYTES]
    return max(small) if small else min(heights, default=1)


def read_rows(data: Any) -> int:
    """Rows that are read at a time."""
    unit = piece_rows(data)
    return max(1, min(PIECE_BYTES // (row_bytes_of(data) * unit), MOST_CHUNKS)) * unit


def _blocks_of(pieces: Iterable[Piece], block_rows: int) -> Iterator[Piece]:
    """Cut a stream of pieces into blocks; only the rows of a block that spans pieces are copied."""
    held: list[Piece] = []
    missing = block_rows
    for piece in pieces:
        start, n = 0, piece[0].shape[0] if piece[0] is not None else 0
        while start < n:
            stop = min(start + missing, n)
            held.append(tuple(_part(array, slice(start, stop)) for array in piece))
            missing -= stop - start
            start = stop
            if not missing:
                yield _joined(held)
                held, missing = [], block_rows
    if held:
        yield _joined(held)


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    return tuple(None if arrays[0] is None else _stacked(arrays) for arrays in zip(*pieces, strict=True))


def _stacked(arrays: tuple[RawRows, ...]) -> RawRows:
    return vstack(arrays, "csr") if issparse(arrays[0]) else np.concatenate(arrays)


@dataclass(frozen=True)
class Known:
    """What stands for a shard that need not be read: what is kept of its answer."""

    kept: Any


@dataclass(frozen=True)
class Checked:
    """A shard whose blocks come for as long as somebody waits for the answer."""

    shard: Shard | StoredShard
    check: Callable[[], None]
    """Called before each block: raises where nobody waits any more."""

    @property
    def start(self) -> int:
        """Global number of the first row."""
        return self.shard.start

    @property
    def stop(self) -> int:
        """Global number of the row after the last."""
        return self.shard.stop

    def blocks(self, prepare: Prepare, block_rows: int, which: range) -> Iterator[Block]:
        """Some of the shard's blocks, in order."""
        self.check()
        for block in self.shard.blocks(prepare, block_rows, which):
            yield block
            self.check()


AnyShard = Shard | StoredShard | Checked


class AnyFold(Protocol[Answer]):
    """What runs on each shard, and on the answers of neighboring shards."""

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        ...

    def __call__(self, shard: Any, blocks: range) -> Answer:
        """The answer of some blocks of a shard."""
        ...

    def merge(self, answers: list[Answer]) -> Answer:
        """The answer of neighboring subtrees."""
        ...


@dataclass(frozen=True)
class FoldJob(Generic[Answer]):
    """What a fold runs on each shard, and on the answers of neighboring shards."""

    reduction: Reduction[Answer]
    prepare: Prepare
    block_rows: int

    def __call__(self, shard: AnyShard, blocks: range) -> Answer:
        """The answer of some blocks of a shard."""
        answers = map(self.reduction.chunk, shard.blocks(self.prepare, self.block_rows, blocks))
        return merge_tree(answers, self.reduction.combine)

    def merge(self, answers: list[Answer]) -> Answer:
        """The answer of neighboring subtrees."""
        return merge_tree(answers, self.reduction.combine)


@dataclass(frozen=True)
class KeepJob(Generic[Answer]):
    """A fold of whole shards that also answers what lasts of them, by the shards' first rows."""

    fold: FoldJob[Answer]
    reduction: Lasting[Answer]
    """That of the fold."""
    most_bytes: int
    """Of what is kept of a shard."""

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        return self.fold.block_rows

    def __call__(self, shard: AnyShard | Known, blocks: range) -> tuple[Answer, dict[int, Any]]:
        """The answer of a shard, and what to keep of it."""
        if isinstance(shard, Known):
            return self.reduction.restore(shard.kept), {}
        answer = self.fold(shard, blocks)
        kept = self.reduction.keep(answer, self.most_bytes)
        return answer, {} if kept is None else {shard.start: kept}

    def merge(self, answers: list[tuple[Answer, dict[int, Any]]]) -> tuple[Answer, dict[int, Any]]:
        """The answer of neighboring subtrees, and what to keep of all their shards."""
        kept = {start: each for _, some in answers for start, each in some.items()}
        return self.fold.merge([answer for answer, _ in answers]), kept


@dataclass(frozen=True)
class CarryJob(Generic[Carried]):
    """What a carry runs on each shard, one after the other."""

    take: Callable[[Carried, Block], Carried]
    prepare: Prepare
    block_rows: int

    def __call__(self, shard: AnyShard, blocks: range, state: Carried) -> Carried:
        """The state after some blocks of a shard."""
        for block in shard.blocks(self.prepare, self.block_rows, blocks):
            state = self.take(state, block)
        return state


@dataclass(frozen=True)
class MapJob:
    """What a map runs on each shard."""

    kernel: Kernel
    sink: Sink
    prepare: Prepare
    block_rows: int
    chunk_rows: int
    """Rows of what the sink takes at once: whole blocks."""

    def __call__(self, shard: AnyShard, blocks: range) -> list[Any]:
        """Run the kernel on a whole shard and hand its answers on; return what the sink says of them."""
        held: list[tuple[np.ndarray[Any, Any], ...]] = []
        per_chunk = self.chunk_rows // self.block_rows
        start, said = shard.start, []
        for block in shard.blocks(self.prepare, self.block_rows, blocks):
            held.append(self.kernel(block))
            if len(held) == per_chunk:
                said.append(self._hand_on(start, held))
                start += self.chunk_rows
                held = []
        if held:
            said.append(self._hand_on(start, held))
        return said

    def _hand_on(self, start: int, held: list[tuple[np.ndarray[Any, Any], ...]]) -> Any:
        return self.sink(start, tuple(np.concatenate(parts) for parts in zip(*held, strict=True)))
