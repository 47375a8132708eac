"""Fits back to back on one cluster: memory of scheduler, workers and client stays flat, and nothing is left behind.

Dask keeps some of what it measures for good: a span for each computation on the scheduler, figures by span on the
workers, and profiles.  That is let go of after each fit here, or it would hide what we leave behind; without that this
process grew by 150 KB a fit and a worker by 85 KB, over 1,097 fits.
"""

import ctypes
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
from distributed import Worker

from dask_dpmeans import DPMeans, fit

LATE_SPANS = 50
"""Spans of which the workers' heartbeats may still tell."""
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


def forget(dask_worker: Worker) -> None:
    """Let go of what Dask keeps on a worker."""
    for kept in (dask_worker.digests_total, dask_worker.digests_max, dask_worker.profile_history):
        kept.clear()
    trim()


def trim() -> None:
    """Give freed memory back to the system, where the C library can."""
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: None)(0)


def look(place: Cluster) -> Look:
    """What is held now, once the scheduler has heard of what was let go."""
    spans = place.dask.scheduler.extensions["spans"]
    for span in spans.root_spans[:-LATE_SPANS]:
        del spans.spans[span.id]
    for kept in (
        spans.root_spans,
        *spans.spans_search_by_name.values(),
        *spans.spans_search_by_tag.values(),
    ):
        del kept[:-LATE_SPANS]
    place.client.run(forget)
    gc.collect()
    trim()
    for _ in range(50):
        if not place.dask.scheduler.tasks:
            break
        sleep(0.1)
    return Look(
        resident(),
        max(place.client.run(resident).values()),
        len(place.dask.scheduler.tasks),
        len(lasting_files()),
    )


def lasting_files() -> set[tuple[str, int]]:
    """Files that this process holds open, by path and number; Dask's monitor opens files of /proc for a moment."""
    process = psutil.Process()
    files = {(file.path, file.fd) for file in process.open_files()}
    for _ in range(5):
        sleep(0.1)
        files &= {(file.path, file.fd) for file in process.open_files()}
    return files


def soak(seconds: float, least: int = 3, say: Callable[[str], None] = lambda _: None) -> list[Look]:
    """What was held after each fit."""
    looks: list[Look] = []
    with tempfile.TemporaryDirectory() as name, cluster() as place:
        data, run, end = (
            stored_rows(Path(name) / "rows.zarr"),
            Path(name) / "run.zarr",
            monotonic() + seconds,
        )
        while len(looks) < least or monotonic() < end:
            fit(
                data,
                run,
                DPMeans(PENALTY, random_state=0, tol=TOL),
                client=place.client,
                block_rows=BLOCK_ROWS,
            )
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
