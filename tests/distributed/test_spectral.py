"""Eigenvectors of rows on two worker processes: the same bytes as on threads."""

import numpy as np
import zarr
from two_workers import two_workers

from dask_dpmeans import SpectralDPMeans, fit

RNG = np.random.default_rng(0)
ROWS = 5 * np.eye(6)[RNG.integers(6, size=3000)] + 0.3 * RNG.normal(size=(3000, 6))
MODELS = (
    SpectralDPMeans(300.0, random_state=0),
    SpectralDPMeans(150.0, affinity="rbf", gamma=0.1, n_landmarks=200, random_state=0),
    SpectralDPMeans(0.9999, affinity="nearest_neighbors", random_state=0),
)


def test_workers_give_the_same_bytes(tmp_path):
    zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(170, 6))
    with two_workers(tmp_path / "workers") as client:
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
