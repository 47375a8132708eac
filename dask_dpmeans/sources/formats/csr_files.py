"""CSR rows in a Zarr group, or in a file of scipy's: opened, and checked as far as their metadata tell."""

from collections.abc import Callable
from typing import Any
from zipfile import ZipFile

import zarr
from scipy.io import mminfo, mmread
from scipy.sparse import csr_array, load_npz

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.cluster import own_resources
from dask_dpmeans.sources.formats.csr import PARTS, StoredCsr, from_scipy
from dask_dpmeans.sources.safety import checked_store

ENCODINGS = ("csr_matrix", "csc_matrix")
"""What its attribute ``encoding-type`` may say."""
LARGEST = 2**63
"""Sizes lie below this."""
MTX_BYTES = 64
"""Of memory that an entry of a Matrix Market file may take: 16 at each of two places, as coordinates and as CSR."""


def is_csr_group(group: zarr.Group) -> bool:
    """Whether a Zarr group is laid out as anndata lays out a sparse array."""
    return group.attrs.get("encoding-type") in ENCODINGS or all(name in group for name in PARTS)


def open_csr(group: zarr.Group, path: str, name: str, member: Callable[[str], Any], fill_missing: bool) -> StoredCsr:
    """The CSR rows in a Zarr group, as far as its metadata tell that they can be read; `member` opens its arrays.

    Raises
    ------
    InputError
        What is missing or cannot be.
    """
    if group.attrs.get("encoding-type") == "csc_matrix":
        raise InputError(
            f"{name}: {path} is a csc_matrix, which is stored column by column: write it as a csr_matrix, row by row"
        )
    n, d = _shape_of(group, path, name)
    data, indices, indptr = (_opened_part(member, part, path, name, fill_missing) for part in PARTS)
    for part, array in (("indices", indices), ("indptr", indptr)):
        if array.dtype.kind not in "iu":
            raise InputError(f"{name}: {path}/{part} must hold integers, got {array.dtype}")
    if indptr.shape[0] != n + 1 or indices.shape != data.shape:
        raise InputError(
            f"{name}: {path} has the shape ({n}, {d}), {indptr.shape[0]:,} numbers in indptr where {n + 1:,} belong, "
            f"{indices.shape[0]:,} in indices, and {data.shape[0]:,} in data, which must be as many"
        )
    return StoredCsr((n, d), data, indices, indptr, path)


def _shape_of(group: zarr.Group, path: str, name: str) -> tuple[int, int]:
    shape: Any = group.attrs.get("shape")
    pair = isinstance(shape, list) and len(shape) == 2
    if not pair or any(type(size) is not int or not 0 <= size < LARGEST for size in shape):  # True is no size
        raise InputError(f"{name}: the attribute shape of {path} must tell rows and columns, got {shape!r}")
    return shape[0], shape[1]


def _opened_part(member: Callable[[str], Any], part: str, path: str, name: str, fill_missing: bool) -> Any:
    try:
        array = member(part)
    except InputError:
        raise
    except Exception as error:  # whatever is wrong with its metadata
        raise InputError(f"{name}: there is no Zarr array at {path}/{part}: {error or type(error).__name__}") from error
    if not isinstance(array, zarr.Array) or array.ndim != 1:
        raise InputError(f"{name}: {path}/{part} must be an array of one dimension")
    return checked_store.checked_array(
        checked_store.absolute(array), f"{name}: {path}/{part}", fill_missing=fill_missing
    )


def open_npz(path: str, name: str) -> csr_array:
    """The sparse array in a ``.npz`` file of `scipy.sparse.save_npz`, as CSR rows."""
    try:
        with ZipFile(path) as parts:
            size, most = sum(part.file_size for part in parts.infolist()), own_resources(None, None).memory
        matrix = None if size > most else load_npz(path)
    except Exception as error:  # whatever is wrong with it
        raise InputError(f"{name}: {path} cannot be read as a .npz file of scipy.sparse: {error}") from error
    if matrix is None:
        raise InputError(
            f"{name}: {path} holds {size:,} bytes, and is read into memory whole, which has {most:,}: write it as a "
            "Zarr group in the layout of anndata, which is read in parts"
        )
    return from_scipy(matrix, name)


def open_mtx(path: str, name: str) -> csr_array:
    """The sparse matrix in a Matrix Market file, as CSR rows; symmetric ones are stored by half."""
    try:
        rows, columns, entries, *_ = mminfo(path)
        matrix = None if MTX_BYTES * entries > own_resources(None, None).memory else mmread(path, spmatrix=False)
    except Exception as error:  # whatever is wrong with it
        raise InputError(f"{name}: {path} cannot be read as a Matrix Market file: {error}") from error
    if matrix is None:
        raise InputError(
            f"{name}: {path} holds {entries:,} entries of a matrix of {rows:,} x {columns:,}, and is read into memory "
            "whole: write it as a Zarr group in the layout of anndata, which is read in parts"
        )
    return from_scipy(csr_array(matrix), name)
