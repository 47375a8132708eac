"""
The colors of an image
======================

Paint an image with as few colors as its pixels need.

An image is a cube with the dimensions y, x and channel: pixels are samples, channels are features.
The distance of two colors is in steps of the channels, which go from 0 to 255. With the penalty as a
radius, no pixel is farther than that from its color. With the penalty as a price, a further color
must save that much squared error; here it is the squared error of a color of the first fit on
average. What one sees: by price, fewer colors come nearer to the image.

The labels are an image too. Each pixel becomes the center of its cluster in one line of xarray. The
strips are the colors by the share of their pixels.
"""

from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
from sklearn.datasets import load_sample_image

from dask_dpmeans import DPMeans

try:
    import xarray as xr
except ModuleNotFoundError as error:
    raise SystemExit('this example needs xarray: pip install "dask-dpmeans[examples]"') from error


def picture(name: str, step: int) -> xr.DataArray:
    """Return a picture that comes with scikit-learn, each `step`-th row and column."""
    return xr.DataArray(load_sample_image(f"{name}.jpg"), dims=("y", "x", "channel"))[
        ::step, ::step
    ]


def fits(image: xr.DataArray, radius: float) -> dict[str, DPMeans]:
    """Return a fit by a radius, and one by a price, the mean squared error of its clusters."""
    by_radius = DPMeans(radius**2).fit(image, features="channel")
    price = by_radius.inertia_ / by_radius.n_clusters_
    by_price = DPMeans(price, search=True, random_state=0).fit(image, features="channel")
    return {f"radius {radius:g}": by_radius, f"price {price:,.0f}": by_price}


def painted(model: DPMeans) -> xr.DataArray:
    """Return the image with each pixel in the color of its cluster, (y, x, channel)."""
    return model.centers_dataarray_.sel(cluster=model.labels_).round().astype(np.uint8)


def figure(path: Path, image: xr.DataArray, models: dict[str, DPMeans]) -> None:
    """Draw the image, and for each fit the painted image and the colors by their share."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # only for --figure

    drawing = Figure(figsize=(11, 3.4), layout="constrained")
    axes = drawing.subplots(2, 1 + len(models), height_ratios=(12, 1), squeeze=False)
    axes[0, 0].imshow(image)
    axes[0, 0].set_title(f"{len(np.unique(image.values.reshape(-1, 3), axis=0)):,} colors")
    for (name, model), column in zip(models.items(), axes[:, 1:].T, strict=True):
        column[0].imshow(painted(model))
        column[0].set_title(f"{name}: {model.n_clusters_} colors")
        order = np.argsort(-model.cluster_weights_)
        edges = np.concatenate([[0], np.cumsum(model.cluster_weights_[order])])
        strip = model.cluster_centers_[order][np.newaxis].round().astype(np.uint8)
        column[1].pcolormesh(edges, [0, 1], strip)
    for each in axes.flat:
        each.set_axis_off()
    drawing.savefig(path, dpi=100)


@click.command()
@click.option(
    "--name", type=click.Choice(["flower", "china"]), default="china", help="The picture."
)
@click.option("--radius", default=60.0, show_default=True, help="Of a color, from 0 to 442.")
@click.option("--step", default=2, show_default=True, help="Take each so many-th row and column.")
@click.option("--figure", "path", type=click.Path(path_type=Path), help="Draw the images.")
def main(name: str, radius: float, step: int, path: Path | None) -> None:
    """Cluster the pixels of an image by color."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    image = picture(name, step)
    models = fits(image, radius)
    for told, model in models.items():
        away = np.abs(painted(model).astype(int) - image.astype(int)).mean()
        print(
            f"{told}: {model.n_clusters_} clusters of colors, {float(away):.1f} of 255 off a channel"
        )
    if path is not None:
        figure(path, image, models)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
