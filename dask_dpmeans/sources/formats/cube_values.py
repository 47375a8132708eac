"""The values of a cube in the order of its store, and the way from them to rows."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.sources.row_array import Raw

if TYPE_CHECKING:
    from dask_dpmeans.sources.formats.cube_chunks import Chunks

COPIED = 2**16
"""Numbers that are turned into rows at a time: a part of 11 MB took 0.065 s as one, 0.036 s so."""
TURNED = 2**19
"""Numbers of the rows that are written together, about: a block."""
LEAST_STRETCH = 2**10
"""Numbers of a stretch of samples that is copied by itself, on average; a copy has a cost too."""
LEAST_LINE = 2**12
"""Numbers of a line of samples of a stored chunk that is copied by itself, on average."""
Part = tuple[slice, ...]
"""A part of the features, or of the samples and the features: of each of their dimensions."""
Piece = tuple[Part, Raw]
"""Values, (*samples, *features), and their places in a box of the cube."""
Where = tuple[slice | int, ...]
"""A part of the features, of each of their dimensions; a number of one variable."""


@dataclass(frozen=True)
class Box:
    """Values of some samples and features, as they were read."""

    chunks: "Chunks"
    axes: tuple[int, ...]
    """Which dimensions of the variable are samples, in order, and then which are features."""
    n_dims: int
    """Number of dimensions of the samples."""

    def pieces(self, n_blocks: int) -> list[Piece]:
        """Return the stored chunks, or one array if these are small.

        Or if so many blocks of samples would each have small copies of the chunks.
        """
        whole = self.chunks.box.transpose(self.axes)
        shape = whole.shape[: self.n_dims]
        found = [
            (tuple(place[axis] for axis in self.axes), values.transpose(self.axes))
            for place, values in self.chunks.pieces
        ]
        n_copies = sum(math.prod(_lines_shape(place, shape)) for place, _ in found)
        n_copies += n_blocks * len({str(place[self.n_dims :]) for place, _ in found})
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


def known(values: Raw, observed: bool) -> Raw:
    """Return which samples have all their values, or any of them if `observed`, (m,).

    `values` is (m, *features), in any order in memory.
    """
    lacks = np.logical_and if observed else np.logical_or
    return np.asarray(~lacks.reduce(np.isnan(values), axis=tuple(range(1, values.ndim))))


@dataclass(frozen=True)
class Features:
    """The values of some features, of all samples of a run."""

    where: Where
    """The box of the cube that they were read in."""
    place: Part
    """Their place in this box."""
    firsts: list[int]
    """The first sample of each line, ascending."""
    lines: list[Raw]
    """Samples that follow each other, (m, *features) each, in the order of the store in memory."""

    @classmethod
    def of(
        cls, where: Where, box: Box, shape: Sequence[int], n_blocks: int
    ) -> Iterator["Features"]:
        """Yield the values of a box, of samples of this shape that are turned in so many blocks."""
        found: dict[str, list[tuple[int, Part, Raw]]] = {}
        for place, values in box.pieces(n_blocks):
            features = place[len(shape) :]
            for outer, first in lines(place, shape):
                line = values[outer].reshape(-1, *values.shape[len(shape) :])
                found.setdefault(str(features), []).append((first, features, line))
        for some in found.values():
            firsts, places, several = zip(*sorted(some, key=itemgetter(0)), strict=True)
            yield cls(where, places[0], list(firsts), list(several))

    def copy(self, start: int, stop: int, rows: Raw) -> None:
        """Copy samples from `start` to before `stop` to rows, (stop - start, *features).

        Few numbers at a time, so that the processor's cache holds them: the two have other orders
        in memory.
        """
        target = rows[:, *self.where][:, *self.place]
        for number in range(bisect_right(self.firsts, start) - 1, len(self.lines)):
            first, line = self.firsts[number], self.lines[number]
            if first >= stop:
                break
            step = max(1, COPIED * len(line) // max(1, line.size))
            end = min(first + len(line), stop)
            for a, b in pairwise([*range(max(first, start), end, step), end]):
                target[a - start : b - start] = line[a - first : b - first]

    def look(self, present: Raw, observed: bool) -> None:
        """Note in `present`, (m,), which samples are rows, as far as these values decide it."""
        merge = np.logical_or if observed else np.logical_and
        for first, line in zip(self.firsts, self.lines, strict=True):
            some = present[first : first + len(line)]
            merge(some, known(line, observed), out=some)


@dataclass(frozen=True)
class RunRows:
    """Rows of a run, kept in the order of the store: a slice of them turns them into rows.

    A block is turned right before a kernel takes it, from the processor's cache: to turn 2.6 GB of
    maps took 1.1 s by whole runs, 0.6 s by blocks.
    """

    features: Sequence[Features]
    sizes: tuple[int, ...]
    """Sizes of the dimensions of the features."""
    dtype: np.dtype[Any]
    present: Raw
    """Which samples of the run are rows, (m,)."""
    rows: range
    """Numbers of these rows among all of the run."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), math.prod(self.sizes)

    def __getitem__(self, rows: slice) -> Raw:
        """Return some rows, (n, d)."""
        start, stop, _ = rows.indices(len(self.rows))
        found = np.empty((stop - start, self.shape[1]), self.dtype)
        self._turn(self.rows[start:stop], found)
        return found

    def write(self, target: Raw) -> None:
        """Write the rows to (n, d) numbers, C-contiguous."""
        step = max(1, TURNED // self.shape[1])
        for start in range(0, len(target), step):
            self._turn(self.rows[start : start + step], target[start : start + step])

    def _turn(self, rows: range, target: Raw) -> None:
        found = target.reshape(len(rows), *self.sizes)
        samples = stretches(*self._stretches, rows)
        if len(samples) * len(self.features) * LEAST_STRETCH > found.size:
            self._gather(samples[0][0], samples[-1][1], found)
            return
        row = 0
        for start, stop in samples:
            self._copy(start, stop, found[row : row + stop - start])
            row += stop - start

    def _gather(self, start: int, stop: int, target: Raw) -> None:
        """Write the rows among some samples, which are copied with the samples between them."""
        step, row = max(1, TURNED // self.shape[1]), 0
        samples = np.empty((min(step, stop - start), *self.sizes), self.dtype)
        for first in range(start, stop, step):
            part = self.present[first : min(first + step, stop)]
            self._copy(first, first + len(part), samples[: len(part)])
            kept = samples[: len(part)][part]
            target[row : row + len(kept)] = kept
            row += len(kept)

    def _copy(self, start: int, stop: int, target: Raw) -> None:
        for each in self.features:
            each.copy(start, stop, target)

    @cached_property
    def _stretches(self) -> tuple[Raw, Raw]:
        edges = np.flatnonzero(np.diff(self.present, prepend=False, append=False))
        lengths = edges[1::2] - edges[::2]
        return edges[::2], np.concatenate([[0], np.cumsum(lengths)])


def stretches(starts: Raw, bounds: Raw, rows: range) -> list[tuple[int, int]]:
    """Return the samples, from the first to before the last, that are these neighboring rows.

    `starts`, (s,), has the first sample of each stretch of samples that are rows, and `bounds`,
    (s + 1,), the number of its row, and the end.

    >>> stretches(np.array([0, 4]), np.array([0, 2, 4]), range(1, 3))
    [(1, 2), (4, 5)]
    """
    first = int(np.searchsorted(bounds, rows.start, "right")) - 1
    last = int(np.searchsorted(bounds, rows.stop, "left"))
    cuts = np.clip(bounds[first : last + 1], rows.start, rows.stop)
    ahead = starts[first:last] - bounds[first:last]
    return list(zip((cuts[:-1] + ahead).tolist(), (cuts[1:] + ahead).tolist(), strict=True))


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


def parts_of(sizes: Sequence[int], heights: Sequence[int]) -> Iterator[Part]:
    """Yield the parts of features of these sizes, so high along each dimension.

    >>> list(parts_of((3,), (2,)))
    [(slice(0, 2, None),), (slice(2, 3, None),)]
    """
    for place in np.ndindex(*(-(-n // size) for n, size in zip(sizes, heights, strict=True))):
        bounds = zip(place, heights, sizes, strict=True)
        yield tuple(slice(i * size, min((i + 1) * size, n)) for i, size, n in bounds)
