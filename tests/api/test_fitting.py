"""scikit-learn's face: its own checks, and what Dask adds."""

from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from dask import delayed
from dask.core import flatten
from dask.utils import key_split
from hypothesis import given, settings
from hypothesis import strategies as st
from memory import peak_memory
from scipy.sparse import bsr_array, csc_matrix, csr_array
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import SPARSE_PROBABILITIES

from dask_dpmeans import (
    DPMeans,
    HDPMeans,
    InputError,
    LinkageDPMeans,
    OnlineDPMeans,
    TooManyClustersError,
)


def failing(estimator: DPMeans) -> dict[str, str]:
    reason = "a row of its table is 0 in every column, and has no direction"
    sparse = [f"check_estimator_sparse_{form}" for form in ("tag", "array", "matrix")]
    if estimator.metric != "cosine":
        return SPARSE_PROBABILITIES
    return dict.fromkeys(["check_estimators_dtypes", *sparse], reason)


# At 3.0 alone: the weight check reorders the rows of one side, and this method follows the order of the rows.
@parametrize_with_checks(
    [DPMeans(3.0), DPMeans(3.0, metric="cosine"), DPMeans(3.0, metric="cosine", search=True)],
    expected_failed_checks=failing,
)
def test_scikit_learn_checks(estimator: DPMeans, check) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(4)
    return (
        rng.uniform(-9, 9, (6, 2))[rng.integers(6, size=2000)] + rng.standard_normal((2000, 2))
    ).astype(np.float32)


@pytest.fixture(scope="module")
def fitted(rows: np.ndarray) -> DPMeans:
    return DPMeans(20.0, random_state=0).fit(rows)


def same(model: DPMeans, other: DPMeans) -> None:
    assert model.cluster_centers_.tobytes() == other.cluster_centers_.tobytes()
    assert np.asarray(model.labels_).tobytes() == np.asarray(other.labels_).tobytes()
    assert model.cluster_weights_.tobytes() == other.cluster_weights_.tobytes()
    figures = ("objective", "inertia", "n_clusters", "births", "deaths", "passes")
    for mine, theirs in zip(model.history_, other.history_, strict=True):
        assert [getattr(mine, name) for name in figures] == [
            getattr(theirs, name) for name in figures
        ]


def test_what_is_fitted_belongs_together(rows: np.ndarray, fitted: DPMeans) -> None:
    squared = ((rows[:, np.newaxis].astype(np.float64) - fitted.cluster_centers_) ** 2).sum(axis=2)
    np.testing.assert_array_equal(fitted.labels_, squared.argmin(axis=1))
    np.testing.assert_array_equal(fitted.cluster_weights_, np.bincount(fitted.labels_))
    wanted = np.bincount(fitted.labels_, squared.min(axis=1))
    np.testing.assert_allclose(fitted.cluster_inertias_, wanted, rtol=1e-12)
    assert fitted.inertia_ == pytest.approx(squared.min(axis=1).sum(), rel=1e-12)
    assert fitted.objective_ == fitted.inertia_ + 20.0 * fitted.n_clusters_
    assert fitted.n_clusters_ == len(fitted.cluster_centers_) == fitted.history_[-1].n_clusters
    assert fitted.n_iter_ == len(fitted.history_)
    assert squared.min(axis=1).max() <= 20.0
    assert fitted.score(rows) == -fitted.inertia_
    assert fitted.labels_.dtype == np.int32


@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 2000), max_size=6),
    feature_chunks=st.sampled_from([(2,), (1, 1)]),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_dask_input_in_any_chunks_gives_the_same_bytes(
    rows, fitted, cuts, feature_chunks, dtype
) -> None:
    edges = [0, *sorted(cuts), 2000]
    chunks = (tuple(np.diff(edges).tolist()), feature_chunks)
    array = da.from_array(rows.astype(dtype), chunks=chunks)
    model = DPMeans(20.0, random_state=0).fit(array)
    assert isinstance(model.labels_, da.Array)
    assert model.labels_.chunks == (chunks[0],)
    same(model, fitted if dtype == np.float32 else DPMeans(20.0).fit(rows.astype(dtype)))


def test_unknown_chunk_lengths_and_dataframes(rows: np.ndarray, fitted: DPMeans) -> None:
    frame = dd.from_pandas(pd.DataFrame(rows, columns=["a", "b"]), npartitions=3)
    for lazy in (frame, frame.to_dask_array()):
        model = DPMeans(20.0, random_state=0).fit(lazy)
        np.testing.assert_array_equal(model.labels_.compute(), fitted.labels_)
        np.testing.assert_array_equal(model.predict(lazy).compute(), fitted.labels_)


def test_zarr_arrays_are_labelled_lazily(rows: np.ndarray, fitted: DPMeans) -> None:
    array = zarr.create_array({}, shape=rows.shape, chunks=(300, 1), dtype=rows.dtype)
    array[:] = rows
    model = DPMeans(20.0, random_state=0).fit(array)
    assert isinstance(model.labels_, da.Array)
    same(model, fitted)


def test_numpy_in_numpy_out_dask_in_dask_out(rows: np.ndarray, fitted: DPMeans) -> None:
    lazy = da.from_array(rows, chunks=(700, 1))
    for method in (fitted.predict, fitted.transform):
        assert isinstance(method(rows), np.ndarray)
        assert isinstance(method(lazy), da.Array)
        np.testing.assert_array_equal(method(lazy).compute(), method(rows))
        assert method(lazy).dtype == method(rows).dtype
        assert method(lazy).shape == method(rows).shape
    assert fitted.score(lazy) == fitted.score(rows)


def test_predict_does_not_compute(fitted: DPMeans) -> None:
    def explode(block):
        raise AssertionError("computed")

    lazy = da.zeros((100, 2), chunks=10).map_blocks(explode, dtype=float, meta=np.empty((0, 0)))
    assert fitted.predict(lazy).shape == (100,)
    assert fitted.transform(lazy).shape == (100, fitted.n_clusters_)


def test_the_model_is_in_the_graph_once(fitted: DPMeans) -> None:
    graph = dict(fitted.predict(da.zeros((1000, 2), chunks=(10, 2))).__dask_graph__())
    holders = [
        key for key, task in graph.items() if "Labels" in repr(task) or "Centers" in repr(task)
    ]
    assert len(holders) <= 1
    assert len(list(flatten(list(graph)))) >= 100


def test_transform_gives_distances(rows: np.ndarray, fitted: DPMeans) -> None:
    expected = np.sqrt(
        ((rows[:, np.newaxis].astype(np.float64) - fitted.cluster_centers_) ** 2).sum(axis=2)
    )
    np.testing.assert_allclose(fitted.transform(rows), expected, rtol=1e-12)
    names = fitted.get_feature_names_out()
    assert list(names[:2]) == ["dpmeans0", "dpmeans1"]


def test_weights_travel_from_any_kind_of_array(rows: np.ndarray) -> None:
    weights = np.random.default_rng(5).uniform(0, 2, 2000)
    expected = DPMeans(20.0).fit(rows, sample_weight=weights)
    same(DPMeans(20.0).fit(rows, sample_weight=weights.tolist()), expected)
    lazy = da.from_array(rows, chunks=(123, 2))
    same(DPMeans(20.0).fit(lazy, sample_weight=da.from_array(weights, chunks=77)), expected)
    same(DPMeans(20.0).fit(lazy, sample_weight=weights), expected)
    assert expected.score(rows, sample_weight=weights) == -expected.inertia_


def test_integer_weights_equal_repeated_rows_in_equal_order() -> None:
    rng = np.random.default_rng(6)
    rows, weights = rng.integers(-9, 9, (300, 2)).astype(float), rng.integers(0, 4, 300)
    weighted = DPMeans(30.0, tol=0).fit(rows, sample_weight=weights)
    repeated = DPMeans(30.0, tol=0).fit(np.repeat(rows, weights, axis=0))
    np.testing.assert_array_equal(weighted.cluster_centers_, repeated.cluster_centers_)
    np.testing.assert_array_equal(np.repeat(weighted.labels_, weights), repeated.labels_)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-12)


@pytest.mark.parametrize("init", ["array", "estimator"])
def test_a_warm_start_ends_where_it_began(rows: np.ndarray, init: str) -> None:
    model = DPMeans(20.0, tol=0).fit(rows)
    warm = DPMeans(20.0, tol=0, init=model if init == "estimator" else model.cluster_centers_).fit(
        rows
    )
    np.testing.assert_array_equal(warm.cluster_centers_, model.cluster_centers_)
    assert warm.n_iter_ == 1


def test_data_that_has_grown_opens_what_is_new(rows: np.ndarray, fitted: DPMeans) -> None:
    grown = DPMeans(20.0, init=fitted).fit(np.concatenate([rows, rows[:50] + 100]))
    assert grown.n_clusters_ > fitted.n_clusters_
    assert grown.labels_[-1] >= fitted.n_clusters_


def test_max_iter_warns_and_keeps_a_whole_state(rows: np.ndarray) -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter=1 before it converged"):
        model = DPMeans(0.5, max_iter=1).fit(rows)
    squared = ((rows[:, np.newaxis].astype(np.float64) - model.cluster_centers_) ** 2).sum(axis=2)
    np.testing.assert_array_equal(model.labels_, squared.argmin(axis=1))


def test_max_clusters_is_an_error_never_a_cap(rows: np.ndarray) -> None:
    with pytest.raises(
        TooManyClustersError, match=r"penalty=0.01 makes at least .* more than max_clusters=5"
    ):
        DPMeans(0.01, max_clusters=5).fit(rows)


def test_random_state_is_drawn_once_and_kept(rows: np.ndarray) -> None:
    assert DPMeans(20.0, random_state=7).fit(rows).random_state_ == 7
    assert DPMeans(20.0).fit(rows).random_state_ != DPMeans(20.0).fit(rows).random_state_


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": 0.0}, "penalty must be a finite number > 0, got 0.0"),
        ({"penalty": -1.0}, "penalty must be a finite number > 0, got -1.0"),
        ({"penalty": np.nan}, "penalty must be a finite number > 0, got nan"),
        ({"penalty": np.inf}, "penalty must be a finite number > 0, got inf"),
        ({"penalty": "4"}, "penalty must be a number > 0 or 'auto', got '4'"),
        ({"penalty": 1.0, "max_iter": 2.5}, "max_iter must be an integer >= 1, got 2.5"),
        ({"penalty": 1.0, "max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
        ({"penalty": 1.0, "tol": -0.1}, "tol must be a finite number >= 0, got -0.1"),
        (
            {"penalty": 1.0, "max_clusters": 0},
            "max_clusters must be an integer >= 1 or None, got 0",
        ),
        (
            {"penalty": 1.0, "metric": "manhattan"},
            "metric must be one of 'euclidean', 'cosine', 'haversine', got 'manhattan'",
        ),
        (
            {"penalty": 5.0, "metric": "cosine"},
            "penalty must be <= 4 where metric='cosine', got 5.0",
        ),
        (
            {"penalty": 1.0, "metric": "cosine", "init": [[0.0, 0.0]]},
            "center 0 of the first centers is 0 in every",
        ),
        (
            {"penalty": 1.0, "init": np.zeros((0, 2))},
            "first centers must be finite numbers of shape",
        ),
        (
            {"penalty": 1.0, "init": [[np.nan, 0.0]]},
            "first centers must be finite numbers of shape",
        ),
        ({"penalty": 1.0, "init": [["a", "b"]]}, 'init must be "mean", centers'),
        (
            {"penalty": 1.0, "init": np.zeros((1, 3))},
            "the first centers have 3 columns, the data has 2",
        ),
        ({"penalty": 1.0, "init": "nowhere.zarr"}, "nowhere.zarr holds no run of this package"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(
    rows: np.ndarray, parameters: dict, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        DPMeans(**parameters).fit(rows)


def test_other_columns_are_refused(fitted: DPMeans) -> None:
    with pytest.raises(ValueError, match="X has 3 features, but DPMeans is expecting 2"):
        fitted.predict(np.zeros((4, 3)))
    with pytest.raises(InputError, match="X has 3 features, but DPMeans is expecting 2"):
        fitted.predict(da.zeros((4, 3)))


def test_not_fitted() -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        DPMeans(1.0).predict(np.zeros((2, 2)))


def test_in_a_pipeline() -> None:
    model = make_pipeline(StandardScaler(), DPMeans(4.0)).fit(load_iris().data)
    assert model[-1].n_clusters_ == len(np.unique(model[-1].labels_))


def test_masked_input_is_refused(fitted: DPMeans) -> None:
    masked = np.ma.masked_array([[0.0, 0.0], [1e6, 1e6]], mask=[[0, 0], [1, 1]])
    with pytest.raises(InputError, match="X is a masked array"):
        DPMeans(4.0).fit(masked)
    with pytest.raises(InputError, match="Dask array of MaskedArray"):
        fitted.predict(da.from_array(masked)).compute()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_lazy_predictions_check_values_when_they_are_computed(
    fitted: DPMeans, value: float
) -> None:
    rows = np.zeros((20, 2))
    rows[13, 1] = value
    for method in (fitted.predict, fitted.transform):
        with pytest.raises(
            InputError, match=r"data contains (NaN|infinity) .* at row 3 of a chunk, column 1"
        ):
            method(da.from_array(rows, chunks=(10, 1))).compute()


def test_rows_too_far_from_the_centers_are_refused(fitted: DPMeans) -> None:
    for method in (fitted.predict, fitted.score):
        with pytest.raises(InputError, match="squared distances overflow float64: column 0"):
            method(np.array([[1e300, 0.0]]))


def test_one_dimension_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"of shape \(5,\), while DPMeans takes rows and columns: pass X.reshape"
    ):
        DPMeans(1.0).fit(da.zeros(5))


def test_an_objective_that_overflows_is_an_error() -> None:
    with pytest.raises(InputError, match="the objective overflows float64"):
        DPMeans(1.7e308).fit(np.array([[0.0], [0.9e154]]))


def test_clusters_that_die_in_the_sweep_do_not_count_against_max_clusters() -> None:
    assert DPMeans(4.0, max_clusters=2).fit(np.array([[0.0], [10.0]])).n_clusters_ == 2


@pytest.fixture(scope="module")
def directed(rows: np.ndarray) -> DPMeans:
    return DPMeans(0.1, metric="cosine", random_state=0).fit(rows)


def test_directions_are_compared_by_their_cosine(rows: np.ndarray, directed: DPMeans) -> None:
    unit = rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    cosines = unit @ directed.cluster_centers_.T
    np.testing.assert_array_equal(directed.labels_, cosines.argmax(axis=1))
    np.testing.assert_allclose(directed.transform(rows) ** 2, 2 - 2 * cosines, atol=1e-6)
    assert directed.inertia_ == pytest.approx((2 - 2 * cosines.max(axis=1)).sum(), rel=1e-5)
    assert (2 - 2 * cosines.max(axis=1)).max() <= 0.1 + 1e-6
    assert directed.n_clusters_ > 5


def test_rows_of_any_length_are_predicted_by_their_direction(
    rows: np.ndarray, directed: DPMeans
) -> None:
    longer = rows * np.float32(1024)
    lazy = da.from_array(longer, chunks=(300, 1))
    assert directed.score(longer) == -directed.inertia_
    for method in (directed.predict, directed.transform):
        np.testing.assert_array_equal(method(longer), method(rows))
        np.testing.assert_array_equal(method(lazy).compute(), method(rows))
    same(DPMeans(0.1, metric="cosine").fit(lazy), directed)


def test_a_fitted_model_predicts_in_the_metric_of_its_fit(
    rows: np.ndarray, directed: DPMeans
) -> None:
    model = DPMeans(0.1, metric="cosine").fit(rows)
    expected = model.predict(rows * 3)
    np.testing.assert_array_equal(model.set_params(metric="euclidean").predict(rows * 3), expected)
    same(model.set_params(penalty=20.0).fit(rows), DPMeans(20.0).fit(rows))
    assert model.score(rows) == -model.inertia_


def test_a_row_without_a_direction_is_named(directed: DPMeans) -> None:
    rows = np.ones((20, 2))
    rows[13] = 0.0
    message = (
        r"data is 0 in every column at row 13.*: such a row has no direction; "
        "remove it, or use metric='euclidean'"
    )
    for method in (DPMeans(1.0, metric="cosine").fit, directed.predict, directed.score):
        with pytest.raises(InputError, match=message):
            method(rows)
    with pytest.raises(InputError, match=r"data is 0 in every column at row 3 of a chunk"):
        directed.transform(da.from_array(rows, chunks=(10, 1))).compute()


# ---------------------------------------------------------------- sparse rows


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    """Rows that are mostly 0, of six kinds."""
    rng = np.random.default_rng(5)
    return rng.poisson(rng.gamma(0.2, 5.0, (6, 40))[rng.integers(6, size=3000)]).astype(np.float32)


def csr_group(rows: np.ndarray, path) -> zarr.Group:
    """Rows in the layout of anndata."""
    found = csr_array(rows)
    group = zarr.create_group(
        path, attributes={"encoding-type": "csr_matrix", "shape": list(rows.shape)}
    )
    for name in ("data", "indices", "indptr"):
        group.create_array(
            name, data=getattr(found, name), chunks=(1000,), config={"write_empty_chunks": True}
        )
    return group


@pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "dask", "group"])
@pytest.mark.parametrize("search", [False, True])
def test_sparse_rows_are_fitted_as_dense_ones_are(
    counts: np.ndarray, form: str, search: bool, tmp_path
) -> None:
    rows = {
        "csr_array": lambda: csr_array(counts),
        "csc_matrix": lambda: csc_matrix(counts),
        "dask": lambda: da.from_array(counts, chunks=(700, 30)).map_blocks(csr_array),
        "group": lambda: csr_group(counts, tmp_path / "rows.zarr"),
    }[form]()
    lazy, penalty = form in ("dask", "group"), 2e5 if search else 2e3
    model, dense = (
        DPMeans(penalty, search=search, random_state=0).fit(each) for each in (rows, counts)
    )
    same(model, dense)
    assert 2 < dense.n_clusters_ < 200
    assert isinstance(model.labels_, da.Array if lazy else np.ndarray)
    for found, expected in (
        (model.predict(rows), dense.labels_),
        (model.transform(rows), dense.transform(counts)),
    ):
        assert isinstance(found, da.Array if lazy else np.ndarray)
        assert np.asarray(found).tobytes() == expected.tobytes()
    assert model.score(rows) == dense.score(counts)


@pytest.mark.parametrize("form", [csc_matrix, bsr_array])
def test_broken_sparse_rows_are_refused_before_anything_converts_them(
    counts: np.ndarray, form: type
) -> None:
    rows, model = form(counts), DPMeans(2e3).fit(counts)
    rows.indices[5] = 3000
    for method in (model.fit, model.predict, lambda X: HDPMeans(1.0, 2.0).fit([X, counts])):
        with pytest.raises(InputError, match=rf"X is no valid {form.__name__}: "):
            method(rows)


def test_a_chunk_of_sparse_rows_is_made_dense_in_blocks() -> None:
    model = DPMeans(2e3).fit(np.zeros((2, 20_000), np.float32))
    wide = csr_array((4000, 20_000), dtype=np.float32)
    lazy = da.from_delayed(
        delayed(wide), wide.shape, wide.dtype, meta=csr_array((0, 0), dtype=np.float32)
    )

    def predict() -> None:
        assert model.predict(lazy).compute(scheduler="synchronous").tolist() == [0] * 4000

    assert peak_memory(predict) < 80_000_000  # a block takes 20 MB, the chunk would take 320 MB


def test_the_row_of_a_sparse_chunk_that_cannot_be_used_is_named(counts: np.ndarray) -> None:
    rows = counts.repeat(10, axis=0)
    rows[20_000, 7] = np.inf
    lazy = da.from_array(rows, chunks=(25_000, 40)).map_blocks(csr_array)
    with pytest.raises(
        InputError, match=r"infinity \(inf\) at row 20,000 of a chunk, column 7 of those used"
    ):
        DPMeans(2e3).fit(counts).predict(lazy).compute(scheduler="synchronous")


def test_the_dashboard_names_what_lazy_answers_run(rows: np.ndarray) -> None:
    rows = da.from_array(rows, chunks=(700, 1))
    model = DPMeans(20.0).fit(rows)
    for lazy in (model.labels_, model.predict(rows), model.transform(rows)):
        assert {"dpmeans_predict", "dpmeans-predict-model"} <= {
            key_split(key) for key in lazy.__dask_graph__()
        }


def test_a_fit_that_was_interrupted_leaves_the_estimator_unfitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    model = DPMeans(4.0, search=True)
    with monkeypatch.context() as patch:
        patch.setattr("dask_dpmeans.engine.loop.iterate", interrupted)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            model.fit(np.zeros((9, 2)))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(np.zeros((9, 2)))
    assert model.fit(np.zeros((9, 2))).predict(np.zeros((9, 2))).tolist() == [0] * 9


@pytest.mark.parametrize("method", [DPMeans, HDPMeans, LinkageDPMeans, OnlineDPMeans])
def test_a_fit_that_fails_leaves_an_earlier_one_as_it_was(method: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)) + 9 * (np.arange(60)[:, np.newaxis] % 3)
    options = {"penalty": 9.0} if method is OnlineDPMeans else {}
    model = method(**options).fit(X[:, :2])
    before = vars(model).copy()
    with pytest.raises(TooManyClustersError):
        model.set_params(max_clusters=2).fit(X)
    model.set_params(max_clusters=None)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
    assert model.predict(X[:, :2]).tolist() == model.labels_.tolist()
    with pytest.raises(InputError, match=r"NaN \(nan\) at row 0"):
        model.fit(pd.DataFrame({"a": [np.nan, 1.0]}))
    assert model.n_features_in_ == 2
