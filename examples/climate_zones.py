"""
Climate zones and typical years: one cube, read both ways
=========================================================

Cluster the places of a climate projection by their years, and its years by their places.

The cube has the dimensions time, latitude and longitude. With places as samples, a cluster is a
climate zone; each place counts by the cosine of its latitude. With years as samples, a cluster is a
typical year, and its center is a map. Places are features then, so their squares are weighted: the
values are multiplied by the square root of the cosine, in one line of xarray.

The price of a zone is given: a further zone must save that much squared error a year. The price of
a typical year is chosen from the data. ``--file`` reads a NetCDF file, ``--variable`` one of its
variables; otherwise a projection of 120 years over a continent is made.
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

PLACES = ("latitude", "longitude")


def synthetic(seed: int = 0) -> xr.DataArray:
    """Return 120 yearly mean temperatures of a continent that warms in its second half."""
    rng = np.random.default_rng(seed)
    year = xr.DataArray(1980 + np.arange(120), dims="time", name="time")
    latitude = xr.DataArray(np.arange(15.0, 61.0, 3.0), dims="latitude")
    longitude = xr.DataArray(np.arange(225.0, 316.0, 4.0), dims="longitude")
    land = ((longitude - 265) / 32) ** 2 + ((latitude - 52) / 24) ** 2 < 1
    mean = 302 - 0.014 * (latitude - 10) ** 2 - 5 * land * (latitude - 20) / 40
    mean = mean + 2 * np.sin(np.deg2rad(4 * longitude + 3 * latitude))
    warming = 3 / (1 + np.exp(-(year - 2050) / 4)) * (0.7 + 0.6 * land)
    of_year = xr.DataArray(0.2 * rng.standard_normal(120), dims="time")
    cube = (mean + warming + of_year).transpose("time", *PLACES)
    cube = cube + 0.3 * rng.standard_normal(cube.shape)
    return cube.assign_coords(
        time=year,
        latitude=("latitude", latitude.values, {"units": "degrees_north"}),
        longitude=("longitude", longitude.values, {"units": "degrees_east"}),
    )


def weights_of(cube: xr.DataArray) -> xr.DataArray:
    """Return the weight of each latitude, its cosine."""
    return np.cos(np.deg2rad(cube["latitude"]))


def fits(cube: xr.DataArray, price: float) -> tuple[DPMeans, DPMeans]:
    """Return the zones and the typical years of yearly temperatures."""
    zones = DPMeans(price * cube.sizes["time"], search=True, random_state=0)
    zones.fit(cube, samples=PLACES, sample_weight="latitude")
    years = DPMeans(random_state=0).fit(cube * np.sqrt(weights_of(cube)), samples="time")
    return zones, years


def typical_years(cube: xr.DataArray, years: DPMeans) -> tuple[xr.DataArray, list[int]]:
    """Return a map of each typical year in °C, and the clusters, the coldest first."""
    maps = years.centers_dataarray_ / np.sqrt(weights_of(cube)) - 273.15
    return maps, np.argsort(maps.weighted(weights_of(cube)).mean(PLACES).values).tolist()


def figure(path: Path, cube: xr.DataArray, zones: DPMeans, years: DPMeans) -> None:
    """Draw the zones, the warmest typical year less the coldest, and the cluster of each year."""
    from matplotlib import colormaps  # noqa: PLC0415  # only for --figure
    from matplotlib.figure import Figure  # noqa: PLC0415  # only for --figure

    drawing = Figure(figsize=(11, 7), layout="constrained")
    above, below = drawing.subfigures(2, height_ratios=(3, 2))
    left, right = above.subplots(1, 2)

    means = zones.centers_dataarray_.mean("time") - 273.15
    legend = {"location": "bottom", "label": "mean of the zone, °C"}
    means.sel(cluster=zones.labels_).plot(
        ax=left, cmap="RdYlBu_r", center=False, cbar_kwargs=legend
    )
    left.set_title(f"{zones.n_clusters_} climate zones")

    maps, order = typical_years(cube, years)
    change = maps.isel(cluster=order[-1]) - maps.isel(cluster=order[0])
    legend = {"location": "bottom", "label": "difference, K"}
    change.plot(ax=right, cmap="Reds", vmin=0, cbar_kwargs=legend)
    right.set_title("the warmest typical year less the coldest")
    for axes in (left, right):
        axes.set_aspect(1 / np.cos(np.deg2rad(float(cube["latitude"].mean()))))

    axes, number = below.subplots(), np.arange(cube.sizes["time"])
    mean = cube.weighted(weights_of(cube)).mean(PLACES) - 273.15
    colors = colormaps["RdYlBu_r"](np.linspace(0.05, 0.95, len(order)))
    for rank, cluster in enumerate(order):
        those = years.labels_.values == cluster
        style = {"color": colors[rank], "label": f"typical year {rank + 1}: {those.sum()} years"}
        axes.plot(number[those], mean[those], "os^Dv<>"[rank % 7], markersize=4, **style)
    axes.set(xlabel="year of the projection", ylabel="mean temperature, °C")
    axes.legend(loc="upper left")
    drawing.savefig(path, dpi=100)


@click.command()
@click.option("--file", type=click.Path(exists=True), help="A NetCDF file.")
@click.option("--variable", default="air_temperature", help="Its variable.")
@click.option("--price", default=70.0, show_default=True, help="Of a zone, in K² of places a year.")
@click.option("--figure", "path", type=click.Path(path_type=Path), help="Draw the maps.")
def main(file: str | None, variable: str, price: float, path: Path | None) -> None:
    """Cluster places by their years, and years by their places."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    # years are counted here: dates of climate models, of 360 days, would need cftime
    cube = synthetic() if file is None else xr.open_dataset(file, decode_times=False)[variable]
    zones, years = fits(cube, price)
    spread = np.sqrt(zones.inertia_ / zones.cluster_weights_.sum() / cube.sizes["time"])
    print(
        f"{zones.n_clusters_} clusters of places, climate zones: {spread:.1f} K around their mean"
    )
    print(f"{years.n_clusters_} clusters of years: {years.choice_.reason}")
    maps, order = typical_years(cube, years)
    means = maps.weighted(weights_of(cube)).mean(PLACES).values[order]
    print("means of the typical years:", ", ".join(f"{mean:.1f} °C" for mean in means))
    if path is not None:
        figure(path, cube, zones, years)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
