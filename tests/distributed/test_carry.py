"""One pass in row order on worker processes: the same bytes as in this one."""

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from strategies import table

from dask_dpmeans import TooManyClustersError
from dask_dpmeans.methods.streaming import SplitMerge as Method
from dask_dpmeans.sources import as_source, connect, layout

ROWS = table("clouds", (3000, 2), np.float32, 0)
METHOD = Method(6.0)


def carried(source, method=METHOD):
    return source.carry(method.take, method.init(source.n_features)).boxes


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with (
        dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("workers"))}),
        connect(None, workers=2, threads=1, memory_limit="1GB", timeout=60) as client,
    ):
        yield client


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize("form", ["zarr", "dask"])
def test_a_state_that_travels_through_workers_is_that_of_one_process(
    client, tmp_path, monkeypatch, form, resident
):
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.4 if resident else 0.0)
    stored = zarr.create_array(
        tmp_path / "rows.zarr", shape=ROWS.shape, chunks=(50, 1), dtype=ROWS.dtype
    )
    stored[:] = ROWS
    data = stored if form == "zarr" else da.from_array(ROWS, chunks=((0, 7, 500, 0, 2493), (1, 1)))
    source = as_source(data, client=client, block_rows=16)
    expected = carried(as_source(ROWS))
    assert [each.tobytes() for each in carried(source)] == [each.tobytes() for each in expected]
    with pytest.raises(
        TooManyClustersError, match="makes at least 3 clusters, more than max_clusters=2"
    ):
        carried(source, Method(6.0, max_clusters=2))
