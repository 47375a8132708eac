"""Rows of a Zarr array in files of this machine, decoded straight to their place.

Zarr makes an array of the bytes of a file, one of each decoded chunk, one of each shard, and one of
all the rows.  Dask's workers give such memory back to the system at once, and fresh pages cost more
than the copies.  Rows of 4 columns, float32, zstd, sharded, took 31 ns of processor time each to
read and sum with Zarr, 52 ns with the settings of a worker, and here 20 and 21 ns.

Only plain chunks are read here.  Whatever else is met, such as a chunk that is missing or damaged,
is left to Zarr, which fills it in or says what is wrong.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.sources.lazy_modules import blosc, bounded_codecs, crc32c, is_zarr_array, zstd
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.sources.stored_chunks import codecs_of

Bytes = npt.NDArray[np.uint8]
COMPRESSORS = ((), ("zstd",), ("blosc",))
CHECKSUMS = ((), ("crc32c",))
CHECKSUM_BYTES = 4
INDEX_CODECS = ("bytes", "crc32c")
"""Codecs of the index of a shard."""
MISSING = 2**64 - 1
"""The offset of a chunk that is not in its shard."""


class NotPlainError(ValueError):
    """A chunk is not as it is expected here."""


@dataclass(frozen=True)
class LocalChunks:
    """Chunks of rows, (n, ...), in local files, each of all columns."""

    folder: Path
    """Folder of the array."""
    metadata: Any
    """Metadata of the Zarr array, which name the files."""
    shape: tuple[int, ...]
    """Shape of a chunk, (height, ...)."""
    dtype: np.dtype[Any]
    codecs: tuple[str, ...]
    """Compressors and checksums of a chunk, in the order in which they encode."""
    file_chunks: int
    """Chunks of a file."""
    index_location: str | None
    """Where a shard has its index, "start" or "end"; None if a file is a chunk."""

    @classmethod
    def of(cls, data: Any) -> "LocalChunks | None":
        """Return the chunks of a checked Zarr array, (n, ...); None if Zarr has to read it."""
        folder = getattr(data.store, "folder", None) if is_zarr_array(data) else None
        if folder is None or not _is_plain(data):
            return None
        codecs, location = data.metadata.to_dict()["codecs"], None
        if data.shards:
            settings = codecs[0]["configuration"]
            inner = _names(settings["index_codecs"])
            if len(codecs) > 1 or inner != INDEX_CODECS:
                return None
            codecs, location = settings["codecs"], settings["index_location"]
        first, *others = _names(codecs)
        allowed = [(*one, *other) for one in COMPRESSORS for other in CHECKSUMS]
        if first != "bytes" or tuple(others) not in allowed:
            return None
        per_file = (data.shards or data.chunks)[0] // data.chunks[0]
        place, names = folder / data.path, tuple(others)
        return cls(place, data.metadata, data.chunks, data.dtype, names, per_file, location)

    def read(self, start: int, stop: int, scratch: Scratch) -> Raw | None:
        """Return the rows from `start` to before `stop`, (stop - start, ...), in `scratch`.

        Return None if a chunk is not as it is expected here; Zarr is then to read them.
        """
        rows = scratch.array("piece", (stop - start, *self.shape[1:]), self.dtype)
        height, per_file = self.shape[0], self.file_chunks
        first, end = start // height, -(-stop // height)
        try:
            for number in range(first // per_file, -(-end // per_file)):
                begin = number * per_file
                which = range(max(first, begin), min(end, begin + per_file))
                for chunk, encoded in zip(
                    which, self._encoded(number, which, scratch), strict=True
                ):
                    self._place(encoded, chunk * height - start, rows, scratch)
        except (OSError, ValueError, RuntimeError):  # the last is what codecs raise
            return None
        return rows

    def _encoded(self, number: int, which: range, scratch: Scratch) -> Iterator[Bytes]:
        """Yield the bytes of some chunks, which are in one file; the next overwrite them."""
        key = self.metadata.encode_chunk_key((number, *(0 for _ in self.shape[1:])))
        most = 2 * prod(self.shape) * self.dtype.itemsize + bounded_codecs.SLACK
        file = os.open(self.folder / key, os.O_RDONLY)
        try:
            spans = [(0, os.fstat(file).st_size)]
            if self.index_location is not None:
                first = number * self.file_chunks
                spans = self._spans(file)[which.start - first : which.stop - first]
            for offset, length in spans:
                if offset == MISSING or length > most:
                    raise NotPlainError
                yield _read_bytes(file, offset, length, scratch)
        finally:
            os.close(file)

    def _spans(self, file: int) -> list[tuple[int, int]]:
        """Return offset and length of each chunk of a shard."""
        length = 16 * self.file_chunks + CHECKSUM_BYTES
        offset = 0 if self.index_location == "start" else os.fstat(file).st_size - length
        index = _without_checksum(_read_bytes(file, offset, length, Scratch()))
        numbers = index.view("<u8").tolist()
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    def _place(self, encoded: Bytes, offset: int, rows: Raw, scratch: Scratch) -> None:
        """Decode a chunk to its place in `rows`, (n, ...), from `offset` on."""
        stop = offset + self.shape[0]
        if offset >= 0 and stop <= len(rows):
            self._decode(encoded, rows[offset:stop])
            return
        whole = scratch.array("chunk", self.shape, self.dtype)
        self._decode(encoded, whole)
        part = slice(max(0, offset), min(stop, len(rows)))
        rows[part] = whole[part.start - offset : part.stop - offset]

    def _decode(self, encoded: Bytes, chunk: Raw) -> None:
        """Decode the bytes of a chunk, (height, ...)."""
        for name in reversed(self.codecs):
            if name == "crc32c":
                encoded = _without_checksum(encoded)
            elif bounded_codecs.declared_bytes(name, encoded.data) != (chunk.nbytes, True):
                raise NotPlainError
            else:
                decompress = zstd.decompress if name == "zstd" else blosc.decompress
                decompress(encoded, chunk)
                return
        chunk[...] = encoded.view(self.dtype).reshape(self.shape)


def _is_plain(array: Any) -> bool:
    """Return whether an array, (n, ...), is of plain numbers in chunks of all columns."""
    readable = sys.byteorder == "little" and hasattr(os, "preadv")  # which Windows lacks
    if array.metadata.zarr_format != 3 or not readable:
        return False
    described = array.metadata.to_dict()
    grids = [array.chunks, array.shards or array.chunks]
    numbers = array.dtype.kind in "fiu" and array.dtype.isnative
    regular = described["chunk_grid"]["name"] == "regular"
    return regular and numbers and all(grid[1:] == array.shape[1:] for grid in grids)


def _names(codecs: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of codecs; "big" for numbers whose first byte is the highest."""
    found = list(codecs_of({"codecs": codecs}))
    return tuple("big" if each.get("endian") == "big" else name for name, each in found)


def _read_bytes(file: int, offset: int, length: int, scratch: Scratch) -> Bytes:
    """Return some bytes of a file, in `scratch`."""
    if offset < 0:
        raise NotPlainError
    found: Bytes = scratch.array("encoded", (length,), np.uint8)
    read = 0
    while read < length:
        count = os.preadv(file, [found[read:].data], offset + read)
        if not count:
            raise NotPlainError
        read += count
    return found


def _without_checksum(encoded: Bytes) -> Bytes:
    """Return bytes without the checksum at their end, which is compared."""
    content, checksum = encoded[:-CHECKSUM_BYTES], encoded[-CHECKSUM_BYTES:]
    if crc32c.value(content) != int.from_bytes(checksum.tobytes(), "little"):
        raise NotPlainError
    return content
