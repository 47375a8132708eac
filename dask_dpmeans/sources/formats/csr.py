"""CSR rows: checked, and read from stored arrays in parts."""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Int64Array, Rows, Scratch
from dask_dpmeans.sources.lazy_modules import da, dask, is_dask_array
from dask_dpmeans.sources.row_array import Raw, RawRows, RowArray

if TYPE_CHECKING:
    from distributed import Client

PARTS = ("data", "indices", "indptr")
"""Arrays of a group in the layout of anndata."""
PART_BYTES = 2**24
"""Bytes of an array that are decoded at a time, at most."""
INT32_END = 2**31
"""Bound of the numbers that fit in int32, exclusive."""


@dataclass(frozen=True)
class StoredCsr:
    """CSR rows in three stored arrays; a slice of rows reads only its own values."""

    shape: tuple[int, int]
    data: RowArray
    """(stored values,)."""
    indices: RowArray
    """(stored values,), the column of each value."""
    indptr: RowArray
    """(n + 1,), the number of the first value of each row, and of the end."""
    store_path: str
    """Path or URL of the group, for errors."""

    ndim = 2

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """The three arrays, in the order of `PARTS`."""
        return self.data, self.indices, self.indptr

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the stored values."""
        return np.dtype(self.data.dtype)

    @property
    def n_values(self) -> int:
        """Number of stored values."""
        return int(self.data.shape[0])

    @property
    def chunks(self) -> tuple[int, int]:
        """Mean number of rows in a stored chunk, and all columns."""
        values = min(self.arrays[0].chunks[0], self.n_values)
        rows = values * self.shape[0] // max(1, self.n_values)
        return max(1, min(rows, self.shape[0])), self.shape[1]

    def __getitem__(self, rows: slice) -> csr_array:
        start, stop, _ = rows.indices(self.shape[0])
        ends = np.asarray(self.indptr[start : stop + 1]).astype(np.int64)
        self._check_ends(ends, start, stop)
        first, last = int(ends[0]), int(ends[-1])
        columns, values = _read_part(self.indices, first, last), _read_part(self.data, first, last)
        return checked_csr(values, columns, ends - first, self.shape[1], self.store_path, start)

    def _check_ends(self, ends: Int64Array, start: int, stop: int) -> None:
        """Raise `InputError` for bounds of rows that do not fit the stored values."""
        check_rising(ends, self.store_path, start)
        if start == 0 and ends[0] != 0:
            begins = f"{self.store_path}/indptr begins with {ends[0]:,}"
            raise InputError(f"{begins}: it must begin with 0")
        too_many = ends[-1] > self.n_values
        too_few = stop == self.shape[0] and ends[-1] < self.n_values
        if too_many or too_few:
            raise InputError(
                f"{self.store_path}/indptr holds {ends[-1]:,} at the end of row {stop - 1:,}, but "
                f"data and indices hold {self.n_values:,} values"
            )


def stored_values(rows: Any) -> int | None:
    """Return how many values CSR rows hold; None for dense rows and Dask arrays."""
    if issparse(rows):
        return int(rows.nnz)
    if isinstance(rows, StoredCsr):
        return rows.n_values
    return None


def row_bytes_of(rows: RowArray) -> int:
    """Return the mean bytes of a row in memory as it is read; `rows` are (n, d)."""
    n_values = stored_values(rows)
    if n_values is None:
        return rows.dtype.itemsize * rows.shape[1]
    return csr_row_bytes(rows.shape, n_values, rows.dtype)


def csr_row_bytes(shape: tuple[int, ...], n_values: int, dtype: np.dtype[Any]) -> int:
    """Return the mean bytes of a CSR row in memory: its values, their columns, and its start.

    >>> csr_row_bytes((1000, 50), 10_000, np.dtype(np.float32))
    88
    >>> csr_row_bytes((10, 2**31), 10, np.dtype(np.float64))
    24
    """
    n, d = shape
    return 8 + -(-n_values // max(1, n)) * (max(4, dtype.itemsize) + index_dtype(d).itemsize)


def index_dtype(largest: int) -> np.dtype[Any]:
    """Return int32, or int64 if the largest index needs it."""
    return np.dtype(np.int32 if largest < INT32_END else np.int64)


def _read_part(array: RowArray, start: int, stop: int) -> Raw:
    """Read part of a one-dimensional array in pieces, with little memory beside the answer."""
    found = np.empty(stop - start, np.dtype(array.dtype).newbyteorder("="))
    step = max(1, PART_BYTES // found.itemsize)
    for a, b in pairwise([*range(start, stop, step), stop]):
        found[a - start : b - start] = array[a:b]
    return found


def checked_csr(
    values: Raw, columns: Raw, ends: Raw, n_columns: int, name: str, first_row: int = 0
) -> csr_array:
    """Return CSR rows, (n, d), after a check of the column numbers.

    `values` and `columns` are (m,), one entry a stored value; `ends` are (n + 1,).
    """
    if columns.size and not (columns.min() >= 0 and columns.max() < n_columns):
        place = int(np.argmax((columns < 0) | (columns >= n_columns)))
        row = first_row + int(np.searchsorted(ends, place, side="right")) - 1
        raise InputError(
            f"{name}/indices holds {columns[place]} in row {row:,}, but the columns are 0 to {n_columns - 1:,}"
        )
    if values.dtype == np.float16:  # which scipy.sparse does not know
        values = values.astype(np.float32)
    kind = index_dtype(max(n_columns, len(values)))
    columns, ends = columns.astype(kind, copy=False), ends.astype(kind, copy=False)
    return _csr_of(values, columns, ends, n_columns)


def _csr_of(values: Raw, columns: Raw, ends: Raw, n_columns: int) -> csr_array:
    """Return CSR rows of these arrays; scipy's constructor would copy small views."""
    rows = csr_array((len(ends) - 1, n_columns), dtype=values.dtype)
    rows.data, rows.indices, rows.indptr = values, columns, ends
    return rows


def check_rising(ends: Raw, name: str, first_row: int = 0) -> None:
    """Raise `InputError` for rows that end before they begin."""
    falls = np.flatnonzero(ends[1:] < ends[:-1])
    if ends[0] < 0 or falls.size:
        row = int(falls[0]) if falls.size else 0
        raise InputError(
            f"{name}/indptr says that row {first_row + row:,} has the values from {ends[row]:,} to "
            f"{ends[row + 1]:,}: its numbers must begin with 0 and never fall"
        )


def from_scipy(matrix: Any, name: str, first_row: int = 0) -> csr_array:
    """Return a sparse matrix or array of scipy as checked CSR rows, (n, d).

    CSR input is not copied.
    """
    try:
        _check_indices(matrix)  # a conversion writes numbers wherever the indices point
        rows = csr_array(matrix)
        rows.check_format(full_check=False)
    except ValueError as error:
        raise InputError(f"{name} is no valid {type(matrix).__name__}: {error}") from error
    check_rising(rows.indptr, name, first_row)
    return checked_csr(rows.data, rows.indices, rows.indptr, rows.shape[1], name, first_row)


def _check_indices(matrix: Any) -> None:
    """Raise `ValueError` for a sparse matrix or array with indices outside of its shape."""
    if matrix.format in ("csc", "bsr"):
        matrix.check_format(full_check=True)
    if matrix.format == "coo" and matrix.nnz:
        for indices, size in zip((matrix.row, matrix.col), matrix.shape, strict=True):
            if indices.min() < 0 or indices.max() >= size:
                raise ValueError(f"indices must be >= 0 and < {size}")


def csr_rows(rows: csr_array, start: int, stop: int) -> csr_array:
    """Return the rows from `start` to `stop` of (n, d) rows as views."""
    ends = rows.indptr[start : stop + 1]
    used = slice(int(ends[0]), int(ends[-1]))
    return _csr_of(rows.data[used], rows.indices[used], ends - ends[0], rows.shape[1])


def lazy_csr(rows: RawRows | RowArray, step: int) -> "da.Array":
    """Return CSR rows, (n, d), in memory or stored, as a Dask array with chunks of `step` rows."""
    n, d = rows.shape
    whole, meta = dask.delayed(rows, traverse=False), csr_array((0, d), dtype=rows.dtype)
    bounds = pairwise([*range(0, n, step), n])
    chunks = [da.from_delayed(whole[a:b], (b - a, d), rows.dtype, meta) for a, b in bounds]
    return da.concatenate(chunks)


def is_csr_dask(rows: object) -> bool:
    """Return whether rows are a Dask array with sparse chunks, by its meta."""
    return is_dask_array(rows) and issparse(da.utils.meta_from_array(rows))


def dask_csr(rows: Any) -> "da.Array":
    """Return a Dask array, (n, d), with CSR chunks."""
    if is_csr_dask(rows) and da.utils.meta_from_array(rows).format == "csr":
        return rows
    return rows.map_blocks(_any_csr, dtype=rows.dtype, meta=csr_array((0, 0), dtype=rows.dtype))


def _any_csr(chunk: Raw | csr_array) -> csr_array:
    if issparse(chunk):
        return csr_chunk(chunk)
    return csr_array(chunk)


def dask_values(rows: "da.Array", client: "Client | None") -> int:
    """Compute how many values a Dask array, (n, d), of CSR chunks stores."""
    count: Any = dask.delayed(_count_values, pure=False)
    counts = [count(chunk) for chunk in rows.to_delayed().ravel()]
    if client is None:
        return sum(dask.compute(*counts))
    return sum(client.gather(client.compute(counts)))


def _count_values(chunk: csr_array) -> int:
    return int(csr_chunk(chunk).nnz)


def csr_chunk(chunk: object, first_row: int = 0) -> csr_array:
    """Return a checked chunk, (height, d), of a Dask array of sparse chunks."""
    if not issparse(chunk):
        raise InputError(
            f"data is a Dask array of {type(chunk).__name__}, but its meta says that its chunks are sparse"
        )
    return from_scipy(chunk, "data", first_row)


def part_of(rows: RawRows, start: int, stop: int) -> RawRows:
    """Return some rows in memory, dense or CSR, without a copy."""
    if issparse(rows):
        return csr_rows(rows, start, min(stop, rows.shape[0]))
    return rows[start:stop]


def dense_rows(rows: csr_array, dtype: np.dtype[Any], scratch: Scratch) -> Rows:
    """Return CSR rows, (height, d), as dense rows; duplicates are summed in stored order."""
    out = scratch.array("dense", rows.shape, dtype)
    return rows.astype(dtype, copy=False).toarray(out=out)


def float_rows(rows: csr_array) -> csr_array:
    """Return CSR rows, (height, d), in float64, with sorted columns and without duplicates."""
    doubles = rows.astype(np.float64, copy=False)
    if doubles.has_canonical_format:
        return doubles
    tidy = doubles.copy()
    tidy.sum_duplicates()
    return tidy
