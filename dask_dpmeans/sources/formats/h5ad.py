"""Arrays in ``.h5ad`` files of AnnData, read in parts by h5py.

``cells.h5ad/obsm/X_pca`` is an array, or a group of CSR rows, in such a file.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from dask_dpmeans.errors import InputError, unseen
from dask_dpmeans.sources.formats.csr import PARTS, StoredCsr, lazy_csr, row_bytes_of
from dask_dpmeans.sources.lazy_modules import da
from dask_dpmeans.sources.row_array import Raw
from dask_dpmeans.storage.location import Location

SUFFIX = ".h5ad"
PIECE_BYTES = 2**24
"""Bytes of rows that are read at a time, about."""


@dataclass(frozen=True)
class H5Array:
    """An array of an ``.h5ad`` file that each task opens for itself."""

    path: str
    inner: str
    """Name of the array in the file."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __getitem__(self, part: Any) -> Raw:
        if not os.path.exists(self.path):
            raise unseen(self.path)
        with opened_h5ad(self.path, "data") as file:
            return file[self.inner][part]


def split_h5ad(place: Location) -> tuple[str, str] | None:
    """Return the path of a file and the name of an array in it; None for other paths.

    A folder whose name has the ending is no such file.

    >>> split_h5ad(Location("/data/cells.h5ad/obsm/X_pca")), split_h5ad(Location("/data/cells.h5ad"))
    (('/data/cells.h5ad', 'obsm/X_pca'), None)
    """
    before, *parts = place.url.split(f"{SUFFIX}/")
    for number, inner in enumerate(parts, 1):
        before += SUFFIX
        if inner and not Location(before, place.options).is_folder():
            return before, f"{SUFFIX}/".join(parts[number - 1 :])
        before += f"/{inner}"
    return None


def open_h5ad(place: Location, name: str) -> "da.Array":
    """Return an array of an ``.h5ad`` file, (n, d) or (n,), as a Dask array."""
    found = split_h5ad(place)
    assert found is not None
    path, inner = found
    with opened_h5ad(path, name) as file:
        if inner not in file:
            raise InputError(f"{name}: there is no {inner} in {path}")
        node = file[inner]
        kind = node.attrs.get("encoding-type", "array")
        if kind == "csc_matrix":
            raise InputError(
                f"{name}: {path}/{inner} is a csc_matrix, which is stored column by column: write it "
                "row by row, as X.tocsr() gives it"
            )
        if kind not in ("array", "csr_matrix"):
            raise InputError(
                f"{name}: {path}/{inner} is encoded as {kind!r}, and arrays and csr_matrix are read: "
                f"name one, such as {path}/obsm/X_pca"
            )
        if kind == "array":
            dense = _array(path, inner, node)
            row_bytes = dense.dtype.itemsize * max(1, *dense.shape[1:], 1)
            return da.from_array(dense, chunks=(max(1, PIECE_BYTES // row_bytes), *dense.shape[1:]))
        n, d = (int(size) for size in node.attrs["shape"])
        data, indices, indptr = (_array(path, f"{inner}/{part}", node[part]) for part in PARTS)
        rows = StoredCsr((n, d), data, indices, indptr, f"{path}/{inner}")
    return lazy_csr(rows, max(1, PIECE_BYTES // row_bytes_of(rows)))


def _array(path: str, inner: str, node: Any) -> H5Array:
    return H5Array(path, inner, node.shape, node.dtype, node.chunks or node.shape)


def opened_h5ad(path: str, name: str) -> Any:
    """Return an ``.h5ad`` file of a local disk, opened by h5py for reading."""
    try:
        import h5py  # noqa: PLC0415 (an optional package)
    except ModuleNotFoundError as error:
        raise InputError(
            f'{name}: {path} is read by h5py, which is missing: pip install "dask-dpmeans[anndata]"'
        ) from error
    if "://" in path:
        raise InputError(f"{name}: {path} must be on a local disk: copy it there")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{name}: {path} cannot be read as an .h5ad file: {error}") from error
