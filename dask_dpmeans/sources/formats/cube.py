"""Rows of a cube in a store: variables of a Zarr group or a NetCDF file, decoded by xarray.

Rows are the samples whose features are all present, in C order of the samples' dimensions.  They
are read in `Runs`, boxes of the grid that no stored chunk crosses.
"""

import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, permutations
from typing import Any

import numpy as np

from dask_dpmeans.errors import CorruptStoreError, unseen
from dask_dpmeans.sources.cube_plan import Runs, Starts, box_within, slabs
from dask_dpmeans.sources.formats.cube_dataset import NETCDF, open_dataset
from dask_dpmeans.sources.formats.cube_values import TURNED, Features, RunRows, Values, parts_of
from dask_dpmeans.sources.grids import Dimensions, Grid, as_names, cosines, latitude_of
from dask_dpmeans.sources.lazy_modules import checked_store, cube_chunks, zarr
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.storage.location import Location


@dataclass(frozen=True)
class CubeWeights:
    """The cosine of the latitude of each row; each task reads the latitudes for itself."""

    place: Location
    name: str
    """Name of the coordinate."""
    dims: tuple[str, ...]
    """Dimensions of the samples that it has, in their order."""
    n_rows: int

    @classmethod
    def of(cls, cube: "CubeRows") -> "CubeWeights":
        """Return the weights of a cube, whose grid is known."""
        latitude = latitude_of(() if cube.grid is None else cube.grid.sample_coords)
        dims = tuple(dim for dim in cube.samples if dim in latitude.dims)
        return cls(cube.place, latitude.name, dims, cube.n_rows)

    ndim = 1
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int]:
        """Rows."""
        return (self.n_rows,)

    def __getitem__(self, rows: slice) -> Raw:
        raise TypeError("weights of a cube are read with its rows")

    def of_run(self, cube: "CubeRows", run: int) -> Raw:
        """Return the weights of all samples of a run, (m,), those that are left out too."""
        box = dict(zip(cube.samples, cube.runs.box(run), strict=True))
        part = self._latitudes.isel({dim: box[dim] for dim in self.dims}).transpose(*self.dims)
        sizes = {dim: each.stop - each.start for dim, each in box.items()}
        shape = [size if dim in self.dims else 1 for dim, size in sizes.items()]
        found = cosines(part.values, self.name).reshape(shape)
        return np.broadcast_to(found, list(sizes.values())).reshape(-1)

    @cached_property
    def _latitudes(self) -> Any:
        _check_seen(self.place)
        return open_dataset(self.place, (self.name,), False)[self.name].variable

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_latitudes"}


@dataclass(frozen=True)
class CubePath(os.PathLike[str]):
    """A path or URL of a cube, and the names that make rows of it."""

    path: str
    samples: Dimensions = None
    """Dimensions of the samples; None for all others."""
    features: Dimensions = None
    """Dimensions of the features; None for all others."""
    variables: Dimensions = None
    """Variables that are used; None for all that have the dimensions named."""

    def __post_init__(self) -> None:
        for name in ("samples", "features", "variables"):
            as_names(name, getattr(self, name))

    @property
    def named_dimensions(self) -> tuple[str, ...]:
        """The dimensions that are named as samples or features."""
        return as_names("samples", self.samples) + as_names("features", self.features)

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class CubeRows:
    """Samples as rows; each task opens the cube for itself."""

    place: Location
    variables: tuple[str, ...]
    along: str | None
    """Dimension of the variables; None for the one variable of a cube without it."""
    samples: tuple[str, ...]
    """Dimensions of the samples, in order."""
    features: Mapping[str, int]
    """Sizes of the dimensions of the features, in order."""
    sample_chunks: tuple[int, ...]
    """Height of the chunks along each dimension of the samples."""
    feature_chunks: tuple[int, ...]
    """Height of the chunks along each dimension of the features, joined to `PART_BYTES`."""
    runs: Runs
    starts: Starts
    """The first row of each run from run `first` on, and the end."""
    dtype: np.dtype[Any]
    gaps: bool
    """Whether samples may be left out: their values can be NaN."""
    observed: bool = False
    """Whether samples are left out only if all their values are NaN."""
    fill_missing: bool = False
    """Whether a chunk that is not in the store holds the fill value."""
    counted: bool = False
    """Whether `starts` counts the rows; else it counts all samples."""
    first: int = 0
    """Number of the run of the first of the `starts`."""
    n_rows: int = 0
    """Rows of the whole cube."""
    grid: Grid | None = field(default=None, compare=False, repr=False)
    """The grid with its coordinates; tasks have none."""

    ndim = 2

    @property
    def store_path(self) -> str:
        """Path or URL, for messages."""
        return self.place.shown

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, math.prod(self.features.values())

    @property
    def chunks(self) -> tuple[int, int]:
        """Most rows of a run, and the number of columns."""
        most = int(np.diff(self.starts).max(initial=1))
        return max(1, most), self.shape[1]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns; none in a task."""
        return () if self.grid is None else self.grid.column_names

    def narrowed(self, start: int, stop: int) -> "CubeRows":
        """Return the rows with no more runs than the rows from `start` to `stop` need."""
        runs = self._runs_of(start, stop)
        return self.part(range(runs.start + self.first, runs.stop + self.first))

    def part(self, runs: range) -> "CubeRows":
        """Return the rows with some runs alone, for a task."""
        first = runs.start - self.first
        starts = self.starts[first : first + len(runs) + 1].copy()
        return replace(self, starts=starts, first=runs.start, grid=None)

    def pieces(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the parts of a range of rows that lie in one run each."""
        runs = self._runs_of(start, stop)
        inner = np.unique(self.starts[runs.start + 1 : runs.stop]).tolist()
        return list(pairwise([start, *inner, stop]))

    def _runs_of(self, start: int, stop: int) -> range:
        """Return the runs, counted from `first`, that hold a range of rows."""
        last = bisect_left(self.starts, stop)
        return range(min(bisect_right(self.starts, start) - 1, last - 1), last)

    def __getitem__(self, rows: slice) -> Raw:
        start, stop, _ = rows.indices(self.n_rows)
        found = np.empty((stop - start, self.shape[1]), self.dtype)
        for at, end in self.pieces(start, stop) if start < stop else ():
            self.read(at, end)[0].write(found[at - start : end - start])
        return found

    def read(
        self, start: int, stop: int, weights: CubeWeights | None = None
    ) -> tuple[RunRows, Raw | None]:
        """Read some rows of one run, and their weights, (n,), if any are asked for."""
        number = bisect_right(self.starts, start) - 1
        inside = range(start - int(self.starts[number]), stop - int(self.starts[number]))
        run = number + self.first
        rows = self._rows_of(run, inside)
        if weights is None:
            return rows, None
        return rows, weights.of_run(self, run)[rows.present][inside.start : inside.stop]

    def _rows_of(self, run: int, inside: range) -> RunRows:
        """Read some rows of a run.

        There must be as many rows as were counted.  If they are as many as the samples that the
        first features let be rows, no others are looked at.
        """
        found = list(self._features(run))
        first, last = self.runs.bounds(run)
        present = np.ones(last - first, bool)
        if self._expected_rows(run) < last - first:
            present = self._known_rows(run, found[:1])
            if np.count_nonzero(present) != self._expected_rows(run):
                present = self._known_rows(run, found)
                self.check_rows(run, int(np.count_nonzero(present)))
        return self._run_rows(found, present, inside)

    def _run_rows(self, found: list[Features], present: Raw, numbers: range) -> RunRows:
        return RunRows(found, tuple(self.features.values()), self.dtype, present, numbers)

    def _expected_rows(self, run: int) -> int:
        """Return how many rows of a run were counted."""
        return int(self.starts[run - self.first + 1] - self.starts[run - self.first])

    def check_rows(self, run: int, found: int) -> None:
        """Raise `CorruptStoreError` unless a run has as many rows as were counted."""
        first, last = self.runs.bounds(run)
        expected = self._expected_rows(run)
        if found != expected:
            raise CorruptStoreError(
                f"{self.store_path} has changed: samples {first:,} to {last:,} had {expected:,} "
                f"rows, they have {found:,}"
            )

    def _known_rows(self, run: int, some: Iterable[Features]) -> Raw:
        """Return which samples of a run are rows, (m,), as far as some features decide it."""
        start, stop = self.runs.bounds(run)
        present = np.full(stop - start, not (self.observed and self.gaps))
        for each in some:
            if self.gaps:
                each.look(present, self.observed)
            del each
        return present

    def present(self, run: int) -> Raw:
        """Return which samples of a run are rows, (m,)."""
        return self._known_rows(run, self._features(run))

    def _features(self, run: int) -> Iterator[Features]:
        """Yield the values of all samples of a run, some features after the others."""
        box = self.runs.box(run)
        samples, shape = dict(zip(self.samples, box, strict=True)), [p.stop - p.start for p in box]
        n_blocks = 1 + math.prod(shape) * self.shape[1] // TURNED
        for part in parts_of(list(self.features.values()), self.feature_chunks):
            features, number = dict(zip(self.features, part, strict=True)), 0
            if self.along is not None:
                number = features.pop(self.along).start
            where = tuple(features.get(name, number) for name in self.features)
            # No name holds the values: the caller frees them before the next are read.
            values = self._values[number]
            yield from Features.of(where, values.box(samples, features), shape, n_blocks)

    def first_rows(self, n_rows: int, weights: CubeWeights | None = None) -> tuple[Raw, Raw | None]:
        """Read the first rows of a cube that is not counted, up to `n_rows` of them, and weights."""
        found: list[Raw] = []
        beside: list[Raw] = []
        for run in range(len(self.runs)):
            with checked_store.damage_of(self.store_path):
                features = list(self._features(run))
            present = self._known_rows(run, features)
            wanted = n_rows - sum(map(len, found))
            inside = range(min(wanted, int(np.count_nonzero(present))))
            found.append(self._run_rows(features, present, inside)[:])
            if weights is not None:
                beside.append(weights.of_run(self, run)[present][: len(inside)])
            if len(inside) == wanted:
                break
            del features, present  # before the next run is decoded
        rows = found[0] if len(found) == 1 else np.concatenate(found)
        return rows, np.concatenate(beside) if beside else None

    def with_counts(self, counts: Sequence[int]) -> "CubeRows":
        """Return the cube whose runs have these numbers of rows."""
        starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        return replace(self, starts=starts, n_rows=int(starts[-1]), counted=True)

    @cached_property
    def _values(self) -> list[Values]:
        _check_seen(self.place)
        return cube_chunks.open_values(self.place, self.variables, self.fill_missing)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_values"}

    @property
    def slab_bytes(self) -> int:
        """Bytes of the samples that cannot be read apart without decoding chunks twice."""
        slab = slabs(self.runs.shape, self.sample_chunks)
        return slab.most_samples * self.shape[1] * self.dtype.itemsize

    @property
    def run_bytes(self) -> int:
        """Bytes of the samples of the longest run."""
        return self.runs.most_samples * self.shape[1] * self.dtype.itemsize

    def refusal(self, size: int, most: int, memory: int, wanted: int) -> str:
        """Return the message for a run of `size` bytes, of which a thread may have `most`.

        Of its `memory`; of `wanted` bytes it could have the run.
        """
        most_samples = most // (self.shape[1] * self.dtype.itemsize)
        orders = [f"samples in the order {','.join(each)}" for each in self._orders(most_samples)]
        ways = [f"take {each}" for each in orders[:1]]
        if most_samples:
            chunks = dict(zip(self.samples, box_within(self.runs.shape, most_samples), strict=True))
            ways.append(f"rechunk it, as ds.chunk({chunks}).to_zarr('rechunked.zarr') does")
        ways.append(f"give a thread {wanted:,} bytes, with more memory or fewer threads")
        return (
            f"{self.store_path} is stored in chunks of which a row of them along the samples' last "
            f"dimensions takes {size:,} bytes: more than {most:,}, what a thread may read at a time "
            f"of its {memory:,} bytes; {', or '.join(ways)}"
        )

    @property
    def without_rows(self) -> str:
        """The end of the message for a cube without rows."""
        if self.observed:
            return " Each sample is NaN in all features: choose other variables or features."
        return (
            " Each sample is NaN in some feature: leave out the features or variables that are NaN, "
            "or keep samples with some values by missing='observed'."
        )

    def _orders(self, most_samples: int) -> Iterator[tuple[str, ...]]:
        """Yield orders of the samples' dimensions whose slabs have at most so many samples."""
        sizes = dict(zip(self.samples, self.runs.shape, strict=True))
        heights = dict(zip(self.samples, self.sample_chunks, strict=True))
        for order in permutations(self.samples):
            found = slabs([sizes[dim] for dim in order], [heights[dim] for dim in order])
            if found.most_samples <= most_samples:
                yield order

    @property
    def arrays(self) -> "list[zarr.Array[Any]]":
        """The arrays, (...), of the variables; none of a NetCDF file."""
        if self.place.url.endswith(NETCDF):
            return []
        node: Any = checked_store.open_node(self.place)
        if isinstance(node, zarr.Array):
            return [node]
        return [node[name] for name in self.variables]


def _check_seen(place: Location) -> None:
    """Raise `InputError` if a store or a file, which was opened elsewhere, is not on this machine."""
    if not place.remote and not os.path.exists(place.url):
        raise unseen(place.url)


def count_rows(cube: "CubeRows", runs: range) -> list[int]:
    """Return the number of rows of each of some runs."""
    with checked_store.damage_of(cube.store_path):
        return [int(cube.present(run).sum()) for run in runs]
