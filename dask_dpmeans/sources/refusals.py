"""Input that is not read: what it is, and what makes of it what is read."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import zarr

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.formats.csr_files import is_csr_group
from dask_dpmeans.storage.location import Location

READ = "paths of Zarr arrays, of Zarr groups of CSR rows, of .npy and .npz files, and of Parquet tables are read"
OTHER_FILES = {
    (".csv", ".csv.gz", ".txt"): ("CSV", "pandas.read_csv({path!r}).to_parquet('table.parquet')"),
    (".tsv", ".tsv.gz"): ("CSV", "pandas.read_csv({path!r}, sep='\\t').to_parquet('table.parquet')"),
    (".feather", ".arrow"): ("Arrow", "pandas.read_feather({path!r}).to_parquet('table.parquet')"),
    (".xlsx", ".xls"): ("Excel", "pandas.read_excel({path!r}).to_parquet('table.parquet')"),
    (".nc", ".nc4", ".cdf"): ("NetCDF", "xarray.open_dataset({path!r}).to_zarr('data.zarr')"),
    (".h5ad",): ("AnnData", "anndata.read_h5ad({path!r}).write_zarr('data.zarr')"),
    (".h5", ".hdf5"): ("HDF5", "dask.array.from_array(h5py.File({path!r})['NAME']).to_zarr('rows.zarr')"),
}
"""Files of other kinds, by the ends of their names: what they are, and Python that writes what is read."""
TABLES = (".parquet", ".pq")
OPENED = {
    ".npy": "numpy.load({path!r}, mmap_mode='r')",
    ".npz": "scipy.sparse.load_npz({path!r})",
    ".mtx": "scipy.io.mmread({path!r})",
}
"""Python that opens a file whose path is not taken."""


IN_MEMORY = {
    "NetCDF": "xarray.open_dataset({path!r})['NAME'].values",
    "HDF5": "h5py.File({path!r})['NAME'][:]",
}
"""Python that reads one variable of a file; of files of tables it is what is written as Parquet."""


def _opened(way: str) -> str:
    """The part of a way to write another file that reads the table."""
    return way.partition(").")[0] + ")"


def refuse_path(path: str | os.PathLike[str], model: str) -> None:
    """Refuse the path of rows where rows themselves are wanted."""
    text = os.fspath(path)
    ways = [way for end, way in OPENED.items() if text.endswith(end)]
    ways += ["pandas.read_parquet({path!r})"] if text.rstrip("/").endswith(TABLES) else []
    others = [IN_MEMORY.get(kind, _opened(way)) for ends, (kind, way) in OTHER_FILES.items() if text.endswith(ends)]
    ways += others
    opened = f"open it first, as {ways[0].format(path=text)} does" if ways else ""
    stored = (
        f"give the path to dask_dpmeans.fit({text!r}, 'run.zarr', model), to dask_dpmeans.predict('run.zarr', ...) or "
        "to the command line"
    )
    hint = " or ".join([each for each in (opened, "" if others else stored) if each]) or "open it first"
    raise InputError(f"X is a path, {text!r}, and {model} takes rows: {hint}")


def refuse_kind(data: Any, name: str) -> None:
    """Refuse what is no table of numbers, though it might be taken for one."""
    kind = type(data).__name__
    if kind == "LazyFrame":
        raise InputError(f"{name} is a LazyFrame, a query that has not run yet: pass {name}.collect()")
    if hasattr(type(data), "to_dataarray") and hasattr(type(data), "data_vars"):
        raise InputError(
            f"{name} is an xarray Dataset: pass one of its two-dimensional variables, as {name}['rows'], or its "
            f"one-dimensional ones as columns, {name}.to_dataarray('feature').T"
        )
    if isinstance(data, np.ndarray) and data.dtype.names:
        raise InputError(
            f"{name} is a structured array of the fields {', '.join(data.dtype.names)}: pass "
            f"numpy.lib.recfunctions.structured_to_unstructured({name})"
        )


def other_file(place: Location) -> str | None:
    """Say what a file is that is not read, and what makes of it what is; None where nothing is known of it."""
    path = place.url
    for ends, (kind, way) in OTHER_FILES.items():
        if path.lower().endswith(ends):
            return f"{kind} files are not read. Write what is, as {way.format(path=path)} does; {READ}"
    if not place.remote and os.path.isfile(path):
        return f"it is a file of another kind; {READ}"
    return None


def not_an_array(group: zarr.Group, path: str | None, name: str, dimensions: int) -> InputError:
    """Return the error for a Zarr group where an array is wanted: which of its arrays can be used, or be stacked."""
    members = dict(sorted(group.members(max_depth=2)))
    usable = {key: node for key, node in members.items() if _has(node, dimensions)}
    said = f"{name} is a Zarr group" if path is None else f"{name}: {path} is a Zarr group"
    if usable:
        places = [f"{name}[{key!r}]" if path is None else f"{path}/{key}" for key in usable]
        hint = f"give one of its arrays: {', '.join(places)}"
    elif any(isinstance(node, zarr.Array) for node in members.values()):
        hint = _stacked(members, path, name) if dimensions == 2 else f"it holds no numbers in {dimensions} dimension"
    else:
        hint = "it holds no arrays"
    return InputError(f"{said}, not an array: {hint}")


def _has(node: Any, dimensions: int) -> bool:
    """Whether a member of a group is an array of numbers of so many dimensions, or CSR rows."""
    if isinstance(node, zarr.Array):
        return node.ndim == dimensions and node.dtype.kind in "biuf"
    return dimensions == 2 and is_csr_group(node)


def _stacked(members: dict[str, Any], path: str | None, name: str) -> str:
    """What to do with a group that holds one column an array."""
    columns = {
        key: node
        for key, node in members.items()
        if _has(node, 1) and tuple(node.metadata.to_dict().get("dimension_names") or ()) != (key.rpartition("/")[2],)
    }
    lengths = [node.shape[0] for node in columns.values()]
    alike = [key for key, node in columns.items() if node.shape[0] == max(set(lengths), key=lengths.count)]
    if not alike:
        return "it holds no arrays of numbers in 2 dimensions"
    store = name if path is None else f"zarr.open_group({path!r}, mode='r')"
    way = f"dask.array.stack([dask.array.from_zarr({store}[name]) for name in {alike}], axis=1)"
    return (
        f"its arrays have one dimension, a column each. Stack those to use, as {way}.to_zarr('rows.zarr') does, and "
        "give rows.zarr; or pass the stacked array itself"
    )


def no_numbers(columns: Sequence[str], numbers: Sequence[str], name: str, way: str) -> InputError:
    """Return the error for a table with columns that are no numbers; `way` chooses those that are."""
    which = f"column {columns[0]!r}" if len(columns) == 1 else f"columns {', '.join(map(repr, columns))}"
    hint = f"choose the columns of numbers, as {way} does" if numbers else "no column of it holds numbers"
    return InputError(f"{name} is not an array of numbers: {which} cannot be read as such; {hint}")
