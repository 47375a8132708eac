"""Places on the earth in a store, some 30,000 clusters by radius, on two workers of 2 GB; resumed once.

Towns lie all over the earth, and their numbers of places have a log-normal distribution.  The command
`dask-dpmeans fit` is killed once it has stored some steps, and resumed.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter, sleep
from typing import Any, ClassVar

import click
import numpy as np
from billion import CHUNK_ROWS, MEMORY, SHARD_ROWS, Rows
from out_of_core import PROCESSES, folder
from ratios import Line, judged, table

from dask_dpmeans import load

TOWNS = 30_000
HEIGHT = 0.94
"""Sine of the latitude up to which there are towns, north and south: 70 degrees."""
SPREAD = 0.08
"""Standard deviation of the places of a town, in degrees along the meridian: 9 km."""
RADIUS = 60.0
"""Kilometers, the penalty."""
STEPS = 2
"""Steps that are stored when the fit is killed."""
MOST_SECONDS = 7_200.0
RUN = "run.zarr"


@cache
def towns() -> tuple[Any, Any]:
    """Towns, (towns, 2), in degrees, and the share of the places of each, (towns,)."""
    rng = np.random.default_rng(0)
    latitudes = np.degrees(np.arcsin(rng.uniform(-HEIGHT, HEIGHT, TOWNS)))
    sizes, longitudes = rng.lognormal(size=TOWNS), rng.uniform(-180, 180, TOWNS)
    return np.column_stack([latitudes, longitudes]), sizes / sizes.sum()


@dataclass(frozen=True)
class Places(Rows):
    """A store of latitudes and longitudes that is made."""

    columns: ClassVar[int] = 2

    def part(self, start: int) -> Any:
        """Places of a part, from the number of its first one."""
        rng = np.random.default_rng([1, start])
        centers, shares = towns()
        m = min(self.part_rows, self.n - start)
        center = centers[rng.choice(TOWNS, m, p=shares)]
        latitudes = center[:, 0] + SPREAD * rng.standard_normal(m)
        east = SPREAD * rng.standard_normal(m) / np.cos(np.radians(center[:, 0]))
        longitudes = (center[:, 1] + east + 180) % 360 - 180
        return np.column_stack([latitudes, longitudes]).astype(np.float32)


def command(store: Path, run: Path, memory: int) -> list[str]:
    """The fit."""
    where = ["--workers", str(PROCESSES), "--threads", "1", "--memory-limit", f"{memory}B"]
    method = ["--metric", "haversine", "--penalty", str(RADIUS), "--seed", "0"]
    return [sys.executable, "-m", "dask_dpmeans", "fit", str(store), str(run), *method, *where]


def killed(fit: list[str], step: Path) -> float:
    """Seconds until a fit had stored a step and was killed, or ended before."""
    started = perf_counter()
    with subprocess.Popen(fit, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None and not step.exists():
            sleep(0.1)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return perf_counter() - started


def resumed(fit: list[str]) -> float:
    """Seconds until the fit, resumed, has ended."""
    started = perf_counter()
    subprocess.run([*fit, "--resume"], stderr=subprocess.DEVNULL, check=True)
    return perf_counter() - started


def lines(places: Places, run: Path, memory: int, steps: int) -> Iterator[Line]:
    """The lines of a fit that is killed and resumed."""
    fit = command(places.path, run, memory)
    seconds = [killed(fit, run / "steps" / f"{steps:06}")]
    seconds.append(resumed(fit))
    model, used = load(run), getrusage(RUSAGE_CHILDREN)
    yield Line("stored", f"{places.stored_bytes / 1e9:.2f} GB")
    yield Line("clusters", f"{model.n_clusters_:,}")
    yield Line("steps and passes", f"{model.n_iter_}, {model.n_passes_:.4g}")
    yield Line("until killed, resumed", " s, ".join(f"{each:.0f}" for each in seconds) + " s")
    total = sum(seconds)
    yield judged("in all", total, f"{total:,.0f} s", most=MOST_SECONDS)
    yield Line("processor, without killed workers", f"{used.ru_utime + used.ru_stime:,.0f} s")
    yield Line("memory of a process", f"{used.ru_maxrss * 1024 / 1e6:,.0f} MB at most")


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--rows", "n", default=3 * 10**8, show_default=True)
@click.option("--part-rows", default=SHARD_ROWS, show_default=True, help="Rows of a file.")
@click.option("--memory", default=MEMORY, show_default=True, help="Bytes of each worker.")
@click.option("--steps", default=STEPS, show_default=True, help="Steps until the fit is killed.")
@click.option("--keep", is_flag=True, help="Leave the store in PATH, for the next time.")
def main(path: Path | None, n: int, part_rows: int, memory: int, steps: int, keep: bool) -> None:
    """Print the table."""
    with folder(path) as place:
        places = Places(place / f"places{n}.zarr", n, part_rows, min(CHUNK_ROWS, part_rows))
        try:
            places.write()
            found = list(lines(places, place / RUN, memory, steps))
        finally:
            if not keep:
                places.remove()
            shutil.rmtree(place / RUN, ignore_errors=True)
    title = f"{n:,} places, {RADIUS:g} km, {PROCESSES} workers of {memory / 1e9:g} GB"
    click.echo(table(title, found))


if __name__ == "__main__":
    main()
