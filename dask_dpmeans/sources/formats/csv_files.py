"""CSV files as blocks of whole lines, which are found and parsed once when a table is opened.

The first line has the names of the columns.  Quotes are as in RFC 4180: around a whole value, and
doubled inside.  A column without a name in front is the index of pandas, which is left out.
"""

import csv
import io
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dask_dpmeans import checks
from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.formats.csr_files import explained
from dask_dpmeans.sources.formats.table_files import TableFile, TablePart, check_columns
from dask_dpmeans.sources.lazy_modules import arrow_csv, pyarrow
from dask_dpmeans.storage.location import Location

logger = logging.getLogger(__name__)

BLOCK_BYTES = 2**23
"""Bytes of a block, about."""
LONGEST_LINE = 2**27
"""Bytes of the longest line that is read."""
FIRST_YEAR = 1000
"""The first number, but for 0, from which consecutive numbers of a first line are names."""
NUMBER = r"[+-]?\d+(\.\d*)?"
WRITTEN = {
    r"[+-]?\d{1,3}(\.\d{3})+,\d+": "thousands='.', decimal=','",
    r"[+-]?\d{1,3}( \d{3})+,\d+": "thousands=' ', decimal=','",
    r"[+-]?\d{1,3}(,\d{3})+\.\d*|[+-]?\d{1,3}(,\d{3}){2,}": "thousands=','",
    r"[+-]?(\d*,\d{1,2}|\d*,\d{4,}|\d{4,},\d{3})": "decimal=','",
    r"[+-]?\d{1,3},\d{3}": "thousands=','",
    rf"{NUMBER}(\s*;\s*{NUMBER})+": "sep=';'",
    rf"{NUMBER}(\s*\|\s*{NUMBER})+": "sep='|'",
    rf"{NUMBER}(\s+{NUMBER})+": "sep=r'\\s+'",
}
"""Patterns of texts that spell numbers, the surest first, and the options of `pandas.read_csv`."""
MOST_TEXTS = 1000
"""Different texts of a column that are compared with the patterns."""


@dataclass(frozen=True)
class CsvColumns:
    """Columns of CSV files, for all their blocks."""

    names: tuple[str, ...]
    """Names of all columns."""
    delimiter: str
    types: tuple[tuple[str, Any], ...] = ()
    """Name and type of Arrow of the columns that are used; none before they are known."""

    def parse(self, content: bytes, names: Sequence[str]) -> Any:
        """Return some columns of a block of lines as a table of Arrow."""
        return arrow_csv.read_csv(
            io.BytesIO(content),
            arrow_csv.ReadOptions(
                column_names=list(self.names), block_size=len(content) + 1, use_threads=False
            ),
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(
                column_types=dict(self.types), include_columns=list(names), strings_can_be_null=True
            ),
        )


@dataclass(frozen=True)
class CsvPart(TablePart):
    """A block of lines of a CSV file, whose rows are the only group."""

    start: int
    """First byte."""
    stop: int
    """Byte after the last."""
    columns: CsvColumns

    def groups(
        self, names: tuple[str, ...], rows: range, dictionaries: tuple[str, ...] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield the rows of the block, as `TablePart` says."""
        fs, where = self.file.files()
        with fs.open(where, "rb") as handle:
            handle.seek(self.start)
            found = self.columns.parse(handle.read(self.stop - self.start), names)
        self.check_height(found.num_rows)
        yield 0, found


def csv_names(file: Location, name: str) -> tuple[str, ...]:
    """Return the names in the first line of a CSV file."""
    return _header(file, name)[0].names


def open_csv_files(
    files: Sequence[Location], columns: Sequence[str] | None, name: str
) -> list[TableFile]:
    """Open CSV files, in one pass over all their lines that finds the types of the columns."""
    opened = [_scan(file, columns, name) for file in files]
    found: dict[str, Any] = {}
    for _, _, kinds in opened:
        for column, kind in kinds.items():
            found[column] = _common_type(found.get(column, pyarrow.null()), kind)
    found = {
        name: pyarrow.float64() if pyarrow.types.is_null(kind) else kind
        for name, kind in found.items()
    }
    answer = []
    for file, (header, blocks, kinds) in zip(files, opened, strict=True):
        typed = replace(header, types=tuple((column, found[column]) for column in kinds))
        parts = [CsvPart(file, (n_rows,), start, stop, typed) for start, stop, n_rows in blocks]
        schema = pyarrow.schema([(each, found[each]) for each in header.names if each in kinds])
        answer.append(
            TableFile(file, schema, header.names[:1] if header.names[0] == "" else (), parts)
        )
    return answer


Blocks = list[tuple[int, int, int]]
"""First byte, end, and number of rows of each block."""


def _scan(
    file: Location, columns: Sequence[str] | None, name: str
) -> tuple[CsvColumns, Blocks, dict[str, Any]]:
    """Return the columns of a file, its blocks, and the type of each column that is used."""
    header, at = _header(file, name)
    check_columns(columns or (), header.names, (), file.shown, name)
    kinds = {each: pyarrow.null() for each in header.names if columns is None or each in columns}
    used = [each for each in kinds if header.names.count(each) == 1]
    blocks: Blocks = []
    numbered = True
    fs, where = file.files()
    with explained(f"{name}: {file.shown} cannot be read as a CSV file"), fs.open(where) as handle:
        handle.seek(at)
        for content in _blocks(handle, header.delimiter, file):
            if used and content.strip(b"\r\n"):
                table = header.parse(content, used)
                if "" in used[:1]:
                    numbered = numbered and _counts_on(table[""])
                blocks.append((at, at + len(content), table.num_rows))
                for field in table.schema:
                    kinds[field.name] = _common_type(kinds[field.name], field.type)
            at += len(content)
    if not numbered:
        logger.warning(
            "%s: the first column of %s has no name: it is left out, as the index of pandas is; "
            "give it a name to use it",
            name,
            file.shown,
        )
    return header, blocks, kinds


def _counts_on(values: Any) -> bool:
    """Return whether values are integers, each one more than the one before."""
    return pyarrow.types.is_integer(values.type) and bool((np.diff(values.to_numpy()) == 1).all())


def _header(file: Location, name: str) -> tuple[CsvColumns, int]:
    """Return the columns that the first line names, and the first byte after it."""
    fs, where = file.files()
    delimiter = "\t" if where.endswith(".tsv") else ","
    with explained(f"{name}: {file.shown} cannot be read as a CSV file"), fs.open(where) as handle:
        mark = 3 * handle.read(3).startswith(b"\xef\xbb\xbf")  # of UTF-8
        handle.seek(mark)
        content = next(_blocks(handle, delimiter, file, wanted=2**16), b"")
        end = int(_line_ends(content, delimiter, file)[:1].sum()) or len(content)
        line = _decode_line(content[:end], file, name)
        names = tuple(next(csv.reader([line], delimiter=delimiter), ()))
    way = f"pandas.read_csv({file.shown!r}, {{}}).to_parquet('table.parquet')"
    subject = f"{name}: the first line of {file.shown} must hold the names of the columns"
    if not any(names):
        raise InputError(f"{subject}, and it is empty")
    if all(map(checks.spells_number, names)) and not _are_labels(names):
        raise InputError(
            f"{subject}, and it holds numbers: write one, as {way.format('header=None')} does"
        )
    if len(names) == 1 and ";" in names[0]:
        raise InputError(
            f"{subject} with commas between, got {names[0]!r}: convert it, as {way.format('sep=' + repr(';'))} does"
        )
    return CsvColumns(names, delimiter), mark + end


def _decode_line(line: bytes, file: Location, name: str) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        way = f"pandas.read_csv({file.shown!r}, encoding='latin-1').to_parquet('table.parquet')"
        raise InputError(
            f"{name}: the first line of {file.shown} is not UTF-8 text: if it is of another encoding, "
            f"convert it, as {way} does"
        ) from error


def _are_labels(names: Sequence[str]) -> bool:
    """Return whether numbers may be names: years, or the numbers of several columns by pandas."""
    if len(names) < 2 or not all(each.isdigit() for each in names):
        return False
    first = int(names[0])
    rising = all(int(each) == first + i for i, each in enumerate(names))
    return rising and (first == 0 or first >= FIRST_YEAR)


def _blocks(
    handle: Any, delimiter: str, file: Location, wanted: int | None = None
) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole lines."""
    step = wanted or BLOCK_BYTES
    left = b""
    while True:
        read = handle.read(step)
        content = left + read
        if len(read) < step:  # the end of the file
            if content:
                _line_ends(content, delimiter, file)  # checks the quotes
                yield content
            return
        ends = _line_ends(content, delimiter, file)
        if len(ends):
            yield content[: ends[-1]]
            left = content[ends[-1] :]
        elif len(content) > LONGEST_LINE:
            raise InputError(
                f"{file.shown} has a line of more than {LONGEST_LINE:,} bytes: a quote may not be "
                "closed, or lines may end with a carriage return alone"
            )
        else:
            left = content


def _line_ends(content: bytes, delimiter: str, file: Location) -> Any:
    r"""Return the places after the ends of lines in a text that begins with a line.

    >>> _line_ends(b'a,"b\nc"\nd,e\nf', ",", Location("t.csv")).tolist()
    [8, 12]
    """
    letters = np.frombuffer(content, np.uint8)
    ends = np.flatnonzero(letters == ord("\n"))
    quotes = np.flatnonzero(letters == ord('"'))
    if len(quotes):
        opening = quotes[::2]
        opening = opening[opening > 0]
        stray = ~np.isin(letters[opening - 1], [*b'\n\r"', ord(delimiter)])
        if stray.any():
            place = int(opening[stray][0])
            shown = content[max(0, place - 20) : place + 20].decode(errors="replace")
            raise InputError(
                f"{file.shown} has a quote inside a value, {shown!r}: quotes must be around a whole value, "
                f"and doubled inside; convert it, as pandas.read_csv({file.shown!r})"
                ".to_parquet('table.parquet') does"
            )
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends + 1


def explain_texts(texts: Sequence[str], path: str) -> tuple[str, str | None] | None:
    """Return the first text that spells no number, and Python that reads such texts as numbers.

    The code is None if no option of pandas is known to help; all is None if each text is a number.

    >>> explain_texts(["7", "1,234", "1,5"], "t.csv")
    ('1,234', "pandas.read_csv('t.csv', decimal=',').to_parquet('table.parquet')")
    >>> explain_texts(["n/a", "2"], "t.csv")
    ('n/a', None)
    """
    others = [each for each in texts if not checks.spells_number(each)][:MOST_TEXTS]
    if not others:
        return None
    for form, options in WRITTEN.items():
        if any(re.fullmatch(form, each.strip()) for each in others):
            way = f"pandas.read_csv({path!r}, {options}).to_parquet('table.parquet')"
            return others[0], way
    return others[0], None


def _common_type(first: Any, second: Any) -> Any:
    """Return the type of values of two types: text for those that do not go together."""
    if first == second or pyarrow.types.is_null(second):
        return first
    if pyarrow.types.is_null(first):
        return second
    if {first, second} == {pyarrow.int64(), pyarrow.float64()}:
        return pyarrow.float64()
    return pyarrow.string()
