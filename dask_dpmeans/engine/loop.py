"""The one loop of the library: steps of a method, their history, and who is told of them."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, cast

import numpy as np

from dask_dpmeans.engine.checkpoints import Checkpoint, state_of, values_of
from dask_dpmeans.engine.history import History, Record
from dask_dpmeans.engine.plan import Kernel, Source, run_fits
from dask_dpmeans.kernels.block import Features

AnyState = TypeVar("AnyState", bound=Any)
NamedArrays = dict[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]
"""Values and names of dimensions, by name."""
OVER = "over"
"""Name in a checkpoint: whether the fit has ended."""


class Algorithm(Protocol[AnyState]):
    """A method: its parameters, and how it starts, steps and ends."""

    name: ClassVar[str]
    """Name of the method in a run store."""
    state: ClassVar[type[Any]]
    """The class of its states, a dataclass of arrays and numbers."""
    draws: ClassVar[bool]
    """Whether its states are draws: every state is committed, and none converges."""

    @property
    def max_iter(self) -> int:
        """The most steps."""

    @property
    def sparse(self) -> bool:
        """Whether the method takes CSR rows as they are."""

    @property
    def features(self) -> Features | None:
        """The map of rows to what the method sees; None for the rows as given."""

    def seeded(self, seed: int) -> Self:
        """Return the same method with this seed."""

    def init(self, source: Source) -> AnyState:
        """Return the state before the first step."""

    def step(self, source: Source, state: AnyState) -> AnyState:
        """Return the next state."""

    def done(self, before: AnyState, after: AnyState) -> bool:
        """Return whether the method has converged at `after`."""

    def score(self, source: Source, state: AnyState) -> float:
        """Return the objective that the centers of a state give on these rows."""

    def labels(self, source: Source, state: AnyState) -> Kernel:
        """Return the kernel of a map that labels the rows by a state."""

    def result(self, source: Source, state: AnyState) -> NamedArrays:
        """Return the arrays of the stored result by name, each with the names of its dimensions."""


@dataclass(frozen=True)
class Step(Generic[AnyState]):
    """A state of a fit, as `iterate` yields it."""

    state: AnyState
    converged: bool
    """Whether it is the end."""
    seconds: float
    """Time of the step."""
    committed: bool = True
    """Whether the state is new.  If not, this is the state before a rejected step."""


@dataclass(frozen=True)
class Progress(Generic[AnyState]):
    """How far a fit has come."""

    state: AnyState
    """The last committed state."""
    history: History = field(default_factory=History)
    """Records of all committed steps."""
    converged: bool = False
    committed: bool = True
    """Whether the last step was committed."""
    stopped: bool = False
    """Whether an observer has asked for the end."""


class Observer(Protocol[AnyState]):
    """A follower of the steps of a fit: a store that commits them, or callbacks."""

    def begin_step(self) -> None:
        """Note that a step begins."""

    def end_step(self, progress: Progress[AnyState]) -> bool:
        """Note what a step came to, and return whether the fit is to stop."""


def iterate(
    source: Source, method: Algorithm[AnyState], state: AnyState | None = None
) -> Iterator[Step[AnyState]]:
    """Step until the method has converged or `max_iter` is reached, and yield each committed state.

    A step that does not lower the objective is rejected: the state before it is yielded once more,
    as the end, with the rows that the step read.  Every draw of a sampler is committed.

    Parameters
    ----------
    source : the rows
    method : parameters and steps
    state : a state that was yielded before, to go on from; the method's own start by default
    """
    before = method.init(source) if state is None else state
    while before.step < method.max_iter:
        started = perf_counter()
        after = method.step(source, before)
        seconds = perf_counter() - started
        if not (after.objective < before.objective or method.draws):
            yield Step(replace(before, rows_read=after.rows_read), True, seconds, committed=False)
            return
        converged = bool(method.done(before, after))  # JSON cannot hold a bool of NumPy
        yield Step(after, converged, seconds)
        if converged:
            return
        before = after


def follow(
    source: Source, method: Algorithm[AnyState], start: Progress[AnyState] | None = None
) -> Iterator[Progress[AnyState]]:
    """Yield the progress of a fit after each step of `iterate`, with its history."""
    history, state = History(), None
    if start is not None:
        history, state = start.history, start.state
    for step in iterate(source, method, state):
        record = Record.of(step.state, source.plan.n_rows, step.seconds)
        history = history.after(record, committed=step.committed)
        yield Progress(step.state, history, step.converged, step.committed)


def drive(
    source: Source,
    method: Algorithm[AnyState],
    observers: Sequence[Observer[AnyState]] = (),
    start: Progress[AnyState] | None = None,
) -> Progress[AnyState]:
    """Fit, tell the observers of each step, and return where the fit ended.

    Parameters
    ----------
    source : the rows
    method : parameters and steps
    observers : told of each step, in this order; the fit ends when one asks to stop
    start : where to go on from; the method's own start by default
    """
    steps, progress = follow(source, method, start), start
    while progress is None or not (progress.converged or progress.state.step >= method.max_iter):
        for observer in observers:
            observer.begin_step()
        progress = next(steps)
        asked = [observer.end_step(progress) for observer in observers]
        if any(asked):
            return replace(progress, stopped=True)
    return progress


def last_state(
    source: Source, method: Algorithm[AnyState], start: AnyState | None = None
) -> AnyState:
    """Return the state that a fit ends with, as `steps_to_end` does."""
    return run_fits(steps_to_end(source, method, start))


def steps_to_end(
    source: Source, method: Algorithm[AnyState], start: AnyState | None = None
) -> Generator[dict[str, float], None, AnyState]:
    """Yield the number of clusters after each step; return the state that a fit ends with.

    A fit that was stopped goes on from its checkpoint.

    Parameters
    ----------
    source : the rows
    method : parameters and steps
    start : where to start; the method's own start by default
    """
    kind = method.state
    with Checkpoint.of(source, kind, method, start) as checkpoint:
        state, over = start, False
        saved = checkpoint.restore(lambda values: (state_of(kind, values), bool(values[OVER])))
        if saved is not None:
            state, over = saved
        if over:
            return cast(AnyState, state)
        for step in iterate(source, method, state):
            state = step.state
            # A step after the last may be lower still, and is no part of the fit.
            over = step.converged or state.step >= method.max_iter
            checkpoint.update(values_of(state) | {OVER: np.asarray(over)}, over=over)
            yield {"n_clusters": len(step.state.weights)}
    return cast(AnyState, state)
