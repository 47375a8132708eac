"""Counts: `DPMeans(divergence="multinomial")` and `"poisson"` beside squared error, a log-transform and the cosine.

Documents are drawn from 20 multinomials.  Each is near a distribution of words that all share, with Zipf's frequencies;
the greater the concentration, the nearer, and the harder.  With `--genes FILE`, an .npz file with counts X, (cells,
genes), and classes y stands beside them.  The cells that scanpy ships (`pbmc68k_reduced`, 700 cells, 765 genes, ten
kinds) have log-normalized values v; their counts are `round(expm1(v) * n_counts / 1e4)`, which differ from integers by
less than .09.

`DPMeans` is fitted at the price that gives k, and KMeans is told k: ten starts, of counts, of log(1 + count), of
log(1 + count / row's sum * 10,000), and of rows of unit length.  "true topics" gives each document to the distribution
under which it is likeliest.  The adjusted Rand index (ARI) compares with the topics or kinds.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from labelled_sets import Labels, Rows
from told_k import Method, Task, agreement, ours, outcomes, told_means

TOPICS, WORDS = 20, 1_000
LENGTHS = 50, 300
"""Words of a document."""
CONCENTRATIONS = (300.0, 1_000.0, 2_000.0)
TARGET = 1e4
"""Sum to which scanpy scales the counts of a cell before it takes logarithms."""


def documents(seed: int, n: int, concentration: float) -> Task:
    """Rows of counts, and the distribution of each topic."""
    rng = np.random.default_rng([seed, int(concentration)])
    shared = rng.permutation(1.0 / np.arange(1, WORDS + 1))
    topics = rng.dirichlet(concentration * shared / shared.sum() + 1e-3, TOPICS)
    classes = rng.integers(0, TOPICS, n)
    lengths = rng.integers(LENGTHS[0], LENGTHS[1], n, endpoint=True)
    counts = rng.multinomial(lengths, topics[classes]).astype(np.float64)
    return Task(f"documents, {concentration:g}", {"counts": counts, "topics": topics}, classes)


def cells(path: Path) -> Task:
    """Counts of genes, and the kinds of the cells."""
    with np.load(path) as file:
        return Task(path.stem, {"counts": file["X"].astype(np.float64)}, file["y"].astype(np.int64))


def normalized(counts: Rows) -> Rows:
    """Logarithms of shares."""
    sums = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    return np.log1p(TARGET * counts / sums)


def unit(counts: Rows) -> Rows:
    """Rows of unit length."""
    return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-12)


def likeliest(task: Task) -> Labels:
    """The distribution under which a document is likeliest."""
    logarithms = np.log(np.maximum(task.forms["topics"], 1e-300))
    return np.argmax(task.forms["counts"] @ logarithms.T, axis=1)


PEERS: dict[str, Method] = {
    "true topics": likeliest,
    "KMeans": lambda task: told_means(task.forms["counts"], task.k),
    "KMeans, log1p": lambda task: told_means(np.log1p(task.forms["counts"]), task.k),
    "KMeans, log-normalized": lambda task: told_means(normalized(task.forms["counts"]), task.k),
    "KMeans, unit length": lambda task: told_means(unit(task.forms["counts"]), task.k),
    "DPMeans": ours("counts"),
    "DPMeans, cosine": ours("counts", metric="cosine"),
}
OURS: dict[str, Method] = {
    f"DPMeans, {name}": ours("counts", divergence=name) for name in ("multinomial", "poisson")
}


def tasks(seeds: int, n: int, genes: Path | None) -> Iterator[Task]:
    """Documents by seed and concentration, then cells."""
    for seed in range(seeds):
        for concentration in CONCENTRATIONS:
            yield documents(seed, n, concentration)
    if genes is not None:
        yield cells(genes)


@click.command(help=__doc__)
@click.option("--genes", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rows", default=2_000, show_default=True, help="Documents.")
@click.option("--seeds", default=3, show_default=True, help="Of the documents.")
@click.option("--peers", is_flag=True, help="Leave out the divergences of counts.")
@click.option("--ours", "alone", is_flag=True, help="Leave out all others.")
def main(genes: Path | None, rows: int, seeds: int, peers: bool, alone: bool) -> None:
    """Print the table."""
    methods = {**({} if alone else PEERS), **({} if peers else OURS)}
    click.echo(agreement(list(outcomes(tasks(seeds, rows, genes), methods))))


if __name__ == "__main__":
    main()
