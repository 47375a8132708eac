"""Writes that fail, come late or come twice: for each write of a small fit, what is there stays whole and resumable.

A full disk, a read-only target and a store that hiccups look alike from here: one `set` of the store raises.  All the
while a reader polls the run, and must see no result or the whole one, and committed steps that can be restored.
"""

import asyncio
import errno
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any
from unittest import mock

import click
import numpy as np
import zarr
from zarr.storage import LocalStore

from dask_dpmeans import DPMeans, InputError, fit, load
from dask_dpmeans.errors import CorruptStoreError
from dask_dpmeans.methods.dpmeans.batch import State
from dask_dpmeans.storage.location import Location
from dask_dpmeans.storage.run_store import RunStore

METHOD = DPMeans(9.0, random_state=0, tol=0.01)
"""A fit of six steps."""
FAULTS = ("fail", "delay", "duplicate")


class Faults:
    """The n-th write of a run fails, is late, or is made twice; the others are counted."""

    def __init__(self, run: Path, fault: str, number: int) -> None:
        self.run, self.fault, self.number, self.writes = run, fault, number, 0

    def befalls(self, file: Path) -> str | None:
        """What befalls a write."""
        if self.run not in file.parents:
            return None
        self.writes += 1
        if self.writes != self.number:
            return None
        if self.fault == "fail":
            raise OSError(errno.ENOSPC, "no space left on device", str(file))
        return self.fault

    async def set(self, store: LocalStore, key: str, value: Any) -> None:
        """In place of `LocalStore.set`."""
        fault = self.befalls(store.root / key)
        if fault == "delay":
            await asyncio.sleep(0.05)
        elif fault == "duplicate":
            await SET(store, key, value)
        await SET(store, key, value)

    def write(self, place: Location, content: bytes) -> None:
        """In place of `Location.write`."""
        fault = self.befalls(Path(place.url))
        if fault == "delay":
            sleep(0.05)
        elif fault == "duplicate":
            WRITE(place, content)
        WRITE(place, content)


SET, WRITE = LocalStore.set, Location.write


@contextmanager
def faulty(run: Path, fault: str = "fail", number: int = 0) -> Iterator[Faults]:
    """Writes to a run with such a fault."""
    faults = Faults(run, fault, number)

    async def set_key(store: LocalStore, key: str, value: Any) -> None:
        await faults.set(store, key, value)

    def write(place: Location, content: bytes) -> None:
        faults.write(place, content)

    with mock.patch.object(LocalStore, "set", set_key), mock.patch.object(Location, "write", write):
        yield faults


class Reader:
    """Polls a run, and notes what it must never see."""

    def __init__(self, run: Path, expected: bytes) -> None:
        self.run, self.expected, self.ended = run, expected, Event()
        self.wrong: list[str] = []
        self.polls = 0

    def __enter__(self) -> "Reader":
        self.thread = Thread(target=self._poll)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def _poll(self) -> None:
        last = 0
        while not self.ended.is_set():
            self.polls += 1
            try:
                if load(self.run).cluster_centers_.tobytes() != self.expected:
                    self.wrong.append("another result")
            except InputError:
                pass
            except CorruptStoreError as error:
                self.wrong.append(str(error))
            store = RunStore.at(self.run)
            number = store.steps.committed()
            if number:
                try:
                    state, history, _ = store.steps.restore(State)
                    if not last <= state.step == len(history):
                        self.wrong.append(f"step {state.step} after {last}, {len(history)} records")
                    last = state.step
                except CorruptStoreError as error:
                    if store.steps.committed() <= number + 1:  # older steps are removed
                        self.wrong.append(str(error))


def stored_rows(path: Path) -> str:
    """Rows that make a fit of a few steps."""
    zarr.create_array(path, data=np.random.default_rng(0).uniform(0, 10, (500, 2)), chunks=(100, 2))
    return str(path)


def try_writes(every: int = 1) -> tuple[Counter[str], list[str]]:
    """Trials by fault, one for each `every`-th write; and what went wrong."""
    trials: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = stored_rows(folder / "rows.zarr")
        with faulty(folder / "whole.zarr") as counted:
            whole = fit(data, folder / "whole.zarr", METHOD, threads=1)
        expected = whole.cluster_centers_.tobytes(), whole.labels_.compute().tobytes()
        for fault in FAULTS:
            for number in range(1, counted.writes + 1, every):
                run = folder / f"{fault}{number}.zarr"
                trials[fault] += 1
                with Reader(run, expected[0]) as reader:
                    try:
                        with faulty(run, fault, number):
                            fit(data, run, METHOD, threads=1)
                        failed = False
                    except OSError:
                        failed = True
                    if failed != (fault == "fail"):
                        wrong.append(f"{fault} {number}: {'an error' if failed else 'no error'}")
                    try:
                        found = fit(data, run, METHOD, threads=1, resume=True)
                        if (
                            found.cluster_centers_.tobytes(),
                            found.labels_.compute().tobytes(),
                        ) != expected:
                            wrong.append(f"{fault} {number}: other bytes")
                    except Exception as error:
                        wrong.append(f"{fault} {number}: {type(error).__name__}: {error}")
                wrong += [f"{fault} {number}: a reader saw {each}" for each in reader.wrong]
                trials["polls"] += reader.polls
    return trials, wrong


@click.command(help=__doc__)
@click.option("--every", default=1, show_default=True, help="Try each so-manieth write.")
def main(every: int) -> None:
    """Print the number of faulty writes, and what went wrong."""
    trials, wrong = try_writes(every)
    for each in wrong:
        click.echo(each)
    counts = ", ".join(f"{number} {what}" for what, number in trials.items())
    click.echo(f"{counts}: {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
