"""What the input is given as, and how it is opened: arrays, tables, paths and URLs become one array each."""

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import dask.array as da
import numpy as np
import zarr
from scipy.sparse import issparse
from zarr.errors import NodeNotFoundError

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError, of_store
from dask_dpmeans.location import Location
from dask_dpmeans.sources import guard
from dask_dpmeans.sources.csr import StoredCsr, dask_csr, from_scipy, is_csr_dask, lazy_csr, stored_values
from dask_dpmeans.sources.csr_files import is_csr_group, open_csr, open_mtx, open_npz
from dask_dpmeans.sources.names import names_of
from dask_dpmeans.sources.parquet import ParquetRows, open_parquet, parquet_table
from dask_dpmeans.sources.refusals import READ, no_numbers, not_an_array, other_file, refuse_kind
from dask_dpmeans.sources.shards import read_rows

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
        """Dimensions."""
        return len(self.shape)

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        mapped: np.ndarray[Any, Any] = np.load(self.path, mmap_mode="r", allow_pickle=False)
        return mapped[rows]


def opened_input(
    data: Any,
    name: str,
    dimensions: int,
    fill_missing: bool,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """What a user gave as a NumPy array, a Dask array with known chunks, a Zarr array or a .npy file, or None."""
    if data is None:
        return None
    data = unwrapped(data, name)
    refuse_kind(data, name)
    if isinstance(data, str | os.PathLike | Location):
        opened = _opened_place(Location.at(data, storage_options), name, dimensions, fill_missing)
    elif issparse(data):
        opened = _opened_csr(data, name, dimensions)
    elif isinstance(data, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array: fill or drop the masked entries first, as {name}.filled(0) does")
    elif hasattr(data, "to_dask_array"):
        opened = table_rows(data, name)
    elif isinstance(data, da.Array):
        known = data.copy().compute_chunk_sizes() if any(np.isnan(size) for size in data.shape) else data
        opened = dask_csr(known) if is_csr_dask(data) and dimensions == 2 else known
    elif isinstance(data, zarr.Group):
        opened = _opened_group(data, None, name, data.__getitem__, dimensions, fill_missing)
    elif isinstance(data, StoredCsr):
        opened = data
    elif isinstance(data, zarr.Array):
        opened = guard.guarded(guard.absolute(data), name, fill_missing=fill_missing)
    else:
        opened = _as_array(data, name, dimensions)
    if opened.ndim != dimensions:
        raise InputError(f"{name} must have {dimensions} dimension{'s'[: dimensions - 1]}, got shape {opened.shape}")
    return opened


def unwrapped(data: Any, name: str) -> Any:
    """What is in an array of another library, where that need not be read: the Dask array of an xarray's.

    Raises
    ------
    InputError
        A `numpy.matrix`; and an array in a store that this package cannot read in parts, as h5py's is: NumPy would read
        it whole, without a word.
    """
    checks.no_matrix(name, data)
    if type(data).__module__.startswith("xarray."):
        inner = getattr(data, "data", None) if getattr(data, "chunks", None) else None
        return inner if isinstance(inner, da.Array) else data
    known = isinstance(data, da.Array | zarr.Array | StoredCsr | ParquetRows)
    if not known and all(hasattr(data, each) for each in ("shape", "dtype", "chunks", "__getitem__")):
        kind = f"{type(data).__module__}.{type(data).__name__}"
        raise InputError(
            f"{name} is a {kind}, an array in a file, which would be read whole: pass "
            f"dask.array.from_array({name}, chunks=...), which is read in parts, or {name}[:], which is in memory"
        )
    return data


def table_rows(table: Any, name: str = "data") -> da.Array:
    """A Dask table, or a column of it, as an array with known chunks."""
    table = numeric_table(table, name)
    try:
        return table.to_dask_array(lengths=True)
    except ValueError:  # Dask before 2026.8 counts Parquet files that it reads together as one, but wants each counted
        return table.to_dask_array().compute_chunk_sizes()


def _opened_csr(data: Any, name: str, dimensions: int) -> Any:
    """Rows that a user gave as a sparse matrix or array of scipy."""
    if dimensions == 1:
        raise InputError(f"{name} is sparse ({type(data).__name__}): pass a dense array, as {name}.toarray() gives")
    if data.ndim != 2:
        raise InputError(f"{name} must have 2 dimensions, got shape {data.shape}")
    working_dtype(data.dtype, name)
    return from_scipy(data, name)


def _opened_place(place: Location, name: str, dimensions: int, fill_missing: bool) -> Any:
    """The array at a local path or a URL: a Zarr array, CSR rows in a Zarr group, a file, or columns of a table."""
    path = place.url
    if place.remote and path.endswith(FILES):
        raise InputError(f"{name}: {path} would have to be on a local disk: copy it there, or make it a Zarr array")
    if path.endswith(".npy"):
        try:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"{name}: {path} cannot be read as a .npy file: {error}") from error
        return NpyFile(path, mapped.shape, mapped.dtype)
    if path.endswith(".npz") and dimensions == 2:
        return open_npz(path, name)
    if path.endswith((".mtx", ".mtx.gz")) and dimensions == 2:
        return open_mtx(path, name)
    table = parquet_table(path)
    if table is not None:
        return open_parquet(replace(place, url=table[0]), table[1], name, dimensions)

    def member(part: str) -> Any:
        return _node(place / part, name)

    node = _node(place, name)
    if isinstance(node, zarr.Group):
        return _opened_group(node, path, name, member, dimensions, fill_missing)
    return guard.guarded(node, name, fill_missing=fill_missing)


def _node(place: Location, name: str) -> "zarr.Array[Any] | zarr.Group":
    """What Zarr has at a place."""
    try:
        guard.check_metadata_size(place, name)
        return guard.opened(place)
    except InputError:
        raise
    except Exception as error:  # of the store, or whatever is wrong with its metadata
        silent = of_store(error) and not isinstance(error, guard.FINAL)
        what = f"{place.url} does not answer" if silent else f"there is no Zarr array at {place.url}"
        raise InputError(f"{name}: {what}: {_why(place, error)}") from error


def _why(place: Location, error: Exception) -> str:
    """Why Zarr found nothing at a place."""
    other = other_file(place)
    if other is not None:
        return other
    if isinstance(error, NodeNotFoundError):
        return f"the folder has no metadata of Zarr; {READ}"
    return str(error) or type(error).__name__


def _opened_group(
    group: zarr.Group, path: str | None, name: str, member: Callable[[str], Any], dimensions: int, fill_missing: bool
) -> StoredCsr:
    """CSR rows in a group at a path, or in one that was given open."""
    if dimensions == 2 and is_csr_group(group):
        return open_csr(group, path or str(group.store_path), name, member, fill_missing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what else lies there
        raise not_an_array(group, path, name, dimensions)


def numeric_table(table: Any, name: str) -> Any:
    """Return a Dask table as one of numbers of one type: columns that pandas lets be missing, and booleans, included.

    Raises
    ------
    InputError
        Where a column holds no numbers.
    """
    if table.ndim == 1:
        return table
    kinds = [_number_type(kind) for kind in table.dtypes]
    names = list(table.columns)
    numbers = [each for each, kind in zip(names, kinds, strict=True) if kind is not None]
    if len(numbers) < len(names):
        others = [each for each in names if each not in numbers]
        raise no_numbers(others, numbers, name, f"{name}[{numbers}]")
    common = np.result_type(*(kind for kind in kinds if kind is not None)) if kinds else None
    return table if common is None or all(kind == common for kind in table.dtypes) else table.astype(common)


def _number_type(kind: Any) -> np.dtype[Any] | None:
    """The type of NumPy that holds a column of a data frame; None where that is no number."""
    held = getattr(kind, "numpy_dtype", kind)
    if not (isinstance(held, np.dtype) and held.kind in "biuf"):
        return None
    return held if held is kind else np.dtype(np.float64)  # a missing value becomes NaN, which is named


def _as_array(data: Any, name: str, dimensions: int) -> np.ndarray[Any, Any]:
    """A NumPy array of what is in this process's memory; objects become numbers, as scikit-learn has it."""
    try:
        array = np.asarray(data)
        return array.astype(np.float64) if array.dtype == object else array
    except (OverflowError, TypeError, ValueError) as error:
        if dimensions == 1 and name != "sample_weight":
            raise InputError(
                f"{name} must be integers from 0 on, got {shown_type(data)}: number the {name}, as "
                f"np.unique({name}, return_inverse=True)[1] does"
            ) from error
        raise refused_table(data, name) or InputError(f"{name} is no array of numbers: {error}") from error


def shown_type(data: Any) -> str:
    """What holds the data, and the type of its values where that is known."""
    kind = getattr(data, "dtype", None)
    return type(data).__name__ if kind is None else f"{type(data).__name__} of {kind}"


def refused_table(table: Any, name: str) -> InputError | None:
    """Return the error for a table in memory whose columns are not all numbers; None where there is none to name."""
    names = names_of(table)
    if names is None or len(set(names)) < len(names) or getattr(table, "ndim", 2) != 2:
        return None
    others = [each for each in names if not _holds_numbers(table, each)]
    numbers = [each for each in names if each not in others]
    way = f"{name}.select({numbers})" if hasattr(type(table), "column_names") else f"{name}[{numbers}]"
    return no_numbers(others, numbers, name, way) if others else None


def _holds_numbers(table: Any, column: str) -> bool:
    try:
        values = np.asarray(table[column])
        values.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return values.dtype.kind in "biufO"


def working_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """float32 or float64, whichever holds the values of `dtype` exactly."""
    if dtype.kind in "biuf" and dtype.itemsize <= 8:
        small = dtype.itemsize <= 2 or dtype == np.dtype(np.float32).newbyteorder(dtype.byteorder)
        return np.dtype(np.float32 if small else np.float64)
    ways = {
        "c": "Complex data not supported: pass real and imaginary parts as columns",
        "O": f"convert it to floats, as {name}.astype(float) does where every value is a number",
    }
    ways |= dict.fromkeys("SUT", f"it holds text, of which {name}.astype(float) makes numbers where it spells numbers")
    raise InputError(
        f"{name} has dtype {dtype}, which is not a real number of up to 64 bits: "
        f"{ways.get(dtype.kind, 'convert it to float32 or float64')}"
    )


def in_memory(rows: Any) -> bool:
    """Whether rows are in this process's memory, be they dense or CSR."""
    return isinstance(rows, np.ndarray) or issparse(rows)


def lazy_array(array: Any) -> da.Array:
    """An array as Dask's, in chunks of its own or such as are read at a time."""
    if isinstance(array, da.Array):
        return array
    return da.from_array(array) if stored_values(array) is None else lazy_csr(array, read_rows(array))


def open_groups(groups: Any, n_rows: int) -> Any:
    """The data set of each of so many rows as an array, with known chunks where it is Dask's."""
    opened = opened_input(groups, "groups", 1, False)
    check_groups(opened, "groups", n_rows)
    return opened


def check_groups(groups: Any, name: str, n_rows: int) -> None:
    if groups.dtype.kind not in "biu":
        raise InputError(
            f"{name} must be integers from 0 on, got {groups.dtype}: fill what is missing, then number the {name}, "
            f"as np.unique({name}, return_inverse=True) does"
        )
    if groups.shape[0] != n_rows:
        raise InputError(f"{name} must hold one number a row: {n_rows:,} rows, but {groups.shape[0]:,} numbers")
