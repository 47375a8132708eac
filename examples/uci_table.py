"""
UCI data sets: DP-means, k-means and a Gibbs sampler
====================================================

Repeat table 1 of Kulis & Jordan 2012.

Wine and iris come with scikit-learn. The others are read from ``--data``, a folder of files
``pima.npz``, ``car.npz`` and so on, each with arrays X (rows, categories as ordinal codes, gaps as
NaN) and y (classes). Data sets without a file are left out. Columns are not scaled. A gap gets the
commonest value of its column. Each random split gives 70 % of the rows to the methods and 30 % to
the choice of alpha and sigma. The score is the arithmetic NMI with the classes, averaged over
splits.

DP-means takes its penalty by farthest-first, told the number of classes. k-means is told the number
of classes, and starts ten times. For the sampler the paper states the prior N(0, 100 I) of the
means, the choice of alpha and sigma on the 30 %, ten splits, and 6,000 sweeps, of which the first
1,000 are left out and every tenth of the others is averaged (``--full``). The tried values of alpha
and sigma are chosen here, and so is the subtraction of the mean.
"""

from collections.abc import Callable, Iterator
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import normalized_mutual_info_score

from dask_dpmeans import DPMeans
from dask_dpmeans.estimators.gibbs import GibbsMixture
from dask_dpmeans.selection.penalty import farthest_first

Array = np.ndarray[Any, Any]
SHIPPED = {"wine": load_wine, "iris": load_iris}
FILES = {
    "pima": "pima",
    "soybean": "soybean_large_307",
    "car": "car",
    "balance scale": "balance_scale",
    "breast cancer": "breast_ljubljana",
    "vehicle": "vehicle",
}
PUBLISHED = {
    "wine": (0.41, 0.43, 0.42),
    "iris": (0.75, 0.76, 0.73),
    "pima": (0.02, 0.03, 0.02),
    "soybean": (0.72, 0.66, 0.73),
    "car": (0.07, 0.05, 0.15),
    "balance scale": (0.17, 0.11, 0.14),
    "breast cancer": (0.04, 0.03, 0.04),
    "vehicle": (0.18, 0.18, 0.17),
}
"""Table 1: DP-means, k-means, Gibbs."""
CONCENTRATIONS = (0.01, 0.1, 1.0)
SHARES = (0.1, 0.2, 0.5, 1.0)
"""Sigmas that are tried, over the mean variance of the columns."""
FULL = 10, 6000
"""Splits and sweeps of the paper."""
LEAST_TRIAL, TRIAL_SHARE = 60, 30
"""Sweeps for each alpha and sigma on the 30 %, or one for so many on the 70 %."""


class DataSet(NamedTuple):
    """Rows and their classes."""

    rows: Array
    classes: Array

    @property
    def k(self) -> int:
        """Classes."""
        return len(np.unique(self.classes))

    def take(self, which: Array) -> "DataSet":
        """Some rows."""
        return DataSet(self.rows[which], self.classes[which])


def data_sets(folder: Path | None) -> Iterator[tuple[str, DataSet]]:
    """Those that are there, in the order of the table."""
    for name in PUBLISHED:
        if name in SHIPPED:
            yield name, DataSet(*SHIPPED[name](return_X_y=True))
        elif folder is not None and (folder / f"{FILES[name]}.npz").exists():
            with np.load(folder / f"{FILES[name]}.npz") as file:
                yield name, DataSet(filled(file["X"]), file["y"])


def filled(rows: Array) -> Array:
    """Rows whose gaps have the commonest value of their column, the least among equals."""
    rows = rows.astype(float)
    for column in rows.T:
        values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        column[np.isnan(column)] = values[counts.argmax()]
    return rows


def split(data: DataSet, seed: int) -> tuple[DataSet, DataSet]:
    """30 % to choose by, and 70 % to cluster."""
    order = np.random.default_rng(seed).permutation(len(data.rows))
    cut = round(0.3 * len(order))
    return data.take(order[:cut]), data.take(order[cut:])


def agreement(classes: Array, labels: Array) -> float:
    """Arithmetic NMI."""
    return float(normalized_mutual_info_score(classes, labels))


def dp_means(data: DataSet, k: int) -> float:
    """NMI of DP-means at the penalty for k clusters."""
    return agreement(
        data.classes, DPMeans(farthest_first(data.rows, k).penalty, tol=0).fit(data.rows).labels_
    )


def k_means(data: DataSet, k: int, seed: int) -> float:
    """NMI of the best of ten k-means."""
    return agreement(data.classes, KMeans(k, n_init=10, random_state=seed).fit(data.rows).labels_)


def sampled(
    data: DataSet, variance: float, alpha: float, sweeps: int, left_out: int, seed: int
) -> float:
    """Mean NMI of every tenth draw after those left out."""
    rows = data.rows - data.rows.mean(axis=0)
    model = GibbsMixture(variance, alpha, max_iter=sweeps, random_state=seed)
    draws = islice(model.draws(rows), left_out + 9, None, 10)
    return float(np.mean([agreement(data.classes, draw.labels) for draw in draws]))


def gibbs(validation: DataSet, data: DataSet, sweeps: int, seed: int) -> float:
    """NMI of the sampler with the alpha and sigma that agree best on the validation rows, in shorter chains."""
    trial = max(LEAST_TRIAL, sweeps // TRIAL_SHARE)
    unit = float(validation.rows.var(axis=0).mean())
    grid = list(product([share * unit for share in SHARES], CONCENTRATIONS))
    tried = [
        sampled(validation, variance, alpha, trial, trial // 2, seed) for variance, alpha in grid
    ]
    return sampled(data, *grid[int(np.argmax(tried))], sweeps, sweeps // 6, seed)


def methods(data: DataSet, sweeps: int) -> list[Callable[[int], float]]:
    """The columns: NMI by the seed of a split."""
    return [
        lambda seed: dp_means(split(data, seed)[1], data.k),
        lambda seed: k_means(split(data, seed)[1], data.k, seed),
        lambda seed: gibbs(*split(data, seed), sweeps, seed),
    ]


def scores(data: DataSet, splits: int, sweeps: int) -> list[float]:
    """A line of the table: mean NMI of each method."""
    return [
        float(np.mean([method(seed) for seed in range(splits)])) for method in methods(data, sweeps)
    ]


@click.command()
@click.option("--data", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--splits", default=2, show_default=True, type=click.IntRange(1))
@click.option(
    "--sweeps",
    default=1000,
    show_default=True,
    type=click.IntRange(60),
    help="One in six is left out.",
)
@click.option("--full", is_flag=True, help="As many as in the paper: 10 splits, 6,000 sweeps.")
def main(folder: Path | None, splits: int, sweeps: int, full: bool) -> None:
    """Compare DP-means, k-means and a Gibbs sampler on sets of the UCI repository (Kulis & Jordan 2012, table 1)."""
    splits, sweeps = FULL if full else (splits, sweeps)
    click.echo(
        f"NMI with the classes, {splits} splits (published); the number of clusters is not told to Gibbs"
    )
    click.echo(f"{'':14}{'DP-means':>15}{'k-means':>15}{'Gibbs':>15}")
    shown = set()
    for name, data in data_sets(folder):
        shown.add(name)
        pairs = zip(scores(data, splits, sweeps), PUBLISHED[name], strict=True)
        click.echo(f"{name:14}" + "".join(f"{score:9.3f} ({paper:.2f})" for score, paper in pairs))
    if missing := [FILES[name] for name in PUBLISHED if name not in shown]:
        click.echo(f"left out, as --data has no {', '.join(missing)}")


if __name__ == "__main__":
    main()
