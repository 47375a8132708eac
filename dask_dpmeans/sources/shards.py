"""Shards: the rows of one task, in memory or read in pieces as they are needed."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from dask_dpmeans.engine.in_memory import go_on
from dask_dpmeans.errors import CorruptStoreError, InputError, of_store, reason_of, unseen
from dask_dpmeans.kernels.block import Block, Features, Float64Array, Rows, Scratch, takes_csr
from dask_dpmeans.sources.formats import csr
from dask_dpmeans.sources.formats.cube import CubeRows, CubeWeights
from dask_dpmeans.sources.formats.cube_values import RunRows
from dask_dpmeans.sources.formats.local_chunks import LocalChunks
from dask_dpmeans.sources.row_array import Raw, RawRows, RowArray

Piece = tuple[RawRows, Raw | None, Raw | None]
"""Rows, their weights and their groups, as they are stored; weights and groups may be None."""

PIECE_BYTES = 2**24
"""Bytes that are read at a time from a store, about, in whole chunks."""
MOST_CHUNKS = 4096
"""Chunks of rows that are read at a time, at most; each costs memory, even a small one."""


@dataclass(frozen=True)
class Prepare:
    """Map from stored rows to the rows that kernels see."""

    dtype: np.dtype[Any]
    """float32 or float64."""
    columns: tuple[int, ...] | None = None
    """Columns that are used, in order; None for all."""
    scale: Float64Array | None = None
    """(d,) divisors of the columns, applied in float64 before rounding to `dtype`."""
    features: Features | None = None
    """Map of each row after that; None if kernels see the rows themselves."""
    sparse: bool = False
    """Whether kernels see CSR rows, in float64; otherwise each block is made dense."""
    csr: bool = False
    """Whether kernels that take CSR rows see them so."""
    keep_csr: bool = False
    """Whether these are kept in memory, as `keep` says of dense features."""
    keep: bool = False
    """Whether features of rows in memory are kept there.

    100 Nystroem features of 200,000 x 16 rows took 0.9 s a pass, all other work 0.1 s.
    """
    missing: bool = False
    """Whether NaN is a missing value; else it is an error."""

    def n_columns(self, stored_columns: int) -> int:
        """Return how many of the stored columns are used."""
        if self.columns is None:
            return stored_columns
        return len(self.columns)

    @property
    def key(self) -> tuple[object, ...]:
        """Identity of the prepared rows among all that are made of the same stored rows."""
        scale = None if self.scale is None else self.scale.tobytes()
        return self.dtype.str, self.columns, scale, self.features, self.sparse

    def seen_by(self, worker: object) -> "Prepare":
        """Return how rows are prepared for a kernel or a reduction, which may take CSR rows."""
        if not (self.csr and takes_csr(worker)):
            return self
        return replace(self, sparse=True, keep=self.keep_csr)

    def __call__(self, raw: RawRows, scratch: Scratch) -> Rows:
        """Return prepared rows, (height, d), C-contiguous and aligned.

        They are the stored rows themselves if nothing changes, and in `scratch` otherwise.  Rows
        from another worker may be unaligned, and NumPy sums such arrays in another order.
        """
        if self.columns is not None:
            raw = raw[:, list(self.columns)]
        if self.sparse:
            tidy = csr.float_rows(raw)
            return tidy if self.features is None else self.features(tidy, scratch)
        if issparse(raw):
            raw = csr.dense_rows(raw, self.dtype, scratch)
        if self.scale is not None:
            scaled = scratch.array("scaled", raw.shape, np.float64)
            raw = np.divide(raw, self.scale, out=scaled)
        rows = align(raw, self.dtype, scratch, "rows")
        if self.features is None:
            return rows
        return self.features(rows, scratch)


def align(raw: Raw, dtype: np.dtype[Any], scratch: Scratch, name: str) -> Raw:
    """Return numbers as `dtype`, C-contiguous and aligned, copied to `scratch` if needed."""
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
    """(height, stored columns)."""
    weights: Raw | None
    """(height,)."""
    groups: Raw | None = None
    """(height,)."""
    memories: dict[Any, dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)
    """State that kernels keep of the blocks; it does not travel with the rows."""
    check: Callable[[], None] = field(default=go_on, repr=False, compare=False, kw_only=True)
    """Called before each block; raises if the answer is not wanted any more."""

    @property
    def stop(self) -> int:
        """Global number of the row after the last."""
        return self.start + int(self.rows.shape[0])

    def __reduce__(self) -> tuple[object, ...]:
        return Shard, (self.start, self.rows, self.weights, self.groups)

    def blocks(self, prepare: Prepare, block_rows: int, which: range) -> Iterator[Block]:
        """Yield some of the shard's blocks, in order."""
        scratch = Scratch()
        piece = self.rows, self.weights, self.groups
        for number in which:
            self.check()
            part = slice(number * block_rows, (number + 1) * block_rows)
            memory = self.memories.setdefault((number, block_rows, prepare.key), {})
            yield _block(self.start + part.start, _part(piece, part), prepare, scratch, memory)

    def run(self, prepare: Prepare, block_rows: int, which: range) -> Block:
        """Return neighboring blocks as one."""
        self.check()
        part = slice(which.start * block_rows, which.stop * block_rows)
        piece = _part((self.rows, self.weights, self.groups), part)
        return _block(self.start + part.start, piece, prepare, Scratch())


@dataclass(frozen=True)
class StoredShard:
    """Rows that are read each time they are needed, from Zarr or other arrays that are sliced."""

    start: int
    stop: int
    data: Any
    """(n, stored columns)."""
    weights: Any
    """(n,), or None; a NumPy array is (stop - start,)."""
    groups: Any = None
    """As the weights."""
    ahead: bool = field(default=True, kw_only=True)
    """Whether the next piece is read in the meantime, so that two are in memory."""
    check: Callable[[], None] = field(default=go_on, repr=False, compare=False, kw_only=True)
    """Called before each block and piece; raises if the answer is not wanted any more."""

    def blocks(self, prepare: Prepare, block_rows: int, which: range) -> Iterator[Block]:
        """Yield some of the shard's blocks, in order; no piece stays beyond its last block."""
        start = self.start + which.start * block_rows
        stop = min(self.start + which.stop * block_rows, self.stop)
        scratch = Scratch()
        self.check()
        for piece in _cut_blocks(self._pieces(start, stop), block_rows):
            height = piece[0].shape[0]
            yield _block(start, piece, prepare, scratch)
            del piece
            start += height
            self.check()

    def load(self) -> Shard:
        """Return the rows in memory."""
        if csr.stored_values(self.data) is not None:
            return Shard(self.start, *self.read(self.start, self.stop))
        n = self.stop - self.start
        rows = np.empty((n, self.data.shape[1]), self.data.dtype)
        latitudes = np.empty(n) if isinstance(self.weights, CubeWeights) else None
        scratch = Scratch()
        for start, stop in self._bounds(self.start, self.stop):
            self.check()
            part = slice(start - self.start, stop - self.start)
            found, weights, _ = self.read(start, stop, scratch)
            if isinstance(found, RunRows):
                found.write(rows[part])
            else:
                rows[part] = found
            del found
            if latitudes is not None:
                latitudes[part] = weights
        of_rows = self.weights if latitudes is None else latitudes
        weights = self._read(of_rows, self.start, self.stop)
        return Shard(self.start, rows, weights, self._read(self.groups, self.start, self.stop))

    def _pieces(self, start: int, stop: int) -> Iterator[Piece]:
        """Yield pieces; the next but one overwrites a piece, or the next one if none is read ahead."""
        bounds = self._bounds(start, stop)
        scratch, other = Scratch(), Scratch()
        if not self.ahead:
            yield from (self.read(*each, scratch) for each in bounds)
            return
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self.read, *bounds[0], scratch)
            for next_bounds in bounds[1:]:
                piece = coming.result()
                scratch, other = other, scratch
                coming = ahead.submit(self.read, *next_bounds, scratch)
                yield piece
                del piece
            yield coming.result()

    def read(self, start: int, stop: int, scratch: Scratch | None = None) -> Piece:
        """Read the rows from `start` to before `stop`, maybe into `scratch`; errors name them."""
        try:
            if isinstance(self.data, CubeRows):
                latitude = self.weights if isinstance(self.weights, CubeWeights) else None
                rows, weights = self.data.read(start, stop, latitude)
            else:
                rows, weights = self._rows(start, stop, scratch or Scratch()), None
            if weights is None:
                weights = self._read(self.weights, start, stop)
            return rows, weights, self._read(self.groups, start, stop)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # of the store, or of a codec that meets a damaged chunk
            if isinstance(error, FileNotFoundError) and error.filename is not None:  # on a disk
                raise unseen(error.filename) from error
            kind = OSError if of_store(error) else CorruptStoreError
            what = f"rows {start:,} to {stop:,} of {_name_of(self.data)}"
            raise kind(f"{what} cannot be read: {reason_of(error)}") from error

    def _rows(self, start: int, stop: int, scratch: Scratch) -> RawRows:
        """Read rows, (stop - start, stored columns)."""
        chunks = LocalChunks.of(self.data)
        found: RawRows | None = None if chunks is None else chunks.read(start, stop, scratch)
        return self.data[start:stop] if found is None else found

    def _read(self, array: RowArray | None, start: int, stop: int) -> Raw | None:
        if array is None:
            return None
        offset = self.start if isinstance(array, np.ndarray) else 0
        return np.asarray(array[start - offset : stop - offset])

    def _bounds(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return pieces that end on chunk boundaries, so that inner chunks are read once."""
        if isinstance(self.data, CubeRows):
            return self.data.pieces(start, stop)
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
    """Return a block of prepared rows; rows without any value get weight 0."""
    rows, weights, groups = piece
    if weights is not None:
        weights = align(weights, np.dtype(np.float64), scratch, "weights")
    if groups is not None:
        groups = align(groups, np.dtype(np.int64), scratch, "groups")
    if memory is None or not prepare.keep:
        prepared = prepare(rows, scratch)
    else:
        if "rows" not in memory:
            memory["rows"] = prepare(rows, scratch).copy()
        prepared = memory["rows"]
    if prepare.missing:
        empty = _empty_rows(rows, prepare, memory)
        if empty is not None:
            weights = np.where(empty, 0.0, 1.0 if weights is None else weights)
    return Block(start, prepared, weights, scratch, memory, groups)


def _empty_rows(rows: RawRows, prepare: Prepare, memory: dict[str, Any] | None) -> Raw | None:
    """Return which rows, (n,), have no value in the used columns; None if all have one.

    `memory` keeps the answer between passes.
    """
    if memory is not None and "empty" in memory:
        return memory["empty"]
    used = rows if prepare.columns is None else rows[:, list(prepare.columns)]
    empty: Raw = np.isnan(used.toarray() if issparse(used) else used).all(axis=1)
    found = empty if empty.any() else None
    if memory is not None:
        memory["empty"] = found
    return found


def _part(piece: Piece, part: slice) -> Piece:
    rows, weights, groups = piece
    return (
        csr.part_of(rows, part.start, part.stop),
        None if weights is None else weights[part],
        None if groups is None else groups[part],
    )


def _name_of(data: object) -> str:
    """Return the name of an array and its chunks, for an error."""
    name = str(getattr(data, "store_path", type(data).__name__))
    chunks = getattr(data, "chunks", None)
    return f"{name}, chunks of {chunks[0]:,} rows" if chunks else name


def piece_rows(data: RowArray) -> int:
    """Return how many rows of (n, ...) data are best read together: a small shard or a chunk."""
    grids = getattr(data, "shards", None), getattr(data, "chunks", None)
    heights = [int(grid[0]) for grid in grids if grid and isinstance(grid[0], int)]
    row_bytes = csr.row_bytes_of(data)
    small = [height for height in heights if height * row_bytes <= PIECE_BYTES]
    if small:
        return max(small)
    return min(heights, default=1)


def read_rows(data: RowArray) -> int:
    """Return how many rows of (n, ...) data are read at a time."""
    unit = piece_rows(data)
    return max(1, min(PIECE_BYTES // (csr.row_bytes_of(data) * unit), MOST_CHUNKS)) * unit


def _cut_blocks(pieces: Iterable[Piece], block_rows: int) -> Iterator[Piece]:
    """Cut pieces into blocks; rows that wait for the next piece are copied, as it may overwrite them."""
    parts: list[Piece] = []
    missing = block_rows
    for piece in pieces:
        start, n = 0, piece[0].shape[0]
        while start < n:
            stop = min(start + missing, n)
            parts.append(_part(piece, slice(start, stop)))
            missing -= stop - start
            start = stop
            if not missing:
                yield _concatenate(parts)
                parts, missing = [], block_rows
        if parts:
            parts[-1] = _copy(parts[-1])
        del piece
    if parts:
        yield _concatenate(parts)


def _copy(piece: Piece) -> Piece:
    rows, *beside = piece
    return rows.copy(), *(None if each is None else each.copy() for each in beside)


def _concatenate(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    rows, weights, groups = zip(*pieces, strict=True)
    stacked = vstack(rows, "csr") if issparse(rows[0]) else np.concatenate(rows)
    return stacked, _concatenate_arrays(weights), _concatenate_arrays(groups)


def _concatenate_arrays(arrays: tuple[Raw | None, ...]) -> Raw | None:
    given = [array for array in arrays if array is not None]
    return np.concatenate(given) if given else None
