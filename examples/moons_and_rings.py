"""
Two moons and two rings
=======================

Find clusters of any shape by the graph of nearest neighbors.

Each method is judged by the adjusted Rand index of its labels. Methods that need a penalty are
tried on a grid, and the best result is shown. ``python examples/moons_and_rings.py 1000`` draws
1,000 rows of each data set.
"""

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from scipy.linalg import expm
from scipy.sparse import csgraph
from sklearn.datasets import make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from dask_dpmeans import DPMeans, InputError, KernelDPMeans, SpectralDPMeans

Labels = np.ndarray[Any, Any]
DIFFUSION = 1000.0
"""Time of the diffusion, in units of one over the weight of a link."""


def data_sets(n_rows: int) -> dict[str, tuple[np.ndarray[Any, Any], Labels]]:
    """Rows and their true clusters."""
    return {
        "two moons": make_moons(n_rows, noise=0.05, random_state=0),
        "two rings": make_circles(n_rows, noise=0.05, factor=0.5, random_state=0),
    }


def plain(rows: np.ndarray[Any, Any]) -> Iterator[Labels]:
    """Labels of DP-means at each penalty, as a radius and as a price for each row."""
    for radius in np.geomspace(0.02, 5.0, 40):
        yield DPMeans(radius).fit(rows).labels_
    for price in np.geomspace(0.002, 1.0, 20):
        yield DPMeans(price * len(rows), search=True, random_state=0).fit(rows).labels_


def gaussian(rows: np.ndarray[Any, Any]) -> Iterator[Labels]:
    """Labels of the Gaussian affinity at each width and each penalty, as a share of the rows."""
    for gamma, share in product((0.5, 2.0, 8.0, 32.0, 128.0, 256.0), (0.2, 0.1, 0.05, 0.02, 0.01)):
        model = SpectralDPMeans(share * len(rows), affinity="rbf", gamma=gamma, random_state=0)
        try:
            yield model.fit(rows).labels_
        except InputError:  # no eigenvalue is greater
            continue


def balls(rows: np.ndarray[Any, Any]) -> Iterator[Labels]:
    """Labels of Gaussian kernel functions at each width and each penalty."""
    for gamma, penalty in product((0.1, 1.0, 5.0, 30.0), (0.1, 0.3, 0.6, 0.9)):
        yield KernelDPMeans(penalty, gamma=gamma).fit(rows).labels_


def diffusion(rows: np.ndarray[Any, Any]) -> Iterator[Labels]:
    """Labels of exp(-time L), L the Laplacian of the graph of 10 neighbors: where heat from each row is after a time.

    After so long it is everywhere in a shape alike, and nowhere else: all rows of a shape lie at one point of the
    kernel's space, 2 / n - 1 / n from the mean of all where there are two of one size.
    """
    near = kneighbors_graph(rows, 10)
    laplacian = csgraph.laplacian(near.maximum(near.T)).toarray()
    yield (
        KernelDPMeans(0.8 / len(rows), kernel="precomputed")
        .fit(expm(-DIFFUSION * laplacian))
        .labels_
    )


def neighbors(rows: np.ndarray[Any, Any]) -> Iterator[Labels]:
    """Labels of the graph of neighbors, at one penalty for all data."""
    yield SpectralDPMeans(0.9999, affinity="nearest_neighbors", random_state=0).fit(rows).labels_


METHODS = [
    ("DPMeans, best of 60", plain),
    ("KernelDPMeans, rbf, best of 16", balls),
    ("KernelDPMeans, diffusion", diffusion),
    ("SpectralDPMeans, rbf, best of 30", gaussian),
    ("SpectralDPMeans, nearest_neighbors", neighbors),
]
"""Name, and the labels at each setting that is tried."""


def best(tried: Iterable[Labels], truth: Labels) -> tuple[float, int]:
    """The greatest adjusted Rand index, and the number of clusters that it is of."""
    return max((adjusted_rand_score(truth, labels), len(set(labels.tolist()))) for labels in tried)


def figure(path: Path, drawn: dict[str, tuple[np.ndarray[Any, Any], Labels]]) -> None:
    """Draw the clusters of the graph of neighbors."""
    from matplotlib.figure import Figure  # noqa: PLC0415  only the figure needs matplotlib

    page = Figure(figsize=(8, 3.5), layout="constrained")
    for axes, (name, (rows, _)) in zip(page.subplots(1, 2), drawn.items(), strict=True):
        axes.scatter(*rows.T, s=10, c=next(neighbors(rows)), cmap="viridis")
        axes.set(title=f"{name}, SpectralDPMeans", aspect="equal")
    page.savefig(path, dpi=110)


@click.command()
@click.argument("n_rows", default=1000, type=click.IntRange(1))
@click.option(
    "--figure", "path", type=click.Path(path_type=Path), help="Draw into this file, .png or .pdf."
)
def main(n_rows: int, path: Path | None) -> None:
    """Compare methods on two moons and two rings of N_ROWS rows each."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    drawn = data_sets(n_rows)
    print(f"{n_rows:,} rows each; adjusted Rand index (clusters)")
    print(f"{'':36}" + "".join(f"{name:>16}" for name in drawn))
    for name, tried in METHODS:
        found = [best(tried(rows), truth) for rows, truth in drawn.values()]
        print(f"{name:36}" + "".join(f"{f'{score:.2f} ({k})':>16}" for score, k in found))
    if path is not None:
        figure(path, drawn)


if __name__ == "__main__":
    main()
