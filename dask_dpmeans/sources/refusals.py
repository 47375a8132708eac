"""Errors for input of kinds that are not read, with the code that converts it."""

import base64
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np

from dask_dpmeans.checks import list_some
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.formats.csr_files import is_csr_group
from dask_dpmeans.sources.lazy_modules import arrays, is_delayed, is_future, zarr
from dask_dpmeans.storage import array_spec
from dask_dpmeans.storage.location import Location

READ = (
    "paths of Zarr arrays, of Zarr groups of CSR rows, of .npy and .npz files, and of tables in "
    "Parquet, Arrow and CSV files are read"
)
IN_MEMORY = {
    "NetCDF": "xarray.open_dataset({path!r})['NAME'].values",
    "HDF5": "h5py.File({path!r})['NAME'][:]",
    "Zip": "zarr.open_array(zarr.storage.ZipStore({path!r}), mode='r')",
}
"""Python that reads one variable of a file; for tables it is the first part of the conversion."""
OTHER_FILES = {
    (".csv.gz",): ("Compressed CSV", "pandas.read_csv({path!r}).to_parquet('table.parquet')"),
    (".txt",): ("Text", "pandas.read_csv({path!r}).to_parquet('table.parquet')"),
    (".tsv.gz",): (
        "Compressed CSV",
        "pandas.read_csv({path!r}, sep='\\t').to_parquet('table.parquet')",
    ),
    (".xlsx", ".xls"): ("Excel", "pandas.read_excel({path!r}).to_parquet('table.parquet')"),
    (".nc", ".nc4", ".cdf"): ("NetCDF", IN_MEMORY["NetCDF"]),
    (".zip",): ("Zip", "zipfile.ZipFile({path!r}).extractall('data.zarr')"),
    (".h5ad",): ("AnnData", "anndata.read_h5ad({path!r}).write_zarr('data.zarr')"),
    (".h5", ".hdf5"): (
        "HDF5",
        "dask.array.from_array(h5py.File({path!r})['NAME']).to_zarr('rows.zarr')",
    ),
}
"""Files of other kinds, by their endings: their format, and Python that converts them."""
OPENED = {
    ".npy": "numpy.load({path!r}, mmap_mode='r')",
    ".npz": "scipy.sparse.load_npz({path!r})",
    ".mtx": "scipy.io.mmread({path!r})",
}
"""Python that opens a file, by its ending."""
TABLES = {
    (".parquet", ".pq"): "pandas.read_parquet({path!r})",
    (".feather", ".arrow", ".ipc"): "pandas.read_feather({path!r})",
    (".csv",): "pandas.read_csv({path!r})",
    (".tsv",): "pandas.read_csv({path!r}, sep='\\t')",
}
"""Python that opens a table, by its ending."""
FROM_DELAYED = "dask.array.from_delayed({}, shape={}, dtype={})"
"""Python that makes a Dask array, of a shape and a type, of a delayed object or a future."""
ROWS_UNKNOWN = "with numpy.nan for n if the number of rows is not known"
PACKED = {"scale_factor": 1, "add_offset": 0, "_FillValue": np.nan, "missing_value": np.nan}
"""Attributes by which xarray decodes an array, with the numbers that change nothing."""
OUTPUT_DIMENSIONS = frozenset({"row", "cluster", "feature", "step"})
"""Names of dimensions of outputs; the dimensions of the samples of a cube have other names."""
TIMES = ("Date", "Datetime", "Duration")
"""Types of columns of a data frame that are turned into numbers, not into categories."""
OTHER_SIGN = {("i", "true"), ("u", "false")}
"""Kinds of integers, and values of `_Unsigned` with which xarray reads them as the other kind."""


def refuse_path(path: str | os.PathLike[str], model: str) -> None:
    """Raise `InputError` for a path if an estimator needs the rows themselves."""
    text = os.fspath(path)
    ways = [way for end, way in OPENED.items() if text.endswith(end)]
    ways += [way for ends, way in TABLES.items() if text.rstrip("/").endswith(ends)]
    others = [
        IN_MEMORY.get(kind, way.partition(").")[0] + ")")  # the part that reads
        for ends, (kind, way) in OTHER_FILES.items()
        if text.endswith(ends)
    ]
    hints = [f"open it first, as {way.format(path=text)} does" for way in (ways + others)[:1]]
    if not others:
        hints.append(
            f"give the path to dask_dpmeans.fit({text!r}, 'run.zarr', model), to "
            "dask_dpmeans.predict('run.zarr', ...) or to the command line"
        )
    hint = ", or ".join(hints)
    raise InputError(f"X is a path, {text!r}, and {model} takes rows: {hint}")


def _is_lazy(data: object) -> bool:
    """Return whether data are a delayed object of Dask or a future."""
    return is_delayed(data) or is_future(data)


def refuse_lazy(data: object, name: str, *, apart: bool = False) -> None:
    """Raise `InputError` for a delayed object of Dask, a future, or a collection of them.

    The error has the code that makes one array of a list, or a list of arrays if they stay `apart`.
    """
    items: Iterable[Any] = [data]
    if isinstance(data, list | tuple):
        if name in ("X", "data"):
            _refuse_lazy_blocks(data, name, apart)
        items = data
    elif isinstance(data, np.ndarray) and data.dtype == object:
        items = data.flat
    of_each_type = {type(each): each for each in items}.values()
    lazy = [each for each in of_each_type if _is_lazy(each)]
    if not lazy:
        return
    kind = "Delayed" if is_delayed(lazy[0]) else "Future"
    if isinstance(data, np.ndarray):
        raise InputError(
            f"{name} is an array of {kind} objects, as to_delayed of Dask makes one: pass the Dask array itself"
        )
    shape = "(n, d)" if name in ("X", "data") else "(n,)"
    dtype = "int" if name == "groups" else "float"
    if not isinstance(data, list | tuple):
        way = FROM_DELAYED.format(name, shape, dtype)
        raise InputError(f"{name} is a {kind}, no array: pass {way}, {ROWS_UNKNOWN}")
    way = FROM_DELAYED.format("each", shape, dtype)
    if len(lazy) < len(of_each_type):
        then = "" if apart else f"; then pass dask.array.concatenate({name})"
        raise InputError(
            f"{name} has {kind} objects among others: make an array of each of these objects first, as "
            f"{way} does, {ROWS_UNKNOWN}{then}"
        )
    way = f"[{way} for each in {name}]"
    way = way if apart else f"dask.array.concatenate({way})"
    raise InputError(
        f"{name} is a {type(data).__name__} of {kind} objects, no array: pass {way}, {ROWS_UNKNOWN}"
    )


def _refuse_lazy_blocks(data: Sequence[Any], name: str, apart: bool) -> None:
    """Raise `InputError` for rows as lists with delayed objects or futures: blocks, or numbers."""
    inner = data[0] if data else None
    if not (isinstance(inner, list | tuple) and any(map(_is_lazy, inner))):
        return
    kind = "Delayed" if any(map(is_delayed, inner)) else "Future"
    each, way = FROM_DELAYED.format("each", "(n, d)", "float"), f"dask.compute({name})[0]"
    if kind == "Future":
        way = f"the client's gather({name})"
    if all(map(_is_lazy, inner)) and apart:
        way = f"[dask.array.concatenate([{each} for each in rows]) for rows in {name}]"
    elif all(map(_is_lazy, inner)):
        way = f"dask.array.block([[{each} for each in row] for row in {name}]), or {way} of numbers"
    raise InputError(
        f"{name} is a {type(data).__name__} of lists with {kind} objects, no array: pass {way}"
    )


def refuse_container(data: object, name: str) -> None:
    """Raise `InputError` for a collection that is no array and no table, with the code that makes one."""
    rows = name in ("X", "data")
    way, kind = None, type(data).__name__
    refuse_lazy(data, name)
    if type(data).__module__.startswith("dask.bag"):
        way = f"{name}.to_dataframe() of dicts or tuples, or numpy.array({name}.compute())"
    elif isinstance(data, dict) and not hasattr(data, "shape"):  # as a sparse matrix of keys has
        lazy = any(map(_is_lazy, data.values()))
        sets = not lazy and any(len(getattr(each, "shape", ())) == 2 for each in data.values())
        way = (
            f"pandas.DataFrame({name})" if rows and not (sets or lazy) else f"list({name}.values())"
        )
        if rows and sets:
            way += " to HDPMeans, which clusters several data sets"
    elif isinstance(data, Iterator):
        way = f"list({name})"
    elif isinstance(data, Set):
        way = "a list, since a set has no order"
    elif rows and isinstance(data, list) and data and isinstance(data[0], Mapping):
        kind, way = "list of dicts", f"pandas.DataFrame({name})"
    elif rows and isinstance(data, list | tuple) and not data:
        raise InputError(f"{name} is an empty {kind}: give at least one row")
    if way is not None:
        raise InputError(f"{name} is a {kind}, no array: pass {way}")
    if rows and isinstance(data, list) and data and isinstance(data[0], list | tuple):
        _refuse_ragged(data, name)


def _refuse_ragged(data: Sequence[Any], name: str) -> None:
    """Raise `InputError` for a list of rows of numbers that are not all of one length."""
    first = len(data[0])
    if first and isinstance(data[0][0], Sequence | np.ndarray):  # of matrices, or of text
        return
    for row, each in enumerate(data):
        if isinstance(each, list | tuple) and len(each) != first:
            raise InputError(
                f"{name} has rows of different lengths: row 0 has {first} values, row {row} has {len(each)}: "
                "give all rows the same length, with nan for values that are missing"
            )


def refuse_kind(data: object, name: str) -> None:
    """Raise `InputError` for data that look like a table of numbers, but are not one."""
    if hasattr(type(data), "to_dataarray") and hasattr(type(data), "data_vars"):
        raise InputError(
            f"{name} is an xarray Dataset: fit takes it with samples= or features=, the names of "
            f"its dimensions; or pass one of its two-dimensional variables, such as {name}['rows'], "
            f"or its one-dimensional ones as columns, {name}.to_dataarray('feature').T"
        )
    if all(hasattr(data, part) for part in ("obs", "obsm", "uns")):
        raise InputError(
            f"{name} is an AnnData: use dask_dpmeans.fit_anndata({name}, model), which writes the "
            f"clusters into it, or pass an array of the cells, such as {name}.obsm['X_pca']"
        )
    if all(hasattr(data, part) for part in ("X", "n_obs", "var")):
        raise InputError(f"{name} is the raw part of an AnnData: pass {name}.X")
    if all(hasattr(data, part) for part in ("to_memory", "backend", "format")):
        raise InputError(
            f"{name} is a matrix that anndata reads from a file: pass {name}.to_memory(), or give "
            "dask_dpmeans.fit its path, such as 'cells.h5ad/X', to read it in parts"
        )
    if isinstance(data, Mapping) and not isinstance(data, dict) and len(data):
        first = next(iter(data))
        way = f", such as {name}[{first!r}]" if hasattr(data[first], "shape") else ""
        raise InputError(
            f"{name} is a {type(data).__name__} of {list_some(data)}: pass one of its arrays{way}"
        )
    if isinstance(data, np.ndarray) and data.dtype.names:
        raise InputError(
            f"{name} is a structured array of the fields {', '.join(data.dtype.names)}: pass "
            f"numpy.lib.recfunctions.structured_to_unstructured({name})"
        )


def other_file(place: Location) -> str | None:
    """Return the reason why a file is not read, and how to convert it; None if it is unknown."""
    path = place.url
    for ends, (kind, way) in OTHER_FILES.items():
        if path.lower().endswith(ends):
            if kind == "NetCDF":
                return (
                    "NetCDF files are read as cubes: name the dimensions of the samples or of the "
                    "features, as in samples=['lat', 'lon'] or --samples lat,lon"
                )
            way = way.format(path=path)
            return f"{kind} files are not read. Convert it, as {way} does; {READ}"
    if not place.remote and os.path.isfile(path):
        return f"it is a file of another kind; {READ}"
    return None


def beyond(place: Location) -> str | None:
    """Return why there is nothing at a path: what it goes on from; None if it exists, or is a URL."""
    path = Path(place.url)
    if place.remote or path.exists():
        return None
    there = next(each for each in path.parents if each.exists())
    rest = path.relative_to(there).as_posix()
    if there.is_dir():
        return _not_in_group(there, rest)
    kind = next((kind for ends, (kind, _) in OTHER_FILES.items() if there.name.endswith(ends)), "")
    if kind == "NetCDF":
        return (
            f"{there} is a NetCDF file: give it alone, name the variable, as in variables={rest!r} or "
            f"--variables {rest}, and the dimensions of the samples, as in samples=['lat', 'lon'] or "
            "--samples lat,lon"
        )
    if there.name.endswith(tuple(end for ends in TABLES for end in ends)):
        return f"{there} is a table: name its columns as {there}#{rest}"
    return f"{there} is a file, and has no {rest!r} in it"


def _not_in_group(folder: Path, rest: str) -> str | None:
    """Return what a Zarr group or array has, without what a path asks for; None for other folders."""
    try:
        node = zarr.open(folder, mode="r")
    except Exception:  # no metadata of Zarr, or damaged ones
        return None
    if isinstance(node, zarr.Array):
        return f"{folder} is an array, and has no {rest!r} in it: give {folder}"
    found = [f"{folder}/{key}" for key in _members_of(node)]
    return f"the Zarr group {folder} has no {rest!r}: it has {list_some(found) or 'nothing'}"


def _members_of(group: "zarr.Group") -> "dict[str, zarr.Array[Any] | zarr.Group]":
    """Return the arrays and groups in a group, sorted; a run is listed without its digests."""
    members = sorted(group.members(max_depth=2))
    if arrays.MARKER not in group.attrs:
        return dict(members)
    return {key: node for key, node in members if key.partition("/")[0] != array_spec.TABLES}


def not_an_array(group: "zarr.Group", path: str | None, name: str, dimensions: int) -> InputError:
    """Return the error for a Zarr group instead of an array, with its arrays that can be used."""
    members = _members_of(group)
    usable = {key: node for key, node in members.items() if _has(node, dimensions)}
    flaw, cube, hint = "is a Zarr group, not an array", None, ""
    if dimensions == 2 and path is not None:
        dims, cube = _cube_hint(members)
        usable = {
            key: node
            for key, node in usable.items()
            if not (_dimension_names(node) and dims.issuperset(_dimension_names(node)))
        }
    if usable:
        found = [f"{path}/{key}" for key in usable]
        if path is None:
            found = [f"{name}[{key!r}]" for key in usable]
        hint = f"give one of its arrays: {', '.join(found)}"
    elif cube is None and any(isinstance(node, zarr.Array) for node in members.values()):
        hint = f"it holds no numbers in {dimensions} dimension"
        if dimensions == 2:
            hint = _stacking(members, path, name)
    elif cube is None:
        hint = "it holds no arrays"
    if cube is not None:
        hint = f"{hint}; or {cube}" if usable else cube
    subject = name if path is None else f"{name}: {path}"
    return InputError(f"{subject} {flaw}: {hint}")


def _cube_hint(
    members: "Mapping[str, zarr.Array[Any] | zarr.Group]",
) -> tuple[set[str], str | None]:
    """Return the dimensions of the cube in a group, and how to cluster it.

    None if no array of the group itself has three named dimensions.  A label map of a run is no cube.
    """
    named = {
        key: _dimension_names(node)
        for key, node in members.items()
        if "/" not in key and key != array_spec.LABEL_MAP
    }
    cubes = {
        key: dims for key, dims in named.items() if len(dims) > 2 and _has(members[key], len(dims))
    }
    if not cubes:
        return set(), None
    listed = list_some(f"{key} ({', '.join(dims)})" for key, dims in cubes.items())
    key, dims = next(iter(cubes.items()))
    return {dim for each in cubes.values() for dim in each}, (
        f"as a cube it has {listed}. Name the dimensions that are samples, and the variables, as in "
        f"--samples {','.join(dims[-2:])} --variables {key}, or samples={list(dims[-2:])}, "
        f"variables={key!r}"
    )


def refuse_packed(array: "zarr.Array[Any]", name: str) -> None:
    """Raise `InputError` for an array, (n, d) or (n,), of xarray that xarray would scale, or mask in part.

    Zarr does not: a fill value such as -9999 would be a number like any other.  Arrays without names
    of dimensions are not of xarray.  In Zarr 2, where many programs write the fill value 0 for nothing,
    it is no mark of missing values.
    """
    dims = _dimension_names(array)
    if not dims:
        return
    attributes = _attributes(array)
    scaling = {key: _number(attributes.get(key)) for key in PACKED}
    if array.metadata.zarr_format == 2:
        scaling["fill_value"] = _number(array.fill_value or None)
    stated = [
        f"{key}={value:g}" for key, value in scaling.items() if value not in (None, PACKED.get(key))
    ]
    unsigned = str(attributes.get("_Unsigned", "")).lower()
    if (array.dtype.kind, unsigned) in OTHER_SIGN:
        stated.append(f"_Unsigned={unsigned}")
    if not stated:
        return
    variable = str(array.store_path).rstrip("/").rpartition("/")[2]
    way = f"decode it, as xarray.open_zarr(STORE)[{variable!r}] does"
    if name != "sample_weight" and dims[0] not in OUTPUT_DIMENSIONS:
        way += (
            f"; or read its store as a cube, as dask_dpmeans.fit(STORE, RUN, model, samples={dims[0]!r}, "
            f"variables={variable!r}) and the options --samples {dims[0]} --variables {variable} do"
        )
    raise InputError(
        f"{name} is packed, as xarray writes arrays, with {', '.join(stated)}: its numbers as they are "
        f"stored are not its values: {way}"
    )


def _number(value: Any) -> float | None:
    """Return an attribute of CF conventions as a number; None if it is none, or NaN."""
    try:
        if isinstance(value, str):  # xarray: the bytes of a float64
            value = np.frombuffer(base64.b64decode(value), "<f8")
        number = float(np.asarray(value, np.float64).reshape(-1)[0])
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return None if np.isnan(number) else number


def _dimension_names(node: "zarr.Array[Any] | zarr.Group") -> tuple[str, ...]:
    """Return the names of the dimensions of an array, as xarray writes them; none of another member."""
    if not isinstance(node, zarr.Array):
        return ()
    names: Any = getattr(node.metadata, "dimension_names", None)
    names = names or _attributes(node).get("_ARRAY_DIMENSIONS")
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()


def _attributes(array: "zarr.Array[Any]") -> Mapping[str, Any]:
    """Return the attributes of an array; none if its metadata are damaged there."""
    found: Any = array.metadata.attributes
    return found if isinstance(found, Mapping) else {}


def arrays_below(place: Location) -> str | None:
    """Return a text that names the Zarr arrays in a folder without metadata; None if there are none."""
    if place.remote:
        return None
    found = []
    for pattern in ("*", "*/*"):
        for folder in sorted(Path(place.url).glob(pattern)):
            if _is_array(folder):
                found.append(str(folder))
    if not found:
        return None
    return f"give one of the arrays below it: {list_some(found)}"


def _is_array(folder: Path) -> bool:
    """Return whether a folder has the metadata of a Zarr array."""
    try:
        return isinstance(zarr.open(folder, mode="r"), zarr.Array)
    except Exception:  # no metadata of Zarr, or damaged ones
        return False


def _has(node: "zarr.Array[Any] | zarr.Group", dimensions: int) -> bool:
    """Return whether a member of a group holds numbers in so many dimensions, or CSR rows."""
    if isinstance(node, zarr.Array):
        return node.ndim == dimensions and node.dtype.kind in "biuf"
    return dimensions == 2 and is_csr_group(node)


def _stacking(
    members: "dict[str, zarr.Array[Any] | zarr.Group]", path: str | None, name: str
) -> str:
    """Return how to stack the arrays of a group, one a column."""
    columns = {
        key: node.shape[0]
        for key, node in members.items()
        if isinstance(node, zarr.Array) and _is_column(key, node)
    }
    if not columns:
        return "it holds no arrays of numbers in 2 dimensions"
    lengths = list(columns.values())
    usual = max(set(lengths), key=lengths.count)
    alike = [key for key, length in columns.items() if length == usual]
    store = name if path is None else f"zarr.open_group({path!r}, mode='r')"
    way = f"dask.array.stack([dask.array.from_zarr({store}[name]) for name in {alike}], axis=1)"
    return (
        "its arrays have one dimension, a column each. Stack the arrays to use, as "
        f"{way}.to_zarr('rows.zarr') does, and give rows.zarr; or pass the stacked array itself"
    )


def _is_column(key: str, node: "zarr.Array[Any]") -> bool:
    """Return whether an array holds numbers in 1 dimension, and is no coordinate of xarray."""
    if not _has(node, 1):
        return False
    dimensions: Any = node.metadata.to_dict().get("dimension_names")
    return tuple(dimensions or ()) != (key.rpartition("/")[2],)


def no_numbers(
    columns: Mapping[Any, str], numbers: Sequence[Any], name: str, way: str
) -> InputError:
    """Return the error for a table with columns that are no numbers; `way` selects the others.

    `columns` has the type of each.
    """
    noun = "column" if len(columns) == 1 else "columns"
    which = ", ".join(f"{column!r} ({kind})" for column, kind in columns.items())
    ways, kinds = [], set(columns.values())
    if numbers:
        ways.append(f"choose the columns of numbers, as {way} does")
    if "String" in kinds:
        ways.append(
            f"if text spells numbers, convert it, as {name}.astype({{column: float}}) of pandas does"
        )
    if {"Date", "Datetime", "Object"} & kinds:
        ways.append("turn dates into days since a date")
    if "Duration" in kinds:
        ways.append("turn durations into numbers, such as days")
    if {"Struct", "Object"} & kinds:
        ways.append("make a column of each field of a struct")
    others = [column for column, kind in columns.items() if kind not in (*TIMES, "Struct")]
    if others:
        ways.append(
            f"count {'it' if len(others) == 1 else 'them'} as {categories_of(others)}, or encode "
            "categories as numbers first, as sklearn.preprocessing.OneHotEncoder does"
        )
    return InputError(
        f"{name} is not an array of numbers: {noun} {which} cannot be read as numbers: {'; '.join(ways)}"
    )


def categories_of(columns: Sequence[Any]) -> str:
    """Return how to cluster columns of categories, for errors."""
    named = list_some(f"{column!r}: 'categorical'" for column in columns)
    return f"categories, with DPMeans or HDPMeans(divergence={{{named}}})"
