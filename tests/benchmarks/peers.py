"""DP-means beside its peers, at equal penalty: seconds, objective, clusters, passes and peak memory of each.

A table a data set, one fit after the other on the same rows.  Births only (`DPMeans(penalty)`) stands beside
`pdc-dp-means`, which opens one cluster a pass; the search (`search=True`, its penalty a price), with the normal and
the quick effort, beside k-means that is told the search's k, HDBSCAN and Leiden: `told_peers` names them and their
settings.  The blobs are also cut into 1,000 chunks that two Dask workers hold: births only beside dask-ml's KMeans,
with our k, as many iterations as our sweeps, and k of the rows as first centers, so that nothing but iterations is
timed.  A Zarr store on disk: births only beside MiniBatchKMeans that sees each chunk once.

Each competitor runs in a fresh process with two cores and two threads (or two workers of one), warms up on 1,000 rows
(this package's fits in memory then also on all rows, since compiled code is loaded once there is enough to do),
and is then timed on its fit alone.  Peak memory is that of the process, its rows included, and of its workers with it.
J = inertia + penalty * k is computed here for all alike: the exact squared distances of all rows to the nearest of the
centers that a competitor ends with, and all of those centers.  A competitor that takes longer than the limit is
stopped, and the ratios count what it took until then.

`pdc-dp-means` 0.0.8 needs older packages, and so the Python of a virtual environment of its own:
``pip install "numpy<2" "scikit-learn<1.3" pdc-dp-means==0.0.8``.  On empty clusters its compiled code prints an error
that it ignores; these are dropped.

About 300 MB of each process are what this script imports.  The rows are float32.  Blobs have unit deviation in 16
columns.  Their penalty, 120, is from fits of 200,000 rows around 1,000 centers: penalty 50 opens 3,256 clusters, 80
opens 1,095, and 120 the 1,000 that were planted.  The price of their search is ten times the rows of a blob: halving a
blob saves less than one squared unit a row, and merging the nearest two costs more than ten.
"""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from inspect import getsource
from itertools import pairwise
from math import ceil, isnan, nan
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import dask.array as da
import numpy as np
import numpy.typing as npt
import told_peers
import zarr
from distributed import Client, LocalCluster, wait
from out_of_core import peak_memory
from ratios import Line, judged, same_environment, table
from sklearn.cluster import MiniBatchKMeans
from told_peers import CORES, ONE, TEN, WARM_ROWS, Competitor, Fitted, Task, timed_fit

from dask_dpmeans import DPMeans
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
from dask_dpmeans.methods.dpmeans.batch import inertia_of
from dask_dpmeans.sources import as_source

STORE_ROWS = 8_000_000
MOST_ITERATIONS = 100_000
BLOB_PENALTY = 120.0
BLOB_ROW_PRICE = 10.0
"""The price of a cluster of blobs, over the rows of one."""

PDC_SCRIPT = f"""
import json, resource, sys, time
from pathlib import Path

import numpy as np
from pdc_dp_means import DPMeans

{getsource(peak_memory)}
def fit(rows):
    method = DPMeans(n_clusters=1, n_init=1, max_iter={MOST_ITERATIONS}, delta=float(sys.argv[2]), random_state=0)
    return method.fit(rows)

rows = np.load(sys.argv[1])
fit(rows[:{WARM_ROWS}])
print("ready", flush=True)
started = time.perf_counter()
model = fit(rows)
answer = dict(seconds=time.perf_counter() - started, passes=model.n_iter_, memory=peak_memory())
print(json.dumps(dict(answer, centers=model.cluster_centers_.tolist())))
"""
"""What the other Python runs."""


@dataclass(frozen=True)
class Outcome:
    """What became of a competitor."""

    seconds: float
    """Of the fit, or until it was stopped; not a number where it failed."""
    fitted: Fitted | None = None
    """None where it was stopped, or failed."""
    objective: float = nan

    @property
    def text(self) -> str:
        """For its line."""
        if self.fitted is None:
            return "failed" if isnan(self.seconds) else f"> {self.seconds:g} s"
        found = self.fitted
        size = f"k {len(found.centers):,}; {found.passes:.4g} passes; {found.memory / 1e6:,.0f} MB"
        first = f"; first fit {found.first:.3f} s" if found.first else ""
        return f"{found.seconds:.3f} s; J {self.objective:.7g}; {size}{first}"


def ours_of(task: Task, ready: Callable[[], None], search: bool, effort: str = "normal") -> Fitted:
    """DPMeans in memory: the second of two fits."""
    rows, options = task.rows(), {"search": search, "effort": effort}
    method = DPMeans(task.penalty, max_iter=MOST_ITERATIONS, random_state=0, **options)
    _, first = timed_fit(method.fit, rows[:WARM_ROWS], rows, ready)
    model, seconds = timed_fit(method.fit, rows[:WARM_ROWS], rows, lambda: None)
    found = Fitted(seconds, model.cluster_centers_, model.n_passes_, peak_memory(), model.n_iter_)
    return replace(found, first=first)


def births(task: Task, ready: Callable[[], None]) -> Fitted:
    """Births only."""
    return ours_of(task, ready, search=False)


def searched(task: Task, ready: Callable[[], None]) -> Fitted:
    """The search."""
    return ours_of(task, ready, search=True)


def searched_quickly(task: Task, ready: Callable[[], None]) -> Fitted:
    """The search with the quick effort."""
    return ours_of(task, ready, search=True, effort="quick")


def pdc(task: Task, ready: Callable[[], None]) -> Fitted:
    """The other Python's `pdc-dp-means`."""
    command = [str(task.pdc_python), "-I", "-c", PDC_SCRIPT, str(task.path), repr(task.penalty)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("pdc-dp-means did not start")
        ready()
        answer = json.loads(process.stdout.read())
    return Fitted(
        answer["seconds"], np.array(answer["centers"]), answer["passes"], answer["memory"]
    )


@contextmanager
def workers() -> Iterator[Client]:
    """Fresh ones, of one thread each."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with (
        LocalCluster(CORES, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def _chunk(path: Path, block_info: dict[None, dict[str, Any]]) -> npt.NDArray[np.float32]:
    start, stop = block_info[None]["array-location"][0]
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def resident_chunks(path: Path, chunk_rows: int, client: Client) -> da.Array:
    """The rows of a .npy file, in the workers' memory."""
    n, d = np.load(path, mmap_mode="r").shape
    heights = tuple(min(chunk_rows, n - start) for start in range(0, n, chunk_rows))
    array = da.map_blocks(
        _chunk, path, chunks=(heights, (d,)), dtype=np.float32, meta=np.empty((0, 0), np.float32)
    ).persist()
    wait(array)
    return array


def on_dask(
    fit: Callable[[Any], Any], task: Task, ready: Callable[[], None]
) -> tuple[Any, float, int]:
    """A fit on workers that hold the rows, its seconds, and the peak of all processes together."""
    with workers() as client:
        n = np.load(task.path, mmap_mode="r").shape[0]
        array = resident_chunks(task.path, ceil(n / task.chunks), client)
        model, seconds = timed_fit(fit, array[:WARM_ROWS].persist(), array, ready)
        return model, seconds, peak_memory() + sum(client.run(peak_memory).values())


def births_on_dask(task: Task, ready: Callable[[], None]) -> Fitted:
    """Births only."""
    model, seconds, memory = on_dask(
        DPMeans(task.penalty, max_iter=MOST_ITERATIONS).fit, task, ready
    )
    return Fitted(seconds, model.cluster_centers_, model.n_passes_, memory, model.n_iter_)


def dask_ml(task: Task, ready: Callable[[], None]) -> Fitted:
    """As many iterations as it is told, from rows drawn without replacement."""
    means: Any = import_module("dask_ml.cluster").KMeans
    rows = np.load(task.path, mmap_mode="r")
    first = rows[np.sort(np.random.default_rng(0).choice(len(rows), task.k, replace=False))]
    method = means(task.k, init=first, max_iter=task.iterations, tol=0.0, random_state=0)
    model, seconds, memory = on_dask(method.fit, task, ready)
    return Fitted(seconds, np.asarray(model.cluster_centers_, np.float64), model.n_iter_, memory)


def births_on_store(task: Task, ready: Callable[[], None]) -> Fitted:
    """Births only, from disk."""
    array = zarr.open_array(task.path, mode="r")
    method = DPMeans(task.penalty, max_iter=MOST_ITERATIONS)
    model, seconds = timed_fit(method.fit, array[:WARM_ROWS], array, ready)
    return Fitted(seconds, model.cluster_centers_, model.n_passes_, peak_memory(), model.n_iter_)


def minibatch_on_store(task: Task, ready: Callable[[], None]) -> Fitted:
    """Each chunk once, in order."""
    array = zarr.open_array(task.path, mode="r")

    def fit(rows: Any) -> Any:
        n = rows.shape[0]
        model = MiniBatchKMeans(min(task.k, n), n_init=1, random_state=0)
        # A chunk with fewer rows than clusters can only be the last: it comes with the one before it.
        cuts = [*range(0, max(1, n - task.k + 1), array.chunks[0]), n]
        for start, stop in pairwise(cuts):
            model.partial_fit(rows[start:stop])
        return model

    model, seconds = timed_fit(fit, array[:WARM_ROWS], array, ready)
    return Fitted(seconds, model.cluster_centers_.astype(np.float64), 1, peak_memory())


def _compete(competitor: Competitor, task: Task, answers: Connection) -> None:
    """In a process of its own, that leads a group, so that it can be stopped with all that it starts."""
    os.setpgid(0, 0)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    answers.send(competitor(task, lambda: answers.send("ready")))


def outcome(competitor: Competitor, task: Task, limit: float) -> Outcome:
    """Run a competitor for no longer than the limit, and score its centers on all rows."""
    context = get_context("spawn")
    answers, sender = context.Pipe(duplex=False)
    process = context.Process(target=_compete, args=(competitor, task, sender))
    with same_environment():
        os.environ["OMP_NUM_THREADS"] = str(CORES)
        process.start()
    sender.close()
    try:
        answers.recv()
        if not answers.poll(limit):
            return Outcome(limit)
        fitted = answers.recv()
        process.join()
    except EOFError:
        return Outcome(nan)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid or 0, signal.SIGKILL)
    rows = (
        np.load(task.path) if task.path.suffix == ".npy" else zarr.open_array(task.path, mode="r")
    )
    inertia = inertia_of(as_source(rows), fitted.centers)
    return Outcome(fitted.seconds, fitted, inertia + task.penalty * len(fitted.centers))


Outcomes = Mapping[str, Outcome]
"""What became of each competitor, by name."""

BIRTHS, SEARCH, QUICK = "births only", "search", "quick search"
PDC, DASK_ML = "pdc-dp-means", "dask-ml KMeans"
BATCHES = "MiniBatchKMeans, each chunk once"
MODULES = {"dask-ml": "dask_ml"} | {key: peer.module for key, peer in told_peers.PEERS.items()}
PEERS = ("pdc", *told_peers.PEERS, "dask-ml")


@dataclass(frozen=True)
class Problem:
    """Rows, and what has to hold on them."""

    name: str
    births: float | None = None
    """The penalty of births only."""
    price: float | None = None
    """The penalty of the search."""
    least_pdc: float | None = None
    """Times that `pdc-dp-means` takes as long, at least."""
    least_ten: float = 1.0
    """Times that ten starts of k-means take as long as the search, at least."""
    most_one: float | None = None
    """Times a k-means of one start that the search takes, at most."""
    least_dask_ml: float = 10.0


PROBLEMS = (
    Problem("s2", price=1550976438283.213),
    Problem("a3", price=14122333550.151108),
    Problem("mnist10", births=8.0, price=1_000.0, least_pdc=20.0, least_ten=10.0),
    Problem("sift_312k", births=190_000.0, price=3e7, least_pdc=5.0, most_one=2.0),
    Problem("birch1", price=4236593962747.904),
)
SYNTHETIC = ("blobs", "chunks", "store")


def blobs(fraction: float, n_rows: int = 2_000_000) -> tuple[Synthetic, Problem]:
    """Rows around 1,000 centers, or fewer where there are fewer than twenty rows for each; and their penalties."""
    n = int(n_rows * fraction)
    k = min(1_000, ceil(n / 20))
    price = BLOB_ROW_PRICE * n / k
    return Synthetic("blobs", n, 16, k, 0), Problem(
        "blobs", BLOB_PENALTY, price, least_pdc=10.0, most_one=2.0
    )


def in_memory(problem: Problem, task: Task, peers: Sequence[str], limit: float) -> Outcomes:
    """All that fit rows in memory, one after the other."""
    found = {}
    if problem.births is not None:
        penalized = replace(task, penalty=problem.births)
        found[BIRTHS] = outcome(births, penalized, limit)
        if "pdc" in peers:
            found[PDC] = outcome(pdc, penalized, limit)
    if problem.price is not None:
        priced = replace(task, penalty=problem.price)
        found[SEARCH] = outcome(searched, priced, limit)
        found[QUICK] = outcome(searched_quickly, priced, limit)
        found.update(
            told(
                found[SEARCH],
                priced,
                {peer.name: peer.fit for key, peer in told_peers.PEERS.items() if key in peers},
                limit,
            )
        )
    return found


def told(
    ours: Outcome, task: Task, peers: Mapping[str, Competitor], limit: float
) -> dict[str, Outcome]:
    """Peers that are told our clusters and iterations; none where ours did not end."""
    if ours.fitted is None:
        return {}
    task = replace(task, k=len(ours.fitted.centers), iterations=ours.fitted.iterations)
    return {name: outcome(competitor, task, limit) for name, competitor in peers.items()}


def on_chunks(penalty: float, task: Task, peers: Sequence[str], limit: float) -> Outcomes:
    """Births only and dask-ml, on workers that hold the rows."""
    task = replace(task, penalty=penalty)
    ours = outcome(births_on_dask, task, limit)
    return {
        BIRTHS: ours,
        **told(ours, task, {DASK_ML: dask_ml} if "dask-ml" in peers else {}, limit),
    }


def on_store(penalty: float, task: Task, peers: Sequence[str], limit: float) -> Outcomes:
    """Births only and MiniBatchKMeans, from disk."""
    task = replace(task, penalty=penalty)
    ours = outcome(births_on_store, task, limit)
    batches = {BATCHES: minibatch_on_store} if "minibatch" in peers else {}
    return {BIRTHS: ours, **told(ours, task, batches, limit)}


def time_lines(found: Outcomes, above: str, below: str, **target: float | None) -> Iterator[Line]:
    """The time of one over that of another; where one was stopped, what is certain of it."""
    if above not in found or below not in found:
        return
    upper, lower = found[above], found[below]
    ratio = upper.seconds / lower.seconds
    if isnan(ratio) or (upper.fitted is None and lower.fitted is None):
        return
    bound = ">" if upper.fitted is None else "<" if lower.fitted is None else ""
    line = judged(f"{above} / {below}, time", ratio, f"{bound} {ratio:.3f}".strip(), **target)
    proven = {">": ("at least met", "at most missed"), "<": ("at most met", "at least missed")}
    certain = (
        not bound
        or not line.verdict
        or f"{line.target[:8].strip()} {line.verdict}" in proven[bound]
    )
    yield line if certain else replace(line, verdict="open")


def objective_lines(
    found: Outcomes, above: str, below: str, *, strictly: bool = False
) -> Iterator[Line]:
    """The objective of one over that of another, which has to be no higher, or lower."""
    if above in found and below in found and found[above].fitted and found[below].fitted:
        ratio = found[above].objective / found[below].objective
        line = judged(f"{above} / {below}, J", ratio, f"{ratio:.5f}", most=1.0)
        yield (
            replace(line, target="below 1", verdict="met" if ratio < 1.0 else "missed")
            if strictly
            else line
        )


def lines(problem: Problem, found: Outcomes) -> list[Line]:
    """A line for each competitor, and the ratios that there are."""
    return [
        *(Line(name, each.text) for name, each in found.items()),
        *objective_lines(found, BIRTHS, PDC),
        *time_lines(found, PDC, BIRTHS, least=problem.least_pdc),
        *objective_lines(found, SEARCH, TEN, strictly=True),
        *time_lines(found, TEN, SEARCH, least=problem.least_ten),
        *objective_lines(found, QUICK, TEN),
        *time_lines(found, TEN, QUICK, least=problem.least_ten),
        *time_lines(found, SEARCH, ONE, most=problem.most_one),
        *time_lines(found, DASK_ML, BIRTHS, least=problem.least_dask_ml),
        *objective_lines(found, BIRTHS, BATCHES),
        *time_lines(found, BIRTHS, BATCHES),
    ]


def present(names: Sequence[str], pdc_python: str | None) -> list[str]:
    """The peers that are installed; the others are named."""
    found = []
    for name in names:
        if name == "pdc":
            command = [str(pdc_python), "-I", "-c", "import pdc_dp_means"]
            there = (
                pdc_python is not None
                and subprocess.run(command, capture_output=True).returncode == 0
            )
        else:
            there = name not in MODULES or find_spec(MODULES[name]) is not None
        if there:
            found.append(name)
        else:
            click.echo(
                f"{name} is not installed{' where --pdc-python says' * (name == 'pdc')}: left out"
            )
    return found


def real_tables(
    folder: Path, wanted: Sequence[str], task: Task, peers: Sequence[str], limit: float
) -> Iterator[tuple[str, list[Line]]]:
    """Titles and lines of the sets in a folder."""
    for problem in PROBLEMS:
        if problem.name not in wanted:
            continue
        source = folder / f"{problem.name}.npz"
        if not source.exists():
            click.echo(f"{problem.name} is not in {folder}: left out")
            continue
        rows = np.load(source)["X"].astype(np.float32)
        np.save(task.path, rows)
        yield title(problem, rows.shape), lines(problem, in_memory(problem, task, peers, limit))


def synthetic_tables(
    fraction: float, wanted: Sequence[str], task: Task, peers: Sequence[str], limit: float
) -> Iterator[tuple[str, list[Line]]]:
    """Titles and lines of the blobs: in memory, in chunks on workers, and in a store."""
    data, problem = blobs(fraction)
    shape = (data.n_rows, data.n_features)
    if {"blobs", "chunks"} & set(wanted):
        np.save(task.path, np.concatenate([part for _, part, _ in data.parts()]))
    if "blobs" in wanted:
        yield title(problem, shape), lines(problem, in_memory(problem, task, peers, limit))
    if "chunks" in wanted:
        chunks = replace(
            problem, name=f"blobs in {task.chunks:,} chunks on {CORES} workers", price=None
        )
        yield title(chunks, shape), lines(chunks, on_chunks(BLOB_PENALTY, task, peers, limit))
    if "store" in wanted:
        data, _ = blobs(fraction, STORE_ROWS)
        path = task.path.with_name("store.zarr")
        write_synthetic(data, path)
        store = Problem("blobs in a Zarr store", births=BLOB_PENALTY)
        found = on_store(BLOB_PENALTY, replace(task, path=path / "rows"), peers, limit)
        yield title(store, (data.n_rows, data.n_features)), lines(store, found)


def title(problem: Problem, shape: tuple[int, ...]) -> str:
    """What a table is about."""
    penalties = {"births": problem.births, "search and k-means": problem.price}
    shown = "; ".join(
        f"{name} at penalty {value:g}" for name, value in penalties.items() if value is not None
    )
    return f"{problem.name}, {shape[0]:,} x {shape[1]}; {shown}"


def names(default: Sequence[str]) -> Callable[[Any, Any, str | None], list[str]]:
    """Reads names with commas between them, each of which has to be known."""

    def read(context: Any, parameter: Any, value: str | None) -> list[str]:
        given = list(default) if value is None else value.split(",")
        if unknown := set(given) - set(default):
            raise click.BadParameter(
                f"got {', '.join(sorted(unknown))}, knows {', '.join(default)}"
            )
        return given

    return read


@click.command(help=__doc__)
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Sets.")
@click.option(
    "--only", callback=names((*(each.name for each in PROBLEMS), *SYNTHETIC)), help="Names of sets."
)
@click.option("--peers", "wanted", callback=names(PEERS), help=f"Some of {','.join(PEERS)}.")
@click.option(
    "--rows-fraction", default=1.0, show_default=True, help="Fraction of the synthetic rows."
)
@click.option(
    "--pdc-python",
    type=click.Path(exists=True, dir_okay=False),
    help="The Python that has pdc-dp-means.",
)
@click.option("--chunks", default=Task.chunks, show_default=True, help="Of the Dask array.")
@click.option(
    "--limit", default=600.0, show_default=True, help="Seconds after which a fit is stopped."
)
def main(
    data: Path | None,
    only: list[str],
    wanted: list[str],
    rows_fraction: float,
    pdc_python: str | None,
    chunks: int,
    limit: float,
) -> None:
    """Print the tables, one after the other."""
    peers = present(wanted, pdc_python)
    with tempfile.TemporaryDirectory() as folder:
        task = Task(Path(folder) / "rows.npy", penalty=1.0, pdc_python=pdc_python, chunks=chunks)
        if data is not None:
            for each in real_tables(data, only, task, peers, limit):
                click.echo(table(*each))
        for each in synthetic_tables(rows_fraction, only, task, peers, limit):
            click.echo(table(*each))


if __name__ == "__main__":
    main()
