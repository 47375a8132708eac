"""`predict_proba` and `margin` of `DPMeans`, and `predict` with `soft`."""

from dataclasses import dataclass
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
import xarray
import zarr
from click.testing import CliRunner
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
from test_rows_elsewhere import Absolute

from dask_dpmeans import DPMeans, HDPMeans, InputError, fit, load, predict
from dask_dpmeans.cli import main
from dask_dpmeans.estimators.membership import MembershipMixin

FAR = 1e12
"""A radius at which no row opens a cluster: the first centers stay."""


def gaussians(centers: np.ndarray, shares: np.ndarray, n: int = 30_000) -> tuple[np.ndarray, ...]:
    """Rows of unit variance, the component of each, and its true probabilities."""
    rng = np.random.default_rng(0)
    drawn = rng.choice(len(centers), n, p=shares)
    rows = centers[drawn] + rng.normal(size=(n, centers.shape[1]))
    squared = ((rows[:, np.newaxis] - centers) ** 2).sum(axis=2)
    terms = shares * np.exp(-squared / 2)
    return rows, drawn, terms / terms.sum(axis=1, keepdims=True)


SQUARE = np.array([[i, j] for i in range(3) for j in range(3)]) * 1.0
MIXTURES = {
    "equal, two": (3 * np.eye(2, 1), np.full(2, 1 / 2)),
    "equal, eight columns": (3 * np.eye(3, 8), np.full(3, 1 / 3)),
    "equal, a square": (3 * SQUARE, np.full(9, 1 / 9)),
    "unequal, two": (4 * np.eye(2, 1), np.array([0.8, 0.2])),
    "unequal, a square": (4 * SQUARE, np.arange(1, 10) / 45),
    "unequal, apart": (5 * np.eye(5, 8), np.array([0.6, 0.2, 0.1, 0.06, 0.04])),
}


@pytest.mark.parametrize("kind", MIXTURES)
def test_probabilities_are_those_of_known_gaussians_within_a_fiftieth(kind: str) -> None:
    centers, shares = MIXTURES[kind]
    rows, drawn, true = gaussians(centers, shares)
    found = DPMeans(FAR, init=centers, tol=0).fit(rows).predict_proba(rows, top=9).toarray()
    assert abs(found - true).mean(axis=0).max() < 0.02
    assert abs(found - true).max(axis=1).mean() < 0.02
    bins = (10 * found).astype(int).clip(0, 9)
    hits = drawn[:, np.newaxis] == np.arange(len(centers))
    errors = [
        abs((found - hits)[:, each][bins[:, each] == part].sum())
        for each in range(len(centers))
        for part in range(10)
    ]
    assert sum(errors) / found.size < 0.02  # the expected calibration error of all clusters


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(1)
    centers = rng.uniform(0, 9, (12, 3))
    return centers[rng.integers(12, size=20_011)] + rng.normal(size=(20_011, 3))


@pytest.fixture(scope="module")
def model(rows: np.ndarray) -> DPMeans:
    return DPMeans(20.0, random_state=0).fit(rows)


def same(one: csr_array, other: csr_array) -> bool:
    """Whether two answers are the same bytes."""
    names = ("data", "indices", "indptr")
    return all(getattr(one, name).tobytes() == getattr(other, name).tobytes() for name in names)


@pytest.mark.parametrize("top", [1, 2, 4, 1000])
def test_the_label_is_the_most_probable(model: DPMeans, rows: np.ndarray, top: int) -> None:
    found = model.predict_proba(rows, top=top)
    assert isinstance(found, csr_array)
    assert found.dtype == np.float32
    assert found.shape == (len(rows), model.n_clusters_)
    assert np.diff(found.indptr).max() <= top
    assert found.indices[found.indptr[:-1]].tobytes() == model.labels_.tobytes()
    sums = np.asarray(found.sum(axis=1))
    assert sums.max() < 1 + 1e-6
    if top == 1000:
        np.testing.assert_allclose(sums, 1, atol=1e-6)
    np.testing.assert_array_equal(found.argmax(axis=1), model.labels_)


@pytest.mark.parametrize("heights", [700, (1, 8000, 12_010), 20_011])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_chunks_do_not_show(model: DPMeans, rows: np.ndarray, heights: object, kind: str) -> None:
    expected = model.predict_proba(rows, top=3)
    lazy = da.from_array(rows, chunks=(heights, 2))
    if kind == "sparse":
        lazy = lazy.rechunk((heights, -1)).map_blocks(csr_array)
    found = model.predict_proba(lazy, top=3)
    assert isinstance(found, da.Array)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert issparse(found._meta)
    assert same(found.compute(), expected)
    assert model.margin(lazy).compute().tobytes() == model.margin(rows).tobytes()


def test_rows_of_any_kind_get_the_same_probabilities(
    model: DPMeans, rows: np.ndarray, tmp_path: Path
) -> None:
    expected = model.predict_proba(rows, top=3)
    stored = zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(512, 3))
    assert same(model.predict_proba(stored, top=3).compute(), expected)
    assert same(model.predict_proba(csr_array(rows), top=3), expected)
    single = rows.astype(np.float32)
    doubles = model.predict_proba(single.astype(np.float64), top=3)
    assert same(model.predict_proba(single, top=3), doubles)


def test_the_margin_is_the_difference_of_the_two_greatest(model: DPMeans, rows: np.ndarray) -> None:
    shares = np.sort(model.predict_proba(rows, top=2).toarray(), axis=1)
    margin = model.margin(rows)
    assert margin.dtype == np.float32
    assert margin.tobytes() == (shares[:, -1] - shares[:, -2]).tobytes()
    assert 0 <= margin.min() < 0.01
    assert margin.max() > 0.99


def test_one_cluster_has_all(rows: np.ndarray) -> None:
    model = DPMeans(FAR).fit(rows)
    assert (model.predict_proba(rows).toarray() == 1).all()
    assert (model.margin(rows) == 1).all()


def test_rows_on_their_centers_are_certain() -> None:
    rows = np.repeat(np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]]), 4, axis=0)
    model = DPMeans(1.0).fit(rows)
    assert model.inertia_ == 0
    assert model.predict_proba(rows).toarray().tolist() == np.eye(3)[model.labels_].tolist()
    assert model.predict_proba([[2.5, 0.0]]).toarray().tolist() == [[0.5, 0.5, 0]]


def test_directions_have_probabilities_of_angles() -> None:
    rng = np.random.default_rng(3)
    rows = np.eye(3)[rng.integers(3, size=3000)] + 0.3 * rng.normal(size=(3000, 3))
    model = DPMeans(4.0, metric="cosine", init=np.eye(3)).fit(rows)
    assert model.n_clusters_ == 3
    found = model.predict_proba(rows, top=3)
    assert same(model.predict_proba(4 * rows, top=3), found)
    np.testing.assert_array_equal(found.argmax(axis=1), model.labels_)
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    concentration = model._mixture().precision
    terms = np.exp(concentration * directions @ model.cluster_centers_.T) * model.cluster_weights_
    terms /= terms.sum(axis=1, keepdims=True)
    agree = terms.argmax(axis=1) == model.labels_
    assert agree.mean() > 0.98
    np.testing.assert_allclose(found.toarray()[agree], terms[agree], atol=1e-5)


@pytest.fixture
def run(rows: np.ndarray, tmp_path: Path) -> Path:
    zarr.create_array(tmp_path / "rows.zarr", data=rows, chunks=(2048, 3))
    method = DPMeans(2.0, random_state=0)
    fit(str(tmp_path / "rows.zarr"), str(tmp_path / "run.zarr"), method, scale="std")
    return tmp_path


def test_predict_writes_what_the_loaded_run_answers(run: Path, rows: np.ndarray) -> None:
    names = str(run / "run.zarr"), str(run / "rows.zarr"), str(run / "out.zarr")
    plain, soft = predict(*names), predict(*names, soft=3, force=True)
    assert plain == soft
    stored, model = xarray.open_zarr(names[2]), load(names[0])
    assert stored.top_label.dims == stored.probability.dims == ("row", "top")
    assert stored.margin.dims == ("row",)
    expected = model.predict_proba(rows, top=3)
    used = stored.top_label.values >= 0
    assert stored.probability.values[used].tobytes() == expected.data.tobytes()
    assert stored.top_label.values[used].tobytes() == expected.indices.tobytes()
    assert (stored.probability.values[~used] == 0).all()
    assert stored.margin.values.tobytes() == model.margin(rows).tobytes()
    assert (stored.top_label.values[:, 0] == stored.label.values).all()
    assert stored.label.values.tobytes() == model.predict(rows).tobytes()
    kept = {name: stored[name].values.tobytes() for name in ("label", "squared_distance", "beyond")}
    predict(*names, force=True)
    again = xarray.open_zarr(names[2])
    assert set(again) == set(kept)
    assert {name: again[name].values.tobytes() for name in kept} == kept


@pytest.mark.parametrize("chunk", [500, 20_011])
def test_the_store_does_not_depend_on_the_chunks_of_the_rows(
    run: Path, rows: np.ndarray, chunk: int
) -> None:
    other = zarr.create_array(run / "other.zarr", data=rows, chunks=(chunk, 3))
    found = []
    for number, data in enumerate((str(run / "rows.zarr"), other)):
        predict(
            str(run / "run.zarr"), data, str(run / f"{number}.zarr"), soft=2, threads=number + 1
        )
        group = zarr.open_group(run / f"{number}.zarr", mode="r")
        found.append({name: group[name][:].tobytes() for name in ("top_label", "probability")})
    assert found[0] == found[1]


def test_more_clusters_than_there_are_is_all_of_them(run: Path) -> None:
    model = load(run / "run.zarr")
    predict(str(run / "run.zarr"), str(run / "rows.zarr"), str(run / "out.zarr"), soft=10**6)
    assert zarr.open_array(run / "out.zarr/probability").shape[1] == model.n_clusters_


def test_the_command_writes_the_arrays(run: Path) -> None:
    words = ["predict", *(str(run / name) for name in ("run.zarr", "rows.zarr", "out.zarr"))]
    answer = CliRunner().invoke(main, [*words, "--soft", "4"])
    assert answer.exit_code == 0, answer.output
    assert zarr.open_array(run / "out.zarr/top_label").shape == (20_011, 4)
    answer = CliRunner().invoke(main, [*words, "--soft", "0"])
    assert answer.exit_code == 2
    assert "0 is not in the range x>=1" in answer.output


def test_a_method_without_a_mixture_is_an_error(tmp_path: Path) -> None:
    data = zarr.create_array(tmp_path / "rows.zarr", data=np.arange(40.0).reshape(20, 2))
    groups = np.arange(20) % 2
    fit(data, tmp_path / "run.zarr", HDPMeans(9.0, 9.0), groups=groups)
    with pytest.raises(InputError, match="no mixture is known for a run of HDPMeans: leave soft"):
        predict(tmp_path / "run.zarr", data, tmp_path / "out.zarr", groups=groups, soft=2)
    assert not (tmp_path / "out.zarr").exists()
    assert not issubclass(HDPMeans, MembershipMixin)


@pytest.mark.parametrize("top", [0, -1, 2.5, None, True, "three"])
def test_top_is_a_number_of_clusters(model: DPMeans, run: Path, top: object) -> None:
    with pytest.raises(InputError, match="top must be an integer >= 1, got"):
        model.predict_proba(np.zeros((2, 3)), top=top)
    if top is not None:
        names = (str(run / name) for name in ("run.zarr", "rows.zarr", "out.zarr"))
        with pytest.raises(InputError, match="soft must be an integer >= 1, got"):
            predict(*names, soft=top)


def test_rows_are_checked_as_predict_checks_them(model: DPMeans) -> None:
    for method in (model.predict_proba, model.margin):
        with pytest.raises(InputError, match="X has 2 features, but DPMeans is expecting 3"):
            method(np.zeros((4, 2)))
        with pytest.raises(InputError, match="row 1"):
            method(np.array([[0.0, 0, 0], [np.nan, 0, 0]]))


def test_no_rows_have_no_probabilities(model: DPMeans) -> None:
    lazy = da.zeros((0, 3), chunks=(1, 3))
    assert model.predict_proba(lazy).compute().shape == (0, model.n_clusters_)


@dataclass(frozen=True)
class Known(Absolute):
    """A cost whose user says what its mixture is."""

    def precision(self, cost: float, d: int) -> float:
        """Raise `AssertionError`: there is no fit whose cost this could be."""
        raise AssertionError(f"asked for cost={cost}, d={d}")


def test_a_mixture_of_the_user_is_known_without_a_question() -> None:
    assert hasattr(DPMeans(9.0, divergence=Known()), "predict_proba")


ALONE = {
    "poisson": (DPMeans(9.0, divergence="poisson"), "got divergence='poisson', missing='error'"),
    "missing": (DPMeans(9.0, missing="observed"), "got divergence='squared', missing='observed'"),
    "own": (DPMeans(9.0, divergence=Absolute()), "small-variance limit is Absolute"),
}


@pytest.mark.parametrize("name", ["predict_proba", "margin"])
@pytest.mark.parametrize("kind", ALONE)
def test_where_no_mixture_is_known_there_are_no_probabilities_and_the_cause_says_why(
    rows: np.ndarray, kind: str, name: str
) -> None:
    model, why = ALONE[kind]
    for known in (model, clone(model).fit(np.abs(rows))):
        assert not hasattr(known, name)
        with pytest.raises(AttributeError, match=f"'DPMeans' has no attribute '{name}'") as raised:
            getattr(known, name)
        assert isinstance(raised.value.__cause__, InputError)
        assert why in str(raised.value.__cause__)


@pytest.mark.parametrize(
    "model", [DPMeans(9.0), DPMeans(1.0, metric="cosine"), DPMeans(1.0, metric="haversine")]
)
def test_where_a_mixture_is_known_there_are_probabilities(model: DPMeans) -> None:
    places = np.array([[0.5, 1.0], [1.0, 0.5], [40.0, 50.0]])
    assert hasattr(model, "predict_proba")
    assert hasattr(model, "margin")
    assert model.fit(places).predict_proba(places).shape == (3, model.n_clusters_)
