"""`Threads`: jobs on threads of this process."""

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dask_dpmeans.engine.plan import Answer, Carried, Shared
from dask_dpmeans.sources.executors.base import Pieces, call_job, count_rows, with_check
from dask_dpmeans.sources.executors.process import one_blas_thread, thread_pool
from dask_dpmeans.sources.jobs import AnyShard, CarryJob, FoldJob, Known, MapJob
from dask_dpmeans.sources.progress import Count, OnPass
from dask_dpmeans.sources.shards import StoredShard


@dataclass(frozen=True)
class Threads:
    """Executor on threads of this process."""

    threads: int
    on_pass: OnPass | None = field(default=None, compare=False)
    """Observer of the progress."""

    def load(self, shards: Sequence[StoredShard]) -> Sequence[AnyShard]:
        """Load the rows of shards."""
        count = Count(self.on_pass, "load", [shard.stop - shard.start for shard in shards])
        wanted = [(with_check(shard, count.wanted),) for shard in shards]
        return self._run(StoredShard.load, wanted, count)

    def wrap(self, shards: Sequence[AnyShard | Known]) -> Sequence[Any]:
        """Return the shards."""
        return shards

    def fold(self, job: FoldJob[Answer], pieces: Pieces, name: str) -> Answer:
        """Merge the answers of all pieces along the tree."""
        with one_blas_thread():
            return job.merge(self._on_pieces(job, pieces, name))

    def carry(self, job: CarryJob[Carried], state: Carried, pieces: Pieces, name: str) -> Carried:
        """Take a state through all pieces, in order."""
        with one_blas_thread(), count_rows(self.on_pass, name, job, pieces) as count:
            for number, (shard, blocks) in enumerate(pieces):
                state = job(shard, blocks, state)
                count.say(number)
        return state

    def map(self, job: MapJob, pieces: Pieces, name: str) -> list[list[Any]]:
        """Return the answer of each piece."""
        with one_blas_thread():
            return self._on_pieces(job, pieces, name)

    def run(
        self, jobs: Sequence[Callable[[Shared], Answer]], shared: Shared, name: str
    ) -> list[Answer]:
        """Run jobs on one shared input, side by side."""
        count = Count.of_jobs(self.on_pass, name, jobs)
        given = with_check(shared, count.wanted)
        arguments = [(job, given, partial(count.say, number)) for number, job in enumerate(jobs)]
        with one_blas_thread():
            return self._run(call_job, arguments, count)

    def _on_pieces(self, job: Callable[..., Answer], pieces: Pieces, name: str) -> list[Answer]:
        count = count_rows(self.on_pass, name, job, pieces)
        if self._in_turn(len(pieces)):  # then nothing runs on after an error
            return self._run(job, pieces, count)
        arguments = [(with_check(shard, count.wanted), blocks) for shard, blocks in pieces]
        return self._run(job, arguments, count)

    def _in_turn(self, n_calls: int) -> bool:
        """Return whether the thread that waits makes the calls itself."""
        return n_calls == 1 or self.threads == 1

    def _run(
        self, function: Callable[..., Answer], arguments: Sequence[tuple[Any, ...]], count: Count
    ) -> list[Answer]:
        """Return the answers of a function for each of some arguments, on as many threads as there are."""

        def call(number: int) -> Answer:
            answer = function(*arguments[number])
            count.say(number)
            return answer

        with count:
            if self._in_turn(len(arguments)):
                return list(map(call, range(len(arguments))))
            return self._side_by_side(call, len(arguments), count)

    def _side_by_side(
        self, call: Callable[[int], Answer], n_calls: int, count: Count
    ) -> list[Answer]:
        """Return the answers of numbered calls on threads; the first error stops those that wait."""
        waiting = deque(range(n_calls))
        results: dict[int, Answer] = {}
        errors: dict[int, BaseException] = {}

        def work() -> None:
            while True:
                try:
                    number = waiting.popleft()
                except IndexError:
                    return
                try:
                    results[number] = call(number)
                except BaseException as error:
                    errors[number] = error
                    waiting.clear()

        pool = thread_pool(self.threads, os.getpid())
        running = [pool.submit(work) for _ in range(min(self.threads, n_calls))]
        try:
            with count.wanted.inside():
                while wait(running, timeout=count.every).not_done:
                    count.look()
        finally:  # after an interrupt, running calls end at their next block
            waiting.clear()
            wait(running)
        try:
            if errors:
                raise errors[min(errors)]  # the error that a single thread would meet
        finally:
            errors.clear()
        return [results[number] for number in range(n_calls)]
