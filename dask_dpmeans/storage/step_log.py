"""The steps of a run: each is written, then committed by one write, so that a fit can resume."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dask_dpmeans.engine.checkpoints import state_of, values_of
from dask_dpmeans.engine.history import History, Record
from dask_dpmeans.errors import CorruptStoreError, InputError, LockLostError
from dask_dpmeans.kernels.block import Float64Array
from dask_dpmeans.storage import arrays
from dask_dpmeans.storage.arrays import CONTENTS, MARKER
from dask_dpmeans.storage.file_names import CHECKPOINTS, STEPS, is_written
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.lock import Holder
from dask_dpmeans.storage.manifest import malformed_as_corrupt
from dask_dpmeans.storage.one_chunk import METADATA

State = TypeVar("State", bound=Any)


@dataclass(frozen=True)
class StepLog:
    """The steps and checkpoints of an output."""

    location: Location
    """The location of the output."""

    def run_name(self) -> str:
        """Return the name that tells the run from runs that were begun there before or after it."""
        return str(arrays.attributes_of(self.location / STEPS).get("run"))

    def committed(self) -> int:
        """Return the number of the last committed step; 0 if there is none."""
        return int(self._last_commit()["committed"])

    def _last_commit(self) -> dict[str, Any]:
        run = self.run_name()
        for number in sorted(self._numbers(), reverse=True):
            step = self._step(number)
            commit = arrays.attributes_of(step).get(MARKER, {})
            if commit.get("run") != run:
                continue
            if commit.get("committed") != number:
                raise CorruptStoreError(f"{step.url}/zarr.json belongs to another step")
            return dict(commit)
        return {"committed": 0, "converged": False}

    def _numbers(self) -> list[int]:
        """Return the numbers of the steps of which anything is stored."""
        return [int(name) for name in (self.location / STEPS).names() if name.isdecimal()]

    def _step(self, number: int) -> Location:
        return self.location / f"{STEPS}/{number:06d}"

    def commit(
        self,
        state: Any,
        history: Sequence[Record],
        converged: bool,
        job: str = "",
        run: str | None = None,
        *,
        keep_checkpoints: bool = False,
    ) -> None:
        """Write a state and the history up to it, commit both at once, and remove older states.

        Parameters
        ----------
        state : a dataclass of arrays and numbers, with its number, `step`
        history : one record for each step
        converged : whether the step is the last one
        job : the name of the job, from its lock
        run : the name of the run that the job works on; by default the one that is there.  The
            commit of a job that stood still while another job began a new run does not count.
        keep_checkpoints : whether checkpoints of a step after it are there
        """
        run, step = run or self.run_name(), self._step(state.step)
        commit = {"committed": state.step, "converged": converged, "run": run, "job": job}
        commit[CONTENTS] = self._write_step(step, state, history, run)
        try:
            arrays.create_group(step, {MARKER: commit})
        except FileExistsError:
            there = arrays.attributes_of(step).get(MARKER, {})
            if there.get("run") != run and self.run_name() == run:  # of a job that stood still
                self._remove_steps([state.step])
                self.commit(state, history, converged, job, run, keep_checkpoints=keep_checkpoints)
            elif there != commit:  # if equal, it was written, but the answer was lost
                raise LockLostError(
                    f"another job has committed step {state.step} of {self.location.url}"
                ) from None
        if self.run_name() == run:  # else the older steps belong to a new run
            if not keep_checkpoints:
                self.remove_checkpoints()
            self._remove_steps(number for number in self._numbers() if number < state.step - 1)

    def _write_step(
        self, step: Location, state: Any, history: Sequence[Record], run: str
    ) -> dict[str, str]:
        """Write the arrays of a step; return the digests of their contents."""
        values = values_of(state)
        layout = {name: [value.dtype.str, list(value.shape)] for name, value in values.items()}
        packed = np.concatenate([value.astype(np.float64).ravel() for value in values.values()])
        attributes = {"layout": layout, "run": run}
        made = {
            "state": arrays.small_array(packed, attributes=attributes),
            "history": arrays.small_array(History(history).table()),
        }
        step.write_files(
            {
                f"{name}/{file}": content
                for name, array in made.items()
                for file, content in array.files.items()
            }
        )
        return {name: array.content for name, array in made.items()}

    def restore(self, kind: type[State]) -> tuple[State, History, bool]:
        """Return the last committed state, its history, and whether it is the end."""
        commit = self._last_commit()
        step = self._step(commit["committed"])
        place = step / "state"
        with malformed_as_corrupt(place):
            opened = arrays.open_array(place)
            if opened.attrs.get("run", commit["run"]) != commit["run"]:
                raise CorruptStoreError(
                    f"{place.url} was written over by a job that stood still: force=True starts anew"
                )
            contents = commit[CONTENTS]
            packed, attributes = arrays.read_opened(opened, place, contents["state"])
            values = _unpack(packed, attributes["layout"])
            try:
                state = state_of(kind, values)
            except KeyError as error:
                raise InputError(
                    f"{place.url} has no {error}: another version wrote it, and this one cannot go on "
                    "from it: force=True starts anew"
                ) from error
            history = History.from_table(arrays.read(step / "history", contents["history"])[0])
        return state, history, bool(commit["converged"])

    def discard_uncommitted(self) -> None:
        """Remove files that a dead job may have left of steps after the last committed one."""
        last = self.committed()
        self._remove_steps(number for number in self._numbers() if number > last)

    def _remove_steps(self, numbers: Iterable[int]) -> None:
        """Remove the files of steps, their commits first."""
        folders = [f"{STEPS}/{number:06d}" for number in numbers]
        files = [
            f"{folder}/{entry}"
            for folder in folders
            for entry in (self.location / folder).entries()
        ]
        commits = [f"{folder}/{METADATA}" for folder in folders]
        self.location.remove(file for file in files if file in commits)
        self.location.remove(file for file in files if file not in commits and is_written(file))

    def checkpoints(self, holder: Holder | None = None) -> "CheckpointFiles":
        """Return the store of checkpoints, kept until the next step or the finished output.

        Nothing is saved once another job than `holder` has the lock.
        """
        return CheckpointFiles(self.location / f"{STEPS}/{CHECKPOINTS}", holder)

    def has_checkpoints(self) -> bool:
        """Return whether any checkpoint is kept."""
        return any(True for _ in self.checkpoints().location.entries())

    def remove_checkpoints(self) -> None:
        """Remove all checkpoints."""
        entries = self.checkpoints().location.entries()
        self.location.remove([f"{STEPS}/{CHECKPOINTS}/{entry}" for entry in entries])


@dataclass(frozen=True)
class CheckpointFiles:
    """A store of checkpoints: a file for each name."""

    location: Location
    holder: Holder | None = None
    """The job that may write there; None for any."""

    def load(self, name: str) -> bytes | None:
        """Return the checkpoint of this name; None if there is none."""
        try:
            return (self.location / name).read()
        except FileNotFoundError:
            return None

    def save(self, name: str, content: bytes) -> None:
        """Write a checkpoint in place of the last one, if no other job has the lock."""
        if self.holder is not None:
            self.holder.check()
        (self.location / name).write(content)


def _unpack(packed: Float64Array, layout: dict[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Return the fields of a state from its numbers in a row, and their types and shapes."""
    ends = np.cumsum([math.prod(shape) for _, shape in layout.values()])
    parts = zip(np.split(packed, ends[:-1]), layout.items(), strict=True)
    return {name: part.astype(dtype).reshape(shape) for part, (name, (dtype, shape)) in parts}
