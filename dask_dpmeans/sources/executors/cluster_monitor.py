"""`ClusterMonitor`: log messages about workers that leave, are busy or paused while a pass waits."""

import logging
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from distributed import Client

from dask_dpmeans.checks import format_count, list_some
from dask_dpmeans.sources.cluster import workers_of
from dask_dpmeans.sources.executors.base import graph_of

FIRST = 5.0
"""Seconds that a pass waits for busy workers before the first message."""
LOOK_AT_MEMORY = 5.0
"""Seconds from one look whether Dask has paused all workers to the next."""
AGAIN = 60.0
"""Seconds from one such message to the next."""
logger = logging.getLogger(__name__)


@dataclass
class ClusterMonitor:
    """Monitor of a cluster's workers while a pass runs."""

    workers: frozenset[str] = frozenset()
    """Addresses at the last look."""
    waiting_since: float | None = None
    """Time since when a pass has waited for busy workers; None if it does not."""
    logged: float = 0.0
    """Time of the last message about busy workers."""
    paused: bool = False
    """Whether all workers were paused at the last look at their memory."""
    looked: float = 0.0
    """Time of that look."""

    def look(self, client: Client, *, begun: bool) -> bool:
        """Return whether there are workers that Dask has not paused.

        `begun` tells whether a task of the pass has ended.
        """
        threads: dict[str, int] = {}
        with suppress(OSError):  # the scheduler does not answer
            threads = client.nthreads()
            self._log_lost(frozenset(threads))
            self._log_busy(0 if begun else count_foreign_tasks(client, threads))
        return bool(threads) and not self._all_paused(client)

    def _all_paused(self, client: Client) -> bool:
        """Return whether all workers are paused, and log it when they are found so."""
        now = monotonic()
        if now >= self.looked + LOOK_AT_MEMORY:
            before, self.looked, self.paused = self.paused, now, are_paused(client)
            if self.paused and not before:
                logger.warning(
                    "waiting: Dask has paused all workers, which hold most of their memory"
                )
        return self.paused

    def _log_lost(self, workers: frozenset[str]) -> None:
        lost = sorted(self.workers - workers)
        if lost:
            logger.warning(
                "lost %s %s; workers left: %d; %s",
                "worker" if len(lost) == 1 else "workers",
                list_some(lost),
                len(workers),
                "what was lost is computed again" if workers else "waiting for a new one",
            )
        self.workers = workers

    def _log_busy(self, n_tasks: int) -> None:
        now = monotonic()
        if not n_tasks:
            self.waiting_since = None
            return
        if self.waiting_since is None:
            self.waiting_since, self.logged = now, now + FIRST - AGAIN
        if now >= self.logged + AGAIN:
            self.logged = now
            logger.warning(
                "waiting: the workers are busy with %s of other jobs", format_count(n_tasks, "task")
            )


def are_paused(client: Client) -> bool:
    """Return whether there are workers, and Dask has paused all of them, and no task runs."""
    workers = list(workers_of(client).values())
    running = any(
        each["status"] != "paused" or each["metrics"].get("task_counts", {}).get("executing")
        for each in workers
    )
    return bool(workers) and not running


def count_foreign_tasks(client: Client, threads: dict[str, int]) -> int:
    """Return how many tasks of other clients fill the workers; 0 if a thread is free."""
    own_graphs = {graph_of(key) for key in client.futures}
    others = 0
    for address, keys in client.processing().items():
        foreign = sum(graph_of(key) not in own_graphs for key in keys)
        if len(keys) > foreign and foreign < threads.get(address, 0):
            return 0
        others += foreign
    return others
