"""Clusters of eigenvectors: the estimator, stores and the command line."""

import json

import dask.array as da
import numpy as np
import pytest
import xarray
import zarr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.cluster import SpectralClustering
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import SHUFFLED, chunkings, seeds
from threadpoolctl import threadpool_limits

from dask_dpmeans import DPMeans, InputError, SpectralDPMeans, dry_run, fit, load, predict
from dask_dpmeans.cli import main
from dask_dpmeans.estimators import embedding

ORDER = dict.fromkeys(SHUFFLED, "it shuffles the rows, and births follow their order")


@parametrize_with_checks([SpectralDPMeans(1.0)], expected_failed_checks=lambda _: ORDER)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    """600 rows about 4 directions in 5 columns, and these directions."""
    rng = np.random.default_rng(4)
    truth = rng.integers(4, size=600)
    return 5 * np.eye(5)[truth] + 0.3 * rng.normal(size=(600, 5)), truth


@pytest.fixture(scope="module")
def moons():
    return make_moons(1000, noise=0.05, random_state=0)


MODELS = {
    "linear": SpectralDPMeans(500.0, random_state=0),
    "rbf": SpectralDPMeans(20.0, affinity="rbf", gamma=0.1, random_state=0),
    "landmarks": SpectralDPMeans(20.0, affinity="rbf", gamma=0.1, n_landmarks=50, random_state=0),
    "nearest_neighbors": SpectralDPMeans(0.9999, affinity="nearest_neighbors", random_state=0),
}
INDUCTIVE = ("linear", "rbf", "landmarks")


def params(model, **changed):
    return SpectralDPMeans(**(model.get_params() | changed))


@pytest.mark.parametrize("name", MODELS)
def test_ideal_clusters_are_found_and_attributes_belong_together(blobs, name):
    rows, truth = blobs
    model = params(MODELS[name]).fit(rows)
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert (model.eigenvalues_ > model.penalty).all()
    assert (np.diff(model.eigenvalues_) <= 0).all()
    assert model.relaxed_objective_ == pytest.approx((model.eigenvalues_ - model.penalty).sum())
    rows_of_y = model.embed(rows) if name in INDUCTIVE else model.embedding_
    np.testing.assert_allclose(np.linalg.norm(rows_of_y, axis=1), 1.0)
    inertia = ((rows_of_y - model.cluster_centers_[model.labels_]) ** 2).sum()
    assert model.inertia_ == pytest.approx(inertia)
    assert model.objective_ == pytest.approx(inertia + 0.25 * model.n_clusters_)
    assert model.cluster_weights_.tolist() == np.bincount(model.labels_).tolist()


@pytest.mark.parametrize("name", INDUCTIVE)
def test_rows_that_were_not_fitted_go_to_the_clusters_of_their_like(blobs, name):
    rows, _ = blobs
    model = params(MODELS[name]).fit(rows)
    new = rows + 0.01
    np.testing.assert_array_equal(model.predict(rows), model.labels_)
    np.testing.assert_array_equal(model.predict(new), model.labels_)
    lazy = da.from_array(new, chunks=(77, 2))
    assert model.predict(lazy).compute().tobytes() == model.predict(new).tobytes()
    assert model.embed(lazy).compute().tobytes() == model.embed(new).tobytes()
    distances = cdist(model.embed(new), model.cluster_centers_)
    np.testing.assert_allclose(model.transform(new), distances, atol=1e-12)
    assert model.score(new) == pytest.approx(-(distances.min(axis=1) ** 2).sum())


def test_no_clustering_is_lower_than_the_relaxation(blobs):
    rows, _ = blobs
    for penalty in (30.0, 300.0, 3000.0):
        relaxed = params(MODELS["linear"], penalty=penalty).fit(rows)
        best = DPMeans(penalty, search=True, random_state=0).fit(rows)
        assert relaxed.affinity_trace_ - relaxed.relaxed_objective_ <= best.objective_


def test_clusters_that_are_no_balls_are_found_by_their_neighbors(moons):
    rows, truth = moons
    model = params(MODELS["nearest_neighbors"]).fit(rows)
    assert adjusted_rand_score(truth, model.labels_) == 1
    with pytest.warns(UserWarning, match="not fully connected"):
        peer = SpectralClustering(
            2, affinity="nearest_neighbors", n_neighbors=10, random_state=0
        ).fit(rows)
    affinity = peer.affinity_matrix_
    roots = 1 / np.sqrt(affinity.toarray().sum(axis=1))
    matrix = affinity.toarray() * roots[:, np.newaxis] * roots
    np.testing.assert_allclose(embedding.neighbor_affinity(rows, 10).toarray(), matrix, atol=1e-15)


def test_equally_near_rows_are_the_same_neighbors_for_any_threads():
    rows = np.random.default_rng(0).integers(3, size=(900, 17)).astype(float)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(embedding.neighbor_affinity(rows, 10).toarray().tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "form", [np.array, csr_array, lambda matrix: da.from_array(matrix, chunks=(77, 1000))]
)
def test_a_matrix_is_taken_as_it_is_given(moons, form):
    rows, truth = moons
    matrix = embedding.neighbor_affinity(rows, 10).toarray()
    model = SpectralDPMeans(0.9999, affinity="precomputed", random_state=0).fit(form(matrix))
    known = params(MODELS["nearest_neighbors"]).fit(rows)
    np.testing.assert_array_equal(model.labels_, known.labels_)
    np.testing.assert_allclose(model.eigenvalues_, known.eigenvalues_)
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert not hasattr(model, "predict")


def test_the_exact_kernel_is_that_of_all_rows(blobs):
    rows, _ = blobs
    model = params(MODELS["rbf"]).fit(rows)
    known = SpectralDPMeans(20.0, affinity="precomputed", random_state=0).fit(
        rbf_kernel(rows, gamma=0.1)
    )
    np.testing.assert_allclose(model.eigenvalues_, known.eigenvalues_)
    assert model.affinity_trace_ == pytest.approx(600)
    np.testing.assert_allclose(
        cdist(model.embed(rows), model.embed(rows)), cdist(*[known.embedding_] * 2), atol=1e-7
    )


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=6)
@given(data=st.data(), seed=seeds, threads=st.integers(1, 3))
def test_any_chunks_and_threads_give_the_same_bytes(name, data, seed, threads, tmp_path_factory):
    rng = np.random.default_rng(seed)
    rows = 5 * np.eye(3)[rng.integers(3, size=300)] + 0.3 * rng.normal(size=(300, 3))
    model = params(
        MODELS[name],
        penalty=0.99 if name == "nearest_neighbors" else 2.0,
        search=data.draw(st.booleans()),
    )
    plain = model.fit(rows)
    chunks = data.draw(chunkings(300, empty=False)), (data.draw(st.integers(1, 3)),)
    stored = tmp_path_factory.mktemp("spectral")
    height = data.draw(st.integers(1, 300))
    zarr.create_array(stored / "rows.zarr", data=rows, chunks=(height, 3))
    in_chunks = params(model).fit(da.from_array(rows, chunks=(chunks[0], 3)))
    from_store = fit(
        stored / "rows.zarr", stored / "run.zarr", model, threads=threads, memory_limit=10**6
    )
    for other in (in_chunks, from_store):
        for attribute in (
            "labels_",
            "cluster_centers_",
            "eigenvalues_",
            "objective_",
            "affinity_trace_",
        ):
            wanted, found = (np.asarray(getattr(each, attribute)) for each in (plain, other))
            assert found.tobytes() == wanted.tobytes(), attribute
        assert [vars(each) | {"seconds": 0} for each in other.history_] == [
            vars(each) | {"seconds": 0} for each in plain.history_
        ]


@pytest.mark.parametrize("name", MODELS)
def test_from_store_to_store_and_back(tmp_path, blobs, name):
    rows, _ = blobs
    zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(100, 5))
    data, run = tmp_path / "rows.zarr", tmp_path / "run.zarr"
    model = params(MODELS[name], tol=0.0)
    plain = params(model).fit(rows)

    class StopError(Exception):
        pass

    def stop(*_):
        raise StopError

    with pytest.raises(StopError):
        fit(data, run, model, on_step=stop)
    found = fit(data, run, model, resume=True, threads=2)
    for attribute in (
        "cluster_centers_",
        "labels_",
        "eigenvalues_",
        "relaxed_objective_",
        "objective_",
        "n_iter_",
    ):
        np.testing.assert_array_equal(
            np.asarray(getattr(found, attribute)), getattr(plain, attribute)
        )
    assert load(run).get_params() == model.get_params()
    with pytest.raises(InputError, match="other parameters: spectrum"):
        fit(data, run, params(model, penalty=0.9), resume=True)
    if name not in INDUCTIVE:
        np.testing.assert_array_equal(found.embedding_.compute(), plain.embedding_)
        with pytest.raises(InputError, match="are of the rows that were fitted"):
            predict(run, data, tmp_path / "out.zarr")
        return
    predict(run, data, tmp_path / "out.zarr")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "out.zarr/label")[:], plain.labels_)
    np.testing.assert_array_equal(found.predict(rows), plain.labels_)
    with pytest.raises(InputError, match="data has 4 columns, the run was fitted on 5"):
        predict(run, rows[:, :4], tmp_path / "narrow.zarr")


@pytest.mark.parametrize("name", MODELS)
def test_xarray_opens_a_run_whose_eigenvectors_are_fewer_than_columns(tmp_path, blobs, name):
    rows, _ = blobs
    found = fit(10 * rows, tmp_path / "run.zarr", params(MODELS[name], penalty=0.9), scale="std")
    with xarray.open_zarr(tmp_path / "run.zarr") as run:
        assert run.feature_scale.dims == ("column",)
        assert run.cluster_centers.shape == (found.n_clusters_, len(found.eigenvalues_))


def test_a_model_that_is_fitted_by_another_affinity_forgets_the_first(blobs):
    model = params(MODELS["nearest_neighbors"]).fit(blobs[0])
    model.set_params(affinity="linear", penalty=500.0).fit(blobs[0])
    assert not hasattr(model, "embedding_")


@pytest.mark.parametrize("name", MODELS)
def test_sparse_rows_are_as_good_as_dense_ones(blobs, name):
    rows = np.where(np.abs(blobs[0]) > 1, blobs[0], 0.0)
    dense, sparse = (params(MODELS[name]).fit(each) for each in (rows, csr_array(rows)))
    assert sparse.labels_.tobytes() == dense.labels_.tobytes()
    assert sparse.eigenvalues_.tobytes() == dense.eigenvalues_.tobytes()
    if name in INDUCTIVE:
        np.testing.assert_array_equal(sparse.predict(csr_array(rows)), dense.labels_)


def test_a_matrix_is_read_from_csr_in_a_group(tmp_path):
    matrix = csr_array(np.kron(np.eye(3), np.ones((4, 4))))
    group = zarr.create_group(
        tmp_path / "k.zarr", attributes={"encoding-type": "csr_matrix", "shape": [12, 12]}
    )
    for name in ("data", "indices", "indptr"):
        group.create_array(name, data=getattr(matrix, name))
    model = SpectralDPMeans(2.0, affinity="precomputed").fit(group)
    assert model.labels_.tolist() == [0] * 4 + [1] * 4 + [2] * 4


@pytest.mark.parametrize("form", [np.array, csr_array])
def test_what_is_no_number_in_a_matrix_is_named(form):
    matrix = np.eye(5)
    matrix[3, 1] = np.nan
    with pytest.raises(InputError, match=r"data contains NaN \(nan\) at row 3, column 1"):
        SpectralDPMeans(0.5, affinity="precomputed").fit(form(matrix))


def test_scaled_columns_are_those_of_the_rows_that_are_projected_or_gathered(tmp_path, blobs):
    rows, _ = blobs
    wide = rows * np.array([1.0, 10.0, 100.0, 1.0, 1.0])
    chosen, scale = wide[:, [0, 1, 2, 3]], wide[:, [0, 1, 2, 3]].std(axis=0)
    np.save(tmp_path / "rows.npy", wide)
    for name, penalty in (("linear", 100.0), ("rbf", 20.0), ("nearest_neighbors", 0.9999)):
        model = params(MODELS[name], penalty=penalty)
        found = fit(
            tmp_path / "rows.npy",
            tmp_path / "run.zarr",
            model,
            columns=[0, 1, 2, 3],
            scale="std",
            force=True,
        )
        plain = params(model).fit(chosen / scale)
        np.testing.assert_array_equal(found.labels_.compute(), plain.labels_)
        np.testing.assert_allclose(found.eigenvalues_, plain.eigenvalues_)
        np.testing.assert_allclose(found.feature_scale_, scale)
        if name in INDUCTIVE:
            np.testing.assert_array_equal(found.predict(wide), plain.labels_)


def test_the_command_line(tmp_path, blobs):
    rows, truth = blobs
    zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(100, 5))
    run, data, out = (str(tmp_path / name) for name in ("run.zarr", "rows.zarr", "out.zarr"))
    asked = ["spectral", data, run, "--penalty", "500", "--threads", "2", "--seed", "0"]
    said = CliRunner().invoke(main, asked, catch_exceptions=False)
    assert said.exit_code == 0, said.output
    assert "affinity    linear, 4 eigenvalues above 500: " in said.output
    assert "threshold   0.25, a radius of 0.5" in said.output
    plain = params(MODELS["linear"]).fit(rows)
    np.testing.assert_array_equal(load(run).labels_.compute(), plain.labels_)
    shown = json.loads(
        CliRunner().invoke(main, ["show", run, "--json"], catch_exceptions=False).output
    )
    assert shown["eigenvalues"] == plain.eigenvalues_.tolist()
    assert shown["relaxed_objective"] == plain.relaxed_objective_
    assert shown["affinity_trace"] == plain.affinity_trace_
    assert shown["parameters"]["spectrum"]["penalty"] == 500
    said = CliRunner().invoke(
        main, ["predict", run, data, out, "--threads", "1"], catch_exceptions=False
    )
    assert (
        "600 rows labeled, 0 of them costing more than the penalty at every center" in said.output
    )
    graph = [
        *asked,
        "--affinity",
        "nearest_neighbors",
        "--neighbors",
        "10",
        "--penalty",
        ".9999",
        "--force",
    ]
    assert CliRunner().invoke(main, graph, catch_exceptions=False).exit_code == 0
    assert adjusted_rand_score(truth, load(run).labels_.compute()) == 1
    again = CliRunner().invoke(main, [*graph[:-1], "--resume"], catch_exceptions=False)
    assert again.exit_code == 0, again.output
    np.save(tmp_path / "weights.npy", np.ones(600))
    for option, message in (
        (
            ["--weights", str(tmp_path / "weights.npy")],
            "sample_weight has no use with --affinity nearest_neighbors",
        ),
        (["--penalty", "2"], "penalty must be < 1"),
        (["--gamma", "1"], "gamma is a parameter of --affinity rbf"),
    ):
        said = CliRunner().invoke(main, [*graph, *option], catch_exceptions=False)
        assert (said.exit_code, message in said.output) == (2, True), said.output


def test_lazy_rows_are_gathered_up_to_a_stated_size(moons, monkeypatch):
    rows, _ = moons
    model = params(MODELS["nearest_neighbors"])
    plain = params(model).fit(rows)
    lazy = params(model).fit(da.from_array(rows, chunks=(123, 1)))
    assert isinstance(lazy.labels_, np.ndarray)
    np.testing.assert_array_equal(lazy.labels_, plain.labels_)
    monkeypatch.setattr(embedding, "GATHERED_BYTES", 1000 * 7)
    with pytest.raises(
        InputError,
        match=r"at most 6\.84 kiB of them \(437 rows of 2 columns\), got 1,000 rows: use",
    ):
        model.fit(da.from_array(rows, chunks=123))


def test_what_is_not_offered_is_refused(tmp_path, moons):
    rows, _ = moons
    model = params(MODELS["nearest_neighbors"]).fit(rows)
    for method in ("predict", "transform", "score", "embed"):
        with pytest.raises(AttributeError, match="has no attribute") as refused:
            getattr(model, method)(rows)
        assert "new rows need affinity='linear' or 'rbf'" in str(refused.value.__cause__)
    with pytest.raises(
        InputError, match="sample_weight has no use with affinity='nearest_neighbors'"
    ):
        model.fit(rows, sample_weight=np.ones(1000))
    with pytest.raises(
        InputError, match="affinity='precomputed' takes K as it is: leave the scale out"
    ):
        fit(
            np.eye(4),
            tmp_path / "run.zarr",
            SpectralDPMeans(0.5, affinity="precomputed"),
            scale="std",
        )
    with pytest.raises(
        InputError, match="n_neighbors must be at most the number of rows, 5, got 10"
    ):
        model.fit(rows[:5])
    with pytest.raises(InputError, match=r"threshold must be a finite number > 0, got -0\.25"):
        params(model, threshold=-0.25).fit(rows)
    with pytest.raises(InputError, match="search must be True or False, got 1"):
        params(model, search=1).fit(rows)
    with pytest.raises(InputError, match="not what SpectralDPMeans costs"):
        dry_run(rows, tmp_path / "run.zarr", model)


def test_rows_that_the_eigenvectors_hold_nothing_of_are_a_cluster():
    rows = np.concatenate(
        [np.eye(4)[np.arange(100) % 3] * 9, np.eye(4)[[3] * 5] * 0.01, np.zeros((2, 4))]
    )
    model = SpectralDPMeans(100.0).fit(rows)
    assert model.n_clusters_ == 4
    assert len(set(model.labels_[100:])) == 1
    np.testing.assert_allclose(model.cluster_centers_[model.labels_[100]], 0.0, atol=1e-12)
