"""Ctrl-C and SIGTERM: what they do to a command."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 3
"""The exit code of what was stopped."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopper:
    """The handler of the signals: a command that works ends in order at the first and at once at the second.

    Before it works, while modules load, it ends at once: an exception in the middle of an import may be lost.
    """

    def __init__(self) -> None:
        self.working = False
        """Whether the command has begun to work."""
        self.stopped = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.working:
            end_at_once("stopped before the command began: nothing was written")
        if self.stopped:
            end_at_once("stopped at once")
        self.stopped = True
        _say("stopping; once more ends at once")
        raise KeyboardInterrupt


def end_at_once(why: str) -> None:
    """End the process with one line."""
    _say(why)
    os._exit(STOPPED)


def _say(line: str) -> None:
    """Write a line to standard error, below what a terminal shows: a signal may come while another line is written."""
    start = "\n" if os.isatty(2) else ""
    os.write(2, f"{start}{line}\n".encode())


@contextmanager
def stoppable() -> Iterator[Stopper]:
    """Let Ctrl-C and SIGTERM stop a command inside; a signal that the process was started to ignore stays ignored."""
    standing = signal.getsignal(signal.SIGTERM)
    if isinstance(standing, Stopper):
        yield standing
        return
    stopper = Stopper()
    if threading.current_thread() is not threading.main_thread():
        yield stopper
        return
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stopper) for number in heard}
    try:
        yield stopper
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
