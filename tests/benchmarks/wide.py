"""Few rows in many columns: `DPMeans()` beside HDBSCAN and k-means that is told k.

The rows are made like logarithms of gene expression: each cluster differs from the others in a twentieth of the
columns, ten factors are common to all rows, and each entry has noise.  `--strength` says how much a cluster differs,
in standard deviations of the noise.

KMeans has ten starts and is told k.  HDBSCAN has its defaults; its noise is a label, but no cluster.  "search" is the
search of `DPMeans` at the penalty that it chose.  ARI compares with the clusters that were made.  Seconds are
processor seconds on one thread, after a fit of other rows.  The last line of a table divides the objectives at that
penalty: that of KMeans by that of the search.
"""

from collections.abc import Iterator
from time import process_time
from typing import Any

import click
import numpy as np
from labelled_sets import Labels, Rows
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from dask_dpmeans import DPMeans

SHAPES = ((60, 20_000, 3), (200, 20_000, 4), (500, 20_000, 6), (1_000, 10_000, 8))
"""Rows, columns and clusters."""
SHARE, FACTORS, FACTOR = 0.05, 10, 0.3
"""Share of the columns in which a cluster differs; common factors, and how much they weigh."""


def expression(n: int, d: int, k: int, strength: float, seed: int) -> tuple[Rows, Labels]:
    """(n, d) rows as float32, and their clusters."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, k, n)
    differs = random.standard_normal((k, d)) * (random.random((k, d)) < SHARE) * strength
    common = random.standard_normal((n, FACTORS)) @ random.standard_normal((FACTORS, d)) * FACTOR
    rows = differs[labels] + common + random.standard_normal((n, d))
    return rows.astype(np.float32), labels


def fitted(name: str, model: Any, rows: Rows, labels: Labels) -> str:
    """The line of a fit, and of what it found."""
    started = process_time()
    model.fit(rows)
    seconds, found = process_time() - started, model.labels_
    k, ari = len(np.unique(found[found >= 0])), adjusted_rand_score(labels, found)
    return f"  {name}: k = {k}, ARI {ari:.2f}, {seconds:.2f} s"


def table(shapes: tuple[tuple[int, int, int], ...], strength: float, seed: int) -> Iterator[str]:
    """The lines of each shape."""
    with threadpool_limits(1):
        DPMeans(random_state=0).fit(expression(40, 80, 2, strength, seed + 1)[0])
        for n, d, k in shapes:
            rows, labels = expression(n, d, k, strength, seed)
            yield f"{n:,} x {d:,}, {k} clusters"
            ours = DPMeans(random_state=0)
            yield fitted("DPMeans()", ours, rows, labels)
            search = DPMeans(ours.penalty_, search=True, random_state=0)
            yield fitted("search", search, rows, labels)
            yield fitted("HDBSCAN", HDBSCAN(copy=True), rows, labels)
            told = KMeans(k, n_init=10, random_state=0)
            yield fitted("KMeans told k", told, rows, labels)
            told_cost = told.inertia_ + search.penalty * k
            yield f"  J of KMeans told k / search: {told_cost / search.objective_:.6f}"


@click.command(help=__doc__)
@click.option("--strength", default=3.5, show_default=True, help="How much clusters differ.")
@click.option("--seed", default=0, show_default=True, help="Of the rows.")
def main(strength: float, seed: int) -> None:
    """Print the table."""
    for line in table(SHAPES, strength, seed):
        click.echo(line)


if __name__ == "__main__":
    main()
