"""Rows that belong nowhere: `DPMeans(outlier_penalty=...)` on Gaussians with uniform noise, beside its peers.

The sets are s1 to s4 and a1 to a3 of `--data FOLDER`, or made from a seed: Gaussians on a plane with centers six
deviations apart.  Noise is uniform in the box of the rows.  The price gives k clusters of the rows without noise.
sigma squared is the mean variance of a column within a class.

"error" is the mean squared distance from the true centers (the published ones) to the nearest center found, divided by
the same distance for the fit without noise.  "F1" is the F1 score of label -1 as noise farther than 3 sigma from all
true centers: noise nearer than that and rows of classes farther than that are left out.  "F1 of all" counts these rows
of classes too, which nothing but their class tells from noise; "best" is the greatest that any limit of the distance
to the true centers would reach.

Two columns are ceilings, which no method can know.  "centers without noise" has the centers of the fit without noise,
and calls all rows farther than 3 sigma from them noise: what its F1 lacks comes from rows at the limit, as the
true centers lie elsewhere.  "without far noise" is the fit of all rows but the noise that is far: its error comes from
the noise inside the clusters.  "resampled" is the error of fits of rows drawn with replacement: what chance alone does.

`outlier_penalty` is 9 sigma squared; `outlier_share` is told the share of rows farther than 3 sigma.  HDBSCAN has a
`min_cluster_size` of a hundredth of the rows.  LocalOutlierFactor and KMeans are told that share, and k.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from labelled_sets import Labels, Rows, grid
from scipy.spatial.distance import cdist
from sklearn.cluster import HDBSCAN
from sklearn.neighbors import LocalOutlierFactor
from told_k import told_means
from unknown_k import fraction, table

from dask_dpmeans import DPMeans
from dask_dpmeans.selection.penalty import penalty_for

SETS = ("s1", "s2", "s3", "s4", "a1", "a2", "a3")
SHARES = (0.01, 0.05, 0.1)
"""Rows of noise over rows of the set."""
FAR = 3.0
"""Deviations from all true centers beyond which noise counts."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Clean:
    """A set, and what its classes and the fit of its rows tell."""

    name: str
    rows: Rows
    centers: Rows
    """(k, d), the true ones."""
    sigma: float
    price: float
    found: Rows
    """(k, d), of the fit of the rows."""
    error: float
    """Of these."""

    @classmethod
    def of(cls, name: str, rows: Rows, classes: Labels, centers: Rows | None) -> "Clean":
        """Fit at the price that gives as many clusters as there are classes."""
        parts = [rows[classes == each] for each in np.unique(classes)]
        spread = sum(np.square(part - part.mean(axis=0)).sum() for part in parts)
        if centers is None:
            centers = np.stack([part.mean(axis=0) for part in parts])
        price = penalty_for(rows, len(parts), search=True, random_state=0).penalty
        found = DPMeans(price, search=True, random_state=0).fit(rows).cluster_centers_
        sigma = float(np.sqrt(spread / rows.size))
        return cls(name, rows, centers, sigma, price, found, displacement(centers, found))

    def resampled(self, seed: int) -> float:
        """The error of a fit of as many rows drawn with replacement, over the error."""
        drawn = np.random.default_rng(seed).integers(len(self.rows), size=len(self.rows))
        model = DPMeans(self.price, search=True, random_state=0).fit(self.rows[drawn])
        return displacement(self.centers, model.cluster_centers_) / self.error


@dataclass(frozen=True)
class Noisy:
    """A set with noise."""

    clean: Clean
    rows: Rows
    noise: Mask
    """(n,), whether a row is noise."""

    @classmethod
    def of(cls, clean: Clean, share: float, seed: int) -> "Noisy":
        """Noise comes last."""
        rows = clean.rows
        count = round(share * len(rows))
        drawn = np.random.default_rng([seed, count]).uniform(
            rows.min(axis=0), rows.max(axis=0), (count, rows.shape[1])
        )
        return cls(clean, np.concatenate([rows, drawn]), np.arange(len(rows) + count) >= len(rows))

    @property
    def distances(self) -> npt.NDArray[np.float64]:
        """(n,), to the nearest true center, in sigmas."""
        nearest: npt.NDArray[np.float64] = cdist(self.rows, self.clean.centers).min(axis=1)
        return nearest / self.clean.sigma

    @property
    def far(self) -> Mask:
        """(n,), whether a row lies beyond `FAR`."""
        return self.distances > FAR

    def scores(self, outliers: Mask) -> tuple[float, float]:
        """F1 where noise can be told, and of all rows but noise that is near."""
        clear, all_rows = self.noise == self.far, ~self.noise | self.far
        return tuple(f1(self.noise[each], outliers[each]) for each in (clear, all_rows))

    def best(self) -> float:
        """The greatest F1 of all rows, for limits of the distance to the true centers."""
        return max(self.scores(self.distances > limit)[1] for limit in np.arange(2.0, 6.0, 0.05))


def f1(true: Mask, told: Mask) -> float:
    """Harmonic mean of precision and recall, or 0 if both are 0.

    >>> f1(np.array([True, True, False]), np.array([True, False, False]))
    0.6666666666666666
    """
    return float(2 * np.sum(true & told) / max(1, np.sum(true) + np.sum(told)))


def displacement(true: Rows, found: Rows) -> float:
    """The mean squared distance from true centers to the nearest that were found."""
    return float(np.square(cdist(true, found).min(axis=1)).mean())


Method = Callable[[Noisy], tuple[Labels, Rows]]
"""Returns labels, -1 for noise, and centers."""


def ours(data: Noisy, **parameters: Any) -> tuple[Labels, Rows]:
    """The search at the clean price."""
    model = DPMeans(data.clean.price, search=True, random_state=0, **parameters).fit(data.rows)
    return model.labels_, model.cluster_centers_


def means(rows: Rows, labels: Labels) -> Rows:
    """(k, d), of labels that are not negative."""
    return np.stack([rows[labels == each].mean(axis=0) for each in range(labels.max() + 1)])


def hdbscan(data: Noisy) -> tuple[Labels, Rows]:
    """Centers are the means of its clusters."""
    labels = HDBSCAN(min_cluster_size=len(data.rows) // 100, copy=True).fit_predict(data.rows)
    return labels, means(data.rows, labels)


def local_factor(data: Noisy) -> tuple[Labels, Rows]:
    """Noise by its local density, then KMeans of the others."""
    kept = LocalOutlierFactor(contamination=told_share(data)).fit_predict(data.rows) > 0
    labels = np.full(len(data.rows), -1)
    labels[kept] = told_means(data.rows[kept], len(data.clean.centers))
    return labels, means(data.rows, labels)


def limited(data: Noisy) -> tuple[Labels, Rows]:
    """The centers of the fit without noise, and rows farther than `FAR` from them as noise."""
    distances = cdist(data.rows, data.clean.found)
    labels = np.where(distances.min(axis=1) > FAR * data.clean.sigma, -1, distances.argmin(axis=1))
    return labels, data.clean.found


def told_noise(data: Noisy) -> tuple[Labels, Rows]:
    """The search without the noise that is far."""
    labels, kept = np.full(len(data.rows), -1), ~(data.noise & data.far)
    model = DPMeans(data.clean.price, search=True, random_state=0).fit(data.rows[kept])
    labels[kept] = model.labels_
    return labels, model.cluster_centers_


def told_share(data: Noisy) -> float:
    """The share of rows, noise or not, beyond `FAR`."""
    return float(np.mean(data.far))


PEERS: dict[str, Method] = {
    "DPMeans": ours,
    "HDBSCAN": hdbscan,
    "LocalOutlierFactor, KMeans": local_factor,
}
CEILINGS: dict[str, Method] = {"centers without noise": limited, "without far noise": told_noise}
OURS: dict[str, Method] = {
    "outlier_penalty": lambda data: ours(data, outlier_penalty=(FAR * data.clean.sigma) ** 2),
    "outlier_share": lambda data: ours(data, outlier_share=told_share(data)),
}


def stored(folder: Path) -> Iterator[Clean]:
    """The sets of a folder."""
    for name in SETS:
        with np.load(folder / f"{name}.npz") as file:
            centers = file["centers"].astype(np.float64) if "centers" in file.files else None
            yield Clean.of(name, file["X"].astype(np.float64), file["y"], centers)


def made(share: float) -> Iterator[Clean]:
    """A grid of Gaussians."""
    data = grid("grid", np.random.default_rng(0), share, 4)
    yield Clean.of(data.name, data.rows, data.references[0].labels, None)


def line(
    data: Sequence[Noisy], methods: Mapping[str, Method]
) -> tuple[list[str], dict[str, tuple[float, float, float]]]:
    """The cells of a set and a share, means over seeds: error, F1 and F1 of all for each method."""
    found = {}
    for name, method in methods.items():
        values = []
        for each in data:
            labels, centers = method(each)
            error = displacement(each.clean.centers, centers) / each.clean.error
            values.append((error, *each.scores(labels < 0)))
        found[name] = tuple(map(fmean, zip(*values, strict=True)))
    first = data[0]
    cells = [
        f"{error:.2f}, {fraction(clear)}, {fraction(every)}"
        for error, clear, every in found.values()
    ]
    share = first.noise.sum() / np.sum(~first.noise)
    return [
        f"{first.clean.name}, {share:.0%}",
        fraction(fmean(each.best() for each in data)),
        *cells,
    ], found


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sets.")
@click.option("--seeds", default=3, show_default=True, help="Of the noise.")
@click.option(
    "--share", default=1.0, show_default=True, help="Of the rows of the set that is made."
)
@click.option("--peers", is_flag=True, help="Leave out what has a price for outliers.")
def main(data: Path | None, seeds: int, share: float, peers: bool) -> None:
    """Print the table."""
    methods = PEERS if peers else PEERS | CEILINGS | OURS
    lines = []
    for clean in made(share) if data is None else stored(data):
        chance = fmean(map(clean.resampled, range(seeds)))
        click.echo(f"{clean.name}: resampled {chance:.2f}", err=True)
        for part in SHARES:
            noisy = [Noisy.of(clean, part, seed) for seed in range(seeds)]
            lines.append(line(noisy, methods)[0])
            click.echo(" | ".join(lines[-1]), err=True)
    click.echo("error, F1, F1 of all:")
    click.echo(table(["set, noise", "best F1 of all", *methods], lines))


if __name__ == "__main__":
    main()
