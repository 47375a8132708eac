"""The stability of clusters that overlap, of clusters that lie apart, and of clusters that are none.

The first table is of five normal components of unit variance with the same number of rows: a pair, whose means are so
many standard deviations apart, and three that are 7 away from the first of the pair.  A cell has the mean
`cluster_stability_` of the pair, then the lowest of the other three, of `DPMeans()`.  Cells in parentheses are of sets
where `DPMeans()` took the pair as one cluster: there it is of a search at the penalty of its alternative of five
clusters, by the same function.  Each cell is of `--draws` draws.  "expected" is the index of a component of known
parameters: of rows nearer to the other mean it has lost as many as it has gained.

The second table has clusters in 2 columns: single clusters that were cut in two, and small clusters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import click
import numpy as np
from labelled_sets import Rows
from scipy.special import ndtr
from unknown_k import fraction, table

from dask_dpmeans import DPMeans
from dask_dpmeans.kernels.assign import NearestLabels
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.methods.dpmeans.stability import cluster_stability
from dask_dpmeans.sources import as_source

AWAY = 7.0
"""Standard deviations between the first component of the pair and those that lie apart."""
DISTANCES = (2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
HALVINGS = 2


@dataclass(frozen=True)
class Found:
    """The stability of the clusters of one draw."""

    pair: float
    """The mean of both."""
    apart: float
    """The lowest of the others."""
    chosen: bool
    """Whether `DPMeans()` found five clusters."""


def means(distance: float, d: int) -> Rows:
    """(5, d), the pair first."""
    found = np.zeros((5, d))
    found[1, 0], found[2, 1], found[3, 1], found[4, 0] = distance, AWAY, -AWAY, -AWAY
    return found


def expected(distance: float) -> float:
    """The index of a component of which a share is nearer to the mean of another, and vice versa.

    >>> round(expected(3.0), 3)
    0.875
    """
    wrong = float(ndtr(-distance / 2))
    return (1 - wrong) / (1 + wrong)


def measured(rows: Rows, penalty: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """The centers, (k, d), of a search of all rows, and their stability, (k,)."""
    centers = DPMeans(penalty, search=True, random_state=0).fit(rows).cluster_centers_
    halves = []
    for _ in range(HALVINGS):
        first = rng.permutation(len(rows)) < len(rows) / 2
        for half in (rows[first], rows[~first]):
            model = DPMeans(penalty, search=True, random_state=0)
            model.fit(half, sample_weight=np.full(len(half), 2.0))
            halves.append(Centers(model.cluster_centers_))
    labels = NearestLabels(Centers(centers))
    return centers, cluster_stability(as_source(rows), labels, centers, tuple(halves))


def nearest(centers: Rows, points: Rows) -> list[int]:
    """The center nearest to each point."""
    distances = np.linalg.norm(points[:, np.newaxis] - centers, axis=2)
    return [int(each) for each in distances.argmin(axis=1)]


def draw(n: int, d: int, distance: float, seed: int) -> Found | None:
    """The stability of one draw; None if no five clusters were among the alternatives."""
    rng = np.random.default_rng(seed)
    where = means(distance, d)
    rows = where[np.arange(n) % 5] + rng.standard_normal((n, d))
    model = DPMeans(random_state=0).fit(rows)
    centers, stability = model.cluster_centers_, model.cluster_stability_
    chosen = len(set(nearest(centers, where))) == 5
    if not chosen:
        five = [each for each in model.choice_.alternatives if each.n_clusters == 5]
        if not five:
            return None
        centers, stability = measured(rows, five[0].penalty, rng)
    found = stability[nearest(centers, where)]
    return Found(float(found[:2].mean()), float(found[2:].min()), chosen)


def cell(draws: Sequence[Found | None]) -> str:
    """The mean of the pair and the lowest of the others, in parentheses if not all were chosen.

    >>> cell([Found(0.875, 1.0, True), Found(0.9, 0.99, True)]), cell([Found(0.7, 1.0, False), None])
    ('.89 .99', '(.70 1.00)')
    """
    found = [each for each in draws if each is not None]
    if not found:
        return "none"
    text = f"{fraction(fmean(each.pair for each in found))} {fraction(min(each.apart for each in found))}"
    return text if all(each is not None and each.chosen for each in draws) else f"({text})"


def pairs(rows: Sequence[int], columns: Sequence[int], draws: int) -> str:
    """The table of pairs by their distance."""
    header = ["rows", "columns", *(f"{each:g} sd" for each in DISTANCES)]
    lines = [["expected", "", *(fraction(expected(each)) for each in DISTANCES)]]
    for d in columns:
        for n in rows:
            found = [cell([draw(n, d, each, seed) for seed in range(draws)]) for each in DISTANCES]
            lines.append([f"{n:,}", str(d), *found])
            click.echo(" ".join(lines[-1]), err=True)
    return table(header, lines)


CASES: dict[str, tuple[Callable[[np.random.Generator, int], Rows], float]] = {
    "a round cluster, cut in two": (lambda rng, n: rng.standard_normal((n, 2)), 0.53),
    "a long cluster, deviations 3 and 1, cut in two": (
        lambda rng, n: rng.standard_normal((n, 2)) * [3.0, 1.0],
        2.0,
    ),
    "a uniform square, cut in two": (lambda rng, n: rng.uniform(-1, 1, (n, 2)), 0.2),
    "a uniform rectangle, 2 by 1, cut in two": (
        lambda rng, n: rng.uniform(-1, 1, (n, 2)) * [2.0, 1.0],
        0.4,
    ),
    "squares of side 2, a gap of 1 between them": (
        lambda rng, n: rng.uniform(-1, 1, (n, 2)) + np.outer(np.arange(n) % 2, [3.0, 0.0]),
        0.4,
    ),
    "clusters of 20 rows, 12 deviations apart": (
        lambda rng, n: (
            rng.standard_normal((n, 2)) + 12.0 * np.c_[np.arange(n) // 20, np.arange(n) // 20 % 2]
        ),
        0.0,
    ),
}
"""Rows of a case, and a penalty for them, as a share of the rows; 0 stands for 100."""


def cases(rows: Sequence[int], draws: int) -> str:
    """The table of cases: the lowest stability of a cluster, as the mean of the draws."""
    lines = []
    for name, (make, share) in CASES.items():
        cells = []
        for n in rows:
            lowest, counts = [], set()
            for seed in range(draws):
                rng = np.random.default_rng(seed)
                centers, stability = measured(make(rng, n), share * n or 100.0, rng)
                lowest.append(float(stability.min()))
                counts.add(len(centers))
            cells.append(f"{fraction(fmean(lowest))} ({' or '.join(map(str, sorted(counts)))})")
        lines.append([name, *cells])
        click.echo(" ".join(lines[-1]), err=True)
    return table(["rows", *(f"{n:,}" for n in rows)], lines)


def numbers(_: click.Context, __: click.Parameter, text: str) -> list[int]:
    """The integers of an option."""
    return [int(each) for each in text.split(",")]


@click.command(help=__doc__)
@click.option("--rows", default="300,3000,30000", show_default=True, callback=numbers)
@click.option("--columns", default="2,8,32", show_default=True, callback=numbers)
@click.option("--draws", default=3, show_default=True, help="Draws of each cell.")
def main(rows: list[int], columns: list[int], draws: int) -> None:
    """Print both tables."""
    small = [n for n in rows if n <= 3000]
    click.echo(f"{pairs(rows, columns, draws)}\n\n{cases(small, draws)}")


if __name__ == "__main__":
    main()
