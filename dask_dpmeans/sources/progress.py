"""Progress of a pass, for an observer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import get_ident
from time import monotonic
from typing import Any, Self
from uuid import uuid4

from dask_dpmeans.errors import AbandonedError

EVERY = 0.25
"""Shortest time between two reports of a running pass, in seconds."""


@dataclass(frozen=True)
class Pass:
    """Progress of a pass over rows, or of jobs in memory."""

    name: str
    """Name of the pass, as in the task names of the dashboard: survey, scan, label."""
    done: int
    """Part of `total` whose tasks have ended."""
    total: int | None
    """Rows that are read in this pass, or jobs, or fits; None if unknown."""
    unit: str
    """Unit of `done` and `total`: "rows", "jobs" or "fits"."""
    seconds: float
    """Seconds since the beginning."""
    last: Mapping[str, float] = field(default_factory=dict)
    """`penalty` and `n_clusters` of the last fit; of jobs, `n_clusters` after the last step of one, if known."""

    @property
    def over(self) -> bool:
        """Whether all of it is done."""
        return self.done == self.total


OnPass = Callable[[Pass], None]
"""Observer: called by the thread that waits for the pass, at its beginning and end, and up to four
times a second in between."""


class Wanted:
    """Check that threads call: it raises if their answers are not wanted any more."""

    def __init__(self) -> None:
        self._abandoned = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Abandon the threads if an error or Ctrl-C leaves this context."""
        try:
            yield
        except BaseException:
            self._abandoned = True
            raise

    def __call__(self) -> None:
        if self._abandoned:
            raise AbandonedError


@dataclass(eq=False)
class Count:
    """Counter of a pass, which reports to an observer.

    Worker threads only record what has ended.  The thread that waits for them calls the observer,
    so that calls never overlap, and an error in the observer interrupts no record.
    """

    on_pass: OnPass | None
    name: str
    sizes: Sequence[int]
    unit: str = "rows"
    ended: set[int] = field(default_factory=set)
    fits: list[Mapping[str, float]] = field(default_factory=list)
    wanted: Wanted = field(default_factory=Wanted)
    thread: int = field(default_factory=get_ident)
    began: float = field(default_factory=monotonic)
    last_call: float = field(default_factory=monotonic)
    failure: BaseException | None = None
    """Error that the observer has raised."""

    @classmethod
    def of_jobs(cls, on_pass: OnPass | None, name: str, jobs: Sequence[object]) -> Self:
        """Return the counter of jobs in memory; it counts their fits if all jobs are stepwise."""
        numbers = [getattr(job, "n_fits", 0) for job in jobs]
        if numbers and 0 not in numbers:
            return cls(on_pass, name, () if None in numbers else numbers, "fits")
        return cls(on_pass, name, [1] * len(jobs), "jobs")

    @cached_property
    def token(self) -> str:
        """Identity of this pass in the reports of tasks."""
        return uuid4().hex

    @property
    def every(self) -> float | None:
        """Seconds between looks at the progress; None without an observer."""
        if self.on_pass is None:
            return None
        return EVERY

    @property
    def _open_ended(self) -> bool:
        """Whether the number of fits is not known yet."""
        return self.unit == "fits" and not self.sizes

    def say(self, number: int, fit: Mapping[str, float] | None = None) -> None:
        """Record the end of a piece or job, or of one of its fits or steps; a repeated piece counts once."""
        if fit is None:
            self.ended.add(number)
        else:
            self.fits.append(fit)
        self.look()

    def hear(self, event: tuple[object, Mapping[str, Any]]) -> None:
        """Record the report of a task of a cluster."""
        report = event[1]
        if report["token"] == self.token:
            self.say(report["number"], report["fit"])

    def look(self) -> None:
        """Call the observer if it is time, and if this is the thread that waits."""
        waits = self.on_pass is not None and get_ident() == self.thread
        if waits and monotonic() >= self.last_call + EVERY:
            self.tell()

    def tell(self) -> None:
        """Call the observer."""
        if self.on_pass is None:
            return
        fits, total = len(self.fits), None if self._open_ended else sum(self.sizes)
        done = fits
        if self.unit != "fits":
            done = sum(self.sizes[number] for number in self.ended.copy())
        if total is not None:
            done = min(done, total)  # a repeated job records its fits again
        last = self.fits[fits - 1] if fits else {}
        self.last_call = monotonic()
        progress = Pass(self.name, done, total, self.unit, self.last_call - self.began, last)
        try:
            self.on_pass(progress)
        except BaseException as error:
            self.failure = error
            raise

    def __enter__(self) -> Self:
        self.tell()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            if self._open_ended:
                self.sizes = [len(self.fits)]
            self.tell()
