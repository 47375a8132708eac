from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TAME, contents, spread, tables

from dask_dpmeans.engine.loop import iterate
from dask_dpmeans.methods.dpmeans.batch import Method
from dask_dpmeans.sources import as_source


@dataclass(frozen=True)
class Point:
    step: int
    objective: float
    rows_read: int


@dataclass(frozen=True)
class Scripted:
    """A method whose objectives are written down."""

    objectives: tuple[float, ...]
    max_iter: int = 100
    last: int = 100
    draws = False

    def init(self, source):
        return Point(0, np.inf, 7)

    def step(self, source, state):
        return Point(state.step + 1, self.objectives[state.step], state.rows_read + 7)

    def done(self, before, after):
        return after.step == self.last


def points(method, state=None):
    return [(step.state, step.converged) for step in iterate(None, method, state)]


def test_every_step_is_yielded_up_to_the_one_that_the_method_calls_the_end():
    assert points(Scripted((5.0, 4.0, 3.0), last=2)) == [
        (Point(1, 5.0, 14), False),
        (Point(2, 4.0, 21), True),
    ]


def test_a_step_that_does_not_lower_the_objective_is_not_committed():
    for worse in (4.0, 4.5, np.nan):
        found = points(Scripted((5.0, 4.0, worse, 1.0)))
        assert found == [
            (Point(1, 5.0, 14), False),
            (Point(2, 4.0, 21), False),
            (Point(2, 4.0, 28), True),
        ]


def test_a_step_that_does_not_lower_the_objective_ends_the_run_though_the_method_calls_it_no_end():
    assert points(Scripted((5.0, 5.0), last=100))[-1] == (Point(1, 5.0, 21), True)


def test_at_max_iter_the_last_step_is_not_converged_unless_it_is():
    assert points(Scripted((5.0, 4.0, 3.0), max_iter=2))[-1] == (Point(2, 4.0, 21), False)
    assert points(Scripted((5.0, 4.0, 3.0), max_iter=2, last=2))[-1] == (Point(2, 4.0, 21), True)


def test_a_run_that_has_reached_max_iter_takes_no_further_step():
    assert points(Scripted((5.0, 4.0), max_iter=1), Point(1, 5.0, 14)) == []


def test_a_step_tells_what_it_took():
    assert all(step.seconds >= 0 for step in iterate(None, Scripted((5.0, 4.0), last=2)))


@settings(max_examples=15)
@given(tables(rows=(20, 80), kinds=TAME), st.data())
def test_a_fit_that_goes_on_from_any_step_takes_the_same_steps(rows, data):
    source, method = as_source(rows, threads=1, block_rows=8), Method(0.05 * spread(rows), tol=0.0)
    steps = [(contents(step.state), step.converged) for step in iterate(source, method)]
    states = [step.state for step in iterate(source, method)][:-1]
    at = data.draw(st.integers(0, len(states)))
    state = replace(states[at - 1]) if at else None
    assert [
        (contents(step.state), step.converged) for step in iterate(source, method, state)
    ] == steps[at:]
