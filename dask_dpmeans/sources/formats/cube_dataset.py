"""A cube in a store or a file as a Dataset of xarray, opened lazily, whose chunks are checked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from dask_dpmeans.errors import CorruptStoreError, InputError, of_store, reason_of
from dask_dpmeans.sources.formats.ome import IMAGE, level_at
from dask_dpmeans.sources.lazy_modules import checked_store, zarr
from dask_dpmeans.sources.refusals import beyond
from dask_dpmeans.storage.location import Location

if TYPE_CHECKING:
    from xarray import Dataset, Variable

NETCDF = (".nc", ".nc4", ".cdf")
"""Endings of files that xarray opens."""
CALENDARS = ("standard", "gregorian", "proleptic_gregorian")
"""Calendars whose dates NumPy has."""
DECODED = ("scale_factor", "add_offset", "_FillValue", "missing_value", "_Unsigned", "units")
"""What xarray notes of a variable that it has decoded."""


def open_dataset(place: Location, variables: Sequence[str] | None, fill_missing: bool) -> "Dataset":
    """Open a store or a file, lazily; of `variables`, or of all, without the other arrays."""
    return open_stored(place, variables, fill_missing)[0]


def open_stored(
    place: Location, variables: Sequence[str] | None, fill_missing: bool
) -> "tuple[Dataset, dict[str, zarr.Array[Any]]]":
    """Open a store or a file, lazily, and its Zarr arrays, (...), as they are stored; a file has none."""
    xarray = loaded_xarray()
    with explained_cube(place):
        if place.url.endswith(NETCDF):
            return _open_decoded(place.url), {}
        group = checked_store.open_node(place)
        if isinstance(group, zarr.Array):
            return _open_level(place, group, fill_missing)
        checked = checked_store.CheckedGroup.of(group, place.shown, variables, fill_missing)
        source = xarray.backends.ZarrStore(
            checked, mode="r", use_zarr_fill_value_as_mask=group.metadata.zarr_format == 2
        )
        cube = _open_decoded(source, decode_coords=variables is None, decode_timedelta=False)
        return cube, dict(checked.members())


def is_plain(variable: "Variable", array: "zarr.Array[Any]") -> bool:
    """Return whether a variable's values are its array's, (...): there is nothing to decode."""
    found = {name for name in DECODED if name in variable.encoding}
    fill = variable.encoding.get("_FillValue", 0)
    if found == {"_FillValue"} and array.dtype.kind == "f" and np.isnan(fill):
        found = set()  # NaN stays NaN
    return not found and variable.dtype == array.dtype and variable.shape == array.shape


def _open_level(
    place: Location, array: "zarr.Array[Any]", fill_missing: bool
) -> "tuple[Dataset, dict[str, zarr.Array[Any]]]":
    """Open a level of an image, lazily; a pixel may have the fill value."""
    found = level_at(place)
    if found is None and (
        getattr(array.metadata, "dimension_names", None) or "_ARRAY_DIMENSIONS" in array.attrs
    ):
        store, _, name = place.shown.rpartition("/")
        raise InputError(
            f"{place.shown} is one array, and a cube is a store of several: if {store} is this store, "
            f"give it, and the array among its variables, {name}; if not, write a cube with "
            "xarray.Dataset.to_zarr"
        )
    if found is None:
        raise InputError(
            f"{place.shown} is one Zarr array without names of dimensions of a cube: if it holds rows, "
            "leave samples, features and variables out; if not, write a cube with xarray.Dataset.to_zarr"
        )
    group, name, level = found
    checked = checked_store.CheckedGroup.of(
        group, place.shown.removesuffix(f"/{name}"), [name], fill_missing, level.axes
    )
    source = loaded_xarray().backends.ZarrStore(
        checked, mode="r", use_zarr_fill_value_as_mask=False
    )
    image = _open_decoded(source).rename({name: IMAGE})
    arrays = {IMAGE: dict(checked.members())[name]}
    return image.assign_coords(level.coords(image[IMAGE].shape)), arrays


def _open_decoded(source: Any, **options: Any) -> "Dataset":
    """Open a cube, lazily; dates stay numbers if their calendar is one that NumPy does not have.

    Their units and calendar stay too, so that readers with cftime see dates.
    """
    xarray = loaded_xarray()
    opened = partial(xarray.open_dataset, source, chunks=None, cache=False, **options)
    try:
        return opened(decode_times=xarray.coders.CFDatetimeCoder(use_cftime=False))
    except ValueError:
        numbers: Dataset = opened(decode_times=False)
        found = {each.attrs.get("calendar", CALENDARS[0]) for each in numbers.variables.values()}
        if found <= {*CALENDARS}:
            raise
        return numbers


@contextmanager
def explained_cube(place: Location) -> Iterator[None]:
    """Raise `InputError` for errors of a store or of xarray."""
    try:
        yield
    except (InputError, CorruptStoreError):
        raise
    except Exception as error:  # of xarray, or of damaged metadata
        reason = beyond(place)
        if reason is not None:
            raise InputError(f"data: there is no cube at {place.shown}: {reason}") from error
        what = "cannot be opened as a cube"
        if of_store(error) and not isinstance(error, checked_store.FINAL):
            what = "does not answer"
        file = place.url.endswith(NETCDF) and not place.remote
        if file and isinstance(error, OSError) and error.errno is None:
            what = "is damaged"  # h5py: other errors of a disk have a number
        reason = reason_of(error).partition("\n")[0]
        if isinstance(error, zarr.errors.NodeNotFoundError):
            reason = "it is neither a Zarr group nor a NetCDF file; leave them out if it holds rows"
        if place.url.endswith(NETCDF) and find_spec("h5netcdf") is None:
            reason += " (NetCDF 4 is read with h5netcdf: pip install 'dask-dpmeans[xarray]')"
        raise InputError(
            f"data: {place.shown} {what}, which samples, features and variables are for: {reason}"
        ) from error


def loaded_xarray() -> Any:
    """Return the package xarray, which is loaded when a cube is opened."""
    try:
        return import_module("xarray")
    except ImportError as error:
        raise InputError(
            'cubes are read by xarray, which is missing: pip install "dask-dpmeans[xarray]"'
        ) from error
