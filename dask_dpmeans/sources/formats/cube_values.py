"""The values of a cube in the order of its store, and the way from them to rows."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from dask_dpmeans.sources.row_array import Raw

if TYPE_CHECKING:
    from dask_dpmeans.sources.formats.cube_chunks import Chunks

COPIED = 2**16
"""Numbers that are turned into rows at a time: a part of 11 MB took 0.065 s as one, 0.036 s so."""
LEAST_STRETCH = 2**10
"""Numbers of a stretch of samples that is copied by itself, on average; a copy has a cost too."""
LEAST_LINE = 2**12
"""Numbers of a line of samples of a stored chunk that is copied by itself, on average."""
Part = tuple[slice, ...]
"""A part of the features, or of the samples and the features: of each of their dimensions."""
Piece = tuple[Part, Raw]
"""Values, (*samples, *features), and their places in a box of the cube."""


@dataclass(frozen=True)
class Box:
    """Values of some samples and features, as they were read."""

    chunks: "Chunks"
    axes: tuple[int, ...]
    """Which dimensions of the variable are samples, in order, and then which are features."""
    n_dims: int
    """Number of dimensions of the samples."""

    def pieces(self, n_stretches: int = 1) -> list[Piece]:
        """Return the stored chunks, or one array if these are small.

        Or if copies of so many stretches of samples would be small in each chunk.
        """
        whole = self.chunks.box.transpose(self.axes)
        shape = whole.shape[: self.n_dims]
        found = [
            (tuple(place[axis] for axis in self.axes), values.transpose(self.axes))
            for place, values in self.chunks.pieces
        ]
        n_copies = sum(math.prod(_lines_shape(place, shape)) for place, _ in found)
        n_copies += n_stretches * len({str(place[self.n_dims :]) for place, _ in found})
        if self.chunks.whole and n_copies * LEAST_LINE <= whole.size:
            return found
        self.chunks.assemble()
        return [(tuple(slice(0, size) for size in whole.shape), whole)]


@dataclass(frozen=True)
class Values:
    """The values of a variable."""

    dims: tuple[str, ...]
    read: "Callable[[Part], Chunks]"
    """Returns a box of the values, decoded."""

    def box(self, samples: Mapping[str, slice], features: Mapping[str, slice]) -> Box:
        """Return the values of some samples and features."""
        box = {**samples, **features}
        chunks = self.read(tuple(box[dim] for dim in self.dims))
        return Box(chunks, tuple(self.dims.index(dim) for dim in box), len(samples))


def known(values: Raw, n_dims: int, observed: bool) -> Raw:
    """Return which samples have all their values, or any of them by `observed`, (*samples).

    `values` is (*samples, *features), in any order in memory; samples have `n_dims` dimensions.
    """
    lacks = np.logical_and if observed else np.logical_or
    features = tuple(range(n_dims, values.ndim))
    return np.asarray(~lacks.reduce(np.isnan(values), axis=features))


def stretches(present: Raw | None, rows: slice, n_samples: int) -> list[tuple[int, int]]:
    """Return the samples, from the first to before the last, that are neighboring rows.

    Of those that are `present`, (n_samples,), or of all, the ones numbered in `rows`.

    >>> stretches(None, slice(2, 5), 7), stretches(np.array([1, 1, 0, 0, 1, 1], bool), slice(1, 3), 6)
    ([(2, 5)], [(1, 2), (4, 5)])
    """
    if present is None:
        return [(rows.start, rows.stop)]
    edges = np.flatnonzero(np.diff(present, prepend=False, append=False))
    starts, stops = edges[::2], edges[1::2]
    ends = np.cumsum(stops - starts)
    firsts = ends - (stops - starts)
    starts = starts + np.maximum(rows.start - firsts, 0)
    stops = stops - np.maximum(ends - rows.stop, 0)
    return [(a, b) for a, b in zip(starts.tolist(), stops.tolist(), strict=True) if a < b]


@dataclass(frozen=True)
class SampleCopy:
    """The way of samples of a run to rows: those in some stretches, one after the other."""

    shape: tuple[int, ...]
    """Shape of the samples of the run."""
    samples: list[tuple[int, int]]
    """The stretches, ascending."""

    @cached_property
    def rows(self) -> list[int]:
        """The first row of each stretch, and the end."""
        return [0, *accumulate(stop - start for start, stop in self.samples)]

    def copy(self, box: Box, target: Raw) -> None:
        """Copy values to (n, *features) rows."""
        n_dims = len(self.shape)
        for place, values in box.pieces(len(self.samples)):
            part = target[:, *place[n_dims:]]
            for outer, first in lines(place, self.shape):
                line = values[outer].reshape(-1, *values.shape[n_dims:])
                self._copy_line(line, first, part)

    def _copy_line(self, line: Raw, first: int, target: Raw) -> None:
        """Copy samples that follow each other, (m, *features), from the `first` on.

        Few numbers at a time, so that the processor's cache holds them: the two have other orders
        in memory.
        """
        step = max(1, COPIED * len(line) // max(1, line.size))
        for start, stop, row in self._within(first, first + len(line)):
            for a, b in pairwise([*range(start, stop, step), stop]):
                target[row + a - start : row + b - start] = line[a - first : b - first]

    def _within(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield the parts of stretches in a line of samples, and the first row of each."""
        number = bisect_right(self.samples, first, key=itemgetter(1))
        while number < len(self.samples) and self.samples[number][0] < end:
            start, stop = self.samples[number]
            inside = max(start, first)
            yield inside, min(stop, end), self.rows[number] + inside - start
            number += 1


def lines(place: Part, shape: Sequence[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield the lines of a box of samples: those that follow each other in C order of the grid.

    Each is a place of the box along its first dimensions, and the number of its first sample.

    >>> list(lines((slice(1, 3), slice(2, 4)), (5, 10))), list(lines((slice(1, 3), slice(0, 10)), (5, 10)))
    ([((0,), 12), ((1,), 22)], [((), 10)])
    """
    start = np.ravel_multi_index([part.start for part in place[: len(shape)]], shape)
    for outer in np.ndindex(*_lines_shape(place, shape)):
        offset = sum(n * math.prod(shape[axis + 1 :]) for axis, n in enumerate(outer))
        yield outer, int(start) + offset


def _lines_shape(place: Part, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of the dimensions of a box that lines do not go along."""
    axis = len(shape) - 1
    while axis > 0 and place[axis] == slice(0, shape[axis]):
        axis -= 1
    return tuple(part.stop - part.start for part in place[:axis])


def compressed(rows: Raw, present: Raw) -> Raw:
    """Return the rows that are present, moved to the front of (n, d) rows in place.

    A copy of all would need as much memory again.
    """
    step, stop = max(1, len(rows) // 16), 0
    for start in range(0, len(rows), step):
        kept = rows[start : start + step][present[start : start + step]]
        rows[stop : stop + len(kept)] = kept
        stop += len(kept)
    return rows[:stop]


def parts_of(sizes: Sequence[int], heights: Sequence[int]) -> Iterator[Part]:
    """Yield the parts of features of these sizes, so high along each dimension.

    >>> list(parts_of((3,), (2,)))
    [(slice(0, 2, None),), (slice(2, 3, None),)]
    """
    for place in np.ndindex(*(-(-n // size) for n, size in zip(sizes, heights, strict=True))):
        bounds = zip(place, heights, sizes, strict=True)
        yield tuple(slice(i * size, min((i + 1) * size, n)) for i, size, n in bounds)
