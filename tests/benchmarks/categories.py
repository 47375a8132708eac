"""Categories: `DPMeans(divergence="categorical")` beside ordinal codes, one-hot columns, k-modes and k-prototypes.

The sets are the UCI sets of `--data FOLDER`: an .npz file each, with codes X, NaN where a value is missing, and classes
y.  For other methods a missing value is the commonest one of its column.  Without the folder, a
set is made: five classes, each with its own favorite of four categories in each of twelve columns.

`DPMeans` is fitted at the price that gives k: to categories, with missing values as such, and to mixed columns, of
which those with an order are squared.  `DPMeans` and KMeans are also fitted to ordinal codes and to one-hot columns.
k-modes (Huang) and k-prototypes, of the same mixed columns scaled to unit variance, are told k, ten starts; both are
left out where kmodes is not installed.  ARI and NMI (arithmetic, as in table 1 of Kulis & Jordan 2012) compare with the
classes.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from labelled_sets import Labels, Rows
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, scale
from told_k import STARTS, Method, Task, agreement, ours, outcomes, told_means

ORDERED: dict[str, tuple[int, ...]] = {
    "soybean_small": (),
    "soybean_large_307": (),
    "car": (2, 3),
    "breast_ljubljana": (0, 2, 3, 5),
    "breast_wisconsin": (),
}
"""Columns of numbers: doors and persons; age, sizes, nodes and degree of malignancy."""


def codes(rows: Rows) -> Rows:
    """The codes 0, 1 and so on of each column's values; NaN remains."""
    coded = np.full(rows.shape, np.nan)
    for number, column in enumerate(rows.T):
        there = ~np.isnan(column)
        coded[there, number] = np.unique(column[there], return_inverse=True)[1]
    return coded


def task(name: str, rows: Rows, classes: Labels, ordered: tuple[int, ...]) -> Task:
    """Columns in order and others, with and without missing values."""
    filled = SimpleImputer(strategy="most_frequent").fit_transform(rows)
    forms: dict[str, Any] = {
        "codes": codes(rows),
        "ordinal": filled,
        "one-hot": OneHotEncoder(sparse_output=False).fit_transform(filled),
    }
    if ordered:
        others = [number for number in range(rows.shape[1]) if number not in ordered]
        mixed = filled.copy()
        mixed[:, ordered] = scale(filled[:, ordered])
        forms |= {"mixed": mixed, "others": others}
    return Task(name, forms, classes)


def tasks(data: Path | None) -> Iterator[Task]:
    """The sets."""
    if data is None:
        yield made(300)
        return
    for name, ordered in ORDERED.items():
        with np.load(data / f"{name}.npz") as file:
            yield task(name, file["X"].astype(np.float64), file["y"].astype(np.int64), ordered)


def made(n: int) -> Task:
    """Half of the values are the favorite of the class; a tenth is missing, and the last columns are in order."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 5, n)
    favorites = rng.integers(0, 4, (5, 12))
    rows = np.where(rng.random((n, 12)) < 0.5, favorites[classes], rng.integers(0, 4, (n, 12)))
    rows = np.where(rng.random((n, 12)) < 0.1, np.nan, rows)
    return task("made", rows, classes, (10, 11))


def mixed(task: Task) -> Labels:
    """Squared errors of columns in order, and categories, with missing values."""
    kinds = {number: "categorical" for number in task.forms["others"]}
    columns = range(task.forms["codes"].shape[1])
    named = {number: kinds.get(number, "squared") for number in columns}
    return ours("codes", divergence=named, missing="observed")(task)


def means(form: str) -> Method:
    """KMeans told k."""
    return lambda task: told_means(task.forms[form], task.k)


def modes(task: Task) -> Labels:
    """The start of Huang."""
    method: Any = import_module("kmodes.kmodes").KModes
    model = method(task.k, init="Huang", n_init=STARTS, random_state=0)
    labels: Labels = model.fit_predict(task.forms["ordinal"].astype(np.int64))
    return labels.astype(np.int64)


def prototypes(task: Task) -> Labels:
    """Its weight of categories is half the mean deviation of the numbers."""
    rows, others = task.forms["mixed"], task.forms["others"]
    method: Any = import_module("kmodes.kprototypes").KPrototypes
    model = method(task.k, n_init=STARTS, random_state=0)
    labels: Labels = model.fit_predict(rows.astype(object), categorical=others)
    return labels.astype(np.int64)


PEERS: dict[str, Method] = {
    "DPMeans, ordinal codes": ours("ordinal"),
    "KMeans, ordinal codes": means("ordinal"),
    "DPMeans, one-hot": ours("one-hot"),
    "KMeans, one-hot": means("one-hot"),
    "k-modes": modes,
    "k-prototypes": prototypes,
}
OURS: dict[str, Method] = {
    "DPMeans, categorical": ours("codes", divergence="categorical", missing="observed"),
    "DPMeans, mixed": mixed,
}


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sets.")
@click.option("--peers", is_flag=True, help="Leave out categories as such.")
@click.option("--ours", "alone", is_flag=True, help="Leave out all others.")
def main(data: Path | None, peers: bool, alone: bool) -> None:
    """Print the table."""
    methods = {**({} if alone else PEERS), **({} if peers else OURS)}
    if not alone and find_spec("kmodes") is None:
        click.echo("k-modes and k-prototypes need kmodes: left out", err=True)
        methods = {name: each for name, each in methods.items() if not name.startswith("k-")}
    click.echo(agreement(list(outcomes(tasks(data), methods)), mutual=True))


if __name__ == "__main__":
    main()
