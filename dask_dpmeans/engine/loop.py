"""The one loop of the library."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np

from dask_dpmeans.engine.checkpoints import Checkpoint, state_of, values_of
from dask_dpmeans.engine.plan import Kernel, Source
from dask_dpmeans.kernels.block import Features

AnyState = TypeVar("AnyState", bound=Any)
OVER = "over"
"""Name in a checkpoint: whether the fit has ended."""


class Algorithm(Protocol[AnyState]):
    """A method: its parameters, and how it starts, steps and ends."""

    name: ClassVar[str]
    """What the method is called in a run store."""
    state: ClassVar[type[Any]]
    """The class of its states, a dataclass of arrays and numbers."""

    @property
    def max_iter(self) -> int:
        """The most steps."""
        ...

    @property
    def sparse(self) -> bool:
        """Whether the method sees CSR rows as such."""
        ...

    @property
    def features(self) -> Features | None:
        """What is made of each row of the input before the method sees it; None where it sees the rows as given."""
        ...

    def seeded(self, seed: int) -> Self:
        """The same method, with this seed for what it draws."""
        ...

    def init(self, source: Source) -> AnyState:
        """The state before the first step."""
        ...

    def step(self, source: Source, state: AnyState) -> AnyState:
        """The next state."""
        ...

    def done(self, before: AnyState, after: AnyState) -> bool:
        """Whether `after` is the end."""
        ...

    def score(self, source: Source, state: AnyState) -> float:
        """The objective that a state's centers give on these rows."""
        ...

    def labels(self, source: Source, state: AnyState) -> Kernel:
        """The kernel of a map that labels the rows as a state has them."""
        ...

    def result(self, source: Source, state: AnyState) -> Mapping[str, tuple[np.ndarray[Any, Any], tuple[str, ...]]]:
        """The arrays of the stored result, by name, with the names of their dimensions."""
        ...


@runtime_checkable
class Sampler(Protocol):
    """A method whose states are draws from a distribution: each counts, whatever its objective, and none is the end."""

    @property
    def draws(self) -> Literal[True]:
        """That this is so."""
        ...


@dataclass(frozen=True)
class Step(Generic[AnyState]):
    """A committed state of a fit."""

    state: AnyState
    converged: bool
    """Whether it is the end."""
    seconds: float
    """What the step took."""


def iterate(source: Source, method: Algorithm[AnyState], state: AnyState | None = None) -> Iterator[Step[AnyState]]:
    """Step until the method is done or `max_iter` is reached, and yield each state whose objective is lower.

    Saving, progress, plots and stopping are consumers of this generator.  A step that does not lower the objective is
    not committed: the state before it is yielded once more, as the end, with the rows read in trying.  Of a `Sampler`
    every state is yielded, until `max_iter`.

    Parameters
    ----------
    source : the rows
    method : parameters and steps
    state : where to go on from, a state that was yielded before; the method's own start by default
    """
    before = method.init(source) if state is None else state
    while before.step < method.max_iter:
        started = perf_counter()
        after = method.step(source, before)
        seconds = perf_counter() - started
        if not (after.objective < before.objective or isinstance(method, Sampler)):
            yield Step(replace(before, rows_read=after.rows_read), True, seconds)
            return
        converged = bool(method.done(before, after))  # a comparison of NumPy's numbers gives one that JSON cannot hold
        yield Step(after, converged, seconds)
        if converged:
            return
        before = after


def last_state(source: Source, method: Algorithm[AnyState], start: AnyState | None = None) -> AnyState:
    """The state that a fit ends with; where the source saves checkpoints, a stopped fit goes on from them.

    Parameters
    ----------
    source : the rows
    method : parameters and steps
    start : where to start; the method's own start by default
    """
    with Checkpoint.of(source, method.state, method, start) as checkpoint:
        kept = checkpoint.restore(lambda values: (state_of(method.state, values), bool(values[OVER])))
        state, ended = (start, False) if kept is None else kept
        if ended:
            return cast(AnyState, state)
        for step in iterate(source, method, state):
            state = step.state
            # A step after the last may be lower still, and is no part of the fit.
            over = step.converged or state.step >= method.max_iter
            checkpoint.update(values_of(state) | {OVER: np.asarray(over)}, over=over)
    return cast(AnyState, state)
