"""Each method on two worker processes, of which some are killed: the same bytes as on threads."""

from unittest import mock

import dask.array as da
import numpy as np
import pytest
import zarr
from lost_workers import kill_a_worker
from sklearn.datasets import make_circles
from strategies import contents, states_of
from two_workers import two_workers

from dask_dpmeans import DPMeans, InputError, LinkageDPMeans, SpectralDPMeans, fit
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.estimators.kernel_maps import Approximation
from dask_dpmeans.kernels.answers import Gather
from dask_dpmeans.methods.hdp import batch, moves, search
from dask_dpmeans.methods.kernel import search as kernel_search
from dask_dpmeans.methods.kernel.batch import Method
from dask_dpmeans.sources import as_source, source_of_features

RNG = np.random.default_rng(0)
ROWS = RNG.normal(0, 4, (12, 2))[RNG.integers(12, size=900)] + RNG.normal(0, 0.5, (900, 2))
GROUPS = RNG.integers(0, 30, 900)
WEIGHTS = RNG.choice([0.0, 0.3, 1.0, 2.7], 900)
HDP = {
    "plain": batch.Method(3.0, 20.0, max_iter=12),
    "search": search.Method(3.0, 20.0, max_iter=12),
}
CORNERS = 5 * np.eye(6)[RNG.integers(6, size=3000)] + 0.3 * RNG.normal(size=(3000, 6))
SPECTRAL = (
    SpectralDPMeans(300.0, random_state=0),
    SpectralDPMeans(150.0, affinity="rbf", gamma=0.1, n_landmarks=200, random_state=0),
    SpectralDPMeans(0.9999, affinity="nearest_neighbors", random_state=0),
)
OF_SPECTRAL = "labels_ cluster_centers_ eigenvalues_ objective_ affinity_trace_ n_iter_"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with two_workers(tmp_path_factory.mktemp("workers")) as client:
        yield client


@pytest.fixture
def mortal(tmp_path):
    """Workers for one test, which kills one of them."""
    with two_workers(tmp_path / "workers") as client:
        yield client


def contents_until(source, method, steps, kill):
    """The contents of all states, with a kill after so many steps."""
    found = []
    for step in iterate(source, method):
        found.append(contents(step.state))
        if len(found) == steps:
            kill()
    return found


def same_bytes(one, other, names):
    for name in names.split():
        first, second = (np.asarray(getattr(each, name)) for each in (one, other))
        assert first.tobytes() == second.tobytes(), (one, name)


@mock.patch.multiple(moves, MAX_CLOSINGS=4, MAX_SPLITS=4)  # trials that fail take most of the time
def test_a_fit_of_data_sets_survives_a_worker(mortal, tmp_path):
    rows = zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(50, 1))
    sets = zarr.create_array(
        tmp_path / "sets.zarr", shape=GROUPS.shape, chunks=(70,), dtype=np.uint16, fill_value=9
    )
    sets[:] = GROUPS
    on_threads = as_source(ROWS, WEIGHTS, groups=GROUPS, threads=2, block_rows=64)
    for name, method in HDP.items():
        given = {"groups": tmp_path / "sets.zarr", "block_rows": 64, "fill_missing": True}
        source = as_source(rows, WEIGHTS, client=mortal, **given)
        steps = 2 if name == "plain" else 0
        found = contents_until(source, method, steps, lambda: kill_a_worker(mortal, among=2))
        assert found == [contents(state) for state in states_of(on_threads, method)]
        assert len(found) >= 2


def test_a_fit_in_the_space_of_a_kernel_survives_a_worker(mortal, tmp_path):
    rows = zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(50, 1))
    on_threads = as_source(ROWS, WEIGHTS, threads=2, block_rows=64)
    on_workers = as_source(rows, WEIGHTS, client=mortal, block_rows=64, fill_missing=True)
    features, others = (
        Approximation("nystroem", gamma=0.1, n_components=25).features(source, 0)
        for source in (on_threads, on_workers)
    )
    assert others == features
    seen, there = (
        source_of_features(source, features).fold(Gather()).rows.tobytes()
        for source in (on_threads, on_workers)
    )
    assert there == seen
    method = Method(0.4, gamma=0.1)
    found = contents_until(on_workers, method, 1, lambda: kill_a_worker(mortal, among=2))
    assert found == [contents(state) for state in states_of(on_threads, method)]
    assert len(found) > 2
    there, here = (
        [
            contents(state)
            for state in states_of(source, kernel_search.Method(20.0, gamma=0.1, tol=1e-2))
        ]
        for source in (on_workers, on_threads)
    )
    assert there == here
    with pytest.raises(InputError, match="the kernel gives infinity or NaN"):
        list(iterate(on_workers, Method(1.0, "poly", gamma=1e300)))


def test_workers_choose_a_penalty_as_threads_do(client, tmp_path):
    rows = np.repeat(12.0 * np.eye(3), 60, axis=0) + np.random.default_rng(0).normal(size=(180, 3))
    known = DPMeans(random_state=0).fit(rows)
    assert known.n_clusters_ == 3
    stored = zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(50, 2))
    run = fit(stored, tmp_path / "run.zarr", DPMeans(random_state=0), client=client)
    with client.as_current():
        lazy = DPMeans(random_state=0).fit(da.from_array(rows, chunks=(70, 1)))
    for model in (run, lazy):
        assert (model.penalty_, model.choice_) == (known.penalty_, known.choice_)
        same_bytes(known, model, "cluster_centers_ cluster_stability_ labels_")


def test_clusters_of_any_shape(client, tmp_path):
    """A few steps of the search: each takes passes, and each pass takes many tasks."""
    rows = make_circles(3000, noise=0.04, factor=0.5, random_state=0)[0]
    zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(170, 2))
    same = {"method": LinkageDPMeans(max_iter=3, random_state=0), "block_rows": 256}
    with pytest.warns(Warning, match="max_iter=3"):
        wanted = fit(rows, tmp_path / "threads.zarr", threads=2, **same)
    with pytest.warns(Warning, match="max_iter=3"):
        found = fit(tmp_path / "rows.zarr", tmp_path / "workers.zarr", client=client, **same)
    same_bytes(wanted, found, "labels_ micro_centers_ groups_ cluster_tree_ objective_")
    assert wanted.links_.data.tobytes() == found.links_.data.tobytes()
    assert len(found.groups_) > found.n_clusters_


def test_eigenvectors_of_rows(client, tmp_path):
    zarr.create_array(tmp_path / "rows.zarr", data=CORNERS, chunks=(170, 6))
    for model in SPECTRAL:
        same = {"method": model, "block_rows": 256, "force": True}
        wanted = fit(CORNERS, tmp_path / "threads.zarr", threads=2, **same)
        found = fit(tmp_path / "rows.zarr", tmp_path / "workers.zarr", client=client, **same)
        assert found.n_clusters_ == 6
        same_bytes(wanted, found, OF_SPECTRAL)
