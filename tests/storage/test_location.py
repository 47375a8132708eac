"""Runs on object stores: what holds on a local disk holds in a bucket."""

import json
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import xarray
import zarr
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from click.testing import CliRunner
from distributed import Client, LocalCluster
from fsspec.implementations.memory import MemoryFileSystem
from s3_server import SECRET, s3_server
from s3fs import S3FileSystem

from dask_dpmeans import CorruptStoreError, DPMeans, InputError, fit, load, predict
from dask_dpmeans.api.loading import run_array_names
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
from dask_dpmeans.cli import main
from dask_dpmeans.engine.history import Record
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import LockLostError, reason_of
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.selection.penalty import penalty_path, read_path, write_path
from dask_dpmeans.selection.tree import cluster_tree, read_tree, write_tree
from dask_dpmeans.sources import as_source
from dask_dpmeans.sources.safety import checked_store
from dask_dpmeans.storage import arrays, lock
from dask_dpmeans.storage.arrays import create_group
from dask_dpmeans.storage.location import Location, locations_overlap
from dask_dpmeans.storage.output import remove
from dask_dpmeans.storage.run_store import RunStore


@pytest.fixture(autouse=True)
def quick_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the kernel's locks a job waits a quarter of this for another that began at the same moment."""
    monkeypatch.setattr(lock, "BEAT", 0.1)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The address of an S3 server on loopback, with one bucket."""
    with s3_server() as address:
        yield address


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """A folder that is new, on a local disk, in memory, or in a bucket."""
    if request.param == "local":
        return Location.at(tmp_path)
    if request.param == "memory":
        return Location.at(f"memory://{tmp_path.name}")
    return in_bucket(request.getfixturevalue("endpoint"), tmp_path)


@pytest.fixture
def bucket(endpoint: str, tmp_path: Path) -> Location:
    """A folder that is new, in a bucket."""
    return in_bucket(endpoint, tmp_path)


def in_bucket(endpoint: str, tmp_path: Path) -> Location:
    return Location.at(
        f"s3://bucket/{tmp_path.name}", {"endpoint_url": endpoint, "key": "me", "secret": SECRET}
    )


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (
        rng.uniform(-4, 4, (8, 3))[rng.integers(8, size=3000)] + rng.standard_normal((3000, 3))
    ).astype(np.float32)


@pytest.fixture(scope="module")
def wanted(rows: np.ndarray) -> DPMeans:
    return model().fit(rows)


def model(seed: int | None = 0, penalty: float = 16.0) -> DPMeans:
    """A fit of few steps."""
    return DPMeans(penalty, tol=0.03, random_state=seed)


def put(place: Location, rows: np.ndarray) -> Location:
    zarr.create_array(place.store(), data=rows, chunks=(700, *rows.shape[1:]))
    return place


def keys(place: Location) -> list[str]:
    fs, where = place.files()
    fs.invalidate_cache()
    return sorted(path.removeprefix(where).strip("/") for path in fs.find(where))


def same(model: Any, wanted: DPMeans) -> None:
    np.testing.assert_array_equal(model.cluster_centers_, wanted.cluster_centers_)
    np.testing.assert_array_equal(np.asarray(model.labels_), wanted.labels_)
    assert model.objective_ == wanted.objective_


class InterruptError(Exception):
    pass


def interrupted_after(steps: int) -> Any:
    def on_step(number: int, record: Record, n_rows: int) -> None:
        if number == steps:
            raise InterruptError

    return on_step


# ---------------------------------------------------------------- what holds on a disk


def test_a_fit_from_store_to_store_is_that_in_memory_and_leaves_no_lock(
    folder: Location, rows: np.ndarray, wanted: DPMeans
) -> None:
    data, run = put(folder / "data.zarr", rows), folder / "run.zarr"
    same(fit(data, run, model()), wanted)
    same(load(run), wanted)
    assert "lock" not in keys(run)
    out = folder / "out.zarr"
    assert predict(run, data, out).n_rows == 3000
    np.testing.assert_array_equal(
        zarr.open_array((out / "label").store(), mode="r")[:], wanted.labels_
    )


@pytest.mark.parametrize("steps", [1, 3])
def test_a_run_goes_on_to_the_same_end(
    folder: Location, rows: np.ndarray, wanted: DPMeans, steps: int
) -> None:
    data, run = put(folder / "data.zarr", rows), folder / "run.zarr"
    with pytest.raises(InterruptError):
        fit(data, run, model(), on_step=interrupted_after(steps))
    assert RunStore.at(run).steps.committed() == steps
    with pytest.raises(InputError, match="has not finished: resume=True goes on with it"):
        load(run)
    with pytest.raises(
        InputError, match="holds a run: resume=True goes on with it, force=True removes it first"
    ):
        fit(data, run, model())
    same(fit(data, run, model(None), resume=True), wanted)


def test_force_removes_a_run_and_nothing_else(folder: Location, rows: np.ndarray) -> None:
    data, run = put(folder / "data.zarr", rows), folder / "run.zarr"
    fit(data, run, model())
    before = keys(folder)
    assert fit(data, run, model(), force=True).penalty == 16.0
    assert keys(folder) == before
    fs, where = run.files()
    fs.pipe_file(f"{where}/notes.txt", b"precious")
    with pytest.raises(
        InputError, match=r"also holds notes.txt, not written by this package: move that away first"
    ):
        fit(data, run, model(None), force=True)
    assert RunStore.at(run).finished()
    with pytest.raises(InputError, match="not an output of this package, so it is never removed"):
        fit(rows, data, model(), force=True)


def test_old_steps_are_removed(folder: Location, rows: np.ndarray) -> None:
    data, run = put(folder / "data.zarr", rows), folder / "run.zarr"
    found = fit(data, run, model())
    steps = {key.split("/")[1] for key in keys(run) if key.startswith("steps/0")}
    assert found.n_iter_ > 3
    assert steps == {f"{number:06d}" for number in (found.n_iter_ - 1, found.n_iter_)}


def test_damage_is_an_error_that_names_the_array(folder: Location, rows: np.ndarray) -> None:
    data, run = put(folder / "data.zarr", rows), folder / "run.zarr"
    fit(data, run, model())
    fs, where = run.files()
    name = f"{where}/cluster_centers/c/0/0"
    content = fs.cat_file(name)
    for harmed in (content[:-3], bytes([content[0] ^ 1]) + content[1:], None):
        if harmed is None:
            fs.rm_file(name)
        else:
            fs.pipe_file(name, harmed)
        with pytest.raises(CorruptStoreError, match="cluster_centers"):
            load(run)


def test_of_two_jobs_on_one_run_the_second_is_refused(folder: Location, rows: np.ndarray) -> None:
    data, run = put(folder / "data.zarr", rows), folder / "run.zarr"
    refused: list[str] = []

    def second(number: int, *_: Any) -> None:
        if number == 1:
            with pytest.raises(InputError, match="is being written by another job") as found:
                fit(data, run, model(None), resume=True)
            refused.append(str(found.value))

    fit(data, run, model(), on_step=second)
    assert len(refused) == 1


def test_of_two_jobs_that_commit_the_same_step_one_does(folder: Location, rows: np.ndarray) -> None:
    first, second = [step.state for step in iterate(as_source(rows), batch.Method(16.0))][:2]
    store = RunStore.at(folder / "run.zarr")
    store.begin({"format": 1})
    records = [Record.of(state, 3000, 0.0) for state in (first, second)]
    store.steps.commit(first, records[:1], False, "one")
    store.steps.commit(second, records, False, "one")
    with pytest.raises(LockLostError, match="another job has committed step 2 of"):
        store.steps.commit(second, records, False, "other")
    assert store.steps.committed() == 2
    store.steps.commit(
        second, records, False, "one"
    )  # as if the answer to the first time had been lost


def test_what_a_dead_job_left_after_the_last_commit_does_not_count(
    folder: Location, rows: np.ndarray, wanted: DPMeans
) -> None:
    data, run = put(folder / "data.zarr", rows), folder / "run.zarr"
    with pytest.raises(InterruptError):
        fit(data, run, model(), on_step=interrupted_after(2))
    fs, where = run.files()
    fs.copy(f"{where}/steps/000002/", f"{where}/steps/000099/", recursive=True)
    word = json.loads(fs.cat_file(f"{where}/steps/000002/zarr.json"))
    foreign = {
        "dask_dpmeans": word["attributes"]["dask_dpmeans"]
        | {"run": "an older one", "committed": 99}
    }
    fs.rm_file(f"{where}/steps/000099/zarr.json")
    create_group(run / "steps/000099", foreign)
    assert RunStore.at(run).steps.committed() == 2
    same(fit(data, run, model(None), resume=True), wanted)
    assert not any("000099" in key for key in keys(run))


def test_what_a_job_commits_that_stood_still_while_another_began_anew_counts_for_nothing(
    folder: Location, rows: np.ndarray
) -> None:
    data, run = put(folder / "data.zarr", rows), RunStore.at(folder / "run.zarr")

    def stand_still(number: int, *_: Any) -> None:
        if number == 1:
            request = run.request()
            remove(run, run_array_names())
            run.begin(request.as_json())
        assert run.steps.committed() == 0
        if number == 2:
            raise InterruptError

    with pytest.raises(InterruptError):
        fit(data, run.location, model(), on_step=stand_still)


def test_a_run_that_was_begun_anew_goes_on_whatever_a_job_left_that_stood_still(
    folder: Location, rows: np.ndarray
) -> None:
    old, new, last = [step.state for step in iterate(as_source(rows), batch.Method(16.0))][:3]
    old, store = replace(old, step=2), RunStore.at(folder / "run.zarr")
    store.begin({"format": 1})
    before = store.steps.run_name()
    steps = store / "steps"
    steps.remove(steps.entries())
    store.begin({"format": 1})
    records = [Record.of(state, 3000, 0.0) for state in (old, new, last)]
    store.steps.commit(old, records[:2], False, "old", before)
    assert store.steps.committed() == 0
    store.steps.commit(new, records[:2], False, "new")
    assert store.steps.restore(batch.State)[0].objective == new.objective
    with pytest.raises(LockLostError, match="another job has committed step 2 of"):
        store.steps.commit(old, records[:2], False, "old", before)
    with pytest.raises(
        CorruptStoreError, match="steps/000002/state was written over by a job that stood still"
    ):
        store.steps.restore(batch.State)
    store.steps.commit(last, records, False, "new")
    assert store.steps.restore(batch.State)[0].objective == last.objective


def test_a_job_that_stood_still_removes_no_step_of_a_run_begun_anew(
    folder: Location, rows: np.ndarray
) -> None:
    new, old = [step.state for step in iterate(as_source(rows), batch.Method(16.0))][:2]
    store, records = (
        RunStore.at(folder / "run.zarr"),
        [Record.of(state, 3000, 0.0) for state in (new, old)],
    )
    store.begin({"format": 1})
    store.steps.commit(new, records[:1], False, "new")
    store.steps.commit(replace(old, step=9), records, False, "old", "the run before")
    assert store.steps.committed() == 1
    assert store.steps.restore(batch.State)[0].objective == new.objective


def test_paths_and_trees_are_written(folder: Location, rows: np.ndarray) -> None:
    data = put(folder / "data.zarr", rows)
    write_path(penalty_path(data, [10.0, 100.0], random_state=0), folder / "path.zarr")
    write_tree(cluster_tree(model().fit(rows)), folder / "tree.zarr")
    for name in ("path.zarr", "tree.zarr"):
        group = zarr.open_group((folder / name).store(), mode="r")
        assert len(group["penalty"][:]) >= 2
        assert "steps" not in group


class CutError(Exception):
    """Ends a job as it removes."""


@contextmanager
def removal_that_ends(number: int, seed: int) -> Iterator[list[int]]:
    """The n-th removal of files removes some of them, drawn at random, in any order, and nothing happens after it."""
    calls: list[int] = []
    whole, draw = Location.remove, random.Random(seed)

    def cut(place: Location, entries: Any = None) -> None:
        given = list(entries)
        calls.append(len(given))
        if len(calls) == number:
            whole(place, draw.sample(given, draw.randint(0, len(given))))
            raise CutError
        whole(place, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Location, "remove", cut)
        yield calls


@pytest.mark.parametrize("kind", ["run", "path"])
def test_an_output_that_was_removed_in_part_is_ours_until_it_is_gone(
    folder: Location, rows: np.ndarray, kind: str
) -> None:
    def write(place: Location, penalty: float, **how: bool) -> bytes:
        if kind == "run":
            return fit(rows, place, model(penalty=penalty), **how).cluster_centers_.tobytes()
        write_path(penalty_path(rows, [penalty], random_state=0), place, **how)
        return b"".join(each.tobytes() for each in read_path(place).centers)

    wanted = write(folder / "wanted", 16.0)
    again = ({}, {"force": True}, {"resume": True})[: 3 if kind == "run" else 2]
    for number in range(1, 4):
        # in a bucket, where a fit takes seconds, each number has one way to go on
        for how in again if "s3" not in folder.url else again[(number + 1) % len(again) :][:1]:
            target = folder / f"{number}-{'-'.join(how)}"
            write(target, 9.0)
            with removal_that_ends(number, number) as calls, pytest.raises(CutError):
                write(target, 16.0, force=True)
            assert len(calls) == number
            if (
                number > 1 or not RunStore.at(target).finished()
            ):  # else all of the old output is there
                with pytest.raises(InputError, match="has not finished"):
                    RunStore.at(target).open(kind).__enter__()
            else:
                how = {"force": True}
            assert write(target, 16.0, **how) == wanted
            assert not any("removed" in key for key in keys(target))


# ---------------------------------------------------------------- buckets alone


def test_workers_read_and_write_a_bucket_with_the_options_of_the_job(
    bucket: Location, rows: np.ndarray, wanted: DPMeans
) -> None:
    data, run = put(bucket / "data.zarr", rows), bucket / "run.zarr"
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        same(fit(data.url, run.url, model(), client=client, storage_options=run.options), wanted)
    same(load(run.url, storage_options=run.options), wanted)


def test_xarray_opens_a_run_in_a_bucket(
    bucket: Location, rows: np.ndarray, wanted: DPMeans
) -> None:
    fit(put(bucket / "data.zarr", rows), bucket / "run.zarr", model())
    with xarray.open_zarr((bucket / "run.zarr").store()) as opened:
        np.testing.assert_array_equal(opened["cluster_centers"], wanted.cluster_centers_)


def call(*arguments: Any) -> Any:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("given", ["options", "environment"])
def test_commands_work_in_a_bucket(
    bucket: Location, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    data, run, out = (
        put(bucket / "data.zarr", rows).url,
        f"{bucket.url}/run.zarr",
        f"{bucket.url}/out.zarr",
    )
    endpoint, options = bucket.options["endpoint_url"], []
    if given == "options":
        options = [
            part
            for key, value in bucket.options.items()
            for part in ("--storage-option", f"{key}={value}")
        ]
    else:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    said = [
        call("fit", data, run, "--penalty", 16, "--tol", 0.03, "--seed", 0, *options),
        call("predict", run, data, out, *options),
        call("show", run, *options),
    ]
    if given == "options":
        said += [
            call(
                "fit", data, run, "--penalty", 16, "--tol", 0.03, "--init", run, "--force", *options
            ),
            call("fit", data, run, "--penalty", 16, "--dry-run", *options),
            call("tree", run, f"{bucket.url}/tree.zarr", *options),
            call(
                "path", data, f"{bucket.url}/path.zarr", "--penalties", "10,100", "--full", *options
            ),
            call("penalty", data, "-k", 3, *options),
            call("synth", "uniform", f"{bucket.url}/synth.zarr", "--rows", 10, *options),
        ]
    for each in said:
        assert each.exit_code == 0, each.output
        assert SECRET not in each.output


def test_no_key_is_kept_or_told(bucket: Location, rows: np.ndarray) -> None:
    run = bucket / "run.zarr"
    fit(put(bucket / "data.zarr", rows), run, model())
    fs, where = run.files()
    assert not any(SECRET.encode() in fs.cat_file(f"{where}/{key}") for key in keys(run))
    assert SECRET not in repr(run)
    with pytest.raises(InputError, match="there is no Zarr array") as found:
        fit(bucket / "nothing.zarr", bucket / "other.zarr", model(None))
    assert SECRET not in str(found.value)


def test_a_store_that_cannot_be_reached_is_an_error_and_not_an_empty_one(
    bucket: Location, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(S3FileSystem, "retries", 1)
    once = {"config_kwargs": {"retries": {"max_attempts": 0}}}
    silent = Location.at(bucket.url, bucket.options | once | {"endpoint_url": "http://127.0.0.1:1"})
    with pytest.raises(OSError, match="does not answer"):
        fit(rows, silent / "run.zarr", model(None))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense://bucket/run.zarr", "cannot be reached: Protocol not known: nonsense"),
        ("http://127.0.0.1:1/run.zarr", "cannot be written by that protocol: give another output"),
    ],
)
def test_places_that_cannot_be_are_refused(rows: np.ndarray, url: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(rows, url, model(None))


def test_files_are_read_from_disks_only() -> None:
    with pytest.raises(
        InputError, match=r"s3://bucket/rows.npy must be on a local disk: copy it there"
    ):
        as_source("s3://bucket/rows.npy")


def test_an_output_within_the_input_is_refused_there_too(
    bucket: Location, rows: np.ndarray
) -> None:
    data = put(bucket / "data.zarr", rows)
    with pytest.raises(InputError, match="lie one within the other"):
        fit(data, data / "run.zarr", model(None))
    assert locations_overlap(bucket / "a", bucket / "a/b")
    assert not locations_overlap(bucket / "a", bucket / "ab")


def test_a_bucket_that_is_not_there_is_named(bucket: Location, rows: np.ndarray) -> None:
    with pytest.raises(
        InputError, match=r"s3://nowhere/run.zarr/lock cannot be written: The specified bucket"
    ):
        fit(rows, Location.at("s3://nowhere/run.zarr", bucket.options), model(None))


@pytest.mark.parametrize(
    "options", [{"nonsense": 1}, {"client_kwargs": {"nonsense": 1}}, {"max_concurrency": "x"}]
)
def test_options_that_the_file_system_does_not_know_are_named(
    rows: np.ndarray, options: dict[str, Any]
) -> None:
    run = Location.at("s3://bucket/run.zarr", options)
    for call_of in (lambda: fit(rows, run, model(None)), lambda: load(run)):
        with pytest.raises(
            InputError, match=r"s3://bucket/run.zarr.* cannot be reached.*(nonsense|not supported)"
        ):
            call_of()


def test_options_are_refused_where_nothing_is_at_a_url(tmp_path: Path, rows: np.ndarray) -> None:
    np.save(tmp_path / "rows.npy", rows)
    data, run, options = tmp_path / "rows.npy", tmp_path / "run.zarr", {"anon": True}
    path = penalty_path(rows, [16.0, 64.0])
    for refused in (
        lambda: fit(data, run, model(None), storage_options=options),
        lambda: load(run, storage_options=options),
        lambda: predict(run, data, tmp_path / "out.zarr", storage_options=options),
        lambda: write_path(path, tmp_path / "path.zarr", storage_options=options),
        lambda: read_path(tmp_path / "path.zarr", storage_options=options),
        lambda: write_tree(
            cluster_tree(model().fit(rows)), tmp_path / "tree.zarr", storage_options=options
        ),
        lambda: read_tree(tmp_path / "tree.zarr", storage_options=options),
        lambda: write_synthetic(
            Synthetic("uniform", 10, 2, 0, 0), tmp_path / "synth.zarr", storage_options=options
        ),
    ):
        with pytest.raises(
            InputError,
            match="storage options are for URLs, and no URL is given here: leave anon out",
        ):
            refused()
    for command in (
        ["fit", data, run, "--penalty", 16],
        ["show", tmp_path],  # which is there, so that the library looks
        ["synth", "uniform", tmp_path / "synth.zarr"],
    ):
        said = call(*command, "--storage-option", "anon=true")
        assert said.exit_code == 2
        assert "leave anon out" in said.output
    assert (
        fit(
            data, "memory://only/run.zarr", model(), storage_options={"skip_instance_cache": True}
        ).n_clusters_
        > 1
    )


@pytest.mark.parametrize("beginning", ["file://", "local://", "file:"])
def test_urls_of_this_machine_are_paths(tmp_path: Path, beginning: str) -> None:
    assert Location.at(f"{beginning}{tmp_path}/a b") == Location(f"{tmp_path}/a b")


@pytest.mark.parametrize("name", ["run*.zarr", "run?.zarr", "run[1].zarr"])
def test_an_output_by_whose_name_others_could_be_removed_is_refused(
    rows: np.ndarray, name: str
) -> None:
    fit(rows, "memory://shared/run1.zarr", model())
    with pytest.raises(
        InputError,
        match=r"holds one of \* \? \[, by which more could be removed: give another output",
    ):
        fit(rows, f"memory://shared/{name}", model(None))
    assert load("memory://shared/run1.zarr").n_clusters_ > 1


def test_a_store_that_does_not_answer_fails_at_one_question_a_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def no_answer(self: Any, path: str, **_: Any) -> bytes:
        asked.append(path)
        raise ConnectionError("no answer")

    monkeypatch.setattr(MemoryFileSystem, "cat_file", no_answer)
    monkeypatch.setattr(checked_store, "PAUSES", (0.0, 0.0))
    with pytest.raises(
        InputError, match=r"data: memory://silent/rows\.zarr does not answer: no answer"
    ):
        as_source("memory://silent/rows.zarr")
    assert [path.strip("/") for path in asked] == ["silent/rows.zarr/zarr.json"] * 3


@pytest.mark.parametrize("asked_for", ["size", "cat_file"])
def test_an_address_where_nothing_listens_is_asked_once(
    asked_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def refused(self: Any, path: str, **_: Any) -> bytes:
        asked.append(path)
        raise EndpointConnectionError(endpoint_url="http://nowhere")

    monkeypatch.setattr(MemoryFileSystem, asked_for, refused)
    monkeypatch.setattr(checked_store, "PAUSES", (60.0, 60.0))
    told = r"memory://closed/rows\.zarr does not answer: Could not connect to .*http://nowhere"
    with pytest.raises(InputError, match=told):
        as_source("memory://closed/rows.zarr")
    assert len(asked) == 1


@pytest.mark.parametrize("command", ["show", "predict"])
def test_a_run_at_a_closed_address_is_named(command: str, rows: np.ndarray, tmp_path: Path) -> None:
    run, data = "http://127.0.0.1:1/run.zarr", tmp_path / "rows.npy"
    np.save(data, rows)
    others = [str(data), str(tmp_path / "out.zarr")] if command == "predict" else []
    refused = CliRunner().invoke(main, [command, run, *others])
    assert refused.exit_code == 1
    assert f"{run} does not answer: Cannot connect to host 127.0.0.1:1" in refused.output


def test_a_store_that_needs_credentials_is_asked_once_and_says_which(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def refused(self: Any, path: str, **_: Any) -> bytes:
        asked.append(path)
        raise NoCredentialsError

    monkeypatch.setattr(MemoryFileSystem, "cat_file", refused)
    monkeypatch.setattr(checked_store, "PAUSES", (60.0, 60.0))
    told = "does not answer: Unable to locate credentials: give .* AWS_ACCESS_KEY_ID .* anon=true"
    with pytest.raises(InputError, match=told):
        as_source("memory://secret/rows.zarr")
    assert len(asked) == 1
    for command in ("show", "tree"):
        answer = CliRunner().invoke(main, [command, "memory://secret/run.zarr"])
        assert answer.exit_code == 2
        assert re.search(told, answer.output)


def test_workers_that_lack_credentials_say_which_and_of_which_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, on_worker, asked = MemoryFileSystem.cat_file, [], []

    def cat_file(self: Any, path: str, **options: Any) -> Any:
        if on_worker:
            asked.append(path)
            raise NoCredentialsError
        return plain(self, path, **options)

    monkeypatch.setattr(MemoryFileSystem, "cat_file", cat_file)
    zarr.create_array("memory://bare/rows.zarr", data=np.ones((6400, 2)), chunks=(64, 2))
    source = as_source("memory://bare/rows.zarr", memory_limit=20_000, threads=1, block_rows=16)
    on_worker.append(True)
    monkeypatch.setattr(checked_store, "PAUSES", (0.0, 60.0, 60.0))
    told = (
        r"rows \d.* of memory:///?bare/rows.zarr, chunks of 64 rows cannot be read: Unable to locate "
        "credentials: give the credentials of the store in the environment, of each worker too"
    )
    with pytest.raises(OSError, match=told):
        source.map(lambda block: (block.rows,), lambda *_: None)
    # a cloud may be too busy to tell at first; the first chunk that fails twice ends the others
    assert max(asked.count(path) for path in asked) == 2


def test_a_url_at_which_nothing_is_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"no Zarr array at .*absent.zarr: nothing is there"):
        as_source("memory://there/absent.zarr")
    Location("memory://there/rows.bin").write(b"rows")
    for there in ("rows.bin", ""):
        with pytest.raises(InputError, match="the URL has no metadata of Zarr"):
            as_source(f"memory://there/{there}")

    def silent(self: Any, path: str, **_: Any) -> None:
        raise TimeoutError(path)

    monkeypatch.setattr(MemoryFileSystem, "info", silent)
    with pytest.raises(InputError, match=r"absent.zarr: the URL has no metadata of Zarr"):
        as_source("memory://there/absent.zarr")


def test_credentials_are_named_if_they_are_what_is_missing() -> None:
    assert reason_of(NoCredentialsError()).endswith("the storage option anon=true")
    assert reason_of(OSError("slow down")) == "slow down"
    assert reason_of(OSError()) == "OSError"


def test_a_small_array_is_written_with_two_requests_and_read_with_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def counted(name: str) -> Any:
        plain = getattr(MemoryFileSystem, name)

        def method(self: Any, *given: Any, **options: Any) -> Any:
            asked.append(name)
            return plain(self, *given, **options)

        return method

    for name in ("pipe_file", "cat_file", "ls", "info", "rm_file"):
        monkeypatch.setattr(MemoryFileSystem, name, counted(name))
    place, values = Location.at("memory://few/array"), np.arange(6.0).reshape(2, 3)
    content = arrays.write(place, values, ("cluster", "feature"), {"unit": "m"})
    assert asked == ["pipe_file"] * 2
    asked.clear()
    found, attributes = arrays.read(place, content)
    assert asked == ["cat_file"] * 2
    assert found.tolist() == values.tolist()
    assert attributes == {"unit": "m"}


class SilentError(Exception):
    """As the packages that ask stores raise them."""


SilentError.__module__ = "botocore.exceptions"


def test_a_store_that_falls_silent_in_a_fit_stops_it_and_it_can_go_on(
    tmp_path: Path, rows: np.ndarray, wanted: DPMeans, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "rows.npy", rows)
    command = [
        "fit",
        tmp_path / "rows.npy",
        "memory://silent/run.zarr",
        "--penalty",
        16,
        "--tol",
        0.03,
        "--seed",
        0,
    ]
    answering = {name: getattr(MemoryFileSystem, name) for name in ("pipe_file", "cat_file", "ls")}

    def silent(*_: Any, **__: Any) -> None:
        raise SilentError("no answer")

    def fall_silent(self: Any, path: str, value: bytes, **how: Any) -> None:
        if "000003" in path:
            for name in answering:
                monkeypatch.setattr(MemoryFileSystem, name, silent)
            silent()
        answering["pipe_file"](self, path, value, **how)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", fall_silent)
    stopped = call(*command)
    assert stopped.exit_code == 3, stopped.output
    assert (
        "no answer; the same command with --resume goes on with memory://silent" in stopped.output
    )
    refused = call(*command)
    assert refused.exit_code == 1
    assert "memory://silent/run.zarr does not answer: no answer" in refused.output
    for name, answer in answering.items():
        monkeypatch.setattr(MemoryFileSystem, name, answer)
    monkeypatch.setattr(lock, "LEASE", 0.2)
    assert call(*command, "--resume").exit_code == 0
    same(load("memory://silent/run.zarr"), wanted)


@pytest.mark.parametrize("text", ["endpoint", "=value"])
def test_an_option_without_a_value_is_wrong_use(text: str) -> None:
    result = call("show", "run.zarr", "--storage-option", text)
    assert result.exit_code == 2
    assert f"'{text}' is not an option such as anon=true" in " ".join(result.output.split())


def test_of_many_that_create_a_file_one_does(folder: Location) -> None:
    fs, where = folder.files()
    fs.makedirs(where, exist_ok=True)
    done: list[int] = []

    def create(number: int) -> None:
        try:
            (folder / "file").create(b"x" * number)
            done.append(number)
        except FileExistsError:
            pass

    threads = [Thread(target=create, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert fs.cat_file(f"{where}/file") == b"x" * done[0]


def test_a_file_system_without_conditional_writes_is_asked_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = MemoryFileSystem.pipe_file

    def unconditional(self: Any, path: str, value: bytes) -> None:
        plain(self, path, value)

    monkeypatch.setattr(MemoryFileSystem, "pipe_file", unconditional)
    place = Location.at("memory://plain/file")
    place.create(b"first")
    with pytest.raises(FileExistsError, match="memory://plain/file"):
        place.create(b"second")
    assert place.files()[0].cat_file(place.files()[1]) == b"first"


class Quiet(SimpleHTTPRequestHandler):
    failing = False

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.failing and "/c/" in self.path:
            self.send_error(500)
        else:
            super().do_GET()


class Forbidding(Quiet):
    """Lets nobody ask for what lies beside the rows."""

    def do_GET(self) -> None:
        if self.path.startswith("/data.zarr/"):
            super().do_GET()
        else:
            self.send_error(403)


def test_rows_are_read_over_http_where_nothing_beside_them_may_be_asked_for(
    tmp_path: Path, rows: np.ndarray, wanted: DPMeans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_store, "PAUSES", (60.0,))  # it is not asked again
    put(Location.at(tmp_path / "data.zarr"), rows)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Forbidding, directory=tmp_path)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/data.zarr"
            same(fit(url, tmp_path / "run.zarr", model()), wanted)
            with pytest.raises(InputError, match="absent: the URL has no metadata of Zarr"):
                as_source(f"{url}/absent")
        finally:
            server.shutdown()
            thread.join()


def test_rows_are_read_over_http(
    tmp_path: Path, rows: np.ndarray, wanted: DPMeans, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(Location.at(tmp_path / "data.zarr"), rows)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=tmp_path)) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/data.zarr"
            same(fit(url, tmp_path / "run.zarr", model()), wanted)
            with monkeypatch.context() as patch:
                patch.setattr(Quiet, "failing", True)
                patch.setattr(checked_store, "PAUSES", (0.01,))
                with pytest.raises(
                    OSError, match=r"rows 0 to 3,000 of .* cannot be read: 500, message='Internal"
                ):
                    as_source(url)
            (tmp_path / "data.zarr/c/2/0").unlink()
            with pytest.raises(CorruptStoreError, match=r"chunk c/2/0 of .*data.zarr.* is missing"):
                as_source(url)
        finally:
            server.shutdown()
            thread.join()


def test_a_folder_is_moved_whole(folder: Location) -> None:
    one, other = folder / "one", folder / "far" / "other"
    assert not one.is_folder()
    for name in ("a", "b/c"):
        (one / name).write(name.encode())
    assert one.is_folder()
    assert not (one / "a").is_folder()
    one.move(other)
    assert sorted(other.entries()) == ["a", "b/c"]
    assert not list(one.entries())
    one.move(folder / "third")
    assert not list((folder / "third").entries())
    fs, where = (other / "b" / "c").files()
    assert fs.cat_file(where) == b"b/c"


@pytest.mark.parametrize("text", ["~/a folder/run.zarr", "file://~/a folder/run.zarr", "~"])
def test_a_tilde_is_the_home_of_the_user(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Location.at(text).url == text.removeprefix("file://").replace("~", str(tmp_path))
    assert Location.at("./~/run.zarr").url.endswith("/~/run.zarr")
    assert Location.at("s3://bucket/~").url == "s3://bucket/~"


def test_every_path_of_a_command_may_begin_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(elsewhere)
    few = Synthetic("blobs", 200, 16, 100, seed=0)  # also for the demo
    monkeypatch.setattr("dask_dpmeans.api.synthetic.Synthetic", lambda *_, **__: few)
    np.savetxt(home / "rows.csv", np.eye(3), delimiter=",", header="a,b,c", comments="")
    np.save(home / "weights.npy", np.ones(200))
    for words in (
        "synth blobs ~/data.zarr --rows 100",
        "demo ~/demo",
        "fit ~/data.zarr/rows ~/run.zarr --penalty 4 --weights ~/weights.npy",
        "fit ~/data.zarr/rows ~/again.zarr --penalty 4 --init ~/run.zarr",
        "fit ~/rows.csv#a,b ~/weighted.zarr --penalty 4 --weights ~/rows.csv#c",
        "predict ~/run.zarr ~/data.zarr/rows ~/labels.zarr",
        "predict ~/run.zarr ~/data.zarr/rows ~/labels.parquet",
        "path ~/data.zarr/rows ~/path.zarr --penalties 4,9",
        "tree ~/run.zarr ~/tree.zarr",
        "report ~/run.zarr ~/run.html",
        "export ~/run.zarr ~/run.json",
        "show ~/run.zarr",
    ):
        answer = CliRunner().invoke(main, words.split())
        assert answer.exit_code == 0, f"{words}\n{answer.output}"
    assert list(elsewhere.iterdir()) == []
    written = (
        "data.zarr demo run.zarr labels.zarr labels.parquet path.zarr tree.zarr run.html run.json"
    )
    assert {*written.split()} < {each.name for each in home.iterdir()}
