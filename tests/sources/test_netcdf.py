"""NetCDF files of both formats as cubes: the same rows, and what to install where one cannot be read."""

import numpy as np
import pytest

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources.formats import cube_dataset

xr = pytest.importorskip("xarray")
ENGINES = {"scipy": "NETCDF3_64BIT", "h5netcdf": "NETCDF4"}


def made():
    """A cube of two kinds of places; one place is NaN."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 5, 6)) + 10 * (np.arange(5) > 2)[:, np.newaxis]
    values[:, 1, 2] = np.nan
    return xr.DataArray(values, dims=("time", "lat", "lon"), name="sst").to_dataset()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_gives_the_labels_of_the_cube_in_memory(engine, tmp_path):
    pytest.importorskip(engine)
    made().to_netcdf(tmp_path / "cube.nc", engine=engine, format=ENGINES[engine])
    path, names = str(tmp_path / "cube.nc"), {"samples": ("lat", "lon"), "features": "time"}
    fit(path, str(tmp_path / "run.zarr"), DPMeans(100.0), variables=["sst"], **names)
    with xr.open_zarr(tmp_path / "run.zarr", consolidated=False) as run:
        found = run["label_map"].values
    wanted = DPMeans(100.0).fit(made()["sst"], **names)
    assert wanted.n_clusters_ == 2
    assert found.shape == (5, 6)
    assert found[1, 2] == -1
    assert np.array_equal(found, wanted.labels_.values)


def test_a_file_without_names_of_dimensions_says_that_they_are_needed(tmp_path):
    made().to_netcdf(tmp_path / "cube.nc", engine="scipy")
    with pytest.raises(InputError, match="NetCDF files are read as cubes: name the dimensions"):
        fit(str(tmp_path / "cube.nc"), str(tmp_path / "run.zarr"), DPMeans(100.0))


def test_a_file_that_xarray_cannot_open_says_what_reads_netcdf_4(tmp_path, monkeypatch):
    def no_engine(*_, **__):
        raise ValueError("found the following matches with the input file: ['h5netcdf']")

    path = tmp_path / "cube.nc"
    made().to_netcdf(path, engine="scipy")
    monkeypatch.setattr(xr, "open_dataset", no_engine)
    for there, advised in ((None, True), (object(), False)):
        monkeypatch.setattr(cube_dataset, "find_spec", lambda _, there=there: there)
        with pytest.raises(
            InputError, match=r"cube\.nc cannot be opened as a cube.*h5net"
        ) as found:
            fit(str(path), str(tmp_path / "run.zarr"), DPMeans(1.0), samples=("a",), features="b")
        assert ("pip install 'dask-dpmeans[xarray]'" in str(found.value)) == advised


@pytest.mark.parametrize("engine", ENGINES)
def test_dates_of_other_calendars_stay_numbers_with_their_calendar(engine, tmp_path):
    pytest.importorskip(engine)
    days = {"units": "days since 2000-01-01", "calendar": "360_day", "bounds": "time_bounds"}
    dated = made().assign_coords(time=("time", [58.0, 59.0, 60.0, 61.0], days))
    dated["time_bounds"] = ("time", "bound"), np.ones((4, 2))
    dated.to_netcdf(tmp_path / "cube.nc", engine=engine, format=ENGINES[engine])
    names = {"samples": ("lat", "lon"), "features": "time"}
    run = tmp_path / "run.zarr"
    model = fit(str(tmp_path / "cube.nc"), str(run), DPMeans(100.0), variables="sst", **names)
    assert model.n_clusters_ == 2
    with xr.open_zarr(run, consolidated=False, decode_times=False) as opened:
        assert opened.cluster_centers.time.values.tolist() == [58.0, 59.0, 60.0, 61.0]
        assert opened.time.attrs["units"] == days["units"]
        assert opened.time.attrs["calendar"] == "360_day"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_changes_between_passes_is_refused(engine, tmp_path):
    """A place of it is a gap, that was a row."""
    pytest.importorskip(engine)
    path, cube = str(tmp_path / "cube.nc"), made()
    cube.to_netcdf(path, engine=engine, format=ENGINES[engine])
    names = {"samples": ("lat", "lon"), "features": "time", "variables": "sst"}
    seen = []

    def change(step, *_):
        seen.append(step)
        later = cube.copy(deep=True)
        later["sst"][:, 0, 0] = np.nan
        (tmp_path / "cube.nc").unlink()
        later.to_netcdf(path, engine=engine, format=ENGINES[engine])

    options = {"threads": 1, "memory_limit": 2000, "on_step": change}
    with pytest.raises(CorruptStoreError, match=r"cube\.nc has changed: samples 0 to"):
        fit(path, str(tmp_path / "run.zarr"), DPMeans(9.0), **names, **options)
    assert seen


@pytest.mark.parametrize("kept", [100, 3000])
def test_a_cut_file_is_said_to_be_damaged(kept, tmp_path):
    pytest.importorskip("h5netcdf")
    path = tmp_path / "cube.nc"
    made().to_netcdf(path, engine="h5netcdf", format="NETCDF4")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"cube\.nc is damaged, .*truncated file"):
        fit(str(path), str(tmp_path / "run.zarr"), DPMeans(1.0), samples=("a",), features="b")
    with pytest.raises(InputError, match=r"none\.nc cannot be opened as a cube, .*No such file"):
        fit(str(tmp_path / "none.nc"), str(tmp_path / "run.zarr"), DPMeans(1.0), samples=("a",))
