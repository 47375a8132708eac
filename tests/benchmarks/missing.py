"""Missing values: `DPMeans(missing="observed")` beside imputation and k-means, on rows of which 30 % are holes.

The sets are iris and wine, scaled to unit variance, and s2 of `--data FOLDER` in eight random projections (without the
folder, Gaussians on a grid stand in).  Holes are drawn by seed, each entry alike.

`DPMeans` is fitted at the price that gives k.  Values are imputed by scikit-learn with its defaults, then KMeans is
told k, ten starts.  "ceiling" gives the rows with holes to the centers of `DPMeans` on complete rows, by the distance
in the columns that are observed: what a row has lost, centers cannot bring back.  The adjusted Rand index (ARI)
compares with the classes; rows without a value count.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from labelled_sets import Labels, Rows, grid
from sklearn.datasets import load_iris, load_wine
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import scale
from told_k import Method, Task, agreement, ours, outcomes, told_means

SHARE = 0.3
"""Of the entries."""
PROJECTIONS = 8


def projected(rows: Rows, seed: int) -> Rows:
    """(n, `PROJECTIONS`) projections to random directions of unit length, of the scaled rows."""
    drawn = np.random.default_rng(seed).standard_normal((rows.shape[1], PROJECTIONS))
    directions: Rows = drawn / np.linalg.norm(drawn, axis=0)
    return scale(rows) @ directions


def complete(data: Path | None, share: float) -> Iterator[tuple[str, Rows, Labels]]:
    """Name, rows and classes of each set."""
    if data is None:
        made = grid("grid", np.random.default_rng(0), share, 4)
        yield made.name, projected(made.rows, 0), made.references[0].labels
    else:
        with np.load(data / "s2.npz") as file:
            yield "s2", projected(file["X"].astype(np.float64), 0), file["y"]
    for name, load in (("iris", load_iris), ("wine", load_wine)):
        rows, classes = load(return_X_y=True)
        yield name, scale(rows), classes


def tasks(data: Path | None, seeds: int, share: float) -> Iterator[Task]:
    """Each set with the holes of each seed."""
    for name, rows, classes in complete(data, share):
        for seed in range(seeds):
            holes = np.random.default_rng([seed, len(rows)]).random(rows.shape) < SHARE
            forms = {"complete": rows, "holes": np.where(holes, np.nan, rows)}
            yield Task(name, forms, classes)


def impute_rows(imputer: Any) -> Method:
    """KMeans of the rows with their holes filled."""
    return lambda task: told_means(imputer.fit_transform(task.forms["holes"]), task.k)


def ceiling(task: Task) -> Labels:
    """Rows with holes, at centers of complete rows."""
    rows, holes = task.forms["complete"], task.forms["holes"]
    labels = ours("complete")(task)
    centers = np.stack([rows[labels == each].mean(axis=0) for each in range(labels.max() + 1)])
    distances = np.stack([np.nansum((holes - center) ** 2, axis=1) for center in centers], axis=1)
    return np.where(np.isnan(holes).all(axis=1), -1, distances.argmin(axis=1))


PEERS: dict[str, Method] = {
    "KMeans, complete": lambda task: told_means(task.forms["complete"], task.k),
    "DPMeans, complete": ours("complete"),
    "ceiling": ceiling,
    "mean, KMeans": impute_rows(SimpleImputer()),
    "KNNImputer, KMeans": impute_rows(KNNImputer()),
    "IterativeImputer, KMeans": impute_rows(IterativeImputer(random_state=0)),
}
OURS: dict[str, Method] = {
    f"DPMeans, {how}": ours("holes", missing=how) for how in ("observed", "unscaled")
}


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sets.")
@click.option("--seeds", default=10, show_default=True, help="Of the holes.")
@click.option(
    "--share", default=1.0, show_default=True, help="Of the rows of the set that is made."
)
@click.option("--peers", is_flag=True, help="Leave out fits of rows with holes.")
@click.option("--ours", "alone", is_flag=True, help="Leave out all others.")
def main(data: Path | None, seeds: int, share: float, peers: bool, alone: bool) -> None:
    """Print the table."""
    methods = {**({} if alone else PEERS), **({} if peers else OURS)}
    click.echo(agreement(list(outcomes(tasks(data, seeds, share), methods))))


if __name__ == "__main__":
    main()
