"""One job at a time: refused while another works, free at once where it was killed, after a lease elsewhere."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from shutil import rmtree
from threading import Thread
from time import monotonic, sleep

import fsspec
import numpy as np
import pytest
import zarr
from click.testing import CliRunner
from sklearn.exceptions import ConvergenceWarning

from dask_dpmeans import DPMeans, InputError, fit
from dask_dpmeans.cli import main
from dask_dpmeans.errors import LockLostError
from dask_dpmeans.selection.penalty import (
    penalty_for,
    penalty_path,
    read_path,
    stored_path,
    write_path,
)
from dask_dpmeans.storage import lock, output
from dask_dpmeans.storage.lock import NAME, Lock, only_job
from dask_dpmeans.storage.output import new_output
from dask_dpmeans.storage.step_log import CheckpointFiles

HOLD = """
import sys, time
from dask_dpmeans.storage.lock import only_job
with only_job(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.05)
    monkeypatch.setattr(lock, "LEASE", 0.5)


@pytest.fixture(params=["local", "without locks of the kernel", "memory"])
def path(request, tmp_path, monkeypatch):
    """Places with and without locks of the kernel."""
    if request.param == "memory":
        return f"memory://{tmp_path.name}/run"
    if request.param != "local":
        monkeypatch.setattr(lock, "fcntl", None)
    return str(tmp_path / "run")


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def write_lock(path, **word):
    fs, where = fsspec.core.url_to_fs(f"{path}/{NAME}")
    fs.makedirs(fs._parent(where), exist_ok=True)
    fs.pipe_file(where, json.dumps(word).encode())


def there(path):
    fs, where = fsspec.core.url_to_fs(f"{path}/{NAME}")
    return fs.exists(where)


def test_a_lock_is_there_while_it_is_held_and_leaves_nothing(path):
    with only_job(path) as held:
        assert there(path)
        held.check()
    assert not there(path)
    if "://" not in path:
        assert not Path(path).exists()


def test_a_folder_that_something_was_written_to_stays(tmp_path):
    with only_job(str(tmp_path / "run")):
        (tmp_path / "run" / "x").touch()
    assert list((tmp_path / "run").iterdir()) == [tmp_path / "run" / "x"]


def test_a_second_job_is_refused_with_the_name_of_the_first(path):
    with (
        only_job(path),
        pytest.raises(
            InputError,
            match=rf"run is being written by another job, process {os.getpid()} on \S+: wait",
        ),
        only_job(path),
    ):
        pytest.fail("two jobs")
    with only_job(path):
        assert there(path)


def test_a_refused_job_leaves_the_lock_of_the_first(path):
    with only_job(path) as first:
        with pytest.raises(InputError, match="another job"):
            Lock(first.location).take()
        first.check()
        sleep(3 * lock.BEAT)
        first.check()


def test_of_many_that_try_at_once_one_at_a_time_has_it(tmp_path):
    inside, most = [0], [0]

    def work():
        times = 0
        while times < 5:
            try:
                with only_job(str(tmp_path)):
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    sleep(0.001)
                    inside[0] -= 1
                times += 1
            except InputError:
                sleep(0.001)

    threads = [Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert most == [1]


def test_the_lock_of_a_process_of_this_machine_holds_until_it_is_killed(
    holder, tmp_path, monkeypatch
):
    monkeypatch.setattr(lock, "LEASE", 600.0)
    path = str(tmp_path / "run")
    with pytest.raises(InputError, match=rf"another job, process {holder.pid} on"), only_job(path):
        pytest.fail("two jobs")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with only_job(path):  # at once
        assert json.loads(Path(path, NAME).read_text())["process"] == os.getpid()


def test_a_killed_process_of_this_machine_is_known_without_locks_of_the_kernel(path, monkeypatch):
    monkeypatch.setattr(lock, "LEASE", 600.0)
    process = multiprocessing.get_context("spawn").Process(target=nullcontext)
    process.start()
    process.join()
    write_lock(path, host=lock.socket.gethostname(), process=process.pid, owner="it", beats=3)
    with only_job(path):
        assert there(path)


@pytest.mark.parametrize(
    "word", [{"host": "elsewhere", "process": 1, "owner": "it", "beats": 3}, {}, {"host": 3}]
)
def test_a_lock_from_elsewhere_is_taken_after_a_lease_without_a_sign(path, word, monkeypatch):
    write_lock(path, **word)
    started = monotonic()
    with only_job(path) as held:
        waited = monotonic() - started
        held.check()
    if word:
        assert waited >= lock.LEASE


def test_a_lock_from_elsewhere_that_shows_a_sign_is_not_taken(path):
    write_lock(path, host="elsewhere", process=1, owner="it", beats=3)
    ended = []

    def beat():
        for number in range(4, 100):
            sleep(lock.BEAT)
            if ended:
                return
            write_lock(path, host="elsewhere", process=1, owner="it", beats=number)

    thread = Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(InputError, match="another job, process 1 on elsewhere"), only_job(path):
            pytest.fail("two jobs")
    finally:
        ended.append(1)
        thread.join()


def test_a_job_whose_lock_was_taken_notices_and_leaves_the_new_one(path):
    with only_job(path) as held:
        held.check()
        write_lock(path, host="elsewhere", process=1, owner="other", beats=1)
        sleep(3 * lock.BEAT)
        with pytest.raises(LockLostError, match="process 1 on elsewhere; this one stood still"):
            held.check()
    assert there(path)


@pytest.mark.parametrize("what", ["run", "lock"])
def test_an_output_that_is_removed_meanwhile_is_said_so(rows, tmp_path, what):
    run = tmp_path / "run.zarr"

    def remove(*_):
        if what == "run":
            rmtree(run)
        else:
            (run / NAME).unlink()

    message = (
        r"run\.zarr, or the file 'lock' in it, was removed while this job was writing there: start"
    )
    with pytest.raises(LockLostError, match=message):
        fit(rows, run, DPMeans(9.0, random_state=0), on_step=remove, threads=1)


def test_a_lock_that_its_holder_removes_just_now_is_made_anew(tmp_path, monkeypatch):
    opened = []

    def open_and_remove(path, *how):
        opened.append(os.open(path, *how))
        if len(opened) == 1:
            os.unlink(path)
        return opened[-1]

    monkeypatch.setattr(
        lock, "os", type("", (), vars(os) | {"open": staticmethod(open_and_remove)})
    )
    with only_job(str(tmp_path)) as held:
        held.check()
        assert os.path.samestat(os.fstat(held.descriptor), os.stat(tmp_path / NAME))
    assert len(opened) == 2


@pytest.fixture
def rows(tmp_path):
    array = zarr.create_array(
        tmp_path / "rows.zarr", shape=(500, 2), chunks=(100, 2), dtype=np.float64
    )
    array[:] = np.random.default_rng(0).uniform(0, 10, (500, 2))
    return tmp_path / "rows.zarr"


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"force": True}])
def test_a_second_fit_on_one_run_is_refused_and_the_first_ends_well(rows, tmp_path, how):
    run, refused = tmp_path / "run.zarr", []

    def second(number, record, n_rows):
        try:
            fit(rows, run, DPMeans(9.0, random_state=0), **(how or {"resume": True}))
        except InputError as error:
            refused.append(str(error))

    first = fit(rows, run, DPMeans(9.0, random_state=0), on_step=second, threads=1)
    assert refused
    assert all("another job" in each for each in refused)
    assert not (run / NAME).exists()
    alone = fit(rows, tmp_path / "alone.zarr", DPMeans(9.0, random_state=0))
    np.testing.assert_array_equal(first.cluster_centers_, alone.cluster_centers_)


def choose_path(rows, place, **options):
    return penalty_path(rows, [1.0, 9.0], checkpoint=place, random_state=0, threads=1, **options)


def choose_penalty(rows, place, **options):
    return penalty_for(rows, 3, checkpoint=place, random_state=0, threads=1, **options)


def write_a_path(rows, place, **options):
    return stored_path(rows, [1.0, 9.0], place, random_state=0, threads=1, **options)


SECONDS = {
    "path": choose_path,
    "path, resumed": partial(choose_path, resume=True),
    "penalty": choose_penalty,
    "stored path": write_a_path,
    "stored path, resumed": partial(write_a_path, resume=True),
    "stored path, forced": partial(write_a_path, force=True),
    "path written": lambda rows, place: write_path(penalty_path(rows, [4.0]), place, force=True),
    "command": lambda rows, place: refused_command(str(rows), str(place)),
}
"""What a second job may do on the place of the first."""


def refused_command(rows, place):
    result = CliRunner().invoke(main, ["path", rows, place, "--penalties", "4"])
    assert result.exit_code == 2
    raise InputError(" ".join(result.output.split()))


@pytest.mark.parametrize("second", SECONDS)
@pytest.mark.parametrize("first", [choose_path, choose_penalty, write_a_path])
def test_a_second_job_on_a_checkpoint_is_refused_and_the_first_ends_well(
    rows, tmp_path, monkeypatch, first, second
):
    place, refused, save = tmp_path / "kept", [], CheckpointFiles.save

    def saving(store, name, content):
        save(store, name, content)
        if not refused:
            refused.append("")
            with pytest.raises(
                InputError,
                match=r"another job|of another kind|(force=True|--force) removes it first",
            ) as error:
                SECONDS[second](rows, place)
            refused.append(str(error.value))

    monkeypatch.setattr(CheckpointFiles, "save", saving)
    found = first(rows, place)
    monkeypatch.undo()
    assert len(refused) == 2
    alone = first(rows, tmp_path / "alone")
    assert (
        found.penalties.tolist() == alone.penalties.tolist()
        if first != choose_penalty
        else found == alone
    )
    if first == write_a_path:
        assert read_path(place).inertias.tolist() == found.inertias.tolist()
    assert place.exists() is (first != choose_penalty)
    assert not (place / NAME).exists()


@pytest.mark.parametrize("first", [choose_path, choose_penalty, write_a_path])
def test_fits_that_lost_the_lock_are_kept_no_more(rows, tmp_path, monkeypatch, first):
    place, save = tmp_path / "kept", CheckpointFiles.save

    def steal(store, name, content):
        Path(place, NAME).write_text(
            json.dumps({"owner": "other", "host": "elsewhere", "process": 1})
        )
        save(store, name, content)

    monkeypatch.setattr(CheckpointFiles, "save", steal)
    with pytest.raises(LockLostError, match="process 1 on elsewhere"):
        first(rows, place)
    assert not (place / "steps" / "searches").exists()


def test_a_fit_that_lost_its_lock_commits_no_more(rows, tmp_path):
    run, seen = tmp_path / "run.zarr", []

    def steal(number, record, n_rows):
        seen.append(number)
        if number == 2:
            Path(run, NAME).write_text(
                json.dumps({"owner": "other", "host": "elsewhere", "process": 1})
            )

    with pytest.raises(LockLostError, match="process 1 on elsewhere"):
        fit(rows, run, DPMeans(1.0, random_state=0, tol=0.0), on_step=steal, threads=1)
    assert seen == [1, 2]


def test_a_lock_that_could_not_be_written_is_let_go_of(path, monkeypatch):
    sign = Lock._sign

    def full(self):
        raise OSError("no space left on device")

    monkeypatch.setattr(Lock, "_sign", full)
    with pytest.raises(OSError, match="no space left"), only_job(path):
        pytest.fail("no lock")
    monkeypatch.setattr(Lock, "_sign", sign)
    monkeypatch.setattr(lock, "LEASE", 600.0)
    with only_job(path):
        assert there(path)


def test_an_error_in_letting_go_does_not_hide_what_the_job_came_to(path, monkeypatch):
    def gone(location):
        raise RuntimeError("no answer")

    def work():
        monkeypatch.setattr(lock, "read_sign", gone)
        sleep(3 * lock.BEAT)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), only_job(path):
        work()


def test_a_new_output_is_not_waited_for(path, monkeypatch):
    monkeypatch.setattr(lock, "LEASE", 600.0)
    with only_job(path):
        assert there(path)


def test_signs_of_life_are_never_seen_by_half(path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.0005)
    with only_job(path) as held:
        for _ in range(300):
            held.check()


def test_an_output_that_another_job_finished_before_the_lock_was_held_is_refused(
    tmp_path, monkeypatch
):
    place = tmp_path / "tree.zarr"

    def locked_late(location):
        monkeypatch.undo()
        with new_output(place, "tree", {}, ["penalty"], force=False) as new:
            new.write("penalty", np.ones(1), ("level",))
        return only_job(location)

    monkeypatch.setattr(output, "only_job", locked_late)
    with (
        pytest.raises(InputError, match="holds a tree: force=True removes it first"),
        output.Output.at(place).locked("tree", [], force=False),
    ):
        raise AssertionError("the lock was held")
    assert not (place / NAME).exists()


def test_a_finished_run_is_resumed_where_nothing_can_be_written(tmp_path, monkeypatch):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    whole, short = tmp_path / "whole.zarr", tmp_path / "short.zarr"
    fit(rows, whole, DPMeans(2.0))
    with pytest.warns(ConvergenceWarning):
        fit(rows, short, DPMeans(2.0, max_iter=2))
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK)
    monkeypatch.setattr(Lock, "take", refuse)
    labels = fit(rows, whole, DPMeans(2.0), resume=True).labels_
    assert len(np.asarray(labels)) == 40
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
    with pytest.raises(
        InputError, match=r"short\.zarr cannot be written, and the run has not conv"
    ):
        fit(rows, short, DPMeans(2.0), resume=True)
    with pytest.raises(
        InputError, match=r"was begun with other parameters: penalty 2\.0, not 3\.0"
    ):
        fit(rows, whole, DPMeans(3.0), resume=True)
    with pytest.raises(OSError, match="Read-only"):
        fit(rows, whole, DPMeans(2.0), force=True)
