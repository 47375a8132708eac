from dataclasses import replace

import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from strategies import DTYPES, TAME, spread, tables, trace, weights_of

from dask_dpmeans.engine.occ import round_of, settle
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.price import LinearPrice
from dask_dpmeans.methods.dpmeans.batch import Openings
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources import dataset as source_module
from dask_dpmeans.sources.dataset import Ledger
from dask_dpmeans.sources.executors.dask_tasks import DaskTasks
from dask_dpmeans.sources.jobs import Known
from dask_dpmeans.sources.shards import StoredShard


def with_ledger(source, executor=None):
    """The source as if it streamed its rows."""
    shards = source.shards if executor is None else tuple(executor.wrap(source.shards))
    return replace(
        source, resident=False, ledger=Ledger(), shards=shards, executor=executor or source.executor
    )


@given(
    tables(rows=(40, 300), columns=(1, 3), kinds=TAME), st.sampled_from([0.01, 0.1, 1.0]), st.data()
)
def test_a_fit_is_the_same_whether_shards_that_stand_are_read_or_not(rows, factor, data):
    rows = rows[np.lexsort(rows.T)]
    weights = data.draw(weights_of(len(rows)))
    source = as_source(rows, weights, threads=data.draw(st.integers(1, 2)), block_rows=4)
    executor = data.draw(st.sampled_from([None, DaskTasks(None, 2)]))
    penalty = factor * spread(rows)
    assert trace(with_ledger(source, executor), penalty, tol=0.0) == trace(source, penalty, tol=0.0)


@pytest.fixture
def read(monkeypatch):
    """The first rows of the pieces that are read from a store."""
    starts, plain = [], StoredShard.read

    def noted(self, start, *others):
        starts.append(start)
        return plain(self, start, *others)

    monkeypatch.setattr(StoredShard, "read", noted)
    return starts


def round_at(*centers, penalty=100.0):
    return round_of(
        Openings(LinearPrice(penalty)), Centers(np.array(centers, np.float64)[:, np.newaxis])
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_shards_that_a_change_concerns_are_read_again(tmp_path, read, dtype):
    rows = (np.repeat(np.arange(64) * 10, 512) + np.tile([0, 3], 64 * 256)).astype(dtype)[
        :, np.newaxis
    ]
    stored = zarr.create_array(tmp_path / "rows", data=rows, chunks=(512, 1))
    source = as_source(stored, threads=1, memory_limit=100_000, block_rows=256)
    n_shards, per_shard = source.plan.n_shards, source.plan.shard_rows // 512
    assert not source.resident
    assert n_shards > 4

    def passed(sweep):
        read.clear()
        answer = source.fold(sweep)
        assert (
            answer.moments.sums.tobytes()
            == as_source(rows, threads=1).fold(sweep).moments.sums.tobytes()
        )
        return {start // source.plan.shard_rows for start in read}

    centers = np.arange(64) * 10.0
    assert passed(round_at(*centers)) == set(range(n_shards))
    assert passed(round_at(*centers)) == set()
    assert passed(round_at(*centers, 1e6)) == set()
    centers[0] += 1.0
    assert passed(round_at(*centers, 1e6)) == {0}
    assert passed(round_at(*centers, 635.0)) == {63 // per_shard}
    assert passed(round_at(*centers, 635.0, penalty=99.0)) == set(range(n_shards))
    assert passed(round_at(*centers[1:], 635.0, penalty=99.0)) == {0}
    assert source.fold(round_at(*centers), range(1)).moments.counts.sum() == 256


def test_rows_in_memory_keep_no_answers_of_shards():
    source = as_source(np.ones((8, 1)))
    source.fold(round_at(1.0))
    assert source.resident
    assert not source.ledger.kept


def test_a_sweep_keeps_the_answers_of_shards_that_last():
    source = with_ledger(as_source(np.arange(64.0)[:, np.newaxis], threads=1, block_rows=4))
    settle(source, Openings(LinearPrice(1e6)), Centers(np.array([[0.0], [63.0]])))
    assert len(source.ledger.kept) == source.plan.n_shards


def test_a_pass_that_fails_leaves_what_is_kept_as_it_was(monkeypatch):
    source = with_ledger(as_source(np.arange(64.0)[:, np.newaxis], threads=1, block_rows=4))
    source.fold(round_at(0.0, 63.0, penalty=1e6))
    assert len(source.ledger.kept) == source.plan.n_shards
    with monkeypatch.context() as patch:
        patch.setattr(Openings, "scan", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            source.fold(round_at(0.0, 40.0, penalty=1e6))
    assert source.fold(round_at(0.0, 40.0, penalty=1e6)).moments.counts.tolist() == [21, 43]


def test_shards_of_a_dask_array_that_does_not_fit_stand_too():
    rows = np.sort(
        np.random.default_rng(0).normal(size=(400, 1)) + 20 * np.arange(400)[:, np.newaxis] // 100,
        axis=0,
    )
    made = as_source(
        da.from_array(rows, chunks=(50, 1)), threads=2, block_rows=4, memory_limit=200_000
    )
    source = replace(made, resident=False)
    for centers in (
        [0.0, 20.0, 40.0, 60.0],
        [0.0, 20.5, 40.0, 60.0],
        [0.0, 20.5, 40.0],
        [20.5, 40.0, 41.0, 60.0],
    ):
        sweep = round_at(*centers, penalty=1e6)
        found, right = source.fold(sweep), as_source(rows, threads=1, block_rows=4).fold(sweep)
        assert found.moments.sums.tobytes() == right.moments.sums.tobytes()
        assert found.reaches.tobytes() == right.reaches.tobytes()
        assert source.ledger.kept


@pytest.mark.parametrize(("clusters", "kept"), [(2, 8), (1, 7), (0, 0)])
def test_what_is_kept_of_all_shards_has_a_bound(monkeypatch, clusters, kept):
    source = with_ledger(as_source(np.arange(64.0)[:, np.newaxis], threads=1, block_rows=4))
    assert source.plan.n_shards == 8
    monkeypatch.setattr(source_module, "KEPT_BYTES", 8 * clusters * 8 * 6)
    source.fold(round_at(16.0, 48.0, penalty=1e6))
    assert len(source.ledger.kept) == kept


def test_what_stands_travels_in_its_task():
    executor = DaskTasks(None, 1)
    [known] = executor.wrap([Known("kept")])
    assert known.value == Known("kept")


def test_an_answer_is_known_by_its_name_as_long_as_the_rows_are_prepared_alike():
    source = as_source(np.arange(64.0)[:, np.newaxis], threads=1)
    doubled = replace(source, prepare=replace(source.prepare, scale=np.array([2.0])))
    assert [source.once("a", lambda: 1), source.once("a", lambda: 2)] == [1, 1]
    assert [source.once("b", lambda: 3), doubled.once("a", lambda: 4)] == [3, 4]
    assert as_source(np.arange(64.0)[:, np.newaxis], threads=1).once("a", lambda: 5) == 5
