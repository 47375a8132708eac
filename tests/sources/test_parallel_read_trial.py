"""Threads or processes: what a trial measures, when there is one, and what follows from it."""

from dataclasses import replace
from itertools import count
from threading import Lock

import numpy as np
import pytest
import zarr
from zarr.codecs import ZstdCodec

from dask_dpmeans.errors import CorruptStoreError
from dask_dpmeans.sources import (
    Columns,
    Compute,
    InputArrays,
    Requirements,
    lay_out,
    parallel_read_trial,
    shards,
    why_processes,
)
from dask_dpmeans.sources.parallel_read_trial import PROCESS_BYTES, Trial, cores_busy

N = 4096


class Clocks:
    """Seconds as works tell of them: each takes one of a core, and of the wall where it holds the lock."""

    def __init__(self, monkeypatch, cores):
        self.wall = self.cpu = 0.0
        self.cores, self.lock = cores, Lock()
        monkeypatch.setattr(parallel_read_trial, "perf_counter", lambda: self.wall)
        monkeypatch.setattr(parallel_read_trial, "process_time", lambda: self.cpu)
        monkeypatch.setattr(parallel_read_trial, "sha256", lambda _: self.work(locked=False))

    def work(self, locked, waited=0.0):
        with self.lock:
            self.cpu += 1
            self.wall += 1 / (1 if locked else self.cores) + waited


class Decoding:
    """An array whose reads take time of these clocks."""

    shape, dtype = (N, 4), np.dtype(np.float32)

    def __init__(self, clocks, **how):
        self.clocks, self.how, self.read = clocks, how, []

    def __getitem__(self, rows):
        self.read.append((rows.start, rows.stop))
        self.clocks.work(**self.how)
        return np.zeros((rows.stop - rows.start, 4), np.float32)


def tried(monkeypatch, threads, cores, **how):
    return Trial.of(Decoding(Clocks(monkeypatch, cores), **how), threads)


@pytest.mark.parametrize("threads", [2, 4, 16])
def test_a_decoder_that_holds_the_lock_is_serial_and_one_that_does_not_is_not(monkeypatch, threads):
    held = tried(monkeypatch, threads, threads, locked=True)
    assert held.busy == pytest.approx(1)
    assert held.available == pytest.approx(threads)
    assert held.serial
    free = tried(monkeypatch, threads, threads, locked=False)
    assert free.busy == pytest.approx(free.available)
    assert not free.serial


def test_threads_that_wait_for_the_store_or_for_a_core_are_not_serial(monkeypatch):
    assert not tried(monkeypatch, 4, 4, locked=False, waited=2.0).serial
    assert not tried(monkeypatch, 4, 1.2, locked=True).serial  # a quota, or others at work
    assert not tried(monkeypatch, 4, 1.2, locked=False).serial


def test_the_trial_with_most_cores_busy_counts(monkeypatch):
    found = iter([0.3, 1.2, 1.0, 2.0])
    monkeypatch.setattr(parallel_read_trial, "cores_busy", lambda works: next(found))
    assert Trial.of(np.zeros((N, 4)), 2) == Trial(busy=1.0, available=2.0)


def test_a_long_trial_is_not_repeated(monkeypatch):
    monkeypatch.setattr(parallel_read_trial, "LONG_TRIAL", 0.0)
    found = iter([0.3, 1.2])
    monkeypatch.setattr(parallel_read_trial, "cores_busy", lambda works: next(found))
    assert Trial.of(np.zeros((N, 4)), 2) == Trial(busy=0.3, available=1.2)


def test_each_thread_reads_a_piece_of_its_own(monkeypatch):
    monkeypatch.setattr(shards, "PIECE_BYTES", 1600)
    rows = Decoding(Clocks(monkeypatch, 2), locked=True)
    Trial.of(rows, 3)
    assert set(rows.read) == {(0, 100), (100, 200), (200, 300)}
    rows = Decoding(Clocks(monkeypatch, 2), locked=True)
    rows.shape = (150, 4)
    Trial.of(rows, 3)
    assert set(rows.read) <= {(0, 100), (100, 150), (50, 150)}


def test_works_are_done_once_at_least_and_their_errors_are_raised():
    done = count()
    assert cores_busy([lambda: next(done)] * 2) >= 0
    assert next(done) >= 2
    with pytest.raises(ZeroDivisionError, match="division"):
        cores_busy([lambda: 1 // 0])


# ---------------------------------------------------------------- when there is a trial


ZSTD = ZstdCodec()
SERIAL, PARALLEL = Trial(1.04, 2.0), Trial(1.9, 2.0)


def layout_of(path, *, compressors=ZSTD, resident=False, threads=2, thread_memory=PROCESS_BYTES):
    rows = zarr.create_array(
        path, shape=(N, 4), chunks=(128, 4), dtype=np.float32, compressors=compressors
    )
    layout, _ = lay_out(
        InputArrays(rows), Columns(block_rows=16), Requirements(), Compute(threads=threads)
    )
    return replace(
        layout, resident=resident, resources=replace(layout.resources, thread_memory=thread_memory)
    )


@pytest.fixture
def trials(monkeypatch):
    """Arguments of the trials so far, all of them serial."""
    made = []
    monkeypatch.setattr(Trial, "of", lambda *arguments: made.append(arguments) or SERIAL)
    return made


def test_what_waits_is_named(trials, monkeypatch):
    said = why_processes(layout_of({}))
    assert "wait for one another" in said
    assert "(zstd, chunks of 2.00 kiB): 2 keep 1.0 cores busy" in said
    assert "(chunks of 2.00 kiB)" in why_processes(layout_of({}, compressors=None))
    monkeypatch.setattr(Trial, "of", lambda *_: PARALLEL)
    assert why_processes(layout_of({})) is None


@pytest.mark.parametrize(
    "how", [{"resident": True}, {"threads": 1}, {"thread_memory": PROCESS_BYTES - 1}]
)
def test_nothing_is_tried_where_rows_stay_threads_are_one_or_memory_is_short(trials, how):
    assert why_processes(layout_of({}, **how)) is None
    assert not trials


def test_nothing_is_tried_on_what_is_no_zarr_array(trials, tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((N, 4)))
    arrays, columns = InputArrays(tmp_path / "rows.npy"), Columns(block_rows=16)
    layout, _ = lay_out(arrays, columns, Requirements(), Compute(threads=2))
    assert why_processes(replace(layout, resident=False)) is None
    assert not trials


def test_nothing_is_tried_on_one_shard(trials):
    layout = layout_of({})
    assert why_processes(replace(layout, plan=replace(layout.plan, shard_blocks=N // 16))) is None
    assert not trials


def test_a_damaged_chunk_is_named(tmp_path):
    rows = zarr.create_array(tmp_path / "rows", shape=(N, 4), chunks=(128, 4), dtype=np.float32)
    rows[:] = 1
    (tmp_path / "rows" / "c" / "0" / "0").write_bytes(b"no zstd")
    with pytest.raises(CorruptStoreError, match=r"rows 0 to 4,096 of .* cannot be read"):
        Trial.of(rows, 2)
