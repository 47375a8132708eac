"""
Local minima of DP-means
========================

Show at which clusters DP-means stops, and which methods go on from there (Odashima, Ueki & Sawasaki
2016, figures 1 to 3 and table 5).

Figure 1: k-means stops at a bad solution if it starts badly. DP-means does not. But as a price the
penalty is worth more clusters if there are many rows. Figure 2: few and many rows at two points
within one radius. Figure 3: two Gaussians at the left and three at the right, few rows and many.
Table 5: the number of clusters on real data, read from ``--data``, a folder with ``mnist10.npz``
and ``quakes.npz``, each with an array X of rows: MNIST in 10 whitened principal components as in
the paper, and earthquakes of another catalog than the paper's, so their figures cannot be compared.

The paper writes lambda squared for the penalty. J is the squared error to the nearest centers +
penalty x clusters. The search is this library's own.
"""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.cluster import KMeans

from dask_dpmeans import DPMeans, OnlineDPMeans, SplitMergeDPMeans

Array = np.ndarray[Any, Any]
METHODS: dict[str, Callable[[float], Any]] = {
    "batch": lambda penalty: DPMeans(penalty, tol=0),
    "online": OnlineDPMeans,
    "split": lambda penalty: SplitMergeDPMeans(penalty, merge=False),
    "split-merge": SplitMergeDPMeans,
    "search": lambda penalty: DPMeans(penalty, search=True, random_state=0),
}
"""BD, OD, SD and SMD of the paper, and the search."""
TABLE_5 = {
    "quakes": (1.0, "8 6 529 312, best known 156, of the paper's 59,209 earthquakes"),
    "mnist10": (1000.0, "1 1 140 87, best known 65"),
}
"""Penalty, and the published clusters of BD, OD, SD and SMD."""
PENALTY = 9.0
"""Of figures 1 and 3."""


class Found(NamedTuple):
    """What a method came to."""

    clusters: int
    objective: float
    centers: Array


def found(rows: Array, penalty: float, names: tuple[str, ...] = tuple(METHODS)) -> dict[str, Found]:
    """What methods make of the same rows at the same penalty."""
    models = {name: METHODS[name](penalty).fit(rows) for name in names}
    return {
        name: Found(model.n_clusters_, model.objective_, model.cluster_centers_)
        for name, model in models.items()
    }


def two_groups(n: int, seed: int = 0) -> Array:
    """Figure 1: n rows in two groups, the left and the right, each of an upper and a lower part."""
    means = np.array([[-4.0, 0.9], [-4.0, -0.9], [4.0, 0.9], [4.0, -0.9]])
    return means[np.arange(n) % 4] + 0.2 * np.random.default_rng(seed).standard_normal((n, 2))


def two_points(n: int) -> Array:
    """Figure 2b: n rows, half of them at (-1, 0), half at (1, 0)."""
    return np.tile([[-1.0, 0.0], [1.0, 0.0]], (n // 2, 1))


def five_gaussians(n: int, seed: int = 0) -> Array:
    """Figure 3: n rows of two Gaussians at the left and three at the right, each side within a radius."""
    means = np.array([[-6.0, -0.8], [-6.0, 0.8], [6.0, -0.7], [5.4, 0.5], [6.6, 0.5]])
    rng = np.random.default_rng(seed)
    return means[rng.integers(5, size=n)] + 0.25 * rng.standard_normal((n, 2))


def k_means_from(rows: Array, centers: Array) -> Found:
    """Where k-means stops from given centers; J at the penalty of the figures."""
    model = KMeans(len(centers), init=centers, n_init=1).fit(rows)
    return Found(
        len(centers), float(model.inertia_) + PENALTY * len(centers), model.cluster_centers_
    )


def figure_1() -> dict[str, Found]:
    """k-means from two centers at the left, and from one at each side; DP-means; the search on few and many rows."""
    few, many = two_groups(12), two_groups(240)
    beside, across = np.array([[-4.0, 0.9], [-4.0, -0.9]]), np.array([[-4.0, 0.0], [4.0, 0.0]])
    return {
        "a) k-means from two centers at the left": k_means_from(few, beside),
        "a) k-means from one at each side": k_means_from(few, across),
        "b) DP-means": found(few, PENALTY, ("batch",))["batch"],
        "b) search": found(few, PENALTY, ("search",))["search"],
        "c) DP-means, 20 times the rows": found(many, PENALTY, ("batch",))["batch"],
        "c) search, 20 times the rows": found(many, PENALTY, ("search",))["search"],
    }


def figure_2() -> dict[int, dict[str, Found]]:
    """By number of rows, at penalty 100."""
    return {n: found(two_points(n), 100.0) for n in (20, 2000)}


def figure_3() -> dict[int, dict[str, Found]]:
    """By number of rows."""
    return {n: found(five_gaussians(n), PENALTY) for n in (25, 500)}


def table_5(folder: Path | None) -> Iterator[tuple[str, float, str, dict[str, Found]]]:
    """Name, penalty, published figures, and what was found, of the data that is there."""
    for name, (penalty, published) in TABLE_5.items():
        if folder is not None and (folder / f"{name}.npz").exists():
            with np.load(folder / f"{name}.npz") as file:
                yield name, penalty, published, found(file["X"], penalty)


def draw_figure(path: Path, by_rows: dict[int, dict[str, Found]]) -> None:
    """Figure 3: rows and centers of each method."""
    from matplotlib.figure import Figure  # noqa: PLC0415  the one part of the example that needs it

    page = Figure(figsize=(13, 4), layout="constrained")
    panels = page.subplots(len(by_rows), len(METHODS), sharex=True, sharey=True)
    for line, (n, each) in zip(panels, by_rows.items(), strict=True):
        rows = five_gaussians(n)
        for panel, (name, one) in zip(line, each.items(), strict=True):
            panel.scatter(*rows.T, s=4, c="0.7")
            panel.scatter(*one.centers.T, s=40, c="k", marker="x")
            panel.set_title(f"{name}, {n:,} rows: {one.clusters} clusters", fontsize="small")
    page.supxlabel("first column")
    page.supylabel("second column")
    page.savefig(path, dpi=100)


def line(name: str, one: Found) -> str:
    """A line of a table."""
    return f"  {name:42}{one.clusters:6,} clusters  J {one.objective:12,.1f}"


@click.command()
@click.option("--data", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--figure",
    "path",
    type=click.Path(path_type=Path),
    help="Draw figure 3 into this file, .png or .pdf.",
)
def main(folder: Path | None, path: Path | None) -> None:
    """Make figures 1 to 3 and, with --data, table 5 of Odashima, Ueki & Sawasaki 2016 again."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    click.echo(f"figure 1, penalty {PENALTY:g}")
    for name, one in figure_1().items():
        click.echo(line(name, one))
    for n, each in figure_2().items():
        click.echo(f"figure 2, {n:,} rows at two points, penalty 100")
        for name, one in each.items():
            click.echo(line(name, one))
    third = figure_3()
    for n, each in third.items():
        click.echo(f"figure 3, {n:,} rows of five Gaussians, penalty {PENALTY:g}")
        for name, one in each.items():
            click.echo(line(name, one))
    for data, penalty, published, each in table_5(folder):
        click.echo(
            f"table 5, {data}, penalty {penalty:g}; published (batch, online, split, split-merge) {published}"
        )
        for name, one in each.items():
            click.echo(line(name, one))
    if folder is None:
        click.echo("table 5 needs --data, a folder with mnist10.npz and quakes.npz")
    if path is not None:
        draw_figure(path, third)
        click.echo(f"figure: {path}")


if __name__ == "__main__":
    main()
