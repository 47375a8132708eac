"""Fits back to back on one cluster: memory of scheduler, workers and client stays flat, and nothing is left behind."""

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import click
import psutil
from chaos import BLOCK_ROWS, PENALTY, TOL, Cluster, cluster, stored_rows

from dask_dpmeans import DPMeans, fit

MOST_GROWTH = 1.1
"""Of memory, from the end of the first fifth to the end."""


@dataclass(frozen=True)
class Look:
    """What is held after a fit."""

    here: int
    """Bytes, of this process: client and scheduler."""
    workers: int
    """Bytes, of the largest worker."""
    tasks: int
    """On the scheduler."""
    files: int
    """That this process has open."""


def resident() -> int:
    """Bytes of this process."""
    return psutil.Process(os.getpid()).memory_info().rss


def look(place: Cluster) -> Look:
    """What is held now, once the scheduler has heard of what was let go."""
    gc.collect()
    for _ in range(50):
        if not place.dask.scheduler.tasks:
            break
        sleep(0.1)
    return Look(
        resident(),
        max(place.client.run(resident).values()),
        len(place.dask.scheduler.tasks),
        len(psutil.Process().open_files()),
    )


def soak(seconds: float, least: int = 3, say: Callable[[str], None] = lambda _: None) -> list[Look]:
    """What was held after each fit."""
    looks: list[Look] = []
    with tempfile.TemporaryDirectory() as name, cluster() as place:
        data, run, end = stored_rows(Path(name) / "rows.zarr"), Path(name) / "run.zarr", monotonic() + seconds
        while len(looks) < least or monotonic() < end:
            fit(data, run, DPMeans(PENALTY, random_state=0, tol=TOL), client=place.client, block_rows=BLOCK_ROWS)
            shutil.rmtree(run)
            looks.append(look(place))
            say(str(looks[-1]))
    return looks


@click.command(help=__doc__)
@click.option("--minutes", default=30.0, show_default=True)
def main(minutes: float) -> None:
    """Print memory at the beginning and in the end."""
    looks = soak(60 * minutes, least=10)
    first, last = looks[len(looks) // 5], looks[-1]
    grown = max(last.here / first.here, last.workers / first.workers)
    left = max(last.tasks, last.files - first.files)
    for name, each in (("after a fifth", first), ("in the end", last)):
        click.echo(
            f"{name}: client and scheduler {each.here / 1e6:.0f} MB, largest worker {each.workers / 1e6:.0f} MB, "
            f"{each.tasks} tasks, {each.files} open files"
        )
    click.echo(f"{len(looks)} fits, memory {grown:.3f} times, {left} tasks or files left")
    sys.exit(grown > MOST_GROWTH or left > 0)


if __name__ == "__main__":
    main()
