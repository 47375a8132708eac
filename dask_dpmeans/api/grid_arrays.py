"""The arrays of an output that lie on the grid of a cube: the map of labels, and coordinates."""

import json
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources import Coordinate, CubeRows, RowSource
from dask_dpmeans.sources.refusals import OUTPUT_DIMENSIONS
from dask_dpmeans.sources.safety.checked_store import damage_of
from dask_dpmeans.storage.array_spec import LABEL_MAP, Digests
from dask_dpmeans.storage.output import NewArrays
from dask_dpmeans.storage.writer import Writer

if TYPE_CHECKING:
    import zarr

MAP_SAMPLES = 2**20
"""Samples in a stored chunk of a map, about."""


def describe_grid(cube: CubeRows | None, taken: Iterable[str]) -> dict[str, Any] | None:
    """Return the grid as a manifest holds it; refuse names that the output has for its own arrays."""
    grid = None if cube is None else cube.grid
    if cube is None or grid is None:
        return None
    coords = [each.name for each in (*grid.sample_coords, *grid.feature_coords)]
    both = sorted({*coords, *grid.samples} & {*taken, LABEL_MAP, *OUTPUT_DIMENSIONS})
    if both:
        renamed = {each: f"{each}_" for each in both}
        raise InputError(
            f"a cube may not have dimensions or coordinates called {', '.join(both)}, as the output has: rename "
            f"them, as cube.rename({renamed!r}) of xarray does, also in samples"
        )
    for each in (*grid.sample_coords, *grid.feature_coords):
        own = sorted({"content", "digest"} & each.attrs.keys())
        if own:
            raise InputError(
                f"the coordinate {each.name!r} may not have the attribute {own[0]!r}, which the "
                "output has: rename it"
            )
    return {
        "samples": dict(grid.samples),
        "features": dict(grid.features),
        "variables": list(cube.variables),
        "arrays": [LABEL_MAP, *coords],
    }


def write_grid(
    new: NewArrays, source: RowSource, cube: CubeRows, labels: "zarr.Array[Any]"
) -> None:
    """Write the map of the labels, (n,), of the rows, and the coordinates of samples and features."""
    grid = cube.grid
    if grid is None:
        return
    dims = tuple(grid.samples)
    label_map = new.create_rows(LABEL_MAP, grid.shape, map_height(cube), np.int32, dims)
    new.write_digests({LABEL_MAP: label_map}, write_label_map(source, cube, labels, label_map))
    for each in grid.sample_coords:
        _write(new, each, np.asarray(each.values), each.dims)
    sizes = tuple(grid.features.values())
    for each in grid.feature_coords:
        shape = tuple(size if dim in each.dims else 1 for dim, size in grid.features.items())
        order = [each.dims.index(dim) for dim in grid.features if dim in each.dims]
        values = np.asarray(each.values).transpose(order).reshape(shape)
        spread = np.broadcast_to(values, sizes).reshape(-1)
        _write(new, each, spread, ("feature",))


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
    source: RowSource, cube: CubeRows, labels: "zarr.Array[Any]", label_map: "zarr.Array[Any]"
) -> list[Digests]:
    """Write the labels, (n,), of the rows on the samples' grid, -1 where a sample is no row."""
    height, end = label_map.chunks[0], label_map.shape[0]
    parts = [range(start, min(start + height, end)) for start in range(0, end, height)]
    write = partial(place_labels, labels=labels, label_map=label_map)
    jobs = [partial(write, places=places) for places in parts]
    # Jobs of a cluster share one value: the counts of all runs travel once to each worker.
    return source.executor.run(jobs, cube.part(range(len(cube.runs))), "map")


def _write(new: NewArrays, coord: Coordinate, values: Any, dims: tuple[str, ...]) -> None:
    """Write the values of a coordinate, (...): numbers and text as they are.

    Dates are as xarray writes them, in the unit of CF that keeps them all.
    """
    attrs = dict(coord.attrs)
    if values.dtype.kind not in "biufU":
        xarray = import_module("xarray")  # a cube has loaded it
        conventions = import_module("xarray.conventions")
        given = xarray.Variable([f"dim_{axis}" for axis in range(values.ndim)], values, attrs)
        found = conventions.encode_cf_variable(given, name=coord.name)
        values, attrs = np.asarray(found.values), dict(found.attrs)
    if values.dtype.kind not in "biuf":
        values = values.astype(str).astype(np.dtypes.StringDType())
    new.write(coord.name, values, dims, {key: _as_json(each) for key, each in attrs.items()})


def _as_json(value: object) -> Any:
    """Return an attribute as JSON holds it; as text if JSON has no such value."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        return str(value)
