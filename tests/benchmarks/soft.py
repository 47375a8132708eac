"""Probabilities of the top clusters of each row, against the labels alone.

In memory `predict_proba` is compared with `predict`; from store to store `predict` with `soft` and without, which
writes 36 bytes more for each row (4 clusters) to 13.  Rows are Gaussian clouds of unit variance in float32.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import click
import numpy as np
import zarr
from ratios import Line, Times, interleaved, ratio_line, seconds_line, table, timed

from dask_dpmeans import DPMeans, fit, load, predict

LABELS, SOFT = "predict", "predict_proba"
STORED, STORED_SOFT = "store to store", "store to store, soft"
FAR = 1e12
"""A radius at which no row opens a cluster."""


@dataclass(frozen=True)
class Clouds:
    """A problem."""

    n: int
    d: int
    k: int
    apart: float
    """About how far centers are from the nearest other ones, in standard deviations."""

    def __str__(self) -> str:
        return f"n={self.n:,} d={self.d} k={self.k}, {self.apart:g} deviations apart"

    def centers(self) -> np.ndarray:
        """(k, d), drawn from a cube."""
        side = self.apart * self.k ** (1 / self.d)
        return np.random.default_rng(0).uniform(0, side, (self.k, self.d))

    def rows(self) -> Iterator[np.ndarray]:
        """The rows, up to 2**20 at a time."""
        rng, centers = np.random.default_rng(1), self.centers()
        for start in range(0, self.n, 2**20):
            drawn = centers[rng.integers(self.k, size=min(2**20, self.n - start))]
            yield (drawn + rng.normal(size=drawn.shape)).astype(np.float32)


SIZES = tuple(Clouds(10**7, d, 50, apart) for d in (2, 8) for apart in (10.0, 4.0))


def stored(folder: Path, clouds: Clouds) -> tuple[str, str]:
    """The paths of the rows and of a run on them."""
    data, run = str(folder / "rows.zarr"), str(folder / "run.zarr")
    shape, chunks = (clouds.n, clouds.d), (min(clouds.n, 2**16), clouds.d)
    array, start = zarr.create_array(data, shape=shape, chunks=chunks, dtype="float32"), 0
    for part in clouds.rows():
        array[start : start + len(part)] = part
        start += len(part)
    fit(data, run, DPMeans(FAR, init=clouds.centers(), tol=0.1))
    return data, run


def compare(folder: Path, clouds: Clouds, top: int, repeats: int) -> tuple[Times, Times]:
    """Seconds of each way, on the clock and of the processor."""
    data, run = stored(folder, clouds)
    rows, model, out = zarr.open_array(data)[:], load(run), str(folder / "out.zarr")
    ways = {
        LABELS: lambda: model.predict(rows),
        SOFT: lambda: model.predict_proba(rows, top=top),
        STORED: lambda: predict(run, data, out, force=True),
        STORED_SOFT: lambda: predict(run, data, out, soft=top, force=True),
    }
    seconds = interleaved({name: timed(way) for name, way in ways.items()}, repeats)
    used = {name: timed(way, process_time) for name, way in ways.items()}
    return seconds, interleaved(used, repeats)


def lines(times: Times) -> list[Line]:
    """What the table says of a problem."""
    return [
        *(seconds_line(times, name) for name in times),
        ratio_line(times, SOFT, LABELS, most=1.3),
        ratio_line(times, STORED_SOFT, STORED, most=1.3),
    ]


@click.command(help=__doc__)
@click.option("--rows-fraction", default=1.0, show_default=True, help="Fraction of the rows.")
@click.option("--top", default=4, show_default=True, help="Clusters of each row.")
@click.option("--repeats", default=5, show_default=True, help="Rounds.")
def main(rows_fraction: float, top: int, repeats: int) -> None:
    """All problems."""
    for full in SIZES:
        clouds = Clouds(max(full.k, int(full.n * rows_fraction)), full.d, full.k, full.apart)
        with tempfile.TemporaryDirectory() as folder:
            seconds, used = compare(Path(folder), clouds, top, repeats)
        click.echo(table(f"{clouds}, on the clock", lines(seconds)))
        click.echo(table(f"{clouds}, of the processor", lines(used)))


if __name__ == "__main__":
    main()
