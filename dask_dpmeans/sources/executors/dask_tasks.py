"""`DaskTasks`: jobs as tasks of a Dask cluster, or of Dask's local scheduler."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

import dask
import dask.threaded
from dask.base import compute, persist
from dask.callbacks import Callback
from dask.delayed import Delayed, delayed
from distributed import Client, Future, KilledWorker, Reschedule, get_worker
from distributed import wait as wait_for
from distributed.client import ClosedClientError
from distributed.comm.core import CommClosedError
from distributed.protocol.pickle import dumps

from dask_dpmeans.checks import format_count
from dask_dpmeans.engine.plan import Answer, Carried, Shared
from dask_dpmeans.errors import ClusterLostError
from dask_dpmeans.sources.cluster import check_versions, way_to_start, workers_of
from dask_dpmeans.sources.executors import base
from dask_dpmeans.sources.executors.cluster_monitor import ClusterMonitor
from dask_dpmeans.sources.executors.process import (
    keep_freed_memory,
    one_blas_thread,
    return_freed_memory,
)
from dask_dpmeans.sources.jobs import AnyShard, CarryJob, FoldJob, Known, MapJob
from dask_dpmeans.sources.progress import Count, OnPass
from dask_dpmeans.sources.resources import WORKER_BYTES, WORKER_TIMEOUT, format_bytes
from dask_dpmeans.sources.shards import StoredShard

FAN_IN = 8
"""Shards whose answers one task merges; a power of two, so that they are a subtree."""
MOST_CARRIED = 2**28
"""Bytes of all copies of a job that travel in tasks, at most."""
MOST_COPIES = 8
"""Tasks that hold the job of a pass, at most, one on each worker as long as there are so many."""
FEW = 2
"""Tasks a thread that Dask assigns at once; it assigns more as workers become free."""
LOOK = 1.0
"""Seconds between looks whether there is a worker, while a pass runs."""
LARGE_GRAPH = "1GB"
"""Size of a graph at which Dask warns; Dask's own limit of 10 MB is too low for centers."""
NEAR_PAUSE = 0.9
"""Share of the memory at which Dask pauses a worker, from which on freed memory is given back."""
Node = base.Literal | Delayed
"""Values in tasks, and tasks."""


def _forget_threads() -> None:
    """Let Dask start threads of its own in a forked process: it would wait for threads of the parent."""
    dask.threaded.pools.clear()
    dask.threaded.default_pool = None


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_forget_threads)


@dataclass(frozen=True)
class DaskTasks:
    """Executor on Dask: one task a shard, and a few that merge."""

    client: Client | None
    """Client of the cluster; None for Dask's own threaded scheduler."""
    threads: int
    worker_timeout: float = WORKER_TIMEOUT
    """Seconds to wait for a worker if there is none."""
    on_pass: OnPass | None = field(default=None, compare=False)
    """Observer of the progress."""
    monitor: ClusterMonitor = field(default_factory=ClusterMonitor, compare=False)
    """Logs workers that leave or are busy."""

    def load(self, shards: Sequence[StoredShard]) -> Sequence[Delayed]:
        """Load shards in tasks that can be run again if a worker is lost."""
        keys, load = base.Keys.of("load"), delayed(_load, pure=False)
        tasks = []
        for number, shard in enumerate(shards):
            key = keys("shard", number, *base.shard_bounds(shard))
            tasks.append(load(base.Literal(shard), dask_key_name=key))
        return self.persist(tasks)

    def wrap(self, shards: Sequence[AnyShard | Known]) -> Sequence[base.Literal]:
        """Return the shards as arguments of tasks."""
        return [base.Literal(shard) for shard in shards]

    def persist(self, shards: Sequence[Delayed]) -> Sequence[Delayed]:
        """Keep the shards in the workers' memory."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE_GRAPH}):
            if self.client is None:
                return list(persist(*shards, num_workers=self.threads))
            try:
                return list(self.client.persist(list(shards)))
            except (CommClosedError, OSError) as error:
                raise ClusterLostError(f"the cluster was lost: {error}") from error

    def fold(self, job: FoldJob[Answer], pieces: base.Pieces, name: str) -> Answer:
        """Merge the answers of all pieces along the tree, in tasks that take eight answers each.

        The last eight, and all answers that grow, are merged here, so that no worker needs memory
        for all of a large answer.
        """
        keys, count = base.Keys.of(name), base.count_rows(self.on_pass, name, job, pieces)
        shared, answers = self._graph(job, pieces, keys, count)
        merge, level = delayed(_merge, pure=False), 0
        while len(answers) > FAN_IN and not job.grows:
            level += 1
            starts = range(0, len(answers), FAN_IN)
            groups = [answers[start : start + FAN_IN] for start in starts]
            answers = [
                merge(shared, group, dask_key_name=keys("merge", level, number))
                for number, group in enumerate(groups)
            ]
        with count:
            last = self._compute(answers, count, early=job.grows)
        with one_blas_thread():
            return job.merge(last)

    def carry(
        self, job: CarryJob[Carried], state: Carried, pieces: base.Pieces, name: str
    ) -> Carried:
        """Take a state through all pieces, in order; the state travels, the rows stay.

        Eight shards at a time, so that at most eight are loaded ahead.
        """
        with base.count_rows(self.on_pass, name, job, pieces) as count:
            for start in range(0, len(pieces), FAN_IN):
                keys = base.Keys.of(name)
                shared = delayed(job, name=keys("job"), traverse=False)
                reached = delayed(state, name=keys("state"), traverse=False)
                for number, piece in enumerate(pieces[start : start + FAN_IN], start):
                    reached = self._task(shared, number, piece, keys, count, reached)
                state = self._compute([reached], count)[0]
        return state

    def map(self, job: MapJob, pieces: base.Pieces, name: str) -> list[list[Any]]:
        """Return the answer of each piece."""
        count = base.count_rows(self.on_pass, name, job, pieces)
        _, tasks = self._graph(job, pieces, base.Keys.of(name), count)
        with count:
            return self._compute(tasks, count)

    def run(
        self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str
    ) -> list[Answer]:
        """Run jobs on one shared input, side by side if there are workers."""
        keys, call = base.Keys.of(name), delayed(_call_alone, pure=False)
        given = delayed(shared, name=keys("shared"), traverse=False)
        with Count.of_jobs(self.on_pass, name, jobs) as count:
            tasks = []
            for number, job in enumerate(jobs):
                node = delayed(job, name=keys("job", number), traverse=False)
                end_functions = self._end_functions(count, number)
                tasks.append(call(node, given, end_functions, dask_key_name=keys("run", number)))
            return self._compute(tasks, count)

    def _end_functions(self, count: Count, number: int) -> base.Literal:
        """Return the functions that end a task whose answer is not wanted, and that report its end.

        The second is None if there is no observer.
        """
        report: Callable[..., None] | None = None
        if count.on_pass is not None and self.client is not None:
            report = TaskReport(topic_of(self.client), count.token, number)
        elif count.on_pass is not None:
            report = partial(count.say, number)
        return base.Literal((count.wanted if self.client is None else check_wanted, report))

    def _graph(
        self, job: Any, pieces: base.Pieces, keys: base.Keys, count: Count
    ) -> tuple[Node, list[Delayed]]:
        shared = self._shared_job(job, len(pieces), keys)
        tasks = [
            self._task(shared[number % len(shared)], number, piece, keys, count)
            for number, piece in enumerate(pieces)
        ]
        return shared[0], tasks

    def _shared_job(self, job: Any, n_tasks: int, keys: base.Keys) -> list[Node]:
        """Return a job as an argument of its tasks, in copies that these take in turn.

        Dask assigns many tasks as workers become free.  It would send a few tasks all to the worker
        that has the job; then the job travels in each task.  It would send 20 tasks with a job of
        120 MB there too, so there are several of a large job.
        """
        few = n_tasks <= FEW * self.threads
        if self.client is None:
            copies = 1
        else:
            size = len(dumps(job))
            few = few and n_tasks * size <= MOST_CARRIED
            copies = max(1, min(self.threads, MOST_COPIES, MOST_CARRIED // size))
        if few:
            return [base.Literal(job)]
        names = [keys("job", number) for number in range(copies)]
        return [delayed(job, name=name, traverse=False) for name in names]

    def _task(
        self,
        job: Node,
        number: int,
        piece: tuple[Any, range],
        keys: base.Keys,
        count: Count,
        *carried: Node,
    ) -> Delayed:
        shard, blocks = piece
        key = keys("shard", number, *base.shard_bounds(shard))
        end_functions, bounds = self._end_functions(count, number), (blocks.start, blocks.stop)
        return delayed(_apply, pure=False)(
            job, shard, bounds, end_functions, *carried, dask_key_name=key
        )

    def _compute(self, tasks: list[Delayed], count: Count, early: bool = False) -> list[Any]:
        """Return the answers of tasks; `early`: workers keep none until all are there."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE_GRAPH}):
            if self.client is None:
                look = Callback(posttask=lambda *_: count.look())
                with one_blas_thread(), count.wanted.inside(), look:
                    return list(compute(*tasks, num_workers=self.threads))
            return self._compute_on(self.client, tasks, count, early)

    def _compute_on(
        self, client: Client, tasks: list[Delayed], count: Count, early: bool
    ) -> list[Any]:
        """Return the answers of tasks on a cluster; an error says whether a task or the cluster failed."""
        futures: list[Future[Any]] = []
        try:
            if count.on_pass is not None:  # never unsubscribed: events of other passes are ignored
                client.subscribe_topic(topic_of(client), count.hear)
            futures = client.compute(tasks)
            left, found = dict(enumerate(futures)), dict[int, Any]()
            for done in self._wait(client, left, count):
                if early:
                    found |= _take_answers(client, left, done)
            found |= _take_answers(client, left, list(left))
            return [found[number] for number in range(len(tasks))]
        except (CancelledError, ClosedClientError, CommClosedError, OSError) as error:
            of_task = any(future.status == "error" for future in futures)
            if error is count.failure or of_task:
                raise
            why = str(error).partition("\n")[0].rstrip(": ")
            if isinstance(error, CancelledError):  # Dask tells the number of its futures
                why = "the scheduler has ended or was restarted, and its tasks are gone"
            if client.status == "closed":
                why = "the client was closed before the end"
            raise ClusterLostError(f"the cluster was lost: {why}") from error
        except (ImportError, AttributeError, TypeError):  # a later worker may lack a package
            check_versions(client)
            raise
        except KilledWorker as error:
            raise ClusterLostError(_killed_message(error)) from error
        except BaseException:
            with suppress(Exception):  # the scheduler is gone
                client.cancel(futures, force=True)
            raise

    def _wait(
        self, client: Client, futures: Mapping[int, "Future[Any]"], count: Count
    ) -> Iterator[list[int]]:
        """Wait until all tasks are done or one has failed, or until no worker has come in time.

        Yield the numbers of tasks that are done in the meantime; these may leave `futures`.
        """
        seen = monotonic()
        while any(future.status in ("pending", "lost") for future in futures.values()):
            with client.as_current(), suppress(TimeoutError):
                wait_for(list(futures.values()), timeout=LOOK)
            count.look()
            if any(each.status in ("error", "cancelled") for each in futures.values()):
                return
            yield [number for number, each in futures.items() if each.status == "finished"]
            if self.monitor.look(client, begun=bool(count.ended or count.fits)):
                seen = monotonic()
            elif monotonic() > seen + self.worker_timeout:
                raise ClusterLostError(_waited_message(client, self.worker_timeout))


def _take_answers(
    client: Client, futures: dict[int, "Future[Any]"], numbers: Sequence[int]
) -> dict[int, Any]:
    """Return answers of tasks, and take these out of `futures`: workers then forget the answers."""
    some = [futures[number] for number in numbers]
    answers = dict(zip(numbers, client.gather(some), strict=True))
    for number in numbers:  # at once, and not when Python next collects garbage
        futures.pop(number).release()
    return answers


class TaskReport:
    """Event by which a task of a cluster reports its end, or the end of one of its fits.

    It is not a dataclass, for the reason given at `Literal`.
    """

    def __init__(self, topic: str, token: str, number: int) -> None:
        self.topic = topic
        self.event = {"token": token, "number": number}

    def __call__(self, fit: Mapping[str, float] | None = None) -> None:
        with suppress(Exception):  # a lost event is no reason for the task to fail
            get_worker().log_event(self.topic, self.event | {"fit": fit})


def topic_of(client: Client) -> str:
    """Return Dask's topic for the reports of a client's tasks."""
    return f"dpmeans-{client.id}"


def check_wanted() -> None:
    """Raise in a task whose answer is not wanted any more: its client is gone, or has cancelled it.

    The scheduler tells the worker so, which cannot stop a thread.  Dask takes `Reschedule` as the
    end of such a task; if the task is wanted again by then, Dask runs it anew, and no answer is lost.
    """
    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None or task.state == "cancelled":
        raise Reschedule


def _waited_message(client: Client, seconds: float) -> str:
    """Return the message for a pass whose workers are all gone or paused."""
    limits = [each["memory_limit"] for each in workers_of(client).values() if each["memory_limit"]]
    if not limits:
        waited, way = f"there has been no worker for {seconds:g} s", way_to_start(client)
        return waited if way is None else f"{waited}: start some, as {way} does"
    return (
        f"Dask has paused all workers for {seconds:g} s, as they hold most of their memory, of "
        f"{format_bytes(min(limits))} at least: give them more, or fewer threads. A worker needs "
        f"{format_bytes(WORKER_BYTES)} beside the rows that it reads"
    )


def _killed_message(error: KilledWorker) -> str:
    """Return the message for a task whose workers all ended: its rows, and their memory."""
    numbers, worker = base.key_numbers(str(error.task)), error.last_worker
    rows, limit = "", "no limit"
    if len(numbers) == 3:
        rows = f" on rows {numbers[1]:,} to {numbers[2]:,}"
    if worker.memory_limit:
        limit = format_bytes(worker.memory_limit)
    memory = f"{limit} of memory for {format_count(worker.nthreads, 'thread')}"
    return (
        f"{error.allowed_failures + 1} workers ended, one after the other, that had the task "
        f"{base.kind_of(str(error.task))}{rows}, perhaps beside others; the last, {worker.address}, had "
        f"{memory}. Where its log speaks of memory, give workers more of it or fewer threads, or "
        "rechunk the data"
    )


def _apply(
    job: Any, shard: object, blocks: tuple[int, int], end_functions: base.Literal, *carried: object
) -> Any:
    """Return the answer of a job for some blocks of a shard: the function of a task."""
    keep_freed_memory()
    check, report = end_functions.value
    given = base.with_check(base.value_of(shard), check)
    with one_blas_thread():
        answer = base.value_of(job)(given, range(*blocks), *carried)
    _avoid_pause()
    if report is not None:
        report()
    return answer


def _avoid_pause() -> None:
    """Give freed memory back if Dask would pause this worker, which then gets no further task.

    Dask itself does nothing about memory that a paused worker has freed and keeps.
    """
    with suppress(ValueError):  # from threads, which are no worker
        worker = get_worker()
        limits = worker.memory_manager
        if limits.memory_limit and limits.memory_pause_fraction:
            most = NEAR_PAUSE * limits.memory_pause_fraction * limits.memory_limit
            if worker.monitor.get_process_memory() > most:
                return_freed_memory()


def _call_alone(
    job: Callable[[Shared], Answer], shared: Shared, end_functions: base.Literal
) -> Answer:
    """Return the answer of a job that works on shared rows: the function of a task."""
    check, report = end_functions.value
    shared = base.with_check(shared, check)
    with one_blas_thread():
        if report is None:
            return job(shared)
        answer = base.call_job(job, shared, report)
    report()
    return answer


def _merge(job: FoldJob[Answer] | base.Literal, answers: list[Answer]) -> Answer:
    with one_blas_thread():
        return base.value_of(job).merge(answers)


def _load(shard: base.Literal) -> AnyShard:
    return shard.value.load()
