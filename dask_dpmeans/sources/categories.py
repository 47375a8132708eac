"""Columns of categories as columns of codes, 0 to m - 1, and the categories that they stand for.

Categories keep the order of their data type if it states them all, as in pandas, Dask and an Enum of
Polars.  They are sorted if they follow from the values: in Arrow, Parquet and columns of text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array, IntegerArray
from dask_dpmeans.sources.missing_values import with_nan
from dask_dpmeans.sources.names import column_labels
from dask_dpmeans.sources.refusals import categories_of
from dask_dpmeans.sources.row_array import Raw

Category = str | int | float | bool
Categories = Mapping[int, tuple[Category, ...]]
"""Categories by the number of their column in the input; the code of each is its place."""

EXACT_CODES = 2**24
"""Bound below which float32 distinguishes codes."""
SHOWN_NAMES = 5
"""Columns that an error lists, at most."""


@dataclass(frozen=True)
class CategoricalColumns:
    """The columns of a table that are read as categories."""

    named: Sequence[str | int] | Literal["all"] = ()
    """Columns of any type that are categories, by name or number, beside columns of such a type."""
    known: Categories | None = None
    """Categories of a fit, whose codes are taken; None to find them."""
    missing: bool = False
    """Whether an unknown category is a missing value; else it is an error."""

    def takes(self, number: int, label: object) -> bool:
        """Return whether a column of any type is read as categories."""
        if self.known is not None and number in self.known:
            return True
        if self.named == "all":
            return True
        return label in self.named or number in self.named or str(number) in self.named

    def places(self, values: Iterable[object], number: int, label: object) -> Float64Array:
        """Return the codes of distinct values of a column, (m,); NaN for unknown ones and None."""
        known = (self.known or {})[number]
        places = {value: float(place) for place, value in enumerate(known)}
        plain = [None if value is None else plain_category(value) for value in values]
        unknown = [value for value in plain if value is not None and value not in places]
        if unknown and not self.missing:
            raise InputError(
                f"column {label!r} holds the category {unknown[0]!r}, which the fit did not have "
                f"({_some(known)}): remove or replace such rows, fit again, or fit with "
                "missing='observed': it then counts as missing"
            )
        return np.array([np.nan if v is None else places.get(v, np.nan) for v in plain])


def plain_category(value: Any) -> Category:
    """Return a category as JSON holds it; a date or an interval as text."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, str | int | float) else str(value)


def sorted_categories(values: Iterable[object]) -> tuple[Category, ...]:
    """Return distinct categories in order, numbers before texts; None is left out."""
    plain = {plain_category(value) for value in values if value is not None}
    return tuple(sorted(plain, key=lambda value: (isinstance(value, str), value)))


def coded_table(table: Any, wanted: CategoricalColumns, name: str) -> tuple[Any, Categories]:
    """Return a table in memory, or of Dask, with codes for categories, and the categories.

    Data that are no table, or have no such column, are returned as they are, with the categories
    that are known.
    """
    labels = column_labels(table)
    if not labels or not hasattr(type(table), "columns"):
        return table, wanted.known or {}
    if hasattr(table, "to_dask_array"):
        return _coded_dask(table, labels, wanted, name)
    columns = [_column(table, number) for number in range(len(labels))]
    coded = {
        number: _coded_column(columns[number], number, label, wanted)
        for number, label in enumerate(labels)
        if _is_categorical(columns[number]) or wanted.takes(number, label)
    }
    if not coded:
        return table, {}
    numbers = _numbers(columns, labels, coded, wanted, name)
    found = {number: categories for number, (_, categories) in coded.items() if categories}
    return np.column_stack(numbers), wanted.known or found


def _numbers(
    columns: list[Any],
    labels: Sequence[object],
    coded: Mapping[int, tuple[Raw, Any]],
    wanted: CategoricalColumns,
    name: str,
) -> list[Raw]:
    """Return all columns as numbers, (n,) each."""
    numbers: list[Raw] = []
    texts = []
    for number, column in enumerate(columns):
        values = coded[number][0] if number in coded else _as_numbers(column, wanted.missing)
        if values is None:
            texts.append(labels[number])
        else:
            numbers.append(values)
    if texts:
        raise InputError(
            f"{name}: {', '.join(map(repr, texts[:SHOWN_NAMES]))} cannot be read as numbers: leave "
            f"them out, or count them as {categories_of(texts)}"
        )
    return numbers


def _column(table: Any, number: int) -> Any:
    """Return a column of a table of pandas, Polars or Arrow."""
    if hasattr(type(table), "iloc"):
        return table.iloc[:, number]
    if hasattr(type(table), "get_columns"):
        return table.get_columns()[number]
    return table.column(number)


def _is_categorical(column: Any) -> bool:
    """Return whether a column is of a type of categories."""
    kind = str(getattr(column, "dtype", None) or getattr(column, "type", ""))
    return kind == "category" or kind.startswith(("Categorical", "Enum", "dictionary"))


def _coded_column(
    column: Any, number: int, label: object, wanted: CategoricalColumns
) -> tuple[Raw, tuple[Category, ...] | None]:
    """Return the codes of a column, (n,), NaN for missing values, and its categories.

    The categories are None for a column of numbers, which are codes, unless they are known.
    """
    fresh = wanted.known is None or number not in wanted.known
    if fresh and not _is_categorical(column):
        values = _as_numbers(column, wanted.missing)
        if values is not None:
            return values, None
    codes, distinct, stated = _codes(column)
    if fresh:
        used = distinct if stated else [distinct[code] for code in np.unique(codes[codes >= 0])]
        categories = tuple(map(plain_category, used)) if stated else sorted_categories(used)
        own = CategoricalColumns(known={number: categories}, missing=True)
        places = own.places(distinct, number, label)
    else:
        categories = tuple((wanted.known or {})[number])
        occurring = np.unique(codes[codes >= 0])
        places = np.full(len(distinct), np.nan)
        places[occurring] = wanted.places([distinct[code] for code in occurring], number, label)
    dtype = np.float32 if len(categories) < EXACT_CODES else np.float64
    return np.append(places, np.nan)[codes].astype(dtype), categories


def _codes(column: Any) -> tuple[IntegerArray, list[Any], bool]:
    """Return codes, (n,), -1 for missing values, the values, and whether the type states them."""
    if hasattr(type(column), "iloc"):  # pandas
        stated = _is_categorical(column)
        found = column if stated else column.astype("category")
        return found.cat.codes.to_numpy(np.int64), found.cat.categories.tolist(), stated
    if hasattr(type(column), "unify_dictionaries"):  # Arrow
        encoded = column if _is_categorical(column) else column.dictionary_encode()
        whole = encoded.unify_dictionaries().combine_chunks()
        whole = whole.chunk(0) if hasattr(whole, "chunk") else whole
        return whole.indices.fill_null(-1).to_numpy(), whole.dictionary.to_pylist(), False
    values = column.to_list() if hasattr(column, "to_list") else column.tolist()
    distinct = list(dict.fromkeys(value for value in values if value is not None))
    stated = str(getattr(column, "dtype", "")).startswith("Enum")
    if stated:
        distinct = column.dtype.categories.to_list()
    places = {value: place for place, value in enumerate(distinct)}
    return np.array([places.get(value, -1) for value in values], np.int64), distinct, stated


def _as_numbers(column: Any, missing: bool) -> Raw | None:
    """Return a column as numbers, (n,); None if it holds others."""
    values = np.asarray(with_nan(column, "data") if missing else column)
    if values.dtype == object:
        try:
            values = values.astype(np.float64)
        except (OverflowError, TypeError, ValueError):
            return None
    return values if values.dtype.kind in "biuf" else None


def _coded_dask(
    table: Any, labels: Sequence[object], wanted: CategoricalColumns, name: str
) -> tuple[Any, Categories]:
    """Return a Dask table with codes for categories as an array, and the categories."""
    found: dict[int, tuple[Category, ...]] = dict(wanted.known or {})
    kinds, lengths = list(table.dtypes), []
    for number, (label, kind) in enumerate(zip(labels, kinds, strict=True)):
        stated = str(kind) == "category"
        text = getattr(kind, "kind", "O") not in "biuf"
        if number in found:
            lengths.append(number)
        elif stated and table[label].cat.known:
            found[number] = tuple(map(plain_category, kind.categories.tolist()))
            lengths.append(number)
        elif stated or (text and wanted.takes(number, label)):
            raise InputError(
                f"{name}: the categories of column {label!r} are not known before all of it is "
                f"read: pass {name}.categorize([{label!r}]), which reads it once"
            )
    if not lengths:
        return table, {}
    known = CategoricalColumns(wanted.named, found, wanted.missing)
    dtype = np.result_type(*(_dask_dtype(kind, n in found) for n, kind in enumerate(kinds)))
    meta = [(label, dtype) for label in labels]
    coded = table.map_partitions(_coded_partition, known, dtype, name, meta=meta)
    return coded.to_dask_array(), found


def _dask_dtype(kind: Any, coded: bool) -> np.dtype[Any]:
    """Return the type of the numbers of a column."""
    if coded:
        return np.dtype(np.float32)
    if isinstance(kind, np.dtype) and kind.kind in "biuf":
        return kind
    return np.dtype(np.float64)


def _coded_partition(frame: Any, known: CategoricalColumns, dtype: np.dtype[Any], name: str) -> Any:
    """Return a partition of a Dask table with codes for categories."""
    values, _ = coded_table(frame, known, name)
    return type(frame)(np.asarray(values).astype(dtype), index=frame.index, columns=frame.columns)


def _some(categories: Sequence[Category]) -> str:
    more = ", ..." * (len(categories) > SHOWN_NAMES)
    return ", ".join(map(repr, categories[:SHOWN_NAMES])) + more
