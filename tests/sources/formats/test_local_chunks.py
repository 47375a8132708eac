"""Chunks of local stores: the numbers that Zarr reads, or Zarr is asked."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds
from zarr.codecs import (
    BloscCodec,
    BytesCodec,
    Crc32cCodec,
    GzipCodec,
    ShardingCodec,
    TransposeCodec,
    ZstdCodec,
)
from zarr.storage import LocalStore, MemoryStore, ZipStore

from dask_dpmeans.errors import CorruptStoreError
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.sources.formats.local_chunks import LocalChunks
from dask_dpmeans.sources.safety.checked_store import checked_array
from dask_dpmeans.sources.shards import Prepare, StoredShard

COMPRESSORS = {
    "none": [],
    "zstd": [ZstdCodec()],
    "zstd, checked": [ZstdCodec(level=1, checksum=True), Crc32cCodec()],
    "checked": [Crc32cCodec()],
    "blosc": [BloscCodec(cname="lz4", shuffle="bitshuffle")],
}
DTYPES = ("f2", "f4", "f8", "u1", "i2", "u8")
ROWS = np.arange(200, dtype=np.float32).reshape(100, 2)


def stored(place, rows, height, **options):
    """A checked array of rows, (n, d), in chunks of so many rows."""
    options = {"compressors": [ZstdCodec()]} | options
    made = zarr.create_array(
        place, shape=rows.shape, chunks=(height, rows.shape[1]), dtype=rows.dtype, **options
    )
    made[:] = rows
    return checked_array(made, "rows")


@given(st.data(), seeds)
def test_rows_are_those_that_zarr_reads(data, seed):
    n, d = data.draw(st.integers(1, 90)), data.draw(st.integers(1, 3))
    random = np.random.default_rng(seed)
    values = 1 + 99 * random.random((n, d))  # Zarr leaves out chunks of zeros
    rows = values.astype(data.draw(st.sampled_from(DTYPES)))
    height, per_shard = data.draw(st.integers(1, 40)), data.draw(st.integers(0, 4))
    options = {"compressors": COMPRESSORS[data.draw(st.sampled_from(sorted(COMPRESSORS)))]}
    if per_shard:
        options["shards"] = (per_shard * height, d)
    with TemporaryDirectory() as folder:
        chunks = LocalChunks.of(stored(Path(folder) / "rows", rows, height, **options))
        scratch = Scratch()
        for _ in range(3):
            start = data.draw(st.integers(0, n - 1))
            stop = data.draw(st.integers(start + 1, n))
            found = chunks.read(start, stop, scratch)
            assert found.tobytes() == rows[start:stop].tobytes()
            assert (found.shape, found.dtype) == (rows[start:stop].shape, rows.dtype)


@pytest.mark.parametrize("location", ["start", "end"])
def test_the_index_of_a_shard_may_be_at_either_end(tmp_path, location):
    sharding = ShardingCodec(
        chunk_shape=(10, 2), codecs=[BytesCodec(), ZstdCodec()], index_location=location
    )
    whole = {"shape": ROWS.shape, "chunks": (40, 2), "dtype": ROWS.dtype, "compressors": None}
    made = zarr.create_array(tmp_path / "rows", serializer=sharding, **whole)
    made[:] = ROWS
    made = checked_array(zarr.open_array(tmp_path / "rows", mode="r"), "rows")
    assert LocalChunks.of(made).read(13, 97, Scratch()).tolist() == ROWS[13:97].tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"compressors": [GzipCodec()]},
        {"compressors": [ZstdCodec(), ZstdCodec()]},
        {"compressors": [Crc32cCodec(), ZstdCodec()]},
        {"filters": [TransposeCodec(order=(1, 0))]},
        {"serializer": BytesCodec(endian="big")},
        {"zarr_format": 2, "compressors": None},
        {"chunks": (10, 1)},
    ],
)
def test_zarr_reads_other_arrays(tmp_path, options):
    options = {"chunks": (10, 2), "compressors": [ZstdCodec()]} | options
    made = zarr.create_array(tmp_path / "rows", shape=ROWS.shape, dtype=ROWS.dtype, **options)
    made[:] = ROWS
    checked = checked_array(made, "rows")
    assert LocalChunks.of(checked) is None
    assert StoredShard(0, 100, checked, None).read(3, 50)[0].tolist() == ROWS[3:50].tolist()


def test_zarr_reads_where_the_system_does_not_read_from_a_place(tmp_path, monkeypatch):
    checked = stored(tmp_path / "rows", ROWS, 10)
    assert LocalChunks.of(checked) is not None
    monkeypatch.delattr(os, "preadv")
    assert LocalChunks.of(checked) is None
    assert StoredShard(0, 100, checked, None).read(3, 50)[0].tolist() == ROWS[3:50].tolist()


@pytest.mark.parametrize("kind", ["memory", "zip", "unchecked", "NumPy"])
def test_zarr_reads_other_stores(tmp_path, kind):
    if kind == "NumPy":
        assert LocalChunks.of(ROWS) is None
    elif kind == "unchecked":
        stored(tmp_path / "rows", ROWS, 10)
        assert LocalChunks.of(zarr.open_array(tmp_path / "rows", mode="r")) is None
    else:
        place = MemoryStore() if kind == "memory" else ZipStore(tmp_path / "rows.zip", mode="w")
        assert LocalChunks.of(stored(place, ROWS, 10)) is None
        place.close()


def damage(file, kind):
    whole = file.read_bytes()
    if kind == "missing":
        file.unlink()
    elif kind == "cut":
        file.write_bytes(whole[:-9])
    elif kind == "longer":
        file.write_bytes(whole + bytes(2 * len(whole) + 2**17))
    else:
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        file.write_bytes(flipped)


@pytest.mark.parametrize("kind", ["missing", "cut", "longer", "flipped"])
@pytest.mark.parametrize("codec", ["zstd, checked", "checked"])
@pytest.mark.parametrize("shards", [None, (40, 2)])
def test_zarr_says_what_is_wrong_with_a_chunk(tmp_path, kind, codec, shards):
    made = stored(tmp_path / "rows", ROWS, 20, compressors=COMPRESSORS[codec], shards=shards)
    damage(tmp_path / "rows/c/1/0", kind)
    assert LocalChunks.of(made).read(0, 20, Scratch()).tolist() == ROWS[:20].tolist()
    assert LocalChunks.of(made).read(0, 100, Scratch()) is None
    with pytest.raises(CorruptStoreError, match="rows"):
        StoredShard(0, 100, made, None).read(0, 100)


@pytest.mark.parametrize("shards", [None, (40, 2)])
def test_chunks_that_are_not_there_may_be_filled_in(tmp_path, shards):
    rows = ROWS.copy()
    rows[20:40] = rows[80:] = 7.0
    options = {"compressors": [ZstdCodec()], "fill_value": 7.0, "shards": shards}
    made = zarr.create_array(
        LocalStore(tmp_path / "rows"), shape=rows.shape, chunks=(20, 2), dtype="f4", **options
    )
    made[:] = rows
    made = checked_array(made, "rows", fill_missing=True)
    assert LocalChunks.of(made).read(0, 100, Scratch()) is None
    assert StoredShard(0, 100, made, None).read(0, 100)[0].tolist() == rows.tolist()


@pytest.mark.parametrize("ahead", [False, True])
def test_a_block_keeps_its_rows_until_the_next(tmp_path, ahead, monkeypatch):
    """Pieces of 6 rows in blocks of 8: rows that wait are not overwritten."""
    made = stored(tmp_path / "rows", ROWS, 6)
    monkeypatch.setattr("dask_dpmeans.sources.shards.PIECE_BYTES", 6 * 2 * 4)
    shard = StoredShard(0, 100, made, None, ahead=ahead)
    loaded = shard.load()
    assert loaded.rows.tolist() == ROWS.tolist()
    start = 0
    for block in shard.blocks(Prepare(ROWS.dtype), 8, range(13)):
        assert block.rows.tolist() == ROWS[start : start + 8].tolist()
        start += 8
