"""Input that may be damaged, hostile or slow to answer: what a Zarr store holds, looked at before it is used."""

import asyncio
import math
from contextlib import suppress
from time import sleep
from typing import Any

import zarr
from dask.utils import format_bytes
from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.storage import FsspecStore, LocalStore, StorePath, WrapperStore

from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources.safety.bounded import bounded
from dask_dpmeans.sources.stored_chunks import codecs_of
from dask_dpmeans.storage.arrays import CONTENTS, MARKER, TABLES, VerifiedStore, attributes_of, read, through, verified
from dask_dpmeans.storage.location import Location

PAUSES = (0.1, 0.5, 2.0, 8.0)
"""Seconds before each further try, where a store fails to answer."""
FINAL = (
    FileNotFoundError,
    PermissionError,
    NotADirectoryError,
    IsADirectoryError,
    NotImplementedError,
    ValueError,
    MemoryError,
)
"""Errors that no further try mends."""
REFUSALS = (400, 401, 403, 404, 405, 410)
"""Answers of HTTP that no further try mends; many servers say 403 of what is not there."""
METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
MOST_METADATA = 2**26
"""Bytes of metadata that are read."""
MOST_CHUNKS = 10**9
"""Chunks of an array, the most: metadata that tell of more were not written with any data in mind."""
ENCODED_SLACK = 2**16
"""Bytes that an encoded chunk may take beyond twice those that it decodes to."""
RUNS_CODE = {"pickle"}
"""Codecs that run what they decode."""


def opened(place: Location) -> "zarr.Array[Any] | zarr.Group":
    """What is at a path or URL; a store that fails to answer is asked again."""
    for pause in PAUSES:
        try:
            _ask(place)
            return zarr.open(place.store(), mode="r")
        except (*FINAL, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):  # also of metadata
            raise
        except Exception:
            sleep(pause)
    _ask(place)
    return zarr.open(place.store(), mode="r")


def _ask(place: Location) -> None:
    """Let a store elsewhere fail at one question.

    Zarr puts several at once, and leaves the others when one fails: a traceback of each, as the process ends.
    """
    if place.remote:
        fs, where = place.files()
        with suppress(FileNotFoundError, IsADirectoryError, NotADirectoryError):
            fs.cat_file(f"{where.rstrip('/')}/zarr.json")


class GuardedStore(WrapperStore[Store]):
    """A store in which a missing chunk is an error, as is one that is much longer than what it holds.

    Zarr takes a missing chunk for one that holds the fill value alone.  A store that fails to answer is asked again.
    """

    def __init__(self, store: Store, chunk_bytes: int, *, fill_missing: bool = False) -> None:
        super().__init__(store)
        self.chunk_bytes = chunk_bytes
        self.fill_missing = fill_missing

    def _with_store(self, store: Store) -> "GuardedStore":
        return type(self)(store, self.chunk_bytes, fill_missing=self.fill_missing)

    def __str__(self) -> str:
        return str(self._store)

    @property
    def plain(self) -> Store:
        """The store itself."""
        return getattr(self._store, "plain", self._store)

    def narrowed(self, start: int, stop: int) -> "GuardedStore":
        """The same store for some chunks of an array over rows alone: what travels with these."""
        return self._with_store(self._store.narrowed(start, stop)) if isinstance(self._store, VerifiedStore) else self

    async def getsize(self, key: str) -> int:
        """Bytes of a key."""
        return await self._store.getsize(key)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """What a key holds."""
        found = await self._insistently(key, prototype, byte_range)
        if key.rpartition("/")[2] in METADATA:
            return found
        if found is None:
            if self.fill_missing:
                return None
            raise CorruptStoreError(
                f"chunk {key} of {self} is missing. Was it lost, restore it; was it never written, since it holds the "
                "fill value alone, say --fill-missing, fill_missing=True, or pass a Dask array of it"
            )
        size = len(found)
        if byte_range is None and size > 2 * self.chunk_bytes + ENCODED_SLACK:
            raise CorruptStoreError(
                f"chunk {key} of {self} takes {format_bytes(size)}, where it should decode to "
                f"{format_bytes(self.chunk_bytes)}"
            )
        return found

    async def _insistently(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None) -> Buffer | None:
        for pause in PAUSES:
            try:
                return await self._store.get(key, prototype, byte_range)
            except FINAL:
                raise
            except Exception as error:
                if getattr(error, "status", None) in REFUSALS:
                    raise
                await asyncio.sleep(pause)
        return await self._store.get(key, prototype, byte_range)


def guarded(array: "zarr.Array[Any]", name: str, *, fill_missing: bool = False) -> "zarr.Array[Any]":
    """The same array, read with care; missing chunks hold the fill value only where that was said.

    Of an array in an output of ours each chunk must be the one that was written there.

    Raises
    ------
    InputError
        Where its metadata alone tell that it cannot be read, or the output is not finished.
    CorruptStoreError
        Where it is a small array of ours, and not as it was written.
    """
    codecs = {codec for codec, _ in codecs_of(array.metadata.to_dict())}
    if codecs & RUNS_CODE:
        raise InputError(f"{name} is stored with the codec pickle, which can run any code: write it with another")
    if min(array.chunks, default=1) < 1:
        raise InputError(f"{name} is stored in chunks of shape {array.chunks}")
    n_chunks = math.prod(-(-size // chunk) for size, chunk in zip(array.shape, array.chunks, strict=True))
    if n_chunks > MOST_CHUNKS:
        raise InputError(
            f"{name} is stored in {n_chunks:,} chunks of {format_bytes(_chunk_bytes(array))}, more than "
            f"{MOST_CHUNKS:,}: rechunk it"
        )
    whole = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    store = _verified(array, name).store
    path = StorePath(GuardedStore(store, whole, fill_missing=fill_missing), array.path)
    return zarr.Array(zarr.AsyncArray(metadata=bounded(array), store_path=path))


def narrowed(array: "zarr.Array[Any]", start: int, stop: int) -> "zarr.Array[Any]":
    """The same array, for some rows alone: what travels with these."""
    store, height = array.store, array.chunks[0]
    if not isinstance(store, GuardedStore):
        return array
    return through(array, store.narrowed(start // height, -(-stop // height)))


def _verified(array: "zarr.Array[Any]", name: str) -> "zarr.Array[Any]":
    """The same array, its chunks compared with their digests, where it is one of ours; others as they are."""
    found = _group_around(array)
    if found is None:
        return array
    group, member = found
    attributes = _attributes(group)
    if MARKER not in attributes:
        if MARKER in _attributes(group / "steps"):
            raise InputError(f"{name} is in {group}, an output of ours that has not finished: make it again")
        return array
    contents = attributes.get(CONTENTS, {})  # without them it was written by another version
    if member in contents:
        read(group / member, contents[member])
    table = f"{TABLES}/{member}"
    return verified(array, group / table, contents[table]) if table in contents else array


def _attributes(group: StorePath) -> dict[str, Any]:
    """The attributes of a group around an array; none where there is no group, or none that may be read."""
    try:
        return attributes_of(StorePath(GuardedStore(group.store, 0), group.path))
    except FINAL:
        return {}
    except OSError as error:
        if getattr(error.__cause__, "status", None) in REFUSALS:
            return {}
        raise


def _group_around(array: "zarr.Array[Any]") -> tuple[StorePath, str] | None:
    """The place of the group in which an array lies, if that can be told, and the array's name there."""
    store, path = array.store, array.path
    if path:
        around, _, member = path.rpartition("/")
        return StorePath(store, around), member
    if isinstance(store, LocalStore):
        return StorePath(LocalStore(store.root.parent, read_only=True)), store.root.name
    if isinstance(store, FsspecStore):
        around, _, member = store.path.rstrip("/").rpartition("/")
        return (StorePath(FsspecStore(store.fs, read_only=True, path=around)), member) if around else None
    return None


def absolute(array: "zarr.Array[Any]") -> "zarr.Array[Any]":
    """The same array under an absolute path, so that workers elsewhere find it."""
    store = array.store
    if isinstance(store, LocalStore) and not store.root.is_absolute():
        return zarr.open_array(LocalStore(store.root.resolve(), read_only=True), path=array.path, mode="r")
    return array


def check_metadata_size(place: Location, name: str) -> None:
    """Refuse metadata at a path or URL that would fill the memory."""
    fs, where = place.files()
    for key in METADATA:
        try:
            size = fs.size(f"{where.rstrip('/')}/{key}")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except Exception:  # no answer: opening it says more
            return
        if size is not None and size > MOST_METADATA:
            raise InputError(
                f"{name}: {place.url}/{key} takes {format_bytes(size)}, more than {format_bytes(MOST_METADATA)} of "
                "metadata"
            )


def _chunk_bytes(array: "zarr.Array[Any]") -> int:
    return math.prod(array.chunks) * int(array.dtype.itemsize)
