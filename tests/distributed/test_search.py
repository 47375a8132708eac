"""The search on two worker processes, and as a job that is stopped and resumed: the same bytes as on threads."""

import os
import signal
import subprocess
import sys

import dask.array as da
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from strategies import contents
from two_workers import two_workers

from dask_dpmeans import load
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
from dask_dpmeans.cli import main
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.methods.dpmeans import short_searches
from dask_dpmeans.methods.dpmeans.search import Method
from dask_dpmeans.selection.penalty import farthest_first, penalty_for, penalty_path
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.executors.dask_tasks import DaskTasks

ROWS = np.concatenate([rows for _, rows, _ in Synthetic("blobs", 600, 2, 6, 3).parts()])
WEIGHTS = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 2.7], len(ROWS))
METHODS = {
    # A trial succeeds in its 8th step, and 16th pass.
    "plain": Method(100.0, seed=3, tol=0.01, max_iter=8),
    "from a coreset": Method(300.0, seed=1, coreset_rows=150),
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with two_workers(tmp_path_factory.mktemp("workers")) as client:
        yield client


def trace(source, method):
    return [contents(step.state) | {"end": step.converged} for step in iterate(source, method)]


@pytest.mark.filterwarnings("ignore:.*fits saw a summary of fewer than 32 rows a cluster")
@pytest.mark.parametrize("price", [False, True])
def test_penalties_chosen_on_workers_are_those_of_threads(client, tmp_path, price):
    stored = zarr.create_array(tmp_path / "rows.zarr", data=ROWS, chunks=(50, 1))
    options = {"search": price, "full": True, "summary_rows": 100, "random_state": 0}
    ends = []
    for where in ({"client": client}, {"threads": 2}):
        path = penalty_path(stored, [30.0, 3000.0], halvings=1, **options, **where)
        aimed = penalty_for(stored, 6, **options, **where)
        first = farthest_first(stored, 9, block_rows=64, **where)
        arrays = [path.inertias, path.stability, *path.centers, first.rows, first.penalties]
        ends.append(([each.tobytes() for each in arrays], path.intervals, aimed))
    assert ends[0] == ends[1]


def test_a_search_that_begins_on_cells_on_workers_gives_the_bytes_of_threads(client, monkeypatch):
    monkeypatch.setattr(short_searches, "SHORT_BELOW", 500)
    monkeypatch.setattr(short_searches, "CELLS", 40)
    monkeypatch.setattr(short_searches, "CELLS_OF_CLUSTER", (4, 8))
    rows, weights = da.from_array(ROWS, chunks=(170, 1)), da.from_array(WEIGHTS, chunks=70)
    on_workers = as_source(rows, weights, client=client, block_rows=64)
    method = Method(100.0, seed=3)
    assert method._narrow(*ROWS.shape)
    found = trace(on_workers, method)
    assert found == trace(as_source(ROWS, WEIGHTS, threads=2, block_rows=64), method)
    assert found[0]["rows_read"] == 3 * len(ROWS)  # survey, gather, the pass


@pytest.mark.parametrize("name", METHODS)
def test_a_search_on_workers_gives_the_bytes_of_threads(client, tmp_path, name):
    made = zarr.create_array(
        tmp_path / "rows.zarr", shape=ROWS.shape, chunks=(50, 1), dtype=ROWS.dtype
    )
    made[:] = ROWS
    on_workers = as_source(tmp_path / "rows.zarr", WEIGHTS, client=client, block_rows=64)
    assert isinstance(on_workers.executor, DaskTasks)
    assert on_workers.plan.n_shards > 4
    on_threads = as_source(ROWS, WEIGHTS, threads=2, block_rows=64)
    found = trace(on_workers, METHODS[name])
    assert found == trace(on_threads, METHODS[name])
    assert len(found) >= 3


def command(run, *options):
    return [
        "fit",
        "data.zarr/rows",
        run,
        "--penalty",
        "900",
        "--search",
        "--threads",
        "1",
        *options,
    ]


def test_a_search_of_the_command_line_that_is_stopped_goes_on_to_the_same_end(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_synthetic(Synthetic("uniform", 20_000, 4, 1, 0), "data.zarr")
    process = subprocess.Popen(
        [sys.executable, "-m", "dask_dpmeans", *command("run.zarr", "--seed", "3")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith("step 4:"):
            os.kill(process.pid, signal.SIGTERM)
            break
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3, said
    most = ("--max-iter", "14")
    for arguments in (
        command("run.zarr", "--resume", *most),
        command("whole.zarr", "--seed", "3", *most),
    ):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
    assert load("run.zarr").get_params()["search"] is True
    assert load("run.zarr").n_iter_ == 14
    for name, array in zarr.open_group("whole.zarr", mode="r").arrays():
        if name != "seconds":
            assert zarr.open_array(f"run.zarr/{name}")[...].tobytes() == array[...].tobytes(), name
