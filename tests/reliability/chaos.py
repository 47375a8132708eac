"""Fits on a cluster whose workers, scheduler and coordinator are killed, stopped, retired and joined at random points.

Each schedule is drawn from its seed: one to three events, each at a named point of the fit.  The fit, resumed where it
was ended, must give the bytes of the undisturbed one.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any
from unittest import mock

import click
import dask
import numpy as np
import zarr
from distributed import Client, LocalCluster, SchedulerPlugin

from dask_dpmeans import DPMeans, fit, load
from dask_dpmeans.errors import ClusterLostError
from dask_dpmeans.methods.dpmeans.batch import Openings
from dask_dpmeans.sources import layout
from dask_dpmeans.sources.cluster import close_cluster

WORKERS = 3
PENALTY, TOL = 40.0, 1e-2
BLOCK_ROWS = 256
POINTS = {"load": 20, "scan": 100, "reduce": 20, "validate": 4, "commit": 4, "label": 12}
"""And the times up to which each is chosen."""
EVENTS = ("kill", "stop", "retire", "join")
ENDINGS = ("coordinator", "scheduler")
"""What ends a fit, which is then resumed."""
SECONDS = 120.0
"""After which a schedule has hung."""

COORDINATOR = """
import os, signal, sys
from distributed import Client
from dask_dpmeans import DPMeans, fit
from dask_dpmeans.sources import layout
data, run, address, penalty, tol, block_rows, streamed, last = sys.argv[1:]
layout.RESIDENT_SHARE = 0.0 if streamed == "True" else layout.RESIDENT_SHARE
def step(number, record, n_rows):
    if number == int(last):
        os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    with Client(address, set_as_default=False) as client:
        method = DPMeans(float(penalty), random_state=0, tol=float(tol))
        fit(data, run, method, client=client, block_rows=int(block_rows), on_step=step)
"""


@dataclass(frozen=True)
class Event:
    """Something that befalls the cluster when a point is reached for the n-th time."""

    what: str
    point: str
    time: int


@dataclass(frozen=True)
class Schedule:
    """What befalls a fit."""

    events: tuple[Event, ...]
    ending: str | None
    """Who is killed after a step, if anybody; the fit is then resumed."""
    last: int
    """That step."""
    streamed: bool
    """Whether rows are read again in each pass."""

    @classmethod
    def drawn(cls, seed: int) -> "Schedule":
        """The schedule of a seed."""
        draw = random.Random(seed)
        points = [draw.choice(list(POINTS)) for _ in range(draw.randint(1, 3))]
        events = tuple(
            Event(draw.choice(EVENTS), point, draw.randint(1, POINTS[point])) for point in points
        )
        ending = draw.choice([None] * 6 + list(ENDINGS))
        return cls(events, ending, draw.randint(1, 3), draw.random() < 0.5)


@dataclass
class Cluster:
    """A scheduler in this process and workers in processes of their own."""

    dask: LocalCluster
    client: Client
    befell: Counter[str] = field(default_factory=Counter)

    def act(self, event: Event) -> None:
        """Let it happen, on a thread of its own: the scheduler may be the one that tells."""
        self.befell[f"{event.what} at {event.point}"] += 1
        Thread(target=getattr(self, event.what), daemon=True).start()

    def kill(self) -> None:
        """SIGKILL a worker; its nanny starts another."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """SIGSTOP a worker for a while."""
        process = self._signal(signal.SIGSTOP)
        sleep(1.0)
        if process is not None:
            with _gone():
                os.kill(process, signal.SIGCONT)

    def retire(self) -> None:
        """Retire a worker, what it holds moves to others, and let another come."""
        with _gone():
            self.dask.scale(max(1, len(self.dask.workers) - 1))
            sleep(0.5)
            self.dask.scale(WORKERS)

    def join(self) -> None:
        """Let one more worker come."""
        self.dask.scale(min(WORKERS + 2, len(self.dask.workers) + 1))

    def whole(self) -> None:
        """Bring back what is missing, for the next schedule."""
        self.dask.scale(WORKERS)
        try:
            self.client.wait_for_workers(WORKERS, timeout=20)
        except TimeoutError:
            self.dask.scale(0)
            self.dask.scale(WORKERS)
            self.client.wait_for_workers(WORKERS, timeout=60)

    def _signal(self, number: int) -> int | None:
        for nanny in list(self.dask.workers.values()):
            process = nanny.process.pid if getattr(nanny, "process", None) is not None else None
            if process is not None:
                with _gone():
                    os.kill(process, number)
                    return process
        return None


@contextmanager
def _gone() -> Iterator[None]:
    """Something may have gone already."""
    try:
        yield
    except Exception as error:
        click.echo(f"  ({type(error).__name__}: {error})", err=True)


class Watch(SchedulerPlugin):
    """Tells when tasks of a kind start."""

    name = "watch"

    def __init__(self, reached: Callable[[str], None]) -> None:
        self.reached = reached

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Called by the scheduler for each task that changes its state."""
        words = str(key).split("-")
        if finish == "processing" and words[0] == "dpmeans":
            point = {"merge": "reduce"}.get(
                words[2], {"load": "load", "scan": "scan", "label": "label"}.get(words[1])
            )
            if point is not None:
                self.reached(point)


@dataclass
class Trial:
    """A fit under a schedule."""

    schedule: Schedule
    cluster: Cluster
    data: str
    run: Path
    seen: Counter[str] = field(default_factory=Counter)

    def reached(self, point: str) -> None:
        """Note that a point was reached; let happen what was to happen there."""
        self.seen[point] += 1
        for event in self.schedule.events:
            if event.point == point and event.time == self.seen[point]:
                self.cluster.act(event)

    def __call__(self) -> None:
        """Fit, and resume where it was ended."""
        if self.schedule.ending == "coordinator":
            self._killed_coordinator()
        elif self.schedule.ending == "scheduler":
            self._killed_scheduler()
        plugin = Watch(self.reached)
        self.cluster.dask.scheduler.add_plugin(plugin, name="watch")
        validate = Openings.validate

        def watched(rule: Any, *arguments: Any) -> Any:
            self.reached("validate")
            return validate(rule, *arguments)

        try:
            with mock.patch.object(Openings, "validate", watched), self._reading():
                self._fit(self.cluster.client, lambda *_: self.reached("commit"))
        finally:
            self.cluster.dask.scheduler.remove_plugin("watch")

    def _fit(self, client: Client, on_step: Callable[..., None]) -> None:
        method = DPMeans(PENALTY, random_state=0, tol=TOL)
        fit(
            self.data,
            self.run,
            method,
            client=client,
            block_rows=BLOCK_ROWS,
            resume=True,
            on_step=on_step,
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        share = 0.0 if self.schedule.streamed else layout.RESIDENT_SHARE
        with mock.patch.object(layout, "RESIDENT_SHARE", share):
            yield

    def _killed_coordinator(self) -> None:
        self.cluster.befell["kill the coordinator"] += 1
        fitted = [
            self.data,
            self.run,
            self.cluster.client.scheduler.address,
            PENALTY,
            TOL,
            BLOCK_ROWS,
        ]
        command = [
            sys.executable,
            "-c",
            COORDINATOR,
            *map(str, [*fitted, self.schedule.streamed, self.schedule.last]),
        ]
        ended = subprocess.run(command, stderr=subprocess.DEVNULL, timeout=SECONDS, check=False)
        assert ended.returncode == -signal.SIGKILL, ended

    def _killed_scheduler(self) -> None:
        self.cluster.befell["kill the scheduler"] += 1
        folder = self.run.parent / "other cluster"
        folder.mkdir()
        said = folder / "scheduler.json"
        start = [sys.executable, "-m", "dask"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        common = ["--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", str(said)]
        scheduler = subprocess.Popen([*start, "scheduler", "--port", "0", *common], **quiet)
        worker = [
            *start,
            "worker",
            "--nthreads",
            "1",
            "--memory-limit",
            "1GB",
            "--death-timeout",
            "10",
            *common,
        ]
        workers = [
            subprocess.Popen([*worker, "--local-directory", str(folder)], **quiet) for _ in range(2)
        ]

        def step(number: int, *_: Any) -> None:
            if number == self.schedule.last:
                scheduler.kill()

        try:
            with (
                dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
                Client(scheduler_file=str(said), timeout=60, set_as_default=False) as client,
                self._reading(),
            ):
                client.wait_for_workers(1, timeout=60)
                try:
                    self._fit(client, step)
                    raise AssertionError("the fit outlived its scheduler")
                except ClusterLostError:
                    pass
        finally:
            for process in (scheduler, *workers):
                process.kill()
                process.wait()


def stored_rows(path: Path) -> str:
    """Rows that make a fit of a few steps."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-9, 9, (12, 3))[rng.integers(12, size=20_000)] + rng.standard_normal(
        (20_000, 3)
    )
    zarr.create_array(path, data=rows, chunks=(1500, 3))
    return str(path)


def same_bytes(run: Path, other: Path) -> bool:
    """Whether two runs have the same bytes in every array but that of seconds."""
    names = sorted(name for name, _ in zarr.open_group(run, mode="r").arrays())
    assert names == sorted(name for name, _ in zarr.open_group(other, mode="r").arrays())
    return all(
        zarr.open_array(run / name)[...].tobytes() == zarr.open_array(other / name)[...].tobytes()
        for name in names
        if name != "seconds"
    )


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Three workers of one thread each."""
    with tempfile.TemporaryDirectory() as folder, dask.config.set({"temporary-directory": folder}):
        options = {
            "dashboard_address": None,
            "scheduler_kwargs": {"dashboard_address": "127.0.0.1:0"},
        }
        made = LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, memory_limit="1GB", silence_logs=50, **options
        )
        try:
            with Client(made, set_as_default=False) as client:
                yield Cluster(made, client)
        finally:
            close_cluster(made)


def chaos(seeds: range, say: Callable[[str], None] = lambda _: None) -> tuple[int, Counter[str]]:
    """The number of schedules that ended in other bytes, and what befell the cluster."""
    differences = 0
    with tempfile.TemporaryDirectory() as name, cluster() as place:
        folder = Path(name)
        data = stored_rows(folder / "rows.zarr")
        fit(
            data,
            folder / "expected.zarr",
            DPMeans(PENALTY, random_state=0, tol=TOL),
            threads=1,
            block_rows=BLOCK_ROWS,
        )
        assert load(folder / "expected.zarr").n_iter_ > 4
        for seed in seeds:
            say(f"{seed}: {(schedule := Schedule.drawn(seed))}")
            place.whole()
            started = monotonic()
            (folder / str(seed)).mkdir()
            try:
                Trial(schedule, place, data, folder / str(seed) / "run.zarr")()
                same = same_bytes(folder / "expected.zarr", folder / str(seed) / "run.zarr")
            except Exception as error:
                same = False
                say(f"{type(error).__name__}: {error}")
            say(f"{seed}: {'same' if same else 'OTHER'} bytes in {monotonic() - started:.1f} s")
            differences += not same
            shutil.rmtree(folder / str(seed))
    return differences, place.befell


@click.command(help=__doc__)
@click.option("--schedules", default=200, show_default=True)
@click.option("--first", default=0, show_default=True, help="Seed of the first one.")
def main(schedules: int, first: int) -> None:
    """Print what befell, and the number of differences."""
    differences, befell = chaos(range(first, first + schedules), click.echo)
    for what, number in sorted(befell.items()):
        click.echo(f"{number:5d} {what}")
    click.echo(f"{schedules} schedules, {differences} differences")
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
