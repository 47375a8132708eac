"""What a fit says while it runs: a line that renews itself on a terminal, plain lines in a log, JSON for programs."""

import json
import logging
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from threading import Event, Lock, Thread
from time import monotonic, perf_counter
from typing import Any, ClassVar, Self

import click

from dask_dpmeans.engine.history import MOVES, Record
from dask_dpmeans.sources import Pass

REDRAW = 0.25
"""Seconds between two looks at what a terminal shows."""
QUIET = 30.0
"""Seconds without a word after which a log is told how far a pass has come."""


@dataclass
class Pace:
    """Rows a second, and the time since the start."""

    started: float = field(default_factory=perf_counter)
    passes: float = 0.0

    def describe(self, record: Record, n_rows: int, number: int) -> str:
        """A step in one line."""
        rows_read, self.passes = (record.passes - self.passes) * n_rows, record.passes
        pace = rows_read / record.seconds if record.seconds > 0 else 0.0
        moves = "".join(f"{name}={getattr(record, name):,}  " for name in MOVES if getattr(record, name))
        local = f"local={record.n_local_clusters:,}  " * bool(record.n_local_clusters)
        return (
            f"step {number}: k={record.n_clusters:,}  {local}J={record.objective:.9g}  births={record.births:,}  "
            f"deaths={record.deaths:,}  {moves}{pace:,.0f} rows/s  {elapsed(perf_counter() - self.started)}"
        )


class Progress:
    """A consumer of steps and passes, while it is entered.

    What it is told of passes it only notes; a thread of its own says it, from time to time, so that passes need not
    wait.
    """

    every: ClassVar[float]
    """Seconds between looks at what to say of a pass."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.standing = ""
        """What the last step, or the last of several fits, came to."""
        self.latest: Pass | None = None
        self.told = self.said = monotonic()
        self._lock, self._over = Lock(), Event()
        self._thread = Thread(target=self._watch, name="dpmeans-progress", daemon=True)
        self._warn = warnings.showwarning
        self._lines = Lines(self)

    def step(self, number: int, record: Record, n_rows: int) -> None:
        """A step was committed."""
        with self._lock:
            self.standing, self.said = self.pace.describe(record, n_rows, number), monotonic()
            self.say_step(number, record)

    def watch(self, found: Pass) -> None:
        """A pass begins, goes on or ends."""
        self.latest, self.told = found, monotonic()
        if found.unit == "fits":
            self.standing = describe_pass(found)

    def say_step(self, number: int, record: Record) -> None:
        """Say what a step came to."""
        raise NotImplementedError

    def say_pass(self, found: Pass, since: float) -> None:
        """Say how far a pass has come, as it was told so many seconds ago."""
        raise NotImplementedError

    def end(self) -> None:
        """Nothing more to say."""

    def warn(self, *warning: Any, **more: Any) -> None:
        """Say a warning, as it would be said without this."""
        self._warn(*warning, **more)

    def log(self, line: str) -> None:
        """Say what the log of this package says."""
        click.echo(line, err=True)

    def __enter__(self) -> Self:
        warnings.showwarning = self.warn
        logging.getLogger("dask_dpmeans").addHandler(self._lines)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        warnings.showwarning = self._warn
        logging.getLogger("dask_dpmeans").removeHandler(self._lines)
        self._over.set()
        self._thread.join()
        self.end()

    def _watch(self) -> None:
        while not self._over.wait(self.every):
            try:
                with self._lock:
                    found = self.latest
                    if found is not None and not found.over:
                        self.say_pass(found, monotonic() - self.told)
            except OSError:  # nobody reads on: the next step says so
                return

    def _line(self, found: Pass, since: float) -> str:
        """A pass and what was reached before it, in one line."""
        before = "" if found.unit == "fits" else self.standing
        return "  ".join(filter(None, (describe_pass(found, since), before)))


def progress(as_json: bool) -> Progress:
    """The progress that fits where the output goes."""
    if as_json:
        return JsonLines()
    return TerminalLine() if sys.stderr.isatty() else PlainLines()


class Lines(logging.Handler):
    """Hands warnings of the log on to a progress."""

    def __init__(self, shown: Progress) -> None:
        super().__init__(logging.WARNING)
        self.shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        """Say one line."""
        self.shown.log(record.getMessage())


class PlainLines(Progress):
    """One line a step, to standard error, and one of a pass where nothing was said for half a minute."""

    every = 1.0

    def say_step(self, number: int, record: Record) -> None:
        """Say what a step came to."""
        click.echo(self.standing, err=True)

    def say_pass(self, found: Pass, since: float) -> None:
        """Say how far a pass has come, if it is time to."""
        if monotonic() >= self.said + QUIET:
            self.said = monotonic()
            click.echo(self._line(found, since), err=True)


class TerminalLine(Progress):
    """One line that each step writes anew, and each pass while it runs."""

    every = REDRAW

    def __init__(self) -> None:
        super().__init__()
        self._shown = ""

    def warn(self, *warning: Any, **more: Any) -> None:
        """Say a warning above the line."""
        with self._above():
            super().warn(*warning, **more)

    def log(self, line: str) -> None:
        """Say a line of the log above the line."""
        with self._above():
            super().log(line)

    @contextmanager
    def _above(self) -> Iterator[None]:
        """Let something be said where the line stands, which then stands below it."""
        with self._lock:
            shown = self._shown
            self._show("")
            yield
            self._show(shown)

    def say_step(self, number: int, record: Record) -> None:
        """Say what a step came to."""
        self._show(self.standing)

    def say_pass(self, found: Pass, since: float) -> None:
        """Say how far a pass has come."""
        self._show(self._line(found, since))

    def end(self) -> None:
        """Leave standing what was reached."""
        if self._shown:
            self._show(self.standing)
            click.echo(err=True, nl=bool(self.standing))

    def _show(self, line: str) -> None:
        shown = line[: shutil.get_terminal_size().columns - 1]
        if shown != self._shown:
            self._shown = shown
            click.echo(f"\r\x1b[2K{shown}", err=True, nl=False)


class JsonLines(Progress):
    """One JSON object a step, to standard output, and one of a pass where nothing was said for half a minute."""

    every = 1.0

    def say_step(self, number: int, record: Record) -> None:
        """Say what a step came to."""
        click.echo(json.dumps({"event": "step", "step": number, **asdict(record)}))

    def say_pass(self, found: Pass, since: float) -> None:
        """Say how far a pass has come, if it is time to."""
        if monotonic() >= self.said + QUIET:
            self.said = monotonic()
            click.echo(json.dumps({"event": "pass", **asdict(found)}))


def describe_pass(found: Pass, since: float = 0.0) -> str:
    """How far a pass has come, as it was told so many seconds ago, in a few words.

    >>> describe_pass(Pass("scan", 3_000_000, 4_000_000, "rows", 30.0), since=1.0)
    'scan 75%  100,000 rows/s  0:00:09 to go'
    >>> describe_pass(Pass("search", 1, 2, "jobs", 65.0))
    'search: 1 of 2 jobs  0:01:05'
    >>> describe_pass(Pass("path", 7, 79, "fits", 65.0, {"penalty": 31.4, "n_clusters": 15}))
    'path: 7 of 79 fits, the last at penalty 31.4: k=15  0:01:05'
    """
    if found.unit == "rows":
        if not (found.done and found.total):
            return f"{found.name}  {elapsed(found.seconds + since)}"
        left = found.seconds * (found.total - found.done) / found.done - since
        share, pace = found.done / found.total, found.done / found.seconds if found.seconds else 0.0
        return f"{found.name} {share:.0%}  {pace:,.0f} rows/s  {elapsed(max(0.0, left))} to go"
    total = "" if found.total is None else f" of {found.total:,}"
    unit = found.unit.removesuffix("s") if (found.total or found.done) == 1 else found.unit
    last = f", the last at penalty {found.last['penalty']:.6g}: k={found.last['n_clusters']:,}" if found.last else ""
    return f"{found.name}: {found.done:,}{total} {unit}{last}  {elapsed(found.seconds + since)}"


def elapsed(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> elapsed(3661.5)
    '1:01:01'
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
