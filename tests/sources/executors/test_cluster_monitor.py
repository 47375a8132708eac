"""What the log says while a pass waits for a cluster."""

import logging

import pytest

from dask_dpmeans.sources.executors import cluster_monitor
from dask_dpmeans.sources.executors.cluster_monitor import (
    ClusterMonitor,
    are_paused,
    count_foreign_tasks,
)


class Cluster:
    """What a client tells of its own tasks and of the workers."""

    def __init__(self, threads, processing=None, futures=(), workers=()):
        self.threads, self.tasks, self.futures = threads, processing or {}, dict.fromkeys(futures)
        self.workers, self.scheduler = workers, self

    def identity(self, n_workers):
        assert n_workers == -1  # all of them
        return {"workers": dict(enumerate(self.workers))}

    def sync(self, function, **given):
        return function(**given)

    def nthreads(self):
        if self.threads is None:
            raise OSError("closed")
        return self.threads

    def processing(self):
        return self.tasks


OURS, THEIRS = "dpmeans-scan-shard-abc-1-0-9", "dpmeans-search-run-def-0"


@pytest.mark.parametrize(
    ("processing", "others"),
    [
        ({"a": [THEIRS], "b": ["inc-1"]}, 2),
        ({"a": [THEIRS, OURS], "b": ["inc-1"]}, 2),
        ({"a": [THEIRS], "b": [OURS]}, 0),
        ({"a": [THEIRS], "b": ["dpmeans-scan-merge-abc-1-1"]}, 0),
        ({"a": [], "b": []}, 0),
        ({"a": [THEIRS, "x", "y"], "b": [("tuple", 0)]}, 4),
    ],
)
def test_workers_are_busy_where_none_has_a_thread_left(processing, others):
    assert (
        count_foreign_tasks(Cluster({"a": 1, "b": 1}, processing, [OURS]), {"a": 1, "b": 1})
        == others
    )


def test_a_wait_is_said_after_some_seconds_and_then_rarely(caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(cluster_monitor, "monotonic", lambda: now[0])
    looks, busy = ClusterMonitor(), Cluster({"a": 1}, {"a": [THEIRS]}, [OURS])
    said = []
    for second in range(80):
        now[0] = 100.0 + second
        assert looks.look(busy, begun=False)
        said += [second] * bool(caplog.records)
        caplog.clear()
    assert said == [5, 65]
    assert looks.look(busy, begun=True)
    assert looks.waiting_since is None


def test_a_wait_says_for_what(caplog, monkeypatch):
    monkeypatch.setattr(cluster_monitor, "FIRST", 0.0)
    ClusterMonitor().look(Cluster({"a": 1}, {"a": [THEIRS]}, [OURS]), begun=False)
    assert [each.getMessage() for each in caplog.records] == [
        "waiting: the workers are busy with 1 task of other jobs"
    ]


def test_workers_that_leave_are_named_once(caplog):
    caplog.set_level(logging.WARNING)
    looks = ClusterMonitor()
    for threads in ({"a": 1, "b": 1, "c": 1}, {"a": 1}, {"a": 1, "d": 1}, None, {"a": 1, "d": 1}):
        assert looks.look(Cluster(threads), begun=True) is bool(threads)
    assert [each.getMessage() for each in caplog.records] == [
        "lost workers b, c; workers left: 1; what was lost is computed again"
    ]


def test_a_wait_for_a_worker_is_told_when_the_last_one_leaves(caplog):
    caplog.set_level(logging.WARNING)
    looks = ClusterMonitor()
    for threads in ({"a": 1}, {}, {}, {"b": 1}):
        assert looks.look(Cluster(threads), begun=True) is bool(threads)
    assert [each.getMessage() for each in caplog.records] == [
        "lost worker a; workers left: 0; waiting for a new one"
    ]


RUNS = {"status": "running", "metrics": {"task_counts": {"memory": 1}}}
PAUSED = {"status": "paused", "metrics": {"task_counts": {"memory": 1}}}
ENDS = {"status": "paused", "metrics": {"task_counts": {"executing": 1}}}


@pytest.mark.parametrize(
    ("workers", "paused"),
    [
        ([], False),
        ([PAUSED], True),
        ([PAUSED, PAUSED], True),
        ([PAUSED, RUNS], False),
        ([PAUSED, ENDS], False),
        ([{"status": "paused", "metrics": {}}], True),
    ],
)
def test_workers_are_paused_where_none_runs_a_task_or_would_take_one(workers, paused):
    assert are_paused(Cluster({"a": 1}, workers=workers)) is paused


def test_paused_workers_count_as_none_and_are_told_once(caplog, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(cluster_monitor, "monotonic", lambda: now[0])
    looks, cluster, found = ClusterMonitor(), Cluster({"a": 1}, workers=[RUNS]), []
    for second in range(30):
        now[0] = 100.0 + second
        cluster.workers = [PAUSED if 7 <= second < 18 else RUNS]
        found.append(looks.look(cluster, begun=True))
    assert found == [not 10 <= second < 20 for second in range(30)]
    assert [each.getMessage() for each in caplog.records] == [
        "waiting: Dask has paused all workers, which hold most of their memory"
    ]
