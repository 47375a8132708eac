"""Tables in Parquet, Arrow and CSV files by path: their files, columns and types.

``table.parquet`` is a file or a folder of files; ``table.parquet#age,income`` are two of its
columns, in this order.  ``data/*.csv`` are the files that match a pattern.
"""

import csv
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from dask_dpmeans.checks import describe_value
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.categories import (
    CategoricalColumns,
    Categories,
    Category,
    sorted_categories,
)
from dask_dpmeans.sources.formats import table_files, table_rows
from dask_dpmeans.sources.formats.csr_files import explained
from dask_dpmeans.sources.formats.csv_files import CsvPart, csv_names, explain_texts, open_csv_files
from dask_dpmeans.sources.lazy_modules import dask, pyarrow
from dask_dpmeans.sources.missing_values import float_dtype
from dask_dpmeans.sources.refusals import categories_of
from dask_dpmeans.storage.location import Location


@dataclass(frozen=True)
class TableFormat:
    """A format of the files of a table."""

    kind: str
    suffixes: tuple[str, ...]
    open: Callable[[Sequence[Location], Sequence[str] | None, str], list[table_files.TableFile]]
    """Opens files, of which some columns are used, or all; the text is a name for errors."""
    groups: str
    """What the groups of rows in a file are called."""


PARQUET = TableFormat("Parquet", (".parquet", ".pq"), table_files.open_parquet_files, "row groups")
ARROW = TableFormat(
    "Arrow", (".feather", ".arrow", ".ipc"), table_files.open_arrow_files, "record batches"
)
CSV = TableFormat("CSV", (".csv", ".tsv"), open_csv_files, "blocks of lines")
SUFFIXES = (*PARQUET.suffixes, *ARROW.suffixes, *CSV.suffixes)
GLOB = re.compile(r"[*?\[]")
"""Characters of a pattern of files."""
LOOKED = 2**24
"""Numbers that are read to find usable columns for an error message, at most."""


def table_path(path: str) -> tuple[str, tuple[str, ...] | None] | None:
    """Return the table of a path or URL, and the columns that it names; None if it is no table.

    >>> table_path("rows/table.parquet#age,income")
    ('rows/table.parquet', ('age', 'income'))
    >>> table_path("rows#1/table.csv")
    ('rows#1/table.csv', None)
    >>> table_path('table.feather#"income, gross"')
    ('table.feather', ('income, gross',))
    """
    if _is_table(path):
        return path, None
    table, mark, names = path.rpartition("#")
    if mark and _is_table(table):
        return table, tuple(next(csv.reader([names])))
    return None


def path_of(data: str) -> str:
    """Return a path or URL without the columns that it names."""
    table = table_path(data)
    return data if table is None else table[0]


def table_names(place: Location, name: str, *, index: bool = False) -> tuple[str, ...]:
    """Return the names of the columns of a table, with the index of pandas or without it."""
    files = _files(place, name)
    if _format_of(place) is CSV:
        names = csv_names(files[0], name)
        return names if index or names[0] else names[1:]
    [opened] = _format_of(place).open(files[:1], None, name)
    if index:
        return tuple(opened.schema.names)
    return _columns_to_use(opened, None, place.shown, name)


def list_columns(place: Location, name: str) -> set[str]:
    """Return the names of the columns of lists of a table."""
    if _format_of(place) is CSV:
        return set()
    [opened] = _format_of(place).open(_files(place, name)[:1], None, name)
    return {field.name for field in opened.schema if table_rows.is_lists(field.type)}


def stored_columns(
    place: Location, columns: tuple[str, ...], name: str
) -> tuple[Any, Iterator[Any]]:
    """Return the schema of columns of any type, and all their rows as tables, in order."""
    opened = _format_of(place).open(_files(place, name), columns, name)
    schema = pyarrow.schema([opened[0].schema.field(column) for column in columns])
    parts = _parts(opened)
    tables = (table.replace_schema_metadata(None) for table in table_rows.rows_of(parts, columns))
    return schema, tables


def _parts(opened: list[table_files.TableFile]) -> tuple[table_files.TablePart, ...]:
    return tuple(part for file in opened for part in file.parts)


def check_available(place: Location, name: str) -> None:
    """Raise `InputError` if PyArrow is not there to read a table."""
    if not table_files.AVAILABLE:
        needs = "which needs pyarrow: pip install 'dask-dpmeans[parquet]'"
        kind = _format_of(place).kind
        article = "an" if kind == "Arrow" else "a"
        raise InputError(f"{name}: {place.shown} is {article} {kind} table, {needs}")


def _format_of(place: Location) -> TableFormat:
    """Return the format that a path ends with; a folder of any name holds Parquet files."""
    path = place.url.rstrip("/")
    return next((each for each in (ARROW, CSV) if path.endswith(each.suffixes)), PARQUET)


def _is_table(path: str) -> bool:
    if path.rstrip("/").endswith(SUFFIXES):
        return True
    folder = "://" not in path and os.path.isdir(path)
    return folder and any(file.suffix in PARQUET.suffixes for file in Path(path).iterdir())


def parquet_below(place: Location) -> str | None:
    """Return how to name Parquet files in folders of a folder (Hive); None if there are none."""
    if place.remote:
        return None
    for pattern in ("*/*", "*/*/*"):
        if any(file.suffix == ".parquet" for file in Path(place.url).glob(pattern)):
            return f"{place.url}/{pattern}.parquet; names of folders are no columns"
    return None


def open_table(
    place: Location,
    columns: tuple[str, ...] | None,
    name: str,
    dimensions: int,
    missing: bool = False,
    categorical: CategoricalColumns | None = None,
    used: Sequence[int] | None = None,
) -> table_rows.TableRows:
    """Open the columns of a table, by default all but its index, after a check of their types.

    With `missing`, nulls become NaN.  `categorical` says which columns are categories, if any are;
    unless they are known, these columns are read once.  `used` are the numbers of the columns that
    are used, None for all: others may hold anything.
    """
    path, form = place.shown, _format_of(place)
    files = _files(place, name)
    opened = form.open(files, columns, name)
    chosen = _columns_to_use(opened[0], columns, path, name)
    kinds = [opened[0].schema.field(column).type for column in chosen]
    if dimensions == 1 and (len(chosen) != 1 or table_rows.is_lists(kinds[0])):
        raise _not_one(opened, chosen, path, name)
    _check_alike(opened, chosen, kinds, columns, path, name)
    parts = _parts(opened)
    pairs = list(zip(chosen, kinds, strict=True))
    widths = tuple(_width(parts, *pair) if table_rows.is_lists(pair[1]) else None for pair in pairs)
    firsts = list(accumulate((1 if width is None else width for width in widths), initial=0))
    coded, unread = _coded_and_unread(firsts, pairs, categorical, used)
    pairs = [
        (column, kind)
        for column, kind in pairs
        if column not in unread or table_rows.is_number(kind)
    ]
    _check_kinds(opened, pairs, set(coded.values()), path, name)
    numbers = [
        table_rows.numbers_of(kind) for column, kind in pairs if column not in coded.values()
    ]
    dtype = np.result_type(np.bool_, *numbers, *[np.float32] * bool(coded))
    width = (firsts[-1],) if dimensions == 2 else ()
    starts = tuple(accumulate((sum(part.heights) for part in parts), initial=0))
    most = max((height for part in parts for height in part.heights), default=1) or 1
    return table_rows.TableRows(
        path,
        parts,
        starts,
        chosen,
        widths,
        (starts[-1], *width),
        float_dtype(dtype) if missing else dtype,
        (most, *width),
        form.groups,
        missing,
        _with_categories(categorical, coded, parts),
        unread,
    )


def _coded_and_unread(
    firsts: Sequence[int],
    pairs: Sequence[tuple[str, Any]],
    categorical: CategoricalColumns | None,
    used: Sequence[int] | None,
) -> tuple[dict[int, str], frozenset[str]]:
    """Return the columns of categories by their number, and those that are not read at all.

    `firsts` are the numbers of the first column of numbers of each pair, a column and its type.
    """
    coded, unread = {}, set()
    for number, (column, kind) in zip(firsts, pairs, strict=False):
        if _is_coded(number, column, kind, categorical):
            coded[number] = column
        elif used is not None and number not in used and not table_rows.is_lists(kind):
            unread.add(column)
    return coded, frozenset(unread - set(coded.values()))


def _with_categories(
    categorical: CategoricalColumns | None, coded: Mapping[int, str], parts: tuple[Any, ...]
) -> CategoricalColumns:
    """Return the columns of categories among those that are read, with the categories of each."""
    if not coded or categorical is None:
        return table_rows.PLAIN
    known: Categories | None = categorical.known
    if known is None:
        known = {number: _categories(parts, column) for number, column in coded.items()}
    return replace(categorical, known={number: known[number] for number in coded})


def _not_one(
    opened: list[table_files.TableFile], chosen: tuple[str, ...], path: str, name: str
) -> InputError:
    """Return the error for several columns, or lists, where one column of numbers belongs."""
    usable = _usable(opened)
    one = [each for each in chosen if each in usable][:1] or usable[:1]
    return InputError(f"{name} must be one column, got {', '.join(chosen)}: {_way(path, one)}")


def _is_coded(number: int, column: str, kind: Any, categorical: CategoricalColumns | None) -> bool:
    if categorical is None:
        return False
    if categorical.known is not None:
        return number in categorical.known
    text = not (table_rows.is_number(kind) or table_rows.is_lists(kind))
    return pyarrow.types.is_dictionary(kind) or (text and categorical.takes(number, column))


def _check_kinds(
    opened: list[table_files.TableFile],
    pairs: list[tuple[str, Any]],
    coded: set[str],
    path: str,
    name: str,
) -> None:
    """Raise `InputError` for a column that holds neither numbers nor categories."""
    others = [
        (column, kind)
        for column, kind in pairs
        if not (table_rows.is_number(kind) or table_rows.is_lists(kind))
    ]
    refused = [(column, kind) for column, kind in others if column not in coded]
    if refused:
        column, kind = refused[0]
        flaw, way = _explain_type(opened, column, kind, path)
        counted = f"count such columns as {categories_of([each for each, _ in others])}"
        usable = _usable(opened)
        ways = f"{_way(path, usable)}{', or' if usable else ';'} {counted}"
        if way is not None:
            ways = f"{way}; or {ways}" if usable else way
        if name == "groups":
            ways = (
                f"number the groups, as pandas.factorize(table[{column!r}], use_na_sentinel=False)[0] "
                "does, and give these numbers, or the path of a .npy file of them"
            )
        raise InputError(f"{name}: column {column!r} of {path} {flaw}: {ways}")


def _explain_type(
    opened: list[table_files.TableFile], column: str, kind: Any, path: str
) -> tuple[str, str | None]:
    """Return what a column without numbers holds, and how to read it as numbers, if that is known."""
    reason = f"is of type {kind}, no numbers"
    parts = opened[0].parts
    if not (parts and isinstance(parts[0], CsvPart) and pyarrow.types.is_string(kind)):
        return reason, None
    for table in table_rows.rows_of(
        tuple(part for file in opened for part in file.parts), (column,)
    ):
        found = explain_texts(table[column].drop_null().unique().to_pylist(), path)
        if found is not None:
            text, way = found
            spelt = f"if it spells numbers, convert it, as {way} does"
            return f"holds {describe_value(text)}, which is no number", spelt if way else None
    return reason, None


def _check_alike(
    opened: list[table_files.TableFile],
    chosen: tuple[str, ...],
    kinds: list[Any],
    columns: tuple[str, ...] | None,
    path: str,
    name: str,
) -> None:
    """Raise `InputError` for a file with other columns or types than the first."""
    first = opened[0]
    for other in opened[1:]:
        alike = columns is not None or set(other.schema.names) == set(first.schema.names)
        if not alike or [_type_of(other.schema, each) for each in chosen] != kinds:
            usable = _usable(opened)
            others = f", or {_way(path, usable)}" if usable else ""
            raise InputError(
                f"{name}: {other.location.shown} has other columns than {', '.join(chosen)} of "
                f"{first.location.shown}, or other types: {_difference(first, other, chosen)}; "
                f"write these files alike{others}"
            )


def _difference(
    first: table_files.TableFile, other: table_files.TableFile, chosen: tuple[str, ...]
) -> str:
    """Return the first column that two files do not have alike, and its types."""
    there = other.schema.names
    for column in (*chosen, *first.schema.names):
        if column not in there:
            return f"column {column!r} is missing"
        wanted, kind = _type_of(first.schema, column), _type_of(other.schema, column)
        if column in chosen and wanted != kind:
            return f"column {column!r} is {kind}, not {wanted}"
    added = next(each for each in there if each not in first.schema.names)
    return f"column {added!r} is new"


def _width(parts: tuple[table_files.TablePart, ...], column: str, kind: Any) -> int:
    """Return the length of the lists in a column: the first list has it, if the type does not."""
    if pyarrow.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for table in table_rows.rows_of(parts, (column,)):
        there = table[column].drop_null()
        if len(there):
            return len(there[0])
    return 0


def _categories(parts: tuple[table_files.TablePart, ...], column: str) -> tuple[Category, ...]:
    """Return the sorted categories in a column, whose groups may have other dictionaries."""
    found: set[Any] = set()
    for columns in table_rows.rows_of(parts, (column,), (column,)):
        found.update(columns[column].unique().to_pylist())
    return sorted_categories(found)


def _files(place: Location, name: str) -> list[Location]:
    """Return the files of a table, in Dask's order."""
    check_available(place, name)
    form = _format_of(place)
    with explained(f"{name}: there is no {form.kind} table at {place.shown}"):
        fs, where = place.files()
        if GLOB.search(where) and not fs.exists(where):
            return _matching(place, name)
        if not fs.exists(where):
            raise InputError(f"{name}: there is no {form.kind} table at {place.shown}")
        if not fs.isdir(where):
            return [place]
        found = [file for file in fs.find(where) if file.endswith(form.suffixes)]
    inside = [file[len(where.rstrip("/")) :] for file in found]
    hidden = ("_", ".")
    seen = [path for path in inside if not any(p.startswith(hidden) for p in path.split("/"))]
    if not seen:
        raise InputError(f"{name}: {place.shown} holds no {form.kind} files")
    return [place / file.lstrip("/") for file in sorted(seen, key=dask.utils.natural_sort_key)]


def _matching(place: Location, name: str) -> list[Location]:
    """Return the files that match a pattern such as ``rows/*.parquet``, in Dask's order."""
    fs, where = place.files()
    found = [fs.unstrip_protocol(file) if place.remote else file for file in fs.glob(where)]
    if not found:
        raise InputError(f"{name}: no file matches {place.shown}")
    return [replace(place, url=file) for file in sorted(found, key=dask.utils.natural_sort_key)]


def _columns_to_use(
    opened: table_files.TableFile, columns: tuple[str, ...] | None, path: str, name: str
) -> tuple[str, ...]:
    """Return the columns to use, by default all but the index of pandas, as in Dask."""
    chosen, names = columns, opened.schema.names
    if chosen is None:
        chosen = tuple(each for each in names if each not in opened.index)
    table_files.check_columns(chosen, names, opened.index, path, name)
    return chosen


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


def _usable(opened: list[table_files.TableFile]) -> list[str]:
    """Return the columns that can be read: numbers of one type in all files, without nulls.

    Statistics in the files tell of nulls and large integers; the first `LOOKED` numbers are read.
    """
    first = opened[0]
    named = [
        each for each in first.schema.names if each not in first.index and not set(each) & set(",#")
    ]
    alike = [each for each in named if len({_type_of(file.schema, each) for file in opened}) == 1]
    types_of = {each: _type_of(first.schema, each) for each in alike}
    usable = [
        each for each, kind in types_of.items() if kind is not None and table_rows.is_number(kind)
    ]
    for file in opened:
        flawed = file.flawed()
        usable = [each for each in usable if each not in flawed]
    left = LOOKED
    for columns in table_rows.rows_of(
        tuple(part for file in opened for part in file.parts), tuple(usable)
    ):
        usable = [each for each in usable if _is_usable(columns[each])]
        left -= columns.num_rows * max(1, len(usable))
        if left < 0 or not usable:
            return usable
    return usable


def _is_usable(values: Any) -> bool:
    if values.null_count or table_rows.is_inexact(values).any():
        return False
    numbers = values.to_numpy()
    return numbers.dtype == object or bool(np.isfinite(numbers).all())
