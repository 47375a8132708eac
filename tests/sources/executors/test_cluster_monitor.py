"""What the log says while a pass waits for a cluster."""

import logging

import pytest

from dask_dpmeans.sources.executors import cluster_monitor
from dask_dpmeans.sources.executors.cluster_monitor import ClusterMonitor, count_foreign_tasks


class Cluster:
    """What a client tells of its own tasks and of the workers."""

    def __init__(self, threads, processing=None, futures=()):
        self.threads, self.tasks, self.futures = threads, processing or {}, dict.fromkeys(futures)

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
        "lost workers b, c: 1 of the cluster go on, and do again what was lost"
    ]
