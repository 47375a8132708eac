"""Progress of a command: one line on a terminal, plain lines in a log, JSON for programs."""

import json
import logging
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from threading import Event, Lock, Thread
from time import monotonic, perf_counter
from typing import Any, ClassVar, Self

import click

from dask_dpmeans.cli.group import command_start, print_lines
from dask_dpmeans.engine import loop
from dask_dpmeans.engine.history import MOVES, Record
from dask_dpmeans.sources import Pass

REDRAW = 0.25
"""Seconds between two updates of a terminal."""
QUIET = 30.0
"""Seconds without output after which a log gets a line about the current pass."""


@dataclass
class Pace:
    """Speed of a fit, in rows a second, and the time since the command began."""

    started: float = field(default_factory=command_start)
    passes: float = 0.0

    def seconds(self) -> float:
        """Return the time since the start."""
        return perf_counter() - self.started

    def describe(self, record: Record, n_rows: int, number: int) -> str:
        """Return a step as one line."""
        resumed = number > 1 and not self.passes  # how much the job before had read is not known
        rows_read, self.passes = (record.passes - self.passes) * n_rows, record.passes
        pace = rows_read / record.seconds if record.seconds > 0 else 0.0
        parts = [f"step {number}: k={record.n_clusters:,}"]
        if record.n_local_clusters:
            parts.append(f"local={record.n_local_clusters:,}")
        parts.append(f"J={record.objective:.9g}")
        counts = {name: getattr(record, name) for name in ("births", "deaths", *MOVES)}
        parts += [f"{name}={count:,}" for name, count in counts.items() if count]
        parts += [] if resumed else [f"{pace:,.0f} rows/s"]
        parts.append(format_duration(self.seconds()))
        return "  ".join(parts)


class Progress:
    """Output about steps and passes, as a context manager.

    Passes are only noted; a thread writes about them from time to time, so that passes need not
    wait.
    """

    every: ClassVar[float]
    """Seconds between two checks of the current pass."""

    def __init__(self) -> None:
        self.pace = Pace()
        self.last_result = ""
        """Line about the last step, or about the last of several fits."""
        self.latest: Pass | None = None
        self.fit: loop.Progress[Any] | None = None
        """State and history of the last step."""
        self.pass_time = self.output_time = monotonic()
        self._lock, self._over = Lock(), Event()
        self._thread = Thread(target=self._watch, name="dpmeans-progress", daemon=True)
        self._warn = warnings.showwarning
        self._lines = Lines(self)

    def step(self, number: int, record: Record, n_rows: int) -> None:
        """Report a step that has ended."""
        with self._lock:
            self.last_result = self.pace.describe(record, n_rows, number)
            self.output_time = monotonic()
            self.say_step(number, record)

    def watch(self, found: Pass) -> None:
        """Note that a pass begins, goes on or ends."""
        self.latest, self.pass_time = found, monotonic()
        if found.unit == "fits":
            self.last_result = describe_pass(found)

    def note(self, fit: loop.Progress[Any]) -> None:
        """Note the state and the history after a step."""
        self.fit = fit

    def describe(self) -> str:
        """Return the current pass, if there is one, and the last result as one line."""
        found = self.latest
        if found is None or found.over:
            return self.last_result
        return self._line(found, monotonic() - self.pass_time)

    def say_step(self, number: int, record: Record) -> None:
        """Write about a step."""
        raise NotImplementedError

    def say_pass(self, found: Pass, since: float) -> None:
        """Write about a pass, whose state was noted `since` seconds ago."""
        raise NotImplementedError

    def end(self) -> None:
        """Finish the output."""

    def warn(self, *warning: Any, **more: Any) -> None:
        """Write a warning, as without this object."""
        self._warn(*warning, **more)

    def log(self, line: str) -> None:
        """Write a line of the log of this package."""
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
                        self.say_pass(found, monotonic() - self.pass_time)
            except OSError:  # nobody reads the output: the next step raises the error
                return

    def _line(self, found: Pass, since: float) -> str:
        """Return a pass and the last result as one line."""
        before = "" if found.unit == "fits" else self.last_result
        return "  ".join(filter(None, (describe_pass(found, since), before)))


def progress(as_json: bool) -> Progress:
    """Return the kind of progress for the kind of output."""
    if as_json:
        return JsonLines()
    return TerminalLine() if sys.stderr.isatty() else PlainLines()


class Lines(logging.Handler):
    """Logging handler that passes warnings to a `Progress`."""

    def __init__(self, shown: Progress) -> None:
        super().__init__(logging.WARNING)
        self.shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self.shown.log(record.getMessage())


class PlainLines(Progress):
    """One line a step to standard error, and one about the pass after half a minute of silence."""

    every = 1.0

    def say_step(self, number: int, record: Record) -> None:
        """Write the line of a step."""
        click.echo(self.last_result, err=True)

    def say_pass(self, found: Pass, since: float) -> None:
        """Write about a pass after a long silence."""
        if monotonic() >= self.output_time + QUIET:
            self.output_time = monotonic()
            self.write_pass(found, since)

    def write_pass(self, found: Pass, since: float) -> None:
        """Write the line of a pass."""
        click.echo(self._line(found, since), err=True)


class TerminalLine(Progress):
    """One line that each step and each pass rewrites."""

    every = REDRAW

    def __init__(self) -> None:
        super().__init__()
        self._shown = ""

    def warn(self, *warning: Any, **more: Any) -> None:
        """Write a warning above the line."""
        with self._above():
            super().warn(*warning, **more)

    def log(self, line: str) -> None:
        """Write a line of the log above the line."""
        with self._above():
            super().log(line)

    @contextmanager
    def _above(self) -> Iterator[None]:
        """Clear the line while something is written, then show it again below."""
        with self._lock:
            shown = self._shown
            self._show("")
            yield
            self._show(shown)

    def say_step(self, number: int, record: Record) -> None:
        """Write the line of a step."""
        self._show(self.last_result)

    def say_pass(self, found: Pass, since: float) -> None:
        """Write about a pass."""
        self._show(self._line(found, since))

    def end(self) -> None:
        """Leave the last result on the terminal."""
        if self._shown:
            self._show(self.last_result)
            click.echo(err=True, nl=bool(self.last_result))

    def _show(self, line: str) -> None:
        shown = line[: shutil.get_terminal_size().columns - 1]
        if shown != self._shown:
            self._shown = shown
            click.echo(f"\r\x1b[2K{shown}", err=True, nl=False)


class JsonLines(PlainLines):
    """One JSON object a step on standard output, and one about the pass after 30 silent seconds."""

    def say_step(self, number: int, record: Record) -> None:
        """Write the line of a step."""
        print_lines(json.dumps({"event": "step", "step": number, **asdict(record)}))

    def write_pass(self, found: Pass, since: float) -> None:
        """Write the line of a pass."""
        print_lines(json.dumps({"event": "pass", **asdict(found)}))


def describe_pass(found: Pass, since: float = 0.0) -> str:
    """Return the state of a pass, noted `since` seconds ago, as text.

    >>> describe_pass(Pass("scan", 3_000_000, 4_000_000, "rows", 30.0), since=1.0)
    'scan 75%  100,000 rows/s  0:00:09 to go'
    >>> describe_pass(Pass("search", 1, 2, "jobs", 65.0))
    'search: 1 of 2 jobs  0:01:05'
    >>> describe_pass(Pass("path", 7, 79, "fits", 65.0, {"penalty": 31.4, "n_clusters": 15}))
    'path: 7 of 79 fits, the last at penalty 31.4: k=15  0:01:05'
    >>> describe_pass(Pass("search", 0, 2, "jobs", 65.0, {"n_clusters": 15_021}))
    'search: 0 of 2 jobs, at k=15,021  0:01:05'
    """
    if found.unit == "rows":
        if not (found.done and found.total):
            return f"{found.name}  {format_duration(found.seconds + since)}"
        left = found.seconds * (found.total - found.done) / found.done - since
        share, pace = found.done / found.total, found.done / found.seconds if found.seconds else 0.0
        return (
            f"{found.name} {share:.0%}  {pace:,.0f} rows/s  {format_duration(max(0.0, left))} to go"
        )
    total, last, unit = "", "", found.unit
    if found.total is not None:
        total = f" of {found.total:,}"
    if (found.total or found.done) == 1:
        unit = unit.removesuffix("s")
    if "penalty" in found.last:
        last = f", the last at penalty {found.last['penalty']:.6g}: k={found.last['n_clusters']:,}"
    elif found.last:  # a step
        last = f", at k={found.last['n_clusters']:,}"
    return f"{found.name}: {found.done:,}{total} {unit}{last}  {format_duration(found.seconds + since)}"


def format_duration(seconds: float) -> str:
    """Return hours, minutes and seconds.

    >>> format_duration(3661.5)
    '1:01:01'
    """
    return str(timedelta(seconds=int(seconds)))
