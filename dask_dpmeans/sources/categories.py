"""Columns of categories as columns of codes, 0 to m - 1, and the categories that they stand for.

Categories keep the order of their data type if it states them all, as in pandas, Dask and an Enum of
Polars.  They are sorted if they follow from the values: in Arrow, in files of tables and in columns of text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dask_dpmeans.checks import list_some
from dask_dpmeans.errors import InputError
from dask_dpmeans.kernels.block import Float64Array, IntegerArray
from dask_dpmeans.sources.row_array import Raw

Category = str | int | float | bool
Categories = Mapping[int, tuple[Category, ...]]
"""Categories by the number of their column in the input; the code of each is its place."""

EXACT_CODES = 2**24
"""Bound below which float32 distinguishes codes."""


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
                f"({list_some(map(repr, known))}): remove or replace such rows, fit again, or fit with "
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


def _is_categorical(column: Any) -> bool:
    kind = str(getattr(column, "dtype", None) or getattr(column, "type", ""))
    return kind == "category" or kind.startswith(("Categorical", "Enum", "dictionary"))


def coded_column(
    column: Any, number: int, label: object, wanted: CategoricalColumns
) -> tuple[Raw, tuple[Category, ...]]:
    """Return the codes of a column, (n,), NaN for missing values, and its categories."""
    codes, distinct, stated = _codes(column)
    if wanted.known is None or number not in wanted.known:
        used = distinct if stated else [distinct[code] for code in np.unique(codes[codes >= 0])]
        categories = tuple(map(plain_category, used)) if stated else sorted_categories(used)
        own = CategoricalColumns(known={number: categories}, missing=True)
        places = own.places(distinct, number, label)
    else:
        categories = tuple(wanted.known[number])
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
