"""A dry run: what it counts, reads, says and refuses."""

import re
from dataclasses import replace
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numcodecs import CRC32
from scipy.sparse import csr_array
from strategies import table
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec
from zarr.storage import LocalStore, WrapperStore

from dask_dpmeans import DPMeans, InputError, dry_run, fit, sources
from dask_dpmeans.api import cost
from dask_dpmeans.api.cost import Sample, estimate_from, shard_seconds
from dask_dpmeans.engine.plan import Plan
from dask_dpmeans.methods.dpmeans.dry_run import SampleClusters
from dask_dpmeans.sources import (
    Columns,
    Compute,
    InputArrays,
    Requirements,
    Storage,
    as_source,
    decoded_rows,
    lay_out,
    stored_bytes,
)

N, BLOCK_ROWS = 1024, 16
ROWS = table("clouds", (N, 4), np.float32, 0)
WEIGHTS = np.linspace(0, 2, N)
CHECKED = (ZstdCodec(checksum=True),)
MODEL = DPMeans(6.0, random_state=0)
CLUSTERS = SampleClusters(np.zeros((5, 2)), "made up", fit_has_more=True)
SAMPLE = Sample(n_rows=128, found=CLUSTERS, read_seconds=0.5, scan_seconds=1.0)
SMALL = {"threads": 1, "block_rows": BLOCK_ROWS}
"""Shards of 128 rows."""


class Counting(WrapperStore):
    """A store that notes what is read of it."""

    def __init__(self, store, read=None):
        super().__init__(store)
        self.read = [] if read is None else read

    def _with_store(self, store):
        return type(self)(store, self.read)

    async def get(self, key, prototype, byte_range=None):
        self.read.append(key)
        return await super().get(key, prototype, byte_range)


class Sized(Counting):
    """One that knows sizes, too."""

    async def getsize(self, key):
        return await self._store.getsize(key)


def stored(values, path, chunks, **options):
    made = zarr.create_array(path, shape=values.shape, chunks=chunks, dtype=values.dtype, **options)
    made[:] = values
    return made


@pytest.fixture
def rows(tmp_path):
    return stored(ROWS, tmp_path / "rows.zarr", (100, 4))


@pytest.fixture
def run(tmp_path):
    return tmp_path / "run.zarr"


def contents_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- what it counts


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 1},
        SMALL,
        {"threads": 3, "block_rows": 8, "memory_limit": 10**9},
        {"threads": 2, "block_rows": 8, "memory_limit": 30_000},
        {"threads": 1, "columns": [2, 0]},
    ],
)
@pytest.mark.parametrize("kind", ["zarr", "npy", "numpy"])
def test_rows_blocks_and_shards_are_those_of_the_source_that_a_fit_uses(
    rows, run, tmp_path, options, kind
):
    np.save(tmp_path / "rows.npy", ROWS)
    data = {"zarr": rows, "npy": tmp_path / "rows.npy", "numpy": ROWS}[kind]
    found, source = dry_run(data, run, MODEL, **options), as_source(data, **options)
    assert (found.n_rows, found.n_columns, found.n_features) == (
        N,
        source.layout.stored_columns,
        source.n_features,
    )
    assert (found.block_rows, found.n_blocks) == (source.plan.block_rows, source.plan.n_blocks)
    assert (found.shard_rows, found.n_shards) == (
        min(N, source.plan.shard_rows),
        source.plan.n_shards,
    )
    assert (found.dtype, found.threads) == ("float32", options["threads"])
    assert len(source.shards) == found.n_shards


def test_bytes_are_those_of_the_store_and_those_of_the_array(rows, run, tmp_path):
    weights = stored(WEIGHTS, tmp_path / "weights.zarr", (300,))
    found = dry_run(rows, run, MODEL)
    assert (found.stored_bytes, found.decoded_bytes) == (rows.nbytes_stored(), ROWS.nbytes)
    found = dry_run(rows, run, MODEL, sample_weight=weights)
    assert found.stored_bytes == rows.nbytes_stored() + weights.nbytes_stored()
    assert found.decoded_bytes == ROWS.nbytes + WEIGHTS.nbytes
    np.save(tmp_path / "rows.npy", ROWS)
    found = dry_run(tmp_path / "rows.npy", run, MODEL)
    assert found.stored_bytes == found.decoded_bytes == ROWS.nbytes


def test_bytes_of_a_store_that_cannot_say_are_unknown_and_not_read(rows, monkeypatch):
    counting, sized = (kind(rows.store.with_read_only(True)) for kind in (Counting, Sized))
    assert stored_bytes(zarr.open_array(counting, mode="r")) is None
    assert stored_bytes(zarr.open_array(sized, mode="r")) == rows.nbytes_stored()
    assert not [key for key in counting.read + sized.read if key.startswith("c/")]
    monkeypatch.setattr("dask_dpmeans.sources.stored_chunks.MOST_SIZES", rows.nchunks)
    assert stored_bytes(rows) == rows.nbytes_stored()
    monkeypatch.setattr("dask_dpmeans.sources.stored_chunks.MOST_SIZES", rows.nchunks - 1)
    assert stored_bytes(rows) is None


def test_memory_is_what_the_plan_takes_it_to_be(rows, run):
    found = dry_run(rows, run, MODEL, threads=2, block_rows=BLOCK_ROWS, memory_limit=10**6)
    assert (found.worker_memory, found.thread_memory, found.resident) == (10**6, 5 * 10**5, True)
    assert found.thread_bytes == ROWS.nbytes // 2
    found = dry_run(rows, run, MODEL, threads=1, block_rows=BLOCK_ROWS, memory_limit=30_000)
    assert (found.resident, found.thread_bytes) == (False, ROWS.nbytes)  # pieces are of 16 MB


def test_clusters_are_the_first_centers_and_those_that_the_sample_opens(tmp_path, run):
    corners = np.repeat(np.array([[0, 0], [0, 50], [50, 0], [50, 50]], np.float32), 10, axis=0)
    assert dry_run(corners, run, DPMeans(4.0)).sample_clusters == 5
    assert dry_run(corners, run, DPMeans(4.0, init=corners[:20:10])).sample_clusters == 4
    assert dry_run(corners, run, DPMeans(4.0), columns=[0]).sample_clusters == 3
    assert dry_run(corners, run, DPMeans(4.0), scale="std").sample_clusters == 1


def far_apart(n_rows, k):
    """Rows in random order, of `k` clusters of deviation 1 on a line, far apart."""
    rng = np.random.default_rng(0)
    return (100.0 * rng.integers(k, size=(n_rows, 1)) + rng.standard_normal((n_rows, 2))).astype(
        np.float32
    )


def test_clusters_of_directions_are_those_that_the_sample_opens(run):
    rows = (
        np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])[np.arange(3000) % 3]
        * np.arange(1, 3001)[:, np.newaxis]
    )
    assert dry_run(rows, run, DPMeans(0.1, metric="cosine")).sample_clusters == 3
    assert dry_run(rows, run, DPMeans(20.0, metric="cosine", search=True)).sample_clusters == 3
    with pytest.raises(InputError, match="data is 0 in every column at row 5"):
        dry_run(
            np.where(np.arange(3000)[:, np.newaxis] == 5, 0.0, rows),
            run,
            DPMeans(0.1, metric="cosine"),
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_rows", [500, 40_000, 400_000])
def test_clusters_of_a_search_are_about_those_of_all_rows_however_few_of_them_it_sees(
    run, n_rows, weighted
):
    """At a price that only the rows of a whole cluster can pay."""
    rows, weights = far_apart(n_rows, 12), np.full(n_rows, 2.0) if weighted else None
    model = DPMeans(5.0 * n_rows, search=True, random_state=0)
    assert dry_run(rows, run, model, threads=1, sample_weight=weights).sample_clusters == 12


def test_the_price_of_a_sample_keeps_to_the_data_when_rows_are_repeated(run):
    """Twice the rows at twice the penalty are the same question."""
    rows = table("clouds", (2**15, 4), np.float32, 0)
    for penalty in (300.0, 3000.0):
        once = dry_run(
            rows, run, DPMeans(penalty, search=True, random_state=0), threads=1, block_rows=2**12
        )
        twice = dry_run(
            np.tile(rows, (2, 1)),
            run,
            DPMeans(2 * penalty, search=True, random_state=0),
            threads=1,
            block_rows=2**12,
        )
        assert abs(once.sample_clusters - twice.sample_clusters) <= 0.3 * once.sample_clusters


def test_a_search_that_would_take_long_is_stopped_and_the_estimate_says_so(run, monkeypatch):
    rows, model = far_apart(2000, 200), DPMeans(3.0, search=True, random_state=0)
    assert "with which a search of 2,000 rows ends" in dry_run(rows, run, model).basis
    monkeypatch.setattr("dask_dpmeans.methods.dpmeans.dry_run.SEARCH_PRODUCTS", 40 * 2000 * 128)
    found = dry_run(rows, run, model)
    assert 40 < found.sample_clusters <= 80
    assert "at which a search of 2,000 rows was stopped; all rows may have many more" in found.basis


def test_a_search_of_a_sample_says_what_a_cluster_cost_there(run):
    model = DPMeans(5e5, search=True, random_state=0)
    found = dry_run(far_apart(100_000, 12), run, model, threads=1, block_rows=BLOCK_ROWS)
    assert (
        f"a search of {found.sample_rows} rows, a cluster at their share of the penalty, ends"
        in found.basis
    )


@pytest.mark.parametrize("penalty", [1e-300, 1e300])
def test_a_search_of_a_sample_takes_any_penalty(run, penalty):
    found = dry_run(
        far_apart(3000, 12), run, DPMeans(penalty, search=True), threads=1, block_rows=BLOCK_ROWS
    )
    assert found.sample_rows < 3000
    assert 1 <= found.sample_clusters <= found.sample_rows


def test_a_search_of_rows_without_weight_at_the_start_is_as_if_all_had_one(run):
    weights = np.where(np.arange(N) < N // 2, 0.0, 1.0)
    found = dry_run(ROWS, run, DPMeans(60.0, search=True), sample_weight=weights, **SMALL)
    assert found.sample_clusters >= 1


def test_rows_without_weight_at_the_start_are_scanned_all_the_same(rows, run):
    weights = np.where(np.arange(N) < N // 2, 0.0, 1.0)
    assert dry_run(ROWS, run, MODEL, sample_weight=weights, **SMALL).sample_clusters > 1
    with pytest.raises(InputError, match="every sample_weight is zero"):
        dry_run(ROWS, run, MODEL, sample_weight=np.zeros(N))


# ---------------------------------------------------------------- what it reads and writes


@pytest.mark.parametrize("store", [Counting, Sized])
@pytest.mark.parametrize(
    "options", [{}, {"memory_limit": 30_000}, {"force": True}, {"scale": "std"}]
)
def test_only_the_chunks_of_one_shard_are_read(rows, run, store, options):
    counting = store(rows.store.with_read_only(True))
    found = dry_run(zarr.open_array(counting, mode="r"), run, MODEL, **SMALL, **options)
    chunks = {key for key in counting.read if key.startswith("c/")}
    assert chunks == {f"c/{chunk}/0" for chunk in range(-(-found.sample_rows // 100))}
    assert found.sample_rows <= found.shard_rows
    assert len(chunks) < rows.nchunks / 2


def test_no_more_than_a_few_blocks_of_a_large_shard_are_read(run, tmp_path):
    rows = stored(np.tile(ROWS, (16, 1)), tmp_path / "rows.zarr", (128, 4))
    found = dry_run(rows, run, MODEL, threads=1, block_rows=BLOCK_ROWS)
    assert found.shard_rows == 2048
    assert found.sample_rows == cost.SAMPLE_BLOCKS * BLOCK_ROWS
    found = dry_run(rows, run, MODEL, threads=1, block_rows=BLOCK_ROWS, memory_limit=10_000)
    assert (
        found.sample_rows == 3 * BLOCK_ROWS
    )  # 48 rows take 768 of the 1,000 bytes that a thread may hold


def test_nothing_is_written(rows, run, tmp_path):
    before = contents_of(tmp_path)
    for options in ({}, {"force": True}, {"resume": True}, {"scale": "std"}):
        dry_run(rows, run, MODEL, **options)
        assert contents_of(tmp_path) == before
    fit(rows, run, MODEL)
    before = contents_of(tmp_path)
    for options in ({}, {"force": True}, {"resume": True}):
        dry_run(rows, run, MODEL, **options)
        assert contents_of(tmp_path) == before


def test_an_existing_run_is_named(rows, run):
    assert dry_run(rows, run, MODEL).target == "new"
    assert dry_run(rows, run, MODEL, resume=True).target == "new"
    fit(rows, run, MODEL)
    assert dry_run(rows, run, MODEL).target == "refused"
    assert dry_run(rows, run, MODEL, force=True).target == "removed"
    assert dry_run(rows, run, MODEL, resume=True).target == "resumed"


def test_a_dry_run_that_cannot_be_resumed_names_what_differs_as_the_fit_does(rows, run):
    begun = DPMeans(50.0, search=True, effort="quick", discount=1.0, random_state=0)
    fit(rows, run, begun)
    other = DPMeans(50.0, search=True, random_state=0)
    said = []
    for call in (fit, dry_run):
        with pytest.raises(InputError, match="was begun with other parameters") as error:
            call(rows, run, other, resume=True)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert "effort quick, not normal" in said[1]
    assert dry_run(rows, run, begun, resume=True).target == "resumed"


# ---------------------------------------------------------------- what it refuses


def broken(value):
    rows = ROWS.copy()
    rows[3, 1] = value
    return rows


@pytest.mark.parametrize(
    ("data", "model", "options"),
    [
        ("nowhere.zarr", MODEL, {}),
        (None, MODEL, {}),
        (ROWS[:, 0], MODEL, {}),
        (ROWS.astype(complex), MODEL, {}),
        (broken(np.nan), MODEL, {}),
        (broken(np.inf), MODEL, {}),
        (ROWS, DPMeans(0.0), {}),
        (ROWS, DPMeans(6.0, max_clusters=0), {}),
        (ROWS, DPMeans(6.0, init=np.zeros((2, 3))), {}),
        (ROWS, DPMeans(6.0, init="nowhere.zarr"), {}),
        (ROWS, DPMeans(6.0, random_state=-1), {}),
        (ROWS, MODEL, {"columns": [4]}),
        (ROWS, MODEL, {"scale": "none"}),
        (ROWS, MODEL, {"threads": 0}),
        (ROWS, MODEL, {"sample_weight": WEIGHTS[1:]}),
        (ROWS, MODEL, {"sample_weight": -WEIGHTS}),
        (ROWS.astype(float) * 1e200, MODEL, {}),
        (np.array([[0.0], [6e153]] * 2), DPMeans(1.7e308), {}),
    ],
)
def test_it_refuses_what_a_fit_refuses_in_the_same_words(run, data, model, options):
    with pytest.raises(InputError) as refused:
        fit(data, run, model, **options)
    with pytest.raises(InputError) as dry:
        dry_run(data, run, model, **options)
    assert str(dry.value) == str(refused.value)


def test_it_refuses_the_runs_that_a_fit_refuses(rows, run, tmp_path):
    fit(rows, run, MODEL)
    (tmp_path / "foreign").mkdir()
    Path(run, "notes.txt").touch()
    Path(tmp_path / "foreign" / "notes.txt").touch()
    for target, model, options in [
        (tmp_path / "foreign", MODEL, {"force": True}),
        (tmp_path / "rows.zarr" / "run", MODEL, {}),
        (tmp_path / "no" / "run", MODEL, {}),
        (run, MODEL, {"force": True}),
        (run, DPMeans(7.0, random_state=0), {"resume": True}),
        (run, DPMeans(6.0, search=True, random_state=0), {"resume": True}),
        (run, DPMeans(6.0, random_state=1), {"resume": True}),
        (run, MODEL, {"resume": True, "columns": [0]}),
        (run, MODEL, {"resume": True, "scale": "std"}),
    ]:
        with pytest.raises(InputError) as refused:
            fit(rows, target, model, **options)
        with pytest.raises(InputError) as dry:
            dry_run(rows, target, model, **options)
        assert str(dry.value) == re.sub(
            ", fingerprint [0-9a-f]+, not [0-9a-f]+", "", str(refused.value)
        )


def test_dask_arrays_are_refused_unread(run):
    unread = da.map_blocks(
        lambda: pytest.fail("computed"), chunks=((N,), (4,)), dtype=np.float32, meta=ROWS[:0]
    )
    for data, weights in ((unread, None), (ROWS, unread[:, 0])):
        with pytest.raises(InputError, match="not what Dask has yet to compute"):
            dry_run(data, run, MODEL, sample_weight=weights)


# ---------------------------------------------------------------- seconds


def layout_of(rows, **options):
    return lay_out(InputArrays(rows), Columns.of(options), Requirements(), Compute.of(options))[0]


def seconds_of(n_rows, threads, chunk_rows, memory_limit=10**9):
    rows = zarr.create_array({}, shape=(n_rows, 4), chunks=(chunk_rows, 4), dtype=np.float32)
    layout = layout_of(rows, threads=threads, memory_limit=memory_limit, block_rows=BLOCK_ROWS)
    found = estimate_from(layout, SAMPLE, MODEL.method(), "run.zarr", "new")
    return found.n_shards, found.load_seconds, found.pass_seconds


def test_seconds_follow_the_shards_and_the_threads():
    assert seconds_of(1024, 1, 128) == (8, 4.0, 8.0)
    assert seconds_of(1024, 1, 128, memory_limit=30_000) == (8, 0.0, 12.0)
    assert seconds_of(1920, 1, 128) == (15, 7.5, 15.0)
    assert seconds_of(4096, 2, 128) == (16, 8.0, 16.0)
    assert seconds_of(1024, 3, 32) == (
        32,
        1.375,
        2.75,
    )  # eleven shards for two threads, ten for the third
    assert seconds_of(1024, 4, 32) == (32, 1.0, 2.0)


def test_seconds_are_measured(rows, run):
    found = dry_run(rows, run, MODEL, **SMALL)
    assert found.pass_seconds > 0
    assert found.load_seconds > 0
    assert f"one pass at {found.sample_clusters:,} clusters" in found.basis
    assert f"by {found.n_shards} shards / 1 thread," in found.basis


def test_the_first_scan_which_loads_compiled_loops_does_not_count(rows, run, monkeypatch):
    scans = iter([5.0, 1.0, 2.0])
    monkeypatch.setattr(cost, "_fold_seconds", lambda *_: next(scans))
    found = dry_run(rows, run, MODEL, **SMALL)
    assert found.pass_seconds == found.n_shards * found.shard_rows / found.sample_rows


def test_a_chunk_that_is_decoded_more_than_once_is_paid_for_as_often():
    rows = zarr.create_array({}, shape=(N, 4), chunks=(192, 4), dtype=np.float32)
    layout = layout_of(rows, **SMALL)
    read, _ = shard_seconds(layout, SAMPLE, Storage.of(rows))
    assert read == pytest.approx(0.5 / 192 * decoded_rows(layout.plan, 192) / 8)


@given(st.integers(1, 500), st.integers(0, 3), st.integers(0, 3), st.integers(1, 600))
def test_rows_that_a_pass_decodes(n_rows, height, blocks, chunk_rows):
    plan = Plan(n_rows, 2**height, 2**blocks)
    chunk_rows = min(chunk_rows, n_rows)
    expected = 0
    for start, stop in plan.shard_bounds():
        touched = {row // chunk_rows for row in range(start, stop)}
        expected += sum(
            min(n_rows, (chunk + 1) * chunk_rows) - chunk * chunk_rows for chunk in touched
        )
    assert decoded_rows(plan, chunk_rows) == expected


# ---------------------------------------------------------------- advice


def advice_on(
    chunks, sample=SAMPLE, model=MODEL, n_rows=N, threads=1, memory_limit=10**9, **options
):
    rows = zarr.create_array({}, shape=(n_rows, 4), chunks=chunks, dtype=np.float32, **options)
    layout = layout_of(rows, threads=threads, memory_limit=memory_limit, block_rows=BLOCK_ROWS)
    return cost.advice(layout, Storage.of(rows), sample, model.method())


GOOD = [
    {"chunks": (128, 4), "compressors": CHECKED},
    {"chunks": (64, 4), "compressors": [BloscCodec(), Crc32cCodec()]},
    {"chunks": (16, 4), "shards": (128, 4), "compressors": CHECKED},
    {"chunks": (128, 4), "zarr_format": 2, "compressors": {"id": "zlib", "level": 1}},
    {"chunks": (128, 4), "zarr_format": 2, "compressors": {"id": "blosc"}, "filters": [CRC32()]},
    {"chunks": (128, 4), "compressors": CHECKED, "memory_limit": 30_000},
]


@pytest.mark.parametrize("layout", GOOD)
def test_a_good_layout_has_no_advice(layout):
    assert advice_on(**layout) == ()


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (
            {"chunks": (4, 4), "compressors": CHECKED},
            "chunks of 64 B are small: 32 reads a shard; rechunk to 128 rows",
        ),
        (
            {"chunks": (128, 3), "compressors": CHECKED},
            "hold 3 of 4 columns: each row is read from 2 chunks",
        ),
        (
            {"chunks": (192, 4), "compressors": CHECKED},
            "reach into several shards of 128: each is decoded 1.9 times while rows are loaded",
        ),
        (
            {"chunks": (N, 4), "threads": 2, "compressors": CHECKED},
            "chunks of 1,024 rows make 1 shard for 2 threads",
        ),
        (
            {"chunks": (128, 4), "compressors": [ZstdCodec(checksum=False)]},
            "no codec has a checksum",
        ),
        ({"chunks": (128, 4), "compressors": None}, "no codec has a checksum"),
        ({"chunks": (16, 4), "shards": (128, 4)}, "no codec has a checksum"),
        ({"chunks": (128, 4), "zarr_format": 2}, "no codec has a checksum"),
        (
            {
                "chunks": (128, 4),
                "compressors": CHECKED,
                "memory_limit": 30_000,
                "sample": replace(SAMPLE, read_seconds=2.5),
            },
            "zstd is decoded anew in each pass, on the threads that scan, and reading takes 2.5 times as long",
        ),
        (
            {"chunks": (128, 4), "compressors": CHECKED, "model": DPMeans(6.0, max_clusters=4)},
            "the first 128 rows alone open 5 clusters, more than max_clusters=4",
        ),
    ],
)
def test_advice_names_what_is_wrong_and_only_that(layout, said):
    (found,) = advice_on(**layout)
    assert said in found


def test_advice_is_taken(run, tmp_path):
    """What the advice on chunks asks for has no advice."""
    (found,) = advice_on((192, 4), compressors=CHECKED)
    assert "chunks of 128 rows" in found
    assert not advice_on((128, 4), compressors=CHECKED)


def test_an_estimate_of_a_local_store_opens_its_path(rows, run, tmp_path):
    by_path = dry_run(tmp_path / "rows.zarr", run, MODEL, **SMALL)
    assert isinstance(rows.store, LocalStore)
    timeless = {"load_seconds": 0, "pass_seconds": 0}
    assert replace(by_path, **timeless) == replace(dry_run(rows, run, MODEL, **SMALL), **timeless)


def test_processes_are_advised_where_threads_would_wait_for_one_another(rows, run, monkeypatch):
    asked = []
    monkeypatch.setattr(
        sources, "why_processes", lambda layout: asked.append(layout) or "threads wait"
    )
    (*_, found) = dry_run(rows, run, MODEL).advice
    assert re.fullmatch(
        r"threads wait: pass a client of processes, as Client\(n_workers=\d+, .*=1\)", found
    )
    assert [layout.plan.n_rows for layout in asked] == [N]
    assert "threads wait" not in " ".join(dry_run(rows, run, MODEL, threads=2).advice)
    assert len(asked) == 1


def test_sparse_rows_are_estimated_by_the_bytes_that_they_hold(tmp_path):
    rng, ends = np.random.default_rng(0), np.arange(0, 200_001, 10)
    rows = csr_array(
        (rng.random(200_000, np.float32), rng.integers(0, 5000, 200_000), ends),
        shape=(20_000, 5000),
    )
    group = zarr.create_group(tmp_path / "rows.zarr", attributes={"shape": list(rows.shape)})
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(rows, part), config={"write_empty_chunks": True})
    for given_rows in (rows, group, tmp_path / "rows.zarr"):
        found = dry_run(
            given_rows, tmp_path / "run.zarr", DPMeans(1e6), threads=1, memory_limit=10**8
        )
        assert (found.n_rows, found.n_columns, found.dtype) == (20_000, 5000, "float32")
        assert found.decoded_bytes == 20_000 * (8 + 10 * (4 + 4))
        assert found.resident
        assert found.sample_rows == 256  # one block: a tenth of the memory is less than two of 5 MB
        assert found.thread_bytes == found.decoded_bytes + 256 * 5000 * 4
