"""Clusters of any shape on two worker processes: the same bytes as on threads."""

import numpy as np
import pytest
import zarr
from sklearn.datasets import make_circles
from two_workers import two_workers

from dask_dpmeans import LinkageDPMeans, fit

ROWS = make_circles(3000, noise=0.04, factor=0.5, random_state=0)[0]
MODEL = LinkageDPMeans(max_iter=3, random_state=0)
"""A few steps of the search: each takes passes, and each pass takes many tasks."""


def test_workers_give_the_same_bytes(tmp_path):
    zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(170, 2))
    with two_workers(tmp_path / "workers") as client:
        same = {"method": MODEL, "block_rows": 256, "force": True}
        with pytest.warns(Warning, match="max_iter=3"):
            wanted = fit(ROWS, tmp_path / "threads.zarr", threads=2, **same)
        with pytest.warns(Warning, match="max_iter=3"):
            found = fit(tmp_path / "rows.zarr", tmp_path / "workers.zarr", client=client, **same)
    for name in ("labels_", "micro_centers_", "groups_", "cluster_tree_", "objective_"):
        one, other = (np.asarray(getattr(each, name)) for each in (wanted, found))
        assert one.tobytes() == other.tobytes(), name
    assert wanted.links_.data.tobytes() == found.links_.data.tobytes()
    assert len(found.groups_) > found.n_clusters_
