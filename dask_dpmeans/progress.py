"""What a fit says while it runs: a line that renews itself on a terminal, plain lines in a log, JSON for programs."""

import json
import shutil
import sys
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Protocol

import click

from dask_dpmeans.store import MOVES, Record


class Progress(Protocol):
    """A consumer of a fit's steps."""

    def step(self, number: int, record: Record, n_rows: int) -> None:
        """A step was committed."""
        ...

    def end(self) -> None:
        """The last step was committed."""
        ...


def progress(as_json: bool) -> Progress:
    """The progress that fits where the output goes."""
    if as_json:
        return JsonLines()
    return TerminalLine() if sys.stderr.isatty() else PlainLines()


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


@dataclass
class PlainLines:
    """One line a step, to standard error."""

    pace: Pace = field(default_factory=Pace)

    def step(self, number: int, record: Record, n_rows: int) -> None:
        """Say what a step came to."""
        click.echo(self.pace.describe(record, n_rows, number), err=True)

    def end(self) -> None:
        """Nothing more to say."""


@dataclass
class TerminalLine(PlainLines):
    """One line that each step writes anew."""

    def step(self, number: int, record: Record, n_rows: int) -> None:
        """Say what a step came to."""
        width = shutil.get_terminal_size().columns
        line = self.pace.describe(record, n_rows, number)[: width - 1]
        click.echo(f"\r\x1b[2K{line}", err=True, nl=False)

    def end(self) -> None:
        """Leave the last line standing."""
        click.echo(err=True)


@dataclass
class JsonLines:
    """One JSON object a step, to standard output."""

    def step(self, number: int, record: Record, n_rows: int) -> None:
        """Say what a step came to."""
        click.echo(json.dumps({"event": "step", "step": number, **asdict(record)}))

    def end(self) -> None:
        """Nothing more to say."""


def elapsed(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> elapsed(3661.5)
    '1:01:01'
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
