"""
Winds: a dataset of two variables and four dimensions
=====================================================

Find regimes of the wind, without a given number of them.

The dataset has the variables u (to the east) and v (to the north) at each month, level, latitude and
longitude. Places are samples; variables, months and levels are features, twelve numbers a place.
The center of a regime is a wind at each level in each month, and has the names of the features.
Places count by the cosine of their latitude, or the poles would count too much.

What one sees: winds to the west at low latitudes; winds to the east on both sides, strongest aloft;
and the jets in their midst, each of which has its months. ``--file`` reads a NetCDF file with the
variables u and v; otherwise winds of that form are made.
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


def synthetic(seed: int = 0) -> xr.Dataset:
    """Return winds in m/s of January and July at 200, 500 and 850 hPa, as on a planet with jets."""
    rng = np.random.default_rng(seed)
    month = xr.DataArray([1, 7], dims="month")
    level = xr.DataArray([200, 500, 850], dims="level")
    latitude = xr.DataArray(np.arange(-87.5, 90.0, 5.0), dims="latitude")
    longitude = xr.DataArray(np.arange(-180.0, 180.0, 7.5), dims="longitude")
    aloft = (900 - level) / 700
    summer = xr.where(month == 7, 1.0, -1.0) * xr.where(latitude > 0, 1.0, -1.0)
    wave = np.sin(np.deg2rad(2 * longitude + 40))
    jet = np.exp(-(((abs(latitude) - 38 - 5 * summer) / 11) ** 2))
    trades = np.exp(-(((abs(latitude) - 10) / 10) ** 2))
    u = (6 + 28 * aloft) * (1 - 0.35 * summer) * (1 + 0.25 * wave) * jet - 7 * trades
    v = trades * np.sign(latitude) * (5 * aloft - 2.5) + 4 * jet * aloft * wave
    winds = xr.Dataset({"u": u, "v": v}).transpose("month", "level", "latitude", "longitude")
    winds = winds + 3 * rng.standard_normal(winds["u"].shape)
    return winds.assign_coords(
        month=month,
        level=level,
        latitude=("latitude", latitude.values, {"units": "degrees_north"}),
        longitude=("longitude", longitude.values, {"units": "degrees_east"}),
    )


def regimes(winds: xr.Dataset) -> DPMeans:
    """Return the fit of places by their winds."""
    features = ("variable", "month", "level")
    return DPMeans(random_state=0).fit(winds, features=features, sample_weight="latitude")


def figure(path: Path, model: DPMeans) -> None:
    """Draw the map of the regimes, and the wind of each at each level."""
    from matplotlib.colors import ListedColormap  # noqa: PLC0415  # only for --figure
    from matplotlib.figure import Figure  # noqa: PLC0415  # only for --figure

    from dask_dpmeans.figures.plot import cluster_colors  # noqa: PLC0415  # it needs matplotlib

    k, centers = model.n_clusters_, model.centers_dataarray_
    colors = cluster_colors(np.argsort(np.argsort(-model.cluster_weights_)))
    drawing = Figure(figsize=(10, 9), layout="constrained")
    above, below = drawing.subfigures(2, height_ratios=(3, 2))

    axes = above.subplots()
    labels = model.labels_
    labels.plot(ax=axes, cmap=ListedColormap(colors), vmin=-0.5, vmax=k - 0.5, add_colorbar=False)
    axes.set(title=f"{k} regimes of the wind", aspect="equal")

    eastward, height = centers.sel(variable="u"), np.arange(centers.sizes["level"])[::-1]
    panels = below.subplots(1, 2, sharex=True, sharey=True)
    for axes, month, name in zip(
        panels, eastward["month"].values, ("January", "July"), strict=True
    ):
        for cluster in range(k):
            wind = eastward.sel(cluster=cluster, month=month)
            style = {"color": colors[cluster], "marker": "os^Dv<>"[cluster % 7]}
            axes.plot(wind, height, label=str(cluster), **style)
        axes.axvline(0, color="black", linewidth=0.5)
        axes.set(title=name, xlabel="wind to the east, m/s")
    panels[0].set_yticks(height, [f"{level} hPa" for level in eastward["level"].values])
    panels[1].legend(title="regime", loc="center left", bbox_to_anchor=(1, 0.5))
    drawing.savefig(path, dpi=100)


@click.command()
@click.option("--file", type=click.Path(exists=True), help="A NetCDF file.")
@click.option("--figure", "path", type=click.Path(path_type=Path), help="Draw the regimes.")
def main(file: str | None, path: Path | None) -> None:
    """Cluster places by their winds."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    winds = synthetic() if file is None else xr.open_dataset(file)[["u", "v"]]
    model = regimes(winds)
    print(f"{model.n_clusters_} clusters: {model.choice_.reason}")
    eastward = model.centers_dataarray_.sel(variable="u")
    print(f"{'regime':>6} {'share':>6}  mean wind to the east, m/s, by level in hPa")
    for cluster in np.argsort(-model.cluster_weights_):
        share = model.cluster_weights_[cluster] / model.cluster_weights_.sum()
        means = eastward.sel(cluster=cluster).mean("month")
        told = ", ".join(f"{int(each['level'])}: {float(each):z.0f}" for each in means)
        print(f"{cluster:>6} {share:>6.1%}  {told}")
    if path is not None:
        figure(path, model)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
