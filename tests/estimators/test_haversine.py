"""Places on the earth: great circles, the poles, the date line, and cosine as the same problem."""

import math

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_dpmeans import DPMeans, InputError, LinkageDPMeans, fit, load, predict
from dask_dpmeans.kernels import numba_support
from dask_dpmeans.selection.metrics import partition
from dask_dpmeans.selection.penalty import farthest_first, penalty_for, penalty_path

RADIUS = 6371.0088
FEW = settings(max_examples=15, deadline=None)
latitudes = st.one_of(st.floats(-90, 90), st.sampled_from([-90.0, 0.0, 90.0]))
longitudes = st.one_of(st.floats(-180, 360), st.sampled_from([-180.0, 0.0, 180.0, 360.0]))


def distance(here, there):
    """Vincenty's formula on a sphere, which is accurate for near and for opposite places."""
    (a, b), (c, d) = [[math.radians(value) for value in place] for place in (here, there)]
    east = math.cos(c) * math.sin(d - b)
    north = math.cos(a) * math.sin(c) - math.sin(a) * math.cos(c) * math.cos(d - b)
    along = math.sin(a) * math.sin(c) + math.cos(a) * math.cos(c) * math.cos(d - b)
    return RADIUS * math.atan2(math.hypot(east, north), along)


def towns(seed, n=400, k=6, spread=1.5):
    rng = np.random.default_rng(seed)
    middles = np.column_stack([rng.uniform(-89, 89, k), rng.uniform(-180, 180, k)])
    rows = middles[rng.integers(k, size=n)] + rng.normal(0, spread, (n, 2))
    rows[:, 0] = rows[:, 0].clip(-90, 90)
    rows[:, 1] = (rows[:, 1] + 180) % 360 - 180
    return rows


def in_space(places):
    phi, theta = np.radians(places).T
    return np.column_stack([np.cos(phi) * np.cos(theta), np.cos(phi) * np.sin(theta), np.sin(phi)])


def model_at(places):
    """A fit in which each of different places is a center."""
    return DPMeans(1e-9, metric="haversine", init=places, max_iter=2).fit(places)


@FEW
@given(st.tuples(latitudes, longitudes), st.tuples(latitudes, longitudes))
def test_distances_are_great_circles_to_a_billionth(here, there):
    opposite = (-here[0], here[1] - 180 if here[1] > 0 else here[1] + 180)
    near = (here[0] * 0.9999999, here[1])
    others = np.array([there, opposite, near, here])
    found = DPMeans(1.0, metric="haversine").fit(np.array([here])).transform(others)[:, 0]
    wanted = [distance(here, each) for each in others.tolist()]
    assert found == pytest.approx(wanted, rel=1e-9, abs=2e-11)


@FEW
@given(st.integers(0, 2**20), st.floats(100, 5000))
def test_labels_are_those_of_unit_vectors_by_cosine_and_no_row_is_farther_than_the_radius(seed, km):
    rows = towns(seed)
    model = DPMeans(km, metric="haversine").fit(rows)
    twin = DPMeans(4 * math.sin(km / RADIUS / 2) ** 2, metric="cosine").fit(in_space(rows))
    assert np.array_equal(model.labels_, twin.labels_)
    assert model.objective_ == pytest.approx(twin.objective_ * RADIUS**2, rel=1e-9)
    assert model.objective_ == pytest.approx(model.inertia_ + model.penalty_ * model.n_clusters_)
    own = model.transform(rows)[np.arange(len(rows)), model.labels_]
    assert own.max() <= km * (1 + 1e-9)
    assert model.score(rows) == pytest.approx(-model.inertia_, rel=1e-9)
    assert model.cluster_centers_.shape == (model.n_clusters_, 2)


@pytest.mark.parametrize("options", [{"penalty": 3e6, "search": True}, {"penalty": "auto"}])
def test_prices_and_choices_are_those_of_cosine_in_square_kilometers(options):
    rows = towns(3, spread=0.5)
    given = dict(options)
    if given["penalty"] != "auto":
        given["penalty"] /= RADIUS**2
    model = DPMeans(**options, metric="haversine", random_state=0).fit(rows)
    twin = DPMeans(**given, metric="cosine", random_state=0).fit(in_space(rows))
    assert np.array_equal(model.labels_, twin.labels_)
    assert model.penalty_ == pytest.approx(twin.penalty_ * RADIUS**2, rel=1e-9)
    assert model.objective_ == pytest.approx(twin.objective_ * RADIUS**2, rel=1e-9)


@pytest.mark.parametrize("km", [1.0, 500.0, 9000.0])
def test_a_row_just_beyond_the_radius_opens_a_cluster_and_one_just_within_does_not(km):
    degrees = math.degrees(km / RADIUS)
    for latitude, share, k in ((0.0, 1 - 1e-7, 1), (0.0, 1 + 1e-7, 2)):
        places = np.array([[latitude, 179.9], [latitude, 179.9 + share * degrees]])
        model = DPMeans(km, metric="haversine", init=places[:1]).fit(
            places, sample_weight=[1e12, 1.0]
        )
        assert model.n_clusters_ == k


def test_clusters_lie_across_the_date_line_and_around_a_pole():
    rng = np.random.default_rng(0)
    line = np.column_stack([rng.normal(0, 1, 60), rng.normal(180, 1, 60) % 360])
    line[::2, 1] -= np.where(line[::2, 1] > 180, 360, 0)
    pole = np.column_stack([rng.uniform(88, 90, 60), rng.uniform(-180, 180, 60)])
    model = DPMeans(500, metric="haversine").fit(np.concatenate([line, pole]))
    assert model.labels_.tolist() == [model.labels_[0]] * 60 + [model.labels_[-1]] * 60
    (a, east), (north, _) = model.cluster_centers_[model.labels_[[0, -1]]]
    assert abs(a) < 0.5
    assert abs(east) > 179.5
    assert north > 89.5


def test_one_place_has_one_point_whichever_its_longitude():
    same = np.array([[10.0, -180.0], [10.0, 180.0], [90.0, 12.0], [90.0, -77.0], [5.0, 0.0]])
    same = np.concatenate([same, [[5.0, 360.0], [-7.0, 200.0], [-7.0, -160.0]]])
    assert model_at(same[[0, 2, 4, 6]]).predict(same).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert np.array_equal(*(model_at(same[[0, 2]]).transform(same[[i, i + 1]]) for i in (0, 0)))
    assert (np.ptp(model_at(same[[0, 2]]).transform(same).reshape(4, 2, 2), axis=1) == 0).all()


@FEW
@given(st.integers(0, 2**20), st.integers(-180, 180))
def test_a_turn_of_the_longitudes_changes_no_label(seed, turn):
    rows = towns(seed)
    turned = rows.copy()
    turned[:, 1] = (rows[:, 1] + turn + 180) % 360 - 180
    one, other = (DPMeans(800, metric="haversine").fit(each) for each in (rows, turned))
    assert np.array_equal(one.labels_, other.labels_)


def test_named_columns_are_taken_by_name_in_either_order():
    rows = towns(1)
    frame = pd.DataFrame(rows, columns=["Latitude", "LNG"])
    plain = DPMeans(500, metric="haversine").fit(rows)
    for columns in (["Latitude", "LNG"], ["LNG", "Latitude"]):
        model = DPMeans(500, metric="haversine").fit(frame[columns])
        assert np.array_equal(model.labels_, plain.labels_)
        centers = pd.DataFrame(model.cluster_centers_, columns=columns)[["Latitude", "LNG"]]
        assert np.array_equal(centers, plain.cluster_centers_)
        assert np.array_equal(model.predict(frame[columns]), plain.labels_)
        found = partition(frame[columns], model.labels_, metric="haversine")
        np.testing.assert_allclose(found.centers, model.cluster_centers_, atol=0.5)
        again = DPMeans(500, metric="haversine", init=model, max_iter=2).fit(frame[columns])
        assert again.n_clusters_ == plain.n_clusters_


@pytest.mark.parametrize("chunk", [64, 301])
def test_results_are_the_same_for_any_chunks_and_without_numba(chunk, monkeypatch):
    rows = towns(2, n=2000)
    model = DPMeans(500, metric="haversine").fit(rows)
    lazy = da.from_array(rows, chunks=(chunk, 2))
    other = DPMeans(500, metric="haversine").fit(lazy)
    assert np.array_equal(other.labels_.compute(), model.labels_)
    assert other.cluster_centers_.tobytes() == model.cluster_centers_.tobytes()
    assert other.transform(lazy).compute().tobytes() == model.transform(rows).tobytes()
    monkeypatch.setattr(numba_support, "AVAILABLE", False)
    slow = DPMeans(500, metric="haversine").fit(rows)
    assert slow.objective_ == model.objective_
    assert slow.labels_.tobytes() == model.labels_.tobytes()


def test_a_run_keeps_centers_in_degrees_and_predicts_squared_kilometers(tmp_path):
    rows = towns(4)
    store = zarr.create_array(f"{tmp_path}/rows.zarr", data=rows, chunks=(100, 2))
    model = DPMeans(500, metric="haversine")
    fit(f"{tmp_path}/rows.zarr", f"{tmp_path}/run.zarr", model)
    again, run = load(f"{tmp_path}/run.zarr"), model.fit(rows)
    assert again.cluster_centers_.tobytes() == run.cluster_centers_.tobytes()
    assert again.transform(rows).tobytes() == run.transform(rows).tobytes()
    assert again.penalty_ == run.penalty_
    predict(f"{tmp_path}/run.zarr", store, f"{tmp_path}/out.zarr")
    out = zarr.open_group(f"{tmp_path}/out.zarr", mode="r")
    own = run.transform(rows)[np.arange(len(rows)), run.labels_]
    assert np.array_equal(out["label"][:], run.labels_)
    np.testing.assert_allclose(out["squared_distance"][:], own**2, rtol=1e-12)
    assert not out["beyond"][:].any()


def test_penalties_that_are_found_are_lengths_as_radii_and_square_kilometers_as_prices():
    rows = towns(5)
    radius = penalty_for(rows, 6, metric="haversine", random_state=0)
    assert DPMeans(radius.penalty, metric="haversine").fit(rows).n_clusters_ == radius.n_clusters
    twin = penalty_for(in_space(rows), 6, metric="cosine", search=True, random_state=0)
    price = penalty_for(rows, 6, metric="haversine", search=True, random_state=0)
    assert price.penalty == pytest.approx(twin.penalty * RADIUS**2, rel=1e-9)
    path = penalty_path(rows, [1e6, 1e7], metric="haversine", search=True, random_state=0)
    assert path.n_clusters[0] >= path.n_clusters[1]
    assert 0 < farthest_first(rows, 3, metric="haversine").penalty < math.pi * RADIUS
    with pytest.raises(InputError, match="needs search=True"):
        penalty_path(rows, metric="haversine")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[10.0, 20.0], [120.0, 20.0]], r"at row 1: the first column must be a latitude"),
        ([[10.0, 20.0], [12.0, 361.0]], r"at row 1: .* \(longitude \+ 180\) % 360 - 180"),
        ([[10.0, 20.0], [12.0, -181.0]], r"at row 1: .* longitude from -180 to 360"),
        ([[10.0, 20.0], [np.nan, 20.0]], r"NaN .* row 1, column 0"),
        ([[10.0, 20.0, 1.0]], r"takes 2 columns, .* got 3"),
        (pd.DataFrame([[1.0, 2.0]], columns=["lat", "latitude"]), r"'lat' and 'latitude'"),
    ],
)
def test_rows_that_are_no_places_are_named(rows, message):
    with pytest.raises(InputError, match=message):
        DPMeans(500, metric="haversine").fit(rows)


def test_parameters_that_cannot_be_used_are_refused():
    rows = towns(0, n=20)
    with pytest.raises(InputError, match=r"<= 20015\.1 .* radius in kilometers"):
        DPMeans(20016, metric="haversine").fit(rows)
    with pytest.raises(InputError, match=r"discount needs search=True"):
        DPMeans(500, metric="haversine", discount=2.0).fit(rows)
    with pytest.raises(InputError, match=r"init: first centers .* got 3 columns"):
        DPMeans(500, metric="haversine", init=np.ones((1, 3))).fit(rows)
    with pytest.raises(InputError, match=r"center 0 is \[91\.0, 0\.0\]"):
        DPMeans(500, metric="haversine", init=[[91.0, 0.0]]).fit(rows)
    with pytest.raises(InputError, match=r"^divergence='poisson' cannot be used with metric='hav"):
        DPMeans(500, metric="haversine", divergence="poisson").fit(rows)
    with pytest.raises(InputError, match=r"^balance_columns=True cannot be used with metric='hav"):
        DPMeans(500, metric="haversine", balance_columns=True).fit(rows)
    with pytest.raises(InputError, match=r"missing='observed' cannot be used with metric='hav"):
        DPMeans(500, metric="haversine", missing="observed").fit(rows)


def test_opposite_places_cancel_and_leave_their_center_where_it_was():
    places = [[0.0, 90.0], [0.0, -90.0]]
    model = DPMeans(20000, metric="haversine", init=[[90.0, 0.0]]).fit(places)
    assert model.cluster_centers_.tolist() == [[90.0, 0.0]]
    assert model.transform(places).tolist() == [[pytest.approx(math.pi * RADIUS / 2)]] * 2


def test_links_of_micro_clusters_are_no_great_circles_and_the_error_says_what_to_give():
    with pytest.raises(
        InputError, match=r"give LinkageDPMeans the points \(cos lat cos lon"
    ) as told:
        LinkageDPMeans(metric="haversine").fit(towns(0))
    assert str(RADIUS) in str(told.value)
