"""
Radius or price: one penalty, read in two ways
==============================================

``DPMeans(penalty)`` reads the penalty as a radius: a row farther than the square root of the
penalty from every center opens a cluster. ``DPMeans(penalty, search=True)`` reads it as a price: a
second cluster stays if it saves more squared error than it costs.

The left and the middle panel show the same 63 rows at the same penalty. The circle has the radius.
Two groups lie inside one circle, so that the radius needs one cluster for both, and the price pays
for two. The right panel fits more and more rows of the same three groups: the number of clusters by
radius hardly changes, and the number by price grows.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np

from dask_dpmeans import DPMeans

Array = np.ndarray[Any, Any]
PENALTY = 4.0
MEANS = np.array([[-0.8, 0.0], [0.8, 0.0], [3.6, 1.2]])
"""Of three groups: two within one radius, one apart."""
SHARES = (30, 30, 3)
"""Rows of the groups, for each 63 rows."""


def draw(times: int, seed: int = 4) -> Array:
    """Draw rows of three groups, (63 times, 2)."""
    truth = np.repeat(np.arange(3), np.multiply(SHARES, times))
    return MEANS[truth] + 0.25 * np.random.default_rng(seed).standard_normal((len(truth), 2))


def fits(rows: Array) -> dict[str, DPMeans]:
    """Fit the rows as a radius and as a price."""
    return {
        "as a radius": DPMeans(PENALTY).fit(rows),
        "as a price": DPMeans(PENALTY, search=True, random_state=0).fit(rows),
    }


def panel(axes: Any, rows: Array, name: str, model: DPMeans) -> None:
    """Draw rows, centers and, around each center of the radius, its circle."""
    from matplotlib.patches import Circle  # noqa: PLC0415  only the figure needs matplotlib

    for label, marker in enumerate("o^s"):
        axes.plot(
            *rows[model.labels_ == label].T, marker, markersize=4, color=f"C{label}", alpha=0.7
        )
    axes.plot(*model.cluster_centers_.T, "P", color="white", markeredgecolor="black", markersize=10)
    if name == "as a radius":
        for center in model.cluster_centers_:
            axes.add_patch(
                Circle(center, np.sqrt(PENALTY), fill=False, linestyle="--", color="0.4")
            )
    clusters = f"{model.n_clusters_} clusters, J = {model.objective_:.1f}"
    axes.set(title=f"penalty 4 {name}:\n{clusters}", aspect="equal", xlim=(-3, 6), ylim=(-3, 3.6))


def figure(
    path: Path, rows: Array, models: dict[str, DPMeans], counts: dict[int, list[int]]
) -> None:
    """Draw both readings, and clusters by the number of rows."""
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    page = Figure(figsize=(11, 3.5), layout="constrained")
    left, middle, right = page.subplots(1, 3)
    for axes, (name, model) in zip((left, middle), models.items(), strict=True):
        panel(axes, rows, name, model)
    for name, marker, found in zip(
        models, ("o--", "s-"), zip(*counts.values(), strict=True), strict=True
    ):
        right.plot(list(counts), found, marker, label=name)
    right.set(title="the same penalty, more rows", xlabel="rows", ylabel="clusters", xscale="log")
    right.legend()
    with rc_context({"svg.hashsalt": "dask_dpmeans"}):
        page.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else None)


@click.command()
@click.option(
    "--figure", "path", type=click.Path(path_type=Path), help="Draw into this file, .png or .svg."
)
def main(path: Path | None) -> None:
    """Fit the same rows at the same penalty as a radius and as a price, and count clusters as rows grow."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    rows = draw(1)
    models = fits(rows)
    for name, model in models.items():
        click.echo(
            f"{name}: {model.n_clusters_} clusters, inertia {model.inertia_:.2f}, J {model.objective_:.2f}"
        )
    counts = {
        63 * times: [model.n_clusters_ for model in fits(draw(times)).values()]
        for times in (1, 4, 16, 64, 256)
    }
    click.echo(f"{'rows':>8}{'radius':>8}{'price':>8}")
    for n_rows, (by_radius, by_price) in counts.items():
        click.echo(f"{n_rows:>8,}{by_radius:>8}{by_price:>8}")
    if path is not None:
        figure(path, rows, models, counts)
        click.echo(f"figure: {path}")


if __name__ == "__main__":
    main()
