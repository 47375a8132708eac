"""
Clusters of any shape
=====================

Find eight shapes, told nothing, beside HDBSCAN, and beside methods that are told k.

`LinkageDPMeans` finds many small clusters, and groups them where rows lie between them. HDBSCAN has
a smallest cluster of a hundredth of the rows, and at least 5; its noise is grey. Spectral clustering
takes the graph of 10 neighbors. It and KMeans are told the number of clusters. Each method is judged
by the adjusted Rand index of its labels. ``python examples/clusters_of_any_shape.py 600`` draws 600
rows of each shape.
"""

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from dask_dpmeans import LinkageDPMeans

Array = np.ndarray[Any, Any]


def spirals(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Three arms."""
    arm, radii = np.arange(n_rows) % 3, rng.uniform(0.2, 1.0, n_rows)
    angles = 1.5 * np.pi * radii + 2 * np.pi * arm / 3
    rows = np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
    return rows + 0.02 * rng.standard_normal(rows.shape), arm


def bars(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Three long bars side by side."""
    bar = np.arange(n_rows) % 3
    rows = np.column_stack([rng.uniform(0.0, 10.0, n_rows), 1.5 * bar])
    return rows + [0.0, 0.2] * rng.standard_normal(rows.shape), bar


def ring_and_blob(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A ring of few rows around a dense blob."""
    inside, angles = np.arange(n_rows) % 2, rng.uniform(0.0, 2 * np.pi, n_rows)
    ring = 3 * np.column_stack([np.cos(angles), np.sin(angles)])
    ring += 0.15 * rng.standard_normal(ring.shape)
    blob = 0.4 * rng.standard_normal(ring.shape)
    return np.where(inside[:, np.newaxis] == 1, blob, ring), inside


def shapes(n_rows: int) -> dict[str, tuple[Array, Array]]:
    """Rows and their true clusters, by the name of the shape."""
    rng = np.random.default_rng(0)
    long_blobs, blob = make_blobs(n_rows, centers=3, random_state=170)
    sizes = [n_rows // 15, n_rows // 5, n_rows - n_rows // 15 - n_rows // 5]
    means, widths = [[0.0, 0.0], [6.0, 0.0], [3.0, 9.0]], [0.4, 0.8, 2.0]
    return {
        "moons": make_moons(n_rows, noise=0.06, random_state=0),
        "rings": make_circles(n_rows, noise=0.05, factor=0.5, random_state=0),
        "spirals": spirals(n_rows, rng),
        "bars": bars(n_rows, rng),
        "long blobs": (long_blobs @ [[0.6, -0.6], [-0.4, 0.8]], blob),
        "sizes": make_blobs(sizes, centers=means, cluster_std=widths, random_state=0),
        "ring and blob": ring_and_blob(n_rows, rng),
        "one square": (rng.uniform(size=(n_rows, 2)), np.zeros(n_rows, np.int64)),
    }


def ours(rows: Array, k: int) -> Array:
    """Labels of LinkageDPMeans, told nothing."""
    labels: Array = LinkageDPMeans(random_state=0).fit(rows).labels_
    return labels


def hdbscan(rows: Array, k: int) -> Array:
    """Labels of HDBSCAN, told nothing; noise is -1."""
    labels: Array = HDBSCAN(min_cluster_size=max(5, len(rows) // 100), copy=True).fit_predict(rows)
    return labels


def spectral(rows: Array, k: int) -> Array:
    """Labels of the graph of neighbors, told k."""
    graph = {"affinity": "nearest_neighbors", "n_neighbors": 10, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a graph in several parts
        labels: Array = SpectralClustering(k, **graph).fit_predict(rows)
    return labels


def k_means(rows: Array, k: int) -> Array:
    """Labels of k-means, told k."""
    labels: Array = KMeans(k, n_init=10, random_state=0).fit_predict(rows)
    return labels


METHODS: dict[str, Callable[[Array, int], Array]] = {
    "LinkageDPMeans()": ours,
    "HDBSCAN": hdbscan,
    "spectral, told k": spectral,
    "KMeans, told k": k_means,
}
"""Functions of the rows and the true number of clusters, by name."""


def figure(path: Path, drawn: dict[str, tuple[Array, Array]], found: list[list[Array]]) -> None:
    """Draw the labels of each method on each shape."""
    from matplotlib import colormaps  # noqa: PLC0415  only the figure needs matplotlib
    from matplotlib.figure import Figure  # noqa: PLC0415

    page = Figure(figsize=(2 * len(drawn), 2 * len(METHODS) + 0.5), layout="constrained")
    panels = page.subplots(len(METHODS), len(drawn))
    for line, method in enumerate(METHODS):
        panels[line, 0].set_ylabel(method)
        for column, (name, (rows, truth)) in enumerate(drawn.items()):
            axes, labels = panels[line, column], found[line][column]
            colors = colormaps["turbo"]((labels * 0.618 + 0.1) % 1.0)
            colors[labels < 0] = 0.7, 0.7, 0.7, 1.0
            axes.scatter(*rows.T, s=5, c=colors, linewidth=0)
            score = f"{adjusted_rand_score(truth, labels):.2f} ({len(set(labels[labels >= 0]))})"
            axes.set(xticks=[], yticks=[], xlabel=score)
            if line == 0:
                axes.set_title(name)
    page.savefig(path, dpi=80)


@click.command()
@click.argument("n_rows", default=1000, type=click.IntRange(100))
@click.option(
    "--figure", "path", type=click.Path(path_type=Path), help="Draw into this file, .png or .pdf."
)
def main(n_rows: int, path: Path | None) -> None:
    """Compare methods on eight shapes of N_ROWS rows each."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    drawn = shapes(n_rows)
    with threadpool_limits(1):
        found = [
            [method(rows, len(set(truth.tolist()))) for rows, truth in drawn.values()]
            for method in METHODS.values()
        ]
    print(f"{n_rows:,} rows each; adjusted Rand index (clusters)")
    print(f"{'':18}" + "".join(f"{name:>15}" for name in drawn))
    for name, labels in zip(METHODS, found, strict=True):
        pairs = zip(labels, drawn.values(), strict=True)
        cells = [
            f"{adjusted_rand_score(truth, each):.2f} ({len(set(each[each >= 0].tolist()))})"
            for each, (_, truth) in pairs
        ]
        print(f"{name:18}" + "".join(f"{cell:>15}" for cell in cells))
    if path is not None:
        figure(path, drawn, found)


if __name__ == "__main__":
    main()
