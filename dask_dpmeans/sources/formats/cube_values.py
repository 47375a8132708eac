"""The values of a cube in the order of its store, and the way from them to rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.sources.formats.cube_dataset import is_plain, open_stored
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.storage.location import Location

if TYPE_CHECKING:
    import zarr
    from xarray import Variable

COPIED = 2**16
"""Numbers that are turned into rows at a time: a part of 11 MB took 0.065 s as one, 0.036 s so."""
LEAST_STRETCH = 2**10
"""Numbers of a stretch of samples that is copied by itself, on average; a copy has a cost too."""
Part = tuple[slice, ...]
"""A part of the features: of each of their dimensions."""


@dataclass(frozen=True)
class Values:
    """The values of a variable."""

    dims: tuple[str, ...]
    read: Callable[[tuple[slice, ...]], Raw]
    """Returns a box of the values, decoded."""

    def box(self, box: dict[str, slice], order: Sequence[str]) -> Raw:
        """Return a box of the values with the dimensions in another order."""
        found = self.read(tuple(box[dim] for dim in self.dims))
        return found.transpose([self.dims.index(dim) for dim in order])


def open_values(place: Location, names: Sequence[str], fill_missing: bool) -> list[Values]:
    """Open variables; those that xarray would not change are read without it."""
    cube, arrays = open_stored(place, names, fill_missing)
    return [_values_of(cube[name].variable, arrays.get(name)) for name in names]


def _values_of(variable: "Variable", array: "zarr.Array[Any] | None") -> Values:
    dims = tuple(map(str, variable.dims))
    if array is not None and is_plain(variable, array):
        return Values(dims, lambda box: np.asarray(array[box]))
    # A transpose before the values are read makes xarray index each number by itself.
    return Values(dims, lambda box: np.asarray(variable[box].load().values))


def known(values: Raw, observed: bool) -> Raw:
    """Return which samples have all their values, or any of them by `observed`, (m,).

    `values` is (m, ...), in any order in memory.
    """
    lacks = np.logical_and if observed else np.logical_or
    features = tuple(range(1, values.ndim))
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


def copy_samples(values: Raw, target: Raw, samples: list[tuple[int, int]]) -> None:
    """Copy stretches of samples of (m, ...) values to (n, ...) rows, one after the other.

    Few at a time, so that the processor's cache holds them: the two have other orders in memory.
    """
    step, row = max(1, COPIED * len(values) // max(1, values.size)), 0
    for start, stop in samples:
        for first, last in pairwise([*range(start, stop, step), stop]):
            target[row : row + last - first] = values[first:last]
            row += last - first


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
