"""What befalls a cluster while a pass waits for it, said in the log: workers that leave, and workers that are busy."""

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from distributed import Client

FIRST = 5.0
"""Seconds that a pass waits for busy workers before the log says so, ..."""
AGAIN = 60.0
"""... and until it says so again."""
logger = logging.getLogger(__name__)


@dataclass
class Lookout:
    """Looks at the workers of a cluster from time to time."""

    workers: frozenset[str] = frozenset()
    """At the last look."""
    waiting: float | None = None
    """Since when a pass has waited for busy workers; None where it does not."""
    told: float = field(default=0.0)
    """When the log was told so last."""

    def look(self, client: Client, *, begun: bool) -> bool:
        """Look whether there are workers; `begun` says whether any task of the pass has ended yet."""
        threads: dict[str, int] = {}
        with suppress(OSError):  # the scheduler does not answer
            threads = client.nthreads()
            self._tell_of_busy(0 if begun else busy_with(client, threads))
        if threads:
            self._tell_of_lost(frozenset(threads))
        return bool(threads)

    def _tell_of_lost(self, workers: frozenset[str]) -> None:
        lost = sorted(self.workers - workers)
        if lost:
            logger.warning("lost %s: %d of the cluster go on, and do again what was lost", _named(lost), len(workers))
        self.workers = workers

    def _tell_of_busy(self, others: int) -> None:
        now = monotonic()
        if not others:
            self.waiting = None
            return
        if self.waiting is None:
            self.waiting, self.told = now, now + FIRST - AGAIN
        if now >= self.told + AGAIN:
            self.told = now
            logger.warning(
                "waiting: the workers are busy with %d task%s of other jobs", others, "" if others == 1 else "s"
            )


def busy_with(client: Client, threads: dict[str, int]) -> int:
    """How many tasks of others the workers have, where none has a thread left for a task of this client."""
    ours = {graph_of(key) for key in client.futures}
    others = 0
    for address, keys in client.processing().items():
        foreign = sum(graph_of(key) not in ours for key in keys)
        if len(keys) > foreign and foreign < threads.get(address, 0):
            return 0
        others += foreign
    return others


def graph_of(key: Any) -> Any:
    """What tasks of one graph of ours have in common; of others the key itself."""
    words = str(key).split("-")
    return words[3] if words[0] == "dpmeans" and len(words) > 3 else key


def _named(workers: list[str]) -> str:
    more = f" and {len(workers) - 3} more" if len(workers) > 3 else ""
    return f"worker{'s'[: len(workers) - 1]} {', '.join(workers[:3])}{more}"
