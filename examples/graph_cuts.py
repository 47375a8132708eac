"""
Graph cuts without a number of clusters
=======================================

Cluster a planted graph of 20 blocks over a range of penalties, and then a noisy image of four disks
(Kulis & Jordan 2012, section 5.2).
"""

from importlib.util import find_spec
from pathlib import Path

import click
import numpy as np
from scipy.sparse import coo_array, csr_array
from sklearn.feature_extraction.image import img_to_graph
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from dask_dpmeans import GraphCutDPMeans


def planted(
    blocks: int, size: int, inside: float, outside: float, seed: int = 0
) -> tuple[csr_array, np.ndarray]:
    """A graph whose nodes are linked with one probability inside blocks and with another outside, and the blocks."""
    rng, n = np.random.default_rng(seed), blocks * size
    truth = np.repeat(np.arange(blocks), size)
    parts = []
    for first in range(n):
        chances = np.where(truth[first + 1 :] == truth[first], inside, outside)
        others = first + 1 + np.flatnonzero(rng.random(n - first - 1) < chances)
        parts.append(np.column_stack([np.full(len(others), first), others]))
    ends = np.concatenate(parts)
    rows, columns = np.concatenate([ends, ends[:, ::-1]]).T
    return csr_array(coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))), truth


def disks(side: int = 100, noise: float = 0.2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A noisy image of four disks that touch, and the disk of each pixel, -1 outside."""
    y, x = np.indices((side, side)) / side
    centers, radii = (
        [(0.28, 0.24), (0.40, 0.50), (0.67, 0.58), (0.24, 0.70)],
        [0.16, 0.14, 0.15, 0.14],
    )
    truth = np.full((side, side), -1)
    for number, ((row, column), radius) in enumerate(zip(centers, radii, strict=True)):
        truth[(y - row) ** 2 + (x - column) ** 2 < radius**2] = number
    rng = np.random.default_rng(seed)
    return (truth >= 0) + 1.0 + noise * rng.standard_normal((side, side)), truth


def pixels(image: np.ndarray, mask: np.ndarray) -> csr_array:
    """The graph of neighboring pixels, linked the more the nearer their values are (Shi & Malik 2000)."""
    graph = csr_array(img_to_graph(image, mask=mask))
    graph.data = np.exp(-graph.data / graph.data.std())
    graph.setdiag(0.0)
    return graph


def figure(path: Path, image: np.ndarray, disk: np.ndarray, labels: np.ndarray) -> None:
    """Draw the image, and its clusters at the last penalty."""
    from matplotlib.figure import Figure  # noqa: PLC0415  only the figure needs matplotlib

    page = Figure(figsize=(7, 3.5), layout="constrained")
    left, right = page.subplots(1, 2)
    left.imshow(image, cmap="gray")
    clusters = np.full(image.shape, np.nan)
    clusters[disk >= 0] = labels
    right.imshow(clusters, cmap="viridis")
    left.set_title("a noisy image of four disks")
    right.set_title(f"{len(np.unique(labels))} clusters of its pixels")
    page.savefig(path, dpi=110)


@click.command()
@click.argument("size", default=500, type=click.IntRange(1))
@click.option(
    "--figure", "path", type=click.Path(path_type=Path), help="Draw into this file, .png or .pdf."
)
def main(size: int, path: Path | None) -> None:
    """Cluster 20 blocks of SIZE nodes over a range of penalties, and then the pixels of an image."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    graph, truth = planted(20, size, 30 / size, 1 / size)
    print(f"20 blocks of {size} nodes, {graph.nnz // 2:,} links")
    for penalty in np.round(np.arange(-0.90, -0.34, 0.05), 2):
        model = GraphCutDPMeans(penalty, random_state=0).fit(graph)
        agreement = normalized_mutual_info_score(truth, model.labels_)
        print(
            f"penalty {penalty:5.2f}: {model.n_clusters_:4} clusters, cut {model.cut_:7.3f}, NMI {agreement:.3f}"
        )

    image, disk = disks()
    links = pixels(image, disk >= 0)
    for penalty in (-0.1, -0.05, -0.04, -0.03, -0.02):
        model = GraphCutDPMeans(penalty, random_state=0).fit(links)
        agreement = adjusted_rand_score(disk[disk >= 0], model.labels_)
        print(f"four disks, penalty {penalty}: {model.n_clusters_} clusters, ARI {agreement:.3f}")
    if path is not None:
        figure(path, image, disk, model.labels_)


if __name__ == "__main__":
    main()
