"""Columns of numbers in Parquet tables; each task reads the row groups that it needs.

``table.parquet`` is a file or a folder of files; ``table.parquet#age,income`` are two of its
columns, in this order.
"""

import csv
import os
import re
import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dask.utils import natural_sort_key

from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources.categories import (
    CategoricalColumns,
    Categories,
    Category,
    sorted_categories,
)
from dask_dpmeans.sources.formats.csr_files import explained
from dask_dpmeans.sources.missing_values import float_dtype
from dask_dpmeans.sources.refusals import categories_of
from dask_dpmeans.storage.location import Location

AVAILABLE = find_spec("pyarrow") is not None
if AVAILABLE:
    from pyarrow import parquet, types

SUFFIXES = (".parquet", ".pq")
GLOB = re.compile(r"[*?\[]")
"""Characters of a pattern of files."""
LOOKED = 2**24
"""Numbers that are read to find usable columns for an error message, at most."""
EXACT = 2**53
"""Bound below which float64 distinguishes integers."""
PLAIN = CategoricalColumns()
"""No columns of categories."""


@dataclass(frozen=True)
class ParquetRows:
    """Columns of a table; each task opens the files for itself."""

    store_path: str
    """Path or URL of the table, for messages."""
    files: tuple[Location, ...]
    """Files of the table, or of a part of it, in the order of their rows."""
    starts: tuple[int, ...]
    """(files + 1,), the global number of the first row of each file, and of the end."""
    names: tuple[str, ...]
    """Names of the columns, in order."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    """Rows of the largest row group, and the number of columns."""
    missing: bool = False
    """Whether nulls become NaN; else they are errors."""
    categorical: CategoricalColumns = PLAIN
    """The columns of categories, all of which are known."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self.names

    @property
    def categories(self) -> Categories:
        """Categories by the number of their column."""
        return self.categorical.known or {}

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def narrowed(self, start: int, stop: int) -> "ParquetRows":
        """Return the rows with no more files than the rows from `start` to `stop` need."""
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, stop)
        starts = self.starts[first : last + 1]
        return replace(self, files=self.files[first:last], starts=starts)

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        start, stop, _ = rows.indices(self.shape[0])
        answer = np.empty((stop - start, len(self.names)), self.dtype)
        part = self.narrowed(start, stop)
        for file, (first, last) in zip(part.files, pairwise(part.starts), strict=True):
            rows_in_file = range(start - first, stop - first)
            coded = tuple(self.names[number] for number in self.categories)
            for group, columns in _row_groups(file, self.names, last - first, rows_in_file, coded):
                self._fill(answer, first + group - start, columns, start)
        if self.ndim == 2:
            return answer
        return answer[:, 0]

    def _fill(self, answer: np.ndarray[Any, Any], at: int, columns: Any, start: int) -> None:
        """Copy a row group, whose first row is row `at` of the answer."""
        first, last = max(0, at), min(len(answer), at + columns.num_rows)
        for number, name in enumerate(self.names):
            values = columns[name].slice(first - at, last - first)
            self._check(values, name, start + first)
            if number in self.categories:
                answer[first:last, number] = _codes(values, number, name, self.categorical)
            else:
                answer[first:last, number] = values.to_numpy()  # nulls become NaN

    def _check(self, values: Any, name: str, start: int) -> None:
        """Raise `InputError` for nulls and for integers that float64 does not represent."""
        if values.null_count and not self.missing:
            row = start + int(np.argmax(values.is_null().to_numpy()))
            raise InputError(
                f"data contains null at row {row:,}, column {name!r} of {self.store_path}: remove "
                "or replace such rows first, or use DPMeans with missing='observed'"
            )
        beyond = _is_inexact(values) if self.dtype.kind == "f" else np.False_
        if beyond.any():
            row = int(np.argmax(beyond))
            raise InputError(
                f"data holds the integer {values[row].as_py()} at row {start + row:,}, column "
                f"{name!r} of {self.store_path}: beyond 2**53 float64 cannot tell integers apart; "
                "subtract an offset, divide, or leave the column out"
            )


def parquet_table(path: str) -> tuple[str, tuple[str, ...] | None] | None:
    """Return the table of a path or URL, and the columns that it names; None if it is no table.

    >>> parquet_table("rows/table.parquet#age,income")
    ('rows/table.parquet', ('age', 'income'))
    >>> parquet_table("rows#1/table.parquet")
    ('rows#1/table.parquet', None)
    >>> parquet_table('table.parquet#"income, gross"')
    ('table.parquet', ('income, gross',))
    """
    if _is_table(path):
        return path, None
    table, mark, names = path.rpartition("#")
    if mark and _is_table(table):
        return table, tuple(next(csv.reader([names])))
    return None


def path_of(data: str) -> str:
    """Return a path or URL without the columns that it names."""
    table = parquet_table(data)
    return data if table is None else table[0]


def table_names(place: Location, name: str) -> tuple[str, ...]:
    """Return the names of the columns of a table, without the index of pandas."""
    check_available(place, name)
    _, schema = _footer(_files(place, name)[0], name)
    return _chosen(schema, None, place.shown, name)


def stored_schema(place: Location, name: str) -> Any:
    """Return the schema of the first file of a table, without the metadata of pandas."""
    check_available(place, name)
    _, schema = _footer(_files(place, name)[0], name)
    return schema.remove_metadata()


def stored_tables(place: Location, columns: tuple[str, ...], name: str) -> Iterator[Any]:
    """Yield columns of any type of a table, row group by row group, in the order of the rows."""
    for file in _files(place, name):
        metadata, _ = _footer(file, name)
        for _, table in _row_groups(file, columns, metadata.num_rows, range(metadata.num_rows)):
            yield table.replace_schema_metadata(None)


def check_available(place: Location, name: str) -> None:
    """Raise `InputError` if PyArrow is not there to read a table."""
    if not AVAILABLE:
        needs = "which needs pyarrow: pip install 'dask-dpmeans[parquet]'"
        raise InputError(f"{name}: {place.shown} is a Parquet table, {needs}")


def _is_table(path: str) -> bool:
    if path.rstrip("/").endswith(SUFFIXES):
        return True
    folder = "://" not in path and os.path.isdir(path)
    return folder and any(file.suffix in SUFFIXES for file in Path(path).iterdir())


def open_parquet(
    place: Location,
    columns: tuple[str, ...] | None,
    name: str,
    dimensions: int,
    missing: bool = False,
    categorical: CategoricalColumns | None = None,
) -> ParquetRows:
    """Open the columns of a table, by default all but its index, after a check of the metadata.

    With `missing`, nulls become NaN.  `categorical` says which columns are categories, if any are;
    unless they are known, these columns are read once.
    """
    path = place.shown
    check_available(place, name)
    with explained(f"{name}: there is no Parquet table at {path}"):
        files = _files(place, name)
    opened = [_footer(file, name) for file in files]
    chosen = _chosen(opened[0][1], columns, path, name)
    if dimensions == 1 and len(chosen) != 1:
        usable = _usable(files, opened)
        one = [each for each in chosen if each in usable][:1] or usable[:1]
        raise InputError(f"{name} must be one column, got {', '.join(chosen)}: {_way(path, one)}")
    kinds = [opened[0][1].field(column).type for column in chosen]
    coded = _coded_columns(chosen, kinds, categorical)
    for number, (column, kind) in enumerate(zip(chosen, kinds, strict=True)):
        if not (_is_number(kind) or number in coded):
            way = _way(path, _usable(files, opened))
            described = f"column {column!r} of {path} is of type {kind}"
            others = [
                each for each, kind in zip(chosen, kinds, strict=True) if not _is_number(kind)
            ]
            counted = f"or count such columns as {categories_of(others)}"
            raise InputError(f"{name}: {described}, no numbers: {way}, {counted}")
    for file, (_, schema) in zip(files[1:], opened[1:], strict=True):
        alike = columns is not None or set(schema.names) == set(opened[0][1].names)
        if not alike or [_type_of(schema, each) for each in chosen] != kinds:
            raise InputError(
                f"{name}: {file.shown} has other columns than {', '.join(chosen)} of "
                f"{files[0].shown}, or other types: {_way(path, _usable(files, opened))}"
            )
    starts = np.cumsum([0, *(metadata.num_rows for metadata, _ in opened)]).tolist()
    groups = [(each, group) for each, _ in opened for group in range(each.num_row_groups)]
    heights = [each.row_group(group).num_rows for each, group in groups]
    numbers = [kind.to_pandas_dtype() for n, kind in enumerate(kinds) if n not in coded]
    dtype = np.result_type(*numbers, *[np.float32] * bool(coded))
    if missing:
        dtype = float_dtype(dtype)
    read = PLAIN
    if coded and categorical is not None:
        known = categorical.known
        if known is None:
            known = {number: _categories(files, opened, chosen[number]) for number in coded}
        read = replace(categorical, known={number: known[number] for number in coded})
    width = (len(chosen),) if dimensions == 2 else ()
    shape, chunks = (starts[-1], *width), (max(heights, default=1) or 1, *width)
    return ParquetRows(
        path, tuple(files), tuple(starts), chosen, shape, dtype, chunks, missing, read
    )


def _coded_columns(
    chosen: tuple[str, ...], kinds: list[Any], categorical: CategoricalColumns | None
) -> list[int]:
    """Return the numbers of the columns whose values are categories."""
    if categorical is None:
        return []
    known = categorical.known
    if known is not None:
        return [number for number in range(len(chosen)) if number in known]
    return [
        number
        for number, (name, kind) in enumerate(zip(chosen, kinds, strict=True))
        if types.is_dictionary(kind) or (not _is_number(kind) and categorical.takes(number, name))
    ]


def _categories(
    files: list[Location], opened: list[tuple[Any, Any]], column: str
) -> tuple[Category, ...]:
    """Return the sorted categories in a column, whose row groups may have other dictionaries."""
    found: set[Any] = set()
    for file, (metadata, _) in zip(files, opened, strict=True):
        n_rows = metadata.num_rows
        for _, columns in _row_groups(file, (column,), n_rows, range(n_rows), (column,)):
            found.update(columns[column].unique().to_pylist())
    return sorted_categories(found)


def _codes(
    values: Any, number: int, name: str, categorical: CategoricalColumns
) -> npt.NDArray[np.float64]:
    """Return the codes of the values of a column, (n,), by value; NaN for nulls."""
    if not types.is_dictionary(values.type):
        values = values.dictionary_encode()
    parts = [np.empty(0)]
    for chunk in values.chunks:
        indices = chunk.indices.fill_null(-1).to_numpy()
        used = np.unique(indices[indices >= 0])
        places = np.full(len(chunk.dictionary) + 1, np.nan)  # nulls take the last
        occurring = chunk.dictionary.take(used).to_pylist()
        places[used] = categorical.places(occurring, number, name)
        parts.append(places[indices])
    return np.concatenate(parts)


def _files(place: Location, name: str) -> list[Location]:
    """Return the files of a table, in Dask's order."""
    fs, where = place.files()
    if GLOB.search(where) and not fs.exists(where):
        return _matching(place, name)
    if not fs.exists(where):
        raise InputError(f"{name}: there is no Parquet table at {place.shown}")
    if not fs.isdir(where):
        return [place]
    inside = [file[len(where.rstrip("/")) :] for file in fs.find(where) if file.endswith(SUFFIXES)]
    hidden = ("_", ".")
    seen = [path for path in inside if not any(p.startswith(hidden) for p in path.split("/"))]
    if not seen:
        raise InputError(f"{name}: {place.shown} holds no Parquet files")
    return [place / file.lstrip("/") for file in sorted(seen, key=natural_sort_key)]


def _matching(place: Location, name: str) -> list[Location]:
    """Return the files that match a pattern such as ``rows/*.parquet``, in Dask's order."""
    fs, where = place.files()
    found = [fs.unstrip_protocol(file) if place.remote else file for file in fs.glob(where)]
    if not found:
        raise InputError(f"{name}: no file matches {place.shown}")
    return [replace(place, url=file) for file in sorted(found, key=natural_sort_key)]


def _footer(file: Location, name: str) -> tuple[Any, Any]:
    """Return the metadata of a file, and its schema."""
    fs, where = file.files()
    unread = f"{name}: {file.shown} cannot be read as a Parquet file"
    with explained(unread), fs.open(where, "rb") as handle:
        opened = parquet.ParquetFile(handle)
        return opened.metadata, opened.schema_arrow


def _chosen(schema: Any, columns: tuple[str, ...] | None, path: str, name: str) -> tuple[str, ...]:
    """Return the columns to use, by default all but the index of pandas, as in Dask."""
    chosen = columns
    if chosen is None:
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        chosen = tuple(each for each in schema.names if each not in index)
    missing = [column for column in chosen if schema.names.count(column) != 1]
    if missing or not chosen:
        found = ", ".join(schema.names) or "none"
        raise InputError(f"{name}: {path} has no one column {missing}, it has {found}")
    return chosen


def _is_number(kind: Any) -> bool:
    """Return whether a column of a type can be read."""
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _type_of(schema: Any, column: str) -> Any:
    """Return the type of a column; None unless exactly one column has this name."""
    if schema.names.count(column) == 1:
        return schema.field(column).type
    return None


def _way(path: str, usable: list[str]) -> str:
    """Return how to name the usable columns of a table in a shell."""
    if not usable:
        return "no column of it holds numbers of one type alone, without nulls, in all of its files"
    named = shlex.quote(f"{path}#{','.join(usable)}")
    return f"name those to use, as {named} does"


def _usable(files: list[Location], opened: list[tuple[Any, Any]]) -> list[str]:
    """Return the columns that can be read: numbers of one type in all files, without nulls.

    Statistics in the footers tell of nulls and large integers; the first `LOOKED` numbers are read.
    """
    first = opened[0][1]
    index = (first.pandas_metadata or {}).get("index_columns", [])
    named = [each for each in first.names if each not in index and not set(each) & set(",#")]
    alike = [each for each in named if len({_type_of(schema, each) for _, schema in opened}) == 1]
    types_of = {each: _type_of(first, each) for each in alike}
    usable = [each for each, kind in types_of.items() if kind is not None and _is_number(kind)]
    for metadata, _ in opened:
        groups = map(metadata.row_group, range(metadata.num_row_groups))
        flawed = {each for group in groups for each in _flawed(group)}
        usable = [each for each in usable if each not in flawed]
    left = LOOKED
    for file, (metadata, _) in zip(files, opened, strict=True):
        n_rows = metadata.num_rows
        for _, columns in _row_groups(file, tuple(usable), n_rows, range(n_rows)):
            usable = [each for each in usable if _is_usable(columns[each])]
            left -= columns.num_rows * max(1, len(usable))
            if left < 0 or not usable:
                return usable
    return usable


def _flawed(group: Any) -> Iterator[str]:
    """Yield the columns of a row group with nulls or too large integers, by their statistics."""
    for number in range(group.num_columns):
        column = group.column(number)
        told = column.statistics
        if told is None:
            continue
        ends = [told.min, told.max] if told.has_min_max else []
        large = any(isinstance(end, int) and abs(end) > EXACT for end in ends)
        if large or (told.has_null_count and told.null_count):
            yield column.path_in_schema


def _is_usable(values: Any) -> bool:
    """Return whether all values of a column can be used."""
    if values.null_count or _is_inexact(values).any():
        return False
    return bool(np.isfinite(values.to_numpy()).all())


def _is_inexact(values: Any) -> npt.NDArray[np.bool_]:
    """Return which integers of a column, (n,), float64 does not represent; none of others."""
    if not types.is_integer(values.type):
        return np.zeros(0, np.bool_)
    numbers = values.fill_null(0).to_numpy()
    return (numbers > EXACT) | (numbers < -EXACT)


def _row_groups(
    file: Location,
    names: tuple[str, ...],
    n_rows: int,
    rows: range,
    dictionaries: tuple[str, ...] = (),
) -> Iterator[tuple[int, Any]]:
    """Yield the first row and the columns of each row group of a file that contains some rows.

    Texts in the columns `dictionaries` stay in the dictionaries of the file.
    """
    fs, where = file.files()
    with fs.open(where, "rb") as handle:
        opened = parquet.ParquetFile(
            handle, page_checksum_verification=True, read_dictionary=list(dictionaries)
        )
        if opened.metadata.num_rows != n_rows:
            raise CorruptStoreError(
                f"{file.shown} has {opened.metadata.num_rows:,} rows, it had {n_rows:,}: it has changed"
            )
        first = 0
        for number in range(opened.num_row_groups):
            height = opened.metadata.row_group(number).num_rows
            if first < rows.stop and first + height > rows.start:
                yield first, opened.read_row_group(number, columns=list(names), use_threads=False)
            first += height
