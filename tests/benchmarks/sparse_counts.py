"""A fit of sparse counts as CSR rows against the same fit of the same counts as dense rows: time and memory.

Rows are drawn from profiles, each with its own columns, so that about 1 % of the counts are not 0.  A fit starts from
one row of each profile, and no row opens a cluster; it is ended after some sweeps.  A search, at a price of which the
profiles are worth more, is ended after as many steps.  All run in a new process on one thread: processor seconds of the
whole fit and of `predict`, seconds of a sweep after the first, processor seconds of a pass of the search, and the most
memory that fits and `predict` need beside the counts as they are given.
"""

import resource
import subprocess
import sys
import warnings
from collections.abc import Mapping
from json import dumps, loads
from time import process_time

import click
import numpy as np
from ratios import Line, Times, quartiles, table
from scipy.sparse import csr_array, random_array
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import DPMeans

FAR = 1e6
"""A penalty at which no row opens a cluster."""
SWEEPS = 6
DIVERGENCES = ("poisson", "multinomial")
FIT, SWEEP, PREDICT, SEARCH = "fit", "sweep", "predict", "pass of a search"
MEMORY = "MB beside the counts"


def counts(n: int, d: int, k: int, density: float) -> csr_array:
    """(n, d) counts, of which a share is not 0."""
    rng = np.random.default_rng(0)
    found = random_array((n, d), density=density, format="csr", rng=rng, dtype=np.float32)
    profiles = rng.gamma(0.3, 1.0, (k, d)).astype(np.float32)
    rows = np.repeat(np.arange(n), np.diff(found.indptr))
    found.data = 1 + rng.poisson(3 * profiles[rows % k, found.indices]).astype(np.float32)
    return found


def megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(divergence: str, kind: str, shape: tuple[int, int, int], density: float) -> None:
    """Print the figures of one fit as JSON."""
    n, d, k = shape
    rows = counts(n, d, k, density)
    centers = rows[:k].toarray() + 0.01
    if kind == "dense":
        rows = rows.toarray()
    few = rows[:200]
    settings = {"divergence": divergence, "init": centers, "tol": 0.0, "random_state": 0}
    DPMeans(FAR, **settings, max_iter=1).fit(few).predict(few)  # loads and compiles
    before, start = megabytes(), process_time()
    model = DPMeans(FAR, **settings, max_iter=SWEEPS).fit(rows)
    seconds = process_time() - start
    start = process_time()
    model.predict(rows)
    predicted, start = process_time() - start, process_time()
    worth = (model.inertia_ / n) * (n / k) / 10
    searched = DPMeans(worth, **settings, search=True, max_iter=SWEEPS).fit(rows)
    figures = {
        FIT: seconds,
        SWEEP: float(np.median([each.seconds for each in model.history_[1:]])),
        PREDICT: predicted,
        SEARCH: (process_time() - start) / searched.n_passes_,
        MEMORY: megabytes() - before,
        "objective": model.objective_,
        "found": searched.n_clusters_,
    }
    click.echo(dumps(figures))


def lines(found: Mapping[str, list[Mapping[str, float]]]) -> list[Line]:
    """What the table says of a divergence."""
    answer = []
    for figure in (FIT, SWEEP, PREDICT, SEARCH, MEMORY):
        times: Times = {kind: [each[figure] for each in found[kind]] for kind in found}
        values = [
            one / other if other else np.nan  # few rows take no memory that can be measured
            for one, other in zip(times["csr"], times["dense"], strict=True)
        ]
        low, middle, high = quartiles(values)
        told = ", ".join(f"{kind} {min(times[kind]):.3g}" for kind in times)
        answer.append(
            Line(f"{figure}, csr / dense", f"{middle:.3f} ({low:.3f} to {high:.3f})", told)
        )
    return answer


@click.command(help=__doc__)
@click.option("--rows", default=20_000, show_default=True)
@click.option("--columns", default=5_000, show_default=True)
@click.option("--clusters", default=20, show_default=True)
@click.option("--density", default=0.01, show_default=True)
@click.option("--repeats", default=3, show_default=True)
@click.option("--alone", nargs=2, type=str, hidden=True)
def main(
    rows: int,
    columns: int,
    clusters: int,
    density: float,
    repeats: int,
    alone: tuple[str, str] | None,
) -> None:
    """Print a table for each divergence."""
    shape = rows, columns, clusters
    if alone is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            measure(*alone, shape, density)
        return
    told = [f"--rows={rows}", f"--columns={columns}", f"--clusters={clusters}"]
    told += [f"--density={density}"]
    for divergence in DIVERGENCES:
        found: dict[str, list[Mapping[str, float]]] = {"csr": [], "dense": []}
        for _ in range(repeats):
            for kind, each in found.items():
                command = [sys.executable, __file__, *told, "--alone", divergence, kind]
                ended = subprocess.run(command, capture_output=True, check=True, text=True)
                each.append(loads(ended.stdout))
        both = [each[0]["objective"] for each in found.values()]
        numbers = [f"{each[0]['found']:.0f}" for each in found.values()]
        title = f"{divergence}: {rows:,} x {columns:,}, {density:.2g} not 0, {clusters} centers"
        title += f", J {both[0]:.9g} and {both[1]:.9g}, {' and '.join(numbers)} by the search"
        click.echo(table(title, lines(found)))


if __name__ == "__main__":
    main()
