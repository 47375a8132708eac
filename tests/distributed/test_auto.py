"""The choice of a penalty on two worker processes gives the bytes of threads."""

import dask.array as da
import numpy as np
import zarr
from two_workers import two_workers

from dask_dpmeans import DPMeans, fit

ROWS = np.repeat(12.0 * np.eye(3), 60, axis=0) + np.random.default_rng(0).normal(size=(180, 3))


def bytes_of(model: DPMeans) -> list[object]:
    arrays = model.cluster_centers_, model.cluster_stability_, np.asarray(model.labels_)
    return [model.penalty_, model.choice_, *(each.tobytes() for each in arrays)]


def test_workers_choose_as_threads_do(tmp_path) -> None:
    known = DPMeans(random_state=0).fit(ROWS)
    assert known.n_clusters_ == 3
    stored = zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(50, 2))
    with two_workers(tmp_path / "workers") as client:
        run = fit(stored, tmp_path / "run.zarr", DPMeans(random_state=0), client=client)
        lazy = DPMeans(random_state=0).fit(da.from_array(ROWS, chunks=(70, 1)))
    assert bytes_of(run) == bytes_of(lazy) == bytes_of(known)
