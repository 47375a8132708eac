"""
Many image patches, from store to store
=======================================

Count the seconds of an iteration, and the iterations (Kulis & Jordan 2012, section 6.2).

The paper clusters 312,320 patches of 128 numbers. The example cuts patches of 16 x 8 pixels out of
images that it makes itself: dead leaves, which are disks of random gray that cover each other. Such
patches have edges, as patches of photographs have (Lee, Mumford & Huang 2001). The patches are
written to a Zarr store and clustered from there, and the run is a store too. The paper does not
state its penalty. The example takes the penalty of the farthest-first heuristic, told
``--clusters``.

``python examples/image_patches.py --rows 312320 --clusters 200`` has the size of the paper.
"""

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import click
import numpy as np
import zarr

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.engine.history import Record
from dask_dpmeans.estimators.gibbs import GibbsMixture
from dask_dpmeans.selection.penalty import farthest_first

SIDE = 256
"""Pixels of an image, each way."""
PATCH = (16, 8)
PATCHES = SIDE * SIDE // (PATCH[0] * PATCH[1])
"""Of an image."""
LEAVES = 1500
"""Disks that an image is made of; the first ones are covered whole."""
Array = np.ndarray[Any, Any]


class Speed(NamedTuple):
    """What a fit took."""

    clusters: int
    settled: int | None
    """Iterations until the objective falls by less than 1e-4 of it in one that opens nothing."""
    iterations: int
    """All; of DP-means until the centers repeat."""
    seconds: float
    """An iteration."""


def leaves(rng: np.random.Generator) -> Array:
    """An image, (SIDE, SIDE) uint8: disks of which there are as many of one size as are needed to cover as much."""
    image = np.zeros((SIDE, SIDE), np.uint8)
    radii = 1 / np.sqrt(rng.uniform(1 / 100**2, 1 / 3**2, LEAVES))
    for radius, (row, column), gray in zip(
        radii, rng.uniform(0, SIDE, (LEAVES, 2)), rng.integers(256, size=LEAVES), strict=True
    ):
        top, left = max(0, int(row - radius)), max(0, int(column - radius))
        part = image[top : int(row + radius) + 2, left : int(column + radius) + 2]
        y, x = np.ogrid[: part.shape[0], : part.shape[1]]
        part[(y + top - row) ** 2 + (x + left - column) ** 2 < radius**2] = gray
    return image


def patches(n: int, seed: int = 0) -> Iterator[Array]:
    """n patches, (m, 128) uint8 at a time, one image after the other."""
    for number, start in enumerate(range(0, n, PATCHES)):
        image = leaves(np.random.default_rng([seed, number]))
        high, wide = PATCH
        cut = image.reshape(SIDE // high, high, SIDE // wide, wide).swapaxes(1, 2)
        yield cut.reshape(PATCHES, high * wide)[: n - start]


def write(path: Path, n: int) -> "zarr.Array[Any]":
    """A store of n patches."""
    store = zarr.create_array(
        path, shape=(n, PATCH[0] * PATCH[1]), chunks=(16 * PATCHES, 128), dtype=np.uint8
    )
    start = 0
    for some in patches(n):
        store[start : start + len(some)] = some
        start += len(some)
    return store


def dp_means(data: Path, run: Path, penalty: float) -> Speed:
    """DP-means from store to store, until the centers repeat."""
    history = fit(data, run, DPMeans(penalty, tol=0, max_iter=100_000)).history_
    seconds = sum(step.seconds for step in history) / len(history)
    return Speed(history[-1].n_clusters, settled(history), len(history), seconds)


def settled(history: list[Record]) -> int:
    """Iterations until one that opens nothing lowers the objective by less than 1e-4 of it, or all."""
    for number, (before, after) in enumerate(pairwise(history), start=2):
        if not after.births and before.objective - after.objective < 1e-4 * after.objective:
            return number
    return len(history)


def gibbs(rows: Array, sweeps: int) -> Speed:
    """Sweeps of the sampler, from one cluster on."""
    centered = rows - rows.mean(axis=0)
    started = perf_counter()
    model = GibbsMixture(float(centered.var()) / 4, max_iter=sweeps, random_state=0).fit(centered)
    return Speed(model.n_clusters_, None, sweeps, (perf_counter() - started) / sweeps)


@click.command()
@click.option(
    "--rows", "n", default=8192, show_default=True, type=click.IntRange(2), help="Patches."
)
@click.option(
    "--clusters",
    default=20,
    show_default=True,
    type=click.IntRange(1),
    help="About how many to find.",
)
@click.option(
    "--sweeps", default=3, show_default=True, type=click.IntRange(0), help="Of the Gibbs sampler."
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Where the stores are left; else they are removed.",
)
def main(n: int, clusters: int, sweeps: int, folder: Path | None) -> None:
    """Cluster patches of images from store to store; print iterations, and seconds of an iteration."""
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        data = place / "patches.zarr"
        store = write(data, n)
        penalty = farthest_first(data, clusters).penalty
        click.echo(f"{n:,} patches of {PATCH[0]} x {PATCH[1]} pixels; penalty {penalty:,.0f}")
        click.echo(
            f"{'':10}{'clusters':>10}{'settled':>10}{'iterations':>12}{'seconds an iteration':>22}"
        )
        found = {"DP-means": dp_means(data, place / "run.zarr", penalty)}
        if sweeps:
            found["Gibbs"] = gibbs(np.asarray(store[:], np.float64), sweeps)
    for name, speed in found.items():
        click.echo(
            f"{name:10}{speed.clusters:10,}{speed.settled or '':>10}{speed.iterations:12,}{speed.seconds:22.3f}"
        )
    click.echo(
        "published for 312,320 patches: DP-means 63 iterations of 37.9 seconds, Gibbs 29.4 seconds a sweep"
    )


if __name__ == "__main__":
    main()
