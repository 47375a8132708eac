"""Rows in CSR form, where most numbers are 0: checked, and read from stored arrays a stretch at a time."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import compute
from dask.delayed import delayed
from distributed import Client
from scipy.sparse import csr_array, issparse

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Int64Array, Rows, Scratch
from dask_dpmeans.sources.row_array import Raw

PARTS = ("data", "indices", "indptr")
"""Arrays of a group in the layout of anndata."""
STRETCH_BYTES = 2**24
"""Of an array, the most that is decoded at a time."""
INT32_END = 2**31
"""Numbers below this fit in int32."""


@dataclass(frozen=True)
class StoredCsr:
    """CSR rows in three arrays; a slice of rows reads only the stretch of values that belongs to it."""

    shape: tuple[int, int]
    data: Any
    """(stored values,), Zarr's or any that is sliced the same way."""
    indices: Any
    """(stored values,), the column of each."""
    indptr: Any
    """(n + 1,), where the values of each row begin, and where the last ones end."""
    store_path: str
    """Where they are, for errors."""

    ndim = 2

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """The three."""
        return self.data, self.indices, self.indptr

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values, as they are stored."""
        return np.dtype(self.data.dtype)

    @property
    def n_values(self) -> int:
        """Stored values."""
        return int(self.data.shape[0])

    @property
    def chunks(self) -> tuple[int, int]:
        """Rows and columns of a stored chunk, on average."""
        rows = min(self.data.chunks[0], self.n_values) * self.shape[0] // max(1, self.n_values)
        return max(1, min(rows, self.shape[0])), self.shape[1]

    def __getitem__(self, rows: slice) -> csr_array:
        start, stop, _ = rows.indices(self.shape[0])
        ends = np.asarray(self.indptr[start : stop + 1]).astype(np.int64)
        self._check_ends(ends, start, stop)
        first, last = int(ends[0]), int(ends[-1])
        columns, values = _stretch(self.indices, first, last), _stretch(self.data, first, last)
        return checked_csr(values, columns, ends - first, self.shape[1], self.store_path, start)

    def _check_ends(self, ends: Int64Array, start: int, stop: int) -> None:
        """Refuse bounds of rows that do not fit the values that there are."""
        check_rising(ends, self.store_path, start)
        if start == 0 and ends[0] != 0:
            raise InputError(f"{self.store_path}/indptr begins with {ends[0]:,}: it must begin with 0")
        wanted = self.n_values if stop == self.shape[0] else min(int(ends[-1]), self.n_values)
        if ends[-1] != wanted:
            raise InputError(
                f"{self.store_path}/indptr holds {ends[-1]:,} at the end of row {stop - 1:,}, but data and indices "
                f"hold {self.n_values:,} values"
            )


def stored_values(rows: Any) -> int | None:
    """How many values CSR rows hold; None where rows are dense, or Dask's."""
    if issparse(rows):
        return int(rows.nnz)
    return rows.n_values if isinstance(rows, StoredCsr) else None


def row_bytes_of(rows: Any) -> int:
    """Bytes of a row in memory as it is read, on average."""
    n_values = stored_values(rows)
    return rows.dtype.itemsize * rows.shape[1] if n_values is None else csr_row_bytes(rows.shape, n_values, rows.dtype)


def csr_row_bytes(shape: tuple[int, int], n_values: int, dtype: np.dtype[Any]) -> int:
    """Bytes of a row in memory, on average: its values, the column of each, and where it begins.

    >>> csr_row_bytes((1000, 50), 10_000, np.dtype(np.float32)), csr_row_bytes((10, 2**31), 10, np.dtype(np.float64))
    (88, 24)
    """
    n, d = shape
    return 8 + -(-n_values // max(1, n)) * (max(4, dtype.itemsize) + index_dtype(d).itemsize)


def index_dtype(largest: int) -> np.dtype[Any]:
    """The smaller type that holds indices up to a number."""
    return np.dtype(np.int32 if largest < INT32_END else np.int64)


def _stretch(array: Any, start: int, stop: int) -> Raw:
    """Part of a one-dimensional array, decoded in pieces so that no more memory than its own is needed."""
    found = np.empty(stop - start, np.dtype(array.dtype).newbyteorder("="))
    step = max(1, STRETCH_BYTES // found.itemsize)
    for a, b in pairwise([*range(start, stop, step), stop]):
        found[a - start : b - start] = array[a:b]
    return found


def checked_csr(values: Raw, columns: Raw, ends: Raw, n_columns: int, name: str, first_row: int = 0) -> csr_array:
    """Rows of these values, once their columns are among those that there are.

    Raises
    ------
    InputError
        With the array and the row.
    """
    if columns.size and not (columns.min() >= 0 and columns.max() < n_columns):
        place = int(np.argmax((columns < 0) | (columns >= n_columns)))
        row = first_row + int(np.searchsorted(ends, place, side="right")) - 1
        raise InputError(
            f"{name}/indices holds {columns[place]} in row {row:,}, where columns are 0 to {n_columns - 1:,}"
        )
    if values.dtype == np.float16:  # which scipy.sparse does not know
        values = values.astype(np.float32)
    kind = index_dtype(max(n_columns, len(values)))
    return _assembled(values, columns.astype(kind, copy=False), ends.astype(kind, copy=False), n_columns)


def _assembled(values: Raw, columns: Raw, ends: Raw, n_columns: int) -> csr_array:
    """CSR rows of these arrays, of which scipy's constructor would copy those that are a small part of others."""
    rows = csr_array((len(ends) - 1, n_columns), dtype=values.dtype)
    rows.data, rows.indices, rows.indptr = values, columns, ends
    return rows


def check_rising(ends: Raw, name: str, first_row: int = 0) -> None:
    """Refuse rows that begin after they end."""
    falls = np.flatnonzero(ends[1:] < ends[:-1])
    if ends[0] < 0 or falls.size:
        row = int(falls[0]) if falls.size else 0
        raise InputError(
            f"{name}/indptr says that the values of row {first_row + row:,} are those from {ends[row]:,} to "
            f"{ends[row + 1]:,}: its numbers must begin with 0 and never fall"
        )


def from_scipy(matrix: Any, name: str, first_row: int = 0) -> csr_array:
    """A sparse matrix or array of scipy as checked CSR rows; what is CSR already is not copied."""
    try:
        _check_indices(matrix)  # to become CSR, numbers are written wherever these say
        rows = csr_array(matrix)
        rows.check_format(full_check=False)
    except ValueError as error:
        raise InputError(f"{name} is no valid {type(matrix).__name__}: {error}") from error
    check_rising(rows.indptr, name, first_row)
    return checked_csr(rows.data, rows.indices, rows.indptr, rows.shape[1], name, first_row)


def _check_indices(matrix: Any) -> None:
    """Refuse a sparse matrix or array of which some number would lie outside."""
    if matrix.format in ("csc", "bsr"):
        matrix.check_format(full_check=True)
    if matrix.format == "coo" and matrix.nnz:
        for indices, size in zip((matrix.row, matrix.col), matrix.shape, strict=True):
            if indices.min() < 0 or indices.max() >= size:
                raise ValueError(f"indices must be >= 0 and < {size}")


def csr_rows(rows: csr_array, start: int, stop: int) -> csr_array:
    """Some of the rows, which share their values."""
    ends = rows.indptr[start : stop + 1]
    used = slice(int(ends[0]), int(ends[-1]))
    return _assembled(rows.data[used], rows.indices[used], ends - ends[0], rows.shape[1])


def lazy_csr(rows: Any, step: int) -> da.Array:
    """CSR rows, in memory or stored, as a Dask array of so many rows a chunk."""
    n, d = rows.shape
    whole, meta = delayed(rows, traverse=False), csr_array((0, d), dtype=rows.dtype)
    read: Any = delayed(_read_csr, pure=False)
    parts = [
        da.from_delayed(read(whole, a, b), (b - a, d), rows.dtype, meta) for a, b in pairwise([*range(0, n, step), n])
    ]
    return da.concatenate(parts)


def _read_csr(rows: Any, start: int, stop: int) -> Any:
    return rows[start:stop]


def is_csr_dask(rows: Any) -> bool:
    """Whether rows are a Dask array whose chunks are said to be sparse."""
    return isinstance(rows, da.Array) and issparse(meta_from_array(rows))


def dask_csr(rows: Any) -> da.Array:
    """A Dask array as one of CSR chunks."""
    if is_csr_dask(rows) and meta_from_array(rows).format == "csr":
        return rows
    return rows.map_blocks(_any_csr, dtype=rows.dtype, meta=csr_array((0, 0), dtype=rows.dtype))


def _any_csr(chunk: Any) -> csr_array:
    return csr_chunk(chunk) if issparse(chunk) else csr_array(chunk)


def dask_values(rows: da.Array, client: Client | None) -> int:
    """How many values a Dask array of CSR chunks holds, each of which is looked at."""
    count: Any = delayed(_counted, pure=False)
    counts = [count(chunk) for chunk in rows.to_delayed().ravel()]
    return sum(compute(*counts) if client is None else client.gather(client.compute(counts)))


def _counted(chunk: Any) -> int:
    return int(csr_chunk(chunk).nnz)


def csr_chunk(chunk: Any, first_row: int = 0) -> csr_array:
    """A chunk of a Dask array of sparse chunks, checked."""
    if not issparse(chunk):
        raise InputError(
            f"data is a Dask array of {type(chunk).__name__}, but its meta says that its chunks are sparse"
        )
    return from_scipy(chunk, "data", first_row)


def part_of(rows: Any, start: int, stop: int) -> Any:
    """Some of the rows of a table in memory, dense or CSR, without a copy."""
    return csr_rows(rows, start, min(stop, rows.shape[0])) if issparse(rows) else rows[start:stop]


def dense_rows(rows: csr_array, dtype: np.dtype[Any], scratch: Scratch) -> Rows:
    """CSR rows with all their numbers, duplicates summed in the order in which they are stored."""
    values: Rows = rows.astype(dtype, copy=False).toarray(out=scratch.array("dense", rows.shape, dtype))
    return values


def float_rows(rows: csr_array) -> csr_array:
    """The same rows in float64, each place once, in the order of the columns."""
    doubles = rows.astype(np.float64, copy=False)
    if doubles.has_canonical_format:
        return doubles
    tidy = doubles.copy()
    tidy.sum_duplicates()
    return tidy
