"""What runs, and how much of it is done: for whoever watches a pass."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, get_ident
from time import monotonic
from typing import Any, Self
from uuid import uuid4

from dask_dpmeans.errors import AbandonedError

EVERY = 0.25
"""Seconds, at least, from one word about a pass that runs to the next."""


@dataclass(frozen=True)
class Pass:
    """A pass over rows, or jobs in memory, and how much of it is done."""

    name: str
    """What runs, as the dashboard's task names have it: survey, scan, label."""
    done: int
    """Of `total`: as much as tasks have ended with."""
    total: int | None
    """Rows that are read in this pass, jobs, or fits; None where it is not known."""
    unit: str
    """What is counted: "rows", "jobs" or "fits"."""
    seconds: float
    """Since it began."""
    last: Mapping[str, float] = field(default_factory=dict)
    """Of fits, the `penalty` of the last one and its `n_clusters`."""

    @property
    def over(self) -> bool:
        """Whether all of it is done."""
        return self.done == self.total


OnPass = Callable[[Pass], None]
"""Who watches: called by the thread that waits for the pass, at its beginning and end, and up to four times
a second in between."""


class Wanted:
    """Whether the answers of threads are still wanted: called by these, it raises where they are not."""

    def __init__(self) -> None:
        self._abandoned = Event()

    def abandon(self) -> None:
        """Let what runs end."""
        self._abandoned.set()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Abandon them where who waits inside is interrupted."""
        try:
            yield
        except BaseException:
            self.abandon()
            raise

    def __call__(self) -> None:
        if self._abandoned.is_set():
            raise AbandonedError


class Count:
    """What of a pass is done, and who is told.

    Workers' threads only note what has ended.  It is the thread that waits for them that tells, so that whoever watches
    need not expect several at once, and an error there meets nothing half done.
    """

    def __init__(self, on_pass: OnPass | None, name: str, sizes: Sequence[int], unit: str = "rows") -> None:
        self.on_pass = on_pass
        self.name = name
        self.sizes = sizes
        self.unit = unit
        self.token = uuid4().hex
        """Tells what tasks of this pass say from what those of others do."""
        self.ended: set[int] = set()
        self.fits: list[Mapping[str, float]] = []
        self.wanted = Wanted()
        self.thread = get_ident()
        self.began = self.told = monotonic()
        self.failure: BaseException | None = None
        """What whoever watches has raised."""

    @classmethod
    def of_jobs(cls, on_pass: OnPass | None, name: str, jobs: Sequence[Any]) -> Self:
        """Of jobs in memory: of their fits, where they are made of such."""
        numbers = [getattr(job, "n_fits", 0) for job in jobs]
        if numbers and 0 not in numbers:
            return cls(on_pass, name, () if None in numbers else numbers, "fits")
        return cls(on_pass, name, [1] * len(jobs), "jobs")

    @property
    def every(self) -> float | None:
        """Seconds between looks at what is done; None where nobody watches."""
        return None if self.on_pass is None else EVERY

    def say(self, number: int, fit: Mapping[str, float] | None = None) -> None:
        """A piece or a job has ended, or a fit of it; a piece that runs again counts once."""
        if fit is None:
            self.ended.add(number)
        else:
            self.fits.append(fit)
        self.look()

    def hear(self, event: tuple[Any, Mapping[str, Any]]) -> None:
        """What a task of a cluster says."""
        said = event[1]
        if said["token"] == self.token:
            self.say(said["number"], said["fit"])

    def look(self) -> None:
        """Tell what is done, if it is time to, and this the thread that waits."""
        if self.on_pass is not None and get_ident() == self.thread and monotonic() >= self.told + EVERY:
            self.tell()

    def tell(self) -> None:
        """Tell what is done."""
        if self.on_pass is None:
            return
        fits = len(self.fits)
        done = fits if self.unit == "fits" else sum(self.sizes[number] for number in self.ended.copy())
        total = None if self.unit == "fits" and not self.sizes else sum(self.sizes)
        done = done if total is None else min(done, total)  # a job that another worker runs again tells its fits again
        last = self.fits[fits - 1] if fits else {}
        self.told = monotonic()
        try:
            self.on_pass(Pass(self.name, done, total, self.unit, self.told - self.began, last))
        except BaseException as error:
            self.failure = error
            raise

    def __enter__(self) -> Self:
        self.tell()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            if self.unit == "fits" and not self.sizes:
                self.sizes = [len(self.fits)]
            self.tell()
