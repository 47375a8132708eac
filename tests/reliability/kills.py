"""Jobs killed before each write and each removal: what is left is ours, and the next job goes on from there.

A child process is killed with SIGKILL before the n-th time that it opens a file of its output for writing, renames or
removes one, or makes or removes a folder, for each n.  Then a reader may see the old output, the new one, or none.  The
same job, plain, with `--force`, and with `--resume` where there is that, must end in the bytes of an undisturbed one.
"""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import zarr

from dask_dpmeans import DPMeans, InputError, fit, load, predict
from dask_dpmeans.api.export import export
from dask_dpmeans.api.synthetic import Synthetic, write_synthetic
from dask_dpmeans.report import report
from dask_dpmeans.selection.penalty import penalty_for, penalty_path, stored_path, write_path
from dask_dpmeans.selection.tree import cluster_tree, write_tree
from dask_dpmeans.storage.run_store import RunStore

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.mkdir": 2}
"""What Python tells of changes, and at which place the folder that a path is relative to stands."""
TOL = 0.01
"""Ends the fits after six and four steps: older steps are removed from the third on."""
FIRST = 8
"""The first change that a job is killed before, or as far into so many as are left out."""
PRELOADED = [
    *("zarr", "dask.array", "xarray", "dask_dpmeans.estimators", "dask_dpmeans.api.export"),
    *("dask_dpmeans.report", "dask_dpmeans.selection.penalty", "dask_dpmeans.selection.tree"),
]
"""What children need not import each for itself: that takes longer than their jobs."""


def rows() -> np.ndarray:
    """Rows that make a fit of a few steps."""
    return np.random.default_rng(0).uniform(0, 10, (500, 2))


def write_cube(place: Path) -> None:
    """The rows as a cube, (band, y, x), of which some pixels are NaN."""
    values = rows().T.reshape(2, 20, 25)
    values[0, ::3, ::4] = np.nan
    zarr.create_group(place).create_array(
        "image", data=values, chunks=(1, 6, 10), dimension_names=("band", "y", "x")
    )


@dataclass(frozen=True)
class Job:
    """Something that writes an output."""

    write: Callable[[Path, Path, Mapping[str, bool]], Any]
    """Given the folder of the inputs, the output, and `force` or `resume`."""
    other: Callable[[Path, Path], Any]
    """What writes another output of the same kind, which `force` removes."""
    resumable: bool = False


def write_run(inputs: Path, out: Path, how: Mapping[str, bool], penalty: float = 9.0) -> None:
    fit(str(inputs / "rows.zarr"), out, DPMeans(penalty, random_state=0, tol=TOL), threads=1, **how)


def write_labels_of_a_cube(
    inputs: Path, out: Path, how: Mapping[str, bool], penalty: float = 9.0
) -> None:
    names: Any = {"samples": ("y", "x"), "features": "band"}
    fit(
        str(inputs / "cube"),
        out,
        DPMeans(penalty, random_state=0, tol=TOL),
        threads=1,
        **names,
        **how,
    )


def write_predictions(inputs: Path, out: Path, how: Mapping[str, bool], shift: float = 0.0) -> None:
    predict(inputs / "run.zarr", rows() + shift, out, threads=1, **how)


def write_a_path(inputs: Path, out: Path, how: Mapping[str, bool], penalty: float = 9.0) -> None:
    write_path(penalty_path(rows(), [penalty, 20.0], random_state=0, threads=1), out, **how)


def write_a_kept_path(
    inputs: Path, out: Path, how: Mapping[str, bool], penalty: float = 9.0
) -> None:
    stored_path(rows(), [penalty, 20.0], out, random_state=0, threads=1, **how)


def find_a_penalty(inputs: Path, out: Path, how: Mapping[str, bool]) -> None:
    """Leaves nothing, and has no use for `force`."""
    penalty_for(rows(), 5, checkpoint=out, random_state=0, threads=1)


def write_a_tree(inputs: Path, out: Path, how: Mapping[str, bool], penalty: float = 99.0) -> None:
    write_tree(cluster_tree(load(inputs / "run.zarr"), [penalty, 1e4]), out, **how)


def write_data(inputs: Path, out: Path, how: Mapping[str, bool], seed: int = 0) -> None:
    write_synthetic(Synthetic("blobs", 300, 2, 3, seed=seed), out, **how)


def write_page(inputs: Path, out: Path, how: Mapping[str, bool]) -> None:
    report(inputs / "run.zarr", out, data=False, **how)


def write_model(inputs: Path, out: Path, how: Mapping[str, bool]) -> None:
    export(inputs / "run.zarr", out, **how)


JOBS = {
    "fit": Job(write_run, lambda inputs, out: write_run(inputs, out, {}, 20.0), resumable=True),
    "fit of a cube": Job(
        write_labels_of_a_cube,
        lambda inputs, out: write_labels_of_a_cube(inputs, out, {}, 20.0),
        resumable=True,
    ),
    "predict": Job(write_predictions, lambda inputs, out: write_predictions(inputs, out, {}, 1.0)),
    "path": Job(write_a_path, lambda inputs, out: write_a_path(inputs, out, {}, 5.0)),
    "path with a checkpoint": Job(
        write_a_kept_path,
        lambda inputs, out: write_a_kept_path(inputs, out, {}, 5.0),
        resumable=True,
    ),
    "penalty with a checkpoint": Job(
        find_a_penalty, lambda inputs, out: find_a_penalty(inputs, out, {})
    ),
    "tree": Job(write_a_tree, lambda inputs, out: write_a_tree(inputs, out, {}, 50.0)),
    "synth": Job(write_data, lambda inputs, out: write_data(inputs, out, {}, 1)),
    "report": Job(write_page, lambda inputs, out: write_page(inputs, out, {})),
    "export": Job(write_model, lambda inputs, out: write_model(inputs, out, {})),
}


def killed(name: str, inputs: Path, out: Path, number: int, force: bool) -> None:
    """Do a job in this process, which is killed before the n-th change of its output."""
    changes = 0

    def changed(event: str, given: tuple[Any, ...]) -> None:
        nonlocal changes
        if event == "open":
            path, mode, flags = given
            writes = (
                any(letter in mode for letter in "wxa+")
                if isinstance(mode, str)
                else bool(flags & WRITING)
            )
            folder = -1
        elif event in CHANGES:
            path, writes, folder = given[0], True, given[CHANGES[event]]
        else:
            return
        if not writes or not isinstance(path, str | os.PathLike):
            return
        if event != "os.rename" and isinstance(folder, int) and folder >= 0:
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        if str(path).startswith(str(out)) or f".{out.name}." in str(path):
            changes += 1
            if changes == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(changed)
    JOBS[name].write(inputs, out, {"force": True} if force else {})


def content(out: Path) -> Any:
    """The bytes of all arrays of a whole output but those of seconds, or of a file; None where there is none."""
    if out.is_file():
        return out.read_bytes()
    if not RunStore.at(out).finished():
        return None
    arrays = zarr.open_group(out, mode="r").arrays()
    return {name: array[...].tobytes() for name, array in arrays if name != "seconds"}


@dataclass
class Trials:
    """What is tried on one machine, and what went wrong."""

    folder: Path
    tried: Counter[str]
    wrong: list[str]

    def try_job(self, name: str, old: bool, every: int) -> None:
        """Kill a job before each so-manieth change: one that writes anew, or one that removes an `old` output first."""
        job, inputs = JOBS[name], self.folder
        whole, before = self.folder / f"{name}.whole", self.folder / f"{name}.before"
        for made in (whole, before):
            remove(made)
        job.write(inputs, whole, {})
        job.other(inputs, before)
        expected, number = content(whole), min(FIRST, every)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        while True:
            out = self.folder / name / f"{number}"
            shutil.rmtree(out.parent, ignore_errors=True)
            out.parent.mkdir()
            if old:
                copy(before, out)
            process = context.Process(target=killed, args=(name, inputs, out, number, old))
            process.start()
            process.join()
            if process.exitcode == 0:
                return
            what = f"{name}{' --force' if old else ''}, killed before change {number}"
            if process.exitcode != -signal.SIGKILL:
                self.wrong.append(f"{what}: exit code {process.exitcode}")
                return
            self.tried[f"{name}{' --force' if old else ''}"] += 1
            seen = content(out)
            if seen is not None and seen not in (expected, content(before) if old else expected):
                self.wrong.append(f"{what}: a reader sees another output")
            for how in ("plain", "force", "resume")[: 3 if job.resumable else 2]:
                self.go_on(job, out, how, expected, what)
            number += every

    def go_on(self, job: Job, left: Path, how: str, expected: Any, what: str) -> None:
        """Do the job again on a copy of what was left of it."""
        out = left.with_name("again")
        remove(out)
        copy(left, out)
        try:
            job.write(self.folder, out, {} if how == "plain" else {how: True})
        except InputError as error:
            refused = "force=True" in str(error) and "never removed" not in str(error)
            store, whole = RunStore.at(out), content(out) is not None
            mine = whole or (
                job.resumable and (store.steps.committed() or store.steps.has_checkpoints())
            )
            # of the old run, of which nothing was removed yet, or a path that is whole
            ended = "other parameters" in str(error) or whole
            if not (refused and (mine if how == "plain" else how == "resume" and ended)):
                self.wrong.append(f"{what}, then {how}: {error}")
            return
        except Exception as error:
            self.wrong.append(f"{what}, then {how}: {type(error).__name__}: {error}")
            return
        if content(out) != expected:
            self.wrong.append(f"{what}, then {how}: other bytes")
        if expected is None and out.exists():
            self.wrong.append(f"{what}, then {how}: something is left")
        if out.is_dir() and (left := out / "lock").exists():
            self.wrong.append(f"{what}, then {how}: the lock is left")


def copy(origin: Path, target: Path) -> None:
    if origin.is_dir():
        shutil.copytree(origin, target)
    elif origin.exists():
        shutil.copy(origin, target)


def remove(target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)


def try_kills(
    every: int = 1, names: tuple[str, ...] = tuple(JOBS)
) -> tuple[Counter[str], list[str]]:
    """Trials by job, one for each `every`-th change; and what went wrong."""
    with tempfile.TemporaryDirectory() as name:
        trials = Trials(Path(os.path.realpath(name)), Counter(), [])
        zarr.create_array(trials.folder / "rows.zarr", data=rows(), chunks=(100, 2))
        write_cube(trials.folder / "cube")
        fit(
            str(trials.folder / "rows.zarr"),
            trials.folder / "run.zarr",
            DPMeans(9.0, random_state=0, tol=TOL),
            threads=1,
        )
        for job in names:
            for old in (False, True):
                trials.try_job(job, old, every)
        return trials.tried, trials.wrong


@click.command(help=__doc__)
@click.option("--every", default=1, show_default=True, help="Kill before each so-manieth change.")
@click.option("--job", "jobs", multiple=True, type=click.Choice(list(JOBS)), help="These alone.")
def main(every: int, jobs: tuple[str, ...]) -> None:
    """Print the number of kills, and what went wrong."""
    tried, wrong = try_kills(every, jobs or tuple(JOBS))
    for each in wrong:
        click.echo(each)
    counts = ", ".join(f"{number} of {what}" for what, number in tried.items())
    click.echo(f"killed: {counts}: {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
