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
from itertools import chain, pairwise, permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.kernels.block import Scratch
from dask_dpmeans.sources.cube_plan import Runs, Starts, box_within, slabs
from dask_dpmeans.sources.formats.cube_dataset import NETCDF
from dask_dpmeans.sources.formats.cube_values import (
    LEAST_STRETCH,
    Box,
    Part,
    SampleCopy,
    Values,
    compressed,
    known,
    parts_of,
    stretches,
)
from dask_dpmeans.sources.grids import Dimensions, Grid
from dask_dpmeans.sources.lazy_modules import checked_store, cube_chunks, zarr
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.storage.location import Location

if TYPE_CHECKING:
    from dask_dpmeans.sources.formats.cube_weights import CubeWeights

Where = tuple[slice | int, ...]
"""A part of the features, of each of their dimensions; a number of one variable."""


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
            given = getattr(self, name)
            listed = given if isinstance(given, list | tuple) else [given]
            if given is not None and not all(isinstance(each, str) for each in listed):
                raise InputError(f"{name} is a name or a list of names, got {given!r}")

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

    @property
    def store_path(self) -> str:
        """Path or URL, for messages."""
        return self.place.shown

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, math.prod(self.features.values())

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return 2

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
        return self.read(start, stop)[0]

    def read(
        self,
        start: int,
        stop: int,
        weights: "CubeWeights | None" = None,
        scratch: Scratch | None = None,
    ) -> tuple[Raw, Raw | None]:
        """Read some rows, (n, d), and their weights, (n,), if any are asked for.

        Rows of one run are in `scratch`, if it is given.
        """
        runs = [
            run for run in self._runs_of(start, stop) if self.starts[run] < self.starts[run + 1]
        ]
        found: list[tuple[Raw, Raw | None]] = []
        for run in runs:
            at, end = int(self.starts[run]), int(self.starts[run + 1])
            inside = slice(max(start, at) - at, min(stop, end) - at)
            own = scratch if scratch is not None and len(runs) == 1 else Scratch()
            rows, present = self._rows_of(run + self.first, end - at, inside, own)
            beside = None
            if weights is not None:
                beside = weights.of_run(self, run + self.first)
                beside = (beside if present is None else beside[present])[inside]
            found.append((rows, beside))
        if len(found) == 1:
            return found[0]
        empty = np.empty((0, self.shape[1]), self.dtype), np.empty(0)
        parts = list(zip(*(found or [empty]), strict=True))
        return np.concatenate(parts[0]), None if weights is None else np.concatenate(parts[1])

    def _rows_of(
        self, run: int, expected: int, inside: slice, scratch: Scratch
    ) -> tuple[Raw, Raw | None]:
        """Read some rows of a run, and return which samples are rows; None if all are.

        There must be as many rows as were counted.  If they are as many as the samples that the
        first part of the features lets be rows, no other samples are copied.
        """
        first, last = self.runs.bounds(run)
        parts, present = self._parts(run), None
        if expected < last - first:
            looked = next(parts)
            present, parts = self._known(run, [looked]), chain([looked], parts)
            del looked
        samples = stretches(present, inside, last - first)
        width = self.shape[1] // len(list(self._feature_parts()))
        few = len(samples) * LEAST_STRETCH <= width * expected
        if present is None or (np.count_nonzero(present) == expected and few):
            return self._copied(run, parts, samples, scratch), present
        rows, present = self._all_samples(run, parts, scratch)
        found = compressed(rows, present)
        self.check_rows(run, len(found))
        return found[inside], present

    def check_rows(self, run: int, found: int) -> None:
        """Raise `CorruptStoreError` unless a run has as many rows as were counted."""
        first, last = self.runs.bounds(run)
        expected = int(self.starts[run - self.first + 1] - self.starts[run - self.first])
        if found != expected:
            raise CorruptStoreError(
                f"{self.store_path} has changed: samples {first:,} to {last:,} had {expected:,} "
                f"rows, they have {found:,}"
            )

    def _copied(
        self,
        run: int,
        parts: Iterable[tuple[Where, Box]],
        samples: list[tuple[int, int]],
        scratch: Scratch,
        present: Raw | None = None,
    ) -> Raw:
        """Return stretches of the samples of a run as rows, (n, d), in `scratch`.

        Note in `present`, (m,), if it is given, which samples are rows.
        """
        way = SampleCopy(self._shape(run), samples)
        answer = scratch.array("samples", (way.rows[-1], *self.features.values()), self.dtype)
        for where, values in parts:
            way.copy(values, answer[:, *where])
            if present is not None:
                self._look(values, present.reshape(way.shape))
            del values
        return answer.reshape(way.rows[-1], -1)

    def _all_samples(
        self, run: int, parts: Iterable[tuple[Where, Box]], scratch: Scratch
    ) -> tuple[Raw, Raw]:
        """Return all samples of a run, (m, d), in `scratch`, and which are rows, (m,)."""
        start, stop = self.runs.bounds(run)
        present = np.full(stop - start, not self.observed)
        return self._copied(run, parts, [(0, stop - start)], scratch, present), present

    def _look(self, box: Box, present: Raw) -> None:
        """Note which samples are rows, (*samples), as far as some values decide it."""
        if not self.gaps:
            if self.observed:
                present[:] = True
            return
        merge = np.logical_or if self.observed else np.logical_and
        for place, values in box.pieces():
            some = present[place[: present.ndim]]
            merge(some, known(values, present.ndim, self.observed), out=some)

    def _known(self, run: int, parts: Iterable[tuple[Where, Box]]) -> Raw:
        """Return which samples of a run are rows, (m,), as far as some values decide it."""
        present = np.full(self._shape(run), not self.observed)
        for _, values in parts:
            self._look(values, present)
            del values
        return present.reshape(-1)

    def present(self, run: int) -> Raw:
        """Return which samples of a run are rows, (m,)."""
        return self._known(run, self._parts(run))

    def _shape(self, run: int) -> tuple[int, ...]:
        """Return the shape of the samples of a run."""
        return tuple(each.stop - each.start for each in self.runs.box(run))

    def _parts(self, run: int) -> Iterator[tuple[Where, Box]]:
        """Yield the values of all samples of a run, part by part of the features."""
        samples = dict(zip(self.samples, self.runs.box(run), strict=True))
        for part in self._feature_parts():
            features, number = dict(zip(self.features, part, strict=True)), 0
            if self.along is not None:
                number = features.pop(self.along).start
            where = tuple(features.get(name, number) for name in self.features)
            # No name holds the values: the caller frees them before the next are read.
            yield where, self._values[number].box(samples, features)

    def _feature_parts(self) -> Iterator[Part]:
        """Yield the parts of the features, whole chunks and one variable each."""
        return parts_of(list(self.features.values()), self.feature_chunks)

    def first_rows(
        self, n_rows: int, weights: "CubeWeights | None" = None
    ) -> tuple[Raw, Raw | None]:
        """Read the first rows of a cube that is not counted, up to `n_rows` of them, and weights."""
        found: list[Raw] = []
        beside: list[Raw] = []
        for run in range(len(self.runs)):
            with checked_store.damage_of(self.store_path):
                samples, present = self._all_samples(run, self._parts(run), Scratch())
            found.append(compressed(samples, present))
            if weights is not None:
                beside.append(weights.of_run(self, run)[present])
            if sum(map(len, found)) >= n_rows:
                break
        rows = (found[0] if len(found) == 1 else np.concatenate(found))[:n_rows]
        return rows, np.concatenate(beside)[:n_rows] if beside else None

    def with_counts(self, counts: Sequence[int]) -> "CubeRows":
        """Return the cube whose runs have these numbers of rows."""
        starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        return replace(self, starts=starts, n_rows=int(starts[-1]), counted=True)

    @cached_property
    def _values(self) -> list[Values]:
        return cube_chunks.open_values(self.place, self.variables, self.fill_missing)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_values"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

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


@dataclass(frozen=True)
class CountRows:
    """The job that counts the rows of some runs."""

    runs: range

    def __call__(self, cube: CubeRows) -> list[int]:
        """Return the number of rows of each run."""
        with checked_store.damage_of(cube.store_path):
            return [int(cube.present(run).sum()) for run in self.runs]
