"""
Earthquakes on a map
====================

Find regions of a radius in kilometers, without a given number of regions.

With ``metric="haversine"`` rows are latitudes and longitudes in degrees. A penalty as a radius is a
length in kilometers along a great circle, and no quake lies outside the radius of its region. A
penalty as a price is in square kilometers: it compares the cost of one more region with the squared
distance that it saves. The example takes a price that gives about as many regions.

``--data FILE`` reads a table with the columns latitude, longitude and mag, such as a catalog of the
USGS. Without it the example draws quakes along random faults.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from dask_dpmeans import DPMeans
from dask_dpmeans.selection.penalty import penalty_for

try:
    import pandas as pd
except ModuleNotFoundError as error:
    raise SystemExit('this example needs pandas: pip install "dask-dpmeans[examples]"') from error

Array = np.ndarray[Any, Any]
PLACE = ["latitude", "longitude"]


def drawn(n: int, seed: int = 0) -> pd.DataFrame:
    """Quakes along arcs, as plates meet; magnitudes fall off tenfold a unit (Gutenberg & Richter 1944)."""
    rng = np.random.default_rng(seed)
    faults = rng.uniform([-60, -180], [60, 180], (12, 2))
    turns, lengths = rng.uniform(0, np.pi, 12), rng.uniform(4, 18, 12)
    fault = rng.choice(12, n, p=rng.dirichlet(np.ones(12) * 2))
    along, across = rng.uniform(-1, 1, n) * lengths[fault], rng.normal(0, 0.7, n)
    bend = 0.04 * along**2
    latitude = (
        faults[fault, 0] + along * np.sin(turns[fault]) + (across + bend) * np.cos(turns[fault])
    )
    longitude = (
        faults[fault, 1] + along * np.cos(turns[fault]) - (across + bend) * np.sin(turns[fault])
    )
    magnitude = 4.5 + rng.exponential(1 / np.log(10), n)
    return pd.DataFrame(
        {
            "latitude": latitude.clip(-89, 89),
            "longitude": (longitude + 180) % 360 - 180,
            "mag": magnitude,
        }
    )


def table(model: DPMeans, quakes: pd.DataFrame) -> list[str]:
    """The ten regions of most quakes."""
    lines = [f"{'quakes':>8}{'latitude':>10}{'longitude':>11}{'reach km':>10}{'strongest':>11}"]
    labels, strongest = model.labels_, quakes["mag"].groupby(model.labels_).max()
    distances = model.transform(quakes[PLACE])[np.arange(len(quakes)), labels]
    for region in np.argsort(-model.cluster_weights_, kind="stable")[:10]:
        latitude, longitude = model.cluster_centers_[region]
        reach = distances[labels == region].max()
        lines.append(
            f"{int(model.cluster_weights_[region]):>8,}{latitude:>10.1f}{longitude:>11.1f}{reach:>10.0f}"
            f"{strongest[region]:>11.1f}"
        )
    return lines


def figure(path: Path, quakes: pd.DataFrame, labels: Array, centers: Array) -> None:
    """A map: quakes in the gray of their region, and the centers."""
    from matplotlib.figure import Figure  # noqa: PLC0415  the one part of the example that needs it

    drawing = Figure(figsize=(9, 4.6), layout="constrained")
    axes = drawing.subplots()
    axes.scatter(
        quakes["longitude"],
        quakes["latitude"],
        c=labels * 7 % 10,
        cmap="gray",
        vmin=-4,
        vmax=12,
        s=2,
    )
    marks = {"color": "white", "markeredgecolor": "black", "markersize": 7}
    axes.plot(centers[:, 1], centers[:, 0], "P", label=f"{len(centers)} centers", **marks)
    axes.set(
        xlabel="longitude, degrees", ylabel="latitude, degrees", xlim=(-180, 180), ylim=(-90, 90)
    )
    axes.legend(loc="lower left")
    drawing.savefig(path, dpi=150)


@click.command()
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="A table of quakes.")
@click.option("--rows", default=20_000, show_default=True, help="Quakes to draw without one.")
@click.option("--radius", default=500.0, show_default=True, help="Of a region, in kilometers.")
@click.option(
    "--figure",
    "path",
    type=click.Path(path_type=Path),
    help="Draw a map into this file, .png or .pdf.",
)
def main(data: Path | None, rows: int, radius: float, path: Path | None) -> None:
    """Print the regions by radius, and by a price that makes about as many."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    quakes = (
        drawn(rows)
        if data is None
        else pd.read_csv(data).dropna(subset=["latitude", "longitude", "mag"])
    )
    quakes = quakes.reset_index(drop=True)
    places, metric = quakes[PLACE], "haversine"
    by_radius = DPMeans(radius, metric=metric, random_state=0).fit(places)
    wanted = by_radius.n_clusters_
    price = penalty_for(places, wanted, search=True, metric=metric, random_state=0).penalty
    by_price = DPMeans(price, metric=metric, search=True, random_state=0).fit(places)
    for what, model in (
        (f"within {radius:g} km", by_radius),
        (f"at a price of {price:.3g} km²", by_price),
    ):
        spread = np.sqrt(model.inertia_ / len(places))
        click.echo(
            f"{what}: {model.n_clusters_} clusters, {spread:.0f} km from a center on average (root mean square)"
        )
        click.echo("\n".join(table(model, quakes)))
    if path is not None:
        figure(path, quakes, by_radius.labels_, by_radius.cluster_centers_)
        click.echo(f"figure: {path}")


if __name__ == "__main__":
    main()
