"""Kernel DP-means: the estimator, approximations, stores and the command line."""

import json
import warnings

import dask.array as da
import numpy as np
import pytest
import xarray
import zarr
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_circles, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.neighbors import kneighbors_graph
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import NUMBERING, chunkings, contents

from dask_dpmeans import DPMeans, InputError, KernelDPMeans, SpectralDPMeans, fit, load, predict
from dask_dpmeans.cli import main
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.estimators.kernel_maps import Approximation
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.methods.dpmeans.batch import Method
from dask_dpmeans.sources import as_source, source_of_features

RNG = np.random.default_rng(5)
ROWS = RNG.uniform(-9, 9, (7, 2))[RNG.integers(7, size=900)] + RNG.normal(size=(900, 2))
WEIGHTS = RNG.choice([0.0, 0.5, 1.0, 2.0], 900)
EXACT = KernelDPMeans(0.6, gamma=0.2, random_state=0)
FORMS = {
    "rbf": EXACT,
    "poly": KernelDPMeans(300.0, kernel="poly", degree=2, random_state=1),
    "nystroem": KernelDPMeans(
        0.6, gamma=0.2, approximation="nystroem", n_components=30, random_state=2
    ),
    "fourier": KernelDPMeans(
        0.6, gamma=0.2, approximation="fourier", n_components=40, random_state=3
    ),
    "price": KernelDPMeans(20.0, gamma=0.2, search=True, random_state=6),
    "search": KernelDPMeans(
        8.0, gamma=0.2, approximation="nystroem", n_components=20, search=True, random_state=4
    ),
}
forms = pytest.mark.parametrize("form", FORMS)


@parametrize_with_checks(
    [
        KernelDPMeans(0.4),
        KernelDPMeans(0.4, search=True),
        KernelDPMeans(3.0, kernel="linear"),
        KernelDPMeans(3.0, kernel="linear", search=True),
    ],
    expected_failed_checks=lambda model: NUMBERING if model.search else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted():
    return {form: clone(model).fit(ROWS, sample_weight=WEIGHTS) for form, model in FORMS.items()}


def same(model, other):
    for name in ("cluster_weights_", "cluster_inertias_", "labels_"):
        assert (
            np.asarray(getattr(model, name)).tobytes() == np.asarray(getattr(other, name)).tobytes()
        )
    for mine, theirs in zip(model.history_, other.history_, strict=True):
        assert vars(mine) | {"seconds": 0} == vars(theirs) | {"seconds": 0}


def test_the_exact_form_agrees_with_the_matrix_of_the_kernel(fitted):
    model = fitted["rbf"]
    gram = pairwise_kernels(ROWS, metric="rbf", gamma=0.2)
    settled = model.implicit_centers_.partition.labels
    assert not len(model.implicit_centers_.openers)
    shares = (settled == np.arange(model.n_clusters_)[:, np.newaxis]) * WEIGHTS
    shares /= shares.sum(axis=1, keepdims=True)
    squared = 1 - 2 * gram @ shares.T + np.einsum("ci,ij,cj->c", shares, gram, shares)
    np.testing.assert_array_equal(model.labels_, squared.argmin(axis=1))
    assert model.inertia_ == pytest.approx((WEIGHTS * squared.min(axis=1)).sum())
    assert model.objective_ == pytest.approx(model.inertia_ + 0.6 * model.n_clusters_)
    assert model.score(ROWS, sample_weight=WEIGHTS) == pytest.approx(-model.inertia_)
    np.testing.assert_allclose(model.transform(ROWS) ** 2, squared, atol=1e-12)
    assert not hasattr(model, "cluster_centers_")


@forms
def test_prediction_gives_the_labels_of_the_fit_and_follows_chunks(fitted, form):
    model = fitted[form]
    np.testing.assert_array_equal(model.predict(ROWS), model.labels_)
    lazy = model.predict(da.from_array(ROWS, chunks=((1, 399, 500), (1, 1))))
    assert lazy.chunks == ((1, 399, 500),)
    np.testing.assert_array_equal(lazy.compute(), model.labels_)
    distances = model.transform(da.from_array(ROWS, chunks=(100, 2)))
    np.testing.assert_allclose(distances.compute(), model.transform(ROWS), atol=1e-7)


@settings(max_examples=10)
@given(chunkings(900), st.sampled_from(sorted(FORMS)))
def test_dask_input_in_any_chunks_gives_the_same_bytes(fitted, chunks, form):
    lazy = da.from_array(ROWS, chunks=(chunks, (1, 1)))
    model = clone(FORMS[form]).fit(lazy, sample_weight=da.from_array(WEIGHTS, chunks=(chunks,)))
    assert isinstance(model.labels_, da.Array)
    same(model, fitted[form])


def test_an_approximation_is_that_of_scikit_learn_on_rows_drawn_by_their_numbers(fitted):
    learned = fitted["nystroem"].features_.transformer
    assert isinstance(learned, Nystroem)
    assert {row.tobytes() for row in learned.components_} <= {row.tobytes() for row in ROWS}
    features = learned.transform(ROWS)
    np.testing.assert_array_equal(
        DPMeans(0.6).fit(features, sample_weight=WEIGHTS).labels_, fitted["nystroem"].labels_
    )
    frequencies = fitted["fourier"].features_.transformer
    assert isinstance(frequencies, RBFSampler)
    assert frequencies.gamma == 0.2
    assert fitted["fourier"].cluster_centers_.shape[1] == 40


def test_an_approximation_by_all_rows_is_the_exact_form():
    rows, kernel = ROWS[:120], {"gamma": 0.2, "random_state": 0}
    exact = KernelDPMeans(0.6, **kernel).fit(rows)
    features = KernelDPMeans(0.6, approximation="nystroem", n_components=500, **kernel).fit(rows)
    assert features.cluster_centers_.shape[1] == 120
    np.testing.assert_array_equal(features.labels_, exact.labels_)
    assert features.objective_ == pytest.approx(exact.objective_, rel=1e-6)


@given(st.integers(-(2**40), 2**40), st.integers(-(2**40), 2**40))
@settings(max_examples=20)
def test_an_approximation_of_rbf_does_not_depend_on_where_the_rows_are(first, second):
    rows = np.round(64 * ROWS[:80]) / 64  # sums with the offset are exact
    kernel = pairwise_kernels(rows, metric="rbf", gamma=0.2)
    model = KernelDPMeans(0.6, gamma=0.2, approximation="nystroem", random_state=0)
    far = rows + np.array([first, second])
    model.fit(far)
    features = model.features_(far, Scratch())
    np.testing.assert_allclose(features @ features.T, kernel, atol=1e-6)
    assert (model.predict(far) == model.labels_).all()


def test_features_are_kept_in_memory_where_they_fit_and_made_anew_where_they_do_not():
    feature_map = FORMS["nystroem"]._feature_map()
    sources = {}
    for memory in (10**9, 40_000, 10_000):
        rows = as_source(ROWS, WEIGHTS, memory_limit=memory, threads=1)
        sources[memory] = source_of_features(rows, feature_map.features(rows, 2))
    assert [source.prepare.keep for source in sources.values()] == [True, False, False]
    states = [
        [contents(step.state) for step in iterate(source, Method(0.6))]
        for source in sources.values()
    ]
    assert states[0] == states[1] == states[2]
    kept = [
        memory["rows"]
        for shard in sources[10**9].shards
        for memory in shard.memories.values()
        if "rows" in memory
    ]
    np.testing.assert_array_equal(
        np.concatenate(kept), feature_map.features(rows, 2)(ROWS, Scratch())
    )


@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_passes_that_learn_features_are_counted(tmp_path, approximation):
    model = KernelDPMeans(0.6, gamma=0.2, approximation=approximation, random_state=0)
    for found in (clone(model).fit(ROWS), fit(ROWS, tmp_path / "run.zarr", model)):
        assert (
            found.n_passes_ == found.history_[-1].passes + 3
        )  # the sample, a survey of the features, and the labels


def test_a_kernel_that_overflows_among_the_rows_drawn_is_refused():
    model = KernelDPMeans(1.0, kernel="poly", approximation="nystroem", n_components=20)
    with pytest.raises(
        InputError, match=r"the kernel 'poly' overflows among the rows drawn: divide the data"
    ):
        model.fit(1e120 * ROWS)


def test_features_of_the_cosine_kernel_know_no_lengths():
    model = KernelDPMeans(
        0.3, kernel="cosine", approximation="nystroem", n_components=20, random_state=0
    )
    near, far = (clone(model).fit(size * ROWS) for size in (1.0, 2.0**-500))
    assert near.n_clusters_ > 1
    assert near.labels_.tobytes() == far.labels_.tobytes()


@pytest.mark.parametrize(
    "model",
    [
        KernelDPMeans(np.float32(0.6), kernel="poly", degree=np.int64(2), gamma=np.float32(0.1)),
        KernelDPMeans(
            np.float32(0.6),
            approximation="nystroem",
            n_components=np.int64(9),
            max_iter=np.int64(50),
        ),
        DPMeans(np.float32(0.6), tol=np.float32(1e-3)),
        SpectralDPMeans(
            np.float32(0.6), affinity="rbf", n_landmarks=np.int64(9), threshold=np.float32(0.3)
        ),
    ],
)
def test_numbers_of_numpy_are_numbers(tmp_path, model):
    model.set_params(random_state=0)
    found, plain = fit(ROWS[:50], tmp_path / "run.zarr", model), clone(model).fit(ROWS[:50])
    assert type(plain.objective_) is float
    assert found.objective_ == plain.objective_
    assert fit(ROWS[:50], tmp_path / "run.zarr", model, resume=True).objective_ == plain.objective_


def test_a_warning_points_at_who_called(tmp_path):
    model = clone(EXACT).set_params(max_iter=1)
    spectral = SpectralDPMeans(0.5, threshold=0.01, max_iter=1)
    for warned in (
        lambda: model.fit(ROWS),
        lambda: spectral.fit(ROWS),
        lambda: clone(spectral).set_params(affinity="precomputed").fit(pairwise_kernels(ROWS)),
        lambda: fit(ROWS, tmp_path / "run.zarr", model),
    ):
        with pytest.warns(ConvergenceWarning) as found:
            warned()
        assert found[0].filename == __file__


def test_features_of_float32_are_float32_and_their_labels_close():
    single = clone(FORMS["nystroem"]).fit(ROWS.astype(np.float32))
    double = clone(FORMS["nystroem"]).fit(ROWS)
    assert np.mean(single.labels_ == double.labels_) > 0.99


@forms
def test_from_store_to_store_and_back(tmp_path, fitted, form):
    zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(100, 2))
    paths, weights = (tmp_path / "rows.zarr", tmp_path / "run.zarr"), {"sample_weight": WEIGHTS}

    class StopError(Exception):
        pass

    def stop(number, *_):
        if number == 2:
            raise StopError

    with pytest.raises(StopError):
        fit(*paths, FORMS[form], on_step=stop, **weights)
    found = fit(*paths, FORMS[form], resume=True, threads=2, **weights)
    same(found, fitted[form])
    assert load(paths[1]).get_params() == FORMS[form].get_params()
    np.testing.assert_array_equal(found.predict(ROWS), fitted[form].labels_)
    predict(paths[1], paths[0], tmp_path / "out.zarr")
    out = zarr.open_group(tmp_path / "out.zarr")
    np.testing.assert_array_equal(out["label"][:], fitted[form].labels_)
    with pytest.raises(InputError, match="data has 3 columns, the run was fitted on 2"):
        predict(paths[1], np.ones((9, 3)), tmp_path / "wide.zarr")
    least = np.square(fitted[form].transform(ROWS).min(axis=1))
    np.testing.assert_allclose(out["squared_distance"][:], least, atol=1e-6 * least.max())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert xarray.open_zarr(paths[1]).cluster_weights.shape == (found.n_clusters_,)
    other = clone(FORMS[form]).set_params(gamma=0.9)
    with pytest.raises(InputError, match=r"other parameters: gamma .*, not 0\.9"):
        fit(*paths, other, resume=True, **weights)
    fit(*paths, FORMS[form], force=True, **weights)


@pytest.mark.parametrize("form", ["rbf", "nystroem", "fourier"])
def test_columns_and_scale_come_before_the_kernel(tmp_path, form):
    rows = np.column_stack([ROWS[:, 0] * 1e3, np.zeros(900), ROWS[:, 1]])
    found = fit(rows, tmp_path / "run.zarr", FORMS[form], columns=[2, 0], scale="std")
    scaled = rows[:, [2, 0]] / found.feature_scale_
    np.testing.assert_array_equal(np.asarray(found.labels_), clone(FORMS[form]).fit(scaled).labels_)
    np.testing.assert_array_equal(found.predict(rows), np.asarray(found.labels_))
    assert xarray.open_zarr(tmp_path / "run.zarr").feature_scale.shape == (2,)


def test_a_run_that_stopped_at_its_limit_keeps_the_rows_that_opened_clusters(tmp_path):
    short = clone(EXACT).set_params(max_iter=1)
    with pytest.warns(ConvergenceWarning):
        found = fit(ROWS, tmp_path / "run.zarr", short)
    assert len(found.implicit_centers_.openers)
    np.testing.assert_array_equal(found.predict(ROWS), found.labels_)
    same(fit(ROWS, tmp_path / "run.zarr", EXACT, resume=True), clone(EXACT).fit(ROWS))


def test_a_finished_run_is_read_without_learning_again(tmp_path, monkeypatch):
    form = FORMS["nystroem"]
    found = fit(ROWS, tmp_path / "run.zarr", form)
    monkeypatch.setattr(Approximation, "fit", lambda *_: pytest.fail("fitted once more"))
    same(fit(ROWS, tmp_path / "run.zarr", form, resume=True), found)
    with pytest.raises(InputError, match=r"rows in .*, or what is given with them, have changed"):
        fit(ROWS + 1.0, tmp_path / "run.zarr", form, resume=True)


def test_resume_refuses_other_rows(tmp_path):
    with pytest.warns(ConvergenceWarning):
        fit(ROWS, tmp_path / "run.zarr", clone(EXACT).set_params(max_iter=2))
    with pytest.raises(InputError, match=r"rows in .*, or what is given with them, have changed"):
        fit(ROWS + 1.0, tmp_path / "run.zarr", EXACT, resume=True)


@pytest.mark.parametrize("stored", [False, True])
def test_a_matrix_of_similarities(tmp_path, stored):
    gram = pairwise_kernels(ROWS, metric="rbf", gamma=0.2)
    model, wanted = KernelDPMeans(0.6, kernel="precomputed", random_state=0), clone(EXACT).fit(ROWS)
    if stored:
        zarr.create_array(tmp_path / "gram.zarr", data=gram, chunks=(70, 900))
        found = fit(tmp_path / "gram.zarr", tmp_path / "run.zarr", model)
        same(found, clone(model).fit(da.from_array(gram, chunks=(333, 100))))
        with pytest.raises(
            InputError,
            match=r"run is of a precomputed kernel: similarities .* do not tell distances",
        ):
            predict(tmp_path / "run.zarr", tmp_path / "gram.zarr", tmp_path / "out.zarr")
    else:
        found = clone(model).fit(gram)
    np.testing.assert_array_equal(np.asarray(found.labels_), wanted.labels_)
    new = pairwise_kernels(ROWS[:50] + 0.1, ROWS, metric="rbf", gamma=0.2)
    np.testing.assert_array_equal(found.predict(new), wanted.predict(ROWS[:50] + 0.1))
    for method in (found.transform, found.score):
        with pytest.raises(InputError, match="and so no distances: predict gives labels"):
            method(new)
    assert found.__sklearn_tags__().input_tags.pairwise


def test_a_function_as_the_kernel(tmp_path):
    def laplacian(left, right):
        return np.exp(-0.3 * np.abs(left[:, np.newaxis] - right).sum(axis=2))

    model = KernelDPMeans(0.7, kernel=laplacian, random_state=0)
    found = clone(model).fit(ROWS)
    matrix = KernelDPMeans(0.7, kernel="precomputed").fit(laplacian(ROWS, ROWS))
    np.testing.assert_array_equal(found.labels_, matrix.labels_)
    np.testing.assert_array_equal(found.predict(ROWS), found.labels_)
    with pytest.raises(
        InputError, match=r"the kernel .*laplacian.* is a function, which a run cannot keep"
    ):
        fit(ROWS, tmp_path / "run.zarr", model)


def test_a_model_that_is_fitted_in_another_form_forgets_the_first():
    model = clone(FORMS["nystroem"]).fit(ROWS)
    model.set_params(approximation=None).fit(ROWS)
    assert model.features_ is None
    assert not hasattr(model, "cluster_centers_")
    np.testing.assert_array_equal(model.predict(ROWS), clone(EXACT).fit(ROWS).labels_)
    model.set_params(approximation="nystroem").fit(ROWS)
    assert model.implicit_centers_ is None


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"search": 1}, r"search must be True or False, got 1"),
        (
            {"approximation": "taylor"},
            r"approximation must be 'nystroem', 'fourier' or None, got 'taylor'",
        ),
        (
            {"approximation": "fourier", "kernel": "poly"},
            r"approximation='fourier' takes the kernel 'rbf', got 'poly'",
        ),
        (
            {"approximation": "nystroem", "kernel": "precomputed"},
            r"takes the kernel 'rbf', .*, got 'precomputed'",
        ),
        ({"approximation": "nystroem", "kernel": np.dot}, r"takes the kernel 'rbf', .*, got <"),
        (
            {"approximation": "nystroem", "n_components": 0},
            r"n_components must be an integer >= 1, got 0",
        ),
        (
            {"approximation": "nystroem", "kernel": "cosine", "gamma": 1.0},
            r"gamma has no use with kernel='cosine', got 1.0: leave it out",
        ),
        ({"gamma": -1.0}, r"gamma must be a finite number > 0 or None, got -1.0"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(parameters, message):
    with pytest.raises(InputError, match=message):
        KernelDPMeans(1.0, **parameters).fit(ROWS)


def diffusion(rows, time):
    """exp(-time * L) of the Laplacian L of the graph of 10 neighbors."""
    near = kneighbors_graph(rows, 10).toarray()
    near = np.maximum(near, near.T)
    values, vectors = np.linalg.eigh(np.diag(near.sum(axis=0)) - near)
    gram = (vectors * np.exp(-time * values)) @ vectors.T
    return (gram + gram.T) / 2


SHAPES = {
    "moons": make_moons(400, noise=0.06, random_state=0),
    "rings": make_circles(400, noise=0.05, factor=0.5, random_state=0),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_diffusion_tells_shapes_apart_that_balls_do_not(shape):
    """After so long all rows of a shape of 200 lie at one point, 1/200 - 1/400 from the mean of all."""
    rows, truth = SHAPES[shape]
    model = KernelDPMeans(0.002, kernel="precomputed").fit(diffusion(rows, 1000.0))
    assert model.n_clusters_ == 2
    assert adjusted_rand_score(truth, model.labels_) >= 0.99
    balls = [DPMeans(penalty).fit(rows) for penalty in (0.2, 0.5, 1.0, 2.0)]
    balls += [
        KernelDPMeans(p, gamma=gamma).fit(rows)
        for p in (0.2, 0.5, 0.9)
        for gamma in (0.1, 1.0, 5.0, 30.0)
    ]
    assert max(adjusted_rand_score(truth, ball.labels_) for ball in balls) < 0.75


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_the_command_line(tmp_path):
    zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(100, 2))
    data, run, out = (tmp_path / name for name in ("rows.zarr", "run.zarr", "out.zarr"))
    said = call("kernel", data, run, "--penalty", 0.6, "--gamma", 0.2, "--seed", 0, "--threads", 2)
    assert said.exit_code == 0, said.output
    plain = clone(EXACT).fit(ROWS)
    assert f"clusters    {plain.n_clusters_}" in said.output
    assert said.stderr.count("step ") == plain.n_iter_
    shown = json.loads(call("show", run, "--json").output)
    assert shown["method"] == "kernel"
    assert shown["parameters"]["kernel"] == "rbf"
    assert shown["result"]["objective"] == plain.objective_
    assert call("predict", run, data, out).exit_code == 0
    np.testing.assert_array_equal(zarr.open_array(out / "label")[:], plain.labels_)
    made = [
        "--approximation",
        "nystroem",
        "--components",
        30,
        "--gamma",
        0.2,
        "--penalty",
        0.6,
        "--seed",
        2,
    ]
    assert call("kernel", data, run, *made, "--force").exit_code == 0
    np.testing.assert_array_equal(
        np.asarray(load(run).labels_), clone(FORMS["nystroem"]).fit(ROWS).labels_
    )
    assert call("kernel", data, run, *made, "--resume").exit_code == 0
    asked = ["kernel", data, run, "--penalty", 40, "--gamma", 0.2, "--search", "--seed", 0]
    said = call(*asked, "--force")
    assert (said.exit_code, "penalty     40, a price" in said.output) == (0, True), said.output
    price = KernelDPMeans(40.0, gamma=0.2, search=True, random_state=0).fit(ROWS)
    assert json.loads(call("show", run, "--json").output)["result"]["objective"] == price.objective_
    assert call(*asked, "--resume").exit_code == 0
    assert (
        call("kernel", data, run, "--penalty", 0.6, "--kernel", "precomputed", "--force").exit_code
        == 2
    )
    wrong = call("kernel", data, run, "--penalty", 0.6, "--components", 30, "--force")
    assert (wrong.exit_code, "--components belongs to an --approximation" in wrong.output) == (
        2,
        True,
    )
