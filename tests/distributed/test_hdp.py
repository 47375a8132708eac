"""Data sets that share centers, on two worker processes of which one is killed: the same bytes as on threads."""

import numpy as np
import pytest
import zarr
from lost_workers import kill_a_worker
from strategies import contents
from two_workers import two_workers

from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.methods.hdp import batch, search
from dask_dpmeans.sources import as_source

RNG = np.random.default_rng(0)
ROWS = RNG.normal(0, 4, (12, 2))[RNG.integers(12, size=900)] + RNG.normal(0, 0.5, (900, 2))
GROUPS = RNG.integers(0, 30, 900)
WEIGHTS = RNG.choice([0.0, 0.3, 1.0, 2.7], 900)
METHODS = {
    "plain": batch.Method(3.0, 20.0, max_iter=12),
    "search": search.Method(3.0, 20.0, max_iter=12),
}


@pytest.fixture
def client(tmp_path):
    with two_workers(tmp_path / "workers") as client:
        yield client


def test_a_fit_of_data_sets_survives_a_worker(client, tmp_path):
    made = zarr.create_array(
        tmp_path / "rows.zarr", shape=ROWS.shape, chunks=(50, 1), dtype=ROWS.dtype
    )
    made[:] = ROWS
    sets = zarr.create_array(
        tmp_path / "sets.zarr", shape=GROUPS.shape, chunks=(70,), dtype=np.uint16, fill_value=9
    )
    sets[:] = GROUPS
    on_threads = as_source(ROWS, WEIGHTS, groups=GROUPS, threads=2, block_rows=64)
    for name, method in METHODS.items():
        wanted = [contents(step.state) for step in iterate(on_threads, method)]
        source = as_source(
            tmp_path / "rows.zarr",
            WEIGHTS,
            groups=tmp_path / "sets.zarr",
            client=client,
            block_rows=64,
            fill_missing=True,
        )
        found = []
        for step in iterate(source, method):
            found.append(contents(step.state))
            if len(found) == 2 and name == "plain":
                kill_a_worker(client, among=2)
        assert found == wanted
        assert len(found) >= 2
