"""Groups and arrays of ours in Zarr: checksummed, every chunk written, and a missing or damaged one is an error."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, ZstdCodec
from zarr.errors import ContainsGroupError
from zarr.storage import MemoryStore

from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.location import Location

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What comes of metadata and attributes that are none of ours."""
MARKER = "dask_dpmeans"
"""The attribute under which a run says what it is."""


def create_group(place: Location, attributes: dict[str, Any], *, anew: bool = False) -> None:
    """Write a group's metadata, signed, in one write.

    Raises
    ------
    FileExistsError
        Where it is there already; `anew` leaves no time between the look and the write where the store is remote.
    """
    attributes = signed(attributes)
    if anew and place.remote:
        written: dict[str, Any] = {}
        zarr.create_group(MemoryStore(written), attributes=attributes)
        (place / "zarr.json").create(written["zarr.json"].to_bytes())
        return
    try:
        zarr.create_group(place.store(), attributes=attributes, zarr_format=3)
    except ContainsGroupError as error:
        raise FileExistsError(str(error)) from error


def create(
    place: Location,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    dimensions: tuple[str, ...] | None,
    chunk_rows: int,
    attributes: dict[str, Any] | None = None,
) -> "zarr.Array[Any]":
    """A new array of ours; `chunk_rows` rows to a chunk, all columns.

    What was not written reads as NaN, -1 or False, whoever reads it.
    """
    return zarr.create_array(
        place.store(),
        shape=shape,
        dtype=dtype,
        chunks=(max(1, chunk_rows), *(max(1, size) for size in shape[1:])),
        compressors=[ZstdCodec(level=3, checksum=True), Crc32cCodec()],
        fill_value={"f": np.nan, "i": -1}.get(dtype.kind, False),
        dimension_names=dimensions,
        attributes=attributes,
        config={"write_empty_chunks": True},
        overwrite=True,
    )


def write(
    place: Location,
    values: np.ndarray[Any, Any],
    dimensions: tuple[str, ...] | None = None,
    attributes: dict[str, Any] | None = None,
) -> None:
    """Write a small array in one chunk, with a digest of it."""
    attributes = signed((attributes or {}) | {"content": _content(values)})
    array = create(place, values.shape, values.dtype, dimensions, len(values), attributes=attributes)
    if values.size:
        array[...] = values


def open_whole(place: Location) -> "zarr.Array[Any]":
    """An array of ours, after a look that no chunk is missing (a missing one would read as the fill value)."""
    try:
        array = zarr.open_array(place.store(), mode="r", zarr_format=3)
    except Exception as error:  # whatever is wrong with its metadata
        raise CorruptStoreError(f"{place.url} cannot be opened: {error or type(error).__name__}") from error
    missing = array.nchunks - array.nchunks_initialized
    if array.size and missing:
        raise CorruptStoreError(f"{place.url}: {missing} of {array.nchunks} chunks are missing")
    return array


def read(place: Location) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    """A small array of ours, and its attributes, both as they were written."""
    array = open_whole(place)
    attributes = _checked(dict(array.attrs), place)
    values = CheckedArray(array)[...]
    if attributes.get("content") != _content(values):
        raise CorruptStoreError(f"{place.url} does not hold what was written there: its content has another digest")
    return values, attributes


def attributes_of(place: Location) -> dict[str, Any]:
    """The attributes of a group; none where there is no group.

    Raises
    ------
    CorruptStoreError
        Where they are ours, and do not match their digest.
    OSError
        Where the store does not answer.
    """
    try:
        attributes = dict(zarr.open_group(place.store(), mode="r", zarr_format=3).attrs)
    except FileNotFoundError:
        return {}
    except (InputError, OSError):  # a store that does not answer may hold anything
        raise
    except MALFORMED:
        place.names()  # where options are wrong this says so
        return {}
    except Exception as error:  # of the package that asks the store
        raise OSError(f"{place.url} does not answer: {error}") from error
    return _checked(attributes, place) if MARKER in attributes else attributes


def _checked(attributes: dict[str, Any], place: Location) -> dict[str, Any]:
    if attributes != signed(attributes):
        raise CorruptStoreError(f"{place.url}/zarr.json: the attributes do not match their digest")
    return attributes


def _content(values: np.ndarray[Any, Any]) -> str:
    """A digest of an array's type, shape and numbers."""
    native = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return hashlib.sha256(f"{native.dtype.str} {native.shape} ".encode() + native.tobytes()).hexdigest()


def signed(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes with a digest of them, since JSON has no checksum of its own."""
    unsigned = {key: value for key, value in attributes.items() if key != "digest"}
    digest = hashlib.sha256(json.dumps(unsigned, sort_keys=True).encode()).hexdigest()
    return unsigned | {"digest": digest}


@dataclass(frozen=True)
class CheckedArray:
    """A Zarr array of ours, whose damage is an error that names it."""

    array: "zarr.Array[Any]"

    @property
    def shape(self) -> tuple[int, ...]:
        """As NumPy has it."""
        return self.array.shape

    @property
    def ndim(self) -> int:
        """As NumPy has it."""
        return self.array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """As NumPy has it."""
        return np.dtype(self.array.dtype)

    @property
    def chunks(self) -> tuple[int, ...]:
        """Of the store."""
        return self.array.chunks

    def __getitem__(self, part: Any) -> np.ndarray[Any, Any]:
        try:
            return np.asarray(self.array[part])
        except (ValueError, RuntimeError) as error:
            raise CorruptStoreError(f"{self.array.store_path}: a chunk does not match its checksum: {error}") from error


@dataclass(frozen=True)
class Writer:
    """Where a map's answers go: arrays over the rows."""

    arrays: tuple["zarr.Array[Any] | np.ndarray[Any, Any]", ...]

    def __call__(self, start: int, answers: tuple[np.ndarray[Any, Any], ...]) -> None:
        """Write the answers of the rows from `start` on."""
        for array, answer in zip(self.arrays, answers, strict=True):
            array[start : start + len(answer)] = answer
