"""Rows of a table in files, and the numbers that the values of its columns become."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dask_dpmeans.errors import InputError
from dask_dpmeans.sources.categories import CategoricalColumns, Categories
from dask_dpmeans.sources.formats.table_files import EXACT, TablePart
from dask_dpmeans.sources.frames import names_of_numbers
from dask_dpmeans.sources.lazy_modules import compute, pyarrow

PLAIN = CategoricalColumns()
"""No columns of categories."""


@dataclass(frozen=True)
class TableRows:
    """Columns of a table; each task opens the files for itself."""

    store_path: str
    """Path or URL of the table, for messages."""
    parts: tuple[TablePart, ...]
    """Parts of the table, or of a range of its rows, in the order of their rows."""
    starts: tuple[int, ...]
    """(parts + 1,), the global number of the first row of each part, and of the end."""
    names: tuple[str, ...]
    """Names of the columns of the table, in order."""
    widths: tuple[int | None, ...]
    """Length of the lists in each column, which are as many columns of numbers; None for others."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunks: tuple[int, ...]
    """Rows of the largest group of rows in the files, and the number of columns."""
    groups: str = "row groups"
    """What these groups are called."""
    missing: bool = False
    """Whether nulls become NaN; else they are errors."""
    categorical: CategoricalColumns = PLAIN
    """The columns of categories, all of which are known."""
    unread: frozenset[str] = frozenset()
    """Columns that nobody uses, which may hold anything: 0 stands for their values."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of numbers, in order."""
        return names_of_numbers(self.names, self.widths)

    @property
    def categories(self) -> Categories:
        """Categories by the number of their column."""
        return self.categorical.known or {}

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def narrowed(self, start: int, stop: int) -> "TableRows":
        """Return the rows with no more parts than the rows from `start` to `stop` need."""
        first, last = bisect_right(self.starts, start) - 1, bisect_left(self.starts, stop)
        starts = self.starts[first : last + 1]
        return replace(self, parts=self.parts[first:last], starts=starts)

    def __getitem__(self, rows: slice) -> np.ndarray[Any, Any]:
        start, stop, _ = rows.indices(self.shape[0])
        numbers = self._numbers()
        answer = np.empty((stop - start, numbers[-1]), self.dtype)
        named = zip(numbers, self.names, strict=False)
        coded = tuple(name for number, name in named if number in self.categories)
        part = self.narrowed(start, stop)
        read = tuple(name for name in self.names if name not in self.unread)
        for each, (first, last) in zip(part.parts, pairwise(part.starts), strict=True):
            inside = range(max(start, first) - first, min(stop, last) - first)
            for group, columns in each.groups(read, inside, coded):
                self._fill(answer, first + group - start, columns, start)
        if self.ndim == 2:
            return answer
        return answer[:, 0]

    def _numbers(self) -> list[int]:
        """Return the number of the first column of numbers of each column, and of the end."""
        return list(accumulate((1 if width is None else width for width in self.widths), initial=0))

    def _fill(self, answer: np.ndarray[Any, Any], at: int, columns: Any, start: int) -> None:
        """Copy a group of rows, whose first row is row `at` of the answer."""
        first, last = max(0, at), min(len(answer), at + columns.num_rows)
        numbers = pairwise(self._numbers())
        for (number, end), name, width in zip(numbers, self.names, self.widths, strict=True):
            if name in self.unread:
                answer[first:last, number] = 0
                continue
            values = columns[name].slice(first - at, last - first)
            if width is not None:
                self._check_nulls(values, name, start + first)
                answer[first:last, number:end] = self._lists(values, name, width, start + first)
                continue
            self._check(values, name, start + first)
            if number in self.categories:
                answer[first:last, number] = _codes(values, number, name, self.categorical)
            else:
                answer[first:last, number] = _plain(values).to_numpy()  # nulls become NaN

    def _lists(self, values: Any, name: str, width: int, start: int) -> npt.NDArray[Any]:
        """Return lists of one length, (n,), as rows, (n, width); NaN for nulls."""
        present = values.is_valid().to_numpy()
        lengths = compute.list_value_length(values).fill_null(width).to_numpy()
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            raise InputError(
                f"column {name!r} of {self.store_path} holds lists of {width:,} numbers, and at row "
                f"{start + row:,} of {lengths[row]:,}: embeddings have one length; remove such rows"
            )
        found = np.full((len(values), width), np.nan if not present.all() else 0, self.dtype)
        inside = compute.list_flatten(values.drop_null())
        self._check(inside, name, start, width)
        found[present] = _plain(inside).to_numpy().reshape(-1, width)
        return found

    def _check_nulls(self, values: Any, name: str, start: int, width: int = 1) -> None:
        """Raise `InputError` for nulls, unless they are missing values."""
        if values.null_count and not self.missing:
            row = start + int(np.argmax(values.is_null().to_numpy())) // width
            raise InputError(
                f"data contains null at row {row:,}, column {name!r} of {self.store_path}: remove "
                "or replace such rows first, or use DPMeans with missing='observed'"
            )

    def _check(self, values: Any, name: str, start: int, width: int = 1) -> None:
        """Raise `InputError` for nulls and for integers that float64 does not represent.

        There are `width` values in each row.
        """
        self._check_nulls(values, name, start, width)
        beyond = is_inexact(values) if self.dtype.kind == "f" else np.False_
        if beyond.any():
            place = int(np.argmax(beyond))
            raise InputError(
                f"data holds the integer {values[place].as_py()} at row {start + place // width:,}, "
                f"column {name!r} of {self.store_path}: beyond 2**53 float64 cannot tell integers "
                "apart; subtract an offset, divide, or leave the column out"
            )


def rows_of(
    parts: tuple[TablePart, ...], names: tuple[str, ...], dictionaries: tuple[str, ...] = ()
) -> Iterator[Any]:
    """Yield columns of any type of some parts, group by group, in the order of the rows."""
    for part in parts:
        for _, table in part.groups(names, range(sum(part.heights)), dictionaries):
            yield table


def is_number(kind: Any) -> bool:
    """Return whether a column of a type is read as numbers."""
    plain = (
        pyarrow.types.is_integer(kind)
        or pyarrow.types.is_floating(kind)
        or pyarrow.types.is_boolean(kind)
    )
    return plain or pyarrow.types.is_decimal(kind)


def is_lists(kind: Any) -> bool:
    """Return whether a column of a type is read as lists of numbers."""
    lists = (
        pyarrow.types.is_list(kind)
        or pyarrow.types.is_large_list(kind)
        or pyarrow.types.is_fixed_size_list(kind)
    )
    return lists and is_number(kind.value_type)


def numbers_of(kind: Any) -> Any:
    """Return the type in NumPy of the numbers of a column of a type."""
    if is_lists(kind):
        kind = kind.value_type
    return np.float64 if pyarrow.types.is_decimal(kind) else kind.to_pandas_dtype()


def is_inexact(values: Any) -> npt.NDArray[np.bool_]:
    """Return which integers of a column, (n,), float64 does not represent; none of others."""
    if not pyarrow.types.is_integer(values.type):
        return np.zeros(0, np.bool_)
    numbers = values.fill_null(0).to_numpy()
    return (numbers > EXACT) | (numbers < -EXACT)


def _plain(values: Any) -> Any:
    """Return the values of a column, decimals as floats."""
    return values.cast(pyarrow.float64()) if pyarrow.types.is_decimal(values.type) else values


def _codes(
    values: Any, number: int, name: str, categorical: CategoricalColumns
) -> npt.NDArray[np.float64]:
    """Return the codes of the values of a column, (n,), by value; NaN for nulls."""
    if not pyarrow.types.is_dictionary(values.type):
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
