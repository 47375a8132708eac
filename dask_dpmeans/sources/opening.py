"""From the input that a user gives to one array: arrays, tables, paths and URLs."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.lib.format import MAGIC_PREFIX
from scipy.sparse import csr_array, issparse, sparray, spmatrix

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError, of_store, reason_of
from dask_dpmeans.sources import refusals
from dask_dpmeans.sources.categories import CategoricalColumns
from dask_dpmeans.sources.formats import csr, csr_files
from dask_dpmeans.sources.formats.csr import StoredCsr
from dask_dpmeans.sources.formats.cube import CubePath, CubeRows
from dask_dpmeans.sources.formats.cube_opening import open_cube
from dask_dpmeans.sources.formats.h5ad import open_h5ad, split_h5ad
from dask_dpmeans.sources.formats.ome import image_hint
from dask_dpmeans.sources.formats.table_rows import TableRows
from dask_dpmeans.sources.formats.tables import open_table, parquet_below, table_path
from dask_dpmeans.sources.frames import array_of_series, frame_of, refuse_query
from dask_dpmeans.sources.lazy_modules import (
    checked_store,
    da,
    is_dask_array,
    is_zarr_array,
    is_zarr_group,
    zarr,
)
from dask_dpmeans.sources.missing_values import whole, with_nan
from dask_dpmeans.sources.row_array import Raw, RowArray
from dask_dpmeans.sources.safety.value_checks import refuse_inexact
from dask_dpmeans.sources.shards import read_rows
from dask_dpmeans.storage.location import Location

RESHAPED = (
    "reshape it to rows and columns, or, if it belongs to a cube of xarray, give the cube, and name "
    "the dimensions of its samples, as in samples=['lat', 'lon'] or --samples lat,lon"
)
"""What to do with an array of more than two dimensions."""
FILES = (".npy", ".npz", ".mtx", ".mtx.gz")
"""Endings of files that are read from local disks only."""


@dataclass(frozen=True)
class NpyFile:
    """A ``.npy`` file that each task opens for itself, memory-mapped."""

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, rows: slice) -> Raw:
        mapped: Raw = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return mapped[rows]


@dataclass(frozen=True)
class OpenedPath(os.PathLike[str]):
    """A path or URL whose array is open already, so that nothing opens it a second time."""

    path: str
    array: RowArray

    def __fspath__(self) -> str:
        return self.path


PATH_MARKS = "/\\.#"
"""Characters that tell the path of an array from the name of a column that is not there."""


@dataclass(frozen=True)
class Opener:
    """Opens one argument of a user as an array."""

    name: str
    """Name of the argument, for errors."""
    dimensions: int
    """2 for rows; 1 for weights, groups and labels."""
    fill_missing: bool = False
    """Whether a chunk that is not in a Zarr store holds the fill value."""
    storage_options: Mapping[str, Any] | None = None
    """Options of fsspec for URLs."""
    missing: bool = False
    """Whether masked entries, nulls and None become NaN; else they are errors."""
    categorical: CategoricalColumns | None = None
    """Columns of a Parquet table that are categories; None if there are none."""
    used: Sequence[int] | None = None
    """Numbers of the columns of a table that are used; None for all."""

    def open(self, data: object) -> RowArray:
        """Return the data, (n, d) or (n,), as an array with known chunks; stores are not read."""
        opened = self._array(data)
        if opened.ndim != self.dimensions:
            wanted = f"{self.dimensions} dimension{'s'[: self.dimensions - 1]}"
            way = ""
            if self.dimensions == 2 and opened.ndim > 2:
                way = f": {RESHAPED}"
            elif self.dimensions == 2 and opened.ndim == 1:
                way = ": n rows of one feature have the shape (n, 1)"
            raise InputError(f"{self.name} must have {wanted}, got shape {opened.shape}{way}")
        return opened

    def _array(self, data: object) -> RowArray:
        """Return the array of any input: of a path, a table, a cube, an array or a sparse matrix."""
        if isinstance(data, OpenedPath):
            return data.array
        if isinstance(data, CubePath) and self.dimensions == 2:
            place = Location.at(data, self.storage_options)
            return open_cube(
                data, place, self.name, fill_missing=self.fill_missing, observed=self.missing
            )
        data = unwrap(data, self.name)
        refusals.refuse_kind(data, self.name)
        refuse_query(data, self.name)
        frame = frame_of(data, self.name) if self.dimensions == 2 else None
        if frame is not None:
            data = frame.read(self.name, used=self.used)[0]
        if isinstance(data, str | os.PathLike | Location):
            if self.dimensions == 1:
                self._refuse_name(data)
            return self._at(Location.at(data, self.storage_options))
        if issparse(data):
            return self._csr(data)
        if isinstance(data, np.ma.MaskedArray) and not self.missing:
            data = whole(data)
        if isinstance(data, np.ma.MaskedArray) and not self.missing:
            raise InputError(
                f"{self.name} is a masked array: fill or drop the masked entries first, as {self.name}.filled(0) does"
            )
        if hasattr(data, "to_dask_array"):
            data = array_of_series(data, self.name)
        if is_dask_array(data):
            known = known_chunks(with_nan(data, self.name) if self.missing else data)
            if csr.is_csr_dask(data) and self.dimensions == 2:
                return csr.dask_csr(known)
            return known
        if is_zarr_group(data):
            return self._group(data, None, data.__getitem__)
        if isinstance(data, StoredCsr):
            return data
        if is_zarr_array(data):
            return self._stored(checked_store.make_absolute(data))
        return self._in_memory(data)

    def _refuse_name(self, given: object) -> None:
        """Refuse a text that is no path, and no column as the rows have no names of columns."""
        if isinstance(given, str) and not is_path(given) and not os.path.exists(given):
            raise InputError(
                f"{self.name}: there is no file or folder {given!r}, and a name of a column needs rows with "
                "names, such as a data frame"
            )

    def _csr(self, data: spmatrix | sparray) -> csr_array:
        """Open a sparse matrix or array of scipy."""
        if self.dimensions == 1:
            raise InputError(
                f"{self.name} is sparse ({type(data).__name__}): pass a dense array, as {self.name}.toarray() gives"
            )
        if data.ndim != 2:
            raise InputError(f"{self.name} must have 2 dimensions, got shape {data.shape}")
        working_dtype(data.dtype, self.name)
        return csr.from_scipy(data, self.name)

    def _at(self, place: Location) -> RowArray:
        """Open a path or URL: a Zarr array or group, a file, or columns of a table."""
        path, name = place.url, self.name
        if split_h5ad(place) is not None:
            return self._array(open_h5ad(place, name))
        if path.endswith(".h5ad") and not place.is_folder():
            raise InputError(f"{name}: give an array of the file, such as {path}/obsm/X_pca")
        if place.remote and path.endswith(FILES):
            way = "copy it there, or write it to a Zarr array"
            raise InputError(f"{name}: {path} must be on a local disk: {way}")
        if path.endswith(".npy"):
            return _open_npy(path, name)
        if path.endswith(".npz") and self.dimensions == 2:
            return csr_files.open_npz(path, name)
        if path.endswith((".mtx", ".mtx.gz")) and self.dimensions == 2:
            return csr_files.open_mtx(path, name)
        table = table_path(path)
        if table is not None:
            place, columns = replace(place, url=table[0]), table[1]
            how = self.dimensions, self.missing, self.categorical, self.used
            return open_table(place, columns, name, *how)

        node = self._node(place)
        if isinstance(node, zarr.Group):
            return self._group(node, path, lambda part: self._node(place / part))
        return self._stored(node)

    def _stored(self, array: "zarr.Array[Any]") -> RowArray:
        """Open a Zarr array of numbers, which are its values."""
        if self.dimensions == 2 or self.name == "sample_weight":
            refusals.refuse_packed(array, self.name)
        return checked_store.checked_array(array, self.name, fill_missing=self.fill_missing)

    def _node(self, place: Location) -> "zarr.Array[Any] | zarr.Group":
        """Open the Zarr array or group at a path or URL."""
        try:
            checked_store.check_metadata_size(place, self.name)
            return checked_store.open_node(place)
        except InputError:
            raise
        except Exception as error:  # of the store, or of damaged metadata
            what = f"there is no Zarr array at {place.url}"
            if of_store(error) and not isinstance(error, checked_store.FINAL):
                what = f"{place.url} does not answer"
            raise InputError(f"{self.name}: {what}: {_reason(place, error)}") from error

    def _group(
        self, group: "zarr.Group", path: str | None, member: Callable[[str], object]
    ) -> StoredCsr:
        """Open the CSR rows in a group; `path` is None if the group was given open."""
        if self.dimensions == 2 and csr_files.is_csr_group(group):
            where = path or str(group.store_path)
            return csr_files.open_csr(group, where, self.name, member, self.fill_missing)
        hint = image_hint(group, path or self.name) if self.dimensions == 2 else None
        if hint is not None:
            raise InputError(f"{self.name}: {hint}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other files in the folder
            raise refusals.not_an_array(group, path, self.name, self.dimensions)

    def _in_memory(self, data: object) -> Raw:
        """Return a NumPy array of data in memory; objects become numbers, as in scikit-learn."""
        name = self.name
        try:
            array = np.asarray(with_nan(data, name) if self.missing else data)
            if array.dtype == object:
                array = _without_unused(array, self.used)
                refuse_inexact(array, name)
                return array.astype(np.float64)
            return array
        except InputError:
            raise
        except (OverflowError, TypeError, ValueError) as error:
            if self.dimensions == 1 and name != "sample_weight":
                raise InputError(
                    f"{name} must be {_integers(name)}, got {shown_type(data)}: number the "
                    f"{name}, for example with np.unique({name}, return_inverse=True)[1]"
                ) from error
            raise InputError(f"{name} is not an array of numbers: {error}") from error


def _without_unused(objects: Raw, used: Sequence[int] | None) -> Raw:
    """Return an array of objects, (n, d) or (n,), with 0 in columns that are not used, if some are."""
    if used is None or objects.ndim != 2:
        return objects
    left = objects.copy()
    left[:, np.setdiff1d(np.arange(objects.shape[1]), used)] = 0
    return left


def _open_npy(path: str, name: str) -> NpyFile:
    """Open a ``.npy`` file of numbers; nothing in it is unpickled."""
    if not os.path.exists(path):
        raise InputError(f"{name}: {path} does not exist")
    unread = f"{name}: {path} cannot be read as a .npy file"
    with csr_files.explained(unread):
        with open(path, "rb") as file:
            begins = file.read(len(MAGIC_PREFIX)) == MAGIC_PREFIX
        if not begins:  # NumPy would advise to unpickle it
            raise InputError(f"{unread}: it does not begin as numpy.save begins it")
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            if "Python objects" not in str(error):
                raise
            array = f"numpy.load({path!r}, allow_pickle=True).astype(float)"
            raise InputError(
                f"{name}: {path} holds Python objects, no numbers: if you trust the file, "
                f"convert it, as numpy.save('numbers.npy', {array}) does"
            ) from error
    return NpyFile(path, mapped.shape, mapped.dtype)


def _reason(place: Location, error: Exception) -> str:
    """Return the reason why Zarr found nothing at a path or URL."""
    other = refusals.other_file(place) or refusals.beyond(place)
    if other is not None:
        return other
    if isinstance(error, zarr.errors.NodeNotFoundError):
        deeper = parquet_below(place)
        if deeper is not None:
            return f"its Parquet files lie in folders within: give the pattern {deeper}"
        below = refusals.arrays_below(place)
        if below is not None:
            return f"the folder has no metadata of Zarr: {below}"
        what = "has no metadata of Zarr"
        if place.remote:
            return "nothing is there" if place.is_absent() else f"the URL {what}; {refusals.READ}"
        with suppress(OSError):  # it may not be listed
            what = what if os.listdir(place.url) else "is empty"
        return f"the folder {what}; {refusals.READ}"
    return reason_of(error)


def unwrap(data: object, name: str) -> Any:
    """Return the Dask array inside an array of xarray; other data as they are.

    A `numpy.matrix` is refused, and an array in a store that this package cannot read in parts,
    such as an array of h5py: NumPy would silently read all of it.
    """
    checks.no_matrix(name, data)
    refusals.refuse_container(data, name)
    if type(data).__module__.startswith("xarray."):
        inner = getattr(data, "chunks", None) and getattr(data, "data", None)
        if is_dask_array(inner):
            return inner
        return data
    known = isinstance(data, StoredCsr | TableRows | CubeRows)
    known = known or is_dask_array(data) or is_zarr_array(data)
    attributes = ("shape", "dtype", "chunks", "__getitem__")
    if not known and all(hasattr(data, each) for each in attributes):
        kind = f"{type(data).__module__}.{type(data).__name__}"
        raise InputError(
            f"{name} is a {kind}, an array in a file, and all of it would be read: pass "
            f"dask.array.from_array({name}, chunks=...), which is read in parts, or {name}[:], "
            "which is in memory"
        )
    return data


def is_path(text: str) -> bool:
    """Return whether a text can only be a path or URL, and no name of a column."""
    return any(mark in text for mark in PATH_MARKS)


def known_chunks(array: "da.Array") -> "da.Array":
    """Return a Dask array, (n, ...), with chunks of known sizes; unknown sizes are computed."""
    unknown = any(np.isnan(size) for size in array.shape)
    if unknown:
        return array.copy().compute_chunk_sizes()
    return array


def shown_type(data: object) -> str:
    """Return the class of some data, and the type of its values if it has one."""
    kind, dtype = type(data).__name__, getattr(data, "dtype", None)
    if dtype is None:
        return kind
    return f"{kind} of {dtype}"


def working_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """Return float32 or float64, the smaller one that holds the values of `dtype` exactly."""
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        small = dtype.itemsize <= 2 or dtype == np.dtype(np.float32).newbyteorder(dtype.byteorder)
        return np.dtype(np.float32 if small else np.float64)
    ways = {
        "c": "Complex data not supported: pass real and imaginary parts as columns",
        "O": f"if every value is a number, convert it with {name}.astype(float)",
    }
    text = f"it holds text; if the text spells numbers, convert it with {name}.astype(float)"
    ways |= dict.fromkeys("SUT", text)
    ways |= {
        "M": f"count days since a date, as ({name} - numpy.datetime64('2000-01-01')) / numpy.timedelta64(1, 'D') does",
        "m": f"count days, as {name} / numpy.timedelta64(1, 'D') does",
    }
    way = ways.get(dtype.kind, "convert it to float32 or float64")
    real = "a real number of up to 64 bits"
    raise InputError(f"{name} has dtype {dtype}, which is not {real}: {way}")


def in_memory(rows: object) -> bool:
    """Return whether dense or CSR rows are in this process's memory."""
    return isinstance(rows, np.ndarray) or issparse(rows)


def lazy_array(array: RowArray, chunks: object = "auto") -> "da.Array":
    """Return an array, (n, ...), as a Dask array; CSR rows in runs of rows."""
    if is_dask_array(array):
        return array
    if csr.stored_values(array) is None:
        return da.from_array(array, chunks=chunks)
    return csr.lazy_csr(array, read_rows(array))


def open_groups(groups: object, n_rows: int) -> RowArray:
    """Return the data set of each row, (n_rows,), as an array with known chunks."""
    opened = Opener("groups", 1).open(groups)
    check_groups(opened, "groups", n_rows)
    return opened


def _integers(name: str) -> str:
    """Return what groups or labels have to be, for errors."""
    return "integers" if name == "labels" else "integers from 0 on"


def check_groups(groups: RowArray, name: str, n_rows: int) -> None:
    """Raise `InputError` unless groups are integers, (n_rows,)."""
    if groups.dtype.kind not in "biu":
        filled = "fill missing values, then " if groups.dtype.kind == "f" else ""
        raise InputError(
            f"{name} must be {_integers(name)}, got {groups.dtype}: {filled}number the {name}, for "
            f"example with np.unique({name}, return_inverse=True)[1]"
        )
    if groups.shape[0] != n_rows:
        counts = f"{checks.format_count(n_rows, 'row')}, but {checks.format_count(groups.shape[0], 'number')}"
        raise InputError(f"{name} must hold one number a row: {counts}")
