"""scikit-learn's face of the methods of one pass: its own checks, batches, and what Dask adds."""

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks
from strategies import chunkings

from dask_dpmeans import (
    InputError,
    OnlineDPMeans,
    SplitMergeDPMeans,
    TooManyClustersError,
    reference,
)
from dask_dpmeans.sources import layout

N = 600
FITTED = ("labels_", "inertia_", "objective_")
FEWER = settings(max_examples=20)


@parametrize_with_checks(
    [OnlineDPMeans(3.0), SplitMergeDPMeans(3.0), SplitMergeDPMeans(3.0, merge=False)]
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(4)
    return (
        rng.uniform(-9, 9, (6, 2))[rng.integers(6, size=N)] + rng.standard_normal((N, 2))
    ).astype(np.float32)


@pytest.fixture(scope="module", params=["online", "split", "split-merge"])
def model(request):
    return {
        "online": OnlineDPMeans(12.0),
        "split": SplitMergeDPMeans(12.0, merge=False),
        "split-merge": SplitMergeDPMeans(12.0),
    }[request.param]


@pytest.fixture(scope="module")
def fitted(model, rows: np.ndarray):
    return fresh(model).fit(rows)


def fresh(model):
    return type(model)(**model.get_params())


def same(model, other) -> None:
    for name in ("cluster_centers_", "cluster_weights_"):
        assert getattr(model, name).tobytes() == getattr(other, name).tobytes()


def same_fit(model, other) -> None:
    same(model, other)
    assert np.asarray(model.labels_).tobytes() == np.asarray(other.labels_).tobytes()
    assert (model.inertia_, model.objective_) == (other.inertia_, other.objective_)


def test_a_fit_is_what_the_paper_prints(fitted, rows: np.ndarray) -> None:
    centers, weights = expected(fitted, rows.tolist())
    np.testing.assert_allclose(fitted.cluster_centers_, centers, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(fitted.cluster_weights_, weights, rtol=1e-12)
    assert 4 < fitted.n_clusters_ < 100


def expected(model, rows):
    if isinstance(model, OnlineDPMeans):
        return reference.online_dp_means(rows, model.penalty)
    boxes = reference.split_dp_means(rows, model.penalty)
    centers, weights = [box.center for box in boxes], [box.weight for box in boxes]
    return (
        reference.merge_dp_means(centers, weights, model.penalty)[1:]
        if model.merge
        else (centers, weights)
    )


def test_what_is_fitted_belongs_together(fitted, rows: np.ndarray) -> None:
    squared = ((rows[:, np.newaxis].astype(np.float64) - fitted.cluster_centers_) ** 2).sum(axis=2)
    np.testing.assert_array_equal(fitted.labels_, squared.argmin(axis=1))
    np.testing.assert_array_equal(fitted.predict(rows), fitted.labels_)
    np.testing.assert_allclose(fitted.transform(rows), np.sqrt(squared), rtol=1e-12)
    assert fitted.inertia_ == pytest.approx(squared.min(axis=1).sum(), rel=1e-12)
    assert fitted.objective_ == fitted.inertia_ + 12.0 * fitted.n_clusters_
    assert fitted.n_clusters_ == len(fitted.cluster_centers_) == len(fitted.cluster_weights_)
    assert fitted.cluster_weights_.sum() == pytest.approx(len(rows), rel=1e-12)
    assert fitted.score(rows) == -fitted.inertia_
    assert fitted.labels_.dtype == np.int32


@FEWER
@given(chunks=chunkings(N, empty=False))
def test_any_batches_give_what_one_fit_gives(model, fitted, rows, chunks) -> None:
    batched = fresh(model)
    for stop, height in zip(np.cumsum(chunks), chunks, strict=True):
        batched.partial_fit(rows[stop - height : stop])
    same(batched, fitted)


def test_batches_go_on_where_a_fit_ended(model, fitted, rows: np.ndarray) -> None:
    begun = fresh(model).fit(rows[:200])
    assert all(hasattr(begun, name) for name in FITTED)
    begun.partial_fit(da.from_array(rows[200:], chunks=70))
    assert not any(hasattr(begun, name) for name in FITTED)
    same(begun, fitted)
    np.testing.assert_array_equal(begun.predict(rows), fitted.labels_)
    same_fit(begun.fit(rows), fitted)


@FEWER
@given(
    chunks=chunkings(N),
    columns=st.sampled_from([(2,), (1, 1)]),
    dtype=st.sampled_from([np.float32, np.float64]),
    resident=st.booleans(),
)
def test_dask_input_in_any_chunks_gives_the_same_bytes(
    model, fitted, rows, chunks, columns, dtype, resident
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "RESIDENT_SHARE", 0.4 if resident else 0.0)
        lazy = fresh(model).fit(da.from_array(rows.astype(dtype), chunks=(chunks, columns)))
    assert isinstance(lazy.labels_, da.Array)
    assert lazy.labels_.chunks == (chunks,)
    same_fit(lazy, fitted if dtype == np.float32 else fresh(model).fit(rows.astype(dtype)))


@pytest.mark.parametrize("share", [0.4, 0.0])
def test_zarr_input_is_streamed(model, fitted, rows: np.ndarray, share: float, monkeypatch) -> None:
    monkeypatch.setattr(layout, "RESIDENT_SHARE", share)
    array = zarr.create_array({}, shape=rows.shape, chunks=(130, 1), dtype=rows.dtype)
    array[:] = rows
    same_fit(fresh(model).fit(array), fitted)


def test_unknown_chunk_lengths_and_dataframes(model, fitted, rows: np.ndarray) -> None:
    frame = dd.from_pandas(pd.DataFrame(rows, columns=["a", "b"]), npartitions=3)
    for lazy in (frame, frame.to_dask_array()):
        same_fit(fresh(model).fit(lazy), fitted)


def test_the_order_of_the_rows_decides(model, fitted, rows: np.ndarray) -> None:
    assert fresh(model).fit(rows[::-1]).objective_ != fitted.objective_


def test_max_clusters_is_an_error_never_a_cap_and_leaves_what_was_there(
    model, rows: np.ndarray
) -> None:
    limited = fresh(model).set_params(max_clusters=3).partial_fit(rows[:2])
    before = limited.cluster_centers_.copy()
    with pytest.raises(
        TooManyClustersError,
        match=r"penalty=12 makes at least 4 clusters, more than max_clusters=3",
    ):
        limited.partial_fit(rows)
    np.testing.assert_array_equal(limited.cluster_centers_, before)
    limited.set_params(max_clusters=None).partial_fit(rows[2:])
    same(limited, fresh(model).fit(rows))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": 0.0}, "penalty must be a finite number > 0, got 0.0"),
        ({"penalty": None}, "penalty must be a finite number > 0, got None"),
        ({"max_clusters": 1.5}, "max_clusters must be an integer >= 1 or None, got 1.5"),
    ],
)
def test_parameters_that_cannot_be_used_are_named(
    model, rows: np.ndarray, parameters: dict, message: str
) -> None:
    wrong = fresh(model).set_params(**parameters)
    for method in (wrong.fit, wrong.partial_fit):
        with pytest.raises(InputError, match=message):
            method(rows)


def test_other_columns_are_refused(model, rows: np.ndarray) -> None:
    begun = fresh(model).partial_fit(rows)
    name = type(model).__name__
    with pytest.raises(ValueError, match=f"X has 3 features, but {name} is expecting 2"):
        begun.partial_fit(np.zeros((4, 3)))
    with pytest.raises(InputError, match=f"X has 3 features, but {name} is expecting 2"):
        begun.partial_fit(da.zeros((4, 3)))


def test_rows_too_far_from_the_centers_are_refused(model, rows: np.ndarray) -> None:
    begun = fresh(model).partial_fit(rows)
    with pytest.raises(InputError, match="squared distances overflow float64: column 0"):
        begun.partial_fit(np.array([[1e300, 0.0]]))
    same(begun, fresh(model).fit(rows))


def test_bad_rows_are_named(model) -> None:
    with pytest.raises(InputError, match=r"data contains NaN \(nan\) at row 1, column 0"):
        fresh(model).partial_fit(np.array([[0.0], [np.nan]]))


def test_an_objective_that_overflows_is_an_error() -> None:
    with pytest.raises(InputError, match="the objective overflows float64"):
        OnlineDPMeans(1.7e308).fit(np.array([[0.0], [0.9e154]]))


def test_not_fitted(model) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        fresh(model).predict(np.zeros((2, 2)))


def test_features_out_are_named_after_the_method(rows: np.ndarray) -> None:
    assert OnlineDPMeans(50.0).fit(rows).get_feature_names_out()[0] == "onlinedpmeans0"
