"""
Clusters that data sets share
=============================

Repeat the experiment of Kulis & Jordan 2012, section 6.3.

There are 50 data sets of 25 points each, from 5 of 15 Gaussians. The means are uniform in the unit
square, and the covariance is 0.01 I. Each method is judged by the mean over the data sets of the
normalized mutual information (arithmetic) of its labels with the true ones. ``python
examples/shared_clusters.py 20`` averages over 20 seeds. ``--figure FILE`` draws one
data set, as figure 2d does.
"""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from dask_dpmeans import DPMeans, HDPMeans
from dask_dpmeans.selection.penalty import hdp_penalties

LOCAL, GLOBAL = 0.08, 0.2
Sets = list[np.ndarray[Any, Any]]
Labels = list[np.ndarray[Any, Any]]


def draw(seed: int) -> tuple[Sets, Labels]:
    """The data sets of a seed, and their true clusters."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(0, 1, (15, 2))
    truth = [np.repeat(rng.choice(15, 5, replace=False), 5) for _ in range(50)]
    return [means[labels] + rng.normal(0, 0.1, (25, 2)) for labels in truth], truth


def pooled(estimator: Any, sets: Sets) -> Labels:
    """Labels of all data sets, fitted as one."""
    return np.split(estimator.fit(np.concatenate(sets)).labels_, len(sets))


def alone(estimator: Any, sets: Sets) -> Labels:
    """Labels of all data sets, each fitted by itself: clusters of different sets are different."""
    return [1000 * number + estimator.fit(rows).labels_ for number, rows in enumerate(sets)]


def shared(estimator: Any, sets: Sets) -> Labels:
    """Labels of all data sets, which share clusters."""
    return np.split(estimator.fit(sets).labels_, len(sets))


def objective(sets: Sets, labels: Labels) -> tuple[float, int, float]:
    """Eq. 2 at the penalties above, about the means of the labels; global clusters; local clusters a set."""
    rows, every = np.concatenate(sets), np.concatenate(labels)
    inertia = sum(
        ((rows[every == label] - rows[every == label].mean(axis=0)) ** 2).sum()
        for label in set(every)
    )
    local, total = sum(len(set(each)) for each in labels), len(set(every))
    return inertia + LOCAL * local + GLOBAL * total, total, local / len(sets)


def methods(sets: Sets) -> dict[str, tuple[str, Callable[[], Labels]]]:
    """The published figure, and the labels, of each method."""
    rule = hdp_penalties(sets, local_clusters=5, global_clusters=15)
    whole = hdp_penalties(
        [np.concatenate(sets)], local_clusters=15, global_clusters=1
    ).local_penalty
    return {
        "HDPMeans": (".81", lambda: shared(HDPMeans(LOCAL, GLOBAL), sets)),
        "HDPMeans, search": ("", lambda: shared(HDPMeans(LOCAL, GLOBAL, search=True), sets)),
        "HDPMeans, penalties of 6.1": ("", lambda: shared(HDPMeans(*rule), sets)),
        "HDPMeans, search, of 6.1": ("", lambda: shared(HDPMeans(*rule, search=True), sets)),
        "k-means on all": (".77", lambda: pooled(KMeans(15, n_init=10, random_state=0), sets)),
        "DP-means on all": (".73", lambda: pooled(DPMeans(whole), sets)),
        "k-means on each": (".79", lambda: alone(KMeans(5, n_init=10, random_state=0), sets)),
        "DP-means on each": (".79", lambda: alone(DPMeans(rule.local_penalty), sets)),
    }


def figure(path: Path, seed: int = 0, number: int = 0) -> None:
    """Figure 2d: one of the data sets, by its Gaussians, fitted by itself, and as one of all."""
    from matplotlib.figure import Figure  # noqa: PLC0415  the one part of the example that needs it

    sets, truth = draw(seed)
    rows = sets[number]
    local = hdp_penalties(sets, local_clusters=5, global_clusters=15).local_penalty
    by_itself = DPMeans(local).fit(rows).labels_
    of_all = shared(HDPMeans(LOCAL, GLOBAL, search=True), sets)[number]
    page = Figure(figsize=(12, 4.4), layout="constrained")
    panels = page.subplots(1, 3, sharex=True, sharey=True)
    titles = ("its 5 Gaussians", "DP-means on it alone", "HDPMeans(search=True) on all 50 sets")
    for panel, title, labels in zip(
        panels, titles, (truth[number], by_itself, of_all), strict=True
    ):
        for place, label in enumerate(np.unique(labels)):
            marker, color = "o^sDvP*X<>"[place % 10], f"C{place % 10}"
            panel.scatter(
                *rows[labels == label].T,
                s=36,
                marker=marker,
                color=color,
                edgecolor="k",
                linewidth=0.5,
            )
        score = normalized_mutual_info_score(truth[number], labels)
        said = f"{title}\n{len(np.unique(labels))} clusters, NMI {score:.2f}"
        panel.set(title=said, xlabel="first column", aspect="equal")
    panels[0].set(ylabel="second column")
    page.suptitle("d) one of the 50 data sets, 25 rows")
    page.savefig(path, dpi=100)


@click.command()
@click.argument("n_seeds", default=3, type=click.IntRange(1))
@click.option(
    "--figure",
    "path",
    type=click.Path(path_type=Path),
    help="Draw figure 2d into this file, .png or .pdf.",
)
def main(n_seeds: int, path: Path | None) -> None:
    """Compare HDPMeans with k-means and DP-means on 50 data sets, for N_SEEDS seeds."""
    if path is not None and find_spec("matplotlib") is None:
        raise click.ClickException(
            "a figure needs matplotlib: pip install 'dask-dpmeans[plot]', or leave --figure out"
        )
    found: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(n_seeds):
        sets, truth = draw(seed)
        for name, (_, fit) in methods(sets).items():
            started = perf_counter()
            labels = fit()
            seconds = perf_counter() - started
            scores = [
                normalized_mutual_info_score(*pair) for pair in zip(truth, labels, strict=True)
            ]
            found.setdefault(name, []).append(
                (float(np.mean(scores)), *objective(sets, labels), seconds)
            )
    print(f"means over {n_seeds} seeds; J at local penalty {LOCAL}, global penalty {GLOBAL}")
    print(
        f"{'':28}{'NMI':>6}{'published':>11}{'J':>8}{'clusters':>10}{'of a set':>10}{'seconds':>9}"
    )
    for name, (published, _) in methods(draw(0)[0]).items():
        nmi, j, total, local, seconds = np.mean(found[name], axis=0)
        print(f"{name:28}{nmi:6.3f}{published:>11}{j:8.2f}{total:10.1f}{local:10.2f}{seconds:9.3f}")
    print("published: 17 global clusters, 4.4 of a set, 28.8 seconds")
    if path is not None:
        figure(path)
        print(f"figure: {path}")


if __name__ == "__main__":
    main()
