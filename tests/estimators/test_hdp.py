"""Several data sets that share clusters: the estimator, stores and the command line."""

import json
import shlex

import dask.array as da
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import NUMBERING

from dask_dpmeans import DPMeans, HDPMeans, InputError, KernelDPMeans, fit, load, predict
from dask_dpmeans.cli import main
from dask_dpmeans.report import page


@parametrize_with_checks(
    [HDPMeans(1.0, 3.0), HDPMeans(1.0, 3.0, search=True)],
    expected_failed_checks=lambda model: NUMBERING if model.search else {},
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def sets():
    """Forty data sets of 30 rows from 4 of 9 blobs."""
    rng = np.random.default_rng(5)
    means = rng.uniform(-9, 9, (9, 2))
    return [
        means[rng.choice(9, 4, replace=False)[rng.integers(4, size=30)]] + rng.normal(size=(30, 2))
        for _ in range(40)
    ]


@pytest.fixture(scope="module")
def table(sets):
    """The same rows in another order, and their groups."""
    order = np.random.default_rng(6).permutation(1200)
    return np.concatenate(sets)[order], np.repeat(np.arange(40), 30)[order]


MODEL = HDPMeans(6.0, 15.0, random_state=0)


def params(model, **changed):
    return HDPMeans(**(model.get_params() | changed))


def test_a_list_of_data_sets_is_one_table_with_groups(sets):
    listed = params(MODEL).fit(sets)
    stacked = params(MODEL).fit(np.concatenate(sets), groups=np.repeat(np.arange(40), 30))
    np.testing.assert_array_equal(listed.labels_, stacked.labels_)
    assert listed.objective_ == stacked.objective_
    np.testing.assert_array_equal(listed.predict(sets), listed.labels_)
    lazy = params(MODEL).fit([da.from_array(sets[0], chunks=7), *sets[1:]])
    np.testing.assert_array_equal(lazy.labels_.compute(), listed.labels_)


def test_a_list_of_rows_is_one_data_set(sets):
    rows = sets[0].tolist()
    model = params(MODEL).fit(rows)
    assert model.local_clusters_.shape == (1, model.n_clusters_)
    np.testing.assert_array_equal(model.predict(rows), model.labels_)
    np.testing.assert_array_equal(params(MODEL).fit([rows]).labels_, model.labels_)


def test_attributes_belong_together(table):
    rows, groups = table
    model = params(MODEL).fit(rows, groups=groups)
    assert isinstance(model.local_clusters_, csr_array)
    wanted = np.zeros((40, model.n_clusters_))
    np.add.at(wanted, (groups, model.labels_), 1)
    np.testing.assert_array_equal(model.local_clusters_.toarray(), wanted)
    np.testing.assert_array_equal(model.cluster_weights_, wanted.sum(axis=0))
    inertia = ((rows - model.cluster_centers_[model.labels_]) ** 2).sum()
    assert model.inertia_ == pytest.approx(inertia)
    assert (
        model.n_local_clusters_ == np.count_nonzero(wanted) == model.history_[-1].n_local_clusters
    )
    assert model.objective_ == pytest.approx(
        inertia + 6 * model.n_local_clusters_ + 15 * model.n_clusters_
    )
    np.testing.assert_array_equal(model.predict(rows, groups), model.labels_)


def test_prediction_pays_for_a_center_that_a_known_set_does_not_use():
    centers = [np.array([[0.0], [1.0]]), np.array([[0.0], [10.0], [10.0]])]
    model = HDPMeans(4.0, 9.0).fit(centers)
    assert model.local_clusters_.toarray().tolist() == [[2, 0], [1, 2]]
    at = model.cluster_centers_.ravel()
    middle = at.mean()
    near = np.array([[middle + 0.1], [at[1]]])  # 4 dearer for set 0, unless that far
    assert model.predict(near, np.array([0, 0])).tolist() == [0, 1]
    assert model.predict(near, np.array([1, 1])).tolist() == [1, 1]
    assert model.predict(near, np.array([7, 7])).tolist() == [1, 1]
    assert model.predict(near).tolist() == [1, 1]


def test_lazy_input_gives_lazy_labels_of_the_same_bytes(table):
    rows, groups = table
    plain = params(MODEL).fit(rows, groups=groups)
    for max_iter in (1, 300):  # openers of the last sweep keep their clusters
        one = params(MODEL, max_iter=max_iter)
        with pytest.warns(ConvergenceWarning) if max_iter == 1 else pytest.MonkeyPatch.context():
            in_memory = one.fit(rows, groups=groups).labels_
        with pytest.warns(ConvergenceWarning) if max_iter == 1 else pytest.MonkeyPatch.context():
            lazily = one.fit(
                da.from_array(rows, chunks=(333, 1)), groups=da.from_array(groups, chunks=100)
            ).labels_
        assert isinstance(lazily, da.Array)
        np.testing.assert_array_equal(lazily.compute(), in_memory)
    again = plain.predict(da.from_array(rows, chunks=(500, 2)), groups)
    np.testing.assert_array_equal(again.compute(), plain.labels_)


def test_from_store_to_store_and_back(tmp_path, table):
    rows, groups = table
    zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(100, 2))
    zarr.create_array(
        tmp_path / "groups.zarr", data=groups.astype(np.int16), chunks=(77,), fill_value=-1
    )
    plain = params(MODEL).fit(rows, groups=groups)

    class StopError(Exception):
        pass

    def stop(number, *_):
        if number == 2:
            raise StopError

    paths = tmp_path / "rows.zarr", tmp_path / "run.zarr"
    with pytest.raises(StopError):
        fit(*paths, MODEL, groups=tmp_path / "groups.zarr", on_step=stop)
    found = fit(
        *paths, MODEL, groups=tmp_path / "groups.zarr", resume=True, threads=2, memory_limit=20_000
    )
    for name in (
        "cluster_centers_",
        "cluster_weights_",
        "cluster_inertias_",
        "labels_",
        "objective_",
        "n_iter_",
    ):
        np.testing.assert_array_equal(np.asarray(getattr(found, name)), getattr(plain, name))
    assert (found.local_clusters_ != plain.local_clusters_).nnz == 0
    assert [vars(record) | {"seconds": 0} for record in found.history_] == [
        vars(record) | {"seconds": 0} for record in plain.history_
    ]
    assert load(paths[1]).get_params() == MODEL.get_params()
    with pytest.raises(InputError, match=r"other parameters: local_penalty 6\.0, not 7\.0"):
        fit(*paths, HDPMeans(7.0, 15.0), groups=groups, resume=True)
    predict(paths[1], paths[0], tmp_path / "out.zarr", groups=tmp_path / "groups.zarr")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "out.zarr/label")[:], plain.labels_)
    assert not zarr.open_array(tmp_path / "out.zarr/beyond")[:].any()
    with pytest.raises(InputError, match="the run is of several data sets: give the groups"):
        predict(paths[1], paths[0], tmp_path / "other.zarr")


def test_resume_refuses_rows_in_other_groups(tmp_path, table):
    rows, groups = table
    zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(100, 2))
    with pytest.warns(ConvergenceWarning):
        fit(tmp_path / "rows.zarr", tmp_path / "run.zarr", params(MODEL, max_iter=2), groups=groups)
    with pytest.raises(InputError, match=r"rows in .*, or what is given with them, have changed"):
        fit(
            tmp_path / "rows.zarr",
            tmp_path / "run.zarr",
            MODEL,
            groups=np.roll(groups, 1),
            resume=True,
        )


def test_the_command_line(tmp_path, table):
    rows, groups = table
    zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(100, 2))
    np.save(tmp_path / "groups.npy", groups)
    run, data, sets = (str(tmp_path / name) for name in ("run.zarr", "rows.zarr", "groups.npy"))
    asked = [
        "hdp",
        data,
        run,
        "--groups",
        sets,
        "--local-penalty",
        "6",
        "--global-penalty",
        "15",
        "--threads",
        "2",
    ]
    said = CliRunner().invoke(main, asked, catch_exceptions=False)
    plain = params(MODEL).fit(rows, groups=groups)
    assert said.exit_code == 0, said.output
    assert (
        f"clusters    {plain.n_clusters_} global; {plain.n_local_clusters_} local ones of 40 data sets"
        in said.output
    )
    assert "penalties   6 a local cluster, 15 a global one" in said.output
    assert f"local={plain.n_local_clusters_}" in said.stderr
    shown = json.loads(CliRunner().invoke(main, ["show", run, "--json"]).output)
    assert shown["result"]["n_local_clusters"] == plain.n_local_clusters_
    again = CliRunner().invoke(main, [*asked, "--resume"])
    assert again.exit_code == 0
    out = str(tmp_path / "out.zarr")
    assert CliRunner().invoke(main, ["predict", run, data, out]).exit_code == 2
    assert CliRunner().invoke(main, ["predict", run, data, out, "--groups", sets]).exit_code == 0
    np.save(tmp_path / "groups.npy", groups[1:])
    wrong = CliRunner().invoke(main, [*asked, "--force"])
    assert wrong.exit_code == 2
    assert "groups must hold one number a row: 1,200 rows, but 1,199 numbers" in wrong.output
    assert CliRunner().invoke(main, [*asked[:6], "0", *asked[7:], "--force"]).exit_code == 2


def test_groups_are_for_several_data_sets_alone(tmp_path, table):
    rows, groups = table
    with pytest.raises(InputError, match="DPMeans has no use for them"):
        fit(rows, tmp_path / "run.zarr", DPMeans(9.0), groups=groups)
    with pytest.raises(InputError, match="X is a list of data sets, which says what groups says"):
        params(MODEL).fit([rows], groups=groups)
    with pytest.raises(
        InputError, match=r"the data sets of X must have the same columns, got \[1, 2\]"
    ):
        params(MODEL).fit([rows, rows[:, :1]])


def unknown(array, chunks):
    """The same as a Dask array whose chunks have unknown lengths."""
    lazy = da.from_array(array, chunks=(chunks, -1)[: array.ndim])
    return lazy[da.from_array(np.ones(len(array), bool), chunks=(chunks,))]


def test_lazy_input_of_unknown_lengths_is_lined_up(table):
    rows, groups = table
    plain = params(MODEL).fit(rows, groups=groups)
    lazy = unknown(rows, (200, 300, 700)), unknown(groups, (700, 300, 200))
    for X, sets in (lazy, (lazy[0], groups), (da.from_array(rows, chunks=(100, 2)), lazy[1])):
        np.testing.assert_array_equal(plain.predict(X, sets).compute(), plain.labels_)
    np.testing.assert_array_equal(
        params(MODEL).fit(lazy[0], groups=lazy[1]).labels_.compute(), plain.labels_
    )
    assert params(MODEL).fit(lazy[0]).local_clusters_.shape[0] == 1


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda groups: groups + 0.5, "groups must be integers from 0 on, got float64"),
        (
            lambda groups: groups[1:],
            "groups must hold one number a row: 1,200 rows, but 1,199 numbers",
        ),
        (lambda groups: groups[:, np.newaxis], "groups must have 1 dimension, got shape"),
        (lambda groups: groups.astype(str), "groups must be integers from 0 on, got <U"),
    ],
)
def test_wrong_groups_are_refused_in_prediction_too(table, lazy, wrong, message):
    rows, groups = table
    model = params(MODEL).fit(rows, groups=groups)
    with pytest.raises(InputError, match=message):
        model.predict(da.from_array(rows, chunks=(100, 2)) if lazy else rows, wrong(groups))


def test_data_sets_may_be_sparse(sets):
    dense = HDPMeans(4.0, 9.0).fit(sets)
    for found in (
        HDPMeans(4.0, 9.0).fit([csr_array(sets[0]), *sets[1:]]),
        HDPMeans(4.0, 9.0).fit([da.from_array(sets[0]).map_blocks(csr_array), *sets[1:]]),
    ):
        assert np.asarray(found.labels_).tolist() == dense.labels_.tolist()
        assert found.cluster_centers_.tobytes() == dense.cluster_centers_.tobytes()


def test_lists_are_checked_item_by_item(sets):
    masked = np.ma.array(sets[0], mask=sets[0] > 0)
    frame = pytest.importorskip("pandas").DataFrame(sets[0], columns=["a", "b"])
    for item, message in (
        (masked, "is a masked array"),
        (frame[["b", "a"]], "the same columns in one order"),
    ):
        with pytest.raises(InputError, match=message):
            params(MODEL).fit([frame, item] if item is not masked else [sets[1], item])
    with pytest.raises(ValueError, match="inhomogeneous"):
        params(MODEL).fit([[[1, 2], [3]], [[1, 2]]])
    assert params(MODEL).fit([sets[0], sets[1], np.empty((0, 2))]).local_clusters_.shape[0] == 3


def test_a_finished_run_of_other_groups_is_not_taken_for_this_one(tmp_path, table):
    rows, groups = table
    fit(rows, tmp_path / "run.zarr", MODEL, groups=groups)
    with pytest.raises(InputError, match=r"rows in .*, or what is given with them, have changed"):
        fit(rows, tmp_path / "run.zarr", MODEL, groups=(groups + 1) % 40, resume=True)


# Features of a kernel (Kulis & Jordan 2012, section 5.2)


@pytest.fixture(scope="module")
def directions():
    """Rows in three directions, at any length; two data sets, the second of the last two directions alone."""
    rng = np.random.default_rng(3)
    truth, groups = np.repeat([0, 1, 2, 1, 2], 30), np.repeat([0, 1], [90, 60])
    angles = truth * 2.0 + rng.normal(0, 0.1, 150)
    return (
        np.exp(rng.normal(size=150))[:, None] * np.column_stack([np.cos(angles), np.sin(angles)]),
        truth,
        groups,
    )


FEATURES = {"approximation": "nystroem", "kernel": "cosine", "n_components": 20, "random_state": 0}


@pytest.mark.parametrize("search", [False, True])
def test_data_sets_share_clusters_among_features_of_a_kernel(directions, search):
    rows, truth, groups = directions
    model = HDPMeans(0.2, 0.6, search=search, **FEATURES).fit(rows, groups=groups)
    assert adjusted_rand_score(truth, model.labels_) == 1
    assert (model.local_clusters_.toarray() > 0).sum(axis=1).tolist() == [3, 2]
    assert (
        adjusted_rand_score(
            truth, HDPMeans(0.2, 0.6, search=search).fit(rows, groups=groups).labels_
        )
        < 0.9
    )
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    features = model.features_.transformer.transform(unit)
    plain = HDPMeans(0.2, 0.6, search=search).fit(features, groups=groups)
    np.testing.assert_array_equal(plain.labels_, model.labels_)
    assert model.objective_ == pytest.approx(plain.objective_, rel=1e-9)


def test_features_of_data_sets_are_the_same_bytes_in_any_chunks_and_stores(directions, tmp_path):
    rows, _, groups = directions
    method = HDPMeans(0.2, 0.6, **FEATURES)
    model = method.fit(rows, groups=groups)
    lazy = params(method).fit(
        da.from_array(rows, chunks=(37, 1)), groups=da.from_array(groups, chunks=50)
    )
    np.testing.assert_array_equal(lazy.labels_.compute(), model.labels_)
    np.testing.assert_array_equal(lazy.predict(rows, groups=groups), model.labels_)
    run = fit(rows, tmp_path / "run", params(method), groups=groups)
    for other in (lazy, run, load(tmp_path / "run")):
        assert other.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
        assert other.features_ == model.features_
    assert params(load(tmp_path / "run")).get_params() == method.get_params() | {"random_state": 0}
    assert predict(tmp_path / "run", rows, tmp_path / "labels", groups=groups).n_rows == 150
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "labels" / "label")[:], model.labels_)
    fit(rows, tmp_path / "run", params(method), groups=groups, resume=True)
    with pytest.raises(InputError, match="begun with other parameters: n_components 20, not 30"):
        fit(rows, tmp_path / "run", params(method, n_components=30), groups=groups, resume=True)
    with pytest.raises(
        InputError,
        match="the centers of init are among features of a kernel, which the rows are not",
    ):
        DPMeans(1.0, init=model).fit(rows)


def test_the_command_line_makes_features_of_data_sets(directions, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, _, groups = directions
    np.save("rows.npy", rows)
    np.save("groups.npy", groups)
    words = ["hdp", "rows.npy", "run.zarr", "--groups", "groups.npy"]
    words += ["--local-penalty", "0.2", "--global-penalty", "0.6"]
    how = ["--approximation", "nystroem", "--kernel", "cosine", "--components", "20", "--seed", "0"]
    result = CliRunner().invoke(main, [*words, *how])
    assert result.exit_code == 0, result.output
    assert "kernel      cosine, by nystroem" in result.output
    expected = HDPMeans(0.2, 0.6, **FEATURES).fit(rows, groups=groups)
    np.testing.assert_array_equal(load("run.zarr").labels_.compute(), expected.labels_)
    again = shlex.split(page("run.zarr", data=False).command)
    assert CliRunner().invoke(main, again[1:]).exit_code == 0
    np.testing.assert_array_equal(load("again.zarr").labels_.compute(), expected.labels_)
    result = CliRunner().invoke(main, [*words, "--force", "--components", "9"])
    assert (result.exit_code, "--components belongs to an --approximation" in result.output) == (
        2,
        True,
    )


@pytest.mark.parametrize("given", [{"gamma": 1.0}, {"kernel": "poly"}, {"degree": 2, "coef0": 0}])
def test_a_kernel_without_an_approximation_is_refused(given):
    with pytest.raises(
        InputError, match=f"^{', '.join(given)} can be used with an approximation alone"
    ):
        HDPMeans(1.0, 3.0, **given).fit(np.eye(3))


def test_data_sets_go_through_a_pipeline_of_features(directions):
    rows, truth, groups = directions
    model = make_pipeline(
        Nystroem(kernel="cosine", n_components=20, random_state=0), HDPMeans(0.2, 0.6)
    )
    assert adjusted_rand_score(truth, model.fit(rows, hdpmeans__groups=groups)[-1].labels_) == 1


def test_a_report_tells_centers_of_few_features_of_scaled_rows(directions, tmp_path):
    rows, _, groups = directions
    fit(
        rows,
        tmp_path / "run",
        HDPMeans(0.2, 0.6, **FEATURES | {"n_components": 3}),
        groups=groups,
        scale="std",
    )
    assert page(tmp_path / "run", data=False).tables[0].columns[-3:] == [
        "feature 0",
        "feature 1",
        "feature 2",
    ]


@pytest.mark.parametrize(
    "model",
    [
        HDPMeans(1.0, 3.0, search=True, random_state=0),
        KernelDPMeans(0.4, search=True, random_state=0),
    ],
)
def test_whole_weights_are_repeated_rows_but_for_the_numbers_of_clusters(model):
    rng = np.random.default_rng(2)
    rows, weights, order = rng.random((15, 30)), rng.integers(0, 5, 15), rng.permutation(15)
    weighted = clone(model).fit(rows[order], sample_weight=weights[order])
    repeated = clone(model).fit(rows.repeat(weights, axis=0))
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-12)
    assert adjusted_rand_score(weighted.predict(rows), repeated.predict(rows)) == 1
