"""Runs of samples: the parts of a cube in which its stored chunks are read, as plain arithmetic.

Samples are numbered in C order of their dimensions.  A *slab* is the shortest run of samples that
needs no stored chunk of another slab: the height of a chunk along the first dimension in which
chunks are higher than 1, times all later dimensions::

    samples (lat, lon), chunks of 2 x 3 samples     slab 0   | 0 0 0 | 0 0 0 |
                                                             | 0 0 0 | 0 0 0 |
                                                    slab 1   | 1 1 1 | 1 1 1 |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dask_dpmeans.engine.plan import Plan, power_of_two

Starts = npt.NDArray[np.int64]
"""(runs + 1,), the number of the first row of each run, and of the end."""
MOST_READS = 1.1
"""Times that a run is read in a pass, on average, which the plan stays below if it can."""


@dataclass(frozen=True)
class Runs:
    """Runs of samples, each a box of the samples' grid."""

    shape: tuple[int, ...]
    """Shape of the samples' grid."""
    axis: int
    """The dimension that is cut; a run has one place of each dimension before it, and all of each
    after it."""
    step: int
    """Places along this dimension in a run; there are fewer in the last."""

    @property
    def _across(self) -> int:
        """Runs along the dimension that is cut."""
        return -(-self.shape[self.axis] // self.step)

    @property
    def _inner(self) -> int:
        return math.prod(self.shape[self.axis + 1 :])

    @property
    def n_samples(self) -> int:
        """Number of all samples."""
        return math.prod(self.shape)

    @property
    def most_samples(self) -> int:
        """Samples of the longest run."""
        return min(self.step, self.shape[self.axis]) * self._inner

    def __len__(self) -> int:
        """Return the number of runs.

        >>> len(Runs((2, 5, 3), 1, 2))
        6
        """
        return math.prod(self.shape[: self.axis]) * self._across

    def _part(self, number: int) -> tuple[int, slice]:
        """Return the number of the place before the cut dimension, and the part of it."""
        outer, place = divmod(number, self._across)
        stop = min((place + 1) * self.step, self.shape[self.axis])
        return outer, slice(place * self.step, stop)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first sample of a run and its end; the run after the last begins at n.

        >>> [Runs((2, 5, 3), 1, 2).bounds(number) for number in range(4)]
        [(0, 6), (6, 12), (12, 15), (15, 21)]
        """
        outer, part = self._part(number)
        first = outer * self.shape[self.axis]
        return (first + part.start) * self._inner, (first + part.stop) * self._inner

    def box(self, number: int) -> tuple[slice, ...]:
        """Return the part of each dimension that is in a run.

        >>> Runs((2, 5, 3), 1, 2).box(4)
        (slice(1, 2, None), slice(2, 4, None), slice(0, 3, None))
        """
        outer, part = self._part(number)
        places = np.unravel_index(outer, self.shape[: self.axis]) if self.axis else ()
        before = [slice(int(place), int(place) + 1) for place in places]
        return (*before, part, *(slice(0, size) for size in self.shape[self.axis + 1 :]))

    def within(self, start: int, stop: int) -> range:
        """Return the runs of some places along the first dimension, which cut no run.

        >>> Runs((2, 5, 3), 1, 2).within(1, 2), Runs((5, 3), 0, 2).within(2, 5)
        (range(3, 6), range(1, 3))
        """
        if self.axis == 0:
            return range(start // self.step, -(-stop // self.step))
        each = math.prod(self.shape[1 : self.axis]) * self._across
        return range(start * each, stop * each)

    def all_present(self) -> Starts:
        """Return the first row of each run, and the end, if each sample is a row."""
        n = len(self)
        outer, place = np.divmod(np.arange(n + 1), self._across)
        return (outer * self.shape[self.axis] + place * self.step) * self._inner


def slabs(shape: Sequence[int], chunks: Sequence[int]) -> Runs:
    """Return the slabs of a grid of samples, of this shape and stored in chunks of that shape.

    >>> slabs((6, 4), (2, 3)), slabs((6, 4), (1, 3)), slabs((6, 4), (1, 1))
    (Runs(shape=(6, 4), axis=0, step=2), Runs(shape=(6, 4), axis=1, step=3), Runs(shape=(6, 4), axis=1, step=1))
    """
    heights = [min(each) for each in zip(shape, chunks, strict=True)]
    high = [axis for axis, height in enumerate(heights) if height > 1]
    axis = high[0] if high else len(heights) - 1
    return Runs(tuple(shape), axis, max(1, heights[axis]))


def join_slabs(slab: Runs, most_samples: int) -> Runs:
    """Return runs of as many whole slabs as `most_samples` hold, at least one.

    >>> join_slabs(slabs((6, 4), (1, 3)), 3), join_slabs(slabs((6, 4), (1, 1)), 9), join_slabs(slabs((6, 4), (2, 4)), 1)
    (Runs(shape=(6, 4), axis=1, step=3), Runs(shape=(6, 4), axis=0, step=2), Runs(shape=(6, 4), axis=0, step=2))
    """
    shape, axis, step = slab.shape, slab.axis, slab.step
    step *= max(1, most_samples // slab.most_samples)
    while axis and step >= shape[axis] and 2 * math.prod(shape[axis:]) <= most_samples:
        step = most_samples // math.prod(shape[axis:])
        axis -= 1
    return Runs(shape, axis, min(step, shape[axis]))


def box_within(shape: Sequence[int], most_samples: int) -> tuple[int, ...]:
    """Return chunks of a grid, runs of samples of at most so many: all of the last dimensions.

    >>> box_within((100, 40, 30), 5000), box_within((100, 40, 30), 100)
    ((4, 40, 30), (1, 3, 30))
    """
    found: list[int] = []
    for axis, size in enumerate(shape):
        after = math.prod(shape[axis + 1 :])
        found.append(1 if most_samples < after else min(size, max(1, most_samples // after)))
        if most_samples >= after:
            return (*found, *shape[axis + 1 :])
    return tuple(found)


def common_chunks(sizes: Sequence[int], several: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the least shape that holds whole chunks of each of several arrays of these sizes.

    >>> common_chunks((10, 10), [(2, 10), (3, 5)])
    (6, 10)
    """
    heights = [math.lcm(*each) for each in zip(*several, strict=True)]
    return tuple(min(size, height) for size, height in zip(sizes, heights, strict=True))


def join_chunks(sizes: Sequence[int], heights: Sequence[int], most: int) -> tuple[int, ...]:
    """Return whole chunks of this height, joined along the last dimensions to `most` numbers.

    >>> join_chunks((4, 100), (1, 1), 50), join_chunks((4, 100), (1, 1), 200), join_chunks((4, 100), (1, 60), 9)
    ((1, 50), (2, 100), (1, 60))
    """
    found = list(heights)
    for axis in reversed(range(len(found))):
        times = max(1, most // math.prod(found))
        found[axis] = min(sizes[axis], found[axis] * times)
        if found[axis] < sizes[axis]:
            break
    return tuple(found)


def shard_floor(n_rows: int, run_rows: int, n_threads: int) -> int:
    """Return the rows, a power of two, that a shard should have at least.

    A shard's border cuts a run, which both shards then read: shards are of ten runs or more, so
    that runs are read `MOST_READS` times, but there is one for each thread.

    >>> shard_floor(10**6, 1000, 2), shard_floor(10**6, 10**5, 2)
    (16384, 262144)
    """
    wanted = math.ceil(run_rows / (MOST_READS - 1))
    return min(power_of_two(2 * wanted - 1), power_of_two(n_rows // n_threads))


def rows_read(plan: Plan, starts: Starts) -> int:
    """Return how many rows a pass reads; a run counts once for each shard that it touches.

    >>> rows_read(Plan(n_rows=100, block_rows=10, shard_blocks=5), np.array([0, 40, 60, 100]))
    120
    """
    bounds = np.array(plan.shard_bounds())
    first = np.searchsorted(starts, bounds[:, 0], "right") - 1
    last = np.searchsorted(starts, bounds[:, 1], "left")
    return int((starts[last] - starts[first]).sum())
