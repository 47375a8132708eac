"""Checked Zarr groups and arrays: every chunk is written, and a missing or damaged one is an error.

A checksum within a chunk does not tell its place, so digests are kept elsewhere.  An array of one
chunk has a digest of its content; an array over the rows has a table, ``digests/NAME``, with one
digest for each chunk.  The metadata of the group, written last, hold the digests of the contents of
all arrays and tables.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import sleep
from typing import Any

import numpy as np
import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.codec import BytesBytesCodec
from zarr.abc.store import ByteRequest, Store
from zarr.codecs import BloscCodec, Crc32cCodec
from zarr.storage import FsspecStore, MemoryStore, StorePath, WrapperStore

from dask_dpmeans.errors import CorruptStoreError, InputError, lacks_connection, reason_of
from dask_dpmeans.storage import one_chunk
from dask_dpmeans.storage.array_spec import DIGEST_BYTES, Digests
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.one_chunk import EVERY_CHUNK, METADATA, ZSTD

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that malformed metadata and attributes raise."""
MARKER = "dask_dpmeans"
"""The attribute that describes an output."""
CONTENTS = "contents"
"""The attribute with the digests of the contents of the arrays of an output, by name."""
CHUNK = re.compile(r"(?:^|.*/)c/(\d+)(?:/0)*")
"""Keys of chunks of arrays over the rows, which are chunked along the rows alone."""
LZ4 = BloscCodec(cname="lz4", clevel=1, shuffle="bitshuffle")
"""Faster than `ZSTD`, less dense.

Labels and probabilities of 4 clusters took 20 to 35 ns a row, at level 1 of Zstd 70 to 100.  They
were as large where clusters overlap, and up to twice as large where most labels are -1."""
Place = Location | StorePath
"""The location of a group or an array."""
LATE = (0.1, 1.0, 5.0)
"""Seconds between looks for chunks that other machines have just written."""


def create_group(place: Location, attributes: dict[str, Any]) -> None:
    """Write the signed metadata of a group in one write, or raise `FileExistsError`.

    A remote store checks and writes in one operation.
    """
    file, content = place / METADATA, group_content(attributes)
    if place.remote:
        file.create(content)
    elif os.path.lexists(file.url):
        raise FileExistsError(f"{file.url} exists")
    else:
        file.write(content)


def group_content(attributes: dict[str, Any], members: Mapping[str, Any] | None = None) -> bytes:
    """Return the file of the metadata of a group, signed, with the metadata of members, if given."""
    return json.dumps(one_chunk.group_file(sign_attributes(attributes), members)).encode()


def create(
    place: Place,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    dimensions: tuple[str, ...] | None,
    chunk_rows: int,
    attributes: dict[str, Any] | None = None,
    compressor: BytesBytesCodec = ZSTD,
) -> "zarr.Array[Any]":
    """Create an array, (*shape), with `chunk_rows` rows and all columns in a chunk.

    Fill values are NaN, -1, False or no text.
    """
    heights = (chunk_rows, *shape[1:])[: len(shape)]
    return zarr.create_array(
        _store_of(place),
        shape=shape,
        dtype=dtype,
        chunks=tuple(max(1, height) for height in heights),
        compressors=[compressor, Crc32cCodec()],
        fill_value=one_chunk.fill_value(dtype),
        dimension_names=dimensions,
        attributes=attributes,
        config=EVERY_CHUNK,
        overwrite=True,
    )


@dataclass(frozen=True)
class SmallArray:
    """A small array that is to be written in one chunk."""

    content: str
    """The digest of its content."""
    files: dict[str, bytes]
    """Its metadata and its chunk, by their names in its folder."""


def small_array(
    values: np.ndarray[Any, Any],
    dimensions: tuple[str, ...] | None = None,
    attributes: dict[str, Any] | None = None,
) -> SmallArray:
    """Return the files of a small array, (...).

    They may replace an array of as many dimensions, but no other.
    """
    content = _content(values, attributes or {})
    signed = sign_attributes((attributes or {}) | {"content": content})
    if one_chunk.is_plain(values.dtype):
        return SmallArray(content, one_chunk.array_files(values, dimensions, signed))
    height = len(values) if values.ndim else 1
    written: dict[str, Any] = {}
    memory = StorePath(MemoryStore(written))
    array = create(memory, values.shape, values.dtype, dimensions, height, attributes=signed)
    if values.size:
        array[...] = values
    return SmallArray(content, {key: value.to_bytes() for key, value in written.items()})


def write(
    place: Location,
    values: np.ndarray[Any, Any],
    dimensions: tuple[str, ...] | None = None,
    attributes: dict[str, Any] | None = None,
) -> str:
    """Write a small array, (...), in one chunk; return the digest of its content."""
    array = small_array(values, dimensions, attributes)
    place.write_files(array.files)
    return array.content


def open_whole(place: Place) -> "zarr.Array[Any]":
    """Open an array, (...), after a check that no chunk is missing.

    A missing chunk would read as the fill value.
    """
    array = open_array(place)
    missing = array.nchunks - array.nchunks_initialized
    if array.size and missing:
        raise CorruptStoreError(f"{_shown(place)}: {missing} of {array.nchunks} chunks are missing")
    return array


def missing_chunks(array: "zarr.Array[Any]", place: Location) -> list[str]:
    """Return the keys of the chunks of an array over the rows, (n, ...), that are not at its place.

    They are looked for more than once: a listing may be of the time before another machine wrote.
    """
    places = ((number, *[0] * (array.ndim - 1)) for number in range(array.nchunks))
    missing = [array.metadata.encode_chunk_key(each) for each in places] if array.size else []
    for pause in LATE:
        missing = _not_there(missing, place)
        if not missing:
            return []
        sleep(pause)
    return _not_there(missing, place)


def _not_there(keys: Sequence[str], place: Location) -> list[str]:
    """Return the keys without a file in a folder or at a URL; a local file is also looked for by its name."""
    there = set(place.entries())
    missing = [key for key in keys if key not in there]
    return missing if place.remote else [key for key in missing if not _is_file(place, key)]


def _is_file(folder: Location, name: str) -> bool:
    """Return whether a file is in a local folder; an `OSError` if that cannot be told."""
    try:
        os.stat(os.path.join(folder.url, name))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def open_array(place: Place) -> "zarr.Array[Any]":
    """Open an array, (...), by its metadata."""
    try:
        return zarr.open_array(_store_of(place), mode="r", zarr_format=3)
    except Exception as error:  # whatever is wrong with its metadata
        raise CorruptStoreError(
            f"{_shown(place)} cannot be opened: {error or type(error).__name__}"
        ) from error


def read(place: Place, content: str) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Return a small array, (...), and its attributes, after a check of their digest."""
    if isinstance(place, Location):
        group, _, name = place.url.rpartition("/")
        return read_many(Location(group, place.options), {name: content})[name]
    return read_opened(open_array(place), place, content)


def read_many(
    group: Location, contents: Mapping[str, str]
) -> dict[str, tuple[np.ndarray[Any, Any], dict[str, Any]]]:
    """Return small arrays, (...), of a group and their attributes, by name, as `read` does each.

    Parameters
    ----------
    group : the location of the group
    contents : digests of the contents of the arrays, by name
    """
    files = group.read_files(f"{name}/{METADATA}" for name in contents)
    described = {
        name: one_chunk.plain_metadata(files.get(f"{name}/{METADATA}")) for name in contents
    }
    keys = {
        name: f"{name}/{one_chunk.chunk_name(len(metadata['shape']))}"
        for name, metadata in described.items()
        if metadata is not None
    }
    chunks, found = group.read_files(keys.values()), {}
    for name, content in contents.items():
        place, metadata, values = group / name, described[name], None
        if metadata is not None:
            values = one_chunk.values_of(metadata, chunks.get(keys[name]))
        if metadata is None or values is None:  # Zarr says what is wrong, if anything is
            found[name] = read_opened(open_array(place), place, content)
        else:
            found[name] = _checked(values, metadata["attributes"], place, content)
    return found


def read_opened(
    array: "zarr.Array[Any]", place: Place, content: str
) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Return a small array, (...), that was opened at a place, as `read` does."""
    if array.nchunks > 1:
        raise CorruptStoreError(
            f"{_shown(place)} has {array.nchunks:,} chunks, but was written in one: its metadata were changed"
        )
    attributes = _check_digest(dict(array.attrs), place)
    values = CheckedArray(through(array, WholeStore(array.store)))[...]
    return _checked(values, attributes, place, content)


def _checked(
    values: np.ndarray[Any, Any], attributes: dict[str, Any], place: Place, content: str
) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """Return a small array, (...), and its attributes, if they are as they were written."""
    attributes = _check_digest(attributes, place)
    signed = {key: value for key, value in attributes.items() if key not in ("content", "digest")}
    if content != _content(values, signed):
        raise CorruptStoreError(
            f"{_shown(place)} does not hold what was written there: its content has another digest"
        )
    return values, signed


def attributes_of(place: Place) -> dict[str, Any]:
    """Return the attributes of a group, checked if this package wrote them; none without a group.

    A store that does not answer is an `OSError`.
    """
    try:
        attributes = _group_attributes(place)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return {}
    except (InputError, OSError) as error:  # a store that does not answer may hold anything
        if lacks_connection(error):  # it names no store
            raise OSError(f"{_shown(place)} does not answer: {error}") from error
        raise
    except MALFORMED:
        if isinstance(place, Location):
            place.names()  # raises if options are wrong
        return {}
    except Exception as error:  # of the package that asks the store
        raise OSError(f"{_shown(place)} does not answer: {reason_of(error)}") from error
    if MARKER in attributes:
        return _check_digest(attributes, place)
    return attributes


def _group_attributes(place: Place) -> dict[str, Any]:
    """Return the attributes of a group; an error of `MALFORMED` if there is something else."""
    if not isinstance(place, Location):
        group = zarr.open_group(
            place, mode="r", zarr_format=3, use_consolidated=False
        )  # metadata of members would be parsed with each question
        return dict(group.attrs)
    metadata = json.loads((place / METADATA).read())
    if (metadata["node_type"], metadata["zarr_format"]) != ("group", 3):
        raise ValueError("not a group")
    return dict(metadata.get("attributes", {}))


def write_root(
    place: Location, attributes: dict[str, Any], names: Iterable[str], written: Mapping[str, bytes]
) -> None:
    """Write the signed metadata of a group, in one write.

    The metadata of the members of these names are consolidated, so that xarray opens the group
    without a warning.

    Parameters
    ----------
    written : files that were written, by their paths in the group; other metadata is read
    """
    members: dict[str, Any] = {}
    for name in names:
        file = f"{name}/{METADATA}"
        members[name] = json.loads(written[file] if file in written else (place / file).read())
    for path, metadata in members.items():
        if metadata["node_type"] == "group":
            members[path] = one_chunk.group_file(metadata["attributes"], {})
    deep = sorted(members, key=lambda path: (path.count("/"), path))
    content = group_content(attributes, {path: members[path] for path in deep})
    (place / METADATA).write(content)


def _store_of(place: Place) -> Any:
    return place.store() if isinstance(place, Location) else place


def _shown(place: Place) -> str:
    return place.url if isinstance(place, Location) else str(place)


def _check_digest(attributes: dict[str, Any], place: Place) -> dict[str, Any]:
    if attributes != sign_attributes(attributes):
        raise CorruptStoreError(
            f"{_shown(place)}/zarr.json: the attributes do not match their digest"
        )
    return attributes


def _content(values: np.ndarray[Any, Any], attributes: Mapping[str, Any]) -> str:
    """Return a digest of the type, the shape, the numbers and the attributes of an array."""
    if values.dtype.kind == "T":  # bytes of an array of text are addresses
        values = np.frombuffer(json.dumps(values.tolist()).encode(), np.uint8)
    native = np.asarray(values, values.dtype.newbyteorder("<"), order="C")
    described = f"{native.dtype.str} {native.shape} {json.dumps(attributes, sort_keys=True)} "
    return hashlib.sha256(described.encode() + native.tobytes()).hexdigest()


def sign_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes with their digest, as JSON has no checksum."""
    unsigned = {key: value for key, value in attributes.items() if key != "digest"}
    digest = hashlib.sha256(json.dumps(unsigned, sort_keys=True).encode()).hexdigest()
    return unsigned | {"digest": digest}


class CheckedArray:
    """A Zarr array whose damage is an error that names it."""

    def __init__(self, array: "zarr.Array[Any]") -> None:
        self.array = array
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, np.dtype(array.dtype)
        self.chunks = array.chunks

    def __getitem__(self, part: Any) -> np.ndarray[Any, Any]:
        try:
            return np.asarray(self.array[part])
        except CorruptStoreError:
            raise
        except (ValueError, RuntimeError) as error:
            raise CorruptStoreError(
                f"{self.array.store_path}: a chunk does not match its checksum: {error}"
            ) from error


class TransparentStore(WrapperStore[Store]):
    """A store around another one, which it names and measures as its own."""

    def __str__(self) -> str:
        plain = self.plain
        if isinstance(plain, FsspecStore):
            return str(plain.fs.unstrip_protocol(plain.path))
        return str(plain)

    @property
    def plain(self) -> Store:
        """The store without checks."""
        return getattr(self._store, "plain", self._store)

    async def getsize(self, key: str) -> int:
        """Return the bytes of a key."""
        return await self._store.getsize(key)


class WholeStore(TransparentStore):
    """A store of which a missing chunk is an error; Zarr would read the fill value."""

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value of a key."""
        found = await self._store.get(key, prototype, byte_range)
        if found is None:
            raise CorruptStoreError(
                f"chunk {key} of {self} is missing: restore it, or write the whole again"
            )
        return found


class NotedStore(WrapperStore[Store]):
    """A store that keeps the digests of the values written through it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.digests: dict[str, bytes] = {}

    async def set(self, key: str, value: Buffer) -> None:
        """Write a key."""
        await self._store.set(key, value)
        self.digests[key] = _digest(value)


class VerifiedStore(WholeStore):
    """A store that compares each chunk with its digest; this also finds misplaced chunks."""

    def __init__(self, store: Store, digests: Digests, first: int = 0) -> None:
        super().__init__(store)
        self.digests = digests
        self.first = first
        """Number of the chunk of the first digest."""

    def _with_store(self, store: Store) -> "VerifiedStore":
        return VerifiedStore(store, self.digests, self.first)

    def narrowed(self, start: int, stop: int) -> "VerifiedStore":
        """Return the store with the digests of some chunks alone."""
        part = slice(start - self.first, stop - self.first)
        return VerifiedStore(self._store, self.digests[part].copy(), start)

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value of a key."""
        chunk = CHUNK.fullmatch(key)
        if chunk is None:
            return await self._store.get(key, prototype, byte_range)
        found = await super().get(key, prototype, byte_range)
        whole = found if byte_range is None else await self._store.get(key, prototype)
        number = int(chunk[1]) - self.first
        known = 0 <= number < len(self.digests) and whole is not None
        if not (known and whole is not None and _digest(whole) == self.digests[number].tobytes()):
            raise CorruptStoreError(
                f"{self}: a chunk does not match its checksum: {key} is damaged, or not the one that was written there"
            )
        return found


def _digest(chunk: Buffer) -> bytes:
    """Return the digest of an encoded chunk.

    On two cores sha256 took 500 MB/s of 1 MB chunks, blake2b 250.
    """
    return hashlib.sha256(chunk.as_numpy_array().data).digest()[:DIGEST_BYTES]


def through(array: "zarr.Array[Any]", store: Store) -> "zarr.Array[Any]":
    """Return an array, (...), that is read and written through a store around its own."""
    path = StorePath(store, array.path)
    return zarr.Array(zarr.AsyncArray(metadata=array.metadata, store_path=path, config=EVERY_CHUNK))


def with_dimensions(array: "zarr.Array[Any]", names: tuple[str, ...]) -> "zarr.Array[Any]":
    """Return an array, (...), with names of its dimensions, as xarray reads them; none is written."""
    if array.metadata.zarr_format == 2:
        attributes = {**array.metadata.attributes, "_ARRAY_DIMENSIONS": list(names)}
        named: Any = array.metadata.update_attributes(attributes)
    else:
        named = replace(array.metadata, dimension_names=names)
    place = array.store_path
    return zarr.Array(zarr.AsyncArray(metadata=named, store_path=place, config=EVERY_CHUNK))


def layout_of(array: "zarr.Array[Any]") -> dict[str, Any]:
    """Return the type, shape, chunks and codecs of an array, (...), for JSON."""
    codecs: Any = array.metadata.to_dict().get("codecs") or ()
    return {
        "dtype": np.dtype(array.dtype).str,
        "shape": list(array.shape),
        "chunks": list(array.chunks),
        "codecs": [
            [codec["name"], (codec.get("configuration") or {}).get("endian")] for codec in codecs
        ],
    }


def verified_array(array: "zarr.Array[Any]", table: Place, content: str) -> "zarr.Array[Any]":
    """Return an array, (...), whose chunks are compared with their digests when they are read."""
    digests, signed = read(table, content)
    if signed["layout"] != layout_of(array):
        raise CorruptStoreError(
            f"{array.store_path} holds another array than the one that was written there"
        )
    return through(array, VerifiedStore(array.store, digests))


def write_chunks(array: "zarr.Array[Any]", start: int, answer: np.ndarray[Any, Any]) -> Digests:
    """Write whole chunks of rows, (m, ...), from `start` on, and return their digests."""
    store, height, stop = NotedStore(array.store), array.chunks[0], start + len(answer)
    through(array, store)[start:stop] = answer
    digests = []
    for number in range(start // height, -(-stop // height)):
        key = array.metadata.encode_chunk_key((number, *[0] * (array.ndim - 1)))
        digests.append(store.digests[f"{array.path}/{key}".removeprefix("/")])
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES)
