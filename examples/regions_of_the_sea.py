"""
Regions of the sea: a cube with gaps
====================================

Cluster the places of a sea-surface temperature cube by their series, and draw the regions on a map.

The cube has the dimensions time, latitude and longitude; land is NaN. Places are samples, months
are features, and each place is weighted by the cosine of its latitude. The time mean of each place
is taken away first, in one line of xarray, so that places are alike if they vary together. A radius
bounds how far a place may be from its region; a price asks what a further region saves; without a
penalty the price is chosen from the data. ``--file`` reads a NetCDF file, ``--variable`` one of its
variables; otherwise a cube of three regions around two continents is made.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from dask_dpmeans import DPMeans

try:
    import xarray as xr
except ModuleNotFoundError as error:
    raise SystemExit('this example needs xarray: pip install "dask-dpmeans[examples]"') from error


def synthetic(seed: int = 0) -> xr.DataArray:
    """Return a cube of 48 months of three regions that vary in their own ways; land is NaN."""
    rng = np.random.default_rng(seed)
    months = np.datetime64("2006-01") + np.arange(48)
    latitude, longitude = np.arange(-30.0, 31.0, 4.0), np.arange(0.0, 360.0, 6.0)
    north, east = np.meshgrid(latitude, longitude, indexing="ij")
    phase = 2 * np.pi * np.arange(48) / 12
    series = np.array([2 * np.sin(phase), -2 * np.sin(phase), 1.5 * np.sin(phase / 3.7)])
    tropics = (np.abs(north) < 10).astype(int)
    region = np.where(tropics > 0, 2, (north < 0).astype(int))
    values = 300 - 0.2 * np.abs(north) + np.moveaxis(series[region], -1, 0)
    values = values + 0.3 * rng.standard_normal(values.shape)
    land = (np.abs(east - 20) < 18) | (np.abs(east - 290) < 15)
    values[:, land] = np.nan
    return xr.DataArray(
        values,
        dims=("time", "latitude", "longitude"),
        coords={
            "time": months.astype("datetime64[ns]"),
            "latitude": ("latitude", latitude, {"units": "degrees_north"}),
            "longitude": ("longitude", longitude, {"units": "degrees_east"}),
        },
        name="temperature",
        attrs={"units": "K"},
    )


def fits(cube: xr.DataArray, price: float) -> dict[str, DPMeans]:
    """Return fits by a radius, by a price, and with a price that is chosen."""
    radius = price / 100
    models = {
        f"radius, penalty {radius:g}": DPMeans(radius),
        f"price, penalty {price:g}": DPMeans(price, search=True, random_state=0),
        "chosen price": DPMeans(random_state=0),
    }
    for model in models.values():
        model.fit(cube, samples=("latitude", "longitude"), sample_weight="latitude")
    return models


def figure(path: Path, models: dict[str, Any]) -> None:
    """Draw the regions of each fit on a map, beside the mean series of the largest ones."""
    from matplotlib import colormaps  # noqa: PLC0415  # only for --figure
    from matplotlib.figure import Figure  # noqa: PLC0415

    drawing = Figure(figsize=(12, 2.6 * len(models)), layout="constrained")
    axes = drawing.subplots(len(models), 2, width_ratios=(2, 1), squeeze=False)
    for (name, model), (left, right) in zip(models.items(), axes, strict=True):
        labels = model.labels_
        shown = labels.where(labels >= 0) % 20
        shown.plot(ax=left, cmap="tab20", vmin=-0.5, vmax=19.5, add_colorbar=False)
        left.set_title(f"{name}: {model.n_clusters_} regions")
        left.set_facecolor("white")
        for region in np.argsort(-model.cluster_weights_, kind="stable")[:5]:
            series = model.centers_dataarray_.sel(cluster=region)
            right.plot(series.time, series, color=colormaps["tab20"](int(region) % 20))
        right.tick_params(axis="x", rotation=30)
        right.set(title="series of the largest regions", ylabel="from the mean, K")
    drawing.savefig(path, dpi=100)


@click.command()
@click.option("--file", type=click.Path(exists=True), help="A NetCDF file.")
@click.option("--variable", default="surface_temperature", help="Its variable.")
@click.option("--price", default=2000.0, help="The penalty as a price.")
@click.option("--figure", "path", type=click.Path(path_type=Path), help="Draw the maps.")
def main(file: str | None, variable: str, price: float, path: Path | None) -> None:
    """Cluster places by their series."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    cube = synthetic() if file is None else xr.open_dataset(file)[variable]
    models = fits(cube - cube.mean("time"), price)
    for name, model in models.items():
        places = int((model.labels_ >= 0).sum())
        print(f"{name}: {model.n_clusters_} clusters of {places:,} places")
    if path is not None:
        figure(path, models)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
