"""Rows in Parquet tables: columns of numbers, of which each task reads the row groups that it needs.

``table.parquet`` is a file or a folder of files; ``table.parquet#age,income`` are two of its columns, in this order.
"""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from dask.utils import natural_sort_key

from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.location import Location

AVAILABLE = find_spec("pyarrow") is not None
if AVAILABLE:
    from pyarrow import parquet, types

SUFFIXES = (".parquet", ".pq")
EXACT = 2**53
"""float64 tells integers apart below this."""


@dataclass(frozen=True)
class ParquetRows:
    """Columns of a table whose files each task opens for itself."""

    store_path: str
    """Where the table is, for messages."""
    files: tuple[Location, ...]
    """Of the table, or of the part of it that is needed, in the order of their rows."""
    starts: tuple[int, ...]
    """(files + 1,), the global number of the first row of each, and of the one after the last."""
    names: tuple[str, ...]
    """Of the columns, in order."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    """Rows of the largest row group, and all columns."""

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    def narrowed(self, start: int, stop: int) -> "ParquetRows":
        """The same rows, but no more files than some of them need."""
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, stop)
        return replace(self, files=self.files[first:last], starts=self.starts[first : last + 1])

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        start, stop, _ = rows.indices(self.shape[0])
        answer = np.empty((stop - start, len(self.names)), self.dtype)
        part = self.narrowed(start, stop)
        for file, first, last in zip(part.files, part.starts[:-1], part.starts[1:], strict=True):
            for group, columns in _row_groups(file, self.names, last - first, start - first, stop - first):
                self._fill(answer, first + group - start, columns, start)
        return answer if self.ndim == 2 else answer[:, 0]

    def _fill(self, answer: np.ndarray[Any, Any], at: int, columns: Any, start: int) -> None:
        """Put a row group, whose first row is row `at` of the answer, where it belongs."""
        first, last = max(0, at), min(len(answer), at + columns.num_rows)
        for number, name in enumerate(self.names):
            values = columns[name].slice(first - at, last - first)
            self._check(values, name, start + first)
            answer[first:last, number] = values.to_numpy()

    def _check(self, values: Any, name: str, start: int) -> None:
        """Refuse values of a column, the first in row `start`, that no number of its type stands for."""
        if values.null_count:
            row = start + int(np.argmax(values.is_null().to_numpy()))
            raise InputError(
                f"data contains null at row {row:,}, column {name!r} of {self.store_path}: remove or replace such "
                "rows first"
            )
        if types.is_integer(values.type) and self.dtype.kind == "f":
            numbers = values.to_numpy()
            beyond = (numbers > EXACT) | (numbers < -EXACT)
            if beyond.any():
                row = int(np.argmax(beyond))
                raise InputError(
                    f"data holds the integer {numbers[row]} at row {start + row:,}, column {name!r} of "
                    f"{self.store_path}: beyond 2**53 float64 cannot tell integers apart; choose other columns, as "
                    "table.parquet#age,income does"
                )


def parquet_table(path: str) -> tuple[str, tuple[str, ...] | None] | None:
    """The table that a path or URL names, and the columns of it, if any are named; None where it is no table.

    >>> parquet_table("rows/table.parquet#age,income")
    ('rows/table.parquet', ('age', 'income'))
    >>> parquet_table("rows#1/table.parquet")
    ('rows#1/table.parquet', None)
    """
    if _is_table(path):
        return path, None
    table, mark, names = path.rpartition("#")
    return (table, tuple(names.split(","))) if mark and _is_table(table) else None


def path_of(data: str) -> str:
    """The path or URL itself, without the columns that it names."""
    table = parquet_table(data)
    return data if table is None else table[0]


def _is_table(path: str) -> bool:
    if path.rstrip("/").endswith(SUFFIXES):
        return True
    return "://" not in path and any(file.suffix in SUFFIXES for file in _entries(path))


def _entries(path: str) -> Iterator[Path]:
    """What lies in a folder, if it is one."""
    return Path(path).iterdir() if os.path.isdir(path) else iter(())


def open_parquet(place: Location, columns: tuple[str, ...] | None, name: str, dimensions: int) -> ParquetRows:
    """The columns of a table, by default all but its index, as far as the files' metadata tell that they can be read.

    Raises
    ------
    InputError
        What is missing, or no number.
    """
    path = place.shown
    if not AVAILABLE:
        raise InputError(f"{name}: {path} is a Parquet table, which needs pyarrow: pip install 'dask-dpmeans[parquet]'")
    try:
        files = _files(place, name)
    except InputError:
        raise
    except Exception as error:  # whatever the store says
        raise InputError(f"{name}: there is no Parquet table at {path}: {error}") from error
    opened = [_footer(file, name) for file in files]
    chosen = _chosen(opened[0][1], columns, path, name)
    if dimensions == 1 and len(chosen) != 1:
        raise InputError(f"{name} must be one column: {path}#{chosen[0]} names one of {', '.join(chosen)}")
    kinds = _types(opened[0][1], chosen, path, name)
    for file, (_, schema) in zip(files[1:], opened[1:], strict=True):
        alike = columns is not None or set(schema.names) == set(opened[0][1].names)
        if not (alike and set(chosen) <= set(schema.names) and _types(schema, chosen, path, name) == kinds):
            raise InputError(
                f"{name}: {file.shown} has not the columns {', '.join(chosen)} as {files[0].shown} has them, or has "
                f"others: name those to use, as {path}#{chosen[0]} does"
            )
    starts = np.cumsum([0, *(metadata.num_rows for metadata, _ in opened)]).tolist()
    heights = [each.row_group(group).num_rows for each, _ in opened for group in range(each.num_row_groups)]
    dtype = np.result_type(*(kind.to_pandas_dtype() for kind in kinds))
    width = (len(chosen),) if dimensions == 2 else ()
    shape, chunks = (starts[-1], *width), (max(heights, default=1) or 1, *width)
    return ParquetRows(path, tuple(files), tuple(starts), chosen, shape, dtype, chunks)


def _files(place: Location, name: str) -> list[Location]:
    """The files of a table, in the order that Dask has them."""
    fs, where = place.files()
    if not fs.exists(where):
        raise InputError(f"{name}: there is no Parquet table at {place.shown}")
    if not fs.isdir(where):
        return [place]
    inside = [file[len(where.rstrip("/")) :] for file in fs.find(where) if file.endswith(SUFFIXES)]
    seen = [file for file in inside if not any(part.startswith(("_", ".")) for part in file.split("/"))]
    if not seen:
        raise InputError(f"{name}: {place.shown} holds no Parquet files")
    return [place / file.lstrip("/") for file in sorted(seen, key=natural_sort_key)]


def _footer(file: Location, name: str) -> tuple[Any, Any]:
    """The metadata of a file, and its schema."""
    fs, where = file.files()
    try:
        with fs.open(where, "rb") as handle:
            opened = parquet.ParquetFile(handle)
            return opened.metadata, opened.schema_arrow
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: {file.shown} cannot be read as a Parquet file: {error}") from error


def _chosen(schema: Any, columns: tuple[str, ...] | None, path: str, name: str) -> tuple[str, ...]:
    """The names of the columns to use: by default all, the index of a pandas table excepted, as Dask has it."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    chosen = tuple(each for each in schema.names if each not in index) if columns is None else columns
    missing = [column for column in chosen if schema.names.count(column) != 1]
    if missing or not chosen:
        raise InputError(f"{name}: {path} has no one column {missing}, it has {', '.join(schema.names) or 'none'}")
    return chosen


def _types(schema: Any, chosen: tuple[str, ...], path: str, name: str) -> list[Any]:
    """The types of columns, all of them numbers."""
    kinds = [schema.field(column).type for column in chosen]
    for column, kind in zip(chosen, kinds, strict=True):
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            numbers = [each.name for each in schema if types.is_integer(each.type) or types.is_floating(each.type)]
            raise InputError(
                f"{name}: column {column!r} of {path} is of type {kind}, no numbers: name those to use, as "
                f"{path}#{','.join(numbers) or 'age,income'} does"
            )
    return kinds


def _row_groups(
    file: Location, names: tuple[str, ...], n_rows: int, start: int, stop: int
) -> Iterator[tuple[int, Any]]:
    """The first row and the columns of each row group of a file that holds rows from `start` to before `stop`."""
    fs, where = file.files()
    with fs.open(where, "rb") as handle:
        opened = parquet.ParquetFile(handle, page_checksum_verification=True)
        if opened.metadata.num_rows != n_rows:
            raise CorruptStoreError(
                f"{file.shown} has {opened.metadata.num_rows:,} rows, it had {n_rows:,}: it has changed"
            )
        first = 0
        for number in range(opened.num_row_groups):
            height = opened.metadata.row_group(number).num_rows
            if first < stop and first + height > start:
                yield first, opened.read_row_group(number, columns=list(names), use_threads=False)
            first += height
