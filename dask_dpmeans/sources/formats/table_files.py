"""Files of a table: parts of them, whose rows a task reads group by group.

A part is a Parquet file, an Arrow (Feather) file, or a block of a CSV file.  A group is a row group, a
record batch, or the block.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from dask_dpmeans.errors import CorruptStoreError, InputError
from dask_dpmeans.sources.formats.csr_files import explained
from dask_dpmeans.sources.lazy_modules import parquet, pyarrow
from dask_dpmeans.storage.location import Location

AVAILABLE = find_spec("pyarrow") is not None

EXACT = 2**53
"""Bound below which float64 distinguishes integers."""


@dataclass(frozen=True)
class TablePart(ABC):
    """Rows of a table that one task can read apart from others."""

    file: Location
    heights: tuple[int, ...]
    """Number of rows of each group."""

    @abstractmethod
    def groups(
        self, names: tuple[str, ...], rows: range, dictionaries: tuple[str, ...] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield the first row and the columns of each group that contains some rows of the part.

        Texts in the columns `dictionaries` may stay in the dictionaries of the file.
        """

    def check_height(self, n_rows: int) -> None:
        """Raise `CorruptStoreError` if there are not as many rows as when the part was opened."""
        expected = sum(self.heights)
        if n_rows != expected:
            found = f"{n_rows:,} rows" if n_rows >= 0 else "other record batches"
            raise CorruptStoreError(
                f"{self.file.shown} has {found}, it had {expected:,}: it has changed"
            )


@dataclass(frozen=True)
class TableFile:
    """A file of a table that was opened."""

    location: Location
    schema: Any
    """Schema of Arrow of its columns; of a CSV file, of those that are used."""
    index: tuple[str, ...]
    """Columns that are the index of pandas."""
    parts: Sequence[TablePart]

    def flawed(self) -> set[str]:
        """Return columns with nulls or too large integers, as far as statistics tell of them."""
        if not any(isinstance(part, ParquetPart) for part in self.parts):
            return set()
        with _parquet_file(self.location) as opened:
            groups = map(opened.metadata.row_group, range(opened.num_row_groups))
            return {column for group in groups for column in _flawed_columns(group)}


def check_columns(
    wanted: Sequence[str], names: Sequence[str], index: Sequence[str], path: str, name: str
) -> None:
    """Raise `InputError` for columns that a table lacks, or has twice, or if it has none at all."""
    missing = [column for column in wanted if column not in names]
    usable = [each for each in names if each not in index]
    if missing or not usable:
        lacking = ", ".join(map(repr, missing)) or "to use"
        raise InputError(
            f"{name}: {path} has no column {lacking}: its columns are {', '.join(usable) or 'none'}"
        )
    twice = [column for column in dict.fromkeys(wanted) if names.count(column) > 1]
    if twice:
        repeated = ", ".join(map(repr, twice))
        raise InputError(
            f"{name}: more than one column of {path} is called {repeated}: rename these"
        )


class ParquetPart(TablePart):
    """A Parquet file."""

    def groups(
        self, names: tuple[str, ...], rows: range, dictionaries: tuple[str, ...] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield the row groups that contain some rows, as `TablePart` says."""
        with _parquet_file(self.file, read_dictionary=list(dictionaries)) as opened:
            self.check_height(opened.metadata.num_rows)
            for number, first in _overlapping(self.heights, rows):
                yield first, opened.read_row_group(number, columns=list(names), use_threads=False)


class ArrowPart(TablePart):
    """An Arrow file, which is a Feather file of version 2."""

    def groups(
        self, names: tuple[str, ...], rows: range, dictionaries: tuple[str, ...] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield the record batches that contain some rows, as `TablePart` says."""
        with _arrow_file(self.file, names) as opened:
            if opened.num_record_batches != len(self.heights):
                self.check_height(-1)
            for number, first in _overlapping(self.heights, rows):
                batch = opened.get_batch(number)
                if batch.num_rows != self.heights[number]:
                    self.check_height(sum(self.heights) - self.heights[number] + batch.num_rows)
                yield first, pyarrow.Table.from_batches([batch]).select(list(names))


def _overlapping(heights: Sequence[int], rows: range) -> Iterator[tuple[int, int]]:
    """Yield the number and the first row of the groups that contain some rows.

    >>> list(_overlapping([2, 3, 4], range(1, 5)))
    [(0, 0), (1, 2)]
    """
    first = 0
    for number, height in enumerate(heights):
        if first < rows.stop and first + height > rows.start:
            yield number, first
        first += height


@contextmanager
def _parquet_file(file: Location, **options: Any) -> Iterator[Any]:
    fs, where = file.files()
    with fs.open(where, "rb") as handle:
        yield parquet.ParquetFile(handle, page_checksum_verification=True, **options)


@contextmanager
def _arrow_file(file: Location, names: Sequence[str] = ()) -> Iterator[Any]:
    """Open an Arrow file, to read some columns alone; all of them for no names."""
    fs, where = file.files()
    with fs.open(where, "rb") as handle:
        opened = pyarrow.ipc.open_file(handle)
        if names:
            numbers = sorted(opened.schema.get_field_index(name) for name in names)
            opened = pyarrow.ipc.open_file(
                handle, options=pyarrow.ipc.IpcReadOptions(included_fields=numbers)
            )
        yield opened


def open_parquet_files(
    files: Sequence[Location], columns: Sequence[str] | None, name: str
) -> list[TableFile]:
    """Open Parquet files by their footers."""
    return [_open_parquet(file, name) for file in files]


def _open_parquet(file: Location, name: str) -> TableFile:
    unread = f"{name}: {file.shown} cannot be read as a Parquet file"
    with explained(unread), _parquet_file(file) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
        heights = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        return TableFile(file, schema, _index_of(schema), [ParquetPart(file, tuple(heights))])


def open_arrow_files(
    files: Sequence[Location], columns: Sequence[str] | None, name: str
) -> list[TableFile]:
    """Open Arrow files; their smallest column is read to count the rows of the record batches."""
    return [_open_arrow(file, name) for file in files]


def _open_arrow(file: Location, name: str) -> TableFile:
    """Open an Arrow file; its footer does not tell how many rows its batches have."""
    unread = (
        f"{name}: {file.shown} cannot be read as an Arrow file (of version 2 of Feather, and no "
        "stream)"
    )
    with explained(unread):
        with _arrow_file(file) as opened:
            schema = opened.schema
        alone = [field for field in schema if schema.names.count(field.name) == 1]
        smallest = [field.name for field in sorted(alone, key=_bits)[:1]]
        with _arrow_file(file, smallest) as opened:
            batches = map(opened.get_batch, range(opened.num_record_batches))
            heights = tuple(batch.num_rows for batch in batches)
    return TableFile(file, schema, _index_of(schema), [ArrowPart(file, heights)])


def _bits(field: Any) -> float:
    """Return the bits of a value of a column; infinite if they differ."""
    if pyarrow.types.is_primitive(field.type):
        return float(field.type.bit_width)
    return float("inf")


def _index_of(schema: Any) -> tuple[str, ...]:
    named = (schema.pandas_metadata or {}).get("index_columns", [])
    return tuple(each for each in named if isinstance(each, str))


def _flawed_columns(group: Any) -> Iterator[str]:
    """Yield the columns of a row group with nulls or too large integers, by their statistics."""
    for number in range(group.num_columns):
        column = group.column(number)
        statistics = column.statistics
        if statistics is None:
            continue
        ends = [statistics.min, statistics.max] if statistics.has_min_max else []
        large = any(isinstance(end, int) and abs(end) > EXACT for end in ends)
        if large or (statistics.has_null_count and statistics.null_count):
            yield column.path_in_schema
