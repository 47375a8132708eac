"""Codecs that refuse to unpack more than a chunk holds: no packed bytes cost more memory than the metadata tell."""

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
from dask.utils import format_bytes
from zarr.abc.codec import BytesBytesCodec
from zarr.codecs import ShardingCodec
from zarr.registry import get_codec_class, register_codec

SLACK = 2**16
"""Bytes that codecs within others, such as checksums, may add to a chunk."""
UNSIZED_TIMES = 64
"""A frame that does not say how long it is may have parts for this many times the chunk: each counts as a full one, and
at zstd's level 19 they were 28 times what was in them."""
UNSIZED_SLACK = 2**20
"""And for this many bytes more."""
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_BLOCK = 2**17
"""Bytes that a block of a frame unpacks to, the most (RFC 8878, section 3.1.1.2.4)."""
MOST_DICTIONARY = 2**27
"""Bytes that unpacking lzma may take beside what it unpacks; its largest preset takes 2**26."""
STREAMS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "gzip": lambda _: zlib.decompressobj(31),
    "zlib": lambda _: zlib.decompressobj(),
    "bz2": lambda _: bz2.BZ2Decompressor(),
    "lzma": lambda settings: (
        lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=settings["filters"])
        if settings.get("format") == lzma.FORMAT_RAW
        else lzma.LZMADecompressor(memlimit=MOST_DICTIONARY)
    ),
}
"""By codec, what unpacks no more than it is asked for, made from the codec's settings."""


class TooLargeError(ValueError):
    """A chunk would unpack to more than it holds."""


@dataclass(frozen=True)
class BoundedCodec(BytesBytesCodec):
    """A codec whose chunks are looked at, or unpacked a part at a time, before memory is spent on them."""

    codec: BytesBytesCodec

    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "BoundedCodec":
        """As `to_dict` has it: Zarr pickles the codecs within its shards in this way."""
        inner = data["configuration"]["codec"]
        codec = get_codec_class(inner["name"]).from_dict(inner)
        assert isinstance(codec, BytesBytesCodec)
        return cls(codec)

    def to_dict(self) -> dict[str, Any]:
        """Its name, and the codec within."""
        return {"name": NAME, "configuration": {"codec": self.codec.to_dict()}}

    def evolve_from_array_spec(self, array_spec: Any) -> "BoundedCodec":
        """With what the codec within makes of an array."""
        return replace(self, codec=self.codec.evolve_from_array_spec(array_spec))

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """As the codec within."""
        return self.codec.compute_encoded_size(input_byte_length, chunk_spec)

    @cached_property
    def _named(self) -> tuple[str, dict[str, Any]]:
        inner: dict[str, Any] = dict(self.codec.to_dict())
        return str(inner["name"]).removeprefix("numcodecs."), inner.get("configuration", {})

    async def decode(self, chunks_and_specs: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
        """What the codec within makes of chunks that are no larger than they should be."""
        batch = list(chunks_and_specs)
        name, settings = self._named
        for packed, spec in batch:
            if packed is not None and name not in STREAMS:
                check_declared(name, packed.as_numpy_array(), _decoded_bytes(spec))
        if name not in STREAMS:
            return await self.codec.decode(batch)

        async def stream(packed: Any, spec: Any) -> Any:
            if packed is None:
                return None
            most = _decoded_bytes(spec)
            unpacked = await asyncio.to_thread(unpack_stream, name, settings, packed.as_numpy_array(), most)
            return spec.prototype.buffer.from_bytes(unpacked)

        return await asyncio.gather(*(stream(*each) for each in batch))


def _decoded_bytes(spec: Any) -> int:
    """Of the chunk that a spec describes."""
    return math.prod(spec.shape) * int(spec.dtype.item_size)


NAME = "dask_dpmeans.bounded"
register_codec(NAME, BoundedCodec)


class BoundedNumcodec:
    """The same for a codec of Zarr's version 2."""

    codec_id = NAME

    def __init__(self, codec: Any, most: int) -> None:
        self.codec, self.most = codec, most
        self.codec_id = codec.codec_id

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "BoundedNumcodec":
        """Never: what a store names is opened as it is, and bounded then."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Of the codec within."""
        return dict(self.codec.get_config())

    def encode(self, buf: Any) -> Any:
        """As the codec within."""
        return self.codec.encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """What the codec within makes of a chunk that is no larger than it should be."""
        if self.codec_id in STREAMS and out is None:
            return unpack_stream(self.codec_id, self.get_config(), buf, self.most)
        check_declared(self.codec_id, buf, self.most)
        return self.codec.decode(buf, out)


def bounded(array: "zarr.Array[Any]") -> Any:
    """The metadata of an array, with codecs that keep to the size of its chunks."""
    metadata = array.metadata
    if metadata.zarr_format == 3:
        return replace(metadata, codecs=_bounded_codecs(metadata.codecs))
    most = math.prod(array.chunks) * max(map(_itemsize, [array.dtype, *_filter_dtypes(metadata.filters)]))
    filters = metadata.filters and tuple(BoundedNumcodec(each, most) for each in metadata.filters)
    compressor = metadata.compressor and BoundedNumcodec(metadata.compressor, most)
    return replace(metadata, filters=filters, compressor=compressor)


def _filter_dtypes(filters: Iterable[Any] | None) -> list[Any]:
    """What filters of version 2 may turn numbers into."""
    configs = [each.get_config() for each in filters or ()]
    return [config[key] for config in configs for key in ("astype", "encode_dtype") if config.get(key)]


def _itemsize(dtype: Any) -> int:
    return int(np.dtype(dtype).itemsize)


def _bounded_codecs(codecs: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        BoundedCodec(codec)
        if isinstance(codec, BytesBytesCodec)
        else ShardingCodec(
            chunk_shape=codec.chunk_shape,
            codecs=_bounded_codecs(codec.codecs),
            index_codecs=codec.index_codecs,
            index_location=codec.index_location,
        )
        if isinstance(codec, ShardingCodec)
        else codec
        for codec in codecs
    )


def unpack_stream(name: str, settings: Mapping[str, Any], packed: Any, most: int) -> bytes:
    """What one of the `STREAMS` unpacks to, one or several in a row.

    Raises
    ------
    TooLargeError
        Where that is more than `most` bytes and a little.
    """
    rest, parts, left = bytes(packed), [], most + SLACK
    while rest:
        stream = STREAMS[name](settings)
        parts.append(stream.decompress(rest, left + 1))
        left -= len(parts[-1])
        if left < 0:
            raise _too_large(f"more than {format_bytes(most + SLACK)}", most)
        if not stream.eof:
            raise ValueError(f"a chunk packed by {name} ends before its end")
        rest = stream.unused_data.lstrip(b"\0") if name == "gzip" else stream.unused_data  # which may be padded
    return b"".join(parts)


def check_declared(name: str, packed: Any, most: int) -> None:
    """Refuse packed bytes that tell that they unpack to more than `most` bytes and a little.

    Raises
    ------
    TooLargeError
        With both numbers.
    """
    size, exact = declared_bytes(name, memoryview(packed).cast("B"))
    if size > (most + SLACK if exact else UNSIZED_TIMES * most + UNSIZED_SLACK):
        raise _too_large(format_bytes(size), most)


def _too_large(what: str, most: int) -> TooLargeError:
    return TooLargeError(f"a chunk would unpack to {what}, where the metadata say {format_bytes(most)}")


def declared_bytes(name: str, packed: memoryview | bytes) -> tuple[int, bool]:
    """Bytes that a chunk says that it unpacks to, the most where it does not say; and whether it does.

    Headers are those of RFC 8878, section 3.1.1, of c-blosc 1, and of numcodecs' LZ4.

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
    """Bytes that the blocks of a zstd frame unpack to, the most (RFC 8878, section 3.1.1.2)."""
    size = start = 0
    while start + 3 <= len(blocks):
        header = int.from_bytes(blocks[start : start + 3], "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        size += length if kind < 2 else ZSTD_BLOCK
        start += 3 + (1 if kind == 1 else length)
        if last:
            break
    return size
