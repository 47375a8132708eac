"""Rows of a Zarr array in files of this machine, decoded to the very place where they are needed.

Zarr makes an array of the bytes of a file, one of each decoded chunk, one of each shard, and one of
all the rows.  Dask's workers give such memory back to the system at once, and fresh pages cost more
than the copies.  Rows of 4 columns, float32, zstd, sharded, took 31 ns of processor time each to
read and sum with Zarr alone, 52 ns in a worker, and 20 to 23 ns here in both.

Only plain chunks are read here.  Whatever else is met, such as a chunk that is missing or damaged,
is left to Zarr, which fills it or says what is wrong.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.sources.lazy_modules import (
    blosc,
    bounded_codecs,
    crc32c,
    is_zarr_array,
    zstd,
)
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.sources.stored_chunks import codecs_of

Bytes = npt.NDArray[np.uint8]

PLAIN = {
    (*compressor, *checksum)
    for compressor in [(), ("zstd",), ("blosc",)]
    for checksum in [(), ("crc32c",)]
}
"""Codecs of bytes that are decoded here, in the order in which they encode."""
CRC_BYTES = 4
SPAN_BYTES = 16
"""Bytes of a chunk's offset and length in the index of a shard."""
INDEX_CODECS = [
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "crc32c"},
]


class NotPlainError(ValueError):
    """A chunk is not as it is expected here."""


@dataclass(frozen=True)
class LocalChunks:
    """Chunks of rows, (n, ...), that hold all columns, in local files."""

    array: Any
    """The Zarr array."""
    folder: Path
    """Folder of the store."""
    codecs: tuple[str, ...]
    """Codecs of a chunk's bytes."""
    index_first: bool | None
    """Whether the index of a shard is at its start; None if there are no shards."""

    @classmethod
    def of(cls, data: Any) -> "LocalChunks | None":
        """Return the chunks of a checked Zarr array, (n, ...); None if Zarr has to read it."""
        folder = getattr(data.store, "folder", None) if is_zarr_array(data) else None
        if folder is None or data.metadata.zarr_format != 3 or sys.byteorder != "little":
            return None
        metadata, columns = data.metadata.to_dict(), data.shape[1:]
        grids = [data.chunks, data.shards or data.chunks]
        plain_dtype = data.dtype.kind in "fiu" and data.dtype.isnative
        if metadata["chunk_grid"]["name"] != "regular" or not plain_dtype:
            return None
        if any(grid[1:] != columns for grid in grids):
            return None
        codecs, index_first = list(metadata["codecs"]), None
        if data.shards:
            settings = codecs[0]["configuration"]
            if len(codecs) > 1 or [_plain(each) for each in settings["index_codecs"]] != INDEX_CODECS:
                return None
            codecs, index_first = settings["codecs"], settings["index_location"] == "start"
        first, *others = codecs
        names = tuple(name for name, _ in codecs_of({"codecs": others}))
        little = first.get("configuration", {}).get("endian", "little") == "little"
        if first["name"] != "bytes" or not little or names not in PLAIN:
            return None
        return cls(data, folder / data.path, names, index_first)

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk."""
        return int(self.array.chunks[0])

    @property
    def file_chunks(self) -> int:
        """Chunks of a file."""
        return int((self.array.shards or self.array.chunks)[0]) // self.chunk_rows

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded chunk."""
        return prod(self.array.chunks) * int(self.array.dtype.itemsize)

    def read(self, start: int, stop: int, rows: Raw, scratch: Scratch) -> bool:
        """Fill `rows`, (stop - start, ...), with the rows from `start` to before `stop`.

        Return False if a chunk is not as it is expected here; Zarr is then to read them.
        """
        height, per_file = self.chunk_rows, self.file_chunks
        chunks = range(start // height, -(-stop // height))
        try:
            for number in range(chunks.start // per_file, (chunks.stop - 1) // per_file + 1):
                begin = number * per_file
                which = range(max(chunks.start, begin), min(chunks.stop, begin + per_file))
                for chunk, encoded in zip(which, self._encoded(number, which, scratch), strict=True):
                    self._place(encoded, chunk * height - start, rows, scratch)
        except (OSError, ValueError, RuntimeError):  # RuntimeError is what codecs raise
            return False
        return True

    def _encoded(self, number: int, which: range, scratch: Scratch) -> Iterator[Bytes]:
        """Yield the bytes of some chunks, which are in one file; the next overwrite them."""
        place = (number, *(0 for _ in self.array.shape[1:]))
        file = os.open(self.folder / self.array.metadata.encode_chunk_key(place), os.O_RDONLY)
        try:
            size = os.fstat(file).st_size
            spans = np.array([[0, size]])
            if self.index_first is not None:
                first = number * self.file_chunks
                spans = self._spans(file, size)[which.start - first : which.stop - first]
            for offset, length in spans.tolist():
                if length > 2 * self.chunk_bytes + bounded_codecs.SLACK or offset + length > size:
                    raise NotPlainError
                yield _read_bytes(file, offset, length, scratch, "encoded")
        finally:
            os.close(file)

    def _spans(self, file: int, size: int) -> np.ndarray[Any, Any]:
        """Return offsets and lengths, (chunks, 2), of a shard's chunks; huge for a missing chunk."""
        length = SPAN_BYTES * self.file_chunks + CRC_BYTES
        offset = 0 if self.index_first else size - length
        index = _read_bytes(file, offset, length, Scratch(), "index")
        return np.frombuffer(_without_crc(index), "<u8").reshape(-1, 2)

    def _place(self, encoded: Bytes, offset: int, rows: Raw, scratch: Scratch) -> None:
        """Decode a chunk to its place, from `offset` on, in `rows`, (n, ...)."""
        stop = offset + self.chunk_rows
        if 0 <= offset and stop <= len(rows):
            self._decode(encoded, rows[offset:stop])
            return
        whole = scratch.array("chunk", self.array.chunks, rows.dtype)
        self._decode(encoded, whole)
        part = slice(max(0, offset), min(stop, len(rows)))
        rows[part] = whole[part.start - offset : part.stop - offset]

    def _decode(self, encoded: Bytes, target: Raw) -> None:
        """Decode a chunk into `target`, (chunk rows, ...)."""
        for name in reversed(self.codecs):
            if name == "crc32c":
                encoded = _without_crc(encoded)
                continue
            if bounded_codecs.declared_bytes(name, memoryview(encoded)) != (target.nbytes, True):
                raise NotPlainError
            decompress = zstd.decompress if name == "zstd" else blosc.decompress
            decompress(encoded, target)
            return
        target[...] = np.frombuffer(encoded, target.dtype).reshape(target.shape)


def _plain(codec: dict[str, Any]) -> dict[str, Any]:
    """Return the name and the settings of a codec, without empty settings."""
    return {key: value for key, value in codec.items() if value}


def _read_bytes(file: int, offset: int, length: int, scratch: Scratch, name: str) -> Bytes:
    """Return bytes of a file, which `scratch` keeps by this name."""
    if offset < 0:
        raise NotPlainError
    found = scratch.array(name, (length,), np.uint8)
    read = 0
    while read < length:
        count = os.preadv(file, [found[read:]], offset + read)
        if not count:
            raise NotPlainError
        read += count
    return found


def _without_crc(encoded: Bytes) -> Bytes:
    """Return bytes without their checksum, which are compared with it."""
    content = encoded[:-CRC_BYTES]
    if crc32c.value(content) != int.from_bytes(encoded[-CRC_BYTES:].tobytes(), "little"):
        raise NotPlainError
    return content
