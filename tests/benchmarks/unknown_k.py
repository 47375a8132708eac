"""The number of clusters, told nothing: `DPMeans()` beside its peers on labelled sets.

Every method gets the rows and nothing else.  KMeans with the best silhouette tries 2 to `--most` clusters, a mixture
with the lowest BIC 1 to `--most`, and BayesianGaussianMixture has `--most` components, of which those that have rows
count.  X-means and G-means are pyclustering's, and left out where it is not installed; they stop at 200 clusters, and
what they find differs a little from run to run.
KMeans that is told k, the number of clusters of the first reference, shows what the shape of the clusters allows.
KMeans has ten starts; otherwise the methods have their defaults.

With `--data FOLDER`, the sets are `FOLDER/*.npz`, with rows `X` and labels `y`, and `FOLDER/shapes/*.npz`, with one or
more references `y0`, `y1` and so on, in which 0 is noise and left out.  Where a set has several references, the one
that suits a method best counts.  Rows that are in both places count once, as in `shapes`.  Otherwise the sets are made
from a seed: each of these is of round clusters, or of one cluster, where 1 is the right number.

The adjusted Rand index (ARI) compares labels with a reference; the noise of HDBSCAN is a label for it, but no cluster.
Seconds are processor seconds of one fit on one thread, after a fit of a few rows; all methods take turns on a set.
"""

import json
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import click
import numpy as np
from labelled_sets import LabelledSet, Labels, Rows, pair, stored, synthetic
from peers import names
from sklearn.cluster import HDBSCAN, KMeans, kmeans_plusplus
from sklearn.metrics import silhouette_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from threadpoolctl import threadpool_limits

from dask_dpmeans import DPMeans
from dask_dpmeans.selection.penalty import penalty_path

Method = Callable[[Rows, int, int], Labels]
"""Returns labels from rows, the k of the first reference, and the most clusters to try."""

OURS, TOLD = "DPMeans()", "KMeans told k"
SILHOUETTE_ROWS = 5_000
"""Rows of which the silhouette is computed, at most."""
GROWN = 200
"""Clusters at which x-means and G-means stop."""
STARTS = 10
"""Of KMeans."""
NEAR = 0.01
"""How much lower than the ARI of KMeans told k an ARI may be."""


@dataclass(frozen=True)
class Found:
    """The result of a method on a set."""

    seconds: float
    """Of the processor, until it ended or was stopped."""
    n_clusters: int | None = None
    """None where it was stopped, or failed."""
    agreement: float = 0.0
    """The adjusted Rand index with the reference that it agrees with most."""
    stopped: bool = False


@dataclass(frozen=True)
class Comparison:
    """The results of all methods on a set."""

    name: str
    shape: tuple[int, int]
    numbers: list[int]
    """The right numbers of clusters."""
    is_round: bool
    found: Mapping[str, Found]
    """By the name of the method."""

    def right(self, method: str) -> bool:
        """Whether a method found a right number of clusters."""
        return self.found[method].n_clusters in self.numbers

    def near(self, method: str) -> bool:
        """Whether the ARI of a method is at least the ARI of KMeans told k, less `NEAR`."""
        one, told = self.found[method], self.found[TOLD]
        return one.n_clusters is not None and one.agreement >= told.agreement - NEAR


def ours(rows: Rows, told: int, most: int) -> Labels:
    """DP-means, told nothing."""
    labels: Labels = DPMeans(random_state=0).fit(rows).labels_
    return labels


def longest_interval(rows: Rows, told: int, most: int) -> Labels:
    """The search in the middle of the longest interval of penalties."""
    penalty = penalty_path(rows, search=True, random_state=0).penalty
    if penalty is None:
        return np.zeros(len(rows), np.int64)
    labels: Labels = DPMeans(penalty, search=True, random_state=0).fit(rows).labels_
    return labels


def hdbscan(rows: Rows, told: int, most: int) -> Labels:
    """Noise is -1."""
    labels: Labels = HDBSCAN(copy=True).fit_predict(rows)
    return labels


def silhouette(rows: Rows, told: int, most: int) -> Labels:
    """KMeans with the best silhouette; all one cluster if none has one."""
    best, kept = -1.0, np.zeros(len(rows), np.int64)
    size = min(len(rows), SILHOUETTE_ROWS)
    for k in range(2, min(most, len(rows) - 1) + 1):
        labels = KMeans(k, n_init=STARTS, random_state=0).fit_predict(rows)
        with suppress(ValueError):  # all rows of the sample in one cluster
            value = silhouette_score(rows, labels, sample_size=size, random_state=0)
            if value > best:
                best, kept = value, labels
    return kept


def mixture(rows: Rows, told: int, most: int) -> Labels:
    """A mixture of Gaussians with the lowest BIC."""
    best, kept = np.inf, np.zeros(len(rows), np.int64)
    for k in range(1, min(most, len(rows)) + 1):
        with suppress(ValueError):  # too few rows for a covariance
            model = GaussianMixture(k, random_state=0).fit(rows)
            value = model.bic(rows)
            if value < best:
                best, kept = value, model.predict(rows)
    return kept


def bayesian_mixture(rows: Rows, told: int, most: int) -> Labels:
    """A Dirichlet process mixture of Gaussians."""
    model = BayesianGaussianMixture(n_components=min(most, len(rows)), random_state=0)
    labels: Labels = model.fit_predict(rows)
    return labels


def numbered(clusters: Sequence[Sequence[int]], n: int) -> Labels:
    """(n,) labels from the rows of each cluster."""
    labels = np.full(n, -1)
    for number, members in enumerate(clusters):
        labels[members] = number
    return labels


def x_means(rows: Rows, told: int, most: int) -> Labels:
    """From two centers by k-means++."""
    method: Any = import_module("pyclustering.cluster.xmeans").xmeans
    first = kmeans_plusplus(rows, 2, random_state=0)[0]
    return numbered(method(rows, first, GROWN, random_state=0).process().get_clusters(), len(rows))


def g_means(rows: Rows, told: int, most: int) -> Labels:
    """From one center."""
    method: Any = import_module("pyclustering.cluster.gmeans").gmeans
    return numbered(method(rows, k_max=GROWN, random_state=0).process().get_clusters(), len(rows))


def told_means(rows: Rows, told: int, most: int) -> Labels:
    """The best of ten starts."""
    labels: Labels = KMeans(told, n_init=STARTS, random_state=0).fit_predict(rows)
    return labels


PEERS: dict[str, tuple[str, Method]] = {
    "path": ("longest interval", longest_interval),
    "hdbscan": ("HDBSCAN", hdbscan),
    "silhouette": ("KMeans, silhouette", silhouette),
    "bic": ("GaussianMixture, BIC", mixture),
    "bayesian": ("BayesianGaussianMixture", bayesian_mixture),
    "xmeans": ("x-means", x_means),
    "gmeans": ("G-means", g_means),
}
"""By the name of the option."""


def methods(wanted: Sequence[str]) -> dict[str, Method]:
    """Our method, the wanted peers that are installed, and KMeans told k, by name."""
    found: dict[str, Method] = {OURS: ours}
    for short in wanted:
        if short in ("xmeans", "gmeans") and find_spec("pyclustering") is None:
            click.echo(f"{PEERS[short][0]} needs pyclustering: left out", err=True)
        else:
            name, method = PEERS[short]
            found[name] = method
    return {**found, TOLD: told_means}


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after so many processor seconds of this process."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def outcome(method: Method, data: LabelledSet, most: int, limit: float) -> Found:
    """Return the result of a method, which is stopped at the limit."""
    started = process_time()
    try:
        with limited(limit), warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            labels = method(data.rows, data.numbers[0], most)
    except TimeoutError:
        return Found(process_time() - started, stopped=True)
    except Exception as error:  # a peer may raise whatever it likes
        click.echo(f"{data.name}: {type(error).__name__}: {error}", err=True)
        return Found(process_time() - started)
    seconds = process_time() - started
    agreement = max(each.agreement(labels) for each in data.references)
    return Found(seconds, len(np.unique(labels[labels >= 0])), agreement)


def compare(
    sets: Iterable[LabelledSet], wanted: Mapping[str, Method], most: int, limit: float
) -> Iterator[Comparison]:
    """Yield the results of all methods on each set, after a fit of each to a few rows."""
    warm = pair("warm-up", np.random.default_rng(0), 0.05, 2)
    for method in wanted.values():
        outcome(method, warm, 3, limit)
    for data in sets:
        found = {name: outcome(method, data, most, limit) for name, method in wanted.items()}
        click.echo(f"{data.name}: {', '.join(map(cell, found.values()))}", err=True)
        n, d = data.rows.shape
        yield Comparison(data.name, (n, d), data.numbers, data.is_round, found)


def cell(found: Found, right: bool = False) -> str:
    """The number of clusters, and the agreement.

    >>> cell(Found(1.0, 15, 0.987), right=True)
    '**15** .99'
    """
    if found.n_clusters is None:
        return "stopped" if found.stopped else "failed"
    mark = "**" if right else ""
    return f"{mark}{found.n_clusters}{mark} {fraction(found.agreement)}"


def fraction(value: float, digits: int = 2) -> str:
    """Two digits or more, without the zero before them.

    >>> fraction(0.5), fraction(1.0), fraction(-0.001), fraction(0.1237, digits=3)
    ('.50', '1.00', '.00', '.124')
    """
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("0.", ".", 1)


def row(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown.

    >>> print(table(["set", "k"], [["s1", "15"]]))
    | set | k |
    |---|---|
    | s1 | 15 |
    """
    return "\n".join([row(header), "|---" * len(header) + "|", *map(row, lines)])


def results(comparisons: Sequence[Comparison]) -> str:
    """The table of clusters found and ARI, with a line for each set."""
    found = list(comparisons[0].found)
    lines = [
        [
            f"{each.name}{'' if each.is_round else ' *'}",
            f"{each.shape[0]:,} x {each.shape[1]}",
            " or ".join(map(str, each.numbers)),
            *(cell(each.found[name], each.right(name)) for name in found),
        ]
        for each in comparisons
    ]
    return table(["set", "rows", "k", *found], lines)


def times(comparisons: Sequence[Comparison]) -> str:
    """Return the table of our processor seconds, and of the ratios of other methods to ours."""
    others = [name for name in comparisons[0].found if name != OURS]
    lines = []
    for each in comparisons:
        seconds = each.found[OURS].seconds
        ratios = [ratio([each.found[name]], seconds) for name in others]
        lines.append([each.name, f"{seconds:.2f} s", *ratios])
    return table(["set", OURS, *others], lines)


def ratio(found: Sequence[Found], seconds: float) -> str:
    """The seconds of some fits over so many seconds; more than that if any was stopped.

    >>> ratio([Found(3.0, 2), Found(5.0, stopped=True)], 2.0), ratio([Found(9.0, 2)], 0.07)
    ('> 4', '129')
    """
    more = "> " * any(each.stopped for each in found)
    value = sum(each.seconds for each in found) / seconds
    return f"{more}{value:,.0f}" if value >= 10 else f"{more}{value:.2g}"


def share(true: Sequence[bool]) -> str:
    """How many are true, of how many."""
    return f"{sum(true)} of {len(true)}"


def summary(comparisons: Sequence[Comparison]) -> str:
    """The table with a line for each method."""
    single_cluster = [each for each in comparisons if each.numbers == [1]]
    several = [each for each in comparisons if each.numbers != [1]]
    balls = [each for each in several if each.is_round]
    seconds = sum(each.found[OURS].seconds for each in comparisons)
    lines = []
    for name in comparisons[0].found:
        found = [each.found[name] for each in comparisons]
        lines.append(
            [
                name,
                share([each.right(name) for each in balls]),
                share([each.right(name) for each in single_cluster]),
                share([each.near(name) for each in balls]),
                mean_agreement(balls, name),
                mean_agreement(several, name),
                f"{sum(each.seconds for each in found):.2f}",
                ratio(found, seconds),
            ]
        )
    header = [
        "method",
        "k exact, round clusters",
        "k = 1 found",
        f"ARI at least that of {TOLD}, less {fraction(NEAR)}",
        "mean ARI, round clusters",
        "mean ARI, more than one cluster",
        "processor seconds",
        f"over {OURS}",
    ]
    return table(header, lines)


def mean_agreement(comparisons: Sequence[Comparison], name: str, digits: int = 2) -> str:
    """The mean ARI over the sets on which a method ended, and the number of the other sets."""
    found = [each.found[name] for each in comparisons]
    ended = [each.agreement for each in found if each.n_clusters is not None]
    if not ended:
        return ""
    left = f" ({len(found) - len(ended)} left out)" * (len(ended) < len(found))
    return f"{fraction(fmean(ended), digits)}{left}"


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sets.")
@click.option("--only", default="", help='Names of sets, with commas; "shapes" for all of these.')
@click.option("--peers", "wanted", callback=names(tuple(PEERS)), help=f"Some of {','.join(PEERS)}.")
@click.option("--most", default=30, show_default=True, help="Clusters that scans over k try.")
@click.option(
    "--rows-fraction", default=1.0, show_default=True, help="Fraction of the synthetic rows."
)
@click.option("--seed", default=0, show_default=True, help="Of the synthetic rows.")
@click.option(
    "--limit", default=600.0, show_default=True, help="Processor seconds of a fit, at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def main(
    data: Path | None,
    only: str,
    wanted: list[str],
    most: int,
    rows_fraction: float,
    seed: int,
    limit: float,
    as_json: bool,
) -> None:
    """Print the tables, or JSON."""
    chosen = only.split(",") if only else []
    sets = synthetic(chosen, seed, rows_fraction) if data is None else stored(data, chosen)
    several = list(sets)
    if not several:
        raise click.UsageError("no such sets: see --only and --data")
    found = list(compare(several, methods(wanted), most, limit))
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=1))
    else:
        click.echo("\n\n".join([results(found), times(found), summary(found)]))


if __name__ == "__main__":
    main()
