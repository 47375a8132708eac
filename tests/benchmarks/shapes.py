"""Clusters of any shape: `LinkageDPMeans` beside its peers on labelled sets.

With `--data FOLDER`, the sets are `FOLDER/shapes/*.npz`, with rows `X` and one or more references `y0`, `y1` and so on,
in which 0 is noise and left out.  Otherwise the sets are made from a seed.  With `--images`, the sets are the digits of
scikit-learn, and `FOLDER/mnist10.npz` with labels `y`.

HDBSCAN has a `min_cluster_size` of a hundredth of the rows, and at least 5; its noise is one more label.  KMeans has
ten starts.  Methods that are told k fit once for each number of clusters of the references.  Genie is left out where
genieclust is not installed.  Spectral clustering takes the graph of ten neighbors, for images alone.  Otherwise the
methods have their defaults.

The adjusted Rand index (ARI) compares labels with a reference; the reference that suits a method best counts.  Seconds
are processor seconds of one fit on one thread, after a fit of a few rows; all methods take turns on a set.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
from labelled_sets import LabelledSet, Labels, Reference, Rows, apart, pair, stored
from sklearn.cluster import HDBSCAN, SpectralClustering
from sklearn.datasets import load_digits
from unknown_k import TOLD as KMEANS
from unknown_k import (
    Comparison,
    Found,
    Method,
    mean_agreement,
    ours,
    outcome,
    results,
    share,
    table,
    told_means,
)

from dask_dpmeans import LinkageDPMeans

OURS, OURS_TOLD = "LinkageDPMeans()", "LinkageDPMeans told k"
FEWEST, PART = 5, 100
"""HDBSCAN's `min_cluster_size`: at least the first number, else the rows over the second."""
NEIGHBORS = 10
"""Of spectral clustering."""


@dataclass(frozen=True)
class Entry:
    """A method of the tables."""

    labels: Method
    told: bool
    """Whether it is told the number of clusters."""


def linkage(rows: Rows, told: int, most: int) -> Labels:
    """Clusters of any shape, told nothing."""
    labels: Labels = LinkageDPMeans(random_state=0).fit(rows).labels_
    return labels


def linkage_told(rows: Rows, told: int, most: int) -> Labels:
    """Clusters of any shape, told k."""
    labels: Labels = LinkageDPMeans(n_clusters=told, random_state=0).fit(rows).labels_
    return labels


def hdbscan(rows: Rows, told: int, most: int) -> Labels:
    """Noise is -1."""
    least = max(FEWEST, len(rows) // PART)
    labels: Labels = HDBSCAN(min_cluster_size=least, copy=True).fit_predict(rows)
    return labels


def genie(rows: Rows, told: int, most: int) -> Labels:
    """Single linkage with a limit of the Gini index of the sizes."""
    method: Any = import_module("genieclust").Genie
    labels: Labels = method(n_clusters=told).fit_predict(rows)
    return labels


def spectral(rows: Rows, told: int, most: int) -> Labels:
    """The graph of ten neighbors."""
    graph = {"affinity": "nearest_neighbors", "n_neighbors": NEIGHBORS, "random_state": 0}
    labels: Labels = SpectralClustering(told, **graph).fit_predict(rows)
    return labels


METHODS = {
    OURS: Entry(linkage, told=False),
    OURS_TOLD: Entry(linkage_told, told=True),
    "DPMeans()": Entry(ours, told=False),
    "HDBSCAN": Entry(hdbscan, told=False),
    KMEANS: Entry(told_means, told=True),
    "Genie told k": Entry(genie, told=True),
    "spectral told k": Entry(spectral, told=True),
}


def methods(*, with_spectral: bool) -> dict[str, Entry]:
    """The methods that are installed, by name."""
    found = dict(METHODS)
    if find_spec("genieclust") is None:
        click.echo("Genie needs genieclust: left out", err=True)
        del found["Genie told k"]
    if not with_spectral:
        del found["spectral told k"]
    return found


def circle(rng: np.random.Generator, n: int, radius: float, width: float) -> Rows:
    """(n, 2) rows near a circle around the origin."""
    angles = rng.uniform(0.0, 2 * np.pi, n)
    radii = radius + width * rng.standard_normal(n)
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])


def rings(rng: np.random.Generator, n: int) -> list[Rows]:
    """Three rings, one inside the other, with equally many rows each."""
    return [circle(rng, n // 3, radius, 0.08) for radius in (1.0, 2.0, 3.0)]


def moons(rng: np.random.Generator, n: int) -> list[Rows]:
    """Two half circles, one of them turned into the other."""
    angles = rng.uniform(0.0, np.pi, (2, n // 2))
    upper, lower = (np.column_stack([np.cos(each), np.sin(each)]) for each in angles)
    return [_blurred(rng, each, 0.06) for each in (upper, np.array([1.0, 0.5]) - lower)]


def spirals(rng: np.random.Generator, n: int) -> list[Rows]:
    """Three arms."""
    arms = []
    for turn in range(3):
        radii = rng.uniform(0.15, 1.0, n // 3)
        angles = 1.5 * np.pi * radii + 2 * np.pi * turn / 3
        arm = np.column_stack([radii * np.cos(angles), radii * np.sin(angles)])
        arms.append(_blurred(rng, arm, 0.015))
    return arms


def unequal(rng: np.random.Generator, n: int) -> list[Rows]:
    """Seven blobs of 1 to 16 parts of the rows, and of 1 to 3 deviations."""
    sizes, widths = np.geomspace(1.0, 16.0, 7), rng.permutation(np.linspace(1.0, 3.0, 7))
    counts = (n * sizes / sizes.sum()).astype(int)
    drawn = zip(apart(rng, 7, 2, 20.0), counts, widths, strict=True)
    return [mean + width * rng.standard_normal((count, 2)) for mean, count, width in drawn]


def stretched(rng: np.random.Generator, n: int) -> list[Rows]:
    """Four blobs six times as long as wide, all in the same direction."""
    longer = np.array([[6.0, 0.0], [0.0, 1.0]])
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    means = np.array([[0.0, 8.0 * place] for place in range(4)])
    return [(mean + rng.standard_normal((n // 4, 2)) @ longer) @ turn for mean in means]


def band(rng: np.random.Generator, n: int) -> list[Rows]:
    """A long band of few rows, and two dense blobs beside it."""
    line = np.column_stack([rng.uniform(-10.0, 10.0, n // 2), 0.3 * rng.standard_normal(n // 2)])
    return [line, *([x, 4.0] + 0.7 * rng.standard_normal((n // 4, 2)) for x in (-4.0, 4.0))]


def uniform(rng: np.random.Generator, n: int) -> list[Rows]:
    """One cluster, a square."""
    return [rng.uniform(size=(n, 2))]


def _blurred(rng: np.random.Generator, rows: Rows, width: float) -> Rows:
    return rows + width * rng.standard_normal(rows.shape)


SHAPES: dict[str, Callable[[np.random.Generator, int], list[Rows]]] = {
    each.__name__: each for each in (rings, moons, spirals, unequal, stretched, band, uniform)
}
"""Sets that are made, by name; each function returns the rows of each cluster."""
NOISY = ("rings", "moons", "band")
"""Sets that are made a second time, with a tenth of noise."""


def labelled(name: str, parts: Sequence[Rows], noise: Rows) -> LabelledSet:
    """The set with these clusters, and with rows of noise."""
    rows = np.concatenate([*parts, noise])
    sizes = [*map(len, parts), len(noise)]
    labels = np.repeat([*range(1, len(sizes)), 0], sizes)
    return LabelledSet(name, rows, (Reference(labels, labels != 0),), name == "unequal")


def made(seed: int, n: int) -> Iterator[LabelledSet]:
    """The sets that are made, of about so many rows each."""
    for number, (name, make) in enumerate(SHAPES.items()):
        rng = np.random.default_rng([seed, number])
        parts = make(rng, n)
        yield labelled(name, parts, np.empty((0, 2)))
        if name in NOISY:
            corners = np.concatenate(parts)
            noise = rng.uniform(corners.min(axis=0), corners.max(axis=0), (n // 10, 2))
            yield labelled(f"{name}, noise", parts, noise)


def images(folder: Path | None) -> Iterator[LabelledSet]:
    """Return the images of digits of scikit-learn, and of a folder if one is given."""
    rows, digits = load_digits(return_X_y=True)
    yield replace(LabelledSet.made("digits", rows, digits), is_round=False)
    if folder is not None:
        yield from stored(folder, ["mnist10"])


def found_by(method: Entry, data: LabelledSet, limit: float) -> Found:
    """The best result of a method on a set: if it is told k, of each number of the references."""
    if not method.told:
        return outcome(method.labels, data, 0, limit)
    fits = []
    for k in data.numbers:
        first = next(each for each in data.references if each.n_clusters == k)
        told_first = replace(data, references=(first, *data.references))
        fits.append(outcome(method.labels, told_first, 0, limit))
    return max(fits, key=lambda each: each.agreement)


def compare(
    sets: Iterable[LabelledSet], wanted: Mapping[str, Entry], limit: float
) -> Iterator[Comparison]:
    """Yield the results of all methods on each set, after a fit of each to a few rows."""
    warm = pair("warm-up", np.random.default_rng(0), 0.2, 2)
    for method in wanted.values():
        found_by(method, warm, limit)
    for data in sets:
        found = {name: found_by(method, data, limit) for name, method in wanted.items()}
        click.echo(f"{data.name}: {found[OURS].agreement:.3f}", err=True)
        n, d = data.rows.shape
        yield Comparison(data.name, (n, d), data.numbers, data.is_round, found)


def summary(comparisons: Sequence[Comparison]) -> str:
    """The table with a line for each method."""
    balls = [each for each in comparisons if each.is_round]
    others = [each for each in comparisons if not each.is_round]
    lines = []
    for name in comparisons[0].found:
        seconds = [each.found[name].seconds for each in comparisons]
        lines.append(
            [
                name,
                mean_agreement(comparisons, name, digits=3),
                mean_agreement(balls, name),
                mean_agreement(others, name),
                share([each.right(name) for each in comparisons]),
                f"{sum(seconds):.1f}",
                f"{max(seconds):.1f}",
            ]
        )
    header = ["method", "mean ARI", "round clusters", "other shapes", "k right"]
    return table([*header, "processor seconds", "of the longest fit"], lines)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sets.")
@click.option("--images", "pictures", is_flag=True, help="Images of digits in place of shapes.")
@click.option("--rows", default=2_000, show_default=True, help="Rows of a set that is made.")
@click.option("--seed", default=0, show_default=True, help="Of the sets that are made.")
@click.option(
    "--limit", default=600.0, show_default=True, help="Processor seconds of a fit, at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def main(
    data: Path | None, pictures: bool, rows: int, seed: int, limit: float, as_json: bool
) -> None:
    """Print the tables, or JSON."""
    sets = images(data)
    if not pictures:
        sets = made(seed, rows) if data is None else stored(data, ["shapes"])
    found = list(compare(sets, methods(with_spectral=pictures), limit))
    if not found:
        raise click.UsageError("the folder of --data has no sets in shapes/")
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        click.echo("\n\n".join([results(found), summary(found)]))


if __name__ == "__main__":
    main()
