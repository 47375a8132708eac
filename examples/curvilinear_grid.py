"""
A curvilinear grid: belts of the sea
====================================

Cluster the cells of an ocean model, whose grid does not follow latitudes and longitudes.

The dimensions of such a cube, y and x, are numbers of cells; latitude and longitude are coordinates
of both. The labels have these coordinates, so a map needs no other step. Cells on land are NaN: they
are left out, and have label -1.

Each cell has one number, its temperature in a month, so clusters are belts of temperature. Cells
count by the cosine of their latitude. ``--file`` reads a NetCDF file, ``--variable`` one of its
variables on the dimensions y and x; otherwise a sea on a tilted grid is made.
"""

from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np

from dask_dpmeans import DPMeans

try:
    import xarray as xr
except ModuleNotFoundError as error:
    raise SystemExit('this example needs xarray: pip install "dask-dpmeans[examples]"') from error


def synthetic(seed: int = 0) -> xr.DataArray:
    """Return temperatures of a sea in °C on a grid whose north pole lies on land; land is NaN."""
    rng = np.random.default_rng(seed)
    across, along = np.radians(np.mgrid[-74.0:75.0:2.5, -180.0:180.0:3.0])
    x, y, z = np.cos(across) * np.cos(along), np.cos(across) * np.sin(along), np.sin(across)
    tilt = np.radians(35)
    x, z = x * np.cos(tilt) + z * np.sin(tilt), z * np.cos(tilt) - x * np.sin(tilt)
    latitude, longitude = np.degrees(np.arcsin(z)), np.degrees(np.arctan2(y, x))
    values = 29 * np.cos(np.radians(latitude)) ** 2 - 1 + 2 * np.sin(2 * np.arctan2(y, x))
    values += 0.4 * rng.standard_normal(values.shape)
    values[(np.abs(longitude - 20) < 25) & (np.abs(latitude - 15) < 40)] = np.nan
    values[(np.abs(longitude + 80 - latitude / 3) < 20) & (np.abs(latitude) < 55)] = np.nan
    return xr.DataArray(
        values[np.newaxis],
        dims=("time_counter", "y", "x"),
        coords={
            "nav_lat": (("y", "x"), latitude, {"units": "degrees_north"}),
            "nav_lon": (("y", "x"), longitude, {"units": "degrees_east"}),
        },
    )


def belts(cube: xr.DataArray, price: float) -> DPMeans:
    """Return the fit of the cells."""
    model = DPMeans(price, search=True, random_state=0)
    return model.fit(cube, samples=("y", "x"), sample_weight="latitude")


def figure(path: Path, model: DPMeans) -> None:
    """Draw the belts by number of the cell, as they are stored, and on a map."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # only for --figure

    labels = model.labels_
    mean = model.centers_dataarray_.mean("time_counter").sel(cluster=labels.clip(0))
    mean = mean.where(labels >= 0)
    drawing = Figure(figsize=(8, 9), layout="constrained")
    stored, chart = drawing.subplots(2)
    colors = {"cmap": "RdYlBu_r", "vmin": float(mean.min()), "vmax": float(mean.max())}
    stored.pcolormesh(mean, **colors)
    stored.set(title="the grid of the model", xlabel="x, number of the cell", ylabel="y")
    style = {"s": 250_000 / labels.size, "marker": "s", "linewidth": 0}
    drawn = chart.scatter(labels["nav_lon"], labels["nav_lat"], c=mean, **style, **colors)
    chart.set(title=f"{model.n_clusters_} belts of the sea", aspect="equal")
    chart.set(xlabel="longitude, degrees", ylabel="latitude, degrees")
    chart.set(xlim=(-180, 180), ylim=(-90, 90))
    drawing.colorbar(drawn, ax=(stored, chart), label="mean of the belt, °C", shrink=0.6)
    drawing.savefig(path, dpi=100)


@click.command()
@click.option("--file", type=click.Path(exists=True), help="A NetCDF file.")
@click.option("--variable", default="tos", show_default=True, help="Its variable.")
@click.option("--price", default=1000.0, show_default=True, help="Of a belt, in °C² of cells.")
@click.option("--figure", "path", type=click.Path(path_type=Path), help="Draw the belts.")
def main(file: str | None, variable: str, price: float, path: Path | None) -> None:
    """Cluster the cells of a curvilinear grid."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    cube = synthetic() if file is None else xr.open_dataset(file, decode_times=False)[variable]
    model = belts(cube, price)
    labels, centers = model.labels_, model.cluster_centers_[:, 0]
    print(f"{model.n_clusters_} clusters of {int((labels >= 0).sum()):,} cells at sea")
    for belt in np.argsort(centers):
        latitude = np.abs(labels["nav_lat"].values[labels.values == belt])
        low, high = np.quantile(latitude, [0.1, 0.9])
        print(
            f"{centers[belt]:6.1f} °C, most cells {low:.0f} to {high:.0f} degrees from the equator"
        )
    if path is not None:
        figure(path, model)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
