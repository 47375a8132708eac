"""Groups and arrays of one chunk as files, made and read here.

Zarr hands each of its operations to another thread.  An array of 20 numbers took it 4 ms to write and 3 ms to read;
here it takes .1 ms.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import zarr
from numcodecs import zstd
from zarr.codecs import Crc32cCodec, ZstdCodec

LEVEL = 3
ZSTD = ZstdCodec(level=LEVEL, checksum=True)
EVERY_CHUNK: Any = {"write_empty_chunks": True}
"""Chunks of fill values are written too, so that a missing chunk is known."""
METADATA = "zarr.json"
"""The file of the metadata of a group or an array."""
CHECKSUM_BYTES = 4


def fill_value(dtype: np.dtype[Any]) -> Any:
    """Return NaN, -1, False or no text, by the type."""
    return {"f": np.nan, "i": -1, "T": ""}.get(dtype.kind, False)


@cache
def _described(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Return the metadata that Zarr writes for an array of one number."""
    written: dict[str, Any] = {}
    zarr.create_array(
        zarr.storage.MemoryStore(written),
        shape=(1,),
        dtype=dtype,
        chunks=(1,),
        compressors=[ZSTD, Crc32cCodec()],
        fill_value=fill_value(dtype),
        config=EVERY_CHUNK,
    )
    found: dict[str, Any] = json.loads(written[METADATA].to_bytes())
    return found


def _metadata(
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    dimensions: tuple[str, ...] | None,
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the metadata of an array, (*shape), in one chunk."""
    chunk = [max(1, size) for size in shape]
    changed: dict[str, Any] = {
        "shape": list(shape),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "attributes": dict(attributes),
    }
    if dimensions is not None:
        changed["dimension_names"] = list(dimensions)
    return _described(dtype) | changed


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of a type can be made and read here: numbers, but not text."""
    return dtype.kind in "fiub"


def chunk_name(n_dimensions: int) -> str:
    """Return the name of the file of the chunk."""
    return "/".join(["c", *["0"] * n_dimensions])


def array_files(
    values: npt.NDArray[Any], dimensions: tuple[str, ...] | None, attributes: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the files of an array, (...), by their names in its folder."""
    little = np.asarray(values, values.dtype.newbyteorder("<"), order="C")
    metadata = _metadata(little.dtype, values.shape, dimensions, attributes)
    files = {METADATA: json.dumps(metadata).encode()}
    if values.size:
        packed = zstd.compress(little.tobytes(), LEVEL, checksum=True)
        checksum = google_crc32c.value(packed).to_bytes(CHECKSUM_BYTES, "little")
        files[chunk_name(values.ndim)] = packed + checksum
    return files


def group_file(
    attributes: Mapping[str, Any], members: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the metadata of a group, with the metadata of its members, if they are given."""
    metadata: dict[str, Any] = {"attributes": dict(attributes), "zarr_format": 3}
    if members is not None:
        known = {"kind": "inline", "must_understand": False, "metadata": dict(members)}
        metadata["consolidated_metadata"] = known
    return metadata | {"node_type": "group"}


def plain_metadata(file: bytes | None) -> dict[str, Any] | None:
    """Return the metadata in a file, if they are of an array as `array_files` makes it."""
    try:
        found: dict[str, Any] = json.loads(file or b"")
        dtype, names = np.dtype(found["data_type"]).newbyteorder("<"), found.get("dimension_names")
        fits = is_plain(dtype) and found == _metadata(
            dtype, tuple(found["shape"]), names, found["attributes"]
        )
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return None
    return found if fits else None


def values_of(metadata: Mapping[str, Any], chunk: bytes | None) -> npt.NDArray[Any] | None:
    """Return the array, (...), of plain metadata; None if the chunk is missing or damaged."""
    dtype, shape = np.dtype(metadata["data_type"]).newbyteorder("<"), tuple(metadata["shape"])
    packed, checksum = (chunk or b"")[:-CHECKSUM_BYTES], (chunk or b"")[-CHECKSUM_BYTES:]
    try:
        values = np.zeros(shape, dtype)
        if not values.size:
            return values
        if google_crc32c.value(packed).to_bytes(CHECKSUM_BYTES, "little") != checksum:
            return None
        zstd.decompress(packed, values)  # as many bytes, or the digest of the content differs
    except (MemoryError, OverflowError, RuntimeError, TypeError, ValueError):
        return None
    return values
