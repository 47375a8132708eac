"""A state goes through all blocks in row order, whoever works on them."""

import dask.array as da
import numpy as np
import pytest
import zarr
from dask.callbacks import Callback
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import chunkings

from dask_dpmeans.sources import as_source, layout
from dask_dpmeans.sources.executors.dask_tasks import FAN_IN, DaskTasks

ROWS = np.arange(300, dtype=np.float32).reshape(-1, 2)


def note(state, block):
    """What came before, and this block."""
    return (*state, (block.start, block.rows.tobytes()))


def blocks_in_order(height):
    return tuple(
        (start, ROWS[start : start + height].tobytes()) for start in range(0, len(ROWS), height)
    )


@settings(max_examples=20)
@given(chunkings(len(ROWS)), st.sampled_from([1, 4, 64, 256]), st.integers(1, 2), st.booleans())
def test_blocks_come_in_row_order_whatever_the_chunks(chunks, height, threads, resident):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "RESIDENT_SHARE", 0.4 if resident else 0.0)
        lazy = da.from_array(ROWS, chunks=(chunks, (1, 1)))
        stored = zarr.create_array({}, shape=ROWS.shape, chunks=(max(chunks), 1), dtype=ROWS.dtype)
        stored[:] = ROWS
        for data in (ROWS, lazy, stored):
            source = as_source(data, threads=threads, block_rows=height)
            assert source.carry(note, ("begun",)) == ("begun", *blocks_in_order(height))


def test_shards_are_taken_a_few_at_a_time(monkeypatch):
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.0)
    source = as_source(da.from_array(ROWS, chunks=(7, 2)), threads=4, block_rows=1)
    assert isinstance(source.executor, DaskTasks)
    assert source.plan.n_shards > 2 * FAN_IN
    loaded = []
    with Callback(
        start=lambda graph: loaded.append(sum("dpmeans-load" in str(key) for key in graph))
    ):
        assert len(source.carry(note, ())) == len(ROWS)
    assert max(loaded) == FAN_IN
    assert sum(loaded) == source.plan.n_shards


def test_an_error_is_what_the_caller_gets():
    def refuse(state, block):
        if block.start == 64:
            raise ZeroDivisionError("row 64")
        return block.start

    for data in (ROWS, da.from_array(ROWS, chunks=(40, 2))):
        with pytest.raises(ZeroDivisionError, match=r"^row 64$"):
            as_source(data, threads=2, block_rows=32).carry(refuse, 0)
