"""The names of the columns in a run, as xarray reads them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from dask_dpmeans import DPMeans, KernelDPMeans, SpectralDPMeans, fit, load

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.standard_normal((300, 3)), columns=list("abc"))


def opened(run: Path) -> xr.Dataset:
    return xr.open_zarr(run, consolidated=False)


@pytest.mark.parametrize(
    ("model", "columns", "scale"),
    [
        (DPMeans(9.0), None, None),
        (DPMeans(0.5, metric="cosine"), ["c", "a"], None),
        (DPMeans(5000, metric="haversine"), ["b", "c"], None),
        (DPMeans(9.0, search=True), ["b", "c"], "std"),
    ],
)
def test_centers_have_the_names_of_the_columns(
    tmp_path: Path, model: Any, columns: list[str] | None, scale: str | None
) -> None:
    found = fit(FRAME, tmp_path / "run", model, columns=columns, scale=scale)
    centers = opened(tmp_path / "run").cluster_centers
    names = columns or ["a", "b", "c"]
    assert centers.feature.values.tolist() == names
    for number, name in enumerate(names):
        expected = found.cluster_centers_[:, number]
        np.testing.assert_array_equal(centers.sel(feature=name), expected)


@pytest.mark.parametrize(
    ("data", "model"),
    [
        (FRAME.to_numpy(), DPMeans(9.0)),
        (FRAME, SpectralDPMeans(1.0)),
        (FRAME, KernelDPMeans(0.5, approximation="fourier", n_components=3)),
    ],
)
def test_other_centers_have_no_names(tmp_path: Path, data: Any, model: Any) -> None:
    fit(data, tmp_path / "run", model)
    assert "feature" not in opened(tmp_path / "run").coords


def test_a_run_with_names_is_replaced_whole(tmp_path: Path) -> None:
    fit(FRAME, tmp_path / "run", DPMeans(9.0))
    fit(FRAME.to_numpy(), tmp_path / "run", DPMeans(9.0), force=True)
    assert "feature" not in opened(tmp_path / "run").coords
    assert load(tmp_path / "run").n_features_in_ == 3


def test_centers_of_a_cube_have_its_coordinates_and_units(tmp_path: Path) -> None:
    levels = ("level", [500.0, 850.0, 1000.0], {"units": "hPa"})
    cube = xr.DataArray(FRAME.to_numpy().reshape(30, 10, 3), dims=("y", "x", "level"))
    cube.assign_coords(level=levels).to_dataset(name="t").to_zarr(
        tmp_path / "cube", zarr_format=3, consolidated=False
    )
    found = fit(tmp_path / "cube", tmp_path / "run", DPMeans(9.0), features="level")
    centers = opened(tmp_path / "run").cluster_centers
    assert centers.feature.values.tolist() == list(found.feature_names_in_)
    assert centers.level.dims == ("feature",)
    assert centers.level.values.tolist() == [500.0, 850.0, 1000.0]
    assert centers.level.attrs["units"] == "hPa"
