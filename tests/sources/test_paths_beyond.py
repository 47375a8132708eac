"""Paths that go on where nothing is: the error names what is there, and the way out."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

from dask_dpmeans import DPMeans, InputError, fit
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.formats.cube import CubePath
from dask_dpmeans.sources.formats.h5ad import H5Array
from dask_dpmeans.sources.options import Columns, Compute, InputArrays, Requirements
from dask_dpmeans.sources.planning import lay_out
from dask_dpmeans.sources.shards import StoredShard
from dask_dpmeans.storage.arrays import MARKER


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A NetCDF file, a Zarr group, an array of NumPy and a table, in the current folder."""
    monkeypatch.chdir(tmp_path)
    rows = np.arange(60.0).reshape(20, 3)
    cube = xr.Dataset({"refl": (("y", "x", "band"), rows.reshape(5, 4, 3))})
    cube.to_netcdf("s.nc", engine="scipy")
    group = zarr.create_group("g.zarr")
    group.create_array("a/rows", data=rows)
    group.create_array("b", data=rows)
    for place in ("labels.zarr", "mine.zarr"):
        for name in ("label", "digests/label"):
            zarr.open_group(place).create_array(name, data=np.arange(3))
    zarr.open_group("labels.zarr").attrs[MARKER] = {}
    np.save("x.npy", rows)
    (tmp_path / "t.csv").write_text("age,income\n1,2\n3,4\n")
    return tmp_path


FEW = np.arange(6.0).reshape(3, 2)
BEYOND = {
    "s.nc/refl": r"s\.nc is a NetCDF file: give it alone, .*--variables refl, and the dimensions",
    "g.zarr/c": r"the Zarr group .*g\.zarr has no 'c': it has .*g\.zarr/a/rows, .*g\.zarr/b$",
    "g.zarr/a/row": r"the Zarr group .*g\.zarr/a has no 'row': it has .*g\.zarr/a/rows$",
    "labels.zarr/c": r"the Zarr group .*labels\.zarr has no 'c': it has [^,]*labels\.zarr/label$",
    "mine.zarr/c": r"it has [^,]*mine\.zarr/digests, [^,]*mine\.zarr/digests/label, [^,]*/label$",
    "g.zarr/b/0": r"g\.zarr/b is an array, and has no '0' in it: give .*g\.zarr/b$",
    "x.npy/rows": r"x\.npy is a file, and has no 'rows' in it",
    "t.csv/age": r"t\.csv is a table: name its columns as .*t\.csv#age",
}


@pytest.mark.parametrize("path", BEYOND)
def test_a_path_beyond_a_file_or_an_array_says_what_is_there(folder, path):
    with pytest.raises(InputError, match=f"^data: there is no Zarr array at .*: .*{BEYOND[path]}"):
        as_source(path)
    with pytest.raises(InputError, match=f"^data: there is no cube at .*: .*{BEYOND[path]}"):
        fit(path, "run.zarr", DPMeans(1.0), samples=("y", "x"))


@pytest.mark.parametrize(("place", "usable"), [("labels.zarr", 1), ("mine.zarr", 2)])
def test_a_group_of_the_user_may_be_called_as_our_digests_are(folder, place, usable):
    with pytest.raises(InputError, match="is a Zarr group, not an array: give one of") as told:
        as_source(FEW, place)
    assert str(told.value).count(f"{place}/") == usable


def test_the_way_out_for_a_variable_of_a_netcdf_file_works(folder):
    fit("s.nc", "run.zarr", DPMeans(1.0), variables="refl", samples=["y", "x"])
    fit("t.csv#age", "table-run.zarr", DPMeans(1.0))


@pytest.mark.parametrize("path", ["x.npy", "t.csv"])
def test_rows_with_names_of_dimensions_are_no_damaged_cube(folder, path):
    told = r"cannot be opened as a cube, .*neither a Zarr group nor a NetCDF file; leave them out"
    with pytest.raises(InputError, match=told):
        fit(path, "run.zarr", DPMeans(1.0), samples="y")


def test_an_array_without_names_of_dimensions_says_how_to_be_read(folder):
    told = r"without names of dimensions of a cube: if it holds rows, leave samples, .* out"
    with pytest.raises(InputError, match=told):
        fit("g.zarr/b", "run.zarr", DPMeans(1.0), samples="y")
    fit("g.zarr/b", "run.zarr", DPMeans(1.0))


@pytest.mark.parametrize("kind", ["NetCDF", "Zarr"])
def test_a_cube_that_a_worker_does_not_find_is_an_error_that_says_so(folder, kind):
    path = Path("s.nc")
    if kind == "Zarr":
        path = Path("cube.zarr")
        xr.open_dataset("s.nc", engine="scipy").to_zarr(path, consolidated=False)
    cube = CubePath(str(path), ("y", "x"), "band")
    layout, _ = lay_out(InputArrays(cube), Columns(), Requirements(), Compute(threads=1))
    path.rename("away")  # stands for a disk of another machine
    with pytest.raises(InputError, match=rf"{path} is not there on .* storage that every worker"):
        StoredShard(0, 20, layout.rows, None).read(0, 20)


def test_an_array_of_an_h5ad_file_that_a_worker_does_not_find_is_an_error_that_says_so(folder):
    rows = H5Array(str(folder / "cells.h5ad"), "X", (8, 2), np.dtype(np.float64), (8, 2))
    with pytest.raises(
        InputError, match=r"cells.h5ad is not there on .* storage that every worker"
    ):
        rows[:4]
