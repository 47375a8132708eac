"""Opening a cube in a store: its variables, chunks and runs, from the metadata alone."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.cube_plan import common_chunks, join_chunks, join_slabs, slabs
from dask_dpmeans.sources.formats import cube_dataset
from dask_dpmeans.sources.formats.cube import CubePath, CubeRows
from dask_dpmeans.sources.formats.ome import chosen_level
from dask_dpmeans.sources.grids import VARIABLE, Grid, as_names
from dask_dpmeans.storage.location import Location

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

RUN_BYTES = 2**24
"""Bytes of a run, about, if slabs are smaller; larger slabs are runs."""
PART_BYTES = 2**22
"""Bytes of the values that are decoded at a time, about, if chunks are smaller."""


def open_cube(
    path: CubePath, place: Location, name: str, *, fill_missing: bool, observed: bool
) -> CubeRows:
    """Open a cube, whose rows are not counted yet."""
    if not place.url.endswith(cube_dataset.NETCDF):
        with cube_dataset.explained_cube(place):
            place = chosen_level(place)
    cube = cube_dataset.open_dataset(place, None, fill_missing)
    variables = _variables_of(cube, path, name)
    along, template = _template(cube, variables, path)
    grid = Grid.of(template, path.samples, path.features, name)
    grid.check_sizes(name)
    chunks = _chunks_of(cube, variables, along, template)
    of_samples = tuple(chunks[dim] for dim in grid.samples)
    runs = slabs(grid.shape, of_samples)
    dtype = template.dtype
    runs = join_slabs(runs, RUN_BYTES // max(1, dtype.itemsize * grid.n_features))
    of_features = [1 if dim == along else chunks[dim] for dim in grid.features]
    most = PART_BYTES // (dtype.itemsize * runs.most_samples)
    sizes = [1 if dim == along else size for dim, size in grid.features.items()]
    heights = join_chunks(sizes, of_features, most)
    gaps = dtype.kind == "f"
    return CubeRows(
        place,
        variables,
        along,
        tuple(grid.samples),
        dict(grid.features),
        of_samples,
        heights,
        runs,
        runs.all_present(),
        dtype,
        gaps,
        observed,
        fill_missing,
        not gaps,
        n_rows=runs.n_samples,
        grid=grid,
    )


def _variables_of(cube: "Dataset", path: CubePath, name: str) -> tuple[str, ...]:
    """Return the variables to use: those named, or all that have the dimensions named."""
    there = {str(each): values.dims for each, values in cube.data_vars.items()}
    listed = ", ".join(f"{each} ({', '.join(map(str, dims))})" for each, dims in there.items())
    chosen = as_names("variables", path.variables)
    unknown = [each for each in chosen if each not in there]
    if unknown:
        raise InputError(f"variables names {unknown[0]!r}, {name} has {listed or 'none'}")
    if not chosen:
        wanted = {*path.named_dimensions} - {VARIABLE}
        chosen = tuple(each for each, dims in there.items() if wanted <= set(dims))
        if not chosen:
            raise InputError(
                f"no variable of {name} has the dimensions {', '.join(sorted(wanted))}: it has {listed or 'none'}"
            )
    if len({frozenset(there[each]) for each in chosen}) > 1:
        listed = ", ".join(f"{each} ({', '.join(map(str, there[each]))})" for each in chosen)
        way = "variables with the same ones" if path.variables else "those to use"
        raise InputError(
            f"the variables of {name} have several dimensions, {listed}: name {way} in variables"
        )
    return chosen


def _template(
    cube: "Dataset", variables: tuple[str, ...], path: CubePath
) -> "tuple[str | None, DataArray]":
    """Return the dimension of the variables, if any, and the cube as one array, without values."""
    xarray = cube_dataset.loaded_xarray()
    first = cube[variables[0]]
    dtype = np.result_type(*(cube[each].dtype for each in variables))
    single = len(variables) == 1 and VARIABLE not in path.named_dimensions
    dims, along = first.dims, None
    coords: dict[Hashable, Any] = dict(cube[list(variables)].coords)
    if not single:
        dims, along = (VARIABLE, *first.dims), VARIABLE
        coords[VARIABLE] = np.array(variables)
    if along in as_names("samples", path.samples):
        raise InputError("samples names 'variable': variables can be features alone")
    sizes = [len(variables) if dim == along else cube.sizes[dim] for dim in dims]
    empty = np.broadcast_to(np.zeros((), dtype), sizes)
    name = first.name if single else None
    return along, xarray.DataArray(empty, coords, dims, name, first.attrs if single else None)


def _chunks_of(
    cube: "Dataset", variables: tuple[str, ...], along: str | None, template: "DataArray"
) -> dict[str, int]:
    """Return the height of the chunks along each dimension, whole for all variables."""
    dims = [dim for dim in template.dims if dim != along]
    sizes = [cube.sizes[dim] for dim in dims]
    several = []
    for name in variables:
        stored = cube[name].encoding.get("preferred_chunks") or {}
        several.append([max(1, int(stored.get(dim, 1))) for dim in dims])
    return dict(zip(map(str, dims), common_chunks(sizes, several), strict=True))
