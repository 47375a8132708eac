"""A pass of a fit with another divergence, with a price for outliers, and over missing values, against squared error.

Rows are counts of a negative binomial, without clusters, in memory; some of them are the first centers.  A pass is a
sweep of Algorithm 1 after the first, which also checks the rows and learns their encoding: processor seconds of all
threads, between commits of sweeps.  30 % of the values are missing.  A price for outliers needs the search: there, a
pass is its kernel alone, which finds the gains of all moves, on one thread; about 2 % of the rows are outliers.  All
take turns.

With `--before FOLDER`, squared errors of the package in that folder and of this package compete too, each time in a new
process.
"""

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from assignment import Problem
from ratios import Line, Times, interleaved, ratio_line, seconds_line, table, timed
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.engine.plan import merge_tree
from dask_dpmeans.kernels.distance import Centers
from dask_dpmeans.kernels.move_statistics import MoveScan, MoveStatistics

THREADS = 2
SWEEPS = 6
FAR = 1e9
"""A penalty at which no row opens a cluster."""
SHARE, HOLES = 0.02, 0.3
"""Of rows that are outliers, and of values that are missing."""

SQUARED, BEFORE, NOW = "squared", "squared, before", "squared, now"
SEARCH, OUTLIERS = "search", "search, outliers"
MOST_OUTLIERS = 1.05
MOST = {"poisson": 1.3, "multinomial": 1.3, "missing": 2.2}
"""The most times a pass of squared error that a pass may take."""


@dataclass(frozen=True)
class Shape:
    """Rows, columns and centers."""

    n: int
    d: int
    k: int

    def __str__(self) -> str:
        return f"{self.n:,} x {self.d}, {self.k} centers"

    def rows(self) -> npt.NDArray[np.float32]:
        """(n, d), counts of 1 or more."""
        rng = np.random.default_rng([0, self.d])
        return (1 + rng.poisson(rng.gamma(2.0, 3.0, (self.n, self.d)))).astype(np.float32)


SHAPES = Shape(1_000_000, 16, 64), Shape(1_000_000, 64, 32)


def pass_seconds(
    rows: npt.NDArray[np.float32], centers: npt.NDArray[np.float64], **parameters: Any
) -> float:
    """The processor seconds of a sweep, of those after the first."""
    ends: list[float] = []
    method = DPMeans(FAR, init=centers, max_iter=SWEEPS, tol=0.0, random_state=0, **parameters)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        out = Path(folder) / "run.zarr"
        fit(rows, out, method, threads=THREADS, on_step=lambda *_: ends.append(process_time()))
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def search_pass(problem: Problem, limit: float) -> MoveStatistics:
    """The statistics of all moves; rows that cost more than the limit are outliers."""
    children = problem.centers[:, np.newaxis] + np.array([0.5, -0.5])[:, np.newaxis]
    kernel = MoveScan(Centers(problem.centers, most=limit), children, np.inf)
    return merge_tree(map(kernel.chunk, problem.blocks()), kernel.combine)


def outlier_limit(
    rows: npt.NDArray[np.float32], centers: npt.NDArray[np.float64], share: float
) -> float:
    """Return the squared distance to its center that so large a share of some rows exceeds."""
    some = rows[: 4096 + len(centers)]
    model = DPMeans(FAR, init=centers, random_state=0).fit(some)
    squared = np.square(some - model.cluster_centers_[model.labels_]).sum(axis=1)
    return float(np.quantile(squared, 1 - share))


def competitors(shape: Shape) -> dict[str, Callable[[], float]]:
    """By name."""
    rows = shape.rows()
    centers = rows[: shape.k].astype(np.float64)
    holes = np.random.default_rng(1).random(rows.shape) < HOLES
    shares = centers / centers.sum(axis=1, keepdims=True)
    problem, limit = Problem(rows, centers), outlier_limit(rows, centers, SHARE)
    return {
        SQUARED: partial(pass_seconds, rows, centers),
        "poisson": partial(pass_seconds, rows, centers, divergence="poisson"),
        "multinomial": partial(pass_seconds, rows, shares, divergence="multinomial"),
        "missing": partial(
            pass_seconds, np.where(holes, np.float32(np.nan), rows), centers, missing="observed"
        ),
        SEARCH: timed(partial(search_pass, problem, np.inf), process_time),
        OUTLIERS: timed(partial(search_pass, problem, limit), process_time),
    }


def elsewhere(shape: Shape, folder: Path) -> float:
    """A pass of squared error of the package in a folder, in a new process."""
    told = [str(value) for value in (shape.n, shape.d, shape.k)]
    paths = os.pathsep.join([str(folder), str(Path(__file__).parent)])
    command = [sys.executable, __file__, "--alone", *told]
    ended = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, check=True, text=True
    )
    return float(ended.stdout)


def lines(times: Times) -> list[Line]:
    """What the table says of a shape."""
    others = [name for name in times if name in MOST]
    found = [seconds_line(times, name) for name in times]
    found += [ratio_line(times, name, SQUARED, most=MOST[name]) for name in others]
    if OUTLIERS in times:
        found.append(ratio_line(times, OUTLIERS, SEARCH, most=MOST_OUTLIERS))
    if BEFORE in times:
        found.append(ratio_line(times, NOW, BEFORE))
    return found


def compare(shape: Shape, repeats: int, before: Path | None, only: tuple[str, ...]) -> Times:
    """Seconds of the competitors."""
    wanted = {
        name: one
        for name, one in competitors(shape).items()
        if not only or name in (*only, SQUARED)
    }
    if before is not None:
        wanted[BEFORE] = partial(elsewhere, shape, before)
        wanted[NOW] = partial(elsewhere, shape, Path(__file__).parents[2])
    return interleaved(wanted, repeats)


@click.command(help=__doc__)
@click.option("--rows", default=1_000_000, show_default=True)
@click.option("--repeats", default=7, show_default=True, help="Rounds.")
@click.option(
    "--before", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A folder."
)
@click.option("--only", multiple=True, type=click.Choice(list(MOST)), help="These, and squared.")
@click.option("--alone", nargs=3, type=int, hidden=True)
def main(
    rows: int,
    repeats: int,
    before: Path | None,
    only: tuple[str, ...],
    alone: tuple[int, int, int] | None,
) -> None:
    """Print a table for each shape."""
    if alone is not None:
        shape = Shape(*alone)
        drawn = shape.rows()
        click.echo(pass_seconds(drawn, drawn[: shape.k].astype(np.float64)))
        return
    for full in SHAPES:
        shape = Shape(rows, full.d, full.k)
        times = compare(shape, repeats, before, only)
        click.echo(table(f"{shape}, float32, {THREADS} threads", lines(times)))


if __name__ == "__main__":
    main()
