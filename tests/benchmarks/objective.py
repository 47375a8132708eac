"""The objective that the search reaches, its time, and the passes that it takes.

Quality: for each set and penalty the lowest and the highest objective over the seeds, over the best one that is known
(the lowest of many runs of Breathing k-means and of trials of our own; no bound).  Time: the search beside a grid of
Breathing k-means (`bkmeans`, m = 5, six numbers of clusters around that of the search), where that is installed.
Passes: searches that start on a coreset, and the passes over all rows, the coreset's included, after which they stay
within 0.5 % of the objective that they end with.
Published: for each set and number of clusters of `published`, searches at the price that `penalty_for` finds.  Where
they have that number of clusters, their squared error over the published one; else J over that of the published error.

The sets are read from a folder of ``.npz`` files, those of `published` from the folder ``published`` in it.  A set that
is not there is named and left out; where there is no folder, synthetic sets with planted centers take their place.
Seconds are of the processor.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import click
import numpy as np
from published import ERRORS, prices
from ratios import Line, judged, table

from dask_dpmeans.api.synthetic import Synthetic
from dask_dpmeans.engine.loop import Step, iterate
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans.search_state import State
from dask_dpmeans.sources import as_source

GRID = (0.85, 0.92, 1.0, 1.08, 1.15, 1.25)
"""Numbers of clusters that Breathing k-means is given, over that of the search."""
WORST, BEST = 1.005, 1.001
"""What the highest and the lowest objective of the seeds may be, over the best known one."""
PUBLISHED = 1.001
"""What the highest squared error, or objective, of the seeds may be, over the published one."""
FORCED = 5 * 2**13
"""Rows of the coresets: those that the search's own rule asks for on mnist10 at penalty 40, where a first search opens
641 clusters; without being asked for it, the search takes no coreset of more than half of the rows."""
MOST_PASSES = 12
"""Until the objective is within 0.5 % of the last one."""


@dataclass(frozen=True)
class Anchor:
    """A problem, and the best objective that is known."""

    name: str
    penalty: float
    objective: float | None
    timed: bool = False
    """Whether it is compared with the grid."""
    few_passes: bool = False
    """Whether it is searched on a coreset."""

    def __str__(self) -> str:
        return f"{self.name}, penalty {self.penalty:g}"


ANCHORS = (
    Anchor("mnist10", 1000.0, 277958.1527, timed=True, few_passes=True),
    Anchor("mnist10", 200.0, 192594.3261, timed=True, few_passes=True),
    Anchor("mnist10", 40.0, 132994.0, few_passes=True),
    Anchor("mnist10", 8.0, 89998.0),
    Anchor("quakes", 0.1, 44.985),
    Anchor("quakes", 0.32, 88.417),
    Anchor("quakes", 1.0, 172.1432355),
    Anchor("quakes", 3.2, 339.5402008),
    Anchor("s2", 155097643828.32126, 1.290776062e13),
    Anchor("s2", 1550976438283.213, 3.654375606e13),
    Anchor("a3", 1412233355.0151107, 9.955011351e10),
    Anchor("a3", 14122333550.151108, 4.470568879e11),
    Anchor("birch1", 4236593962747.904, 4.789392172e14, timed=True),
    Anchor("birch1", 42365939627479.05, 1.544995429e15, timed=True),
    Anchor("birch2", 2283433300812.5986, 7.251887883e13),
    Anchor("birch2", 22834333008125.99, 3.143637552e14),
    Anchor("sift_312k", 1e7, None, few_passes=True),
    Anchor("sift_312k", 3e7, None, few_passes=True),
    Anchor("sift_312k", 1e8, None, few_passes=True),
)
SYNTHETIC = (
    Anchor("blobs-20", 2000.0, None, timed=True, few_passes=True),
    Anchor("blobs-50", 500.0, None, timed=True, few_passes=True),
)


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    steps: list[Step[State]]
    n_rows: int
    seconds: float

    @property
    def objective(self) -> float:
        """Of the end."""
        return self.steps[-1].state.objective

    @property
    def n_clusters(self) -> int:
        """At the end."""
        return len(self.steps[-1].state.centers)

    @property
    def passes(self) -> float:
        """Rows read over rows there are."""
        return self.steps[-1].state.rows_read / self.n_rows

    def passes_to(self, objective: float) -> float:
        """Passes after which the objective is at most this."""
        first = next(step.state for step in self.steps if step.state.objective <= objective)
        return first.rows_read / self.n_rows


def rows_of(name: str, folder: Path | None, fraction: float) -> np.ndarray[Any, Any] | None:
    """A set, or None where it is not in the folder."""
    if name.startswith("blobs-"):
        blobs = Synthetic("blobs", max(500, int(100_000 * fraction)), 4, int(name[6:]), 0)
        return np.concatenate([part for _, part, _ in blobs.parts()])
    path = folder / f"{name}.npz" if folder else None
    if path is None or not path.exists():
        return None
    rows: np.ndarray[Any, Any] = np.load(path)["X"]
    return rows.astype(np.float32 if rows.dtype == np.uint8 else rows.dtype)


def searched(rows: np.ndarray[Any, Any], penalty: float, seed: int, **parameters: Any) -> Found:
    """A search of rows in memory, on the threads of this process."""
    started = process_time()
    method = search.Method(penalty, max_iter=10_000, seed=seed, **parameters)
    steps = list(iterate(as_source(rows), method))
    return Found(steps, len(rows), process_time() - started)


def quality_lines(
    anchor: Anchor, rows: np.ndarray[Any, Any], seeds: int, effort: str
) -> Iterator[Line]:
    """The best and the worst of the seeds."""
    found = [searched(rows, anchor.penalty, seed, effort=effort) for seed in range(seeds)]
    best = anchor.objective or min(each.objective for each in found)
    ratios = sorted(each.objective / best for each in found)
    sizes = ", ".join(str(each.n_clusters) for each in found)
    seconds = np.median([each.seconds for each in found])
    what = f"k {sizes}; {np.median([each.passes for each in found]):.0f} passes, {seconds:.1f} s"
    yield judged(f"{anchor}: worst", ratios[-1], f"{ratios[-1]:.5f}  {what}", most=WORST)
    yield judged(f"{anchor}: best", ratios[0], f"{ratios[0]:.5f}", most=BEST)


def grid_lines(anchor: Anchor, rows: np.ndarray[Any, Any]) -> Iterator[Line]:
    """The search beside the grid, one after the other."""
    found = searched(rows, anchor.penalty, 0)
    breathing: Callable[..., Any] = import_module("bkmeans").BKMeans
    started, lowest = process_time(), np.inf
    for factor in GRID:
        k = max(1, round(factor * found.n_clusters))
        means = breathing(n_clusters=k, m=5, random_state=0).fit(rows)
        lowest = min(lowest, means.inertia_ + anchor.penalty * k)
    seconds = process_time() - started
    ratio = found.seconds / seconds
    yield judged(
        f"{anchor}: search / grid, time", ratio, f"{ratio:.3f}  {found.seconds:.1f} s", most=0.1
    )
    yield judged(
        f"{anchor}: search / grid, objective",
        found.objective / lowest,
        f"{found.objective / lowest:.5f}",
    )


def published_lines(
    name: str, k: int, rows: np.ndarray[Any, Any], seeds: int, effort: str
) -> Iterator[Line]:
    """The worst and the best of the seeds over the published error of k clusters."""
    error, ratios, seconds, sizes = ERRORS[name][k], list[float](), list[float](), set[int]()
    asked = prices(rows, k)
    for seed in range(seeds):
        each = []
        for penalty in asked:
            found = searched(rows, penalty, seed, effort=effort)
            ratio = found.objective / (error + penalty * k)
            if found.n_clusters == k:
                ratio = (found.objective - penalty * k) / error
            each.append(ratio)
            seconds.append(found.seconds)
            sizes.add(found.n_clusters)
        ratios.append(max(each))
    told = f"{max(ratios):.5f}  k {sorted(sizes)}; {np.median(seconds):.2f} s"
    yield judged(f"{name}, k = {k}: worst", max(ratios), told, most=PUBLISHED)
    yield judged(f"{name}, k = {k}: best", min(ratios), f"{min(ratios):.5f}", most=1.0001)


def passes_lines(anchor: Anchor, rows: np.ndarray[Any, Any]) -> Iterator[Line]:
    """A search that starts on a coreset."""
    found = searched(rows, anchor.penalty, 0, coreset_rows=FORCED)
    passes = found.passes_to(1.005 * found.objective)
    text = f"{passes:.0f} of {found.passes:.0f}, k={found.n_clusters}, J={found.objective:.8g}, {found.seconds:.1f} s"
    yield judged(f"{anchor}: passes to 0.5 %", passes, text, most=MOST_PASSES)
    if anchor.objective:
        reached = next(
            s.state.objective
            for s in reversed(found.steps)
            if s.state.rows_read <= MOST_PASSES * len(rows)
        )
        ratio = reached / anchor.objective
        yield judged(
            f"{anchor}: J after {MOST_PASSES} passes / best known", ratio, f"{ratio:.5f}", most=1.01
        )


def problems(
    names: str | None, folder: Path | None, fraction: float
) -> Iterator[tuple[Anchor, np.ndarray[Any, Any]]]:
    """The problems whose sets are there."""
    for anchor in ANCHORS if folder else SYNTHETIC:
        if names is None or anchor.name in names.split(","):
            rows = rows_of(anchor.name, folder, fraction)
            if rows is None:
                click.echo(f"{anchor.name} is not in {folder}: left out")
            else:
                yield anchor, rows


def published_problems(
    names: str | None, folder: Path
) -> Iterator[tuple[str, int, np.ndarray[Any, Any]]]:
    """The sets of the literature that are there, with each number of clusters."""
    for name in ERRORS:
        if names is None or name in names.split(","):
            rows = rows_of(name, folder / "published", 1.0)
            if rows is None:
                click.echo(f"{name} is not in {folder / 'published'}: left out")
            else:
                yield from ((name, k, rows) for k in ERRORS[name])


@click.command(help=__doc__)
@click.option(
    "--data", "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sets."
)
@click.option("--only", help="Names of sets, with commas between them.")
@click.option(
    "--part",
    type=click.Choice(["quality", "time", "passes", "published"]),
    multiple=True,
    help="Tables; default all.",
)
@click.option(
    "--effort", type=click.Choice(search.EFFORTS), default=search.NORMAL, show_default=True
)
@click.option("--seeds", default=3, show_default=True, help="Searches of each problem.")
@click.option(
    "--rows-fraction", default=1.0, show_default=True, help="Fraction of the synthetic rows."
)
def main(
    folder: Path | None,
    only: str | None,
    part: tuple[str, ...],
    effort: str,
    seeds: int,
    rows_fraction: float,
) -> None:
    """Print the tables, a problem at a time."""
    if not find_spec("bkmeans"):
        click.echo("bkmeans is not installed: the times are left out")
    for anchor, rows in problems(only, folder, rows_fraction):
        if anchor.name != "sift_312k" and (not part or "quality" in part):
            click.echo(table("quality", list(quality_lines(anchor, rows, seeds, effort))))
        if anchor.timed and find_spec("bkmeans") and (not part or "time" in part):
            click.echo(table("time", list(grid_lines(anchor, rows))))
        if anchor.few_passes and (not part or "passes" in part):
            click.echo(table("passes", list(passes_lines(anchor, rows))))
    if folder and (not part or "published" in part):
        for name, k, rows in published_problems(only, folder):
            click.echo(table("published", list(published_lines(name, k, rows, seeds, effort))))


if __name__ == "__main__":
    main()
