"""Zarr input that may be damaged, hostile or slow to answer: checks before it is used."""

import asyncio
import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import sleep
from typing import Any

import zarr
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.storage import FsspecStore, LocalStore, StorePath

from dask_dpmeans.errors import (
    CorruptStoreError,
    InputError,
    lacks_connection,
    lacks_credentials,
    of_store,
    reason_of,
    unseen,
)
from dask_dpmeans.sources.resources import format_bytes
from dask_dpmeans.sources.safety.bounded_codecs import bound_codecs
from dask_dpmeans.sources.stored_chunks import codecs_of
from dask_dpmeans.storage import arrays
from dask_dpmeans.storage.array_spec import TABLES
from dask_dpmeans.storage.arrays import CONTENTS, MARKER, TransparentStore, VerifiedStore
from dask_dpmeans.storage.location import Location

PAUSES = (0.1, 0.5, 2.0, 8.0)
"""Seconds before each retry if a store fails to answer.

A chunk with another digest is read once more: a late copy of a task may be writing it again.
"""
FINAL = (
    FileNotFoundError,
    PermissionError,
    NotADirectoryError,
    IsADirectoryError,
    NotImplementedError,
    ValueError,
    MemoryError,
)
"""Errors after which there is no retry."""
BAD_METADATA = (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors that damaged metadata cause."""
REFUSALS = (400, 401, 403, 404, 405, 410)
"""HTTP answers after which there is no retry; many servers send 403 for a missing key."""
METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
MOST_METADATA = 2**26
"""Bytes of metadata that are read, at most."""
MOST_CHUNKS = 10**9
"""Chunks of an array, at most: metadata with more are not from real data."""
ENCODED_SLACK = 2**16
"""Bytes that an encoded chunk may take beyond twice its decoded bytes."""
RUNS_CODE = {"pickle"}
"""Codecs that can run code as they decode."""


def open_node(place: Location) -> "zarr.Array[Any] | zarr.Group":
    """Open the array, (...), or the group at a path or URL; retry if the store fails to answer.

    If nothing listens at its address, the client of an object store has tried for seconds: five times as
    often took 57 s, and there is no retry.
    """
    for pause in PAUSES:
        try:
            _ask(place)
            return zarr.open(place.store(), mode="r")
        except (*FINAL, *BAD_METADATA):
            raise
        except Exception as error:
            if lacks_credentials(error) or _client_tried(error):
                raise
            sleep(pause)
    _ask(place)
    return zarr.open(place.store(), mode="r")


def _client_tried(error: Exception) -> bool:
    """Return whether nothing listens at an address, and the client has tried more than once."""
    return lacks_connection(error) and not isinstance(error, OSError)


def _ask(place: Location) -> None:
    """Let a remote store fail at one request.

    Zarr sends several requests at once and abandons the others if one fails; each abandoned request
    prints a traceback as the process ends.
    """
    if place.remote:
        fs, where = place.files()
        with suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
            fs.cat_file(f"{where.rstrip('/')}/zarr.json")


class CheckedStore(TransparentStore):
    """Store in which a missing chunk is an error, as is an encoded chunk that is far too long.

    Zarr reads a missing chunk as the fill value.  Requests are retried if the store fails to answer.
    """

    def __init__(self, store: Store, chunk_bytes: int, *, fill_missing: bool = False) -> None:
        super().__init__(store)
        self.chunk_bytes = chunk_bytes
        self.fill_missing = fill_missing

    def _with_store(self, store: Store) -> "CheckedStore":
        return type(self)(store, self.chunk_bytes, fill_missing=self.fill_missing)

    @property
    def folder(self) -> Path | None:
        """The folder of the files, if these have no digests to compare; None for other stores."""
        return self._store.root if type(self._store) is LocalStore else None

    def narrowed(self, start: int, stop: int) -> "CheckedStore":
        """Return the store for some chunks of an array over rows, with their digests only."""
        if not isinstance(self._store, VerifiedStore):
            return self
        return self._with_store(self._store.narrowed(start, stop))

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Return the value of a key."""
        try:
            found = await self._get_with_retries(key, prototype, byte_range)
        except CorruptStoreError:
            self._refuse_unseen()
            raise
        if key.rpartition("/")[2] in METADATA:
            return found
        if found is None:
            self._refuse_unseen()
            if self.fill_missing:
                return None
            raise CorruptStoreError(
                f"chunk {key} of {self} is missing. If it was lost, restore it. If it was never written "
                "because it holds only the fill value, use --fill-missing or fill_missing=True, or "
                "pass a Dask array"
            )
        size = len(found)
        if byte_range is None and size > 2 * self.chunk_bytes + ENCODED_SLACK:
            raise CorruptStoreError(
                f"chunk {key} of {self} takes {format_bytes(size)}, but it should decode to "
                f"{format_bytes(self.chunk_bytes)}"
            )
        return found

    def _refuse_unseen(self) -> None:
        """Raise `InputError` if the folder of the store is not on the machine that reads a chunk of it."""
        plain = self.plain
        if isinstance(plain, LocalStore) and not plain.root.exists():
            raise unseen(plain.root)

    async def _get_with_retries(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        lasting = 0  # errors that a third try would meet, too
        for pause in PAUSES:
            try:
                return await self._store.get(key, prototype, byte_range)
            except FINAL:
                raise
            except Exception as error:
                # a machine of a cloud may be asked for credentials by many workers at once
                lasting += isinstance(error, CorruptStoreError) or lacks_credentials(error)
                if getattr(error, "status", None) in REFUSALS or lasting > 1:
                    raise
                await asyncio.sleep(pause)
        return await self._store.get(key, prototype, byte_range)


@contextmanager
def damage_of(what: str) -> Iterator[None]:
    """Raise an error that names the data if a store does not answer, or a chunk is damaged."""
    try:
        yield
    except (InputError, CorruptStoreError, MemoryError):
        raise
    except Exception as error:  # of the store, or of a codec that meets a damaged chunk
        kind = OSError if of_store(error) else CorruptStoreError
        raise kind(f"{what} cannot be read: {reason_of(error)}") from error


def checked_array(
    array: "zarr.Array[Any]", name: str, *, fill_missing: bool = False
) -> "zarr.Array[Any]":
    """Return an array, (...), whose chunks are checked as they are read.

    Arrays and chunks of an output of this package are compared with their digests.
    """
    check_codecs(array, name)
    if min(array.chunks, default=1) < 1:
        raise InputError(f"{name} is stored in chunks of shape {array.chunks}")
    pairs = zip(array.shape, array.chunks, strict=True)
    n_chunks = math.prod(-(-size // chunk) for size, chunk in pairs)
    if n_chunks > MOST_CHUNKS:
        size = format_bytes(math.prod(array.chunks) * int(array.dtype.itemsize))
        raise InputError(
            f"{name} is stored in {n_chunks:,} chunks of {size}, more "
            f"than {MOST_CHUNKS:,}: rechunk it"
        )
    encoded_bytes = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    store = _verified(array, name).store
    path = StorePath(CheckedStore(store, encoded_bytes, fill_missing=fill_missing), array.path)
    return zarr.Array(zarr.AsyncArray(metadata=bound_codecs(array), store_path=path))


@dataclass(frozen=True)
class CheckedGroup(zarr.Group):
    """Group whose arrays are checked as they are read, for packages that ask for its members."""

    names: Collection[str] | None = None
    """Names of the arrays that it shows; None for all."""
    fill_missing: bool = False
    shown: str = ""
    """Path or URL, for messages."""
    dimensions: tuple[str, ...] = ()
    """Names of the dimensions of its arrays, if the group tells them."""

    @classmethod
    def of(
        cls,
        group: zarr.Group,
        shown: str,
        names: Collection[str] | None,
        fill_missing: bool,
        dimensions: tuple[str, ...] = (),
    ) -> "CheckedGroup":
        """Return a group with checks."""
        around = zarr.AsyncGroup(metadata=group.metadata, store_path=group.store_path)
        return cls(around, names, fill_missing, shown, dimensions)

    def members(self, *_: Any, **__: Any) -> tuple[tuple[str, Any], ...]:
        """Return names and arrays."""
        return self._shown

    @cached_property
    def _shown(self) -> tuple[tuple[str, Any], ...]:
        return tuple(
            (name, self._checked(array, f"{self.shown}/{name}"))
            for name, array in self.arrays()
            if self.names is None or name in self.names
        )

    def _checked(self, array: "zarr.Array[Any]", name: str) -> "zarr.Array[Any]":
        if array.dtype.kind in "OT":  # text has any size; in a cube it is a coordinate
            check_codecs(array, name)
            return array
        # A coordinate of one value that is 0, such as a first date, is not written by xarray.
        filled = self.fill_missing or array.size == 1
        found = checked_array(array, name, fill_missing=filled)
        return arrays.with_dimensions(found, self.dimensions) if self.dimensions else found


def check_codecs(array: "zarr.Array[Any]", name: str) -> None:
    """Refuse an array, (...), with a codec that can run code."""
    codecs = {codec for codec, _ in codecs_of(array.metadata.to_dict())}
    if codecs & RUNS_CODE:
        pickled = "stored with the codec pickle, which can run any code"
        raise InputError(f"{name} is {pickled}: write it with another codec")


def narrow_array(array: "zarr.Array[Any]", start: int, stop: int) -> "zarr.Array[Any]":
    """Return an array, (n, ...), for some rows, so that only their digests travel with it."""
    store, height = array.store, array.chunks[0]
    if not isinstance(store, CheckedStore):
        return array
    return arrays.through(array, store.narrowed(start // height, -(-stop // height)))


def _verified(array: "zarr.Array[Any]", name: str) -> "zarr.Array[Any]":
    """Return an array of an output of this package with checked digests; others as they are."""
    found = _group_around(array)
    if found is None:
        return array
    group, member = found
    attributes = _attributes(group)
    if MARKER not in attributes:
        if MARKER in _attributes(group / "steps"):
            raise InputError(f"{name} is in {group}, an output that is not finished: make it again")
        return array
    contents = attributes.get(CONTENTS, {})  # empty if another version wrote it
    if member in contents:
        arrays.read(group / member, contents[member])
    table = f"{TABLES}/{member}"
    if table in contents:
        return arrays.verified_array(array, group / table, contents[table])
    return array


def _attributes(group: StorePath) -> dict[str, Any]:
    """Return the attributes of the group around an array; none if it cannot be read."""
    try:
        return arrays.attributes_of(StorePath(CheckedStore(group.store, 0), group.path))
    except FINAL:
        return {}
    except OSError as error:
        if getattr(error.__cause__, "status", None) in REFUSALS:
            return {}
        raise


def _group_around(array: "zarr.Array[Any]") -> tuple[StorePath, str] | None:
    """Return the group that contains an array, and the array's name in it, if known."""
    store, path = array.store, array.path
    if path:
        around, _, member = path.rpartition("/")
        return StorePath(store, around), member
    if isinstance(store, LocalStore):
        return StorePath(LocalStore(store.root.parent, read_only=True)), store.root.name
    if isinstance(store, FsspecStore):
        around, _, member = store.path.rstrip("/").rpartition("/")
        if around:
            return StorePath(FsspecStore(store.fs, read_only=True, path=around)), member
    return None


def make_absolute(array: "zarr.Array[Any]") -> "zarr.Array[Any]":
    """Return an array, (...), under an absolute path, so that workers in other folders find it."""
    store = array.store
    if isinstance(store, LocalStore) and not store.root.is_absolute():
        resolved = LocalStore(store.root.resolve(), read_only=True)
        return zarr.open_array(resolved, path=array.path, mode="r")
    return array


def check_metadata_size(place: Location, name: str) -> None:
    """Raise `InputError` for metadata that would fill the memory."""
    fs, where = place.files()
    for key in METADATA:
        try:
            size = fs.size(f"{where.rstrip('/')}/{key}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except Exception as error:  # opening it gives a better error
            if _client_tried(error):  # but as late again
                raise
            return
        if size is not None and size > MOST_METADATA:
            raise InputError(
                f"{name}: {place.url}/{key} takes {format_bytes(size)}, more than "
                f"{format_bytes(MOST_METADATA)} of metadata"
            )
