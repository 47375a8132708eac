"""Sets of rows whose clusters are known: from files, or made from a seed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score

Rows = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

SIPU = ("a1", "a2", "a3", "s1", "s2", "s3", "s4", "unbalance")
ROUND = {
    *SIPU,
    *(f"sipu_{name}" for name in (*SIPU, "d31", "r15")),
    *(f"fcps_{name}" for name in ("hepta", "tetra", "twodiamonds")),
    *("birch1", "birch2", "dim032", "dim128", "g2_32_50"),
}
"""Sets in files whose clusters are round."""


@dataclass(frozen=True)
class Reference:
    """Labels of some of the rows, by someone who knows."""

    labels: Labels
    """(n,)."""
    counted: npt.NDArray[np.bool_]
    """(n,), whether a row is no noise."""

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return len(np.unique(self.labels[self.counted]))

    def agreement(self, labels: Labels) -> float:
        """The adjusted Rand index, of the rows that are no noise."""
        return float(adjusted_rand_score(self.labels[self.counted], labels[self.counted]))


@dataclass(frozen=True)
class LabelledSet:
    """Rows, and who says what the clusters are."""

    name: str
    rows: Rows
    """(n, d)."""
    references: tuple[Reference, ...]
    is_round: bool
    """Whether clusters are as good as round."""

    @classmethod
    def made(cls, name: str, rows: Rows, *labels: Labels) -> "LabelledSet":
        """A set of round clusters without noise."""
        everything = np.ones(len(rows), bool)
        return cls(name, rows, tuple(Reference(each, everything) for each in labels), True)

    @property
    def key(self) -> tuple[tuple[int, ...], bytes]:
        """The same for the same rows, in whichever order."""
        return self.rows.shape, np.sort(self.rows, axis=0).tobytes()

    @property
    def numbers(self) -> list[int]:
        """The right numbers of clusters; the number of the first reference comes first."""
        return list(dict.fromkeys(each.n_clusters for each in self.references))


def apart(rng: np.random.Generator, k: int, d: int, least: float) -> Rows:
    """(k, d) points in a cube, at random, no two of them nearer than that."""
    points = np.empty((0, d))
    while len(points) < k:
        one = rng.uniform(0.0, 2 * least * k ** (1 / d), d)
        if (np.linalg.norm(points - one, axis=1) >= least).all():
            points = np.vstack([points, one])
    return points


def around(rng: np.random.Generator, centers: Rows, labels: Labels) -> Rows:
    """(n, d) rows of Gaussians of unit variance."""
    rows: Rows = centers[labels] + rng.standard_normal((len(labels), centers.shape[1]))
    return rows


def pair(name: str, rng: np.random.Generator, share: float, d: int) -> LabelledSet:
    """Two Gaussians, six deviations apart, one of them twice as large."""
    labels = np.repeat([0, 1], [int(1200 * share), int(600 * share)])
    direction = rng.standard_normal(d)
    centers = np.vstack([np.zeros(d), 6 * direction / np.linalg.norm(direction)])
    return LabelledSet.made(name, around(rng, centers, labels), labels)


def balls(name: str, rng: np.random.Generator, share: float, k: int, d: int) -> LabelledSet:
    """Gaussians at random, eight deviations apart or more, the largest eight times the smallest."""
    sizes = np.geomspace(1.0, 8.0, k)
    labels = np.repeat(np.arange(k), (250 * k * share * sizes / sizes.sum()).astype(int))
    return LabelledSet.made(name, around(rng, apart(rng, k, d, 8.0), labels), labels)


def grid(name: str, rng: np.random.Generator, share: float, side: int) -> LabelledSet:
    """Gaussians on a square grid, six deviations apart."""
    centers = 6.0 * np.array(list(product(range(side), repeat=2)))
    labels = np.repeat(np.arange(side**2), int(100 * share))
    return LabelledSet.made(name, around(rng, centers, labels), labels)


def levels(name: str, rng: np.random.Generator, share: float, counts: Sequence[int]) -> LabelledSet:
    """Gaussians in groups, or groups of groups; each level is a reference, the finest first."""
    centers = np.zeros((1, 2))
    for depth, count in enumerate(counts):
        least = 8.0 * 10.0 ** (len(counts) - 1 - depth)
        centers = np.vstack([each + apart(rng, count, 2, least) for each in centers])
    leaves = np.repeat(np.arange(prod(counts)), int(200 * share))
    groups = [leaves // prod(counts[depth:]) for depth in range(len(counts), 0, -1)]
    return LabelledSet.made(name, around(rng, centers, leaves), *groups)


def single(name: str, rng: np.random.Generator, share: float, shape: str, d: int) -> LabelledSet:
    """One cluster."""
    n = int(2000 * share)
    if shape == "cube":
        return LabelledSet.made(name, rng.uniform(size=(n, d)), np.zeros(n, np.int64))
    rows = rng.standard_normal((n, d))
    if shape == "ball":
        radii = rng.uniform(size=(n, 1)) ** (1 / d)
        rows *= radii / np.linalg.norm(rows, axis=1, keepdims=True)
    return LabelledSet.made(name, rows, np.zeros(n, np.int64))


SYNTHETIC: dict[str, Callable[[str, np.random.Generator, float], LabelledSet]] = {
    **{f"pair-{d}": partial(pair, d=d) for d in (2, 8, 32)},
    **{f"balls-{k}": partial(balls, k=k, d=d) for k, d in ((5, 2), (10, 8), (20, 3), (40, 2))},
    "grid-100": partial(grid, side=10),
    "levels-4x5": partial(levels, counts=(4, 5)),
    "levels-3x3x3": partial(levels, counts=(3, 3, 3)),
    **{
        f"{shape}-{d}": partial(single, shape=shape, d=d)
        for shape in ("gaussian", "cube", "ball")
        for d in (2, 10, 50)
    },
}
"""Sets that are made, by name."""


def synthetic(wanted: Sequence[str], seed: int, share: float) -> Iterator[LabelledSet]:
    """The sets that are made; all of them if none is named."""
    for number, (name, make) in enumerate(SYNTHETIC.items()):
        if not wanted or name in wanted:
            yield make(name, np.random.default_rng([seed, number]), share)


def loaded(path: Path, *, noise: bool) -> LabelledSet | None:
    """The set of a file; None if it has no labels, or rows that are not finite numbers."""
    with np.load(path) as file:
        references = [file[name] for name in sorted(file.files) if name[0] == "y"]
        rows = file["X"].astype(np.float64) if "X" in file.files else np.full((1, 1), np.nan)
    if not references or not np.isfinite(rows).all():
        return None
    known = [Reference(each.astype(np.int64), (each != 0) | (not noise)) for each in references]
    return LabelledSet(path.stem, rows, tuple(known), path.stem in ROUND)


def stored(folder: Path, wanted: Sequence[str]) -> Iterator[LabelledSet]:
    """The sets of a folder, the same rows once; `shapes` names all of that folder."""
    seen = set()
    for place, noise in ((folder / "shapes", True), (folder, False)):
        for path in sorted(place.glob("*.npz")):
            if wanted and not {path.stem, place.name} & set(wanted):
                continue
            one = loaded(path, noise=noise)
            if one is None:
                click.echo(f"{path.stem} has no labels or no finite rows: left out", err=True)
            elif one.key not in seen:
                seen.add(one.key)
                yield one
