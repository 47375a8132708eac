"""Kernel DP-means on two worker processes of which one is killed: the same bytes as on threads."""

import numpy as np
import pytest
import zarr
from lost_workers import kill_a_worker
from strategies import contents
from two_workers import two_workers

from dask_dpmeans import InputError
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.estimators.kernel_maps import Approximation
from dask_dpmeans.kernels.gather import Gather
from dask_dpmeans.methods.kernel import search as kernel_search
from dask_dpmeans.methods.kernel.batch import Method
from dask_dpmeans.sources import as_source, source_of_features

RNG = np.random.default_rng(0)
ROWS = RNG.normal(0, 4, (12, 2))[RNG.integers(12, size=900)] + RNG.normal(0, 0.5, (900, 2))
WEIGHTS = RNG.choice([0.0, 0.3, 1.0, 2.7], 900)


@pytest.fixture
def client(tmp_path):
    with two_workers(tmp_path / "workers") as client:
        yield client


def test_a_fit_in_the_space_of_a_kernel_survives_a_worker(client, tmp_path):
    made = zarr.create_array(
        tmp_path / "rows.zarr", shape=ROWS.shape, chunks=(50, 1), dtype=ROWS.dtype
    )
    made[:] = ROWS
    on_threads = as_source(ROWS, WEIGHTS, threads=2, block_rows=64)
    on_workers = as_source(
        tmp_path / "rows.zarr", WEIGHTS, client=client, block_rows=64, fill_missing=True
    )
    features = Approximation("nystroem", gamma=0.1, n_components=25).features(on_threads, 0)
    assert Approximation("nystroem", gamma=0.1, n_components=25).features(on_workers, 0) == features
    seen = [
        source_of_features(source, features).fold(Gather()).rows.tobytes()
        for source in (on_threads, on_workers)
    ]
    assert seen[0] == seen[1]
    method = Method(0.4, gamma=0.1)
    wanted = [contents(step.state) for step in iterate(on_threads, method)]
    found = []
    for step in iterate(on_workers, method):
        found.append(contents(step.state))
        if len(found) == 1:
            kill_a_worker(client, among=2)
    assert found == wanted
    assert len(found) > 2
    search = kernel_search.Method(20.0, gamma=0.1, tol=1e-2)
    there, here = (
        [contents(step.state) for step in iterate(rows, search)]
        for rows in (on_workers, on_threads)
    )
    assert there == here
    with pytest.raises(InputError, match="the kernel gives infinity or NaN"):
        list(iterate(on_workers, Method(1.0, "poly", gamma=1e300)))
