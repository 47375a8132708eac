"""A cube in a store, whose samples run across chunks, beside the store of its rows.

The cube is (time, lat, lon), float32, in chunks of 100 x 24 x 240, zstd: a row of it, the series of
a place, is in 12 chunks.  Places are of 8 kinds, each with a series of its own and noise, which
zstd hardly shortens.  On each latitude, 30 % of the places are land: NaN.  The flat store has the
places of the sea as rows, in chunks of a latitude.

Two worker processes, of one thread each, read them.  Bytes: what the workers have read in one pass
against given centers, from the store or the page cache.  Time: this pass, over the cube and over
the flat store in turn, on the clock and of the processors.  Then a fit by radius of each, from
store to store, in fresh workers, with the most memory that a worker held.  Both must give the same
bytes.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
import zarr
from distributed import Client
from out_of_core import PROCESSES, against, folder, opened, passed, peak_memory
from ratios import (
    Line,
    Times,
    interleaved,
    judged,
    ratio_line,
    same_environment,
    seconds_line,
    table,
)
from zarr.codecs import ZstdCodec

from dask_dpmeans import DPMeans, fit
from dask_dpmeans.sources import CubePath, as_source
from dask_dpmeans.sources.cluster import connect

NAMES = ("time", "lat", "lon")
CHUNK = (100, 24, 240)
KINDS = 8
"""Kinds of places."""
LAND = 0.3
"""Share of the places that are NaN."""
SPREAD = 3.0
"""Standard deviation of the series of the kinds; the noise has 1."""
MEMORY = "2GB"
"""Of each worker."""
MOST_READ, MOST_TIME = 1.1, 1.3
"""Bytes of a pass beside those in the store, and its time beside that over the flat store."""
CUBE, FLAT = "pass over the cube", "pass over the rows"
FITS = "fit of the cube", "fit of the rows"
Numbers = Any
"""A NumPy array."""


@dataclass(frozen=True)
class Shape:
    """Sizes of a cube."""

    lat: int
    lon: int
    time: int = 1200

    @classmethod
    def of(cls, gigabytes: float) -> "Shape":
        """Twice as many longitudes as latitudes, whole chunks of them, of about this size."""
        _, height, width = CHUNK
        lat = height * max(1, round((gigabytes * 1e9 / (8 * cls.time)) ** 0.5 / height))
        return cls(lat, width * max(1, round(2 * lat / width)))

    @property
    def land(self) -> int:
        """Places on a latitude that are NaN."""
        return int(LAND * self.lon)

    @property
    def series(self) -> Numbers:
        """The series of the kinds, (kinds, time)."""
        rng = np.random.default_rng(0)
        return SPREAD * rng.standard_normal((KINDS, self.time), np.float32)

    def band(self, start: int) -> tuple[Numbers, Numbers]:
        """Values of the latitudes of a chunk, (lat, lon, time), and which places are sea."""
        lat, lon = np.mgrid[start : start + CHUNK[1], : self.lon]
        kinds = (lat * 5 // self.lat + lon * KINDS // self.lon) % KINDS
        sea = (lon + 3 * lat) % self.lon >= self.land
        rng = np.random.default_rng([1, start])
        values = rng.standard_normal((*lat.shape, self.time), np.float32)
        values += self.series[kinds]
        values[~sea] = np.nan
        return values, sea


@dataclass(frozen=True)
class Stores:
    """A cube, and the flat store of its rows."""

    place: Path
    shape: Shape
    has_flat: bool = True
    """Whether there is a flat store."""

    @property
    def cube(self) -> CubePath:
        """The cube as rows."""
        return CubePath(str(self.place / "cube.zarr"), ("lat", "lon"), "time", "sst")

    @property
    def flat(self) -> str:
        """The rows."""
        return str(self.place / "rows.zarr")

    @property
    def stored_bytes(self) -> int:
        """Bytes of the chunks of the cube."""
        chunks = (self.place / "cube.zarr/sst/c").rglob("*")
        return sum(each.stat().st_size for each in chunks if each.is_file())

    def write(self) -> None:
        """Write both, a band of latitudes after the other, unless they are there."""
        if (self.place / "written").exists():
            return
        shape, codec = self.shape, {"compressors": [ZstdCodec()], "dtype": np.float32}
        sizes = (shape.time, shape.lat, shape.lon)
        group = zarr.create_group(self.place / "cube.zarr", overwrite=True)
        sst = group.create_array(
            "sst",
            shape=sizes,
            chunks=tuple(map(min, CHUNK, sizes)),
            dimension_names=NAMES,
            fill_value=np.nan,
            config={"write_empty_chunks": True},
            **codec,
        )
        for name, size in zip(NAMES, sizes, strict=True):
            group.create_array(name, data=np.arange(float(size)), dimension_names=[name])
        across = shape.lon - shape.land
        flat = None
        if self.has_flat:
            flat = zarr.create_array(
                self.flat,
                shape=(shape.lat * across, shape.time),
                chunks=(across, shape.time),
                overwrite=True,
                **codec,
            )

        def write(start: int) -> None:
            values, sea = shape.band(start)
            if flat is not None:
                flat[start * across : (start + CHUNK[1]) * across] = values[sea]
            sst[:, start : start + CHUNK[1]] = values.transpose(2, 0, 1)

        with ThreadPoolExecutor(PROCESSES) as pool:
            list(pool.map(write, range(0, shape.lat, CHUNK[1])))
        (self.place / "written").mkdir(exist_ok=True)


def read_bytes() -> int:
    """Bytes that this process has read, from disks or from the page cache."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def bytes_of(client: Client, work: Any) -> int:
    """Bytes that the workers read in some work."""

    def all_read() -> int:
        return sum(client.run(read_bytes).values())

    before = all_read()
    work()
    return all_read() - before


def in_turn(
    works: Mapping[str, Callable[[], Any]], processor: Callable[[], float], repeats: int
) -> tuple[Times, Times]:
    """Seconds on the clock of each work, and of the workers' processors, in rounds."""
    used: dict[str, list[float]] = {name: [] for name in works}

    def competitor(name: str) -> float:
        before, started = processor(), perf_counter()
        works[name]()
        seconds = perf_counter() - started
        used[name].append(processor() - before)
        return seconds

    times = interleaved({name: partial(competitor, name) for name in works}, repeats)
    return times, {name: each[1:] for name, each in used.items()}


def compare(stores: Stores, workers: int, memory: str, repeats: int) -> list[Line]:
    """A pass over the cube beside one over the flat store."""
    sweep = against(stores.shape.series.astype(np.float64))
    with opened(stores.cube, workers, memory) as (cube, client):
        flat = as_source(stores.flat, client=client)
        works = {CUBE: partial(passed, cube, sweep), FLAT: partial(passed, flat, sweep)}
        stored = stores.stored_bytes
        ratio = bytes_of(client, works[CUBE]) / stored
        both = in_turn(works, lambda: sum(client.run(process_time).values()), repeats)
    kept = "rows kept in memory" if cube.resident or flat.resident else "rows read in each pass"
    return [
        Line("stored", f"{stored / 1e9:.2f} GB, {kept}"),
        judged("bytes read in a pass / stored", ratio, f"{ratio:.3f}", most=MOST_READ),
        *(seconds_line(both[0], name) for name in works),
        ratio_line(both[0], CUBE, FLAT, most=MOST_TIME),
        *(replace(seconds_line(both[1], name), what=f"processor, {name}") for name in works),
        replace(ratio_line(both[1], CUBE, FLAT), what="processor, cube / rows"),
    ]


@dataclass(frozen=True)
class Fitted:
    """A fit from store to store."""

    model: Any
    seconds: float
    memory: int
    """Bytes, the most that a worker held."""

    def __str__(self) -> str:
        passes = f"{self.model.n_passes_:g} passes, k {self.model.n_clusters_}"
        return f"{self.seconds:.1f} s, {passes}, {self.memory / 1e6:,.0f} MB"


def fitted(data: str | CubePath, run: Path, penalty: float, workers: int, memory: str) -> Fitted:
    """A fit by radius, in fresh workers."""
    method = DPMeans(penalty, random_state=0)
    options: dict[str, Any] = {}
    if isinstance(data, CubePath):
        options = {name: getattr(data, name) for name in ("samples", "features", "variables")}
    with same_environment(), connect(None, workers, 1, memory, 60) as client:
        started = perf_counter()
        model = fit(str(data), run, method, client=client, force=True, **options)
        seconds = perf_counter() - started
        return Fitted(model, seconds, max(client.run(peak_memory).values()))


def fit_lines(stores: Stores, workers: int, memory: str) -> Iterator[Line]:
    """A fit of the cube beside one of the flat store."""
    penalty = 4.0 * stores.shape.time
    both = []
    for name, data in zip(FITS, (stores.cube, stores.flat), strict=True):
        found = fitted(data, stores.place / f"{name}.zarr", penalty, workers, memory)
        click.echo(f"{name}: {found}", err=True)
        yield Line(name, str(found))
        both.append(found.model)
    same = all(
        np.asarray(getattr(both[0], name)).tobytes() == np.asarray(getattr(both[1], name)).tobytes()
        for name in ("cluster_centers_", "labels_")
    )
    yield Line("the same bytes", "yes" if same else "no", "yes", "met" if same else "missed")


@contextmanager
def written(place: Path, shape: Shape, keep: bool) -> Iterator[Stores]:
    """The stores, which are gone afterwards unless they are kept."""
    stores = Stores(place, shape)
    stores.write()
    try:
        yield stores
    finally:
        if not keep:
            for name in ("written", "cube.zarr", "rows.zarr", *(f"{each}.zarr" for each in FITS)):
                shutil.rmtree(place / name, ignore_errors=True)


@click.command(help=__doc__)
@click.argument("path", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option("--gigabytes", default=20.0, show_default=True, help="Size of the cube, decoded.")
@click.option("--workers", default=PROCESSES, show_default=True, help="Processes.")
@click.option("--memory", default=MEMORY, show_default=True, help="Of each worker.")
@click.option("--repeats", default=3, show_default=True, help="Rounds.")
@click.option("--keep", is_flag=True, help="Leave the stores in PATH, for the next time.")
def main(
    path: Path | None, gigabytes: float, workers: int, memory: str, repeats: int, keep: bool
) -> None:
    """Print the table."""
    shape = Shape.of(gigabytes)
    with folder(path) as place, written(place, shape, keep) as stores:
        lines = [*compare(stores, workers, memory, repeats), *fit_lines(stores, workers, memory)]
    title = (
        f"{shape.time:,} x {shape.lat:,} x {shape.lon:,}, float32, {workers} workers of {memory}"
    )
    click.echo(table(title, lines))


if __name__ == "__main__":
    main()
