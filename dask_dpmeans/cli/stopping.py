"""Ctrl-C and SIGTERM, which stop a command."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 3
"""Exit code of a stopped command."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest(KeyboardInterrupt):
    """A signal stops a command.

    After a plain `KeyboardInterrupt` in text that Python executes, as it makes dataclasses while modules load,
    ``python -m`` has exit code 130, whatever the program exits with.
    """


class Stopper:
    """Handler of the signals: the first one stops a command in order, the second one at once.

    While modules load, the first signal ends the process at once: an exception during an import may
    be lost.
    """

    def __init__(self) -> None:
        self.working = False
        """Whether the modules of the command are loaded."""
        self.stopped = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.working:
            end_at_once("stopped before the command began: nothing was written")
        if self.stopped:
            end_at_once("stopped at once")
        self.stopped = True
        _say("stopping; once more ends at once")
        raise StopRequest


def end_at_once(why: str) -> None:
    """End the process with one line."""
    _say(why)
    os._exit(STOPPED)


def _say(line: str) -> None:
    """Write a line to standard error; a signal may come while another line is written."""
    start = "\n" if os.isatty(2) else ""
    os.write(2, f"{start}{line}\n".encode())


@contextmanager
def stoppable() -> Iterator[Stopper]:
    """Let Ctrl-C and SIGTERM stop a command inside, unless the process ignores these signals."""
    current = signal.getsignal(signal.SIGTERM)
    if isinstance(current, Stopper):
        yield current
        return
    stopper = Stopper()
    if threading.current_thread() is not threading.main_thread():
        yield stopper
        return
    used = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stopper) for number in used}
    try:
        yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
