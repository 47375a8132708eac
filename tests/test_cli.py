"""The command line: options, what it prints, exit codes."""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray
import zarr
from click.testing import CliRunner, Result
from scipy.sparse import csr_array, save_npz
from writes import faulty, stored_rows
from zarr.codecs import ZstdCodec

from dask_dpmeans import DPMeans, fit, load, sources
from dask_dpmeans.api.loading import read_run
from dask_dpmeans.api.synthetic import Synthetic
from dask_dpmeans.cli import compute, homes, main
from dask_dpmeans.cli.progress import PlainLines, TerminalLine, progress
from dask_dpmeans.engine.history import GAINS, MOVES, Record
from dask_dpmeans.errors import InputError
from dask_dpmeans.selection.penalty import farthest_first, penalty_for, penalty_path
from dask_dpmeans.sources import connect, layout
from dask_dpmeans.sources.parallel_read_trial import Trial
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.lock import Lock, only_job
from dask_dpmeans.storage.step_log import CheckpointFiles, StepLog


@pytest.fixture
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (
        rng.uniform(-9, 9, (5, 3))[rng.integers(5, size=1000)] + rng.standard_normal((1000, 3))
    ).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    array = zarr.create_group("data.zarr").create_array(
        "group/rows", shape=rows.shape, chunks=(300, 3), dtype=rows.dtype
    )
    array[:] = rows
    return "data.zarr/group/rows"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def succeed(*arguments: str) -> Result:
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    return result


def test_fit_writes_a_run_and_says_what_was_found(data: str, rows: np.ndarray) -> None:
    result = succeed("fit", data, "run.zarr", "--penalty", 25, "--seed", 3)
    model = load("run.zarr")
    assert f"clusters    {model.n_clusters_}" in result.stdout
    assert f"{model.objective_:.9g}" in result.stdout
    assert str(Path("run.zarr").absolute()) in result.stdout
    assert result.stderr.startswith("step 1: k=")
    assert len(result.stderr.splitlines()) == model.n_iter_
    np.testing.assert_array_equal(model.labels_.compute(), DPMeans(25.0).fit(rows).labels_)
    assert model.random_state_ == 3


def test_what_weighs_a_cluster_and_one_column_are_called_so(data: str, tmp_path: Path) -> None:
    np.save("weights.npy", np.full(1000, 2.5))
    np.save("one.npy", zarr.open_array(data)[:, :1])
    said = succeed(
        "fit", "one.npy", "run.zarr", "--penalty", 1e6, "--weights", "weights.npy"
    ).stdout
    assert "heaviest    0 (2,500 in weight)" in said
    assert "1,000 rows x 1 column, float32" in said
    assert (
        "heaviest    0 (1,000 rows)"
        in succeed("fit", "one.npy", "run.zarr", "--penalty", 1e6, "--force").stdout
    )
    save_npz("graph.npz", csr_array(np.ones((4, 4)) - np.eye(4)))
    assert (
        "input       4 nodes, float64"
        in succeed("graph", "graph.npz", "graph.zarr", "--penalty", -0.5).stdout
    )


@pytest.mark.parametrize("form", ["rows.npz", "sparse.zarr/group"])
def test_sparse_rows_are_fitted_predicted_and_resumed_as_dense_ones(
    data: str, rows: np.ndarray, form: str
) -> None:
    rows = np.where(rows > 0, rows, 0)
    zarr.open_array(data)[:] = rows
    if form.endswith(".npz"):
        save_npz(form, csr_array(rows))
    else:
        group = zarr.create_group("sparse.zarr").create_group(
            "group", attributes={"shape": [1000, 3]}
        )
        for name in ("data", "indices", "indptr"):
            group.create_array(name, data=getattr(csr_array(rows), name), chunks=(300,))
    options = ["--penalty", 25, "--seed", 3, "--scale", "std", "--columns", "2,0", "--threads", 2]
    for given_rows, run in ((data, "dense.zarr"), (form, "sparse-run.zarr")):
        succeed("fit", given_rows, run, *options)
        succeed("predict", run, given_rows, f"{run}-labels")
    before = Path("sparse-run.zarr/zarr.json").read_bytes()
    succeed("fit", form, "sparse-run.zarr", *options, "--resume")
    assert Path("sparse-run.zarr/zarr.json").read_bytes() == before
    found, dense = (load(run) for run in ("sparse-run.zarr", "dense.zarr"))
    assert found.cluster_centers_.tobytes() == dense.cluster_centers_.tobytes()
    assert found.labels_.compute().tobytes() == dense.labels_.compute().tobytes()
    for name in ("label", "squared_distance", "beyond"):
        first, second = (
            zarr.open_array(f"{run}-labels/{name}")[:] for run in ("sparse-run.zarr", "dense.zarr")
        )
        assert first.tobytes() == second.tobytes()
    inputs_of = [read_run(run).manifest.input for run in ("sparse-run.zarr", "dense.zarr")]
    assert inputs_of[0] == inputs_of[1]


def test_a_npz_file_cannot_be_read_by_worker_processes(data: str, rows: np.ndarray) -> None:
    save_npz("rows.npz", csr_array(rows))
    result = call("fit", "rows.npz", "run.zarr", "--penalty", 25, "--workers", 1)
    assert result.exit_code == 2
    assert "data is in this process's memory" in result.output


def test_every_option_of_fit_reaches_the_library(data: str, rows: np.ndarray) -> None:
    np.save("weights.npy", np.linspace(0, 2, 1000))
    options = [
        "--weights",
        "weights.npy",
        "--columns",
        "2,0-1",
        "--scale",
        "std",
        "--tol",
        0,
        "--max-clusters",
        90,
    ]
    succeed(
        "fit", data, "run.zarr", "--penalty", 0.5, "--threads", 1, "--memory-limit", "1GB", *options
    )
    divided = rows[:, [2, 0, 1]] / load("run.zarr").feature_scale_
    expected = DPMeans(0.5, tol=0).fit(
        divided.astype(np.float32), sample_weight=np.linspace(0, 2, 1000)
    )
    np.testing.assert_array_equal(load("run.zarr").labels_.compute(), expected.labels_)
    assert load("run.zarr").get_params()["max_clusters"] == 90


@pytest.mark.parametrize("options", [[], ["--search"]])
def test_directions_by_the_command_line(data: str, rows: np.ndarray, options: list[str]) -> None:
    how = ["--penalty", 0.2, "--metric", "cosine", "--scale", "std", "--seed", 0, *options]
    assert "would be written" in succeed("fit", data, "run.zarr", *how, "--dry-run").stdout
    shown = succeed("fit", data, "run.zarr", *how).stdout
    reading = "a price" if options else "an angle of 25.84 degrees"
    assert f"metric      cosine\npenalty     0.2, {reading}\n" in shown
    model = load("run.zarr")
    assert model.get_params()["metric"] == "cosine"
    np.testing.assert_allclose(np.sqrt((model.cluster_centers_**2).sum(axis=1)), 1.0, rtol=1e-14)
    np.save("longer.npy", rows * 2)
    succeed("predict", "run.zarr", "longer.npy", "out.zarr")
    np.testing.assert_array_equal(zarr.open_array("out.zarr/label")[:], model.labels_.compute())


def test_a_price_beyond_every_angle_is_for_the_search(data: str) -> None:
    result = call("fit", data, "run.zarr", "--penalty", 9, "--metric", "cosine")
    assert result.exit_code == 2
    assert "penalty must be <= 4 where --metric cosine, got 9.0" in result.output
    shown = succeed(
        "fit", data, "run.zarr", "--penalty", 9, "--metric", "cosine", "--search", "--seed", 0
    ).stdout
    assert "metric      cosine\npenalty     9, a price\n" in shown


def test_json_is_one_object_a_line(data: str) -> None:
    events = [
        json.loads(line)
        for line in succeed("fit", data, "run.zarr", "--penalty", 25, "--json").stdout.splitlines()
    ]
    model = load("run.zarr")
    assert [event["event"] for event in events] == ["step"] * model.n_iter_ + ["done"]
    assert [event["objective"] for event in events[:-1]] == [
        record.objective for record in model.history_
    ]
    assert events[-1]["n_clusters"] == model.n_clusters_
    assert events[-1]["converged"] is True


def test_show(data: str) -> None:
    succeed("fit", data, "run.zarr", "--penalty", 25)
    model = load("run.zarr")
    assert f"clusters    {model.n_clusters_}" in succeed("show", "run.zarr").stdout
    shown = json.loads(succeed("show", "run.zarr", "--json").stdout)
    assert shown["parameters"]["penalty"] == 25
    assert [each["weight"] for each in shown["clusters"]] == model.cluster_weights_.tolist()
    assert shown["result"]["objective"] == model.objective_


def test_predict_writes_labels_distances_and_rows_beyond(data: str) -> None:
    succeed("fit", data, "run.zarr", "--penalty", 25)
    far = np.concatenate([zarr.open_array(data)[:], np.full((7, 3), 1e3, np.float32)])
    np.save("far.npy", far)
    result = succeed("predict", "run.zarr", "far.npy", "out.zarr")
    assert (
        "1,007 rows labeled, 7 of them costing more than the penalty at every center: out.zarr"
        in result.stdout
    )
    out = xarray.open_zarr("out.zarr")
    np.testing.assert_array_equal(out.label, load("run.zarr").predict(far))
    np.testing.assert_array_equal(np.flatnonzero(out.beyond), np.arange(1000, 1007))
    shown = json.loads(
        succeed("predict", "run.zarr", "far.npy", "out.zarr", "--force", "--json").stdout
    )
    assert (shown["n_rows"], shown["beyond"]) == (1007, 7)
    refused = call("predict", "run.zarr", "far.npy", "labels.csv")
    assert refused.exit_code == 2
    assert "predictions are stored as a Zarr group, or as a table if it ends" in refused.output
    assert not Path("labels.csv").exists()


def test_synth_writes_what_fit_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("blobs", "outliers", "uniform"):
        succeed(
            "synth",
            kind,
            f"{kind}.zarr",
            "--rows",
            2000,
            "--features",
            2,
            "--centers",
            3,
            "--seed",
            2,
        )
    succeed("fit", "blobs.zarr/rows", "run.zarr", "--penalty", 60)
    truth = zarr.open_array("blobs.zarr/truth")[:]
    labels = load("run.zarr").labels_.compute()
    assert len(set(zip(truth.tolist(), labels.tolist(), strict=True))) == 3


def test_a_warm_start_from_a_run(data: str) -> None:
    succeed("fit", data, "run.zarr", "--penalty", 25, "--tol", 0)
    succeed("fit", data, "warm.zarr", "--penalty", 25, "--tol", 0, "--init", "run.zarr")
    assert load("warm.zarr").n_iter_ == 1


def test_force_and_resume(data: str) -> None:
    succeed("fit", data, "run.zarr", "--penalty", 25)
    assert (
        "--resume goes on with it, --force removes it"
        in call("fit", data, "run.zarr", "--penalty", 25).output
    )
    assert succeed("fit", data, "run.zarr", "--penalty", 25, "--resume").stderr == ""
    succeed("fit", data, "run.zarr", "--penalty", 9, "--force")
    assert load("run.zarr").penalty == 9


def test_a_dry_run_says_what_a_fit_would_cost_and_writes_nothing(data: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = succeed("fit", data, "run.zarr", "--penalty", 25, "--columns", "0-1", "--dry-run")
    assert sorted(tmp_path.rglob("*")) == before
    assert f"{tmp_path / 'run.zarr'} would be written" in result.stdout
    assert "1,000 rows x 2 of 3 columns, float32" in result.stdout
    assert "1 of 16,384 rows, in 1 shard of 1,000" in result.stdout
    assert (
        f"{zarr.open_array(data).nbytes_stored():,} as stored, 12,000 as decoded" in result.stdout
    )
    assert "one pass at " in result.stdout
    assert "advice      no codec has a checksum" in result.stdout
    succeed("fit", data, "run.zarr", "--penalty", 25)
    again = succeed("fit", data, "run.zarr", "--penalty", 25, "--dry-run")
    assert "run.zarr is there: a fit needs --force or --resume" in again.stdout


def test_a_dry_run_in_json_is_one_event(data: str) -> None:
    event = json.loads(
        succeed("fit", data, "run.zarr", "--penalty", 25, "--dry-run", "--json").stdout
    )
    assert (event["event"], event["target"], event["n_rows"], event["n_shards"]) == (
        "estimate",
        "new",
        1000,
        1,
    )
    assert event["pass_seconds"] > 0


def test_a_dry_run_on_workers_counts_their_threads(data: str) -> None:
    where = ["--workers", 1, "--threads", 2, "--memory-limit", "1GB"]
    event = json.loads(
        succeed("fit", data, "run.zarr", "--penalty", 25, "--dry-run", "--json", *where).stdout
    )
    assert (event["threads"], event["worker_memory"], event["thread_memory"]) == (
        2,
        10**9,
        5 * 10**8,
    )
    assert event["sample_clusters"] > 1
    assert not Path("run.zarr").exists()


def test_penalty_says_what_the_library_finds(data: str, rows: np.ndarray) -> None:
    shown = succeed("penalty", data, "-k", 5)
    price = farthest_first(rows, 5).penalty
    assert shown.stdout.splitlines() == [
        f"farthest-first  {price:.9g} for 5 clusters, as a radius",
        f"next            dask-dpmeans fit {data} run.zarr --penalty {price!r}",
    ]
    shown = succeed("penalty", data, "-k", 5, "--search", "--seed", 0).stdout
    found = penalty_for(rows, 5, search=True, random_state=0)
    assert found.n_clusters == 5
    assert (
        f"by fits         {found.penalty:.9g}, 5 clusters as a price, of all 1,000 rows\n" in shown
    )
    np.save("weights.npy", np.linspace(0, 2, 1000))
    how = [
        "--columns",
        "2,0",
        "--scale",
        "std",
        "--weights",
        "weights.npy",
        "--metric",
        "cosine",
        "--threads",
        1,
    ]
    event = json.loads(succeed("penalty", data, "-k", 3, "--fit", "--full", "--json", *how).stdout)
    options = {
        "columns": [2, 0],
        "scale": "std",
        "metric": "cosine",
        "sample_weight": np.linspace(0, 2, 1000),
    }
    first = farthest_first(rows, 3, **options)
    assert event["farthest_first"]["penalties"] == first.penalties.tolist()
    assert event["farthest_first"]["rows"] == first.rows.tolist()
    assert (event["fit"]["wanted"], event["fit"]["penalty"]) == (
        3,
        penalty_for(rows, 3, **options).penalty,
    )


def test_a_number_that_no_penalty_gives_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("square.npy", np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    said = succeed("penalty", "square.npy", "-k", 3, "--fit").stdout
    assert "4 clusters as a radius, of all 4 rows: no penalty tried gives 3" in said


def test_path_prints_a_table_and_writes_a_group(data: str, rows: np.ndarray) -> None:
    how = ["--search", "--from", 20, "--to", 4000, "--number", 5, "--seed", 0, "--halvings", 1]
    shown = succeed("path", data, "path.zarr", *how).stdout
    found = penalty_path(rows, np.geomspace(20, 4000, 5), search=True, halvings=1, random_state=0)
    assert (
        f"longest: {found.longest} clusters, the middle is the price {found.penalty:.9g}" in shown
    )
    assert "of all 1,000 rows, as prices" in shown
    lines = shown.splitlines()
    assert lines[0].split() == ["penalty", "clusters", "objective", "inertia", "stability"]
    assert [int(line.split()[1]) for line in lines[1:6]] == found.n_clusters.tolist()
    assert [int(line.split()[2]) for line in lines[8:-3] if line] == [
        each.n_clusters for each in found.intervals
    ]
    stored = xarray.open_zarr("path.zarr")
    for name, values in (("objective", found.objectives), ("stability", found.stability)):
        np.testing.assert_array_equal(stored[name], values)
    np.testing.assert_array_equal(stored.cluster_centers, np.concatenate(found.centers))
    assert stored.attrs["dask_dpmeans"]["longest"] == found.longest
    assert stored.interval_high.values.tolist() == [each.high for each in found.intervals]
    again = call("path", data, "path.zarr", "--penalties", "9")
    assert again.exit_code == 2
    assert "holds a path: --force removes it first" in " ".join(again.output.split())
    event = json.loads(
        succeed("path", data, "path.zarr", "--penalties", "90,9", "--force", "--json").stdout
    )
    radii = penalty_path(rows, [9, 90])
    assert (event["penalties"], event["n_clusters"]) == ([9.0, 90.0], radii.n_clusters.tolist())
    assert (event["search"], event["full"], event["crowded"], event["stability"]) == (
        False,
        True,
        0.0,
        None,
    )
    assert "longest" not in succeed("path", data, "--penalties", "90,9").stdout
    assert [list(each.values()) for each in event["intervals"]] == [
        list(each) for each in radii.intervals
    ]


def test_a_path_on_a_summary_says_so_and_what_it_lacks(data: str) -> None:
    shown = succeed(
        "path", data, "--penalties", "1e9", "--summary-rows", 100, "--seed", 0, "--search"
    ).stdout
    assert "of a summary of " in shown
    assert (
        "no interval lies between the largest number of clusters and one cluster: try more penalties"
        in shown
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["penalty", "{data}"], "Missing option '-k'"),
        (["penalty", "{data}", "-k", 0], "k must be an integer >= 1, got 0"),
        (["penalty", "nowhere.zarr", "-k", 2], "nowhere.zarr does not exist"),
        (
            ["path", "{data}", "--penalties", "1,two"],
            "'1,two' is not a list of penalties such as 1,2,4",
        ),
        (
            ["path", "{data}", "--penalties", "1,-2"],
            "penalties must be a list of finite numbers > 0, got [1.0, -2.0]",
        ),
        (["path", "{data}", "--from", 1], "give --penalties, or --from and --to, or neither"),
        (
            ["path", "{data}", "--penalties", "1", "--from", 1, "--to", 2],
            "give --penalties, or --from and --to",
        ),
        (
            ["path", "{data}", "--penalties", 9, "--max-clusters", 2],
            "clusters, more than --max-clusters 2: give a",
        ),
        (
            ["path", "{data}", "--number", 9],
            "--number says how many penalties lie from --from to --to: give these too",
        ),
        (
            ["path", "{data}", "--penalties", "1,2", "--number", 9],
            "--number says how many penalties lie",
        ),
        (["penalty", "{data}", "-k", 2, "--full"], "--full is an option for fits: give --fit or"),
        (
            ["penalty", "{data}", "-k", 2, "--seed", 0],
            "--seed is an option for fits: give --fit or",
        ),
        (["path", "{data}", "--from", 3, "--to", 2], "--from 3 must be > 0 and below --to 2"),
        (
            ["path", "{data}", "{data}/out", "--penalties", "1"],
            "lie one within the other: give another output",
        ),
    ],
)
def test_wrong_use_of_penalty_and_path_exits_2(
    data: str, tmp_path: Path, arguments: list, message: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = call(*[str(argument).format(data=data) for argument in arguments])
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.zarr", "run.zarr", "--penalty", 1], "nowhere.zarr does not exist"),
        (["data.zarr/group", "run.zarr", "--penalty", 1], "is a Zarr group, not an array"),
        (["{data}", "run.zarr", "--penalty", 0], "penalty must be a finite number > 0"),
        (["{data}", "run.zarr", "--penalty", "x"], "'x' is not a number or auto"),
        (["{data}", "no/such/run.zarr", "--penalty", 1], "there is no folder"),
        (
            ["{data}", "run.zarr", "--penalty", 1, "--columns", "3"],
            "columns must name some of the 3 columns 0 to 2",
        ),
        (
            ["{data}", "run.zarr", "--penalty", 1, "--columns", "a-b"],
            "columns are named, 'a-b', but data has no names: give their numbers",
        ),
        (
            ["{data}", "run.zarr", "--penalty", 1, "--columns", "0-99999999999"],
            "is not a list of columns below 1,000,000",
        ),
        (
            ["{data}", "run.zarr", "--penalty", 1, "--columns", "2-1"],
            "'2-1' is not a list of columns",
        ),
        (["{data}", "run.zarr", "--penalty", 1, "--memory-limit", "0"], "'0' is no memory at all"),
        (
            ["{data}", "run.zarr", "--penalty", 1, "--memory-limit", "4"],
            "'4' means 4 bytes, in which nothing can run: give more, with its unit, such as 4GB",
        ),
        (
            ["{data}", "run.zarr", "--penalty", 1, "--columns", "0,1,0"],
            "'0,1,0' has column 0 more than once: name each once",
        ),
        (
            ["{data}", "run.zarr", "--penalty", 1, "--worker-timeout", "nan"],
            "nan is not a finite number of seconds",
        ),
        (
            ["{data}", "labels.csv", "--penalty", 1],
            "labels.csv has the ending of a file: a run is stored as a Zarr group; end it with .zarr",
        ),
        (
            ["empty.npy", "run.zarr", "--penalty", 1],
            "empty.npy cannot be read as a .npy file: it does not begin as numpy.save begins it",
        ),
        (["{data}", "run.zarr", "--penalty", 1, "--memory-limit", "much"], "'much' is not a size"),
        (["{data}", "run.zarr", "--penalty", 1, "--resume", "--force"], "give one of them"),
        (
            ["{data}", "run.zarr", "--penalty", 1, "--init", "data.zarr"],
            "holds no run of this package",
        ),
        (
            [
                "{data}",
                "run.zarr",
                "--penalty",
                1,
                "--scheduler",
                "tcp://127.0.0.1:1",
                "--threads",
                2,
            ],
            "cannot change it",
        ),
    ],
)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_wrong_use_exits_2_and_writes_nothing(
    data: str, tmp_path: Path, arguments: list, message: str, dry: list
) -> None:
    Path("empty.npy").touch()
    before = sorted(tmp_path.rglob("*"))
    result = call("fit", *[str(argument).format(data=data) for argument in arguments], *dry)
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())
    assert sorted(tmp_path.rglob("*")) == before


def test_too_many_clusters_exit_2_and_keep_the_run(data: str) -> None:
    result = call("fit", data, "run.zarr", "--penalty", 0.001, "--max-clusters", 10)
    assert result.exit_code == 2
    assert (
        "more than --max-clusters 10: give a higher penalty, or a higher --max-clusters"
        in " ".join(result.output.split())
    )
    succeed("fit", data, "run.zarr", "--penalty", 0.001, "--max-clusters", 2000, "--resume")
    assert load("run.zarr").n_clusters_ > 10


def test_damage_exits_1(data: str) -> None:
    succeed("fit", data, "run.zarr", "--penalty", 25)
    Path("run.zarr/cluster_centers/c/0/0").unlink()
    result = call("show", "run.zarr")
    assert result.exit_code == 1
    assert "cluster_centers is missing: restore it" in " ".join(result.output.split())


def test_max_iter_is_a_warning(data: str) -> None:
    result = succeed("fit", data, "run.zarr", "--penalty", 0.5, "--max-iter", 1)
    assert "Warning: the fit stopped at max_iter=1 before it converged" in result.stderr
    assert "stopped at max_iter" in result.stdout


STOPPED_AT_STEP_3 = """
import os, signal, threading
from dask_dpmeans import cli
from dask_dpmeans.cli import progress
signal.signal(signal.SIGINT, signal.default_int_handler)
say = progress.PlainLines.step
def step(lines, number, record, n_rows):
    say(lines, number, record, n_rows)
    if number == 3:
        os.kill(os.getpid(), {0:d})
        threading.Event().wait(1)
progress.PlainLines.step = step
cli.main()
"""
"""The signal comes from within, so that it comes in time however busy the machine is; what runs in the background may
have been started to ignore Ctrl-C."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_fit_exits_3_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    succeed("synth", "uniform", "data.zarr", "--rows", 60_000, "--features", 4)
    command = ["fit", "data.zarr/rows", "run.zarr", "--penalty", "40", "--tol", "0", "--seed", "0"]
    stopped = subprocess.run(
        [sys.executable, "-c", STOPPED_AT_STEP_3.format(number), *command],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert stopped.returncode == 3, stopped.stderr
    assert "--resume goes on" in stopped.stderr
    assert 3 <= stopped.stderr.count("step ") < 10
    assert "--resume goes on with it" in CliRunner().invoke(main, ["show", "run.zarr"]).output
    succeed(*command, "--resume")
    succeed(*[part.replace("run.zarr", "whole.zarr") for part in command])
    broken, whole = load("run.zarr"), load("whole.zarr")
    np.testing.assert_array_equal(broken.cluster_centers_, whole.cluster_centers_)
    np.testing.assert_array_equal(broken.labels_.compute(), whole.labels_.compute())
    assert broken.n_passes_ == whole.n_passes_


def stop_after_one_step(data: str, run: str) -> None:
    """Begin a run, and stop it after its first step."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(data, run, DPMeans(4.0), on_step=interrupt)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_exits_3_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    succeed("synth", "uniform", "data.zarr", "--rows", 50, "--features", 2)
    succeed("fit", "data.zarr/rows", "run.zarr", "--penalty", "4")

    def full(self: object, content: bytes) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(Location, "write", full)
        answer = CliRunner().invoke(main, ["export", "run.zarr", "out.json"])
        assert answer.exit_code == 3
        told = f"Error: {os.strerror(number)}: make room; the same command begins anew"
        assert told in answer.output
    stop_after_one_step("data.zarr/rows", "begun.zarr")
    monkeypatch.setattr(StepLog, "commit", lambda *_, **__: full(None, b""))
    command = ["fit", "data.zarr/rows", "begun.zarr", "--penalty", "4", "--resume"]
    answer = CliRunner().invoke(main, command)
    assert answer.exit_code == 3
    assert f"{os.strerror(number)}: make room; the same command with --resume" in answer.output


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_place_that_is_closed_to_the_user_exits_2_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    succeed("synth", "uniform", "data.zarr", "--rows", 50, "--features", 2)
    succeed("fit", "data.zarr/rows", "run.zarr", "--penalty", "4")

    stop_after_one_step("data.zarr/rows", "begun.zarr")

    def closed(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), "run.zarr/lock")

    monkeypatch.setattr(Lock, "take", closed)
    for command in (
        ["fit", "data.zarr/rows", "run.zarr", "--penalty", "4", "--force"],
        ["fit", "data.zarr/rows", "run.zarr", "--penalty", "4", "--resume"],
        ["fit", "data.zarr/rows", "begun.zarr", "--penalty", "4", "--resume"],
        ["fit", "data.zarr/rows", "other.zarr", "--penalty", "4"],
        ["predict", "run.zarr", "data.zarr/rows", "labels.zarr"],
    ):
        answer = CliRunner().invoke(main, command)
        assert answer.exit_code == 2, answer.output
        way = "nothing can" if number == errno.EROFS else "this user may not read it"
        assert f"{os.strerror(number)}: 'run.zarr/lock': {way}" in answer.output
        goes_on = "the same command with --resume goes on from the last step of" in answer.output
        assert goes_on == ("begun.zarr" in command)


def test_the_same_commands_under_dask() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "dask", "dpmeans", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for command in ("fit", "penalty", "path", "predict", "show", "synth", "demo"):
        assert command in shown


def test_progress_follows_where_the_output_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(progress(False), PlainLines)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert isinstance(progress(False), TerminalLine)


NO_MOVES = dict.fromkeys(MOVES, 0) | dict.fromkeys(GAINS, 0.0)


def record(n_clusters: int) -> Record:
    figures = {
        "objective": 9.5,
        "inertia": 1.0,
        "births": 2,
        "deaths": 1,
        "passes": 3.0,
        "seconds": 0.5,
    }
    return Record(n_clusters=n_clusters, n_local_clusters=0, **figures, **NO_MOVES)


def test_a_terminal_line_is_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    shown: Callable = TerminalLine()
    shown.step(1, record(3), 1000)
    shown.step(2, record(4), 1000)
    shown.end()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.count("\r") == 2
    assert "step 1: k=3  J=9.5  births=2  deaths=1  6,000 rows/s" in said


def test_the_first_step_after_a_resume_has_no_speed(capsys: pytest.CaptureFixture[str]) -> None:
    shown: Callable = TerminalLine()
    shown.step(2, record(3), 1000)  # its passes are of all steps
    assert "deaths=1  0:00" in shown.last_result
    shown.step(3, replace(record(3), passes=4.0), 1000)
    assert "deaths=1  2,000 rows/s" in shown.last_result


def test_demo_keeps_to_its_own_names(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed("fit", data, "run.zarr", "--penalty", 25)
    monkeypatch.setattr(
        "dask_dpmeans.api.synthetic.Synthetic",
        lambda kind, **sizes: Synthetic(kind, 20_000, 16, 100, 0),
    )
    result = succeed("demo", ".")
    assert "the farthest of the 100 true centers lies 0." in result.stdout
    assert load("run.zarr").penalty == 25
    succeed("demo", ".")
    Path("file").touch()
    assert call("demo", "file").exit_code == 2


# ---------------------------------------------------------------- threads or processes


SERIAL, PARALLEL = Trial(1.0, 2.0), Trial(2.0, 2.0)
BOTH = "working in 2 processes, --threads 2 keeps to threads"


@pytest.fixture
def streamed(data: str, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> str:
    """Rows of four blocks in many chunks, that no memory keeps, on two cores."""
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.0)
    monkeypatch.setattr(sources, "own_threads", lambda: 2)
    zarr.create_array("many.zarr", data=np.tile(rows, (60, 1)), chunks=(1000, 3))
    return "many.zarr"


class Watched:
    """Trials that end as told, and where the work was then done."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, trial: Trial = SERIAL, *, start: bool = False
    ) -> None:
        self.trials, self.places = 0, []
        self.trial, self.start = trial, start
        monkeypatch.setattr(Trial, "of", self._of)
        monkeypatch.setattr(compute, "connect", self._connect)

    def _of(self, *_):
        self.trials += 1
        return self.trial

    def _connect(self, *place):
        self.places.append(place[:4])
        return connect(*(place if self.start else (None, None, None, None, 1.0)))


MEMORY = ["--memory-limit", "4GB"]


def test_what_holds_the_lock_is_read_in_processes_and_gives_the_same_bytes(
    streamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch, start=True)
    result = succeed("fit", streamed, "run.zarr", "--penalty", 25, "--seed", 0, "--json", *MEMORY)
    assert (watched.trials, watched.places) == (1, [(None, 2, 1, 2 * 10**9)])
    said = result.stderr.splitlines()
    assert BOTH in said[0]
    assert "zstd, chunks of" in said[0]
    assert not any("processes" in line for line in said[1:])
    assert [json.loads(line)["event"] for line in result.stdout.splitlines()][-1] == "done"
    watched = Watched(monkeypatch, PARALLEL, start=True)
    result = succeed("fit", streamed, "threads.zarr", "--penalty", 25, "--seed", 0, *MEMORY)
    assert (watched.trials, watched.places) == (1, [(None, None, 2, 4 * 10**9)])
    assert "processes" not in result.stderr
    here, there = load("threads.zarr"), load("run.zarr")
    assert here.cluster_centers_.tobytes() == there.cluster_centers_.tobytes()
    assert here.labels_.compute().tobytes() == there.labels_.compute().tobytes()
    assert here.objective_ == there.objective_


def test_a_dry_run_and_predict_choose_as_fit_does(
    streamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed("fit", streamed, "run.zarr", "--penalty", 25, "--threads", 2)
    watched = Watched(monkeypatch)
    dry = succeed(
        "fit", streamed, "new.zarr", "--penalty", 25, "--dry-run", "--json", "--memory-limit", "4GB"
    )
    assert json.loads(dry.stdout)["event"] == "estimate"
    assert BOTH in dry.stderr
    assert BOTH in succeed("predict", "run.zarr", streamed, "out.zarr", *MEMORY).stderr
    assert watched.places == [(None, 2, 1, 2 * 10**9)] * 2


@pytest.mark.parametrize(
    "where",
    [
        ["--threads", 2],
        ["--workers", 1],
        ["--workers", 2, "--threads", 1],
        ["--scheduler", "tcp://here:1"],
    ],
)
def test_who_says_where_to_work_is_obeyed_untried(
    streamed: str, monkeypatch: pytest.MonkeyPatch, where: list
) -> None:
    watched = Watched(monkeypatch)
    result = succeed("fit", streamed, "run.zarr", "--penalty", 25, *where)
    assert watched.trials == 0
    asked = dict(zip(where[::2], where[1::2], strict=True))
    assert watched.places == [
        (asked.get("--scheduler"), asked.get("--workers"), asked.get("--threads"), None)
    ]
    assert "processes" not in result.stderr


def test_rows_that_are_kept_are_not_tried(streamed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.4)
    watched = Watched(monkeypatch)
    succeed("fit", streamed, "run.zarr", "--penalty", 25)
    assert (watched.trials, watched.places) == (0, [(None, None, 2, None)])


def test_what_is_refused_is_refused_before_anything_is_tried(
    streamed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    succeed("fit", streamed, "run.zarr", "--penalty", 25, "--threads", 2)
    watched = Watched(monkeypatch)
    for command in (
        ("fit", streamed, "run.zarr", "--penalty", 25),
        ("fit", streamed, "new.zarr", "--penalty", -1),
        ("fit", streamed, "new.zarr", "--penalty", -1, "--dry-run"),
        ("predict", "none.zarr", streamed, "out.zarr"),
        ("predict", "run.zarr", streamed, "run.zarr"),
    ):
        assert call(*command, *MEMORY).exit_code == 2
    assert (watched.trials, watched.places) == (0, [])


def test_a_full_disk_is_exit_code_3_and_the_run_goes_on(tmp_path, monkeypatch):
    data = stored_rows(tmp_path / "rows.zarr")
    run, command = (
        tmp_path / "run.zarr",
        ["fit", data, str(tmp_path / "run.zarr"), "--penalty", "9", "--seed", "0"],
    )
    with faulty(run, "fail", 40):
        result = CliRunner().invoke(main, [*command, "--threads", "1"])
    assert result.exit_code == 3, result.output
    assert "no space left on device" in result.output
    assert f"the same command with --resume goes on from the last step of {run}" in result.output
    assert not (run / "zarr.json").exists()
    assert CliRunner().invoke(main, [*command, "--resume"]).exit_code == 0
    whole = fit(data, tmp_path / "whole.zarr", DPMeans(9.0, random_state=0))
    assert load(run).cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()


def test_a_result_says_whether_its_input_had_checksums(tmp_path):
    data, run = stored_rows(tmp_path / "rows.zarr"), str(tmp_path / "run.zarr")
    said = "float64; stored without checksums: a flipped bit would not be seen"
    assert said in CliRunner().invoke(main, ["fit", data, run, "--penalty", "9"]).output
    assert said in CliRunner().invoke(main, ["show", run]).output
    codec = ZstdCodec(checksum=True)
    checked = zarr.create_array(
        tmp_path / "c.zarr", shape=(500, 2), dtype=np.float64, compressors=codec
    )
    checked[:] = zarr.open_array(data)[:]
    said = (
        CliRunner()
        .invoke(main, ["fit", str(tmp_path / "c.zarr"), str(tmp_path / "d.zarr"), "--penalty", "9"])
        .output
    )
    assert "checksums" not in said


def test_missing_chunks_are_filled_where_that_is_said(tmp_path):
    zarr.create_array(tmp_path / "rows.zarr", shape=(500, 2), chunks=(100, 2), dtype=np.float64)[
        :200
    ] = 3.0
    command = ["fit", str(tmp_path / "rows.zarr"), str(tmp_path / "run.zarr"), "--penalty", "1"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "is missing. If it was lost, restore it" in result.output
    assert CliRunner().invoke(main, [*command, "--fill-missing"]).exit_code == 0
    assert load(tmp_path / "run.zarr").n_clusters_ == 2
    predict = [
        "predict",
        str(tmp_path / "run.zarr"),
        str(tmp_path / "rows.zarr"),
        str(tmp_path / "out.zarr"),
    ]
    assert CliRunner().invoke(main, predict).exit_code == 1
    assert CliRunner().invoke(main, [*predict, "--force", "--fill-missing"]).exit_code == 0


def test_a_second_job_on_a_run_is_exit_code_2(tmp_path):
    data, run = stored_rows(tmp_path / "rows.zarr"), str(tmp_path / "run.zarr")
    with only_job(run):
        result = CliRunner().invoke(main, ["fit", data, run, "--penalty", "9"])
    assert result.exit_code == 2
    assert "is being written by another job" in result.output


STOPPED_IN_A_FIT = """
import os, signal, time
from dask_dpmeans import cli
from dask_dpmeans.engine import loop
signal.signal(signal.SIGINT, signal.default_int_handler)
iterate, ended = loop.iterate, []
def stopping(*given):
    yield from iterate(*given)
    ended.append(True)
    if len(ended) == {0:d}:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):
            time.sleep(0.1)
loop.iterate = stopping
cli.main()
"""
"""Ctrl-C once some fits of rows in memory have ended."""


@pytest.mark.parametrize(
    ("command", "out", "again"),
    [
        (
            ["path", "rows.npy", "out.zarr", "--penalties", "10,30,90", "--halvings", "1"],
            "out.zarr",
            ["--resume"],
        ),
        (
            ["path", "rows.npy", "out.zarr", "--search", "--from", "10", "--to", "90"],
            "out.zarr",
            ["--resume"],
        ),
        (["penalty", "rows.npy", "-k", "4", "--search", "--checkpoint", "kept"], "kept", []),
    ],
)
def test_what_chooses_penalties_goes_on_after_a_stop_to_the_same_answer(
    rows: np.ndarray,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    out: str,
    again: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", rows)
    stopped = subprocess.run(
        [
            sys.executable,
            "-c",
            STOPPED_IN_A_FIT.format(2),
            *command,
            "--seed",
            "3",
            "--threads",
            "1",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert stopped.returncode == 3, stopped.stderr
    assert "stopping; once more ends at once" in stopped.stderr
    assert f"goes on with the search that is kept in {tmp_path / out}" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    kept = {path.name for path in Path(out, "steps/searches").iterdir()}
    assert len(kept) >= 2
    other = [*(word if word not in ("10,30,90", "10", "4") else "5" for word in command), *again]
    assert "begun with other parameters" in " ".join(call(*other).output.split())
    assert "begun with seed 3, not 4" in " ".join(
        call(*command, *again, "--seed", "4").output.split()
    )
    made = []
    monkeypatch.setattr(CheckpointFiles, "save", lambda self, name, content: made.append(name))
    resumed = succeed(*command, *again).stdout
    assert made
    assert len(kept & set(made)) <= 1, "only the fit that was stopped is ended"
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    elsewhere = ["elsewhere" if word == out else word for word in command]
    assert succeed(*elsewhere, "--seed", "3").stdout == resumed
    assert not Path(out, "steps").exists()
    assert Path(out).exists() is bool(again)
    if again:
        assert succeed(*command, *again).stdout == resumed
        for name, array in zarr.open_group("elsewhere", mode="r").arrays():
            assert zarr.open_array(f"{out}/{name}")[...].tobytes() == array[...].tobytes(), name


STOPPED_AS_MODULES_LOAD = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
class Loading:
    def find_spec(self, name, *_):
        if name == "{1}":
            os.kill(os.getpid(), {0:d})
            time.sleep(10)
sys.meta_path.insert(0, Loading())
from dask_dpmeans.cli import compute, homes, main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["fit", "path", "report", "demo"])
def test_a_signal_as_modules_load_is_exit_code_3_and_one_line(number: int, command: str) -> None:
    words = [
        sys.executable,
        "-c",
        STOPPED_AS_MODULES_LOAD.format(number, homes()[command].module),
        command,
    ]
    stopped = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (stopped.returncode, stopped.stdout) == (3, ""), stopped.stderr
    assert stopped.stderr == "stopped before the command began: nothing was written\n"


STOPPED_TWICE = """
import os, signal
from dask_dpmeans.cli.stopping import stoppable
signal.signal(signal.SIGINT, signal.default_int_handler)
with stoppable() as stopper:
    stopper.working = True
    try:
        os.kill(os.getpid(), {0:d})
    finally:
        os.kill(os.getpid(), {0:d})
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once_without_a_traceback(number: int) -> None:
    stopped = subprocess.run(
        [sys.executable, "-c", STOPPED_TWICE.format(number)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert stopped.returncode == 3
    assert stopped.stderr == "stopping; once more ends at once\nstopped at once\n"


STOPPED_IN_TEXT = """
import os, signal, sys
from dask_dpmeans.cli.stopping import stoppable
signal.signal(signal.SIGINT, signal.default_int_handler)
with stoppable() as stopper:
    stopper.working = True
    try:
        exec("os.kill(os.getpid(), {0:d}); [None for _ in range(10**9)]")
    except KeyboardInterrupt:
        sys.exit(3)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_text_is_executed_leaves_the_exit_code(tmp_path: Path, number: int) -> None:
    (tmp_path / "stopped.py").write_text(STOPPED_IN_TEXT.format(number))
    words = [sys.executable, "-m", "stopped"]
    assert subprocess.run(words, cwd=tmp_path, timeout=60).returncode == 3


STOPPED_IN_A_SEARCH = """
import os, signal
from dask_dpmeans import cli
from dask_dpmeans.engine import checkpoints
from dask_dpmeans.storage.step_log import CheckpointFiles
checkpoints.SAVE_EVERY, kept, save = 0.0, [], CheckpointFiles.save
signal.signal(signal.SIGINT, signal.default_int_handler)
def stopping(store, name, content):
    save(store, name, content)
    kept.append(name)
    if len(kept) == {0:d}:
        os.kill(os.getpid(), signal.SIGINT)
CheckpointFiles.save = stopping
cli.main()
"""


@pytest.mark.parametrize("number", [2, 40])
def test_a_search_that_is_stopped_before_its_first_step_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    succeed("synth", "uniform", "data.zarr", "--rows", 34_000, "--features", 4)
    command = [
        "fit",
        "data.zarr/rows",
        "run.zarr",
        "--penalty",
        "3000",
        "--search",
        "--threads",
        "2",
    ]
    words = [sys.executable, "-c", STOPPED_IN_A_SEARCH.format(number), *command, "--seed", "0"]
    stopped = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert stopped.returncode == 3, stopped.stderr
    run = tmp_path / "run.zarr"
    assert (
        f"the same command with --resume goes on with the search that is kept in {run}"
        in stopped.stderr
    )
    other = call(*command[:4], "2999", *command[5:], "--resume")
    assert other.exit_code == 2
    assert "penalty 3000.0, not 2999.0" in " ".join(other.output.split())
    succeed(*command, "--resume")
    assert not Path("run.zarr/steps/searches").exists()
    succeed(*[word.replace("run.zarr", "whole.zarr") for word in command], "--seed", "0")
    for name, array in zarr.open_group("whole.zarr", mode="r").arrays():
        if name != "seconds":
            assert zarr.open_array(f"run.zarr/{name}")[...].tobytes() == array[...].tobytes(), name


def test_what_was_stopped_before_anything_was_written_says_so(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dask_dpmeans.sources.open_source", interrupted)
    result = call("fit", data, "run.zarr", "--penalty", 9, "--threads", 1)
    assert result.exit_code == 3
    assert "stopped; nothing was written: the same command begins anew" in result.output
    assert not Path("run.zarr").exists()


def test_a_checkpoint_is_put_into_nothing_of_others(data: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("mine")
    for command in (
        ["penalty", data, "-k", 3, "--fit", "--checkpoint", "mine"],
        ["path", data, "mine", "--resume"],
    ):
        result = call(*command)
        assert result.exit_code == 2
        assert "is not an output of this package, so it is never removed" in " ".join(
            result.output.split()
        )
    with pytest.raises(InputError, match="is not an output of this package"):
        penalty_path(data, [9.0], checkpoint=folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]
