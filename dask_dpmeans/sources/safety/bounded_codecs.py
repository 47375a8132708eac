"""Codecs that refuse to unpack more bytes than the metadata of a chunk tell."""

import asyncio
import bz2
import lzma
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import zarr
from zarr.abc.buffer import Buffer
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec
from zarr.core.array_spec import ArraySpec
from zarr.registry import get_codec_class, register_codec

from dask_dpmeans.sources.resources import format_bytes

SLACK = 2**16
"""Bytes that inner codecs, such as checksums, may add to a chunk."""
UNSIZED_TIMES = 64
"""Limit for a frame without its length, in chunks.

Each block of it counts as a full one; at zstd's level 19 the sum was 28 times the content.
"""
UNSIZED_SLACK = 2**20
"""Bytes that are added to this limit."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_BLOCK = 2**17
"""Bytes that a block of a frame unpacks to, at most (RFC 8878, section 3.1.1.2.4)."""
MOST_DICTIONARY = 2**27
"""Bytes of lzma's dictionary, at most; its largest preset takes 2**26."""


def _lzma_stream(settings: Mapping[str, Any]) -> lzma.LZMADecompressor:
    if settings.get("format") == lzma.FORMAT_RAW:
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=settings["filters"])
    return lzma.LZMADecompressor(memlimit=MOST_DICTIONARY)


STREAMS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "gzip": lambda _: zlib.decompressobj(31),
    "zlib": lambda _: zlib.decompressobj(),
    "bz2": lambda _: bz2.BZ2Decompressor(),
    "lzma": _lzma_stream,
}
"""Incremental decompressors by codec, made from the codec's settings."""


class TooLargeError(ValueError):
    """A chunk would unpack to more bytes than its metadata tell."""


@dataclass(frozen=True)
class BoundedCodec(BytesBytesCodec):
    """Codec that checks the size of a chunk before it spends memory on it."""

    codec: BytesBytesCodec

    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "BoundedCodec":
        """Return the codec of a dictionary of `to_dict`; Zarr pickles codecs in shards this way."""
        inner = data["configuration"]["codec"]
        codec = get_codec_class(inner["name"]).from_dict(inner)
        assert isinstance(codec, BytesBytesCodec)
        return cls(codec)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the inner codec."""
        return {"name": NAME, "configuration": {"codec": self.codec.to_dict()}}

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> "BoundedCodec":
        """Adapt the inner codec to an array."""
        return replace(self, codec=self.codec.evolve_from_array_spec(array_spec))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: ArraySpec) -> int:
        """Return the answer of the inner codec."""
        return self.codec.compute_encoded_size(input_byte_length, chunk_spec)

    @cached_property
    def _named(self) -> tuple[str, dict[str, Any]]:
        inner: dict[str, Any] = dict(self.codec.to_dict())
        return str(inner["name"]).removeprefix("numcodecs."), inner.get("configuration", {})

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
        """Decode chunks that are no larger than they should be."""
        batch = list(chunks_and_specs)
        name, settings = self._named
        for packed, spec in batch:
            if packed is not None and name not in STREAMS:
                check_declared(name, packed.as_numpy_array(), _decoded_bytes(spec))
        if name not in STREAMS:
            return await self.codec.decode(batch)

        async def stream(packed: Buffer | None, spec: ArraySpec) -> Buffer | None:
            if packed is None:
                return None
            most = _decoded_bytes(spec)
            array = packed.as_numpy_array()
            unpacked = await asyncio.to_thread(unpack_stream, name, settings, array, most)
            return spec.prototype.buffer.from_bytes(unpacked)

        return await asyncio.gather(*(stream(*each) for each in batch))


def _decoded_bytes(spec: ArraySpec) -> int:
    return math.prod(spec.shape) * spec.dtype.to_native_dtype().itemsize


NAME = "dask_dpmeans.bounded"
register_codec(NAME, BoundedCodec)


class BoundedSharding(ShardingCodec):
    """Sharding with bounded codecs.

    Zarr pickles the codecs in shards by their names.  A process that unpickles this class loads this
    module first, and so knows `NAME`.
    """


class BoundedNumcodec:
    """Bounded codec of Zarr's version 2."""

    codec_id = NAME

    def __init__(self, codec: Any, most: int) -> None:
        self.codec, self.most = codec, most
        self.codec_id = codec.codec_id

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "BoundedNumcodec":
        """Not supported: the codec of a store is opened as it is, and then wrapped."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Return the settings of the inner codec."""
        return dict(self.codec.get_config())

    def encode(self, buf: Any) -> Any:
        """Encode as the inner codec does."""
        return self.codec.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decode a chunk that is no larger than it should be."""
        if self.codec_id in STREAMS and out is None:
            return unpack_stream(self.codec_id, self.get_config(), buf, self.most)
        check_declared(self.codec_id, buf, self.most)
        return self.codec.decode(buf, out)


def bound_codecs(array: "zarr.Array[Any]") -> Any:
    """Return the metadata of an array, (...), with codecs that keep to the size of its chunks."""
    metadata = array.metadata
    if metadata.zarr_format == 3:
        return replace(metadata, codecs=tuple(map(_bounded_codec, metadata.codecs)))
    configs = [each.get_config() for each in metadata.filters or ()]
    produced = [each.get(key) for each in configs for key in ("astype", "encode_dtype")]
    dtypes = [array.dtype, *filter(None, produced)]
    most = math.prod(array.chunks) * max(np.dtype(dtype).itemsize for dtype in dtypes)
    filters = metadata.filters and tuple(BoundedNumcodec(each, most) for each in metadata.filters)
    compressor = metadata.compressor and BoundedNumcodec(metadata.compressor, most)
    return replace(metadata, filters=filters, compressor=compressor)


def _bounded_codec(codec: object) -> Any:
    if isinstance(codec, BytesBytesCodec):
        return BoundedCodec(codec)
    if not isinstance(codec, ShardingCodec):
        return codec
    return BoundedSharding(
        chunk_shape=codec.chunk_shape,
        codecs=tuple(map(_bounded_codec, codec.codecs)),
        index_codecs=codec.index_codecs,
        index_location=codec.index_location,
    )


def unpack_stream(name: str, settings: Mapping[str, Any], packed: Any, most: int) -> bytes:
    """Unpack one stream of a codec in `STREAMS`, or several in a row, to about `most` bytes."""
    rest, parts, left = bytes(packed), [], most + SLACK
    while rest:
        stream = STREAMS[name](settings)
        parts.append(stream.decompress(rest, left + 1))
        left -= len(parts[-1])
        if left < 0:
            raise _too_large(f"more than {format_bytes(most + SLACK)}", most)
        if not stream.eof:
            raise ValueError(f"a chunk packed by {name} ends before its end")
        rest = stream.unused_data
        if name == "gzip":  # which may be padded
            rest = rest.lstrip(b"\0")
    return b"".join(parts)


def check_declared(name: str, packed: Any, most: int) -> None:
    """Raise `TooLargeError` if packed bytes declare far more than `most` unpacked bytes."""
    size, exact = declared_bytes(name, memoryview(packed).cast("B"))
    limit = most + SLACK
    if not exact:
        limit = UNSIZED_TIMES * most + UNSIZED_SLACK
    if size > limit:
        raise _too_large(format_bytes(size), most)


def _too_large(what: str, most: int) -> TooLargeError:
    return TooLargeError(f"a chunk would unpack to {what}, the metadata say {format_bytes(most)}")


def declared_bytes(name: str, packed: memoryview | bytes) -> tuple[int, bool]:
    """Return the unpacked bytes by a chunk's header, or an upper bound, and whether it is exact.

    The headers are described in RFC 8878, section 3.1.1, by c-blosc 1, and by numcodecs' LZ4.

    >>> declared_bytes("zstd", bytes.fromhex("28b52ffd a4 00000040 00000000"))
    (1073741824, True)
    """
    head = bytes(packed[:18])
    if name == "blosc" and len(head) >= 16:
        return int.from_bytes(head[4:8], "little"), True
    if name == "lz4" and len(head) >= 4:
        return int.from_bytes(head[:4], "little"), True
    if name == "zstd" and head.startswith(ZSTD_MAGIC) and len(head) > 5:
        flags = head[4]
        single, size_flag = flags >> 5 & 1, flags >> 6
        start = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
        width = (single, 2, 4, 8)[size_flag]
        if width and len(head) >= start + width:
            return int.from_bytes(head[start : start + width], "little") + 256 * (width == 2), True
        return _blocks_bytes(packed[start:]), False
    return 0, True


def _blocks_bytes(blocks: memoryview | bytes) -> int:
    """Return an upper bound of the unpacked blocks of a zstd frame (RFC 8878, section 3.1.1.2)."""
    size = start = 0
    while start + 3 <= len(blocks):
        header = int.from_bytes(blocks[start : start + 3], "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        size += length if kind < 2 else ZSTD_BLOCK
        start += 4 if kind == 1 else 3 + length
        if last:
            break
    return size
