"""Cubes of xarray: the same bytes as flattened rows, and answers where they belong."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import sklearn
import xarray as xr
from hypothesis import given as drawing
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.base import clone

from dask_dpmeans import (
    DPMeans,
    GibbsMixture,
    HDPMeans,
    KernelDPMeans,
    LinkageDPMeans,
    OnlineDPMeans,
    SpectralDPMeans,
    SplitMergeDPMeans,
    fit,
    load,
)
from dask_dpmeans.errors import InputError
from dask_dpmeans.selection.path import penalty_path
from dask_dpmeans.selection.penalty import penalty_for

CUBES = Path(__file__).parents[3] / "shared" / "data" / "cubes"
DIMS = ("lat", "lon", "time", "level")
SIZES = {"lat": 5, "lon": 4, "time": 3, "level": 2}


def cube_of(seed: int = 0, dtype: str = "float64", gaps: int = 3) -> xr.DataArray:
    """Return a cube of three kinds of places; `gaps` places have a NaN, one is NaN throughout."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(3, size=(5, 4))
    means = rng.integers(-20, 20, size=(3, 3, 2))
    values = (means[kinds] + rng.integers(0, 3, size=(5, 4, 3, 2))).astype(dtype)
    if values.dtype.kind == "f" and gaps:
        for place in rng.choice(20, gaps, replace=False):
            values.reshape(20, 6)[place, rng.integers(6)] = np.nan
        values[2, 1] = np.nan
    lat, lon = np.linspace(-60, 60, 5), np.arange(4) * 90.0
    return xr.DataArray(
        values,
        dims=DIMS,
        name="wind",
        coords={
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": lon,
            "time": np.array(["2001-01-01", "2001-02-01", "2001-03-01"], "datetime64[ns]"),
            "level": [500, 850],
            "height": (("lon", "lat"), np.arange(20.0).reshape(4, 5)),
            "run": 7,
        },
    )


def flat_rows(cube: xr.DataArray, samples: tuple[str, ...], features: tuple[str, ...]) -> Any:
    """Return the rows without NaN, by a loop over places, and their coordinates."""
    rows, places = [], []
    for place in np.ndindex(*(cube.sizes[dim] for dim in samples)):
        where = dict(zip(samples, place, strict=True))
        row = cube.isel(where).transpose(*features).values.ravel()
        if not np.isnan(row.astype(float)).any():
            rows.append(row)
            places.append(where)
    return np.array(rows), places


def names_of(model: Any) -> list[str]:
    return model.feature_names_in_.tolist()


@settings(max_examples=12, deadline=None)
@drawing(st.data())
def test_a_cube_in_any_order_and_chunks_is_its_rows_to_the_byte(data: st.DataObject) -> None:
    """Centers, labels and figures are those of the rows; labels are at their coordinates."""
    dtype = data.draw(st.sampled_from(["float64", "float32", "int16", "int64", "bool"]))
    cube = cube_of(data.draw(st.integers(0, 9)), dtype, data.draw(st.sampled_from([0, 1, 6])))
    order = data.draw(st.permutations(DIMS))
    count = data.draw(st.integers(1, 3))
    samples, features = tuple(order[:count]), tuple(order[count:])
    rows, places = flat_rows(cube, samples, features)
    if not len(rows):
        return
    wanted = DPMeans(penalty=30.0).fit(rows)
    given = cube.transpose(*data.draw(st.permutations(DIMS)))
    lazy = data.draw(st.booleans())
    if lazy:
        given = given.chunk({dim: data.draw(st.integers(1, 5)) for dim in DIMS})
    named = {"samples": samples, "features": features}
    if data.draw(st.booleans()):
        del named["features"]
        features = tuple(dim for dim in given.dims if dim not in samples)
        wanted = DPMeans(penalty=30.0).fit(flat_rows(cube, samples, features)[0])
    model = DPMeans(penalty=30.0).fit(given, **named)
    assert model.cluster_centers_.tobytes() == wanted.cluster_centers_.tobytes()
    assert model.objective_ == wanted.objective_
    labels = model.labels_
    assert (labels.dims, labels.dtype) == (samples, np.int32)
    assert (labels.chunks is not None) == lazy
    assert int((labels.values < 0).sum()) == labels.size - len(rows)
    labels = labels.compute()
    for place, label in zip(places, wanted.labels_, strict=True):
        there = cube.isel(place)
        assert labels.sel({dim: there[dim] for dim in place}).item() == label
    assert model.predict(given).compute().identical(labels)
    centers = model.centers_dataarray_
    assert centers.dims == ("cluster", *features)
    assert np.array_equal(centers.values.reshape(len(centers), -1), wanted.cluster_centers_)
    if "time" in features:
        assert np.array_equal(centers.time.values, cube.time.values)
    assert model.score(given) == wanted.score(flat_rows(cube, samples, features)[0])


@pytest.mark.parametrize("lazy", [False, True])
def test_answers_for_new_cubes_are_where_their_places_are(lazy: bool) -> None:
    """By coordinates: each place has what its own series gets; places of other numbers are fine."""
    cube = cube_of(1)
    model = DPMeans(penalty=30.0).fit(cube, samples=("lat", "lon"), features=("time", "level"))
    new = cube.isel(lat=slice(1, None), lon=[3, 1]).transpose("level", "lon", "time", "lat")
    if lazy:
        new = new.chunk(lat=2, time=1)
    answers = {
        "predict": model.predict(new),
        "transform": model.transform(new),
        "predict_proba": model.predict_proba(new),
        "margin": model.margin(new),
    }
    for answer in answers.values():
        assert (answer.chunks is not None) == lazy
        assert answer.dims[:2] == ("lat", "lon")
        assert int(answer.height.sel(lat=30, lon=90)) == cube.height.sel(lat=30, lon=90).item()
        assert answer.run.item() == 7
    assert answers["transform"].dims == ("lat", "lon", "cluster") == answers["predict_proba"].dims
    for lat in new.lat.values:
        for lon in new.lon.values:
            series = cube.sel(lat=lat, lon=lon)
            alone = model.predict(series)
            assert alone.shape == ()
            row = series.values.reshape(1, -1)
            named = {"lat": lat, "lon": lon}
            assert int(answers["predict"].sel(named)) == alone.item()
            assert float(alone.lat) == lat
            if np.isnan(row).any():
                assert alone.item() == -1
                assert np.isnan(answers["transform"].sel(named)).all()
                continue
            with pytest.warns(UserWarning, match="does not have valid feature names"):
                assert model.predict(row)[0] == alone.item()
            with pytest.warns(UserWarning, match="does not have valid feature names"):
                assert np.array_equal(model.transform(row)[0], answers["transform"].sel(named))
            with pytest.warns(UserWarning, match="does not have valid feature names"):
                probable = model.predict_proba(row).toarray()[0]
            assert np.array_equal(probable, answers["predict_proba"].sel(named))


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        DPMeans("auto", random_state=0),
        DPMeans(0.01, metric="cosine"),
        DPMeans(30.0, search=True, random_state=0),
        HDPMeans(10.0, 20.0),
        LinkageDPMeans(random_state=0),
        KernelDPMeans(0.5),
        KernelDPMeans(0.5, approximation="fourier", random_state=0),
        SpectralDPMeans(penalty=5000.0),
        OnlineDPMeans(30.0),
        SplitMergeDPMeans(30.0),
    ],
    ids=lambda model: type(model).__name__ if not isinstance(model, bool) else None,
)
def test_each_estimator_of_rows_takes_cubes(model: Any, lazy: bool) -> None:
    """`fit_predict` of a cube has the labels of the rows, at their coordinates."""
    cube = cube_of(3) + 50
    rows, places = flat_rows(cube, ("lon", "lat"), ("level", "time"))
    given = cube.chunk(lon=2, level=1) if lazy else cube
    wanted = clone(model).fit_predict(rows)
    labels = model.fit_predict(given, samples=("lon", "lat"), features=("level", "time"))
    found = [labels.sel({dim: cube[dim][at] for dim, at in each.items()}) for each in places]
    assert np.array_equal(found, wanted)
    assert int((labels.values >= 0).sum()) == (wanted >= 0).sum()
    assert labels.name == "labels"
    assert model.predict(given).dims == ("lon", "lat")
    assert np.array_equal(model.predict(given).values >= 0, labels.values >= 0)
    if isinstance(model, LinkageDPMeans):
        at = model.labels_at(2)
        assert np.array_equal(at.values, model.labels_at(2, given).values)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(given).equals(model.predict(given))


def test_a_dataset_has_its_variables_as_features() -> None:
    """The bytes of the rows of variables; a variable of fewer samples' dimensions is repeated."""
    u, v = cube_of(0).isel(level=0, drop=True), cube_of(1).isel(level=1, drop=True)
    data = xr.Dataset({"u": u, "v": v})
    rows, _ = flat_rows(data.to_dataarray(), ("lat", "lon"), ("variable", "time"))
    wanted = DPMeans(penalty=30.0).fit(rows)
    for given in (data, data.chunk(lat=2, time=1)):
        model = DPMeans(penalty=30.0).fit(given, samples=("lat", "lon"))
        assert model.cluster_centers_.tobytes() == wanted.cluster_centers_.tobytes()
        swapped = model.predict(given[["v", "u"]])
        assert np.array_equal(swapped.values, model.labels_.values)
    assert model.centers_dataarray_.sel(variable="v").dims == ("cluster", "time")
    assert names_of(model)[0] == "u 2001-01-01"
    one = DPMeans(penalty=30.0).fit(data[["u"]], samples=("lat", "lon"))
    assert one.labels_.equals(DPMeans(penalty=30.0).fit(u, features="time").labels_)
    static = data.assign(mean=u.mean("time"))
    model = DPMeans(penalty=30.0).fit(static, samples=("time", "lon", "lat"), features="variable")
    assert names_of(model) == ["u", "v", "mean"]
    with pytest.raises(InputError, match="'mean' of X has no dimension 'time'"):
        DPMeans(penalty=30.0).fit(static, samples=("lon", "lat"), features=("variable", "time"))
    with pytest.raises(InputError, match=r"variables 'u', 'v': choose one, as X\['u'\]"):
        DPMeans(penalty=30.0).fit(data, samples=("lon", "lat"), features="time")
    with pytest.raises(InputError, match="'grid' of X is the same for all samples"):
        DPMeans(penalty=30.0).fit(data.assign(grid=1), samples=("lon", "lat", "time"))
    with pytest.raises(InputError, match=r"'t' of X holds datetime64\[ns\], no numbers"):
        DPMeans(penalty=30.0).fit(data.assign(t=u.time), samples=("lon", "lat", "time"))


@pytest.mark.parametrize("lazy", [False, True])
def test_weights_and_groups_broadcast_against_the_samples(lazy: bool) -> None:
    """Weights by latitude are cosines of one or two dimensions; groups are by coordinate."""
    cube = cube_of(4)
    rows, places = flat_rows(cube, ("lon", "lat"), ("time", "level"))
    given = cube.chunk(lat=2, lon=3) if lazy else cube
    named = {"samples": ("lon", "lat"), "features": ("time", "level")}
    lats = np.array([cube.lat.values[each["lat"]] for each in places])
    weights = np.cos(np.deg2rad(lats))
    wanted = DPMeans(penalty=30.0, search=True, random_state=0).fit(rows, sample_weight=weights)
    flipped = given.isel(lat=slice(None, None, -1)).isel(lat=slice(None, None, -1))
    own = np.cos(np.deg2rad(cube.lat))
    curved = given.assign_coords(
        nav=(("lat", "lon"), np.repeat(cube.lat.values[:, np.newaxis], 4, 1))
    )
    curved.nav.attrs["standard_name"] = "latitude"
    for each, weight in [(flipped, "latitude"), (given, own), (curved, "latitude")]:
        model = clone(wanted).fit(each, sample_weight=weight, **named)
        assert model.cluster_centers_.tobytes() == wanted.cluster_centers_.tobytes()
        assert model.score(each, sample_weight=weight) == wanted.score(rows, sample_weight=weights)
    groups = xr.DataArray([1, 0, 1, 1, 0], dims="lat", coords={"lat": cube.lat})
    sets = np.array([groups.values[each["lat"]] for each in places])
    sharing = HDPMeans(10.0, 20.0).fit(rows, groups=sets)
    model = HDPMeans(10.0, 20.0).fit(given, groups=groups, **named)
    assert model.cluster_centers_.tobytes() == sharing.cluster_centers_.tobytes()
    alike = model.predict(given, groups=groups)
    found = [alike.sel({dim: cube[dim][at] for dim, at in each.items()}) for each in places]
    assert np.array_equal(found, sharing.predict(rows, groups=sets))
    for wrong, said in [
        (
            own.isel(lat=slice(None, None, -1)),
            "sample_weight has other coordinates or sizes than X",
        ),
        (cube.time.astype(float), "the dimension 'time', along which there are no samples"),
        (weights, "must be a DataArray along some of 'lon', 'lat' or 'latitude'"),
        (
            own.isel(lat=slice(2)).drop_vars("lat"),
            "sample_weight has other coordinates or sizes than X",
        ),
    ]:
        with pytest.raises(InputError, match=said):
            clone(wanted).fit(given, sample_weight=wrong, **named)
    with pytest.raises(InputError, match="no coordinate is a latitude along the samples"):
        clone(wanted).fit(given, samples="lon", sample_weight="latitude")
    two = curved.assign_coords(lat=cube.lat.assign_attrs(standard_name="latitude"))
    with pytest.raises(InputError, match="more than one coordinate is a latitude"):
        clone(wanted).fit(two, sample_weight="latitude", **named)
    far = given.assign_coords(lat=("lat", cube.lat.values * 10, cube.lat.attrs))
    with pytest.raises(InputError, match="'lat' holds -600, which is no latitude"):
        clone(wanted).fit(far, sample_weight="latitude", **named)


def test_missing_values_can_stay_in_a_cube() -> None:
    """With `missing`, samples with gaps are rows; one without values has label -1."""
    cube = cube_of(2, gaps=6)
    model = DPMeans(penalty=30.0, missing="observed", random_state=0)
    labels = model.fit_predict(cube, samples=("lat", "lon"))
    wanted = clone(model).fit(cube.values.reshape(20, 6))
    assert np.array_equal(labels.values.ravel(), wanted.labels_)
    assert (labels == -1).values.nonzero()[0].tolist() == [2]
    lazy = clone(model).fit(cube.chunk(lat=2, time=1), samples=("lat", "lon"))
    assert lazy.labels_.compute().identical(labels)
    filled = model.impute(cube)
    assert filled.dims == cube.dims
    assert np.array_equal(filled.values.reshape(20, 6), wanted.impute(cube.values.reshape(20, 6)))
    with pytest.raises(InputError, match="20 of 20 have NaN"):
        DPMeans(30.0).fit(cube.where(cube.level == 500), samples=("lat", "lon"))


def test_levels_of_a_stacked_dimension_stay() -> None:
    """Labels of stacked places can be unstacked to the map."""
    cube = cube_of(5)
    stacked = cube.stack(place=("lat", "lon"))
    model = DPMeans(penalty=30.0).fit(stacked, samples="place", features=("time", "level"))
    wanted = DPMeans(penalty=30.0).fit(cube, samples=("lat", "lon"), features=("time", "level"))
    assert np.array_equal(model.labels_.unstack("place").values, wanted.labels_.values)


def test_stacked_samples_say_how_to_unstack_them() -> None:
    """A cube whose samples were stacked after the fit has their dimensions as levels."""
    cube = cube_of(5)
    model = DPMeans(penalty=30.0).fit(cube, samples=("lat", "lon"), features=("time", "level"))
    X = cube.stack(place=("lat", "lon"))
    with pytest.raises(
        InputError, match=r"X has 'lat', .* along 'place'.*, as X\.unstack\('place'\)"
    ):
        model.predict(X)
    labels = model.predict(X.unstack("place"))  # which sorts the places
    assert np.array_equal(labels.reindex_like(model.labels_).values, model.labels_.values)
    assert model.predict(cube.isel(lat=0)).dims == ("lon",)  # one place of the grid, as it was


def test_other_features_are_an_error_by_name() -> None:
    """The same features in another order are sorted; others are named."""
    cube = cube_of(6)
    model = DPMeans(penalty=30.0).fit(cube, samples=("lat", "lon"), features=("time", "level"))
    turned = cube.isel(level=[1, 0], time=[2, 0, 1])
    assert model.predict(turned).equals(model.labels_)
    with pytest.raises(InputError, match=r"now missing:\n- 2001-01-01 level=500"):
        model.predict(cube.assign_coords(level=[1000, 850]))
    with pytest.raises(InputError, match="X has 2 features along 'time', the fit had 3"):
        model.predict(cube.isel(time=slice(2)))
    with pytest.raises(InputError, match="X also has the dimensions 'member'"):
        model.predict(cube.expand_dims(member=2))
    with pytest.raises(InputError, match="'time', which is no dimension of X: it has 'lat'"):
        model.predict(cube.isel(time=0))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"samples": "latt"}, "'latt', which is no dimension of X: it has 'lat' \\(5\\), 'lon'"),
        ({"samples": ("lat", "lat")}, "samples names 'lat' twice"),
        ({"samples": "lat", "features": ("lat", "lon")}, "both name 'lat'"),
        ({"samples": "lat", "features": "time"}, "the dimensions 'lon' \\(4\\), 'level' \\(2\\)"),
        ({"features": DIMS}, "no dimension of X is left for samples"),
        ({"samples": 3}, "must be a name or a list of names, got 3"),
        ({"samples": {"lat", "lon"}}, "must be a name or a list of names, got {"),
        ({"samples": iter(("lat", "lon"))}, "must be a name or a list of names, got <tuple_it"),
    ],
)
def test_wrong_dimensions_are_named(named: dict[str, Any], said: str) -> None:
    """Errors list what there is, and the way out."""
    with pytest.raises(InputError, match=said):
        DPMeans(penalty=30.0).fit(cube_of(), **named)


@pytest.mark.parametrize("inside", [False, True])
def test_a_size_that_is_unknown_is_counted_by_the_way_out_of_its_error(inside: bool) -> None:
    rows = cube_of(gaps=0).values.reshape(20, 6)[:8]
    lazy = da.from_array(rows, chunks=(3, 6))
    given: Any = xr.DataArray(lazy[lazy[:, 0] < np.inf], dims=("place", "time"), name="wind")
    data, shown = (given.to_dataset(), r"X\['wind'\]") if inside else (given, "X")
    with pytest.raises(InputError, match=f"'place'.*: call {shown}.data.compute_chunk_sizes"):
        DPMeans(30.0).fit(data, samples="place")
    (data["wind"] if inside else data).data.compute_chunk_sizes()
    found = DPMeans(30.0).fit(data, samples="place")
    assert found.cluster_centers_.tobytes() == DPMeans(30.0).fit(rows).cluster_centers_.tobytes()


@pytest.mark.parametrize(
    "attributes", [{"_FillValue": -1}, {"missing_value": [np.nan, -9]}, {"scale_factor": 0.1}]
)
def test_values_that_are_not_decoded_are_refused_until_they_are(attributes: dict[str, Any]) -> None:
    names: Any = {"samples": ("lat", "lon")}
    cube = cube_of(gaps=0).fillna(-1.0)
    idle = {"_FillValue": np.nan, "scale_factor": 1.0, "add_offset": 0.0}
    model = DPMeans(penalty=30.0).fit(cube.assign_attrs(idle), **names)
    encoded = cube.assign_attrs(attributes)
    for call in (partial(clone(model).fit, **names), model.predict):
        with pytest.raises(InputError, match=rf"{next(iter(attributes))}=.* xarray.decode_cf\(X\."):
            call(encoded)
    with pytest.raises(InputError, match=r"X\['v'\] has the attribute"):
        clone(model).fit(xr.Dataset({"u": cube, "v": encoded}), **names)
    decoded = xr.decode_cf(encoded.to_dataset(name="x"))["x"]
    clone(model).fit(decoded, **names)


@pytest.mark.parametrize("model", [OnlineDPMeans(300.0), SplitMergeDPMeans(300.0)])
@pytest.mark.parametrize("lazy", [False, True])
def test_batches_of_a_cube_are_one_cube(model: Any, lazy: bool) -> None:
    """Batches along the samples give the bytes of one fit, in any order of the features."""
    cube = cube_of()
    names = {"samples": ("lat", "lon"), "features": ("time", "level")}
    whole = clone(model).fit(cube, **names)
    parts = [cube.isel(lat=slice(0, 2)), cube.isel(lat=slice(2, 5), level=[1, 0])]
    if lazy:
        parts = [part.chunk(lon=2, time=1) for part in parts]
    model = clone(model).partial_fit(parts[0], **names).partial_fit(parts[1])
    assert model.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()
    assert model.predict(cube).equals(whole.labels_)
    with pytest.raises(InputError, match="features along 'time', the fit had 3"):
        model.partial_fit(cube.isel(time=[0, 1]))
    for given, last in ((cube, cube.dims[-1]), (cube.to_dataset("level"), "variable")):
        with pytest.raises(
            InputError, match=rf"name the dimensions .*, as in fit\(X, features='{last}'"
        ):
            clone(model).partial_fit(given)


@pytest.mark.parametrize("dims", [DIMS, ("time", "lon", "level", "lat")])
@pytest.mark.parametrize("lazy", [False, True])
def test_a_model_of_rows_takes_a_cube_as_its_error_says(dims: tuple[str, ...], lazy: bool) -> None:
    cube = cube_of().fillna(0.0).transpose(*dims)
    features = [dim for dim in dims if dim in ("time", "level")]
    samples = [dim for dim in dims if dim not in features]
    rows = cube.transpose(*samples, *features).values.reshape(20, 6)
    model = DPMeans(penalty=30.0).fit(rows)
    with pytest.raises(InputError, match=r"was fitted to rows of 6 columns: pass such") as refused:
        model.predict(cube)
    way = str(refused.value).partition(", as ")[2]
    found = eval(way, {"X": cube.chunk(lat=2) if lazy else cube})
    assert np.array_equal(np.asarray(model.predict(found)), model.labels_)
    with pytest.raises(InputError, match="6 columns, which no dimensions of X have together"):
        model.predict(cube.isel(time=[0, 1]))


@pytest.mark.parametrize("names", [("lat", "lon"), ("lon", "lat", "time")])
def test_a_loaded_run_of_a_cube_takes_cubes(names: tuple[str, ...], tmp_path: Path) -> None:
    model = DPMeans(30.0, random_state=0)
    cube = cube_of().drop_vars("run")
    cube.to_dataset().to_zarr(tmp_path / "cube.zarr", zarr_format=3, consolidated=False)
    fitted = clone(model).fit(cube, samples=names)
    fit(tmp_path / "cube.zarr", tmp_path / "run.zarr", model, samples=names)
    loaded = load(tmp_path / "run.zarr")
    assert loaded.predict(cube).equals(fitted.predict(cube))
    assert loaded.predict(cube.chunk(lat=2)).compute().equals(fitted.predict(cube))
    assert loaded.transform(cube.to_dataset()).equals(fitted.transform(cube))
    assert loaded.score(cube) == fitted.score(cube)
    assert loaded.centers_dataarray_.dims == fitted.centers_dataarray_.dims
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(cube.isel(level=[1, 0]))
    rows = flat_rows(cube, names, tuple(dim for dim in DIMS if dim not in names))[0]
    with pytest.warns(UserWarning, match="valid feature names"):
        found = loaded.predict(xr.DataArray(rows, dims=("row", "column")))
    assert found.tolist() == [each for each in fitted.labels_.values.ravel() if each >= 0]


@pytest.mark.parametrize("stored", [False, True])
def test_penalties_of_a_cube_are_those_of_its_rows(stored: bool, tmp_path: Path) -> None:
    cube, names = cube_of(), {"samples": ("lat", "lon"), "features": ("time", "level")}
    rows, places = flat_rows(cube, *names.values())
    weight = np.cos(np.deg2rad(cube.lat))
    weights = np.array([float(weight[place["lat"]]) for place in places])
    data: Any = cube
    beside: Any = weight
    if stored:
        data, beside = str(tmp_path / "cube"), weights
        cube.to_dataset().to_zarr(data, zarr_format=3, consolidated=False)
    found = penalty_for(data, 3, search=True, sample_weight=beside, random_state=0, **names)
    expected = penalty_for(rows, 3, search=True, sample_weight=weights, random_state=0)
    assert found == expected
    path = penalty_path(data, [10.0, 300.0], sample_weight=beside, random_state=0, **names)
    expected_path = penalty_path(rows, [10.0, 300.0], sample_weight=weights, random_state=0)
    for one, other in zip(path.centers, expected_path.centers, strict=True):
        assert one.tobytes() == other.tobytes()


def test_dimensions_are_for_cubes_alone() -> None:
    """An array without names of dimensions is an error with the way out, and so is the reverse."""
    with pytest.raises(InputError, match=r"X is a ndarray: .* xarray.DataArray\(X, dims"):
        DPMeans(penalty=30.0).fit(np.ones((3, 2)), samples="row")
    with pytest.raises(
        InputError, match=r"along 'lat', 'lon', 'time', 'level': name the dimensions"
    ):
        DPMeans(penalty=30.0).fit(cube_of())
    with pytest.raises(InputError, match=r"as in fit\(X, features='variable'\)"):
        DPMeans(penalty=30.0).fit(xr.Dataset({"u": cube_of()}))
    model = DPMeans(penalty=30.0).fit(np.ones((3, 2)))
    assert not hasattr(model, "centers_dataarray_")
    assert hasattr(model.fit(cube_of(), samples=("lat", "lon")), "centers_dataarray_")
    assert not hasattr(model.fit(np.ones((3, 2))), "centers_dataarray_")
    assert isinstance(model.labels_, np.ndarray)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_path_of_a_variable_is_refused_with_the_store_that_it_is_in(
    tmp_path: Path, zarr_format: int
) -> None:
    stored = cube_of().to_dataset(name="sst")
    stored.to_zarr(tmp_path / "cube.zarr", zarr_format=zarr_format, consolidated=False)
    names: dict[str, Any] = {"samples": ("lat", "lon")}
    with pytest.raises(
        InputError, match=r"if \S+cube.zarr is this store, give it, .* variables, sst"
    ):
        fit(tmp_path / "cube.zarr" / "sst", tmp_path / "run", DPMeans(30.0), **names)
    fit(tmp_path / "cube.zarr", tmp_path / "run", DPMeans(30.0), variables="sst", **names)


def test_routing_and_clones_know_the_dimensions() -> None:
    """Requests for the names of dimensions are scikit-learn's own."""
    with sklearn.config_context(enable_metadata_routing=True):
        model = DPMeans(penalty=30.0).set_fit_request(samples=True, features=True)
        assert clone(model).get_metadata_routing().fit.requests["samples"] is True


def test_a_grid_of_one_value_is_one_column() -> None:
    """Each value of a picture is a sample if all dimensions are samples."""
    cube = cube_of(7).isel(time=0, level=0, drop=True)
    labels = DPMeans(penalty=30.0).fit_predict(cube, samples=("lat", "lon"))
    rows, _ = flat_rows(cube, ("lat", "lon"), ())
    wanted = DPMeans(penalty=30.0).fit_predict(rows)
    assert np.array_equal(labels.values[labels.values >= 0], wanted)


@pytest.mark.filterwarnings("ignore:variable .* has non-conforming '_FillValue'")
@pytest.mark.skipif(not CUBES.exists(), reason="the data are not here")
def test_winds_of_a_reanalysis_are_at_their_places() -> None:
    """A Dataset of three variables and four dimensions, in chunks of levels."""
    winds = xr.open_dataset(CUBES / "eraint_uvz.nc", engine="scipy")
    part = winds[["u", "v"]].isel(latitude=slice(None, None, 12), longitude=slice(None, None, 16))
    model = DPMeans(penalty=2000.0).fit(
        part.chunk(level=1, longitude=7),
        samples=("longitude", "latitude"),
        features=("level", "variable", "month"),
        sample_weight="latitude",
    )
    labels = model.labels_.compute()
    centers = model.centers_dataarray_
    for latitude, longitude in [(45.0, 0.0), (-54.0, 168.0), (0.0, -84.0)]:
        there = part.sel(latitude=latitude, longitude=longitude).to_dataarray()
        distances = ((centers - there) ** 2).sum(("level", "variable", "month"))
        label = labels.sel(latitude=latitude, longitude=longitude).item()
        assert int(distances.values.argmin()) == label


def test_a_mixture_takes_no_cube_but_its_stacked_samples() -> None:
    """Which the error says how to make."""
    cube = cube_of().isel(level=0)
    with pytest.raises(InputError, match=r"no cubes, got one along 'lat', 'lon', 'time'") as told:
        GibbsMixture(max_iter=2, random_state=0).fit(cube)
    way = str(told.value).split("as X.")[1].removesuffix(" does")
    assert way == "stack(sample=['lat', 'lon']).transpose('sample', 'time').dropna('sample')"
    rows = cube.stack(sample=["lat", "lon"]).transpose("sample", "time").dropna("sample")
    model = GibbsMixture(max_iter=2, random_state=0).fit(rows)
    assert len(model.labels_) == len(rows)


def test_the_names_of_dimensions_of_an_open_cube_belong_to_the_estimator(tmp_path) -> None:
    cube = xr.Dataset({"sst": (("lat", "lon", "time"), np.zeros((2, 3, 4)))})
    told = r"data is a Dataset: leave them out, .* by DPMeans\(\).fit\(cube, samples="
    with pytest.raises(InputError, match=told):
        fit(cube, tmp_path / "run", DPMeans(1.0), samples=("lat", "lon"))
