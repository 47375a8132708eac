"""Sizes, chunks and codecs of stored arrays, from the metadata alone."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.engine.plan import Plan
from dask_dpmeans.sources.formats.csr import row_bytes_of, stored_values
from dask_dpmeans.sources.lazy_modules import is_zarr_array, zarr
from dask_dpmeans.sources.row_array import RowArray

if TYPE_CHECKING:
    from zarr.abc.store import Store

MOST_SIZES = 10_000
"""Files or objects of an array whose sizes are requested one by one, at most."""
COMPRESSORS = {"zstd", "blosc", "lz4", "gzip", "zlib", "bz2", "lzma", "pcodec", "zfpy"}
CHECKSUMS = {
    "crc32c",
    "crc32",
    "adler32",
    "fletcher32",
    "jenkins_lookup3",
    "gzip",
    "zlib",
    "bz2",
    "lzma",
}
"""Codecs that always check the decoded bytes; zstd does so if its settings say it."""


@dataclass(frozen=True)
class Storage:
    """Chunks and codecs of the rows of a Zarr array."""

    chunk_rows: int
    """Rows that are decoded at once: the height of a chunk, also inside a Zarr shard."""
    chunk_columns: int
    compressors: tuple[str, ...]
    """Names of the compressors in the metadata."""
    checksummed: bool
    """Whether any codec has a checksum of the values."""

    @classmethod
    def of(cls, rows: object) -> "Storage | None":
        """Return the storage of a Zarr array; None for other arrays."""
        if not is_zarr_array(rows):
            return None
        codecs = [name for name, _ in codecs_of(rows.metadata.to_dict())]
        compressors = tuple(name for name in codecs if name in COMPRESSORS)
        chunk_rows, chunk_columns = map(min, rows.chunks, rows.shape)
        return cls(chunk_rows, chunk_columns, compressors, has_checksum(rows))


def has_checksum(array: "zarr.Array[Any]") -> bool:
    """Return whether any codec of an array, (...), has a checksum of the values."""
    codecs = codecs_of(array.metadata.to_dict())
    return any(name in CHECKSUMS or bool(settings.get("checksum")) for name, settings in codecs)


def plain_store(array: "zarr.Array[Any]") -> "Store":
    """Return the store of an array, (...), without the checks around it."""
    return getattr(array.store, "plain", array.store)


def stored_bytes(array: RowArray) -> int | None:
    """Return the bytes of an array, (...), and its metadata in the store; None if unknown."""
    parts = getattr(array, "arrays", None)  # of CSR rows, or of a cube
    if parts is not None:
        sizes = [stored_bytes(each) for each in parts] or [None]
        if None in sizes:
            return None
        return sum(filter(None, sizes))
    if not is_zarr_array(array):
        return decoded_bytes(array)
    grid = array.shards or array.chunks
    n_files = math.prod(-(-n // size) for n, size in zip(array.shape, grid, strict=True))
    if type(plain_store(array)).getsize is zarr.abc.store.Store.getsize or n_files > MOST_SIZES:
        return None
    try:
        return int(array.nbytes_stored()) or None
    except (OSError, ValueError, NotImplementedError):  # the store cannot list its keys
        return None


def decoded_bytes(array: RowArray) -> int:
    """Return the bytes of an array, (...), in memory."""
    if stored_values(array) is not None:
        return int(array.shape[0] * row_bytes_of(array))
    return math.prod(array.shape) * int(array.dtype.itemsize)


def decoded_rows(plan: Plan, chunk_rows: int) -> int:
    """Return how many rows a pass decodes; a chunk counts once for each shard that it touches.

    >>> decoded_rows(Plan(n_rows=100, block_rows=10, shard_blocks=2), 20)
    100
    >>> decoded_rows(Plan(n_rows=100, block_rows=10, shard_blocks=2), 50)
    300
    """
    starts = np.arange(0, plan.n_rows, plan.shard_rows)
    stops = np.minimum(starts + plan.shard_rows, plan.n_rows)
    ends = np.minimum(-(-stops // chunk_rows) * chunk_rows, plan.n_rows)
    return int(ends.sum()) - int((starts // chunk_rows * chunk_rows).sum())


def codecs_of(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield names and settings of the codecs of the values, not of a shard's index."""
    found = metadata.get("codecs") or [*(metadata.get("filters") or ()), metadata.get("compressor")]
    for codec in filter(None, found):
        settings = codec.get("configuration", codec)
        if "codec" in settings:  # a codec inside a `BoundedCodec`
            yield from codecs_of({"codecs": [settings["codec"]]})
            continue
        yield codec.get("name", codec.get("id")).removeprefix("numcodecs."), settings
        if "codecs" in settings:
            yield from codecs_of(settings)
