"""Two worker processes: the same bytes as threads, whatever happens to a worker."""

import asyncio
import logging
import math
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from distributed import Client, LocalCluster, Status
from lost_workers import kill_a_worker
from scipy.sparse import csr_array
from strategies import Nested, contents, table, trace
from zarr.storage import MemoryStore

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.errors import ClusterLostError, InputError
from dask_dpmeans.methods.dpmeans import search
from dask_dpmeans.methods.dpmeans.batch import Method
from dask_dpmeans.methods.dpmeans.starts import Restart
from dask_dpmeans.selection.penalty import penalty_path
from dask_dpmeans.sources import as_source, cluster, connect, layout, planning
from dask_dpmeans.sources.cluster import QUIET, close_cluster
from dask_dpmeans.sources.executors.dask_tasks import DaskTasks
from dask_dpmeans.sources.executors.threads import Threads
from dask_dpmeans.sources.resources import WORKER_BYTES

ROWS = table("clouds", (1200, 2), np.float32, 0)
WEIGHTS = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 2.7], len(ROWS))
BLOCK_ROWS = 64
METHOD = {"penalty": 6.0, "max_iter": 3}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    before = multiprocessing.active_children()
    with (
        dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("workers"))}),
        connect(None, workers=2, threads=1, memory_limit="1GB", timeout=60) as client,
    ):
        yield client
    assert set(multiprocessing.active_children()) <= set(before)


@pytest.fixture(scope="module")
def expected():
    """The fit on threads."""
    return trace(on_threads(), **METHOD)


@pytest.fixture
def path(tmp_path):
    made = zarr.create_array(
        tmp_path / "rows.zarr", shape=ROWS.shape, chunks=(50, 1), dtype=ROWS.dtype
    )
    made[:] = ROWS
    return tmp_path / "rows.zarr"


def as_npy(path):
    np.save(path.with_suffix(".npy"), ROWS)
    return path.with_suffix(".npy")


def as_csr_group(path):
    found, name = csr_array(ROWS), path.with_name("csr.zarr")
    group = zarr.create_group(
        name, attributes={"encoding-type": "csr_matrix", "shape": list(ROWS.shape)}
    )
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(found, part), chunks=(100,))
    return name


FORMS = {
    "zarr path": lambda path: path,
    "zarr": lambda path: zarr.open_array(path, mode="r"),
    "npy": as_npy,
    "dask": lambda path: da.from_array(ROWS, chunks=((0, 7, 500, 0, 693), (1, 1))),
    "dask of zarr": da.from_zarr,
    "csr group": as_csr_group,
    "dask of csr": lambda path: da.from_zarr(path).map_blocks(csr_array),
}


def on_threads():
    return as_source(ROWS, WEIGHTS, threads=2, block_rows=BLOCK_ROWS)


def on_cluster(data, client, **watched):
    source = as_source(data, WEIGHTS, client=client, block_rows=BLOCK_ROWS, **watched)
    assert isinstance(source.executor, DaskTasks)
    assert source.plan.n_shards > 8
    return source


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_on_workers_gives_the_bytes_of_threads(client, path, expected, form):
    assert trace(on_cluster(FORMS[form](path), client), **METHOD) == expected


@pytest.mark.parametrize("form", ["zarr path", "npy", "csr group"])
def test_rows_that_workers_read_again_each_pass_give_the_same_bytes(
    client, path, expected, form, monkeypatch
):
    monkeypatch.setattr(layout, "RESIDENT_SHARE", 0.0)
    monkeypatch.setattr(planning, "shard_blocks", lambda *_: 2)
    assert trace(on_cluster(FORMS[form](path), client), **METHOD) == expected


def test_rows_in_the_memory_of_this_process_stay_there(client):
    made = zarr.create_array(MemoryStore(), data=ROWS, chunks=(300, 2))
    with client.as_current():
        assert all(isinstance(as_source(data).executor, Threads) for data in (ROWS, made))
    for data in (ROWS, made):
        with pytest.raises(InputError, match=r"where the client's workers cannot reach it"):
            as_source(data, client=client)


def test_the_current_client_is_taken_unless_threads_are_asked_for(client, path):
    with client.as_current():
        assert as_source(path).executor == DaskTasks(client, 2)
        assert as_source(path, threads=1).executor == Threads(1)


def test_a_bad_number_that_a_worker_finds_is_named(client, path):
    zarr.open_array(path, mode="r+")[1134, 1] = np.nan
    with pytest.raises(
        InputError, match=r"NaN \(nan\) at row 1,134 \(chunk 22, its row 34\), column 1"
    ):
        on_cluster(path, client)


def test_a_map_on_workers_hands_on_every_row_once(client, path, tmp_path):
    def sink(start, answers):
        np.save(tmp_path / f"{start:06}.npy", answers[0], allow_pickle=False)

    on_cluster(path, client).map(lambda block: (block.rows.copy(),), sink)
    handed = [np.load(part) for part in sorted(tmp_path.glob("*.npy"))]
    assert np.concatenate(handed).tobytes() == ROWS.tobytes()


@pytest.mark.parametrize("form", ["zarr path", "dask of zarr"])
def test_a_fit_that_loses_a_worker_between_passes_ends_in_the_same_bytes(
    client, path, expected, form
):
    client.wait_for_workers(2, timeout=60)
    steps = iterate(on_cluster(FORMS[form](path), client), Method(**METHOD))
    found = [next(steps)]
    kill_a_worker(client, among=2)
    found += steps
    assert [contents(step.state) | {"end": step.converged} for step in found] == expected


def test_a_pass_in_which_a_worker_is_killed_gives_the_same_bytes(client, path, tmp_path):
    once = str(tmp_path / "killed")

    class Deadly(Nested):
        def chunk(self, block):
            if block.start == 10 * BLOCK_ROWS and not Path(once).exists():
                Path(once).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().chunk(block)

    client.wait_for_workers(2, timeout=60)
    source = on_cluster(path, client)
    assert source.fold(Deadly()) == on_threads().fold(Nested())
    assert Path(once).exists()


def test_a_fit_that_is_watched_gives_the_same_bytes(client, path, expected):
    told = []
    assert trace(on_cluster(path, client, on_pass=told.append), **METHOD) == expected
    over = [found for found in told if found.over]
    assert {found.name for found in over} == {"survey", "scan"}
    assert (over[0].name, over[0].total) == ("survey", len(ROWS))


class Patient(Nested):
    """Lets its last block wait until a file is there."""

    def __init__(self, path):
        object.__setattr__(self, "path", path)

    def chunk(self, block):
        for _ in range(6000 * (block.start == len(ROWS) // BLOCK_ROWS * BLOCK_ROWS)):
            if self.path.exists():
                break
            sleep(0.01)
        return super().chunk(block)


@pytest.fixture
def often(monkeypatch):
    """Tell, and look, at every opportunity."""
    monkeypatch.setattr("dask_dpmeans.sources.progress.EVERY", 0.0)
    monkeypatch.setattr("dask_dpmeans.sources.executors.dask_tasks.LOOK", 0.05)


def test_what_tasks_have_ended_with_is_told_while_others_run(client, path, tmp_path, often):
    seen, told = tmp_path / "seen", []

    def watch(found):
        told.append(found)
        if found.name == "look" and 0 < found.done < found.total:
            seen.touch()

    source = on_cluster(path, client, on_pass=watch)
    assert source.fold(Patient(seen), name="look") == on_threads().fold(Nested())
    done = [found.done for found in told if found.name == "look"]
    assert seen.exists()
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, len(ROWS))
    source.carry(lambda state, block: state + len(block.rows), 0, name="stream")
    assert (told[-1].name, told[-1].done) == ("stream", len(ROWS))


def test_an_error_of_who_watches_is_not_taken_for_a_lost_cluster(client, path, tmp_path, often):
    seen = tmp_path / "seen"

    def watch(found):
        if found.name == "look" and found.done:
            seen.touch()
            raise OSError("of who watches")

    with pytest.raises(OSError, match=r"^of who watches$"):
        on_cluster(path, client, on_pass=watch).fold(Patient(seen), name="look")
    assert on_cluster(path, client).fold(Nested()) == on_threads().fold(Nested())


def test_fits_of_a_job_are_told_from_the_worker_that_runs_it(client, path):
    told = []
    found = penalty_path(
        zarr.open_array(path, mode="r"),
        [2.0, 20.0],
        random_state=0,
        client=client,
        on_pass=told.append,
    )
    assert told[-1].unit == "fits"
    assert told[-1].done == told[-1].total == 2
    assert told[-1].last == {"penalty": 20.0, "n_clusters": found.n_clusters[-1]}


def test_steps_of_a_search_in_memory_are_told_from_the_worker_that_runs_it(client, path):
    told, rows = [], InMemoryRows(np.random.default_rng(0).normal(size=(200, 2)), None)
    job = Restart(search.Method(6.0).without_limits(), tries=0)
    [end] = on_cluster(path, client, on_pass=told.append).run([job], rows, "search")
    assert (told[-1].done, told[-1].total, told[-1].unit) == (1, 1, "jobs")
    assert told[-1].last == {"n_clusters": len(end.centers)}


def test_workers_that_have_too_little_memory_are_refused_and_not_started(monkeypatch):
    monkeypatch.setattr(cluster, "LocalCluster", None)
    told = (
        r"of 100 MB is for each worker, and none works with less than 140 MB: give at least 400 MB"
    )
    with pytest.raises(InputError, match=told), connect(None, 2, 1, 100_000_000, timeout=60):
        pass


def room_of(rows):
    return rows.worker_room


def test_a_job_on_a_worker_knows_the_memory_that_rows_leave_there(client, path):
    rows, source = InMemoryRows(ROWS, None), on_cluster(path, client)
    assert source.run([room_of], rows) == [source.worker_room] == [0.8 * 10**9 - WORKER_BYTES]
    assert on_threads().run([room_of], rows) == [on_threads().worker_room] == [math.inf]


WORKERS_THAT_TELL_THEIR_SIGNALS = """
import signal
from dask_dpmeans.sources import connect
if __name__ == "__main__":
    with connect(None, workers=2, threads=1, memory_limit="1GB", timeout=60) as client:
        masks = client.run(signal.pthread_sigmask, signal.SIG_BLOCK, [])
    here = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    print(*(signal.SIGINT in mask for mask in (*masks.values(), here)))
"""


def test_ctrl_c_on_a_terminal_is_not_for_the_workers(tmp_path):
    """A process has the mask of the thread that started it, so from its first import on."""
    (tmp_path / "job.py").write_text(WORKERS_THAT_TELL_THEIR_SIGNALS)
    told = subprocess.run(
        [sys.executable, tmp_path / "job.py"], capture_output=True, text=True, timeout=120
    )
    assert told.stdout.split() == ["True", "True", "False"], told.stderr


def test_workers_do_not_log_what_the_end_of_a_command_cancels(client):
    def passes(message):
        loggers = map(logging.getLogger, QUIET)
        record = logging.makeLogRecord({"msg": message})
        return [bool(each.filter(record)) for each in loggers]

    for beginning in (*QUIET.values(), "Unclosed client session"):
        assert all(
            any(told) and not all(told) for told in client.run(passes, f"{beginning}...").values()
        )
    assert all(all(told) for told in client.run(passes, "Compute Failed").values())


def test_futures_say_how_they_become_rows(client):
    X = client.scatter([ROWS[:500], ROWS[500:]])
    for data, kind in ((X, "list of Future objects"), (X[0], "Future")):
        with pytest.raises(InputError, match=f"X is a {kind}, no array: pass dask.array") as told:
            DPMeans(6.0).fit(data)
        way = str(told.value).partition("pass ")[2].partition(", with numpy.nan")[0]
        rows = eval(way, {"dask": dask, "X": data, "n": np.nan, "d": 2})
        with client.as_current():
            assert DPMeans(6.0).fit(rows).n_clusters_ > 1


def test_an_asynchronous_client_is_refused_in_its_own_loop_and_works_from_a_thread(path):
    rows = da.from_zarr(path)

    async def fitted_twice():
        async with Client(processes=False, asynchronous=True, dashboard_address=":0"):
            with pytest.raises(InputError, match=r"client is asynchronous.*asyncio\.to_thread"):
                DPMeans(6.0).fit(rows)
            return await asyncio.to_thread(DPMeans(6.0).fit, rows)

    expected = DPMeans(6.0).fit(ROWS)
    np.testing.assert_array_equal(
        asyncio.run(fitted_twice()).cluster_centers_, expected.cluster_centers_
    )


def test_a_client_that_is_closed_is_refused(path):
    with Client(processes=False, dashboard_address=":0", set_as_default=False) as client:
        client.close()
        with pytest.raises(
            InputError, match=r"^the Dask client is closed: give another one, as Cl"
        ):
            on_cluster(path, client)


def test_a_client_in_a_forked_process_is_refused(path):
    with Client(processes=False, dashboard_address=":0", set_as_default=False) as client:
        child = os.fork()
        if not child:
            signal.alarm(20)  # a child that waits is ended
            with pytest.raises(InputError, match=r"does not work in a forked process"):
                on_cluster(path, client)  # in less than the usual time to wait
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0


def test_an_adaptive_cluster_without_workers_starts_one(path):
    with LocalCluster(
        n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as made:
        made.adapt(minimum=0, maximum=1, interval="20ms")
        with Client(made, set_as_default=False) as client:
            assert on_cluster(path, client, worker_timeout=20).plan.n_rows == len(ROWS)


def test_a_client_that_is_closed_while_a_fit_runs_is_named(path):
    with (
        Client(processes=False, dashboard_address=":0", set_as_default=False) as client,
        pytest.raises(ClusterLostError, match=r"the client was closed before the end$"),
    ):
        trace(on_cluster(path, client, on_pass=lambda _: client.close()), **METHOD)


def test_a_cluster_whose_start_is_stopped_is_closed(monkeypatch):
    closed = []

    class Stopped(LocalCluster):
        def __init__(self, **options):
            super().__init__(n_workers=0, dashboard_address=None, **options)
            os.kill(os.getpid(), signal.SIGINT)
            sleep(0.2)

        def close(self, timeout=None):
            closed.append(self)
            return super().close(timeout)

    monkeypatch.setattr(cluster, "LocalCluster", Stopped)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster._start_cluster(scheduler_kwargs={"dashboard_address": "127.0.0.1:0"})
    finally:
        signal.signal(signal.SIGINT, before)
    assert [each.status for each in closed] == [Status.closed]


def test_a_worker_that_leaves_before_dask_knew_it_leaves_no_unclosed_cluster():
    made = LocalCluster(
        n_workers=1,
        processes=False,
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        silence_logs=50,
    )
    (told,) = [each for each in made.scheduler.plugins.values() if hasattr(each, "bcomm")]
    made.loop.add_callback(told.bcomm.send, ["remove", "tcp://127.0.0.1:1"])
    wait_until(lambda: not told.bcomm.buffer)
    sleep(0.2)
    close_cluster(made)
    assert made.status == Status.closed
    assert made.scheduler.status == Status.closed


def test_the_dashboard_groups_tasks_by_what_runs(client, path):
    fit(path, path.with_name("run.zarr"), DPMeans(6.0), client=client)
    groups = client.run_on_scheduler(lambda dask_scheduler: set(dask_scheduler.task_prefixes))
    assert {f"dpmeans-{name}-shard" for name in ("load", "survey", "scan", "label")} <= groups
    named = {name for name in groups if name.startswith("dpmeans-")}
    words = r"dpmeans-[a-z]+-(shard|merge|job|shared|state|run)"
    assert all(re.fullmatch(words, name) for name in named), named


def test_workers_of_an_adaptive_cluster_come_and_go_during_a_fit(path, tmp_path):
    numbers = []
    with (
        dask.config.set({"temporary-directory": str(tmp_path)}),
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as made,
        Client(made, set_as_default=False) as client,
    ):

        def on_step(number, *_):
            wanted = 1 + number % 2
            made.adapt(minimum=wanted, maximum=wanted, interval="20ms", wait_count=1)
            wait_until(lambda: len(client.scheduler_info()["workers"]) == wanted)
            numbers.append(wanted)

        model = fit(
            path,
            tmp_path / "run.zarr",
            DPMeans(6.0, random_state=0),
            client=client,
            on_step=on_step,
        )
        made.adapt(minimum=0, maximum=0).stop()
    assert {1, 2} <= set(numbers)
    alone = DPMeans(6.0, random_state=0).fit(ROWS)
    np.testing.assert_array_equal(model.cluster_centers_, alone.cluster_centers_)
    np.testing.assert_array_equal(model.labels_.compute(), alone.labels_)


def wait_until(what):
    end = monotonic() + 60
    while not what():
        assert monotonic() < end, "it never came to be"
        sleep(0.02)
