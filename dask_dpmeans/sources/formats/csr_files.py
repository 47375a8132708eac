"""CSR rows in a Zarr group or in a file of scipy, checked by their metadata."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from zipfile import ZipFile

from scipy.sparse import csr_array, load_npz

from dask_dpmeans.errors import InputError, reason_of
from dask_dpmeans.sources.formats.csr import PARTS, StoredCsr, from_scipy
from dask_dpmeans.sources.lazy_modules import checked_store, scipy_io, zarr
from dask_dpmeans.sources.resources import own_resources

ENCODINGS = ("csr_matrix", "csc_matrix")
"""Values of the attribute ``encoding-type`` of a group."""
LARGEST = 2**63
"""Bound of the numbers of rows and columns, exclusive."""
MTX_BYTES = 64
"""Bytes of memory for an entry of a Matrix Market file, as coordinates and as CSR."""


def is_csr_group(group: "zarr.Group") -> bool:
    """Return whether a Zarr group has the layout of anndata for a sparse array."""
    encoded = group.attrs.get("encoding-type") in ENCODINGS
    return encoded or all(name in group for name in PARTS)


def open_csr(
    group: "zarr.Group", path: str, name: str, member: Callable[[str], object], fill_missing: bool
) -> StoredCsr:
    """Open the CSR rows in a Zarr group; `member` opens its arrays."""
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
            f"{name}: {path} has the shape ({n}, {d}), {indptr.shape[0]:,} numbers in indptr where "
            f"{n + 1:,} belong, {indices.shape[0]:,} in indices, and {data.shape[0]:,} in data, "
            "which must be as many"
        )
    return StoredCsr((n, d), data, indices, indptr, path)


def _shape_of(group: "zarr.Group", path: str, name: str) -> tuple[int, int]:
    shape: Any = group.attrs.get("shape")
    pair = isinstance(shape, list) and len(shape) == 2
    if not pair or not all(type(size) is int and 0 <= size < LARGEST for size in shape):
        wanted = f"the attribute shape of {path} must tell rows and columns"
        raise InputError(f"{name}: {wanted}, got {shape!r}")
    return shape[0], shape[1]


def _opened_part(
    member: Callable[[str], Any], part: str, path: str, name: str, fill_missing: bool
) -> Any:
    with explained(f"{name}: there is no Zarr array at {path}/{part}"):
        array = member(part)
    if not isinstance(array, zarr.Array) or array.ndim != 1:
        raise InputError(f"{name}: {path}/{part} must be an array of one dimension")
    return checked_store.checked_array(
        checked_store.make_absolute(array), f"{name}: {path}/{part}", fill_missing=fill_missing
    )


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise `InputError` for errors of a store or a damaged file; its text begins with `what`."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {reason_of(error)}") from error


def open_npz(path: str, name: str) -> csr_array:
    """Return the CSR rows, (n, d), of a ``.npz`` file of `scipy.sparse.save_npz`."""
    with explained(f"{name}: {path} cannot be read as a .npz file of scipy.sparse"):
        with ZipFile(path) as parts:
            size = sum(part.file_size for part in parts.infolist())
            names = [part.removesuffix(".npy") for part in parts.namelist()]
        most = own_resources(None, None).memory
        if size > most:
            raise InputError(
                f"{name}: {path} holds {size:,} bytes, and is read into memory, which has "
                f"{most:,}: write it as a Zarr group in the layout of anndata, which is read in "
                "parts"
            )
        if not names:
            raise InputError(f"{name}: {path} holds no arrays")
        if "format" not in names:
            raise InputError(
                f"{name}: {path} holds no sparse rows but the arrays {', '.join(names)}: write one "
                f"as a .npy file, as numpy.save('rows.npy', numpy.load({path!r})[{names[0]!r}]) does"
            )
        matrix = load_npz(path)
    return from_scipy(matrix, name)


def open_mtx(path: str, name: str) -> csr_array:
    """Return the CSR rows, (n, d), of a Matrix Market file; symmetric ones store half."""
    with explained(f"{name}: {path} cannot be read as a Matrix Market file"):
        rows, columns, entries, *_ = scipy_io.mminfo(path)
        if MTX_BYTES * entries > own_resources(None, None).memory:
            raise InputError(
                f"{name}: {path} holds {entries:,} entries of a matrix of {rows:,} x {columns:,}, "
                "all of which are read into memory: write it as a Zarr group in the layout of "
                "anndata, which is read in parts"
            )
        matrix = scipy_io.mmread(path, spmatrix=False)
    return from_scipy(csr_array(matrix), name)
