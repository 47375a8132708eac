"""Input that is damaged, hostile or slow: an error that names it, before it costs memory or runs anything."""

import json
import pickle
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import google_crc32c
import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from memory import peak_memory
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec
from zarr.storage import LocalStore, WrapperStore

from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.safety import bounded_codecs, checked_store
from dask_dpmeans.sources.safety.bounded_codecs import declared_bytes

ROWS = np.random.default_rng(0).standard_normal((640, 2))
CODECS = {
    "none": {"compressors": None},
    "zstd": {"compressors": ZstdCodec()},
    "zstd, checked": {"compressors": [ZstdCodec(checksum=True), Crc32cCodec()]},
    "blosc": {"compressors": BloscCodec()},
    "gzip": {"compressors": GzipCodec()},
    "version 2": {"zarr_format": 2, "compressors": numcodecs.Zlib()},
    "shards": {"shards": (320, 2)},
}


def stored(path, **options):
    made = zarr.create_array(path, shape=ROWS.shape, chunks=(64, 2), dtype=ROWS.dtype, **options)
    made[:] = ROWS
    return made


def chunk_files(path):
    return sorted(
        file
        for file in Path(path).rglob("*")
        if file.is_file() and file.name[0] != "z" and file.name[0] != "."
    )


def source(*data, **options):
    """Rows that are read again in each pass."""
    return as_source(*data, threads=2, memory_limit=20_000, block_rows=16, **options)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("damage", ["missing", "emptied", "cut", "longer"])
def test_a_damaged_chunk_is_an_error_that_names_it(tmp_path, codec, damage):
    stored(tmp_path / "rows.zarr", **CODECS[codec])
    assert source(tmp_path / "rows.zarr").n_features == 2
    chunk = chunk_files(tmp_path / "rows.zarr")[-1]
    whole = chunk.read_bytes()
    if damage == "missing":
        chunk.unlink()
    elif damage == "longer":
        chunk.write_bytes(whole + bytes(2 * len(whole) + 5 * 2**16))
    else:
        chunk.write_bytes(whole[: 0 if damage == "emptied" else len(whole) - 9])
    with pytest.raises(CorruptStoreError, match=r"rows.zarr"):
        source(tmp_path / "rows.zarr")


def test_a_chunk_that_goes_missing_between_passes_is_an_error(tmp_path):
    stored(tmp_path / "rows.zarr")
    found = source(tmp_path / "rows.zarr")
    chunk_files(tmp_path / "rows.zarr")[3].unlink()
    with pytest.raises(
        CorruptStoreError, match=r"chunk c/3/0 of file:.*rows.zarr is missing\. If it was lost"
    ):
        found.map(lambda block: (block.rows,), lambda *_: None)


@pytest.mark.parametrize("fill_missing", [True, False])
def test_a_store_that_a_worker_does_not_find_holds_no_fill_values(tmp_path, fill_missing):
    stored(tmp_path / "rows.zarr", fill_value=0)
    found = source(tmp_path / "rows.zarr", fill_missing=fill_missing)
    (tmp_path / "rows.zarr").rename(tmp_path / "away")  # stands for a disk of another machine
    with pytest.raises(InputError, match=r"rows.zarr is not there on .*storage that every worker"):
        found.map(lambda block: (block.rows,), lambda *_: None)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_missing_chunks_hold_the_fill_value_where_that_is_said(tmp_path, zarr_format):
    made = stored(tmp_path / "rows.zarr", zarr_format=zarr_format, fill_value=0)
    made[128:192] = 0  # which Zarr then removes
    weights = zarr.create_array(
        tmp_path / "weights.zarr", shape=(640,), chunks=(64,), dtype=np.float64, fill_value=1
    )
    with pytest.raises(CorruptStoreError, match="is missing"):
        source(made)
    with pytest.raises(CorruptStoreError, match=r"chunk c/\d of .*weights.zarr is missing"):
        source(ROWS, weights)
    found = source(made, weights, fill_missing=True)
    np.testing.assert_allclose(found.summary.sums, made[:].sum(axis=0))
    assert found.summary.weight == 640


def test_a_damaged_group_of_metadata_is_bad_input(tmp_path):
    stored(tmp_path / "rows.zarr")
    file = tmp_path / "rows.zarr" / "zarr.json"
    whole = json.loads(file.read_text())
    for text in ("", "[" * 10**5, "{}", '{"zarr_format": 3}', json.dumps(whole | {"codecs": []})):
        file.write_text(text)
        with pytest.raises(InputError, match=r"^data: (there is no Zarr array at )?.*rows\.zarr"):
            source(tmp_path / "rows.zarr")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(data=st.data())
def test_fuzzed_metadata_are_refused_or_read(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzzed") / "rows.zarr"
    stored(path)
    file = path / "zarr.json"
    metadata = json.loads(file.read_text())
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from(sorted(metadata)))
        old = metadata[key]
        kept = data.draw(st.booleans()) and isinstance(old, dict | list) and old
        if kept:
            inner = data.draw(
                st.sampled_from(sorted(old) if isinstance(old, dict) else list(range(len(old))))
            )
            old[inner] = data.draw(JSON)
        else:
            metadata[key] = data.draw(JSON)
    file.write_text(json.dumps(metadata))
    with suppress(InputError, CorruptStoreError):
        assert source(path).n_features >= 1


def test_endless_metadata_are_refused_unread(tmp_path):
    stored(tmp_path / "rows.zarr")
    with open(tmp_path / "rows.zarr" / "zarr.json", "ab") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(
        InputError, match=r"data: .*rows\.zarr/zarr\.json takes 1\.00 TiB, more than 64\.00 MiB"
    ):
        source(tmp_path / "rows.zarr")


def test_chunks_without_end_are_refused_with_their_number(tmp_path):
    made = zarr.create_array(
        tmp_path / "rows.zarr", shape=(2**37, 16), chunks=(1, 16), dtype=np.float32
    )
    with pytest.raises(
        InputError,
        match=r"data is stored in 137,438,953,472 chunks of 64 B, more than 1,000,000,000",
    ):
        source(made)


@pytest.mark.parametrize(
    "where", [{"filters": [{"id": "pickle"}]}, {"compressor": {"id": "pickle"}}]
)
@pytest.mark.parametrize("dtype", ["<f8", "|O"])
def test_a_codec_that_runs_code_is_refused_and_nothing_is_run(tmp_path, where, dtype):
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return Path.touch, (ran,)

    stored(tmp_path / "rows.zarr", zarr_format=2, compressors=None)
    file = tmp_path / "rows.zarr" / ".zarray"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"dtype": dtype} | where))
    for chunk in chunk_files(tmp_path / "rows.zarr"):
        chunk.write_bytes(pickle.dumps(Attack()))
    with pytest.raises(
        InputError, match=r"the codec pickle, which can run any|no Zarr array|dtype object"
    ):
        source(tmp_path / "rows.zarr")
    assert not ran.exists()


@pytest.mark.parametrize("codec", ["zstd", "blosc"])
@pytest.mark.parametrize("shards", [None, (320, 2)])
def test_a_chunk_that_would_unpack_to_gigabytes_is_refused_packed(tmp_path, codec, shards):
    compressors = {"zstd": ZstdCodec(), "blosc": BloscCodec(cname="zstd")}[codec]
    stored(tmp_path / "rows.zarr", compressors=compressors, shards=shards)
    packed = {"zstd": numcodecs.Zstd(), "blosc": numcodecs.Blosc("zstd")}[codec].encode(
        bytes(2**28)
    )
    assert len(packed) < 2**20
    put(tmp_path / "rows.zarr", packed, sharded=shards is not None)
    with pytest.raises(CorruptStoreError, match=r"would unpack to 256\.00 MiB, the metadata say"):
        source(tmp_path / "rows.zarr")


@given(size=st.integers(0, 2**20), checksum=st.booleans())
def test_what_chunks_unpack_to_is_read_from_their_headers(size, checksum):
    content = bytes(size)
    packed = bytes(numcodecs.Zstd(checksum=checksum).encode(content))
    assert declared_bytes("zstd", packed) == (size, True)
    if size:
        assert declared_bytes("blosc", bytes(numcodecs.Blosc().encode(content))) == (size, True)
        assert declared_bytes("lz4", bytes(numcodecs.LZ4().encode(content))) == (size, True)


@given(head=st.binary(max_size=30))
def test_any_header_is_read_without_an_error(head):
    for name in ("zstd", "blosc", "lz4"):
        for start in (b"", bounded_codecs.ZSTD_MAGIC, b"\x02"):
            assert declared_bytes(name, start + head)[0] >= 0


def unsized(content):
    """A zstd frame of raw and RLE blocks that does not say how long it is (RFC 8878, section 3.1.1)."""
    parts = [content[start : start + 2**17] for start in range(0, len(content), 2**17)]
    frame = bounded_codecs.ZSTD_MAGIC + bytes([0, 0x38])  # no size; a window of 128 KB
    for number, part in enumerate(parts):
        same = len(set(part)) == 1
        header = len(part) << 3 | same << 1 | (number == len(parts) - 1)
        frame += header.to_bytes(3, "little") + (part[:1] if same else part)
    return frame


PACK = {
    "gzip": numcodecs.GZip(9).encode,
    "zstd": unsized,
    "zlib": numcodecs.Zlib(9).encode,
    "bz2": numcodecs.BZ2().encode,
    "lzma": numcodecs.LZMA().encode,
    "lz4": numcodecs.LZ4().encode,
}


def put(path, packed, *, sharded):
    """Put packed bytes in place of each chunk, or of each inner chunk of a shard of five."""
    for chunk in chunk_files(path):
        if not sharded:
            chunk.write_bytes(packed)
            continue
        table = np.frombuffer(chunk.read_bytes()[-(5 * 16 + 4) : -4], "<u8").copy()
        table[0::2], table[1::2] = 0, len(packed)
        checksum = google_crc32c.value(table.tobytes()).to_bytes(4, "little")
        chunk.write_bytes(packed + table.tobytes() + checksum)


def refuse(array):
    with pytest.raises(CorruptStoreError, match=r"would unpack to .*, the metadata say 1\.00 kiB"):
        source(array)


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not")
@pytest.mark.parametrize("codec", PACK)
@pytest.mark.parametrize("layout", ["chunks", "shards", "version 2"])
def test_no_codec_unpacks_more_than_a_chunk_holds(tmp_path, codec, layout):
    """Measured where memory would be spent; honest bytes of the same codec are read."""
    pack = PACK[codec]
    if layout == "version 2":
        options = {"zarr_format": 2, "compressors": numcodecs.get_codec({"id": codec})}
    else:
        name = codec if codec in ("gzip", "zstd") else f"numcodecs.{codec}"
        options = {
            "compressors": {"name": name, "configuration": {}},
            "shards": (320, 2) if layout == "shards" else None,
        }
    path = tmp_path / "rows.zarr"
    opened = stored(path, **options)
    np.testing.assert_allclose(source(opened).summary.sums, ROWS.sum(axis=0))
    put(path, bytes(pack(np.ones(128).tobytes())), sharded=layout == "shards")
    np.testing.assert_allclose(source(opened).summary.sums, [640, 640])
    size = 2**23 if codec == "lz4" else 2**25  # which lz4 packs too badly to pass for a chunk
    put(path, bytes(pack(bytes(size))), sharded=layout == "shards")
    for array in (opened, pickle.loads(pickle.dumps(checked_store.checked_array(opened, "data")))):
        most = 4 * size if codec == "lzma" else size / 2  # each lzma decoder takes 8 MB
        assert peak_memory(refuse, array) < most


@pytest.mark.parametrize("codec", bounded_codecs.STREAMS)
def test_streams_in_a_row_are_one_chunk(codec):
    pack = PACK[codec]
    packed = bytes(pack(b"one")) + bytes(pack(b"two"))
    assert bounded_codecs.unpack_stream(codec, {}, packed, 6) == b"onetwo"
    with pytest.raises(ValueError, match="ends before its end"):
        bounded_codecs.unpack_stream(codec, {}, packed[:-9], 6)


class Flaky(WrapperStore):
    """Fails the first times that each chunk is asked for."""

    failures, error, asked = 0, OSError("slow down"), {}

    async def get(self, key, prototype, byte_range=None):
        type(self).asked[key] = type(self).asked.get(key, 0) + 1
        if key.startswith("c/") and self.asked[key] <= self.failures:
            raise self.error
        return await super().get(key, prototype, byte_range)


@pytest.fixture
def flaky(tmp_path, monkeypatch):
    monkeypatch.setattr(checked_store, "PAUSES", (0.001,) * 4)
    monkeypatch.setattr(Flaky, "asked", {})
    stored(tmp_path / "rows.zarr")
    return zarr.open_array(Flaky(LocalStore(tmp_path / "rows.zarr", read_only=True)), mode="r")


def test_a_store_that_fails_for_a_while_is_asked_again(flaky, monkeypatch):
    monkeypatch.setattr(Flaky, "failures", 4)
    np.testing.assert_allclose(source(flaky).summary.sums, ROWS.sum(axis=0))
    assert set(Flaky.asked[key] for key in Flaky.asked if key.startswith("c/")) == {5}


def test_a_store_that_fails_for_good_is_an_error_after_some_tries(flaky, monkeypatch):
    monkeypatch.setattr(Flaky, "failures", 10**9)
    with pytest.raises(OSError, match=r"rows 0 to .* cannot be read: slow down"):
        source(flaky)
    assert max(Flaky.asked.values()) == 5


class Late(Flaky):
    """Fails to answer for each chunk, then has another digest."""

    async def get(self, key, prototype, byte_range=None):
        found = await super().get(key, prototype, byte_range)
        if key.startswith("c/") and self.asked[key] < 3:
            raise (OSError("slow down"), CorruptStoreError("another digest"))[self.asked[key] - 1]
        return found


def test_a_chunk_with_another_digest_after_a_failure_is_read_once_more(flaky, tmp_path):
    late = zarr.open_array(Late(LocalStore(tmp_path / "rows.zarr", read_only=True)), mode="r")
    np.testing.assert_allclose(source(late).summary.sums, ROWS.sum(axis=0))
    assert set(Flaky.asked[key] for key in Flaky.asked if key.startswith("c/")) == {3}


@pytest.mark.parametrize(("failures", "read"), [(4, True), (5, False)])
def test_a_store_that_fails_to_open_is_asked_again(tmp_path, monkeypatch, failures, read):
    stored(tmp_path / "rows.zarr")
    monkeypatch.setattr(checked_store, "PAUSES", (0.001,) * 4)
    errors = iter([OSError("slow down")] * failures)

    def failing(*args, opened=zarr.open, **options):
        for error in errors:
            raise error
        return opened(*args, **options)

    monkeypatch.setattr(zarr, "open", failing)
    if read:
        assert source(tmp_path / "rows.zarr").n_features == 2
    else:
        with pytest.raises(InputError, match=r"rows\.zarr does not answer: slow down"):
            source(tmp_path / "rows.zarr")


@pytest.mark.parametrize(
    ("error", "raised", "tries"),
    [
        (PermissionError("no"), OSError, 1),
        (FileNotFoundError("gone"), OSError, 1),
        (CorruptStoreError("another digest"), CorruptStoreError, 2),
    ],
)
def test_what_no_further_try_mends_is_tried_once_and_another_digest_twice(
    flaky, monkeypatch, error, raised, tries
):
    monkeypatch.setattr(Flaky, "failures", 10**9)
    monkeypatch.setattr(Flaky, "error", error)
    with pytest.raises(raised, match=f"cannot be read: {error}"):
        source(flaky)
    assert {Flaky.asked[key] for key in Flaky.asked if key.startswith("c/")} == {tries}


@pytest.mark.parametrize(
    "filters", [[numcodecs.AsType("f8", "f4")], [numcodecs.FixedScaleOffset(0, 1e6, "f4", "i8")]]
)
@pytest.mark.parametrize(
    "compressor", [numcodecs.Zstd(), numcodecs.GZip(), numcodecs.LZ4(), numcodecs.Blosc()]
)
def test_filters_that_widen_are_no_bombs(tmp_path, filters, compressor):
    rows = np.random.default_rng(0).normal(size=(100_000, 2)).astype("f4")
    options = {"chunks": (50_000, 2), "filters": filters, "compressors": compressor}
    made = zarr.create_array(
        tmp_path / "rows.zarr", shape=rows.shape, dtype="f4", zarr_format=2, **options
    )
    made[:] = rows
    np.testing.assert_allclose(
        as_source(made).summary.sums, made[:].sum(axis=0, dtype=float), atol=0.1
    )


def test_gzip_may_be_padded():
    assert (
        bounded_codecs.unpack_stream(
            "gzip", {}, bytes(numcodecs.GZip().encode(b"abc")) + b"\0" * 9, 3
        )
        == b"abc"
    )


@pytest.mark.parametrize("codec", CODECS)
def test_a_process_that_has_loaded_nothing_reads_the_arrays_that_it_is_sent(tmp_path, codec):
    """As a worker does, whose first task may bring an array alone."""
    stored(tmp_path / "rows.zarr", **CODECS[codec])
    array = checked_store.checked_array(zarr.open_array(tmp_path / "rows.zarr", mode="r"), "data")
    reading = "import pickle, sys; print(pickle.load(sys.stdin.buffer)[:].sum())"
    found = subprocess.run(
        [sys.executable, "-c", reading], input=pickle.dumps(array), capture_output=True, check=False
    )
    assert found.stderr == b""
    assert float(found.stdout) == pytest.approx(ROWS.sum())
