"""The driver of fits: observers follow each step, and a fit resumes from its last state."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from dask_dpmeans.engine.loop import Progress, drive, follow
from dask_dpmeans.methods.dpmeans import batch
from dask_dpmeans.sources import as_source

ROWS = np.random.default_rng(3).normal(size=(300, 2)) * 4
METHOD = batch.Method(9.0, tol=0.0)


@dataclass
class Recorder:
    """An observer that notes what it is told, and asks to stop at a step."""

    last: int = 10**9
    told: list[Any] = field(default_factory=list)

    def begin_step(self) -> None:
        self.told.append("begin")

    def end_step(self, progress: Progress[Any]) -> bool:
        self.told.append(progress.state.step)
        return progress.state.step == self.last


def figures(progress: Progress[Any]) -> list[Any]:
    return [replace(record, seconds=0.0) for record in progress.history]


def test_observers_are_told_of_each_step_in_turn() -> None:
    one, other = Recorder(), Recorder()
    end = drive(as_source(ROWS), METHOD, [one, other])
    assert (end.converged, end.stopped) == (True, False)
    assert one.told == other.told
    steps = [told for told in one.told if told != "begin"]
    assert one.told == [each for step in steps for each in ("begin", step)]
    assert sorted(set(steps)) == list(range(1, end.state.step + 1))
    assert len(end.history) == end.state.step


def test_an_observer_ends_a_fit_and_all_others_are_still_told() -> None:
    one, other = Recorder(last=2), Recorder()
    end = drive(as_source(ROWS), METHOD, [one, other])
    assert (end.stopped, end.converged, end.state.step, other.told[-1]) == (True, False, 2, 2)


def test_a_fit_that_goes_on_ends_as_one_that_was_not_stopped() -> None:
    source = as_source(ROWS)
    whole = drive(source, METHOD)
    for progress in list(follow(source, METHOD))[:-1]:
        again = drive(source, METHOD, start=progress)
        assert figures(again) == figures(whole)
        np.testing.assert_array_equal(again.state.centers, whole.state.centers)


@pytest.mark.parametrize("most", [1, 2])
def test_a_fit_at_its_end_takes_no_further_step(most: int) -> None:
    source, watcher = as_source(ROWS), Recorder()
    end = drive(source, replace(METHOD, max_iter=most))
    assert drive(source, replace(METHOD, max_iter=most), [watcher], end) is end
    whole = drive(source, METHOD)
    assert drive(source, METHOD, [watcher], whole) is whole
    assert watcher.told == []
