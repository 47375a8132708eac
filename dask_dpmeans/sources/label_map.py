"""Labels of the rows of a cube, on the grid of its samples."""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.sources.formats.cube import CubeRows
from dask_dpmeans.sources.safety.checked_store import damage_of
from dask_dpmeans.storage.array_spec import Digests
from dask_dpmeans.storage.writer import Writer

if TYPE_CHECKING:
    import zarr

    from dask_dpmeans.sources.dataset import RowSource

MAP_SAMPLES = 2**20
"""Samples in a stored chunk of a map, about."""


def place_labels(
    cube: CubeRows, labels: "zarr.Array[Any]", label_map: "zarr.Array[Any]", places: range
) -> Digests:
    """Write the labels, (n,), of some places of a map, (*shape), along its first dimension.

    Return the digests of whole chunks, (chunk, array, byte).
    """
    answer = np.full((len(places), *cube.runs.shape[1:]), -1, np.int32)
    flat = answer.reshape(-1)
    offset = places.start * (flat.size // len(answer))
    for run in cube.runs.within(places.start, places.stop):
        start, stop = cube.runs.bounds(run)
        first, last = int(cube.starts[run]), int(cube.starts[run + 1])
        if first == last:
            continue
        part, found = flat[start - offset : stop - offset], np.asarray(labels[first:last])
        if len(found) == len(part):
            part[:] = found
        else:  # only then is the cube read again
            with damage_of(cube.store_path):
                present = cube.present(run)
            cube.check_rows(run, int(present.sum()))
            part[present] = found
    return Writer((label_map,))(places.start, (answer,))


def map_height(cube: CubeRows) -> int:
    """Return the places along the first dimension in a stored chunk of a map: whole runs."""
    runs = cube.runs
    wanted = max(1, MAP_SAMPLES * runs.shape[0] // runs.n_samples)
    if runs.axis == 0:
        wanted = max(1, wanted // runs.step) * runs.step
    return min(wanted, runs.shape[0])


def write_label_map(
    source: "RowSource", cube: CubeRows, labels: "zarr.Array[Any]", label_map: "zarr.Array[Any]"
) -> list[Digests]:
    """Write the labels, (n,), of the rows on the samples' grid, -1 where a sample is no row."""
    height, end = label_map.chunks[0], label_map.shape[0]
    parts = [range(start, min(start + height, end)) for start in range(0, end, height)]
    write = partial(place_labels, labels=labels, label_map=label_map)
    jobs = [partial(write, places=places) for places in parts]
    # Jobs of a cluster share one value: the counts of all runs travel once to each worker.
    return source.executor.run(jobs, cube.part(range(len(cube.runs))), "map")
