"""Workers of a cluster that end while a test runs."""

import os
import signal
from time import monotonic, sleep

from dask.distributed import Client


def kill_a_worker(client: Client, among: int, timeout: float = 60.0) -> int:
    """SIGKILL one of ``among`` workers once all of them answer, and return its process.

    A worker that ended a moment ago is still asked, until the scheduler knows: its answer is left out.
    """
    late = monotonic() + timeout
    while len(processes := client.run(os.getpid, on_error="ignore")) < among:
        assert monotonic() < late, f"{len(processes)} of {among} workers answer after {timeout} s"
        sleep(0.05)
    killed: int = min(processes.values())
    os.kill(killed, signal.SIGKILL)
    return killed
