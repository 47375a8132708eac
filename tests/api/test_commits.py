"""When steps are committed: short ones together in object stores, all others one by one, the last one in any case."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.api import job
from dask_dpmeans.api.fitting import write_run
from dask_dpmeans.storage import lock
from dask_dpmeans.storage.run_store import RunStore
from dask_dpmeans.storage.step_log import StepLog

ROWS = np.random.default_rng(0).uniform(0, 10, (400, 2))
RUN = "memory://commits/run"
METHOD = DPMeans(9.0, random_state=0, tol=0.0)


class StopError(Exception):
    """Ends a fit."""


@pytest.fixture(autouse=True)
def quick_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the kernel's locks a job waits a quarter of this for another that began at the same moment."""
    monkeypatch.setattr(lock, "BEAT", 0.1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the commits, which stands still."""
    time = [0.0]
    monkeypatch.setattr(job, "perf_counter", lambda: time[0])
    return time


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the steps that were committed."""
    numbers: list[int] = []
    plain = StepLog.commit

    def commit(log: StepLog, state: Any, *given: Any, **options: Any) -> None:
        numbers.append(state.step)
        plain(log, state, *given, **options)

    monkeypatch.setattr(StepLog, "commit", commit)
    return numbers


def told(numbers: list[int], stop: int | None = None) -> Callable[..., None]:
    def on_step(number: int, *_: Any) -> None:
        numbers.append(number)
        if number == stop:
            raise StopError

    return on_step


def test_short_steps_are_told_one_by_one_and_committed_at_the_end(
    clock: list[float], committed: list[int]
) -> None:
    seen: list[int] = []
    model = fit(ROWS, RUN, METHOD, on_step=told(seen))
    assert model.n_iter_ >= 5
    assert seen == list(range(1, model.n_iter_ + 1))
    assert committed == [model.n_iter_]
    assert RunStore.at(RUN).steps.committed() == model.n_iter_


def test_a_step_is_committed_once_enough_time_has_passed(
    clock: list[float], committed: list[int]
) -> None:
    def on_step(number: int, *_: Any) -> None:
        clock[0] += 0.4 * job.COMMIT_SECONDS

    last = fit(ROWS, RUN, METHOD, on_step=on_step).n_iter_
    assert committed == sorted({*range(4, last, 3), last})
    assert len(committed) > 1


def test_on_a_disk_each_step_is_committed(
    tmp_path: Path, clock: list[float], committed: list[int]
) -> None:
    last = fit(ROWS, tmp_path / "run", METHOD).n_iter_
    assert committed == list(range(1, last + 1))


@pytest.mark.parametrize("limit", [1, 3])
def test_the_last_step_of_a_fit_that_does_not_converge_is_committed(
    clock: list[float], committed: list[int], limit: int
) -> None:
    short = DPMeans(9.0, random_state=0, tol=0.0, max_iter=limit)
    with pytest.warns(UserWarning, match="max_iter"):
        fit(ROWS, RUN, short)
    assert committed == [limit]


def test_a_fit_that_is_stopped_goes_on_from_the_last_step(
    clock: list[float], committed: list[int]
) -> None:
    whole, numbers = fit(ROWS, "memory://commits/whole", METHOD), []
    with pytest.raises(StopError):
        fit(ROWS, RUN, METHOD, on_step=told([], stop=3))
    assert RunStore.at(RUN).steps.committed() == 3
    again = fit(ROWS, RUN, METHOD, resume=True, on_step=told(numbers))
    assert numbers[0] == 4
    assert again.cluster_centers_.tobytes() == whole.cluster_centers_.tobytes()


def test_what_stopped_a_fit_is_told_though_its_last_step_cannot_be_committed(
    clock: list[float],
) -> None:
    full = mock.patch.object(StepLog, "commit", side_effect=OSError("no space left"))
    with full as commit, pytest.raises(StopError):
        fit(ROWS, RUN, METHOD, on_step=told([], stop=2))
    assert commit.call_count == 1
    with full as commit, pytest.raises(OSError, match="no space left"):
        fit(ROWS, "memory://commits/other", METHOD)
    assert commit.call_count == 1


def test_the_search_in_which_a_fit_is_stopped_stays_when_the_step_before_it_is_committed(
    clock: list[float],
) -> None:
    store = RunStore.at(RUN)

    def on_step(number: int, *_: Any) -> None:
        if number == 2:
            store.steps.checkpoints().save("0" * 64, b"of the third step")
            raise StopError

    with pytest.raises(StopError):
        fit(ROWS, store.location, METHOD, on_step=on_step)
    assert store.steps.committed() == 2
    assert store.steps.has_checkpoints()
    fit(ROWS, store.location, METHOD, resume=True)
    assert not store.steps.has_checkpoints()


def test_a_short_step_that_is_repeated_keeps_the_search_of_the_next(clock: list[float]) -> None:
    """As if the job had been killed in a long step, with the short one before it not committed."""
    store = RunStore.at(RUN)
    found: list[bool] = []

    def on_step(number: int, *_: Any) -> None:
        if number == 2:
            store.steps.checkpoints().save("0" * 64, b"of the third step")
        if number == 4:
            found.append(store.steps.has_checkpoints())
        clock[0] += 2 * job.COMMIT_SECONDS

    fit(ROWS, store.location, METHOD, on_step=on_step)
    assert found == [True]
    assert not store.steps.has_checkpoints()


def test_files_of_a_fit_are_written_once_and_arrays_are_not_read_back(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    read: list[str] = []
    for name, noted in (("pipe_file", written), ("cat_file", read)):
        plain = getattr(MemoryFileSystem, name)

        def method(
            self: Any,
            path: str,
            *given: Any,
            plain: Any = plain,
            noted: list[str] = noted,
            **options: Any,
        ) -> Any:
            noted.append(path.partition("/run/")[2])
            return plain(self, path, *given, **options)

        monkeypatch.setattr(MemoryFileSystem, name, method)
    write_run(ROWS, RUN, METHOD)
    written = [path for path in written if path != lock.NAME]
    assert len(written) == len(set(written)) > 40
    assert set(read) <= {lock.NAME, "zarr.json", "steps/zarr.json", "labels/zarr.json"}
