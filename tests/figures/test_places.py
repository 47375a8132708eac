"""Charts of places, and labels of cubes on their grid."""

import math

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.api.loading import open_run
from dask_dpmeans.errors import InputError
from dask_dpmeans.figures import data, plot
from dask_dpmeans.figures.data import label_maps
from dask_dpmeans.figures.data.rows import first_longitude
from dask_dpmeans.kernels.great_circle import points_of
from dask_dpmeans.kernels.plot_statistics import Chart
from dask_dpmeans.registry import spec_of
from dask_dpmeans.report import page
from dask_dpmeans.report.run_rows import NOT_FLAT

xr = pytest.importorskip("xarray")
FEW = settings(max_examples=25, deadline=None)
KM = {"metric": "haversine", "random_state": 0}


def places(n, middle, seed=0):
    rows = np.asarray(middle) + np.random.default_rng(seed).normal(0, 2, (n, 2))
    rows[:, 1] = (rows[:, 1] + 180) % 360 - 180
    return rows


def run_of(tmp_path, rows, model):
    np.save(tmp_path / "places.npy", rows)
    fit(tmp_path / "places.npy", tmp_path / "run.zarr", model)
    return open_run(tmp_path / "run.zarr")


def chart_of(run, rows):
    source = data.rows_of(rows, run.model)
    return data.chart(source, run.model, spec_of(run.model).predictor(run.result))


@FEW
@given(st.floats(-89.9, 89.9), st.floats(-179.9, 180), st.floats(-360, 0))
def test_a_chart_has_each_longitude_once_from_its_west_on(latitude, longitude, west):
    (found,) = Chart(west)(points_of(np.array([[latitude, longitude]])))
    assert found[1] == pytest.approx(latitude, abs=1e-6)
    assert west - 1e-9 <= found[0] <= west + 360 + 1e-9
    turns = (found[0] - longitude) / 360
    assert turns == pytest.approx(round(turns), abs=1e-8)


@FEW
@given(st.lists(st.floats(-180, 180), min_size=1, max_size=9))
def test_a_chart_begins_where_no_center_is_near(longitudes):
    west = first_longitude(np.array(longitudes))
    assert -360 <= west <= 0
    gaps = [abs((each - west + 180) % 360 - 180) for each in longitudes]
    assert west == -180 or min(gaps) >= 45 - 1e-9


def test_places_across_the_date_line_lie_together(tmp_path):
    rows = places(500, (-18, 180))
    run = run_of(tmp_path, rows, DPMeans(300, **KM))
    found = chart_of(run, rows)
    assert found.points == pytest.approx(np.column_stack([rows[:, 1] % 360, rows[:, 0]]), abs=1e-9)
    assert np.ptp(found.centers[:, 0]) < 20
    assert np.array_equal(found.labels, run.labels[:])
    wanted = run.model.cluster_centers_
    assert found.centers == pytest.approx(np.column_stack([wanted[:, 1] % 360, wanted[:, 0]]))
    width, height = plot.row_map(found, run.model).get_size_inches()
    assert height / width == pytest.approx(
        np.ptp([found.low[1], found.high[1]])
        / np.ptp([found.low[0], found.high[0]])
        / math.cos(math.radians((found.low[1] + found.high[1]) / 2))
    )


def test_many_places_are_counted_where_they_lie_and_outliers_have_no_cluster(tmp_path):
    rows = np.concatenate([places(7000, (40, 10)), places(5000, (-30, -60), 1), [[70.0, 100.0]]])
    model = DPMeans(3e9, search=True, outlier_penalty=4e6, **KM)
    run = run_of(tmp_path, rows, model)
    found = chart_of(run, rows)
    assert found.counts.sum(axis=(1, 2)).tolist() == [7000, 5000, 1]
    assert found.layers.tolist()[-1] == -1
    bins = np.array(found.counts.shape[1:])
    edges = [np.linspace(*ends) for ends in zip(found.low, found.high, bins + 1, strict=True)]
    wanted = np.histogram2d(rows[:, 1], rows[:, 0], edges)[0]
    assert np.abs(found.counts.sum(axis=0) - wanted).sum() <= 4  # rows at an edge


def test_a_page_of_places_has_their_map_and_radii_in_kilometers(tmp_path):
    run = run_of(tmp_path, places(300, (50, 0)), DPMeans(300, **KM))
    made = page(run)
    assert [each.title for each in made.maps] == ["Map"]
    assert made.maps[0].source.startswith("data:image/png")
    assert NOT_FLAT not in made.notes
    assert "root-mean-square radius, kilometers" in made.tables[0].columns
    sizes = data.sizes(run.model)
    assert sizes.limit == 300
    costs = run.model.cluster_inertias_ / run.model.cluster_weights_
    assert sizes.radii == pytest.approx(np.sqrt(costs)[sizes.clusters])
    with pytest.raises(InputError, match="columns cannot be chosen for places"):
        page(run, columns=[0, 1])


def cube(**coords):
    values = np.random.default_rng(0).normal(size=(5, 7, 3))
    values[2, 3, 1] = np.nan
    return xr.DataArray(values, dims=("y", "x", "band"), coords=coords, name="cube")


def grid_of(tmp_path, made):
    made.to_dataset().to_zarr(tmp_path / "cube.zarr", zarr_format=3, consolidated=False)
    fit(tmp_path / "cube.zarr", tmp_path / "run.zarr", DPMeans(4.0), samples=("y", "x"))
    return open_run(tmp_path / "run.zarr")


def test_labels_of_a_cube_are_a_map_with_its_coordinates(tmp_path):
    made = cube(
        y=("y", np.linspace(60, 40, 5), {"standard_name": "latitude", "units": "degrees_north"}),
        x=("x", np.linspace(0, 30, 7), {"units": "degrees_east"}),
    )
    run = grid_of(tmp_path, made)
    found = label_maps.labels_on_grid(run.result)
    wanted = DPMeans(4.0).fit(made, samples=("y", "x")).labels_
    for y in range(5):
        for x in range(7):
            at = wanted.sel(y=found.down.places[y], x=found.across.places[x])
            assert found.labels[y, x] == at
    assert found.labels[2, 3] == -1
    assert (found.down.name, found.across.name) == ("y [degrees_north]", "x [degrees_east]")
    assert (found.down.is_latitude, found.across.is_latitude, found.from_top) == (
        True,
        False,
        False,
    )
    axes = plot.label_map(found, run.model.cluster_weights_).axes[0]
    assert axes.get_aspect() == pytest.approx(1 / math.cos(math.radians(50)))
    assert axes.get_ylim()[0] < axes.get_ylim()[1]
    drawn = page(run).grid
    assert drawn.caption.endswith("Samples in no cluster are blank.")


def test_an_image_has_square_pixels_and_its_first_line_at_the_top(tmp_path):
    run = grid_of(tmp_path, cube())
    found = label_maps.labels_on_grid(run.result)
    assert found.from_top
    axes = plot.label_map(found, run.model.cluster_weights_).axes[0]
    assert axes.get_aspect() == 1.0
    assert axes.get_ylim()[0] > axes.get_ylim()[1]


def test_the_first_line_of_an_image_with_coordinates_is_at_the_top_and_its_unit_is_square(tmp_path):
    values = np.full((1, 6, 8), 1.0)
    values[0, 0] = 100.0  # the first line is a cluster of its own
    image = zarr.create_group(tmp_path / "image.zarr")
    image.create_array("0", data=values, chunks=(1, 6, 8))
    axes = [{"name": name, "unit": "micrometer"} for name in "yx"]
    scale = {"type": "scale", "scale": [1.0, 0.5, 0.25]}
    levels = [{"path": "0", "coordinateTransformations": [scale]}]
    told = {"version": "0.5", "multiscales": [{"axes": [{"name": "c"}, *axes], "datasets": levels}]}
    image.attrs["ome"] = told
    fit(tmp_path / "image.zarr/0", tmp_path / "run.zarr", DPMeans(4.0), features="c")
    run = open_run(tmp_path / "run.zarr")
    found = label_maps.labels_on_grid(run.result)
    axes = plot.label_map(found, run.model.cluster_weights_).axes[0]
    mesh = axes.collections[0]
    first, others = (np.unique(found.labels[part]) for part in (slice(0, 1), slice(1, None)))
    assert len(first) == len(others) == 1
    assert first != others
    assert found.down.places[0] == 0.0  # the place of the first line, drawn at the upper end
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert axes.get_aspect() == 1.0
    colors = mesh.get_array()
    assert not np.array_equal(colors[0, 0], colors[1, 0])


def test_of_a_large_grid_samples_at_equal_steps_are_shown_and_the_page_says_so(
    tmp_path, monkeypatch
):
    run = grid_of(tmp_path, cube(y=np.arange(5.0)))
    whole = label_maps.labels_on_grid(run.result)
    monkeypatch.setattr(label_maps, "MOST_SAMPLES", 3)
    found = label_maps.labels_on_grid(run.result)
    assert np.array_equal(found.labels, whole.labels[::2, ::3])
    assert found.down.places.tolist() == [0, 2, 4]
    assert found.across.places.tolist() == [0, 3, 6]
    caption = page(run).grid.caption
    assert caption.endswith(" Along y it has 3 of 5 samples. Along x it has 3 of 7 samples.")


def test_runs_without_a_grid_of_two_dimensions_have_no_map_of_labels(tmp_path, tmp_path_factory):
    made = cube()
    made.to_dataset().to_zarr(tmp_path / "cube.zarr", zarr_format=3, consolidated=False)
    fit(tmp_path / "cube.zarr", tmp_path / "run.zarr", DPMeans(4.0), samples="y")
    assert label_maps.labels_on_grid(open_run(tmp_path / "run.zarr").result) is None
    run = run_of(tmp_path_factory.mktemp("rows"), places(50, (0, 0)), DPMeans(4.0))
    assert label_maps.labels_on_grid(run.result) is None


def test_a_flat_map_is_stretched_and_text_is_no_coordinate():
    flat = (
        data.side("lat", np.array([0.0, 1.0]), {}, 2, 1),
        data.side("lon", np.arange(300.0), {}, 300, 1),
    )
    found = data.LabelMap(np.zeros((2, 300), np.int32), *flat, from_top=False)
    assert plot.label_map(found, np.ones(1)).axes[0].get_aspect() == "auto"
    assert flat[0].is_latitude
    for values in (np.array(["a", "b"]), np.array([1.0, 1.0]), np.array([0.0, np.nan])):
        assert not data.side("lat", values, {}, 2, 1).has_coordinate
