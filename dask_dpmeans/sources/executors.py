"""Who runs the shards' jobs: threads of this process, or Dask."""

import ctypes
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from time import monotonic
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import dask
from dask.base import compute, persist
from dask.callbacks import Callback
from dask.delayed import Delayed, delayed
from dask.utils import format_bytes
from distributed import Client, Future, KilledWorker, Reschedule, get_worker
from distributed import wait as wait_for
from distributed.comm.core import CommClosedError
from distributed.protocol.pickle import dumps
from threadpoolctl import ThreadpoolController

from dask_dpmeans.engine.in_memory import InMemoryRows
from dask_dpmeans.engine.plan import Carried, Shared, Stepwise, run_fits
from dask_dpmeans.errors import ClusterLostError
from dask_dpmeans.sources.cluster import WORKER_TIMEOUT, check_versions
from dask_dpmeans.sources.lookout import Lookout
from dask_dpmeans.sources.progress import Count, OnPass
from dask_dpmeans.sources.shards import AnyFold, AnyShard, CarryJob, Checked, Known, MapJob, Shard, StoredShard

Answer = TypeVar("Answer")
Pieces = Sequence[tuple[Any, range]]
"""Shards, each with the blocks of it that are wanted."""

FAN_IN = 8
"""Shards whose answers one task merges; a power of two, so that such a group is a subtree."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""
KEPT_BYTES = 2**25
"""Freed memory at the end of a heap that a worker keeps; with half of it the pass below took 12.5 s."""
LARGEST_ALLOCATION = 2**25
"""Bytes, the most that glibc takes from a heap."""
MOST_CARRIED = 2**28
"""Bytes of jobs that travel in tasks, in all."""
FEW = 2
"""Tasks a thread that Dask does not hand out as workers become free."""
LOOK = 1.0
"""Seconds between looks whether there is a worker, while a pass runs."""
LARGE_GRAPH = "1GB"
"""Centers travel in the graph, once a pass: Dask's warning about that starts at 10 MB."""


class Executor(Protocol):
    """Runs jobs on shards."""

    @property
    def threads(self) -> int:
        """Jobs that run at once."""
        ...

    @property
    def on_pass(self) -> OnPass | None:
        """Who watches."""
        ...

    def hold(self, shards: Sequence[StoredShard]) -> Sequence[Any]:
        """The shards, their rows loaded, as things that `fold` and `each` take."""
        ...

    def wrap(self, shards: Sequence[AnyShard | Known]) -> Sequence[Any]:
        """The shards as they are, as things that `fold` and `each` take."""
        ...

    def fold(self, job: AnyFold[Answer], pieces: Pieces, name: str) -> Answer:
        """The answers of all pieces, merged as the tree does."""
        ...

    def carry(self, job: CarryJob[Carried], state: Carried, pieces: Pieces, name: str) -> Carried:
        """The state after all pieces, in order."""
        ...

    def each(self, job: MapJob, pieces: Pieces, name: str) -> list[list[Any]]:
        """What a job says of each piece."""
        ...

    def run(self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str) -> list[Answer]:
        """Run jobs on something that they share, side by side where there are workers."""
        ...


@dataclass(frozen=True)
class Threads:
    """Threads of this process."""

    threads: int
    on_pass: OnPass | None = field(default=None, compare=False)
    """Who watches."""

    def hold(self, shards: Sequence[StoredShard]) -> Sequence[AnyShard]:
        """Load the shards."""
        count = Count(self.on_pass, "load", [shard.stop - shard.start for shard in shards])
        return self._run(StoredShard.load, [(shard, count.wanted) for shard in shards], count)

    def wrap(self, shards: Sequence[AnyShard | Known]) -> Sequence[Any]:
        """The shards."""
        return shards

    def fold(self, job: AnyFold[Answer], pieces: Pieces, name: str) -> Answer:
        """The answers of all pieces, merged as the tree does."""
        with one_blas_thread():
            return job.merge(self._on_pieces(job, pieces, name))

    def carry(self, job: CarryJob[Carried], state: Carried, pieces: Pieces, name: str) -> Carried:
        """The state after all pieces, in order."""
        with one_blas_thread(), counted(self.on_pass, name, job, pieces) as count:
            for number, (shard, blocks) in enumerate(pieces):
                state = job(shard, blocks, state)
                count.say(number)
        return state

    def each(self, job: MapJob, pieces: Pieces, name: str) -> list[list[Any]]:
        """What a job says of each piece."""
        with one_blas_thread():
            return self._on_pieces(job, pieces, name)

    def run(self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str) -> list[Answer]:
        """Run jobs on something that they share, side by side where there are workers."""
        count = Count.of_jobs(self.on_pass, name, jobs)
        with one_blas_thread():
            notes = [partial(count.say, number) for number in range(len(jobs))]
            given = checked(shared, count.wanted)
            return self._run(called, [(job, given, note) for job, note in zip(jobs, notes, strict=True)], count)

    def _on_pieces(self, job: Callable[..., Answer], pieces: Pieces, name: str) -> list[Answer]:
        """What a job answers to each piece."""
        count = counted(self.on_pass, name, job, pieces)
        return self._run(job, [(checked(shard, count.wanted), blocks) for shard, blocks in pieces], count)

    def _run(self, function: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]], count: Count) -> list[Answer]:
        with count:
            if len(arguments) == 1 or self.threads == 1:
                return [_counted(count, number, function, each) for number, each in enumerate(arguments)]
            return self._side_by_side(function, arguments, count)

    def _side_by_side(
        self, function: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]], count: Count
    ) -> list[Answer]:
        waiting = deque(enumerate(arguments))
        results: dict[int, Any] = {}
        errors: dict[int, BaseException] = {}

        def work() -> None:
            while True:
                try:
                    number, each = waiting.popleft()
                except IndexError:
                    return
                try:
                    results[number] = _counted(count, number, function, each)
                except BaseException as error:
                    errors[number] = error
                    waiting.clear()

        running = [_pool(self.threads, os.getpid()).submit(work) for _ in range(min(self.threads, len(arguments)))]
        try:
            with count.wanted.inside():
                while wait(running, timeout=count.every).not_done:
                    count.look()
        finally:  # where this was interrupted: what has begun ends at its next block
            waiting.clear()
            wait(running)
        try:
            if errors:
                raise errors[min(errors)]  # the one that a single thread would meet
        finally:
            errors.clear()
        return [results[number] for number in range(len(arguments))]


def check_wanted() -> None:
    """Raise in a task of a cluster whose answer nobody waits for any more: its client is gone, or has cancelled it.

    The scheduler tells the worker so, which cannot stop a thread.  Dask takes `Reschedule` of such a task for its end;
    of one that is wanted again by then it would run the task anew, so that no answer is lost.
    """
    worker = get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None or task.state == "cancelled":
        raise Reschedule


def checked(shared: Any, check: Callable[[], None]) -> Any:
    """Rows whose blocks come for as long as somebody waits for the answer; anything else as it is."""
    if isinstance(shared, InMemoryRows):
        return replace(shared, check=check)
    return Checked(shared, check) if isinstance(shared, Shard | StoredShard) else shared


class Literal:
    """What travels inside a task: as a node of the graph it would be a task of its own, in each pass.

    It is no dataclass, since Dask looks into those for collections.
    """

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True)
class Keys:
    """Keys of the tasks of a graph; Dask takes those that begin with the same words for tasks of one kind."""

    name: str
    graph: str

    @classmethod
    def of(cls, name: str) -> "Keys":
        """Of a new graph."""
        return cls(name, uuid4().hex[:8])

    def __call__(self, kind: str, *numbers: int) -> str:
        """The key of a task of some kind."""
        return "-".join(["dpmeans", self.name, kind, self.graph, *map(str, numbers)])


@dataclass(frozen=True)
class DaskTasks:
    """Tasks of a Dask cluster, or of Dask's local scheduler: one a shard, and a few that merge."""

    client: Client | None
    """None for Dask's own threaded scheduler."""
    threads: int
    patience: float = WORKER_TIMEOUT
    """Seconds to wait for a worker where there is none."""
    on_pass: OnPass | None = field(default=None, compare=False)
    """Who watches."""
    lookout: Lookout = field(default_factory=Lookout, compare=False)
    """Says in the log what befalls the cluster."""

    def hold(self, shards: Sequence[StoredShard]) -> Sequence[Delayed]:
        """Loads as tasks that can be run again, should a worker be lost."""
        keys = Keys.of("load")
        return self.persist(
            [
                delayed(_load, pure=False)(shard, dask_key_name=keys("shard", number, *_bounds_of(shard)))
                for number, shard in enumerate(self.wrap(shards))
            ]
        )

    def wrap(self, shards: Sequence[AnyShard | Known]) -> Sequence[Literal]:
        """The shards as arguments of tasks."""
        return [Literal(shard) for shard in shards]

    def persist(self, shards: Sequence[Delayed]) -> Sequence[Delayed]:
        """The shards, kept in the workers' memory."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE_GRAPH}):
            if self.client is None:
                return list(persist(*shards, num_workers=self.threads))
            try:
                return list(self.client.persist(list(shards)))
            except (CommClosedError, OSError) as error:
                raise ClusterLostError(f"the cluster was lost: {error}") from error

    def fold(self, job: AnyFold[Answer], pieces: Pieces, name: str) -> Answer:
        """The answers of all pieces, merged as the tree does, in tasks that take eight answers each.

        The last eight are merged here, so that no worker holds the whole of an answer that is large.
        """
        keys, count = Keys.of(name), counted(self.on_pass, name, job, pieces)
        shared, answers = self._graph(job, pieces, keys, count)
        level = 0
        while len(answers) > FAN_IN:
            level += 1
            groups = [answers[start : start + FAN_IN] for start in range(0, len(answers), FAN_IN)]
            answers = [
                delayed(_merge, pure=False)(shared, group, dask_key_name=keys("merge", level, number))
                for number, group in enumerate(groups)
            ]
        with count:
            last = self._compute(answers, count)
        with one_blas_thread():
            return job.merge(last)

    def carry(self, job: CarryJob[Carried], state: Carried, pieces: Pieces, name: str) -> Carried:
        """The state after all pieces, in order: it travels, the rows stay.

        Eight shards at a time, so that no more than these are loaded ahead of the one that is worked on.
        """
        with counted(self.on_pass, name, job, pieces) as count:
            for start in range(0, len(pieces), FAN_IN):
                keys = Keys.of(name)
                shared = delayed(job, name=keys("job"), traverse=False)
                reached = delayed(state, name=keys("state"), traverse=False)
                for number, (shard, blocks) in enumerate(pieces[start : start + FAN_IN], start):
                    bounds, key = (blocks.start, blocks.stop), keys("shard", number, *_bounds_of(shard))
                    told = self._check(count), self._voice(count, number)
                    reached = delayed(_apply, pure=False)(shared, shard, bounds, *told, reached, dask_key_name=key)
                state = self._compute([reached], count)[0]
        return state

    def each(self, job: MapJob, pieces: Pieces, name: str) -> list[list[Any]]:
        """What a job says of each piece."""
        count = counted(self.on_pass, name, job, pieces)
        _, tasks = self._graph(job, pieces, Keys.of(name), count)
        with count:
            return self._compute(tasks, count)

    def run(self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str) -> list[Answer]:
        """Run jobs on something that they share, side by side where there are workers."""
        keys = Keys.of(name)
        given = delayed(shared, name=keys("shared"), traverse=False)
        nodes = [delayed(job, name=keys("job", number), traverse=False) for number, job in enumerate(jobs)]
        with Count.of_jobs(self.on_pass, name, jobs) as count:
            tasks = []
            for number, node in enumerate(nodes):
                told = self._check(count), self._voice(count, number)
                tasks.append(delayed(_call_alone, pure=False)(node, given, *told, dask_key_name=keys("run", number)))
            return self._compute(tasks, count)

    def _check(self, count: Count | None) -> Literal | None:
        """By which a task learns that nobody waits for its answer any more."""
        if self.client is not None:
            return Literal(check_wanted)
        return None if count is None else Literal(count.wanted)

    def _voice(self, count: Count | None, number: int) -> Literal | None:
        """By which a task says that it has ended, where anybody watches."""
        if count is None or count.on_pass is None:
            return None
        return Literal(
            partial(count.say, number) if self.client is None else Voice(topic_of(self.client), count.token, number)
        )

    def _graph(
        self, job: Any, pieces: Pieces, keys: Keys, count: Count | None = None
    ) -> tuple[Literal | Delayed, list[Delayed]]:
        """The job, and its tasks.

        Dask hands out many tasks as workers become free.  Few it would all send to the worker that has the job, which
        therefore travels in each of them.
        """
        few = len(pieces) <= FEW * self.threads
        if few and self.client is not None:
            few = len(pieces) * len(dumps(job)) <= MOST_CARRIED
        shared = Literal(job) if few else delayed(job, name=keys("job"), traverse=False)
        tasks = []
        for number, (shard, blocks) in enumerate(pieces):
            bounds, key = (blocks.start, blocks.stop), keys("shard", number, *_bounds_of(shard))
            told = self._check(count), self._voice(count, number)
            tasks.append(delayed(_apply, pure=False)(shared, shard, bounds, *told, dask_key_name=key))
        return shared, tasks

    def _compute(self, tasks: list[Delayed], count: Count) -> list[Any]:
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE_GRAPH}):
            if self.client is None:
                with one_blas_thread(), count.wanted.inside(), Callback(posttask=lambda *_: count.look()):
                    return list(compute(*tasks, num_workers=self.threads))
            if count.on_pass is not None:  # for good: what is heard of other passes counts for nothing
                self.client.subscribe_topic(topic_of(self.client), count.hear)
            futures = self.client.compute(tasks)
            try:
                self._wait(self.client, futures, count)
                return list(self.client.gather(futures))
            except (CancelledError, CommClosedError, OSError) as error:
                if error is count.failure or any(future.status == "error" for future in futures):  # one of a task
                    raise
                why = str(error).partition("\n")[0]
                raise ClusterLostError(f"the cluster was lost: {why}") from error
            except (ImportError, AttributeError, TypeError):  # a worker that came later may lack what others have
                check_versions(self.client)
                raise
            except KilledWorker as error:
                raise ClusterLostError(_deadly(error)) from error
            except BaseException:
                with suppress(Exception):  # of a scheduler that is gone
                    self.client.cancel(futures, force=True)
                raise

    def _wait(self, client: Client, futures: Sequence["Future[Any]"], count: Count) -> None:
        """Until all tasks are done or one has failed.

        Raises
        ------
        ClusterLostError
            Where there has been no worker for too long.
        """
        seen = monotonic()
        while any(future.status == "pending" for future in futures):
            with client.as_current(), suppress(TimeoutError):
                wait_for(futures, timeout=LOOK)
            count.look()
            if any(future.status in ("error", "cancelled", "lost") for future in futures):
                return
            if self.lookout.look(client, begun=bool(count.ended or count.fits)):
                seen = monotonic()
            elif monotonic() > seen + self.patience:
                raise ClusterLostError(f"there has been no worker for {self.patience:g} s")


class Voice:
    """How a task of a cluster says that it has ended, or a fit of it; no dataclass, as `Literal` is none."""

    def __init__(self, topic: str, token: str, number: int) -> None:
        self.topic = topic
        self.said = {"token": token, "number": number}

    def __call__(self, fit: Mapping[str, float] | None = None) -> None:
        with suppress(Exception):  # no reason for the task to fail
            get_worker().log_event(self.topic, self.said | {"fit": fit})


def topic_of(client: Client) -> str:
    """Under which Dask hands on what tasks say."""
    return f"dpmeans-{client.id}"


def counted(on_pass: OnPass | None, name: str, job: Any, pieces: Pieces) -> Count:
    """What will be counted of a pass: the rows that are read."""
    return Count(on_pass, name, () if on_pass is None else [_rows_of(job, *piece) for piece in pieces])


def _rows_of(job: AnyFold[Any] | CarryJob[Any] | MapJob, shard: Any, blocks: range) -> int:
    """Rows of a piece; none of a shard that need not be read."""
    bounds = _bounds_of(shard)
    if len(bounds) < 2:
        return 0
    start, stop = bounds
    return min(start + blocks.stop * job.block_rows, stop) - (start + blocks.start * job.block_rows)


def _counted(count: Count, number: int, function: Callable[..., Answer], arguments: tuple[Any, ...]) -> Answer:
    answer = function(*arguments)
    count.say(number)
    return answer


def _bounds_of(shard: Any) -> list[int]:
    """The first row of a shard and its end; nothing where it does not tell."""
    if isinstance(shard, Delayed):
        return _numbers_of(shard.key)[1:]
    bounds = [getattr(_value(shard), name, None) for name in ("start", "stop")]
    return [bound for bound in bounds if isinstance(bound, int)]


def _numbers_of(key: str) -> list[int]:
    """The numbers at the end of one of our keys: of a shard, and of its first row and its end."""
    return [int(word) for word in key.split("-")[4:]] if key.startswith("dpmeans-") else []


def _deadly(error: KilledWorker) -> str:
    """What to say where Dask gave up on a task since each worker that had it ended: its rows, and the memory."""
    key = str(error.task)
    numbers = _numbers_of(key)
    rows = f" on rows {numbers[1]:,} to {numbers[2]:,}" if len(numbers) == 3 else ""
    kind = key.split("-")[1] if key.startswith("dpmeans-") else key
    limit, threads = error.last_worker.memory_limit, error.last_worker.nthreads
    return (
        f"{error.allowed_failures + 1} workers ended, one after the other, that had the task {kind}{rows}, perhaps "
        f"beside others; the last, {error.last_worker.address}, had {format_bytes(limit) if limit else 'no limit'} of "
        f"memory for {threads} thread{'s'[: threads - 1]}. Where its log speaks of memory, give workers more of it or "
        "fewer threads, or rechunk the data"
    )


@cache
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """One pool of a process for all passes: on 100,000 x 2 rows a new one for each took 0.5 of 3.3 ms."""
    return ThreadPoolExecutor(threads, thread_name_prefix="dpmeans")


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which BLAS runs on one thread."""
    limits: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limits


@cache
def _blas() -> ThreadpoolController:
    """The process's BLAS libraries; looking for them takes 3 to 10 ms, as long as a small task."""
    return ThreadpoolController()


@cache
def _keep_freed_memory() -> None:
    """Let this process use the memory of one piece of rows again for the next, where its C library can be told so.

    Dask starts its workers so that freed memory goes back to the system at once.  What reads and decodes a piece then
    works in fresh pages: a pass over 8 GB on two workers took 15.7 s so, and 7.9 s with this.
    """
    if sys.platform == "linux":
        settings = {M_TRIM_THRESHOLD: KEPT_BYTES, M_MMAP_THRESHOLD: LARGEST_ALLOCATION}
        adjust = getattr(ctypes.CDLL(None), "mallopt", lambda *setting: None)  # glibc has it, musl has not
        for parameter, value in settings.items():
            adjust(parameter, value)


def _apply(
    job: Any,
    shard: AnyShard | Literal,
    blocks: tuple[int, int],
    check: Literal | None,
    voice: Literal | None,
    *carried: Any,
) -> Any:
    _keep_freed_memory()
    given = _value(shard) if check is None else checked(_value(shard), check.value)
    with one_blas_thread():
        answer = _value(job)(given, range(*blocks), *carried)
    if voice is not None:
        voice.value()
    return answer


def _value(given: Any) -> Any:
    return given.value if isinstance(given, Literal) else given


def called(job: Callable[[Shared], Answer], shared: Shared, note: Callable[[Mapping[str, float]], None]) -> Answer:
    """What a job answers; `note` is told of each of its fits, where it is made of such."""
    return run_fits(job.each(shared), note) if isinstance(job, Stepwise) else job(shared)


def _call_alone(
    job: Callable[[Shared], Answer], shared: Shared, check: Literal | None, voice: Literal | None
) -> Answer:
    shared = shared if check is None else checked(shared, check.value)
    with one_blas_thread():
        if voice is None:
            return job(shared)
        answer = called(job, shared, voice.value)
    voice.value()
    return answer


def _merge(job: AnyFold[Answer] | Literal, answers: list[Answer]) -> Answer:
    with one_blas_thread():
        merged: Answer = _value(job).merge(answers)
        return merged


def _load(shard: Literal) -> AnyShard:
    return shard.value.load()
