import os
import pickle
import re
import signal
import threading
from concurrent.futures import CancelledError
from time import sleep

import dask.array as da
import numpy as np
import pytest
from dask.callbacks import Callback
from dask.utils import key_split
from distributed import Client, LocalCluster, get_worker
from distributed.comm.core import CommClosedError
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import Nested

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Plan, doublings, merge_tree
from dask_dpmeans.errors import ClusterLostError
from dask_dpmeans.kernels.block import Block
from dask_dpmeans.sources.executors.base import Keys, Literal
from dask_dpmeans.sources.executors.dask_tasks import FAN_IN, DaskTasks
from dask_dpmeans.sources.executors.threads import Threads
from dask_dpmeans.sources.jobs import FoldJob, MapJob
from dask_dpmeans.sources.progress import Count
from dask_dpmeans.sources.shards import Prepare, Shard, StoredShard

ROWS = np.arange(600.0).reshape(-1, 1)
EXECUTORS = [Threads(1), Threads(2), DaskTasks(None, 1), DaskTasks(None, 2)]
FLOAT64 = Prepare(np.dtype(np.float64))

executors = pytest.mark.parametrize(
    "executor", EXECUTORS, ids=["1 thread", "2 threads", "Dask, 1", "Dask, 2"]
)


def shards_of(plan):
    return [Shard(start, ROWS[start:stop], None) for start, stop in plan.shard_bounds()]


def pieces_of(executor, plan, blocks):
    shards = executor.wrap(shards_of(plan))
    return [(shards[shard], which) for shard, which in plan.pieces(blocks)]


@executors
@settings(max_examples=8)
@given(st.integers(1, 150), st.integers(0, 1), st.integers(0, 1))
def test_every_executor_merges_as_the_tree_does(executor, n_rows, height, per_shard):
    plan = Plan(n_rows, 2**height, 2**per_shard)
    blocks = [
        Nested().chunk(Block(start, ROWS[start : min(start + plan.block_rows, n_rows)], None))
        for start in range(0, n_rows, plan.block_rows)
    ]
    job = FoldJob(Nested(), FLOAT64, plan.block_rows)
    for run in (range(plan.n_blocks), *list(doublings(plan.n_blocks))[-2:]):
        found = executor.fold(job, pieces_of(executor, plan, run), "test")
        assert found == merge_tree([blocks[number] for number in run], Nested().combine)


@executors
def test_each_runs_on_every_piece_once(executor):
    handed = []
    plan = Plan(37, 2, 2)
    job = MapJob(
        lambda block: (block.rows[:, 0].copy(),),
        lambda start, answers: handed.append(answers[0]),
        FLOAT64,
        2,
        4,
    )
    executor.map(job, pieces_of(executor, plan, range(plan.n_blocks)), "test")
    assert sorted(np.concatenate(handed)) == list(range(37))


@executors
def test_held_shards_are_loaded_once(executor):
    reads = []

    class Noted:
        dtype, shape = ROWS.dtype, ROWS.shape

        def __getitem__(self, part):
            reads.append(part.start)
            return ROWS[part]

    plan = Plan(24, 2, 2)
    held = executor.load(
        [StoredShard(start, stop, Noted(), None) for start, stop in plan.shard_bounds()]
    )
    assert sorted(reads) == [start for start, _ in plan.shard_bounds()]
    pieces = [(held[shard], which) for shard, which in plan.pieces(range(plan.n_blocks))]
    job = FoldJob(Nested(), FLOAT64, plan.block_rows)
    assert executor.fold(job, pieces, "test") == executor.fold(job, pieces, "test")
    assert len(reads) == plan.n_shards


class Refusing(Nested):
    """Fails on one block, and counts those that it saw."""

    def __init__(self):
        object.__setattr__(self, "seen", [])

    def chunk(self, block):
        self.seen.append(block.start)
        if block.start == 3:
            raise ZeroDivisionError("row 3")
        sleep(0.005)
        return super().chunk(block)


@executors
def test_an_error_in_a_job_is_what_the_caller_gets(executor):
    plan = Plan(300, 1, 1)
    reduction = Refusing()
    with pytest.raises(ZeroDivisionError, match=r"^row 3$"):
        executor.fold(FoldJob(reduction, FLOAT64, 1), pieces_of(executor, plan, range(300)), "test")
    assert len(reduction.seen) < 300


@pytest.mark.parametrize("executor", [Threads(2), DaskTasks(None, 2)], ids=["threads", "Dask"])
def test_two_threads_work_at_once(executor):
    both = threading.Barrier(2, timeout=60)

    class Meeting(Nested):
        def chunk(self, block):
            both.wait()
            return super().chunk(block)

    plan = Plan(2, 1, 1)
    assert executor.fold(
        FoldJob(Meeting(), FLOAT64, 1), pieces_of(executor, plan, range(2)), "test"
    ).startswith("([0 ")


def test_a_pass_of_dask_is_a_task_a_shard_and_a_few_that_merge():
    executor, plan = DaskTasks(None, 2), Plan(100, 1, 1)
    pieces = pieces_of(executor, plan, range(100))
    ran = []
    with Callback(pretask=lambda key, *_: ran.append(str(key))):
        executor.fold(FoldJob(Nested(), FLOAT64, 1), pieces, "test")
    work = [key for key in ran if "dpmeans-test-" in key and "-job" not in key]
    assert len(work) == 100 + -(-100 // FAN_IN) + -(-13 // FAN_IN)


def test_what_fails_stops_what_is_left_and_nothing_runs_on():
    plan = Plan(400, 1, 1)
    ended, started = [], []

    def kernel(block):
        started.append(block.start)
        sleep(0.2 if block.start == 2 else 0.005)
        ended.append(block.start)
        if block.start >= 2:
            raise ArithmeticError(f"row {block.start}")
        return (block.rows[:, 0].copy(),)

    executor = Threads(2)
    job = MapJob(kernel, lambda *_: None, FLOAT64, 1, 1)
    with pytest.raises(ArithmeticError, match="row 2"):  # the first, though row 3 fails long before
        executor.map(job, pieces_of(executor, plan, range(plan.n_blocks)), "test")
    assert sorted(ended) == sorted(started) == [0, 1, 2, 3]


def test_an_executor_that_was_used_can_be_sent_and_used_in_a_child():
    executor = Threads(2)
    plan = Plan(40, 1, 1)

    def fold():
        return executor.fold(
            FoldJob(Nested(), FLOAT64, 1), pieces_of(executor, plan, range(plan.n_blocks)), "test"
        )

    expected = fold()
    assert pickle.loads(pickle.dumps(executor)) == executor
    child = os.fork()
    if not child:
        os._exit(0 if fold() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_dask_is_used_in_a_child_after_its_threads_were_used_in_the_parent():
    array = da.ones(8, chunks=2)

    def fold():
        executor, plan = DaskTasks(None, 2), Plan(40, 1, 1)
        pieces = pieces_of(executor, plan, range(plan.n_blocks))
        return executor.fold(FoldJob(Nested(), FLOAT64, 1), pieces, "test"), array.sum().compute()

    expected = fold()
    child = os.fork()
    if not child:
        signal.alarm(20)  # a child that waits is ended
        os._exit(0 if fold() == expected else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_passes_share_their_threads():
    plan = Plan(40, 1, 1)
    names = set()

    def kernel(block):
        names.add(threading.current_thread().name)
        sleep(0.001)
        return (block.rows[:, 0].copy(),)

    executor = Threads(2)
    job = MapJob(kernel, lambda *_: None, FLOAT64, 1, 1)
    for _ in range(3):
        executor.map(job, pieces_of(executor, plan, range(plan.n_blocks)), "test")
    assert len(names) == 2


QUIET = Count(None, "test", ())
"""The counter of a pass without an observer."""


@pytest.mark.parametrize(("n_shards", "few"), [(1, True), (6, True), (7, False)])
def test_few_tasks_carry_the_job_and_many_depend_on_it(n_shards, few):
    executor, plan, job = (
        DaskTasks(None, 3),
        Plan(2 * n_shards, 2, 1),
        FoldJob(Nested(), FLOAT64, 2),
    )
    pieces = pieces_of(executor, plan, range(n_shards))
    shared, tasks = executor._graph(job, pieces, Keys.of("test"), QUIET)
    assert isinstance(shared, Literal) is few
    assert [len(task.dask.layers) for task in tasks] == [1 if few else 2] * n_shards


def test_no_task_is_bound_to_a_worker():
    """Dask never runs tasks that wish for one of several workers that were all lost, though others may take them."""
    plan = Plan(40, 2, 1)

    class Kept:
        def persist(self, loads):
            return loads

    executor = DaskTasks(Kept(), 3)
    loads = executor.load([StoredShard(a, b, ROWS, None) for a, b in plan.shard_bounds()])
    _, tasks = executor._graph(
        FoldJob(Nested(), FLOAT64, 2),
        pieces_of(executor, plan, range(plan.n_blocks)),
        Keys.of("test"),
        QUIET,
    )
    assert not any(
        layer.annotations for task in (*loads, *tasks) for layer in task.dask.layers.values()
    )


def test_keys_tell_of_rows_for_the_dashboard_and_for_errors():
    executor, plan = DaskTasks(None, 1), Plan(10, 2, 2)
    loads = executor.wrap([StoredShard(a, b, ROWS, None) for a, b in plan.shard_bounds()])
    _, tasks = executor._graph(
        FoldJob(Nested(), FLOAT64, 2),
        [(load, range(1)) for load in loads],
        Keys("scan", "abc"),
        QUIET,
    )
    assert [task.key for task in tasks] == [
        f"dpmeans-scan-shard-abc-{number}-{start}-{stop}"
        for number, (start, stop) in enumerate(plan.shard_bounds())
    ]
    _, again = executor._graph(
        FoldJob(Nested(), FLOAT64, 2), [(tasks[2], range(1))], Keys("fold", "def"), QUIET
    )
    assert again[0].key == "dpmeans-fold-shard-def-0-8-10"


@pytest.mark.parametrize("graph", ["12345678", "abcdefab", "a1b2c3d4"])
def test_dask_groups_keys_by_what_runs(graph):
    assert key_split(Keys("scan", graph)("shard", 3, 100, 200)) == "dpmeans-scan-shard"


def test_a_scheduler_that_is_gone_is_a_cluster_that_was_lost():
    class Gone:
        def persist(self, loads):
            raise CommClosedError("gone")

    with pytest.raises(ClusterLostError, match="the cluster was lost: gone"):
        DaskTasks(Gone(), 1).load([StoredShard(0, 2, ROWS, None)])


def test_tasks_that_the_scheduler_dropped_are_a_cluster_that_was_lost():
    class Restarted:
        id, status = "me", "running"

        def compute(self, tasks):
            raise CancelledError("2 Futures cancelled:")

    executor, plan = DaskTasks(Restarted(), 1), Plan(4, 2, 1)
    pieces = pieces_of(executor, plan, range(2))
    with pytest.raises(
        ClusterLostError, match="was lost: the scheduler has ended or was restarted, a"
    ):
        executor.fold(FoldJob(Nested(), FLOAT64, 2), pieces, "test")


def test_jobs_that_are_large_together_are_shared_by_few_tasks_too(monkeypatch):
    plan, job = Plan(12, 2, 1), FoldJob(Nested(), FLOAT64, 2)
    executor = DaskTasks(object(), 3)
    assert isinstance(
        executor._graph(job, pieces_of(executor, plan, range(6)), Keys.of("test"), QUIET)[0],
        Literal,
    )
    monkeypatch.setattr("dask_dpmeans.sources.executors.dask_tasks.MOST_CARRIED", 10)
    shared, _ = executor._graph(job, pieces_of(executor, plan, range(6)), Keys.of("test"), QUIET)
    assert not isinstance(shared, Literal)


@pytest.mark.parametrize(("most", "copies"), [(0, 1), (10**3, 3), (10**9, 3)])
def test_a_large_job_is_held_by_several_workers(monkeypatch, most, copies):
    """Dask sent 20 tasks to the only worker with a job of 120 MB."""
    plan, job = Plan(40, 2, 1), FoldJob(Nested(), FLOAT64, 2)
    monkeypatch.setattr("dask_dpmeans.sources.executors.dask_tasks.MOST_CARRIED", most)
    executor = DaskTasks(object(), 3)
    pieces = pieces_of(executor, plan, range(20))
    _, tasks = executor._graph(job, pieces, Keys("scan", "abc"), QUIET)
    jobs = [name for task in tasks for name in task.dask.layers if "job" in name]
    assert len(set(jobs)) == copies
    assert max(map(jobs.count, jobs)) == -(-20 // copies)


class Growing(Nested):
    """A reduction whose answers workers do not merge."""

    grows = True


def test_answers_that_grow_are_merged_in_order_where_they_are_wanted():
    executor, plan, ran = DaskTasks(None, 2), Plan(40, 1, 1), []
    pieces = pieces_of(executor, plan, range(40))
    expected = executor.fold(FoldJob(Nested(), FLOAT64, 1), pieces, "test")
    with Callback(pretask=lambda key, *_: ran.append(str(key))):
        assert executor.fold(FoldJob(Growing(), FLOAT64, 1), pieces, "test") == expected
    assert len([key for key in ran if "dpmeans-test-" in key and "-job" not in key]) == 40


HELD: list[int] = []
"""The answers that the worker had when each block of `Slow` began."""


class Slow(Growing):
    """A reduction that takes a while on a worker of this process."""

    def chunk(self, block):
        states = list(get_worker().state.tasks.values())
        HELD.append(sum(each.state == "memory" and "shard" in each.key for each in states))
        sleep(0.1)
        return super().chunk(block)


def test_a_worker_keeps_none_of_the_answers_that_grow_until_the_last_is_there(monkeypatch):
    monkeypatch.setattr("dask_dpmeans.sources.executors.dask_tasks.LOOK", 0.05)
    HELD.clear()
    plan = Plan(30, 1, 1)
    expected = Threads(1).fold(
        FoldJob(Nested(), FLOAT64, 1), pieces_of(Threads(1), plan, range(30)), "test"
    )
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        executor = DaskTasks(client, 1)
        pieces = pieces_of(executor, plan, range(30))
        assert executor.fold(FoldJob(Slow(), FLOAT64, 1), pieces, "test") == expected
    assert len(HELD) == 30
    assert max(HELD) < 15


class Interrupting(Nested):
    """A reduction of which each block takes a while, and the tenth sends Ctrl-C to the thread that waits."""

    def __init__(self):
        object.__setattr__(self, "seen", [])

    def chunk(self, block):
        self.seen.append(block.start)
        if len(self.seen) == 10:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        sleep(0.01)
        return ""

    def combine(self, left, right):
        return ""


def long_fold(executor, reduction):
    shards = executor.wrap([Shard(start, np.zeros((10**5, 1)), None) for start in (0, 10**5)])
    executor.fold(
        FoldJob(reduction, FLOAT64, 1), [(shard, range(10**5)) for shard in shards], "scan"
    )


def endless_jobs(executor, reduction):
    def job(rows):
        while True:
            rows.fold(reduction)

    executor.run([job, job], InMemoryRows(np.zeros((9, 1)), None), "search")


@pytest.mark.parametrize("work", [long_fold, endless_jobs])
@pytest.mark.parametrize("executor", EXECUTORS, ids=["1 thread", "2 threads", "Dask, 1", "Dask, 2"])
def test_ctrl_c_ends_what_runs_at_its_next_block(executor, work):
    before, reduction = signal.signal(signal.SIGINT, signal.default_int_handler), Interrupting()
    try:
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            work(executor, reduction)
    finally:
        signal.signal(signal.SIGINT, before)
    for _ in range(500):  # Dask's threads are not waited for
        number = len(reduction.seen)
        sleep(0.2)
        if len(reduction.seen) == number:
            break
    assert len(reduction.seen) == number < 10**4


class Patient(Nested):
    """Takes a while for each block."""

    def chunk(self, block):
        sleep(0.2)
        return super().chunk(block)


class PatientGrowing(Patient):
    grows = True


@pytest.mark.parametrize("reduction", [Patient(), PatientGrowing()], ids=["merged", "grows"])
@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.timeout(120)
def test_workers_that_leave_with_finished_answers_are_waited_for_no_longer_than_the_limit(
    reduction, lost
):
    plan = Plan(30, 1, 1)
    threads = Threads(1)
    expected = threads.fold(
        FoldJob(Nested(), FLOAT64, 1), pieces_of(threads, plan, range(30)), "test"
    )
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster.scheduler_address, set_as_default=False) as client,
    ):
        executor = DaskTasks(client, 2, worker_timeout=3.0)

        def leave():
            sleep(1.5)
            for worker in list(cluster.workers.values())[:lost]:
                client.loop.add_callback(worker.close)

        leaving = threading.Thread(target=leave)
        leaving.start()
        pieces = pieces_of(executor, plan, range(30))
        if lost == 1:
            assert executor.fold(FoldJob(reduction, FLOAT64, 1), pieces, "test") == expected
        else:
            way = (
                f"no worker for 3 s: start some, as `dask worker {cluster.scheduler_address}` does"
            )
            with pytest.raises(ClusterLostError, match=re.escape(way)):
                executor.fold(FoldJob(reduction, FLOAT64, 1), pieces, "test")
        leaving.join()
