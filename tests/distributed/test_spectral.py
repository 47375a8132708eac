"""Eigenvectors of rows on two worker processes: the same bytes as on threads."""

import dask
import numpy as np
import zarr

from dask_dpmeans import SpectralDPMeans, fit
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.sources import connect

RNG = np.random.default_rng(0)
ROWS = 5 * np.eye(6)[RNG.integers(6, size=3000)] + 0.3 * RNG.normal(size=(3000, 6))
MODELS = (
    SpectralDPMeans(300.0, random_state=0),
    SpectralDPMeans(150.0, affinity="rbf", gamma=0.1, n_landmarks=200, random_state=0),
    SpectralDPMeans(0.9999, affinity="nearest_neighbors", random_state=0),
)


def without_numba():
    """Loops give the same bytes compiled or not, and two workers less to compile."""
    numba_support.AVAILABLE = False


def test_workers_give_the_same_bytes(tmp_path):
    zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(170, 6))
    with (
        dask.config.set({"temporary-directory": str(tmp_path / "workers")}),
        connect(None, workers=2, threads=1, memory_limit="1GB", timeout=60) as client,
    ):
        client.run(without_numba)
        for model in MODELS:
            same = {"method": model, "block_rows": 256, "force": True}
            wanted = fit(ROWS, tmp_path / "threads.zarr", threads=2, **same)
            found = fit(tmp_path / "rows.zarr", tmp_path / "workers.zarr", client=client, **same)
            assert found.n_clusters_ == 6
            for name in (
                "labels_",
                "cluster_centers_",
                "eigenvalues_",
                "objective_",
                "affinity_trace_",
                "n_iter_",
            ):
                one, other = (np.asarray(getattr(each, name)) for each in (wanted, found))
                assert one.tobytes() == other.tobytes(), (model, name)
